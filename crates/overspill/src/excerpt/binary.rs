//! What is there to say of data that is not text? What it is, its first bytes, the strings in it.

use std::fmt::Write as _;

use super::held::Kept;

/// A NUL among this many first bytes makes data binary; git decides so as well.
const LOOK: u64 = 8_000;
/// So does more than one byte in this many that is not UTF-8.
const INVALID_ONE_IN: u64 = 10;
/// Bytes of a payload that are all checked for it; further on, one line in some is.
const CHECKED_WHOLE: u64 = 64 * 1024;
const CHECKED_ONE_IN: u64 = 16;
/// A shorter run of printable characters is chance.
const STRING: usize = 6;
/// First bytes that are shown.
const FIRST_BYTES: usize = 32;

/// Counts what speaks against a payload being text.
#[derive(Debug, Default)]
pub(super) struct Suspicion {
    bytes: u64,
    /// Of how many of them UTF-8 was asked for, and how many were not.
    checked: u64,
    invalid: u64,
    nul: bool,
}

impl Suspicion {
    pub(super) fn line(&mut self, number: u64, line: &[u8]) {
        if self.bytes < LOOK {
            let look = line.len().min((LOOK - self.bytes) as usize);
            self.nul |= memchr::memchr(0, &line[..look]).is_some();
        }
        self.bytes += line.len() as u64;
        if self.bytes <= CHECKED_WHOLE || number.is_multiple_of(CHECKED_ONE_IN) {
            self.checked += line.len() as u64;
            if std::str::from_utf8(line).is_err() {
                let invalid = line.utf8_chunks().map(|chunk| chunk.invalid().len() as u64);
                self.invalid += invalid.sum::<u64>();
            }
        }
    }

    pub(super) fn binary(&self) -> bool {
        self.nul || self.invalid * INVALID_ONE_IN > self.checked
    }
}

/// What the first bytes say the data is.
pub(super) fn kind(start: &[u8]) -> &'static str {
    const MAGIC: [(&[u8], &str); 20] = [
        (b"\x7fELF", "ELF program"),
        (b"\x89PNG", "PNG image"),
        (b"\xff\xd8\xff", "JPEG image"),
        (b"GIF8", "GIF image"),
        (b"RIFF", "RIFF media"),
        (b"%PDF", "PDF document"),
        (b"PK\x03\x04", "ZIP archive"),
        (b"\x1f\x8b", "gzip data"),
        (b"\x28\xb5\x2f\xfd", "zstd data"),
        (b"\xfd7zXZ", "xz data"),
        (b"BZh", "bzip2 data"),
        (b"7z\xbc\xaf", "7z archive"),
        (b"!<arch>\n", "ar archive"),
        (b"\0asm", "WebAssembly module"),
        (b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
        (b"\xcf\xfa\xed\xfe", "Mach-O program"),
        (b"MZ", "Windows program"),
        (b"SQLite format 3", "SQLite database"),
        (b"\xff\xfe", "UTF-16 text"),
        (b"\xfe\xff", "UTF-16 text"),
    ];
    MAGIC.iter().find(|(magic, _)| start.starts_with(magic)).map_or("binary data", |(_, kind)| kind)
}

/// The first bytes, with `\xNN` for those that are not printable ASCII.
pub(super) fn first_bytes(start: &[u8]) -> String {
    let mut text = String::new();
    for &byte in start.iter().take(FIRST_BYTES) {
        if byte.is_ascii_graphic() || byte == b' ' {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The runs of printable ASCII in the lines, each with the number of its line.
pub(super) fn strings<'a>(lines: &[Kept<'a>]) -> Vec<Kept<'a>> {
    lines
        .iter()
        .flat_map(|line| {
            let number = line.number;
            line.bytes
                .split(|byte| !(byte.is_ascii_graphic() || *byte == b' '))
                .map(<[u8]>::trim_ascii)
                .filter(|run| run.len() >= STRING)
                .map(move |bytes| Kept { number, bytes })
        })
        .collect()
}
