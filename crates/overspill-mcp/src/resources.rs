//! Spilled payloads as MCP resources: `overspill://HANDLE`, whole lines or exact bytes.

use std::collections::VecDeque;
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
                        or the exact bytes `bytes=FIRST-LAST`, at most 1 MiB at once.",
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
    let wrong = || format!("`bytes` is {range:?}; write bytes=FIRST-LAST, such as bytes=0-65535.");
    let (first, last) = range.split_once('-').ok_or_else(wrong)?;
    let first: u64 = first.parse().map_err(|_| wrong())?;
    let last: u64 = last.parse().map_err(|_| wrong())?;
    if last < first {
        return Err(wrong());
    }
    let handle: Handle = handle.parse().map_err(|error| format!("{error}"))?;
    let stored = Stored::open(store, &handle).await.map_err(|error| error.to_string())?;
    let end =
        last.saturating_add(1).min(first.saturating_add(MAX_BYTES)).min(stored.receipt().bytes);
    let part = stored.bytes(first..end.max(first)).await.map_err(|error| error.to_string())?;
    let media_type = &stored.receipt().media_type;
    Ok(match std::str::from_utf8(&part) {
        Ok(text) => json!({ "uri": uri, "mimeType": media_type, "text": text }),
        Err(_) => json!({
            "uri": uri, "mimeType": "application/octet-stream", "blob": BASE64.encode(&part)
        }),
    })
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
    fn percent_encoding_is_taken_out() {
        assert_eq!(unescape("a%20b%2Fc%"), Ok("a b/c%".into()));
        assert_eq!(unescape("%C3%A9"), Ok("é".into()));
        assert!(unescape("%FF").is_err());
    }
}
