//! A server that answers by script, and remembers what it was asked.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use futures_lite::{StreamExt, stream};
use overspill::summary::{Summary, SummaryError, TextModel};
use overspill_model::{ApiKey, Builder, HttpModel, Limits};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// The key that tests send; nothing but a request's header may hold it.
pub(crate) const KEY: &str = "sk-canary-key-5f1d";

/// The name of the variable it is said to come from.
pub(crate) const VARIABLE: &str = "TEST_API_KEY";

/// One answer.
pub(crate) enum Step {
    /// A status, headers and a body.
    Say(u16, Vec<(&'static str, String)>, String),
    /// Pieces of a stream; then it ends, or the connection breaks.
    Stream { pieces: Vec<String>, breaks: bool },
    /// Nothing, for as long as the client waits.
    Silence,
    /// An answer, once the test opens the gate for it.
    Gated(String),
}

/// What it was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) at: Instant,
}

/// The server; it ends with the test's runtime.
#[derive(Clone)]
pub(crate) struct Server {
    url: String,
    script: Arc<Mutex<VecDeque<Step>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// How many requests have come.
    arrivals: watch::Sender<usize>,
    pub(crate) gate: Arc<Semaphore>,
}

impl Server {
    pub(crate) async fn start(script: impl IntoIterator<Item = Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            url: format!("http://{}/v1", listener.local_addr().unwrap()),
            script: Arc::new(Mutex::new(script.into_iter().collect())),
            asked: Arc::default(),
            arrivals: watch::Sender::new(0),
            gate: Arc::new(Semaphore::new(0)),
        };
        let app = axum::Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        server
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn then(&self, step: Step) {
        self.script.lock().unwrap().push_back(step);
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until so many requests have come.
    pub(crate) async fn arrived(&self, count: usize) {
        let mut arrivals = self.arrivals.subscribe();
        let waiting = arrivals.wait_for(|arrived| *arrived >= count);
        tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap();
    }

    /// A model of Chat Completions at this server.
    pub(crate) fn chat(&self) -> HttpModel {
        self.builder("openai:gpt-5-mini").build()
    }

    /// A model of Messages at this server.
    pub(crate) fn messages(&self) -> HttpModel {
        self.builder("anthropic:claude-haiku-4-5").build()
    }

    pub(crate) fn builder(&self, model: &str) -> Builder {
        HttpModel::builder(model.parse().unwrap())
            .base_url(self.url.parse().unwrap())
            .key(ApiKey::new(VARIABLE, KEY).unwrap())
            .limits(limits())
    }
}

/// Limits with waits too short to be felt.
pub(crate) fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.timeout = Duration::from_secs(60);
    limits.first_wait = Duration::from_millis(1);
    limits.longest_wait = Duration::from_secs(5);
    limits
}

async fn answer(
    State(server): State<Server>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body = serde_json::from_slice(&body).unwrap();
    let asked = Asked { path: uri.path().to_owned(), headers, body, at: Instant::now() };
    server.asked.lock().unwrap().push(asked);
    let step = server.script.lock().unwrap().pop_front();
    server.arrivals.send_modify(|arrivals| *arrivals += 1);
    match step {
        None => response(418, &[], Body::from("nobody has written an answer to this")),
        Some(Step::Say(status, headers, body)) => response(status, &headers, Body::from(body)),
        Some(Step::Stream { pieces, breaks }) => {
            let mut pieces: Vec<io::Result<String>> = pieces.into_iter().map(Ok).collect();
            if breaks {
                pieces.push(Err(io::Error::other("the connection breaks")));
            }
            let headers = [("content-type", "text/event-stream".to_owned())];
            // A pause before each piece sends what came before it.
            let pieces = stream::iter(pieces).then(|piece| async {
                tokio::task::yield_now().await;
                piece
            });
            response(200, &headers, Body::from_stream(pieces))
        }
        Some(Step::Silence) => std::future::pending().await,
        Some(Step::Gated(body)) => {
            server.gate.acquire().await.unwrap().forget();
            response(200, &[], Body::from(body))
        }
    }
}

fn response(status: u16, headers: &[(&'static str, String)], body: Body) -> Response {
    let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
    if headers.iter().all(|(name, _)| *name != "content-type") {
        response = response.header("content-type", "application/json");
    }
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    response.body(body).unwrap()
}

/// A whole answer of Chat Completions: 100 tokens in, 7 out.
pub(crate) fn chat_says(text: &str) -> Step {
    Step::Say(200, vec![], chat_body(text))
}

pub(crate) fn chat_body(text: &str) -> String {
    let body = json!({
        "object": "chat.completion",
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": text },
            "finish_reason": "stop",
        }],
        "usage": { "prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107 },
    });
    body.to_string()
}

/// An error as OpenAI writes it.
pub(crate) fn fails(status: u16, message: &str) -> Step {
    fails_with(status, vec![], message)
}

pub(crate) fn fails_with(status: u16, headers: Vec<(&'static str, String)>, message: &str) -> Step {
    Step::Say(status, headers, json!({ "error": { "message": message } }).to_string())
}

/// An event of a stream.
pub(crate) fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// An event of a stream of Chat Completions that brings a piece of text.
pub(crate) fn chat_piece(text: &str) -> String {
    event(&json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }))
}

/// The answer's text, and the requests and tokens it took.
pub(crate) async fn ask(model: &HttpModel) -> Result<(String, (u64, u64, u64)), SummaryError> {
    let Summary { text, usage } = model.complete("Sum up").await?;
    Ok((text, (usage.requests, usage.input_tokens, usage.output_tokens)))
}

/// Why there is no answer, and the requests and tokens that took.
pub(crate) async fn ask_in_vain(model: &HttpModel) -> (String, (u64, u64, u64)) {
    let error = model.complete("Sum up").await.unwrap_err();
    let usage = error.usage;
    (error.to_string(), (usage.requests, usage.input_tokens, usage.output_tokens))
}
