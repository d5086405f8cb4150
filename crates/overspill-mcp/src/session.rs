//! One client's session: what the router decides is done here.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use overspill::BoxFuture;
use overspill::read::{self, ReadArgs};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::handle_argument;
use crate::json::{Edits, Members, quote};
use crate::lane::{Lane, STALL, Stalled};
use crate::log::Log;
use crate::long::{Long, Longs, NotText, Raw};
use crate::message::{
    Id, Kind, Message, NO_RESOURCE, NOT_JSON, NotAMessage, error, failure, refused, response,
};
use crate::reduce::{Reduced, Reducer};
use crate::resources;
use crate::revision::Form;
use crate::router::{Effect, Job, Mark, Router};

/// Megabytes of payloads that are put into the arguments of one server at once.
const SUBSTITUTED_MEGABYTES: u32 = 64;

/// Megabytes of results that are reduced at once; more wait in the pipes of their servers.
const WORKING_MEGABYTES: u32 = 512;

/// From so many bytes on, a result is reduced on a thread of its own.
const BIG: usize = 256 * 1024;

/// How long several servers are waited for that answer together.
const TOGETHER: Duration = Duration::from_secs(20);

/// What is wrong with an answer whose bytes are no text.
pub(crate) const NO_TEXT: &str = "bytes that are not UTF-8, as JSON must be";

/// What is wrong with an answer that cannot be read.
const NO_MESSAGE: &str = "what is no JSON-RPC message";

/// What the client gets.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A message.
    Message {
        text: String,
        /// The request it answers.
        answers: Option<Id>,
        /// The request it has to do with.
        related: Option<Id>,
        /// The line that strings in it stand for.
        long: Option<Arc<Long>>,
    },
    /// Nothing will answer this request any more.
    Abandoned(Id),
    /// All that came before has been passed on.
    Settled(oneshot::Sender<()>),
}

impl Outgoing {
    fn is_answer(&self) -> bool {
        match self {
            Self::Message { answers, .. } => answers.is_some(),
            Self::Abandoned(_) | Self::Settled(_) => true,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Message { text, .. } => text.len(),
            Self::Abandoned(_) | Self::Settled(_) => 0,
        }
    }
}

/// What a server gets.
#[derive(Debug)]
pub(crate) struct ToServer {
    pub(crate) text: String,
    pub(crate) mark: Mark,
}

/// One client's session.
#[derive(Debug)]
pub(crate) struct Session {
    router: Mutex<Router>,
    reducer: Arc<Reducer>,
    client: Lane<Outgoing>,
    lanes: Vec<Lane<ToServer>>,
    /// Bounds how much is worked on at once.
    work: Semaphore,
    /// Bounds what is put into arguments at once, for each server.
    substituted: Vec<Semaphore>,
    jobs: TaskTracker,
    log: Log,
    /// Lines too long to hold that are on their way to the client.
    pub(crate) longs: Longs,
    /// Says that the session ends.
    pub(crate) closing: CancellationToken,
}

impl Session {
    pub(crate) fn new(
        router: Router,
        reducer: Arc<Reducer>,
        client: Lane<Outgoing>,
        lanes: Vec<Lane<ToServer>>,
        log: Log,
    ) -> Self {
        let bound = |_: &Lane<ToServer>| Semaphore::new(SUBSTITUTED_MEGABYTES as usize);
        let substituted = lanes.iter().map(bound).collect();
        Self {
            router: Mutex::new(router),
            reducer,
            client,
            lanes,
            work: Semaphore::new(WORKING_MEGABYTES as usize),
            substituted,
            jobs: TaskTracker::new(),
            log,
            longs: Longs::default(),
            closing: CancellationToken::new(),
        }
    }

    /// Takes in a text of the client's; what is no message is told of and answered with an error.
    pub(crate) async fn client_said(self: &Arc<Self>, text: String) {
        for message in Message::each(text) {
            match message {
                Ok(message) => self.client_sent(message).await,
                Err(error) => {
                    self.log.say(&format!("the client sent something that is refused: {error}"));
                    self.say(error.answer()).await;
                }
            }
        }
    }

    pub(crate) async fn client_sent(self: &Arc<Self>, message: Message) {
        let effects = self.router().client_sent(message);
        self.perform(effects).await;
    }

