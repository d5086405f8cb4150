//! Drawings of the report: every one is stretched to the room it gets, so that lines and labels
//! stay as thick and as large on a telephone as on a desk.

use std::fmt::Write;

use overspill_replay::{Part, Parts, Stage, TracedResult};

use super::Traced;
use super::html::Text;
use crate::output::grouped;

/// Points of a line, at most: about one for each pixel of a column of text.
const POINTS: usize = 400;
/// Points of a line in a row of a table.
const SPARK_POINTS: usize = 48;

/// The size of the context over the requests, a line for each policy.
pub(super) fn context(out: &mut String, traces: &[Traced], policies: &[&str], window: u64) {
    let requests = traces[0].sizes.len();
    let peak = traces.iter().flat_map(|trace| &trace.sizes).max().copied().unwrap_or(0) / 4;
    // A window that is far above would press the lines to the ground.
    let has_window = peak * 2 >= window;
    let (step, top) = scale(if has_window { peak.max(window) } else { peak });
    out.push_str("<div class=\"key\">");
    for (i, (trace, policy)) in traces.iter().zip(policies).enumerate() {
        let peak = trace.sizes.iter().max().copied().unwrap_or(0) / 4;
        let _ = write!(
            out,
            "<span class=\"{}\"><i></i>{} <b>{}</b></span>",
            colour(i, policies.len()),
            Text(policy),
            grouped(peak)
        );
    }
    out.push_str("<small>tokens in the largest request</small></div>");
    let _ = write!(
        out,
        "<div class=\"plot\" data-top=\"{top}\" data-requests=\"{requests}\"><div class=\"field\">"
    );
    let mut y = 0;
    while y <= top {
        let _ = write!(
            out,
            "<span class=\"level\" style=\"bottom:{}%\"><em>{}</em></span>",
            hundredth(y, top),
            short(y)
        );
        y += step;
    }
    if has_window {
        let _ = write!(
            out,
            "<span class=\"level window\" style=\"bottom:{}%\"><em>window</em></span>",
            hundredth(window, top)
        );
    }
    out.push_str(
        "<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
    );
    for &start in &traces[0].starts {
        let x = across(start, requests);
        let _ = write!(
            out,
            "<path class=\"start\" d=\"M{x} 0V1000\"><title>the agent started anew</title></path>"
        );
    }
    let lines: Vec<String> =
        traces.iter().map(|trace| line(&trace.sizes, top * 4, POINTS, 1_000)).collect();
    let last = lines.len() - 1;
    for i in if last == 0 { vec![0] } else { vec![0, last] } {
        let class = colour(i, lines.len());
        let _ =
            write!(out, "<polygon class=\"{class}\" points=\"0,1000 {} 1000,1000\"/>", lines[i]);
    }
    for (i, points) in lines.iter().enumerate() {
        let _ = write!(
            out,
            "<polyline class=\"{}\" data-name=\"{}\" points=\"{points}\"/>",
            colour(i, lines.len()),
            Text(policies[i])
        );
    }
    out.push_str("</svg><span class=\"rule\"></span><div class=\"tip\"></div></div>");
    let _ = write!(
        out,
        "<div class=\"ends\"><span>request 1</span><span>{}</span></div></div>",
        grouped(requests as u64)
    );
}

/// The size of the context in a few pixels: without us, and under the last policy.
pub(super) fn spark(out: &mut String, traces: &[Traced]) {
    let top = traces[0].sizes.iter().max().copied().unwrap_or(0).max(1);
    out.push_str(
        "<svg class=\"spark\" viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
    );
    let without = line(&traces[0].sizes, top, SPARK_POINTS, 100);
    let _ = write!(out, "<polygon class=\"p0\" points=\"0,100 {without} 100,100\"/>");
    if let [_, .., with] = traces {
        let with = line(&with.sizes, top, SPARK_POINTS, 100);
        let _ = write!(out, "<polyline class=\"us\" points=\"{with}\"/>");
    }
    out.push_str("</svg>");
}

