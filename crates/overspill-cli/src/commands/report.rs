//! The report of `overspill replay`: one page that loads nothing, runs nothing of what was
//! recorded, and says the same as the table.

mod chart;
mod html;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::path::Path;

use overspill_replay::{Parts, Stage, Trace, TracedResult};

use super::replay::{Replayed, Row, SessionRows, dollars, percent};
use crate::output::{counted, grouped};
use chart::colour;
use html::{Text, shortened, tail};

/// Sessions that are drawn large where the last policy does worst,
const WORST: usize = 6;
/// and where it does best. What one of them takes is bounded, so the page stays small.
const BEST: usize = 3;
/// Rows for the others; the rest is counted.
const ROWS: usize = 300;
/// How a report begins.
pub(super) const BEGINS: &str = "<!doctype html>\n";

/// The biggest results of a session that are shown.
const RESULTS: usize = 8;
/// Recordings named that could not be read.
const SKIPPED: usize = 10;

const STYLE: &str = include_str!("report/report.css");
const SCRIPT: &str = include_str!("report/report.js");

/// What a report keeps of a [`Trace`].
#[derive(Debug)]
pub(super) struct Traced {
    sizes: Vec<u64>,
    starts: Vec<usize>,
    parts: Parts,
    results: Vec<TracedResult>,
}

impl Traced {
    pub(super) fn of(trace: &Trace) -> Self {
        Self {
            sizes: trace.sizes().to_vec(),
            starts: trace.starts().to_vec(),
            parts: trace.parts(),
            results: trace.biggest(RESULTS),
        }
    }
}