    /// Takes in a text of a server's; what is no message is told of and skipped.
    pub(crate) async fn server_said(
        self: &Arc<Self>,
        server: usize,
        name: &str,
        text: String,
        related: Option<&Id>,
    ) {
        for message in Message::each(text) {
            match message {
                Ok(message) => self.server_sent(server, message, related.cloned()).await,
                Err(error) => self.server_said_amiss(server, name, error).await,
            }
        }
    }

    /// Takes in what is no message. What it was to answer is answered with an error; anything else is
    /// told of and skipped.
    pub(crate) async fn server_said_amiss(
        self: &Arc<Self>,
        server: usize,
        name: &str,
        error: NotAMessage,
    ) {
        let id = error.id.as_ref().filter(|_| error.is_answer());
        match id.and_then(|id| self.router().waiting(server, id)) {
            Some(id) => {
                let bytes = match self.longs.of(&error.text) {
                    Some(long) => Raw::OnDisk(long),
                    None => Raw::Held(error.text.into_bytes()),
                };
                self.answered_amiss(server, name, &id, bytes, NO_MESSAGE).await;
            }
            None => self.log.say(&format!("{name} wrote something that is skipped: {error}")),
        }
    }

    pub(crate) async fn server_sent(
        self: &Arc<Self>,
        server: usize,
        message: Message,
        related: Option<Id>,
    ) {
        let mut message = message;
        if let Kind::Response { id: Some(id) } = message.kind()
            && let Some(long) = self.longs.of(message.text())
            && self.router().is_gathered(server, id)
        {
            // What several servers answer together is put together in memory.
            let whole = long.whole(message.text()).map(Message::one);
            match whole {
                Ok(Ok(whole)) => message = whole,
                Ok(Err(error)) => return self.log.say(&error.to_string()),
                Err(error) => {
                    let why = format!("its answer could not be read back from disk: {error}");
                    let effects = self.router().call_failed(server, id, &why);
                    return self.perform(effects).await;
                }
            }
        }
        let effects = self.router().server_sent(server, message, related);
        self.perform(effects).await;
    }

    /// Takes in a line of the client's that is no UTF-8.
    pub(crate) async fn client_said_no_text(self: &Arc<Self>, line: NotText) {
        match Message::one(line.readable).as_ref().map(Message::kind) {
            Ok(Kind::Request { id, .. }) => {
                let text = failure(id, NOT_JSON, "The request is not UTF-8, as JSON must be");
                self.respond(id.clone(), text).await;
            }
            _ => {
                self.log.say("the client sent something that is refused: it is not UTF-8");
                self.say(refused("null", &error(NOT_JSON, "It is not UTF-8, as JSON must be")))
                    .await;
            }
        }
    }

    /// Takes in a line of a server's that is no UTF-8. What it answers is answered with an error;
    /// anything else is told of and skipped.
    pub(crate) async fn server_said_no_text(
        self: &Arc<Self>,
        server: usize,
        name: &str,
        line: NotText,
    ) {
        let message = Message::one(line.readable);
        let answered = match message.as_ref().map(Message::kind) {
            Ok(Kind::Response { id: Some(id) }) => self.router().waiting(server, id),
            _ => None,
        };
        match answered {
            Some(id) => self.answered_amiss(server, name, &id, line.bytes, NO_TEXT).await,
            None => {
                let what = message.map_or_else(|error| error.to_string(), |_| String::new());
                self.log.say(&format!(
                    "{name} wrote something that is skipped: it is not UTF-8; {what}"
                ));
            }
        }
    }

    /// A server answered a request with what nobody can take. It is kept as it is, since nothing that
    /// is put right in silence can be trusted.
    pub(crate) async fn answered_amiss(
        self: &Arc<Self>,
        server: usize,
        name: &str,
        id: &Id,
        bytes: Raw,
        what: &str,
    ) {
        let why = match self.reducer.keep(name, bytes.pieces()).await {
            Ok(receipt) => {
                self.router().stored(std::slice::from_ref(&receipt));
                format!(
                    "{name} answered with {what}. It is stored as {}; {} shows it.",
                    receipt.handle,
                    self.reducer.limits().read_tool().name
                )
            }
            Err(error) => {
                format!("{name} answered with {what}, and it cannot be stored ({error}).")
            }
        };
        self.log.say(&why);
        let effects = self.router().call_failed(server, id, &why);
        self.perform(effects).await;
    }

    /// Tells of what a server failed with, unless it did so the last time.
    pub(crate) fn tell_failure(&self, server: usize, why: &str) {
        if self.router().is_news(server, why) {
            self.log.say(why);
        }
    }

