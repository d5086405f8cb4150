//! The neutral, borrowed view of a conversation's history, and the edits that can be applied to it.
//!
//! A provider's request is parsed elsewhere; here stands what every format has in common: messages
//! in order, their [entries](crate::entry::Entry), which return answers which call, and the
//! *turns* that follow from it. A strategy reads a [`History`] and proposes a [`Plan`];
//! [`settle`] stores what the plan removes and makes it a [`SettledPlan`], the only thing that can
//! be applied.
//!
//! ```
//! use overspill::entry::{Entry, Kind, MessageId, Role};
//! use overspill::history::{History, Plan, Rules};
//!
//! let mut builder = History::builder(Rules::default());
//! builder.message(Role::User, "\"hi\"").entry(Entry::new(Role::User, Kind::Text, "hi".into(), ""));
//! let call = Kind::Call { id: "call_0".into(), name: "grep".into() };
//! let answer = Kind::Return { id: "call_0".into(), name: None, is_error: false, images: vec![] };
//! builder.message(Role::Assistant, "").entry(Entry::new(Role::Assistant, call, "{}".into(), ""));
//! builder.message(Role::Tool, "").entry(Entry::new(Role::Tool, answer, "4 hits".into(), ""));
//! let history = builder.build();
//!
//! // A turn is a response with all the returns that answer it, and leaves as one.
//! let turn = &history.turns()[0];
//! assert_eq!(turn.returns.len(), 1);
//! let mut plan = Plan::default();
//! plan.drop_turn(turn);
//! assert!(history.check(&plan).is_ok());
//!
//! // Half a turn cannot be dropped.
//! let mut plan = Plan::default();
//! plan.drop_message(MessageId(1));
//! assert!(history.check(&plan).is_err());
//! ```

mod check;
mod dropped;
mod fault;
mod pairing;
mod plan;
mod settle;
mod turn;

use std::borrow::Cow;
use std::ops::Range;

use crate::entry::{Entry, EntryId, Kind, MessageId, Role};
use crate::store::Digest;
use crate::summary::Usage;
use pairing::Pairing;

pub use check::{Refusal, Remainder};
pub use fault::Fault;
pub use plan::{Edit, Field, Plan, Words};
#[cfg(test)]
pub(crate) use settle::names_whole;
pub use settle::{Change, Ports, SettleError, SettledPlan, settle};
pub use turn::{Turn, TurnId};

/// What a format asks of a history beyond that calls and returns pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Rules {
    /// Whether the first message, instructions aside, must be the user's.
    pub user_first: bool,
    /// Whether two responses of the model may not follow one another. (Two messages of the user
    /// always may: where the format does not have it, they are joined when they are written.)
    pub responses_apart: bool,
    /// Where the returns of a response have to stand.
    pub returns: ReturnPlace,
    /// Whether the request goes on from messages that the provider keeps, so that a return
    /// without its call is in order.
    pub continues: bool,
}

/// Where the returns of a response have to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReturnPlace {
    /// Anywhere after the call.
    #[default]
    Anywhere,
    /// In the messages right after the response, before any message that holds none.
    Next,
    /// The same, and before anything else in those messages.
    NextAndFirst,
}

/// What is sent before the messages, and counts towards the window.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preamble<'a> {
    /// System instructions that stand outside the messages.
    pub instructions: Vec<Cow<'a, str>>,
    /// The definition of each tool, as raw JSON.
    pub tools: Vec<&'a str>,
    /// The model the request names.
    pub model: Option<Cow<'a, str>>,
}

/// One message of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message<'a> {
    /// Who speaks, as the format says; its entries may say it more closely.
    pub role: Role,
    /// Its original bytes.
    pub raw: &'a str,
    /// Its entries, as positions in [`History::entries`]; none for an empty message.
    pub entries: Range<usize>,
    /// Whether it goes on with the response the last message of the model belongs to: some
    /// formats spread one response over several messages.
    pub continues: bool,
    /// What the provider reported for the request this message answers.
    pub usage: Option<Usage>,
}

impl Message<'_> {
    /// The digest of its original bytes.
    pub fn digest(&self) -> Digest {
        Digest::of(self.raw.as_bytes())
    }

    /// The ids of its entries.
    pub fn entry_ids(&self) -> impl Iterator<Item = EntryId> + use<> {
        self.entries.clone().map(EntryId)
    }
}

/// A conversation's history, borrowed from the bytes of a request.
#[derive(Debug, Clone)]
pub struct History<'a> {
    rules: Rules,
    preamble: Preamble<'a>,
    messages: Vec<Message<'a>>,
    entries: Vec<Entry<'a>>,
    pairing: Pairing,
    turns: Vec<Turn>,
    turn_of: Vec<Option<TurnId>>,
    reach: EntryId,
}

impl<'a> History<'a> {
    /// Starts an empty history under a format's rules.
    pub fn builder(rules: Rules) -> HistoryBuilder<'a> {
        HistoryBuilder {
            rules,
            preamble: Preamble::default(),
            messages: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// What the format asks of it.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What is sent before the messages.
    pub fn preamble(&self) -> &Preamble<'a> {
        &self.preamble
    }

    /// All messages, in order; [`MessageId`] is the position.
    pub fn messages(&self) -> &[Message<'a>] {
        &self.messages
    }

    /// All entries, in order; [`EntryId`] is the position.
    pub fn entries(&self) -> &[Entry<'a>] {
        &self.entries
    }

