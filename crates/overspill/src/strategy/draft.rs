//! A history with the edits that strategies have made to it so far.

use std::fmt;
use std::sync::Arc;

use super::StrategyError;
use super::receipt::Receipt;
use crate::count::{Count, Counter, Weight};
use crate::entry::{Entry, EntryId, Kind, MessageId, Note, Role};
use crate::history::{Field, History, Message, Plan, TurnId, Words};
use crate::marker::Below;
use crate::summary::{TextModel, Usage};

/// What a marker is taken to weigh before it is written: no less than it will, so that nothing
/// grows. With the longest handle and a tool's name of 64 characters it has 350 characters (a test
/// says so); the usual one has 260, of which a tokenizer makes more tokens than of prose, because a
/// third of it is base32.
pub(super) const MARKER: Weight = Weight(360);

/// The same of one that only names its handle.
pub(super) const BARE_MARKER: Weight = Weight(180);

/// What the handle of the whole is taken to weigh, which stands behind the marker of a part that
/// holds more than its text.
const WHOLE: Weight = Weight(160);

/// What a receipt is taken to weigh: its sentences, its marks and the marker.
pub(super) const RECEIPT: Weight = Weight(MARKER.0 + 240);

/// What stands where messages left between two others, apart from the receipt.
const GAP: &str = "(Messages that stood here left; what is said above tells where they are.)";

/// What that weighs with its marks.
const GAP_WEIGHT: Weight = Weight(GAP.len() as u64 + 44);

/// What a strategy decides on.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Scene<'v, 'a> {
    /// The history.
    pub history: &'v History<'a>,
    /// What each part of it weighs.
    pub count: &'v Count,
    /// Weighs other texts the same way.
    pub counter: &'v Counter,
    /// How many tokens a request may be, for limits that are fractions.
    pub budget: u64,
    /// Whether that is a guess.
    pub is_guess: bool,
    /// What the run has used so far.
    pub spent: Usage,
    /// Messages that survive everything.
    pub pins: &'v [MessageId],
    /// Who judges and summarizes.
    pub model: Option<&'v dyn TextModel>,
    /// What a summary is to dwell on.
    pub focus: Option<&'v str>,
}

impl<'v, 'a> Scene<'v, 'a> {
    /// A history without pins, model or focus, and the budget its limits refer to.
    pub fn new(
        history: &'v History<'a>,
        count: &'v Count,
        counter: &'v Counter,
        budget: u64,
    ) -> Self {
        Self {
            history,
            count,
            counter,
            budget,
            is_guess: false,
            spent: Usage::default(),
            pins: &[],
            model: None,
            focus: None,
        }
    }
}

impl fmt::Debug for Scene<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scene")
            .field("messages", &self.history.messages().len())
            .field("tokens", &self.count.tokens())
            .field("budget", &self.budget)
            .field("pins", &self.pins)
            .field("focus", &self.focus)
            .finish_non_exhaustive()
    }
}

/// A history with edits. What it weighs is known after each.
#[derive(Debug, Clone)]
pub struct Draft<'v, 'a> {
    scene: Scene<'v, 'a>,
    states: Vec<State>,
    /// Messages that the host wants whole.
    pinned: Vec<bool>,
    /// The same, and the message that has to be answered.
    needed: Vec<bool>,
    /// Entries that have to stay, whatever a strategy says.
    fixed: Vec<bool>,
    /// The same for turns: one fixed part keeps the others.
    fixed_turns: Vec<bool>,
    dropped_turns: Vec<bool>,
    /// For a message of a response, its turn.
    turn_of_message: Vec<Option<TurnId>>,
    /// How many entries of each message stay; for one without any, whether it does.
    kept: Vec<usize>,
    messages_left: usize,
    replacements: Vec<(EntryId, Replacement)>,
    notes: Vec<(Place, Note, Words)>,
    removed: Weight,
    added: Weight,
    /// What those notes weigh that tell what left.
    told: Weight,
    /// What all that left weighed, warnings aside.
    left: Weight,
    focus: Option<Arc<str>>,
    /// What models took while this draft was made.
    pub usage: Usage,
    failures: Vec<Arc<StrategyError>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Kept,
    /// Something else stands in its place: which, and what that weighs.
    Replaced(usize, Weight),
    Dropped,
}

