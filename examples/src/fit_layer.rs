//! A layer for an `async-openai` client: every request of it is fitted before it is sent.
//!
//! The client, its types and its calls stay as they are. What is not edited keeps its bytes, so
//! fields that neither the client nor Overspill knows arrive as they were written.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use bytes::Bytes;
use overspill::BoxFuture;
use overspill::RunId;
use overspill::fit::{Fitter, Occasion};
use overspill::history::SettledPlan;
use overspill_wire::{Conversation, Format};
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Body, Method, Request, Response};
use tower::{Layer, Service};

/// How many states of conversations are remembered by their plans. One that is forgotten is
/// planned anew, which costs a prompt cache and nothing else.
const CONVERSATIONS: usize = 64;

/// Fits each request to Chat Completions and Responses, streamed or not; others pass.
///
/// Put it outside of the retry layer, so that a request is fitted once however often it is sent.
/// A service of one's own replaces the client's retries: add them again.
///
/// ```
/// use std::sync::Arc;
/// use async_openai::Client;
/// use async_openai::middleware::{ReqwestService, retry::OpenAIRetryLayer};
/// use overspill::config::Preset;
/// use overspill::fit::Fitter;
/// use overspill::window;
/// use overspill_examples::{endpoint, fit_layer::FitLayer};
/// use overspill_store::MemoryStore;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let window = window::resolve("gpt-5.2", &Default::default());
/// let fitter = Fitter::preset(Preset::Lean, Arc::new(MemoryStore::new()), &window);
/// let http = endpoint::http()?;
/// let service = tower::ServiceBuilder::new()
///     .layer(FitLayer::new(fitter, "run-1"))
///     .layer(OpenAIRetryLayer::default())
///     .service(ReqwestService::new(http.clone()));
/// let client = Client::build(http, Default::default()).with_http_service(service);
/// # let _: Client<async_openai::config::OpenAIConfig> = client;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct FitLayer(Arc<Fit>);

/// The service that the layer makes.
#[derive(Debug, Clone)]
pub struct FitService<S> {
    inner: S,
    fit: Arc<Fit>,
}

#[derive(Debug)]
struct Fit {
    fitter: Fitter,
    run: RunId,
    /// What was settled for each conversation, the last used at the end. A client sends its whole
    /// history again each time, and the same plans give the same bytes, so that what the provider
    /// has cached stays good.
    settled: Mutex<VecDeque<Vec<SettledPlan>>>,
}

impl FitLayer {
    /// Fits by `fitter`; `run` names what is stored.
    ///
    /// Markers speak of `read_tool_result`: offer the model that tool, or say with
    /// [`Fitter::via`] how else it reads.
    pub fn new(fitter: Fitter, run: impl Into<RunId>) -> Self {
        Self(Arc::new(Fit { fitter, run: run.into(), settled: Mutex::default() }))
    }
}

impl<S> Layer<S> for FitLayer {
    type Service = FitService<S>;

    fn layer(&self, inner: S) -> FitService<S> {
        FitService { inner, fit: Arc::clone(&self.0) }
    }
}

impl<S> Service<HttpRequestFactory> for FitService<S>
where
    S: Service<HttpRequestFactory, Response = Response> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: From<OpenAIError> + 'static,
{
    type Response = Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, factory: HttpRequestFactory) -> Self::Future {
        // The one that is ready makes the call.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let fit = Arc::clone(&self.fit);
        Box::pin(async move {
            let request = factory.build().await?;
            let factory = match fit.request(&request).await {
                Some(body) => with_body(factory, body),
                None => factory,
            };
            inner.call(factory).await
        })
    }
}

/// The same requests with another body.
fn with_body(factory: HttpRequestFactory, body: Bytes) -> HttpRequestFactory {
    HttpRequestFactory::new(move || {
        let (factory, body) = (factory.clone(), body.clone());
        async move {
            let mut request = factory.build().await?;
            request.headers_mut().remove(CONTENT_LENGTH);
            *request.body_mut() = Some(Body::from(body));
            Ok(request)
        }
    })
}

impl Fit {
    /// The body that is to be sent; `None` where the request stays as it is.
    async fn request(&self, request: &Request) -> Option<Bytes> {
        let path = request.url().path();
        let format = match *request.method() {
            Method::POST if path.ends_with("/chat/completions") => Format::Chat,
            Method::POST if path.ends_with("/responses") => Format::Responses,
            _ => return None,
        };
        let body = Bytes::copy_from_slice(request.body()?.as_bytes()?);
        match Conversation::parse(format, body) {
            Ok(conversation) => self.conversation(conversation).await,
            Err(error) => {
                tracing::warn!(%error, "a request was not read, and is sent as it is");
                None
            }
        }
    }

    async fn conversation(&self, whole: Conversation) -> Option<Bytes> {
        let (mut plans, mut current) = self.again(&whole);
        let known = plans.len();
        let fitted = self.fitter.fit(&self.run, &current.history(), &Occasion::default()).await;
        for warning in &fitted.warnings {
            tracing::warn!(%warning, "a request could not be made as small as it should be");
        }
        if let Some(plan) = fitted.plan {
            match apply(&current, &plan) {
                Ok(smaller) => {
                    current = smaller;
                    plans.push(plan);
                }
                Err(error) => tracing::warn!(%error, "a plan was refused"),
            }
        }
        if plans.len() > known {
            let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
            settled.push_back(plans);
            if settled.len() > CONVERSATIONS {
                settled.pop_front();
            }
        } else if plans.is_empty() {
            return None;
        }
        Some(current.to_bytes())
    }

    /// Applies what was settled for this conversation before. Plans name messages by position and
    /// digest, so those of another conversation are refused. They stay for other requests of this
    /// one: for one at the same time, and for one that goes back to where it was.
    fn again(&self, whole: &Conversation) -> (Vec<SettledPlan>, Conversation) {
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        for at in (0..settled.len()).rev() {
            let mut current = whole.clone();
            let fits = settled[at].iter().all(|plan| match apply(&current, plan) {
                Ok(smaller) => {
                    current = smaller;
                    true
                }
                Err(_) => false,
            });
            if fits {
                let plans = settled.remove(at).unwrap_or_default();
                settled.push_back(plans.clone());
                return (plans, current);
            }
        }
        (Vec::new(), whole.clone())
    }
}

fn apply(
    conversation: &Conversation,
    plan: &SettledPlan,
) -> Result<Conversation, Box<dyn std::error::Error + Send + Sync>> {
    Ok(Conversation::parse(conversation.format(), conversation.apply(plan)?)?)
}
