//! What a plan drops, as it is stored: a transcript to be read, and the bytes themselves.

use std::fmt::Write as _;

use super::{History, Remainder};
use crate::entry::{Entry, EntryId, Kind, Note, Role};
use crate::measure::{count_chars, counted};
use crate::store::Handle;

/// What leaves a history whole, in order. A warning of ours is not among it.
pub(super) struct Dropped<'h, 'a> {
    history: &'h History<'a>,
    /// The JSON of messages that leave, and of parts that leave messages that stay.
    records: Vec<&'a str>,
    entries: Vec<EntryId>,
}

impl<'h, 'a> Dropped<'h, 'a> {
    pub(super) fn of(history: &'h History<'a>, left: &Remainder) -> Self {
        let mut records = Vec::new();
        let mut entries = Vec::new();
        for (m, message) in history.messages().iter().enumerate() {
            let kept = |id: &EntryId| {
                left.has_entry(*id) || history.entries()[id.0].note() == Some(Note::Warning)
            };
            let parts: Vec<EntryId> = message.entry_ids().filter(|id| !kept(id)).collect();
            match left.gone[m] {
                true if parts.is_empty() && !message.entries.is_empty() => {}
                true => records.push(message.raw),
                false => records.extend(parts.iter().map(|id| history.entries()[id.0].raw)),
            }
            entries.extend(parts);
        }
        Self { history, records, entries }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// How many characters a model reads in it; of what is more than text, those of its JSON.
    pub(super) fn chars(&self) -> u64 {
        let chars = |id: &EntryId| {
            let entry = &self.history.entries()[id.0];
            let is_text = !entry.holds_more && !entry.text.is_empty();
            count_chars(if is_text { &entry.text } else { entry.raw }.as_bytes())
        };
        self.entries.iter().map(chars).sum()
    }

    /// A JSON list, each record byte for byte.
    pub(super) fn json(&self) -> String {
        format!("[\n{}\n]\n", self.records.join(",\n"))
    }

    /// Everything a model could read in it, decoded, one entry after the other. A heading says how
    /// many lines belong to it and is itself one line, so no content can pass for a heading.
    pub(super) fn transcript(&self, json: &Handle) -> String {
        let texts = self.entries.iter().map(|id| self.history.entries()[id.0].text.len() + 80);
        let mut out = String::with_capacity(texts.sum::<usize>() + 200);
        let _ = writeln!(
            out,
            "What left the history, {}. As JSON, byte for byte: {json}",
            counted(self.entries.len() as u64, "part"),
        );
        for id in &self.entries {
            let entry = &self.history.entries()[id.0];
            let lines = entry.text.lines().count() as u64;
            let _ = write!(out, "\n[message {}: {}", entry.message.0, self.says(*id, entry));
            match lines {
                0 => out.push_str("]\n"),
                lines => {
                    let _ = write!(out, ", {}]\n{}", counted(lines, "line"), entry.text);
                    out.push_str(if entry.text.ends_with('\n') { "" } else { "\n" });
                }
            }
        }
        out
    }

    fn says(&self, id: EntryId, entry: &Entry<'_>) -> String {
        let who = match entry.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        };
        let images = |n: usize| match n {
            0 => String::new(),
            n => format!(", {}", counted(n as u64, "image")),
        };
        match &entry.kind {
            Kind::Text => who.to_owned(),
            Kind::Thinking => format!("{who} thinks"),
            Kind::Call { id, name } => {
                format!("{who} calls {} ({})", name.escape_debug(), id.escape_debug())
            }
            Kind::Return { id: call, is_error, images: shown, .. } => {
                let tool = self.history.tool_of(id).unwrap_or("a tool");
                let verb = if *is_error { "failed" } else { "returned" };
                let (tool, call) = (tool.escape_debug(), call.escape_debug());
                format!("{tool} {verb} ({call}){}", images(shown.len()))
            }
            Kind::Image(_) => format!("{who} shows an image"),
            Kind::ServerCall { name, .. } => {
                format!("the provider runs {}", name.escape_debug())
            }
            Kind::ServerReturn { .. } => "the provider's tool returned".to_owned(),
            Kind::Refusal => format!("{who} refuses"),
            Kind::Boundary => "a compaction of the provider's".to_owned(),
            Kind::Other => format!("{who}, a part of another kind"),
        }
    }
}
