//! Several servers seem one: what is theirs is told apart by prefixes, and joined in lists.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value, json};

use crate::json::{Edits, Members};
use crate::listing::{self, ListOf};
use crate::message::{
    INITIALIZED, INTERNAL, INVALID_PARAMS, Id, METHOD_NOT_FOUND, Message, cancelled, error,
    failure, refused,
};
use crate::revision::Form;

use super::{
    Call, Effect, Gather, GatherOf, Late, Mark, Odd, Router, What, answer, remember, to_client,
    token, with_value,
};

impl Router {
    pub(super) fn request_of_many(
        &mut self,
        id: Id,
        method: &str,
        message: &Message,
    ) -> Vec<Effect> {
        let params = Members::of(message.params()).unwrap_or_default();
        let form = Form::of(&params);
        match method {
            "ping" => return vec![answer(id, &form.complete("{}"))],
            // Servers of several revisions can only be joined in a session.
            "server/discover" => {
                let text =
                    failure(&id, METHOD_NOT_FOUND, "Several servers are joined in a session");
                return vec![Effect::ToClient { text, answers: Some(id), related: None }];
            }
            "initialize" => {
                let all = (0..self.names.len()).map(|server| (server, message.clone())).collect();
                return self.gather(id, GatherOf::Initialize, form, all);
            }
            "logging/setLevel" => {
                let all = self.with("logging").into_iter().map(|server| (server, message.clone()));
                let all = all.collect();
                return self.gather(id, GatherOf::Nothing, form, all);
            }
            "tools/call" | "prompts/get" => {
                let name = params.text("name").unwrap_or_default();
                let Some((server, own)) = listing::unprefixed(&self.names, &name) else {
                    let what = if method == "tools/call" { "tool" } else { "prompt" };
                    let text = failure(&id, INVALID_PARAMS, &format!("Unknown {what}: {name}"));
                    return vec![Effect::ToClient { text, answers: Some(id), related: None }];
                };
                let Some(spelled) = params.get("name") else { return Vec::new() };
                let text = with_value(message.text(), spelled, own);
                let what = self.what(method, &params, &name, None);
                return self.send_text(server, id, text, what);
            }
            "completion/complete" => {
                let reference = params.object("ref").unwrap_or_default();
                let name = reference.text("name").unwrap_or_default();
                if let Some((server, own)) = listing::unprefixed(&self.names, &name)
                    && let Some(spelled) = reference.get("name")
                {
                    let text = with_value(message.text(), spelled, own);
                    return self.send_text(server, id, text, What::Plain);
                }
            }
            _ => {}
        }
        if let Some(list) = ListOf::of_method(method) {
            return self.list_of_many(id, list, &params, message);
        }
        let what = self.what(method, &params, "", None);
        let known = params.text("uri").and_then(|uri| self.uris.get(&uri).copied());
        let known = known.or_else(|| {
            let task = params.text("taskId")?;
            self.tasks.get(&task).map(|(server, _)| *server)
        });
        let all = || 0..self.names.len();
        let (at_once, in_turn): (Vec<usize>, Vec<usize>) = match (known, method.split('/').next()) {
            (Some(server), _) => (vec![server], Vec::new()),
            // To ask who has a thing changes nothing.
            (None, Some(family @ ("resources" | "tasks"))) => (self.with(family), Vec::new()),
            (None, Some("completion")) => (self.with("completions"), Vec::new()),
            (None, _) => (all().take(1).collect(), all().skip(1).collect()),
        };
        if at_once.is_empty() {
            let text =
                failure(&id, METHOD_NOT_FOUND, "No server behind this proxy has this method");
            return vec![Effect::ToClient { text, answers: Some(id), related: None }];
        }
        if let ([server], true) = (at_once.as_slice(), in_turn.is_empty()) {
            return self.send(*server, id, message.clone(), what, Mark::Plain);
        }
        let kind = GatherOf::First {
            what: Box::new(what),
            message: Box::new(message.clone()),
            rest: in_turn.into(),
        };
        let asked = at_once.into_iter().map(|server| (server, message.clone())).collect();
        self.gather(id, kind, form, asked)
    }

    fn send_text(&mut self, server: usize, id: Id, text: String, what: What) -> Vec<Effect> {
        match Message::one(text) {
            Ok(message) => self.send(server, id, message, what, Mark::Plain),
            // A text that was read once is read again.
            Err(error) => vec![Effect::Log(error.to_string())],
        }
    }

