//! Spans of what is done, for OpenTelemetry: sizes, actions and handles, never content.
//!
//! With the feature `tracing`, each of [`ADMIT`], [`READ`], [`FIT`] and [`SUMMARIZE`] is a span of
//! `tracing` at level `INFO` and target `overspill`; without it, nothing is compiled in. The library
//! reads no clock: whoever listens does. Names are those of OpenTelemetry's conventions for
//! generative AI where there is one, and `overspill.*` where there is none.
//!
//! No payload, argument, pattern, prompt, summary or error text is ever in a span or an event: what
//! failed is named by its kind.

use crate::item::{RunId, ToolCall};

/// The span of a return on its way into view.
pub const ADMIT: &str = "overspill.admit";
/// The span of an answer of the read tool.
pub const READ: &str = "overspill.read";
/// The span of a history on its way under its budget.
pub const FIT: &str = "overspill.fit";
/// The span of a question to a model, whoever asks it over what.
pub const SUMMARIZE: &str = "overspill.summarize";

/// What is done at a model's endpoint: `chat`.
pub const OPERATION_NAME: &str = "gen_ai.operation.name";
/// Whose API is spoken: `openai`, `anthropic`.
pub const PROVIDER_NAME: &str = "gen_ai.provider.name";
/// The model that was asked for.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// Tokens sent.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Tokens received.
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// The run.
pub const CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// True where a history was made smaller; absent where it was not, as the convention has it.
pub const COMPACTED: &str = "gen_ai.conversation.compacted";
/// The tool whose return it is.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// The call it answers.
pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// The kind of what failed.
pub const ERROR_TYPE: &str = "error.type";
/// The host that was asked.
pub const SERVER_ADDRESS: &str = "server.address";
/// Its port.
pub const SERVER_PORT: &str = "server.port";

/// The action that ran: `spill`, `truncate`, `summarize`.
pub const ACTION: &str = "overspill.action";
/// The handle under which a payload is stored.
pub const HANDLE: &str = "overspill.handle";
/// Characters before.
pub const CHARS_BEFORE: &str = "overspill.chars.before";
/// Characters after.
pub const CHARS_AFTER: &str = "overspill.chars.after";
/// Tokens of a request before.
pub const TOKENS_BEFORE: &str = "overspill.tokens.before";
/// Tokens of a request after.
pub const TOKENS_AFTER: &str = "overspill.tokens.after";
/// Tokens a request may have.
pub const TOKENS_BUDGET: &str = "overspill.tokens.budget";
/// How many payloads of a return were reduced.
pub const REDUCTIONS: &str = "overspill.reductions";
/// How many edits a plan makes.
pub const EDITS: &str = "overspill.edits";
/// How many payloads were stored.
pub const STORED: &str = "overspill.stored";
/// How many things could not be done.
pub const WARNINGS: &str = "overspill.warnings";
/// Requests that models took, failed ones included.
pub const REQUESTS: &str = "overspill.requests";

/// A span, or nothing without the feature.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

#[cfg(feature = "tracing")]
impl Span {
    pub(crate) fn admit(call: &ToolCall) -> Self {
        let span = tracing::info_span!(
            target: "overspill",
            ADMIT,
            { CONVERSATION_ID } = call.run.as_str(),
            { TOOL_NAME } = call.tool.as_str(),
            { TOOL_CALL_ID } = call.call.as_str(),
            { CHARS_BEFORE } = tracing::field::Empty,
            { CHARS_AFTER } = tracing::field::Empty,
            { REDUCTIONS } = tracing::field::Empty,
            { WARNINGS } = tracing::field::Empty,
            { REQUESTS } = tracing::field::Empty,
        );
        Self { span }
    }

    pub(crate) fn read() -> Self {
        let span = tracing::info_span!(
            target: "overspill",
            READ,
            { HANDLE } = tracing::field::Empty,
            { CHARS_AFTER } = tracing::field::Empty,
            { ERROR_TYPE } = tracing::field::Empty,
        );
        Self { span }
    }

