//! mini-SWE-agent: a trajectory whose actions are the last shell block of each response.

use std::sync::LazyLock;

use regex::Regex;

use crate::format::{content, pattern};
use crate::json::Json;
use crate::transcript::Transcript;

static ACTION: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?s)```bash\s*\n(.*?)\n```"));

/// Whether a document can only be a trajectory of this format.
pub(super) fn is_trajectory(document: &Json<'_>) -> bool {
    let info = document.at("info");
    let marks = ["exit_status", "submission", "model_stats", "mini_version"];
    document.at("messages").is_list()
        && (marks.iter().any(|mark| info.has(mark))
            || document.at("trajectory_format").str().starts_with("mini-swe"))
}

pub(super) fn read(document: &Json<'_>) -> Vec<Transcript> {
    let mut to = Transcript::default();
    let mut action = String::new();
    let mut asked = false;
    for message in document.at("messages").list() {
        let text = content::text(message.at("content"));
        match message.at("role").str() {
            "system" => to.system(&text),
            "assistant" => {
                let last = ACTION.captures_iter(&text).last();
                action = last.map_or_else(String::new, |found| found[1].to_owned());
                to.say(&text, None);
            }
            "user" if !asked => {
                asked = true;
                to.user(&text);
            }
            _ => to.result_of("bash", &action, &text),
        }
    }
    vec![to]
}
