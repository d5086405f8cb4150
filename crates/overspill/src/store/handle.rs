//! The short, stable, relative name of a stored payload.

use std::fmt;
use std::str::FromStr;

use data_encoding::{Encoding, Specification};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;
use thiserror::Error;

use super::receipt::Digest;
use crate::item::ToolCall;

/// Characters of a run or call id that a handle keeps; a longer one is cut and tagged.
const KEPT_CHARS: usize = 32;

/// Base32 characters in the tag that tells apart ids which look the same once sanitized.
const TAG_CHARS: usize = 8;

/// Base32 characters that 128 bits of digest need.
const DIGEST_CHARS: usize = 26;

/// RFC 4648 base32 in lower case without padding: safe in file names that ignore case, and a
/// fifth shorter than hexadecimal, which counts when a model has to repeat it.
static BASE32: LazyLock<Encoding> = LazyLock::new(|| {
    let mut spec = Specification::new();
    spec.symbols.push_str("abcdefghijklmnopqrstuvwxyz234567");
    spec.encoding().unwrap_or(data_encoding::BASE32_NOPAD)
});

/// Which part of a return a payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartName {
    /// The n-th payload of the return value.
    Value(u32),
    /// The n-th payload of the extra content.
    Content(u32),
}

/// Names a stored payload: `RUN/CALL[.rRETRY][.PART].DIGEST`.
///
/// Run and call are the caller's ids with every character outside `[A-Za-z0-9_-]` replaced and
/// long ones cut; wherever that changed an id, a tag of its hash keeps it apart from all others.
/// The last 26 characters are 128 bits of the payload's BLAKE3 digest, so two payloads never
/// share a handle, whatever their ids.
///
/// A handle is relative and made of safe characters alone: it never names a path of one machine
/// and cannot leave the store's root.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Handle(String);

/// Why a text is not a handle.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not a handle; a handle looks like RUN/CALL.DIGEST and is copied from a marker")]
pub struct HandleError(String);

impl Handle {
    /// The handle of a payload with this digest, returned as `part` of `call`.
    pub fn new(call: &ToolCall, part: PartName, digest: &Digest) -> Self {
        let mut name = sanitize(call.run.as_str());
        name.push('/');
        name.push_str(&sanitize(call.call.as_str()));
        if call.retry > 0 {
            name.push_str(&format!(".r{}", call.retry));
        }
        match part {
            PartName::Value(0) => {}
            PartName::Value(n) => name.push_str(&format!(".v{n}")),
            PartName::Content(n) => name.push_str(&format!(".c{n}")),
        }
        name.push('.');
        name.push_str(&BASE32.encode(&digest.as_bytes()[..16]));
        Self(name)
    }

    /// The handle as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The run's half: the folder the payload rests in.
    pub fn run(&self) -> &str {
        self.0.split_once('/').map_or("", |(run, _)| run)
    }

    /// The half behind the run: the payload's file name.
    pub fn file(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, file)| file)
    }

    /// Whether the digest in the handle's name is the beginning of `digest`.
    pub fn names(&self, digest: &Digest) -> bool {
        self.0.ends_with(&BASE32.encode(&digest.as_bytes()[..16]))
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Handle {
    type Err = HandleError;

    fn from_str(text: &str) -> Result<Self, HandleError> {
        if is_handle(text) { Ok(Self(text.to_owned())) } else { Err(HandleError(text.to_owned())) }
    }
}

impl TryFrom<String> for Handle {
    type Error = HandleError;

    fn try_from(text: String) -> Result<Self, HandleError> {
        if is_handle(&text) { Ok(Self(text)) } else { Err(HandleError(text)) }
    }
}

impl From<Handle> for String {
    fn from(handle: Handle) -> Self {
        handle.0
    }
}

fn is_handle(text: &str) -> bool {
    let Some((run, file)) = text.split_once('/') else { return false };
    let Some((call, digest)) = file.rsplit_once('.') else { return false };
    let safe = |part: &str, dots: bool| {
        !part.is_empty()
            && part.len() <= 128
            && !part.starts_with('.')
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_-~".contains(&b) || (dots && b == b'.'))
    };
    safe(run, false)
        && safe(call, true)
        && digest.len() == DIGEST_CHARS
        && digest.bytes().all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b))
}

/// Makes an id safe for a file name, and keeps distinct ids distinct: an id that had to change
/// ends in `~` and a tag of its hash, and `~` is not among the characters an id keeps.
fn sanitize(id: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !id.is_empty() && id.len() <= KEPT_CHARS && id.chars().all(is_kept) {
        return id.to_owned();
    }
    let kept: String =
        id.chars().take(KEPT_CHARS).map(|c| if is_kept(c) { c } else { '_' }).collect();
    let hash = blake3::hash(id.as_bytes());
    let tag = &BASE32.encode(hash.as_bytes())[..TAG_CHARS];
    format!("{kept}~{tag}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(run: &str, call: &str, payload: &str) -> Handle {
        Handle::new(
            &ToolCall::new(run, call, "t"),
            PartName::Value(0),
            &Digest::of(payload.as_bytes()),
        )
    }

    #[test]
    fn plain_ids_stay_readable() {
        let h = handle("run-1", "call_7", "x");
        assert!(h.as_str().starts_with("run-1/call_7."), "{h}");
        assert_eq!(h.as_str().parse::<Handle>(), Ok(h.clone()));
        assert!(h.names(&Digest::of(b"x")) && !h.names(&Digest::of(b"y")));
    }

    #[test]
    fn distinct_ids_never_share_a_handle_even_for_one_payload() {
        let ids = ["call:1.0", "call;1.0", "call_1_0", "", "_", "a/b", "a_b", "..", ".", "é", "è"];
        let long: Vec<String> = (0..3).map(|i| format!("{}{i}", "x".repeat(300))).collect();
        let all: Vec<&str> = ids.into_iter().chain(long.iter().map(String::as_str)).collect();
        let names: std::collections::HashSet<String> =
            all.iter().map(|id| handle("run", id, "same").to_string()).collect();
        assert_eq!(names.len(), all.len());
        for name in names {
            assert!(name.parse::<Handle>().is_ok(), "{name}");
        }
    }

    #[test]
    fn retries_parts_and_payloads_are_told_apart() {
        let call = ToolCall::new("r", "c", "t");
        let digest = Digest::of(b"x");
        let names = [
            Handle::new(&call, PartName::Value(0), &digest),
            Handle::new(&call, PartName::Value(1), &digest),
            Handle::new(&call, PartName::Content(0), &digest),
            Handle::new(&call.clone().with_retry(1), PartName::Value(0), &digest),
            Handle::new(&call, PartName::Value(0), &Digest::of(b"y")),
        ];
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn nothing_that_could_leave_the_root_is_a_handle() {
        let digest = "a".repeat(26);
        for bad in ["", "x", "../../etc/passwd", "/etc/passwd", "a/b", "a/../b"] {
            assert!(bad.parse::<Handle>().is_err(), "{bad}");
        }
        for bad in [
            format!("../x.{digest}"),
            format!("a/../x.{digest}"),
            format!("a/.x.{digest}"),
            format!("a/b/c.{digest}"),
            format!("a\0/b.{digest}"),
            format!("a/b.{}", digest.to_uppercase()),
            format!("./b.{digest}"),
            format!("{}/b.{digest}", "x".repeat(200)),
        ] {
            assert!(bad.parse::<Handle>().is_err(), "{bad}");
        }
        assert!(format!("a/b.{digest}").parse::<Handle>().is_ok());
    }
}
