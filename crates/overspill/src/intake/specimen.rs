//! A payload on the path: rendered, measured, ready to be stored, cut or excerpted.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::ansi::{self, Stripper};
use crate::cut::{Truncate, not_stored, not_stored_nor_json};
use crate::excerpt::{Excerpt, Excerpter};
use crate::item::{Payload, ToolCall};
use crate::lines::{self, Line};
use crate::measure::{Size, count_chars};
use crate::policy::Policy;
use crate::read::is_answer;
use crate::render::{self, show_bytes};
use crate::store::writer::{Surveyed, deposit_seen};
use crate::store::{BlobName, ByteRange, Deposit, PartName, Receipt, Store, StoreError};
use crate::summary::SummaryError;

use super::chain::no_store;

/// How much of a payload is looked at to tell text from other bytes, as git does it.
const LOOKED_AT: usize = 8_000;

/// What kind of thing a payload is; it decides what may be done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Can be cut anywhere between characters.
    Text,
    /// Is no longer JSON once it is cut.
    Json,
    /// Means nothing once it is cut.
    Binary,
}

impl Kind {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let beginning = &bytes[..bytes.len().min(LOOKED_AT)];
        let invalid = beginning.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count();
        if beginning.contains(&0) || invalid > beginning.len() / 10 {
            Self::Binary
        } else {
            Self::Text
        }
    }

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain",
            Self::Json => "application/json",
            Self::Binary => "application/octet-stream",
        }
    }
}

/// A payload on the path.
pub(crate) struct Specimen {
    kind: Kind,
    size: Size,
    receipt: Option<Receipt>,
    body: Body,
}

enum Body {
    Held(Held),
    Streamed(Streamed),
}

/// A payload in memory.
struct Held {
    original: Original,
    /// As rendered; what is stored.
    bytes: Bytes,
    /// As shown, where taking out control sequences changed it.
    stripped: Option<Bytes>,
    strip_ansi: bool,
    /// Its excerpt of so many characters, where one was made while it was stored.
    excerpt: Option<(usize, Excerpt)>,
}

/// How to give a payload back as it came.
enum Original {
    /// It is its bytes, as one text.
    Text,
    /// It is these texts.
    Texts(Vec<String>),
    /// It is this value.
    Json(Value),
    /// It is its bytes.
    Bytes,
}

/// What is left of a stream that was too long to hold.
pub(crate) struct Streamed {
    pub(crate) surveyed: Surveyed,
    /// The payload in the store, not committed yet; or why it is not there.
    pub(crate) rest: Result<Deposit, StoreError>,
    pub(crate) excerpt: Excerpt,
    /// Its beginning and end, as the chain's cut leaves them.
    pub(crate) cut: String,
    /// All that is shown of it, where that is too little to be sure that it is in the largest band.
    pub(crate) visible: Option<Vec<u8>>,
}

/// The longest output, in bytes, that is read back from the store for a summarizer: several times
/// what the largest context windows hold.
const SUMMARIZED_BYTES: u64 = 8 * 1024 * 1024;

impl Specimen {
    pub(crate) fn of_texts(mut texts: Vec<String>, policy: &Policy) -> Self {
        if texts.len() == 1 {
            let text = texts.pop().unwrap_or_default();
            return Self::held(Original::Text, Kind::Text, text.into_bytes().into(), policy);
        }
        let joined = texts.join("\n");
        Self::held(Original::Texts(texts), Kind::Text, joined.into_bytes().into(), policy)
    }

    pub(crate) fn of_json(value: Value, policy: &Policy) -> Self {
        let text = render::json(&value, policy.json);
        Self::held(Original::Json(value), Kind::Json, text.into_bytes().into(), policy)
    }

    pub(crate) fn of_bytes(bytes: Vec<u8>, policy: &Policy) -> Self {
        let kind = Kind::of(&bytes);
        Self::held(Original::Bytes, kind, bytes.into(), policy)
    }

    fn held(original: Original, kind: Kind, bytes: Bytes, policy: &Policy) -> Self {
        let strip_ansi = policy.strip_ansi && kind == Kind::Text;
        let stripped = match strip_ansi.then(|| ansi::strip(&bytes)) {
            Some(Cow::Owned(stripped)) => Some(Bytes::from(stripped)),
            _ => None,
        };
        let shown = stripped.as_ref().unwrap_or(&bytes);
        let size = Size {
            bytes: bytes.len() as u64,
            chars: count_chars(shown),
            measured: policy.unit.of_bytes(shown),
        };
        let body = Body::Held(Held { original, bytes, stripped, strip_ansi, excerpt: None });
        Self { kind, size, receipt: None, body }
    }

