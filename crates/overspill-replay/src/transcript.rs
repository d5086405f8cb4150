//! The flat list a format reader produces, and how requests, turns and pairs are found in it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use crate::evidence;
use crate::format::Format;
use crate::json::Json;
use crate::session::{Item, ItemId, Kind, PairId, Segment, Session, Turn};

static EMPTY: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(""));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    System,
    User,
    Assistant,
    Tool,
    /// The agent compacted its history: it starts anew here.
    Reset,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) role: Role,
    pub(crate) text: Arc<str>,
    pub(crate) tool: Arc<str>,
    pub(crate) args: Arc<str>,
    /// The name of the model response, where the format records one.
    pub(crate) response: Option<Arc<str>>,
}

/// What is known of a call once it is made: the tool and the arguments.
type Call = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
pub(crate) struct Transcript {
    pub(crate) sub: String,
    pub(crate) entries: Vec<Entry>,
    calls: HashMap<Option<String>, Call>,
}

impl Transcript {
    pub(crate) fn named(sub: impl Into<String>) -> Self {
        Self { sub: sub.into(), ..Self::default() }
    }

    fn push(&mut self, role: Role, text: &str, response: Option<Arc<str>>) {
        let text = if text.is_empty() { EMPTY.clone() } else { Arc::from(text) };
        let (tool, args) = (EMPTY.clone(), EMPTY.clone());
        self.entries.push(Entry { role, text, tool, args, response });
    }

    pub(crate) fn system(&mut self, text: &str) {
        self.push(Role::System, text, None);
    }

    pub(crate) fn user(&mut self, text: &str) {
        self.push(Role::User, text, None);
    }

    pub(crate) fn say(&mut self, text: &str, response: Option<Arc<str>>) {
        self.push(Role::Assistant, text, response);
    }

    pub(crate) fn reset(&mut self) {
        self.push(Role::Reset, "", None);
    }

    /// Words of whoever has this role in a list of messages with the roles user and assistant.
    pub(crate) fn words(&mut self, is_user: bool, text: &str) {
        self.push(if is_user { Role::User } else { Role::Assistant }, text, None);
    }

    /// A call that results find through `key`.
    pub(crate) fn call(
        &mut self,
        key: &Json<'_>,
        tool: &str,
        args: &str,
        response: Option<Arc<str>>,
    ) {
        let call = self.note(key, tool, args);
        self.call_as(call, response);
    }

    /// A call that no result names.
    pub(crate) fn bare_call(&mut self, tool: &str, args: &str, response: Option<Arc<str>>) {
        self.call_as((Arc::from(tool), Arc::from(args)), response);
    }

    fn call_as(&mut self, (tool, args): Call, response: Option<Arc<str>>) {
        self.entries.push(Entry {
            role: Role::Assistant,
            text: args,
            tool,
            args: EMPTY.clone(),
            response,
        });
    }

    /// Lets later results find this call through `key`, and adds nothing.
    pub(crate) fn note(&mut self, key: &Json<'_>, tool: &str, args: &str) -> Call {
        let call: Call = (Arc::from(tool), Arc::from(args));
        self.calls.insert(key_of(key), call.clone());
        call
    }

    /// A result of the call that `key` names; of `tool` where there is no such call.
    pub(crate) fn result(&mut self, key: &Json<'_>, tool: &str, text: &str) {
        let (tool, args) = match self.calls.get(&key_of(key)) {
            Some(call) => call.clone(),
            None => (Arc::from(tool), EMPTY.clone()),
        };
        self.result_as(tool, args, text);
    }

    /// A result whose tool and arguments the recording names itself.
    pub(crate) fn result_of(&mut self, tool: &str, args: &str, text: &str) {
        self.result_as(Arc::from(tool), Arc::from(args), text);
    }

    fn result_as(&mut self, tool: Arc<str>, args: Arc<str>, text: &str) {
        let text = Arc::from(text);
        self.entries.push(Entry { role: Role::Tool, text, tool, args, response: None });
    }

    /// Finds the requests, cuts at compactions and pairs calls with results. `None` where the
    /// model never answered: there is no request to re-enact.
    pub(crate) fn into_session(self, path: &Path, format: Format, place: usize) -> Option<Session> {
        let sub = if self.sub.is_empty() { place.to_string() } else { self.sub };
        let results = self.entries.iter().filter(|entry| entry.role == Role::Tool);
        let result_chars = results.map(|entry| entry.text.chars().count()).sum();
        let mut segments = Builder::default().build(self.entries);
        if segments.is_empty() {
            return None;
        }
        segments.iter_mut().for_each(evidence::find);
        let path = path.to_owned();
        Some(Session { path, sub, format, skipped_lines: 0, result_chars, segments })
    }
}

