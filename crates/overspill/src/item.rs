//! The nouns that travel: a tool call, what it returned, and the payloads inside.

use std::fmt;

use serde_json::Value;

/// Names one run of an agent; the first half of every handle the run makes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunId(String);

/// Names one tool call within a run, as the provider gave it.
///
/// Providers reuse ids, and some send none: nothing in Overspill relies on a call id being
/// unique or non-empty, because a handle also ends in the payload's digest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallId(String);

macro_rules! text_id {
    ($name:ident) => {
        impl $name {
            /// Wraps the text as it is; any text is a valid id, the empty one included.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The id as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<T: Into<String>> From<T> for $name {
            fn from(text: T) -> Self {
                Self::new(text)
            }
        }
    };
}

text_id!(RunId);
text_id!(CallId);

/// Which call of which run a return answers, and by which tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The agent's run.
    pub run: RunId,
    /// The call within the run.
    pub call: CallId,
    /// The tool's name, as the model calls it.
    pub tool: String,
    /// How many times this call was tried before; 0 for the first try.
    pub retry: u32,
}

impl ToolCall {
    /// A first try of `tool` as call `call` of run `run`.
    pub fn new(run: impl Into<RunId>, call: impl Into<CallId>, tool: impl Into<String>) -> Self {
        Self { run: run.into(), call: call.into(), tool: tool.into(), retry: 0 }
    }

    /// The same call, tried again for the `retry`-th time.
    #[must_use]
    pub fn with_retry(mut self, retry: u32) -> Self {
        self.retry = retry;
        self
    }
}

/// One piece of what a tool returned.
#[derive(Debug, Clone, PartialEq)]
pub enum Payload {
    /// Text, as the tool wrote it.
    Text(String),
    /// A structured value. It holds no NaN or infinity: JSON has none, and `serde_json` turns
    /// them into `null` when a Rust value is serialized.
    Json(Value),
    /// Bytes of which nothing more is known; they may or may not be text.
    Bytes(Vec<u8>),
    /// An image, sound or file that the model sees as such. It is never turned into text.
    Media(Media),
}

impl Payload {
    /// Serializes any value into a structured payload.
    ///
    /// # Errors
    ///
    /// Fails as `serde_json::to_value` does: when `T` refuses to serialize, or has a map with
    /// keys that are not strings.
    pub fn json<T: serde::Serialize>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_value(value).map(Self::Json)
    }
}

impl From<String> for Payload {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Payload {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        Self::Json(value)
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

/// An image, a sound or a file, with its media type.
#[derive(Clone, PartialEq, Eq)]
pub struct Media {
    /// The IANA media type, such as `image/png`.
    pub media_type: String,
    /// The content itself, not base64.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Media({}, {} bytes)", self.media_type, self.bytes.len())
    }
}

/// What a tool handed back for one call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolReturn {
    /// The return value: one payload for most tools, several for those that answer in parts.
    pub value: Vec<Payload>,
    /// What the tool shows the model beside its value; often empty.
    pub content: Vec<Payload>,
    /// Whether the tool reports a failure. The model needs the whole error, so such a return is
    /// left alone.
    pub is_error: bool,
    /// The exit status of a command, where there was one; a marker repeats it.
    pub exit_status: Option<i32>,
}

impl ToolReturn {
    /// A return that is an error the tool raised.
    pub fn error(text: impl Into<String>) -> Self {
        Self { value: vec![Payload::Text(text.into())], is_error: true, ..Self::default() }
    }

    /// Adds a piece of extra content.
    #[must_use]
    pub fn with_content(mut self, payload: impl Into<Payload>) -> Self {
        self.content.push(payload.into());
        self
    }

    /// Says with which status the command behind the return ended.
    #[must_use]
    pub fn with_exit_status(mut self, status: i32) -> Self {
        self.exit_status = Some(status);
        self
    }

    /// The text of the return's value, where it is one text and nothing else.
    pub fn text(&self) -> Option<&str> {
        match self.value.as_slice() {
            [Payload::Text(text)] => Some(text),
            _ => None,
        }
    }
}

impl<P: Into<Payload>> From<P> for ToolReturn {
    fn from(payload: P) -> Self {
        Self { value: vec![payload.into()], ..Self::default() }
    }
}
