//! A recorded session: what the model was sent and said, request by request.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use crate::evidence::Evidence;
use crate::format::Format;

/// Names an item within its session. The first is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ItemId(pub u32);

/// Joins a call and the results that answer it within a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct PairId(pub u32);

/// What part of the conversation an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Kind {
    /// Instructions from the program that runs the agent.
    System,
    /// Words of the user.
    User,
    /// Words of the model, its thinking included.
    Text,
    /// A tool call; its text is the arguments.
    Call,
    /// What a tool gave back.
    Result,
}

/// One block of a conversation, the smallest thing a policy can keep, reduce or leave out.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its name within the session.
    pub id: ItemId,
    /// What part of the conversation it is.
    pub kind: Kind,
    /// The text the model sees, or wrote.
    pub text: Arc<str>,
    /// The size of `text` in Unicode code points, the unit of every size here.
    pub chars: usize,
    /// The name of the tool, for calls and results; else empty.
    pub tool: Arc<str>,
    /// The arguments of the call, for calls and results, as far as they were recorded.
    pub args: Arc<str>,
    /// Joins a call with its results; `None` where the recording does not tell.
    pub pair: Option<PairId>,
    /// The turn it belongs to, counted from 0 in its segment; `None` for what came before the
    /// first.
    pub turn: Option<usize>,
    /// True for the items the replay itself adds, when a model reads back what was left out.
    pub read_back: bool,
}

/// One model response and what arrived after it.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// What the model said and called, in one response.
    pub response: Vec<Item>,
    /// What arrived before the next request: results, and words of the user.
    pub after: Vec<Item>,
    /// The strings of the response that an earlier result had shown and nothing else had.
    pub evidence: Vec<Evidence>,
}

/// A stretch of a session in which the history only grows. It ends where the recording shows that
/// the agent compacted its history.
#[derive(Debug, Clone, Default)]
pub struct Segment {
    /// What stands in the history before the first response.
    pub before: Vec<Item>,
    /// The responses, in order; never empty in a session that was read.
    pub turns: Vec<Turn>,
}

/// One recorded conversation of one agent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Session {
    /// The file it was read from.
    pub path: PathBuf,
    /// Which conversation of that file it is.
    pub sub: String,
    /// How it was recorded.
    pub format: Format,
    /// Lines of the file that are not valid JSON and were passed over.
    pub skipped_lines: usize,
    /// Code points in all results, those before a compaction included.
    pub result_chars: usize,
    /// Its stretches, in order; never empty in a session that was read.
    pub segments: Vec<Segment>,
}

impl Session {
    /// Model requests that were recorded: one for each response.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.segments.iter().map(|segment| segment.turns.len()).sum()
    }

    /// Whether there is enough in it for a policy to matter: at least 20 requests and more than
    /// 20,000 characters of results. Shorter sessions say nothing about context policies, and
    /// published figures leave them out.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.requests() >= 20 && self.result_chars > 20_000
    }
}
