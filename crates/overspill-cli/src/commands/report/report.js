// The sizes under the pointer. Everything can be read without it.
for (const plot of document.querySelectorAll('.plot')) {
  const field = plot.querySelector('.field'), tip = plot.querySelector('.tip'), rule = plot.querySelector('.rule');
  const top = +plot.dataset.top, requests = +plot.dataset.requests;
  const lines = [...plot.querySelectorAll('polyline')].map(line => ({
    name: line.dataset.name,
    colour: line.getAttribute('class'),
    points: line.getAttribute('points').split(' ').map(point => point.split(',').map(Number)),
  }));
  const size = tokens => tokens >= 1e6 ? (tokens / 1e6).toFixed(2) + 'M'
    : tokens >= 1e3 ? (tokens / 1e3).toFixed(1) + 'k' : Math.round(tokens);
  field.addEventListener('pointermove', event => {
    const box = field.getBoundingClientRect();
    const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const at = Math.round(part * (lines[0].points.length - 1)), x = lines[0].points[at][0] / 1000;
    const rows = [Object.assign(document.createElement('b'), {
      textContent: 'request ' + (Math.round(x * (requests - 1)) + 1),
    })];
    for (const line of lines) {
      const row = document.createElement('span');
      row.className = line.colour;
      row.append(document.createElement('i'), line.name + ' ' + size((1 - line.points[at][1] / 1000) * top));
      rows.push(row);
    }
    tip.replaceChildren(...rows);
    rule.style.left = x * 100 + '%';
    tip.style.left = x * 100 + '%';
    tip.classList.toggle('left', x > 0.6);
    plot.classList.add('on');
  });
  field.addEventListener('pointerleave', () => plot.classList.remove('on'));
}
