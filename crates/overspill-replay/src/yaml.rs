//! YAML read into the same values as JSON, with plain scalars resolved as YAML 1.1 does.
//!
//! Cassettes are written by many libraries, most of them in Python or Go, whose readers follow
//! YAML 1.1; so `yes` is a boolean here. Dates and sexagesimal numbers stay strings.

use std::borrow::Cow;
use std::collections::HashMap;

use data_encoding::BASE64;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag};

use crate::json::Json;

/// How deep collections may nest: as deep as the JSON reader allows.
const DEEPEST: usize = 128;
/// How many bytes anchors, aliases and keys that are collections may copy, so that a small file
/// cannot fill the memory.
const MOST_COPIED: usize = 64 << 20;

/// Why a text is not YAML that can be read.
#[derive(Debug)]
pub(crate) struct YamlError {
    pub(crate) line: usize,
    pub(crate) reason: String,
}

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> Self {
        Self { line: error.marker().line(), reason: error.info().to_owned() }
    }
}

/// Reads all documents of a text.
pub(crate) fn parse(text: &str) -> Result<Vec<Json<'_>>, YamlError> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event?;
        builder
            .event(event)
            .map_err(|reason| YamlError { line: span.start.line(), reason: reason.to_owned() })?;
    }
    Ok(builder.documents)
}

/// A collection that is not closed yet.
enum Open<'a> {
    List(Vec<Json<'a>>),
    Map(Vec<(Cow<'a, str>, Json<'a>)>, Option<Cow<'a, str>>),
}

#[derive(Default)]
struct Builder<'a> {
    documents: Vec<Json<'a>>,
    open: Vec<(Open<'a>, usize)>,
    anchors: HashMap<usize, Json<'a>>,
    copied: usize,
}

impl<'a> Builder<'a> {
    fn event(&mut self, event: Event<'a>) -> Result<(), &'static str> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.value(scalar(text, style, tag.as_deref()), anchor)?;
            }
            Event::SequenceStart(anchor, _) => self.open(Open::List(Vec::new()), anchor)?,
            Event::MappingStart(anchor, _) => self.open(Open::Map(Vec::new(), None), anchor)?,
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some((Open::List(list), anchor)) => self.value(Json::List(list), anchor)?,
                Some((Open::Map(pairs, _), anchor)) => self.value(Json::map(pairs), anchor)?,
                None => {}
            },
            Event::Alias(anchor) => {
                let value = match self.anchors.get(&anchor) {
                    Some(value) => copy(value, &mut self.copied)?,
                    None => Json::Null,
                };
                self.value(value, 0)?;
            }
            Event::DocumentStart(_) => self.anchors.clear(),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Ok(())
    }

    fn open(&mut self, open: Open<'a>, anchor: usize) -> Result<(), &'static str> {
        if self.open.len() == DEEPEST {
            return Err("collections nest too deep");
        }
        self.open.push((open, anchor));
        Ok(())
    }

    fn value(&mut self, value: Json<'a>, anchor: usize) -> Result<(), &'static str> {
        if anchor > 0 {
            let copy = copy(&value, &mut self.copied)?;
            self.anchors.insert(anchor, copy);
        }
        match self.open.last_mut() {
            None => self.documents.push(value),
            Some((Open::List(list), _)) => list.push(value),
            Some((Open::Map(pairs, key), _)) => match key.take() {
                Some(key) => pairs.push((key, value)),
                None => {
                    *key = Some(match value {
                        Json::Str(text) => text,
                        other => {
                            let text = other.text().into_owned();
                            charge(text.len(), &mut self.copied)?;
                            Cow::Owned(text)
                        }
                    });
                }
            },
        }
        Ok(())
    }
}

fn copy<'a>(value: &Json<'a>, copied: &mut usize) -> Result<Json<'a>, &'static str> {
    charge(size(value), copied)?;
    Ok(value.clone())
}

fn charge(bytes: usize, copied: &mut usize) -> Result<(), &'static str> {
    *copied += bytes;
    if *copied > MOST_COPIED { Err("it repeats too much of itself") } else { Ok(()) }
}

