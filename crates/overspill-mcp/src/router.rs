//! Where each message of a session goes: a state machine without I/O.
//!
//! A message goes in, effects come out. What is a single server's is forwarded as it is; of
//! several servers, names are prefixed, lists joined, and the requests they make of the client
//! told apart.

mod many;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::json::{Edits, Members, quote};
use crate::listing::{self, ListOf};
use crate::long;
use crate::message::{INTERNAL, Id, Kind, Message, cancelled, error, failure, response};
use crate::reduce::Reducer;
use crate::resources::{self, SCHEME, Shelf};
use crate::revision::{self, Form};

/// Calls that were cancelled are remembered, since their results may come all the same; so many
/// of them.
const CANCELLED: usize = 1_024;

/// Addresses of resources and ids of tasks that are remembered with their server, at most.
const REMEMBERED: usize = 100_000;

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A server gets this.
    ToServer { server: usize, text: String, mark: Mark },
    /// The client gets this.
    ToClient {
        text: String,
        /// The request it answers.
        answers: Option<Id>,
        /// The request it has to do with.
        related: Option<Id>,
    },
    /// The client gets this response once what is in it has been reduced.
    Reduce { message: Message, answers: Id, job: Job },
    /// The client gets what the read tool answers.
    ReadTool { id: Id, arguments: String, form: Form },
    /// The client gets a stored payload as a resource.
    ReadResource { id: Id, uri: String, form: Form },
    /// A server gets this call once the handles in its arguments have been replaced.
    Substitute { server: usize, message: Message, id: Id, tool: String },
    /// Nothing will answer this request any more.
    Abandoned { id: Id },
    /// What is gathered must not wait longer for one of its servers than the others need.
    Deadline { gather: u64 },
    /// Somebody should know.
    Log(String),
}

/// What a message means to whoever keeps a server running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nothing.
    Plain,
    /// It opens a session; a server that is started again needs it again.
    Initialize,
    /// So does this.
    Initialized,
}

/// What of a response is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Job {
    /// It is the result of this tool.
    Tool(String),
    /// It holds the result of this tool, if it is there already.
    Task(String),
    /// It is a resource.
    Resource,
}

/// A request that a server has and has not answered.
#[derive(Debug)]
struct Call {
    /// The client's id for it; `None` where the proxy itself asked.
    client: Option<Id>,
    what: What,
    /// The token under which its progress is told.
    token: Option<Id>,
    /// Whether the server gets it once what its arguments stand for has been put in.
    is_held: bool,
}

/// What a response is taken for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Plain,
    Reduce(Job),
    List {
        list: ListOf,
    },
    Capabilities,
    Part {
        gather: u64,
        late: Late,
    },
    /// The server is open again.
    Reopened,
}

/// What a part is good for that comes when the others have been given to the client already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Late {
    Opens,
    Lists(ListOf),
    Nothing,
}

/// A request that a server made of the client.
#[derive(Debug)]
struct Ask {
    server: usize,
    /// The server's own id for it.
    original: Id,
}

