//! The shape of JSON: keys, types and lengths of lists, put together in the same pass that sees
//! the text, in bounded memory.
//!
//! Values that stand in the same place share a node: the records of a list are one. Lines of JSON,
//! each a value, are records of one list. Text that turns out not to be JSON has no shape.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use crate::lines::string_end;

/// Nodes of one shape; further ones are not told apart.
const NODES: usize = 1_024;
/// Keys of one object that are told apart; an object with more is taken for a map, and the values
/// of further keys share a node.
const KEYS: usize = 48;
/// Deeper text is not taken for JSON: no parser an agent has goes that far.
const DEPTH: usize = 512;
/// Bytes of a key that are kept.
const KEY_BYTES: usize = 64;
/// A longer number or literal is not taken for one.
const SCALAR_BYTES: usize = 400;
/// Values of a string that are listed, if there are no others.
const VALUES: usize = 4;
/// Bytes of such a value.
const VALUE_BYTES: usize = 24;
/// From this length on, a string's length is told.
const LONG_STRING: u64 = 200;

/// Follows JSON as it arrives, line by line.
#[derive(Debug)]
pub(super) struct Sketch {
    nodes: Vec<Node>,
    stack: Vec<Frame>,
    state: State,
    /// Values at the top so far.
    roots: u64,
    /// Whether a line has ended since the last value at the top did.
    parted: bool,
    /// The key, the string or the scalar in progress, cut off at a bound.
    token: Vec<u8>,
    length: u64,
    broken: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A value, or the end of a list that is still empty.
    First,
    Value,
    /// A key, or the end of an object that is still empty.
    FirstKey,
    Key,
    Colon,
    After,
    InKey,
    InString,
    InKeyEscape,
    InStringEscape,
    InScalar,
}

#[derive(Debug)]
struct Frame {
    /// The node of the container itself.
    node: usize,
    object: bool,
    count: u64,
    /// Where the next key is looked for first: records tend to repeat their order.
    next: usize,
    /// The node of the value that comes next, in an object.
    value: usize,
}

#[derive(Debug, Default)]
struct Node {
    null: bool,
    bool: bool,
    int: bool,
    float: bool,
    strings: u64,
    /// Bytes of its strings.
    lengths: Option<(u64, u64)>,
    /// Its string values as long as they are few and short.
    values: Vec<Vec<u8>>,
    many_values: bool,
    objects: u64,
    keys: Vec<Key>,
    /// The values of keys beyond [`KEYS`], and how many times such a key stood.
    other: Option<usize>,
    others: u64,
    lists: u64,
    items: Option<(u64, u64)>,
    item: Option<usize>,
}

#[derive(Debug)]
struct Key {
    name: Vec<u8>,
    node: usize,
    count: u64,
}

/// The node of what is past the bounds.
const NOWHERE: usize = 0;
const ROOT: usize = 1;

impl Default for Sketch {
    fn default() -> Self {
        Self {
            nodes: vec![Node::default(), Node::default()],
            stack: Vec::new(),
            state: State::Value,
            roots: 0,
            parted: true,
            token: Vec::new(),
            length: 0,
            broken: false,
        }
    }
}

impl Sketch {
    /// Looks at the next piece of the text.
    pub(super) fn piece(&mut self, bytes: &[u8]) {
        if !self.broken && self.scan(bytes).is_none() {
            *self = Self { broken: true, nodes: Vec::new(), ..Self::default() };
        }
    }

    /// The shape, if the text was JSON and held a list or an object.
    pub(super) fn shape(mut self) -> Option<Shape> {
        // A number at the very end has nothing after it that ends it.
        self.piece(b"\n");
        let whole = !self.broken && self.stack.is_empty() && self.state == State::Value;
        let container = self.nodes.get(ROOT).is_some_and(|root| root.objects + root.lists > 0);
        (whole && container).then_some(Shape { nodes: self.nodes, roots: self.roots })
    }

