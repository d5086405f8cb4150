//! What spans say, and that they never hold content.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use opentelemetry::trace::{SpanKind, Status, TracerProvider};
use opentelemetry::{Key, Value as OtelValue};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use overspill::ToolCall;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use crate::library::{fit, limits, log};
use crate::server::{KEY, Server, Step, chat_says, fails};

/// Everything that any span or event says, as text.
#[derive(Debug, Clone, Default)]
struct Heard(Arc<Mutex<String>>);

impl Heard {
    fn all(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl Visit for Heard {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.lock().unwrap().push_str(&format!("{field}={value:?}\n"));
    }
}

impl<S: Subscriber> Layer<S> for Heard {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let name = attributes.metadata().name();
        self.0.lock().unwrap().push_str(&format!("span {name}\n"));
        attributes.record(&mut self.clone());
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        values.record(&mut self.clone());
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut self.clone());
    }
}

/// Words that stand in payloads, arguments, summaries and errors.
const PAYLOAD: &str = "canary-payload-77aa";
const ARGUMENT: &str = "canary-argument-77bb";
const SUMMARY: &str = "canary-summary-77cc";
const SAID: &str = "canary-said-77dd";

/// A run through every path: admitted, read, refused, fitted, with a model that works and one that
/// does not.
async fn run() {
    let server = Server::start([
        chat_says(SUMMARY),
        fails(400, SAID),
        fails(401, SAID),
        chat_says(SUMMARY),
        fails(400, SAID),
    ])
    .await;
    let policy = limits(server.chat());
    let output = |at: usize| format!("{at} {PAYLOAD}\n{}", log());
    let admitted = policy.admit(&ToolCall::new("run-1", "call-1", "bash"), output(1)).await;
    let handle = admitted.receipts().next().unwrap().handle.clone();
    policy.admit(&ToolCall::new("run-1", "call-2", "bash"), output(2)).await;
    // The same once more in pieces, and a key that is refused.
    let mut stream = policy.stream(&ToolCall::new("run-1", "call-3", "bash"));
    assert!(stream.push(output(3).repeat(20).into()).await.is_none());
    assert_eq!(stream.finish(None).await.warnings.len(), 1);
    let answer = policy.read(&json!({ "handle": handle, "pattern": PAYLOAD })).await;
    assert!(answer.contains(PAYLOAD));
    policy.read(&json!({ "handle": ARGUMENT, "pattern": ARGUMENT })).await;
    policy
        .read(&json!({ "handle": handle, "pattern": format!("({ARGUMENT}"), "regex": true }))
        .await;
    let unknown = handle.as_str().replace("call-1", ARGUMENT);
    policy.read(&json!({ "handle": unknown })).await;

    // Another line, since the first rests.
    fit(server.chat()).await;
    fit(server.chat()).await;
    assert_eq!(server.asked().len(), 5);
}

#[tokio::test]
async fn no_content_reaches_any_span_or_event() {
    let heard = Heard::default();
    let subscriber = tracing_subscriber::registry().with(heard.clone());
    let guard = tracing::subscriber::set_default(subscriber);
    run().await;
    drop(guard);
    let all = heard.all();
    for name in
        ["overspill.admit", "overspill.read", "overspill.fit", "overspill.summarize", "chat"]
    {
        assert!(all.contains(&format!("span {name}\n")), "{name} in {all}");
    }
    for kind in ["not_summarized", "\"400\"", "\"401\"", "refused"] {
        assert!(all.contains(kind), "{kind} in {all}");
    }
    for canary in [PAYLOAD, ARGUMENT, SUMMARY, SAID, KEY, "case_399", "question 0"] {
        assert!(!all.contains(canary), "{canary} in {all}");
    }
}

fn attributes(span: &SpanData) -> BTreeMap<String, String> {
    let text = |key: &Key, value: &OtelValue| (key.to_string(), value.to_string());
    let own = |key: &str| {
        ["gen_ai.", "overspill.", "server.", "error."].iter().any(|p| key.starts_with(p))
    };
    let all = span.attributes.iter().map(|pair| text(&pair.key, &pair.value));
    all.filter(|(key, _)| own(key)).collect()
}

