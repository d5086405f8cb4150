//! The same JSON, spelled as oddly as JSON may be.

use std::fmt::Write as _;

use serde_json::Value;

/// Numbers that no reader into values gives back as they were.
const NUMBERS: [&str; 8] =
    ["1.0", "1E+2", "-0", "0.10", "12345678901234567890123", "1e400", "2.50e-0", "-0.0"];

const WHITE: [&str; 6] = ["", "", " ", "\n", "\t  ", "\r\n"];

/// Spells a value with white space, escapes, orders, repeated and unknown keys as chosen.
pub(crate) fn oddly(value: &Value, choices: &[u8]) -> String {
    let mut writer = Writer { choices: choices.iter().cycle(), out: String::new() };
    writer.white();
    writer.value(value);
    writer.white();
    writer.out
}

struct Writer<'c> {
    choices: std::iter::Cycle<std::slice::Iter<'c, u8>>,
    out: String,
}

impl Writer<'_> {
    fn choose(&mut self, n: usize) -> usize {
        self.choices.next().map_or(0, |&choice| usize::from(choice) % n)
    }

    fn white(&mut self) {
        let white = WHITE[self.choose(WHITE.len())];
        self.out.push_str(white);
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.string(text),
            Value::Array(items) => {
                self.out.push('[');
                for (i, item) in items.iter().enumerate() {
                    self.out.push_str(if i > 0 { "," } else { "" });
                    self.white();
                    self.value(item);
                    self.white();
                }
                self.out.push(']');
            }
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                let first = self.choose(members.len().max(1));
                members.rotate_left(first);
                self.out.push('{');
                for (i, (key, value)) in members.into_iter().enumerate() {
                    self.out.push_str(if i > 0 { "," } else { "" });
                    match self.choose(8) {
                        // Of repeated keys the last one counts.
                        0 => self.member(key, |writer| writer.number()),
                        1 => self.member(key, |writer| writer.string("not this one")),
                        2 => self.member("x-\u{1f980}", |writer| writer.number()),
                        _ => {
                            self.member(key, |writer| writer.value(value));
                            continue;
                        }
                    }
                    self.out.push(',');
                    self.member(key, |writer| writer.value(value));
                }
                self.out.push('}');
            }
            plain => {
                let _ = write!(self.out, "{plain}");
            }
        }
    }

    fn member(&mut self, key: &str, value: impl FnOnce(&mut Self)) {
        self.white();
        self.string(key);
        self.white();
        self.out.push(':');
        self.white();
        value(self);
        self.white();
    }

    fn number(&mut self) {
        let number = NUMBERS[self.choose(NUMBERS.len())];
        self.out.push_str(number);
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for char in text.chars() {
            match char {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '/' if self.choose(2) == 0 => self.out.push_str("\\/"),
                '\n' if self.choose(2) == 0 => self.out.push_str("\\n"),
                char if char < ' ' || self.choose(8) == 0 => {
                    for unit in char.encode_utf16(&mut [0; 2]) {
                        let _ = match self.choose(2) {
                            0 => write!(self.out, "\\u{unit:04x}"),
                            _ => write!(self.out, "\\u{unit:04X}"),
                        };
                    }
                }
                char => self.out.push(char),
            }
        }
        self.out.push('"');
    }
}
