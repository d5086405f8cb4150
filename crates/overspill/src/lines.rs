//! The line grid of a payload: slices that put together give the payload back, none of them long.
//!
//! A *physical line* ends after `\n`. One of at most [`MAX_LINE_CHARS`] characters is one line of
//! the grid; a longer one is cut into pieces, and each piece is a line:
//!
//! - If it opens with `{` or `[`, after each record: each element of its outermost list of
//!   objects or lists. A piece that is still too long is cut after its last comma or bracket
//!   outside a string, or else as below.
//! - Otherwise on a character boundary, after every [`MAX_LINE_CHARS`] characters.
//!
//! Only `\n` ends a line, and it counts as no character of it. An invalid UTF-8 sequence counts
//! as one character and is never cut. What a line is depends on the payload alone, not on the
//! pieces it arrived in: every decision takes a bounded look-ahead, and waits for it.

use memchr::memchr;

/// A line longer than this many characters is cut further.
///
/// Two thousand is what models are shown of a line by the read tools they know, and 25 such lines
/// fit into one answer of 50,000 characters.
pub const MAX_LINE_CHARS: usize = 2_000;

/// The most bytes a line is: four for each character, and the `\n`.
pub const MAX_LINE_BYTES: usize = 4 * MAX_LINE_CHARS + 1;

/// The deepest nesting that is counted; deeper brackets count as this deep.
const MAX_DEPTH: u32 = (1 << DEPTH_BITS) - 1;

/// Two depths of 29 bits and five bits of flags fill 63 of a state's 64 bits.
const DEPTH_BITS: u32 = 29;

/// Where the scanner stands at the start of a line; scanning can resume from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScanState(u64);

impl ScanState {
    /// The state at the start of a payload, and after every `\n`.
    pub const START: Self = Self(0);

    /// In a long physical line that is cut by counting characters.
    const PLAIN: Self = Self(1);

    /// In a long physical line that is cut by its JSON structure, with more flags beside it.
    const JSON: u64 = 2;

    /// The state as a number, for the index.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The state a number stands for.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Whether a line with this state at its start continues a physical line that was cut before
    /// it.
    pub fn is_continued(self) -> bool {
        self != Self::START
    }
}

/// One line of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its number, from 0.
    pub number: u64,
    /// Where in the payload it starts, in bytes.
    pub offset: u64,
    /// Its bytes, the `\n` at its end included where it has one.
    pub bytes: &'a [u8],
    /// The scanner's state at its start.
    pub state: ScanState,
}

impl<'a> Line<'a> {
    /// Its bytes without the `\n` at its end.
    pub fn content(&self) -> &'a [u8] {
        self.bytes.strip_suffix(b"\n").unwrap_or(self.bytes)
    }
}

/// The lines of a payload held in memory.
///
/// ```
/// let lines: Vec<&[u8]> = overspill::lines::lines(b"one\ntwo").map(|line| line.bytes).collect();
/// assert_eq!(lines, [&b"one\n"[..], b"two"]);
/// ```
pub fn lines(payload: &[u8]) -> Lines<'_> {
    Lines { rest: payload, at: LineScanner::default(), end: End::Payload }
}

/// Iterates over lines that are all in memory.
#[derive(Debug, Clone)]
pub struct Lines<'a> {
    rest: &'a [u8],
    at: LineScanner,
    end: End,
}

impl<'a> Lines<'a> {
    /// The lines of a part of a payload that starts where `at` stands. It ends at the start of a
    /// line with state `next`, or at the end of the payload where there is none.
    pub(crate) fn within(part: &'a [u8], at: LineScanner, next: Option<ScanState>) -> Self {
        Self { rest: part, at, end: next.map_or(End::Payload, End::Line) }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        let (line, rest) = self.at.step(self.rest, self.end)?;
        self.rest = rest;
        Some(line)
    }
}

/// Finds lines in a payload that arrives in pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineScanner {
    state: ScanState,
    number: u64,
    offset: u64,
}

impl LineScanner {
    /// Resumes at the start of line `number`, which lies at byte `offset`.
    pub fn resume(offset: u64, number: u64, state: ScanState) -> Self {
        Self { state, number, offset }
    }

