//! JSON texts as the spans of their members, and edits spliced between them.
//!
//! Reading into values would lose what must be kept: the order of keys, repeated keys, the
//! spelling of numbers and escapes. A text is taken apart one level at a time, so that what nobody
//! looks into is stepped over and never held.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::long::Unescape;

/// The members of an object, in order and with repeated keys.
#[derive(Debug, Default)]
pub(crate) struct Members<'t>(Vec<(String, &'t RawValue)>);

impl<'t> Members<'t> {
    /// The members of the object that `text` is; `None` where it is no object.
    pub(crate) fn of(text: &'t str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The value of that key as the text spells it. Of repeated keys the last counts, as it does
    /// for nearly every reader.
    pub(crate) fn get(&self, key: &str) -> Option<&'t str> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.get())
    }

    /// The same, if it is not null.
    pub(crate) fn some(&self, key: &str) -> Option<&'t str> {
        self.get(key).filter(|value| *value != "null")
    }

    /// The string under that key, decoded.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(string)
    }

    /// The object under that key.
    pub(crate) fn object(&self, key: &str) -> Option<Self> {
        self.get(key).and_then(Self::of)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'t str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.get()))
    }
}

impl<'de: 't, 't> Deserialize<'de> for Members<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

/// A member of an object: its key, its value, and where both are together.
pub(crate) type Placed<'t> = (String, &'t str, Range<usize>);

/// The value of that key; of repeated keys the last counts.
pub(crate) fn last<'t>(members: &[Placed<'t>], key: &str) -> Option<&'t str> {
    members.iter().rev().find(|(name, ..)| name == key).map(|(_, value, _)| *value)
}

/// The members of an object with where they are; nothing where it is no object.
pub(crate) fn placed(object: &str) -> Vec<Placed<'_>> {
    let mut end = 0;
    let members = Members::of(object).unwrap_or_default().0;
    let placed = members.into_iter().map(|(key, value)| {
        // Between a value and the next key there is no other quote.
        let start = end + object[end..].find('"').unwrap_or(0);
        end = span(object, value.get()).end;
        (key, value.get(), start..end)
    });
    placed.collect()
}

/// The literal that a text which is no JSON has under a key of its outermost object all the same: a
/// string, a number or a word.
pub(crate) fn loose_member<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let bytes = text.as_bytes();
    let quoted = quote(key);
    let (mut depth, mut at, mut is_value) = (0_usize, 0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at)?;
                let rest = text.get(end..)?;
                if depth == 1 && !is_value && text.get(at..end) == Some(quoted.as_str()) {
                    let value = rest.trim_start().strip_prefix(':')?.trim_start();
                    let end = match value.strip_prefix('"') {
                        Some(_) => string_end(value.as_bytes(), 0)?,
                        None => value.find(|it: char| ",}] \t\r\n".contains(it))?,
                    };
                    return value.get(..end);
                }
                at = end;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b':' if depth == 1 => is_value = true,
            b',' if depth == 1 => is_value = false,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Where the string that begins at `from` ends, its quote included.