/// What several servers answer together.
#[derive(Debug)]
struct Gather {
    id: Id,
    kind: GatherOf,
    form: Form,
    waiting: HashSet<usize>,
    results: BTreeMap<usize, String>,
    /// Errors as JSON-RPC has them.
    errors: BTreeMap<usize, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum GatherOf {
    Initialize,
    List(ListOf),
    /// An empty result, once all have answered.
    Nothing,
    /// The first result that one of them gives.
    First {
        what: Box<What>,
        message: Box<Message>,
        /// Those that are asked only where nobody before them knows.
        rest: VecDeque<usize>,
    },
}

/// A session's state machine.
#[derive(Debug)]
pub(crate) struct Router {
    reducer: Arc<Reducer>,
    names: Vec<String>,
    calls: HashMap<(usize, Id), Call>,
    cancelled: VecDeque<(usize, Id)>,
    asks: HashMap<Id, Ask>,
    /// Progress tokens of servers' requests, as the client knows them.
    tokens: HashMap<Id, (usize, Id)>,
    gathers: HashMap<u64, Gather>,
    next: u64,
    /// The capabilities of each server that said them.
    capabilities: Vec<Option<HashSet<String>>>,
    is_initialized: bool,
    /// Lists of servers that came late the last time.
    late: HashSet<(usize, ListOf)>,
    /// What a server that is started again does not know: the level of its log, and what is
    /// subscribed to.
    level: Option<Message>,
    subscriptions: BTreeMap<String, Message>,
    uris: HashMap<String, usize>,
    tasks: HashMap<String, (usize, String)>,
    /// The names of tools on the pages of a list so far.
    tool_names: HashSet<String>,
    has_listed_tools: bool,
    shelf: Shelf,
    /// Whether several clients share the session: what one of them stored is not listed for another.
    is_shared: bool,
    /// What was said of servers together, so that it is said once.
    told: HashSet<(Odd, usize, usize)>,
    /// What each server failed with that did, so that the same is said once.
    failed: HashMap<usize, String>,
    /// What is to be said with the list that is put together.
    notes: Vec<String>,
}

/// What is odd about the lists of several servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Odd {
    /// Two have a resource of one address.
    SharedAddress,
    /// One has a tool or prompt whose name is too long with the prefix.
    LongName,
}

impl Router {
    /// The router of a session with these servers, of one client or of all that share it.
    pub(crate) fn new(names: Vec<String>, reducer: Arc<Reducer>, is_shared: bool) -> Self {
        let capabilities = names.iter().map(|_| None).collect();
        Self {
            reducer,
            names,
            calls: HashMap::new(),
            cancelled: VecDeque::new(),
            asks: HashMap::new(),
            tokens: HashMap::new(),
            gathers: HashMap::new(),
            next: 0,
            capabilities,
            is_initialized: false,
            late: HashSet::new(),
            level: None,
            subscriptions: BTreeMap::new(),
            uris: HashMap::new(),
            tasks: HashMap::new(),
            tool_names: HashSet::new(),
            has_listed_tools: false,
            shelf: Shelf::default(),
            is_shared,
            told: HashSet::new(),
            failed: HashMap::new(),
            notes: Vec::new(),
        }
    }

    fn is_many(&self) -> bool {
        self.names.len() > 1
    }

    /// What a server is called.
    pub(crate) fn name(&self, server: usize) -> &str {
        &self.names[server]
    }

    /// Whether the client has said that the session is open.
    pub(crate) fn is_initialized(&self) -> bool {
        self.is_initialized
    }

    /// Whether the proxy itself opens the session again with a server that is started again. A
    /// single server that never was open is opened by the client's next try.
    pub(crate) fn reopens(&self, server: usize) -> bool {
        self.is_many() || self.capabilities[server].is_some()
    }

    /// What opened the session, to be said again to a server that has forgotten it.
    pub(crate) fn reopening(&mut self, server: usize, initialize: &Message) -> (Id, String) {
        let id = self.fresh();
        let text = initialize.with_id(&id);
        self.calls.insert((server, id.clone()), Call::of_proxy(What::Reopened));
        (id, text)
    }

    /// What a server that is open again must be told, since it has forgotten it.
    pub(crate) fn again(&mut self, server: usize) -> Vec<String> {
        let is_its = |uri: &String| self.uris.get(uri).is_none_or(|of| *of == server);
        let of =
            |what: &str| self.capabilities[server].as_ref().is_some_and(|held| held.contains(what));
        let level = self.level.iter().filter(|_| of("logging"));
        let subscribed =
            self.subscriptions.iter().filter(|(uri, _)| of("resources") && is_its(uri));
        let all: Vec<Message> =
            level.chain(subscribed.map(|(_, message)| message)).cloned().collect();
        all.iter()
            .map(|message| {
                let id = self.fresh();
                let text = message.with_id(&id);
                self.calls.insert((server, id), Call::of_proxy(What::Plain));
                text
            })
            .collect()
    }

