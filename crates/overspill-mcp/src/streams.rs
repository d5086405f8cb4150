//! The event streams of one HTTP session: which message goes on which, and what a client that
//! comes back has missed.
//!
//! Each request that is posted has a stream, on which its answer and what has to do with it
//! comes; one more, opened by the client, is for everything else. Events are kept for a while, so
//! that a stream that broke off can be taken up again.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use std::sync::Arc;
use std::time::Duration;

use crate::lane::{Lane, LaneEnd, STALL};
use crate::message::{INTERNAL, Id, Kind, Message, failure};
use crate::session::Outgoing;

/// How many bytes of events are kept for clients that come back.
const KEPT_BYTES: usize = 16 * 1024 * 1024;

/// How many events are kept; at least the newest, however big it is.
const KEPT: usize = 1_000;

/// The stream for what belongs to no request.
pub(crate) const GENERAL: u64 = 0;

/// How many KiB may wait for a slow client on one stream.
const WAITING: u32 = 16 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) stream: u64,
    pub(crate) number: u64,
    /// A message; empty for an event that only gives the client an id to come back with.
    pub(crate) text: String,
    /// Whether it answers a request.
    pub(crate) is_answer: bool,
}

impl Event {
    /// What the client knows it by.
    pub(crate) fn id(&self) -> String {
        format!("{}-{}", self.stream, self.number)
    }
}

/// The event that an id names: its stream, and its number there.
pub(crate) fn place(id: &str) -> Option<(u64, u64)> {
    let (stream, number) = id.split_once('-')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}

/// A stream.
#[derive(Debug, Default)]
struct Stream {
    /// The client at its other end, if there is one.
    to: Option<Arc<Lane<Event>>>,
    /// The requests it is to answer yet.
    waiting: HashSet<Id>,
    events: u64,
}

/// The event streams of one session.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: BTreeMap<u64, Stream>,
    by_request: HashMap<Id, u64>,
    opened: u64,
    kept: VecDeque<Event>,
    kept_bytes: usize,
    /// What came for nobody in particular while nobody listened.
    unheard: bool,
    /// Whether several clients share them: what is about none of their requests is nobody's.
    is_shared: bool,
}

/// What a client that comes back gets.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) missed: Vec<Event>,
    /// How many events came meanwhile that are no longer kept.
    pub(crate) lost: u64,
    /// What will come, if more will.
    pub(crate) coming: Option<LaneEnd<Event>>,
}

/// Where a message goes.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) event: Event,
    pub(crate) to: Option<Arc<Lane<Event>>>,
}

impl Streams {
    /// Without any yet.
    pub(crate) fn new(is_shared: bool) -> Self {
        Self { is_shared, ..Self::default() }
    }

    /// The way to a client. Where several share the session, none is waited for.
    fn lane(&self) -> (Arc<Lane<Event>>, LaneEnd<Event>) {
        let patience = if self.is_shared { Duration::ZERO } else { STALL };
        let (to, events) = Lane::new(WAITING, Some(patience));
        (Arc::new(to), events)
    }

    /// Opens the stream of requests that were posted together.
    pub(crate) fn open(&mut self, requests: impl IntoIterator<Item = Id>) -> (u64, LaneEnd<Event>) {
        self.opened += 1;
        let (to, events) = self.lane();
        let waiting: HashSet<Id> = requests.into_iter().collect();
        for id in &waiting {
            self.by_request.insert(id.clone(), self.opened);
        }
        self.streams.insert(self.opened, Stream { to: Some(to), waiting, events: 0 });
        (self.opened, events)
    }

    /// Opens the stream for everything else, in the place of one that is open already: a client
    /// whose connection broke is not known to be gone. What nobody has heard comes first.
    pub(crate) fn listen(&mut self) -> (Vec<Event>, LaneEnd<Event>) {
        let (to, events) = self.lane();
        self.streams.entry(GENERAL).or_default().to = Some(to);
        let missed = match std::mem::take(&mut self.unheard) {
            true => self.since(GENERAL, 0),
            false => Vec::new(),
        };
        (missed, events)
    }

