//! A model behind HTTP.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use futures_lite::{Stream, StreamExt, stream};
use overspill::config::ModelConfig;
use overspill::summary::{
    BaseUrl, ModelName, RequestBudget, Summary, SummaryError, TextModel, Usage,
};
use overspill::{BoxFuture, trace};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Response, redirect};
use sse_stream::SseByteStream;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::Instrument;

use crate::api::{Answer, Api, message};
use crate::breaker::Breaker;
use crate::error::ModelError;
use crate::key::ApiKey;
use crate::limits::{Limits, retry_after};
use crate::runtime::elsewhere;

/// The most bytes of an answer that are read. The longest answer of any model, 128,000 tokens, has
/// half a megabyte; as events of a stream, each of a few hundred bytes, it has some forty.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// The most bytes that are read of an answer that tells of an error.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// How many characters of an endpoint's own words an error repeats.
const SHOWN_CHARS: usize = 300;

/// A model that is asked over HTTP.
///
/// Clones share its limits and its health: one for each endpoint serves all runs of a process. What
/// concerns one run is said with [`counting`](Self::counting).
#[derive(Clone)]
pub struct HttpModel {
    line: Arc<Line>,
    requests: Option<RequestBudget>,
}

/// Builds an [`HttpModel`].
#[derive(Debug, Clone)]
pub struct Builder {
    model: ModelName,
    base_url: Option<BaseUrl>,
    key: Option<ApiKey>,
    limits: Limits,
}

/// The line to one model, which all its callers share.
#[derive(Debug)]
struct Line {
    model: ModelName,
    api: Api,
    base_url: BaseUrl,
    key: Option<ApiKey>,
    limits: Limits,
    turns: Semaphore,
    breaker: Breaker,
    /// Whether the endpoint has refused to answer at once.
    streams: AtomicBool,
    /// Made when it is first needed: it reads the machine's certificates.
    client: OnceLock<Client>,
}

/// The text of an answer, or why there is none, and what that took.
type Asked = (Result<String, ModelError>, Usage);

/// One attempt that gave no answer.
struct Fault {
    error: ModelError,
    /// How long the endpoint asks to wait.
    retry_after: Option<Duration>,
    /// Whether it only answers in streams.
    wants_stream: bool,
}

impl From<ModelError> for Fault {
    fn from(error: ModelError) -> Self {
        Self { error, retry_after: None, wants_stream: false }
    }
}

/// What a call has taken so far.
#[derive(Default)]
struct Bill {
    before: Usage,
    answer: Answer,
}

impl Bill {
    /// Begins another request.
    fn request(&mut self) -> &mut Answer {
        self.before = self.total();
        self.before.requests += 1;
        self.answer = Answer::default();
        &mut self.answer
    }

    fn total(&self) -> Usage {
        self.before + self.answer.usage()
    }
}

impl HttpModel {
    /// Starts from the provider's own endpoint, without a key.
    pub fn builder(model: ModelName) -> Builder {
        Builder { model, base_url: None, key: None, limits: Limits::default() }
    }

    /// Starts from what a configuration says, apart from the key: the caller reads it from
    /// [`ModelConfig::key_variable`].
    pub fn configured(config: &ModelConfig) -> Builder {
        Builder { base_url: config.base_url.clone(), ..Self::builder(config.model.clone()) }
    }

    /// The same model for one run, whose limit of requests counts each request that is made, retries
    /// too.
    #[must_use]
    pub fn counting(&self, requests: RequestBudget) -> Self {
        Self { line: Arc::clone(&self.line), requests: Some(requests) }
    }

    /// Its name.
    pub fn name(&self) -> &ModelName {
        &self.line.model
    }
}

impl Builder {
    /// Asks at another endpoint. For Chat Completions the URL ends before `/chat/completions`, most
    /// often in `/v1`; for Messages, before `/v1/messages`.
    #[must_use]
    pub fn base_url(mut self, base_url: BaseUrl) -> Self {
        self.base_url = Some(base_url);
        self
    }

