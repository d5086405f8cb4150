//! A tool's result is one thing with several faces: they are measured together, reduced together,
//! and stay consistent.
//!
//! The blocks of `content`, `structuredContent` and whatever no revision names go through the
//! policy as the payloads of one return, the biggest first, until together they are under the
//! band's threshold. What stays keeps its bytes. Images and sounds pass as such. Where the pieces
//! are many and small, so that none is worth a marker, all of them leave as one. An error of the
//! protocol has faces too: its message, and the data beside it.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use data_encoding::BASE64;
use overspill::measure::Unit;
use overspill::store::{Deposit, PartName, Store, StoreError, Survey};
use overspill::{
    Action, Admitted, Band, Bands, Config, Media, Payload, PolicyError, Receipt, Summarizer,
    ToolCall, ToolOutputLimits, ToolReturn, Warning,
};

use crate::handle_argument;
use crate::json::{self, Edits, Members, Placed, items, last, packed, quote, span, string};
use crate::long::{Broken, Long};
use crate::message::INTERNAL;

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

/// How something that lies on disk is read.
#[derive(Debug)]
enum Source {
    /// The text of that string.
    Text(usize),
    /// What that string is the base64 of.
    Base64(usize),
    /// JSON as it is spelled, every string put back.
    Spelled(String),
}

/// One thing in a result that can be reduced, and where.
#[derive(Debug, Clone)]
enum Face {
    /// The texts of adjacent blocks; the first takes the view, the others go.
    Texts(Vec<Block>),
    /// Adjacent blocks that are no texts, such as links, one a line; as `Texts`.
    Others(Vec<Block>),
    /// A text in a place of its own: that of an embedded resource, the message of an error.
    Text(Range<usize>),
    /// The base64 of an embedded resource; the key goes too.
    Blob { literal: Range<usize>, member: Range<usize> },
    /// It is seen as what it is.
    Media,
    /// Any other value, such as `structuredContent`; an object takes its place.
    Value(Range<usize>, As),
    /// Members of an object, so many that one takes the place of all.
    Rest(Vec<Range<usize>>),
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

impl Face {
    /// The face as several, each of which lies in one place.
    fn each(&self) -> impl Iterator<Item = Self> {
        let one = |block: &Block| vec![block.clone()];
        let each: Vec<Self> = match self {
            Self::Texts(blocks) => blocks.iter().map(one).map(Self::Texts).collect(),
            Self::Others(blocks) => blocks.iter().map(one).map(Self::Others).collect(),
            other => vec![other.clone()],
        };
        each.into_iter()
    }

    /// Where in `whole` is what leaves with it.
    fn places(&self) -> Vec<Range<usize>> {
        match self {
            Self::Texts(blocks) => blocks.iter().map(|block| block.text.clone()).collect(),
            Self::Others(blocks) => blocks.iter().map(|block| block.block.clone()).collect(),
            Self::Text(at) | Self::Value(at, _) | Self::Blob { literal: at, .. } => {
                vec![at.clone()]
            }
            Self::Rest(members) => members.clone(),
            Self::Media => Vec::new(),
        }
    }

    /// As what it is read from disk, the best first; nothing where all of it is in memory.
    fn sources(&self, whole: &str, long: &Long) -> Vec<Source> {
        let places = self.places();
        let mut strings = places.iter().flat_map(|at| long.stand_ins(&whole[at.clone()]));
        let Some((_, n)) = strings.next() else { return Vec::new() };
        let mut spelled: Vec<&str> = places.iter().map(|at| &whole[at.clone()]).collect();
        match self {
            Self::Rest(_) => vec![Source::Spelled(object(&spelled))],
            Self::Others(_) => vec![Source::Spelled(format!("{}\n", packed(spelled.remove(0))))],
            Self::Value(_, As::Json) => vec![Source::Spelled(spelled.concat())],
            Self::Blob { .. } => {
                vec![Source::Base64(n), Source::Text(n), Source::Spelled(spelled.concat())]
            }
            _ => vec![Source::Text(n), Source::Spelled(spelled.concat())],
        }
    }

