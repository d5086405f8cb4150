//! A JSON value that borrows from its text and prints as Python's `json.dumps` does.
//!
//! Recordings come from many programs, and sizes of what they hold are compared with figures that
//! a Python program computed. So numbers and separators print here as they print there, keys keep
//! their order, and escapes that stand for half a surrogate pair are read instead of refused.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use hashbrown::{HashMap, HashSet};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(Cow<'a, str>),
    List(Vec<Self>),
    Map(Vec<(Cow<'a, str>, Self)>),
}

/// Up to this many keys, comparing each with each is faster than hashing them.
const FEW: usize = 12;

static NULL: Json<'static> = Json::Null;

impl<'a> Json<'a> {
    /// Reads one JSON text, with the two liberties Python's reader takes: halves of surrogate
    /// pairs (each read as U+FFFD) and the words `NaN`, `Infinity` and `-Infinity` (read as null).
    pub(crate) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text).or_else(|error| match mend(text) {
            Some(mended) => {
                serde_json::from_str::<Json<'_>>(&mended).map(Json::into_owned).map_err(|_| error)
            }
            None => Err(error),
        })
    }

    pub(crate) fn into_owned<'b>(self) -> Json<'b> {
        match self {
            Json::Null => Json::Null,
            Json::Bool(b) => Json::Bool(b),
            Json::Int(n) => Json::Int(n),
            Json::Float(f) => Json::Float(f),
            Json::Str(s) => Json::Str(Cow::Owned(s.into_owned())),
            Json::List(list) => Json::List(list.into_iter().map(Json::into_owned).collect()),
            Json::Map(map) => Json::Map(
                map.into_iter()
                    .map(|(k, v)| (Cow::Owned(k.into_owned()), v.into_owned()))
                    .collect(),
            ),
        }
    }

    /// The value at a key; null where there is none.
    pub(crate) fn at(&self, key: &str) -> &Self {
        match self {
            Json::Map(map) => map.iter().find(|(k, _)| k == key).map_or(&NULL, |(_, v)| v),
            _ => &NULL,
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        matches!(self, Json::Map(map) if map.iter().any(|(k, _)| k == key))
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Json::Str(s) => Some(s),
            _ => None,
        }
    }

    /// The string, or the empty one for any other value.
    pub(crate) fn str(&self) -> &str {
        self.as_str().unwrap_or_default()
    }

    /// The elements, or none for any other value.
    pub(crate) fn list(&self) -> &[Self] {
        match self {
            Json::List(list) => list,
            _ => &[],
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Json::Null)
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self, Json::Map(_))
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self, Json::List(_))
    }

    /// What Python's `if value` asks: anything but null, false, zero and the empty.
    pub(crate) fn truthy(&self) -> bool {
        match self {
            Json::Null => false,
            Json::Bool(b) => *b,
            Json::Int(n) => *n != 0,
            Json::Float(f) => *f != 0.0,
            Json::Str(s) => !s.is_empty(),
            Json::List(list) => !list.is_empty(),
            Json::Map(map) => !map.is_empty(),
        }
    }

    /// What Python's `a or b` gives.
    pub(crate) fn or<'v>(&'v self, other: &'v Self) -> &'v Self {
        if self.truthy() { self } else { other }
    }

    /// A string as it is, anything else as compact-but-spaced JSON.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Json::Str(s) => Cow::Borrowed(s),
            other => {
                let mut out = String::new();
                other.dump(&mut out);
                Cow::Owned(out)
            }
        }
    }

    /// Calls `leaf` with every string below this value, and with numbers and booleans as Python
    /// prints them; null and keys are left out.
    pub(crate) fn leaves(&self, leaf: &mut impl FnMut(&str)) {
        match self {
            Json::Null => {}
            Json::Bool(b) => leaf(if *b { "True" } else { "False" }),
            Json::Str(s) => leaf(s),
            Json::List(list) => list.iter().for_each(|v| v.leaves(leaf)),
            Json::Map(map) => map.iter().for_each(|(_, v)| v.leaves(leaf)),
            Json::Int(_) | Json::Float(_) => leaf(&self.text()),
        }
    }

    fn dump(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Json::Int(n) => push(out, format_args!("{n}")),
            Json::Float(f) => dump_float(*f, out),
            Json::Str(s) => dump_str(s, out),
            Json::List(list) => {
                out.push('[');
                for (i, value) in list.iter().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    value.dump(out);
                }
                out.push(']');
            }
            Json::Map(map) => {
                out.push('{');
                for (i, (key, value)) in map.iter().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    dump_str(key, out);
                    out.push_str(": ");
                    value.dump(out);
                }
                out.push('}');
            }
        }
    }

    /// A map from its pairs: of keys that repeat, the last value at the first place.
    pub(crate) fn map(pairs: Vec<(Cow<'a, str>, Self)>) -> Self {
        let distinct = if pairs.len() <= FEW {
            pairs.iter().enumerate().all(|(i, (key, _))| pairs[..i].iter().all(|(k, _)| k != key))
        } else {
            let mut seen = HashSet::with_capacity(pairs.len());
            pairs.iter().all(|(key, _)| seen.insert(&**key))
        };
        if distinct {
            return Json::Map(pairs);
        }
        let mut at: HashMap<Cow<'a, str>, usize> = HashMap::new();
        let mut map: Vec<(Cow<'a, str>, Self)> = Vec::new();
        for (key, value) in pairs {
            match at.get(&key) {
                Some(&i) => map[i].1 = value,
                None => {
                    at.insert(key.clone(), map.len());
                    map.push((key, value));
                }
            }
        }
        Json::Map(map)
    }
}

fn push(out: &mut String, args: fmt::Arguments<'_>) {
    // Writing to a `String` cannot fail.
    let _ = out.write_fmt(args);
}

fn dump_str(text: &str, out: &mut String) {
    out.push('"');
    let mut from = 0;
    for (i, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0c => "\\f",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[from..i]);
        from = i + 1;
        if escape.is_empty() {
            push(out, format_args!("\\u{byte:04x}"));
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&text[from..]);
    out.push('"');
}

/// Prints a float as Python's `repr` does: the shortest digits that read back, an exponent of two
/// digits or more below 1e-4 and from 1e16 on.
fn dump_float(value: f64, out: &mut String) {
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return out.push_str(&scientific);
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        return push(out, format_args!("{value:?}"));
    }
    out.push_str(digits);
    let sign = if exponent < 0 { '-' } else { '+' };
    push(out, format_args!("e{sign}{:02}", exponent.unsigned_abs()));
}

