//! A scripted model behind OpenAI's real wire format. It refuses what a provider refuses.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use futures_lite::{StreamExt, future, stream};
use serde_json::{Value, json};

/// The one key that opens it.
pub(crate) const KEY: &str = "sk-scripted";

/// What the model does about a request.
pub(crate) enum Reply {
    /// A response, as JSON.
    Response(Value),
    /// An error, and after how many seconds to come again.
    Error { status: u16, retry_after: Option<u64> },
    /// Server-sent events.
    Events(Vec<Value>),
    /// So much of a body, and then the connection is lost.
    Cut { content_type: &'static str, body: String },
}

type Script = dyn FnMut(&Value) -> Reply + Send;

/// The server, until its runtime ends.
pub(crate) struct Scripted {
    pub(crate) base_url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    script: Box<Script>,
    journal: Vec<Received>,
}

/// A request that came in.
#[derive(Clone)]
pub(crate) struct Received {
    pub(crate) at: Instant,
    pub(crate) body: Bytes,
    /// The status it was answered with.
    pub(crate) status: u16,
}

impl Received {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Scripted {
    /// Starts one that answers by `script`.
    pub(crate) async fn start(script: impl FnMut(&Value) -> Reply + Send + 'static) -> Self {
        let state = State { script: Box::new(script), journal: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let answer = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let response = shared.lock().unwrap().answer(&method, &uri, &headers, &body);
            std::future::ready(response)
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let router = axum::Router::new()
            .fallback(answer)
            .layer(axum::extract::DefaultBodyLimit::max(64 << 20));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { base_url, state }
    }

    /// All requests so far.
    pub(crate) fn journal(&self) -> Vec<Received> {
        self.state.lock().unwrap().journal.clone()
    }
}

impl State {
    fn answer(
        &mut self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Response<Body> {
        let refused = refusal(method, uri, headers, body);
        let response = match refused {
            Err((status, message)) => error(status, None, &message),
            Ok(request) => respond((self.script)(&request)),
        };
        let status = response.status().as_u16();
        self.journal.push(Received { at: Instant::now(), body: body.clone(), status });
        response
    }
}

fn respond(reply: Reply) -> Response<Body> {
    let of = |content_type| Response::builder().header(header::CONTENT_TYPE, content_type);
    match reply {
        Reply::Response(value) => of("application/json").body(value.to_string().into()).unwrap(),
        Reply::Error { status, retry_after } => error(status, retry_after, "scripted"),
        Reply::Events(events) => {
            of("text/event-stream").body(events_text(&events, true).into()).unwrap()
        }
        Reply::Cut { content_type, body } => {
            let lost = std::io::Error::other("the script cuts the connection");
            // What was written is sent while the next is waited for.
            let cut = async {
                future::yield_now().await;
                Err(lost)
            };
            let chunks = stream::once(Ok(Bytes::from(body))).chain(stream::once_future(cut));
            of(content_type).body(Body::from_stream(chunks)).unwrap()
        }
    }
}

/// Events as they are sent; a stream of Chat Completions ends with a word of its own.
pub(crate) fn events_text(events: &[Value], done: bool) -> String {
    let mut text = String::new();
    for event in events {
        if let Some(kind) = event["type"].as_str() {
            text.push_str(&format!("event: {kind}\n"));
        }
        text.push_str(&format!("data: {event}\n\n"));
    }
    if done {
        text.push_str("data: [DONE]\n\n");
    }
    text
}

fn error(status: u16, retry_after: Option<u64>, message: &str) -> Response<Body> {
    let kind = match status {
        401 => "authentication_error",
        429 => "rate_limit_exceeded",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    let body =
        json!({ "error": { "message": message, "type": kind, "param": null, "code": null } });
    let mut response = Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        response = response.header(header::RETRY_AFTER, seconds);
    }
    response.body(body.to_string().into()).unwrap()
}

/// The request, or why a provider would not take it.
fn refusal(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Value, (u16, String)> {
    let key = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if key != Some(&format!("Bearer {KEY}")) {
        return Err((401, "Incorrect API key provided".into()));
    }
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if length != Some(&body.len().to_string()) {
        return Err((411, format!("{} bytes were announced as {length:?}", body.len())));
    }
    let request: Value = serde_json::from_slice(body)
        .map_err(|error| (400, format!("We could not parse the JSON body: {error}")))?;
    let fault = match (method, uri.path()) {
        (&Method::POST, "/v1/chat/completions") => chat_fault(&request),
        (&Method::POST, "/v1/responses") => responses_fault(&request),
        _ => return Err((404, format!("Invalid URL ({method} {uri})"))),
    };
    match fault {
        Ok(()) => Ok(request),
        Err(message) => Err((400, message)),
    }
}

/// What Chat Completions refuses.
pub(crate) fn chat_fault(request: &Value) -> Result<(), String> {
    common_fault(request, |tool| &tool["function"]["name"])?;
    let messages = request["messages"].as_array().filter(|messages| !messages.is_empty());
    let messages = messages.ok_or("[] is too short - 'messages'")?;
    // Calls of the last response that wait for their answers, in the messages right behind it.
    let mut open: HashSet<&str> = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        let content = &message["content"];
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if !open.remove(id) {
                return Err(format!(
                    "messages[{at}]: messages with role 'tool' must be a response to a preceding \
                     message with 'tool_calls'"
                ));
            }
            if !content.is_string() && !content.is_array() {
                return Err(format!("messages[{at}].content: expected a string or an array"));
            }
            continue;
        }
        if !open.is_empty() {
            return Err(format!(
                "messages[{at}]: an assistant message with 'tool_calls' must be followed by tool \
                 messages responding to each 'tool_call_id'; no response to {open:?}"
            ));
        }
        match role {
            "system" | "developer" | "user" if content.is_string() || content.is_array() => {}
            "assistant" => match &message["tool_calls"] {
                Value::Null if content.is_string() => {}
                Value::Array(calls) if !calls.is_empty() => {
                    for call in calls {
                        let id = call["id"].as_str().unwrap_or_default();
                        let function = &call["function"];
                        let args = function["arguments"].as_str().unwrap_or_default();
                        if call["type"] != "function"
                            || id.is_empty()
                            || !is_name(&function["name"])
                            || serde_json::from_str::<Value>(args).is_err()
                            || !open.insert(id)
                        {
                            return Err(format!("messages[{at}].tool_calls: {call} is no call"));
                        }
                    }
                }
                _ => return Err(format!("messages[{at}]: neither content nor tool_calls")),
            },
            _ => return Err(format!("messages[{at}]: {role:?} with such content")),
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("no response to {open:?}")) }
}

/// What Responses refuses.
pub(crate) fn responses_fault(request: &Value) -> Result<(), String> {
    common_fault(request, |tool| &tool["name"])?;
    let Some(items) = request["input"].as_array() else {
        return if request["input"].is_string() { Ok(()) } else { Err("no 'input'".into()) };
    };
    let mut open: HashSet<&str> = HashSet::new();
    for (at, item) in items.iter().enumerate() {
        let id = item["call_id"].as_str().unwrap_or_default();
        match item["type"].as_str() {
            Some("function_call") => {
                let args = item["arguments"].as_str().unwrap_or_default();
                if !is_name(&item["name"])
                    || serde_json::from_str::<Value>(args).is_err()
                    || !open.insert(id)
                {
                    return Err(format!("input[{at}]: {item} is no call"));
                }
            }
            Some("function_call_output") => {
                if !open.remove(id) {
                    return Err(format!("No tool call found for function call output {id:?}."));
                }
                if !item["output"].is_string() && !item["output"].is_array() {
                    return Err(format!("input[{at}].output: expected a string or an array"));
                }
            }
            None | Some("message") => {
                let role = item["role"].as_str().unwrap_or_default();
                let content = &item["content"];
                if !["system", "developer", "user", "assistant"].contains(&role)
                    || !(content.is_string() || content.is_array())
                {
                    return Err(format!("input[{at}]: {role:?} with such content"));
                }
            }
            Some(kind) => return Err(format!("input[{at}].type: {kind:?}")),
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("No tool output found for {open:?}.")) }
}

fn common_fault(request: &Value, name: fn(&Value) -> &Value) -> Result<(), String> {
    if request["model"].as_str().is_none_or(str::is_empty) {
        return Err("you must provide a model parameter".into());
    }
    let mut names = HashSet::new();
    for tool in request["tools"].as_array().into_iter().flatten() {
        if tool["type"] != "function" || !is_name(name(tool)) || !names.insert(name(tool).as_str())
        {
            return Err(format!("tools: {tool} is no tool, or one of that name is there"));
        }
    }
    Ok(())
}

fn is_name(name: &Value) -> bool {
    name.as_str().is_some_and(|name| {
        (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    })
}

/// A response of Chat Completions with that message.
pub(crate) fn completion(message: &Value, reason: &str) -> Value {
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "scripted",
        "choices": [{ "index": 0, "message": message, "finish_reason": reason }],
        "usage": { "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110 },
    })
}

/// The model says something, and is done.
pub(crate) fn says(text: &str) -> Reply {
    Reply::Response(completion(&json!({ "role": "assistant", "content": text }), "stop"))
}

/// The model calls one tool.
pub(crate) fn calls(id: &str, tool: &str, args: &Value) -> Reply {
    calls_each(&[(id, tool, args.clone())])
}

/// The model calls several tools at once.
pub(crate) fn calls_each(calls: &[(&str, &str, Value)]) -> Reply {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(id, tool, args)| {
            json!({ "id": id, "type": "function",
                    "function": { "name": tool, "arguments": args.to_string() } })
        })
        .collect();
    let message = json!({ "role": "assistant", "content": null, "tool_calls": calls });
    Reply::Response(completion(&message, "tool_calls"))
}

/// What the tool returned for a call, as the model sees it.
pub(crate) fn seen<'r>(request: &'r Value, id: &str) -> Option<&'r str> {
    let messages = request["messages"].as_array()?;
    messages.iter().find(|message| message["tool_call_id"] == id)?["content"].as_str()
}

