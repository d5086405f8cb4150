//! A real `async-openai` client behind the layer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::middleware::ReqwestService;
use async_openai::middleware::retry::OpenAIRetryLayer;
use async_openai::types::chat::{
    ChatCompletionRequestMessage, ChatCompletionRequestUserMessageArgs,
    CreateChatCompletionRequestArgs,
};
use futures_lite::StreamExt;
use overspill::fit::Fitter;
use overspill::strategy::{
    ClearToolResults, Draft, Limit, Strategy, StrategyError, Trigger, Triggered,
};
use overspill::{BoxFuture, ToolOutputLimits};
use overspill_examples::endpoint;
use overspill_examples::fit_layer::FitLayer;
use overspill_store::MemoryStore;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::scripted::{KEY, Reply, Scripted, completion, events_text, says};

/// Keeps one result.
const KEEP_ONE: fn() -> Arc<dyn Strategy> =
    || Arc::new(ClearToolResults { keep_pairs: 1, ..ClearToolResults::default() });

/// A client whose requests keep one result, and what it stores.
fn client(server: &Scripted, key: &str) -> (Client<OpenAIConfig>, ToolOutputLimits) {
    client_that(server, key, KEEP_ONE())
}

fn client_that(
    server: &Scripted,
    key: &str,
    strategy: Arc<dyn Strategy>,
) -> (Client<OpenAIConfig>, ToolOutputLimits) {
    let store = Arc::new(MemoryStore::new());
    let fitter = Fitter::new(strategy, store.clone(), 100_000);
    let http = endpoint::http().unwrap();
    let service = tower::ServiceBuilder::new()
        .layer(FitLayer::new(fitter, "run-1"))
        .layer(OpenAIRetryLayer::default())
        .service(ReqwestService::new(http.clone()));
    let config = OpenAIConfig::new().with_api_base(&server.base_url).with_api_key(key);
    let client = Client::build(http, config).with_http_service(service);
    (client, ToolOutputLimits::builder().store(store).build().unwrap())
}

/// A result that no stub would be longer than.
fn result(name: &str) -> String {
    (0..200).map(|line| format!("{name} says \"{line}\"\\n")).collect()
}

/// One step of a conversation, spelled as no serializer would.
fn chat_step(name: &str) -> String {
    let result = Value::from(result(name));
    format!(
        r#"{{"tool_calls":[{{"function":{{"arguments":"{{}}", "name":"look"}},"id":"{name}","x_index":0,"type":"function"}}],"role":"assistant","x_cost":1.50e1}},
{{"content":{result},"role":"tool","x":[1.0,{{"b":1,"a":2}}],"tool_call_id":"{name}"}}"#
    )
}

fn chat_request(steps: &[&str]) -> String {
    let steps: Vec<String> = steps.iter().map(|name| chat_step(name)).collect();
    format!(
        r#"{{"x_first":  true,"messages":[ {{"role":"user","content":"caf\u00e9?","x":0.10}},{}],"temperature":1.0,"model":"m","x_last":{{"z":1,"a":[]}} }}"#,
        steps.join(",")
    )
}

fn responses_step(name: &str) -> String {
    let result = Value::from(result(name));
    format!(
        r#"{{"arguments":"{{}}","type":"function_call","call_id":"{name}","name":"look","x":1.0}},{{"output":{result},"x_y":2.50,"type":"function_call_output","call_id":"{name}"}}"#
    )
}

