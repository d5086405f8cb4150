//! A tool's result is one thing with several faces: they are measured together, reduced together,
//! and stay consistent.
//!
//! The blocks of `content` and `structuredContent` go through the policy as the payloads of one
//! return, the biggest first, until together they are under the band's threshold. What stays
//! keeps its bytes. Images and sounds pass as such. Where the pieces are many and small, so that
//! none is worth a marker, all of them leave as one.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use data_encoding::BASE64;
use overspill::measure::Unit;
use overspill::store::{PartName, Store};
use overspill::{
    Action, Admitted, Band, Bands, Config, Media, Payload, PolicyError, Receipt, Summarizer,
    ToolCall, ToolOutputLimits, ToolReturn, Warning,
};

use crate::handle_argument;
use crate::json::{Edits, Members, items, packed, quote, span, string};
use crate::long::{Long, NotText, Unescape};

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

/// What became of a string on disk.
enum Streamed {
    Admitted(Box<Admitted>),
    /// It passes as it is.
    Passed,
    /// It is no text.
    NotText,
}

/// One thing in a result that can be reduced, and where.
#[derive(Debug)]
enum Face {
    /// The texts of adjacent blocks; the first takes the view, the others go.
    Texts(Vec<Block>),
    /// Adjacent blocks that are no texts, such as links, one a line; as `Texts`.
    Others(Vec<Block>),
    /// The text of an embedded resource.
    ResourceText(Range<usize>),
    /// The base64 of an embedded resource; the key goes too.
    ResourceBlob(Range<usize>),
    /// It is seen as what it is.
    Media,
    /// `structuredContent`.
    Structured(Range<usize>),
}

/// A block of the content.
#[derive(Debug, Clone)]
struct Block {
    /// Where it is.
    block: Range<usize>,
    /// Where its text is; empty for what is no text.
    text: Range<usize>,
}

