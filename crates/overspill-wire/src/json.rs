//! Where everything is in a JSON text: one pass that checks the grammar and notes spans.
//!
//! Reading into values would lose what must be kept: the order of keys, repeated keys, the
//! spelling of numbers and escapes. A tape of spans loses nothing, and edits are spliced between
//! them. The pass does not recurse, so nesting costs no stack.

mod text;

use std::ops::Range;

pub(crate) use text::{decode, quote};

/// How deep a text may nest. Providers refuse far less; the bound keeps the list of open
/// containers small.
const MAX_DEPTH: usize = 10_000;

/// Values nested deeper are checked and not noted: no format puts anything we read as deep, and
/// arguments full of small numbers would cost more memory than their text.
const NOTED_DEPTH: usize = 12;

/// What editors on Windows put before a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A range of bytes of the text; 4 GiB is the longest text that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    pub(crate) fn of(self, text: &str) -> &str {
        text.get(self.range()).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    span: Span,
    /// The node behind this one and everything in it.
    next: u32,
    kind: Type,
}

/// A checked JSON text and the spans of its values. An object's members lie as key, value, key,
/// value between its own node and `next`.
#[derive(Debug)]
pub(crate) struct Tape<'t> {
    text: &'t str,
    nodes: Vec<Node>,
}

/// What is wrong with a text, and at which byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) at: usize,
    pub(crate) what: &'static str,
}

/// One value on a tape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value<'v> {
    tape: &'v Tape<'v>,
    at: u32,
}

impl<'t> Tape<'t> {
    /// Checks the whole text.
    pub(crate) fn read(text: &'t str) -> Result<Self, Malformed> {
        let mut scan = Scan { bytes: text.as_bytes(), at: 0 };
        if u32::try_from(text.len()).is_err() {
            return Err(Malformed { at: 0, what: "more than 4 GiB of JSON" });
        }
        if text.starts_with(BYTE_ORDER_MARK) {
            let what = "it begins with a byte order mark, which JSON does not have; leave out its \
                        first three bytes (EF BB BF)";
            return Err(Malformed { at: 0, what });
        }
        let mut nodes: Vec<Node> = Vec::new();
        // Open containers: where their node is, and what they are.
        let mut open: Vec<(u32, Type)> = Vec::new();
        scan.white();
        'value: loop {
            let start = scan.at;
            let kind = scan.value()?;
            let container = matches!(kind, Type::Array | Type::Object);
            let node = nodes.len() as u32;
            if open.len() <= NOTED_DEPTH {
                let span = Span { start: start as u32, end: scan.at as u32 };
                nodes.push(Node { span, next: node + 1, kind });
            }
            if container {
                if open.len() == MAX_DEPTH {
                    return Err(Malformed { at: start, what: "nested more than 10,000 deep" });
                }
                open.push((node, kind));
                scan.white();
                let close = if kind == Type::Array { b']' } else { b'}' };
                if scan.peek() != Some(close) {
                    if kind == Type::Object {
                        scan.key(&mut nodes, open.len() <= NOTED_DEPTH)?;
                    }
                    continue 'value;
                }
            }
            // A value is over: go on in its container, or close that too.
            loop {
                scan.white();
                let Some(&(node, kind)) = open.last() else {
                    return match scan.peek() {
                        None => Ok(Self { text, nodes }),
                        Some(_) => Err(scan.wrong("more after the end of the JSON text")),
                    };
                };
                match (scan.peek(), kind) {
                    (Some(b','), Type::Array) => {
                        scan.at += 1;
                        scan.white();
                        continue 'value;
                    }
                    (Some(b','), _) => {
                        scan.at += 1;
                        scan.white();
                        scan.key(&mut nodes, open.len() <= NOTED_DEPTH)?;
                        continue 'value;
                    }
                    (Some(b']'), Type::Array) | (Some(b'}'), Type::Object) => {
                        scan.at += 1;
                        open.pop();
                        let next = nodes.len() as u32;
                        if open.len() <= NOTED_DEPTH
                            && let Some(node) = nodes.get_mut(node as usize)
                        {
                            node.span.end = scan.at as u32;
                            node.next = next;
                        }
                    }
                    (None, _) => return Err(scan.wrong("the JSON text ends too early")),
                    (Some(_), Type::Array) => return Err(scan.wrong("expected `,` or `]`")),
                    (Some(_), _) => return Err(scan.wrong("expected `,` or `}`")),
                }
            }
        }
    }

    pub(crate) fn root(&self) -> Value<'_> {
        Value { tape: self, at: 0 }
    }
}

impl<'v> Value<'v> {
    fn node(self) -> Node {
        self.tape.nodes[self.at as usize]
    }

    pub(crate) fn kind(self) -> Type {
        self.node().kind
    }

    pub(crate) fn span(self) -> Span {
        self.node().span
    }

