//! Stores what a plan removes, and so makes a plan that can be applied.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

use super::History;
use super::check::{Refusal, Remainder};
use super::dropped::Dropped;
use super::plan::{Edit, Field, Plan, Word, Words};
use crate::entry::{EntryId, Kind, MessageId, Note};
use crate::item::{RunId, ToolCall};
use crate::marker::{Marker, ReadVia};
use crate::measure::{count_chars, grouped};
use crate::store::{Digest, Handle, PartName, Receipt, Store, StoreError, deposit};
use crate::summary::{Summary, SummaryError, TextModel, Usage, traced};

/// The call and tool under which what a plan drops is stored.
const DROPPED: &str = "history";

/// A plan whose removals are stored and whose words are final.
///
/// Only [`settle`] makes one. It names each message it touches by position and digest, so it
/// cannot be applied to another history; it can be applied to the same one again, also after
/// messages were added at its end, and gives the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledPlan {
    edits: Vec<Edit>,
    changes: Vec<Change>,
    names: Vec<(MessageId, Digest)>,
    receipts: Vec<Receipt>,
    usage: Usage,
}

/// One change of a settled plan, as a format has to write it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The entry goes; a message that holds none afterwards goes too.
    DropEntry(EntryId),
    /// The message goes.
    DropMessage(MessageId),
    /// The entry's text becomes this one.
    Text {
        /// The entry.
        entry: EntryId,
        /// Its text.
        text: String,
    },
    /// The call's arguments become this JSON object.
    Arguments {
        /// The call.
        entry: EntryId,
        /// A JSON object.
        json: String,
    },
    /// A message of the user stands before this one, or after the last.
    Insert {
        /// The message it stands before.
        before: MessageId,
        /// Its text, marks included.
        text: String,
    },
}

/// What settling a plan needs from outside.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Ports<'p> {
    /// The run the history belongs to; handles begin with it.
    pub run: &'p RunId,
    /// Where everything that leaves the history is stored.
    pub store: &'p Arc<dyn Store>,
    /// How markers say that it is read.
    pub via: &'p ReadVia,
    /// Who writes what a plan asks a model for.
    pub model: Option<&'p dyn TextModel>,
}

/// Why a plan could not be settled. Nothing of the history has changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SettleError {
    /// The plan cannot be applied, so nothing was stored.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store did not take what the plan removes.
    #[error("what leaves the history could not be stored")]
    Store(#[from] StoreError),
    /// There is no model, it failed, or it wrote nothing, or more than what is dropped. The error
    /// says what was spent.
    #[error("what stands for the history could not be written")]
    Summary(#[from] SummaryError),
}

impl<'p> Ports<'p> {
    /// Without a model.
    pub fn new(run: &'p RunId, store: &'p Arc<dyn Store>, via: &'p ReadVia) -> Self {
        Self { run, store, via, model: None }
    }

    /// With a model.
    #[must_use]
    pub fn with_model(mut self, model: &'p dyn TextModel) -> Self {
        self.model = Some(model);
        self
    }
}

impl fmt::Debug for Ports<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ports")
            .field("run", self.run)
            .field("via", self.via)
            .finish_non_exhaustive()
    }
}

impl SettledPlan {
    /// The changes, in the order of the plan's edits.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The messages it touches, in order, with the digests of their bytes.
    pub fn names(&self) -> &[(MessageId, Digest)] {
        &self.names
    }

    /// Proof for everything that was stored.
    pub fn receipts(&self) -> &[Receipt] {
        &self.receipts
    }

    /// What the model took to write its part.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub(super) fn edits(&self) -> &[Edit] {
        &self.edits
    }
}

