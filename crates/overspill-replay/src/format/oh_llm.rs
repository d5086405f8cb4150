//! A logged request to a model with its whole list of OpenAI Chat messages, as OpenHands and
//! LiteLLM write it.

use crate::format::messages;
use crate::json::Json;
use crate::transcript::Transcript;

fn messages_of<'v, 'a>(document: &'v Json<'a>) -> &'v [Json<'a>] {
    if document.is_list() {
        return document.list();
    }
    document.at("messages").or(document.at("kwargs").at("messages")).list()
}

/// Whether a document holds a list of messages with roles.
pub(super) fn is_log(document: &Json<'_>) -> bool {
    let messages = messages_of(document);
    !messages.is_empty() && messages.iter().all(|message| message.at("role").as_str().is_some())
}

pub(super) fn read(document: &Json<'_>) -> Vec<Transcript> {
    let mut to = Transcript::default();
    messages::openai(messages_of(document), &mut to);
    vec![to]
}