    /// Takes in what was stored for this session.
    pub(crate) fn stored(&mut self, receipts: &[overspill::Receipt]) {
        self.shelf.add(receipts);
    }

    /// What a message of the client's asks to be done.
    pub(crate) fn client_sent(&mut self, message: Message) -> Vec<Effect> {
        match message.kind().clone() {
            Kind::Request { id, method } => self.request(id, &method, message),
            Kind::Notification { method } => self.notification(&method, message),
            Kind::Response { id } => self.answer(id, message),
        }
    }

    /// What a message of a server's asks to be done. `related` is the request it came with, where
    /// the transport tells.
    pub(crate) fn server_sent(
        &mut self,
        server: usize,
        message: Message,
        related: Option<Id>,
    ) -> Vec<Effect> {
        match message.kind().clone() {
            Kind::Request { id, .. } => self.ask(server, id, message, related),
            Kind::Notification { method } => self.told(server, &method, message, related),
            Kind::Response { id } => {
                if message.result().is_some() {
                    self.failed.remove(&server);
                }
                self.response(server, id, message)
            }
        }
    }

    /// Whether a server failed with something else before, or with nothing since it last answered.
    pub(crate) fn is_news(&mut self, server: usize, why: &str) -> bool {
        // More may be said behind it, such as when the server is tried again.
        let is_known = self.failed.get(&server).is_some_and(|known| why.starts_with(known));
        if !is_known {
            self.failed.insert(server, why.to_owned());
        }
        !is_known
    }

    /// Answers everything a server was asked, which is gone.
    pub(crate) fn server_gone(&mut self, server: usize, why: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut ids: Vec<Id> =
            self.calls.keys().filter(|(of, _)| *of == server).map(|(_, id)| id.clone()).collect();
        ids.sort_by(|a, b| a.as_json().cmp(b.as_json()));
        for id in ids {
            effects.extend(self.call_failed(server, &id, why));
        }
        let mut asks: Vec<Id> = self
            .asks
            .iter()
            .filter(|(_, ask)| ask.server == server)
            .map(|(id, _)| id.clone())
            .collect();
        asks.sort_by(|a, b| a.as_json().cmp(b.as_json()));
        for id in asks {
            self.asks.remove(&id);
            effects.push(to_client(cancelled(&id, why)));
        }
        self.tokens.retain(|_, (of, _)| *of != server);
        effects
    }

    /// Answers one request that could not be passed on to a server, or got no answer.
    pub(crate) fn call_failed(&mut self, server: usize, id: &Id, why: &str) -> Vec<Effect> {
        let Some(call) = self.calls.remove(&(server, id.clone())) else { return Vec::new() };
        let was_cancelled = self.forget_cancelled(server, id);
        if let What::Part { gather, .. } = call.what {
            return self.part(gather, server, Err(error(INTERNAL, why)));
        }
        match call.client {
            Some(id) if !was_cancelled => vec![Effect::ToClient {
                text: failure(&id, INTERNAL, why),
                answers: Some(id),
                related: None,
            }],
            _ => Vec::new(),
        }
    }

    /// What a call's arguments stand for has been put in, or cannot be. Whether anybody still waits
    /// for it.
    pub(crate) fn is_wanted(&mut self, server: usize, id: &Id, is_sent: bool) -> bool {
        let key = (server, id.clone());
        let Some(call) = self.calls.get_mut(&key) else { return false };
        call.is_held = false;
        if !is_sent {
            self.calls.remove(&key);
        }
        true
    }

    fn fresh(&mut self) -> Id {
        self.next += 1;
        Id::text(&format!("overspill:{}", self.next))
    }

