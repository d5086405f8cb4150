//! Writes what a tool returned as text: structured values as JSON, bytes with what is not UTF-8
//! made visible.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};

use memchr::memchr2_iter;
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// How structured values are written before they are measured and stored.
///
/// Numbers are written as `serde_json` writes them. The two styles of several lines also escape
/// U+0085, U+2028 and U+2029 in strings: many programs take them for line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JsonStyle {
    /// On one line without spaces.
    #[default]
    Compact,
    /// Indented by two spaces.
    Indented,
    /// One element of the outer list a line, an empty list as nothing; any other value on one
    /// line. So every line is a JSON value.
    Lines,
}

/// How much [`write_json`] gathers before it writes to its sink.
const CHUNK: usize = 64 * 1024;

/// Writes `value` in `style`.
///
/// ```
/// use overspill::render::{JsonStyle, json};
///
/// let value = serde_json::json!([{"id": 1}, {"id": 2}]);
/// assert_eq!(json(&value, JsonStyle::Lines), "{\"id\":1}\n{\"id\":2}");
/// ```
pub fn json(value: &Value, style: JsonStyle) -> String {
    let mut text = Vec::new();
    write_styled(value, style, &mut text).expect("writing a value to memory cannot fail");
    String::from_utf8(text).expect("JSON is UTF-8")
}

/// Writes `value` in `style` to `sink`, in pieces of some 64 KiB, without holding the whole text.
///
/// # Errors
///
/// Fails where the sink does.
pub fn write_json(value: &Value, style: JsonStyle, sink: &mut dyn Write) -> io::Result<()> {
    let mut sink = BufWriter::with_capacity(CHUNK, sink);
    write_styled(value, style, &mut sink)?;
    sink.flush()
}

/// The bytes as text: what is UTF-8 as it is, every other byte as `\xNN`.
///
/// ```
/// assert_eq!(overspill::render::show_bytes(b"caf\xe9 na\xc3\xafve"), r"caf\xe9 naïve");
/// ```
pub fn show_bytes(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut shown = String::with_capacity(bytes.len());
            for chunk in bytes.utf8_chunks() {
                shown.push_str(chunk.valid());
                shown.push_str(&escape(chunk.invalid()));
            }
            Cow::Owned(shown)
        }
    }
}

/// Shows bytes as [`show_bytes`] does when they arrive in pieces, which may end within a character.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decoder {
    /// The beginning of a character, up to three bytes.
    pending: Vec<u8>,
}

impl Decoder {
    /// Hands the text of the piece to `on_text`, without a character that is not complete.
    pub(crate) fn push(&mut self, piece: &[u8], on_text: &mut dyn FnMut(&str)) {
        let joined;
        let bytes = if self.pending.is_empty() {
            piece
        } else {
            self.pending.extend_from_slice(piece);
            joined = std::mem::take(&mut self.pending);
            &joined
        };
        if let Ok(text) = std::str::from_utf8(bytes) {
            return on_text(text);
        }
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            on_text(chunk.valid());
            match std::str::from_utf8(chunk.invalid()) {
                Err(error) if error.error_len().is_none() && chunks.peek().is_none() => {
                    self.pending = chunk.invalid().to_vec();
                }
                Err(_) => on_text(&escape(chunk.invalid())),
                Ok(_) => {}
            }
        }
    }

    /// The text of a character that never was complete.
    pub(crate) fn finish(self) -> String {
        escape(&self.pending)
    }
}

fn escape(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut shown, byte| {
        let _ = write!(shown, "\\x{byte:02x}"); // a String takes every write
        shown
    })
}

fn write_styled(value: &Value, style: JsonStyle, sink: &mut impl Write) -> io::Result<()> {
    match (style, value) {
        (JsonStyle::Compact, _) => serde_json::to_writer(sink, value).map_err(io::Error::from),
        (JsonStyle::Indented, _) => write_with(value, OneLineStrings(PrettyFormatter::new()), sink),
        (JsonStyle::Lines, Value::Array(elements)) => {
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    sink.write_all(b"\n")?;
                }
                write_with(element, OneLineStrings(CompactFormatter), sink)?;
            }
            Ok(())
        }
        (JsonStyle::Lines, _) => write_with(value, OneLineStrings(CompactFormatter), sink),
    }
}

fn write_with(value: &Value, formatter: impl Formatter, sink: &mut impl Write) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(sink, formatter)).map_err(io::Error::from)
}

/// Formats as `F` does, but escapes what some programs take for line ends while strings are
/// written, which spares a second pass.
struct OneLineStrings<F>(F);

