//! The text of a message's content, whichever provider's shape it has.

use std::borrow::Cow;

use crate::json::Json;

/// Types of blocks that are not text.
const MEDIA_TYPES: [&str; 8] =
    ["document", "input_file", "file", "audio", "input_audio", "video", "media", "image"];
/// Keys whose presence says the same.
const MEDIA_KEYS: [&str; 7] =
    ["inlineData", "inline_data", "image", "document", "video", "audio", "fileData"];

/// The text of a content value: blocks joined by line ends, media left out, blocks of no known
/// kind as JSON.
pub(super) fn text<'v>(content: &'v Json<'_>) -> Cow<'v, str> {
    match content {
        Json::Null => Cow::Borrowed(""),
        Json::List(blocks) => texts(blocks),
        Json::Map(_) => texts(std::slice::from_ref(content)),
        other => other.text(),
    }
}

/// The text of one block of a content list.
pub(super) fn block<'v>(block: &'v Json<'_>) -> Cow<'v, str> {
    texts(std::slice::from_ref(block))
}

fn texts<'v>(blocks: &'v [Json<'_>]) -> Cow<'v, str> {
    let mut texts = blocks.iter().filter_map(block_text);
    let Some(first) = texts.next() else {
        return Cow::Borrowed("");
    };
    let Some(second) = texts.next() else {
        return first;
    };
    let mut joined = first.into_owned();
    for text in std::iter::once(second).chain(texts) {
        joined.push('\n');
        joined.push_str(&text);
    }
    Cow::Owned(joined)
}

fn block_text<'v>(block: &'v Json<'_>) -> Option<Cow<'v, str>> {
    if !block.is_map() {
        return Some(block.text());
    }
    let source = block.at("source");
    if source.at("type").str() == "text" {
        return Some(source.at("data").text_or_empty());
    }
    let kind = block.at("type").str();
    if kind.contains("image")
        || MEDIA_TYPES.contains(&kind)
        || MEDIA_KEYS.iter().any(|key| block.has(key))
    {
        return None;
    }
    for key in ["text", "thinking", "reasoning", "content", "output"] {
        let value = block.at(key);
        if !value.is_null() {
            return Some(text(value));
        }
    }
    (!matches!(kind, "tool_use" | "redacted_thinking")).then(|| block.text())
}

impl Json<'_> {
    /// The text of a value; of null, none.
    pub(super) fn text_or_empty(&self) -> Cow<'_, str> {
        if self.is_null() { Cow::Borrowed("") } else { self.text() }
    }
}