fn responses_request(steps: &[&str], rest: &str) -> String {
    let steps: Vec<String> = steps.iter().map(|name| responses_step(name)).collect();
    format!(
        r#"{{"x_first":  true,"input":[{{"role":"user","content":"caf\u00e9?"}},{}],{rest}"model":"m"}}"#,
        steps.join(",")
    )
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// Checks that of `sent` only the results named have changed in what was `received`, that each is
/// a marker now, and that behind it is what was there.
async fn only_these_were_cleared(
    sent: &str,
    received: &str,
    cleared: &[&str],
    limits: &ToolOutputLimits,
) {
    let json: Value = serde_json::from_str(received).unwrap();
    let list = json["messages"].as_array().or(json["input"].as_array()).unwrap();
    let mut expected = sent.to_owned();
    for name in cleared {
        let output = list.iter().find(|message| {
            message["tool_call_id"] == *name
                || (message["type"] == "function_call_output" && message["call_id"] == *name)
        });
        let output = output.unwrap();
        let marker = output["content"].as_str().or(output["output"].as_str()).unwrap();
        let handle = marker.split("stored as ").nth(1).unwrap().trim_end_matches(']');
        let answer = limits.read(&json!({ "handle": handle, "limit": 1000 })).await;
        assert!(answer.ends_with(&result(name)), "{answer}");
        let before = Value::from(result(name)).to_string();
        assert!(expected.contains(&before));
        expected = expected.replace(&before, &Value::from(marker).to_string());
    }
    assert_eq!(received, expected);
}

#[tokio::test]
async fn chat_completions_are_fitted_and_all_else_keeps_its_bytes() {
    let server = Scripted::start(|_| says("Fine.")).await;
    let (client, limits) = client(&server, KEY);
    let short = chat_request(&["a", "b", "c"]);
    let long = chat_request(&["a", "b", "c", "d"]);
    for request in [&short, &long, &chat_request(&["z"])] {
        let answer: Value = client.chat().create_byot(&*raw(request)).await.unwrap();
        assert_eq!(answer["choices"][0]["message"]["content"], "Fine.");
    }
    let [first, second, third] = &server.journal()[..] else { panic!("three requests") };
    only_these_were_cleared(&short, first.text(), &["a", "b"], &limits).await;
    only_these_were_cleared(&long, second.text(), &["a", "b", "c"], &limits).await;
    // One result alone stays.
    assert_eq!(third.text(), chat_request(&["z"]));
}

/// The client knows nothing of the plan, and sends the whole history again.
#[tokio::test]
async fn what_was_settled_once_stays_the_same_bytes() {
    let server = Scripted::start(|_| says("Fine.")).await;
    // Three results are too many, and one with two markers is not, nor two.
    let when = Trigger::tokens(Limit::Tokens(2_000));
    let strategy = Triggered { when, strategy: KEEP_ONE() };
    let (client, limits) = client_that(&server, KEY, Arc::new(strategy));
    let (short, long) = (chat_request(&["a", "b", "c"]), chat_request(&["a", "b", "c", "d"]));
    for request in [&short, &long] {
        let _: Value = client.chat().create_byot(&*raw(request)).await.unwrap();
    }
    let [first, second] = &server.journal()[..] else { panic!("two requests") };
    for (sent, received) in [(&short, first), (&long, second)] {
        only_these_were_cleared(sent, received.text(), &["a", "b"], &limits).await;
    }
    let (messages, _) = first.text().split_once("],\"temperature\"").unwrap();
    assert!(second.text().starts_with(messages));
}

/// Lets the first conversation pass, and the next two only together.
#[derive(Debug)]
struct Meets {
    passed: AtomicBool,
    both: Barrier,
    strategy: Triggered,
}

impl Strategy for Meets {
    fn edit<'f>(
        &'f self,
        draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        Box::pin(async move {
            if self.passed.swap(true, Ordering::Relaxed) {
                self.both.wait().await;
            }
            self.strategy.edit(draft).await
        })
    }
}

#[tokio::test]
async fn what_was_settled_is_the_same_for_requests_at_the_same_time() {
    let server = Scripted::start(|_| says("Fine.")).await;
    let when = Trigger::tokens(Limit::Tokens(2_000));
    let strategy = Triggered { when, strategy: KEEP_ONE() };
    let strategy = Meets { passed: AtomicBool::new(false), both: Barrier::new(2), strategy };
    let (client, limits) = client_that(&server, KEY, Arc::new(strategy));
    let (short, long) = (chat_request(&["a", "b", "c"]), chat_request(&["a", "b", "c", "d"]));
    let _: Value = client.chat().create_byot(&*raw(&short)).await.unwrap();
    let (chat, request) = (client.chat(), raw(&long));
    let ask = || async { chat.create_byot::<_, Value>(&*request).await.unwrap() };
    let both = async { futures_lite::future::zip(ask(), ask()).await };
    tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
    let [_, second, third] = &server.journal()[..] else { panic!("three requests") };
    for received in [second, third] {
        only_these_were_cleared(&long, received.text(), &["a", "b"], &limits).await;
    }
}

#[tokio::test]
async fn responses_are_fitted_and_streamed() {
    let delta = |text: &str, number: u64| {
        json!({ "type": "response.output_text.delta", "sequence_number": number, "item_id": "m",
                "output_index": 0, "content_index": 0, "delta": text })
    };
    let server = Scripted::start(move |request| match request["stream"].as_bool() {
        Some(true) => Reply::Events(vec![delta("Fi", 0), delta("ne.", 1)]),
        _ => Reply::Response(json!({ "id": "resp_1", "output": [] })),
    })
    .await;
    let (client, limits) = client(&server, KEY);
    let plain = responses_request(&["a", "b"], "");
    let answer: Value = client.responses().create_byot(&*raw(&plain)).await.unwrap();
    assert_eq!(answer["id"], "resp_1");

    let streamed = responses_request(&["a", "b", "c"], r#""stream": true ,"#);
    let mut stream =
        client.responses().create_stream_byot::<_, Value>(&*raw(&streamed)).await.unwrap();
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        text.push_str(event.unwrap()["delta"].as_str().unwrap());
    }
    assert_eq!(text, "Fine.");
    let [first, second] = &server.journal()[..] else { panic!("two requests") };
    only_these_were_cleared(&plain, first.text(), &["a"], &limits).await;
    only_these_were_cleared(&streamed, second.text(), &["a", "b"], &limits).await;
}