    /// Everything a server was asked is answered: it is gone.
    pub(crate) async fn server_gone(self: &Arc<Self>, server: usize, why: &str) {
        self.tell_failure(server, why);
        let effects = self.router().server_gone(server, why);
        self.perform(effects).await;
    }

    /// The session is over for a server: nothing it was asked stays without an answer.
    pub(crate) async fn ended(self: &Arc<Self>, server: usize) {
        let effects = {
            let mut router = self.router();
            let name = router.name(server);
            let why = format!("{name} did not answer before the session ended");
            router.server_gone(server, &why)
        };
        self.perform(effects).await;
    }

    /// One request could not be passed on; anything else that could not is only told of.
    pub(crate) async fn not_sent(self: &Arc<Self>, server: usize, text: &str, why: &str) {
        let message = Message::one(text.to_owned());
        match message.as_ref().map(Message::kind) {
            Ok(Kind::Request { id, .. }) => {
                let effects = self.router().call_failed(server, id, why);
                self.perform(effects).await;
            }
            _ => self.log.say(&format!("{why}; a message that wants no answer is dropped")),
        }
    }

    /// Whether the client has said that the session is open.
    pub(crate) fn is_initialized(&self) -> bool {
        self.router().is_initialized()
    }

    /// Whether a server that is started again is opened by the proxy.
    pub(crate) fn reopens(&self, server: usize) -> bool {
        self.router().reopens(server)
    }

    /// What opens the session again with a server that has forgotten it, and its id.
    pub(crate) fn reopening(&self, server: usize, initialize: &Message) -> (Id, String) {
        self.router().reopening(server, initialize)
    }