    /// `None` once it cannot be JSON.
    fn scan(&mut self, bytes: &[u8]) -> Option<()> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.state {
                State::InString | State::InKey => {
                    let rest = &bytes[at..];
                    let end = string_end(rest);
                    let key = self.state == State::InKey;
                    let most = if key { KEY_BYTES } else { VALUE_BYTES + 1 };
                    let room = most.saturating_sub(self.token.len()).min(end);
                    self.token.extend_from_slice(&rest[..room]);
                    self.length += end as u64;
                    at += end;
                    match rest.get(end) {
                        None => continue,
                        Some(b'"') if key => {
                            self.key();
                            self.state = State::Colon;
                        }
                        Some(b'"') => {
                            let token = std::mem::take(&mut self.token);
                            self.string(&token, self.length);
                            self.token = token;
                        }
                        Some(b'\\') => {
                            self.length += 1;
                            self.state =
                                if key { State::InKeyEscape } else { State::InStringEscape };
                        }
                        Some(_) => return None,
                    }
                }
                State::InKeyEscape | State::InStringEscape => {
                    if self.token.len() < KEY_BYTES {
                        self.token.extend([b'\\', byte]);
                    }
                    self.length += 1;
                    let key = self.state == State::InKeyEscape;
                    self.state = if key { State::InKey } else { State::InString };
                }
                State::InScalar => {
                    let rest = &bytes[at..];
                    let end = rest.iter().position(|byte| !in_scalar(*byte)).unwrap_or(rest.len());
                    if self.token.len() + end > SCALAR_BYTES {
                        return None;
                    }
                    self.token.extend_from_slice(&rest[..end]);
                    at += end;
                    if end < rest.len() {
                        let token = std::mem::take(&mut self.token);
                        self.scalar(&token)?;
                        self.token = token;
                    }
                    continue;
                }
                _ if matches!(byte, b' ' | b'\t' | b'\r') => {}
                _ if byte == b'\n' => self.parted = true,
                State::FirstKey if byte == b'}' => self.close(true)?,
                State::FirstKey | State::Key if byte == b'"' => {
                    match self.expected_key(&bytes[at + 1..]) {
                        Some(length) => {
                            at += length + 1;
                            if bytes.get(at + 1) == Some(&b':') {
                                at += 1;
                                self.state = State::Value;
                            }
                        }
                        None => self.open_text(State::InKey),
                    }
                }
                State::Colon if byte == b':' => self.state = State::Value,
                State::First if byte == b']' => self.close(false)?,
                State::First | State::Value => match self.whole_value(&bytes[at..])? {
                    0 => self.value(byte)?,
                    length => {
                        at += length;
                        continue;
                    }
                },
                State::After => {
                    let object = self.stack.last()?.object;
                    match byte {
                        b',' if object => self.state = State::Key,
                        b',' => self.state = State::Value,
                        b'}' => self.close(true)?,
                        b']' => self.close(false)?,
                        _ => return None,
                    }
                }
                _ => return None,
            }
            at += 1;
        }
        Some(())
    }

    /// Takes a plain string or scalar that stands whole at the front of `rest`, and returns its
    /// length; 0 where there is none.
    fn whole_value(&mut self, rest: &[u8]) -> Option<usize> {
        if self.stack.is_empty() {
            return Some(0);
        }
        match rest {
            [b'"', text @ ..] => {
                let end = string_end(text);
                if text.get(end) != Some(&b'"') {
                    return Some(0);
                }
                self.string(&text[..end], end as u64);
                Some(end + 2)
            }
            [first, ..] if opens_scalar(*first) => {
                let end = rest.iter().position(|byte| !in_scalar(*byte)).unwrap_or(rest.len());
                if end == rest.len() || end > SCALAR_BYTES {
                    return Some(0);
                }
                self.scalar(&rest[..end])?;
                Some(end)
            }
            _ => Some(0),
        }
    }

    /// The first byte of a value.
    fn value(&mut self, byte: u8) -> Option<()> {
        if self.stack.is_empty() {
            // Two values at the top on one line are not lines of JSON, and bare words and numbers
            // are no records.
            if !self.parted || !matches!(byte, b'{' | b'[') {
                return None;
            }
            self.parted = false;
            self.roots += 1;
        }
        match byte {
            b'"' => self.open_text(State::InString),
            b'{' | b'[' => {
                if self.stack.len() == DEPTH {
                    return None;
                }
                let object = byte == b'{';
                let node = self.place();
                if object {
                    self.nodes[node].objects += 1;
                } else {
                    self.nodes[node].lists += 1;
                }
                self.stack.push(Frame { node, object, count: 0, next: 0, value: NOWHERE });
                self.state = if object { State::FirstKey } else { State::First };
            }
            first if opens_scalar(first) => {
                self.open_text(State::InScalar);
                self.token.push(byte);
            }
            _ => return None,
        }
        Some(())
    }

    fn open_text(&mut self, state: State) {
        self.token.clear();
        self.length = 0;
        self.state = state;
    }

    /// The node of the value that starts or ends here.
    fn place(&mut self) -> usize {
        let Some(frame) = self.stack.last() else { return ROOT };
        if frame.object {
            return frame.value;
        }
        let node = frame.node;
        if let Some(item) = self.nodes[node].item {
            return item;
        }
        let item = self.add(node);
        self.nodes[node].item = Some(item);
        item
    }

    /// A new node under `parent`, or the one for everything past the bounds.
    fn add(&mut self, parent: usize) -> usize {
        if parent == NOWHERE || self.nodes.len() == NODES {
            return NOWHERE;
        }
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }

    /// The length of the key that starts here, if it is the one that followed the last time.
    fn expected_key(&mut self, rest: &[u8]) -> Option<usize> {
        let frame = self.stack.last_mut()?;
        let key = self.nodes[frame.node].keys.get_mut(frame.next)?;
        let length = key.name.len();
        if rest.get(length) != Some(&b'"') || !rest.starts_with(&key.name) {
            return None;
        }
        key.count += 1;
        frame.value = key.node;
        frame.next += 1;
        self.state = State::Colon;
        Some(length)
    }

    fn key(&mut self) {
        let Some(frame) = self.stack.last() else { return };
        let (parent, next) = (frame.node, frame.next);
        let keys = &self.nodes[parent].keys;
        let name = &self.token;
        let is = |key: &Key| key.name == *name;
        let found = match keys.get(next) {
            Some(key) if is(key) => Some(next),
            _ => keys.iter().position(is),
        };
        let (value, next) = match found {
            Some(i) => {
                self.nodes[parent].keys[i].count += 1;
                (self.nodes[parent].keys[i].node, i + 1)
            }
            None if keys.len() < KEYS && parent != NOWHERE && self.nodes.len() < NODES => {
                let node = self.add(parent);
                let name = self.token.clone();
                self.nodes[parent].keys.push(Key { name, node, count: 1 });
                (node, next)
            }
            None => {
                self.nodes[parent].others += 1;
                let other = self.nodes[parent].other.unwrap_or_else(|| self.add(parent));
                self.nodes[parent].other = Some(other);
                (other, next)
            }
        };
        if let Some(frame) = self.stack.last_mut() {
            frame.value = value;
            frame.next = next;
        }
    }

    /// A string has ended, of which the start is `text`.
    fn string(&mut self, text: &[u8], length: u64) {
        let place = self.place();
        let node = &mut self.nodes[place];
        node.strings += 1;
        node.lengths = widen(node.lengths, length);
        if !node.many_values && !node.values.iter().any(|value| value == text) {
            if length as usize > VALUE_BYTES || node.values.len() == VALUES {
                node.many_values = true;
                node.values = Vec::new();
            } else {
                node.values.push(text.to_vec());
            }
        }
        self.end();
    }

    fn scalar(&mut self, text: &[u8]) -> Option<()> {
        let place = self.place();
        let node = &mut self.nodes[place];
        match text {
            b"null" => node.null = true,
            b"true" | b"false" => node.bool = true,
            // Not JSON by the standard, but common writers write them.
            b"NaN" | b"Infinity" | b"-Infinity" => node.float = true,
            number => {
                let float = number_is_float(number)?;
                node.float |= float;
                node.int |= !float;
            }
        }
        self.end();
        Some(())
    }

    fn close(&mut self, object: bool) -> Option<()> {
        let frame = self.stack.pop().filter(|frame| frame.object == object)?;
        let node = &mut self.nodes[frame.node];
        if !object {
            node.items = widen(node.items, frame.count);
        }
        self.end();
        Some(())
    }

    /// A value has ended.
    fn end(&mut self) {
        match self.stack.last_mut() {
            Some(frame) => {
                frame.count += 1;
                self.state = State::After;
            }
            None => self.state = State::Value,
        }
    }
}