#[tokio::test]
async fn a_client_with_types_streams_a_chat() {
    let chunk = |text: &str| {
        json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": null }] })
    };
    let server = Scripted::start(move |_| Reply::Events(vec![chunk("Fi"), chunk("ne.")])).await;
    let (client, _) = client(&server, KEY);
    let mut messages: Vec<ChatCompletionRequestMessage> = vec![
        ChatCompletionRequestUserMessageArgs::default().content("Look.").build().unwrap().into(),
    ];
    for name in ["a", "b"] {
        let step: Vec<ChatCompletionRequestMessage> =
            serde_json::from_str(&format!("[{}]", chat_step(name))).unwrap();
        messages.extend(step);
    }
    let request = CreateChatCompletionRequestArgs::default()
        .model("m")
        .stream(true)
        .messages(messages)
        .build();
    let mut stream = client.chat().create_stream(request.unwrap()).await.unwrap();
    let mut text = String::new();
    while let Some(chunk) = stream.next().await {
        text.push_str(chunk.unwrap().choices[0].delta.content.as_deref().unwrap());
    }
    assert_eq!(text, "Fine.");
    let received = server.journal()[0].json();
    let content = |at: usize| received["messages"][at]["content"].as_str().unwrap().to_owned();
    assert!(content(2).starts_with("[overspill: "));
    assert_eq!(content(4), result("b"));
}

#[tokio::test]
async fn conversations_of_one_client_are_told_apart() {
    let server = Scripted::start(|_| says("Fine.")).await;
    let (client, limits) = client(&server, KEY);
    let requests: Vec<(String, &[&str])> = vec![
        (chat_request(&["a", "b"]), &["a"]),
        (chat_request(&["x", "y"]), &["x"]),
        (chat_request(&["a", "b", "c"]), &["a", "b"]),
        (chat_request(&["x", "y", "z"]), &["x", "y"]),
    ];
    for (request, _) in &requests {
        let _: Value = client.chat().create_byot(&*raw(request)).await.unwrap();
    }
    for ((sent, cleared), received) in requests.iter().zip(server.journal()) {
        only_these_were_cleared(sent, received.text(), cleared, &limits).await;
    }
}

#[tokio::test]
async fn a_retry_sends_the_same_bytes_when_it_is_told_to() {
    let mut step = 0;
    let server = Scripted::start(move |_| {
        step += 1;
        match step {
            1 => Reply::Error { status: 429, retry_after: Some(1) },
            2 => Reply::Error { status: 500, retry_after: None },
            _ => says("Fine."),
        }
    })
    .await;
    let (client, limits) = client(&server, KEY);
    let request = chat_request(&["a", "b"]);
    let _: Value = client.chat().create_byot(&*raw(&request)).await.unwrap();
    let journal = server.journal();
    assert_eq!(journal.iter().map(|one| one.status).collect::<Vec<_>>(), [429, 500, 200]);
    assert!(journal[1].at - journal[0].at >= Duration::from_secs(1));
    for received in journal {
        only_these_were_cleared(&request, received.text(), &["a"], &limits).await;
    }
}

#[tokio::test]
async fn what_fails_is_said_as_without_the_layer() {
    let server = Scripted::start(|_| Reply::Error { status: 500, retry_after: Some(0) }).await;
    let (refused, _) = client(&server, "wrong");
    let request = chat_request(&["a", "b"]);
    let status = |error: OpenAIError| match error {
        OpenAIError::ApiError(error) => error.status_code.as_u16(),
        other => panic!("{other}"),
    };
    let error = refused.chat().create_byot::<_, Value>(&*raw(&request)).await.unwrap_err();
    assert_eq!(status(error), 401);
    assert_eq!(server.journal().len(), 1);

    let (failing, _) = client(&server, KEY);
    let error = failing.chat().create_byot::<_, Value>(&*raw(&request)).await.unwrap_err();
    assert_eq!(status(error), 500);
    assert_eq!(server.journal().len(), 1 + 4);

    // What is no conversation goes to the endpoint as it is, which says what is wrong with it.
    let nonsense = r#"{"model":"m", "messages":[{"role":"nobody"}]}"#;
    let error = failing.chat().create_byot::<_, Value>(&*raw(nonsense)).await.unwrap_err();
    assert_eq!(status(error), 400);
    assert_eq!(server.journal()[5].text(), nonsense);
}

#[tokio::test]
async fn a_stream_that_is_cut_ends_with_an_error() {
    let chunk = completion(&json!({ "content": "Fi" }), "stop");
    let body = events_text(&[chunk], false) + "data: {\"cho";
    let server = Scripted::start(move |_| Reply::Cut {
        content_type: "text/event-stream",
        body: body.clone(),
    })
    .await;
    let (client, _) = client(&server, KEY);
    let request = chat_request(&["a", "b"]);
    let mut stream = client.chat().create_stream_byot::<_, Value>(&*raw(&request)).await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    assert!(matches!(&events[..], [Ok(_), Err(OpenAIError::StreamError(_))]), "{events:?}");
}
