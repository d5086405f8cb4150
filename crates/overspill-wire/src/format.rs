//! The formats: how each reads a request, and how each writes what an edit adds.

mod anthropic;
mod chat;
mod gemini;
mod pydantic;
mod responses;

use std::fmt;

use overspill::entry::Role;

use crate::error::WireError;
use crate::json::{Tape, Value, quote};
use crate::skeleton::Skeleton;

/// A provider's way to write a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// A request to OpenAI's Chat Completions, which many other providers read too.
    Chat,
    /// A request to OpenAI's Responses.
    Responses,
    /// A request to Anthropic's Messages.
    Anthropic,
    /// A request to Gemini's `generateContent`.
    Gemini,
    /// The list of messages Pydantic AI keeps.
    PydanticAi,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Chat, Self::Responses, Self::Anthropic, Self::Gemini, Self::PydanticAi];

    /// The name the command line and the configuration use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::PydanticAi => "pydantic-ai",
        }
    }

    /// Guesses the format from what the JSON holds; `None` where nothing tells.
    ///
    /// Chat Completions and Anthropic Messages share `messages`: instructions outside of it,
    /// tools with an `input_schema`, or blocks only one of them has tell them apart, and without
    /// any of these it is Chat Completions.
    pub fn detect(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let tape = Tape::read(text).ok()?;
        let root = tape.root();
        if root.is_array() {
            let is_message = |message: Value<'_>| {
                message.get("parts").is_some()
                    && message
                        .get("kind")
                        .is_some_and(|kind| kind.is("request") || kind.is("response"))
            };
            return root
                .items()
                .next()
                .filter(|first| is_message(*first))
                .map(|_| Self::PydanticAi);
        }
        if root.get("contents").is_some() {
            return Some(Self::Gemini);
        }
        if root.get("input").is_some() {
            return Some(Self::Responses);
        }
        let messages = root.get("messages")?;
        let is_anthropic = root.any(&["system", "anthropic_version"]).is_some()
            || root
                .get("tools")
                .into_iter()
                .flat_map(Value::items)
                .any(|tool| tool.get("input_schema").is_some())
            || messages.items().any(|message| {
                message.get("content").into_iter().flat_map(Value::items).any(|block| {
                    block.get("type").is_some_and(|kind| anthropic::is_own_block(&kind.text()))
                })
            });
        Some(if is_anthropic { Self::Anthropic } else { Self::Chat })
    }

    pub(crate) fn read(self, root: Value<'_>) -> Result<Skeleton, WireError> {
        match self {
            Self::Chat => chat::read(root),
            Self::Responses => responses::read(root),
            Self::Anthropic => anthropic::read(root),
            Self::Gemini => gemini::read(root),
            Self::PydanticAi => pydantic::read(root),
        }
    }

    /// A message of the user with that text.
    pub(crate) fn user_message(self, text: &str) -> String {
        self.user_message_of(&quote(text))
    }

    /// A message of the user whose text is that literal.
    pub(crate) fn user_message_of(self, literal: &str) -> String {
        match self {
            Self::Chat | Self::Responses | Self::Anthropic => {
                format!(r#"{{"role":"user","content":{literal}}}"#)
            }
            Self::Gemini => format!(r#"{{"role":"user","parts":[{{"text":{literal}}}]}}"#),
            Self::PydanticAi => format!(
                r#"{{"parts":[{{"content":{literal},"part_kind":"user-prompt"}}],"kind":"request"}}"#
            ),
        }
    }

    /// A text as an element of a message's content, where messages of the user can be joined.
    pub(crate) fn element(self, literal: &str) -> String {
        match self {
            Self::Gemini => format!(r#"{{"text":{literal}}}"#),
            _ => format!(r#"{{"type":"text","text":{literal}}}"#),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chat => "OpenAI Chat Completions",
            Self::Responses => "OpenAI Responses",
            Self::Anthropic => "Anthropic Messages",
            Self::Gemini => "Gemini generateContent",
            Self::PydanticAi => "Pydantic AI messages",
        })
    }
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            format!("{name:?} is no format; there are {}", names.join(", "))
        })
    }
}

/// A value that has to be there.
fn need<'v>(at: Value<'v>, key: &str, format: Format) -> Result<Value<'v>, WireError> {
    at.get(key).ok_or_else(|| WireError::shape(at, format!("an object with `{key}`"), format))
}

/// A value that has to be a list.
fn list<'v>(at: Value<'v>, format: Format) -> Result<Value<'v>, WireError> {
    if at.is_array() { Ok(at) } else { Err(WireError::shape(at, "a list", format)) }
}

/// A value that has to be an object.
fn object<'v>(at: Value<'v>, format: Format) -> Result<Value<'v>, WireError> {
    if at.is_object() { Ok(at) } else { Err(WireError::shape(at, "an object", format)) }
}

/// A value that has to be a string.
fn string<'v>(at: Value<'v>, format: Format) -> Result<Value<'v>, WireError> {
    if at.is_string() { Ok(at) } else { Err(WireError::shape(at, "a string", format)) }
}

/// A string that may be missing; what is there and is no string is wrong.
fn optional<'v>(at: Value<'v>, key: &str, format: Format) -> Result<Option<Value<'v>>, WireError> {
    at.get(key).map(|value| string(value, format)).transpose()
}

/// Whether a list or object that is there holds something.
fn holds(at: Value<'_>, key: &str) -> bool {
    at.get(key)
        .is_some_and(|value| value.items().next().is_some() || value.members().next().is_some())
}

/// The role the spelling `role` stands for among those most formats share.
fn common_role(role: &str) -> Option<Role> {
    match role {
        "system" | "developer" => Some(Role::System),
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        _ => None,
    }
}
