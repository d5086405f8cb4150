//! The index beside a payload: where its lines are, and what a receipt says of it.
//!
//! It is a row of 32 bytes for every 64 KiB of payload, then a few facts in JSON, then a tail of
//! fixed length. So a reader gets the facts from the end of it, finds any line by reading a few
//! rows, and never needs the whole:
//!
//! ```text
//! row 1 | row 2 | … | facts (JSON) | length of the facts (4) | check of the facts (8) | magic (8)
//! row: byte offset (8) | line number (8) | scanner state (8) | check (8)      all little-endian
//! ```
//!
//! Row `k` is the first line that starts at or behind byte `k * 65,536`; row 0, the start of the
//! payload, is implied. Every row and the facts carry a check, so that damage is noticed where it
//! is and nothing wrong is ever read; all that an index says can be computed again from the
//! payload.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::handle::Handle;
use super::receipt::{Digest, Receipt};
use crate::lines::{LineScanner, ScanState};

/// Payload bytes from row to row. A line is far shorter, so that each such block has its row.
pub const ROW_SPACING: u64 = 64 * 1024;

/// The bytes of one row.
pub const ROW_BYTES: usize = 32;

/// Reading this many bytes from the end gets facts of usual length, and the rows of a payload of
/// some 7 MiB along with them.
pub const TRAILER_BYTES: u64 = 4096;

/// The bytes behind the facts.
const TAIL_BYTES: usize = 4 + 8 + 8;

/// Ends every index; a change of the layout changes it.
const MAGIC: &[u8; 8] = b"ovspidx1";

/// A place in the payload where scanning can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Row {
    /// Where the line starts, in bytes.
    pub offset: u64,
    /// The line's number.
    pub number: u64,
    /// The scanner's state there.
    pub state: ScanState,
}

impl Row {
    /// The row that is implied: the start of the payload.
    pub const FIRST: Self = Self { offset: 0, number: 0, state: ScanState::START };

    /// The row's bytes as row `k`, counted from 1.
    pub fn encode(&self, k: u64) -> [u8; ROW_BYTES] {
        let mut bytes = [0; ROW_BYTES];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.state.to_bits().to_le_bytes());
        let check = check(&bytes[..24], k);
        bytes[24..].copy_from_slice(&check);
        bytes
    }

    /// The row that `bytes` are as row `k`; none if they are damaged.
    pub fn decode(bytes: &[u8], k: u64) -> Option<Self> {
        let (fields, stored) = bytes.split_at_checked(24)?;
        if stored != check(fields, k) {
            return None;
        }
        let field = |n: usize| Some(u64::from_le_bytes(fields[n * 8..][..8].try_into().ok()?));
        let row =
            Self { offset: field(0)?, number: field(1)?, state: ScanState::from_bits(field(2)?) };
        (row.offset / ROW_SPACING == k && row.number > 0).then_some(row)
    }

    /// A scanner that resumes here.
    pub fn scanner(&self) -> LineScanner {
        LineScanner::resume(self.offset, self.number, self.state)
    }
}

impl From<&LineScanner> for Row {
    fn from(at: &LineScanner) -> Self {
        Self { offset: at.offset(), number: at.number(), state: at.state() }
    }
}

/// What an index knows of its payload beside the rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The payload's length in bytes.
    pub bytes: u64,
    /// Its length in characters.
    pub chars: u64,
    /// Its lines.
    pub lines: u64,
    /// The digest of all its bytes.
    pub digest: Digest,
    /// What the bytes are.
    pub media_type: String,
    /// The tool that returned it.
    pub tool: String,
    /// How many rows come before the facts.
    pub rows: u64,
}

impl Facts {
    /// The receipt of the payload with these facts and this handle.
    pub(super) fn receipt(&self, handle: Handle) -> Receipt {
        Receipt {
            handle,
            bytes: self.bytes,
            chars: self.chars,
            lines: self.lines,
            digest: self.digest,
            media_type: self.media_type.clone(),
            tool: self.tool.clone(),
        }
    }

    /// The bytes of an index from behind its rows to its end.
    pub fn encode(&self) -> Vec<u8> {
        // Numbers and strings always serialize.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        let len = bytes.len();
        let check = check(&bytes, len as u64);
        bytes.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(&check);
        bytes.extend_from_slice(MAGIC);
        bytes
    }