    /// Sends this key.
    #[must_use]
    pub fn key(mut self, key: ApiKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Waits and asks again by these limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The model. Nothing is opened before it is asked.
    pub fn build(self) -> HttpModel {
        let Self { model, base_url, key, limits } = self;
        let line = Line {
            api: Api::of(model.provider),
            base_url: base_url.unwrap_or_else(|| model.provider.base_url()),
            model,
            key,
            turns: Semaphore::new(limits.at_once.clamp(1, Semaphore::MAX_PERMITS)),
            breaker: Breaker::new(),
            limits,
            streams: AtomicBool::new(false),
            client: OnceLock::new(),
        };
        HttpModel { line: Arc::new(line), requests: None }
    }
}

impl TextModel for HttpModel {
    fn complete<'a>(&'a self, prompt: &'a str) -> BoxFuture<'a, Result<Summary, SummaryError>> {
        let span = self.line.span();
        Box::pin(async move {
            let asked = match Handle::try_current() {
                Ok(_) => self.ask(prompt).instrument(span.clone()).await,
                Err(_) => {
                    let (model, prompt) = (self.clone(), prompt.to_owned());
                    let asked = async move { model.ask(&prompt).await };
                    let asked = elsewhere(asked.instrument(span.clone())).await;
                    asked.unwrap_or_else(|error| (Err(error), Usage::default()))
                }
            };
            self.line.tell(&span, &asked);
            let (answer, usage) = asked;
            answer.map(|text| Summary { text, usage }).map_err(|error| {
                SummaryError::new(format!("{}: {error}", self.line.model))
                    .with_source(error)
                    .with_usage(usage)
            })
        })
    }
}

impl HttpModel {
    /// Waits for a turn and for leave, and asks; says what it took, whatever came of it.
    async fn ask(&self, prompt: &str) -> Asked {
        let line = &*self.line;
        // It fails only where it is closed, which nobody does.
        let _turn = line.turns.acquire().await;
        let leave = match line.breaker.ask(Instant::now()) {
            Ok(leave) => leave,
            Err(resting) => {
                let error = ModelError::Resting { left: resting.left, why: resting.why };
                return (Err(error), Usage::default());
            }
        };
        let after = line.limits.timeout;
        let deadline = later(after);
        let mut bill = Bill::default();
        let answer = timeout_at(deadline, self.attempts(prompt, deadline, &mut bill)).await;
        let answer = answer.unwrap_or(Err(ModelError::TimedOut { after }));
        match &answer {
            Err(error) if error.is_of_endpoint() => {
                leave.failed(later(line.limits.rest), error.to_string());
            }
            // It says nothing about the endpoint.
            Err(ModelError::OutOfRequests(_)) => drop(leave),
            _ => leave.answered(),
        }
        (answer, bill.total())
    }

