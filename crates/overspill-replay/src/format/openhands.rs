//! OpenHands: runs of its evaluation and resolver, one a line, each with a list of events.

use crate::format::Lines;
use crate::json::Json;
use crate::transcript::Transcript;

#[derive(Default)]
pub(super) struct OpenHands(Vec<Transcript>);

/// Whether a value can only be a run of this format.
pub(super) fn is_run(run: &Json<'_>) -> bool {
    let events = if run.is_map() { run.at("history") } else { run };
    let event = events.list().iter().flat_map(|event| match event {
        Json::List(pair) => pair.as_slice(),
        event => std::slice::from_ref(event),
    });
    event.take(20).any(|event| {
        let names = ["action", "observation"].map(|key| event.at(key).as_str());
        names.iter().any(Option::is_some) && !event.has("role")
    })
}

impl Lines for OpenHands {
    fn line(&mut self, run: &Json<'_>) {
        self.0.push(read(run));
    }

    fn finish(self: Box<Self>) -> Vec<Transcript> {
        self.0
    }
}

pub(super) fn read(run: &Json<'_>) -> Transcript {
    let mut to = Transcript::named(run.at("instance_id").text_or_empty());
    let history = if run.is_map() { run.at("history") } else { run };
    for event in history.list() {
        match event {
            // Old versions keep an action and its observation as a pair.
            Json::List(pair) => pair.iter().for_each(|event| add(event, &mut to)),
            event => add(event, &mut to),
        }
    }
    to
}

fn add(event: &Json<'_>, to: &mut Transcript) {
    let observation = event.at("observation");
    let action = event.at("action").str();
    if observation.truthy()
        && !matches!(observation.str(), "null" | "agent_state_changed" | "recall")
    {
        let extras = event.at("extras");
        let args = extras.at("command").or(extras.at("path"));
        let args = if args.truthy() { args.text() } else { "".into() };
        let content = event.at("content");
        let content = if content.truthy() { content.text() } else { "".into() };
        return to.result_of(&observation.text(), &args, &content);
    }
    let args = event.at("args");
    match action {
        "" | "change_agent_state" | "recall" | "null" => {}
        "system" => to.system(&args.at("content").text_or_empty()),
        _ if event.at("source").str() == "user" => to.user(&args.at("content").text_or_empty()),
        _ if args.is_null() => to.bare_call(action, "{}", None),
        _ => to.bare_call(action, &args.text(), None),
    }
}