    /// Takes up a stream behind an event; `None` where nothing is known of it any more.
    pub(crate) fn resume(&mut self, stream: u64, after: u64) -> Option<Resumed> {
        let is_open = self.streams.contains_key(&stream);
        if !is_open && self.kept.iter().all(|event| event.stream != stream) {
            return None;
        }
        let missed = self.since(stream, after);
        // Those of one stream are numbered without gaps, and the oldest go first.
        let next = match missed.first() {
            Some(first) => first.number,
            None => self.streams.get(&stream).map_or(after, |held| held.events).saturating_add(1),
        };
        let lost = next.saturating_sub(after.saturating_add(1));
        if stream == GENERAL {
            self.unheard = false;
            let coming = Some(self.listen().1);
            return Some(Resumed { missed, lost, coming });
        }
        let (to, events) = self.lane();
        let coming = self.streams.get_mut(&stream).map(|held| {
            held.to = Some(to);
            events
        });
        Some(Resumed { missed, lost, coming })
    }

    /// Ends a stream whose client does not read; it can come back for what it has missed.
    pub(crate) fn cut(&mut self, stream: u64) {
        if let Some(held) = self.streams.get_mut(&stream) {
            held.to = None;
        }
    }

    fn since(&self, stream: u64, after: u64) -> Vec<Event> {
        let is_missed = |event: &&Event| event.stream == stream && event.number > after;
        self.kept.iter().filter(is_missed).cloned().collect()
    }

    /// Says where a message goes; `None` where there is none.
    pub(crate) fn route(&mut self, outgoing: Outgoing) -> Option<Delivery> {
        let (text, answers, related) = match outgoing {
            Outgoing::Message { text, answers, related, .. } => (text, answers, related),
            Outgoing::Abandoned(id) => {
                self.done(&id);
                return None;
            }
            Outgoing::Settled(settled) => {
                // Whoever waited may have given up.
                let _ = settled.send(());
                return None;
            }
        };
        let of = |id: Option<&Id>| id.and_then(|id| self.by_request.get(id).copied());
        let stream = of(answers.as_ref()).or_else(|| of(related.as_ref())).unwrap_or_else(|| {
            let is_heard = |stream: &Stream| stream.to.as_ref().is_some_and(|to| !to.is_closed());
            if self.streams.get(&GENERAL).is_some_and(is_heard) {
                return GENERAL;
            }
            if self.is_shared {
                return GENERAL;
            }
            // A server's own request must reach the client, whatever it is about.
            let heard = self.streams.iter().rev().find(|(_, stream)| is_heard(stream));
            heard.map_or(GENERAL, |(stream, _)| *stream)
        });
        let held = self.streams.entry(stream).or_default();
        held.events += 1;
        let event = Event { stream, number: held.events, text, is_answer: answers.is_some() };
        let to = held.to.clone();
        self.unheard |= stream == GENERAL && to.as_ref().is_none_or(|to| to.is_closed());
        self.keep(event.clone());
        if let Some(id) = answers {
            self.done(&id);
        }
        Some(Delivery { event, to })
    }

    /// The requests of a stream that are not answered yet.
    pub(crate) fn unanswered(&self, stream: u64) -> Vec<Id> {
        let held = self.streams.get(&stream);
        held.into_iter().flat_map(|held| held.waiting.iter().cloned()).collect()
    }

    /// A request that nothing more comes for; a stream without any ends.
    fn done(&mut self, id: &Id) {
        let Some(stream) = self.by_request.remove(id) else { return };
        if let Some(held) = self.streams.get_mut(&stream) {
            held.waiting.remove(id);
            if held.waiting.is_empty() {
                self.streams.remove(&stream);
            }
        }
    }

    /// Keeps an event for whoever comes back. Of an answer that is too much to keep it is kept that
    /// there was one: nobody may wait for it for good.
    fn keep(&mut self, event: Event) {
        self.kept_bytes += event.text.len();
        self.kept.push_back(event);
        let mut oldest = 0;
        while self.kept_bytes > KEPT_BYTES && oldest + 1 < self.kept.len() {
            let event = &mut self.kept[oldest];
            self.kept_bytes -= event.text.len();
            match event.is_answer.then(|| no_longer_kept(&event.text)).flatten() {
                Some(short) => {
                    self.kept_bytes += short.len();
                    event.text = short;
                    oldest += 1;
                }
                None => {
                    self.kept.remove(oldest);
                }
            }
        }
        while self.kept.len() > KEPT {
            if let Some(gone) = self.kept.pop_front() {
                self.kept_bytes -= gone.text.len();
            }
        }
    }

    /// Whether somebody listens.
    pub(crate) fn is_used(&self) -> bool {
        self.streams.values().any(|stream| stream.to.as_ref().is_some_and(|to| !to.is_closed()))
    }
}