/// Rewrites what Python reads and strict readers refuse; `None` where there is nothing to mend.
fn mend(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let (mut from, mut i, mut in_string) = (0, 0, false);
    while i < bytes.len() {
        match bytes[i] {
            b'"' => in_string = !in_string,
            b'\\' if in_string => {
                match (unit(bytes, i), unit(bytes, i + 6)) {
                    (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => i += 11,
                    (Some(0xd800..0xe000), _) => {
                        out.push_str(&text[from..i]);
                        out.push_str("\\ufffd");
                        from = i + 6;
                        i += 5;
                    }
                    _ => i += 1,
                };
            }
            b'N' | b'I' | b'-' if !in_string => {
                let word = ["NaN", "Infinity", "-Infinity"]
                    .into_iter()
                    .find(|word| bytes[i..].starts_with(word.as_bytes()));
                if let Some(word) = word {
                    out.push_str(&text[from..i]);
                    out.push_str("null");
                    from = i + word.len();
                    i = from - 1;
                }
            }
            _ => {}
        }
        i += 1;
    }
    (from > 0).then(|| out + &text[from..])
}

/// The UTF-16 unit of the escape `\uXXXX` that starts at `at`.
fn unit(bytes: &[u8], at: usize) -> Option<u32> {
    let hex = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u32::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor(std::marker::PhantomData))
    }
}

struct ValueVisitor<'a>(std::marker::PhantomData<&'a ()>);

impl<'de: 'a, 'a> Visitor<'de> for ValueVisitor<'a> {
    type Value = Json<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json<'a>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'a>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'a>, E> {
        Ok(Json::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'a>, E> {
        Ok(Json::Int(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json<'a>, E> {
        Ok(Json::Float(value))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Json<'a>, E> {
        Ok(Json::Str(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json<'a>, E> {
        Ok(Json::Str(Cow::Owned(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Json<'a>, E> {
        Ok(Json::Str(Cow::Owned(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json<'a>, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element()? {
            list.push(value);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json<'a>, A::Error> {
        let mut pairs = Vec::new();
        while let Some((Key(key), value)) = access.next_entry()? {
            pairs.push((key, value));
        }
        Ok(Json::map(pairs))
    }
}

struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor<'a>(std::marker::PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for KeyVisitor<'a> {
            type Value = Key<'a>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Key<'a>, E> {
                Ok(Key(Cow::Borrowed(value)))
            }
            fn visit_str<E>(self, value: &str) -> Result<Key<'a>, E> {
                Ok(Key(Cow::Owned(value.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, printed: &str) {
        assert_eq!(Json::parse(text).unwrap().text(), printed);
    }

    #[test]
    fn prints_as_python_does() {
        check(
            r#"{"a":[1,2.0,1e16,1e-5,1.5e300],"b":null,"c":true}"#,
            r#"{"a": [1, 2.0, 1e+16, 1e-05, 1.5e+300], "b": null, "c": true}"#,
        );
        check(
            r#"["0.0001", 0.0001, 123456789012345.6, 0.1, -0.5]"#,
            r#"["0.0001", 0.0001, 123456789012345.6, 0.1, -0.5]"#,
        );
        check(r#"["\u00e9\u0001\u007f\/\"\\"]"#, "[\"é\\u0001\u{7f}/\\\"\\\\\"]");
        check(r#"{"a":1,"b":2,"a":3}"#, r#"{"a": 3, "b": 2}"#);
    }

    #[test]
    fn reads_halves_of_surrogate_pairs_and_nan() {
        check(r#""a\ud83dz""#, "a\u{fffd}z");
        check(
            r#"["\\ud83d","\ud83d\ude00","\ude00",NaN,-Infinity]"#,
            "[\"\\\\ud83d\", \"😀\", \"\u{fffd}\", null, null]",
        );
        assert!(Json::parse("{\"a\": \"\\ud83d\", ").is_err());
    }
}
