//! `overspill demo`: the main job on recorded outputs of real tools, and a check of what is claimed.

mod picture;
mod recordings;

use std::fs;
use std::sync::Arc;
use std::time::Instant;

use futures_lite::future::block_on;
use overspill::measure::{count_chars, estimate_tokens};
use overspill::render::show_bytes;
use overspill::store::{Store, Stored};
use overspill::{Handle, Payload, ToolCall, ToolOutputLimits, ToolReturn};
use overspill_store::LocalStore;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli;
use crate::failure::Failure;
use crate::output::{self, Out, grouped};
use recordings::{CLOSE_UP, NEEDED, PATTERN, RECORDINGS, Recording};

/// The share of characters that must be out of view on the representative run, in percent: what
/// a public implementation of this pattern reports.
const LEAST_SAVED: f64 = 95.5;

/// All that is shown.
#[derive(Debug, Serialize)]
struct Show {
    calls: Vec<Call>,
    total: Sum,
    /// The everyday run alone.
    everyday: Sum,
    view: String,
    read_back: ReadBack,
    checks: Vec<Check>,
}

/// One tool call, and what became of what it returned.
#[derive(Debug, Serialize)]
struct Call {
    tool: &'static str,
    command: &'static str,
    chars: u64,
    chars_in_view: u64,
    /// The threshold of the band it fell in.
    over: Option<u64>,
    action: &'static str,
    tokens_before: u64,
    tokens_after: u64,
    /// How long it took from the return to the view; stored durably meanwhile.
    milliseconds: f64,
    handle: Option<Handle>,
    #[serde(skip)]
    view: String,
    #[serde(skip)]
    recording: &'static Recording,
}

/// Several calls together.
#[derive(Debug, Serialize)]
struct Sum {
    chars: u64,
    chars_in_view: u64,
    tokens_before: u64,
    tokens_after: u64,
    /// Percent of the characters that are out of view.
    saved: f64,
    milliseconds: f64,
}

/// A call of the read tool, and its answer.
#[derive(Debug, Serialize)]
struct ReadBack {
    arguments: Value,
    answer: String,
}

/// Something claimed, and whether it is so.
#[derive(Debug, Serialize)]
struct Check {
    claim: String,
    holds: bool,
}

pub(crate) fn demo(common: &cli::Common, args: &cli::Demo) -> Result<u8, Failure> {
    let folder = tempfile::tempdir()?;
    let store: Arc<dyn Store> = Arc::new(LocalStore::open(folder.path().join("store"))?);
    let show = block_on(perform(&store))?;
    folder.close()?;

    let mut out = Out::new();
    match &args.svg {
        Some(path) => fs::write(path, picture::draw(&show)).map_err(|error| {
            Failure::from(error).context(format!("cannot write {}", path.display()))
        })?,
        None if common.json => out.json(&show)?,
        None => out.text(&told(&show))?,
    }
    out.flush()?;
    match show.checks.iter().find(|check| !check.holds) {
        Some(check) => Err(Failure::new(format!("not so: {}", check.claim))),
        None => Ok(0),
    }
}

async fn perform(store: &Arc<dyn Store>) -> Result<Show, Failure> {
    let limits = ToolOutputLimits::builder().store(Arc::clone(store)).build()?;
    let mut calls = Vec::new();
    for (i, recording) in RECORDINGS.iter().enumerate() {
        calls.push(call(&limits, i, recording).await);
    }
    let everyday = Sum::of(calls.iter().filter(|call| call.recording.is_everyday));
    let close_up =
        close_up(&calls).ok_or_else(|| Failure::new("there is no test run to look at"))?;
    let arguments = json!({ "handle": close_up.handle, "pattern": PATTERN, "context": 8 });
    let answer = limits.read(&arguments).await;
    let checks = vec![
        everything_comes_back(&limits, store, &calls).await?,
        enough_is_saved(&everyday),
        what_is_needed_is_in_view(close_up),
        something_was_hidden(&answer, &close_up.view),
    ];
    Ok(Show {
        total: Sum::of(&calls),
        everyday,
        view: close_up.view.clone(),
        read_back: ReadBack { arguments, answer },
        checks,
        calls,
    })
}