    /// Asks until there is an answer, a failure that stays, or no try left.
    async fn attempts(
        &self,
        prompt: &str,
        deadline: Instant,
        bill: &mut Bill,
    ) -> Result<String, ModelError> {
        let line = &*self.line;
        let mut waits = line.limits.waits();
        let mut last = None;
        loop {
            if let Some(Err(refused)) = self.requests.as_ref().map(RequestBudget::take_beside) {
                return Err(last.unwrap_or(ModelError::OutOfRequests(refused)));
            }
            let streams = line.streams.load(Ordering::Relaxed);
            let Fault { error, retry_after, wants_stream } =
                match line.attempt(prompt, streams, bill.request()).await {
                    Ok(()) => match bill.answer.take_text() {
                        Ok(text) => return Ok(text),
                        Err(error) => error.into(),
                    },
                    Err(fault) => fault,
                };
            if wants_stream && !streams {
                line.streams.store(true, Ordering::Relaxed);
                last = Some(error);
                continue;
            }
            let Some(wait) = waits.next().filter(|_| error.is_passing()) else {
                return Err(error);
            };
            let most = line.limits.longest_wait;
            let wait = match (retry_after, &error) {
                (Some(wait), ModelError::Status { status, .. }) if wait > most => {
                    return Err(ModelError::Busy { status: *status, wait, most });
                }
                (asked, _) => wait.max(asked.unwrap_or_default()),
            };
            if deadline.saturating_duration_since(Instant::now()) <= wait {
                return Err(error);
            }
            sleep(wait).await;
            last = Some(error);
        }
    }
}

impl Line {
    /// Makes one request and reads its answer.
    async fn attempt(&self, prompt: &str, streams: bool, answer: &mut Answer) -> Result<(), Fault> {
        let request = self
            .client()?
            .post(self.api.url(&self.base_url))
            .headers(self.api.headers(self.key.as_ref()))
            .header(CONTENT_TYPE, "application/json")
            .body(self.api.body(&self.model, prompt, streams));
        let response = request.send().await.map_err(|error| match error.is_connect() {
            true => ModelError::Unreachable {
                base_url: self.base_url.clone(),
                source: error.without_url().into(),
            },
            false => ModelError::Cut { source: Some(error.without_url().into()) },
        })?;
        if !response.status().is_success() {
            return Err(self.refusal(response, streams).await);
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().trim_start().to_ascii_lowercase();
        let is_stream = kind.starts_with("text/event-stream")
            || streams && !kind.starts_with("application/json");
        let read = match is_stream {
            true => self.read_stream(response, answer).await,
            false => match whole(response).await {
                Ok(body) => self.api.read_whole(&body, answer),
                Err(error) => Err(error),
            },
        };
        read.map_err(|error| match error {
            // An error in the place of an answer: what it says is the endpoint's own words.
            ModelError::Status { status, message } => self.refused(status, &message).into(),
            error => error.into(),
        })
    }

    async fn read_stream(&self, response: Response, answer: &mut Answer) -> Result<(), ModelError> {
        let mut events = pin!(SseByteStream::new(Box::pin(chunks(response, MAX_ANSWER_BYTES))));
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| match error {
                sse_stream::Error::Body(source) => ModelError::Cut { source: Some(source) },
                other => ModelError::Garbled { what: other.to_string() },
            })?;
            if let Some(data) = event.data {
                self.api.read_event(data.trim(), answer)?;
            }
            // Whatever becomes of the connection then, the answer is there.
            if answer.is_ended() {
                break;
            }
        }
        Ok(())
    }

    /// What an answer says that is none.
    async fn refusal(&self, response: Response, streams: bool) -> Fault {
        let (status, retry_after) =
            (response.status(), retry_after(response.headers(), SystemTime::now()));
        let mut body = Vec::new();
        let mut pieces = pin!(chunks(response, MAX_ERROR_BYTES));
        // What can be read of it will do.
        while let Some(Ok(piece)) = pieces.next().await {
            body.extend_from_slice(&piece);
        }
        let body = String::from_utf8_lossy(&body);
        let code = status.as_u16();
        let wants_stream = !streams
            && matches!(code, 400 | 405 | 406 | 415 | 422 | 501)
            && speaks_of_streams(&body);
        let said = serde_json::from_str(&body).map(|value| message(&value));
        let said = said.unwrap_or_else(|_| body.into_owned());
        let said = match said.trim() {
            "" => status.canonical_reason().unwrap_or_default(),
            said => said,
        };
        Fault { error: self.refused(code, said), retry_after, wants_stream }
    }

    /// What a refusal comes to, in what words it may be told.
    fn refused(&self, status: u16, said: &str) -> ModelError {
        match (status, &self.key) {
            (401 | 403, Some(key)) => {
                ModelError::KeyRefused { status, variable: key.name().to_owned() }
            }
            (401 | 403, None) => ModelError::KeyMissing { status },
            _ => ModelError::Status { status, message: self.shown(said) },
        }
    }

    /// An endpoint's own words, on one line, shortened, and without the key.
    fn shown(&self, said: &str) -> String {
        let said = self.key.as_ref().map_or_else(|| said.to_owned(), |key| key.take_from(said));
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut left = said.chars().filter(|c| !c.is_control());
        let mut shown: String = left.by_ref().take(SHOWN_CHARS).collect();
        if left.next().is_some() {
            shown.push('…');
        }
        shown
    }

