//! A server over streamable HTTP: each message is posted, answers come as JSON or as events.

mod said;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use futures_util::TryStreamExt;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use tokio::io::AsyncBufRead;
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::io::StreamReader;

use crate::events::{Event, Events};
use crate::json::Members;
use crate::lane::{LaneEnd, Room};
use crate::lines::{self, Ends, Line};
use crate::message::{INITIALIZED, Id, Kind, Message, NotAMessage};
use crate::revision;
use crate::router::Mark;
use crate::server::{Secret, shown};
use crate::session::{Session, ToServer};

pub(crate) use said::check;
use said::{IS_IT_MCP, LOOKED_AT};

/// How long what is under way may take when the session ends.
const GRACE: Duration = Duration::from_secs(2);

/// How long a server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(20);

/// How long a server may take to accept what wants no answer.
const ACCEPTED: Duration = Duration::from_secs(30);

/// What is waited before a stream is opened again, unless the server says how long; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// What is waited at most.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// How often the stream of an answer is opened again without anything new on it.
const TRIES: u32 = 5;

/// How often a request goes on to where it is sent.
const REDIRECTS: u32 = 5;

/// A stream that lasted so long was a good one.
const LASTED: Duration = Duration::from_secs(10);

const EVENTS: &str = "text/event-stream";

/// A server over HTTP, in one session.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) session: Arc<Session>,
    pub(crate) server: usize,
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) token: Option<Secret>,
    pub(crate) headers: Vec<(String, Secret)>,
    pub(crate) client: Client,
    pub(crate) link: Mutex<Link>,
    /// Held by whoever opens the session again.
    pub(crate) opening: tokio::sync::Mutex<()>,
    /// Says that there is a session to listen to.
    pub(crate) is_open: Notify,
}

/// What the server said when the session was opened.
#[derive(Debug, Default)]
pub(crate) struct Link {
    session_id: Option<String>,
    version: Option<String>,
    initialize: Option<String>,
    /// How often it was opened.
    opened: u64,
    /// Whether the server has forgotten the session, and it is not open again.
    is_forgotten: bool,
}

/// How far an event stream has been read.
#[derive(Debug, Default)]
struct Progress {
    last_id: Option<String>,
    retry: Option<Duration>,
    answered: bool,
}

/// The client for every session of a proxy.
pub(crate) fn client() -> Result<Client, reqwest::Error> {
    // Another part of the program may have chosen one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .user_agent(concat!("overspill/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        // See `send`.
        .redirect(Policy::none())
        .build()
}

impl Connector {
    /// Passes on what comes until the session ends.
    pub(crate) async fn keep(self, mut queue: LaneEnd<ToServer>) {
        let connector = Arc::new(self);
        let closing = connector.session.closing.clone();
        let mut under_way: JoinSet<Option<Id>> = JoinSet::new();
        // What wants no answer goes one after another, and holds up nothing that does.
        let (tell, mut told) = mpsc::unbounded_channel::<(Message, Option<Room>)>();
        let teller = Arc::clone(&connector);
        under_way.spawn(async move {
            while let Some((message, _)) = told.recv().await {
                teller.tell(&message).await;
            }
            None
        });
        let listener = Arc::clone(&connector);
        under_way.spawn(async move {
            listener.listen().await;
            None
        });
        // The calls that are under way, so that one that is cancelled ends.
        let mut calls: HashMap<Id, AbortHandle> = HashMap::new();
        loop {
            let next = tokio::select! {
                biased;
                next = queue.recv() => next,
                Some(done) = under_way.join_next() => {
                    if let Ok(Some(id)) = done && calls.get(&id).is_some_and(AbortHandle::is_finished) {
                        calls.remove(&id);
                    }
                    continue;
                }
                () = closing.cancelled() => None,
            };
            let Some((ToServer { text, mark }, room)) = next else { break };
            let message = match Message::one(text) {
                Ok(message) => message,
                Err(error) => {
                    connector.session.log().say(&error.to_string());
                    continue;
                }
            };
            match (mark, message.kind().clone()) {
                (Mark::Initialize, _) => {
                    connector.link().initialize = Some(message.text().to_owned());
                    let connector = Arc::clone(&connector);
                    under_way.spawn(async move {
                        connector.open(message, room).await;
                        None
                    });
                }
                // A server is initialized before it is asked anything.
                (Mark::Initialized, _) => {
                    connector.tell(&message).await;
                    connector.is_open.notify_one();
                }
                (_, Kind::Request { id, .. }) => {
                    let connector = Arc::clone(&connector);
                    let of = id.clone();
                    let call = under_way.spawn(async move {
                        connector.ask(message, room).await;
                        Some(of)
                    });
                    calls.insert(id, call);
                }
                _ => {
                    // What would still come is wanted by nobody; without sessions, that its stream
                    // ends is what tells the server.
                    if let Some(call) = message.cancels().and_then(|id| calls.remove(&id)) {
                        call.abort();
                    }
                    // It is there as long as this runs.
                    let _ = tell.send((message, room));
                }
            }
        }
        drop(tell);
        // Those that wait for events end with the session; answers may still come.
        let _ = timeout(GRACE, async { while under_way.join_next().await.is_some() {} }).await;
        under_way.shutdown().await;
        connector.hang_up().await;
    }

