//! A tool's result is one thing with several faces: they are measured together, reduced together,
//! and stay consistent.
//!
//! The blocks of `content`, `structuredContent` and whatever no revision names go through the
//! policy as the payloads of one return, the biggest first, until together they are under the
//! band's threshold. What stays keeps its bytes. Images and sounds pass as such. Where the pieces
//! are many and small, so that none is worth a marker, all of them leave as one. An error of the
//! protocol has faces too: its message, and the data beside it.

mod faces;

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use overspill::measure::Unit;
use overspill::store::{Deposit, PartName, Store, StoreError, Survey};
use overspill::{
    Action, Admitted, Band, Bands, Config, Payload, PolicyError, Receipt, Summarizer, ToolCall,
    ToolOutputLimits, ToolReturn, Warning,
};

use crate::handle_argument;
use crate::json::{Edits, Members, quote};
use crate::long::{Broken, Long};
use crate::message::INTERNAL;

use faces::{As, Face, Faces, Source, remove};

/// The policy, as it applies to results of tools.
pub(crate) struct Reducer {
    config: Config,
    store: Arc<dyn Store>,
    summarizer: Arc<dyn Summarizer>,
    run: String,
    limits: RwLock<Arc<ToolOutputLimits>>,
}

/// A result that was reduced.
#[derive(Debug)]
pub(crate) struct Reduced {
    /// The result, as JSON; `None` where it passes as it came.
    pub(crate) result: Option<String>,
    /// Proof of what was stored.
    pub(crate) receipts: Vec<Receipt>,
    /// What could not be done.
    pub(crate) warnings: Vec<String>,
}