#[derive(Debug, Clone)]
enum Replacement {
    Text(Words),
    Arguments(Vec<(String, Field)>),
}

/// Where a note stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Where the first message that leaves stood.
    Gap,
    /// After everything.
    End,
}

impl<'v, 'a> Draft<'v, 'a> {
    /// A history without edits.
    pub fn new(scene: Scene<'v, 'a>) -> Self {
        let history = scene.history;
        let mut pinned = vec![false; history.messages().len()];
        for pin in scene.pins {
            if let Some(pinned) = pinned.get_mut(pin.0) {
                *pinned = true;
            }
        }
        // What is asked now has to be answered, whatever becomes of its words.
        let mut needed = pinned.clone();
        // Our own notes ask nothing.
        let speaks = |message: &Message<'_>, is_said: fn(&Entry<'_>) -> bool| {
            let entries = &history.entries()[message.entries.clone()];
            entries.is_empty() || entries.iter().any(is_said)
        };
        let newest = |is_said| history.messages().iter().rposition(|it| speaks(it, is_said));
        let newest = newest(|entry| entry.note().is_none())
            .or_else(|| newest(|entry| entry.note() != Some(Note::Warning)));
        if let Some(newest) = newest {
            needed[newest] = true;
        }
        // A warning that follows a response is all that there is to answer.
        let ends = newest.filter(|&at| history.messages()[at].role == Role::Assistant);
        let keeps = |(at, entry): (usize, &Entry<'_>)| {
            let orphan = entry.is_return() && history.call_of(EntryId(at)).is_none();
            EntryId(at) < history.reach()
                || entry.role == Role::System
                || needed[entry.message.0] && entry.note() != Some(Note::Warning)
                || ends.is_some_and(|end| entry.message.0 > end)
                || orphan && history.rules().continues
        };
        let fixed: Vec<bool> = history.entries().iter().enumerate().map(keeps).collect();
        let mut fixed_turns = vec![false; history.turns().len()];
        let mut turn_of_message = vec![None; history.messages().len()];
        for (at, turn) in history.turns().iter().enumerate() {
            for message in &turn.response {
                turn_of_message[message.0] = Some(TurnId(at));
                fixed_turns[at] |= needed[message.0];
            }
        }
        for (at, _) in fixed.iter().enumerate().filter(|(_, fixed)| **fixed) {
            if let Some(turn) = history.turn_of(EntryId(at)) {
                fixed_turns[turn.0] = true;
            }
        }
        let kept = history.messages().iter().map(|message| message.entries.len().max(1)).collect();
        Self {
            scene,
            states: vec![State::Kept; fixed.len()],
            pinned,
            needed,
            fixed,
            dropped_turns: vec![false; fixed_turns.len()],
            fixed_turns,
            turn_of_message,
            kept,
            messages_left: history.messages().len(),
            replacements: Vec::new(),
            notes: Vec::new(),
            removed: Weight::default(),
            added: Weight::default(),
            told: Weight::default(),
            left: Weight::default(),
            focus: scene.focus.map(Into::into),
            usage: Usage::default(),
            failures: Vec::new(),
        }
    }

    /// What a summary is to dwell on.
    pub fn focus(&self) -> Option<&str> {
        self.focus.as_deref()
    }

    /// Has summaries dwell on something, if it says something.
    pub fn focus_on(&mut self, focus: &str) {
        if !focus.is_empty() {
            self.focus = Some(focus.into());
        }
    }

    /// Goes back to an earlier state, for the reason given. What models took since then stays on
    /// the bill.
    pub fn undo(&mut self, before: Self, because: StrategyError) {
        let failures = std::mem::take(&mut self.failures);
        let usage = self.usage;
        *self = before;
        self.usage = usage;
        self.failures = failures;
        self.failures.push(Arc::new(because));
    }

    /// Why edits were undone.
    pub fn failures(&self) -> &[Arc<StrategyError>] {
        &self.failures
    }

    /// What it is a draft of.
    pub fn scene(&self) -> Scene<'v, 'a> {
        self.scene
    }

    /// The history, without the edits.
    pub fn history(&self) -> &'v History<'a> {
        self.scene.history
    }

    /// The first entry that no request has sent yet: the newest response was the answer to the last
    /// one, so it and all behind it are new.
    pub fn sent(&self) -> EntryId {
        let history = self.history();
        let first = history.turns().last().and_then(|turn| turn.response.first());
        EntryId(first.map_or(0, |message| history.messages()[message.0].entries.start))
    }

    /// Tokens of the request with the edits, and with the words that tell what left.
    pub fn tokens(&self) -> u64 {
        // Less than a receipt weighs does not leave at all.
        let told = if self.has_gap_note() && self.left.0 > 0 {
            self.told.0.saturating_add(RECEIPT.0)
        } else if self.has_gap_note() {
            0
        } else {
            self.left.0.min(RECEIPT.0)
        };
        let all = [self.scene.count.weight(), self.added, Weight(told)].into_iter().sum::<Weight>();
        Weight(all.0.saturating_sub(self.removed.0)).tokens()
    }

    fn has_gap_note(&self) -> bool {
        self.notes.iter().any(|(place, ..)| *place == Place::Gap)
    }

    /// Messages of the history that stay, if only in part.
    pub fn messages_left(&self) -> usize {
        self.messages_left
    }

    /// Whether a message stays, if only in part.
    pub fn has_message(&self, message: MessageId) -> bool {
        self.kept.get(message.0).is_some_and(|kept| *kept > 0)
    }

    /// Whether an entry stays as it was.
    pub fn is_untouched(&self, entry: EntryId) -> bool {
        self.states.get(entry.0) == Some(&State::Kept)
    }

    /// Whether an entry stays, replaced or not.
    pub fn has_entry(&self, entry: EntryId) -> bool {
        self.states.get(entry.0).is_some_and(|state| *state != State::Dropped)
    }

    /// Whether an entry has to stay, by itself or with its turn.
    pub fn is_fixed(&self, entry: EntryId) -> bool {
        let turn = self.history().turn_of(entry);
        self.fixed.get(entry.0) == Some(&true) || turn.is_some_and(|turn| self.fixed_turns[turn.0])
    }

    /// What an entry weighs now.
    pub fn weight(&self, entry: EntryId) -> Weight {
        match self.states.get(entry.0) {
            Some(State::Kept) => self.scene.count.entry(entry),
            Some(State::Replaced(_, weight)) => *weight,
            Some(State::Dropped) | None => Weight::default(),
        }
    }

    /// Drops an entry, with all others of its turn if it belongs to one; `false` where it has to
    /// stay.
    pub fn drop_entry(&mut self, entry: EntryId) -> bool {
        if self.is_fixed(entry) || entry.0 >= self.states.len() {
            return false;
        }
        match self.history().turn_of(entry) {
            Some(turn) => self.drop_turn(turn),
            None if self.is_unknown(entry) => false,
            None => {
                self.take_out(entry);
                true
            }
        }
    }

    /// Drops what may leave of a message. `false` where something of it has to stay.
    pub fn drop_message(&mut self, message: MessageId) -> bool {
        let Some(found) = self.history().messages().get(message.0) else { return false };
        if found.entries.is_empty() {
            return match self.turn_of_message[message.0] {
                Some(turn) => self.drop_turn(turn),
                None => self.take_out_empty(message),
            };
        }
        for entry in found.entry_ids() {
            self.drop_entry(entry);
        }
        let rest: Vec<EntryId> = found.entry_ids().filter(|entry| self.has_entry(*entry)).collect();
        if rest.iter().all(|entry| self.is_unknown(*entry) && !self.is_fixed(*entry)) {
            rest.into_iter().for_each(|entry| self.take_out(entry));
        }
        !self.has_message(message)
    }

    /// Whether nobody knows what an entry is. Then it leaves only with its whole message.
    fn is_unknown(&self, entry: EntryId) -> bool {
        let history = self.history();
        matches!(history.entries()[entry.0].kind, Kind::Other) && history.turn_of(entry).is_none()
    }

    /// Drops a turn; `false` where it has to stay.
    pub fn drop_turn(&mut self, turn: TurnId) -> bool {
        let Some(found) = self.history().turns().get(turn.0) else { return false };
        if self.fixed_turns[turn.0] {
            return false;
        }
        if std::mem::replace(&mut self.dropped_turns[turn.0], true) {
            return true;
        }
        for message in &found.response {
            let entries = self.history().messages()[message.0].entries.clone();
            if entries.is_empty() {
                self.take_out_empty(*message);
            }
            entries.map(EntryId).for_each(|entry| self.take_out(entry));
        }
        found.returns.iter().for_each(|entry| self.take_out(*entry));
        true
    }

    fn take_out(&mut self, entry: EntryId) {
        if self.states[entry.0] == State::Dropped {
            return;
        }
        self.removed.0 += self.weight(entry).0;
        if !self.is_warning(entry.0) {
            self.left.0 += self.scene.count.entry(entry).0;
        }
        self.states[entry.0] = State::Dropped;
        let message = self.history().entries()[entry.0].message;
        self.kept[message.0] -= 1;
        self.messages_left -= usize::from(self.kept[message.0] == 0);
    }

    fn take_out_empty(&mut self, message: MessageId) -> bool {
        // An empty message below the reach stands before what a provider compacted.
        let closed = self.needed[message.0]
            || self.history().messages()[message.0].entries.start < self.history().reach().0;
        if !closed && std::mem::replace(&mut self.kept[message.0], 0) > 0 {
            self.messages_left -= 1;
        }
        !closed
    }

    /// Puts other text in the place of an entry's own, of so much weight; `false` where the entry
    /// must not change, or would not become lighter.
    pub fn replace_text(&mut self, entry: EntryId, words: Words, weight: Weight) -> bool {
        self.history().entry(entry).is_some_and(|found| !found.is_call())
            && self.replace(entry, Replacement::Text(words), weight)
    }

    /// Puts other arguments in the place of a call's own, of so much weight; `false` where the
    /// call must not change, or would not become lighter.
    pub fn replace_arguments(
        &mut self,
        call: EntryId,
        object: Vec<(String, Field)>,
        weight: Weight,
    ) -> bool {
        self.history().entry(call).is_some_and(Entry::is_call)
            && self.replace(call, Replacement::Arguments(object), weight)
    }

    fn replace(&mut self, entry: EntryId, with: Replacement, weight: Weight) -> bool {
        let history = self.history();
        let Some(found) = history.entry(entry) else { return false };
        let name = match &found.kind {
            Kind::Call { name, .. } => self.scene.counter.text(name),
            _ => Weight::default(),
        };
        let whole = if found.holds_more { WHOLE } else { Weight::default() };
        let weight: Weight = [weight, name, whole].into_iter().sum();
        let may = found.is_editable()
            && entry >= history.reach()
            && !self.pinned[found.message.0]
            && self.has_entry(entry)
            && weight < self.weight(entry);
        if may {
            self.removed.0 += self.weight(entry).0;
            self.added.0 += weight.0;
            self.states[entry.0] = State::Replaced(self.replacements.len(), weight);
            self.replacements.push((entry, with));
        }
        may
    }

    /// Puts a note where the first message that leaves stood. What left, how much and where it is
    /// stored is said in it after `words`.
    pub fn note_gap(&mut self, note: Note, words: Words, weight: Weight) {
        self.notes.push((Place::Gap, note, words));
        self.told.0 += weight.0;
    }

    /// Puts a note after everything.
    pub fn note_end(&mut self, note: Note, words: Words, weight: Weight) {
        self.notes.push((Place::End, note, words));
        self.added.0 += weight.0;
    }

    /// The edits as a plan. Where messages left and no note says so yet, a receipt is added that
    /// does, in all: with what earlier receipts among them spoke of. Where a receipt would weigh
    /// more than what leaves, nothing leaves.
    pub fn finish(mut self) -> Plan {
        let words = self.gaps(self.gap()).len() as u64 * GAP_WEIGHT.0 + RECEIPT.0;
        if !self.has_gap_note() && self.left.0 <= words {
            self.keep_all_but_warnings();
        }
        let history = self.history();
        let mut plan = Plan::default();
        for (at, state) in self.states.iter().enumerate() {
            if let State::Replaced(replacement, _) = state {
                match self.replacements[*replacement].1.clone() {
                    Replacement::Text(words) => plan.replace_text(EntryId(at), words),
                    Replacement::Arguments(object) => plan.replace_arguments(EntryId(at), object),
                }
            }
        }
        for (at, message) in history.messages().iter().enumerate() {
            if self.kept[at] == 0 {
                plan.drop_message(MessageId(at));
            } else {
                let dropped = message.entry_ids().filter(|id| !self.has_entry(*id));
                dropped.for_each(|entry| plan.drop_entry(entry));
            }
        }
        self.add_notes(&mut plan);
        plan
    }

    fn is_warning(&self, at: usize) -> bool {
        self.history().entries()[at].note() == Some(Note::Warning)
    }

    fn keep_all_but_warnings(&mut self) {
        for (at, message) in self.history().messages().iter().enumerate() {
            if message.entries.is_empty() {
                self.kept[at] = 1;
            }
            for entry in message.entries.clone() {
                if self.states[entry] == State::Dropped && !self.is_warning(entry) {
                    self.states[entry] = State::Kept;
                    self.kept[at] += 1;
                }
            }
        }
    }

    /// What left, in all.
    fn receipt(&self) -> Receipt {
        let history = self.history();
        let mut receipt = Receipt::default();
        let mut weight = Weight::default();
        for (at, message) in history.messages().iter().enumerate() {
            let mut counts = self.kept[at] == 0 && message.entries.is_empty();
            for entry in message.entries.clone().filter(|entry| !self.has_entry(EntryId(*entry))) {
                let found = &history.entries()[entry];
                match found.note() {
                    None => {
                        counts |= self.kept[at] == 0;
                        weight.0 += self.scene.count.entry(EntryId(entry)).0;
                    }
                    Some(note) => {
                        let body = note.body(&found.text).and_then(Receipt::parse);
                        let earlier = body.map(|it| Receipt { holds_earlier: true, ..it });
                        receipt = receipt.and(earlier.unwrap_or_default());
                    }
                }
            }
            receipt.messages += u64::from(counts);
        }
        receipt.and(Receipt { tokens: weight.tokens(), ..Receipt::default() })
    }

    fn add_notes(&self, plan: &mut Plan) {
        let history = self.history();
        let end = MessageId(history.messages().len());
        let gap = self.gap();
        if let Some(before) = gap {
            let mut receipt = Some(self.receipt());
            for (_, note, words) in self.notes.iter().filter(|(place, ..)| *place == Place::Gap) {
                // The first note speaks of what left.
                let words = match receipt.take() {
                    Some(receipt) => {
                        words.clone().then(Words::text("\n\n")).then(receipt.words(Below::Nothing))
                    }
                    None => words.clone(),
                };
                plan.insert(before, *note, words);
            }
            if let Some(receipt) = receipt {
                plan.insert(before, Note::Receipt, receipt.words(Below::Nothing));
            }
        }
        for between in self.gaps(gap) {
            plan.insert(between, Note::Receipt, Words::text(GAP));
        }
        for (_, note, words) in self.notes.iter().filter(|(place, ..)| *place == Place::End) {
            plan.insert(end, *note, words.clone());
        }
    }

    /// The responses that would follow another one, or come first where none may, because what stood
    /// before them left; apart from the one before which it is said what left.
    fn gaps(&self, told: Option<MessageId>) -> Vec<MessageId> {
        let mut gaps = Vec::new();
        let mut last: Option<Option<TurnId>> = None;
        let mut left = false;
        for (at, message) in self.history().messages().iter().enumerate() {
            if message.role == Role::System {
                continue;
            }
            if self.kept[at] == 0 {
                left = true;
                continue;
            }
            let turn = self.turn_of_message[at];
            let apart = turn.is_some()
                && match last {
                    None => self.history().rules().user_first,
                    Some(last) => last.is_some() && last != turn,
                };
            if left && apart && told != Some(MessageId(at)) {
                gaps.push(MessageId(at));
            }
            (last, left) = (Some(turn), false);
        }
        gaps
    }

    /// The message before which it is said what left: the first that stays behind the first that
    /// left and that stands inside no turn. `None` where nothing left but warnings.
    fn gap(&self) -> Option<MessageId> {
        let history = self.history();
        let left = |message: usize| {
            let mut entries = history.messages()[message].entries.clone();
            self.kept[message] == 0 && entries.is_empty()
                || entries.any(|at| self.states[at] == State::Dropped && !self.is_warning(at))
        };
        let messages = history.messages().len();
        let first = (0..messages).find(|&message| left(message))?;
        // A message that stays in part comes after what says so.
        let stands_free = |message: &usize| {
            let kept = history.messages()[*message].entry_ids().filter(|id| self.has_entry(*id));
            let mut turns = kept.filter_map(|entry| history.turn_of(entry));
            self.kept[*message] > 0
                && turns.all(|turn| {
                    history.turns()[turn.0].response.first().is_none_or(|first| first.0 >= *message)
                })
                && history.messages()[*message].entries.start >= history.reach().0
        };
        let system = |message: &usize| {
            let message = &history.messages()[*message];
            let mut kept = message.entry_ids().filter(|id| self.has_entry(*id)).peekable();
            message.role == Role::System
                || kept.peek().is_some()
                    && kept.all(|entry| history.entries()[entry.0].role == Role::System)
        };
        let found = (first..messages).find(|message| stands_free(message) && !system(message));
        Some(MessageId(found.unwrap_or(messages)))
    }
}