    /// The number of the next line: how many were handed out, where scanning began at 0.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where the next line starts, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The state at the start of the next line.
    pub fn state(&self) -> ScanState {
        self.state
    }

    /// Hands every line that is decided in `buf` to `on_line` and returns how many bytes those
    /// lines are; the caller puts the rest before the next piece. With `last`, everything is
    /// decided. Without it, the rest is at most [`MAX_LINE_BYTES`] long.
    pub fn scan<'a>(
        &mut self,
        buf: &'a [u8],
        last: bool,
        on_line: &mut dyn FnMut(Line<'a>),
    ) -> usize {
        let end = if last { End::Payload } else { End::Unknown };
        let mut rest = buf;
        while let Some((line, behind)) = self.step(rest, end) {
            on_line(line);
            rest = behind;
        }
        buf.len() - rest.len()
    }

    /// Takes one line off the front of `buf`, if it can be decided.
    fn step<'a>(&mut self, buf: &'a [u8], end: End) -> Option<(Line<'a>, &'a [u8])> {
        let cut = next_line(buf, self.state, end)?;
        let (bytes, rest) = buf.split_at(cut.at);
        let line = Line { number: self.number, offset: self.offset, bytes, state: self.state };
        self.state = cut.state;
        self.number += 1;
        self.offset += bytes.len() as u64;
        Some((line, rest))
    }
}

/// What is known about the place where a buffer ends.
#[derive(Debug, Clone, Copy)]
enum End {
    /// More may follow: a line that it could change is left undecided.
    Unknown,
    /// The payload ends there.
    Payload,
    /// A line starts there, with this state.
    Line(ScanState),
}

impl End {
    /// The state behind the end.
    fn state(self) -> ScanState {
        match self {
            Self::Line(state) => state,
            Self::Unknown | Self::Payload => ScanState::START,
        }
    }
}

/// The end of a line, and the state of the line that starts there.
#[derive(Debug, Clone, Copy)]
struct Cut {
    at: usize,
    state: ScanState,
}

impl Cut {
    /// After the `\n` at `newline`, where the state starts anew.
    fn after_newline(newline: usize) -> Self {
        Self { at: newline + 1, state: ScanState::START }
    }
}

/// Finds the end of the line at the front of `buf`.
fn next_line(buf: &[u8], state: ScanState, end: End) -> Option<Cut> {
    if buf.is_empty() {
        return None;
    }
    if let Some(json) = Json::unpack(state) {
        return json_piece(buf, json, end);
    }
    match Reach::of(buf, end)? {
        Reach::Newline(newline) => Some(Cut::after_newline(newline)),
        Reach::Limit(limit) if state == ScanState::START && opens_json(&buf[..limit]) => {
            json_piece(buf, Json::default(), end)
        }
        Reach::Limit(limit) => Some(Cut { at: limit, state: ScanState::PLAIN }),
        // The physical line goes on behind the buffer, and the state there tells its kind.
        Reach::End if state == ScanState::START && Json::unpack(end.state()).is_some() => {
            json_piece(buf, Json::default(), end)
        }
        Reach::End => Some(Cut { at: buf.len(), state: end.state() }),
    }
}

/// What comes first in a buffer.
#[derive(Debug, Clone, Copy)]
enum Reach {
    /// A `\n` at this position.
    Newline(usize),
    /// This position, behind [`MAX_LINE_CHARS`] characters, and something other than `\n` there.
    Limit(usize),
    /// The end of the buffer.
    End,
}

impl Reach {
    /// What comes first, or nothing where that depends on what follows.
    #[inline]
    fn of(buf: &[u8], end: End) -> Option<Self> {
        // Nearly every line ends here: no more bytes than characters are allowed.
        if let Some(newline) = memchr(b'\n', &buf[..buf.len().min(MAX_LINE_CHARS + 1)]) {
            return Some(Self::Newline(newline));
        }
        if buf.len() > MAX_LINE_CHARS && buf[..MAX_LINE_CHARS].is_ascii() {
            return Some(Self::Limit(MAX_LINE_CHARS));
        }
        Self::by_counting(buf, end)
    }

