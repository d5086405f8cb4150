//! A server that speaks OpenAI's Chat Completions by a script, and refuses what OpenAI refuses.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_lite::stream;
use rig_core::Model;
use rig_core::providers::openai::{OpenAIConfig, wire::Chat};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What the server answers one request with.
pub(crate) enum Reply {
    Says(String),
    Calls(Vec<(String, &'static str, Value)>),
    Fails(u16, &'static str),
    /// Begins to answer, and drops the connection.
    Breaks,
}

/// One call of a tool.
pub(crate) fn calls(id: impl Into<String>, tool: &'static str, arguments: Value) -> Reply {
    Reply::Calls(vec![(id.into(), tool, arguments)])
}

type Script = dyn FnMut(&Value) -> Reply + Send;

#[derive(Clone)]
pub(crate) struct Server {
    url: String,
    requests: Arc<Mutex<Vec<Value>>>,
    script: Arc<Mutex<Box<Script>>>,
}

impl Server {
    /// Serves until the test's runtime ends.
    pub(crate) async fn start(script: impl FnMut(&Value) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            url: format!("http://{}/v1", listener.local_addr().unwrap()),
            requests: Arc::default(),
            script: Arc::new(Mutex::new(Box::new(script))),
        };
        let routes = Router::new()
            .route("/v1/chat/completions", post(complete))
            .layer(axum::extract::DefaultBodyLimit::max(64 << 20))
            .with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        server
    }

    pub(crate) fn model(&self) -> Model<Chat> {
        // Built with the whole workspace, the client has TLS and wants to be told whose.
        let _ = rustls::crypto::ring::default_provider().install_default();
        OpenAIConfig::new("sk-test").with_base_url(&self.url).client().chat("gpt-4o-mini")
    }

    /// What was asked so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }
}

async fn complete(State(server): State<Server>, body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap();
    if let Err(message) = check(&request) {
        return refuse(StatusCode::BAD_REQUEST, &message);
    }
    server.requests.lock().unwrap().push(request.clone());
    let reply = (server.script.lock().unwrap())(&request);
    let input = body.len() as u64 / 4;
    let streams = request["stream"] == json!(true);
    match reply {
        Reply::Fails(status, message) => refuse(StatusCode::from_u16(status).unwrap(), message),
        Reply::Breaks if streams => {
            let first = chunk(&json!({ "role": "assistant", "content": "I was go" }), None);
            broken(event(&first), "text/event-stream")
        }
        Reply::Breaks => {
            broken("{\"id\":\"chatcmpl-1\",\"object\":\"chat.com".to_owned(), "application/json")
        }
        reply if streams => streamed(&reply, input),
        reply => whole(&reply, input),
    }
}

fn refuse(status: StatusCode, message: &str) -> Response {
    let error =
        json!({ "error": { "message": message, "type": "error", "param": null, "code": null } });
    (status, axum::Json(error)).into_response()
}

fn broken(start: String, media_type: &'static str) -> Response {
    let pieces = [Ok(Bytes::from(start)), Err(std::io::Error::other("cut"))];
    ([(header::CONTENT_TYPE, media_type)], Body::from_stream(stream::iter(pieces))).into_response()
}

fn message(reply: &Reply) -> (Value, &'static str) {
    match reply {
        Reply::Says(text) => (json!({ "role": "assistant", "content": text }), "stop"),
        Reply::Calls(calls) => {
            let calls: Vec<Value> = calls
                .iter()
                .map(|(id, tool, arguments)| {
                    json!({ "id": id, "type": "function", "function": { "name": tool, "arguments": arguments.to_string() } })
                })
                .collect();
            (json!({ "role": "assistant", "content": null, "tool_calls": calls }), "tool_calls")
        }
        Reply::Fails(..) | Reply::Breaks => unreachable!("answered before"),
    }
}

fn usage(input: u64) -> Value {
    json!({ "prompt_tokens": input, "completion_tokens": 20, "total_tokens": input + 20 })
}

fn whole(reply: &Reply, input: u64) -> Response {
    let (message, reason) = message(reply);
    axum::Json(json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini",
        "choices": [{ "index": 0, "message": message, "finish_reason": reason }],
        "usage": usage(input),
    }))
    .into_response()
}

fn chunk(delta: &Value, reason: Option<&str>) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o-mini",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }],
    })
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// The same in pieces: a text in halves, arguments apart from their names.
fn streamed(reply: &Reply, input: u64) -> Response {
    let mut events = vec![event(&chunk(&json!({ "role": "assistant" }), None))];
    let reason = match reply {
        Reply::Says(text) => {
            let (half, _) = text.char_indices().nth(text.chars().count() / 2).unwrap_or((0, ' '));
            let (first, second) = text.split_at(half);
            for piece in [first, second] {
                events.push(event(&chunk(&json!({ "content": piece }), None)));
            }
            "stop"
        }
        Reply::Calls(calls) => {
            for (index, (id, tool, arguments)) in calls.iter().enumerate() {
                let opens = json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": { "name": tool, "arguments": "" } }] });
                let goes_on = json!({ "tool_calls": [{ "index": index, "function": { "arguments": arguments.to_string() } }] });
                events.extend([opens, goes_on].map(|delta| event(&chunk(&delta, None))));
            }
            "tool_calls"
        }
        Reply::Fails(..) | Reply::Breaks => unreachable!("answered before"),
    };
    events.push(event(&chunk(&json!({}), Some(reason))));
    let mut last = chunk(&json!({}), None);
    last["choices"] = json!([]);
    last["usage"] = usage(input);
    events.push(event(&last));
    events.push("data: [DONE]\n\n".to_owned());
    let pieces = events.into_iter().map(|event| Ok::<_, std::io::Error>(Bytes::from(event)));
    let body = Body::from_stream(stream::iter(pieces));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// Refuses a history whose calls and results do not pair, in OpenAI's words.
fn check(request: &Value) -> Result<(), String> {
    let mut open: HashSet<&str> = HashSet::new();
    for message in request["messages"].as_array().ok_or("'messages' is missing")? {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().ok_or("'tool_call_id' is missing")?;
            if !open.remove(id) {
                return Err("messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.".to_owned());
            }
            continue;
        }
        if !open.is_empty() {
            return Err(format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {open:?}"
            ));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let arguments = call["function"]["arguments"].as_str().ok_or("no arguments")?;
            serde_json::from_str::<Value>(arguments).map_err(|error| error.to_string())?;
            open.insert(call["id"].as_str().ok_or("no id")?);
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} did not have response messages")) }
}