    /// The value as the text spells it.
    pub(crate) fn raw(self) -> &'v str {
        self.span().of(self.tape.text)
    }

    pub(crate) fn is_null(self) -> bool {
        self.kind() == Type::Null
    }

    pub(crate) fn is_string(self) -> bool {
        self.kind() == Type::String
    }

    pub(crate) fn is_array(self) -> bool {
        self.kind() == Type::Array
    }

    pub(crate) fn is_object(self) -> bool {
        self.kind() == Type::Object
    }

    /// Whether it is the string `text`.
    pub(crate) fn is(self, text: &str) -> bool {
        self.is_string() && decode(self.raw()) == text
    }

    /// The string, decoded; empty for any other value.
    pub(crate) fn text(self) -> std::borrow::Cow<'v, str> {
        if self.is_string() { decode(self.raw()) } else { "".into() }
    }

    pub(crate) fn as_u64(self) -> Option<u64> {
        self.raw().parse().ok()
    }

    /// The elements of an array; none for any other value.
    pub(crate) fn items(self) -> impl Iterator<Item = Self> + Clone + 'v {
        let node = self.node();
        let end = if node.kind == Type::Array { node.next } else { self.at };
        let mut at = self.at + 1;
        std::iter::from_fn(move || {
            let item = Value { tape: self.tape, at };
            (at < end).then(|| {
                at = item.node().next;
                item
            })
        })
    }

    /// The members of an object, in order and with repeated keys; none for any other value.
    pub(crate) fn members(self) -> impl Iterator<Item = (Self, Self)> + 'v {
        let node = self.node();
        let end = if node.kind == Type::Object { node.next } else { self.at };
        let mut at = self.at + 1;
        std::iter::from_fn(move || {
            let key = Value { tape: self.tape, at };
            let value = Value { tape: self.tape, at: at + 1 };
            (at + 1 < end).then(|| {
                at = value.node().next;
                (key, value)
            })
        })
    }

    /// The member of that key that is not null. Of repeated keys the last counts, as it does for
    /// the readers of the providers.
    pub(crate) fn get(self, key: &str) -> Option<Self> {
        self.spelled(key).filter(|value| !value.is_null())
    }

    /// The member of that key, null or not.
    pub(crate) fn spelled(self, key: &str) -> Option<Self> {
        let mut found = None;
        for (name, value) in self.members() {
            if name.is(key) {
                found = Some(value);
            }
        }
        found
    }

    /// The first of several names of one member that is there.
    pub(crate) fn any(self, keys: &[&str]) -> Option<Self> {
        keys.iter().find_map(|key| self.get(key))
    }

    /// The way from the root to this value: `$.messages[3].content`.
    pub(crate) fn path(self) -> String {
        let mut path = String::from("$");
        let mut from = self.tape.root();
        while from.at != self.at {
            let inside = |value: &Self| value.at <= self.at && self.at < value.node().next;
            if let Some((i, item)) = from.items().enumerate().find(|(_, item)| inside(item)) {
                path.push_str(&format!("[{i}]"));
                from = item;
            } else if let Some((key, value)) = from.members().find(|(_, value)| inside(value)) {
                path.push_str(&format!(".{}", key.text()));
                from = value;
            } else {
                break;
            }
        }
        path
    }
}

struct Scan<'t> {
    bytes: &'t [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn wrong(&self, what: &'static str) -> Malformed {
        Malformed { at: self.at, what }
    }

    fn white(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Steps over a scalar, or over the opening of a container.
    fn value(&mut self) -> Result<Type, Malformed> {
        match self.peek() {
            Some(b'"') => self.string().map(|()| Type::String),
            Some(b'{') => {
                self.at += 1;
                Ok(Type::Object)
            }
            Some(b'[') => {
                self.at += 1;
                Ok(Type::Array)
            }
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| Type::Number),
            Some(b't') => self.word(b"true", Type::Bool),
            Some(b'f') => self.word(b"false", Type::Bool),
            Some(b'n') => self.word(b"null", Type::Null),
            Some(_) => Err(self.wrong("expected a JSON value")),
            None => Err(self.wrong("the JSON text ends too early")),
        }
    }

    /// Steps over a key and its colon.
    fn key(&mut self, nodes: &mut Vec<Node>, noted: bool) -> Result<(), Malformed> {
        if self.peek() != Some(b'"') {
            return Err(self.wrong(match self.peek() {
                Some(_) => "expected a key in double quotes",
                None => "the JSON text ends too early",
            }));
        }
        let start = self.at;
        self.string()?;
        if noted {
            let span = Span { start: start as u32, end: self.at as u32 };
            nodes.push(Node { span, next: nodes.len() as u32 + 1, kind: Type::String });
        }
        self.white();
        if self.peek() != Some(b':') {
            return Err(self.wrong("expected `:` after a key"));
        }
        self.at += 1;
        self.white();
        Ok(())
    }

    fn word(&mut self, word: &'static [u8], kind: Type) -> Result<Type, Malformed> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(self.wrong("expected a JSON value"));
        }
        self.at += word.len();
        Ok(kind)
    }

    fn number(&mut self) -> Result<(), Malformed> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return Err(self.wrong("expected a digit")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.wrong("expected a digit")) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<(), Malformed> {
        let opening = self.at;
        self.at += 1;
        loop {
            self.at = text::plain_until(self.bytes, self.at);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => match self.bytes.get(self.at + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
                    Some(b'u') => {
                        let hex = self.bytes.get(self.at + 2..self.at + 6);
                        if !hex.is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) {
                            return Err(self.wrong("expected four hexadecimal digits after `\\u`"));
                        }
                        self.at += 6;
                    }
                    _ => return Err(self.wrong("an escape JSON does not have")),
                },
                Some(_) => return Err(self.wrong("a control character in a string")),
                None => return Err(Malformed { at: opening, what: "a string without an end" }),
            }
        }
    }
}

#[cfg(test)]
mod tests;
