//! One message of rig's, with its JSON and what a model reads of each of its parts.

use std::borrow::Cow;

use overspill::entry::{Entry, Image, ImageSource, Kind, Role};
use overspill::history::HistoryBuilder;
use overspill::store::Digest;
use rig_core::message::{
    AssistantContent, DocumentSourceKind, ImageDetail, Message, Native, Opaque, ToolResult,
    ToolResultContent, UserContent,
};
use serde_json::Value;

/// How deep in a provider's own item a signature is looked for; Gemini puts it beside the call,
/// Anthropic beside the thought, OpenAI into the item itself.
const PROOF_DEPTH: usize = 4;

/// A message that is written out once, so that a view of it can borrow.
///
/// Every part of the message is one entry of the view, in the same order.
#[derive(Debug)]
pub(crate) struct Spelled {
    pub(crate) message: Message,
    json: String,
    digest: Digest,
    parts: Vec<Part>,
}

/// What the view needs of a part and the message does not hold in that form.
#[derive(Debug)]
struct Part {
    json: String,
    /// Its text, where it is put together from several places.
    text: String,
    /// What proves that the model wrote it.
    proof: Option<String>,
}

impl Spelled {
    pub(crate) fn new(message: Message) -> Result<Self, serde_json::Error> {
        let json = serde_json::to_string(&message)?;
        let parts = match &message {
            Message::System { content } => vec![Part::new(content, String::new(), None)?],
            Message::User { content } => {
                content.iter().map(of_user).collect::<Result<Vec<_>, _>>()?
            }
            Message::Assistant(turn) => {
                turn.content.iter().map(of_assistant).collect::<Result<Vec<_>, _>>()?
            }
        };
        Ok(Self { digest: Digest::of(json.as_bytes()), message, json, parts })
    }

    /// A message of the user that an edit puts into the history.
    pub(crate) fn note(text: &str) -> Result<Self, serde_json::Error> {
        Self::new(Message::user(text))
    }

    /// The digest of its JSON.
    pub(crate) fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Whether the model speaks.
    pub(crate) fn is_response(&self) -> bool {
        matches!(self.message, Message::Assistant(_))
    }

    /// Adds the message to a view.
    pub(crate) fn show<'a>(&'a self, builder: &mut HistoryBuilder<'a>) {
        match &self.message {
            Message::System { content } => {
                builder.message(Role::System, &self.json);
                for part in &self.parts {
                    builder.entry(text(Role::System, content, part));
                }
            }
            Message::User { content } => {
                builder.message(Role::User, &self.json);
                for (said, part) in content.iter().zip(&self.parts) {
                    builder.entry(user_entry(said, part));
                }
            }
            Message::Assistant(turn) => {
                builder.message(Role::Assistant, &self.json);
                for (said, part) in turn.content.iter().zip(&self.parts) {
                    builder.entry(assistant_entry(said, part));
                }
            }
        }
    }
}

impl Part {
    fn new<T: serde::Serialize>(
        part: &T,
        text: String,
        proof: Option<String>,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self { json: serde_json::to_string(part)?, text, proof })
    }
}

fn of_user(content: &UserContent) -> Result<Part, serde_json::Error> {
    let text = match content {
        UserContent::ToolResult(result) => result_text(result),
        _ => String::new(),
    };
    Part::new(content, text, None)
}

fn of_assistant(content: &AssistantContent) -> Result<Part, serde_json::Error> {
    let (text, native) = match content {
        AssistantContent::Text(text) => (String::new(), text.native.as_ref()),
        AssistantContent::ToolCall(call) => {
            let arguments = match &call.function.invalid_arguments {
                Some(text) => text.clone(),
                None => serde_json::to_string(&call.function.arguments)?,
            };
            (arguments, call.native.as_ref())
        }
        AssistantContent::Reasoning(reasoning) => (String::new(), reasoning.native.as_ref()),
        AssistantContent::Image(image) => (String::new(), image.native.as_ref()),
        _ => (String::new(), None),
    };
    Part::new(content, text, native.and_then(proof))
}

/// What the model reads of a result; several texts are joined by line ends.
fn result_text(result: &ToolResult) -> String {
    let texts: Vec<Cow<'_, str>> = result
        .content
        .iter()
        .filter_map(|content| match content {
            ToolResultContent::Text(text) => Some(Cow::Borrowed(text.text.as_str())),
            ToolResultContent::Json { value } => Some(Cow::Owned(value.to_string())),
            ToolResultContent::Image(_) => None,
        })
        .collect();
    texts.join("\n")
}

