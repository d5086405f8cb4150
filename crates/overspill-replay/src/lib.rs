//! Re-enacts recorded agent sessions under context policies, and measures what they save and what
//! they keep.
//!
//! [`read`] finds out the format of a recording and gives its [`Session`]s: the model requests
//! that were made, and which strings of each response only an earlier tool result can have taught
//! the model. A [`Policy`] turns the history of each request into a view. [`evaluate`] sends every
//! view, in thought, and counts: what was sent, what a provider's prompt cache would have served,
//! and how much of what the model went on to use was still in view or behind a handle.
//!
//! Sizes are Unicode code points.
//!
//! ```
//! use overspill_replay::{HeadTail, Keep, evaluate, read};
//!
//! # let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
//! # let path = folder.join("claude_code.jsonl");
//! // A file, or a folder such as `~/.claude/projects`.
//! for session in read(&path)? {
//!     let none = evaluate(&session, &mut Keep::default());
//!     let figures = evaluate(&session, &mut HeadTail::over(2_000));
//!     let reduction = figures.against(&none);
//!     println!("{:.1} % less sent, {:.1} % of identifiers in view", reduction.sent, reduction.in_view);
//!     assert!(figures.traffic.sent <= none.traffic.sent);
//! }
//! # Ok::<(), overspill_replay::ReadError>(())
//! ```

mod json;
mod yaml;
mod session;
mod evidence;
mod transcript;
mod error;
mod format;
mod contents;
mod policy;
mod slices;
mod figures;
mod trace;

pub use contents::{Content, ContentId, Contents, Reduced};
pub use error::ReadError;
pub use evidence::Evidence;
pub use figures::{
    Cause, Figures, Prices, Recall, Reduction, Request, Traffic, evaluate, evaluate_with,
};
pub use format::{Files, Format, Recording, files, read, recording};
pub use policy::{HeadTail, Keep, Mask, PerResult, Policy};
pub use session::{Item, ItemId, Kind, PairId, Segment, Session, Turn};
pub use trace::{Part, Parts, Stage, Trace, TracedResult};
