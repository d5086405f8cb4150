//! A client's session over HTTP, or that of all clients without one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::json::{Edits, Members};
use crate::lane::{Lane, LaneEnd, ROOM};
use crate::long::Long;
use crate::message::{Id, Kind, Message, cancelled};
use crate::proxy::{Opened, Proxy};
use crate::revision;
use crate::session::{Outgoing, Session};
use crate::streams::{Delivery, Streams};

/// How long what was said last may take to reach the streams.
const GRACE: Duration = Duration::from_secs(2);

/// A client's session over HTTP.
pub(crate) struct Guest {
    pub(crate) session: Arc<Session>,
    opened: Mutex<Option<Opened>>,
    streams: Mutex<Streams>,
    used: Mutex<Instant>,
    /// The clients' own ids of requests, where several clients share the session.
    shared: Option<Mutex<Shared>>,
}

/// Requests of clients that share a session, under ids that no other client's request has.
#[derive(Debug, Default)]
struct Shared {
    asked: HashMap<Id, Asked>,
    next: u64,
}

/// What a request had before.
#[derive(Debug, Clone)]
struct Asked {
    id: Id,
    token: Option<Id>,
}

impl Asked {
    /// A message that came of the request, as the client knows it.
    fn led_back(&self, known: &Id, message: &Message) -> String {
        let body = message.result().unwrap_or(message.params());
        let members = Members::of(body).unwrap_or_default();
        let is_known = |raw: &&str| Id::of(raw) == *known;
        let mut edits = Edits::default();
        if let Some(raw) = revision::subscription(&members).filter(is_known) {
            edits.replace_part(message.text(), raw, self.id.as_json());
        }
        let token = members.some("progressToken").filter(is_known);
        if let (Some(raw), Some(token)) = (token, &self.token) {
            edits.replace_part(message.text(), raw, token.as_json());
        }
        let text = edits.apply(message.text());
        match (message.kind(), Message::one(text)) {
            (Kind::Response { .. }, Ok(message)) => message.with_id(&self.id),
            (_, Ok(message)) => message.into_text(),
            // What was a message is one still.
            (_, Err(_)) => message.text().to_owned(),
        }
    }
}

/// A client without a session that waits for answers: nobody comes back for them, so what is
/// unanswered when it goes is cancelled.
pub(crate) struct Waiting {
    pub(crate) guest: Arc<Guest>,
    pub(crate) stream: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let unanswered = self.guest.streams().unanswered(self.stream);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if unanswered.is_empty() {
            return;
        }
        let guest = Arc::clone(&self.guest);
        runtime.spawn(async move {
            for id in unanswered {
                guest.cancel(&id).await;
            }
        });
    }
}

impl Guest {
    pub(crate) fn open(proxy: &Proxy, is_shared: bool) -> Arc<Self> {
        let (client, outgoing) = Lane::new(ROOM, None);
        let opened = proxy.open(client, is_shared);
        let guest = Arc::new(Self {
            session: Arc::clone(&opened.session),
            opened: Mutex::new(Some(opened)),
            streams: Mutex::new(Streams::new(is_shared)),
            used: Mutex::new(Instant::now()),
            shared: is_shared.then(Mutex::default),
        });
        tokio::spawn(deliver(Arc::downgrade(&guest), outgoing));
        guest
    }