    /// The facts of an index `index_len` bytes long, of which `end` is the end.
    ///
    /// # Errors
    ///
    /// [`IndexError::Short`] when `end` is too little of it, and [`IndexError::Damaged`] when
    /// these are not the bytes that [`Facts::encode`] made.
    pub fn decode(end: &[u8], index_len: u64) -> Result<Self, IndexError> {
        let damaged = IndexError::Damaged;
        let (before, tail) = end
            .len()
            .checked_sub(TAIL_BYTES)
            .map(|at| end.split_at(at))
            .ok_or(damaged("it is too short"))?;
        let (len, tail) = tail.split_at(4);
        let (stored_check, magic) = tail.split_at(8);
        if magic != MAGIC {
            return Err(damaged("it does not end as an index does"));
        }
        let len = u32::from_le_bytes(len.try_into().unwrap_or_default()) as usize;
        if (len + TAIL_BYTES) as u64 > index_len {
            return Err(damaged("its facts are longer than itself"));
        }
        let Some(at) = before.len().checked_sub(len) else {
            return Err(IndexError::Short { needed: (len + TAIL_BYTES) as u64 });
        };
        let json = &before[at..];
        if stored_check != check(json, len as u64) {
            return Err(damaged("its facts do not match their check"));
        }
        let facts: Self =
            serde_json::from_slice(json).map_err(|_| damaged("its facts are no index's"))?;
        let expected = facts
            .rows
            .checked_mul(ROW_BYTES as u64)
            .and_then(|rows| rows.checked_add((len + TAIL_BYTES) as u64));
        if expected != Some(index_len) {
            return Err(damaged("it has another length than its rows need"));
        }
        Ok(facts)
    }
}

/// Why bytes are not an index.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The bytes are not the end of an index, or a damaged one's.
    #[error("{0}")]
    Damaged(&'static str),
    /// This many bytes from the end are needed.
    #[error("its last {needed} bytes are needed")]
    Short {
        /// Bytes, counted from the end.
        needed: u64,
    },
}

/// Eight bytes of a hash of `bytes` and where they stand. It guards against accidents, so the
/// payload's digest is not part of it and rows can be written before it is known.
fn check(bytes: &[u8], place: u64) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(bytes).update(&place.to_le_bytes());
    let mut check = [0; 8];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    check
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn facts(tool: &str, rows: u64) -> Facts {
        Facts {
            bytes: 1 << 33,
            chars: 5,
            lines: 4,
            digest: Digest::of(b"x"),
            media_type: "text/plain".into(),
            tool: tool.into(),
            rows,
        }
    }

    fn row() -> Row {
        Row { offset: 3 * ROW_SPACING + 17, number: 2_000, state: ScanState::from_bits(0x42) }
    }

    #[test]
    fn rows_and_facts_come_back_as_they_were() {
        assert_eq!(Row::decode(&row().encode(3), 3), Some(row()));
        let index = [&row().encode(1)[..], &facts("bash", 1).encode()].concat();
        assert_eq!(Facts::decode(&index, index.len() as u64), Ok(facts("bash", 1)));
        assert_eq!(Facts::decode(&index[20..], index.len() as u64), Ok(facts("bash", 1)));
    }

    #[test]
    fn facts_longer_than_what_was_read_say_how_much_to_read() {
        let encoded = facts(&"t".repeat(5_000), 0).encode();
        let end = &encoded[encoded.len() - 4_096..];
        let Err(IndexError::Short { needed }) = Facts::decode(end, encoded.len() as u64) else {
            panic!("4,096 bytes cannot hold them");
        };
        assert_eq!(needed, encoded.len() as u64);
    }

    #[test]
    fn a_row_in_another_place_is_damaged() {
        assert_eq!(Row::decode(&row().encode(3), 4), None);
        assert_eq!(Row::decode(&row().encode(4), 4), None, "its offset is not in block 4");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn a_change_of_any_byte_is_noticed(at in any::<prop::sample::Index>(), xor in 1..=255_u8) {
            let mut bytes = row().encode(3);
            bytes[at.index(ROW_BYTES)] ^= xor;
            prop_assert_eq!(Row::decode(&bytes, 3), None);
            let mut bytes = facts("bash", 0).encode();
            let at = at.index(bytes.len());
            bytes[at] ^= xor;
            prop_assert!(Facts::decode(&bytes, bytes.len() as u64).is_err());
        }

        #[test]
        fn any_bytes_are_an_index_or_an_error(
            mut bytes in prop::collection::vec(any::<u8>(), 0..100),
            index_len in any::<u64>(),
            with_magic in any::<bool>(),
        ) {
            if with_magic {
                bytes.extend_from_slice(MAGIC);
            }
            prop_assert!(Facts::decode(&bytes, index_len).is_err());
            prop_assert_eq!(Row::decode(&bytes, 1), None);
        }
    }
}