fn string_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        match bytes[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

/// The elements of the list that `text` is; `None` where it is no list.
pub(crate) fn items(text: &str) -> Option<Vec<&str>> {
    let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(items.into_iter().map(RawValue::get).collect())
}

/// The text of a string literal; `None` for anything else, and for half a surrogate pair.
pub(crate) fn string(literal: &str) -> Option<String> {
    let inner = literal.strip_prefix('"')?;
    if literal.len() < BIG {
        return serde_json::from_str(literal).ok();
    }
    let mut unescape = Unescape::default();
    let text = unescape.push(inner.strip_suffix('"')?.as_bytes()).ok()?;
    unescape.finish().ok()?;
    String::from_utf8(text).ok()
}

/// From so many bytes on, a string is decoded here: serde_json would hold it twice meanwhile.
const BIG: usize = 64 * 1024;

/// The literal of a text.
pub(crate) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Where `part`, a slice of `whole`, is in it.
pub(crate) fn span(whole: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    start..start + part.len()
}

/// The text without the white space between its tokens: equal for two spellings that differ in
/// nothing else.
pub(crate) fn packed(text: &str) -> Cow<'_, str> {
    let is_white = |b: &u8| matches!(b, b' ' | b'\n' | b'\r' | b'\t');
    if !text.bytes().any(|b| is_white(&b)) {
        return text.into();
    }
    let (mut packed, mut from, mut in_string) = (String::with_capacity(text.len()), 0, false);
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            b if !in_string && is_white(&b) => {
                packed.push_str(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    packed.push_str(&text[from..]);
    packed.into()
}

/// What is to stand in the place of some spans of a text.
#[derive(Debug, Default)]
pub(crate) struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    /// Puts `new` in the place of `span`. Spans must not overlap.
    pub(crate) fn replace(&mut self, span: Range<usize>, new: impl Into<String>) {
        self.0.push((span, new.into()));
    }

    /// Puts `new` in the place of `part`, a slice of `whole`.
    pub(crate) fn replace_part(&mut self, whole: &str, part: &str, new: impl Into<String>) {
        self.replace(span(whole, part), new);
    }

    /// Adds a member to `object`, an object in `whole`, behind those it has.
    pub(crate) fn add_member(&mut self, whole: &str, object: &str, key: &str, value: &str) {
        self.add(whole, object, &format!("{}:{value}", quote(key)));
    }

    /// Adds an element to `list`, a list in `whole`, behind those it has.
    pub(crate) fn add_item(&mut self, whole: &str, list: &str, item: &str) {
        self.add(whole, list, item);
    }

    fn add(&mut self, whole: &str, container: &str, text: &str) {
        let end = span(whole, container).end.saturating_sub(1);
        let inside = container.get(1..container.len().saturating_sub(1)).unwrap_or_default();
        let comma = if inside.trim().is_empty() { "" } else { "," };
        self.replace(end..end, format!("{comma}{text}"));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text with all of it done.
    pub(crate) fn apply(mut self, text: &str) -> String {
        self.0.sort_by_key(|(span, _)| (span.start, span.end));
        let grown: usize = self.0.iter().map(|(_, new)| new.len()).sum();
        let cut: usize = self.0.iter().map(|(span, _)| span.len()).sum();
        let mut out = String::with_capacity((text.len() + grown).saturating_sub(cut));
        let mut from = 0;
        for (span, new) in self.0 {
            out.push_str(text.get(from..span.start).unwrap_or_default());
            out.push_str(&new);
            from = from.max(span.end);
        }
        out.push_str(text.get(from..).unwrap_or_default());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_spelling_and_the_last_of_a_key_counts() {
        let text = r#"{ "a" : 1.0, "b":[2,  3], "a":1e2 }"#;
        let members = Members::of(text).unwrap();
        assert_eq!(members.get("a"), Some("1e2"));
        assert_eq!(members.get("b"), Some("[2,  3]"));
        assert_eq!(&text[span(text, members.get("b").unwrap())], "[2,  3]");
        assert!(Members::of("[1]").is_none());
    }

    #[test]
    fn a_member_is_found_with_its_key_however_that_is_spelled() {
        let text = r#"{ "a\"b" : "c\"" ,"\u0061":[{"x":1}], "":2 }"#;
        let found: Vec<(String, &str)> =
            placed(text).into_iter().map(|(key, _, at)| (key, &text[at])).collect();
        let expected =
            [("a\"b", r#""a\"b" : "c\"""#), ("a", r#""\u0061":[{"x":1}]"#), ("", r#""":2"#)];
        assert_eq!(found, expected.map(|(key, member)| (key.to_owned(), member)));
    }

    #[test]
    fn edits_touch_nothing_else() {
        let text = r#"{ "a": [ ], "b": [1 ] , "c": {"x":1}}"#;
        let members = Members::of(text).unwrap();
        let mut edits = Edits::default();
        edits.add_item(text, members.get("a").unwrap(), "7");
        edits.add_item(text, members.get("b").unwrap(), "7");
        edits.add_member(text, members.get("c").unwrap(), "y", "2");
        edits.add_member(text, text, "d", "null");
        assert_eq!(edits.apply(text), r#"{ "a": [ 7], "b": [1 ,7] , "c": {"x":1,"y":2},"d":null}"#);
    }

    #[test]
    fn a_big_string_is_what_a_small_one_is() {
        for text in ["é😀\n\"\\", "plain", "\u{1}"] {
            for times in [1, BIG] {
                let text = text.repeat(times);
                assert!(string(&quote(&text)) == Some(text));
            }
        }
        for padding in ["", &"x".repeat(BIG)] {
            assert_eq!(string(&format!("\"{padding}\\ud800\"")), None);
            assert!(
                string(&format!("\"{padding}\\u00e9\"")).is_some_and(|text| text.ends_with('é'))
            );
        }
        assert_eq!(string(&"7".repeat(BIG)), None);
    }

    #[test]
    fn a_member_is_found_in_what_is_no_json() {
        for (text, id) in [
            (r#"{"id":1,"result":NaN}"#, Some("1")),
            (r#"{"result":{"id":2,"x":[1,{"id":3}]}, "id" : "a\"b" ,"#, Some(r#""a\"b""#)),
            (r#"{"x":"id","id":7}"#, Some("7")),
            ("\u{feff}{\"a\":\"\u{1}\",\"id\":null}", Some("null")),
            (r#"{"x":"\"id\":1"}"#, None),
            (r#"{"id""#, None),
            (r#"{"id":"#, None),
            ("}}", None),
            ("\"id\":1", None),
        ] {
            assert_eq!(loose_member(text, "id"), id, "{text}");
        }
    }

    #[test]
    fn packing_leaves_strings_alone() {
        assert_eq!(packed("{ \"a b\\\" \" :\n[1, 2] }"), "{\"a b\\\" \":[1,2]}");
        assert_eq!(packed("[1]"), "[1]");
    }
}
