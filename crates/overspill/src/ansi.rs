//! Takes terminal control sequences out of text, in one pass and in constant memory.
//!
//! What counts as a sequence is ECMA-48: control sequences (CSI), control strings (OSC, DCS, SOS,
//! PM, APC), and escape sequences of two or more characters (charset selection and the like); each
//! introduced by ESC or by its C1 control in UTF-8. Stripping must not lose text, so where a
//! sequence is broken the benefit of the doubt goes to the text:
//!
//! - A sequence never crosses a line end, nor another ESC or C1 control, and holds at most
//!   [`MAX_SEQUENCE`] bytes.
//! - A control string that does not end within these bounds was none: its introducer goes, what
//!   it held stays.
//! - A control sequence or escape sequence that is cut off (by a control character or by the end)
//!   goes: it holds parameters only, which no terminal shows. If a character stands in it that
//!   cannot be part of one, it was none: its introducer goes, what it held stays.
//! - CAN and SUB cancel the sequence they stand in and go with it.
//!
//! All other control characters stay (TAB, CR, LF, BS, BEL, CAN outside of a sequence), and so
//! does U+0085, the one C1 control that is a line end in Unicode. Bytes 0x80 to 0x9F that are not
//! UTF-8 stay: they may be characters of any encoding.

use std::borrow::Cow;

use memchr::memchr2;

/// The most bytes a sequence may hold: beyond that it was none. Enough for hyperlinks (terminals
/// take 2,083 characters of address), titles, and the 4,096-byte pieces in which images are sent;
/// it is also what a [`Stripper`] holds back at most, so that a line with what was held back fits
/// into an answer of the read tool.
pub const MAX_SEQUENCE: usize = 5 * 1024;

/// Strips control sequences from text that arrives in pieces.
///
/// However the text is cut into pieces, what comes out put together is the same.
#[derive(Debug, Clone, Default)]
pub struct Stripper {
    state: State,
    /// What the open sequence holds so far, without its introducer.
    held: Vec<u8>,
    /// Whether the last byte was a 0xC2, which opens a C1 control or another character.
    lead: bool,
}

/// Where in a sequence the stripper stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Text,
    /// Behind an ESC.
    Escape,
    /// In an escape sequence with intermediate bytes, such as `ESC ( B`.
    Charset,
    /// In a control sequence, at its parameters.
    Parameters,
    /// In a control sequence, at its intermediate bytes.
    Intermediates,
    /// In a control string.
    Body(Body),
    /// Behind an ESC in a control string.
    BodyEscape(Body),
}

/// What ends a control string besides ST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// OSC: BEL too, as xterm has it.
    Osc,
    /// DCS, SOS, PM and APC: nothing else.
    Other,
}

/// What the stripper looks at: a byte, or a C1 control in UTF-8 (its second byte).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Byte(u8),
    C1(u8),
}

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
/// The first byte of U+0080 to U+00BF in UTF-8; C1 controls are the lower half of them.
const LEAD: u8 = 0xc2;
const NEXT_LINE: u8 = 0x85;
const ST: u8 = 0x9c;