    /// What a server that is open again must be told.
    pub(crate) fn again(&self, server: usize) -> Vec<String> {
        self.router().again(server)
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// Counts how much a server has taken.
    pub(crate) fn taken(&self, server: usize) -> Arc<AtomicU64> {
        self.lanes[server].taken()
    }

    /// Waits until everything that is being worked on has been given to the client.
    pub(crate) async fn settle(&self) {
        self.jobs.close();
        self.jobs.wait().await;
    }

    fn router(&self) -> MutexGuard<'_, Router> {
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn perform(self: &Arc<Self>, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::ToServer { server, text, mark } => {
                    self.to_server(server, text, mark).await;
                }
                Effect::ToClient { text, answers, related } => {
                    let long = self.longs.of(&text);
                    self.to_client(Outgoing::Message { text, answers, related, long }).await;
                }
                Effect::Abandoned { id } => self.to_client(Outgoing::Abandoned(id)).await,
                Effect::Log(what) => self.log.say(&what),
                Effect::Deadline { gather } => {
                    tokio::spawn(Arc::clone(self).give_up(gather));
                }
                Effect::Reduce { message, answers, job } => {
                    self.reduce(message, answers, job).await;
                }
                Effect::ReadTool { id, arguments, form } => {
                    let session = Arc::clone(self);
                    self.jobs.spawn(async move {
                        let text = session.read_tool(&id, &arguments, form).await;
                        session.respond(id, text).await;
                    });
                }
                Effect::ReadResource { id, uri, form } => {
                    let session = Arc::clone(self);
                    self.jobs.spawn(async move {
                        let store = session.reducer.store();
                        let strip = session.reducer.config().strip_ansi;
                        let text = match resources::read(store, &uri, strip).await {
                            Ok(result) => response(&id, &form.cacheable(&result)),
                            Err(sentence) => failure(&id, NO_RESOURCE, &sentence),
                        };
                        session.respond(id, text).await;
                    });
                }
                Effect::Substitute { server, message, id, tool } => {
                    let session = Arc::clone(self);
                    self.jobs.spawn(async move {
                        session.substitute(server, message, id, &tool).await;
                    });
                }
            }
        }
    }

    /// Answers with what there is once servers have had time to start.
    fn give_up(self: Arc<Self>, gather: u64) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            tokio::select! {
                () = self.closing.cancelled() => {}
                () = tokio::time::sleep(TOGETHER) => {
                    let effects = self.router().deadline(gather);
                    self.perform(effects).await;
                }
            }
        })
    }

    async fn to_server(self: &Arc<Self>, server: usize, text: String, mark: Mark) {
        let bytes = text.len();
        let sent = self.lanes[server].send(ToServer { text, mark }, bytes).await;
        let Err(Stalled(ToServer { text, .. })) = sent else { return };
        let name = self.router().name(server).to_owned();
        let seconds = STALL.as_secs();
        let why = format!("{name} has taken nothing for {seconds} s; this was not passed on");
        self.give_back(server, text, why).await;
    }

    /// What could not be sent is answered, which may send something to another server.
    fn give_back(self: &Arc<Self>, server: usize, text: String, why: String) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.not_sent(server, &text, &why).await })
    }

    async fn to_client(&self, outgoing: Outgoing) {
        let room = tokio::select! {
            biased;
            room = self.client.room(outgoing.bytes()) => room,
            // From then on servers have a time to be heard in, which a client that reads slowly must
            // not take from them.
            () = self.closing.cancelled() => None,
        };
        if room.is_some() || outgoing.is_answer() {
            self.client.push(outgoing, room);
        }
    }

    /// Waits until everything that was given to the client has been passed on.
    pub(crate) async fn passed_on(&self) {
        let (settled, all) = oneshot::channel();
        self.to_client(Outgoing::Settled(settled)).await;
        // Whoever passes it on may be gone.
        let _ = all.await;
    }

    /// What answers no request that could be read.
    async fn say(&self, text: String) {
        self.to_client(Outgoing::Message { text, answers: None, related: None, long: None }).await;
    }

    async fn respond(&self, id: Id, text: String) {
        let long = self.longs.of(&text);
        self.to_client(Outgoing::Message { text, answers: Some(id), related: None, long }).await;
    }

    /// Reduces beside everything else; whoever reads the server waits where there is too much.
    async fn reduce(self: &Arc<Self>, message: Message, answers: Id, job: Job) {
        let long = self.longs.of(message.text());
        let bytes = message.text().len();
        let is_big = bytes >= BIG || long.is_some();
        let megabytes = (bytes as u32 / 1_000_000).clamp(1, WORKING_MEGABYTES);
        let Ok(permit) = self.work.acquire_many(megabytes).await else { return };
        permit.forget();
        let session = Arc::clone(self);
        self.jobs.spawn(async move {
            let message = Arc::new(message);
            let of = (Arc::clone(&session), Arc::clone(&message), long.clone());
            let work = async move { of.0.reduced(&of.1, &job, of.2.as_deref()).await };
            let done = if !is_big {
                tokio::spawn(work).await
            } else {
                let here = tokio::runtime::Handle::current();
                tokio::task::spawn_blocking(move || here.block_on(work)).await
            };
            let text = done.unwrap_or_else(|error| {
                session
                    .log
                    .say(&format!("a result could not be reduced and passes whole: {error}"));
                None
            });
            let text = text.unwrap_or_else(|| message.text().to_owned());
            drop(message);
            session.respond(answers, text).await;
            drop(long);
            session.work.add_permits(megabytes as usize);
        });
    }

    /// The message with its result reduced; `None` where it passes as it came.
    async fn reduced(&self, message: &Message, job: &Job, long: Option<&Long>) -> Option<String> {
        let reducer = &self.reducer;
        let Reduced { result: reduced, receipts, warnings } = match (job, message.result()) {
            (Job::Tool(tool) | Job::Task(tool), None) => {
                reducer.tool_error(tool, message.error()?, long).await
            }
            (Job::Resource, None) => return None,
            (Job::Tool(tool), Some(result)) => reducer.tool_result(tool, result, long).await,
            (Job::Resource, Some(result)) => reducer.resource_result(result, long).await,
            (Job::Task(tool), Some(result)) => {
                let members = Members::of(result).unwrap_or_default();
                let (inner, mut reduced) = match (members.some("result"), members.some("error")) {
                    (Some(inner), _) => (inner, reducer.tool_result(tool, inner, long).await),
                    (None, Some(inner)) => (inner, reducer.tool_error(tool, inner, long).await),
                    (None, None) => (result, reducer.tool_result(tool, result, long).await),
                };
                reduced.result = reduced.result.map(|new| {
                    let mut edits = Edits::default();
                    edits.replace_part(result, inner, new);
                    edits.apply(result)
                });
                reduced
            }
        };
        for warning in warnings {
            self.log.say(&warning);
        }
        if !receipts.is_empty() {
            self.router().stored(&receipts);
        }
        reduced.map(|result| message.with_body(&result))
    }

    async fn read_tool(&self, id: &Id, arguments: &str, form: Form) -> String {
        let strip = self.reducer.config().strip_ansi;
        let args = serde_json::from_str(arguments)
            .map_err(|error| format!("The arguments are not JSON: {error}."))
            .and_then(|arguments| ReadArgs::parse(&arguments));
        let answer = match args {
            Ok(args) => read::try_read(self.reducer.store(), &args, strip).await,
            Err(sentence) => Err(sentence),
        };
        match answer {
            Ok(answer) => said(id, &answer, false, form),
            Err(sentence) => said(id, &sentence, true, form),
        }
    }

    async fn substitute(self: &Arc<Self>, server: usize, message: Message, id: Id, tool: &str) {
        let config = &self.reducer.config().mcp;
        let megabytes = u32::try_from(config.max_argument / 1_000_000 + 1).unwrap_or(u32::MAX);
        let megabytes = megabytes.min(SUBSTITUTED_MEGABYTES);
        // It is held until the server's lane has it.
        let Ok(_room) = self.substituted[server].acquire_many(megabytes).await else { return };
        let params = message.params();
        let members = Members::of(params).unwrap_or_default();
        let form = Form::of(&members);
        let arguments = members.some("arguments");
        let substituted = match arguments {
            Some(arguments) => {
                let store = self.reducer.store();
                let done = handle_argument::substitute(store, config, tool, arguments).await;
                done.map(|new| {
                    new.map(|new| {
                        let mut edits = Edits::default();
                        edits.replace_part(params, arguments, new);
                        message.with_body(&edits.apply(params))
                    })
                })
            }
            None => Ok(None),
        };
        // Meanwhile it may have been cancelled, or the server be gone.
        if !self.router().is_wanted(server, &id, substituted.is_ok()) {
            return;
        }
        match substituted {
            Ok(text) => {
                let text = text.unwrap_or_else(|| message.into_text());
                self.to_server(server, text, Mark::Plain).await;
            }
            Err(sentence) => {
                let text = said(&id, &sentence, true, form);
                self.respond(id, text).await;
            }
        }
    }
}

