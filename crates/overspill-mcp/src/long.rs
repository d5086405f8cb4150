//! Lines too long to hold: they lie on disk, and a skeleton of them is in memory.
//!
//! In a skeleton, each long string is a short one that stands for it. It is JSON like any other, so
//! it takes the way of every message; whoever writes it puts the strings back, and whoever reduces
//! it reads them from the disk.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use data_encoding::{BASE64, HEXLOWER};

/// From so many bytes on, a line goes to disk. What is shorter is quicker in memory, where it takes
/// about twice as much while it is reduced.
pub(crate) const LONG: usize = 16 * 1024 * 1024;

/// Strings longer than this stand outside a skeleton.
const LITERAL: usize = 1024 * 1024;

/// How much is read at once.
const PIECE: usize = 1024 * 1024;

/// What every string that stands for another begins with. Behind it comes a number that nobody can
/// guess, so no server can name what is not its own.
const OPENING: &str = "overspill:long:";

/// A line on disk, and where its long strings are.
#[derive(Debug)]
pub(crate) struct Long {
    token: String,
    file: File,
    bytes: u64,
    /// The literals, quotes included.
    literals: Vec<Range<u64>>,
}

/// A line on its way to disk.
#[derive(Debug)]
pub(crate) struct Spool {
    token: String,
    file: File,
    bytes: u64,
    skeleton: Vec<u8>,
    literals: Vec<Range<u64>>,
    /// The literal that is being read, or its beginning.
    held: Vec<u8>,
    held_from: u64,
    in_string: bool,
    escaped: bool,
    utf8: Utf8,
}

impl Spool {
    pub(crate) fn new() -> io::Result<Self> {
        let mut token = [0_u8; 16];
        getrandom::fill(&mut token).map_err(io::Error::other)?;
        Ok(Self {
            token: HEXLOWER.encode(&token),
            // It has no name, so nothing of it is left whatever happens.
            file: tempfile::tempfile()?,
            bytes: 0,
            skeleton: Vec::new(),
            literals: Vec::new(),
            held: Vec::new(),
            held_from: 0,
            in_string: false,
            escaped: false,
            utf8: Utf8::default(),
        })
    }

    /// Takes in the next piece of the line. A batch is refused: its messages go separate ways, and
    /// the first to arrive would take the line with it.
    pub(crate) fn push(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.bytes == 0 && piece.trim_ascii_start().starts_with(b"[") {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "a batch is held in memory"));
        }
        self.file.write_all(piece)?;
        self.utf8.push(piece);
        let mut rest = piece;
        while let Some(&first) = rest.first() {
            let at = self.bytes + (piece.len() - rest.len()) as u64;
            if !self.in_string {
                let until = memchr::memchr(b'"', rest).unwrap_or(rest.len());
                let (plain, behind) = rest.split_at(until);
                self.skeleton.extend_from_slice(plain);
                if let Some(behind) = behind.get(1..) {
                    self.in_string = true;
                    self.held_from = at + until as u64;
                    self.held.clear();
                    self.held.push(b'"');
                    rest = behind;
                } else {
                    break;
                }
            } else if self.escaped {
                self.hold(&[first]);
                self.escaped = false;
                rest = &rest[1..];
            } else {
                let Some(until) = memchr::memchr2(b'"', b'\\', rest) else {
                    self.hold(rest);
                    break;
                };
                self.hold(&rest[..=until]);
                match rest[until] {
                    b'\\' => self.escaped = true,
                    _ => self.close(at + until as u64 + 1),
                }
                rest = &rest[until + 1..];
            }
        }
        self.bytes += piece.len() as u64;
        Ok(())
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.held.len() <= LITERAL {
            self.held.extend_from_slice(bytes);
        }
    }

    fn close(&mut self, end: u64) {
        self.in_string = false;
        if self.held.len() <= LITERAL {
            self.skeleton.extend_from_slice(&self.held);
            return;
        }
        let literal = self.held_from..end;
        // What several SDKs say twice, as text and as structured content, is one string.
        if !self.literals.last().is_some_and(|last| self.are_same(last, &literal)) {
            self.literals.push(literal);
        }
        let stand_in = stand_in(&self.token, self.literals.len() - 1);
        self.skeleton.extend_from_slice(stand_in.as_bytes());
    }

    fn are_same(&self, one: &Range<u64>, other: &Range<u64>) -> bool {
        let len = one.end - one.start;
        len == other.end - other.start
            && (0..len).step_by(PIECE).all(|at| {
                let piece = |of: &Range<u64>| {
                    let mut piece = vec![0; (len - at).min(PIECE as u64) as usize];
                    self.file.read_exact_at(&mut piece, of.start + at).ok().map(|()| piece)
                };
                piece(one).is_some_and(|read| piece(other) == Some(read))
            })
    }

    /// The skeleton, and the line; or what there is of a line that is no UTF-8.
    pub(crate) fn finish(self) -> Result<(String, Long), NotText> {
        let is_text = self.utf8.is_whole();
        let Self { token, file, bytes, mut skeleton, literals, held, in_string, .. } = self;
        if in_string {
            skeleton.extend_from_slice(&held);
        }
        let skeleton = String::from_utf8(skeleton)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let long = Long { token, file, bytes, literals };
        match is_text {
            true => Ok((skeleton, long)),
            false => Err(NotText { readable: skeleton, bytes: Raw::OnDisk(Arc::new(long)) }),
        }
    }

    /// The line so far, in memory after all.
    pub(crate) fn back(mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.file.seek(SeekFrom::Start(0))?;
        self.file.take(self.bytes).read_to_end(&mut line)?;
        Ok(line)
    }
}

