//! A logged request to a model with its whole list of messages, as OpenHands and LiteLLM write it:
//! OpenAI Chat's, or Anthropic's where blocks of it tell so.

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
    let all = messages_of(document);
    let is_block = |block: &Json<'_>| matches!(block.at("type").str(), "tool_use" | "tool_result");
    if all.iter().any(|message| message.at("content").list().iter().any(is_block)) {
        messages::system(document.at("system"), &mut to);
        messages::anthropic(all, &mut to);
    } else {
        messages::openai(all, &mut to);
    }
    vec![to]
}
