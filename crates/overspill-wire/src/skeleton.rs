//! Where the messages and parts of a request are, and the view that borrows from there.

use std::borrow::Cow;
use std::ops::Range;

use overspill::Usage;
use overspill::entry::{Entry, Image, ImageSource, Kind, Role};
use overspill::history::{History, Preamble, Rules};

use crate::json::{Span, Value, decode};

/// Whether a view holds the texts. Whether a plan can be applied does not depend on them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Words {
    Decoded,
    LeftOut,
}

/// What a format's reader finds. It holds spans alone, so it can live beside the bytes.
#[derive(Debug, Clone)]
pub(crate) struct Skeleton {
    pub(crate) rules: Rules,
    pub(crate) instructions: Vec<Span>,
    pub(crate) tools: Vec<Span>,
    pub(crate) model: Option<Span>,
    /// The list of messages, or the one string that stands for it.
    pub(crate) list: Span,
    pub(crate) messages: Vec<MessageAt>,
    pub(crate) parts: Vec<PartAt>,
    /// Lists whose elements can leave one by one.
    pub(crate) lists: Vec<ListAt>,
    elements: Vec<Span>,
    literals: Vec<Span>,
    images: Vec<ImageAt>,
}

#[derive(Debug, Clone)]
pub(crate) struct MessageAt {
    pub(crate) role: Role,
    pub(crate) span: Span,
    pub(crate) parts: Range<usize>,
    pub(crate) continues: bool,
    pub(crate) usage: Option<Usage>,
    /// Its content, if it can be joined with a neighbour of the user's.
    pub(crate) content: Option<Span>,
}

#[derive(Debug, Clone)]
pub(crate) struct PartAt {
    pub(crate) role: Role,
    pub(crate) kind: PartKind,
    pub(crate) span: Span,
    pub(crate) text: TextAt,
    pub(crate) place: Place,
    /// The list it is an element of, and which.
    pub(crate) home: Option<Home>,
    /// How many elements behind it leave with it.
    pub(crate) trail: usize,
    pub(crate) signature: Option<Span>,
    pub(crate) cache_marker: bool,
    pub(crate) cited: bool,
    pub(crate) holds_more: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PartKind {
    Text,
    Thinking,
    Call { id: Option<Span>, name: Option<Span> },
    Return { id: Option<Span>, name: Option<Span>, is_error: bool, images: Range<usize> },
    Image(ImageAt),
    ServerCall { id: Option<Span>, name: Option<Span> },
    ServerReturn { id: Option<Span> },
    Refusal,
    Boundary,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ImageAt {
    /// A literal: base64, an address or an id.
    pub(crate) source: Option<Span>,
    pub(crate) is_data: bool,
    pub(crate) detail: Option<Span>,
}

/// Where a part's text is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TextAt {
    Nowhere,
    /// In one literal.
    Literal(Span),
    /// In several, joined by line ends; positions in the skeleton's own list.
    Literals(Range<usize>),
    /// It is JSON, as it stands.
    Raw(Span),
}

/// Where other text can stand, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Place {
    Nowhere,
    /// A string takes the place of this value.
    String(Span),
    /// Arguments take the place of this value, as JSON.
    Json(Span),
    /// Arguments take the place of this value, as JSON inside a string.
    JsonInString(Span),
    /// An object with the text as its `output` takes the place of this value.
    Output(Span),
}

/// An element of a list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Home {
    pub(crate) list: usize,
    pub(crate) element: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct ListAt {
    elements: Range<usize>,
    /// The element of another list that goes when this one would be empty.
    pub(crate) parent: Option<Home>,
}

impl Skeleton {
    /// An empty skeleton whose messages stand in `list`.
    pub(crate) fn over(list: Value<'_>) -> Self {
        Self {
            rules: Rules::default(),
            instructions: Vec::new(),
            tools: Vec::new(),
            model: None,
            list: list.span(),
            messages: Vec::new(),
            parts: Vec::new(),
            lists: Vec::new(),
            elements: Vec::new(),
            literals: Vec::new(),
            images: Vec::new(),
        }
    }

    /// Opens the next message.
    pub(crate) fn message(&mut self, role: Role, at: Value<'_>) -> &mut MessageAt {
        let start = self.parts.len();
        self.messages.push(MessageAt {
            role,
            span: at.span(),
            parts: start..start,
            continues: false,
            usage: None,
            content: None,
        });
        let last = self.messages.len() - 1;
        &mut self.messages[last]
    }

    /// Adds a part to the open message.
    pub(crate) fn part(&mut self, role: Role, kind: PartKind, at: Value<'_>) -> &mut PartAt {
        self.parts.push(PartAt {
            role,
            kind,
            span: at.span(),
            text: TextAt::Nowhere,
            place: Place::Nowhere,
            home: None,
            trail: 0,
            signature: None,
            cache_marker: false,
            cited: false,
            holds_more: false,
        });
        if let Some(message) = self.messages.last_mut() {
            message.parts.end = self.parts.len();
        }
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }

    /// Notes a list whose elements can leave one by one.
    pub(crate) fn list(&mut self, array: Value<'_>, parent: Option<Home>) -> usize {
        let start = self.elements.len();
        self.elements.extend(array.items().map(Value::span));
        self.lists.push(ListAt { elements: start..self.elements.len(), parent });
        self.lists.len() - 1
    }