    /// Puts the view, a literal, in its place.
    fn put(
        &self,
        view: &str,
        handle: Option<&str>,
        edits: &mut Edits,
        gone: &mut Vec<Range<usize>>,
    ) {
        match self {
            Self::Texts(blocks) => {
                let Some((head, rest)) = blocks.split_first() else { return };
                edits.replace(head.text.clone(), view);
                gone.extend(rest.iter().map(|block| block.block.clone()));
            }
            Self::Others(blocks) => {
                let Some((head, rest)) = blocks.split_first() else { return };
                edits.replace(head.block.clone(), format!("{{\"type\":\"text\",\"text\":{view}}}"));
                gone.extend(rest.iter().map(|block| block.block.clone()));
            }
            Self::Text(at) => edits.replace(at.clone(), view),
            Self::Blob { member, .. } => edits.replace(member.clone(), format!("\"text\":{view}")),
            Self::Value(at, form) => edits.replace(at.clone(), stand_in(handle, *form, view)),
            Self::Rest(members) => {
                let Some((head, rest)) = members.split_first() else { return };
                let stand_in = stand_in(handle, As::Json, view);
                edits.replace(head.clone(), format!("{}:{stand_in}", quote(handle_argument::KEY)));
                gone.extend(rest.iter().cloned());
            }
            Self::Media => {}
        }
    }
}

impl Faces {
    /// What the result of a tool consists of.
    fn of_result(result: &str) -> Self {
        let mut faces = Self::default();
        let members = json::placed(result);
        let content = last(&members, "content");
        let structured = last(&members, "structuredContent").filter(|value| *value != "null");
        if let Some(content) = content {
            faces.content(result, content);
        }
        if let Some(structured) = structured {
            faces.structured(result, structured);
        }
        faces.beside(result, &members, |key, value| {
            key == "_meta"
                || [content, structured].iter().flatten().any(|known| std::ptr::eq(*known, value))
                || (value.len() <= SHORT && SAID.contains(&key))
        });
        faces
    }

    /// What an error consists of.
    fn of_error(error: &str) -> Self {
        let mut faces = Self::default();
        let members = json::placed(error);
        let message = last(&members, "message").filter(|message| message.starts_with('"'));
        if let Some(literal) = message {
            faces.single(error, literal);
        }
        faces.beside(error, &members, |key, value| {
            message.is_some_and(|message| std::ptr::eq(message, value))
                || (value.len() <= SHORT && key == "code")
        });
        faces
    }

    /// What resources that were read consist of.
    fn of_contents(result: &str) -> Self {
        let mut faces = Self::default();
        let contents = Members::of(result).and_then(|members| items(members.get("contents")?));
        for resource in contents.into_iter().flatten() {
            faces.resource(result, resource);
        }
        faces
    }