    /// Opens the session, and tries again where several servers are one and this one is not there.
    async fn open(&self, message: Message, room: Option<Room>) {
        self.ask(message, room).await;
        let mut tries = 0;
        while self.link().opened == 0 && self.session.reopens(self.server) {
            tries += 1;
            tokio::select! {
                () = tokio::time::sleep(wait(tries)) => {}
                () = self.session.closing.cancelled() => return,
            }
            // Why it is not there has been said.
            let _ = self.reopen(0).await;
        }
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request, of the session where there is one for it.
    fn request(&self, method: Method, is_of_session: bool) -> RequestBuilder {
        let mut request = self.client.request(method, &self.url);
        for (name, value) in &self.headers {
            request = request.header(name, value.reveal());
        }
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.reveal()));
        }
        let link = self.link();
        if !is_of_session {
            return request;
        }
        if let Some(id) = &link.session_id {
            request = request.header("Mcp-Session-Id", id);
        }
        if let Some(version) = &link.version {
            request = request.header("MCP-Protocol-Version", version);
        }
        request
    }

    async fn post(&self, message: &Message) -> Result<Response, String> {
        let opens =
            matches!(message.kind(), Kind::Request { method, .. } if method == "initialize");
        let mut request = self.request(Method::POST, !opens);
        if let Kind::Request { method, .. } | Kind::Notification { method } = message.kind() {
            let params = Members::of(message.params()).unwrap_or_default();
            // A revision without sessions says its version with each message, and wants the
            // beginning of it repeated in headers.
            if let Some(version) = revision::stated(&params) {
                request = request.header("MCP-Protocol-Version", version);
                request = request.header("Mcp-Method", method);
                if let Some(name) = params.text("name").or_else(|| params.text("uri")) {
                    request = request.header("Mcp-Name", header_text(&name));
                }
            }
        }
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(message.text().to_owned());
        self.send(request).await
    }

    /// Sends a request, and again to where the server says that it belongs, as long as that is the same
    /// server: what it carries was given for that one.
    async fn send(&self, request: RequestBuilder) -> Result<Response, String> {
        let mut request = request.build().map_err(|error| self.unreachable(error))?;
        for _ in 0..=REDIRECTS {
            let again = request.try_clone();
            let sent = self.client.execute(request).await;
            let response = sent.map_err(|error| self.unreachable(error))?;
            let target = response.headers().get(LOCATION).and_then(|target| target.to_str().ok());
            let target = target.and_then(|target| response.url().join(target).ok());
            let status = response.status();
            let (true, Some(target), Some(mut next)) = (status.is_redirection(), target, again)
            else {
                return Ok(response);
            };
            let target_shown = self.without_secrets(&shown(target.as_str()));
            if response.url().origin() != target.origin() {
                return Err(format!(
                    "{} sends its clients on to {target_shown}, where the proxy does not go with the \
                     token and the headers of another; hint: if you trust it, give it as the server's \
                     address",
                    self.called()
                ));
            }
            // What is posted would not be there.
            if status == StatusCode::SEE_OTHER {
                return Err(format!(
                    "{} answered with a page elsewhere, {target_shown}; {}",
                    self.called(),
                    IS_IT_MCP
                ));
            }
            *next.url_mut() = target;
            request = next;
        }
        Err(format!("{} sends its clients on and on; {}", self.called(), IS_IT_MCP))
    }

    /// Sends what wants no answer.
    async fn tell(&self, message: &Message) {
        let sent = match timeout(ACCEPTED, self.post(message)).await {
            Ok(Ok(response)) if response.status().is_success() => return,
            Ok(Ok(response)) => format!("{} answered {}", self.called(), response.status()),
            Ok(Err(why)) => why,
            Err(_) => format!("{} did not take it in time", self.name),
        };
        self.session.log().say(&format!("{sent}; a message that wants no answer is dropped"));
    }

    /// Sends a request and passes on what it brings.
    ///
    /// The message takes room until the server has begun to answer.
    async fn ask(&self, message: Message, room: Option<Room>) {
        let Kind::Request { id, method } = message.kind().clone() else { return };
        let opens = method == "initialize";
        let (opened, is_forgotten) = {
            let link = self.link();
            (link.opened, link.is_forgotten)
        };
        let mut response = match is_forgotten && !opens {
            true => match self.reopen(opened).await {
                Ok(()) => self.post(&message).await,
                Err(why) => Err(why),
            },
            false => self.post(&message).await,
        };
        drop(room);
        let expired = |response: &Result<Response, String>| matches!(response, Ok(response) if response.status() == StatusCode::NOT_FOUND);
        if expired(&response) && !opens && self.link().session_id.is_some() {
            self.forgotten(opened);
            response = match self.reopen(opened).await {
                Ok(()) => self.post(&message).await,
                Err(why) => Err(why),
            };
        }
        let answered = match response {
            Ok(response) => self.take(response, &id, opens).await,
            Err(why) => Err(why),
        };
        if let Err(why) = answered {
            self.session.tell_failure(self.server, &why);
            self.session.not_sent(self.server, message.text(), &why).await;
        }
    }

    /// Passes on what came in answer to a request.
    async fn take(&self, response: Response, id: &Id, opens: bool) -> Result<(), String> {
        let status = response.status();
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        if opens && status.is_success() {
            self.link().session_id = header("mcp-session-id");
        }
        let kind = header("content-type").unwrap_or_default();
        if status.is_success() && is_events(&kind) {
            return self.answer_events(response, id, opens).await;
        }
        let challenge = header(WWW_AUTHENTICATE.as_str());
        let body = lines::read_to(&mut reader(response), Ends::Input).await;
        let body =
            body.map_err(|error| format!("the answer of {} broke off: {error}", self.name))?;
        let (body, held) = match body {
            None => (String::new(), None),
            Some((Line::Whole(body), _)) => (body, None),
            // It is there as long as something of it is on its way.
            Some((Line::Long(skeleton, long), _)) => (skeleton, Some(self.session.longs.add(long))),
            Some((Line::NotText(line), _)) => {
                let what = crate::session::NO_TEXT;
                self.session.answered_amiss(self.server, &self.name, id, line.bytes, what).await;
                return Ok(());
            }
        };
        // More than is said, so that no half of a secret is.
        let said: String = body.trim().chars().take(LOOKED_AT).collect();
        let answers = |message: &Message| {
            let is_taken = || message.error().is_none_or(is_error_object);
            answers(message, id) && (status.is_success() || is_taken())
        };
        // Some refuse under no id, or one of their own.
        let refuses = |message: &Message| {
            !status.is_success() && message.error().is_some_and(is_error_object)
        };
        let (messages, amiss): (Vec<_>, Vec<_>) =
            Message::each(body).into_iter().partition(Result::is_ok);
        let messages: Vec<Message> = messages.into_iter().flatten().collect();
        let mut amiss = amiss.into_iter().filter_map(Result::err);
        let done = if messages.iter().any(|message| answers(message) || refuses(message)) {
            for message in messages {
                let message = match refuses(&message) && !answers(&message) {
                    true => message.into_answer_to(id),
                    false => message,
                };
                self.pass_on(message, Some(id), opens).await;
            }
            for error in amiss {
                self.skipped(&error.text);
            }
            Ok(())
        } else if let Some(error) =
            amiss.find(|error| status.is_success() && is_meant_for(error, id))
        {
            self.session.server_said_amiss(self.server, &self.name, error).await;
            Ok(())
        } else {
            Err(self.refusal(status, &kind, challenge.as_deref(), &said))
        };
        drop(held);
        done
    }

    async fn pass_on(&self, message: Message, related: Option<&Id>, opens: bool) {
        if opens && let Some(result) = message.result() {
            let version = Members::of(result).and_then(|result| result.text("protocolVersion"));
            let mut link = self.link();
            link.version = version;
            link.opened += 1;
            link.is_forgotten = false;
        }
        let message = match (message.kind(), related) {
            // An error that does not say what it answers answers what was asked.
            (Kind::Response { id: None }, Some(id)) => message.into_answer_to(id),
            _ => message,
        };
        self.session.server_sent(self.server, message, related.cloned()).await;
    }

    /// Reads events until the answer, and takes the stream up again where it breaks off.
    async fn answer_events(&self, response: Response, id: &Id, opens: bool) -> Result<(), String> {
        let mut progress = Progress::default();
        let mut stream = Some(response);
        let mut tries = 0;
        loop {
            if let Some(response) = stream.take() {
                let before = progress.last_id.clone();
                self.events(response, Some(id), opens, &mut progress).await;
                if progress.answered {
                    return Ok(());
                }
                if before != progress.last_id {
                    tries = 0;
                }
            }
            let Some(last_id) = progress.last_id.clone() else {
                return Err(format!("{} ended the answer before it was complete", self.name));
            };
            if tries == TRIES || self.session.closing.is_cancelled() {
                return Err(format!("{} broke off its answer and did not go on", self.name));
            }
            tries += 1;
            tokio::time::sleep(progress.retry.unwrap_or_else(|| wait(tries))).await;
            stream = self.open_events(Some(&last_id)).await.ok();
        }
    }

    async fn open_events(&self, last_id: Option<&str>) -> Result<Response, Option<StatusCode>> {
        let mut request = self.request(Method::GET, true).header(ACCEPT, EVENTS);
        if let Some(id) = last_id {
            request = request.header("Last-Event-ID", id);
        }
        let response = self.send(request).await.map_err(|_| None)?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if response.status().is_success() && kind.is_some_and(is_events) {
            Ok(response)
        } else {
            Err(Some(response.status()))
        }
    }

    /// Passes on the events of a stream until it ends.
    async fn events(
        &self,
        response: Response,
        related: Option<&Id>,
        opens: bool,
        progress: &mut Progress,
    ) {
        let mut events = Events::new(reader(response));
        loop {
            let Event { data, id, retry, is_cut } = match events.next().await {
                Ok(Some(event)) => event,
                Err(error) => {
                    self.session
                        .log()
                        .say(&format!("a stream of {} broke off: {error}", self.name));
                    return;
                }
                Ok(None) => return,
            };
            // Some end a stream without its last empty line; others break off.
            if is_cut && !data.as_ref().is_some_and(is_message) {
                self.session.log().say(&format!("a stream of {} broke off", self.name));
                return;
            }
            if id.is_some() {
                progress.last_id = id;
            }
            if let Some(retry) = retry {
                progress.retry = Some(Duration::from_millis(retry).min(LONGEST_WAIT));
            }
            let answers = |message: &Message| related.is_some_and(|id| answers(message, id));
            let (text, held) = match data {
                None => continue,
                Some(Line::Whole(data)) if data.is_empty() => continue,
                Some(Line::Whole(data)) => (data, None),
                Some(Line::Long(skeleton, long)) => (skeleton, Some(self.session.longs.add(long))),
                Some(Line::NotText(line)) => match Message::one(line.readable.clone()) {
                    Ok(message) if answers(&message) => {
                        progress.answered = true;
                        self.session.server_said_no_text(self.server, &self.name, line).await;
                        return;
                    }
                    _ => {
                        self.skipped(&line.readable);
                        continue;
                    }
                },
            };
            for message in Message::each(text) {
                match message {
                    Ok(message) => {
                        progress.answered |= answers(&message);
                        self.pass_on(message, related, opens).await;
                    }
                    Err(error) if related.is_some_and(|id| is_meant_for(&error, id)) => {
                        progress.answered = true;
                        self.session.server_said_amiss(self.server, &self.name, error).await;
                    }
                    Err(error) => self.skipped(&error.text),
                }
            }
            drop(held);
            if progress.answered {
                return;
            }
        }
    }

    /// Listens for what has to do with no request, as long as the session lasts.
    async fn listen(&self) {
        let closing = self.session.closing.clone();
        let listening = async {
            loop {
                self.is_open.notified().await;
                self.listen_once().await;
            }
        };
        tokio::select! {
            () = listening => {}
            () = closing.cancelled() => {}
        }
    }

    /// Listens until the server says that it has no such stream, or not for this session any more.
    async fn listen_once(&self) {
        let mut progress = Progress::default();
        let mut failures = 0;
        loop {
            let before = progress.last_id.clone();
            let begun = Instant::now();
            match self.open_events(progress.last_id.as_deref()).await {
                Ok(response) => self.events(response, None, false, &mut progress).await,
                Err(Some(status)) if status.is_client_error() => return,
                Err(_) => {}
            }
            let was_good = before != progress.last_id || begun.elapsed() > LASTED;
            failures = if was_good { 1 } else { failures + 1 };
            let pause = progress.retry.unwrap_or_else(|| wait(failures));
            // Whatever the server says, a stream that brings nothing is not asked for over and over.
            tokio::time::sleep(if was_good { pause } else { pause.max(wait(failures)) }).await;
        }
    }

    /// Notes that the server has forgotten the session that was opened then.
    fn forgotten(&self, opened: u64) {
        let mut link = self.link();
        link.is_forgotten |= link.opened == opened;
    }

    /// Opens the session again with a server that has forgotten it.
    async fn reopen(&self, opened: u64) -> Result<(), String> {
        let _one = self.opening.lock().await;
        let initialize = {
            let link = self.link();
            // Another request was faster.
            if link.opened > opened {
                return Ok(());
            }
            link.initialize.clone()
        };
        let Some(initialize) = initialize else {
            return Err(format!("{} has forgotten the session", self.name));
        };
        let initialize = Message::one(initialize).map_err(|error| error.to_string())?;
        let (id, text) = self.session.reopening(self.server, &initialize);
        let done = timeout(ACCEPTED, self.said(&text, &id, true)).await;
        let done = done.unwrap_or_else(|_| Err(format!("{} did not answer in time", self.name)));
        if let Err(why) = done {
            self.session.not_sent(self.server, &text, &why).await;
            return Err(format!("{} has forgotten the session: {why}", self.name));
        }
        if self.link().opened == opened {
            return Err(format!("{} refused to open the session again", self.name));
        }
        if self.session.is_initialized() {
            if let Ok(initialized) = Message::one(INITIALIZED.to_owned()) {
                self.tell(&initialized).await;
            }
            for text in self.session.again(self.server) {
                let id = Message::one(text.clone()).ok().and_then(|message| message.request_id());
                let Some(id) = id else { continue };
                let said = timeout(ACCEPTED, self.said(&text, &id, false)).await;
                if !matches!(said, Ok(Ok(()))) {
                    self.session.not_sent(self.server, &text, "it did not answer").await;
                }
            }
            self.is_open.notify_one();
        }
        self.session.log().say(&format!("{} is open again", self.name));
        Ok(())
    }

    /// Sends a request of the proxy's own and passes on what it brings.
    async fn said(&self, text: &str, id: &Id, opens: bool) -> Result<(), String> {
        let message = Message::one(text.to_owned()).map_err(|error| error.to_string())?;
        let response = self.post(&message).await?;
        self.take(response, id, opens).await
    }

    /// Tells the server that the session is over.
    async fn hang_up(&self) {
        if self.link().session_id.is_some() {
            // A server need not take it.
            let _ = timeout(GRACE, self.send(self.request(Method::DELETE, true))).await;
        }
    }
}

