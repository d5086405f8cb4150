//! Messages of LangChain, serialized by it, at any depth of a document.

use crate::format::content;
use crate::json::Json;
use crate::transcript::Transcript;

/// Whether there is a serialized message in the first places to look.
pub(super) fn is_dump(document: &Json<'_>) -> bool {
    fn has_message(value: &Json<'_>, depth: usize) -> bool {
        match value {
            Json::Map(map) => {
                (kind_of(value).is_some() && (value.has("lc") || value.has("data")))
                    || (depth > 0 && map.iter().any(|(_, v)| has_message(v, depth - 1)))
            }
            Json::List(list) => depth > 0 && list.iter().take(3).any(|v| has_message(v, depth - 1)),
            _ => false,
        }
    }
    has_message(document, 5)
}

pub(super) fn read(document: &Json<'_>) -> Vec<Transcript> {
    let mut to = Transcript::default();
    walk(document, &mut to);
    vec![to]
}

fn fields<'v, 'a>(value: &'v Json<'a>) -> &'v Json<'a> {
    let fields = value.at("kwargs").or(value.at("data"));
    if fields.truthy() && fields.is_map() { fields } else { value }
}

fn kind_of<'v>(value: &'v Json<'_>) -> Option<&'v str> {
    let kind = fields(value).at("type").or(value.at("type")).str();
    matches!(kind, "human" | "ai" | "tool" | "system").then_some(kind)
}

fn walk(value: &Json<'_>, to: &mut Transcript) {
    match value {
        Json::List(list) => list.iter().for_each(|value| walk(value, to)),
        Json::Map(map) => match kind_of(value) {
            Some(kind) => message(kind, fields(value), to),
            None => map.iter().for_each(|(_, value)| walk(value, to)),
        },
        _ => {}
    }
}

fn message(kind: &str, fields: &Json<'_>, to: &mut Transcript) {
    let text = content::text(fields.at("content"));
    match kind {
        "tool" => to.result(fields.at("tool_call_id"), fields.at("name").str(), &text),
        "ai" => {
            to.say(&text, None);
            for call in fields.at("tool_calls").list() {
                to.call(call.at("id"), call.at("name").str(), &call.at("args").text(), None);
            }
        }
        "system" => to.system(&text),
        _ => to.user(&text),
    }
}
