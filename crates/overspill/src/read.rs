//! The way back: a handle and a slice or a pattern go in, bounded text comes out.
//!
//! Every answer opens with one line that says which lines it shows, of how many, and where to go
//! on. Every byte of every payload can be reached: a line is at most 2,000 characters long, so
//! at least one always fits.

mod answer;
mod args;
mod json_path;
mod search;
mod tool;

pub use args::{DEFAULT_LIMIT, MAX_CONTEXT, MAX_LIMIT, ReadArgs};
pub use search::{Found, Hit, Matches, Pattern, PatternError, Search, Searched};
pub use tool::ReadTool;

use std::sync::Arc;

use crate::measure::count_chars;
use crate::store::{Handle, Store, StoreError, Stored};
use crate::trace::{self, Span};

use answer::Answer;

/// Characters of an answer at most, its first line included: about 12,500 tokens, a quarter of
/// the smallest context windows in use.
pub const MAX_ANSWER_CHARS: usize = 50_000;

/// Characters kept free for an answer's first line: the longest handle (284), a hundred characters
/// of a pattern that are all escaped (1,002), five numbers and words.
const HEADER_CHARS: usize = 1_536;

/// Characters of an answer's body at most.
const BODY_CHARS: usize = MAX_ANSWER_CHARS - HEADER_CHARS;

/// Bytes that one search looks at at most before it says where to go on. A bound in bytes and
/// not in time: the same call gives the same answer on any machine.
pub const MAX_SEARCHED_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes of a payload that `json_path` parses at most; as values in memory they take about ten
/// times as much.
pub const MAX_JSON_PATH_BYTES: u64 = 16 * 1024 * 1024;

/// What the first line of every answer opens with.
const OPENING: &str = "[overspill read: ";

/// Whether `bytes` are an answer of the read tool, brought by some other tool: a shell that ran
/// `overspill read`, say. Such are never reduced, so that reading always gets somewhere; they
/// are bounded as they are.
pub(crate) fn is_answer(bytes: &[u8]) -> bool {
    bytes.starts_with(OPENING.as_bytes())
        && bytes.len() <= 4 * MAX_ANSWER_CHARS
        && count_chars(bytes) <= MAX_ANSWER_CHARS as u64
}

/// Reads a part of a stored payload as bounded text, without its terminal control sequences
/// where `strip_ansi` says so.
///
/// It never fails: what is wrong with the handle, the pattern or the store is said in a sentence
/// that a model can act on.
pub async fn read(store: &Arc<dyn Store>, args: &ReadArgs, strip_ansi: bool) -> String {
    match try_read(store, args, strip_ansi).await {
        Ok(answer) => answer,
        Err(sentence) => sentence,
    }
}

/// Reads as [`read`] does, for a caller that tells answers from refusals.
///
/// # Errors
///
/// The sentence that says what is wrong.
pub async fn try_read(
    store: &Arc<dyn Store>,
    args: &ReadArgs,
    strip_ansi: bool,
) -> Result<String, String> {
    let span = Span::read();
    let answer = span.around(find(store, args, strip_ansi, &span)).await;
    match &answer {
        Ok(answer) => span.count(trace::CHARS_AFTER, count_chars(answer.as_bytes())),
        Err(_) => span.name(trace::ERROR_TYPE, "refused"),
    }
    answer
}

async fn find(
    store: &Arc<dyn Store>,
    args: &ReadArgs,
    strip_ansi: bool,
    span: &Span,
) -> Result<String, String> {
    // Models wrap what they copy in quotes and backticks.
    let handle = args.handle.trim_matches(|c: char| c.is_whitespace() || "\"'`<>".contains(c));
    let handle: Handle = handle.parse().map_err(|_| unknown(handle))?;
    let sorry = |error| sorry(&handle, &error);
    let stored = Stored::open(store, &handle).await.map_err(sorry)?;
    // Only what is stored: until then it is a text that a model wrote.
    span.name(trace::HANDLE, handle.as_str());
    if let Some(query) = &args.json_path {
        return json_path::answer(&stored, args, query).await;
    }
    match &args.pattern {
        None => Answer::lines(&stored, args, strip_ansi).await.map_err(sorry),
        Some(pattern) => {
            let pattern =
                if args.regex { Pattern::regex(pattern) } else { Ok(Pattern::literal(pattern)) };
            let pattern = pattern.map_err(|error| format!("{error}"))?;
            Answer::matches(&stored, args, &pattern, strip_ansi).await.map_err(sorry)
        }
    }
}

fn unknown(handle: &str) -> String {
    let shown: String = handle.chars().take(120).collect();
    format!(
        "No stored result has the handle {shown:?}. Copy the handle from the marker that stands \
         where the result was; it is what stands behind \"stored as\" there and looks like \
         RUN/CALL.DIGEST."
    )
}

fn sorry(handle: &Handle, error: &StoreError) -> String {
    match error {
        StoreError::NotFound { .. } => format!(
            "Nothing is stored as {handle} any more, if it ever was: check the handle against \
             the marker; if it is the same, the result has expired and only its excerpt is left."
        ),
        StoreError::Expired { expiry, .. } => format!(
            "What was stored as {handle} expired {expiry}. Only its excerpt is left; go on with that."
        ),
        StoreError::Damaged { what, .. } => {
            format!("What is stored as {handle} is damaged ({what}) and cannot be shown.")
        }
        other => format!(
            "What is stored as {handle} cannot be read now ({other}). Go on with what is in \
             view, or read it again later."
        ),
    }
}