    fn client(&self) -> Result<&Client, ModelError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // If another thread was faster, its choice is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let builder = Client::builder()
            .user_agent(concat!("overspill/", env!("CARGO_PKG_VERSION")))
            // A redirect would take the key to another host.
            .redirect(redirect::Policy::none())
            // A connection lives on the runtime that opened it. Kept for the next summary, it would
            // hang where that runtime is there and nobody runs it.
            .pool_max_idle_per_host(0);
        let builder = if self.base_url.is_local() { builder.no_proxy() } else { builder };
        let client =
            builder.build().map_err(|error| ModelError::NoClient { source: error.into() })?;
        Ok(self.client.get_or_init(|| client))
    }

    /// A span of the conventions for generative AI, over all attempts.
    fn span(&self) -> tracing::Span {
        tracing::info_span!(
            target: "overspill",
            "chat",
            otel.name = format!("chat {}", self.model.name),
            otel.kind = "client",
            otel.status_code = tracing::field::Empty,
            { trace::OPERATION_NAME } = "chat",
            { trace::PROVIDER_NAME } = self.model.provider.name(),
            { trace::REQUEST_MODEL } = self.model.name.as_str(),
            { trace::SERVER_ADDRESS } = self.base_url.host(),
            { trace::SERVER_PORT } = self.base_url.port().map(i64::from),
            { trace::INPUT_TOKENS } = tracing::field::Empty,
            { trace::OUTPUT_TOKENS } = tracing::field::Empty,
            { trace::REQUESTS } = tracing::field::Empty,
            { trace::ERROR_TYPE } = tracing::field::Empty,
        )
    }

    /// Tells the span how it went.
    fn tell(&self, span: &tracing::Span, (answer, usage): &Asked) {
        span.record(trace::REQUESTS, number(usage.requests));
        span.record(trace::INPUT_TOKENS, number(usage.input_tokens));
        span.record(trace::OUTPUT_TOKENS, number(usage.output_tokens));
        if let Err(error) = answer {
            span.record(trace::ERROR_TYPE, error.kind());
            span.record("otel.status_code", "ERROR");
        }
    }
}

/// Whether a refusal is about streaming, and not about what is upstream of the endpoint.
fn speaks_of_streams(refusal: &str) -> bool {
    let refusal = refusal.to_ascii_lowercase();
    refusal.replace("upstream", "").replace("downstream", "").contains("stream")
}

/// Everything of an answer.
async fn whole(response: Response) -> Result<Vec<u8>, ModelError> {
    let mut body = Vec::new();
    let mut pieces = pin!(chunks(response, MAX_ANSWER_BYTES));
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| ModelError::Cut { source: Some(error.into()) })?;
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// The pieces of a body as they come, up to so many bytes.
fn chunks(
    response: Response,
    most: usize,
) -> impl Stream<Item = Result<bytes::Bytes, BodyError>> + Send {
    stream::unfold(Some((response, most)), |state| async {
        let (mut response, left) = state?;
        match response.chunk().await {
            Ok(Some(piece)) => match left.checked_sub(piece.len()) {
                Some(left) => Some((Ok(piece), Some((response, left)))),
                None => Some((Err(BodyError::TooBig), None)),
            },
            Ok(None) => None,
            Err(error) => Some((Err(BodyError::Transport(error.without_url())), None)),
        }
    })
}

/// Why a body has no next piece.
#[derive(Debug, thiserror::Error)]
enum BodyError {
    #[error("the connection failed")]
    Transport(#[source] reqwest::Error),
    #[error("it is longer than any answer of a model")]
    TooBig,
}

/// So much later than now, or as good as never.
fn later(after: Duration) -> Instant {
    /// A hundred years.
    const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);
    let now = Instant::now();
    now.checked_add(after).unwrap_or(now + NEVER)
}

/// A number as OpenTelemetry has it, which knows no unsigned ones.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel")
            .field("model", &self.line.model)
            .field("base_url", &self.line.base_url)
            .field("key", &self.line.key)
            .field("limits", &self.line.limits)
            .finish_non_exhaustive()
    }
}
