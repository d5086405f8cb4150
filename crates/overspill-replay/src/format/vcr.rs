//! Cassettes: HTTP traffic recorded by VCR, go-vcr or httpmock for tests.
//!
//! Each request carries its whole history; of the requests that open with the same user message,
//! the longest is the session.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::format::messages;
use crate::json::Json;
use crate::transcript::{Role, Transcript};

/// Whether the opening of a text can only be of this format.
pub(super) fn is_cassette(opening: &str) -> bool {
    opening.lines().any(|line| {
        let line = line.trim_end();
        line == "interactions:" || line == "when:" || line.starts_with("interactions: ")
    })
}

/// The longest request of each conversation, in order of their first requests.
#[derive(Default)]
struct Conversations {
    /// Where the conversation that opens with these words is.
    places: HashMap<String, usize>,
    longest: Vec<(usize, Transcript)>,
}

pub(super) fn read(documents: &[Json<'_>]) -> Vec<Transcript> {
    let mut conversations = Conversations::default();
    for document in documents {
        for interaction in document.at("interactions").list() {
            let request = interaction.at("request");
            let uri = request.at("uri").or(request.at("url")).str();
            conversations.add(request.at("parsed_body").or(request.at("body")), uri);
        }
        if !document.at("interactions").truthy() && document.has("when") {
            let when = document.at("when");
            conversations.add(when.at("body"), when.at("path").str());
        }
    }
    conversations.longest.into_iter().map(|(_, transcript)| transcript).collect()
}

impl Conversations {
    fn add(&mut self, body: &Json<'_>, uri: &str) {
        let body = if body.has("string") { body.at("string") } else { body };
        let parsed;
        let body = match body {
            Json::Str(text) => match Json::parse(text) {
                Ok(value) => {
                    parsed = value;
                    &parsed
                }
                Err(_) => return,
            },
            body => body,
        };
        let Some(transcript) = body.is_map().then(|| request(body, uri)).flatten() else {
            return;
        };
        let first = transcript.entries.iter().find(|entry| entry.role == Role::User);
        let opening = first.map_or("", |entry| &entry.text).chars().take(200).collect();
        let chars = transcript.entries.iter().map(|entry| entry.text.chars().count()).sum();
        match self.places.entry(opening) {
            Entry::Vacant(place) => {
                place.insert(self.longest.len());
                self.longest.push((chars, transcript));
            }
            Entry::Occupied(place) => {
                let longest = &mut self.longest[*place.get()];
                if chars >= longest.0 {
                    *longest = (chars, transcript);
                }
            }
        }
    }
}

fn request(body: &Json<'_>, uri: &str) -> Option<Transcript> {
    let mut to = Transcript::default();
    let list = body.at("messages").list();
    if body.has("contents") {
        let system = body.at("systemInstruction").or(body.at("system_instruction"));
        messages::system(if system.is_map() { system.at("parts") } else { system }, &mut to);
        messages::gemini(body.at("contents").list(), &mut to);
    } else if body.at("input").list().first().is_some_and(Json::is_map) {
        messages::responses(body.at("input").list(), &mut to);
    } else if !body.has("messages") {
        return None;
    } else if uri.contains("bedrock") {
        messages::bedrock(list, &mut to);
    } else if uri.contains("anthropic") || uri.contains("/messages") {
        messages::system(body.at("system"), &mut to);
        messages::anthropic(list, &mut to);
    } else if messages::is_autogpt(list) {
        messages::autogpt(list, &mut to);
    } else {
        messages::openai(list, &mut to);
    }
    Some(to)
}
