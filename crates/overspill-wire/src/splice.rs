//! Writes a request anew: the old bytes, with new JSON where a plan changes them.

use overspill::history::Change;

use crate::Format;
use crate::json::{Span, quote};
use crate::skeleton::{PartAt, Place, Skeleton};

/// New text in the place of a span; an empty one deletes it.
#[derive(Debug)]
struct Patch {
    span: Span,
    text: String,
}

/// One message of the new list.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Piece<'p> {
    Message(usize),
    Note(&'p str),
}

/// The text with the changes in it. They were checked against the history of this skeleton.
pub(crate) fn splice(
    format: Format,
    text: &str,
    skeleton: &Skeleton,
    changes: &[Change],
) -> String {
    let list = skeleton.list;
    let edits = Edits::of(skeleton, changes);
    let mut writer = Writer { format, text, skeleton, patches: edits.patches, next: 0 };
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..list.start as usize]);
    if edits.list_changes {
        writer.list(&mut out, list, &edits.pieces);
    } else {
        writer.copy(&mut out, list);
    }
    out.push_str(&text[list.end as usize..]);
    out
}

struct Edits<'p> {
    /// In the order of their spans, which do not overlap.
    patches: Vec<Patch>,
    pieces: Vec<Piece<'p>>,
    /// Whether messages come or go.
    list_changes: bool,
}

impl<'p> Edits<'p> {
    fn of(skeleton: &Skeleton, changes: &'p [Change]) -> Self {
        let mut dropped = vec![false; skeleton.parts.len()];
        let mut gone = vec![false; skeleton.messages.len()];
        let mut notes: Vec<(usize, &str)> = Vec::new();
        let mut patches = Vec::new();
        for change in changes {
            match change {
                Change::DropEntry(entry) => dropped[entry.0] = true,
                Change::DropMessage(message) => gone[message.0] = true,
                Change::Insert { before, text } => notes.push((before.0, text)),
                Change::Text { entry, text } => {
                    patches.extend(placed(skeleton.parts[entry.0].place, text));
                }
                Change::Arguments { entry, json } => {
                    patches.extend(placed(skeleton.parts[entry.0].place, json));
                }
                // A change this version of the library does not know is never made by it.
                _ => {}
            }
        }
        for (message, gone) in skeleton.messages.iter().zip(&mut gone) {
            let parts = &dropped[message.parts.clone()];
            *gone |= !parts.is_empty() && parts.iter().all(|dropped| *dropped);
        }
        removals(skeleton, &dropped, &gone, &mut patches);
        patches.sort_by_key(|patch: &Patch| patch.span);
        // Notes before one message stand in the order of their edits.
        notes.sort_by_key(|(before, _)| *before);
        let mut notes = notes.into_iter().peekable();
        let mut pieces = Vec::with_capacity(skeleton.messages.len());
        for (m, &gone) in gone.iter().enumerate() {
            while let Some((_, note)) = notes.next_if(|(before, _)| *before <= m) {
                pieces.push(Piece::Note(note));
            }
            if !gone {
                pieces.push(Piece::Message(m));
            }
        }
        pieces.extend(notes.map(|(_, note)| Piece::Note(note)));
        let unchanged = pieces.len() == skeleton.messages.len() && gone.iter().all(|gone| !gone);
        Self { patches, pieces, list_changes: !unchanged }
    }
}