/// The server itself is tested: what a provider refuses it refuses.
#[test]
fn a_broken_pair_is_refused() {
    let call = json!({ "role": "assistant", "content": null, "tool_calls": [
        { "id": "c", "type": "function", "function": { "name": "t", "arguments": "{}" } }] });
    let answer = json!({ "role": "tool", "tool_call_id": "c", "content": "x" });
    let user = json!({ "role": "user", "content": "x" });
    let fault = |messages: &[&Value]| chat_fault(&json!({ "model": "m", "messages": messages }));
    assert_eq!(fault(&[&user, &call, &answer, &user]), Ok(()));
    for broken in [
        &[&user, &call][..],
        &[&user, &answer],
        &[&user, &call, &user, &answer],
        &[&user, &call, &answer, &answer],
        &[&user, &call, &call, &answer, &answer],
        &[],
    ] {
        assert!(fault(broken).is_err(), "{broken:?}");
    }

    let call = json!({ "type": "function_call", "call_id": "c", "name": "t", "arguments": "{}" });
    let answer = json!({ "type": "function_call_output", "call_id": "c", "output": "x" });
    let fault = |items: &[&Value]| responses_fault(&json!({ "model": "m", "input": items }));
    assert_eq!(fault(&[&user, &call, &answer]), Ok(()));
    for broken in [&[&user, &call][..], &[&answer, &call], &[&call, &answer, &answer]] {
        assert!(fault(broken).is_err(), "{broken:?}");
    }
}
