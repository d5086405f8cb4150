//! What may pass is tried again; what stays is not.

use std::time::{Duration, SystemTime};

use overspill_model::Limits;

use crate::server::{Server, Step, ask, ask_in_vain, chat_says, fails, fails_with, limits};

#[tokio::test]
async fn a_request_is_what_the_api_wants_and_its_usage_comes_back() {
    let server = Server::start([chat_says("Short")]).await;
    assert_eq!(ask(&server.chat()).await.unwrap(), ("Short".into(), (1, 100, 7)));
    let asked = &server.asked()[0];
    assert_eq!(asked.path, "/v1/chat/completions");
    assert_eq!(asked.headers["content-type"], "application/json");
    assert_eq!(
        asked.body.to_string(),
        r#"{"model":"gpt-5-mini","messages":[{"role":"user","content":"Sum up"}]}"#
    );
}

#[tokio::test]
async fn messages_are_spoken_too() {
    let body = r#"{"type":"message","content":[{"type":"text","text":"Short"}],"stop_reason":"end_turn",
        "usage":{"input_tokens":9,"cache_read_input_tokens":1,"output_tokens":3}}"#;
    let server = Server::start([Step::Say(200, vec![], body.into())]).await;
    assert_eq!(ask(&server.messages()).await.unwrap(), ("Short".into(), (1, 10, 3)));
    let asked = &server.asked()[0];
    assert_eq!(asked.path, "/v1/messages");
    assert_eq!(asked.headers["anthropic-version"], "2023-06-01");
    assert_eq!(asked.headers["x-api-key"], crate::server::KEY);
    assert!(!asked.headers.contains_key("authorization"));
    assert!(asked.body["max_tokens"].as_u64().unwrap() >= 32_000);
}

#[tokio::test]
async fn a_500_is_tried_again_and_every_attempt_counts() {
    let server = Server::start([fails(500, "oh"), fails(503, "no"), chat_says("Short")]).await;
    assert_eq!(ask(&server.chat()).await.unwrap(), ("Short".into(), (3, 100, 7)));
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn tries_end() {
    let server = Server::start((0..3).map(|_| fails(500, "the engine is on fire"))).await;
    let (error, usage) = ask_in_vain(&server.chat()).await;
    assert_eq!(
        error,
        "openai:gpt-5-mini: the endpoint answered with status 500: the engine is on fire"
    );
    assert_eq!((usage, server.asked().len()), ((3, 0, 0), 3));
}

/// The time between the first two requests, when the first was told to wait.
async fn waited(header: (&'static str, String)) -> Duration {
    let server = Server::start([fails_with(429, vec![header], "slow"), chat_says("Short")]).await;
    assert_eq!(ask(&server.chat()).await.unwrap().1, (2, 100, 7));
    let asked = server.asked();
    asked[1].at - asked[0].at
}

#[tokio::test]
async fn a_429_is_waited_out_as_long_as_it_says() {
    assert!(waited(("retry-after", "1".into())).await >= Duration::from_secs(1));
    assert!(waited(("retry-after-ms", "300".into())).await >= Duration::from_millis(300));
}

#[tokio::test]
async fn a_date_to_wait_for_counts_by_the_servers_clock() {
    // Its clock goes an hour ahead; a date is to the second.
    let there = SystemTime::now() + Duration::from_secs(3_600);
    let date = |time| httpdate::fmt_http_date(time);
    let headers =
        vec![("date", date(there)), ("retry-after", date(there + Duration::from_secs(1)))];
    let server = Server::start([fails_with(429, headers, "slow"), chat_says("Short")]).await;
    ask(&server.chat()).await.unwrap();
    let asked = server.asked();
    assert!(asked[1].at - asked[0].at >= Duration::from_secs(1));
}

#[tokio::test]
async fn nobody_waits_for_longer_than_the_limit() {
    let server = Server::start([fails_with(429, vec![("retry-after", "6".into())], "slow")]).await;
    let (error, usage) = ask_in_vain(&server.chat()).await;
    assert_eq!(
        error,
        "openai:gpt-5-mini: the endpoint asks to wait 6 s (status 429), and no more than 5 s are waited"
    );
    assert_eq!((usage, server.asked().len()), ((1, 0, 0), 1));
}

#[tokio::test]
async fn what_would_wait_past_the_timeout_ends_at_once() {
    let mut short = limits();
    short.timeout = Duration::from_secs(4);
    let server = Server::start([fails_with(503, vec![("retry-after", "4".into())], "soon")]).await;
    let model = server.builder("openai:gpt-5-mini").limits(short).build();
    let (error, _) = ask_in_vain(&model).await;
    assert_eq!(error, "openai:gpt-5-mini: the endpoint answered with status 503: soon");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn what_the_request_is_to_blame_for_is_not_tried_again() {
    for status in [400, 404, 413, 422] {
        let server = Server::start([fails(status, "too long")]).await;
        let (error, _) = ask_in_vain(&server.chat()).await;
        let end = format!("the endpoint answered with status {status}: too long");
        assert!(error.ends_with(&end), "{error}");
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Server::start([chat_says("Short")]).await;
    let to = format!("{}/chat/completions", other.url());
    let server = Server::start([Step::Say(307, vec![("location", to)], String::new())]).await;
    let (error, _) = ask_in_vain(&server.chat()).await;
    assert_eq!(
        error,
        "openai:gpt-5-mini: the endpoint answered with status 307: Temporary Redirect"
    );
    assert!(other.asked().is_empty());
}

#[tokio::test]
async fn a_page_is_no_answer() {
    let page = Step::Say(200, vec![("content-type", "text/html".into())], "<html>Welcome".into());
    let server = Server::start([page]).await;
    let (error, _) = ask_in_vain(&server.chat()).await;
    assert_eq!(
        error,
        "openai:gpt-5-mini: this is no answer of such an API: it is not JSON; check the model's base URL"
    );
}

#[tokio::test]
async fn a_host_that_is_not_there_is_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let mut once = limits();
    once.retries = 0;
    let model = overspill_model::HttpModel::builder("ollama:llama3.2".parse().unwrap());
    let model = model.base_url(url.parse().unwrap()).limits(once).build();
    let (error, _) = ask_in_vain(&model).await;
    assert_eq!(error, format!("ollama:llama3.2: nobody can be reached at {url}"));
}

/// The library polls a model from any executor; here there is no runtime of tokio's.
#[test]
fn without_a_runtime_it_brings_its_own() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(Server::start([chat_says("Short"), fails(400, "no")]));
    let model = server.chat();
    assert_eq!(futures_lite::future::block_on(ask(&model)).unwrap().0, "Short");
    let (error, usage) = futures_lite::future::block_on(ask_in_vain(&model));
    assert_eq!(error, "openai:gpt-5-mini: the endpoint answered with status 400: no");
    assert_eq!(usage, (1, 0, 0));
}

#[tokio::test]
async fn limits_without_end_are_taken_as_they_are() {
    let server = Server::start([chat_says("Short")]).await;
    let mut endless = Limits::default();
    endless.timeout = Duration::MAX;
    endless.rest = Duration::MAX;
    endless.at_once = usize::MAX;
    endless.retries = usize::MAX;
    let model = server.builder("openai:gpt-5-mini").limits(endless).build();
    assert_eq!(ask(&model).await.unwrap().0, "Short");
}