/// The whole page.
pub(super) fn html(replayed: &Replayed) -> String {
    let page = Page {
        replayed,
        policies: replayed.rows.iter().map(|row| &*row.policy).collect(),
        sessions: replayed.worst_first(),
        folder: common_folder(replayed),
        several: replayed.of_several(),
    };
    let mut body = String::new();
    page.head(&mut body);
    page.table(&mut body);
    page.tokens(&mut body);
    page.sessions(&mut body);
    page.notes(&mut body);
    // A script runs only if it knows a word that depends on the whole page: nothing on the page
    // can know it beforehand.
    let nonce = blake3::hash(body.as_bytes()).to_hex();
    let nonce = &nonce[..32];
    format!(
        "{BEGINS}<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>What Overspill would have saved</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         {body}<script nonce=\"{nonce}\">\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// What every part of the page looks at.
struct Page<'a> {
    replayed: &'a Replayed,
    policies: Vec<&'a str>,
    /// Worst first.
    sessions: Vec<&'a SessionRows>,
    /// The folder all sessions are in, with the separator behind it.
    folder: String,
    /// The files that hold several sessions.
    several: HashSet<&'a Path>,
}

impl Page<'_> {
    /// The policy that is looked at most.
    fn ours(&self) -> &Row {
        &self.replayed.rows[self.replayed.rows.len() - 1]
    }

    fn head(&self, out: &mut String) {
        let (replayed, ours) = (self.replayed, self.ours());
        let mut formats: BTreeMap<&str, usize> = BTreeMap::new();
        for session in &replayed.by_session {
            *formats.entry(session.format).or_default() += 1;
        }
        let formats: Vec<String> = formats
            .iter()
            .map(|(name, count)| format!("{} {name}", grouped(*count as u64)))
            .collect();
        let _ = write!(
            out,
            "<header><p class=\"brand\">overspill replay</p>\
             <h1>What Overspill would have saved</h1>\
             <p class=\"what\"><b>{}</b>, <b>{}</b> and <b>{}</b> tokens sent \
             (estimated, four characters a token), made again in thought under {}. \
             <span>Recorded by: {}.</span></p>",
            counted(replayed.sessions, "session"),
            counted(replayed.requests, "model request"),
            grouped(replayed.rows[0].figures.traffic.sent / 4),
            match self.policies.len() {
                1 => "no policy".to_owned(),
                policies => counted(policies as u64 - 1, "policy").replace("policys", "policies"),
            },
            Text(&formats.join(", "))
        );
        let r = &ours.reduction;
        let _ = write!(
            out,
            "<p class=\"lead us\"><i></i>Under <b>{}</b></p><div class=\"tiles\">",
            Text(&ours.policy)
        );
        let saving = |out: &mut String, number: f64, less: &str, more: &str| {
            let (class, what) = if number < 0.0 { (" class=\"loss\"", more) } else { ("", less) };
            tile(
                out,
                &format!("{}\u{a0}%", percent(number.abs())),
                what,
                Some(number.abs()),
                class,
            );
        };
        saving(out, r.sent, "fewer tokens sent", "more tokens sent");
        saving(out, r.cost, "less cost", "more cost");
        saving(out, r.net_cost, "less cost, read-backs paid", "more cost, read-backs paid");
        tile(
            out,
            &format!("{}\u{a0}%", percent(r.in_view)),
            "of used identifiers in view",
            Some(r.in_view),
            "",
        );
        tile(
            out,
            &format!("{}\u{a0}%", percent(r.reachable)),
            "in view or behind a handle",
            Some(r.reachable),
            "",
        );
        let over = &replayed.rows[0];
        let over = format!("requests over the window, {} without", grouped(over.over_window));
        tile(out, &grouped(ours.over_window), &over, None, "");
        if let (Some(without), Some(with)) = (replayed.rows[0].dollars, ours.dollars) {
            let without = format!("net for input, ${} without", dollars(without.net_cost));
            tile(out, &format!("${}", dollars(with.net_cost)), &without, None, "");
        }
        out.push_str("</div></header>\n");
    }

    fn table(&self, out: &mut String) {
        let has_dollars = self.replayed.model.dollars.is_some();
        out.push_str(
            "<section><h2>Policy by policy</h2><p>Saved against sending everything, in percent; then \
             how much of what the model went on to use it could still see or read.</p>\
             <table class=\"policies\"><thead><tr><th>policy</th><th>tokens sent</th><th>sent, saved</th>\
             <th>cost, saved</th><th>net cost, saved</th><th>in view</th><th>with line</th>\
             <th>reachable</th><th>read-backs</th><th>over window</th><th>invalid</th>",
        );
        if has_dollars {
            out.push_str("<th>net dollars</th>");
        }
        out.push_str("</tr></thead><tbody>");
        let most = self.replayed.rows.iter().map(|row| row.figures.traffic.sent).max().unwrap_or(0);
        for (i, row) in self.replayed.rows.iter().enumerate() {
            let r = &row.reduction;
            let class = colour(i, self.policies.len());
            let _ = write!(
                out,
                "<tr class=\"{class}\"><th scope=\"row\"><i></i>{}</th>",
                Text(&row.policy)
            );
            let sent = row.figures.traffic.sent;
            let share = 100.0 * sent as f64 / most.max(1) as f64;
            cell(out, "tokens sent", &grouped(sent / 4), Some(share));
            for (name, number) in [
                ("sent, saved", r.sent),
                ("cost, saved", r.cost),
                ("net cost, saved", r.net_cost),
                ("in view", r.in_view),
                ("with line", r.with_line),
                ("reachable", r.reachable),
            ] {
                cell(out, name, &percent(number), Some(number));
            }
            cell(out, "read-backs", &grouped(row.figures.read_backs), None);
            cell(out, "over window", &grouped(row.over_window), None);
            cell(out, "invalid", &grouped(row.figures.invalid), None);
            if let Some(row) = row.dollars {
                cell(out, "net dollars", &dollars(row.net_cost), None);
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></section>\n");
    }

    fn tokens(&self, out: &mut String) {
        out.push_str(
            "<section><h2>Where the tokens are</h2><p>Everything that was sent, over all requests: \
             what stays in the history is sent again each time.</p>",
        );
        let mut sums = vec![Parts::default(); self.policies.len()];
        for session in &self.sessions {
            for (sum, trace) in sums.iter_mut().zip(&session.traces) {
                *sum += trace.parts;
            }
        }
        let bars: Vec<(&str, Parts)> = self.policies.iter().copied().zip(sums).collect();
        chart::parts(out, &bars);
        out.push_str("</section>\n");
    }

    fn sessions(&self, out: &mut String) {
        let ours = self.ours();
        let idle = self.sessions.iter().filter(|session| session.is_idle()).count();
        // Those with nothing to do stand last.
        let count = self.sessions.len() - idle;
        let saved: Vec<f64> = self.sessions[..count].iter().map(|one| one.saved()).collect();
        let dearer = saved.iter().filter(|saved| **saved < 0.0).count() as u64;
        let dearer = match dearer {
            0 => "none is dearer than without".to_owned(),
            1 => "1 is dearer than without".to_owned(),
            many => format!("{} are dearer than without", grouped(many)),
        };
        let _ = write!(
            out,
            "<section><h2>Session by session</h2><p>What <b>{}</b> saves of the net cost of each, worst first: \
             {dearer}.",
            Text(&ours.policy)
        );
        if idle > 0 {
            let _ = write!(
                out,
                " In {} it had nothing to do{}.",
                counted(idle as u64, "more session"),
                if count > 0 { ", and they are not drawn here" } else { "" }
            );
        }
        out.push_str("</p>");
        if saved.len() > 1 {
            chart::skyline(out, &saved);
            let at = |i: usize| percent(saved[i]);
            let _ = write!(
                out,
                "<div class=\"ends\"><span>worst {}\u{a0}%</span><span>middle {}\u{a0}%</span><span>best {}\u{a0}%</span></div>",
                at(0),
                at(saved.len() / 2),
                at(saved.len() - 1)
            );
        }
        out.push_str("</section>\n");

        // Where no session was touched, they are shown as they are.
        let count = if count == 0 { self.sessions.len() } else { count };
        let best = if count > WORST { count.saturating_sub(BEST).max(WORST) } else { count };
        let worst = count.min(WORST);
        let title =
            if best == count && worst == count { "Sessions, worst first" } else { "The worst" };
        let _ = writeln!(out, "<h2 class=\"group\">{title}</h2>");
        self.sessions[..worst].iter().for_each(|session| self.session(out, session));
        if best < count {
            out.push_str("<h2 class=\"group\">The best</h2>\n");
            self.sessions[best..].iter().rev().for_each(|session| self.session(out, session));
        }
        let others = [&self.sessions[worst..best], &self.sessions[count..]].concat();
        if !others.is_empty() {
            self.others(out, &others);
        }
    }

    fn session(&self, out: &mut String, session: &SessionRows) {
        let (none, ours) = (&session.rows[0], &session.rows[session.rows.len() - 1]);
        let (before, after) = (&session.traces[0], &session.traces[session.traces.len() - 1]);
        let _ = write!(
            out,
            "<article><h3>{}</h3><p class=\"facts\">{}, {}. Net cost saved <b>{}\u{a0}%</b>, sent <b>{}\u{a0}%</b>, cost \
             <b>{}\u{a0}%</b>; in view <b>{}\u{a0}%</b>, reachable <b>{}\u{a0}%</b>; read back <b>{}</b>.",
            Text(&self.name(session, 90)),
            Text(session.format),
            counted(none.figures.traffic.requests, "request"),
            percent(ours.reduction.net_cost),
            percent(ours.reduction.sent),
            percent(ours.reduction.cost),
            percent(ours.reduction.in_view),
            percent(ours.reduction.reachable),
            times(ours.figures.read_backs as usize),
        );
        if none.over_window > 0 {
            let _ = write!(
                out,
                " Over the window <b>{}</b>, without us {}.",
                grouped(ours.over_window),
                grouped(none.over_window)
            );
        }
        out.push_str("</p><h4>Size of the context over the requests</h4>");
        chart::context(out, &session.traces, &self.policies, self.replayed.model.window);
        out.push_str("<h4>Where its tokens are</h4>");
        let mut bars = vec![(self.policies[0], before.parts)];
        if session.traces.len() > 1 {
            bars.push((&*ours.policy, after.parts));
        }
        chart::parts(out, &bars);
        if !after.results.is_empty() {
            out.push_str(
                "<h4>The biggest results, and what became of them</h4><div class=\"results\" role=\"list\">",
            );
            let requests = before.sizes.len();
            after.results.iter().for_each(|one| result(out, one, requests));
            out.push_str(
                "</div><div class=\"key parts\"><span><i class=\"whole\"></i>whole</span>\
                 <span><i class=\"excerpt\"></i>excerpt</span><span><i class=\"marker\"></i>marker</span>\
                 <span><i class=\"read\"></i>read back</span><small>from the first request to the last</small></div>",
            );
        }
        out.push_str("</article>\n");
    }

    fn others(&self, out: &mut String, sessions: &[&SessionRows]) {
        out.push_str(
            "<section><h2>The others</h2><p>The size of the context without us in grey, with us as a line; \
             in percent.</p><table class=\"others\"><thead><tr><th>session</th><th>context</th>\
             <th>requests</th><th>sent, saved</th><th>net cost, saved</th><th>in view</th>\
             <th>reachable</th></tr></thead><tbody>",
        );
        for session in sessions.iter().take(ROWS) {
            let r = &session.rows[session.rows.len() - 1].reduction;
            let _ = write!(out, "<tr><th scope=\"row\">{}</th><td>", Text(&self.name(session, 56)));
            chart::spark(out, &session.traces);
            out.push_str("</td>");
            cell(out, "requests", &grouped(session.rows[0].figures.traffic.requests), None);
            cell(out, "sent, saved", &percent(r.sent), None);
            cell(out, "net cost, saved", &percent(r.net_cost), None);
            cell(out, "in view", &percent(r.in_view), None);
            cell(out, "reachable", &percent(r.reachable), None);
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table>");
        if let Some(more) = sessions.len().checked_sub(ROWS).filter(|more| *more > 0) {
            let _ = write!(
                out,
                "<p>And {} more between the worst and the best; <code>--json</code> has them all.</p>",
                grouped(more as u64)
            );
        }
        out.push_str("</section>\n");
    }

    fn notes(&self, out: &mut String) {
        let model = &self.replayed.model;
        let window = grouped(model.window);
        let (window, costs) = match (&model.name, model.dollars) {
            (Some(name), Some(dollars)) => (
                format!("the {window} tokens of input that {} takes", Text(name)),
                format!(
                    "at the prices of {}: ${} for a million tokens that the provider’s cache serves, ${} for the \
                     rest. What the model writes is not counted",
                    Text(name),
                    dollars.cached,
                    dollars.fresh
                ),
            ),
            (name, _) => (
                match name {
                    Some(name) => format!("the {window} tokens of input that {} takes", Text(name)),
                    None => format!("{window} tokens, a guess, as no model was named"),
                },
                "in prices of one token sent without a cache: 0.1 for what the provider’s cache serves, 1.25 for \
                 the rest"
                    .to_owned(),
            ),
        };
        let _ = write!(
            out,
            "<section class=\"notes\"><h2>How to read this</h2><dl>\
             <dt>Tokens</dt><dd>Estimated: characters by four. Savings are of characters.</dd>\
             <dt>Cost</dt><dd>Of what is sent, {costs}.</dd>\
             <dt>Net cost</dt><dd>Each response that used an identifier it no longer sees is preceded by one more \
             request, which reads it back.</dd>\
             <dt>In view, with line, reachable</dt><dd>Of the identifiers that a response used and only an earlier \
             tool result had shown: those still in view; those in view with their whole line, or 100 characters on \
             either side; those in view or stored under a handle that is in view.</dd>\
             <dt>Over the window</dt><dd>Requests of more than {window}.</dd>\
             <dt>Invalid</dt><dd>Requests with a call but not its result, or the other way round: providers refuse \
             them.</dd>\
             <dt>Excerpt, marker</dt><dd>A result of which slices are in view beside its handle; one of which only \
             the handle is.</dd>\
             <dt>Note</dt><dd>What a policy puts in the history itself: what it dropped, and the handle to read \
             it by.</dd>\
             <dt>Not shown</dt><dd>What the model would have done otherwise. The recorded steps are held fixed: a \
             model that sees less may search more, or be less distracted.</dd></dl>"
        );
        let skipped = &self.replayed.skipped;
        if !skipped.is_empty() {
            let _ = write!(
                out,
                "<h3>{} not be read</h3><ul>",
                counted(skipped.len() as u64, "recording") + " could"
            );
            for one in skipped.iter().take(SKIPPED) {
                let _ =
                    write!(out, "<li>{}</li>", Text(one.strip_prefix(&self.folder).unwrap_or(one)));
            }
            if skipped.len() > SKIPPED {
                let _ =
                    write!(out, "<li>and {} more</li>", grouped((skipped.len() - SKIPPED) as u64));
            }
            out.push_str("</ul>");
        }
        out.push_str("</section>\n");
    }

    fn name(&self, session: &SessionRows, chars: usize) -> String {
        let path = session.path.display().to_string();
        let path = path.strip_prefix(&self.folder).unwrap_or(&path);
        match self.several.contains(&*session.path) {
            false => tail(path, chars),
            true => format!("{} · {}", tail(path, chars), shortened(&session.session, 40)),
        }
    }
}

/// One result: what of, how big, how long it stood how in view, and that in words.
fn result(out: &mut String, result: &TracedResult, requests: usize) {
    let tool = if result.tool.is_empty() { "result" } else { &result.tool };
    let _ = write!(
        out,
        "<div class=\"result\" role=\"listitem\"><span class=\"of\"><b>{}</b> {}</span>\
         <span class=\"size\">{}</span>",
        Text(&shortened(tool, 40)),
        Text(&shortened(&plain(&result.args), 90)),
        grouped(result.chars as u64 / 4)
    );
    chart::lane(out, result, requests);
    let _ = write!(out, "<span class=\"fate\">{}</span></div>", fate(result));
}

/// Arguments without the signs of JSON, which only take room.
fn plain(args: &str) -> String {
    match args.trim_start().strip_prefix('{') {
        Some(fields) => fields.trim_end_matches('}').replace('"', ""),
        None => args.to_owned(),
    }
}

/// What became of a result, in words.
fn fate(result: &TracedResult) -> String {
    let mut words = Vec::new();
    for (i, (from, stage, chars)) in result.stages.iter().enumerate() {
        let what = match stage {
            Stage::Whole => "whole".to_owned(),
            Stage::Excerpt => format!("excerpt of {}", grouped(*chars as u64 / 4)),
            Stage::Marker => "marker".to_owned(),
            Stage::Gone => "gone".to_owned(),
        };
        words.push(match i {
            0 => what,
            _ => format!("{what} from request {}", grouped(*from as u64 + 1)),
        });
    }
    if words.is_empty() {
        words.push("never sent".to_owned());
    }
    // Where it changed again and again, the beginning and the end tell it.
    if words.len() > 3 {
        words.splice(1..words.len() - 1, ["…".to_owned()]);
    }
    let mut text = words.join(", ");
    match result.read_back.len() {
        0 => {}
        count => {
            let _ = write!(text, "; <b>read back {}</b>", times(count));
        }
    }
    text
}

fn times(count: usize) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        many => format!("{} times", grouped(many as u64)),
    }
}

fn tile(out: &mut String, number: &str, what: &str, share: Option<f64>, class: &str) {
    let _ = write!(out, "<div{class}><b>{}</b><span>{}</span>", Text(number), Text(what));
    bar(out, share);
    out.push_str("</div>");
}

fn cell(out: &mut String, name: &str, text: &str, share: Option<f64>) {
    let _ = write!(out, "<td data-name=\"{name}\">{text}");
    bar(out, share);
    out.push_str("</td>");
}

/// A bar of so many percent of the room there is; a loss in another colour.
fn bar(out: &mut String, share: Option<f64>) {
    if let Some(share) = share {
        let class = if share < 0.0 { "bar loss" } else { "bar" };
        let width = share.abs().min(100.0);
        let _ = write!(out, "<span class=\"{class}\"><i style=\"width:{width:.1}%\"></i></span>");
    }
}

/// The folder that all sessions are in, so that their names can be short.
fn common_folder(replayed: &Replayed) -> String {
    let mut sessions = replayed.by_session.iter();
    let Some(mut folder) = sessions.next().and_then(|session| session.path.parent()) else {
        return String::new();
    };
    for session in sessions {
        while !session.path.starts_with(folder) {
            folder = folder.parent().unwrap_or(Path::new(""));
        }
    }
    let folder = folder.display().to_string();
    if folder.is_empty() || folder.ends_with('/') { folder } else { folder + "/" }
}
