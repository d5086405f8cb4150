//! Both paths on a recorded session: each result is reduced when it is new, and the history is
//! fitted before each request, as a host does it.

use std::collections::HashMap;
use std::sync::Arc;

use futures_lite::future::block_on;
use overspill::entry::{Entry, Kind as EntryKind, Role};
use overspill::fit::{Fitter, Occasion};
use overspill::history::{Change, History, Rules, SettledPlan};
use overspill::{ReadTool, RunId, ToolOutputLimits};
use overspill_replay::{ContentId, Contents, Item, ItemId, Kind, Policy, Reduced};

use super::named::reduced;

/// See the module.
pub(super) struct Refit {
    limits: Option<ToolOutputLimits>,
    fitter: Fitter,
    run: RunId,
    /// Every item of the segment that was not dropped, in order, as it stands in view.
    view: Vec<ContentId>,
    items: HashMap<ItemId, Item>,
    notes: u32,
}

/// Notes are named from here on, above all items of a recording and what is read back of them.
const NOTE_IDS: u32 = 3_000_000_000;

impl Refit {
    pub(super) fn new(limits: Option<ToolOutputLimits>, fitter: Fitter) -> Self {
        Self {
            limits,
            fitter,
            run: RunId::from("replay"),
            view: Vec::new(),
            items: HashMap::new(),
            notes: NOTE_IDS,
        }
    }
}

impl Policy for Refit {
    fn start(&mut self) {
        self.view.clear();
        self.items.clear();
    }

    fn request(&mut self, new: &[Item], _: usize, contents: &mut Contents) -> &[ContentId] {
        for item in new {
            let reducible = item.kind == Kind::Result && !item.read_back;
            let limits = self.limits.as_ref().filter(|_| reducible);
            self.view.push(match limits.and_then(|limits| reduced(limits, item)) {
                Some(reduced) => contents.reduced(item, reduced),
                None => contents.original(item),
            });
            self.items.insert(item.id, item.clone());
        }
        let plan = {
            let texts: Vec<Arc<str>> =
                self.view.iter().map(|id| Arc::clone(&contents.get(*id).text)).collect();
            let shown = self.view.iter().map(|id| &self.items[&contents.get(*id).item]);
            let (history, places) = history(shown, &texts);
            let fitted = block_on(self.fitter.fit(&self.run, &history, &Occasion::default()));
            fitted.plan.map(|plan| (plan, places))
        };
        if let Some((plan, places)) = plan {
            self.apply(&plan, &places, contents);
        }
        &self.view
    }
}

/// The history of a view: its messages, and for each the places of its entries in the view.
fn history<'t>(
    items: impl Iterator<Item = &'t Item>,
    texts: &'t [Arc<str>],
) -> (History<'t>, Vec<Vec<usize>>) {
    let mut builder = History::builder(Rules::default());
    let mut places: Vec<Vec<usize>> = Vec::new();
    let mut last = None;
    for (at, (item, text)) in items.zip(texts).enumerate() {
        let role = match item.kind {
            Kind::System => Role::System,
            Kind::User => Role::User,
            Kind::Text | Kind::Call => Role::Assistant,
            // What no call asked for stands there as the user's words.
            Kind::Result if item.pair.is_none() => Role::User,
            Kind::Result => Role::Tool,
        };
        // A response is one message; so is everything that stands by itself.
        let place = (role, item.turn);
        if role != Role::Assistant || last != Some(place) {
            builder.message(role, text);
            places.push(Vec::new());
        }
        last = Some(place);
        let id = item.pair.map_or(String::new(), |pair| pair.0.to_string());
        let kind = match item.kind {
            // The replay's own calls are those of the read tool.
            Kind::Call if item.read_back => {
                EntryKind::Call { id: id.into(), name: ReadTool::NAME.into() }
            }
            Kind::Call => EntryKind::Call { id: id.into(), name: (&*item.tool).into() },
            Kind::Result if item.pair.is_some() => {
                EntryKind::Return { id: id.into(), name: None, is_error: false, images: Vec::new() }
            }
            _ => EntryKind::Text,
        };
        let mut entry = Entry::new(role, kind, (&**text).into(), text);
        entry.replaceable = true;
        builder.entry(entry);
        if let Some(places) = places.last_mut() {
            places.push(at);
        }
    }
    (builder.build(), places)
}

impl Refit {
    /// What can be read through the handle of a plan: all it drops, and what the notes among that
    /// lead to.
    fn dropped(
        &self,
        plan: &SettledPlan,
        places: &[Vec<usize>],
        contents: &Contents,
    ) -> Vec<ItemId> {
        let flat: Vec<usize> = places.iter().flatten().copied().collect();
        let of_change = |change: &Change| match change {
            Change::DropEntry(entry) => vec![flat[entry.0]],
            Change::DropMessage(message) => places[message.0].clone(),
            _ => Vec::new(),
        };
        let dropped = plan.changes().iter().flat_map(of_change);
        let mut covers = Vec::new();
        for content in dropped.map(|place| contents.get(self.view[place])) {
            covers.push(content.item);
            covers.extend_from_slice(&content.covers);
        }
        covers
    }

    fn apply(&mut self, plan: &SettledPlan, places: &[Vec<usize>], contents: &mut Contents) {
        let flat: Vec<usize> = places.iter().flatten().copied().collect();
        let mut view: Vec<Option<ContentId>> = self.view.iter().copied().map(Some).collect();
        let mut notes: Vec<Vec<ContentId>> = vec![Vec::new(); self.view.len() + 1];
        let mut covers = self.dropped(plan, places, contents);
        for change in plan.changes() {
            match change {
                Change::DropEntry(entry) => view[flat[entry.0]] = None,
                Change::DropMessage(message) => {
                    places[message.0].iter().for_each(|place| view[*place] = None);
                }
                Change::Text { entry, text } | Change::Arguments { entry, json: text } => {
                    let place = flat[entry.0];
                    let item = &self.items[&contents.get(self.view[place]).item];
                    let reduced = Reduced { text: text.clone(), handle: true };
                    view[place] = Some(contents.reduced(item, reduced));
                }
                Change::Insert { before, text } => {
                    let place = places.get(before.0).and_then(|places| places.first());
                    self.notes += 1;
                    let note = Item {
                        id: ItemId(self.notes),
                        kind: Kind::User,
                        chars: text.chars().count(),
                        text: text.as_str().into(),
                        tool: "".into(),
                        args: "".into(),
                        pair: None,
                        turn: None,
                        read_back: true,
                    };
                    let place = place.copied().unwrap_or(self.view.len());
                    // The first note of a plan names what all of it drops.
                    notes[place].push(contents.note(&note, std::mem::take(&mut covers)));
                    self.items.insert(note.id, note);
                }
                _ => {}
            }
        }
        let mut left = Vec::with_capacity(view.len());
        for (notes, shown) in notes.into_iter().zip(view.into_iter().chain([None])) {
            left.extend(notes);
            left.extend(shown);
        }
        self.view = left;
    }
}