/// What the sent tokens are, as a bar for each policy.
pub(super) fn parts(out: &mut String, bars: &[(&str, Parts)]) {
    let whole = bars.iter().map(|(_, parts)| parts.total()).max().unwrap_or(0).max(1);
    out.push_str("<div class=\"stacks\">");
    for (policy, parts) in bars {
        let total = parts.total();
        let _ = write!(
            out,
            "<div><span class=\"who\">{}</span><span class=\"stack\" role=\"img\" aria-label=\"{}\">",
            Text(policy),
            Text(&in_words(parts))
        );
        for part in Part::ALL {
            let chars = parts.of(part);
            if chars == 0 {
                continue;
            }
            let (class, name) = named(part);
            let share = 100.0 * chars as f64 / whole as f64;
            let _ = write!(
                out,
                "<span class=\"{class}\" style=\"width:{share:.3}%\" title=\"{name}: {} tokens, {:.1} %\">",
                grouped(chars / 4),
                100.0 * chars as f64 / total.max(1) as f64
            );
            // Where there is room for it.
            if share >= 7.0 {
                let _ = write!(out, "{:.0} %", 100.0 * chars as f64 / total.max(1) as f64);
            }
            out.push_str("</span>");
        }
        let _ = write!(out, "</span><span class=\"sum\">{}</span></div>", grouped(total / 4));
    }
    out.push_str("</div><div class=\"key parts\">");
    for part in Part::ALL {
        let (class, name) = named(part);
        if bars.iter().any(|(_, parts)| parts.of(part) > 0) {
            let _ = write!(out, "<span><i class=\"{class}\"></i>{name}</span>");
        }
    }
    out.push_str("</div>");
}

/// How long a result stood how in view.
pub(super) fn lane(out: &mut String, result: &TracedResult, requests: usize) {
    let _ = write!(
        out,
        "<svg class=\"lane\" viewBox=\"0 0 {requests} 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <path class=\"bed\" d=\"M0 5H{requests}\"/>"
    );
    for (i, (from, stage, _)) in result.stages.iter().enumerate() {
        let to = result.stages.get(i + 1).map_or(result.end, |next| next.0);
        let class = match stage {
            Stage::Whole => "whole",
            Stage::Excerpt => "excerpt",
            Stage::Marker => "marker",
            Stage::Gone => continue,
        };
        let _ = write!(
            out,
            "<rect class=\"{class}\" x=\"{from}\" y=\"2\" width=\"{}\" height=\"6\"/>",
            to.saturating_sub(*from)
        );
    }
    for at in &result.read_back {
        let _ = write!(out, "<path class=\"read\" d=\"M{at}.5 0V10\"/>");
    }
    out.push_str("</svg>");
}

/// What each session saves, worst first, as a row of thin bars.
pub(super) fn skyline(out: &mut String, saved: &[f64]) {
    let low = saved.iter().copied().fold(0.0_f64, f64::min).max(-100.0);
    let (mut beds, mut gains, mut losses) = (String::new(), String::new(), String::new());
    for (i, &one) in saved.iter().enumerate() {
        let height = one.clamp(low, 100.0);
        let into = if height < 0.0 { &mut losses } else { &mut gains };
        let _ = write!(into, "M{i} 0V{:.1}h.8V0z", -height);
        let _ = write!(beds, "M{i} 0V-100h.8V0z");
    }
    let _ = write!(
        out,
        "<svg class=\"skyline\" viewBox=\"0 -100 {} {}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <path class=\"rest\" d=\"{beds}\"/><path class=\"gain\" d=\"{gains}\"/><path class=\"loss\" d=\"{losses}\"/></svg>",
        saved.len(),
        100.0 - low
    );
}

