//! Logs of Inspect, the evaluation framework, in their JSON form.

use std::borrow::Cow;

use crate::format::messages;
use crate::json::Json;
use crate::transcript::Transcript;

/// What stands where a long string was moved to the attachments of its sample.
const ATTACHMENT: &str = "attachment://";

/// Whether a document can only be a log of this format.
pub(super) fn is_log(document: &Json<'_>) -> bool {
    document.at("eval").is_map() && (document.has("samples") || document.has("plan"))
}

pub(super) fn read(document: &Json<'_>) -> Vec<Transcript> {
    document.at("samples").list().iter().map(sample).collect()
}

fn sample(sample: &Json<'_>) -> Transcript {
    let id = sample.at("id");
    let mut to = Transcript::named(if id.is_null() { "None".into() } else { id.text() });
    let attachments = sample.at("attachments");
    let messages = sample.at("messages");
    if attachments.truthy() {
        messages::openai(restored(messages, attachments).list(), &mut to);
    } else {
        messages::openai(messages.list(), &mut to);
    }
    to
}

/// The value with its attachments back in their places.
fn restored<'v>(value: &'v Json<'_>, attachments: &'v Json<'_>) -> Json<'v> {
    match value {
        Json::Null => Json::Null,
        Json::Bool(b) => Json::Bool(*b),
        Json::Int(n) => Json::Int(*n),
        Json::Float(f) => Json::Float(*f),
        Json::Str(text) => Json::Str(restored_text(text, attachments)),
        Json::List(list) => Json::List(list.iter().map(|v| restored(v, attachments)).collect()),
        Json::Map(map) => Json::Map(
            map.iter().map(|(k, v)| (Cow::Borrowed(&**k), restored(v, attachments))).collect(),
        ),
    }
}

fn restored_text<'v>(text: &'v str, attachments: &Json<'_>) -> Cow<'v, str> {
    if !text.contains(ATTACHMENT) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(ATTACHMENT) {
        let (before, found) = rest.split_at(at);
        let name = &found[ATTACHMENT.len()..];
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'));
        let name = &name[..end.unwrap_or(name.len())];
        out.push_str(before);
        match attachments.at(name).as_str() {
            Some(attachment) => out.push_str(attachment),
            None => out.push_str(&found[..ATTACHMENT.len() + name.len()]),
        }
        rest = &found[ATTACHMENT.len() + name.len()..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}