fn stand_in(token: &str, n: usize) -> String {
    format!("\"{OPENING}{token}:{n}\"")
}

/// Whether a text may have strings that stand for others.
pub(crate) fn is_in(text: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), OPENING.as_bytes()).is_some()
}

impl Long {
    /// How many bytes the line has.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The strings in `text` that stand for others: where they are, and which they are.
    pub(crate) fn stand_ins(&self, text: &str) -> Vec<(Range<usize>, usize)> {
        let opening = format!("\"{OPENING}{}:", self.token);
        let found = memchr::memmem::find_iter(text.as_bytes(), opening.as_bytes());
        let place = |start: usize| {
            let rest = &text[start + opening.len()..];
            let end = rest.find('"')?;
            let n: usize = rest[..end].parse().ok()?;
            let end = start + opening.len() + end + 1;
            (n < self.literals.len()).then_some((start..end, n))
        };
        found.filter_map(place).collect()
    }

    /// Hands out a part of the line in pieces.
    fn read(&self, span: Range<u64>) -> impl Iterator<Item = io::Result<Vec<u8>>> + '_ {
        let mut at = span.start;
        std::iter::from_fn(move || {
            let len = (span.end.saturating_sub(at)).min(PIECE as u64) as usize;
            if len == 0 {
                return None;
            }
            let mut piece = vec![0; len];
            let read = self.file.read_exact_at(&mut piece, at);
            at += len as u64;
            Some(read.map(|()| piece))
        })
    }

    /// Hands out the text of a literal in pieces.
    pub(crate) fn text(&self, n: usize) -> impl Iterator<Item = Result<Vec<u8>, Broken>> + '_ {
        let literal = self.literals.get(n).cloned().unwrap_or(0..2);
        let mut pieces = self.read(literal.start + 1..literal.end - 1);
        let mut unescape = Some(Unescape::default());
        std::iter::from_fn(move || match pieces.next() {
            Some(Ok(piece)) => Some(unescape.as_mut()?.push(&piece)),
            Some(Err(_)) => Some(Err(Broken::Disk)),
            None => unescape.take()?.finish().err().map(Err),
        })
    }

    /// Hands out what a literal is the base64 of, in pieces.
    pub(crate) fn base64(&self, n: usize) -> impl Iterator<Item = Result<Vec<u8>, Broken>> + '_ {
        let mut texts = self.text(n);
        let mut pending = Vec::new();
        std::iter::from_fn(move || {
            let whole = match texts.next() {
                Some(Ok(text)) => {
                    pending.extend(text);
                    let behind = pending.split_off(pending.len() - pending.len() % 4);
                    std::mem::replace(&mut pending, behind)
                }
                Some(Err(error)) => return Some(Err(error)),
                None if pending.is_empty() => return None,
                None => std::mem::take(&mut pending),
            };
            Some(BASE64.decode(&whole).map_err(|_| Broken::NotThat))
        })
    }

    /// The text with every string put back, in pieces that are UTF-8 together.
    pub(crate) fn expand<'l>(
        &'l self,
        text: &'l str,
    ) -> impl Iterator<Item = io::Result<Vec<u8>>> + 'l {
        let places = self.stand_ins(text);
        let last = places.last().map_or(0, |(at, _)| at.end);
        let mut from = 0;
        let each = places.into_iter().flat_map(move |(at, n)| {
            let before = text.as_bytes()[from..at.start].to_vec();
            from = at.end;
            let literal = self.literals.get(n).cloned().unwrap_or(0..0);
            std::iter::once(Ok(before)).chain(self.read(literal))
        });
        each.chain(std::iter::once(Ok(text.as_bytes()[last..].to_vec())))
    }

    /// The text with every string put back, in memory.
    pub(crate) fn whole(&self, text: &str) -> io::Result<String> {
        let pieces: Vec<Vec<u8>> = self.expand(text).collect::<io::Result<_>>()?;
        String::from_utf8(pieces.concat()).map_err(io::Error::other)
    }
}