/// The class that gives a policy its colour: grey for none, ours for the last.
pub(super) fn colour(policy: usize, policies: usize) -> &'static str {
    const BETWEEN: [&str; 4] = ["p1", "p2", "p3", "p4"];
    match policy {
        0 => "p0",
        last if last + 1 == policies => "us",
        other => BETWEEN[(other - 1) % BETWEEN.len()],
    }
}

/// Thousands and millions of tokens in few characters.
pub(super) fn short(tokens: u64) -> String {
    let one = |number: f64, unit: &str| {
        let text = format!("{number:.1}");
        format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
    };
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..1_000_000 => one(tokens as f64 / 1e3, "k"),
        _ => one(tokens as f64 / 1e6, "M"),
    }
}

const fn named(part: Part) -> (&'static str, &'static str) {
    match part {
        Part::System => ("system", "instructions"),
        Part::User => ("user", "the user’s words"),
        Part::Words => ("words", "the model’s words"),
        Part::Arguments => ("arguments", "call arguments"),
        Part::Whole => ("whole", "whole results"),
        Part::Excerpt => ("excerpt", "excerpts"),
        Part::Marker => ("marker", "markers"),
        Part::Note => ("note", "notes"),
    }
}

fn in_words(parts: &Parts) -> String {
    let words = Part::ALL.iter().filter(|part| parts.of(**part) > 0);
    let words = words.map(|part| format!("{} {}", named(*part).1, grouped(parts.of(*part) / 4)));
    words.collect::<Vec<_>>().join(", ")
}

/// The step between lines of a grid, 1, 2 or 5 times a power of ten, and the top of the field.
fn scale(most: u64) -> (u64, u64) {
    let most = most.max(4);
    let mut power = 1;
    loop {
        for digit in [1, 2, 5] {
            let step = digit * power;
            if most.div_ceil(step) <= 5 {
                // Some air above the highest line, so that it does not touch the edge.
                return (step, (most + most / 20).max(1));
            }
        }
        power *= 10;
    }
}

/// The points of a line: where there are too many, the largest of each stretch.
fn line(sizes: &[u64], top: u64, most: usize, height: u64) -> String {
    let stretch = sizes.len().div_ceil(most).max(1);
    let top = top.max(1);
    let mut points = String::new();
    for (i, sizes_here) in sizes.chunks(stretch).enumerate() {
        let size = sizes_here.iter().max().copied().unwrap_or(0).min(top);
        let x = across(i, sizes.len().div_ceil(stretch)) * height as f64 / 1_000.0;
        let y = (top - size) as f64 * height as f64 / top as f64;
        let space = if i == 0 { "" } else { " " };
        let _ = write!(points, "{space}{},{}", tenth(x), tenth(y));
    }
    // One request is a level, not a point.
    if sizes.len() == 1 {
        let (_, y) = points.split_once(',').unwrap_or_default();
        points = format!("0,{y} {height},{y}");
    }
    points
}

fn across(i: usize, count: usize) -> f64 {
    i as f64 * 1_000.0 / count.saturating_sub(1).max(1) as f64
}

fn tenth(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

fn hundredth(part: u64, whole: u64) -> f64 {
    (part as f64 * 10_000.0 / whole.max(1) as f64).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_have_round_steps() {
        assert_eq!(scale(0), (1, 4));
        assert_eq!(scale(180_000), (50_000, 189_000));
        assert_eq!(scale(1_001), (500, 1_051));
    }

    #[test]
    fn long_lines_keep_their_peaks() {
        let sizes: Vec<u64> = (0..10_000).map(|i| if i == 5_001 { 100 } else { 0 }).collect();
        let points = line(&sizes, 100, 400, 1_000);
        assert_eq!(points.split(' ').count(), 400);
        assert_eq!(points.matches(",0").count(), 1);
        assert_eq!(line(&[50], 100, 400, 1_000), "0,500 1000,500");
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(
            ["0", "999", "1.5k", "50k", "2.3M"],
            [0, 999, 1_500, 50_000, 2_345_678].map(short)
        );
    }
}