/// Stores what `plan` removes from `history`, and writes its words.
///
/// Each replaced text and each replaced object of arguments is stored as a payload of its own; of
/// a return that held more than text, its JSON too. Everything dropped is stored as one transcript
/// to be read, and once more byte for byte as JSON; the transcript names the handle of that. A
/// warning of ours is not stored.
///
/// # Errors
///
/// [`SettleError::Refused`] when the plan cannot be applied, [`SettleError::Store`] when the store
/// fails, [`SettleError::Summary`] when the model does. Whichever it is, the history is as it was,
/// and the caller goes on with it whole. The model is only asked once everything is stored.
pub async fn settle(
    history: &History<'_>,
    plan: &Plan,
    ports: &Ports<'_>,
) -> Result<SettledPlan, SettleError> {
    history.check(plan)?;
    let mut desk =
        Desk { history, ports, dropped_chars: 0, receipts: Vec::new(), usage: Usage::default() };
    let dropped = desk.store_dropped(&history.after(plan)?).await?;
    let mut stored = Vec::with_capacity(plan.edits().len());
    for edit in plan.edits() {
        stored.push(match edit.replaces() {
            Some(entry) => desk.store_entry(entry).await?,
            None => None,
        });
    }
    let mut changes = Vec::with_capacity(plan.edits().len());
    for (edit, own) in plan.edits().iter().zip(&stored) {
        changes.push(match edit {
            Edit::DropEntry(entry) => Change::DropEntry(*entry),
            Edit::DropMessage(message) => Change::DropMessage(*message),
            Edit::Insert { before, note, words } => {
                let text = note.wrap(&desk.write(words, dropped.as_ref()).await?);
                desk.refuse_longer(words, &text)?;
                Change::Insert { before: *before, text }
            }
            Edit::ReplaceText { entry, words } => {
                Change::Text { entry: *entry, text: desk.write(words, own.as_ref()).await? }
            }
            Edit::ReplaceArguments { entry, object } => {
                let json = desk.write_object(object, own.as_ref()).await?;
                Change::Arguments { entry: *entry, json }
            }
        });
    }
    Ok(SettledPlan {
        edits: plan.edits().to_vec(),
        changes,
        names: names(history, plan.edits()),
        receipts: desk.receipts,
        usage: desk.usage,
    })
}

/// What was stored for one edit.
struct Stored {
    /// The text.
    receipt: Receipt,
    /// The JSON of all of it, where the text is not all.
    whole: Option<Handle>,
}

/// What stands behind the marker of a text that was not all there was.
pub(crate) fn names_whole(whole: &Handle) -> String {
    format!(" (with what is no text, as JSON: {whole})")
}

/// Settles one plan.
struct Desk<'d> {
    history: &'d History<'d>,
    ports: &'d Ports<'d>,
    /// How much a model read in what is dropped.
    dropped_chars: u64,
    receipts: Vec<Receipt>,
    usage: Usage,
}