    fn by_counting(buf: &[u8], end: End) -> Option<Self> {
        let window = &buf[..buf.len().min(MAX_LINE_BYTES)];
        let newline = memchr(b'\n', window);
        let text = &window[..newline.unwrap_or(window.len())];
        // A sequence at the end of the text may be incomplete. It then ends where the text does,
        // so a limit before that is certain.
        match after_chars(text, MAX_LINE_CHARS) {
            Some(limit) if limit < text.len() => Some(Self::Limit(limit)),
            _ => match (newline, end) {
                (Some(newline), _) => Some(Self::Newline(newline)),
                (None, End::Unknown) => None,
                (None, End::Payload | End::Line(_)) => Some(Self::End),
            },
        }
    }
}

/// The position behind the first `count` characters, if there are as many.
fn after_chars(text: &[u8], count: usize) -> Option<usize> {
    let mut left = count;
    let mut at = 0;
    for chunk in text.utf8_chunks() {
        let valid = chunk.valid();
        if let Some((limit, _)) = valid.char_indices().nth(left) {
            return Some(at + limit);
        }
        left -= valid.chars().count();
        at += valid.len();
        if !chunk.invalid().is_empty() {
            if left == 0 {
                return Some(at);
            }
            left -= 1;
            at += chunk.invalid().len();
        }
    }
    (left == 0).then_some(at)
}

/// Whether the first byte that is no space or tab opens a JSON object or list. Only the look-ahead
/// counts: what opens behind it is cut as plain text.
fn opens_json(look_ahead: &[u8]) -> bool {
    look_ahead
        .iter()
        .find(|byte| !matches!(byte, b' ' | b'\t'))
        .is_some_and(|byte| matches!(byte, b'{' | b'['))
}

/// Finds the end of a piece of a long physical line of JSON.
fn json_piece(buf: &[u8], json: Json, end: End) -> Option<Cut> {
    let mut walk = Walk { json, at: 0, structural: None };
    // As many bytes as characters are allowed are never too long, so most records end here,
    // without any counting.
    let sure = &buf[..buf.len().min(MAX_LINE_CHARS)];
    if let Some(cut) = walk.run(sure) {
        return Some(cut);
    }
    match Reach::of(buf, end)? {
        Reach::Newline(newline) => walk.run(&buf[..=newline]),
        Reach::Limit(limit) => walk
            .run(&buf[..limit])
            .or(walk.structural)
            .or(Some(Cut { at: limit, state: walk.json.pack() })),
        Reach::End => walk.run(buf).or(Some(Cut { at: buf.len(), state: end.state() })),
    }
}

/// How far a JSON string goes on before a quote, a backslash or a `\n` ends or interrupts it.
///
/// Most strings have a few bytes, fewer than it takes to start a search of `memchr`: eight at a
/// time are looked at without one.
#[inline]
pub(crate) fn string_end(rest: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    // The top bit of each byte that equals `byte`; above the first such byte it may be set
    // elsewhere too.
    let equal = |word: u64, byte: u8| {
        let differs = word ^ (ONES * u64::from(byte));
        differs.wrapping_sub(ONES) & !differs & ONES << 7
    };
    let (words, tail) = rest.as_chunks();
    for (word, at) in words.iter().zip((0..).step_by(8)) {
        let word = u64::from_le_bytes(*word);
        let hits = equal(word, b'"') | equal(word, b'\\') | equal(word, b'\n');
        if hits != 0 {
            return at + hits.trailing_zeros() as usize / 8;
        }
    }
    let end = tail.iter().position(|byte| matches!(byte, b'"' | b'\\' | b'\n'));
    rest.len() - tail.len() + end.unwrap_or(tail.len())
}

/// Where in a JSON text a scan stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Json {
    in_string: bool,
    /// The last byte was a backslash in a string.
    escape: bool,
    /// The last byte that is no white space was a `[`, so the first element is still to come.
    first_to_come: bool,
    depth: u32,
    /// The depth of the elements of the record list; 0 outside one.
    record_depth: u32,
}