    pub(crate) fn elements(&self, list: usize) -> &[Span] {
        self.lists.get(list).map_or(&[], |list| &self.elements[list.elements.clone()])
    }

    /// Notes the literals of a text in several pieces.
    pub(crate) fn literals(&mut self, spans: impl IntoIterator<Item = Span>) -> TextAt {
        let start = self.literals.len();
        self.literals.extend(spans);
        match self.literals[start..] {
            [] => TextAt::Nowhere,
            [only] => {
                self.literals.pop();
                TextAt::Literal(only)
            }
            _ => TextAt::Literals(start..self.literals.len()),
        }
    }

    /// Notes the images inside a return.
    pub(crate) fn images(&mut self, images: impl IntoIterator<Item = ImageAt>) -> Range<usize> {
        let start = self.images.len();
        self.images.extend(images);
        start..self.images.len()
    }

    /// The role of the message before the open one.
    pub(crate) fn role_before(&self) -> Option<Role> {
        self.messages.iter().rev().nth(1).map(|message| message.role)
    }

    /// The view on `text`, which is the text this skeleton was read from.
    pub(crate) fn history<'a>(&self, text: &'a str, words: Words) -> History<'a> {
        let mut builder = History::builder(self.rules);
        builder.preamble(Preamble {
            instructions: self.instructions.iter().map(|span| decode(span.of(text))).collect(),
            tools: self.tools.iter().map(|span| span.of(text)).collect(),
            model: self.model.map(|span| decode(span.of(text))),
        });
        builder.reserve(self.messages.len(), self.parts.len());
        for message in &self.messages {
            builder.message(message.role, message.span.of(text));
            if message.continues {
                builder.continues();
            }
            if let Some(usage) = message.usage {
                builder.usage(usage);
            }
            for part in &self.parts[message.parts.clone()] {
                builder.entry(self.entry(part, text, words));
            }
        }
        builder.build()
    }

    fn entry<'a>(&self, part: &PartAt, text: &'a str, words: Words) -> Entry<'a> {
        let literal = |span: Option<Span>| span.map(|span| decode(span.of(text)));
        let id = |span: Option<Span>| literal(span).unwrap_or_default();
        let kind = match &part.kind {
            PartKind::Text => Kind::Text,
            PartKind::Thinking => Kind::Thinking,
            PartKind::Call { id: call, name } => Kind::Call { id: id(*call), name: id(*name) },
            PartKind::Return { id: call, name, is_error, images } => Kind::Return {
                id: id(*call),
                name: literal(*name),
                is_error: *is_error,
                images: self.images[images.clone()].iter().map(|at| image(at, text)).collect(),
            },
            PartKind::Image(at) => Kind::Image(image(at, text)),
            PartKind::ServerCall { id: call, name } => {
                Kind::ServerCall { id: literal(*call), name: id(*name) }
            }
            PartKind::ServerReturn { id: call } => Kind::ServerReturn { id: id(*call) },
            PartKind::Refusal => Kind::Refusal,
            PartKind::Boundary => Kind::Boundary,
            PartKind::Other => Kind::Other,
        };
        let words = match &part.text {
            TextAt::Nowhere => Cow::Borrowed(""),
            _ if words == Words::LeftOut => Cow::Borrowed(""),
            TextAt::Literal(span) => decode(span.of(text)),
            TextAt::Raw(span) => Cow::Borrowed(span.of(text)),
            TextAt::Literals(range) => {
                let pieces: Vec<Cow<'_, str>> =
                    self.literals[range.clone()].iter().map(|span| decode(span.of(text))).collect();
                Cow::Owned(pieces.join("\n"))
            }
        };
        let mut entry = Entry::new(part.role, kind, words, part.span.of(text));
        entry.signature = literal(part.signature).filter(|signature| !signature.is_empty());
        entry.cache_marker = part.cache_marker;
        entry.cited = part.cited;
        entry.replaceable = part.place != Place::Nowhere;
        // Half a surrogate pair is no text, so what was decoded is not all of it either.
        let is_lossy = matches!(&entry.text, Cow::Owned(text) if text.contains('\u{FFFD}'));
        entry.holds_more = part.holds_more || is_lossy;
        entry
    }
}

/// The image; data inside an address (`data:image/png;base64,…`) is data all the same.
fn image<'a>(at: &ImageAt, text: &'a str) -> Image<'a> {
    let source = at.source.map(|span| decode(span.of(text))).unwrap_or_default();
    let inline = source
        .starts_with("data:")
        .then(|| source.find(";base64,").map(|comma| comma + ";base64,".len()))
        .flatten();
    let source = match (inline, source) {
        (Some(from), Cow::Borrowed(source)) => ImageSource::Base64(source[from..].into()),
        (Some(from), Cow::Owned(source)) => ImageSource::Base64(source[from..].to_owned().into()),
        (None, source) if at.is_data => ImageSource::Base64(source),
        (None, source) => ImageSource::Elsewhere(source),
    };
    Image { source, detail: at.detail.map(|span| decode(span.of(text))) }
}
