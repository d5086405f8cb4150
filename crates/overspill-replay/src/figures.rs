//! What a policy saves, and what it keeps of what the model will use.

use std::iter::Sum;
use std::ops::AddAssign;
use std::sync::Arc;

use hashbrown::HashMap;
use memchr::memmem;
use serde::Serialize;

use crate::contents::{Content, ContentId, Contents};
use crate::evidence::Evidence;
use crate::policy::Policy;
use crate::session::{Item, ItemId, Kind, PairId, Segment, Session};
use crate::slices::{shows_line, slices};

/// What a character costs, in prices of one character that is sent without a cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prices {
    /// A character that the provider finds in its prompt cache.
    pub cached: f64,
    /// A character that it does not.
    pub fresh: f64,
}

impl Prices {
    /// Anthropic: reads from the cache at a tenth, writes to it at five quarters.
    pub const ANTHROPIC: Self = Self { cached: 0.1, fresh: 1.25 };
    /// OpenAI: reads from the cache at a quarter, writes to it free of charge.
    pub const OPENAI: Self = Self { cached: 0.25, fresh: 1.0 };
}

/// What went over the wire. All sizes are Unicode code points.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Traffic {
    /// Requests to the model.
    pub requests: u64,
    /// Characters of all requests.
    pub sent: u64,
    /// Those that a request shares with the one before, as a prefix of whole items.
    pub cached: u64,
    /// Requests that changed what an earlier one had sent.
    pub broken: u64,
    /// Characters that stood behind such a change and had to be cached anew.
    pub broken_chars: u64,
    /// Characters of the largest request.
    pub peak: u64,
}

impl Traffic {
    /// What it costs.
    #[must_use]
    pub fn cost(&self, prices: Prices) -> f64 {
        prices.cached * self.cached as f64 + prices.fresh * (self.sent - self.cached) as f64
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.sent += other.sent;
        self.cached += other.cached;
        self.broken += other.broken;
        self.broken_chars += other.broken_chars;
        self.peak = self.peak.max(other.peak);
    }
}

/// How many strings that a response used, and only an earlier result had shown, were still there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Recall {
    /// All of them.
    pub used: u64,
    /// Those that the view held.
    pub in_view: u64,
    /// Those that it held with their whole line, or with 100 characters before and after.
    pub with_line: u64,
    /// Those that it held, or for which it held a handle of a result with them.
    pub reachable: u64,
}

impl Recall {
    fn count(&mut self, found: Found) {
        self.used += 1;
        self.in_view += u64::from(found.in_view);
        self.with_line += u64::from(found.with_line);
        self.reachable += u64::from(found.in_view || found.handle.is_some());
    }
}

impl AddAssign for Recall {
    fn add_assign(&mut self, other: Self) {
        self.used += other.used;
        self.in_view += other.in_view;
        self.with_line += other.with_line;
        self.reachable += other.reachable;
    }
}

/// What one policy did to one session, or to many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Figures {
    /// The sessions that were measured.
    pub sessions: u64,
    /// What was sent.
    pub traffic: Traffic,
    /// What is sent if the model reads back every identifier it uses and no longer sees: one more
    /// request each time.
    pub net: Traffic,
    /// Responses that made it read something back.
    pub read_backs: u64,
    /// Characters that were read back.
    pub read_back_chars: u64,
    /// Requests with a call but not its result, or the other way round; providers refuse them.
    pub invalid: u64,
    /// Later use of all strings.
    pub evidence: Recall,
    /// Later use of identifiers only.
    pub identifiers: Recall,
    /// Responses that used an identifier which the view did not hold.
    pub responses_missing: u64,
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.sessions += other.sessions;
        self.traffic += other.traffic;
        self.net += other.net;
        self.read_backs += other.read_backs;
        self.read_back_chars += other.read_back_chars;
        self.invalid += other.invalid;
        self.evidence += other.evidence;
        self.identifiers += other.identifiers;
        self.responses_missing += other.responses_missing;
    }
}