/// What stands for an answer that is no longer kept.
fn no_longer_kept(text: &str) -> Option<String> {
    let message = Message::one(text.to_owned()).ok()?;
    let Kind::Response { id: Some(id) } = message.kind() else { return None };
    let what = "The answer came while the connection was broken, and is no longer kept; ask again";
    Some(failure(id, INTERNAL, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str, answers: Option<&str>) -> Outgoing {
        let answers = answers.map(Id::text);
        Outgoing::Message { text: text.to_owned(), answers, related: None, long: None }
    }

    #[test]
    fn an_answer_comes_on_the_stream_of_its_request_and_ends_it() {
        let mut streams = Streams::default();
        let (_, first) = streams.open([Id::text("a")]);
        let second = streams.open([Id::text("b")]);
        let delivery = streams.route(message("x", Some("a"))).unwrap();
        assert_eq!((delivery.event.stream, delivery.event.number), (1, 1));
        drop(delivery);
        assert!(first.is_closed());
        assert!(streams.is_used());
        drop(second);
        // Whoever asked is gone, and nobody may come back.
        assert!(!streams.is_used());
    }

    #[test]
    fn what_is_about_nothing_goes_to_whoever_listens() {
        let mut streams = Streams::default();
        assert_eq!(streams.route(message("lost?", None)).unwrap().event.stream, GENERAL);
        let _post = streams.open([Id::text("a")]);
        assert_eq!(streams.route(message("y", None)).unwrap().event.stream, 1);
        let (missed, _events) = streams.listen();
        assert_eq!(missed.iter().map(|event| event.text.as_str()).collect::<Vec<_>>(), ["lost?"]);
        assert_eq!(streams.route(message("z", None)).unwrap().event.stream, GENERAL);
    }

    #[test]
    fn a_client_that_comes_back_gets_what_it_missed() {
        let mut streams = Streams::default();
        drop(streams.open([Id::text("a")]));
        let related = Some(Id::text("a"));
        for text in ["1", "2", "3"] {
            let outgoing = Outgoing::Message {
                text: text.to_owned(),
                answers: None,
                related: related.clone(),
                long: None,
            };
            streams.route(outgoing);
        }
        let resumed = streams.resume(1, 1).unwrap();
        assert_eq!(resumed.missed.iter().map(Event::id).collect::<Vec<_>>(), ["1-2", "1-3"]);
        assert_eq!((resumed.lost, resumed.coming.is_some()), (0, true));
        streams.route(message("answer", Some("a")));
        let resumed = streams.resume(1, 3).unwrap();
        assert_eq!(resumed.missed[0].text, "answer");
        assert_eq!((resumed.lost, resumed.coming.is_some()), (0, false));
        assert!(streams.resume(2, 0).is_none());
    }

    #[test]
    fn what_is_not_kept_is_missed_in_silence_by_nobody() {
        let mut streams = Streams::default();
        let clients = [streams.open([Id::text("a")]), streams.open([Id::text("b")])];
        drop(clients);
        let big = "x".repeat(KEPT_BYTES);
        let answer = format!(r#"{{"jsonrpc":"2.0","id":"a","result":"{big}"}}"#);
        let progress = |text: &str| Outgoing::Message {
            text: text.to_owned(),
            answers: None,
            related: Some(Id::text("b")),
            long: None,
        };
        streams.route(message(&answer, Some("a")));
        streams.route(progress(&big));
        streams.route(progress("newest"));
        // The answer is too much to keep, but that it came is kept.
        let resumed = streams.resume(1, 0).unwrap();
        let [event] = resumed.missed.as_slice() else { panic!("{resumed:?}") };
        assert!(event.text.contains(r#""id":"a""#) && event.text.contains("no longer kept"));
        assert!(resumed.coming.is_none());
        let resumed = streams.resume(2, 0).unwrap();
        assert_eq!((resumed.missed.len(), resumed.lost), (1, 1));
        assert!(streams.kept_bytes <= KEPT_BYTES);
    }

    #[test]
    fn a_stream_that_nobody_reads_is_cut_and_taken_up_again() {
        let mut streams = Streams::default();
        let (stream, mut events) = streams.open([Id::text("a")]);
        streams.cut(stream);
        assert!(events.try_recv().is_err());
        let delivery = streams.route(message("answer", Some("a"))).unwrap();
        assert!(delivery.to.is_none());
        assert_eq!(streams.resume(stream, 0).unwrap().missed[0].text, "answer");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut streams = Streams::default();
        for i in 0..3_000 {
            streams.route(message(&"x".repeat(i), None));
        }
        assert!(streams.kept.len() <= KEPT);
        streams.route(message(&"x".repeat(2 * KEPT_BYTES), None));
        assert_eq!(streams.kept.len(), 1);
    }
}