    fn request(&mut self, id: Id, method: &str, message: Message) -> Vec<Effect> {
        let params = Members::of(message.params()).unwrap_or_default();
        let uri = || params.text("uri").unwrap_or_default();
        let form = Form::of(&params);
        match method {
            "tools/call"
                if params.text("name") == Some(self.reducer.limits().read_tool().name.clone())
                    && !self.may_be_the_servers(&params) =>
            {
                let arguments = params.some("arguments").unwrap_or("{}").to_owned();
                return vec![Effect::ReadTool { id, arguments, form }];
            }
            "resources/read" if uri().starts_with(SCHEME) => {
                return vec![Effect::ReadResource { id, uri: uri(), form }];
            }
            // What is stored never changes, so there is nothing to tell of.
            "resources/subscribe" | "resources/unsubscribe" if uri().starts_with(SCHEME) => {
                return vec![answer(id, &form.complete("{}"))];
            }
            _ => {}
        }
        match method {
            "logging/setLevel" => self.level = Some(message.clone()),
            "resources/subscribe" if self.subscriptions.len() < REMEMBERED => {
                self.subscriptions.insert(uri(), message.clone());
            }
            "resources/unsubscribe" => {
                self.subscriptions.remove(&uri());
            }
            _ => {}
        }
        if self.is_many() {
            return self.request_of_many(id, method, &message);
        }
        let list = ListOf::of_method(method);
        if let (Some(list @ (ListOf::Resources | ListOf::Templates)), Some(held)) =
            (list, &self.capabilities[0])
            && !held.contains("resources")
        {
            let result = listing::result(list, &self.own(list), None);
            return vec![answer(id, &form.cacheable(&result))];
        }
        if list == Some(ListOf::Tools) && params.some("cursor").is_none() {
            self.tool_names.clear();
        }
        let tool = params.text("name").unwrap_or_default();
        let what = self.what(method, &params, &tool, list);
        let mark = if method == "initialize" { Mark::Initialize } else { Mark::Plain };
        self.send(0, id, message, what, mark)
    }

    /// Whether a call of the read tool may be meant for a tool of the server's that has its name: until
    /// tools are listed nobody knows, and then one without a handle is.
    fn may_be_the_servers(&self, params: &Members<'_>) -> bool {
        let arguments = params.object("arguments").unwrap_or_default();
        !self.is_many() && !self.has_listed_tools && arguments.get("handle").is_none()
    }

    fn what(&self, method: &str, params: &Members<'_>, tool: &str, list: Option<ListOf>) -> What {
        let task = || {
            let id = params.text("taskId").unwrap_or_default();
            self.tasks.get(&id).map_or_else(|| "task".to_owned(), |(_, tool)| tool.clone())
        };
        match (method, list) {
            ("tools/call", _) => What::Reduce(Job::Tool(tool.to_owned())),
            ("tasks/result", _) => What::Reduce(Job::Tool(task())),
            ("tasks/get", _) => What::Reduce(Job::Task(task())),
            ("resources/read", _) if self.reducer.config().mcp.resources => {
                What::Reduce(Job::Resource)
            }
            ("initialize" | "server/discover", _) => What::Capabilities,
            (_, Some(list)) => What::List { list },
            _ => What::Plain,
        }
    }

    /// Passes a request on to a server.
    fn send(
        &mut self,
        server: usize,
        id: Id,
        message: Message,
        what: What,
        mark: Mark,
    ) -> Vec<Effect> {
        let token = token(&message);
        let tool = match &what {
            What::Reduce(Job::Tool(tool)) if self.may_hold_handle(tool, message.params()) => {
                Some(tool.clone())
            }
            _ => None,
        };
        let call = Call { client: Some(id.clone()), what, token, is_held: tool.is_some() };
        self.calls.insert((server, id.clone()), call);
        match tool {
            Some(tool) => vec![Effect::Substitute { server, message, id, tool }],
            None => vec![Effect::ToServer { server, text: message.into_text(), mark }],
        }
    }

    fn may_hold_handle(&self, tool: &str, params: &str) -> bool {
        self.reducer.may_hold_handle(tool, params)
    }