impl Sum for Figures {
    fn sum<I: Iterator<Item = Self>>(figures: I) -> Self {
        figures.fold(Self::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

/// Figures against those of no policy, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Reduction {
    /// Characters that need not be sent.
    pub sent: f64,
    /// Cost saved, by default at Anthropic's prices.
    pub cost: f64,
    /// The same with the read-backs paid.
    pub net_cost: f64,
    /// Cost saved at OpenAI's prices.
    pub cost_openai: f64,
    /// The same with the read-backs paid.
    pub net_cost_openai: f64,
    /// Used identifiers that were in view.
    pub in_view: f64,
    /// Used identifiers that were in view with their line.
    pub with_line: f64,
    /// Used identifiers in view or behind a handle in view.
    pub reachable: f64,
}

impl Figures {
    /// Compares with the figures of the same sessions under [`Keep`](crate::Keep), at Anthropic's
    /// prices.
    #[must_use]
    pub fn against(&self, none: &Self) -> Reduction {
        self.against_at(none, Prices::ANTHROPIC)
    }

    /// Compares with the figures of the same sessions under [`Keep`](crate::Keep); `cost` and
    /// `net_cost` are at these prices.
    #[must_use]
    pub fn against_at(&self, none: &Self, prices: Prices) -> Reduction {
        // The difference first: of equal ones nothing is left, not even a rounding error.
        let saved = |part: f64, whole: f64| match whole {
            0.0 => 0.0,
            whole => 100.0 * (whole - part) / whole,
        };
        let share = |part: u64| match self.identifiers.used {
            0 => 100.0,
            used => 100.0 * part as f64 / used as f64,
        };
        let cost =
            |traffic: &Traffic, prices| saved(traffic.cost(prices), none.traffic.cost(prices));
        Reduction {
            sent: saved(self.traffic.sent as f64, none.traffic.sent as f64),
            cost: cost(&self.traffic, prices),
            net_cost: cost(&self.net, prices),
            cost_openai: cost(&self.traffic, Prices::OPENAI),
            net_cost_openai: cost(&self.net, Prices::OPENAI),
            in_view: share(self.identifiers.in_view),
            with_line: share(self.identifiers.with_line),
            reachable: share(self.identifiers.reachable),
        }
    }
}

/// Re-enacts every request of a session under a policy, twice: as it was recorded, and with the
/// read-backs that the policy would cause.
pub fn evaluate(session: &Session, policy: &mut (impl Policy + ?Sized)) -> Figures {
    evaluate_with(session, policy, |_| {})
}

/// [`evaluate`], and shows each request of both passes to an observer before the next is made.
pub fn evaluate_with(
    session: &Session,
    policy: &mut (impl Policy + ?Sized),
    mut observe: impl FnMut(&Request<'_>),
) -> Figures {
    let mut figures = Run::new(false).replay(session, policy, &mut observe);
    figures.sessions = 1;
    figures.net = figures.traffic;
    if figures.responses_missing > 0 {
        let run = Run::new(true).replay(session, policy, &mut observe);
        figures.net = run.traffic;
        figures.read_backs = run.read_backs;
        figures.read_back_chars = run.read_back_chars;
    }
    figures
}

/// One request, as an observer of [`evaluate_with`] sees it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Request<'a> {
    /// Why it is made.
    pub cause: Cause<'a>,
    /// Which recorded request of the session it is, or comes before, counted from 0.
    pub number: usize,
    /// Whether it is the first of its segment.
    pub first: bool,
    /// The items that arrived since the last one.
    pub new: &'a [Item],
    /// What is sent.
    pub view: &'a [ContentId],
    /// How many contents at the start of the view are those of the request before.
    pub shared: usize,
    /// The contents that the view names.
    pub contents: &'a Contents,
    /// Characters that are sent.
    pub sent: u64,
    /// Those of them that stand in the shared part.
    pub cached: u64,
}

/// Why a request is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause<'a> {
    /// It was recorded.
    Recorded,
    /// It was recorded, and is made again in the pass in which the model reads back.
    RecordedAgain,
    /// The model reads parts of these results back before the request with this number.
    ReadBack(&'a [ItemId]),
}

/// What was found of one piece of evidence.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    in_view: bool,
    with_line: bool,
    /// A result in view that shows a handle.
    handle: Option<ItemId>,
}

/// One pass over a session.
struct Run {
    read_back: bool,
    contents: Contents,
    ledger: Ledger,
    figures: Figures,
    /// Results of this segment that the policy has been told of.
    texts: HashMap<ItemId, Arc<str>>,
    /// Results that brought back parts of another.
    brought_back: HashMap<ItemId, Vec<ItemId>>,
    /// Recorded requests that were made.
    recorded: usize,
    next_id: u32,
}

/// Read-backs are named from here on, above the items of all but the longest sessions, so that the
/// text of a handle does not depend on the length of the session.
const READ_BACK_IDS: u32 = 1_000_000;

impl Run {
    fn new(read_back: bool) -> Self {
        Self {
            read_back,
            contents: Contents::default(),
            ledger: Ledger::default(),
            figures: Figures::default(),
            texts: HashMap::new(),
            brought_back: HashMap::new(),
            recorded: 0,
            next_id: READ_BACK_IDS,
        }
    }