/// The long lines of a session that are on their way. Whoever has one on its way keeps it; once
/// nobody does, it is gone, and its file with it.
#[derive(Debug, Default)]
pub(crate) struct Longs(Mutex<HashMap<String, Weak<Long>>>);

impl Longs {
    fn known(&self) -> MutexGuard<'_, HashMap<String, Weak<Long>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Knows a line as long as somebody has what is given back, or what [`Self::of`] gives.
    pub(crate) fn add(&self, long: Long) -> Arc<Long> {
        let long = Arc::new(long);
        let mut known = self.known();
        known.retain(|_, long| long.strong_count() > 0);
        known.insert(long.token.clone(), Arc::downgrade(&long));
        long
    }

    /// The line that strings in this text stand for.
    pub(crate) fn of(&self, text: &str) -> Option<Arc<Long>> {
        let known = self.known();
        if known.is_empty() {
            return None;
        }
        let mut found = memchr::memmem::find_iter(text.as_bytes(), OPENING.as_bytes());
        found.find_map(|at| {
            let token = text[at + OPENING.len()..].split(':').next()?;
            known.get(token)?.upgrade()
        })
    }
}

/// A line that is no UTF-8.
#[derive(Debug)]
pub(crate) struct NotText {
    /// It as it can be read, to tell whose it is.
    pub(crate) readable: String,
    pub(crate) bytes: Raw,
}

/// Bytes that are no text, wherever they are.
#[derive(Debug)]
pub(crate) enum Raw {
    Held(Vec<u8>),
    OnDisk(Arc<Long>),
}

impl Raw {
    /// Hands them out in pieces.
    pub(crate) fn pieces(self) -> Box<dyn Iterator<Item = io::Result<Vec<u8>>> + Send> {
        match self {
            Self::Held(bytes) => Box::new(std::iter::once(Ok(bytes))),
            Self::OnDisk(long) => {
                let mut at = 0;
                Box::new(std::iter::from_fn(move || {
                    let piece = long.read(at..long.bytes).next();
                    at += PIECE as u64;
                    piece
                }))
            }
        }
    }
}

impl From<Vec<u8>> for NotText {
    fn from(bytes: Vec<u8>) -> Self {
        let readable = String::from_utf8_lossy(&bytes).into_owned();
        Self { readable, bytes: Raw::Held(bytes) }
    }
}

/// Tells whether pieces are UTF-8 together.
#[derive(Debug, Default)]
struct Utf8 {
    /// The beginning of a character whose end has not come yet.
    begun: Vec<u8>,
    is_broken: bool,
}

impl Utf8 {
    fn push(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while !self.begun.is_empty()
            && !self.is_broken
            && let Some((first, behind)) = rest.split_first()
        {
            self.begun.push(*first);
            rest = behind;
            match std::str::from_utf8(&self.begun) {
                Ok(_) => self.begun.clear(),
                Err(error) => self.is_broken = error.error_len().is_some(),
            }
        }
        if self.is_broken || rest.is_empty() {
            return;
        }
        if let Err(error) = std::str::from_utf8(rest) {
            self.is_broken = error.error_len().is_some();
            self.begun = rest[error.valid_up_to()..].to_vec();
        }
    }

