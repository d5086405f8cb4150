//! The first path: a tool's return goes in, what the model should see comes out.
//!
//! Render, measure, band, act, mark. Each return value and each piece of extra content takes the
//! path by itself, under a handle of its own.

mod chain;
mod specimen;
mod stream;

pub use stream::ReturnStream;

use thiserror::Error;

use crate::item::{Media, Payload, ToolCall, ToolReturn};
use crate::measure::Size;
use crate::policy::Policy;
use crate::render::show_bytes;
use crate::store::{PartName, Receipt, StoreError};
use crate::summary::{SummaryError, Usage};
use crate::trace::{self, Span};

use specimen::Specimen;

/// What stands in view for a return, and how it came to.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Admitted {
    /// What the model should see.
    pub output: ToolReturn,
    /// What was reduced; empty where the return passed as it came.
    pub reductions: Vec<Reduction>,
    /// What could not be done.
    pub warnings: Vec<Warning>,
    /// What summaries cost, failed ones included; it belongs on the run's bill.
    pub usage: Usage,
}

impl Admitted {
    /// What passes as it came.
    pub fn passed(output: ToolReturn) -> Self {
        Self { output, ..Self::default() }
    }

    /// What the model should see, as one text: structured values as JSON, media by their type and
    /// size, each payload on lines of its own. A host that can send parts takes
    /// [`output`](Self::output) apart instead.
    pub fn to_text(&self) -> String {
        let ToolReturn { value, content, .. } = &self.output;
        let texts = value.iter().chain(content).map(|payload| match payload {
            Payload::Text(text) => text.clone(),
            Payload::Json(value) => value.to_string(),
            Payload::Bytes(bytes) => show_bytes(bytes).into_owned(),
            Payload::Media(media) => format!("[{}, {} bytes]", media.media_type, media.bytes.len()),
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Tells a span what was done.
    fn tell(&self, span: &Span) {
        let mut chars = (0, 0);
        for Reduction { action, before, after, receipt, .. } in &self.reductions {
            let handle = receipt.as_ref().map(|receipt| receipt.handle.as_str());
            span.reduced(action, before.chars, after.chars, handle);
            chars = (chars.0 + before.chars, chars.1 + after.chars);
        }
        if !self.reductions.is_empty() {
            span.count(trace::CHARS_BEFORE, chars.0);
            span.count(trace::CHARS_AFTER, chars.1);
        }
        for warning in &self.warnings {
            span.warned(warning.kind());
        }
        span.count(trace::REDUCTIONS, self.reductions.len() as u64);
        span.count(trace::WARNINGS, self.warnings.len() as u64);
        span.count(trace::REQUESTS, self.usage.requests);
    }

    /// The receipts of what was stored and stands in view as a marker.
    pub fn receipts(&self) -> impl Iterator<Item = &Receipt> {
        self.reductions.iter().filter_map(|reduction| reduction.receipt.as_ref())
    }
}

/// One payload that was reduced.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Reduction {
    /// Which payload of the return.
    pub part: PartName,
    /// The name of the action that ran: `spill`, `truncate` or `summarize`.
    pub action: &'static str,
    /// The threshold of the band it fell in.
    pub over: u64,
    /// Its size as it came.
    pub before: Size,
    /// The size of what stands in view.
    pub after: Size,
    /// Proof that it is stored; `None` where it was truncated.
    pub receipt: Option<Receipt>,
}

/// Something that could not be done; the return is in view all the same.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Warning {
    /// The store did not take the payload; the next action of the chain ran.
    #[error("{action} could not store the output of {tool}: {source}")]
    NotStored {
        /// The action that needed the store.
        action: &'static str,
        /// The tool.
        tool: String,
        /// What the store said.
        source: StoreError,
    },
    /// No usable summary was written; the next action of the chain ran.
    #[error("the output of {tool} could not be summarized: {source}")]
    NotSummarized {
        /// The tool.
        tool: String,
        /// Why.
        source: SummaryError,
    },
    /// The payload must not be cut: bytes that are no text, or a value that would no longer be
    /// JSON where another action stands behind.
    #[error("the output of {tool} cannot be truncated: it is {what}")]
    NotCut {
        /// The tool.
        tool: String,
        /// What it is.
        what: &'static str,
    },
    /// No action of the chain could run, so the return stands in view whole.
    #[error("nothing could reduce the output of {tool} ({measured} {unit}): it is in view whole")]
    Whole {
        /// The tool.
        tool: String,
        /// Its size.
        measured: u64,
        /// The unit of the size.
        unit: &'static str,
    },
    /// The output was too long to hold and could not be stored either: what is in view is all
    /// that is left of it.
    #[error("the output of {tool} could not be kept whole: only its beginning and end are left")]
    MiddleLost {
        /// The tool.
        tool: String,
    },
    /// An image, sound or file is bigger than the smallest band; such are never reduced.
    #[error("{tool} returned {media_type} of {bytes} bytes, which is left as it is")]
    BigMedia {
        /// The tool.
        tool: String,
        /// What it is.
        media_type: String,
        /// How big.
        bytes: usize,
    },
}

impl Warning {
    /// Its kind, for traces: nothing of what a tool returned is in it.
    fn kind(&self) -> &'static str {
        match self {
            Self::NotStored { .. } => "not_stored",
            Self::NotSummarized { .. } => "not_summarized",
            Self::NotCut { .. } => "not_cut",
            Self::Whole { .. } => "whole",
            Self::MiddleLost { .. } => "middle_lost",
            Self::BigMedia { .. } => "big_media",
        }
    }
}