fn key_of(key: &Json<'_>) -> Option<String> {
    (!key.is_null()).then(|| key.text().into_owned())
}

#[derive(Default)]
struct Builder {
    items: u32,
    pairs: u32,
    segments: Vec<Segment>,
    /// Calls of this segment without a result yet.
    pending: Vec<Item>,
}

impl Builder {
    fn build(mut self, entries: Vec<Entry>) -> Vec<Segment> {
        let mut segment = Segment::default();
        let mut previous: Option<Role> = None;
        let mut previous_response: Option<Arc<str>> = None;
        for entry in entries {
            if entry.role == Role::Reset {
                self.segments.push(std::mem::take(&mut segment));
                self.pending.clear();
                previous_response = None;
                continue;
            }
            // One request is one unbroken run of what the model said; where the format names
            // responses, one name.
            let said = entry.role == Role::Assistant;
            let other_response = entry.response.is_some() && entry.response != previous_response;
            if said && (previous != Some(Role::Assistant) || other_response) {
                segment.turns.push(Turn::default());
            }
            previous = Some(entry.role);
            previous_response = if said { entry.response.clone() } else { None };
            self.place(&mut segment, entry);
        }
        self.segments.push(segment);
        self.segments.retain(|segment| !segment.turns.is_empty());
        self.segments
    }

    fn place(&mut self, segment: &mut Segment, entry: Entry) {
        let turn = segment.turns.len().checked_sub(1);
        let mut current = segment.turns.last_mut();
        match entry.role {
            Role::Assistant => {
                let item = if entry.tool.is_empty() {
                    self.item(Kind::Text, entry.text, EMPTY.clone(), EMPTY.clone(), None, turn)
                } else {
                    let pair = Some(self.pair());
                    let args = entry.text.clone();
                    let call = self.item(Kind::Call, entry.text, entry.tool, args, pair, turn);
                    self.pending.push(call.clone());
                    call
                };
                match current {
                    None => segment.before.push(item),
                    Some(turn) if turn.after.is_empty() => turn.response.push(item),
                    Some(turn) => turn.after.push(item),
                }
            }
            Role::Tool => {
                let pair = match self.answered(&entry, turn) {
                    Some(call) => call.pair,
                    None => match &mut current {
                        // The action is inside the words of the model: a call of no characters.
                        Some(current) if !current.response.is_empty() => {
                            let tool = if entry.tool.is_empty() {
                                "shell".into()
                            } else {
                                entry.tool.clone()
                            };
                            let pair = Some(self.pair());
                            let args = entry.args.clone();
                            current.response.push(self.item(
                                Kind::Call,
                                EMPTY.clone(),
                                tool,
                                args,
                                pair,
                                turn,
                            ));
                            pair
                        }
                        _ => None,
                    },
                };
                let item = self.item(Kind::Result, entry.text, entry.tool, entry.args, pair, turn);
                current.map_or(&mut segment.before, |turn| &mut turn.after).push(item);
            }
            Role::System | Role::User | Role::Reset => {
                let kind = if entry.role == Role::System { Kind::System } else { Kind::User };
                let item = self.item(kind, entry.text, EMPTY.clone(), EMPTY.clone(), None, turn);
                current.map_or(&mut segment.before, |turn| &mut turn.after).push(item);
            }
        }
    }

    /// The pending call a result answers: the same tool and arguments, else the same tool in this
    /// turn, else any in this turn.
    fn answered(&mut self, entry: &Entry, turn: Option<usize>) -> Option<Item> {
        let same = |call: &Item| call.tool == entry.tool;
        let at = self
            .pending
            .iter()
            .position(|call| same(call) && call.text == entry.args)
            .or_else(|| self.pending.iter().position(|call| same(call) && call.turn == turn))
            .or_else(|| self.pending.iter().position(|call| call.turn == turn))?;
        Some(self.pending.remove(at))
    }

    fn pair(&mut self) -> PairId {
        self.pairs += 1;
        PairId(self.pairs)
    }

    fn item(
        &mut self,
        kind: Kind,
        text: Arc<str>,
        tool: Arc<str>,
        args: Arc<str>,
        pair: Option<PairId>,
        turn: Option<usize>,
    ) -> Item {
        self.items += 1;
        let chars = text.chars().count();
        Item { id: ItemId(self.items), kind, text, chars, tool, args, pair, turn, read_back: false }
    }
}