async fn call(limits: &ToolOutputLimits, i: usize, recording: &'static Recording) -> Call {
    let call = ToolCall::new("demo", format!("call-{i}"), recording.tool);
    let returned =
        ToolReturn::from(recording.output.to_vec()).with_exit_status(recording.exit_status);
    let begun = Instant::now();
    let admitted = limits.admit(&call, returned).await;
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;

    let handle = admitted.receipts().next().map(|receipt| receipt.handle.clone());
    let view: String = admitted.output.value.iter().map(shown).collect();
    let reduction = admitted.reductions.first();
    let (chars, chars_in_view) = (count_chars(recording.output), count_chars(view.as_bytes()));
    Call {
        tool: recording.tool,
        command: recording.command,
        chars,
        chars_in_view,
        over: reduction.map(|reduction| reduction.over),
        action: reduction.map_or("passthrough", |reduction| reduction.action),
        tokens_before: estimate_tokens(chars),
        tokens_after: estimate_tokens(chars_in_view),
        milliseconds,
        handle,
        view,
        recording,
    }
}

/// The call whose output is looked at closely.
fn close_up(calls: &[Call]) -> Option<&Call> {
    calls.iter().find(|call| call.tool == CLOSE_UP)
}

fn shown(payload: &Payload) -> String {
    match payload {
        Payload::Text(text) => text.clone(),
        Payload::Bytes(bytes) => show_bytes(bytes).into_owned(),
        Payload::Json(value) => value.to_string(),
        Payload::Media(media) => format!("{media:?}"),
    }
}

/// Reads every payload back in full, as a model would and as a person would.
async fn everything_comes_back(
    limits: &ToolOutputLimits,
    store: &Arc<dyn Store>,
    calls: &[Call],
) -> Result<Check, Failure> {
    let (mut holds, mut answers, mut stored) = (true, 0, 0);
    for call in calls {
        let original = show_bytes(call.recording.output);
        let Some(handle) = &call.handle else {
            holds &= call.view == original;
            continue;
        };
        stored += 1;
        let exported = Stored::open(store, handle).await?.bytes(0..u64::MAX).await?;
        holds &= exported == call.recording.output;

        let mut text = String::new();
        let mut offset = Some(0);
        while let Some(from) = offset {
            let answer = limits.read(&json!({ "handle": handle, "offset": from })).await;
            let (header, body) = answer.split_once('\n').unwrap_or_default();
            text.push_str(body);
            answers += 1;
            // It goes on where the answer says, as a model would.
            offset = header
                .split_once("go on with offset=")
                .and_then(|(_, next)| next.trim_end_matches(']').parse::<u64>().ok())
                .filter(|next| *next > from);
        }
        holds &= text == original;
    }
    let claim = format!(
        "every byte came back: {stored} payloads as stored, and through {answers} calls of the read \
         tool with its default bounds"
    );
    Ok(Check { claim, holds })
}

fn enough_is_saved(run: &Sum) -> Check {
    Check {
        claim: format!(
            "the everyday run ({}) leaves {} of {} characters in view: {:.1} % fewer, where \
             {LEAST_SAVED} % is the least",
            everyday_tools(),
            grouped(run.chars_in_view),
            grouped(run.chars),
            run.saved
        ),
        holds: run.saved >= LEAST_SAVED,
    }
}

fn everyday_tools() -> String {
    let tools = RECORDINGS.iter().filter(|recording| recording.is_everyday);
    tools.map(|recording| recording.tool).collect::<Vec<_>>().join(", ")
}

fn what_is_needed_is_in_view(call: &Call) -> Check {
    Check {
        claim: format!("still in view of {}: {}", call.tool, NEEDED.join(", ")),
        holds: NEEDED.iter().all(|needed| call.view.contains(needed)),
    }
}

fn something_was_hidden(answer: &str, view: &str) -> Check {
    // An answer numbers its lines, so they are compared without what stands before them.
    let bare =
        |line: &str| line.split_once([':', '-']).map_or("", |(_, text)| text).trim().to_owned();
    let body = answer.lines().skip(1).map(bare).filter(|line| !line.is_empty());
    let hidden = body.filter(|line| !view.contains(line)).count();
    Check { claim: format!("{hidden} of the lines read back were out of view"), holds: hidden > 0 }
}

impl Sum {
    fn of<'a>(calls: impl IntoIterator<Item = &'a Call>) -> Self {
        let mut sum = Self {
            chars: 0,
            chars_in_view: 0,
            tokens_before: 0,
            tokens_after: 0,
            saved: 0.0,
            milliseconds: 0.0,
        };
        for call in calls {
            sum.chars += call.chars;
            sum.chars_in_view += call.chars_in_view;
            sum.tokens_before += call.tokens_before;
            sum.tokens_after += call.tokens_after;
            sum.milliseconds += call.milliseconds;
        }
        sum.saved = 100.0 * (1.0 - sum.chars_in_view as f64 / sum.chars as f64);
        sum
    }
}