/// The response that is a tool's result with this text.
fn said(id: &Id, text: &str, is_error: bool, form: Form) -> String {
    let flag = if is_error { ",\"isError\":true" } else { "" };
    let result = format!("{{\"content\":[{{\"type\":\"text\",\"text\":{}}}]{flag}}}", quote(text));
    response(id, &form.complete(&result))
}

#[cfg(test)]
mod tests {
    use overspill::Config;
    use overspill_store::MemoryStore;

    use super::*;
    use crate::lane::{LaneEnd, ROOM};
    use crate::long::Spool;
    use overspill::summary::NoModel;

    /// A session with these servers, what its client gets, and what keeps its servers' ends open.
    fn session(names: &[&str]) -> (Arc<Session>, LaneEnd<Outgoing>, Vec<LaneEnd<ToServer>>) {
        let store = Arc::new(MemoryStore::default());
        let reducer =
            Reducer::new(Config::default(), store, Arc::new(NoModel::because("no")), "run".into());
        let reducer = Arc::new(reducer.unwrap());
        let (client, outgoing) = Lane::new(ROOM, None);
        let (lanes, ends) = names.iter().map(|_| Lane::new(ROOM, Some(STALL))).unzip();
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let router = Router::new(names, Arc::clone(&reducer), false);
        (Arc::new(Session::new(router, reducer, client, lanes, Log::silent())), outgoing, ends)
    }

    /// A line with a string on disk comes from a server; its skeleton.
    async fn comes(session: &Arc<Session>, server: usize, line: &str) -> String {
        let mut spool = Spool::new().unwrap();
        spool.push(line.replace("LONG", &"x".repeat(2_000_000)).as_bytes()).unwrap();
        let (skeleton, long) = spool.finish().unwrap();
        let long = session.longs.add(long);
        session.server_said(server, "s", skeleton.clone(), None).await;
        drop(long);
        skeleton
    }