impl Stripper {
    /// The piece without its control sequences; a sequence that is cut off goes on in the next.
    pub fn strip<'a>(&mut self, piece: &'a [u8]) -> Cow<'a, [u8]> {
        let plain = match (self.state, self.lead) {
            (State::Text, false) => first_control(piece).unwrap_or(piece.len()),
            _ => 0,
        };
        if plain == piece.len() {
            return Cow::Borrowed(piece);
        }
        let mut out = Vec::with_capacity(piece.len() + self.held.len());
        let mut rest = piece;
        while let [byte, after @ ..] = rest {
            if self.state == State::Text && !self.lead {
                let plain = memchr2(ESC, LEAD, rest).unwrap_or(rest.len());
                if plain > 0 {
                    out.extend_from_slice(&rest[..plain]);
                    rest = &rest[plain..];
                    continue;
                }
            }
            self.byte(*byte, &mut out);
            rest = after;
        }
        Cow::Owned(out)
    }

    /// What is left to show when the text ends.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.lead {
            self.unit(Unit::Byte(LEAD), &mut out);
        }
        if let State::Body(_) | State::BodyEscape(_) = self.state {
            self.release(&mut out);
        }
        out
    }

    /// Puts C1 controls together from their two bytes.
    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.lead) {
            if let 0x80..=0x9f = byte {
                return self.unit(Unit::C1(byte), out);
            }
            self.unit(Unit::Byte(LEAD), out);
        }
        if byte == LEAD {
            self.lead = true;
        } else {
            self.unit(Unit::Byte(byte), out);
        }
    }

    fn unit(&mut self, unit: Unit, out: &mut Vec<u8>) {
        match self.state {
            State::Text => self.text(unit, out),
            State::Escape => match unit {
                Unit::Byte(b'[') => self.state = State::Parameters,
                Unit::Byte(b']') => self.state = State::Body(Body::Osc),
                Unit::Byte(b'P' | b'X' | b'^' | b'_') => self.state = State::Body(Body::Other),
                Unit::Byte(byte @ 0x20..=0x2f) => self.hold(byte, State::Charset, out),
                Unit::Byte(0x30..=0x7e | CAN | SUB) => self.drop_sequence(),
                _ => self.cut_off(unit, out),
            },
            State::Charset => match unit {
                Unit::Byte(byte @ 0x20..=0x2f) => self.hold(byte, State::Charset, out),
                Unit::Byte(0x30..=0x7e) => self.drop_sequence(),
                _ => self.broken(unit, out),
            },
            State::Parameters => match unit {
                Unit::Byte(byte @ 0x30..=0x3f) => self.hold(byte, State::Parameters, out),
                Unit::Byte(byte @ 0x20..=0x2f) => self.hold(byte, State::Intermediates, out),
                Unit::Byte(0x40..=0x7e) => self.drop_sequence(),
                _ => self.broken(unit, out),
            },
            State::Intermediates => match unit {
                Unit::Byte(byte @ 0x20..=0x2f) => self.hold(byte, State::Intermediates, out),
                Unit::Byte(0x40..=0x7e) => self.drop_sequence(),
                _ => self.broken(unit, out),
            },
            State::Body(body) => match unit {
                Unit::Byte(BEL) if body == Body::Osc => self.drop_sequence(),
                Unit::Byte(CAN | SUB) | Unit::C1(ST) => self.drop_sequence(),
                Unit::Byte(ESC) => self.state = State::BodyEscape(body),
                Unit::Byte(b'\n' | b'\r') | Unit::C1(_) => self.was_text(unit, out),
                Unit::Byte(byte) => self.hold(byte, State::Body(body), out),
            },
            State::BodyEscape(_) => match unit {
                Unit::Byte(b'\\') => self.drop_sequence(),
                _ => {
                    self.release(out);
                    self.state = State::Escape;
                    self.unit(unit, out);
                }
            },
        }
    }

    /// Outside of sequences.
    fn text(&mut self, unit: Unit, out: &mut Vec<u8>) {
        match unit {
            Unit::Byte(ESC) => self.state = State::Escape,
            Unit::Byte(byte) => out.push(byte),
            Unit::C1(NEXT_LINE) => out.extend_from_slice(&[LEAD, NEXT_LINE]),
            Unit::C1(0x9b) => self.state = State::Parameters,
            Unit::C1(0x9d) => self.state = State::Body(Body::Osc),
            Unit::C1(0x90 | 0x98 | 0x9e | 0x9f) => self.state = State::Body(Body::Other),
            Unit::C1(_) => {}
        }
    }

    fn hold(&mut self, byte: u8, state: State, out: &mut Vec<u8>) {
        self.held.push(byte);
        self.state = state;
        if self.held.len() > MAX_SEQUENCE {
            self.release(out);
        }
    }

    /// The sequence ended as it should, or was cancelled.
    fn drop_sequence(&mut self) {
        self.held.clear();
        self.state = State::Text;
    }

    /// The sequence holds only parameters and met a control character, or text that cannot be part
    /// of a sequence.
    fn broken(&mut self, unit: Unit, out: &mut Vec<u8>) {
        match unit {
            Unit::Byte(CAN | SUB) => self.drop_sequence(),
            Unit::Byte(0x00..=0x1f) | Unit::C1(_) => self.cut_off(unit, out),
            Unit::Byte(_) => self.was_text(unit, out),
        }
    }

    fn cut_off(&mut self, unit: Unit, out: &mut Vec<u8>) {
        self.drop_sequence();
        self.text(unit, out);
    }

    fn was_text(&mut self, unit: Unit, out: &mut Vec<u8>) {
        self.release(out);
        self.text(unit, out);
    }

    /// It was no sequence: what it held is text.
    fn release(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
        self.state = State::Text;
    }
}