    fn replay(
        mut self,
        session: &Session,
        policy: &mut (impl Policy + ?Sized),
        observe: &mut impl FnMut(&Request<'_>),
    ) -> Figures {
        let items = session.segments.iter().flat_map(Segment::items);
        let last = items.map(|item| item.id.0).max().unwrap_or_default();
        self.next_id = self.next_id.max(last);
        for segment in &session.segments {
            self.segment(segment, policy, observe);
        }
        self.figures.traffic = self.ledger.traffic;
        self.figures.invalid = self.ledger.invalid;
        self.figures
    }

    fn segment(
        &mut self,
        segment: &Segment,
        policy: &mut (impl Policy + ?Sized),
        observe: &mut impl FnMut(&Request<'_>),
    ) {
        let cause = if self.read_back { Cause::RecordedAgain } else { Cause::Recorded };
        policy.start();
        self.texts.clear();
        self.brought_back.clear();
        let mut new: Vec<Item> = segment.before.clone();
        for (number, turn) in segment.turns.iter().enumerate() {
            self.ledger.expect(&new);
            let results = new.iter().filter(|item| item.kind == Kind::Result);
            self.texts.extend(results.map(|item| (item.id, item.text.clone())));
            let view = policy.request(&new, number, &mut self.contents);
            let sent = self.ledger.account(view, &self.contents);
            observe(&Request {
                cause,
                number: self.recorded,
                first: number == 0,
                new: &new,
                view,
                shared: sent.shared,
                contents: &self.contents,
                sent: sent.chars,
                cached: sent.cached,
            });
            let missing = self.used(&turn.evidence);
            self.figures.responses_missing += u64::from(!missing.is_empty());
            if self.read_back && !missing.is_empty() {
                let items = self.bring_back(&missing, number.checked_sub(1), policy.rerun_cap());
                let read: Vec<ItemId> = missing.iter().map(|(item, ..)| *item).collect();
                let view = policy.request(&items, number, &mut self.contents);
                let sent = self.ledger.account(view, &self.contents);
                observe(&Request {
                    cause: Cause::ReadBack(&read),
                    number: self.recorded,
                    first: false,
                    new: &items,
                    view,
                    shared: sent.shared,
                    contents: &self.contents,
                    sent: sent.chars,
                    cached: sent.cached,
                });
            }
            self.recorded += 1;
            new.clear();
            new.extend(turn.response.iter().chain(&turn.after).cloned());
        }
    }

    /// Counts what a response used, and gives the identifiers that the view does not hold: by the
    /// result to read, whether it is read through a handle.
    fn used<'s>(&mut self, evidence: &'s [Evidence]) -> Vec<(ItemId, bool, Vec<&'s str>)> {
        let mut missing: Vec<(ItemId, bool, Vec<&str>)> = Vec::new();
        for used in evidence {
            let found = self.find(used);
            self.figures.evidence.count(found);
            if !used.identifier {
                continue;
            }
            self.figures.identifiers.count(found);
            if found.in_view {
                continue;
            }
            let (item, handle) = match (found.handle, used.results.last()) {
                (Some(item), _) => (item, true),
                (None, Some(&newest)) => (newest, false),
                (None, None) => continue,
            };
            match missing.iter_mut().find(|(i, h, _)| (*i, *h) == (item, handle)) {
                Some((.., tokens)) => tokens.push(&used.token),
                None => missing.push((item, handle, vec![&used.token])),
            }
        }
        missing
    }

    fn find(&self, used: &Evidence) -> Found {
        let mut found = Found::default();
        let token = used.token.as_bytes();
        for result in &used.results {
            if let Some(content) = self.ledger.result(*result, &self.contents) {
                if content.handle && !found.in_view {
                    found.handle = Some(*result);
                }
                if content.original {
                    return Found { in_view: true, with_line: true, ..found };
                }
                if memmem::find(content.text.as_bytes(), token).is_some() {
                    found.in_view = true;
                    let original = self.texts.get(result);
                    found.with_line |= !self.read_back
                        && original
                            .is_some_and(|text| shows_line(&content.text, text, &used.token));
                }
            }
            if found.handle.is_none() && self.ledger.covers(*result) {
                found.handle = Some(*result);
            }
            let mut brought_back = self.brought_back.get(result).into_iter().flatten();
            if brought_back.any(|id| {
                let content = self.ledger.result(*id, &self.contents);
                content
                    .is_some_and(|content| memmem::find(content.text.as_bytes(), token).is_some())
            }) {
                return Found { in_view: true, with_line: true, ..found };
            }
            if found.in_view && (found.with_line || self.read_back) {
                break;
            }
        }
        found
    }

    /// One more response, whose calls bring back what is missing, and their results.
    fn bring_back(
        &mut self,
        missing: &[(ItemId, bool, Vec<&str>)],
        turn: Option<usize>,
        rerun_cap: usize,
    ) -> Vec<Item> {
        let mut calls = Vec::new();
        let mut results = Vec::new();
        for (item, handle, tokens) in missing {
            let Some(whole) = self.texts.get(item) else { continue };
            let text: Arc<str> = if *handle || whole.chars().count() > rerun_cap {
                slices(whole, tokens.iter().copied()).into()
            } else {
                whole.clone()
            };
            let pattern = tokens.first().copied().unwrap_or_default();
            let call = format!(r#"{{"handle": "r{}", "pattern": "{pattern}"}}"#, item.0);
            self.next_id += 2;
            let id = self.next_id;
            let one = |id: u32, kind: Kind, text: Arc<str>| Item {
                id: ItemId(id),
                kind,
                chars: text.chars().count(),
                text,
                tool: "read_result".into(),
                args: "".into(),
                pair: Some(PairId(self.next_id)),
                turn,
                read_back: true,
            };
            calls.push(one(id, Kind::Call, call.into()));
            let result = one(id + 1, Kind::Result, text);
            self.figures.read_back_chars += result.chars as u64;
            self.brought_back.entry(*item).or_default().push(result.id);
            results.push(result);
        }
        self.figures.read_backs += 1;
        calls.extend(results);
        calls
    }
}

impl Segment {
    /// All items, in the order in which they stand in the history.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        let turns = self.turns.iter().flat_map(|turn| turn.response.iter().chain(&turn.after));
        self.before.iter().chain(turns)
    }
}

/// Compares each view with the one before. Only what changed costs time, but for one comparison
/// of names.
#[derive(Default)]
struct Ledger {
    traffic: Traffic,
    invalid: u64,
    view: Vec<ContentId>,
    /// Characters of the view up to and with each place.
    sums: Vec<u64>,
    results: HashMap<ItemId, ContentId>,
    /// Items that are not in view, by how many notes in view show a handle of them.
    covered: HashMap<ItemId, u32>,
    pairs: HashMap<PairId, Pair>,
    /// Pairs of which the view holds only one half.
    halves: usize,
}

/// What one request sends.
struct Sent {
    /// Contents that are those of the request before.
    shared: usize,
    chars: u64,
    cached: u64,
}

/// A call with its results.
#[derive(Default)]
struct Pair {
    calls: u32,
    results: u32,
    /// Which halves were recorded.
    has_call: bool,
    has_result: bool,
}

impl Pair {
    const fn is_half(&self) -> bool {
        self.has_call && self.has_result && (self.calls > 0) != (self.results > 0)
    }
}

impl Ledger {
    /// Notes which halves of a pair the history has.
    fn expect(&mut self, new: &[Item]) {
        for item in new {
            let Some(id) = item.pair else { continue };
            let pair = self.pairs.entry(id).or_default();
            let before = pair.is_half();
            match item.kind {
                Kind::Call => pair.has_call = true,
                Kind::Result => pair.has_result = true,
                Kind::System | Kind::User | Kind::Text => {}
            }
            self.halves = self.halves + usize::from(pair.is_half()) - usize::from(before);
        }
    }