/// The bytes of a value, about.
fn size(value: &Json<'_>) -> usize {
    let inner = match value {
        Json::Str(text) => text.len(),
        Json::List(list) => list.iter().map(size).sum(),
        Json::Map(map) => map.iter().map(|(key, value)| key.len() + size(value)).sum(),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) => 0,
    };
    size_of::<Json<'_>>() + inner
}

fn scalar<'a>(text: Cow<'a, str>, style: ScalarStyle, tag: Option<&Tag>) -> Json<'a> {
    match tag.filter(|tag| tag.is_yaml_core_schema()).map(|tag| tag.suffix.as_str()) {
        Some("binary") => {
            let compact: String = text.split_whitespace().collect();
            match BASE64.decode(compact.as_bytes()) {
                Ok(bytes) => Json::Str(String::from_utf8_lossy(&bytes).into_owned().into()),
                Err(_) => Json::Str(text),
            }
        }
        Some("str") => Json::Str(text),
        Some(_) => plain(text),
        None if style == ScalarStyle::Plain => plain(text),
        None => Json::Str(text),
    }
}

fn plain(text: Cow<'_, str>) -> Json<'_> {
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => return Json::Null,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Json::Bool(true);
        }
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Json::Bool(false);
        }
        _ => {}
    }
    match integer(&text).map(Json::Int).or_else(|| float(&text).map(Json::Float)) {
        Some(number) => number,
        None => Json::Str(text),
    }
}

fn integer(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let digits = digits.replace('_', "");
    let (digits, radix) = if let Some(hex) = digits.strip_prefix("0x") {
        (hex, 16)
    } else if let Some(binary) = digits.strip_prefix("0b") {
        (binary, 2)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (&digits[1..], 8)
    } else {
        (&*digits, 10)
    };
    i128::from_str_radix(digits, radix).ok()?.checked_mul(sign)
}

/// A float has a point; an exponent, if any, has a sign.
fn float(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "+0"));
    let plain = mantissa.contains('.')
        && mantissa.contains(|c: char| c.is_ascii_digit())
        && mantissa.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '_'))
        && exponent.starts_with(['-', '+']);
    plain.then(|| text.replace('_', "").parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(yaml: &str, json: &str) {
        let documents = parse(yaml).unwrap();
        assert_eq!(Json::List(documents).text(), json);
    }

    #[test]
    fn documents_become_json() {
        check("a: 1\nb: [x, 'y', 2.5, ~]\n", r#"[{"a": 1, "b": ["x", "y", 2.5, null]}]"#);
        check("---\na: |\n  one\n  two\n---\nb: yes\n", r#"[{"a": "one\ntwo\n"}, {"b": true}]"#);
        check("a: &x [1]\nb: *x\nc: !!binary aGk=\n", r#"[{"a": [1], "b": [1], "c": "hi"}]"#);
        check(
            "[0x10, 010, 1_000, -7, 1e3, 1.0e+3, 1.2.3, .5]\n",
            r#"[[16, 8, 1000, -7, "1e3", 1000.0, "1.2.3", 0.5]]"#,
        );
    }

    #[test]
    fn what_grows_without_end_is_refused() {
        let deep = "[".repeat(100_000);
        assert!(parse(&deep).is_err());
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for i in 1..12 {
            let refs = vec![format!("*a{}", i - 1); 10].join(", ");
            bomb += &format!("a{i}: &a{i} [{refs}]\n");
        }
        assert!(parse(&bomb).is_err());
        let big = "x".repeat(1 << 20);
        let text = format!("- &a \"{big}\"\n- [{}]\n", "*a, ".repeat(1_000));
        assert!(parse(&text).is_err());
        let anchors: String = (0..100).map(|i| format!("&a{i} [")).collect();
        let text = format!("{anchors}\"{big}\"{}", "]".repeat(100));
        assert!(parse(&text).is_err());
        // Each level of a map in a key escapes the quotes of the one below once more.
        let text = format!("{}\"\\\"\"{}", "{".repeat(60), ": 1}".repeat(60));
        assert!(parse(&text).is_err());
    }

    #[test]
    fn what_repeats_a_little_is_read() {
        check(
            "- &a {k: \"v\"}\n- *a\n- {[1, 2]: *a}\n",
            r#"[[{"k": "v"}, {"k": "v"}, {"[1, 2]": {"k": "v"}}]]"#,
        );
    }
}
