//! One JSON-RPC message: its text as it came, and what its envelope says.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::json::{self, Edits, Members, items, quote, span, string};

/// An id of a request. Two spellings of one number or string are equal; the spelling is kept.
#[derive(Debug, Clone, Eq)]
pub struct Id {
    spelling: String,
    /// One spelling for all that are equal.
    canonical: String,
}

impl Id {
    pub(crate) fn of(raw: &str) -> Self {
        let canonical = match string(raw) {
            Some(text) => quote(&text),
            None => match raw.parse::<f64>() {
                // Up to 2^53 a float says which whole number it is.
                Ok(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                    (number as i64).to_string()
                }
                Ok(number) if number.fract() != 0.0 => number.to_string(),
                _ => raw.to_owned(),
            },
        };
        Self { spelling: raw.to_owned(), canonical }
    }

    /// An id that is a string.
    pub fn text(text: &str) -> Self {
        Self::of(&quote(text))
    }

    /// The string that spells this number, or the number that this string spells; `None` where
    /// there is none.
    pub(crate) fn other_type(&self) -> Option<Self> {
        match string(&self.canonical) {
            Some(text) => {
                let number: Result<serde_json::Number, _> = serde_json::from_str(&text);
                number.is_ok().then(|| Self::of(text.trim()))
            }
            None => Some(Self::text(&self.canonical)),
        }
    }

    /// Whether it is that id, or spells it as another type, as some servers do.
    pub(crate) fn answers(&self, other: &Self) -> bool {
        self == other || self.other_type().as_ref() == Some(other)
    }

    /// The id as JSON, as it was spelled.
    pub fn as_json(&self) -> &str {
        &self.spelling
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.canonical == other.canonical
    }
}

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.canonical.hash(state);
    }
}

/// What a message is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Asks for a response under this id.
    Request {
        /// The id.
        id: Id,
        /// What is asked for.
        method: String,
    },
    /// Asks for nothing.
    Notification {
        /// What it tells of.
        method: String,
    },
    /// Answers the request of this id.
    Response {
        /// The id; `None` where a server could not tell which request was wrong.
        id: Option<Id>,
    },
}

/// One JSON-RPC message. Its text is never written anew, only edited in places.
///
/// ```
/// use overspill_mcp::{Kind, Message};
///
/// let line = r#"{"jsonrpc":"2.0", "id":1.0, "method":"tools/call", "x":2.50}"#;
/// let message = Message::parse(line.to_owned())?.remove(0);
/// assert!(matches!(message.kind(), Kind::Request { method, .. } if method == "tools/call"));
/// assert_eq!(message.text(), line);
/// # Ok::<(), overspill_mcp::NotAMessage>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    text: String,
    kind: Kind,
    id: Range<usize>,
    /// The span of `params`, `result` or `error`; empty where there is none.
    body: Range<usize>,
    is_error: bool,
}

/// Why a text is no JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON-RPC message ({what}): {beginning}")]
pub struct NotAMessage {
    what: &'static str,
    beginning: String,
    /// The id that it has all the same.
    pub(crate) id: Option<Id>,
    is_json: bool,
    pub(crate) text: String,
}

impl Message {
    /// Reads a message, or the messages of a batch, which protocol revision 2025-03-26 had.
    ///
    /// # Errors
    ///
    /// [`NotAMessage`] where the text is not JSON, or JSON without a method and without a result.
    pub fn parse(text: String) -> Result<Vec<Self>, NotAMessage> {
        Self::each(text).into_iter().collect()
    }

