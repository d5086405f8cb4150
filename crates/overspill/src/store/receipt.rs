//! Proof that a payload is stored.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::handle::Handle;

/// The BLAKE3 digest of a payload: 256 bits, shown as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// Digests bytes held in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<blake3::Hash> for Digest {
    fn from(hash: blake3::Hash) -> Self {
        Self(*hash.as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        data_encoding::HEXLOWER
            .decode(text.as_bytes())
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or_else(|| format!("{text:?} is not 64 lower-case hexadecimal digits"))
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

/// Proves that a payload is stored: only a store's commit makes one.
///
/// It holds no time: a marker is made from it, and the same return must give the same marker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Receipt {
    /// The name the payload is read back by.
    pub handle: Handle,
    /// The payload's length in bytes.
    pub bytes: u64,
    /// Its length in characters; an invalid UTF-8 sequence counts as one.
    pub chars: u64,
    /// Its lines on the line grid, numbered from 0.
    pub lines: u64,
    /// The digest of all its bytes.
    pub digest: Digest,
    /// What the bytes are: `text/plain`, `application/json` or `application/octet-stream`.
    pub media_type: String,
    /// The tool that returned it.
    pub tool: String,
}