    pub(crate) fn fit(run: &RunId) -> Self {
        let span = tracing::info_span!(
            target: "overspill",
            FIT,
            { CONVERSATION_ID } = run.as_str(),
            { COMPACTED } = tracing::field::Empty,
            { TOKENS_BEFORE } = tracing::field::Empty,
            { TOKENS_AFTER } = tracing::field::Empty,
            { TOKENS_BUDGET } = tracing::field::Empty,
            { EDITS } = tracing::field::Empty,
            { STORED } = tracing::field::Empty,
            { WARNINGS } = tracing::field::Empty,
            { REQUESTS } = tracing::field::Empty,
        );
        Self { span }
    }

    pub(crate) fn summarize() -> Self {
        let span = tracing::info_span!(
            target: "overspill",
            SUMMARIZE,
            { CHARS_BEFORE } = tracing::field::Empty,
            { CHARS_AFTER } = tracing::field::Empty,
            { REQUESTS } = tracing::field::Empty,
            { ERROR_TYPE } = tracing::field::Empty,
        );
        Self { span }
    }

    /// Says a number.
    pub(crate) fn count(&self, name: &str, number: u64) {
        // OpenTelemetry has no unsigned numbers.
        self.span.record(name, i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Says a name: a handle, or a kind of failure.
    pub(crate) fn name(&self, name: &str, text: &str) {
        self.span.record(name, text);
    }

    pub(crate) fn compacted(&self) {
        self.span.record(COMPACTED, true);
    }

    /// Tells of one payload that was reduced or stored.
    pub(crate) fn reduced(&self, action: &str, before: u64, after: u64, handle: Option<&str>) {
        tracing::info!(
            target: "overspill",
            parent: &self.span,
            message = "overspill.reduced",
            { ACTION } = action,
            { CHARS_BEFORE } = i64::try_from(before).unwrap_or(i64::MAX),
            { CHARS_AFTER } = i64::try_from(after).unwrap_or(i64::MAX),
            { HANDLE } = handle,
        );
    }

    /// Tells of a payload that left a history.
    pub(crate) fn stored(&self, handle: &str, chars: u64) {
        tracing::info!(
            target: "overspill",
            parent: &self.span,
            message = "overspill.stored",
            { HANDLE } = handle,
            { CHARS_BEFORE } = i64::try_from(chars).unwrap_or(i64::MAX),
        );
    }

    /// Tells by its kind of something that could not be done.
    pub(crate) fn warned(&self, kind: &str) {
        tracing::warn!(
            target: "overspill",
            parent: &self.span,
            message = "overspill.warning",
            { ERROR_TYPE } = kind,
        );
    }

    /// Awaits within the span.
    pub(crate) async fn around<F: Future>(&self, future: F) -> F::Output {
        tracing::Instrument::instrument(future, self.span.clone()).await
    }
}

#[cfg(not(feature = "tracing"))]
impl Span {
    pub(crate) fn admit(_: &ToolCall) -> Self {
        Self {}
    }

    pub(crate) fn read() -> Self {
        Self {}
    }

    pub(crate) fn fit(_: &RunId) -> Self {
        Self {}
    }

    pub(crate) fn summarize() -> Self {
        Self {}
    }

    pub(crate) fn count(&self, _: &str, _: u64) {}

    pub(crate) fn name(&self, _: &str, _: &str) {}

    pub(crate) fn compacted(&self) {}

    pub(crate) fn reduced(&self, _: &str, _: u64, _: u64, _: Option<&str>) {}

    pub(crate) fn stored(&self, _: &str, _: u64) {}

    pub(crate) fn warned(&self, _: &str) {}

    pub(crate) async fn around<F: Future>(&self, future: F) -> F::Output {
        future.await
    }
}
