//! One client's session: what the router decides is done here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use overspill::BoxFuture;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::handle_argument;
use crate::json::{Edits, Members, quote};
use crate::log::Log;
use crate::long::{self, Long, Longs};
use crate::message::{Id, Kind, Message, NO_RESOURCE, failure, response};
use crate::reduce::{Reduced, Reducer};
use crate::resources;
use crate::revision::Form;
use crate::router::{Effect, Job, Mark, Router};

/// Messages that wait for a server or for the client before whoever sends them waits too.
pub(crate) const QUEUE: usize = 256;

/// Megabytes of results that are reduced at once; more wait in the pipes of their servers.
const WORKING_MEGABYTES: u32 = 512;

/// From so many bytes on, a result is reduced on a thread of its own.
const BIG: usize = 256 * 1024;

/// How long several servers are waited for when a session opens.
const START: Duration = Duration::from_secs(20);

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
    },
    /// Nothing will answer this request any more.
    Abandoned(Id),
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
    client: mpsc::Sender<Outgoing>,
    servers: Vec<mpsc::Sender<ToServer>>,
    /// Bounds how much is worked on at once.
    work: Semaphore,
    jobs: TaskTracker,
    log: Log,
    /// Lines too long to hold that are on their way to the client.
    pub(crate) longs: Arc<Longs>,
    /// Says that the session ends.
    pub(crate) closing: CancellationToken,
}

impl Session {
    pub(crate) fn new(
        router: Router,
        reducer: Arc<Reducer>,
        client: mpsc::Sender<Outgoing>,
        servers: Vec<mpsc::Sender<ToServer>>,
        log: Log,
    ) -> Self {
        Self {
            router: Mutex::new(router),
            reducer,
            client,
            servers,
            work: Semaphore::new(WORKING_MEGABYTES as usize),
            jobs: TaskTracker::new(),
            log,
            longs: Arc::default(),
            closing: CancellationToken::new(),
        }
    }

    /// Takes in a text of the client's; what is no message is told of and skipped.
    pub(crate) async fn client_said(self: &Arc<Self>, text: String) {
        match Message::parse(text) {
            Ok(messages) => {
                for message in messages {
                    self.client_sent(message).await;
                }
            }
            Err(error) => {
                self.log.say(&format!("the client sent something that is skipped: {error}"));
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
        match Message::parse(text) {
            Ok(messages) => {
                for message in messages {
                    self.server_sent(server, message, related.cloned()).await;
                }
            }
            Err(error) => {
                self.log.say(&format!("{name} wrote something that is skipped: {error}"));
            }
        }
    }

    pub(crate) async fn server_sent(
        self: &Arc<Self>,
        server: usize,
        message: Message,
        related: Option<Id>,
    ) {
        let effects = self.router().server_sent(server, message, related);
        self.perform(effects).await;
    }

    /// Everything a server was asked is answered: it is gone.
    pub(crate) async fn server_gone(self: &Arc<Self>, server: usize, why: &str) {
        self.log.say(why);
        let effects = self.router().server_gone(server, why);
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

    pub(crate) fn log(&self) -> &Log {
        &self.log
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
                    // A queue is closed only when the session is.
                    let _ = self.servers[server].send(ToServer { text, mark }).await;
                }
                Effect::ToClient { text, answers, related } => {
                    self.to_client(Outgoing::Message { text, answers, related }).await;
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
                () = tokio::time::sleep(START) => {
                    let effects = self.router().deadline(gather);
                    self.perform(effects).await;
                }
            }
        })
    }

    async fn to_client(&self, outgoing: Outgoing) {
        // A client that is gone wants nothing more.
        let _ = self.client.send(outgoing).await;
    }

    async fn respond(&self, id: Id, text: String) {
        self.to_client(Outgoing::Message { text, answers: Some(id), related: None }).await;
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
            if let Some(long) = long.filter(|_| !long::is_in(&text)) {
                session.longs.forget(&long);
            }
            session.respond(answers, text).await;
            session.work.add_permits(megabytes as usize);
        });
    }

    /// The message with its result reduced; `None` where it passes as it came.
    async fn reduced(&self, message: &Message, job: &Job, long: Option<&Long>) -> Option<String> {
        let result = message.result()?;
        let Reduced { result: reduced, receipts, warnings } = match job {
            Job::Tool(tool) => self.reducer.tool_result(tool, result, long).await,
            Job::Resource => self.reducer.resource_result(result).await,
            Job::Task(tool) => match Members::of(result)?.some("result") {
                Some(inner) => {
                    let mut reduced = self.reducer.tool_result(tool, inner, long).await;
                    reduced.result = reduced.result.map(|new| {
                        let mut edits = Edits::default();
                        edits.replace_part(result, inner, new);
                        edits.apply(result)
                    });
                    reduced
                }
                None => self.reducer.tool_result(tool, result, long).await,
            },
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
        let limits = self.reducer.limits();
        match serde_json::from_str(arguments) {
            Ok(arguments) => said(id, &limits.read(&arguments).await, false, form),
            Err(error) => said(id, &format!("The arguments are not JSON: {error}."), true, form),
        }
    }

    async fn substitute(self: &Arc<Self>, server: usize, message: Message, id: Id, tool: &str) {
        let config = &self.reducer.config().mcp;
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
        match substituted {
            Ok(text) => {
                let text = text.unwrap_or_else(|| message.into_text());
                let _ = self.servers[server].send(ToServer { text, mark: Mark::Plain }).await;
            }
            Err(sentence) => {
                self.router().answered_here(server, &id);
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
