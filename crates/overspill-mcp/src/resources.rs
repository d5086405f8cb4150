//! Spilled payloads as MCP resources: `overspill://HANDLE`, whole lines or exact bytes.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use data_encoding::BASE64;
use overspill::Receipt;
use overspill::read::{self, ReadArgs};
use overspill::store::{Handle, Store, Stored};
use serde_json::{Map, Value, json};

/// What every address of a payload begins with.
pub(crate) const SCHEME: &str = "overspill://";

/// How many payloads of a session are listed; the oldest fall out of the list, not of the store.
const LISTED: usize = 1_000;

/// The most bytes one read by `bytes` gives.
pub(crate) const MAX_BYTES: u64 = 1024 * 1024;

/// What a session has spilled, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Shelf(VecDeque<Receipt>);

impl Shelf {
    /// Takes receipts in; whether one was new.
    pub(crate) fn add(&mut self, receipts: &[Receipt]) -> bool {
        let mut is_new = false;
        for receipt in receipts {
            if !self.0.iter().any(|held| held.handle == receipt.handle) {
                self.0.push_back(receipt.clone());
                is_new = true;
            }
        }
        while self.0.len() > LISTED {
            self.0.pop_front();
        }
        is_new
    }

    /// The list, each as JSON.
    pub(crate) fn list(&self) -> Vec<String> {
        self.0.iter().map(|receipt| entry(receipt).to_string()).collect()
    }
}

fn entry(receipt: &Receipt) -> Value {
    json!({
        "uri": format!("{SCHEME}{}", receipt.handle),
        "name": receipt.handle.as_str(),
        "title": format!("Stored result of {}", receipt.tool),
        "description": format!(
            "{} characters, {} lines; add ?offset=LINE&limit=LINES for a part",
            receipt.chars, receipt.lines
        ),
        "mimeType": receipt.media_type,
        "size": receipt.bytes,
    })
}

/// The template of the addresses, as JSON.
pub(crate) fn template() -> String {
    json!({
        "uriTemplate": "overspill://{+handle}{?offset,limit,from_end,pattern,regex,context,json_path,bytes}",
        "name": "overspill",
        "title": "Stored results",
        "description": "Any part of a tool result that was too long to show: lines from `offset` on, \
                        or the exact bytes `bytes=FIRST-LAST`, `FIRST-` or `-N`, at most 1 MiB at once.",
    })
    .to_string()
}

/// Reads what an address names, as the result of `resources/read`.
///
/// Without `bytes` it is what the read tool answers, bounded as that is; with it, exactly these
/// bytes, as text where they are UTF-8.
///
/// # Errors
///
/// A sentence that says what is wrong with the address or the store.
pub(crate) async fn read(
    store: &Arc<dyn Store>,
    uri: &str,
    strip_ansi: bool,
) -> Result<String, String> {
    let rest = uri.strip_prefix(SCHEME).unwrap_or(uri);
    let (handle, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut args = Map::from_iter([("handle".to_owned(), Value::from(unescape(handle)?))]);
    let mut bytes = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "bytes" => bytes = Some(unescape(value)?),
            _ => {
                args.insert(unescape(key)?, unescape(value)?.into());
            }
        }
    }
    let contents = match bytes {
        Some(bytes) => exactly(store, uri, &unescape(handle)?, &bytes).await?,
        None => {
            let args = ReadArgs::parse(&Value::Object(args))?;
            let answer = read::try_read(store, &args, strip_ansi).await?;
            json!({ "uri": uri, "mimeType": "text/plain", "text": answer })
        }
    };
    Ok(json!({ "contents": [contents] }).to_string())
}