pub(crate) async fn admit(policy: &Policy, call: &ToolCall, output: ToolReturn) -> Admitted {
    let span = Span::admit(call);
    let admitted = span.around(admit_value(policy, call, output)).await;
    admitted.tell(&span);
    admitted
}

async fn admit_value(policy: &Policy, call: &ToolCall, output: ToolReturn) -> Admitted {
    let mut admitted = Admitted::default();
    if output.is_error || !policy.concerns(&call.tool) {
        admitted.output = output;
        return admitted;
    }
    let ToolReturn { value, content, is_error, exit_status } = output;
    let value = reduce(policy, call, value, PartName::Value, exit_status, &mut admitted).await;
    let content = reduce(policy, call, content, PartName::Content, None, &mut admitted).await;
    admitted.output = ToolReturn { value, content, is_error, exit_status };
    admitted
}

/// Brings the payloads of a value, or of the extra content, under the threshold of the band that
/// their sizes together fall in, the biggest first.
async fn reduce(
    policy: &Policy,
    call: &ToolCall,
    payloads: Vec<Payload>,
    name: fn(u32) -> PartName,
    exit_status: Option<i32>,
    admitted: &mut Admitted,
) -> Vec<Payload> {
    let bands = policy.bands_for(&call.tool);
    let mut pieces = pieces(payloads, policy);
    let mut total = 0;
    let mut order = Vec::new();
    for (i, (_, piece)) in pieces.iter().enumerate() {
        match piece {
            Piece::Specimen(specimen) => {
                total += specimen.size().measured;
                order.push((specimen.size().measured, i));
            }
            // A model is sent media as base64: four characters for three bytes.
            Piece::Media(media) => {
                let chars = media.bytes.len() as u64 / 3 * 4;
                if bands.fit(policy.unit.of_opaque(chars)).is_some() {
                    admitted.warnings.push(Warning::BigMedia {
                        tool: call.tool.clone(),
                        media_type: media.media_type.clone(),
                        bytes: media.bytes.len(),
                    });
                }
            }
            Piece::View(_) => {}
        }
    }
    if let Some(band) = bands.fit(total) {
        order.sort_by_key(|&(measured, i)| (std::cmp::Reverse(measured), i));
        for (measured, i) in order {
            let (first, Piece::Specimen(specimen)) = &mut pieces[i] else { continue };
            if total < band.over || specimen.is_read_answer() {
                continue;
            }
            let run = chain::Run { policy, call, part: name(*first), over: band.over, exit_status };
            if let Some((view, after)) = run.act(&band.action, specimen, admitted).await {
                total = total - measured + after.measured;
                pieces[i].1 = Piece::View(view);
            }
        }
    }
    pieces.into_iter().flat_map(|(_, piece)| piece.into_payloads()).collect()
}

/// One payload, or adjacent texts, on the path.
enum Piece {
    /// Passes as it is.
    Media(Media),
    /// Can be reduced.
    Specimen(Box<Specimen>),
    /// Was reduced to this text.
    View(String),
}

impl Piece {
    fn into_payloads(self) -> Vec<Payload> {
        match self {
            Self::Media(media) => vec![Payload::Media(media)],
            Self::Specimen(specimen) => specimen.pass(),
            Self::View(text) => vec![Payload::Text(text)],
        }
    }
}

/// Takes adjacent texts together: they are one text to the model, and are stored as one, with a
/// line break between them. Each piece comes with the position of its first payload.
fn pieces(payloads: Vec<Payload>, policy: &Policy) -> Vec<(u32, Piece)> {
    let mut pieces = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    let flush = |texts: &mut Vec<String>, next: usize, pieces: &mut Vec<(u32, Piece)>| {
        if !texts.is_empty() {
            let first = (next - texts.len()) as u32;
            let specimen = Specimen::of_texts(std::mem::take(texts), policy).into();
            pieces.push((first, Piece::Specimen(specimen)));
        }
    };
    let count = payloads.len();
    for (i, payload) in payloads.into_iter().enumerate() {
        let piece = match payload {
            Payload::Text(text) => {
                texts.push(text);
                continue;
            }
            Payload::Json(value) => Piece::Specimen(Specimen::of_json(value, policy).into()),
            Payload::Bytes(bytes) => Piece::Specimen(Specimen::of_bytes(bytes, policy).into()),
            Payload::Media(media) => Piece::Media(media),
        };
        flush(&mut texts, i, &mut pieces);
        pieces.push((i as u32, piece));
    }
    flush(&mut texts, count, &mut pieces);
    pieces
}