    fn account(&mut self, view: &[ContentId], contents: &Contents) -> Sent {
        let shared = shared_prefix(&self.view, view);
        let at = |sums: &[u64], len: usize| len.checked_sub(1).map_or(0, |last| sums[last]);
        let cached = at(&self.sums, shared);
        if shared < self.view.len() {
            self.traffic.broken += 1;
            self.traffic.broken_chars += at(&self.sums, self.view.len()) - cached;
        }
        for id in self.view.drain(shared..) {
            let content = contents.get(id);
            if self.results.get(&content.item) == Some(&id) {
                self.results.remove(&content.item);
            }
            for item in &*content.covers {
                if let Some(notes) = self.covered.get_mut(item) {
                    *notes -= 1;
                }
            }
            let change = Self::pair_of(&mut self.pairs, content, |count| *count -= 1);
            self.halves = self.halves.wrapping_add_signed(change);
        }
        self.sums.truncate(shared);
        let mut sent = cached;
        for &id in &view[shared..] {
            let content = contents.get(id);
            sent += content.chars as u64;
            self.sums.push(sent);
            self.view.push(id);
            if content.kind == Kind::Result {
                self.results.insert(content.item, id);
            }
            for item in &*content.covers {
                *self.covered.entry(*item).or_default() += 1;
            }
            let change = Self::pair_of(&mut self.pairs, content, |count| *count += 1);
            self.halves = self.halves.wrapping_add_signed(change);
        }
        self.traffic.requests += 1;
        self.traffic.sent += sent;
        self.traffic.cached += cached;
        self.traffic.peak = self.traffic.peak.max(sent);
        self.invalid += u64::from(self.halves > 0);
        Sent { shared, chars: sent, cached }
    }