async fn exactly(
    store: &Arc<dyn Store>,
    uri: &str,
    handle: &str,
    range: &str,
) -> Result<Value, String> {
    let range = ByteRange::parse(range)?;
    let handle: Handle = handle.parse().map_err(|error| format!("{error}"))?;
    let stored = Stored::open(store, &handle).await.map_err(|error| error.to_string())?;
    let size = stored.receipt().bytes;
    let at = range.within(size).ok_or_else(|| {
        format!("`bytes` begins behind the end: what is stored as {handle} has {size} bytes.")
    })?;
    let part = stored.bytes(at.clone()).await.map_err(|error| error.to_string())?;
    // As HTTP says it, so that nobody has to guess what of a range was too much at once.
    let given = match at.is_empty() {
        true => format!("bytes */{size}"),
        false => format!("bytes {}-{}/{size}", at.start, at.end - 1),
    };
    let mut contents = match std::str::from_utf8(&part) {
        Ok(text) => json!({ "uri": uri, "mimeType": stored.receipt().media_type, "text": text }),
        Err(_) => json!({
            "uri": uri, "mimeType": "application/octet-stream", "blob": BASE64.encode(&part)
        }),
    };
    contents["_meta"] = json!({ "overspill/range": given });
    Ok(contents)
}

/// A part of a payload, written as HTTP's ranges are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteRange {
    /// From a byte on, to another or to the end.
    From(u64, Option<u64>),
    /// So many at the end.
    Last(u64),
}

impl ByteRange {
    fn parse(text: &str) -> Result<Self, String> {
        let range = text.trim().split_once('-').and_then(|(first, last)| {
            let (first, last) = (first.trim(), last.trim());
            Some(match (first.is_empty(), last.is_empty()) {
                (true, _) => Self::Last(last.parse().ok()?),
                (false, true) => Self::From(first.parse().ok()?, None),
                (false, false) => Self::From(first.parse().ok()?, Some(last.parse().ok()?)),
            })
        });
        match range {
            Some(Self::From(first, Some(last))) if last < first => None,
            range => range,
        }
        .ok_or_else(|| {
            let shown: String = text.chars().take(100).collect();
            format!(
                "`bytes` is {shown:?}; write bytes=FIRST-LAST, such as bytes=0-65535, bytes=FIRST- \
                 for all from there on, or bytes=-N for the last N."
            )
        })
    }

    /// The bytes that are given of a payload of that size, of what is too much the beginning; `None`
    /// where there are none.
    fn within(self, size: u64) -> Option<Range<u64>> {
        let (start, end) = match self {
            Self::From(first, last) => (first, last.map_or(size, |last| last.saturating_add(1))),
            Self::Last(bytes) => (size.saturating_sub(bytes), size),
        };
        (start <= size).then(|| start..end.min(size).min(start.saturating_add(MAX_BYTES)))
    }
}

/// Takes percent-encoding out.
fn unescape(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let escaped = (first == b'%').then(|| behind.get(..2)).flatten();
        let byte = escaped
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| format!("{text:?} is not UTF-8 once it is decoded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_bytes_are_what_http_takes_them_for() {
        const MB: u64 = MAX_BYTES;
        let of = |text, size| ByteRange::parse(text).map(|range| range.within(size));
        for (text, size, bytes) in [
            ("0-9", 100, Some(0..10)),
            ("90-200", 100, Some(90..100)),
            ("90-", 100, Some(90..100)),
            ("-10", 100, Some(90..100)),
            ("-200", 100, Some(0..100)),
            ("-0", 100, Some(100..100)),
            ("100-", 100, Some(100..100)),
            ("101-", 100, None),
            ("0-", 3 * MB, Some(0..MB)),
            ("1-18446744073709551615", 3 * MB, Some(1..MB + 1)),
            ("-18446744073709551615", 3 * MB, Some(0..MB)),
            ("0-", 0, Some(0..0)),
        ] {
            assert_eq!(of(text, size), Ok(bytes), "{text} of {size}");
        }
        for wrong in ["", "-", "7", "9-8", "a-", "-a", "1-2-3", "1-2,4-5", "--1", "+"] {
            let refused = ByteRange::parse(wrong).unwrap_err();
            assert!(refused.contains("bytes=FIRST-LAST"), "{wrong}: {refused}");
        }
    }

    #[test]
    fn percent_encoding_is_taken_out() {
        assert_eq!(unescape("a%20b%2Fc%"), Ok("a b/c%".into()));
        assert_eq!(unescape("%C3%A9"), Ok("é".into()));
        assert!(unescape("%FF").is_err());
    }
}