#[tokio::test]
async fn spans_arrive_under_the_names_of_the_conventions() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    run().await;
    drop(guard);
    let spans = exporter.get_finished_spans().unwrap();
    let named =
        |name: &str| -> Vec<&SpanData> { spans.iter().filter(|span| span.name == name).collect() };
    let get = |span: &SpanData, name: &str| attributes(span).get(name).cloned();

    let chats = named("chat gpt-5-mini");
    assert_eq!(chats.len(), 5);
    let chat = attributes(chats[0]);
    let expected = [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "gpt-5-mini"),
        ("gen_ai.usage.input_tokens", "100"),
        ("gen_ai.usage.output_tokens", "7"),
        ("overspill.requests", "1"),
        ("server.address", "127.0.0.1"),
    ];
    for (name, value) in expected {
        assert_eq!(chat.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(chat["server.port"].parse::<u16>().is_ok());
    assert_eq!((&chats[0].span_kind, &chats[0].status), (&SpanKind::Client, &Status::Unset));
    assert_eq!(get(chats[1], "error.type").as_deref(), Some("400"));
    assert!(matches!(chats[1].status, Status::Error { .. }));

    let admits = named("overspill.admit");
    assert_eq!(admits.len(), 3);
    let admit = attributes(admits[0]);
    assert_eq!(admit["gen_ai.conversation.id"], "run-1");
    assert_eq!((&*admit["gen_ai.tool.name"], &*admit["gen_ai.tool.call.id"]), ("bash", "call-1"));
    let size = |name: &str| admit[name].parse::<u64>().unwrap();
    assert!(size("overspill.chars.before") > 8_000 && size("overspill.chars.after") < 1_000);
    let reduced = &admits[0].events.events[0];
    assert_eq!(reduced.name, "overspill.reduced");
    let of_event = |name: &str| {
        let found = reduced.attributes.iter().find(|pair| pair.key.as_str() == name);
        found.map(|pair| pair.value.to_string()).unwrap_or_default()
    };
    assert_eq!(of_event("overspill.action"), "summarize");
    assert!(of_event("overspill.handle").starts_with("run-1/call-1."));

    // The model's span lies in the summary's, and that in the return's.
    let of_id = |id| spans.iter().find(|span| span.span_context.span_id() == id).unwrap();
    let summary = of_id(chats[0].parent_span_id);
    assert_eq!(summary.name, "overspill.summarize");
    assert_eq!(of_id(summary.parent_span_id).name, "overspill.admit");

    let reads = named("overspill.read");
    assert!(get(reads[0], "overspill.handle").unwrap().starts_with("run-1/call-1."));
    assert_eq!(get(reads[1], "error.type").as_deref(), Some("refused"));

    let fits = named("overspill.fit");
    assert_eq!(get(fits[0], "gen_ai.conversation.compacted").as_deref(), Some("true"));
    assert_eq!(get(fits[0], "overspill.tokens.budget").as_deref(), Some("2000"));
    assert_eq!(fits[0].events.events[0].name, "overspill.stored");
    // The convention knows only true.
    assert_eq!(get(fits[1], "gen_ai.conversation.compacted"), None);
    assert_eq!(get(fits[1], "overspill.warnings").as_deref(), Some("1"));
}

/// Where the model runs on a thread of its own, its span still lies in the caller's.
#[test]
fn a_span_follows_its_call_to_another_thread() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let dispatch = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(Server::start([Step::Say(
        200,
        vec![],
        crate::server::chat_body("All ok."),
    )]));
    let model = server.chat();
    tracing::dispatcher::with_default(&dispatch, || {
        futures_lite::future::block_on(crate::library::admit(model));
    });
    let spans = exporter.get_finished_spans().unwrap();
    let names: Vec<&str> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["chat gpt-5-mini", "overspill.summarize", "overspill.admit"]);
    assert_eq!(attributes(&spans[0])["gen_ai.usage.input_tokens"], "100");
    assert_eq!(spans[0].parent_span_id, spans[1].span_context.span_id());
}