    /// Reads a message, or the messages of a batch, of which some may be none.
    pub(crate) fn each(text: String) -> Vec<Result<Self, NotAMessage>> {
        // Some put a mark of the encoding before it.
        let text = match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        };
        if !text.trim_start().starts_with('[') {
            return match Self::one(text) {
                Err(error) if !error.is_json => match several(&error.text) {
                    Some(all) => all.into_iter().map(Self::one).collect(),
                    None => vec![Err(error)],
                },
                one => vec![one],
            };
        }
        match items(&text) {
            None => vec![Err(NotAMessage::new("not JSON", text))],
            Some(batch) if batch.is_empty() => vec![Err(NotAMessage::new("an empty batch", text))],
            Some(batch) => batch.into_iter().map(|item| Self::one(item.to_owned())).collect(),
        }
    }

    /// Reads one message.
    ///
    /// # Errors
    ///
    /// As [`Message::parse`], and for a batch.
    pub fn one(text: String) -> Result<Self, NotAMessage> {
        let Some(members) = Members::of(&text) else {
            return Err(NotAMessage::new("not a JSON object", text));
        };
        let id = members.some("id");
        let at = |part: Option<&str>| part.map_or(0..0, |part| span(&text, part));
        let (kind, body, is_error) = if let Some(method) = members.text("method") {
            let kind = match id {
                Some(id) => Kind::Request { id: Id::of(id), method },
                None => Kind::Notification { method },
            };
            (kind, at(members.some("params")), false)
        } else if let Some(error) = members.some("error") {
            (Kind::Response { id: id.map(Id::of) }, at(Some(error)), true)
        } else if let (Some(result), Some(id)) = (members.get("result"), id) {
            (Kind::Response { id: Some(Id::of(id)) }, at(Some(result)), false)
        } else {
            return Err(NotAMessage::new("neither a method nor a result", text));
        };
        let id = at(id);
        Ok(Self { kind, id, body, is_error, text })
    }

    /// What it is.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The request that this notification cancels.
    pub(crate) fn cancels(&self) -> Option<Id> {
        match &self.kind {
            Kind::Notification { method } if method == "notifications/cancelled" => {
                Members::of(self.params())?.some("requestId").map(Id::of)
            }
            _ => None,
        }
    }

    /// This error as the answer to that request.
    pub(crate) fn into_answer_to(self, id: &Id) -> Self {
        let text = refused(id.as_json(), self.error().unwrap_or("null"));
        Self::one(text).unwrap_or(self)
    }

    /// The id of a request.
    pub(crate) fn request_id(&self) -> Option<Id> {
        match &self.kind {
            Kind::Request { id, .. } => Some(id.clone()),
            _ => None,
        }
    }

    /// The text, as it came.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text, as it came.
    pub fn into_text(self) -> String {
        self.text
    }

    /// The parameters of a request or notification, as JSON; empty where there are none.
    pub fn params(&self) -> &str {
        match self.kind {
            Kind::Response { .. } => "",
            _ => &self.text[self.body.clone()],
        }
    }

    /// The result of a response, as JSON.
    pub fn result(&self) -> Option<&str> {
        match self.kind {
            Kind::Response { .. } if !self.is_error => Some(&self.text[self.body.clone()]),
            _ => None,
        }
    }

    /// The error of a response, as JSON.
    pub fn error(&self) -> Option<&str> {
        self.is_error.then(|| &self.text[self.body.clone()])
    }

    /// The text with another id.
    pub fn with_id(&self, id: &Id) -> String {
        if self.id.is_empty() || &self.text[self.id.clone()] == id.as_json() {
            return self.text.clone();
        }
        let mut edits = Edits::default();
        edits.replace(self.id.clone(), id.as_json());
        edits.apply(&self.text)
    }

    /// The text with other parameters, or another result.
    pub(crate) fn with_body(&self, body: &str) -> String {
        let mut edits = Edits::default();
        edits.replace(self.body.clone(), body);
        edits.apply(&self.text)
    }
}

impl NotAMessage {
    fn new(what: &'static str, text: String) -> Self {
        let id = json::loose_member(&text, "id").filter(|id| *id != "null").map(Id::of);
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        Self { what, beginning: text.chars().take(200).collect(), id, is_json, text }
    }

    /// Whether it may be meant as an answer.
    pub(crate) fn is_answer(&self) -> bool {
        self.id.is_some() && json::loose_member(&self.text, "method").is_none()
    }

    /// The response for whoever sent it, under its id where one could be read.
    pub(crate) fn answer(&self) -> String {
        let code = if self.is_json { INVALID_REQUEST } else { NOT_JSON };
        let id = self.id.as_ref().map_or("null", Id::as_json);
        refused(id, &error(code, &self.to_string()))
    }
}

