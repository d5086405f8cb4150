//! The names in a text: what counts as an identifier, and how much one is worth in view.
//!
//! An identifier is what a later step of an agent is likely to name again: a symbol, a path, a key,
//! an id. It is a run of letters, digits, `_`, `.`, `/`, `:` and `-` that opens with a letter, a
//! digit or `_`, without the `.`, `:` and `-` at its end, of [`SHORTEST`] to [`LONGEST`]
//! characters, that differs from a plain word: it holds a digit, one of `_ . / : -`, or a step from
//! a small letter to a capital.

use std::ops::RangeInclusive;

/// A shorter name is found again in no time, and is mostly a word.
const SHORTEST: usize = 6;
/// A longer one costs more of the excerpt than it can give.
const LONGEST: usize = 80;

const START: u8 = 1;
const REST: u8 = 2;
const LOWER: u8 = 4;
const UPPER: u8 = 8;
const MARK: u8 = 16;

/// What each byte may be in an identifier.
const CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'a'..=b'z' => START | REST | LOWER,
            b'A'..=b'Z' => START | REST | UPPER,
            b'0'..=b'9' | b'_' => START | REST | MARK,
            b'.' | b'/' | b':' | b'-' => REST | MARK,
            _ => 0,
        };
        byte += 1;
    }
    table
}

/// The identifiers of `text`, in order.
pub(super) fn identifiers(text: &[u8]) -> Identifiers<'_> {
    Identifiers { text, at: 0 }
}

/// See [`identifiers`].
pub(super) struct Identifiers<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Identifiers<'a> {
    /// What comes after the identifier given last.
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }
}

impl<'a> Iterator for Identifiers<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        const LENGTHS: RangeInclusive<usize> = SHORTEST..=LONGEST;
        loop {
            let rest = &self.text[self.at..];
            let start = rest.iter().position(|&byte| CLASS[byte as usize] & START != 0)?;
            if self.text[..self.at + start].ends_with(b"\x1b[") {
                // A terminal escape: parameters, and a letter that ends it.
                let parameters = rest[start..].iter().position(u8::is_ascii_alphabetic);
                self.at += start + parameters.map_or(rest.len() - start, |letter| letter + 1);
                continue;
            }
            let mut seen = 0;
            let mut camel = false;
            let mut before = 0;
            let mut end = start;
            for &byte in &rest[start..] {
                let class = CLASS[byte as usize];
                if class & REST == 0 {
                    break;
                }
                camel |= before & LOWER != 0 && class & UPPER != 0;
                seen |= class;
                before = class;
                end += 1;
            }
            self.at += end;
            if end - start < SHORTEST || (seen & MARK == 0 && !camel) {
                continue;
            }
            let run = trim_end(&rest[start..end]);
            // What was trimmed may have been the only mark.
            if LENGTHS.contains(&run.len())
                && (camel || run.iter().any(|&byte| CLASS[byte as usize] & MARK != 0))
            {
                return Some(run);
            }
        }
    }
}

fn trim_end(run: &[u8]) -> &[u8] {
    let kept = run.iter().rposition(|byte| !matches!(byte, b'.' | b':' | b'-'));
    &run[..kept.map_or(0, |last| last + 1)]
}

/// How likely a later step names it again, as a relative figure, when it stands `count` times in
/// what is not shown.
///
/// The factors follow recorded sessions of coding agents, where 8 % of the identifiers of a large
/// result are named again: 6 % of those that stand there once, 9 % twice, 14 % more often, for what
/// recurs is what the result is about; plain symbols more often than dotted chains and paths, and
/// those more often than bare numbers and dates.
pub(super) fn worth(identifier: &[u8], count: u32) -> u64 {
    let has = |mark: u8| identifier.contains(&mark);
    let kind = match has_word(identifier) {
        false => 30,
        true if has(b'/') => 60,
        true if has(b'.') => 70,
        true => 100,
    };
    kind * match count {
        0 | 1 => 10,
        2 => 16,
        _ => 22,
    }
}

/// Whether three letters stand together in it that are not those of a hexadecimal number.
pub(super) fn has_word(identifier: &[u8]) -> bool {
    identifier.windows(3).any(|three| three.iter().all(u8::is_ascii_alphabetic))
        && !identifier.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
}

/// Whether the line declares what it names, as far as a keyword of a common language tells.
pub(super) fn declares(line: &[u8]) -> bool {
    // The keyword is among the first words: `pub(crate) async fn`, `12: export default class`.
    let mut words = 0;
    let mut start = None;
    for (at, &byte) in line.iter().enumerate() {
        if CLASS[byte as usize] & START != 0 {
            start = start.or(Some(at));
        } else if let Some(from) = start.take() {
            if keyword(&line[from..at]) {
                return true;
            }
            words += 1;
            if words == 6 {
                return false;
            }
        }
    }
    false
}

fn keyword(word: &[u8]) -> bool {
    matches!(
        word,
        b"class"
            | b"const"
            | b"def"
            | b"enum"
            | b"fn"
            | b"func"
            | b"function"
            | b"impl"
            | b"interface"
            | b"let"
            | b"mod"
            | b"struct"
            | b"trait"
            | b"type"
            | b"val"
            | b"var"
    )
}

/// A hash of a text in which every number is the same.
pub(super) fn shape(text: &[u8]) -> u64 {
    // FNV-1a; lines are told apart, nothing is proved by it.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut number = false;
    for &byte in text {
        let digit = byte.is_ascii_digit();
        if !(digit && number) {
            let byte = if digit { b'0' } else { byte };
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        number = digit;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        identifiers(text.as_bytes()).map(|id| std::str::from_utf8(id).unwrap()).collect()
    }

    #[test]
    fn symbols_paths_and_ids_are_identifiers_and_plain_words_are_not() {
        assert_eq!(
            found("let handle = Handle::parse_all(raw)?; // see src/store/handle.rs:12: twice."),
            ["Handle::parse_all", "src/store/handle.rs:12"]
        );
        assert_eq!(found("userName username USERNAME user_name"), ["userName", "user_name"]);
        assert_eq!(
            found("2024-05-01T10:00:00 a1b2c3d well-known"),
            ["2024-05-01T10:00:00", "a1b2c3d", "well-known"]
        );
        // Too short, too long, and words whose only mark is at their end.
        assert_eq!(found(&format!("a.b/c {}9 sentence. heading:", "x".repeat(80))), [""; 0]);
        assert_eq!(found("--flag-name ...dotted"), ["flag-name"]);
    }

    #[test]
    fn a_declaration_has_its_keyword_among_the_first_words() {
        assert!(declares(b"pub(crate) async fn store_all() {"));
        assert!(declares(b"   55\xe2\x86\x92export default class Foo {"));
        assert!(!declares(b"store.write(all)"));
    }
}