/// What a result consists of.
#[derive(Debug, Default)]
struct Faces {
    faces: Vec<(Face, Vec<Payload>)>,
    /// All blocks of the content, and which of them are media.
    blocks: Vec<(Range<usize>, bool)>,
    /// `structuredContent`, where it says the same as the text of that face.
    twin: Option<(usize, Range<usize>)>,
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
            return self.unreadable(tool, result, long).await;
        };
        let result_type = members.text("resultType").unwrap_or_default();
        if matches!(result_type.as_str(), "input_required" | "task")
            || members.object("task").is_some()
        {
            return Reduced::passed();
        }
        let is_error = members.get("isError") == Some("true");
        let bytes = long.map_or(result.len() as u64, Long::bytes);
        if is_error && bytes <= self.config.mcp.max_error {
            return Reduced::passed();
        }
        if let Some(long) = long {
            let views = self.long_texts(tool, result, &members, long).await;
            let Some(shorter) = &views.result else { return views };
            // What stood beside the long texts may be too much all the same.
            let Reduced { result, receipts, warnings } =
                Box::pin(self.tool_result(tool, shorter, None)).await;
            return Reduced {
                receipts: [views.receipts, receipts].concat(),
                warnings: [views.warnings, warnings].concat(),
                result: result.or(views.result),
            };
        }
        let mut faces = Faces::default();
        if let Some(content) = members.get("content") {
            faces.content(result, content);
        }
        if let Some(structured) = members.some("structuredContent") {
            faces.structured(result, structured);
        }
        self.admit(tool, result, faces).await
    }

    /// Takes what is no result of a tool, or has a key that is no text, as one payload.
    async fn unreadable(&self, tool: &str, result: &str, long: Option<&Long>) -> Reduced {
        let bytes = match long {
            Some(long) => {
                let pieces: std::io::Result<Vec<Vec<u8>>> = long.expand(result).collect();
                // A disk that cannot be read now is tried again by whoever writes the message.
                let Ok(pieces) = pieces else { return Reduced::passed() };
                pieces.concat()
            }
            None => result.as_bytes().to_vec(),
        };
        let call = ToolCall::new(self.run.as_str(), tool, tool);
        let value = vec![Payload::Bytes(bytes)];
        let admitted =
            self.limits().admit(&call, ToolReturn { value, ..ToolReturn::default() }).await;
        let view = match admitted.output.value.first() {
            Some(Payload::Text(view)) if !admitted.reductions.is_empty() => Some(view),
            _ => None,
        };
        let of = |view: &String| {
            format!("{{\"content\":[{{\"type\":\"text\",\"text\":{}}}]}}", quote(view))
        };
        Reduced {
            result: view.map(of),
            receipts: admitted.receipts().cloned().collect(),
            warnings: admitted.warnings.iter().map(describe).collect(),
        }
    }

    /// Reads the texts that lie on disk through the policy; what stays whole stays there.
    async fn long_texts(
        &self,
        tool: &str,
        result: &str,
        members: &Members<'_>,
        long: &Long,
    ) -> Reduced {
        let mut reduced = Reduced::passed();
        let mut texts: Vec<&str> = members.some("structuredContent").into_iter().collect();
        for block in members.get("content").and_then(items).unwrap_or_default() {
            let block = Members::of(block).unwrap_or_default();
            texts.extend(block.get("text"));
            texts.extend(block.object("resource").and_then(|resource| resource.get("text")));
        }
        let call = ToolCall::new(self.run.as_str(), tool, tool);
        let mut edits = Edits::default();
        for text in texts {
            let start = span(result, text).start;
            for (at, n) in long.stand_ins(text) {
                let admitted = match self.stream(&call, long, n, true).await {
                    Streamed::Admitted(admitted) => Some(admitted),
                    Streamed::NotText => match self.stream(&call, long, n, false).await {
                        Streamed::Admitted(admitted) => Some(admitted),
                        _ => None,
                    },
                    Streamed::Passed => None,
                };
                let Some(admitted) = admitted else { continue };
                let warnings = admitted.warnings.iter().map(|warning| match warning {
                    // It is still there whole.
                    Warning::MiddleLost { tool } => {
                        format!("nothing could reduce the output of {tool}: it is in view whole")
                    }
                    warning => describe(warning),
                });
                reduced.warnings.extend(warnings);
                if admitted.reductions.is_empty() {
                    continue;
                }
                let Some(view) = admitted.output.text() else { continue };
                edits.replace(start + at.start..start + at.end, quote(view));
                reduced.receipts.extend(admitted.receipts().cloned());
            }
        }
        reduced.result = (!edits.is_empty()).then(|| edits.apply(result));
        reduced
    }

    /// Takes a string on disk through the policy in constant memory: its text, or the literal where
    /// it is no text.
    async fn stream(&self, call: &ToolCall, long: &Long, n: usize, decoded: bool) -> Streamed {
        let mut stream = self.limits().stream(call);
        let mut unescape = Unescape::default();
        let mut pieces = long.pieces(n).peekable();
        let mut is_first = true;
        while let Some(piece) = pieces.next() {
            // A disk that cannot be read now is tried again by whoever writes the message.
            let Ok(mut piece) = piece else { return Streamed::Passed };
            if decoded {
                if std::mem::take(&mut is_first) {
                    piece.remove(0);
                }
                if pieces.peek().is_none() {
                    piece.pop();
                }
                match unescape.push(&piece) {
                    Ok(text) => piece = text,
                    Err(NotText) => return Streamed::NotText,
                }
            }
            if stream.push(piece.into()).await.is_some() {
                return Streamed::Passed;
            }
        }
        if decoded && unescape.finish().is_err() {
            return Streamed::NotText;
        }
        Streamed::Admitted(Box::new(stream.finish(None).await))
    }

    /// Reduces the contents of resources that were read.
    pub(crate) async fn resource_result(&self, result: &str) -> Reduced {
        const TOOL: &str = "resources/read";
        if self.passes(TOOL, result.len()) {
            return Reduced::passed();
        }
        let contents = Members::of(result).and_then(|members| items(members.get("contents")?));
        let mut faces = Faces::default();
        for resource in contents.into_iter().flatten() {
            faces.resource(result, resource);
        }
        self.admit(TOOL, result, faces).await
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
            if let Face::Structured(at) = face {
                all.push(Face::Structured(at.clone()), Payload::Bytes(result[at.clone()].into()));
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

impl Faces {
    fn push(&mut self, face: Face, payload: Payload) {
        self.faces.push((face, vec![payload]));
    }

    fn content(&mut self, result: &str, content: &str) {
        let mut others: Vec<Range<usize>> = Vec::new();
        for raw in items(content).unwrap_or_default() {
            let at = span(result, raw);
            let block = Members::of(raw).unwrap_or_default();
            let kind = block.text("type").unwrap_or_default();
            let is_media = matches!(kind.as_str(), "image" | "audio");
            let is_known = match kind.as_str() {
                "text" => block.get("text"),
                "resource" => block.get("resource"),
                _ => None,
            };
            self.blocks.push((at.clone(), is_media));
            if is_known.is_none() && !is_media {
                others.push(at);
                continue;
            }
            self.others(result, std::mem::take(&mut others));
            match is_known {
                Some(text) if kind == "text" => self.text(result, at, &block, text),
                Some(resource) => self.resource(result, resource),
                None => self.media(&block),
            }
        }
        self.others(result, others);
    }

    fn text(&mut self, result: &str, at: Range<usize>, block: &Members<'_>, literal: &str) {
        // Half a surrogate pair is no text; its literal is, so that nothing is lost of it.
        let text = string(literal).unwrap_or_else(|| literal.to_owned());
        let is_plain = block.iter().count() == 2;
        let block = Block { block: at, text: span(result, literal) };
        if !is_plain {
            // What stands beside the text keeps its place, so the block takes its own view.
            return self.push(Face::Texts(vec![block]), Payload::Bytes(text.into_bytes()));
        }
        match self.faces.last_mut() {
            Some((Face::Texts(blocks), texts))
                if matches!(texts.last(), Some(Payload::Text(_))) =>
            {
                blocks.push(block);
                texts.push(Payload::Text(text));
            }
            _ => self.push(Face::Texts(vec![block]), Payload::Text(text)),
        }
    }

    fn others(&mut self, result: &str, blocks: Vec<Range<usize>>) {
        if blocks.is_empty() {
            return;
        }
        let mut lines = String::new();
        for at in &blocks {
            // A line end between tokens would be one between blocks.
            lines.push_str(&packed(&result[at.clone()]));
            lines.push('\n');
        }
        let blocks = blocks.into_iter().map(|block| Block { block, text: 0..0 }).collect();
        self.push(Face::Others(blocks), Payload::Bytes(lines.into_bytes()));
    }

    fn media(&mut self, block: &Members<'_>) {
        let data = block.text("data").and_then(|data| BASE64.decode(data.as_bytes()).ok());
        let media_type = block.text("mimeType").unwrap_or_default();
        let media = Media { media_type, bytes: data.unwrap_or_default() };
        self.push(Face::Media, Payload::Media(media));
    }

    fn resource(&mut self, result: &str, resource: &str) {
        let Some(members) = Members::of(resource) else { return };
        if let Some(literal) = members.get("text") {
            let text = string(literal).unwrap_or_else(|| literal.to_owned());
            let at = span(result, literal);
            return self.push(Face::ResourceText(at), Payload::Bytes(text.into_bytes()));
        }
        let Some(literal) = members.get("blob") else { return };
        let media_type = members.text("mimeType").unwrap_or_default();
        let blob = string(literal);
        let bytes = blob.as_ref().and_then(|blob| BASE64.decode(blob.as_bytes()).ok());
        // What is no base64 is at least a text.
        let bytes = bytes.unwrap_or_else(|| blob.unwrap_or_default().into_bytes());
        let is_media = ["image/", "audio/", "video/"].iter().any(|of| media_type.starts_with(of));
        if is_media {
            return self.push(Face::Media, Payload::Media(Media { media_type, bytes }));
        }
        // The key's literal stands before the value, with white space and a colon between. It may
        // be spelled with escapes, but has no quote inside.
        let value = span(result, literal);
        let before = result[..value.start].trim_end().trim_end_matches(':').trim_end();
        let key = before.strip_suffix('"').and_then(|before| before.rfind('"'));
        let key = key.unwrap_or(value.start);
        self.push(Face::ResourceBlob(key..value.end), Payload::Bytes(bytes));
    }

    fn structured(&mut self, result: &str, structured: &str) {
        let at = span(result, structured);
        match self.faces.iter().position(|(face, texts)| is_twin(result, face, texts, structured)) {
            Some(face) => self.twin = Some((face, at)),
            None => self.push(Face::Structured(at), Payload::Bytes(structured.into())),
        }
    }

    /// The result with what was reduced in the places of what it was.
    fn edited(&self, result: &str, admitted: &Admitted) -> Reduced {
        let mut edits = Edits::default();
        let mut gone: Vec<Range<usize>> = Vec::new();
        let mut first = 0;
        let mut seen = 0;
        for (at, (face, _)) in self.faces.iter().enumerate() {
            let reduction = admitted
                .reductions
                .iter()
                .find(|reduction| reduction.part == PartName::Value(first as u32));
            let payloads = match face {
                Face::Texts(blocks) => blocks.len(),
                _ => 1,
            };
            first += payloads;
            let Some(reduction) = reduction else {
                seen += payloads;
                continue;
            };
            let view = match admitted.output.value.get(seen) {
                Some(Payload::Text(view)) => view.as_str(),
                _ => "",
            };
            seen += 1;
            let literal = quote(view);
            let handle = reduction.receipt.as_ref().map(|receipt| receipt.handle.as_str());
            match face {
                Face::Texts(blocks) => {
                    let Some((head, rest)) = blocks.split_first() else { continue };
                    edits.replace(head.text.clone(), literal.as_str());
                    gone.extend(rest.iter().map(|block| block.block.clone()));
                }
                Face::Others(blocks) => {
                    let Some((head, rest)) = blocks.split_first() else { continue };
                    let block = format!("{{\"type\":\"text\",\"text\":{literal}}}");
                    edits.replace(head.block.clone(), block);
                    gone.extend(rest.iter().map(|block| block.block.clone()));
                }
                Face::ResourceText(at) => edits.replace(at.clone(), literal.as_str()),
                Face::ResourceBlob(at) => edits.replace(at.clone(), format!("\"text\":{literal}")),
                Face::Structured(at) => {
                    edits.replace(at.clone(), stand_in(handle, As::Json, &literal));
                }
                Face::Media => {}
            }
            if let Some((_, structured)) = self.twin.as_ref().filter(|(twin, _)| *twin == at) {
                edits.replace(structured.clone(), stand_in(handle, As::Text, &literal));
            }
        }
        self.remove(result, &gone, &mut edits);
        Reduced {
            result: (!edits.is_empty()).then(|| edits.apply(result)),
            receipts: admitted.receipts().cloned().collect(),
            warnings: admitted.warnings.iter().map(describe).collect(),
        }
    }

    /// Takes blocks out, each with the comma before it: a block that goes is never the first.
    fn remove(&self, result: &str, gone: &[Range<usize>], edits: &mut Edits) {
        for at in gone {
            let before = &result[..at.start];
            let comma = before.rfind(',').unwrap_or(at.start);
            edits.replace(comma..at.end, "");
        }
    }
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

/// How a stored payload stands in an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum As {
    Text,
    Json,
}

/// What stands where structured content was: a handle in the form in which a tool can be given
/// it, with what is shown of the payload.
fn stand_in(handle: Option<&str>, form: As, view: &str) -> String {
    let handle = handle.map_or_else(|| "null".to_owned(), quote);
    let form = match form {
        As::Text => "",
        As::Json => "\"as\":\"json\",",
    };
    format!("{{\"$overspill\":{handle},{form}\"view\":{view}}}")
}

/// Whether structured content says what a text says: as JSON, or as an object whose one member is
/// that text or that JSON, which is how several SDKs wrap what a function returns.
fn is_twin(result: &str, face: &Face, texts: &[Payload], structured: &str) -> bool {
    let (Face::Texts(blocks), [payload]) = (face, texts) else { return false };
    let literal = blocks.first().map_or("", |block| &result[block.text.clone()]);
    let text = match payload {
        Payload::Text(text) => text.as_str(),
        Payload::Bytes(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
        _ => return false,
    };
    let is = |value: &str| match value.starts_with('"') {
        true if value == literal => true,
        // Another spelling of it; no literal is shorter than its text.
        true => value.len() > text.len() && string(value).is_some_and(|value| value == text),
        false => packed(value) == packed(text),
    };
    if is(structured) {
        return true;
    }
    let members = Members::of(structured).unwrap_or_default();
    let mut values = members.iter().map(|(_, value)| value);
    matches!((values.next(), values.next()), (Some(value), None) if is(value))
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
