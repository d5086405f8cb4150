//! What a history becomes before it is sent to the model.

use std::fmt;

use crate::contents::{ContentId, Contents, Reduced};
use crate::session::{Item, Kind};

/// A way to turn the history of each request into the view that is sent.
///
/// A policy keeps its state between the requests of a segment. It is told only what is new and
/// answers with the whole view, in order, each item at most once; it may edit or drop what it
/// showed earlier.
pub trait Policy {
    /// Forgets everything: a new segment starts.
    fn start(&mut self);

    /// The view of the next request. `new` are the items that arrived since the last one, `turn`
    /// is the turn whose response the request asks for.
    fn request(&mut self, new: &[Item], turn: usize, contents: &mut Contents) -> &[ContentId];

    /// How many characters of a result come back when a model that lost it runs the tool again;
    /// of longer ones it gets slices. Only counts where no handle is in view.
    fn rerun_cap(&self) -> usize {
        usize::MAX
    }
}

/// Sends everything as it is: the measure of all other policies.
#[derive(Debug, Clone, Default)]
pub struct Keep {
    view: Vec<ContentId>,
}

impl Policy for Keep {
    fn start(&mut self) {
        self.view.clear();
    }

    fn request(&mut self, new: &[Item], _: usize, contents: &mut Contents) -> &[ContentId] {
        self.view.extend(new.iter().map(|item| contents.original(item)));
        &self.view
    }
}

/// Reduces each result once, when it is new; the view only grows, so that a provider's prompt
/// cache stays whole.
///
/// What the model read back through a handle stays as it is.
#[derive(Clone)]
pub struct PerResult<F> {
    reduce: F,
    view: Vec<ContentId>,
}

impl<F: FnMut(&Item) -> Option<Reduced>> PerResult<F> {
    /// A policy that puts what `reduce` returns in the place of a result; `None` keeps it.
    pub const fn new(reduce: F) -> Self {
        Self { reduce, view: Vec::new() }
    }
}

impl<F: FnMut(&Item) -> Option<Reduced>> Policy for PerResult<F> {
    fn start(&mut self) {
        self.view.clear();
    }

    fn request(&mut self, new: &[Item], _: usize, contents: &mut Contents) -> &[ContentId] {
        let reduce = &mut self.reduce;
        self.view.extend(new.iter().map(|item| put(item, contents, &mut *reduce)));
        &self.view
    }
}

impl<F> fmt::Debug for PerResult<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerResult").field("view", &self.view).finish_non_exhaustive()
    }
}

/// Leaves the head and the tail of each result over a size, with a handle between them.
#[derive(Debug, Clone)]
pub struct HeadTail {
    /// Results of more characters than this are reduced.
    pub over: usize,
    /// Characters kept at the start.
    pub head: usize,
    /// Characters kept at the end.
    pub tail: usize,
    view: Vec<ContentId>,
}

impl HeadTail {
    /// Keeps 500 characters at each end of results over this many characters.
    #[must_use]
    pub const fn over(over: usize) -> Self {
        Self::new(over, 500, 500)
    }

    /// Keeps `head` and `tail` characters of results over `over` characters.
    #[must_use]
    pub const fn new(over: usize, head: usize, tail: usize) -> Self {
        Self { over, head, tail, view: Vec::new() }
    }
}

impl Policy for HeadTail {
    fn start(&mut self) {
        self.view.clear();
    }

    fn request(&mut self, new: &[Item], _: usize, contents: &mut Contents) -> &[ContentId] {
        let (over, head, tail) = (self.over, self.head, self.tail);
        let reduce = |item: &Item| excerpt(item, over, head, tail);
        self.view.extend(new.iter().map(|item| put(item, contents, reduce)));
        &self.view
    }
}

/// Puts a short line without a handle in the place of each result older than the last `keep`
/// turns, every `step` turns.
///
/// With a step of 1 the boundary moves with each request and breaks the provider's prompt cache
/// each time; larger steps move it rarely.
#[derive(Debug, Clone)]
pub struct Mask {
    /// How many turns stay as they are.
    pub keep: usize,
    /// How many turns pass between two edits; at least 1.
    pub step: usize,
    items: Vec<Item>,
    done: usize,
    view: Vec<ContentId>,
}

impl Mask {
    /// Masks results older than `keep` turns, every `step` turns.
    #[must_use]
    pub const fn new(keep: usize, step: usize) -> Self {
        Self { keep, step, items: Vec::new(), done: 0, view: Vec::new() }
    }
}

impl Policy for Mask {
    fn start(&mut self) {
        self.items.clear();
        self.view.clear();
        self.done = 0;
    }

    fn request(&mut self, new: &[Item], turn: usize, contents: &mut Contents) -> &[ContentId] {
        self.view.extend(new.iter().map(|item| contents.original(item)));
        self.items.extend_from_slice(new);
        let step = self.step.max(1);
        let Some(boundary) = (turn / step * step).checked_sub(self.keep) else {
            return &self.view;
        };
        while let Some(item) = self.items.get(self.done)
            && item.turn < Some(boundary)
        {
            if item.kind == Kind::Result {
                let lines = item.text.bytes().filter(|&byte| byte == b'\n').count() + 1;
                let text = format!("Old environment output: ({lines} lines omitted)");
                if text.chars().count() < item.chars {
                    let reduced = Reduced { text, handle: false };
                    self.view[self.done] = contents.reduced(item, reduced);
                }
            }
            self.done += 1;
        }
        &self.view
    }
}

/// Adds an item, reduced if it is a recorded result and `reduce` answers.
fn put(
    item: &Item,
    contents: &mut Contents,
    mut reduce: impl FnMut(&Item) -> Option<Reduced>,
) -> ContentId {
    let reducible = item.kind == Kind::Result && !item.read_back;
    match reducible.then(|| reduce(item)).flatten() {
        Some(reduced) => contents.reduced(item, reduced),
        None => contents.original(item),
    }
}

fn excerpt(item: &Item, over: usize, head: usize, tail: usize) -> Option<Reduced> {
    let (text, chars) = (&*item.text, item.chars);
    if chars <= over || chars <= head + tail {
        return None;
    }
    let left_out = chars - head - tail;
    let head = text.char_indices().nth(head).map_or(text, |(end, _)| &text[..end]);
    let tail: usize = text.chars().rev().take(tail).map(char::len_utf8).sum();
    let tail = &text[text.len() - tail..];
    let id = item.id.0;
    let text = format!(
        "{head}\n[... {left_out} of {chars} chars left out; whole result: read_result(handle=\"r{id}\", offset=0, limit=200) ...]\n{tail}"
    );
    Some(Reduced { text, handle: true })
}