    fn is_whole(&self) -> bool {
        !self.is_broken && self.begun.is_empty()
    }
}

/// Takes the escapes out of a literal that comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct Unescape {
    /// The beginning of an escape whose end has not come yet.
    pending: Vec<u8>,
}

/// Why something on disk cannot be read as what it was taken for.
#[derive(Debug)]
pub(crate) enum Broken {
    /// It is no text, since it has half a surrogate pair or an escape that JSON does not have; or
    /// it is no base64.
    NotThat,
    /// The disk cannot be read.
    Disk,
}

impl Unescape {
    /// The text of the next piece, without the literal's quotes.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<Vec<u8>, Broken> {
        let joined;
        let mut rest = if self.pending.is_empty() {
            piece
        } else {
            joined = [self.pending.as_slice(), piece].concat();
            self.pending.clear();
            &joined[..]
        };
        let mut text = Vec::with_capacity(rest.len());
        while let Some(at) = memchr::memchr(b'\\', rest) {
            text.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            match escape(rest) {
                Some(Ok((char, len))) => {
                    text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                    rest = &rest[len..];
                }
                Some(Err(wrong)) => return Err(wrong),
                None => {
                    self.pending = rest.to_vec();
                    return Ok(text);
                }
            }
        }
        text.extend_from_slice(rest);
        Ok(text)
    }

    /// The end of the literal.
    pub(crate) fn finish(&self) -> Result<(), Broken> {
        if self.pending.is_empty() { Ok(()) } else { Err(Broken::NotThat) }
    }
}

