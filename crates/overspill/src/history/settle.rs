//! Stores what a plan removes, and so makes a plan that can be applied.

use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

use super::check::{Refusal, survivors};
use super::plan::{Edit, Field, Plan};
use super::{History, fault};
use crate::entry::{EntryId, MessageId, Note};
use crate::item::{RunId, ToolCall};
use crate::marker::{Below, Marker, ReadVia};
use crate::measure::count_chars;
use crate::store::{Digest, PartName, Receipt, Store, StoreError, deposit};

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
/// Each replaced text and each replaced object of arguments is stored as a payload of its own.
/// Everything dropped is stored as one: a JSON list of the original messages, byte for byte, one a
/// line; of a message that stays in part, the parts that leave. A warning of ours is not stored.
///
/// # Errors
///
/// [`SettleError::Refused`] when the plan cannot be applied, [`SettleError::Store`] when the store
/// fails; either way the history is as it was, and the caller goes on with it whole.
pub async fn settle(
    history: &History<'_>,
    plan: &Plan,
    run: &RunId,
    store: &Arc<dyn Store>,
    via: &ReadVia,
) -> Result<SettledPlan, SettleError> {
    history.check(plan)?;
    let mut receipts = Vec::new();
    let dropped = dropped(history, plan.edits())?;
    let marker_of_dropped = match dropped {
        None => String::new(),
        Some(payload) => {
            let call = ToolCall::new(run.clone(), DROPPED, DROPPED);
            keep(store, &call, "application/json", payload, via, &mut receipts).await?
        }
    };
    let mut changes = Vec::with_capacity(plan.edits().len());
    for edit in plan.edits() {
        changes.push(match edit {
            Edit::DropEntry(entry) => Change::DropEntry(*entry),
            Edit::DropMessage(message) => Change::DropMessage(*message),
            Edit::Insert { before, note, words } => Change::Insert {
                before: *before,
                text: note.wrap(&words.resolve(&marker_of_dropped)),
            },
            Edit::ReplaceText { entry, words } => {
                let marker =
                    keep_entry(history, *entry, run, "text/plain", store, via, &mut receipts)
                        .await?;
                Change::Text { entry: *entry, text: words.resolve(&marker) }
            }
            Edit::ReplaceArguments { entry, object } => {
                let marker =
                    keep_entry(history, *entry, run, "application/json", store, via, &mut receipts)
                        .await?;
                Change::Arguments { entry: *entry, json: object_of(object, &marker) }
            }
        });
    }
    Ok(SettledPlan {
        edits: plan.edits().to_vec(),
        changes,
        names: names(history, plan.edits()),
        receipts,
    })
}

/// Stores an entry's text; a warning of ours leaves no trace.
async fn keep_entry(
    history: &History<'_>,
    entry: EntryId,
    run: &RunId,
    media_type: &str,
    store: &Arc<dyn Store>,
    via: &ReadVia,
    receipts: &mut Vec<Receipt>,
) -> Result<String, StoreError> {
    let Some(found) = history.entry(entry).filter(|found| found.note() != Some(Note::Warning))
    else {
        return Ok(String::new());
    };
    let id = match &found.kind {
        crate::entry::Kind::Call { id, .. } | crate::entry::Kind::Return { id, .. } => &**id,
        _ => DROPPED,
    };
    let call = ToolCall::new(run.clone(), id, history.tool_of(entry).unwrap_or(DROPPED));
    let payload = Bytes::copy_from_slice(found.text.as_bytes());
    keep(store, &call, media_type, payload, via, receipts).await
}

/// Stores a payload and gives the marker that names it.
async fn keep(
    store: &Arc<dyn Store>,
    call: &ToolCall,
    media_type: &str,
    payload: Bytes,
    via: &ReadVia,
    receipts: &mut Vec<Receipt>,
) -> Result<String, StoreError> {
    let chars = count_chars(&payload);
    let receipt = deposit(store, call, PartName::Value(0), media_type, payload).await?;
    let marker = Marker::new(&receipt, chars, "characters", None, Below::Nothing, via);
    receipts.push(receipt);
    Ok(marker.as_str().to_owned())
}

/// Everything the edits drop, as one JSON list; `None` where that is nothing.
fn dropped(history: &History<'_>, edits: &[Edit]) -> Result<Option<Bytes>, Refusal> {
    let fault::Survivors { dropped, gone, .. } = survivors(history, edits)?;
    let mut records: Vec<&str> = Vec::new();
    for (message, gone) in history.messages().iter().zip(gone) {
        let entries = &history.entries()[message.entries.clone()];
        if entries.iter().all(|entry| entry.note() == Some(Note::Warning)) && !entries.is_empty() {
            continue;
        }
        if gone {
            records.push(message.raw);
        } else {
            let parts = entries.iter().zip(&dropped[message.entries.clone()]);
            records.extend(parts.filter(|(_, dropped)| **dropped).map(|(entry, _)| entry.raw));
        }
    }
    if records.is_empty() {
        return Ok(None);
    }
    Ok(Some(Bytes::from(format!("[\n{}\n]\n", records.join(",\n")))))
}

fn object_of(object: &[(String, Field)], marker: &str) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let members: Vec<String> = object
        .iter()
        .map(|(key, field)| {
            let value = match field {
                Field::Json(json) => json.clone(),
                Field::Words(words) => quoted(&words.resolve(marker)),
            };
            format!("{}:{value}", quoted(key))
        })
        .collect();
    format!("{{{}}}", members.join(","))
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
