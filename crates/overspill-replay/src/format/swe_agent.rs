//! SWE-agent: trajectories, old ones without a history included.

use crate::format::{content, strip};
use crate::json::Json;
use crate::transcript::Transcript;

/// Whether a document can only be a trajectory of this format.
pub(super) fn is_trajectory(document: &Json<'_>) -> bool {
    document.at("trajectory").is_list()
}

pub(super) fn read(document: &Json<'_>) -> Vec<Transcript> {
    let mut to = Transcript::default();
    let history = document.at("history").list();
    let steps = document.at("trajectory").list();
    if history.iter().any(|message| message.has("content")) {
        from_history(history, steps, &mut to);
    } else {
        for step in steps {
            let action = step.at("action");
            to.say(&step.at("response").or(action).text_or_empty(), None);
            to.result_of("shell", strip(action.str()), &step.at("observation").text_or_empty());
        }
    }
    vec![to]
}

fn from_history(history: &[Json<'_>], steps: &[Json<'_>], to: &mut Transcript) {
    let mut actions = steps.iter().map(|step| step.at("action").str());
    let mut action = "";
    let mut started = false;
    for message in history {
        let text = content::text(message.at("content"));
        let role = message.at("role").str();
        let kind = message.at("message_type").str();
        let is_demo = message.at("is_demo").truthy()
            || message.at("agent").str() == "demo"
            || kind == "demonstration";
        if role == "system" && !started {
            to.system(&text);
        } else if is_demo {
            to.user(&text);
        } else if role == "assistant" {
            started = true;
            action = match message.at("action").str() {
                "" => actions.next().unwrap_or_default(),
                action => action,
            };
            to.say(&text, None);
            for call in message.at("tool_calls").list() {
                let function = call.at("function");
                to.bare_call(function.at("name").str(), &function.at("arguments").text(), None);
            }
        } else if role == "tool" || kind == "observation" || started {
            to.result_of("shell", strip(action), &text);
        } else {
            to.user(&text);
        }
    }
}
