//! The line grid computed in the dumbest way: the whole payload at once, every character a slice.
//!
//! Tests compare the scanner with it. It may take all the memory it likes, but no more than
//! linear time: fuzz targets use it too.

use super::MAX_LINE_CHARS;

/// The lines of the grid, as slices of the payload.
pub(crate) fn lines(payload: &[u8]) -> Vec<&[u8]> {
    let mut lines = vec![];
    let mut rest = payload;
    let sizes = payload.split_inclusive(|&byte| byte == b'\n').flat_map(physical);
    for size in sizes {
        let (line, behind) = rest.split_at(size);
        lines.push(line);
        rest = behind;
    }
    lines
}

/// The sizes of the lines that a physical line is cut into, in bytes.
fn physical(line: &[u8]) -> Vec<usize> {
    let (text, newline) = match line.strip_suffix(b"\n") {
        Some(text) => (text, 1),
        None => (line, 0),
    };
    let chars = chars(text);
    let opens = chars.iter().take(MAX_LINE_CHARS).find(|c| **c != b" " && **c != b"\t");
    let is_json = opens.is_some_and(|c| *c == b"{" || *c == b"[");
    let (structural, record_end) =
        if is_json { json(&chars) } else { (vec![false; chars.len()], vec![false; chars.len()]) };
    let bytes = |chars: &[&[u8]]| chars.iter().map(|c| c.len()).sum::<usize>();
    let mut pieces = vec![];
    let mut rest = 0..chars.len();
    if chars.len() <= MAX_LINE_CHARS {
        pieces.push(text.len());
        rest = 0..0;
    }
    while !rest.is_empty() {
        let limit = (rest.start + MAX_LINE_CHARS).min(rest.end);
        let mut reach = rest.start..limit;
        let end = if let Some(record) = reach.clone().find(|i| record_end[*i]) {
            record + 1
        } else if limit == rest.end {
            limit
        } else {
            reach.rfind(|i| structural[*i]).map_or(limit, |i| i + 1)
        };
        pieces.push(bytes(&chars[rest.start..end]));
        rest.start = end;
    }
    // A comma that ends both a record and the text leaves the `\n` as a line of its own.
    let is_cut = chars.len() > MAX_LINE_CHARS;
    if is_cut && record_end.last() == Some(&true) {
        pieces.push(0);
    }
    if let Some(last) = pieces.last_mut() {
        *last += newline;
    }
    pieces.retain(|piece| *piece > 0);
    pieces
}

/// The characters of a text; an invalid sequence is one.
pub(crate) fn chars(text: &[u8]) -> Vec<&[u8]> {
    let mut chars = vec![];
    for chunk in text.utf8_chunks() {
        let valid = chunk.valid();
        chars.extend(valid.char_indices().map(|(i, c)| &valid.as_bytes()[i..i + c.len_utf8()]));
        if !chunk.invalid().is_empty() {
            chars.push(chunk.invalid());
        }
    }
    chars
}

/// Which characters are structural, and which are commas that end a record.
fn json(chars: &[&[u8]]) -> (Vec<bool>, Vec<bool>) {
    let is_blank = |c: &&[u8]| [&b" "[..], b"\t", b"\r"].contains(c);
    let mut open: Vec<bool> = vec![]; // of each open bracket: is it the record list?
    let mut has_records = false; // is one of them?
    let mut structural = vec![false; chars.len()];
    let mut record_end = vec![false; chars.len()];
    let mut string = false;
    let mut i = 0;
    while i < chars.len() {
        match (string, chars[i]) {
            (true, b"\\") => i += 1,
            (true, b"\"") => string = false,
            (true, _) => {}
            (false, b"\"") => string = true,
            (false, b"{") => open.push(false),
            (false, b"[") => {
                let first = chars[i + 1..].iter().find(|c| !is_blank(c));
                let of_containers = first.is_some_and(|c| *c == b"{" || *c == b"[");
                open.push(of_containers && !has_records);
                has_records |= of_containers;
            }
            (false, b"}" | b"]") => has_records &= open.pop() != Some(true),
            (false, b",") if open.last() == Some(&true) => record_end[i] = true,
            _ => {}
        }
        if let (false, b"{" | b"[" | b"}" | b"]" | b",") =
            (string, *chars.get(i).unwrap_or(&&b""[..]))
        {
            structural[i] = true;
        }
        i += 1;
    }
    (structural, record_end)
}
