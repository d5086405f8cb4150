//! lab only
use std::io::{BufRead, Write};
fn cpu() -> f64 { let s = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap(); s.split(" ").next().unwrap().parse::<f64>().unwrap() / 1e9 }
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let chars: usize = args[1].parse().unwrap();
    if args.len() > 2 {
        for f in &args[2..] {
            let b = std::fs::read(f).unwrap();
            let mut best = f64::MAX;
            let mut e = Default::default();
            let t = cpu();
            let mut runs = 0.0;
            while { e = overspill::excerpt::excerpt(&b, chars); runs += 1.0; cpu() - t < 0.1 } {}
            best = best.min((cpu() - t) / runs);
            let mut lines = 0u64;
            let t = cpu();
            overspill::lines::LineScanner::default().scan(&b, true, &mut |l| lines = l.number);
            let g = cpu() - t;
            println!("##### {f} {} bytes, {} lines, excerpt {} chars, {:.2} ms/MB (grid alone {:.2})\n{}", b.len(), lines + 1, e.text.chars().count(), best * 1e9 / b.len() as f64, g * 1e9 / b.len() as f64, e.text);
        }
        return;
    }
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let v: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let e = overspill::excerpt::excerpt(v["text"].as_str().unwrap().as_bytes(), chars);
        writeln!(out, "{}", serde_json::json!({"excerpt": e.text, "shown_lines": e.shown_lines})).unwrap();
    }
}