impl Json {
    fn pack(self) -> ScanState {
        ScanState(
            ScanState::JSON
                | u64::from(self.in_string) << 2
                | u64::from(self.escape) << 3
                | u64::from(self.first_to_come) << 4
                | u64::from(self.depth) << 5
                | u64::from(self.record_depth) << (5 + DEPTH_BITS),
        )
    }

    fn unpack(state: ScanState) -> Option<Self> {
        let bits = state.0;
        let depth_at = |shift: u32| (bits >> shift) as u32 & MAX_DEPTH;
        (bits & 3 == ScanState::JSON).then(|| Self {
            in_string: bits & 1 << 2 != 0,
            escape: bits & 1 << 3 != 0,
            first_to_come: bits & 1 << 4 != 0,
            depth: depth_at(5),
            record_depth: depth_at(5 + DEPTH_BITS),
        })
    }
}

/// One walk along a piece of JSON, from its start.
///
/// It takes any bytes for JSON and never fails: broken JSON is cut in worse places, no more.
#[derive(Debug)]
struct Walk {
    json: Json,
    at: usize,
    /// Behind the last comma or bracket.
    structural: Option<Cut>,
}

impl Walk {
    /// Walks on to the end of `bytes`, or to the end of a record or physical line before it.
    fn run(&mut self, bytes: &[u8]) -> Option<Cut> {
        let mut json = self.json;
        let mut at = self.at;
        let mut structural = None;
        let cut = loop {
            if json.in_string && !json.escape {
                at += string_end(&bytes[at..]);
            }
            let Some(&byte) = bytes.get(at) else { break None };
            at += 1;
            if byte == b'\n' {
                break Some(Cut { at, state: ScanState::START });
            }
            if json.in_string {
                if json.escape {
                    json.escape = false;
                } else {
                    json.escape = byte == b'\\';
                    json.in_string = byte != b'"';
                }
                continue;
            }
            match byte {
                b' ' | b'\t' | b'\r' => continue,
                b'{' | b'[' => {
                    if json.first_to_come && json.record_depth == 0 {
                        json.record_depth = json.depth;
                    }
                    json.first_to_come = byte == b'[';
                    json.depth = (json.depth + 1).min(MAX_DEPTH);
                }
                b'}' | b']' => {
                    json.first_to_come = false;
                    json.depth = json.depth.saturating_sub(1);
                    if json.depth < json.record_depth {
                        json.record_depth = 0;
                    }
                }
                b',' => {
                    json.first_to_come = false;
                    if json.record_depth > 0 && json.depth == json.record_depth {
                        break Some(Cut { at, state: json.pack() });
                    }
                }
                _ => {
                    json.first_to_come = false;
                    json.in_string = byte == b'"';
                    continue;
                }
            }
            structural = Some((at, json));
        };
        self.json = json;
        self.at = at;
        if let Some((at, json)) = structural {
            self.structural = Some(Cut { at, state: json.pack() });
        }
        cut
    }
}

