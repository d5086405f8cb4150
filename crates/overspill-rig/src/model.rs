//! A rig model as the one that writes summaries.

use std::fmt;
use std::sync::Arc;

use overspill::summary::{SummaryError, TextModel};
use overspill::{BoxFuture, Summary, Usage};
use rig_core::DynModel;
use rig_core::completion::{CompletionRequest, FinishReason};
use rig_core::operation::Completion;

/// Asks any completion model of rig's. Give it a clone of the agent's own, and `Summarize` runs on
/// the model of the run.
///
/// Rig neither retries nor sets a time limit by itself; the HTTP client of the model may do both.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use overspill::summary::TextModel;
/// use overspill_rig::RigModel;
/// use rig_core::test_utils::MockCompletionModel;
///
/// let model = RigModel::new(MockCompletionModel::text("All tests pass."));
/// assert_eq!(model.complete("Sum up: …").await?.text, "All tests pass.");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RigModel {
    model: DynModel<Completion>,
    shape: Arc<Shape>,
}

type Shape = dyn Fn(CompletionRequest) -> CompletionRequest + Send + Sync;

impl RigModel {
    /// Asks `model`, with nothing but the prompt in the request.
    pub fn new(model: impl Into<DynModel<Completion>>) -> Self {
        Self { model: model.into(), shape: Arc::new(|request| request) }
    }

    /// Shapes each request before it is sent: sets a temperature, say, or `max_tokens` for a
    /// provider that insists on it.
    #[must_use]
    pub fn shape(
        mut self,
        shape: impl Fn(CompletionRequest) -> CompletionRequest + Send + Sync + 'static,
    ) -> Self {
        self.shape = Arc::new(shape);
        self
    }
}

impl TextModel for RigModel {
    fn complete<'a>(&'a self, prompt: &'a str) -> BoxFuture<'a, Result<Summary, SummaryError>> {
        let request = (self.shape)(CompletionRequest::new(prompt));
        let answer = self.model.call(request);
        Box::pin(async move {
            let mut usage = Usage { requests: 1, ..Usage::default() };
            let answer = answer.await.map_err(|error| {
                SummaryError::new("the model did not answer").with_source(error).with_usage(usage)
            })?;
            usage.input_tokens = answer.usage.input_tokens.unwrap_or_default();
            usage.output_tokens = answer.usage.output_tokens.unwrap_or_default();
            // Half a summary helps nobody, and a refusal is none.
            match answer.finish_reason() {
                Some(FinishReason::Length) => {
                    Err(SummaryError::new("the model's answer was cut off").with_usage(usage))
                }
                _ if answer.stop().is_failure() => {
                    let why = answer.error.as_deref().unwrap_or("it gave no reason");
                    Err(SummaryError::new(format!("the model refused: {why}")).with_usage(usage))
                }
                _ => Ok(Summary { text: answer.text(), usage }),
            }
        })
    }
}

impl fmt::Debug for RigModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RigModel").field("model", &self.model).finish_non_exhaustive()
    }
}