    /// The servers that have a capability; one that has not said what it has may have it.
    fn with(&self, capability: &str) -> Vec<usize> {
        let has = |held: &Option<HashSet<String>>| match held {
            Some(held) => held.contains(capability),
            None => false,
        };
        self.capabilities.iter().enumerate().filter(|(_, held)| has(held)).map(|(i, _)| i).collect()
    }

    fn list_of_many(
        &mut self,
        id: Id,
        list: ListOf,
        params: &Members<'_>,
        message: &Message,
    ) -> Vec<Effect> {
        let asked: Vec<(usize, Message)> = match params.text("cursor") {
            None => {
                if list == ListOf::Tools {
                    self.tool_names.clear();
                }
                let servers = self.with(list.capability());
                servers.into_iter().map(|server| (server, message.clone())).collect()
            }
            Some(cursor) => {
                let Some(cursors) = listing::split_cursor(&cursor) else {
                    let text = failure(&id, INVALID_PARAMS, "Unknown cursor");
                    return vec![Effect::ToClient { text, answers: Some(id), related: None }];
                };
                let Some(spelled) = params.get("cursor") else { return Vec::new() };
                let of = |(server, cursor): (usize, String)| {
                    let text = with_value(message.text(), spelled, &cursor);
                    Some((server, Message::one(text).ok()?))
                };
                let known = self.names.len();
                cursors.into_iter().filter(|(server, _)| *server < known).filter_map(of).collect()
            }
        };
        self.gather(id, GatherOf::List(list), Form::of(params), asked)
    }

    /// Asks several servers at once and answers when all have, or the first.
    fn gather(
        &mut self,
        id: Id,
        kind: GatherOf,
        form: Form,
        asked: Vec<(usize, Message)>,
    ) -> Vec<Effect> {
        self.next += 1;
        let gather = self.next;
        let late = match &kind {
            GatherOf::Initialize => Late::Opens,
            GatherOf::List(list) => Late::Lists(*list),
            GatherOf::Nothing | GatherOf::First { .. } => Late::Nothing,
        };
        // Whoever waits for the first waits as long as it would for that server alone.
        let waits = matches!(kind, GatherOf::First { .. });
        let (results, errors) = (BTreeMap::new(), BTreeMap::new());
        let waiting = HashSet::new();
        self.gathers.insert(gather, Gather { id, kind, form, waiting, results, errors });
        if asked.is_empty() {
            return self.finish(gather);
        }
        let mut effects: Vec<Effect> = asked
            .into_iter()
            .map(|(server, message)| self.ask_part(gather, late, server, &message))
            .collect();
        if !waits {
            effects.push(Effect::Deadline { gather });
        }
        effects
    }

    fn ask_part(&mut self, gather: u64, late: Late, server: usize, message: &Message) -> Effect {
        let id = self.fresh();
        let text = message.with_id(&id);
        let client = self.gathers.get_mut(&gather).map(|held| {
            held.waiting.insert(server);
            held.id.clone()
        });
        let what = What::Part { gather, late };
        let call = Call { client, what, token: token(message), is_held: false };
        self.calls.insert((server, id), call);
        let mark = if late == Late::Opens { Mark::Initialize } else { Mark::Plain };
        Effect::ToServer { server, text, mark }
    }

    pub(super) fn part_response(
        &mut self,
        gather: u64,
        late: Late,
        server: usize,
        message: &Message,
        was_cancelled: bool,
    ) -> Vec<Effect> {
        let is_late = !self.gathers.contains_key(&gather);
        if late == Late::Opens
            && let Some(result) = message.result()
        {
            self.capabilities(server, result);
        }
        if let Late::Lists(list) = late {
            match is_late {
                true if was_cancelled => {}
                // Only once, since the next time it would be as late.
                true if self.late.insert((server, list)) => return self.has_changed(list),
                true => {}
                false => {
                    self.late.remove(&(server, list));
                }
            }
        }
        match (is_late, late, message.result()) {
            (true, Late::Opens, Some(_)) => return self.late(server),
            (true, ..) => return Vec::new(),
            (false, _, Some(_)) => {}
            (false, ..) => {
                let error = message.error().unwrap_or("null").to_owned();
                return self.part(gather, server, Err(error));
            }
        }
        if let Some(Gather { kind: GatherOf::First { .. }, .. }) = self.gathers.get(&gather) {
            return self.first(gather, server, message);
        }
        let result = message.result().unwrap_or_default().to_owned();
        self.part(gather, server, Ok(result))
    }

