//! What a result consists of, and where the views of its parts go.

use std::ops::Range;

use data_encoding::BASE64;
use overspill::store::PartName;
use overspill::{Admitted, Media, Payload};

use crate::handle_argument;
use crate::json::{self, Edits, Members, Placed, items, last, packed, quote, span, string};
use crate::long::Long;

use super::{Reduced, describe};

/// How something that lies on disk is read.
#[derive(Debug)]
pub(super) enum Source {
    /// The text of that string.
    Text(usize),
    /// What that string is the base64 of.
    Base64(usize),
    /// JSON as it is spelled, every string put back.
    Spelled(String),
}

/// One thing in a result that can be reduced, and where.
#[derive(Debug, Clone)]
pub(super) enum Face {
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
pub(super) struct Block {
    /// Where it is.
    block: Range<usize>,
    /// Where its text is; empty for what is no text.
    text: Range<usize>,
}

/// What a result consists of.
#[derive(Debug, Default)]
pub(super) struct Faces {
    pub(super) faces: Vec<(Face, Vec<Payload>)>,
    /// All blocks of the content, and which of them are media.
    pub(super) blocks: Vec<(Range<usize>, bool)>,
    /// `structuredContent`, where it says the same as the text of that face.
    pub(super) twin: Option<(usize, Range<usize>)>,
}

impl Face {
    /// The face as several, each of which lies in one place.
    pub(super) fn each(&self) -> impl Iterator<Item = Self> {
        let one = |block: &Block| vec![block.clone()];
        let each: Vec<Self> = match self {
            Self::Texts(blocks) => blocks.iter().map(one).map(Self::Texts).collect(),
            Self::Others(blocks) => blocks.iter().map(one).map(Self::Others).collect(),
            other => vec![other.clone()],
        };
        each.into_iter()
    }

    /// Where in `whole` is what leaves with it.
    pub(super) fn places(&self) -> Vec<Range<usize>> {
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
    pub(super) fn sources(&self, whole: &str, long: &Long) -> Vec<Source> {
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
    pub(super) fn put(
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
    pub(super) fn of_result(result: &str) -> Self {
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
    pub(super) fn of_error(error: &str) -> Self {
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
    pub(super) fn of_contents(result: &str) -> Self {
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
    pub(super) fn leave_on_disk(&mut self, whole: &str, long: &Long) {
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

    pub(super) fn push(&mut self, face: Face, payload: Payload) {
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

    pub(super) fn others(&mut self, result: &str, blocks: Vec<Range<usize>>) {
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

    pub(super) fn value(&mut self, whole: &str, value: &str) {
        let (payload, form) = match string(value) {
            Some(text) => (text.into_bytes(), As::Text),
            None => (value.into(), As::Json),
        };
        self.push(Face::Value(span(whole, value), form), Payload::Bytes(payload));
    }

    pub(super) fn rest(&mut self, whole: &str, members: Vec<Range<usize>>) {
        let spelled: Vec<&str> = members.iter().map(|at| &whole[at.clone()]).collect();
        let payload = Payload::Bytes(object(&spelled).into_bytes());
        self.push(Face::Rest(members), payload);
    }

    /// Puts the view of a face in the place of what says the same, too.
    pub(super) fn put_twin(
        &self,
        face: usize,
        view: &str,
        handle: Option<&str>,
        edits: &mut Edits,
    ) {
        if let Some((_, structured)) = self.twin.as_ref().filter(|(twin, _)| *twin == face) {
            edits.replace(structured.clone(), stand_in(handle, As::Text, view));
        }
    }

    /// The result with what was reduced in the places of what it was.
    pub(super) fn edited(&self, result: &str, admitted: &Admitted) -> Reduced {
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
pub(super) fn remove(whole: &str, gone: &[Range<usize>], edits: &mut Edits) {
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

/// The object that has these members.
fn object(members: &[&str]) -> String {
    format!("{{{}}}", members.join(","))
}

/// How a stored payload stands in an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum As {
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