fn opens_scalar(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b't' | b'f' | b'n' | b'N' | b'I')
}

fn in_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+')
}

/// Whether a number has a fraction or an exponent; `None` if it is no number.
fn number_is_float(number: &[u8]) -> Option<bool> {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut rest = number.strip_prefix(b"-").unwrap_or(number);
    let whole = digits(rest);
    rest = &rest[whole..];
    let mut float = false;
    if let Some(fraction) = rest.strip_prefix(b".") {
        float = true;
        let length = digits(fraction);
        rest = &fraction[length..];
        if length == 0 {
            return None;
        }
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        float = true;
        let exponent = match exponent {
            [b'+' | b'-', exponent @ ..] => exponent,
            exponent => exponent,
        };
        if exponent.is_empty() {
            return None;
        }
        rest = &exponent[digits(exponent)..];
    }
    (whole > 0 && rest.is_empty()).then_some(float)
}

fn widen(range: Option<(u64, u64)>, value: u64) -> Option<(u64, u64)> {
    let (low, high) = range.unwrap_or((value, value));
    Some((low.min(value), high.max(value)))
}

/// A whole shape, which can be written in more or less detail.
#[derive(Debug)]
pub(super) struct Shape {
    nodes: Vec<Node>,
    roots: u64,
}

/// How much of a shape is written out.
#[derive(Clone, Copy)]
struct Detail {
    depth: usize,
    keys: usize,
}

