//! How large a picture is, read from the first bytes of its file.
//!
//! Only the bytes that say it are decoded: of a PNG, GIF or WebP a few dozen, of a JPEG the lengths
//! of the segments before its frame, which are jumped over.

use super::Pixels;

/// A JPEG has one to a few dozen segments before its frame; one with more is not read on.
const MAX_JPEG_SEGMENTS: usize = 1_000;

/// The size of a PNG, JPEG, GIF or WebP file given as base64, in the ordinary or the URL-safe
/// alphabet, whole or in part, with or without a `data:` prefix.
///
/// `None` where it is something else, or where its first bytes do not say.
pub fn size(base64: &str) -> Option<Pixels> {
    let base64 = match base64.strip_prefix("data:") {
        Some(address) => address.split_once(',')?.1,
        None => base64,
    };
    let file = File(base64.as_bytes());
    let (width, height) =
        file.png().or_else(|| file.gif()).or_else(|| file.webp()).or_else(|| file.jpeg())?;
    (width > 0 && height > 0).then_some(Pixels { width, height })
}

/// A file in base64, read byte by byte at any place.
struct File<'a>(&'a [u8]);

impl File<'_> {
    /// <https://www.w3.org/TR/png-3/#11IHDR>
    fn png(&self) -> Option<(u32, u32)> {
        self.expect(0, b"\x89PNG\r\n\x1a\n")?;
        self.expect(12, b"IHDR")?;
        Some((self.big(16, 4)?, self.big(20, 4)?))
    }

    /// <https://www.w3.org/Graphics/GIF/spec-gif89a.txt>, 18
    fn gif(&self) -> Option<(u32, u32)> {
        self.expect(0, b"GIF8")?;
        Some((self.little(6, 2)?, self.little(8, 2)?))
    }

    /// <https://developers.google.com/speed/webp/docs/riff_container>: lossy, lossless, extended.
    fn webp(&self) -> Option<(u32, u32)> {
        self.expect(0, b"RIFF")?;
        self.expect(8, b"WEBPVP8")?;
        match self.byte(15)? {
            b' ' => {
                self.expect(23, b"\x9d\x01\x2a")?;
                Some((self.little(26, 2)? & 0x3fff, self.little(28, 2)? & 0x3fff))
            }
            b'L' => {
                self.expect(20, b"\x2f")?;
                let bits = self.little(21, 4)?;
                Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
            }
            b'X' => Some((self.little(24, 3)? + 1, self.little(27, 3)? + 1)),
            _ => None,
        }
    }

    /// <https://www.w3.org/Graphics/JPEG/itu-t81.pdf>, B.1 and B.2.2
    fn jpeg(&self) -> Option<(u32, u32)> {
        self.expect(0, b"\xff\xd8")?;
        let mut at = 2;
        for _ in 0..MAX_JPEG_SEGMENTS {
            self.expect(at, b"\xff")?;
            let marker = self.byte(at + 1)?;
            at += 2;
            match marker {
                // Filling before a marker.
                0xff => at -= 1,
                // Markers that stand alone.
                0x01 | 0xd0..=0xd7 => {}
                // Tables, arithmetic coding and hierarchy are numbered among the frames.
                0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                    return Some((self.big(at + 5, 2)?, self.big(at + 3, 2)?));
                }
                // The scan, or the end, before any frame.
                0xd9 | 0xda => return None,
                _ => at += (self.big(at, 2)? as usize).max(2),
            }
        }
        None
    }

    fn expect(&self, at: usize, bytes: &[u8]) -> Option<()> {
        let same = |(i, byte): (usize, &u8)| self.byte(at + i) == Some(*byte);
        bytes.iter().enumerate().all(same).then_some(())
    }

    fn big(&self, at: usize, bytes: usize) -> Option<u32> {
        (at..at + bytes).try_fold(0, |number, at| Some(number << 8 | u32::from(self.byte(at)?)))
    }

    fn little(&self, at: usize, bytes: usize) -> Option<u32> {
        let mut places = (at..at + bytes).rev();
        places.try_fold(0, |number, at| Some(number << 8 | u32::from(self.byte(at)?)))
    }

    /// Three bytes are four signs of six bits, so each byte stands in two signs.
    fn byte(&self, at: usize) -> Option<u8> {
        let (first, offset) = (at / 3 * 4, at % 3);
        let high = self.sextet(first + offset)?;
        let low = self.sextet(first + offset + 1)?;
        let bits = u16::from(high) << 6 | u16::from(low);
        Some((bits >> (4 - 2 * offset)) as u8)
    }

    fn sextet(&self, at: usize) -> Option<u8> {
        Some(match self.0.get(at)? {
            sign @ b'A'..=b'Z' => sign - b'A',
            sign @ b'a'..=b'z' => sign - b'a' + 26,
            sign @ b'0'..=b'9' => sign - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        })
    }
}
