//! Endpoints that answer in streams only, and streams that break off.

use overspill_model::ModelError;
use serde_json::json;

use crate::server::{Server, Step, ask, ask_in_vain, chat_piece, event, fails, limits};

const DONE: &str = "data: [DONE]\n\n";

fn usage() -> String {
    let usage = json!({ "prompt_tokens": 100, "completion_tokens": 7 });
    event(&json!({ "choices": [], "usage": usage }))
}

fn end(reason: &str) -> String {
    event(&json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }))
}

fn whole() -> Step {
    let pieces = vec![chat_piece("Sho"), chat_piece("rt"), end("stop"), usage(), DONE.into()];
    Step::Stream { pieces, breaks: false }
}

#[tokio::test]
async fn an_endpoint_that_wants_to_stream_is_let_from_then_on() {
    for refusal in [
        fails(400, "This model only support stream mode, please enable the stream parameter."),
        Step::Say(400, vec![], r#"{"detail":"Stream must be set to true"}"#.into()),
        fails(422, "non-streaming is not supported"),
    ] {
        let server = Server::start([refusal, whole(), whole()]).await;
        let model = server.chat();
        assert_eq!(ask(&model).await.unwrap(), ("Short".into(), (2, 100, 7)));
        assert_eq!(ask(&model).await.unwrap(), ("Short".into(), (1, 100, 7)));
        let asked = server.asked();
        assert_eq!(asked[0].body.get("stream"), None);
        for asked in &asked[1..] {
            assert_eq!(asked.body["stream"], true);
            assert_eq!(asked.body["stream_options"]["include_usage"], true);
        }
    }
}

#[tokio::test]
async fn one_that_refuses_streams_too_is_an_error() {
    let server = Server::start([fails(400, "stream!"), fails(400, "no stream!")]).await;
    let (error, taken) = ask_in_vain(&server.chat()).await;
    assert_eq!(error, "openai:gpt-5-mini: the endpoint answered with status 400: no stream!");
    assert_eq!(taken, (2, 0, 0));
}

#[tokio::test]
async fn a_refusal_that_is_about_something_else_is_no_wish_to_stream() {
    let server = Server::start([fails(400, "Upstream error: the prompt is too long")]).await;
    ask_in_vain(&server.chat()).await;
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_stream_that_nobody_asked_for_is_read_all_the_same() {
    let server = Server::start([whole()]).await;
    assert_eq!(ask(&server.chat()).await.unwrap(), ("Short".into(), (1, 100, 7)));
}

#[tokio::test]
async fn events_come_in_any_pieces() {
    let text: String = [chat_piece("Grüße"), end("stop"), DONE.to_owned()].concat();
    let text = format!(": a comment\r\n\r\n{}", text.replace('\n', "\r\n"));
    // Each character is a piece of its own.
    let pieces = text.chars().map(String::from).collect();
    let server = Server::start([Step::Stream { pieces, breaks: false }]).await;
    assert_eq!(ask(&server.chat()).await.unwrap().0, "Grüße");
}

#[tokio::test]
async fn a_stream_cut_in_the_middle_is_an_error_and_no_short_summary() {
    for breaks in [false, true] {
        let cut = || Step::Stream { pieces: vec![chat_piece("Sho"), usage()], breaks };
        let server = Server::start([cut(), cut(), cut()]).await;
        let (error, taken) = ask_in_vain(&server.chat()).await;
        assert_eq!(error, "openai:gpt-5-mini: the answer broke off before its end");
        // What the endpoint said it took counts, each time.
        assert_eq!(taken, (3, 300, 21));

        let server = Server::start([cut(), whole()]).await;
        assert_eq!(ask(&server.chat()).await.unwrap(), ("Short".into(), (2, 200, 14)));
    }
}

#[tokio::test]
async fn a_message_stream_is_whole_only_at_its_stop() {
    let start = event(
        &json!({ "type": "message_start", "message": { "usage": { "input_tokens": 100, "output_tokens": 1 } } }),
    );
    let delta = event(
        &json!({ "type": "content_block_delta", "delta": { "type": "text_delta", "text": "Short" } }),
    );
    let ended = event(
        &json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 7 } }),
    );
    let stop = event(&json!({ "type": "message_stop" }));
    let cut = vec![start.clone(), delta.clone(), ended.clone()];
    let server = Server::start([
        Step::Stream { pieces: cut, breaks: false },
        Step::Stream { pieces: vec![start, delta, ended, stop], breaks: false },
    ])
    .await;
    assert_eq!(ask(&server.messages()).await.unwrap(), ("Short".into(), (2, 200, 14)));
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_end_breaks_nothing_off() {
    let mut pieces = vec![chat_piece("Sho"), chat_piece("rt"), end("stop"), usage(), DONE.into()];
    let server = Server::start([Step::Stream { pieces: pieces.clone(), breaks: true }]).await;
    assert_eq!(ask(&server.chat()).await.unwrap(), ("Short".into(), (1, 100, 7)));
    // What comes after the end is not waited for.
    pieces.push("data: no JSON\n\n".into());
    let server = Server::start([Step::Stream { pieces, breaks: false }]).await;
    assert_eq!(ask(&server.chat()).await.unwrap(), ("Short".into(), (1, 100, 7)));
}

#[tokio::test]
async fn an_answer_at_the_models_limit_is_no_summary() {
    let pieces = vec![chat_piece("Sho"), end("length"), usage(), DONE.into()];
    let server = Server::start([Step::Stream { pieces, breaks: false }]).await;
    let (error, taken) = ask_in_vain(&server.chat()).await;
    assert_eq!(
        error,
        "openai:gpt-5-mini: the model reached its limit of tokens before the end of its answer"
    );
    assert_eq!((taken, server.asked().len()), ((1, 100, 7), 1));
}

#[tokio::test]
async fn a_whole_answer_that_breaks_off_is_an_error() {
    let headers = vec![("content-length", "5000".to_owned())];
    let cut = Step::Say(200, headers, r#"{"choices":[{"message":{"content":"Sho"#.into());
    let server = Server::start([cut]).await;
    let mut once = limits();
    once.retries = 0;
    let model = server.builder("openai:gpt-5-mini").limits(once).build();
    let error = overspill::summary::TextModel::complete(&model, "Sum up").await.unwrap_err();
    let source = error.source.as_deref().and_then(|source| source.downcast_ref::<ModelError>());
    assert!(matches!(source, Some(ModelError::Cut { .. })), "{error:?}");
}
