//! What would make a provider refuse a history?

use thiserror::Error;

use super::{History, Remainder, ReturnPlace};
use crate::entry::{EntryId, Kind, MessageId, Role};

/// One reason for which a provider would refuse the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing is left.
    #[error("no message is left")]
    Empty,
    /// The first message is not the user's.
    #[error("message {} is the first and is not the user's", .0.0)]
    UserNotFirst(MessageId),
    /// A return whose call is not there.
    #[error("entry {} is a return without its call", .0.0)]
    OrphanReturn(EntryId),
    /// A call that is not answered although the conversation went on.
    #[error("entry {} is a call without its return", .0.0)]
    UnansweredCall(EntryId),
    /// A return that does not stand where the format wants it.
    #[error("entry {} is a return that does not follow its response directly", .0.0)]
    MisplacedReturn(EntryId),
    /// Two responses of the model in a row.
    #[error("message {} is a response right after another response", .0.0)]
    ResponseAfterResponse(MessageId),
    /// Nothing is left for the model to answer.
    #[error("the history ends with a response")]
    EndsWithResponse,
}

/// Walks what survives once, in order.
pub(super) fn faults(history: &History<'_>, left: &Remainder) -> Vec<Fault> {
    let mut walk = Walk { history, left, faults: Vec::new(), place: Place::Start, last: None };
    for (m, message) in history.messages.iter().enumerate() {
        if left.note_before[m] {
            walk.note();
        }
        if left.gone[m] {
            continue;
        }
        match message.role {
            Role::System => walk.instructions(m),
            Role::Assistant => walk.response(m),
            Role::User | Role::Tool => walk.host(m),
        }
    }
    if left.note_before[history.messages.len()] {
        walk.note();
    }
    walk.end()
}

struct Walk<'w, 'a> {
    history: &'w History<'a>,
    left: &'w Remainder,
    faults: Vec<Fault>,
    place: Place,
    /// The turn of the last response, and its first call that is still open.
    last: Option<usize>,
}

/// Where in the conversation the walk stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the first message that is no instruction.
    Start,
    /// Right after a response; its returns are due.
    Response,
    /// Among the returns of the last response.
    Returns,
    /// After something else that the host said.
    Host,
}

impl Walk<'_, '_> {
    fn note(&mut self) {
        self.place = Place::Host;
    }

    fn instructions(&mut self, _message: usize) {
        if self.place != Place::Start {
            self.place = Place::Host;
        }
    }

    fn response(&mut self, m: usize) {
        let history = self.history;
        let id = MessageId(m);
        let turn = history.messages[m]
            .entry_ids()
            .next()
            .and_then(|entry| history.turn_of(entry))
            .map(|turn| turn.0);
        let same = turn.is_some() && turn == self.last;
        if self.place == Place::Start && history.rules.user_first {
            self.faults.push(Fault::UserNotFirst(id));
        }
        if self.place == Place::Response && history.rules.responses_apart && !same {
            self.faults.push(Fault::ResponseAfterResponse(id));
        }
        (self.place, self.last) = (Place::Response, turn);
    }

    fn host(&mut self, m: usize) {
        let history = self.history;
        let message = &history.messages[m];
        let mut answers = false;
        for entry in message.entry_ids().filter(|entry| !self.left.dropped[entry.0]) {
            if !history.entries[entry.0].is_return() {
                // Other content between a response and its returns is a fault of the returns
                // only where they have to come first.
                if history.rules.returns == ReturnPlace::NextAndFirst {
                    self.place = Place::Host;
                }
                continue;
            }
            match history.call_of(entry).filter(|call| !self.left.dropped[call.0]) {
                None if history.rules.continues => {}
                None => self.faults.push(Fault::OrphanReturn(entry)),
                Some(call) => {
                    let due = matches!(self.place, Place::Response | Place::Returns)
                        && history.turn_of(call).map(|turn| turn.0) == self.last;
                    if history.rules.returns != ReturnPlace::Anywhere && !due {
                        self.faults.push(Fault::MisplacedReturn(entry));
                    }
                    answers |= due;
                }
            }
        }
        if !(answers && self.place != Place::Host) {
            self.place = Place::Host;
        } else {
            self.place = Place::Returns;
        }
    }

    fn end(mut self) -> Vec<Fault> {
        let history = self.history;
        for (at, entry) in history.entries.iter().enumerate() {
            let answered =
                history.return_of(EntryId(at)).is_some_and(|answer| !self.left.dropped[answer.0]);
            // The last response may still wait for its returns.
            let waits = matches!(self.place, Place::Response | Place::Returns)
                && history.turn_of(EntryId(at)).map(|turn| turn.0) == self.last;
            if matches!(entry.kind, Kind::Call { .. })
                && !self.left.dropped[at]
                && !answered
                && !waits
            {
                self.faults.push(Fault::UnansweredCall(EntryId(at)));
            }
        }
        match self.place {
            Place::Start => self.faults.push(Fault::Empty),
            Place::Response => self.faults.push(Fault::EndsWithResponse),
            Place::Returns | Place::Host => {}
        }
        self.faults
    }
}