/// The character of the escape at the beginning of `bytes`, and the escape's length; `None` where
/// more bytes are needed to tell.
fn escape(bytes: &[u8]) -> Option<Result<(char, usize), Broken>> {
    let simple = |char| Some(Ok((char, 2)));
    match bytes.get(1)? {
        b'n' => simple('\n'),
        b't' => simple('\t'),
        b'r' => simple('\r'),
        b'b' => simple('\u{8}'),
        b'f' => simple('\u{c}'),
        b'u' => {
            let high = match unit(bytes.get(2..6)?) {
                Some(unit) => unit,
                None => return Some(Err(Broken::NotThat)),
            };
            if !(0xd800..0xdc00).contains(&high) {
                return Some(char::from_u32(high).map(|char| (char, 6)).ok_or(Broken::NotThat));
            }
            if bytes.get(6)? != &b'\\' || bytes.get(7)? != &b'u' {
                return Some(Err(Broken::NotThat));
            }
            let low = unit(bytes.get(8..12)?).filter(|low| (0xdc00..0xe000).contains(low));
            let joined = low.map(|low| 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
            Some(joined.and_then(char::from_u32).map(|char| (char, 12)).ok_or(Broken::NotThat))
        }
        &plain @ (b'"' | b'\\' | b'/') => simple(char::from(plain)),
        _ => Some(Err(Broken::NotThat)),
    }
}

fn unit(hex: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::{quote, string};

    fn spooled(line: &str, piece: usize) -> (String, Long) {
        let mut spool = Spool::new().unwrap();
        for piece in line.as_bytes().chunks(piece) {
            spool.push(piece).unwrap();
        }
        spool.finish().unwrap()
    }

    fn expanded(long: &Long, text: &str) -> String {
        long.whole(text).unwrap()
    }

    #[test]
    fn a_skeleton_is_small_and_gives_the_line_back() {
        let text = quote(&format!("{}2", "line \"1\"\n\\ é".repeat(200_000)));
        let short = quote(&"x".repeat(1_000));
        let alike = text.replace("2", "3");
        let line =
            format!(r#"{{"a":{text},"b":[{short},{text}],"d":{alike},"e":{text} , "c": "\"\\"}}"#);
        for piece in [7_777, 1 << 20, line.len()] {
            let (skeleton, long) = spooled(&line, piece);
            assert!(skeleton.len() < 2_000, "{}", skeleton.len());
            let stand_ins = long.stand_ins(&skeleton).into_iter();
            assert_eq!(stand_ins.map(|(_, n)| n).collect::<Vec<_>>(), [0, 0, 1, 2]);
            assert!(expanded(&long, &skeleton) == line);
            let longs = Longs::default();
            assert!(longs.of(&skeleton).is_none());
            let held = longs.add(long);
            let on_its_way = longs.of(&skeleton).unwrap();
            drop(held);
            assert!(longs.of(&skeleton).is_some());
            drop(on_its_way);
            assert!(longs.of(&skeleton).is_none());
            longs.add(spooled(&line, piece).1);
            assert_eq!(longs.known().len(), 1);
        }
    }

    #[test]
    fn a_line_that_ends_in_a_string_is_no_json_and_ends_all_the_same() {
        let (skeleton, _) = spooled("{\"a\":\"b\\", 3);
        assert_eq!(skeleton, "{\"a\":\"b\\");
    }

    #[test]
    fn a_batch_is_held_in_memory() {
        assert!(Spool::new().unwrap().push(b" \t[{\"id\":1").is_err());
        let text = quote(&"x".repeat(LONG));
        let line = format!(r#" [{{"id":1,"result":{text}}},{{"id":2,"result":{text}}}]"#);
        let read = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(crate::lines::read_any(&mut line.as_bytes()));
        assert!(matches!(read, Ok(Some(crate::lines::Line::Whole(read))) if read == line));
    }

    #[test]
    fn a_line_that_is_no_utf_8_is_told_apart_and_kept() {
        let text = "x".repeat(LONG);
        for wrong in [&b"\xff"[..], b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f"] {
            for line in [
                [b"{\"id\":1,\"a\":\"", wrong, text.as_bytes(), b"\"}"].concat(),
                [b"{\"id\":1,\"a\":\"", text.as_bytes(), b"\"}", wrong].concat(),
                [b"{\"id\":1,\"a\":\"", wrong, b"\"}"].concat(),
                [b"[{\"a\":\"", wrong, text.as_bytes(), b"\"}]"].concat(),
            ] {
                let read = tokio::runtime::Builder::new_current_thread()
                    .build()
                    .unwrap()
                    .block_on(crate::lines::read_any(&mut line.as_slice()));
                let Ok(Some(crate::lines::Line::NotText(read))) = read else { panic!("{wrong:?}") };
                assert!(read.readable.contains(r#""a":""#));
                let pieces: io::Result<Vec<Vec<u8>>> = read.bytes.pieces().collect();
                assert!(pieces.unwrap().concat() == line);
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_are_text_where_the_whole_is(
            bytes in prop_oneof![
                proptest::collection::vec(
                    prop_oneof![any::<u8>(), Just(0xf0), Just(0x9f), Just(0xe2), Just(0x82)], 0..12),
                "[aé😀\u{ffff}]{0,12}".prop_map(String::into_bytes),
            ],
            piece in 1..9_usize,
        ) {
            let mut utf8 = Utf8::default();
            bytes.chunks(piece).for_each(|piece| utf8.push(piece));
            prop_assert_eq!(utf8.is_whole(), std::str::from_utf8(&bytes).is_ok());
        }
    }

    #[test]
    fn a_spool_can_be_taken_back() {
        let mut spool = Spool::new().unwrap();
        spool.push(b"{\"a\":").unwrap();
        spool.push(b"1").unwrap();
        assert_eq!(spool.back().unwrap(), b"{\"a\":1");
    }

    proptest! {
        #[test]
        fn escapes_are_taken_out_wherever_a_piece_ends(
            text in "[ -~é😀\\n\\t\\x01]{0,60}",
            unicode in any::<bool>(),
            piece in 1..9_usize,
        ) {
            let mut literal = quote(&text);
            if unicode {
                literal = literal.replace('é', "\\u00e9").replace('😀', "\\ud83d\\uDE00");
            }
            let inner = &literal[1..literal.len() - 1];
            let mut unescape = Unescape::default();
            let mut out = Vec::new();
            for piece in inner.as_bytes().chunks(piece) {
                out.extend(unescape.push(piece).unwrap());
            }
            unescape.finish().unwrap();
            prop_assert_eq!(String::from_utf8(out).ok(), string(&literal));
        }
    }

    #[test]
    fn half_a_surrogate_pair_is_no_text() {
        for literal in ["\\ud800", "\\ud800x y z zzzz", "\\udc00", "\\x", "\\ud800\\u0041"] {
            let mut unescape = Unescape::default();
            let pushed = unescape.push(literal.as_bytes());
            assert!(pushed.is_err() || unescape.finish().is_err(), "{literal}");
        }
    }
}
