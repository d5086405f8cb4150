//! The table of everything a policy ever put in view, each with a short name.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::session::{Item, ItemId, Kind, PairId};

/// Names one content: one item with one fixed text. Two requests share a prefix as far as these
/// names agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentId(u32);

/// One item as it stands in view.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Content {
    /// The item it stands for.
    pub item: ItemId,
    /// What part of the conversation the item is.
    pub kind: Kind,
    /// Joins calls with results.
    pub pair: Option<PairId>,
    /// What the model sees.
    pub text: Arc<str>,
    /// The size of `text` in code points.
    pub chars: usize,
    /// Whether `text` is the item's own, whole.
    pub original: bool,
    /// Whether `text` shows a handle through which the whole item can be read.
    pub handle: bool,
    /// Whether it is a note that a policy put there, and no item of the recording.
    pub note: bool,
    /// Other items, not in view, that can be read through a handle in `text`.
    pub covers: Arc<[ItemId]>,
}

/// Everything that was in view so far.
#[derive(Debug, Default)]
pub struct Contents {
    all: Vec<Content>,
    originals: HashMap<ItemId, ContentId>,
    reduced: HashMap<(ItemId, Arc<str>), ContentId>,
}

impl Contents {
    /// The item as it is.
    pub fn original(&mut self, item: &Item) -> ContentId {
        if let Some(&id) = self.originals.get(&item.id) {
            return id;
        }
        let id = self.push(item, item.text.clone(), item.chars, true, false);
        self.originals.insert(item.id, id);
        id
    }

    /// The item with another text in its place. A text equal to the item's own is the original.
    pub fn reduced(&mut self, item: &Item, reduced: Reduced) -> ContentId {
        if reduced.text == *item.text {
            return self.original(item);
        }
        let key = (item.id, Arc::from(reduced.text));
        if let Some(&id) = self.reduced.get(&key) {
            return id;
        }
        let chars = key.1.chars().count();
        let id = self.push(item, key.1.clone(), chars, false, reduced.handle);
        self.reduced.insert(key, id);
        id
    }

    /// A note that is no item of the recording, with a handle through which the items it covers can
    /// be read.
    pub fn note(&mut self, note: &Item, covers: Vec<ItemId>) -> ContentId {
        let id = self.push(note, note.text.clone(), note.chars, true, false);
        let content = &mut self.all[id.0 as usize];
        content.note = true;
        content.covers = covers.into();
        self.originals.insert(note.id, id);
        id
    }

    /// The content of a name.
    ///
    /// # Panics
    ///
    /// Panics if the name is of another table.
    #[must_use]
    pub fn get(&self, id: ContentId) -> &Content {
        &self.all[id.0 as usize]
    }

    fn push(
        &mut self,
        item: &Item,
        text: Arc<str>,
        chars: usize,
        original: bool,
        handle: bool,
    ) -> ContentId {
        let id = ContentId(self.all.len() as u32);
        let (item, kind, pair) = (item.id, item.kind, item.pair);
        let (note, covers) = (false, Arc::default());
        self.all.push(Content { item, kind, pair, text, chars, original, handle, note, covers });
        id
    }
}

/// What stands in view instead of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduced {
    /// What the model sees.
    pub text: String,
    /// Whether it shows a handle through which the whole item can be read.
    pub handle: bool,
}