    pub(crate) fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// How long nobody has used it.
    pub(crate) fn idle(&self) -> Duration {
        if self.streams().is_used() {
            return Duration::ZERO;
        }
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    pub(crate) async fn close(&self) {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(opened) = opened {
            // Nobody is left to hear of what takes long.
            let hurry = CancellationToken::new();
            hurry.cancel();
            opened.close(&hurry).await;
            // What was said last is still on its way to the streams.
            let _ = timeout(GRACE, self.session.passed_on()).await;
        }
        // Whoever still listens has heard everything.
        *self.streams() = Streams::new(self.shared.is_some());
    }

    /// The message under an id, and with a token of progress, that no other client's has, where the
    /// session is shared.
    pub(crate) fn told_apart(&self, message: Message) -> Message {
        let (Some(shared), Some(id)) = (&self.shared, message.request_id()) else {
            return message;
        };
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.next += 1;
        let known = Id::text(&format!("overspill:client:{}", shared.next));
        let params = Members::of(message.params()).unwrap_or_default();
        let meta = params.object("_meta").unwrap_or_default();
        let token = meta.some("progressToken");
        let mut edits = Edits::default();
        if let Some(token) = token {
            edits.replace_part(message.text(), token, known.as_json());
        }
        let text = edits.apply(message.text());
        let renamed = Message::one(text).and_then(|message| Message::one(message.with_id(&known)));
        let asked = Asked { id, token: token.map(Id::of) };
        match renamed {
            Ok(renamed) => {
                shared.asked.insert(known, asked);
                renamed
            }
            Err(_) => message,
        }
    }

    /// Nobody waits for the answer to a request any more.
    async fn cancel(&self, id: &Id) {
        if let Some(shared) = &self.shared {
            shared.lock().unwrap_or_else(PoisonError::into_inner).asked.remove(id);
        }
        let notification = Message::one(cancelled(id, "the client is gone"));
        if let Ok(notification) = notification {
            self.session.client_sent(notification).await;
        }
    }

    /// The text with all that its strings stand for: an event is sent in one piece.
    fn whole(&self, text: String, long: Option<Arc<Long>>) -> String {
        let Some(long) = long else { return text };
        long.whole(&text).unwrap_or_else(|error| {
            self.session.log().say(&format!("a long message cannot be read from disk: {error}"));
            text
        })
    }

    /// What came of a request, as the client knows it, where the session is shared.
    fn led_back(&self, text: String, answers: Option<&Id>, related: Option<&Id>) -> String {
        let (Some(shared), Some(known)) = (&self.shared, answers.or(related)) else { return text };
        let asked = {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            match answers {
                Some(_) => shared.asked.remove(known),
                None => shared.asked.get(known).cloned(),
            }
        };
        match (asked, Message::one(text.clone())) {
            (Some(asked), Ok(message)) => asked.led_back(known, &message),
            _ => text,
        }
    }

    /// Gives an event to the client. One that does not read is waited for, unless others would wait
    /// with it; then its stream ends, and it can come back for what it missed.
    async fn give(&self, Delivery { event, to }: Delivery) {
        let Some(to) = to else { return };
        let (stream, bytes) = (event.stream, event.text.len());
        if to.send(event, bytes).await.is_err() {
            self.session.log().say("a client does not read what it is sent; its stream is ended");
            self.streams().cut(stream);
        }
    }
}

/// Puts what the client gets on its streams.
async fn deliver(guest: Weak<Guest>, mut outgoing: LaneEnd<Outgoing>) {
    while let Some((mut next, _room)) = outgoing.recv().await {
        let Some(guest) = guest.upgrade() else { return };
        if let Outgoing::Message { text, answers, related, long } = &mut next {
            let whole = guest.whole(std::mem::take(text), long.take());
            *text = guest.led_back(whole, answers.as_ref(), related.as_ref());
        }
        let delivery = guest.streams().route(next);
        if let Some(delivery) = delivery {
            guest.give(delivery).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_a_request_bears_what_the_client_gave_it() {
        let known = Id::text("overspill:client:7");
        let asked = Asked { id: Id::of("1.0"), token: Some(Id::of("\"t\"")) };
        let back = |text: &str| {
            let message = Message::one(text.to_owned()).unwrap();
            asked.led_back(&known, &message)
        };
        let subscription = r#""_meta":{"io.modelcontextprotocol/subscriptionId":"#;
        for (text, expected) in [
            (
                r#"{"id":"overspill:client:7","result":{"x":1e2}}"#.to_owned(),
                r#"{"id":1.0,"result":{"x":1e2}}"#.to_owned(),
            ),
            (
                r#"{"method":"notifications/progress","params":{"progressToken":"overspill:client:7"}}"#
                    .to_owned(),
                r#"{"method":"notifications/progress","params":{"progressToken":"t"}}"#.to_owned(),
            ),
            (
                format!(r#"{{"method":"m","params":{{{subscription}"overspill:client:7"}}}}}}"#),
                format!(r#"{{"method":"m","params":{{{subscription}1.0}}}}}}"#),
            ),
            (
                format!(
                    r#"{{"id":"overspill:client:7","result":{{{subscription}"overspill:client:7"}}}}}}"#
                ),
                format!(r#"{{"id":1.0,"result":{{{subscription}1.0}}}}}}"#),
            ),
            (
                r#"{"method":"m","params":{"progressToken":"another"}}"#.to_owned(),
                r#"{"method":"m","params":{"progressToken":"another"}}"#.to_owned(),
            ),
        ] {
            assert_eq!(back(&text), expected);
        }
    }
}