impl Shape {
    /// The shape in the most detail that fits in `chars` characters.
    pub(super) fn text(&self, chars: usize) -> String {
        const DEPTHS: RangeInclusive<usize> = 1..=6;
        let details = DEPTHS
            .rev()
            .flat_map(|depth| [KEYS, 12, 5, 3].into_iter().map(move |keys| Detail { depth, keys }));
        details
            .filter_map(|detail| {
                let mut text = String::new();
                if self.roots > 1 {
                    let _ = write!(text, "{} lines of ", self.roots);
                }
                self.write(&mut text, ROOT, detail, chars);
                let length = text.chars().count();
                (length <= chars).then_some((length, text))
            })
            .reduce(|best, next| if next.0 > best.0 { next } else { best })
            .map(|(_, text)| text)
            .unwrap_or_default()
    }

    fn write(&self, text: &mut String, at: usize, detail: Detail, chars: usize) {
        let node = &self.nodes[at];
        if text.len() > 4 * chars {
            return;
        }
        let start = text.len();
        let or = |text: &mut String| {
            if text.len() > start {
                text.push('|');
            }
        };
        if node.objects > 0 {
            self.write_object(text, node, detail, chars);
        }
        if node.lists > 0 {
            or(text);
            self.write_list(text, node, detail, chars);
        }
        if node.strings > 0 {
            or(text);
            let listed = !node.many_values && node.strings > node.values.len() as u64;
            match node.lengths {
                _ if listed => {
                    let values: Vec<String> =
                        node.values.iter().map(|value| quoted(value)).collect();
                    text.push_str(&values.join("|"));
                }
                Some((_, high)) if high >= LONG_STRING => {
                    let _ = write!(text, "str≤{high}");
                }
                _ => text.push_str("str"),
            }
        }
        for (is, name) in [
            (node.int && !node.float, "int"),
            (node.float, "num"),
            (node.bool, "bool"),
            (node.null, "null"),
        ] {
            if is {
                or(text);
                text.push_str(name);
            }
        }
        if text.len() == start {
            text.push('…');
        }
    }