    /// One of those that were asked has it; nothing more is wanted of the others.
    fn first(&mut self, gather: u64, server: usize, message: &Message) -> Vec<Effect> {
        let mut effects = self.cancel_parts(gather, "another server has answered");
        let Some(Gather { id, kind: GatherOf::First { what, .. }, .. }) =
            self.gathers.remove(&gather)
        else {
            return effects;
        };
        if let Ok(message) = Message::one(message.with_id(&id)) {
            effects.extend(self.fulfilled(server, &what, id, message));
        }
        effects
    }

    /// Cancels what servers have been asked and have not answered.
    fn cancel_parts(&mut self, gather: u64, why: &str) -> Vec<Effect> {
        let is_part =
            |call: &Call| matches!(call.what, What::Part { gather: of, .. } if of == gather);
        let open: Vec<(usize, Id)> = self
            .calls
            .iter()
            .filter(|(_, call)| is_part(call))
            .map(|(key, _)| key.clone())
            .collect();
        open.into_iter()
            .map(|(server, id)| {
                let text = cancelled(&id, why);
                self.note_cancelled_at(server, id);
                Effect::ToServer { server, text, mark: Mark::Plain }
            })
            .collect()
    }

    /// The client is told to ask for a list again.
    fn has_changed(&self, list: ListOf) -> Vec<Effect> {
        let what = match list {
            ListOf::Tools | ListOf::Prompts | ListOf::Resources => list.key(),
            ListOf::Templates => ListOf::Resources.key(),
            ListOf::Tasks => return Vec::new(),
        };
        let method = format!("notifications/{what}/list_changed");
        vec![to_client(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"}}"))]
    }

    /// A server has been opened again, or for the first time after all.
    pub(super) fn reopened(&mut self, server: usize, message: &Message) -> Vec<Effect> {
        let Some(result) = message.result() else { return Vec::new() };
        let was_open = self.capabilities[server].is_some();
        self.capabilities(server, result);
        if was_open {
            return Vec::new();
        }
        let opening = self.gathers.values_mut().find(|held| held.kind == GatherOf::Initialize);
        if let Some(held) = opening {
            held.errors.remove(&server);
            held.results.insert(server, result.to_owned());
            return Vec::new();
        }
        self.joins(server)
    }

    /// A server that took its time is there after all.
    fn late(&mut self, server: usize) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.is_initialized {
            let text = INITIALIZED.to_owned();
            effects.push(Effect::ToServer { server, text, mark: Mark::Initialized });
        }
        effects.extend(self.joins(server));
        effects
    }

    fn joins(&self, server: usize) -> Vec<Effect> {
        let mut effects = vec![Effect::Log(format!("{} is ready after all", self.names[server]))];
        for list in [ListOf::Tools, ListOf::Resources, ListOf::Prompts] {
            if self.with(list.capability()).contains(&server) {
                effects.extend(self.has_changed(list));
            }
        }
        effects
    }

    pub(super) fn part(
        &mut self,
        gather: u64,
        server: usize,
        part: Result<String, String>,
    ) -> Vec<Effect> {
        let Some(held) = self.gathers.get_mut(&gather) else { return Vec::new() };
        held.waiting.remove(&server);
        match part {
            Ok(result) => {
                held.results.insert(server, result);
            }
            Err(error) => {
                held.errors.insert(server, error);
            }
        }
        if !held.waiting.is_empty() {
            return Vec::new();
        }
        let GatherOf::First { message, rest, .. } = &mut held.kind else {
            return self.finish(gather);
        };
        match rest.pop_front() {
            Some(server) => {
                let message = message.clone();
                vec![self.ask_part(gather, Late::Nothing, server, &message)]
            }
            None => self.finish(gather),
        }
    }

    /// Answers with what there is.
    pub(crate) fn deadline(&mut self, gather: u64) -> Vec<Effect> {
        let Some(held) = self.gathers.get_mut(&gather) else { return Vec::new() };
        for server in std::mem::take(&mut held.waiting) {
            held.errors.insert(server, error(INTERNAL, "it has not answered yet"));
        }
        self.finish(gather)
    }

    fn finish(&mut self, gather: u64) -> Vec<Effect> {
        let Some(held) = self.gathers.remove(&gather) else { return Vec::new() };
        let Gather { id, kind, form, results, errors, .. } = held;
        if let GatherOf::First { .. } = kind {
            // One that knows the method says more of what is wrong than one that does not.
            let is_known = |error: &&String| {
                let code = Members::of(error).and_then(|error| error.get("code"));
                code != Some(METHOD_NOT_FOUND.to_string().as_str())
            };
            let error = errors.values().find(is_known).or_else(|| errors.values().next());
            let text = refused(id.as_json(), error.map_or("null", String::as_str));
            return vec![Effect::ToClient { text, answers: Some(id), related: None }];
        }
        let whys: Vec<(usize, String)> = errors
            .iter()
            .map(|(server, error)| {
                let why = Members::of(error).and_then(|error| error.text("message"));
                let why = why.unwrap_or_else(|| "it answered with an error".to_owned());
                (*server, of(&self.names[*server], &why))
            })
            .collect();
        let is_news = |(server, why): &&(usize, String)| self.is_news(*server, why);
        let news: Vec<_> =
            whys.iter().filter(is_news).map(|it| Effect::Log(it.1.clone())).collect();
        if results.is_empty() && !errors.is_empty() {
            let whys: Vec<String> = whys.into_iter().map(|it| it.1).collect();
            let text = failure(&id, INTERNAL, &whys.join("; "));
            return news
                .into_iter()
                .chain([Effect::ToClient { text, answers: Some(id), related: None }])
                .collect();
        }
        let mut effects = news;
        let result = match kind {
            GatherOf::Nothing => form.complete("{}"),
            GatherOf::Initialize => self.initialized(&results),
            GatherOf::List(list) => form.cacheable(&self.joined(list, &results)),
            GatherOf::First { .. } => return effects,
        };
        effects.extend(self.notes.drain(..).map(Effect::Log));
        effects.push(answer(id, &result));
        effects
    }

    /// What the servers say of themselves, as one.
    fn initialized(&self, results: &BTreeMap<usize, String>) -> String {
        let mut version: Option<String> = None;
        let mut capabilities = Map::from_iter([("resources".to_owned(), json!({}))]);
        let mut instructions = Vec::new();
        for (server, result) in results {
            let members = Members::of(result).unwrap_or_default();
            // Dates compare as texts; the oldest is what all of them speak.
            if let Some(own) = members.text("protocolVersion") {
                version = Some(version.map_or(own.clone(), |version| version.min(own)));
            }
            if let Some(Ok(Value::Object(own))) =
                members.get("capabilities").map(serde_json::from_str)
            {
                merge(&mut capabilities, own);
            }
            if let Some(text) = members.text("instructions").filter(|text| !text.is_empty()) {
                instructions.push(format!("{}: {text}", self.names[*server]));
            }
        }
        let mut result = json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "serverInfo": { "name": "overspill", "version": env!("CARGO_PKG_VERSION") },
        });
        if !instructions.is_empty() {
            result["instructions"] = instructions.join("\n\n").into();
        }
        result.to_string()
    }

    fn joined(&mut self, list: ListOf, results: &BTreeMap<usize, String>) -> String {
        let mut elements = Vec::new();
        let mut cursors = BTreeMap::new();
        for (server, result) in results {
            let (page, cursor) = listing::page(result, list);
            for element in page {
                elements.push(self.element(*server, list, element));
            }
            if let Some(cursor) = cursor {
                cursors.insert(*server, cursor);
            }
        }
        if cursors.is_empty() {
            elements.extend(self.own(list));
        }
        listing::result(list, &elements, listing::join_cursors(&cursors).as_deref())
    }

    /// Remembers which server has an address: of several the first in the configuration, whichever
    /// lists it first.
    fn note_address(&mut self, server: usize, uri: String) {
        match self.uris.get_mut(&uri) {
            Some(held) if *held != server => {
                let (first, second) = (server.min(*held), server.max(*held));
                *held = first;
                if self.told.insert((Odd::SharedAddress, first, second)) {
                    let shown: String = uri.chars().take(200).collect();
                    self.notes.push(format!(
                        "{} and {} have the resource {shown}; it is read from {}",
                        self.names[first], self.names[second], self.names[first]
                    ));
                }
            }
            Some(_) => {}
            None => remember(&mut self.uris, uri, server),
        }
    }

    fn element(&mut self, server: usize, list: ListOf, element: &str) -> String {
        match list {
            ListOf::Resources => {
                if let Some(uri) = listing::name_of(element, "uri") {
                    self.note_address(server, uri);
                }
            }
            ListOf::Tasks => {
                if let Some(task) = listing::name_of(element, "taskId")
                    && !self.tasks.contains_key(&task)
                {
                    remember(&mut self.tasks, task, (server, "task".to_owned()));
                }
            }
            _ => {}
        }
        if !list.is_prefixed() {
            return element.to_owned();
        }
        let own = listing::name_of(element, "name").unwrap_or_default();
        let name = listing::prefixed(&self.names[server], &own);
        if name.chars().count() > listing::MAX_NAME
            && self.told.insert((Odd::LongName, server, server))
        {
            self.notes.push(format!(
                "{name} has more than {} characters, which many clients refuse; a shorter name for \
                 {} in [mcp.servers] mends it",
                listing::MAX_NAME,
                self.names[server]
            ));
        }
        let mut element = listing::renamed(element, &name);
        if list == ListOf::Tools {
            if self.reducer.concerns(&name)
                && let Some(wider) = listing::with_wider_schema(&element)
            {
                element = wider;
            }
            self.tool_names.insert(name);
        }
        element
    }

    pub(super) fn cancel_in_many(&mut self, id: &Id, message: &Message) -> Vec<Effect> {
        let gather =
            self.gathers.iter().find(|(_, held)| held.id == *id).map(|(gather, _)| *gather);
        if let Some(gather) = gather {
            let effects = self.cancel_parts(gather, "the client cancelled it");
            self.gathers.remove(&gather);
            return effects;
        }
        let of = self.calls.keys().filter(|(_, own)| own == id);
        of.map(|(server, _)| Effect::ToServer {
            server: *server,
            text: message.text().to_owned(),
            mark: Mark::Plain,
        })
        .collect()
    }

    pub(super) fn notification_to_many(
        &mut self,
        method: &str,
        message: &Message,
        mark: Mark,
    ) -> Vec<Effect> {
        if method == "notifications/progress" {
            let params = Members::of(message.params()).unwrap_or_default();
            let Some(raw) = params.some("progressToken") else { return Vec::new() };
            let Some((server, original)) = self.tokens.get(&Id::of(raw)) else { return Vec::new() };
            let mut edits = Edits::default();
            edits.replace_part(message.text(), raw, original.as_json());
            let text = edits.apply(message.text());
            return vec![Effect::ToServer { server: *server, text, mark }];
        }
        let up = |server: &usize| self.capabilities[*server].is_some();
        let all = (0..self.names.len()).filter(up);
        all.map(|server| Effect::ToServer { server, text: message.text().to_owned(), mark })
            .collect()
    }

    /// A server's request as the client gets it: under an id, and with a progress token, that no
    /// other server's has.
    pub(super) fn ask_of_many(&mut self, server: usize, message: &Message, known: &Id) -> String {
        let params = Members::of(message.params()).unwrap_or_default();
        let token = params.object("_meta").and_then(|meta| meta.some("progressToken"));
        let Some(token) = token else { return message.with_id(known) };
        self.tokens.insert(known.clone(), (server, Id::of(token)));
        let mut edits = Edits::default();
        edits.replace_part(message.text(), token, known.as_json());
        match Message::one(edits.apply(message.text())) {
            Ok(message) => message.with_id(known),
            Err(_) => message.with_id(known),
        }
    }
}

/// Joins what servers can: of two values the one that is there, of two objects both.
fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(held)), Value::Object(more)) => merge(held, more),
            (Some(Value::Bool(held)), Value::Bool(more)) => *held |= more,
            (Some(_), _) => {}
            (None, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// What a server says, or what is said of it; its name stands there once.
fn of(name: &str, why: &str) -> String {
    let rest = why.strip_prefix(name);
    match rest.is_some_and(|rest| rest.starts_with(|it: char| !it.is_alphanumeric())) {
        true => why.to_owned(),
        false => format!("{name}: {why}"),
    }
}