    /// Changes the count of a pair's half in view; gives the change in the number of half pairs.
    fn pair_of(
        pairs: &mut HashMap<PairId, Pair>,
        content: &Content,
        change: impl FnOnce(&mut u32),
    ) -> isize {
        let Some(id) = content.pair else { return 0 };
        let pair = pairs.entry(id).or_default();
        let before = pair.is_half();
        match content.kind {
            Kind::Call => change(&mut pair.calls),
            Kind::Result => change(&mut pair.results),
            Kind::System | Kind::User | Kind::Text => {}
        }
        isize::from(pair.is_half()) - isize::from(before)
    }

    fn covers(&self, item: ItemId) -> bool {
        self.covered.get(&item).is_some_and(|notes| *notes > 0)
    }

    fn result<'c>(&self, item: ItemId, contents: &'c Contents) -> Option<&'c Content> {
        self.results.get(&item).map(|&id| contents.get(id))
    }
}

fn shared_prefix(a: &[ContentId], b: &[ContentId]) -> usize {
    const BLOCK: usize = 1_024;
    let blocks = a.chunks_exact(BLOCK).zip(b.chunks_exact(BLOCK)).take_while(|(a, b)| a == b);
    let start = blocks.count() * BLOCK;
    start + a[start..].iter().zip(&b[start..]).take_while(|(a, b)| a == b).count()
}
