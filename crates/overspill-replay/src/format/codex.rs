//! OpenAI Codex: `~/.codex/sessions/**/rollout-*.jsonl`, items of the Responses interface.

use crate::format::{Lines, messages};
use crate::json::Json;
use crate::transcript::Transcript;

#[derive(Default)]
pub(super) struct Codex(Transcript);

/// Whether a line can only be an event of this format.
pub(super) fn is_event(line: &Json<'_>) -> bool {
    let kind = line.at("type").str();
    if line.at("payload").is_map() {
        return matches!(
            kind,
            "session_meta" | "response_item" | "event_msg" | "turn_context" | "compacted"
        );
    }
    // Before payloads, items stood in the file bare, below a line with the instructions.
    (is_bare_item(kind) && !line.has("message") && (line.has("role") || line.has("call_id")))
        || (line.has("instructions") && line.has("timestamp") && line.has("id"))
}

fn is_bare_item(kind: &str) -> bool {
    matches!(
        kind,
        "message"
            | "function_call"
            | "function_call_output"
            | "reasoning"
            | "custom_tool_call"
            | "custom_tool_call_output"
            | "local_shell_call"
            | "local_shell_call_output"
    )
}

impl Lines for Codex {
    fn line(&mut self, line: &Json<'_>) {
        let to = &mut self.0;
        let bare = !line.at("payload").is_map();
        let payload = if bare { line } else { line.at("payload") };
        match line.at("type").str() {
            "session_meta" => {
                let base = payload.at("base_instructions");
                if base.is_map() {
                    to.system(&base.at("text").text_or_empty());
                } else if payload.at("instructions").truthy() {
                    to.system(&payload.at("instructions").text());
                }
            }
            "compacted" => {
                to.reset();
                let history = payload.at("replacement_history");
                if history.truthy() {
                    messages::responses(history.list(), to);
                } else {
                    to.user(&payload.at("message").text_or_empty());
                }
            }
            "response_item" => messages::responses(std::slice::from_ref(payload), to),
            kind if bare && is_bare_item(kind) => {
                messages::responses(std::slice::from_ref(payload), to);
            }
            _ => {}
        }
    }

    fn finish(self: Box<Self>) -> Vec<Transcript> {
        vec![self.0]
    }
}