    /// The entry of that id, if there is one.
    pub fn entry(&self, id: EntryId) -> Option<&Entry<'a>> {
        self.entries.get(id.0)
    }

    /// All turns, in the order of their responses; [`TurnId`] is the position.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// The turn an entry belongs to: as part of the response, or as a return that answers it.
    /// `None` for what users and instructions say, for notes and for orphans.
    pub fn turn_of(&self, entry: EntryId) -> Option<TurnId> {
        self.turn_of.get(entry.0).copied().flatten()
    }

    /// The call that a return answers: the nearest before it that its id and name fit and that no
    /// other return answers yet, so that reused and empty ids work.
    pub fn call_of(&self, answer: EntryId) -> Option<EntryId> {
        self.pairing.call_of(answer)
    }

    /// The first return that answers a call.
    pub fn return_of(&self, call: EntryId) -> Option<EntryId> {
        self.pairing.return_of(call)
    }

    /// The name of the tool a call names or a return comes from.
    pub fn tool_of(&self, entry: EntryId) -> Option<&str> {
        match &self.entry(entry)?.kind {
            Kind::Call { name, .. } | Kind::Return { name: Some(name), .. } => Some(name),
            Kind::Return { name: None, .. } => match &self.entry(self.call_of(entry)?)?.kind {
                Kind::Call { name, .. } => Some(name),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns without a call, in order. Calls without a return are part of their turn and show
    /// in [`faults`](Self::faults).
    pub fn orphans(&self) -> impl Iterator<Item = EntryId> + '_ {
        (0..self.entries.len())
            .map(EntryId)
            .filter(|&id| self.entries[id.0].is_return() && self.call_of(id).is_none())
    }

    /// The first entry that an edit may touch: the one after the last [`Kind::Boundary`].
    pub fn reach(&self) -> EntryId {
        self.reach
    }

    /// What is wrong with the history as it is; nothing, for one a provider accepts.
    pub fn faults(&self) -> Vec<Fault> {
        fault::faults(self, &Remainder::all(self))
    }

    /// Whether a plan can be applied.
    ///
    /// # Errors
    ///
    /// The [`Refusal`] that applying it would meet: an edit that names nothing, splits a turn,
    /// touches what must not change or reaches across a boundary, or edits that together leave a
    /// fault which was not there before.
    pub fn check(&self, plan: &Plan) -> Result<(), Refusal> {
        check::check(self, plan.edits())
    }

    /// What a plan would leave, whether or not a provider would accept it.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] of one edit by itself.
    pub fn after(&self, plan: &Plan) -> Result<Remainder, Refusal> {
        check::remainder(self, plan.edits())
    }

    /// Whether a settled plan was made for this history, as far as it names it, and can be
    /// applied to it.
    ///
    /// # Errors
    ///
    /// [`Refusal::OtherHistory`] when a message the plan names is not here in its place with the
    /// same bytes, else as [`check`](Self::check).
    pub fn check_settled(&self, plan: &SettledPlan) -> Result<(), Refusal> {
        for (message, digest) in plan.names() {
            if self.messages.get(message.0).is_none_or(|found| found.digest() != *digest) {
                return Err(Refusal::OtherHistory { message: *message });
            }
        }
        check::check(self, plan.edits())
    }
}

/// Builds a [`History`] from messages and their entries, in order.
#[derive(Debug)]
pub struct HistoryBuilder<'a> {
    rules: Rules,
    preamble: Preamble<'a>,
    messages: Vec<Message<'a>>,
    entries: Vec<Entry<'a>>,
}

impl<'a> HistoryBuilder<'a> {
    /// Says what is sent before the messages.
    pub fn preamble(&mut self, preamble: Preamble<'a>) -> &mut Self {
        self.preamble = preamble;
        self
    }

    /// Makes room for so many messages and entries.
    pub fn reserve(&mut self, messages: usize, entries: usize) -> &mut Self {
        self.messages.reserve(messages);
        self.entries.reserve(entries);
        self
    }

    /// Opens the next message, whose original bytes are `raw`.
    pub fn message(&mut self, role: Role, raw: &'a str) -> &mut Self {
        let at = self.entries.len();
        self.messages.push(Message { role, raw, entries: at..at, continues: false, usage: None });
        self
    }

    /// Says that the open message goes on with the last response of the model.
    pub fn continues(&mut self) -> &mut Self {
        if let Some(message) = self.messages.last_mut() {
            message.continues = true;
        }
        self
    }

    /// Says what the provider reported for the request the open message answers.
    pub fn usage(&mut self, usage: Usage) -> &mut Self {
        if let Some(message) = self.messages.last_mut() {
            message.usage = Some(usage);
        }
        self
    }

    /// Adds an entry to the open message; without one, does nothing.
    pub fn entry(&mut self, mut entry: Entry<'a>) -> &mut Self {
        if let Some(message) = self.messages.last_mut() {
            message.entries.end += 1;
            entry.message = MessageId(self.messages.len() - 1);
            self.entries.push(entry);
        }
        self
    }

    /// The history, with calls and returns paired and turns found.
    pub fn build(self) -> History<'a> {
        let Self { rules, preamble, messages, entries } = self;
        let groups = turn::response_groups(&messages, &entries);
        let pairing = Pairing::of(&entries, &groups);
        let (turns, turn_of) = turn::turns(&messages, &entries, &groups, &pairing);
        let reach = entries
            .iter()
            .rposition(|entry| matches!(entry.kind, Kind::Boundary))
            .map_or(EntryId(0), |at| EntryId(at + 1));
        History { rules, preamble, messages, entries, pairing, turns, turn_of, reach }
    }
}

#[cfg(test)]
mod tests;