    fn write_object(&self, text: &mut String, node: &Node, detail: Detail, chars: usize) {
        let count = node.keys.len();
        if detail.depth == 0 && count > 0 {
            let more = if node.other.is_some() { "+" } else { "" };
            let _ = write!(text, "{{{count}{more} keys}}");
            return;
        }
        let inner = Detail { depth: detail.depth.saturating_sub(1), ..detail };
        let shown = if node.other.is_some() { detail.keys.min(3) } else { detail.keys };
        text.push('{');
        for (i, key) in node.keys.iter().take(shown).enumerate() {
            if i > 0 {
                text.push_str(", ");
            }
            text.push_str(&String::from_utf8_lossy(&key.name));
            if key.count < node.objects {
                text.push('?');
            }
            text.push_str(": ");
            self.write(text, key.node, inner, chars);
        }
        if let Some(other) = node.other {
            let more = (count - shown) as u64 + node.others;
            let _ = write!(text, ", {more} more keys: ");
            self.write(text, other, inner, chars);
        } else if count > shown {
            let _ = write!(text, ", {} more keys", count - shown);
        }
        text.push('}');
    }

    fn write_list(&self, text: &mut String, node: &Node, detail: Detail, chars: usize) {
        let (low, high) = node.items.unwrap_or_default();
        let count = if low == high { format!("{low}") } else { format!("{low}-{high}") };
        match node.item {
            None => text.push_str("[]"),
            Some(_) if detail.depth == 0 => {
                let _ = write!(text, "[{count}]");
            }
            Some(item) => {
                let _ = write!(text, "[{count} of ");
                self.write(text, item, Detail { depth: detail.depth - 1, ..detail }, chars);
                text.push(']');
            }
        }
    }
}

fn quoted(value: &[u8]) -> String {
    format!("\"{}\"", String::from_utf8_lossy(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(json: &str, chars: usize) -> Option<String> {
        let whole = {
            let mut sketch = Sketch::default();
            sketch.piece(json.as_bytes());
            sketch.shape().map(|shape| shape.text(chars))
        };
        let mut sketch = Sketch::default();
        for byte in json.bytes() {
            sketch.piece(&[byte]);
        }
        assert_eq!(sketch.shape().map(|shape| shape.text(chars)), whole, "in pieces: {json}");
        whole
    }

    #[test]
    fn records_of_a_list_share_a_shape() {
        let json = r#"[{"id": 1, "state": "open", "tags": [], "who": {"login": "a"}},
            {"id": 2, "state": "open", "tags": ["x", "yy"], "score": 0.5, "who": null}]"#;
        assert_eq!(
            shape(json, 200).unwrap(),
            r#"[2 of {id: int, state: "open", tags: [0-2 of str], who: {login: str}|null, score?: num}]"#
        );
        assert_eq!(
            shape(json, 60).unwrap(),
            "[2 of {id: int, state: \"open\", tags: [0-2], 2 more keys}]"
        );
        assert_eq!(shape(json, 20).unwrap(), "[2 of {5 keys}]");
    }

    #[test]
    fn lines_of_json_are_records() {
        assert_eq!(
            shape("{\"a\":1}\n{\"a\":2.5,\"b\":true}\n", 200).unwrap(),
            "2 lines of {a: num, b?: bool}"
        );
    }

    #[test]
    fn an_object_with_ids_for_keys_is_a_map() {
        let json: Vec<String> = (0..1000).map(|i| format!("\"id{i}\":{{\"n\":{i}}}")).collect();
        assert_eq!(
            shape(&format!("{{{}}}", json.join(",")), 200).unwrap(),
            "{id0: {n: int}, id1: {n: int}, id2: {n: int}, 997 more keys: {n: int}}"
        );
    }

    #[test]
    fn what_is_not_json_has_no_shape() {
        for text in [
            "",
            "7",
            "\"text\"",
            "{",
            "[1,]",
            "{\"a\" 1}",
            "[1] [2]",
            "{\"a\":1}x",
            "[}",
            "[\"a\nb\"]",
            "[tru]",
            "[1e]",
            "[--1]",
            "[nan]",
            "{,}",
            "[inf]",
            "x[1]",
        ] {
            assert_eq!(shape(text, 100), None, "{text}");
        }
        assert_eq!(shape(&"[".repeat(100_000), 100), None);
        assert_eq!(shape(&format!("{}{}", "[".repeat(600), "]".repeat(600)), 100), None);
        assert!(shape("[NaN, -Infinity, -1.5e+3]", 100).is_some());
    }
}
