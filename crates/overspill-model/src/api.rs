//! What is sent to a kind of endpoint, and what its answers say.

mod chat;
mod messages;

use overspill::summary::{BaseUrl, ModelName, Provider, Usage};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use crate::error::ModelError;
use crate::key::ApiKey;

/// How a model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// Chat Completions.
    Chat,
    /// Messages.
    Messages,
}

/// What an endpoint has answered so far.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    text: String,
    input_tokens: u64,
    output_tokens: u64,
    end: Option<End>,
    /// Whether the endpoint has said that nothing more comes.
    ended: bool,
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    TooLong,
    Declined,
}

/// The version of Anthropic's API that is spoken; there is no newer one.
const ANTHROPIC_VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

impl Api {
    pub(crate) fn of(provider: Provider) -> Self {
        match provider {
            Provider::OpenAi | Provider::Ollama => Self::Chat,
            Provider::Anthropic => Self::Messages,
        }
    }

    /// Where to ask. Base URLs of Chat Completions end in the version, those of Messages before it;
    /// who writes it all the same is understood.
    pub(crate) fn url(self, base: &BaseUrl) -> String {
        let base = base.as_str();
        match self {
            Self::Chat => format!("{base}/chat/completions"),
            Self::Messages => format!("{}/v1/messages", base.strip_suffix("/v1").unwrap_or(base)),
        }
    }

    pub(crate) fn headers(self, key: Option<&ApiKey>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let (name, scheme) = match self {
            Self::Chat => (AUTHORIZATION, "Bearer "),
            Self::Messages => {
                headers.insert(HeaderName::from_static("anthropic-version"), ANTHROPIC_VERSION);
                (HeaderName::from_static("x-api-key"), "")
            }
        };
        if let Some(value) = key.and_then(|key| key.header(scheme)) {
            headers.insert(name, value);
        }
        headers
    }

    /// The body of a request.
    pub(crate) fn body(self, model: &ModelName, prompt: &str, streams: bool) -> String {
        let body = match self {
            Self::Chat => chat::body(model, prompt, streams),
            Self::Messages => messages::body(model, prompt, streams),
        };
        body.to_string()
    }

    /// Reads an answer that came at once.
    pub(crate) fn read_whole(self, body: &[u8], answer: &mut Answer) -> Result<(), ModelError> {
        let value: Value = serde_json::from_slice(body).map_err(|_| garbled("it is not JSON"))?;
        refuse_error(&value)?;
        match self {
            Self::Chat => chat::read_whole(&value, answer),
            Self::Messages => messages::read_whole(&value, answer),
        }
    }

    /// Reads one event of an answer that comes in a stream.
    pub(crate) fn read_event(self, data: &str, answer: &mut Answer) -> Result<(), ModelError> {
        if data == "[DONE]" {
            answer.stop();
            return Ok(());
        }
        let value: Value =
            serde_json::from_str(data).map_err(|_| garbled("an event of it is not JSON"))?;
        refuse_error(&value)?;
        match self {
            Self::Chat => chat::read_event(&value, answer),
            Self::Messages => messages::read_event(&value, answer),
        }
        Ok(())
    }
}

impl Answer {
    /// What it took, apart from the request itself.
    pub(crate) fn usage(&self) -> Usage {
        Usage { requests: 0, input_tokens: self.input_tokens, output_tokens: self.output_tokens }
    }

    /// Notes that nothing more comes: what is there is whole, unless it was said not to be.
    fn stop(&mut self) {
        self.end.get_or_insert(End::Whole);
        self.ended = true;
    }

    /// Whether a stream has come to its end.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// The text, where it is all there.
    pub(crate) fn take_text(&mut self) -> Result<String, ModelError> {
        match self.end {
            Some(End::Whole) => Ok(std::mem::take(&mut self.text)),
            Some(End::TooLong) => Err(ModelError::TooLong),
            Some(End::Declined) => Err(ModelError::Declined),
            None => Err(ModelError::Cut { source: None }),
        }
    }

    /// Keeps a number of tokens, where one is said.
    fn count(number: &mut u64, said: &Value) {
        if let Some(said) = said.as_u64() {
            *number = said;
        }
    }
}

/// The statuses that stand for Anthropic's kinds of errors, which a stream can bring too.
const KINDS: [(&str, u16); 7] = [
    ("invalid_request_error", 400),
    ("authentication_error", 401),
    ("permission_error", 403),
    ("not_found_error", 404),
    ("request_too_large", 413),
    ("rate_limit_error", 429),
    ("overloaded_error", 529),
];

/// An error in the place of an answer, which hosts send with status 200 once they have begun.
fn refuse_error(value: &Value) -> Result<(), ModelError> {
    let error = &value["error"];
    if error.is_null() {
        return Ok(());
    }
    let kind = error["type"].as_str().unwrap_or_default();
    let of_kind = KINDS.iter().find(|(name, _)| *name == kind).map(|(_, status)| *status);
    let code = error["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    // Whoever does not say more had something go wrong on the way.
    let status = of_kind.or(code).unwrap_or(500);
    Err(ModelError::Status { status, message: message(value) })
}

/// The words of an error's body, as the known APIs write them.
pub(crate) fn message(value: &Value) -> String {
    let words = [&value["error"]["message"], &value["error"], &value["message"], &value["detail"]];
    words.into_iter().find_map(Value::as_str).map_or_else(|| value.to_string(), str::to_owned)
}

fn garbled(what: &str) -> ModelError {
    ModelError::Garbled { what: what.to_owned() }
}

#[cfg(test)]
mod tests;