    /// The members of an object that `stays` does not keep.
    fn beside(&mut self, object: &str, members: &[Placed<'_>], stays: impl Fn(&str, &str) -> bool) {
        let leaving: Vec<_> = members.iter().filter(|(key, value, _)| !stays(key, value)).collect();
        if leaving.len() > MEMBERS {
            return self.rest(object, leaving.into_iter().map(|(.., at)| at.clone()).collect());
        }
        for (_, value, _) in leaving {
            self.value(object, value);
        }
    }

    /// Leaves out what could not be read from disk: it stays where it is.
    fn leave_on_disk(&mut self, whole: &str, long: &Long) {
        let is_on_disk = |at: &Range<usize>| !long.stand_ins(&whole[at.clone()]).is_empty();
        let before = self.faces.len();
        self.faces.retain(|(face, _)| !face.places().iter().any(is_on_disk));
        if self.faces.len() < before {
            self.twin = None;
        }
        if self.blocks.iter().any(|(at, is_media)| !is_media && is_on_disk(at)) {
            self.blocks.clear();
        }
    }

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
            return self.single(result, literal);
        }
        let Some(literal) = members.get("blob") else { return };
        let media_type = members.text("mimeType").unwrap_or_default();
        let blob = string(literal);
        let bytes = blob.as_ref().and_then(|blob| BASE64.decode(blob.as_bytes()).ok());
        // What is no base64 is at least a text, or a literal.
        let bytes = bytes.unwrap_or_else(|| blob.unwrap_or_else(|| literal.to_owned()).into());
        let is_media = ["image/", "audio/", "video/"].iter().any(|of| media_type.starts_with(of));
        if is_media {
            return self.push(Face::Media, Payload::Media(Media { media_type, bytes }));
        }
        let literal = span(result, literal);
        let start = span(result, resource).start;
        let placed = json::placed(resource);
        let at = placed.iter().map(|(.., at)| start + at.start..start + at.end);
        let Some(member) = at.into_iter().find(|at| at.end == literal.end) else { return };
        self.push(Face::Blob { literal, member }, Payload::Bytes(bytes));
    }

    fn single(&mut self, whole: &str, literal: &str) {
        let text = string(literal).unwrap_or_else(|| literal.to_owned());
        self.push(Face::Text(span(whole, literal)), Payload::Bytes(text.into_bytes()));
    }

    fn structured(&mut self, result: &str, structured: &str) {
        match self.faces.iter().position(|(face, texts)| is_twin(result, face, texts, structured)) {
            Some(face) => self.twin = Some((face, span(result, structured))),
            None => self.value(result, structured),
        }
    }

    fn value(&mut self, whole: &str, value: &str) {
        let (payload, form) = match string(value) {
            Some(text) => (text.into_bytes(), As::Text),
            None => (value.into(), As::Json),
        };
        self.push(Face::Value(span(whole, value), form), Payload::Bytes(payload));
    }

    fn rest(&mut self, whole: &str, members: Vec<Range<usize>>) {
        let spelled: Vec<&str> = members.iter().map(|at| &whole[at.clone()]).collect();
        let payload = Payload::Bytes(object(&spelled).into_bytes());
        self.push(Face::Rest(members), payload);
    }

    /// Puts the view of a face in the place of what says the same, too.
    fn put_twin(&self, face: usize, view: &str, handle: Option<&str>, edits: &mut Edits) {
        if let Some((_, structured)) = self.twin.as_ref().filter(|(twin, _)| *twin == face) {
            edits.replace(structured.clone(), stand_in(handle, As::Text, view));
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
            face.put(&literal, handle, &mut edits, &mut gone);
            self.put_twin(at, &literal, handle, &mut edits);
        }
        remove(result, &gone, &mut edits);
        Reduced {
            result: (!edits.is_empty()).then(|| edits.apply(result)),
            receipts: admitted.receipts().cloned().collect(),
            warnings: admitted.warnings.iter().map(describe).collect(),
        }
    }
}

/// Takes blocks or members out, each with the comma before it: what goes is never the first.
fn remove(whole: &str, gone: &[Range<usize>], edits: &mut Edits) {
    for at in gone {
        let before = &whole[..at.start];
        let comma = before.rfind(',').unwrap_or(at.start);
        edits.replace(comma..at.end, "");
    }
}

/// Members of a result that say how it is to be taken, and are never long.
const SAID: [&str; 4] = ["isError", "resultType", "ttlMs", "cacheScope"];

/// Bytes of a value that is shorter than any marker.
const SHORT: usize = 64;

/// So many members that nobody knows have views of their own; more leave together.
const MEMBERS: usize = 16;

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

/// The object that has these members.
fn object(members: &[&str]) -> String {
    format!("{{{}}}", members.join(","))
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
