//! Pi: `~/.pi/agent/sessions/**/*.jsonl`, one message a line.

use std::sync::Arc;

use crate::format::{Lines, content};
use crate::json::Json;
use crate::transcript::Transcript;

#[derive(Default)]
pub(super) struct Pi(Transcript);

/// Whether a line can only be an event of this format.
pub(super) fn is_event(line: &Json<'_>) -> bool {
    match line.at("type").str() {
        "session" => line.has("id") && line.has("cwd"),
        "message" => line.at("message").has("role") && !line.has("sessionId"),
        _ => false,
    }
}

impl Lines for Pi {
    fn line(&mut self, line: &Json<'_>) {
        let to = &mut self.0;
        let kind = line.at("type").str();
        if matches!(kind, "compaction" | "branch_summary") {
            return restart(line, to);
        }
        let message = line.at("message");
        if !message.is_map() {
            if kind == "custom_message" {
                to.user(&content::text(line.at("content")));
            }
            return;
        }
        let content = message.at("content");
        match message.at("role").str() {
            "toolResult" => {
                let tool = message.at("toolName").str();
                to.result(message.at("toolCallId"), tool, &content::text(content));
            }
            "assistant" => {
                let name = line.at("id").or(line.at("timestamp"));
                let response: Option<Arc<str>> = (!name.is_null()).then(|| name.text().into());
                if let Some(text) = content.as_str() {
                    return to.say(text, response);
                }
                for block in content.list() {
                    if block.at("type").str() == "toolCall" {
                        let (tool, args) = (block.at("name").str(), block.at("arguments").text());
                        to.call(block.at("id"), tool, &args, response.clone());
                    } else {
                        to.say(&content::block(block), response.clone());
                    }
                }
            }
            "user" | "custom" | "bashExecution" => {
                let content = if content.is_null() { message.at("output") } else { content };
                to.user(&content::text(content));
            }
            "compactionSummary" | "branchSummary" => restart(message, to),
            _ => {}
        }
    }

    fn finish(self: Box<Self>) -> Vec<Transcript> {
        vec![self.0]
    }
}

fn restart(from: &Json<'_>, to: &mut Transcript) {
    to.reset();
    to.user(&from.at("summary").text_or_empty());
}
