//! Several servers seem one: what is theirs is told apart by prefixes, and joined in lists.

use std::collections::{BTreeMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

use crate::json::{Edits, Members};
use crate::listing::{self, ListOf};
use crate::message::{INTERNAL, INVALID_PARAMS, Id, METHOD_NOT_FOUND, Message, cancelled, failure};
use crate::revision::Form;

use super::{
    Call, Effect, Gather, GatherOf, Mark, Router, What, answer, remember, to_client, with_value,
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
                let mut effects = self.gather(id, GatherOf::Initialize, form, all);
                effects.push(Effect::Deadline { gather: self.next_gather() });
                return effects;
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
        let asked: VecDeque<usize> = match (known, method.split('/').next()) {
            (Some(server), _) => [server].into(),
            (None, Some(family @ ("resources" | "tasks"))) => self.with(family).into(),
            (None, Some("completion")) => self.with("completions").into(),
            _ => (0..self.names.len()).collect(),
        };
        self.try_each(id, message, what, asked)
    }

    /// Asks one server after another, until one knows.
    fn try_each(
        &mut self,
        id: Id,
        message: &Message,
        what: What,
        mut asked: VecDeque<usize>,
    ) -> Vec<Effect> {
        let Some(server) = asked.pop_front() else {
            let text =
                failure(&id, METHOD_NOT_FOUND, "No server behind this proxy has this method");
            return vec![Effect::ToClient { text, answers: Some(id), related: None }];
        };
        let tries = Some((message.clone(), asked));
        self.send(server, id, message.clone(), what, Mark::Plain, tries)
    }

    fn send_text(&mut self, server: usize, id: Id, text: String, what: What) -> Vec<Effect> {
        match Message::one(text) {
            Ok(message) => self.send(server, id, message, what, Mark::Plain, None),
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

    fn next_gather(&self) -> u64 {
        self.gathers.keys().copied().max().unwrap_or(0)
    }

    /// Asks several servers at once and answers when all have.
    fn gather(
        &mut self,
        id: Id,
        kind: GatherOf,
        form: Form,
        asked: Vec<(usize, Message)>,
    ) -> Vec<Effect> {
        self.next += 1;
        let gather = self.next;
        let opens = kind == GatherOf::Initialize;
        let waiting: HashSet<usize> = asked.iter().map(|(server, _)| *server).collect();
        let (results, errors) = (BTreeMap::new(), BTreeMap::new());
        self.gathers.insert(gather, Gather { id, kind, form, waiting, results, errors });
        let mut effects = Vec::new();
        for (server, message) in asked {
            let id = self.fresh();
            let text = message.with_id(&id);
            let what = What::Part { gather, opens };
            self.calls.insert((server, id), Call { client: None, what, token: None, tries: None });
            let mark = if opens { Mark::Initialize } else { Mark::Plain };
            effects.push(Effect::ToServer { server, text, mark });
        }
        if effects.is_empty() {
            return self.finish(gather);
        }
        effects
    }

    pub(super) fn part_response(
        &mut self,
        gather: u64,
        opens: bool,
        server: usize,
        message: &Message,
    ) -> Vec<Effect> {
        let part = match (message.result(), message.error()) {
            (Some(result), _) => Ok(result.to_owned()),
            (None, error) => Err(error
                .and_then(|error| Members::of(error)?.text("message"))
                .unwrap_or_else(|| "it answered with an error".to_owned())),
        };
        if opens && let Ok(result) = &part {
            self.capabilities(server, result);
            if !self.gathers.contains_key(&gather) {
                return self.late(server);
            }
        }
        self.part(gather, server, part)
    }

    /// A server that took its time is there after all.
    fn late(&mut self, server: usize) -> Vec<Effect> {
        let mut effects = vec![Effect::Log(format!("{} is ready after all", self.names[server]))];
        if self.is_initialized {
            let text = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned();
            effects.push(Effect::ToServer { server, text, mark: Mark::Initialized });
        }
        for what in ["tools", "resources", "prompts"] {
            if self.with(what).contains(&server) {
                effects.push(to_client(format!(
                    "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{what}/list_changed\"}}"
                )));
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
            Err(why) => {
                held.errors.insert(server, why);
            }
        }
        if held.waiting.is_empty() { self.finish(gather) } else { Vec::new() }
    }

    /// Answers with what there is.
    pub(crate) fn deadline(&mut self, gather: u64) -> Vec<Effect> {
        let Some(held) = self.gathers.get_mut(&gather) else { return Vec::new() };
        for server in std::mem::take(&mut held.waiting) {
            held.errors.insert(server, "it has not answered yet".to_owned());
        }
        self.finish(gather)
    }

    fn finish(&mut self, gather: u64) -> Vec<Effect> {
        let Some(held) = self.gathers.remove(&gather) else { return Vec::new() };
        let Gather { id, kind, form, results, errors, .. } = held;
        let mut effects: Vec<Effect> =
            errors.iter().map(|(server, why)| Effect::Log(of(&self.names[*server], why))).collect();
        if results.is_empty() && !errors.is_empty() {
            let whys: Vec<String> =
                errors.iter().map(|(server, why)| of(&self.names[*server], why)).collect();
            let text = failure(&id, INTERNAL, &whys.join("; "));
            effects.push(Effect::ToClient { text, answers: Some(id), related: None });
            return effects;
        }
        let result = match kind {
            GatherOf::Nothing => form.complete("{}"),
            GatherOf::Initialize => self.initialized(&results),
            GatherOf::List(list) => form.cacheable(&self.joined(list, &results)),
        };
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

    fn element(&mut self, server: usize, list: ListOf, element: &str) -> String {
        match list {
            ListOf::Resources => {
                if let Some(uri) = listing::name_of(element, "uri") {
                    remember(&mut self.uris, uri, server);
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
        let is_part = |call: &Call| {
            gather.is_some_and(|of| matches!(call.what, What::Part { gather, .. } if gather == of))
        };
        let mut effects = Vec::new();
        for ((server, own), call) in &self.calls {
            let text = if own == id {
                message.text().to_owned()
            } else if is_part(call) {
                cancelled(own, "the client cancelled it")
            } else {
                continue;
            };
            effects.push(Effect::ToServer { server: *server, text, mark: Mark::Plain });
        }
        if let Some(gather) = gather {
            self.gathers.remove(&gather);
        }
        effects
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