/// The messages that stand behind one another on one line, where that is what it holds; last, what is
/// behind them and is none.
fn several(text: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut all =
        serde_json::Deserializer::from_str(text).into_iter::<&serde_json::value::RawValue>();
    let mut end = 0;
    while let Some(Ok(one)) = all.next() {
        found.push(one.get().to_owned());
        end = all.byte_offset();
    }
    let rest = text.get(end..)?.trim();
    if !rest.is_empty() {
        found.push(rest.to_owned());
    }
    (end > 0 && found.len() > 1).then_some(found)
}

/// The response that gives `result` to the request of that id.
pub(crate) fn response(id: &Id, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", id.as_json())
}

/// JSON-RPC's code for what is no JSON.
pub(crate) const NOT_JSON: i32 = -32700;
/// JSON-RPC's code for JSON that is no message.
const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC's code for what is unknown as a method.
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC's code for parameters that make no sense.
pub(crate) const INVALID_PARAMS: i32 = -32602;
/// JSON-RPC's code for what went wrong inside.
pub(crate) const INTERNAL: i32 = -32603;
/// MCP's code for a resource that is not there.
pub(crate) const NO_RESOURCE: i32 = -32002;

/// What says what went wrong, as JSON-RPC has it.
pub(crate) fn error(code: i32, what: &str) -> String {
    format!("{{\"code\":{code},\"message\":{}}}", quote(what))
}

/// The response that gives `error`, as JSON, to the request of that id.
pub(crate) fn refused(id: &str, error: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}")
}

/// The response that says what went wrong.
pub(crate) fn failure(id: &Id, code: i32, what: &str) -> String {
    refused(id.as_json(), &error(code, what))
}

