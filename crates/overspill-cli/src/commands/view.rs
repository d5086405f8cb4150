//! What stands in view for an output that arrives piece by piece.

use std::io::{self, Read};
use std::os::fd::AsFd;

use bytes::Bytes;
use overspill::{Admitted, Payload, Receipt, Reduction, ReturnStream, Size, Usage};
use overspill_store::LocalStore;
use serde::Serialize;

use crate::failure::{Failure, explain, is_closed_pipe};
use crate::feed::Feed;
use crate::output::{self, Out};

/// An output on its way through the policy to standard output.
#[derive(Debug)]
pub(crate) struct View {
    stream: ReturnStream,
    /// Where the stream is stored.
    store: Option<LocalStore>,
    /// With `--json`, what passes is held until the end; else it is shown at once.
    held: Option<Vec<u8>>,
}

impl View {
    pub(crate) fn new(stream: ReturnStream, store: Option<LocalStore>, json: bool) -> Self {
        Self { stream, store, held: json.then(Vec::new) }
    }

    /// Takes in all of the feed. Where what passes cannot be shown any more, since nobody reads
    /// it, the feed is dropped, so that whoever writes learns of it.
    pub(crate) async fn take_in(
        &mut self,
        feed: &mut Option<Feed<impl Read + AsFd>>,
    ) -> Result<(), Failure> {
        while let Some(source) = feed {
            let piece = match source.next() {
                Ok(Some(piece)) => piece,
                Ok(None) => return Ok(()),
                Err(error) => return Err(Failure::from(error).context("cannot read the output")),
            };
            let Some(shown) = self.stream.push(piece).await else { continue };
            match self.show(&shown) {
                Err(error) if is_closed_pipe(&error) => *feed = None,
                shown => shown?,
            }
        }
        Ok(())
    }

    fn show(&mut self, piece: &Bytes) -> io::Result<()> {
        if let Some(held) = &mut self.held {
            held.extend_from_slice(piece);
            return Ok(());
        }
        let mut out = Out::new();
        out.bytes(piece)?;
        out.flush()
    }

    /// Ends the output, and shows what should be seen of it and what could not be done.
    pub(crate) async fn finish(self, exit_status: Option<i32>) -> Result<(), Failure> {
        let admitted = self.stream.finish(exit_status).await;
        for warning in &admitted.warnings {
            output::warning(warning);
        }
        let shown = show_all(&admitted, self.held, exit_status);
        // What was to be seen is seen by now; a sweep that began with the write may end.
        if let Some(store) = self.store {
            for warning in store.sweep_warnings().await {
                output::notice(&format!("sweeping the store: {warning}"));
            }
        }
        match shown {
            // The exit status counts all the same.
            Err(error) if is_closed_pipe(&error) => Ok(()),
            shown => Ok(shown?),
        }
    }
}

fn show_all(
    admitted: &Admitted,
    held: Option<Vec<u8>>,
    exit_status: Option<i32>,
) -> io::Result<()> {
    let mut out = Out::new();
    if let Some(mut bytes) = held {
        for payload in &admitted.output.value {
            bytes.extend_from_slice(&bytes_of(payload));
        }
        out.json(&Report::new(admitted, bytes, exit_status))?;
        return out.flush();
    }
    for payload in &admitted.output.value {
        match payload {
            Payload::Text(text) if !admitted.reductions.is_empty() => out.text(text)?,
            payload => out.bytes(&bytes_of(payload))?,
        }
    }
    out.flush()
}

/// The bytes of a payload; what comes in as a stream is text or bytes when it comes out.
fn bytes_of(payload: &Payload) -> Vec<u8> {
    match payload {
        Payload::Text(text) => text.clone().into_bytes(),
        Payload::Bytes(bytes) => bytes.clone(),
        Payload::Json(value) => value.to_string().into_bytes(),
        Payload::Media(media) => media.bytes.clone(),
    }
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_status: Option<i32>,
    reductions: Vec<ReductionReport<'a>>,
    warnings: Vec<String>,
    /// What summaries took, where there were any.
    #[serde(skip_serializing_if = "is_free")]
    usage: Usage,
}

fn is_free(usage: &Usage) -> bool {
    *usage == Usage::default()
}

#[derive(Debug, Serialize)]
struct ReductionReport<'a> {
    action: &'a str,
    over: u64,
    before: SizeReport,
    after: SizeReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<&'a Receipt>,
}

#[derive(Debug, Serialize)]
struct SizeReport {
    bytes: u64,
    chars: u64,
    measured: u64,
}

impl<'a> Report<'a> {
    fn new(admitted: &'a Admitted, bytes: Vec<u8>, exit_status: Option<i32>) -> Self {
        let (output, output_base64) = match String::from_utf8(bytes) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(data_encoding::BASE64.encode(error.as_bytes()))),
        };
        let reductions = admitted.reductions.iter().map(ReductionReport::from).collect();
        let warnings = admitted.warnings.iter().map(|warning| explain(warning)).collect();
        let usage = admitted.usage;
        Self { output, output_base64, exit_status, reductions, warnings, usage }
    }
}

impl<'a> From<&'a Reduction> for ReductionReport<'a> {
    fn from(reduction: &'a Reduction) -> Self {
        Self {
            action: reduction.action,
            over: reduction.over,
            before: reduction.before.into(),
            after: reduction.after.into(),
            receipt: reduction.receipt.as_ref(),
        }
    }
}

impl From<Size> for SizeReport {
    fn from(size: Size) -> Self {
        Self { bytes: size.bytes, chars: size.chars, measured: size.measured }
    }
}