impl Desk<'_> {
    /// Stores everything that is dropped; the receipt is the transcript's.
    async fn store_dropped(&mut self, left: &Remainder) -> Result<Option<Stored>, StoreError> {
        let dropped = Dropped::of(self.history, left);
        if dropped.is_empty() {
            return Ok(None);
        }
        self.dropped_chars = dropped.chars();
        let call = ToolCall::new(self.ports.run.clone(), DROPPED, DROPPED);
        let json = self.deposit(&call, 1, "application/json", dropped.json()).await?;
        let transcript = dropped.transcript(&json.handle);
        let receipt = self.deposit(&call, 0, "text/plain", transcript).await?;
        Ok(Some(Stored { receipt, whole: None }))
    }

    /// Stores what an entry holds; a warning of ours leaves no trace.
    async fn store_entry(&mut self, entry: EntryId) -> Result<Option<Stored>, StoreError> {
        let history = self.history;
        let Some(found) = history.entry(entry).filter(|found| found.note() != Some(Note::Warning))
        else {
            return Ok(None);
        };
        let id = match &found.kind {
            Kind::Call { id, .. } | Kind::Return { id, .. } => &**id,
            _ => DROPPED,
        };
        let tool = history.tool_of(entry).unwrap_or(DROPPED);
        let call = ToolCall::new(self.ports.run.clone(), id, tool);
        let media_type = if found.is_call() { "application/json" } else { "text/plain" };
        let whole = match found.holds_more {
            true => {
                let raw = found.raw.to_owned();
                Some(self.deposit(&call, 1, "application/json", raw).await?.handle)
            }
            false => None,
        };
        let text = found.text.clone().into_owned();
        Ok(Some(Stored { receipt: self.deposit(&call, 0, media_type, text).await?, whole }))
    }

    async fn deposit(
        &mut self,
        call: &ToolCall,
        part: u32,
        media_type: &str,
        payload: String,
    ) -> Result<Receipt, StoreError> {
        let part = PartName::Value(part);
        let receipt =
            deposit(self.ports.store, call, part, media_type, Bytes::from(payload)).await?;
        self.receipts.push(receipt.clone());
        Ok(receipt)
    }

    async fn write(
        &mut self,
        words: &Words,
        stored: Option<&Stored>,
    ) -> Result<String, SummaryError> {
        let mut out = String::new();
        for word in &words.0 {
            match word {
                Word::Text(text) => out.push_str(text),
                Word::Marker(below) => {
                    let Some(Stored { receipt, whole }) = stored else { continue };
                    let (chars, via) = (receipt.chars, self.ports.via);
                    let marker = Marker::new(receipt, chars, "characters", None, *below, via);
                    out.push_str(marker.as_str());
                    if let Some(whole) = whole {
                        out.push_str(&names_whole(whole));
                    }
                }
                Word::Written(prompt) => out.push_str(&self.ask(prompt).await?),
            }
        }
        Ok(out)
    }

    async fn write_object(
        &mut self,
        object: &[(String, Field)],
        stored: Option<&Stored>,
    ) -> Result<String, SummaryError> {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut members = Vec::with_capacity(object.len());
        for (key, field) in object {
            let value = match field {
                Field::Json(json) => json.clone(),
                Field::Words(words) => quoted(&self.write(words, stored).await?),
            };
            members.push(format!("{}:{value}", quoted(key)));
        }
        Ok(format!("{{{}}}", members.join(",")))
    }

    /// Asks the model. An error counts what earlier answers for the same plan took.
    async fn ask(&mut self, prompt: &str) -> Result<String, SummaryError> {
        let model =
            self.ports.model.ok_or_else(|| SummaryError::new("there is no model to ask"))?;
        let chars = count_chars(prompt.as_bytes());
        let answer = traced(chars, model.complete(prompt)).await;
        let answer = answer.and_then(|Summary { text, usage }| match text.trim() {
            "" => Err(SummaryError::new("the model wrote nothing").with_usage(usage)),
            _ => Ok(Summary { text, usage }),
        });
        let spent = self.usage;
        let answer = answer.map_err(|mut error| {
            error.usage += spent;
            error
        })?;
        self.usage += answer.usage;
        Ok(answer.text)
    }

    /// What a model wrote in the place of what is dropped has to be shorter than that.
    fn refuse_longer(&self, words: &Words, text: &str) -> Result<(), SummaryError> {
        let is_written = words.0.iter().any(|word| matches!(word, Word::Written(_)));
        let chars = count_chars(text.as_bytes());
        if !is_written || self.dropped_chars == 0 || chars < self.dropped_chars {
            return Ok(());
        }
        let (chars, dropped) = (grouped(chars), grouped(self.dropped_chars));
        let message = format!("the note would be {chars} characters in place of {dropped}");
        Err(SummaryError::new(message).with_usage(self.usage))
    }
}

/// The messages the edits touch, each once and in order.
fn names(history: &History<'_>, edits: &[Edit]) -> Vec<(MessageId, Digest)> {
    let mut touched: Vec<MessageId> = edits
        .iter()
        .filter_map(|edit| match edit {
            Edit::DropMessage(message) => Some(*message),
            Edit::Insert { before, .. } => Some(*before),
            Edit::DropEntry(entry)
            | Edit::ReplaceText { entry, .. }
            | Edit::ReplaceArguments { entry, .. } => history.entry(*entry).map(|e| e.message),
        })
        .collect();
    touched.sort_unstable();
    touched.dedup();
    let digest = |message: MessageId| history.messages().get(message.0).map(super::Message::digest);
    touched.into_iter().filter_map(|message| Some((message, digest(message)?))).collect()
}

#[cfg(test)]
mod tests;
