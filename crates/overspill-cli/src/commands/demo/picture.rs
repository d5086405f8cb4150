//! The demo as a picture: what each tool returned against what is in view of it, and one excerpt.

use std::fmt::Write as _;

use super::{Call, Show, close_up, grouped, recordings::NEEDED};

const WIDTH: usize = 880;
const MARGIN: usize = 28;
/// Where the bars begin and how long the longest is.
const BARS: (usize, usize) = (172, 500);
const ROW: usize = 36;
const LINE: usize = 17;
/// Characters on a line of the excerpt, so that it fits whichever monospaced font is there.
const COLUMNS: usize = 108;

/// Colours follow the reader's theme; numbers stand beside every bar, so none is the only signal.
const STYLE: &str = "\
.page{fill:#fff}.panel{fill:#f6f8fa}.ink{fill:#1f2328}.dim{fill:#59636e}
.before{fill:#c4ccd5}.after{fill:#0a7d4b}
@media (prefers-color-scheme:dark){
.page{fill:#0d1117}.panel{fill:#171d25}.ink{fill:#e6edf3}.dim{fill:#9198a1}
.before{fill:#414a55}.after{fill:#3fb97f}
}
text{font:13px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}
.title{font-size:19px;font-weight:600}
.mono{font:11.5px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}
.bold{font-weight:700}.end{text-anchor:end}
";

/// Draws it.
pub(super) fn draw(show: &Show) -> String {
    let mut body = String::new();
    let total = &show.total;
    let title = format!("{:.0} % fewer characters in view, every byte within reach", total.saved);
    let mut y = MARGIN + 16;
    text(&mut body, (MARGIN, y), "ink title", &title);
    y += 24;
    let below = format!(
        "{} tool calls on this project's own tree: {} characters returned, {} in view",
        show.calls.len(),
        grouped(total.chars),
        grouped(total.chars_in_view)
    );
    text(&mut body, (MARGIN, y), "dim", &below);
    text(&mut body, (WIDTH - MARGIN, y), "dim end", "returned → in view");

    y += 20;
    let longest = show.calls.iter().map(|call| call.chars).max().unwrap_or(1);
    for call in &show.calls {
        bars(&mut body, y, call, longest);
        y += ROW;
    }

    y += 22;
    let command = close_up(&show.calls).map_or("", |call| call.command);
    text(&mut body, (MARGIN, y), "ink", &format!("What the model sees of {command}:"));
    y += 12;
    let lines: Vec<(&str, String)> = show.view.lines().flat_map(wrapped).collect();
    let height = lines.len() * LINE + 20;
    let (x, width) = (MARGIN, WIDTH - 2 * MARGIN);
    let _ = writeln!(
        body,
        r#"<rect class="panel" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>"#
    );
    for (i, (class, line)) in lines.iter().enumerate() {
        text(&mut body, (MARGIN + 12, y + 22 + i * LINE), class, line);
    }
    y += height + MARGIN;

    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{y}\" \
         viewBox=\"0 0 {WIDTH} {y}\" role=\"img\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{y}\" rx=\"8\"/>\n{body}</svg>\n",
        escaped(&title)
    )
}

/// One call: how much it returned, and below that how much of it is in view.
fn bars(body: &mut String, y: usize, call: &Call, longest: u64) {
    let (x, room) = BARS;
    let length = |chars: u64| (room as f64 * chars as f64 / longest as f64).max(1.5);
    text(body, (MARGIN, y + 15), "ink", call.tool);
    for (class, y, chars) in [("before", y, call.chars), ("after", y + 11, call.chars_in_view)] {
        let _ = writeln!(
            body,
            r#"<rect class="{class}" x="{x}" y="{y}" width="{:.1}" height="9" rx="1.5"/>"#,
            length(chars)
        );
    }
    let numbers = format!("{} → {}", grouped(call.chars), grouped(call.chars_in_view));
    text(body, (WIDTH - MARGIN, y + 15), "ink end", &numbers);
}

/// The lines that a line of the excerpt takes, and how they look: what is needed stands out, and
/// words that are not the tool's stand back.
fn wrapped(line: &str) -> impl Iterator<Item = (&'static str, String)> + use<> {
    let class = if NEEDED.iter().any(|needed| line.contains(needed)) {
        "ink mono bold"
    } else if line.starts_with('[') {
        "dim mono"
    } else {
        "ink mono"
    };
    let mut pieces: Vec<String> = Vec::new();
    let mut rest: Vec<char> = line.chars().collect();
    while rest.len() > COLUMNS {
        let blank = rest[..COLUMNS].iter().rposition(|c| *c == ' ').filter(|at| *at > COLUMNS / 2);
        let after = rest.split_off(blank.unwrap_or(COLUMNS));
        pieces.push(rest.into_iter().collect());
        rest = after;
    }
    pieces.push(rest.into_iter().collect());
    pieces.into_iter().map(move |piece| (class, piece))
}

fn text(body: &mut String, (x, y): (usize, usize), class: &str, text: &str) {
    let _ = writeln!(
        body,
        r#"<text class="{class}" x="{x}" y="{y}" xml:space="preserve">{}</text>"#,
        escaped(text)
    );
}

/// Text as XML holds it; control characters cannot stand in it at all.
fn escaped(text: &str) -> String {
    let mut xml = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            c if c.is_control() => xml.push('\u{fffd}'),
            c => xml.push(c),
        }
    }
    xml
}
