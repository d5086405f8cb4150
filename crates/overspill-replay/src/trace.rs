//! What a policy did along a session: the size of each request, what it was made of, and what
//! became of the biggest results.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use crate::contents::{Content, ContentId};
use crate::figures::{Cause, Request};
use crate::session::{ItemId, Kind};

/// What stands in view for a result and has no more characters than this is a marker: there is no
/// room in it for an excerpt beside the handle and the line that says what it is.
const MARKER: usize = 400;

/// Characters of a call's arguments that are kept to tell what a result is of.
const ARGS: usize = 160;

/// What a piece of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Instructions.
    System,
    /// Words of the user.
    User,
    /// Words of the model, its thinking included.
    Words,
    /// Arguments of calls, what is left of stored ones included.
    Arguments,
    /// Results that are whole.
    Whole,
    /// Results of which slices are in view.
    Excerpt,
    /// Results of which only a marker is in view.
    Marker,
    /// What a policy put there itself, as a summary or the handle of what it dropped.
    Note,
}

impl Part {
    /// All parts, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::System,
        Self::User,
        Self::Words,
        Self::Arguments,
        Self::Whole,
        Self::Excerpt,
        Self::Marker,
        Self::Note,
    ];

    fn of(content: &Content) -> Self {
        match content.kind {
            _ if content.note => Self::Note,
            Kind::System => Self::System,
            Kind::User => Self::User,
            Kind::Text => Self::Words,
            Kind::Call => Self::Arguments,
            Kind::Result if content.original => Self::Whole,
            Kind::Result if content.chars <= MARKER => Self::Marker,
            Kind::Result => Self::Excerpt,
        }
    }
}

/// Characters by what they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts([u64; Part::ALL.len()]);

impl Parts {
    /// Those of one part.
    #[must_use]
    pub const fn of(&self, part: Part) -> u64 {
        self.0[part as usize]
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl std::ops::AddAssign for Parts {
    fn add_assign(&mut self, other: Self) {
        for (sum, one) in self.0.iter_mut().zip(other.0) {
            *sum += one;
        }
    }
}

/// How a result stands in a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// As it was recorded.
    Whole,
    /// Slices of it.
    Excerpt,
    /// Only a marker.
    Marker,
    /// Not at all.
    Gone,
}

/// What became of one result.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TracedResult {
    /// The name of the tool.
    pub tool: Arc<str>,
    /// The beginning of the call's arguments.
    pub args: String,
    /// Its characters.
    pub chars: usize,
    /// From which request on it stood how in view, and with how many characters.
    pub stages: Vec<(usize, Stage, usize)>,
    /// The first request that it was no part of, because the agent itself started anew or the
    /// session ended.
    pub end: usize,
    /// The requests before which the model reads of it what it no longer sees.
    pub read_back: Vec<usize>,
}

/// What a policy did along a session.
///
/// ```
/// use overspill_replay::{HeadTail, Trace, evaluate_with, read};
///
/// # let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
/// # let path = folder.join("claude_code.jsonl");
/// for session in read(&path)? {
///     let mut trace = Trace::default();
///     let figures =
///         evaluate_with(&session, &mut HeadTail::over(2_000), |request| trace.observe(request));
///     assert_eq!(trace.sizes().iter().sum::<u64>(), figures.traffic.sent);
///     assert_eq!(trace.parts().total(), figures.traffic.sent);
/// }
/// # Ok::<(), overspill_replay::ReadError>(())
/// ```
#[derive(Debug, Default)]
pub struct Trace {
    sizes: Vec<u64>,
    starts: Vec<usize>,
    parts: Parts,
    results: Vec<(ItemId, TracedResult)>,
    places: HashMap<ItemId, usize>,
    /// The last view, with the sums of its parts up to and with each place.
    view: Vec<(ContentId, ItemId, Parts)>,
}

impl Trace {
    /// Notes a request.
    pub fn observe(&mut self, request: &Request<'_>) {
        match request.cause {
            Cause::Recorded => self.recorded(request),
            Cause::RecordedAgain => {}
            Cause::ReadBack(results) => {
                for result in results {
                    if let Some(&place) = self.places.get(result) {
                        self.results[place].1.read_back.push(request.number);
                    }
                }
            }
        }
    }

    /// Characters of each recorded request.
    #[must_use]
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// The requests before which the agent itself had made its history smaller.
    #[must_use]
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// What all requests together were made of.
    #[must_use]
    pub const fn parts(&self) -> Parts {
        self.parts
    }

    /// The biggest results, biggest first.
    #[must_use]
    pub fn biggest(&self, count: usize) -> Vec<TracedResult> {
        let mut results: Vec<&TracedResult> = self.results.iter().map(|(_, one)| one).collect();
        results.sort_by_key(|result| std::cmp::Reverse(result.chars));
        results.truncate(count);
        let ended = |result: &&TracedResult| TracedResult {
            end: result.end.min(self.sizes.len()),
            ..(*result).clone()
        };
        results.iter().map(ended).collect()
    }

    fn recorded(&mut self, request: &Request<'_>) {
        let number = request.number;
        for item in request.new.iter().filter(|item| item.kind == Kind::Result) {
            self.places.entry(item.id).or_insert_with(|| {
                let result = TracedResult {
                    tool: item.tool.clone(),
                    args: item.args.chars().take(ARGS).collect(),
                    chars: item.chars,
                    stages: Vec::new(),
                    end: usize::MAX,
                    read_back: Vec::new(),
                };
                self.results.push((item.id, result));
                self.results.len() - 1
            });
        }
        let left: Vec<ItemId> =
            self.view.drain(request.shared..).map(|(_, item, _)| item).collect();
        let mut sum = self.view.last().map_or(Parts::default(), |(.., sum)| *sum);
        let mut here = HashSet::new();
        for &id in &request.view[request.shared..] {
            let content = request.contents.get(id);
            let part = Part::of(content);
            sum.0[part as usize] += content.chars as u64;
            self.view.push((id, content.item, sum));
            here.insert(content.item);
            let stage = match part {
                Part::Whole => Stage::Whole,
                Part::Excerpt => Stage::Excerpt,
                Part::Marker => Stage::Marker,
                Part::System | Part::User | Part::Words | Part::Arguments | Part::Note => continue,
            };
            self.stage(content.item, number, stage, content.chars);
        }
        for item in left {
            if here.contains(&item) {
                continue;
            }
            match self.places.get(&item) {
                Some(&place) if request.first => self.results[place].1.end = number,
                Some(_) => self.stage(item, number, Stage::Gone, 0),
                None => {}
            }
        }
        if request.first && number > 0 {
            self.starts.push(number);
        }
        self.sizes.push(request.sent);
        self.parts += sum;
    }

    /// Notes how a result stands in view now, if that is new.
    fn stage(&mut self, item: ItemId, number: usize, stage: Stage, chars: usize) {
        let Some(&place) = self.places.get(&item) else { return };
        let stages = &mut self.results[place].1.stages;
        if stages.last().is_none_or(|last| (last.1, last.2) != (stage, chars)) {
            stages.push((number, stage, chars));
        }
    }
}