    fn notification(&mut self, method: &str, message: Message) -> Vec<Effect> {
        let mark = match method {
            "notifications/initialized" => {
                self.is_initialized = true;
                Mark::Initialized
            }
            _ => Mark::Plain,
        };
        let mut effects = Vec::new();
        if method == "notifications/cancelled"
            && let Some(id) = request_id(&message)
        {
            effects.push(Effect::Abandoned { id: id.clone() });
            if self.is_dropped(&id) {
                return effects;
            }
            self.note_cancelled(&id);
            if self.is_many() {
                effects.extend(self.cancel_in_many(&id, &message));
                return effects;
            }
        }
        if self.is_many() {
            effects.extend(self.notification_to_many(method, &message, mark));
        } else {
            effects.push(Effect::ToServer { server: 0, text: message.into_text(), mark });
        }
        effects
    }

    /// Whether the call was not made yet, and is not made at all.
    fn is_dropped(&mut self, id: &Id) -> bool {
        let held = self.calls.iter().find(|((_, of), call)| of == id && call.is_held);
        let Some(key) = held.map(|(key, _)| key.clone()) else { return false };
        self.calls.remove(&key);
        true
    }

    /// A call that was cancelled may be answered all the same, and is then reduced all the same.
    fn note_cancelled(&mut self, id: &Id) {
        for server in 0..self.names.len() {
            self.note_cancelled_at(server, id.clone());
        }
    }

    fn note_cancelled_at(&mut self, server: usize, id: Id) {
        let key = (server, id);
        if self.calls.contains_key(&key) {
            self.cancelled.push_back(key);
        }
        while self.cancelled.len() > CANCELLED {
            if let Some(key) = self.cancelled.pop_front() {
                self.calls.remove(&key);
            }
        }
    }

    fn forget_cancelled(&mut self, server: usize, id: &Id) -> bool {
        let at = self.cancelled.iter().position(|(of, held)| *of == server && held == id);
        at.and_then(|at| self.cancelled.remove(at)).is_some()
    }

    /// The client answers a server.
    fn answer(&mut self, id: Option<Id>, message: Message) -> Vec<Effect> {
        let Some(ask) = id.as_ref().and_then(|id| self.asks.remove(id)) else {
            return match (id, self.is_many()) {
                // An error without an id is all that tells of it.
                (None, false) => vec![Effect::ToServer {
                    server: 0,
                    text: message.into_text(),
                    mark: Mark::Plain,
                }],
                _ => vec![Effect::Log(
                    "the client answered a request that no server has open; the answer is dropped"
                        .to_owned(),
                )],
            };
        };
        // Nothing more comes of how far it is.
        id.as_ref().and_then(|id| self.tokens.remove(id));
        let text =
            if self.is_many() { message.with_id(&ask.original) } else { message.into_text() };
        vec![Effect::ToServer { server: ask.server, text, mark: Mark::Plain }]
    }

    /// A server asks the client.
    fn ask(&mut self, server: usize, id: Id, message: Message, related: Option<Id>) -> Vec<Effect> {
        let (known, text) = if self.is_many() {
            let known = self.fresh();
            (known.clone(), self.ask_of_many(server, &message, &known))
        } else {
            (id.clone(), message.into_text())
        };
        self.asks.insert(known, Ask { server, original: id });
        vec![Effect::ToClient { text, answers: None, related }]
    }

    /// A server tells the client.
    fn told(
        &mut self,
        server: usize,
        method: &str,
        message: Message,
        related: Option<Id>,
    ) -> Vec<Effect> {
        let params = Members::of(message.params()).unwrap_or_default();
        let related = related.or_else(|| match params.some("progressToken").map(Id::of) {
            Some(token) => {
                let mut calls = self.calls.values();
                calls.find(|call| call.token.as_ref() == Some(&token))?.client.clone()
            }
            None => revision::subscription(&params).map(Id::of),
        });
        let mut text = None;
        if method == "notifications/cancelled"
            && let Some(raw) = params.some("requestId")
        {
            let original = Id::of(raw);
            let is_it = |ask: &Ask| ask.server == server && ask.original == original;
            let known = self.asks.iter().find(|(_, ask)| is_it(ask)).map(|(id, _)| id.clone());
            if let Some(known) = known {
                self.asks.remove(&known);
                self.tokens.remove(&known);
                let mut edits = Edits::default();
                edits.replace_part(message.text(), raw, known.as_json());
                text = self.is_many().then(|| edits.apply(message.text()));
            }
        }
        let text = text.unwrap_or_else(|| message.into_text());
        vec![Effect::ToClient { text, answers: None, related }]
    }