#[cfg(test)]
mod naive;

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(payload: &[u8]) -> Vec<&[u8]> {
        lines(payload).map(|line| line.bytes).collect()
    }

    #[test]
    fn short_lines_end_after_their_newline_and_nowhere_else() {
        assert_eq!(cut(b""), Vec::<&[u8]>::new());
        assert_eq!(cut(b"\n"), [b"\n"]);
        assert_eq!(cut(b"a\r\n\nb\rc"), [&b"a\r\n"[..], b"\n", b"b\rc"]);
        let no_ends = "a\u{85}b\u{2028}c\u{2029}d\u{b}e\u{c}f";
        assert_eq!(cut(no_ends.as_bytes()), [no_ends.as_bytes()]);
    }

    #[test]
    fn the_newline_counts_as_no_character() {
        let full = "é".repeat(MAX_LINE_CHARS) + "\n";
        assert_eq!(cut(full.as_bytes()), [full.as_bytes()]);
        let over = "é".repeat(MAX_LINE_CHARS + 1) + "\n";
        assert_eq!(cut(over.as_bytes()), [&over.as_bytes()[..4_000], "é\n".as_bytes()]);
        let twice = "x".repeat(2 * MAX_LINE_CHARS) + "\ny";
        let sizes: Vec<usize> = cut(twice.as_bytes()).iter().map(|line| line.len()).collect();
        assert_eq!(sizes, [2_000, 2_001, 1]);
    }

    #[test]
    fn an_invalid_sequence_is_one_character_and_stays_whole() {
        // A sequence of four bytes that lacks its last is one character; three bytes that can
        // start nothing are three.
        let short = [&b"\xf0\x90\x80"[..]; MAX_LINE_CHARS].concat();
        assert_eq!(cut(&short), [&short[..]]);
        let over = b"\xff".repeat(MAX_LINE_CHARS + 1);
        assert_eq!(cut(&over), [&over[..MAX_LINE_CHARS], b"\xff"]);
    }

    #[test]
    fn each_record_of_a_one_line_list_is_a_line() {
        let record = |id: usize| format!(r#"{{"id":{id},"tags":["a","b"],"note":"x,]{{[\" y"}}"#);
        let records: Vec<String> = (0..100).map(record).collect();
        let payload = format!(r#" {{"ok":true,"items":[{}],"next":null}}"#, records.join(","));
        let lines = cut(payload.as_bytes());
        assert_eq!(lines.len(), 100);
        assert_eq!(lines[0], format!(r#" {{"ok":true,"items":[{},"#, records[0]).as_bytes());
        assert_eq!(lines[57], format!("{},", records[57]).as_bytes());
        assert_eq!(lines[99], format!(r#"{}],"next":null}}"#, records[99]).as_bytes());
    }

    #[test]
    fn a_list_of_plain_values_is_cut_after_its_last_comma() {
        let payload = format!("[{}]\n", vec!["12345678"; 1_000].join(","));
        let lines = cut(payload.as_bytes());
        assert_eq!(lines.iter().map(|line| line.len()).collect::<Vec<_>>()[..2], [1_999, 1_998]);
        assert!(lines[..lines.len() - 1].iter().all(|line| line.ends_with(b",")));
    }

    #[test]
    fn a_long_string_in_json_is_cut_by_counting_even_within_an_escape() {
        let payload = format!(r#"{{"a":"{}\",]x", "b":[{{}},{{}}]}}"#, "y".repeat(1_994));
        let lines = cut(payload.as_bytes());
        assert_eq!(lines[0], b"{");
        assert_eq!(lines[1].len(), MAX_LINE_CHARS);
        assert_eq!(lines[2..], [&br#"",]x", "b":[{},"#[..], b"{}]}"]);
    }

    proptest! {
        #[test]
        fn a_string_goes_on_to_the_first_byte_that_ends_or_interrupts_it(
            text in proptest::collection::vec(
                prop_oneof![8 => any::<u8>(), 1 => proptest::sample::select(&br#"!"\#[]"#[..])],
                0..40,
            ),
        ) {
            let first = text.iter().position(|byte| b"\"\\\n".contains(byte));
            prop_assert_eq!(string_end(&text), first.unwrap_or(text.len()));
        }
    }

    #[test]
    fn json_after_more_blanks_than_the_look_ahead_is_plain() {
        let payload = " ".repeat(MAX_LINE_CHARS) + "[{},{}]";
        assert_eq!(cut(payload.as_bytes())[1], b"[{},{}]");
    }

    #[test]
    fn hostile_depth_is_scanned_in_linear_time() {
        for byte in [b'[', b'{', b']', b'"', b'\\', b','] {
            let mut payload = b"[".to_vec();
            payload.resize(1 << 20, byte);
            assert_eq!(cut(&payload).concat(), payload);
        }
    }

    #[test]
    fn any_bits_are_a_state_to_resume_from() {
        let payload = "[[{\"a\":1},".repeat(1_000);
        for bits in [1, 2, 3, 0xff, u64::MAX, u64::MAX - 1, 0xffff_ffff_ffff_ffe2] {
            let at = LineScanner::resume(7, 9, ScanState::from_bits(bits));
            let whole: Vec<u8> = Lines::within(payload.as_bytes(), at, None)
                .flat_map(|l| l.bytes)
                .copied()
                .collect();
            assert_eq!(whole, payload.as_bytes());
        }
    }

    /// Payloads with lines around the limit, JSON whole and broken, and bytes that are not text.
    pub(crate) fn payloads() -> impl Strategy<Value = Vec<u8>> {
        let token = prop_oneof![
            8 => prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"", "\\", " ", "\t", "[{", "},{", "}]", "[[", "],[",
                "\"k\":", "\"v,[\"", "\\\"", "null", "1", "\r\n", "\n", "\u{85}", "\u{2028}", "é", "🦀",
            ]).prop_map(|text| text.as_bytes().to_vec()),
            1 => prop::sample::select(vec![
                &b"\xff"[..], b"\xf0\x90", b"\xf0\x90\x80", b"\xe2\x82", b"\xc3", b"\x80", b"\xed\xa0\x80",
            ]).prop_map(<[u8]>::to_vec),
            1 => prop::collection::vec(any::<u8>(), 0..4),
        ];
        let run = (token, prop_oneof![6 => 1..4_usize, 2 => 1..700_usize, 1 => 1_990..2_010_usize])
            .prop_map(|(token, times)| token.repeat(times));
        let opening = prop::sample::select(vec!["", "{\"a\":[", "[", " [ ", "{", "x"]);
        (opening, prop::collection::vec(run, 0..40)).prop_map(|(opening, runs)| {
            let mut payload = opening.as_bytes().to_vec();
            payload.extend(runs.concat());
            payload
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn the_grid_equals_the_naive_one(payload in payloads()) {
            prop_assert_eq!(cut(&payload), naive::lines(&payload));
        }

        #[test]
        fn lines_put_together_give_the_payload_back_and_none_is_long(payload in payloads()) {
            let mut offset = 0;
            for (number, line) in lines(&payload).enumerate() {
                prop_assert_eq!((line.number, line.offset), (number as u64, offset as u64));
                prop_assert!(naive::chars(line.content()).len() <= MAX_LINE_CHARS);
                prop_assert!(!line.content().contains(&b'\n') && !line.bytes.is_empty());
                prop_assert_eq!(line.bytes, &payload[offset..offset + line.bytes.len()]);
                offset += line.bytes.len();
            }
            prop_assert_eq!(offset, payload.len());
        }

        #[test]
        fn chunks_do_not_matter(
            payload in payloads(),
            sizes in prop::collection::vec(prop_oneof![1..9_usize, 1..5_000_usize], 1..9),
        ) {
            let mut scanner = LineScanner::default();
            let mut found: Vec<(u64, u64, ScanState, Vec<u8>)> = vec![];
            let mut buf = vec![];
            let mut rest = &payload[..];
            let mut sizes = sizes.into_iter().cycle();
            loop {
                let (chunk, behind) = rest.split_at(sizes.next().unwrap().min(rest.len()));
                rest = behind;
                buf.extend_from_slice(chunk);
                let used = scanner.scan(&buf, rest.is_empty(), &mut |l| {
                    found.push((l.number, l.offset, l.state, l.bytes.to_vec()));
                });
                buf.drain(..used);
                if rest.is_empty() { break }
                prop_assert!(buf.len() <= MAX_LINE_BYTES);
            }
            let whole: Vec<_> =
                lines(&payload).map(|l| (l.number, l.offset, l.state, l.bytes.to_vec())).collect();
            prop_assert_eq!(found, whole);
        }

        #[test]
        fn every_line_is_a_place_to_resume_and_to_stop(payload in payloads(), pick in any::<prop::sample::Index>()) {
            let whole: Vec<Line<'_>> = lines(&payload).collect();
            prop_assume!(!whole.is_empty());
            let split = pick.index(whole.len());
            let from = whole[split];
            let (before, after) = payload.split_at(from.offset as usize);
            let at = LineScanner::resume(from.offset, from.number, from.state);
            prop_assert_eq!(Lines::within(after, at, None).collect::<Vec<_>>(), &whole[split..]);
            let before = Lines::within(before, LineScanner::default(), Some(from.state));
            prop_assert_eq!(before.collect::<Vec<_>>(), &whole[..split]);
        }
    }
}
