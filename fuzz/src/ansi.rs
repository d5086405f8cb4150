//! The stripper of control sequences, against one that has the whole text before it.

use std::borrow::Cow;

use overspill::ansi::{MAX_SEQUENCE, Stripper, strip};

use crate::input::{self, Choices};

/// What sequences are made of, and what stands between them.
const TOKENS: [&[u8]; 40] = [
    b"\x1b",
    b"[",
    b"]",
    b"P",
    b"X",
    b"^",
    b"_",
    b"(",
    b"\\",
    b"m",
    b"31",
    b";",
    b":",
    b"?",
    b" ",
    b"\x07",
    b"\n",
    b"\r",
    b"\x18",
    b"\x1a",
    b"\x08",
    b"\t",
    b"\xc2\x9b",
    b"\xc2\x9d",
    b"\xc2\x9c",
    b"\xc2\x90",
    b"\xc2\x85",
    b"\xc2\x84",
    b"\xc2",
    b"\x9b",
    "é".as_bytes(),
    "°".as_bytes(),
    b"text ",
    b"8;;http://x",
    b"\x7f",
    b"\xff",
    b"\x1b[31m",
    b"\x1b]0;title\x07",
    b"\x1b[?25l",
    b"word\n",
];

/// Sequences that are whole.
const WHOLE: [&[u8]; 12] = [
    b"\x1b[m",
    b"\x1b[1;31;40m",
    b"\x1b[?25h",
    b"\x1b[38:2::1:2:3m",
    b"\x1b]0;title\x07",
    b"\x1b]8;;http://x\x1b\\",
    b"\x1bPq#0\x1b\\",
    b"\x1b(B",
    b"\x1b7",
    b"\xc2\x9b31m",
    b"\xc2\x9d0;t\xc2\x9c",
    b"\x1b_apc\x18",
];

/// Two ways of stripping agree, pieces do not matter, and plain text is never eaten.
pub fn check(data: &[u8]) {
    let text = input::text(data, &TOKENS);
    let mut choices = Choices::of(data);
    let stripped = strip(&text);
    assert!(stripped == naive(&text), "not what the naive one leaves");
    assert_eq!(matches!(stripped, Cow::Borrowed(_)), !has_control(&text));
    assert!(stripped == strip_pieces(&choices.pieces(&text)), "pieces matter");
    if std::str::from_utf8(&text).is_ok() {
        assert!(std::str::from_utf8(&stripped).is_ok());
        assert!(matches!(strip(&stripped), Cow::Borrowed(_)), "something is left to strip");
    }

    // Whatever stands between whole sequences stays, to the byte.
    let plain: Vec<u8> =
        text.into_iter().filter(|byte| !matches!(byte, 0x1b | 0x80..=0x9f | 0xc2)).collect();
    let mut mixed = vec![];
    for piece in choices.pieces(&plain) {
        mixed.extend_from_slice(choices.one_of(&WHOLE));
        mixed.extend_from_slice(piece);
    }
    assert!(*strip(&mixed) == plain, "text between sequences was eaten");
}

fn strip_pieces(pieces: &[&[u8]]) -> Vec<u8> {
    let mut stripper = Stripper::default();
    let mut out = vec![];
    for piece in pieces {
        out.extend_from_slice(&stripper.strip(piece));
    }
    out.append(&mut stripper.finish());
    out
}

/// What one looks at: a byte, or a C1 control in UTF-8, by its second byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Byte(u8),
    C1(u8),
}

fn units(text: &[u8]) -> Vec<Unit> {
    let mut units = vec![];
    let mut rest = text;
    while let [byte, behind @ ..] = rest {
        rest = behind;
        units.push(match rest {
            [control @ 0x80..=0x9f, behind @ ..] if *byte == 0xc2 => {
                rest = behind;
                Unit::C1(*control)
            }
            _ => Unit::Byte(*byte),
        });
    }
    units
}

fn has_control(text: &[u8]) -> bool {
    let is_control = |unit: &Unit| {
        matches!(unit, Unit::Byte(0x1b)) || matches!(unit, Unit::C1(byte) if *byte != 0x85)
    };
    // A last 0xC2 may open a control and is looked at again, though it comes to nothing.
    units(text).iter().any(is_control) || text.ends_with(b"\xc2")
}