impl<F: Formatter> Formatter for OneLineStrings<F> {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let bytes = fragment.as_bytes();
        let mut written = 0;
        for at in memchr2_iter(0xc2, 0xe2, bytes) {
            let (escaped, len): (&[u8], usize) = match bytes[at..] {
                [0xc2, 0x85, ..] => (br"\u0085", 2),
                [0xe2, 0x80, 0xa8, ..] => (br"\u2028", 3),
                [0xe2, 0x80, 0xa9, ..] => (br"\u2029", 3),
                _ => continue,
            };
            writer.write_all(&bytes[written..at])?;
            writer.write_all(escaped)?;
            written = at + len;
        }
        writer.write_all(&bytes[written..])
    }

    // What follows passes on every method by which the two formatters above differ.

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json as value;

    use super::*;
    use crate::item::Payload;

    #[track_caller]
    fn check(value: &Value, style: JsonStyle, text: &str) {
        assert_eq!(json(value, style), text);
        let mut written = Vec::new();
        write_json(value, style, &mut written).unwrap();
        assert_eq!(written, text.as_bytes());
    }

    #[test]
    fn each_style_has_its_shape() {
        let records = value!([{"id": 1, "tags": ["a", "b"]}, [], "x", null, 1.5]);
        check(&records, JsonStyle::Compact, r#"[{"id":1,"tags":["a","b"]},[],"x",null,1.5]"#);
        check(
            &records,
            JsonStyle::Indented,
            "[\n  {\n    \"id\": 1,\n    \"tags\": [\n      \"a\",\n      \"b\"\n    ]\n  },\n  [],\n  \
             \"x\",\n  null,\n  1.5\n]",
        );
        check(
            &records,
            JsonStyle::Lines,
            "{\"id\":1,\"tags\":[\"a\",\"b\"]}\n[]\n\"x\"\nnull\n1.5",
        );
    }

    #[test]
    fn lines_of_anything_but_a_list_are_one() {
        check(&value!({"a": 1, "b": [2, {}]}), JsonStyle::Lines, r#"{"a":1,"b":[2,{}]}"#);
        check(&value!("text"), JsonStyle::Lines, r#""text""#);
        check(&value!([]), JsonStyle::Lines, "");
    }

    #[test]
    fn strings_hold_no_line_ends() {
        let ends = value!([{"k\u{2028}": "a\u{85}b\u{2029}\u{2028}°€\n"}]);
        check(&ends, JsonStyle::Compact, "[{\"k\u{2028}\":\"a\u{85}b\u{2029}\u{2028}°€\\n\"}]");
        check(&ends, JsonStyle::Lines, r#"{"k\u2028":"a\u0085b\u2029\u2028°€\n"}"#);
        check(
            &ends,
            JsonStyle::Indented,
            "[\n  {\n    \"k\\u2028\": \"a\\u0085b\\u2029\\u2028°€\\n\"\n  }\n]",
        );
    }

    #[test]
    fn nan_and_infinity_are_valid_json() {
        let payload = Payload::json(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0]).unwrap();
        let Payload::Json(value) = payload else { panic!("not JSON: {payload:?}") };
        check(&value, JsonStyle::Compact, "[null,null,null,1.0]");
        check(&value, JsonStyle::Lines, "null\nnull\nnull\n1.0");
    }

    #[test]
    fn bytes_that_are_no_text_are_visible() {
        assert!(matches!(show_bytes("naïve".as_bytes()), Cow::Borrowed("naïve")));
        assert_eq!(show_bytes(b"a\xffb\xe2\x82"), r"a\xffb\xe2\x82");
        assert_eq!(show_bytes(b"\xed\xa0\x80\x00"), "\\xed\\xa0\\x80\0");
    }

    #[test]
    fn a_failing_sink_fails_the_write() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = write_json(&value!([1]), JsonStyle::Lines, &mut Full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let long = value!(vec!["x".repeat(CHUNK); 3]);
        let error = write_json(&long, JsonStyle::Compact, &mut Full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = "[a\u{85}\u{2028}\u{2029}°€\"\\\\\n]{0,8}";
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            any::<i32>().prop_map(|halves| Value::from(f64::from(halves) / 2.0)),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((text, inner), 0..4)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_line_is_an_element(value in values()) {
            let lines = json(&value, JsonStyle::Lines);
            let line_ends = ['\u{85}', '\u{2028}', '\u{2029}'];
            prop_assert!(!lines.contains(line_ends));
            let parsed: Vec<Value> =
                lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let elements = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
            prop_assert_eq!(parsed, elements);
        }

        #[test]
        fn indented_differs_by_whitespace_alone(value in values()) {
            let indented = json(&value, JsonStyle::Indented);
            let escaped = serde_json::to_string_pretty(&value)
                .unwrap()
                .replace('\u{85}', "\\u0085")
                .replace('\u{2028}', "\\u2028")
                .replace('\u{2029}', "\\u2029");
            prop_assert_eq!(indented, escaped);
        }

        #[test]
        fn pieces_show_as_the_whole(
            bytes in prop::collection::vec(prop::sample::select(
                vec![b'a', 0xc3, 0xa9, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x99, 0x82, 0xff]
            ), 0..32),
            size in 1usize..5,
        ) {
            let mut decoder = Decoder::default();
            let mut shown = String::new();
            for piece in bytes.chunks(size) {
                decoder.push(piece, &mut |text| shown.push_str(text));
                prop_assert!(decoder.pending.len() <= 3);
            }
            shown.push_str(&decoder.finish());
            prop_assert_eq!(shown, show_bytes(&bytes));
        }
    }
}