/// The notification with which a client ends the opening of a session.
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The notification that a request needs no answer any more.
pub(crate) fn cancelled(id: &Id, why: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{},\"reason\":{}}}}}",
        id.as_json(),
        quote(why)
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// JSON values as programs spell them, white space and odd numbers included.
    fn value() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,9})?(e[+-]?[0-9]{1,2})?",
            "[ -~é]{0,12}".prop_map(|text| quote(&text)),
            Just(r#""\u00e9\ud83d\ude00\/""#.to_owned()),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            let white = prop_oneof![Just(""), Just(" "), Just("\t "), Just("\r")];
            prop_oneof![
                (proptest::collection::vec(inner.clone(), 0..4), white.clone())
                    .prop_map(|(items, white)| format!("[{white}{}{white}]", items.join(","))),
                (proptest::collection::vec(("[a-z_]{1,6}", inner), 0..4), white).prop_map(
                    |(members, white)| {
                        let members: Vec<String> = members
                            .into_iter()
                            .map(|(key, value)| format!("{white}\"{key}\"{white}:{value}"))
                            .collect();
                        format!("{{{}}}", members.join(","))
                    }
                ),
            ]
        })
    }

    fn id() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<i64>().prop_map(|id| id.to_string()),
            "[ -~]{0,9}".prop_map(|id| quote(&id)),
            Just("1.0".to_owned()),
        ]
    }

    proptest! {
        #[test]
        fn any_message_keeps_its_bytes(
            id in proptest::option::of(id()),
            what in 0..4,
            body in value(),
            more in value(),
        ) {
            let id = id.filter(|_| what != 1).unwrap_or_else(|| "7".to_owned());
            let text = match what {
                0 => format!(r#"{{"jsonrpc":"2.0","id": {id},"method":"m/n","params":{body},"x":{more}}}"#),
                1 => format!(r#"{{"x":{more},"method":"m","params":{body}}}"#),
                2 => format!(r#"{{ "result":{body},"x":{more} ,"id":{id} }}"#),
                _ => format!(r#"{{"error":{{"code":1,"data":{body}}},"id":{id},"x":{more}}}"#),
            };
            let message = Message::one(text.clone()).unwrap();
            prop_assert_eq!(message.text(), &text);
            match message.kind() {
                Kind::Request { id: read, method } => {
                    prop_assert!(what == 0 && method == "m/n" && read.as_json() == id);
                }
                Kind::Notification { method } => prop_assert!(what == 1 && method == "m"),
                Kind::Response { id: read } => {
                    prop_assert!(what > 1 && read.as_ref().map(Id::as_json) == Some(&id));
                }
            }
            if what != 1 {
                // Under another id and back under its own, nothing has changed.
                let other = Message::one(message.with_id(&Id::text("overspill:1"))).unwrap();
                let own = Id::of(&id);
                prop_assert_eq!(other.with_id(&own), text);
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,80}") {
            let _ = Message::parse(text);
        }
    }

    #[test]
    fn spellings_of_one_id_are_equal() {
        assert_eq!(Id::of("1"), Id::of("1.0"));
        assert_eq!(Id::of("1.50"), Id::of("15e-1"));
        assert_ne!(Id::of("1.5"), Id::of("1.25"));
        assert_eq!(Id::of("\"a\""), Id::of("\"\\u0061\""));
        assert_ne!(Id::of("1"), Id::of("\"1\""));
        assert_ne!(Id::of("9007199254740993"), Id::of("9007199254740992"));
    }

    #[test]
    fn a_batch_is_its_messages() {
        let text = r#"[{"method":"a"}, {"id":1,"method":"b"}]"#;
        let batch = Message::parse(text.to_owned()).unwrap();
        assert_eq!(
            batch.iter().map(Message::text).collect::<Vec<_>>(),
            [r#"{"method":"a"}"#, r#"{"id":1,"method":"b"}"#]
        );
    }

    #[test]
    fn what_is_no_message_says_so() {
        for (text, code, id) in [
            ("Server listening", -32700, "null"),
            ("", -32700, "null"),
            ("{\"id\":1,", -32700, "1"),
            (r#"{"id":1,"method":"m","params":NaN}"#, -32700, "1"),
            ("[{\"id\":1},", -32700, "null"),
            ("{}", -32600, "null"),
            (r#"{"id":1}"#, -32600, "1"),
            (r#"{"id":"a","method":7}"#, -32600, r#""a""#),
            ("7", -32600, "null"),
            (r#"{"result":1}"#, -32600, "null"),
            ("[1]", -32600, "null"),
            ("[]", -32600, "null"),
        ] {
            let error = Message::parse(text.to_owned()).unwrap_err();
            let answer: serde_json::Value = serde_json::from_str(&error.answer()).unwrap();
            assert_eq!(answer["error"]["code"], code, "{text}");
            assert_eq!(answer["id"].to_string(), id, "{text}");
        }
    }

    #[test]
    fn messages_on_one_line_are_told_apart() {
        let each = |text: &str| {
            let each = Message::each(text.to_owned());
            each.iter().map(|one| one.as_ref().map(Message::text).ok().map(str::to_owned)).collect()
        };
        let (a, b) = (r#"{"method":"a"}"#.to_owned(), r#"{"id":1,"method":"b"}"#.to_owned());
        let both: Vec<Option<String>> = each(&format!("{a} {b}"));
        assert_eq!(both, [Some(a.clone()), Some(b)]);
        let marked: Vec<Option<String>> = each(&format!("\u{feff}{a}"));
        assert_eq!(marked, [Some(a.clone())]);
        let broken: Vec<Option<String>> = each(&format!("{a}{{"));
        assert_eq!(broken, [Some(a.clone()), None]);
        let broken = Message::each(format!(r#"{a}{{"id":7,"result":NaN}}"#));
        assert_eq!(broken[1].as_ref().unwrap_err().id, Some(Id::of("7")));
        for text in ["1 2", "{} x", "x {}"] {
            assert!(Message::each(text.to_owned()).iter().all(Result::is_err), "{text}");
        }
    }

    #[test]
    fn what_is_none_in_a_batch_takes_nothing_with_it() {
        let text = r#"[{"method":"a"}, 7, {"id":1,"method":"b"}]"#;
        let each = Message::each(text.to_owned());
        assert_eq!(each.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    }
}
