//! Claude Code: `~/.claude/projects/*/*.jsonl`, one event a line, sub-agents mixed in.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::format::{Lines, content, messages};
use crate::json::Json;
use crate::transcript::{Entry, Role, Transcript};

#[derive(Default)]
pub(super) struct ClaudeCode {
    seen: HashSet<String>,
    /// The first event of the chain that each event belongs to.
    roots: HashMap<Option<String>, Option<String>>,
    chains: Vec<Transcript>,
    by_name: HashMap<String, usize>,
}

/// Whether a line can only be an event of this format.
pub(super) fn is_event(line: &Json<'_>) -> bool {
    match line.at("type").str() {
        "user" | "assistant" => {
            line.at("message").is_map()
                && ["sessionId", "uuid", "parentUuid"].iter().any(|key| line.has(key))
        }
        "summary" => line.has("leafUuid"),
        "file-history-snapshot" => true,
        "queue-operation" => line.has("sessionId"),
        _ => line.has("uuid") && line.has("sessionId"),
    }
}

impl Lines for ClaudeCode {
    fn line(&mut self, line: &Json<'_>) {
        let uuid = line.at("uuid").as_str().map(str::to_owned);
        if let Some(uuid) = &uuid
            && !uuid.is_empty()
            && !self.seen.insert(uuid.clone())
        {
            return;
        }
        let parent = line.at("parentUuid").as_str().map(str::to_owned);
        // The chain of a sub-agent starts at an event without a parent.
        let root = self.roots.get(&parent).cloned().unwrap_or_else(|| uuid.clone());
        self.roots.insert(uuid, root.clone());
        let kind = line.at("type").str();
        if !matches!(kind, "user" | "assistant" | "system") {
            return;
        }
        let name = if line.at("isSidechain").truthy() {
            let agent = line.at("agentId");
            let agent = if agent.truthy() { Some(agent.text().into_owned()) } else { root };
            format!("side:{}", agent.as_deref().unwrap_or("None"))
        } else {
            "main:".to_owned()
        };
        let at = *self.by_name.entry(name.clone()).or_insert_with(|| {
            self.chains.push(Transcript::named(name));
            self.chains.len() - 1
        });
        let chain = &mut self.chains[at];
        if kind == "system" {
            if line.at("subtype").str() == "compact_boundary" {
                chain.reset();
            }
            return;
        }
        if line.at("isCompactSummary").truthy()
            && !chain.entries.iter().rev().take(3).any(|entry| entry.role == Role::Reset)
        {
            chain.reset();
        }
        let message = line.at("message");
        if kind == "user" {
            messages::anthropic_content(true, message.at("content"), chain);
        } else {
            assistant(message, chain);
        }
    }

    fn finish(self: Box<Self>) -> Vec<Transcript> {
        self.chains
    }
}

fn assistant(message: &Json<'_>, chain: &mut Transcript) {
    let response: Option<Arc<str>> =
        Some(message.at("id")).filter(|id| !id.is_null()).map(|id| id.text().into());
    // The same response may go on after the result of its first call was logged.
    let mut at = chain.entries.len();
    if response.is_some() {
        let results = chain.entries.iter().rev().take_while(|e| e.role == Role::Tool).count();
        let before = chain.entries.len() - results;
        if results > 0
            && let Some(Entry { role: Role::Assistant, response: earlier, .. }) =
                before.checked_sub(1).map(|last| &chain.entries[last])
            && *earlier == response
        {
            at = before;
        }
    }
    let tail = chain.entries.split_off(at);
    match message.at("content") {
        Json::Str(text) => chain.say(text, response),
        content => {
            for block in content.list() {
                if block.at("type").str() == "tool_use" {
                    let (name, input) = (block.at("name").str(), block.at("input").text());
                    chain.call(block.at("id"), name, &input, response.clone());
                } else {
                    chain.say(&content::block(block), response.clone());
                }
            }
        }
    }
    chain.entries.extend(tail);
}