#[cfg(test)]
mod tests {
    use super::{BARE_MARKER, MARKER, WHOLE};
    use crate::history::names_whole;
    use crate::item::ToolCall;
    use crate::marker::{Below, Marker, ReadVia};
    use crate::store::{Digest, Handle, PartName, Receipt};

    #[test]
    fn no_marker_weighs_more_than_it_is_taken_to() {
        let digest = Digest::of(b"x");
        let call = ToolCall::new("r".repeat(100), "c".repeat(100), "t");
        let receipt = Receipt {
            handle: Handle::new(&call, PartName::Value(1), &digest),
            bytes: 99_999_999,
            chars: 99_999_999,
            lines: 9_999_999,
            digest,
            media_type: "text/plain".into(),
            tool: "t".into(),
        };
        let via = ReadVia::Tool("t".repeat(64));
        for (below, weight) in [
            (Below::Nothing, MARKER),
            (Below::Ends { left_out: 99_999_999 }, MARKER),
            (Below::Bare, BARE_MARKER),
        ] {
            let marker = Marker::new(&receipt, receipt.chars, "characters", None, below, &via);
            let chars = marker.as_str().len() as u64;
            assert!(chars <= weight.0, "{chars}");
        }
        let chars = names_whole(&receipt.handle).len() as u64;
        assert!(chars <= WHOLE.0, "{chars}");
    }
}
