//! String literals: decoded, and written.

use std::borrow::Cow;

/// The first byte from `at` on that is a quote, a backslash or a control character, or the end.
///
/// It looks at eight bytes at a time: nearly all of a request is the inside of strings.
pub(super) fn plain_until(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word;
    while let Some(chunk) = bytes.get(at..at + 8).and_then(|c| <[u8; 8]>::try_from(c).ok()) {
        let word = u64::from_le_bytes(chunk);
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let quote = zero_bytes(word ^ (ONES * u64::from(b'"')));
        let backslash = zero_bytes(word ^ (ONES * u64::from(b'\\')));
        let hits = (control | quote | backslash) & HIGHS;
        if hits != 0 {
            // Bytes above the first hit may be wrong because of borrows; the first is right.
            return at + hits.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|&byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        at += 1;
    }
    at
}

/// What a literal says; borrowed where nothing in it is escaped. Half a surrogate pair, which
/// programs in other languages write, reads as U+FFFD.
pub(crate) fn decode(literal: &str) -> Cow<'_, str> {
    let inner = literal.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let Some(inner) = inner else { return Cow::Borrowed(literal) };
    let bytes = inner.as_bytes();
    let mut at = plain_until(bytes, 0);
    if at == bytes.len() {
        return Cow::Borrowed(inner);
    }
    let mut out = String::with_capacity(inner.len());
    let mut from = 0;
    while at < bytes.len() {
        out.push_str(&inner[from..at]);
        let (char, len) = escaped(bytes, at);
        out.push(char);
        from = at + len;
        at = plain_until(bytes, from);
    }
    out.push_str(&inner[from..]);
    Cow::Owned(out)
}

/// The character an escape at `at` stands for, and the length of the escape. The literal was
/// checked before, so what no escape can be is read as a character of its own.
fn escaped(bytes: &[u8], at: usize) -> (char, usize) {
    match bytes.get(at + 1) {
        Some(b'n') => ('\n', 2),
        Some(b't') => ('\t', 2),
        Some(b'r') => ('\r', 2),
        Some(b'b') => ('\u{8}', 2),
        Some(b'f') => ('\u{c}', 2),
        Some(b'u') => {
            let high = unit(bytes, at);
            if (0xd800..0xdc00).contains(&high) && bytes.get(at + 6) == Some(&b'\\') {
                let low = unit(bytes, at + 6);
                if (0xdc00..0xe000).contains(&low) {
                    let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                    return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
                }
            }
            (char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
        }
        Some(&plain) => (char::from(plain), 2),
        None => ('\\', 1),
    }
}

/// The UTF-16 unit of the escape `\uXXXX` at `at`; zero for anything else.
fn unit(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at + 1..at + 6)
        .and_then(|hex| std::str::from_utf8(hex.strip_prefix(b"u")?).ok())
        .and_then(|hex| u32::from_str_radix(hex, 16).ok())
        .unwrap_or_default()
}

/// The literal of a text.
pub(crate) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