    #[tokio::test]
    async fn a_line_on_disk_goes_with_its_message_wherever_that_ends() {
        let (session, mut outgoing, _ends) = session(&["s"]);
        for dropped in [
            r#"{"id":7,"result":{"content":[{"type":"text","text":"LONG"}]}}"#,
            r#"{"what":"LONG"}"#,
            r#"{"what":"LONG"#,
        ] {
            let skeleton = comes(&session, 0, dropped).await;
            assert!(session.longs.of(&skeleton).is_none(), "{dropped}");
        }
        for (method, body, is_reduced) in [
            ("prompts/get", r#""result":{"x":"LONG"}"#, false),
            ("tools/call", r#""result":{"content":[{"type":"text","text":"LONG"}]}"#, true),
            ("tools/call", r#""error":{"code":1,"message":"LONG"}"#, true),
            ("tools/call", r#""result":{"_meta":{"x":"LONG"}}"#, false),
        ] {
            let call = format!(r#"{{"id":1,"method":"{method}","params":{{"name":"t"}}}}"#);
            session.client_said(call).await;
            let skeleton = comes(&session, 0, &format!(r#"{{"id":1,{body}}}"#)).await;
            let Some((Outgoing::Message { text, long, .. }, _)) = outgoing.recv().await else {
                panic!("{method}");
            };
            assert_eq!(text != skeleton, is_reduced, "{text}");
            assert_eq!(long.is_none(), is_reduced);
            drop(long);
            session.jobs.close();
            session.jobs.wait().await;
            session.jobs.reopen();
            assert!(session.longs.of(&skeleton).is_none(), "{body}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_cannot_be_read_is_an_error_and_kept() {
        let (session, mut outgoing, _ends) = session(&["s"]);
        for answer in [
            r#"{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"x":-Infinity}}"#,
            "{\"id\":1,\"result\":{\"x\":\"\u{1}\"}}",
            r#"{"id":1,"\ud800":1,"result":{}}"#,
            r#"{"id":"1","result":NaN}"#,
            r#"{"id":1}"#,
            r#"{"id":1,"error":null}"#,
            r#"{"id":1,"result":{"x":[1,}"#,
        ] {
            let call = r#"{"id":1,"method":"tools/call","params":{"name":"t"}}"#;
            session.client_said(call.to_owned()).await;
            session.server_said(0, "s", answer.to_owned(), None).await;
            let Some((Outgoing::Message { text, .. }, _)) = outgoing.recv().await else {
                panic!("{answer}");
            };
            assert!(text.starts_with(r#"{"jsonrpc":"2.0","id":1,"error":"#), "{answer}: {text}");
            let (_, handle) = text.split_once("stored as ").unwrap();
            let handle = handle.split(';').next().unwrap().parse().unwrap();
            let stored = overspill::store::Stored::open(session.reducer.store(), &handle);
            let stored = stored.await.unwrap();
            let bytes = stored.bytes(0..stored.receipt().bytes).await.unwrap();
            assert_eq!(std::str::from_utf8(&bytes).unwrap(), answer);
        }
        // What answers nothing is skipped, and what comes after it is not.
        session.client_said(r#"{"id":2,"method":"prompts/get"}"#.to_owned()).await;
        for nothing in [r#"{"id":9,"result":NaN}"#, r#"{"id":2,"method":"m","params":NaN}"#] {
            session.server_said(0, "s", nothing.to_owned(), None).await;
        }
        session.server_said(0, "s", r#"{"id":2,"result":{}}"#.to_owned(), None).await;
        let Some((Outgoing::Message { text, .. }, _)) = outgoing.recv().await else { panic!() };
        assert_eq!(text, r#"{"id":2,"result":{}}"#);
    }

    #[tokio::test]
    async fn what_several_servers_answer_together_is_whole_however_long_it_is() {
        let (session, mut outgoing, mut ends) = session(&["a", "b"]);
        session.client_said(r#"{"id":0,"method":"initialize"}"#.to_owned()).await;
        let mut ids = Vec::new();
        for end in &mut ends {
            let (ToServer { text, .. }, _) = end.recv().await.unwrap();
            ids.push(Message::one(text).unwrap());
        }
        for (server, asked) in ids.iter().enumerate() {
            let Kind::Request { id, .. } = asked.kind() else { panic!("{asked:?}") };
            let result = format!(
                r#"{{"id":{},"result":{{"capabilities":{{}},"instructions":"{server} LONG"}}}}"#,
                id.as_json()
            );
            let skeleton = comes(&session, server, &result).await;
            assert!(session.longs.of(&skeleton).is_none());
        }
        let Some((Outgoing::Message { text, .. }, _)) = outgoing.recv().await else { panic!() };
        for said in ["a: 0 xxx", "b: 1 xxx"] {
            assert!(text.contains(said));
        }
        assert!(text.len() > 4_000_000);
    }
}