/// Whether a media type is that of events.
fn is_events(kind: &str) -> bool {
    kind.get(..EVENTS.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(EVENTS))
}

/// Whether the data of an event is a message, whole.
fn is_message(data: &Line) -> bool {
    match data {
        Line::Whole(text) | Line::Long(text, _) => Message::parse(text.clone()).is_ok(),
        Line::NotText(line) => Message::parse(line.readable.clone()).is_ok(),
    }
}

/// Whether a message answers the request of that id.
fn answers(message: &Message, id: &Id) -> bool {
    matches!(message.kind(), Kind::Response { id: Some(of) } if of.answers(id))
}

/// Whether what is no message was to answer the request of that id.
fn is_meant_for(error: &NotAMessage, id: &Id) -> bool {
    error.is_answer() && error.id.as_ref().is_some_and(|of| of.answers(id))
}

/// Whether an error is one as JSON-RPC has it, which clients take.
fn is_error_object(error: &str) -> bool {
    let members = Members::of(error).unwrap_or_default();
    let code = members.get("code").and_then(|code| code.parse::<i64>().ok());
    code.is_some() && members.text("message").is_some()
}

/// The body of a response, read as it comes.
fn reader(response: Response) -> impl AsyncBufRead + Unpin {
    // An address may hold what is secret.
    let secretless = |error: reqwest::Error| io::Error::other(error.without_url());
    StreamReader::new(Box::pin(response.bytes_stream().map_err(secretless)))
}

/// A text as a header can hold it, in the form that the protocol has for others.
fn header_text(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let is_safe = is_plain && text.trim() == text && !text.starts_with("=?base64?");
    if is_safe { text.to_owned() } else { format!("=?base64?{}?=", BASE64.encode(text.as_bytes())) }
}

fn wait(tries: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << (tries.saturating_sub(1)).min(16)).min(LONGEST_WAIT)
}