    /// A server answers.
    fn response(&mut self, server: usize, id: Option<Id>, message: Message) -> Vec<Effect> {
        let Some(id) = id else {
            return vec![to_client(message.into_text())];
        };
        let Some((id, call, message)) = self.answered(server, id, message) else {
            let name = &self.names[server];
            return vec![Effect::Log(format!(
                "{name} answered a request that nobody has open; the answer is dropped"
            ))];
        };
        let was_cancelled = self.forget_cancelled(server, &id);
        match (call.what, call.client) {
            (What::Part { gather, late }, _) => {
                self.part_response(gather, late, server, &message, was_cancelled)
            }
            (What::Reopened, _) => self.reopened(server, &message),
            (_, None) => Vec::new(),
            (what, Some(_)) => self.fulfilled(server, &what, id, message),
        }
    }

    /// What becomes of a response that is one server's alone.
    fn fulfilled(&mut self, server: usize, what: &What, id: Id, message: Message) -> Vec<Effect> {
        let answers = Some(id.clone());
        if let What::Reduce(job @ (Job::Tool(_) | Job::Task(_))) = what
            && let Some(error) = message.error()
            && (!self.reducer.passes(job.tool(), error.len()) || long::is_in(error))
        {
            return vec![Effect::Reduce { answers: id, job: job.clone(), message }];
        }
        let Some(result) = message.result() else {
            return vec![Effect::ToClient { text: message.into_text(), answers, related: None }];
        };
        let text = match what {
            What::Reduce(job) => {
                self.note_task(server, job, result);
                if !self.reducer.passes(job.tool(), result.len()) || long::is_in(result) {
                    return vec![Effect::Reduce { answers: id, job: job.clone(), message }];
                }
                None
            }
            What::Capabilities => {
                let edited = self.capabilities(server, result);
                edited.map(|result| message.with_body(&result))
            }
            What::List { list } => {
                let edited = self.list(*list, result);
                edited.map(|result| message.with_body(&result))
            }
            What::Plain | What::Part { .. } | What::Reopened => None,
        };
        let text = text.unwrap_or_else(|| message.into_text());
        vec![Effect::ToClient { text, answers, related: None }]
    }

    /// The call that a response answers, and the response under the id of that call.
    ///
    /// Some servers answer `52` under `"52"`, or the reverse. That counts where no call waits under
    /// the very id, and the response then takes the call's.
    fn answered(&mut self, server: usize, id: Id, message: Message) -> Option<(Id, Call, Message)> {
        let own = self.waiting(server, &id)?;
        let call = self.calls.remove(&(server, own.clone()))?;
        if own == id {
            return Some((id, call, message));
        }
        let message = Message::one(message.with_id(&own)).ok()?;
        Some((own, call, message))
    }

    /// The id of the call that waits for a response under `id`, as it was spelled.
    pub(crate) fn waiting(&self, server: usize, id: &Id) -> Option<Id> {
        let of = |id: Id| self.calls.get_key_value(&(server, id)).map(|((_, own), _)| own.clone());
        of(id.clone()).or_else(|| of(id.other_type()?))
    }

    /// Whether a response is a part of what several servers answer together.
    pub(crate) fn is_gathered(&self, server: usize, id: &Id) -> bool {
        let call = self.waiting(server, id).and_then(|id| self.calls.get(&(server, id)));
        let Some(Call { what: What::Part { gather, .. }, .. }) = call else { return false };
        let kind = self.gathers.get(gather).map(|held| &held.kind);
        !matches!(kind, Some(GatherOf::First { .. }))
    }