/// Strips as the documentation of the module says, with all of the text in sight.
fn naive(text: &[u8]) -> Vec<u8> {
    let units = units(text);
    let mut out = vec![];
    let mut at = 0;
    while let Some(unit) = units.get(at) {
        at += 1;
        match unit {
            Unit::Byte(0x1b) => match units.get(at) {
                Some(Unit::Byte(b'[')) => at = control_sequence(&units, at + 1, &mut out),
                Some(Unit::Byte(b']')) => at = control_string(&units, at + 1, true, &mut out),
                Some(Unit::Byte(b'P' | b'X' | b'^' | b'_')) => {
                    at = control_string(&units, at + 1, false, &mut out);
                }
                Some(Unit::Byte(0x20..=0x2f)) => at = escape_sequence(&units, at, &mut out),
                Some(Unit::Byte(0x30..=0x7e | 0x18 | 0x1a)) => at += 1,
                _ => {}
            },
            Unit::Byte(byte) => out.push(*byte),
            Unit::C1(0x85) => out.extend_from_slice(b"\xc2\x85"),
            Unit::C1(0x9b) => at = control_sequence(&units, at, &mut out),
            Unit::C1(0x9d) => at = control_string(&units, at, true, &mut out),
            Unit::C1(0x90 | 0x98 | 0x9e | 0x9f) => {
                at = control_string(&units, at, false, &mut out);
            }
            Unit::C1(_) => {}
        }
    }
    out
}

/// How many units from `at` on are such bytes.
fn run(units: &[Unit], at: usize, bytes: std::ops::RangeInclusive<u8>) -> usize {
    let is_one = |unit: &&Unit| matches!(unit, Unit::Byte(byte) if bytes.contains(byte));
    units[at..].iter().take_while(is_one).count()
}

/// Behind `CSI`; returns where to go on.
fn control_sequence(units: &[Unit], from: usize, out: &mut Vec<u8>) -> usize {
    let parameters = from + run(units, from, 0x30..=0x3f);
    let end = parameters + run(units, parameters, 0x20..=0x2f);
    ended(units, from, end, 0x40..=0x7e, out)
}

/// Behind `ESC`, at the first intermediate byte; returns where to go on.
fn escape_sequence(units: &[Unit], from: usize, out: &mut Vec<u8>) -> usize {
    let end = from + run(units, from, 0x20..=0x2f);
    ended(units, from, end, 0x30..=0x7e, out)
}

/// What became of a sequence that holds `from..end` and should end with one of `finals`.
fn ended(
    units: &[Unit],
    from: usize,
    end: usize,
    finals: std::ops::RangeInclusive<u8>,
    out: &mut Vec<u8>,
) -> usize {
    if end - from > MAX_SEQUENCE {
        return was_text(units, from, from + MAX_SEQUENCE + 1, out);
    }
    match units.get(end) {
        None => end,
        Some(Unit::Byte(byte)) if finals.contains(byte) => end + 1,
        Some(Unit::Byte(0x18 | 0x1a)) => end + 1,
        Some(Unit::Byte(0x00..=0x1f) | Unit::C1(_)) => end,
        Some(Unit::Byte(_)) => was_text(units, from, end, out),
    }
}

/// In a control string; returns where to go on.
fn control_string(units: &[Unit], from: usize, is_osc: bool, out: &mut Vec<u8>) -> usize {
    let mut end = from;
    loop {
        if end - from > MAX_SEQUENCE {
            return was_text(units, from, end, out);
        }
        match (units.get(end), units.get(end + 1)) {
            (Some(Unit::Byte(0x07)), _) if is_osc => return end + 1,
            (Some(Unit::Byte(0x18 | 0x1a) | Unit::C1(0x9c)), _) => return end + 1,
            (Some(Unit::Byte(0x1b)), Some(Unit::Byte(b'\\'))) => return end + 2,
            (None | Some(Unit::Byte(0x1b | b'\n' | b'\r') | Unit::C1(_)), _) => {
                return was_text(units, from, end, out);
            }
            (Some(Unit::Byte(_)), _) => end += 1,
        }
    }
}

fn was_text(units: &[Unit], from: usize, to: usize, out: &mut Vec<u8>) -> usize {
    for unit in &units[from..to] {
        if let Unit::Byte(byte) = unit {
            out.push(*byte);
        }
    }
    to
}