    pub(crate) fn streamed(kind: Kind, size: Size, streamed: Streamed) -> Self {
        Self { kind, size, receipt: None, body: Body::Streamed(streamed) }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Proof that it is stored, once it is.
    pub(crate) fn receipt(&self) -> Option<&Receipt> {
        self.receipt.as_ref()
    }

    /// Whether the payload opens with the read tool's own header.
    pub(crate) fn is_read_answer(&self) -> bool {
        match &self.body {
            Body::Held(held) => is_answer(held.shown()),
            Body::Streamed(streamed) => streamed.visible.as_deref().is_some_and(is_answer),
        }
    }

    /// Stores the payload, once: a second action of the chain gets the same receipt. An excerpt of
    /// `preview_chars` characters is made in the same pass.
    pub(crate) async fn store(
        &mut self,
        store: &Arc<dyn Store>,
        call: &ToolCall,
        part: PartName,
        preview_chars: Option<usize>,
    ) -> Result<Receipt, StoreError> {
        if let Some(receipt) = &self.receipt {
            return Ok(receipt.clone());
        }
        let media_type = self.kind.media_type();
        let receipt = match &mut self.body {
            Body::Held(held) => {
                let bytes = held.bytes.clone();
                let mut look = Look::new(preview_chars.unwrap_or(0), held.strip_ansi);
                let see = &mut |line: Line<'_>| look.line(line);
                let receipt = deposit_seen(store, call, part, media_type, bytes, see).await?;
                held.excerpt = preview_chars.map(|chars| (chars, look.excerpter.finish()));
                receipt
            }
            Body::Streamed(streamed) => {
                let deposit = std::mem::replace(&mut streamed.rest, Err(no_store()))?;
                deposit.commit(call, part, media_type, streamed.surveyed.clone()).await?
            }
        };
        self.receipt = Some(receipt.clone());
        Ok(receipt)
    }

    pub(crate) fn excerpt(&self, chars: usize) -> Excerpt {
        match &self.body {
            Body::Held(held) => held.excerpt(chars),
            Body::Streamed(streamed) => streamed.excerpt.clone(),
        }
    }

    /// The payload cut down; `None` where it is short enough as it is.
    pub(crate) fn cut(&self, truncate: &Truncate) -> Option<String> {
        match &self.body {
            Body::Held(held) => {
                let marker = if self.kind == Kind::Json { not_stored_nor_json } else { not_stored };
                truncate.cut_marked(&held.text(), &marker).map(|cut| cut.text)
            }
            Body::Streamed(streamed) => Some(streamed.cut.clone()),
        }
    }

    /// The payload as text; a stream is read back from where it was stored.
    pub(crate) async fn text(
        &mut self,
        store: &Arc<dyn Store>,
    ) -> Result<Cow<'_, str>, SummaryError> {
        let handle = match (&mut self.body, &self.receipt) {
            (Body::Held(held), _) => return Ok(held.text()),
            (Body::Streamed(Streamed { visible: Some(visible), .. }), _) => {
                return Ok(show_bytes(visible));
            }
            (Body::Streamed(_), Some(receipt)) if receipt.bytes <= SUMMARIZED_BYTES => {
                BlobName::Payload(receipt.handle.clone())
            }
            _ => return Err(SummaryError::new("it is too long for any model")),
        };
        let slice = store
            .read(&handle, ByteRange::Span(0..SUMMARIZED_BYTES))
            .await
            .map_err(|error| SummaryError::new("it cannot be read back").with_source(error))?;
        Ok(Cow::Owned(show_bytes(&slice.bytes).into_owned()))
    }

    /// What is left of a stream that nothing could store.
    pub(crate) fn into_cut(self) -> String {
        match self.body {
            Body::Held(held) => held.text().into_owned(),
            Body::Streamed(streamed) => streamed.cut,
        }
    }

    /// Gives a payload that was held back as it came, or as it is shown where control sequences
    /// were taken out: the user asked for them not to be seen.
    pub(crate) fn pass(self) -> Vec<Payload> {
        match self.body {
            Body::Held(held) => held.pass(),
            Body::Streamed(streamed) => streamed.visible.map(Payload::Bytes).into_iter().collect(),
        }
    }
}

impl Held {
    fn shown(&self) -> &[u8] {
        self.stripped.as_ref().unwrap_or(&self.bytes)
    }

    fn text(&self) -> Cow<'_, str> {
        show_bytes(self.shown())
    }

    fn excerpt(&self, chars: usize) -> Excerpt {
        if let Some((of, excerpt)) = &self.excerpt
            && *of == chars
        {
            return excerpt.clone();
        }
        let mut look = Look::new(chars, self.strip_ansi);
        lines::lines(&self.bytes).for_each(|line| look.line(line));
        look.excerpter.finish()
    }

    fn pass(self) -> Vec<Payload> {
        let shown = self.stripped.unwrap_or(self.bytes);
        match self.original {
            Original::Text => vec![text_of(shown)],
            Original::Texts(texts) if self.strip_ansi => texts
                .iter()
                .map(|text| text_of(ansi::strip(text.as_bytes()).into_owned().into()))
                .collect(),
            Original::Texts(texts) => texts.into_iter().map(Payload::Text).collect(),
            Original::Json(value) => vec![Payload::Json(value)],
            Original::Bytes => vec![Payload::Bytes(shown.into())],
        }
    }
}

/// Looks at a payload for its excerpt, line by line, as it is shown. Lines keep the numbers they have
/// in what is stored, so that the numbers in an excerpt are those the read tool takes.
struct Look {
    excerpter: Excerpter,
    stripper: Option<Stripper>,
}

impl Look {
    fn new(chars: usize, strip_ansi: bool) -> Self {
        Self { excerpter: Excerpter::new(chars), stripper: strip_ansi.then(Stripper::default) }
    }

    fn line(&mut self, line: Line<'_>) {
        match &mut self.stripper {
            Some(stripper) => {
                let bytes = &stripper.strip(line.bytes);
                self.excerpter.line(Line { bytes, ..line });
            }
            None => self.excerpter.line(line),
        }
    }
}

fn text_of(bytes: Bytes) -> Payload {
    match String::from_utf8(bytes.into()) {
        Ok(text) => Payload::Text(text),
        Err(error) => Payload::Bytes(error.into_bytes()),
    }
}