    /// Remembers which server has the task that a call became, and of which tool it is.
    fn note_task(&mut self, server: usize, job: &Job, result: &str) {
        if let Job::Tool(tool) = job
            && memchr::memmem::find(&result.as_bytes()[..result.len().min(4_096)], b"taskId")
                .is_some()
            && let Some(task) = Members::of(result).and_then(|members| members.object("task"))
            && let Some(id) = task.text("taskId")
            && self.tasks.len() < REMEMBERED
        {
            self.tasks.insert(id, (server, tool.clone()));
        }
    }

    /// Takes in a server's capabilities, and adds what the proxy itself can.
    fn capabilities(&mut self, server: usize, result: &str) -> Option<String> {
        let members = Members::of(result)?;
        let held = members.some("capabilities")?;
        let keys: HashSet<String> =
            Members::of(held)?.iter().map(|(key, _)| key.to_owned()).collect();
        let has_resources = keys.contains("resources");
        self.capabilities[server] = Some(keys);
        if has_resources {
            return None;
        }
        let mut edits = Edits::default();
        edits.add_member(result, held, "resources", "{}");
        Some(edits.apply(result))
    }

    /// Edits a page of a single server's list.
    fn list(&mut self, list: ListOf, result: &str) -> Option<String> {
        let (elements, cursor) = listing::page(result, list);
        let mut edits = Edits::default();
        if list == ListOf::Tools {
            for element in elements {
                let Some(name) = listing::name_of(element, "name") else { continue };
                if self.reducer.concerns(&name)
                    && let Some(wider) = listing::with_wider_schema(element)
                {
                    edits.replace_part(result, element, wider);
                }
                self.tool_names.insert(name);
            }
        }
        let edited = (!edits.is_empty()).then(|| edits.apply(result));
        if cursor.is_some() {
            return edited;
        }
        let own = self.own(list);
        if own.is_empty() {
            return edited;
        }
        let result = edited.as_deref().unwrap_or(result);
        Some(listing::with_elements(result, list, &own))
    }

    /// What the proxy itself has in a list.
    fn own(&mut self, list: ListOf) -> Vec<String> {
        match list {
            ListOf::Tools => {
                let wanted = self.reducer.wanted_read_tool();
                self.has_listed_tools = true;
                let name = listing::free_name(wanted, |name| self.tool_names.contains(name));
                // A name that cannot be had leaves the one there was.
                let _ = self.reducer.rename_read_tool(&name);
                let takers = &self.reducer.config().mcp.handle_argument_tools;
                vec![listing::read_tool(self.reducer.limits().read_tool(), takers)]
            }
            ListOf::Resources if self.is_shared => Vec::new(),
            ListOf::Resources => self.shelf.list(),
            ListOf::Templates => vec![resources::template()],
            ListOf::Prompts | ListOf::Tasks => Vec::new(),
        }
    }
}

impl Call {
    /// One that the proxy itself makes.
    fn of_proxy(what: What) -> Self {
        Self { client: None, what, token: None, is_held: false }
    }
}

impl Job {
    /// The tool whose bands apply.
    pub(crate) fn tool(&self) -> &str {
        match self {
            Self::Tool(tool) | Self::Task(tool) => tool,
            Self::Resource => "resources/read",
        }
    }
}

fn to_client(text: String) -> Effect {
    Effect::ToClient { text, answers: None, related: None }
}

fn answer(id: Id, result: &str) -> Effect {
    Effect::ToClient { text: response(&id, result), answers: Some(id), related: None }
}

/// The token under which a request's progress is told.
fn token(message: &Message) -> Option<Id> {
    let meta = Members::of(message.params())?.object("_meta")?;
    meta.some("progressToken").map(Id::of)
}

fn request_id(message: &Message) -> Option<Id> {
    Members::of(message.params())?.some("requestId").map(Id::of)
}

fn remember<V>(map: &mut HashMap<String, V>, key: String, value: V) {
    if map.len() < REMEMBERED {
        map.insert(key, value);
    }
}

/// A text without what `of` says of one key's value.
fn with_value(text: &str, value: &str, new: &str) -> String {
    let mut edits = Edits::default();
    edits.replace_part(text, value, quote(new));
    edits.apply(text)
}

#[cfg(test)]
mod tests;
