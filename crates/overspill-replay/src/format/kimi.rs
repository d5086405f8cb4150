//! Kimi Code: one event of its wire protocol a line.

use crate::format::{Lines, content};
use crate::json::Json;
use crate::transcript::Transcript;

#[derive(Default)]
pub(super) struct Kimi(Transcript);

/// Whether a line can only be an event of this format.
pub(super) fn is_event(line: &Json<'_>) -> bool {
    let kind = line.at("type").str();
    (kind == "metadata" && line.has("protocol_version"))
        || kind == "config.update"
        || kind.starts_with("context.append_")
}

impl Lines for Kimi {
    fn line(&mut self, line: &Json<'_>) {
        let to = &mut self.0;
        let kind = line.at("type").str();
        if kind == "config.update" && line.at("systemPrompt").truthy() {
            to.system(&line.at("systemPrompt").text());
        }
        let message = line.at("message");
        if kind == "context.append_message" && message.truthy() {
            let is_user = message.at("role").str() == "user";
            return to.words(is_user, &content::text(message.at("content")));
        }
        let event = line.at("event");
        let id = event.at("toolCallId");
        match event.at("type").str() {
            "content.part" => to.say(&content::block(event.at("part")), None),
            "tool.call" => to.call(id, event.at("name").str(), &event.at("args").text(), None),
            "tool.result" => {
                let result = event.at("result");
                let output = if result.is_map() { result.at("output") } else { result };
                to.result(id, "", &content::text(output));
            }
            _ => {}
        }
    }

    fn finish(self: Box<Self>) -> Vec<Transcript> {
        vec![self.0]
    }
}