/// The text without its control sequences; borrowed where there are none.
///
/// ```
/// use overspill::ansi::strip;
///
/// assert_eq!(&*strip(b"\x1b[1;31merror\x1b[0m: no such file"), b"error: no such file");
/// ```
pub fn strip(text: &[u8]) -> Cow<'_, [u8]> {
    let mut stripper = Stripper::default();
    match stripper.strip(text) {
        Cow::Owned(mut stripped) => {
            stripped.append(&mut stripper.finish());
            Cow::Owned(stripped)
        }
        borrowed => borrowed,
    }
}

/// Where the first ESC or C1 control stands, or a last byte that may open one.
fn first_control(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr2(ESC, LEAD, &text[from..])?;
        match text[at..] {
            [ESC, ..] | [LEAD] | [LEAD, 0x80..=0x84 | 0x86..=0x9f, ..] => return Some(at),
            _ => from = at + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    #[track_caller]
    fn check(text: &str, stripped: &str) {
        assert_eq!(std::str::from_utf8(&strip(text.as_bytes())).unwrap(), stripped, "{text:?}");
    }

    fn strip_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
        let mut stripper = Stripper::default();
        let mut out = Vec::new();
        for piece in pieces {
            out.extend_from_slice(&stripper.strip(piece));
            assert!(stripper.held.len() <= MAX_SEQUENCE);
        }
        out.append(&mut stripper.finish());
        out
    }

    #[test]
    fn every_kind_of_sequence_goes() {
        check("\x1b[1;31;40mred\x1b[m", "red");
        check("\x1b[?25lhidden\x1b[?25h", "hidden");
        check("\x1b[38:2::255:0:0mcolon\x1b[0m", "colon");
        check("\x1b[1 qcursor", "cursor");
        check("\x1b[!preset", "reset");
        check("\x1b]0;title\x07text", "text");
        check("\x1b]0;título\x1b\\text", "text");
        check("\x1b]0;title\u{9c}text", "text");
        check("\x1bP1$r0m\x1b\\a\x1bXsos\x1b\\b\x1b^pm\x1b\\c\x1b_apc\x1b\\d", "abcd");
        check("\x1b_bell \x07 inside\x1b\\text", "text");
        check("\x1b(Bcharset\x1b)0 \x1b$(Ctext\x1b%G", "charset text");
        check("\x1b7save\x1b8\x1bcreset\x1b=\x1bM", "savereset");
        check("\u{9b}31mC1\u{9b}0m \u{9d}0;t\u{9c}\u{90}q\u{9c}\u{84}\u{8d}text", "C1 text");
    }

    #[test]
    fn controls_outside_of_sequences_stay() {
        check("a\tb\r\nc\x08d\x07e\x00f\x18g\x7f", "a\tb\r\nc\x08d\x07e\x00f\x18g\x7f");
        check("\x1b[2K\rprogress 50%", "\rprogress 50%");
        check("next\u{85}line \u{a0}° Â", "next\u{85}line \u{a0}° Â");
        assert_eq!(&*strip(b"caf\xe9 \x9b31m\x1b[m"), b"caf\xe9 \x9b31m");
    }

    #[test]
    fn text_between_two_sequences_stays() {
        let link = "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\";
        check(&format!("{link} important \x07 more"), "link important \x07 more");
        check(&format!("{link}\u{1b}]0;title\x07 tail"), "link tail");
        // The first of two strings is not ended; the second's end is not its own.
        check("\x1b]0;open text \x1b]0;title\x07 tail", "0;open text  tail");
        check("\x1bPopen text \x1b[31mred\x1b\\", "open text red");
        check("\x1b]0;open \u{9b}31mred\x07", "0;open red\x07");
    }

    #[test]
    fn a_sequence_ends_with_its_line() {
        check("\x1b]0;unfinished\nall of the rest\x07", "0;unfinished\nall of the rest\x07");
        check("\x1b]a\rb\x07c", "a\rb\x07c");
        check("\x1bPq\n", "q\n");
        check("\x1b[31\nnext", "\nnext");
        check("\x1b(\nnext", "\nnext");
        check("\x1b\nnext", "\nnext");
    }

    #[test]
    fn a_sequence_is_cut_off_at_the_end() {
        for cut_off in
            ["x\x1b", "x\x1b[", "x\x1b[1;", "x\x1b[1 ", "x\x1b(", "x\x1b\x1b", "x\u{9b}3"]
        {
            check(cut_off, "x");
        }
        check("x\x1b]8;;http://y", "x8;;http://y");
        check("x\x1b]8;;http://y\x1b", "x8;;http://y");
        assert_eq!(&*strip(b"\x1b[31\xc2"), b"31\xc2");
        assert_eq!(&*strip(b"plain\xc2"), b"plain\xc2");
    }

    #[test]
    fn what_cannot_be_a_sequence_was_text() {
        check("\x1b[2026-01-01 log", "2026-01-01 log");
        check("\x1b[31é", "31é");
        check("\x1b(é", "(é");
        check("\x1bé", "é");
    }

    #[test]
    fn can_and_sub_cancel() {
        check("\x1b[31\x18text", "text");
        check("\x1b]0;title\x1atext", "text");
        check("\x1b\x18text", "text");
    }

    #[test]
    fn a_sequence_that_holds_too_much_was_none() {
        let fits = "x".repeat(MAX_SEQUENCE);
        check(&format!("\x1b]{fits}\x07text"), "text");
        check(&format!("\x1b]{fits}x\x07text"), &format!("{fits}x\x07text"));
        let digits = "1".repeat(MAX_SEQUENCE + 1);
        check(&format!("\x1b[{digits}mtext"), &format!("{digits}mtext"));
    }

    #[test]
    fn hostile_text_takes_linear_time() {
        // Each of these is quadratic for a stripper that looks ahead for an end and starts anew
        // behind the introducer: ten megabytes of it would take hours.
        let introducers =
            ["\x1b]", "\x1b[", "\x1bP", "\x1b(", "\x1b", "\u{9d}", "\u{9b}", "\x1b]\x1b"];
        for introducer in introducers {
            let hostile = introducer.repeat(10_000_000 / introducer.len());
            assert!(strip(hostile.as_bytes()).is_empty(), "{introducer:?}");
        }
        let open = format!("\x1b]{}", "1;".repeat(5_000_000));
        assert_eq!(strip(open.as_bytes()).len(), 10_000_000);
        assert_eq!(strip_pieces(open.as_bytes().chunks(1)).len(), 10_000_000);
    }

    #[test]
    fn text_without_sequences_is_borrowed() {
        for text in ["", "plain\ttext\r\n", "10 °C » \u{a0}"] {
            assert!(matches!(strip(text.as_bytes()), Cow::Borrowed(_)), "{text:?}");
        }
    }

    /// The same by pattern matching with look-ahead over the whole text; only for text whose
    /// sequences are short.
    fn strip_by_patterns(text: &str) -> String {
        static PATTERNS: LazyLock<([Regex; 4], Regex, Regex)> = LazyLock::new(|| {
            let pattern = |pattern: &str| Regex::new(&format!("^(?:{pattern})")).unwrap();
            let strings =
                r"(?:\x1b[PX^_]|[\u{90}\u{98}\u{9e}\u{9f}])[^\n\r\x18\x1a\x1b\u{80}-\u{9f}]*";
            let whole = [
                pattern(
                    r"(?:\x1b\]|\u{9d})[^\n\r\x07\x18\x1a\x1b\u{80}-\u{9f}]*(?:[\x07\x18\x1a\u{9c}]|\x1b\\)",
                ),
                pattern(&[strings, r"(?:[\x18\x1a\u{9c}]|\x1b\\)"].concat()),
                pattern(r"(?:\x1b\[|\u{9b})[0-?]*[ -/]*[@-~\x18\x1a]"),
                pattern(r"\x1b(?:[0-OQ-WYZ\\`-~\x18\x1a]|[ -/]+[0-~\x18\x1a])"),
            ];
            let parameters = pattern(r"(?:\x1b\[|\u{9b})[0-?]*[ -/]*|\x1b[ -/]*");
            let introducer = pattern(r"\x1b[\[\]PX^_]?|[\u{80}-\u{84}\u{86}-\u{9f}]");
            (whole, parameters, introducer)
        });
        let (whole, parameters, introducer) = &*PATTERNS;
        let mut out = String::new();
        let mut rest = text;
        while let Some(char) = rest.chars().next() {
            let cut_off = parameters.find(rest).filter(|found| {
                let next = rest[found.end()..].chars().next();
                next.is_none_or(|next| next.is_control() && next != '\x7f')
            });
            let found = whole
                .iter()
                .find_map(|whole| whole.find(rest))
                .or(cut_off)
                .or_else(|| introducer.find(rest));
            let skipped = found.map_or(char.len_utf8(), |found| found.end());
            if found.is_none() {
                out.push(char);
            }
            rest = &rest[skipped..];
        }
        out
    }

    /// Text made of what sequences are made of.
    fn sequences() -> impl Strategy<Value = String> {
        let parts = prop::sample::select(vec![
            "\x1b", "\x1b", "[", "]", "P", "_", "(", "\\", "m", "31", ";", ":", "?", " ", "\x07",
            "\n", "\r", "\x18", "\x1a", "\x08", "\t", "\u{9b}", "\u{9d}", "\u{9c}", "\u{90}",
            "\u{85}", "\u{84}", "é", "°", "text", "8;;", "\x7f",
        ]);
        prop::collection::vec(parts, 0..24).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn patterns_agree(text in sequences()) {
            let stripped = strip(text.as_bytes()).into_owned();
            prop_assert_eq!(String::from_utf8(stripped).unwrap(), strip_by_patterns(&text), "{:?}", text);
        }

        #[test]
        fn pieces_agree(text in sequences(), mut cuts in prop::collection::vec(0usize..80, 0..6)) {
            let bytes = text.as_bytes();
            cuts.iter_mut().for_each(|cut| *cut = (*cut).min(bytes.len()));
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]);
            prop_assert_eq!(strip_pieces(pieces), strip(bytes).into_owned());
            prop_assert_eq!(strip_pieces(bytes.chunks(1)), strip(bytes).into_owned());
        }

        #[test]
        fn stripped_text_has_nothing_to_strip(text in sequences()) {
            let once = strip(text.as_bytes()).into_owned();
            prop_assert!(matches!(strip(&once), Cow::Borrowed(_)));
        }

        #[test]
        fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(strip_pieces(bytes.chunks(3)), strip(&bytes).into_owned());
        }
    }
}