impl fmt::Debug for Reducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reducer").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Reducer {
    /// A reducer for that policy.
    pub(crate) fn new(
        mut config: Config,
        store: Arc<dyn Store>,
        summarizer: Arc<dyn Summarizer>,
        run: String,
    ) -> Result<Self, PolicyError> {
        if config.bands == config.preset.bands(&config.unit) {
            config.bands = whole_without_store(&config.bands);
        }
        let limits = RwLock::new(Arc::new(build(&config, &store, &summarizer)?));
        Ok(Self { config, store, summarizer, run, limits })
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(crate) fn limits(&self) -> Arc<ToolOutputLimits> {
        Arc::clone(&self.limits.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives the read tool another name, since a tool of a server has it.
    pub(crate) fn rename_read_tool(&self, name: &str) -> Result<(), PolicyError> {
        if self.limits().read_tool().name == name {
            return Ok(());
        }
        let mut config = self.config.clone();
        name.clone_into(&mut config.read_tool);
        let limits = Arc::new(build(&config, &self.store, &self.summarizer)?);
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
        Ok(())
    }

    /// The name the read tool has where no tool of a server has it.
    pub(crate) fn wanted_read_tool(&self) -> &str {
        &self.config.read_tool
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Whether there can be a handle in the parameters of a call of that tool.
    pub(crate) fn may_hold_handle(&self, tool: &str, params: &str) -> bool {
        let mcp = &self.config.mcp;
        let takes = || mcp.handle_arguments.as_ref().is_some_and(|tools| tools.applies_to(tool));
        (mcp.bare_handles && takes())
            || memchr::memmem::find(params.as_bytes(), handle_argument::KEY.as_bytes()).is_some()
    }

    /// Whether the results of a tool can be reduced at all.
    pub(crate) fn concerns(&self, tool: &str) -> bool {
        self.smallest(tool).is_some()
    }

    fn smallest(&self, tool: &str) -> Option<u64> {
        let is_concerned = self.config.enabled && self.config.tools.applies_to(tool);
        is_concerned.then(|| self.bands(tool).iter().next().map(|band| band.over)).flatten()
    }

    fn bands(&self, tool: &str) -> &overspill::Bands {
        self.config.tool_bands.for_tool(tool).unwrap_or(&self.config.bands)
    }

    /// Whether a result of that many bytes of JSON passes whatever is in it: decoded it is no
    /// longer, and no unit counts more than the bytes.
    pub(crate) fn passes(&self, tool: &str, bytes: usize) -> bool {
        self.smallest(tool).is_none_or(|over| (bytes as u64) < over)
    }

    /// Reduces the result of a tool, which is `result` as JSON.
    ///
    /// Strings in it may stand for such that lie on disk, in `long`.
    pub(crate) async fn tool_result(
        &self,
        tool: &str,
        result: &str,
        long: Option<&Long>,
    ) -> Reduced {
        if self.passes(tool, result.len()) && (long.is_none() || !self.concerns(tool)) {
            return Reduced::passed();
        }
        let Some(members) = Members::of(result) else {
            return self.unreadable(tool, result, long, as_result).await;
        };
        if is_no_result_yet(&members) {
            return Reduced::passed();
        }
        let is_error = members.get("isError") == Some("true");
        if is_error && self.is_kept(result, long) {
            return Reduced::passed();
        }
        if members.get("content").is_some_and(|content| !content.starts_with('[')) {
            return self.unreadable(tool, result, long, as_result).await;
        }
        self.faces(tool, result, long, Faces::of_result).await
    }

    /// Reduces the error that a call of a tool was answered with, which is `error` as JSON.
    pub(crate) async fn tool_error(&self, tool: &str, error: &str, long: Option<&Long>) -> Reduced {
        let is_short = self.passes(tool, error.len()) && long.is_none();
        if is_short || !self.concerns(tool) || self.is_kept(error, long) {
            return Reduced::passed();
        }
        if Members::of(error).is_none() {
            return self.unreadable(tool, error, long, as_error).await;
        }
        self.faces(tool, error, long, Faces::of_error).await
    }

    /// Reduces the contents of resources that were read.
    pub(crate) async fn resource_result(&self, result: &str, long: Option<&Long>) -> Reduced {
        const TOOL: &str = "resources/read";
        if self.passes(TOOL, result.len()) && (long.is_none() || !self.concerns(TOOL)) {
            return Reduced::passed();
        }
        self.faces(TOOL, result, long, Faces::of_contents).await
    }

    /// Stores bytes that no view is made of.
    pub(crate) async fn keep(
        &self,
        tool: &str,
        pieces: impl Iterator<Item = io::Result<Vec<u8>>> + Send,
    ) -> Result<Receipt, StoreError> {
        let call = ToolCall::new(self.run.as_str(), tool, tool);
        let unreadable = |error| StoreError::Unavailable {
            doing: "be given what lies on disk".to_owned(),
            source: Box::new(error),
        };
        let mut deposit = Deposit::open(&self.store).await?;
        let mut survey = Survey::new();
        for piece in pieces {
            let piece = piece.map_err(unreadable)?;
            survey.push(&piece, &mut |_| {});
            deposit.append(piece.into()).await?;
            deposit.append_rows(&survey.take_rows()).await?;
        }
        let surveyed = survey.finish(&mut |_| {});
        deposit.commit(&call, PartName::Value(0), "application/octet-stream", surveyed).await
    }

    /// Whether an error is short enough to be kept whole.
    fn is_kept(&self, error: &str, long: Option<&Long>) -> bool {
        long.map_or(error.len() as u64, Long::bytes) <= self.config.mcp.max_error
    }

    /// Takes as one payload what cannot be taken apart: it is no result or error, or has a key that
    /// is no text. `wrap` makes one of the view.
    async fn unreadable(
        &self,
        tool: &str,
        whole: &str,
        long: Option<&Long>,
        wrap: fn(&str) -> String,
    ) -> Reduced {
        let call = ToolCall::new(self.run.as_str(), tool, tool);
        let admitted = match long {
            Some(long) => {
                let source = [Source::Spelled(whole.to_owned())];
                match self.stream(&call, long, source).await {
                    Some((admitted, _)) => *admitted,
                    None => return Reduced::passed(),
                }
            }
            None => {
                let value = vec![Payload::Bytes(whole.into())];
                self.limits().admit(&call, ToolReturn { value, ..ToolReturn::default() }).await
            }
        };
        let is_reduced = !admitted.reductions.is_empty();
        Reduced {
            result: admitted.output.text().filter(|_| is_reduced).map(wrap),
            receipts: admitted.receipts().cloned().collect(),
            warnings: admitted.warnings.iter().map(describe).collect(),
        }
    }

    /// Reduces something by its faces: first those that lie on disk, each by itself, then what is
    /// left, together.
    async fn faces(
        &self,
        tool: &str,
        whole: &str,
        long: Option<&Long>,
        faces_of: fn(&str) -> Faces,
    ) -> Reduced {
        let Some(long) = long else { return self.admit(tool, whole, faces_of(whole)).await };
        let first = self.on_disk(tool, whole, &faces_of(whole), long).await;
        let shorter = first.result.as_deref().unwrap_or(whole);
        let mut faces = faces_of(shorter);
        faces.leave_on_disk(shorter, long);
        let Reduced { result, receipts, warnings } = self.admit(tool, shorter, faces).await;
        Reduced {
            receipts: [first.receipts, receipts].concat(),
            warnings: [first.warnings, warnings].concat(),
            result: result.or(first.result),
        }
    }

    /// Reads what lies on disk through the policy; what stays whole stays there.
    async fn on_disk(&self, tool: &str, whole: &str, faces: &Faces, long: &Long) -> Reduced {
        let mut reduced = Reduced::passed();
        let call = ToolCall::new(self.run.as_str(), tool, tool);
        let mut edits = Edits::default();
        let mut gone = Vec::new();
        let each = faces.faces.iter().enumerate();
        for (i, mut face) in each.flat_map(|(i, (face, _))| face.each().map(move |face| (i, face)))
        {
            let sources = face.sources(whole, long);
            let Some((admitted, source)) = self.stream(&call, long, sources).await else {
                continue;
            };
            if let (Face::Value(_, form), Source::Spelled(_)) = (&mut face, source) {
                *form = As::Json;
            }
            let warnings = admitted.warnings.iter().map(|warning| match warning {
                // It is still there whole.
                Warning::MiddleLost { tool } => {
                    format!("nothing could reduce the output of {tool}: it is in view whole")
                }
                warning => describe(warning),
            });
            reduced.warnings.extend(warnings);
            let Some(reduction) = admitted.reductions.first() else { continue };
            let Some(view) = admitted.output.text() else { continue };
            let handle = reduction.receipt.as_ref().map(|receipt| receipt.handle.as_str());
            let literal = quote(view);
            face.put(&literal, handle, &mut edits, &mut gone);
            faces.put_twin(i, &literal, handle, &mut edits);
            reduced.receipts.extend(admitted.receipts().cloned());
        }
        remove(whole, &gone, &mut edits);
        reduced.result = (!edits.is_empty()).then(|| edits.apply(whole));
        reduced
    }

    /// Takes something on disk through the policy in constant memory, read as the first of
    /// `sources` as which it can be read; `None` where it passes as it is.
    async fn stream(
        &self,
        call: &ToolCall,
        long: &Long,
        sources: impl IntoIterator<Item = Source>,
    ) -> Option<(Box<Admitted>, Source)> {
        'sources: for source in sources {
            let mut stream = self.limits().stream(call);
            let pieces: Box<dyn Iterator<Item = Result<Vec<u8>, Broken>> + Send> = match &source {
                Source::Text(n) => Box::new(long.text(*n)),
                Source::Base64(n) => Box::new(long.base64(*n)),
                Source::Spelled(json) => {
                    Box::new(long.expand(json).map(|piece| piece.map_err(|_| Broken::Disk)))
                }
            };
            for piece in pieces {
                match piece {
                    Ok(piece) => {
                        if stream.push(piece.into()).await.is_some() {
                            return None;
                        }
                    }
                    Err(Broken::NotThat) => continue 'sources,
                    // A disk that cannot be read now is tried again by whoever writes the message.
                    Err(Broken::Disk) => return None,
                }
            }
            return Some((Box::new(stream.finish(None).await), source));
        }
        None
    }

    async fn admit(&self, tool: &str, result: &str, mut faces: Faces) -> Reduced {
        let call = ToolCall::new(self.run.as_str(), tool, tool);
        let limits = self.limits();
        let value: Vec<Payload> =
            faces.faces.iter_mut().flat_map(|(_, payloads)| std::mem::take(payloads)).collect();
        let total = self.measure(&value);
        let Some(band) = self.bands(tool).fit(total).cloned() else { return Reduced::passed() };
        if are_many_and_small(&value)
            && let Some(all) = self.all_at_once(&call, &band, result, &faces).await
        {
            return all;
        }
        let admitted = limits.admit(&call, ToolReturn { value, ..ToolReturn::default() }).await;
        let mut reduced = faces.edited(result, &admitted);
        if self.measure(&admitted.output.value) >= band.over
            && let Some(all) = self.all_at_once(&call, &band, result, &faces).await
        {
            reduced = all;
        }
        reduced
    }

    /// Takes all of the content that can leave as one payload, one block a line as JSON.
    async fn all_at_once(
        &self,
        call: &ToolCall,
        band: &Band,
        result: &str,
        faces: &Faces,
    ) -> Option<Reduced> {
        let texts: Vec<Range<usize>> = faces
            .blocks
            .iter()
            .filter(|(_, is_media)| !is_media)
            .map(|(at, _)| at.clone())
            .collect();
        if texts.len() < 2 {
            return None;
        }
        let mut all = Faces { blocks: faces.blocks.clone(), ..Faces::default() };
        all.others(result, texts);
        for (face, _) in &faces.faces {
            match face {
                Face::Value(at, _) => all.value(result, &result[at.clone()]),
                Face::Rest(members) => all.rest(result, members.clone()),
                _ => {}
            }
        }
        let twin = faces.twin.clone().map(|(_, at)| (0, at));
        all.twin = twin;
        let value =
            all.faces.iter_mut().flat_map(|(_, payloads)| std::mem::take(payloads)).collect();
        let admitted =
            self.limits().admit(call, ToolReturn { value, ..ToolReturn::default() }).await;
        let is_better = self.measure(&admitted.output.value) < band.over;
        is_better.then(|| all.edited(result, &admitted))
    }

    fn measure(&self, payloads: &[Payload]) -> u64 {
        let unit: &Unit = &self.config.unit;
        let of = |payload: &Payload| match payload {
            Payload::Text(text) => unit.of_bytes(text.as_bytes()),
            Payload::Bytes(bytes) => unit.of_bytes(bytes),
            Payload::Json(value) => unit.of_bytes(value.to_string().as_bytes()),
            Payload::Media(_) => 0,
        };
        payloads.iter().map(of).sum()
    }
}

/// The bands without what cuts where nothing can be stored. A preset has that for an agent whose own
/// history must not grow; behind a proxy nobody has what is cut, unless a file asks for it by name.
fn whole_without_store(bands: &Bands) -> Bands {
    let bands = bands.iter().map(|band| match &band.action {
        Action::Spill(spill, _) => Band::new(band.over, spill.clone().into()),
        _ => band.clone(),
    });
    // They are as far apart as they were.
    Bands::new(bands).unwrap_or_default()
}

fn build(
    config: &Config,
    store: &Arc<dyn Store>,
    summarizer: &Arc<dyn Summarizer>,
) -> Result<ToolOutputLimits, PolicyError> {
    ToolOutputLimits::builder()
        .config(config)
        .store(Arc::clone(store))
        .summarizer(Arc::clone(summarizer))
        .build()
}

impl Reduced {
    fn passed() -> Self {
        Self { result: None, receipts: Vec::new(), warnings: Vec::new() }
    }
}

/// Whether a result asks for input, or is a task that will have a result.
fn is_no_result_yet(members: &Members<'_>) -> bool {
    let result_type = members.text("resultType").unwrap_or_default();
    matches!(result_type.as_str(), "input_required" | "task")
        || members.object("task").is_some()
        || (members.text("taskId").is_some() && members.get("content").is_none())
}

/// The result of a tool that is this text.
fn as_result(view: &str) -> String {
    format!("{{\"content\":[{{\"type\":\"text\",\"text\":{}}}]}}", quote(view))
}

/// The error that says this.
fn as_error(view: &str) -> String {
    format!("{{\"code\":{INTERNAL},\"message\":{}}}", quote(view))
}

/// Whether payloads are so many, and most of them so small, that a marker for each would be slow
/// and no shorter.
fn are_many_and_small(payloads: &[Payload]) -> bool {
    const MANY: usize = 32;
    const SMALL: usize = 2_048;
    let bytes = payloads.iter().filter_map(|payload| match payload {
        // Adjacent texts are one already.
        Payload::Text(_) | Payload::Media(_) => None,
        Payload::Bytes(bytes) => Some(bytes.len()),
        Payload::Json(value) => Some(value.to_string().len()),
    });
    let (small, big): (Vec<_>, Vec<_>) = bytes.partition(|bytes| *bytes < SMALL);
    small.len() > MANY && small.len() > big.len()
}

fn describe(warning: &Warning) -> String {
    let mut text = warning.to_string();
    let mut cause = std::error::Error::source(warning);
    while let Some(error) = cause {
        let what = error.to_string();
        if !text.ends_with(&what) {
            text = format!("{text}: {what}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
