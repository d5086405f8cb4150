//! Rig's messages as a history, and a settled plan applied to them.
//!
//! Nothing is translated: a message that no edit touches is the value that came, with its images,
//! its thinking and whatever its provider added.

use std::collections::HashMap;
use std::sync::Arc;

use overspill::Usage;
use overspill::history::{Change, History, Preamble, Refusal, ReturnPlace, Rules, SettledPlan};
use rig_core::completion::CompletionRequest;
use rig_core::message::{AssistantContent, Message, Text, ToolResultContent, UserContent};
use serde_json::Value;
use thiserror::Error;

use crate::spelled::Spelled;

/// What every provider behind rig takes: rig writes them all from the same messages, so the
/// strictest of them sets the rules.
fn rules() -> Rules {
    let mut rules = Rules::default();
    rules.user_first = true;
    rules.responses_apart = true;
    rules.returns = ReturnPlace::NextAndFirst;
    rules
}

/// Why a plan was not applied. The request goes out as it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The plan does not fit the messages.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A message of rig's has no JSON.
    #[error("a message could not be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// Messages in order, and what is sent before them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Messages {
    list: Vec<Arc<Spelled>>,
    instructions: Vec<String>,
    tools: Vec<String>,
    model: Option<String>,
}

impl Messages {
    pub(crate) fn new(list: Vec<Arc<Spelled>>) -> Self {
        Self { list, ..Self::default() }
    }

    /// With what a request sends besides its messages.
    pub(crate) fn sent_with(
        mut self,
        request: &CompletionRequest,
    ) -> Result<Self, serde_json::Error> {
        self.instructions =
            request.documents.iter().map(|document| document.text.clone()).collect();
        if let Some(schema) = &request.output_schema {
            self.instructions.push(serde_json::to_string(schema)?);
        }
        let tools = request.tools.iter().map(serde_json::to_string);
        self.tools = tools.collect::<Result<_, _>>()?;
        self.model.clone_from(&request.model);
        Ok(self)
    }

    pub(crate) fn into_list(self) -> Vec<Arc<Spelled>> {
        self.list
    }

    /// The view; `reported` is what the provider said of the request that each message answers.
    pub(crate) fn history(&self, reported: &HashMap<usize, Usage>) -> History<'_> {
        let mut builder = History::builder(rules());
        builder.preamble(Preamble {
            instructions: self.instructions.iter().map(|text| text.as_str().into()).collect(),
            tools: self.tools.iter().map(String::as_str).collect(),
            model: self.model.as_deref().map(Into::into),
        });
        let mut was_response = false;
        for (at, message) in self.list.iter().enumerate() {
            message.show(&mut builder);
            let is_response = message.is_response();
            if is_response && was_response {
                builder.continues();
            }
            if let Some(usage) = reported.get(&at) {
                builder.usage(*usage);
            }
            was_response = is_response;
        }
        builder.build()
    }

    /// The messages with a plan's changes in them.
    pub(crate) fn apply(&self, plan: &SettledPlan) -> Result<Vec<Arc<Spelled>>, ApplyError> {
        let history = self.history(&HashMap::new());
        history.check_settled(plan)?;
        let mut fates: Vec<Fate<'_>> = vec![Fate::Stays; history.entries().len()];
        let mut goes = vec![false; self.list.len()];
        let mut notes: Vec<Vec<&str>> = vec![Vec::new(); self.list.len() + 1];
        for change in plan.changes() {
            // The plan was checked: whatever it names is there.
            match change {
                Change::DropEntry(entry) => fates[entry.0] = Fate::Goes,
                Change::DropMessage(message) => goes[message.0] = true,
                Change::Text { entry, text } => fates[entry.0] = Fate::Text(text),
                Change::Arguments { entry, json } => fates[entry.0] = Fate::Arguments(json),
                Change::Insert { before, text } => notes[before.0].push(text),
                // A change that this release does not know leaves the request as it was.
                _ => return Ok(self.list.clone()),
            }
        }
        let mut list = Vec::with_capacity(self.list.len());
        for (at, message) in self.list.iter().enumerate() {
            for note in &notes[at] {
                list.push(Arc::new(Spelled::note(note)?));
            }
            let fates = &fates[history.messages()[at].entries.clone()];
            if goes[at] {
                continue;
            }
            if fates.iter().all(|fate| *fate == Fate::Stays) {
                list.push(Arc::clone(message));
            } else if let Some(message) = edited(&message.message, fates)? {
                list.push(Arc::new(Spelled::new(message)?));
            }
        }
        for note in &notes[self.list.len()] {
            list.push(Arc::new(Spelled::note(note)?));
        }
        Ok(list)
    }
}

/// What becomes of a part.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate<'p> {
    Stays,
    Goes,
    Text(&'p str),
    Arguments(&'p str),
}

/// The message with its parts' fates; `None` where no part is left.
fn edited(message: &Message, fates: &[Fate<'_>]) -> Result<Option<Message>, serde_json::Error> {
    Ok(match message {
        Message::System { content } => match fates {
            [Fate::Goes] => None,
            [Fate::Text(text)] => Some(Message::system(*text)),
            _ => Some(Message::system(content.clone())),
        },
        Message::User { content } => {
            let parts = content.iter().zip(fates);
            let content: Vec<UserContent> =
                parts.filter_map(|(part, fate)| user_part(part, *fate)).collect();
            (!content.is_empty()).then_some(Message::User { content })
        }
        Message::Assistant(turn) => {
            let mut content = Vec::with_capacity(turn.content.len());
            for (part, fate) in turn.content.iter().zip(fates) {
                content.extend(assistant_part(part, *fate)?);
            }
            (!content.is_empty()).then(|| Message::Assistant(turn.clone().with_content(content)))
        }
    })
}

fn user_part(part: &UserContent, fate: Fate<'_>) -> Option<UserContent> {
    match (part, fate) {
        (_, Fate::Goes) => None,
        (UserContent::Text(_), Fate::Text(text)) => Some(UserContent::text(text)),
        (UserContent::ToolResult(result), Fate::Text(text)) => {
            let mut result = result.clone();
            result.content = vec![ToolResultContent::text(text)];
            Some(UserContent::ToolResult(result))
        }
        _ => Some(part.clone()),
    }
}

/// The provider's own item of an edited part is let go: it holds what the part was.
fn assistant_part(
    part: &AssistantContent,
    fate: Fate<'_>,
) -> Result<Option<AssistantContent>, serde_json::Error> {
    Ok(match (part, fate) {
        (_, Fate::Goes) => None,
        (AssistantContent::Text(_), Fate::Text(text)) => {
            Some(AssistantContent::Text(Text::new(text)))
        }
        (AssistantContent::ToolCall(call), Fate::Arguments(json)) => {
            let mut call = call.clone();
            if let Value::Object(arguments) = serde_json::from_str(json)? {
                call.function.arguments = arguments;
            }
            call.native = None;
            Some(AssistantContent::ToolCall(call))
        }
        _ => Some(part.clone()),
    })
}

#[cfg(test)]
mod tests;
