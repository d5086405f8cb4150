//! Recordings in, sessions and figures out.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use overspill_replay::{Item, Kind, Session, read};

mod damage;
mod detect;
mod figures;
mod formats;
mod reference;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn sessions(name: &str) -> Vec<Session> {
    read(fixture(name)).unwrap()
}

/// A session on one screen: a line an item, results behind the call they answer, what is
/// evidence in braces.
fn picture(session: &Session) -> String {
    let mut out = format!("# {} {}\n", session.format, session.sub);
    for segment in &session.segments {
        out.push_str("==\n");
        segment.before.iter().for_each(|item| line(item, &mut out));
        for turn in &segment.turns {
            out.push_str("--\n");
            turn.response.iter().chain(&turn.after).for_each(|item| line(item, &mut out));
            if !turn.evidence.is_empty() {
                let tokens: Vec<&str> = turn.evidence.iter().map(|used| &*used.token).collect();
                writeln!(out, "{{{}}}", tokens.join(" ")).unwrap();
            }
        }
    }
    out
}

fn line(item: &Item, out: &mut String) {
    let kind = match item.kind {
        Kind::System => "system",
        Kind::User => "user",
        Kind::Text => "text",
        Kind::Call => "call",
        Kind::Result => "result",
    };
    let pair = item.pair.map(|pair| format!("{} {} ", pair.0, item.tool)).unwrap_or_default();
    writeln!(out, "{kind} {pair}{}", item.text.replace('\n', "\\n")).unwrap();
}