/// The signature in a provider's own item, whatever the provider calls it.
fn proof(native: &Native) -> Option<String> {
    fn find(value: &Value, depth: usize) -> Option<&str> {
        match value {
            Value::Object(members) => members.iter().find_map(|(key, value)| {
                let key = key.to_ascii_lowercase();
                let signs = key.contains("signature") || key.contains("encrypted");
                match value.as_str().filter(|text| signs && !text.is_empty()) {
                    Some(text) => Some(text),
                    None => depth.checked_sub(1).and_then(|depth| find(value, depth)),
                }
            }),
            Value::Array(items) => {
                items.iter().find_map(|item| depth.checked_sub(1).and_then(|d| find(item, d)))
            }
            _ => None,
        }
    }
    find(&native.item, PROOF_DEPTH).map(str::to_owned)
}

fn text<'a>(role: Role, words: &'a str, part: &'a Part) -> Entry<'a> {
    let mut entry = Entry::new(role, Kind::Text, words.into(), &part.json);
    entry.replaceable = true;
    entry.signature = part.proof.as_deref().map(Cow::Borrowed);
    entry
}

fn user_entry<'a>(content: &'a UserContent, part: &'a Part) -> Entry<'a> {
    match content {
        UserContent::Text(words) => {
            let mut entry = text(Role::User, &words.text, part);
            entry.cited = !words.citations().is_empty();
            entry
        }
        UserContent::ToolResult(result) => {
            let images: Vec<Image<'_>> = result
                .content
                .iter()
                .filter_map(|content| match content {
                    ToolResultContent::Image(shown) => Some(image(shown)),
                    _ => None,
                })
                .collect();
            let holds_more = !images.is_empty();
            let kind = Kind::Return {
                id: result.call.wire(),
                name: Some(result.name.as_str().into()),
                is_error: result.is_error,
                images,
            };
            let mut entry =
                Entry::new(Role::Tool, kind, part.text.as_str().into(), part.json.as_str());
            entry.replaceable = true;
            entry.holds_more = holds_more;
            entry
        }
        UserContent::Image(shown) => {
            Entry::new(Role::User, Kind::Image(image(shown)), "".into(), &part.json)
        }
        UserContent::Audio(_) | UserContent::Video(_) | UserContent::Document(_) => {
            Entry::new(Role::User, Kind::Other, "".into(), &part.json)
        }
    }
}

fn assistant_entry<'a>(content: &'a AssistantContent, part: &'a Part) -> Entry<'a> {
    let of = |kind, words: &'a str| Entry::new(Role::Assistant, kind, words.into(), &part.json);
    let proof = part.proof.as_deref().map(Cow::Borrowed);
    match content {
        AssistantContent::Text(words) => {
            let mut entry = text(Role::Assistant, &words.text, part);
            entry.cited = !words.citations().is_empty();
            entry
        }
        AssistantContent::ToolCall(call) => {
            let function = &call.function;
            let kind = Kind::Call { id: call.id.wire(), name: function.name.as_str().into() };
            let mut entry = of(kind, &part.text);
            entry.replaceable = function.invalid_arguments.is_none();
            entry.signature = proof;
            entry
        }
        AssistantContent::Reasoning(reasoning) => {
            let mut entry = of(Kind::Thinking, &reasoning.text);
            entry.signature = proof;
            entry
        }
        AssistantContent::Image(shown) => of(Kind::Image(image(shown)), ""),
        AssistantContent::Opaque(item) => of(opaque(item), ""),
        // A kind of part that a later release of rig brings.
        _ => of(Kind::Other, ""),
    }
}

/// What an item is that rig passes through: a tool the provider runs, or its own compaction.
fn opaque(item: &Opaque) -> Kind<'_> {
    let member = |key| item.item.get(key).and_then(Value::as_str).map(Cow::Borrowed);
    let name = |kind: &'static str| member("name").unwrap_or(Cow::Borrowed(kind));
    match item.kind().unwrap_or_default() {
        "compaction" => Kind::Boundary,
        "server_tool_use" => Kind::ServerCall { id: member("id"), name: name("server_tool_use") },
        "mcp_tool_use" => Kind::ServerCall { id: member("id"), name: name("mcp_tool_use") },
        kind if kind.ends_with("_tool_result") => {
            Kind::ServerReturn { id: member("tool_use_id").unwrap_or_default() }
        }
        _ => Kind::Other,
    }
}

fn image(shown: &rig_core::message::Image) -> Image<'_> {
    let source = match &shown.data {
        DocumentSourceKind::Base64(data) => ImageSource::Base64(data.as_str().into()),
        DocumentSourceKind::Url(text)
        | DocumentSourceKind::FileId(text)
        | DocumentSourceKind::String(text) => ImageSource::Elsewhere(text.as_str().into()),
        DocumentSourceKind::Raw(bytes) => {
            ImageSource::Base64(data_encoding::BASE64.encode(bytes).into())
        }
        DocumentSourceKind::Unknown => ImageSource::Elsewhere("".into()),
    };
    let detail = shown.detail.as_ref().map(|detail| match detail {
        ImageDetail::Low => "low".into(),
        ImageDetail::High => "high".into(),
        ImageDetail::Auto => "auto".into(),
    });
    Image { source, detail }
}