/// Text or arguments in their place.
fn placed(place: Place, text: &str) -> Option<Patch> {
    let (span, text) = match place {
        Place::Nowhere => return None,
        Place::String(span) | Place::JsonInString(span) => (span, quote(text)),
        Place::Json(span) => (span, text.to_owned()),
        Place::Output(span) => (span, format!(r#"{{"output":{}}}"#, quote(text))),
    };
    Some(Patch { span, text })
}

/// Deletes the elements whose parts are dropped, in messages that stay. An element goes when all
/// its parts do; a list that would be empty takes the element it stands in along.
fn removals(skeleton: &Skeleton, dropped: &[bool], gone: &[bool], patches: &mut Vec<Patch>) {
    if !dropped.contains(&true) {
        return;
    }
    let mut leaving: Vec<Vec<bool>> = (0..skeleton.lists.len()).map(|_| Vec::new()).collect();
    let mut inside = Vec::new();
    for (message, _) in skeleton.messages.iter().zip(gone).filter(|(_, gone)| !**gone) {
        for part in message.parts.clone() {
            let PartAt { home, trail, .. } = skeleton.parts[part];
            if let Some(home) = home.filter(|_| dropped[part]) {
                let marks = &mut leaving[home.list];
                marks.resize(skeleton.elements(home.list).len(), false);
                marks[home.element..=home.element + trail].fill(true);
                inside.push(home.list);
            }
        }
    }
    // A list stands behind the one it is in, so the innermost come first.
    inside.sort_unstable();
    inside.dedup();
    while let Some(list) = inside.pop() {
        let marks = std::mem::take(&mut leaving[list]);
        if let (Some(parent), true) =
            (skeleton.lists[list].parent, marks.iter().all(|leaves| *leaves))
        {
            let outer = &mut leaving[parent.list];
            outer.resize(skeleton.elements(parent.list).len(), false);
            outer[parent.element] = true;
            if let Err(at) = inside.binary_search(&parent.list) {
                inside.insert(at, parent.list);
            }
            continue;
        }
        delete(skeleton.elements(list), &marks, patches);
    }
}

/// Deletes elements of a list with the commas that go with them.
fn delete(elements: &[Span], leaves: &[bool], patches: &mut Vec<Patch>) {
    let mut at = 0;
    while at < elements.len() {
        if !leaves[at] {
            at += 1;
            continue;
        }
        let first = at;
        while at < elements.len() && leaves[at] {
            at += 1;
        }
        let span = match (first.checked_sub(1), elements.get(at)) {
            (Some(before), _) => Span { start: elements[before].end, end: elements[at - 1].end },
            (None, Some(after)) => Span { start: elements[first].start, end: after.start },
            (None, None) => Span { start: elements[first].start, end: elements[at - 1].end },
        };
        patches.push(Patch { span, text: String::new() });
    }
}

struct Writer<'w> {
    format: Format,
    text: &'w str,
    skeleton: &'w Skeleton,
    patches: Vec<Patch>,
    /// The first patch that is not written or passed yet.
    next: usize,
}

impl Writer<'_> {
    /// Copies a span with the patches inside it.
    fn copy(&mut self, out: &mut String, span: Span) {
        while self.patches.get(self.next).is_some_and(|patch| patch.span.start < span.start) {
            self.next += 1;
        }
        let mut from = span.start;
        while let Some(patch) = self.patches.get(self.next).filter(|p| p.span.end <= span.end) {
            out.push_str(&self.text[from as usize..patch.span.start as usize]);
            out.push_str(&patch.text);
            from = patch.span.end;
            self.next += 1;
        }
        out.push_str(&self.text[from as usize..span.end as usize]);
    }

    /// Writes the list of messages. What stood between two neighbours stays between them.
    fn list(&mut self, out: &mut String, list: Span, pieces: &[Piece<'_>]) {
        let text = self.text;
        let messages = &self.skeleton.messages;
        let is_list = text[list.range()].starts_with('[');
        let (head, tail) = match (is_list, messages.first(), messages.last()) {
            (true, Some(first), Some(last)) => (
                &text[list.start as usize..first.span.start as usize],
                &text[last.span.end as usize..list.end as usize],
            ),
            _ => ("[", "]"),
        };
        let between = |m: usize| match (is_list, messages.get(m), messages.get(m + 1)) {
            (true, Some(a), Some(b)) => Some(&text[a.span.end as usize..b.span.start as usize]),
            _ => None,
        };
        let usual = between(0).unwrap_or(",");
        out.push_str(head);
        let mut at = 0;
        while at < pieces.len() {
            if at > 0 {
                out.push_str(match (pieces[at - 1], pieces[at]) {
                    (Piece::Message(a), Piece::Message(b)) if a + 1 == b => {
                        between(a).unwrap_or(usual)
                    }
                    _ => usual,
                });
            }
            let mut end = at + 1;
            while end < pieces.len() && self.joins(pieces[end - 1], pieces[end]) {
                end += 1;
            }
            match &pieces[at..end] {
                [Piece::Note(note)] => out.push_str(&self.format.user_message(note)),
                [Piece::Message(m)] if is_list => self.copy(out, messages[*m].span),
                // The one string that stood for the list.
                [Piece::Message(m)] => {
                    let mut literal = String::new();
                    self.copy(&mut literal, messages[*m].span);
                    out.push_str(&self.format.user_message_of(&literal));
                }
                several => self.joined(out, several),
            }
            at = end;
        }
        out.push_str(tail);
    }

    /// Whether two messages of the user, neighbours only now, have to become one.
    fn joins(&self, a: Piece<'_>, b: Piece<'_>) -> bool {
        let joinable = |piece| match piece {
            Piece::Note(_) => true,
            Piece::Message(m) => self.skeleton.messages[m].content.is_some(),
        };
        let neighbours = matches!((a, b), (Piece::Message(a), Piece::Message(b)) if a + 1 == b);
        self.skeleton.rules.responses_apart && !neighbours && joinable(a) && joinable(b)
    }

    /// Writes several messages of the user as one; every element keeps its bytes.
    fn joined(&mut self, out: &mut String, pieces: &[Piece<'_>]) {
        let mut elements: Vec<String> = Vec::new();
        let mut frame = ("{\"role\":\"user\",\"content\":", "}");
        if self.format == Format::Gemini {
            frame.0 = "{\"role\":\"user\",\"parts\":";
        }
        let mut framed = false;
        for piece in pieces {
            match *piece {
                Piece::Note(note) => elements.push(self.format.element(&quote(note))),
                Piece::Message(m) => {
                    let message = &self.skeleton.messages[m];
                    let content = message.content.unwrap_or(message.span);
                    let mut copied = String::new();
                    self.copy(&mut copied, content);
                    if let Some(inner) =
                        copied.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
                    {
                        let inner = inner.trim();
                        elements.extend((!inner.is_empty()).then(|| inner.to_owned()));
                    } else {
                        elements.push(self.format.element(&copied));
                    }
                    if !std::mem::replace(&mut framed, true) {
                        frame = (
                            &self.text[message.span.start as usize..content.start as usize],
                            &self.text[content.end as usize..message.span.end as usize],
                        );
                    }
                }
            }
        }
        out.push_str(frame.0);
        out.push('[');
        out.push_str(&elements.join(","));
        out.push(']');
        out.push_str(frame.1);
    }
}