/// The whole as text.
fn told(show: &Show) -> String {
    let mut rows: Vec<Vec<String>> = show.calls.iter().map(row).collect();
    rows.push(vec![
        "total".to_owned(),
        String::new(),
        grouped(show.total.chars),
        String::new(),
        String::new(),
        grouped(show.total.tokens_before),
        grouped(show.total.tokens_after),
        format!("{:.1}", show.total.milliseconds),
    ]);
    let head = ["tool", "command", "characters", "band", "action", "tokens before", "after", "ms"];
    let table = output::table(&head, &[2, 3, 5, 6, 7], rows);
    let checks: Vec<String> = show
        .checks
        .iter()
        .map(|check| format!("{} {}", if check.holds { "ok " } else { "NOT" }, check.claim))
        .collect();
    format!(
        "{table}\n\nTokens are estimated, as characters / 4. Stored durably meanwhile, in a folder \
         that is gone again.\n\n\
         What the model sees of `{}`:\n\n{}\n\
         What it reads back, by read_tool_result({}):\n\n{}\n{}",
        close_up(&show.calls).map_or("", |call| call.command),
        quoted(&show.view),
        said(&show.read_back.arguments),
        quoted(&show.read_back.answer),
        checks.join("\n")
    )
}

fn row(call: &Call) -> Vec<String> {
    vec![
        call.tool.to_owned(),
        call.command.to_owned(),
        grouped(call.chars),
        call.over.map_or_else(String::new, |over| format!("≥ {}", grouped(over))),
        call.action.to_owned(),
        grouped(call.tokens_before),
        grouped(call.tokens_after),
        format!("{:.1}", call.milliseconds),
    ]
}

fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("  │ {line}\n")).collect()
}

/// Arguments as they are written in a call; the handle stands in the marker above.
fn said(arguments: &Value) -> String {
    let pairs = arguments.as_object().into_iter().flatten();
    let pairs = pairs.map(|(key, value)| match key.as_str() {
        "handle" => "handle".to_owned(),
        _ => format!("{key}={value}"),
    });
    pairs.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use overspill_store::MemoryStore;

    use super::*;

    fn performed() -> Show {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let mut show = block_on(perform(&store)).unwrap();
        // Times differ; everything else is the same whenever and wherever it runs.
        show.total.milliseconds = 0.0;
        show.calls.iter_mut().for_each(|call| call.milliseconds = 0.0);
        show
    }

    #[test]
    fn the_demo_shows_the_main_job() {
        insta::assert_snapshot!(told(&performed()));
    }

    #[test]
    fn whatever_it_claims_is_so() {
        for check in performed().checks {
            assert!(check.holds, "not so: {}", check.claim);
        }
    }

    /// The share that a public implementation of this pattern reports, on a run of about the
    /// size that it reports it for.
    #[test]
    fn an_everyday_run_leaves_a_twentieth_in_view() {
        let run = performed().everyday;
        assert!((150_000..200_000).contains(&run.chars), "{run:?}");
        assert!(run.saved >= 95.5, "{run:?}");
    }

    #[test]
    fn the_sizes_and_kinds_are_those_of_real_work() {
        let show = performed();
        let of = |tool| show.calls.iter().find(|call| call.tool == tool).unwrap();
        assert!(of("git_status").handle.is_none() && of("git_status").chars < 300);
        assert!(of("build").recording.output.contains(&0x1b), "coloured");
        assert!(of("show_object").recording.output.contains(&0), "binary");
        assert!(!of("list_packages").recording.output.trim_ascii().contains(&b'\n'), "one line");
        let stored = show.calls.iter().filter(|call| call.handle.is_some()).count();
        assert_eq!(stored, show.calls.len() - 1);
    }

    #[test]
    fn the_picture_in_the_readme_is_the_one_the_demo_draws() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/demo.svg");
        let Ok(drawn) = fs::read_to_string(&path) else {
            println!("skipped: {} is not there", path.display());
            return;
        };
        let fresh = picture::draw(&performed()) == drawn;
        assert!(fresh, "draw it again: cargo run -- demo --svg docs/demo.svg");
    }
}
