//! Logs of Inspect, the evaluation framework, in their JSON form.

use std::borrow::Cow;
use std::collections::HashMap;

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
    let messages = sample.at("messages");
    let mut attachments = Attachments::of(sample.at("attachments"));
    if attachments.texts.is_empty() {
        messages::openai(messages.list(), &mut to);
    } else {
        messages::openai(attachments.restored(messages).list(), &mut to);
    }
    to
}

/// The long strings of a sample, to be put back in their places.
struct Attachments<'v> {
    texts: HashMap<&'v str, &'v str>,
    /// How many bytes may still be put back. A name is short, so without a bound a small log
    /// could fill the memory.
    left: usize,
}

/// How often, on average, a sample may put each of its attachments back. They are texts that
/// stand in several places, but of the messages a place or two.
const MOST_PLACES: usize = 16;

impl<'v> Attachments<'v> {
    fn of(attachments: &'v Json<'_>) -> Self {
        let texts: HashMap<&str, &str> = match attachments {
            Json::Map(map) => {
                map.iter().filter_map(|(name, text)| Some((&**name, text.as_str()?))).collect()
            }
            _ => HashMap::new(),
        };
        let left = MOST_PLACES * texts.values().map(|text| text.len()).sum::<usize>();
        Self { texts, left }
    }

    /// The value with its attachments back in their places.
    fn restored<'a>(&mut self, value: &'a Json<'_>) -> Json<'a> {
        match value {
            Json::Null => Json::Null,
            Json::Bool(b) => Json::Bool(*b),
            Json::Int(n) => Json::Int(*n),
            Json::Float(f) => Json::Float(*f),
            Json::Str(text) => Json::Str(self.restored_text(text)),
            Json::List(list) => Json::List(list.iter().map(|v| self.restored(v)).collect()),
            Json::Map(map) => Json::Map(
                map.iter().map(|(k, v)| (Cow::Borrowed(&**k), self.restored(v))).collect(),
            ),
        }
    }

    fn restored_text<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
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
            match self.texts.get(name).filter(|text| text.len() <= self.left) {
                Some(attachment) => {
                    self.left -= attachment.len();
                    out.push_str(attachment);
                }
                None => out.push_str(&found[..ATTACHMENT.len() + name.len()]),
            }
            rest = &found[ATTACHMENT.len() + name.len()..];
        }
        out.push_str(rest);
        Cow::Owned(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_are_put_back_but_not_without_end() {
        let restored = |text: &str, attachments: &str| {
            let attachments = Json::parse(attachments).unwrap();
            Attachments::of(&attachments).restored_text(text).into_owned()
        };
        let texts = r#"{"a1": "x", "b": "yy", "c": 3}"#;
        assert_eq!(
            restored("attachment://a1, attachment://b!attachment://c attachment://d", texts),
            "x, yy!attachment://c attachment://d"
        );
        let texts = format!(r#"{{"a": "{}"}}"#, "x".repeat(100_000));
        let bomb = "attachment://a ".repeat(100_000);
        assert!(restored(&bomb, &texts).len() < 4_000_000);
    }
}
