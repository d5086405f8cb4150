//! What is sent, and what answers mean, as the providers document them.

use super::*;

fn read(api: Api, events: &[&str]) -> (Result<String, ModelError>, (u64, u64)) {
    let mut answer = Answer::default();
    let read = events.iter().try_for_each(|event| api.read_event(event, &mut answer));
    let text = read.and_then(|()| answer.take_text());
    (text, (answer.input_tokens, answer.output_tokens))
}

fn whole(api: Api, body: &str) -> Result<String, ModelError> {
    let mut answer = Answer::default();
    api.read_whole(body.as_bytes(), &mut answer)?;
    answer.take_text()
}

#[test]
fn requests_hold_what_each_api_wants_and_no_cap_where_none_is_wanted() {
    let body = |model: &str, streams| {
        let model: ModelName = model.parse().unwrap();
        Api::of(model.provider).body(&model, "Sum up", streams)
    };
    assert_eq!(
        body("openai:gpt-5-mini", false),
        r#"{"model":"gpt-5-mini","messages":[{"role":"user","content":"Sum up"}]}"#
    );
    assert_eq!(
        body("ollama:llama3.2:3b", true),
        r#"{"model":"llama3.2:3b","messages":[{"role":"user","content":"Sum up"}],"stream":true,"stream_options":{"include_usage":true}}"#
    );
    let known = overspill::window::resolve("anthropic:claude-haiku-4-5", &Default::default());
    let most = known.max_output.unwrap();
    assert!(most >= 32_000);
    assert_eq!(
        body("anthropic:claude-haiku-4-5", false),
        format!(
            r#"{{"model":"claude-haiku-4-5","max_tokens":{most},"messages":[{{"role":"user","content":"Sum up"}}]}}"#
        )
    );
    assert!(body("anthropic:nobody-knows-it", true).contains(r#""max_tokens":8192"#));
}

#[test]
fn a_base_url_is_taken_with_and_without_its_version() {
    let url = |api: Api, base: &str| api.url(&base.parse().unwrap());
    assert_eq!(url(Api::Chat, "http://h:1/v1/"), "http://h:1/v1/chat/completions");
    assert_eq!(url(Api::Messages, "https://h"), "https://h/v1/messages");
    assert_eq!(url(Api::Messages, "https://h/anthropic/v1"), "https://h/anthropic/v1/messages");
}

#[test]
fn answers_that_come_at_once() {
    let chat = |end: &str| {
        whole(
            Api::Chat,
            &format!(
                r#"{{"choices":[{{"message":{{"content":"Short"}},"finish_reason":{end}}}]}}"#
            ),
        )
    };
    assert_eq!(chat(r#""stop""#).unwrap(), "Short");
    assert_eq!(chat("null").unwrap(), "Short");
    assert!(matches!(chat(r#""length""#), Err(ModelError::TooLong)));
    assert!(matches!(chat(r#""content_filter""#), Err(ModelError::Declined)));
    let parts = r#"{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}"#;
    assert_eq!(whole(Api::Chat, parts).unwrap(), "ab");
    assert_eq!(whole(Api::Chat, r#"{"choices":[{"message":{"content":null}}]}"#).unwrap(), "");

    let message = r#"{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"Short"}],"stop_reason":"end_turn"}"#;
    assert_eq!(whole(Api::Messages, message).unwrap(), "Short");
    let cut = r#"{"content":[{"type":"text","text":"Sho"}],"stop_reason":"max_tokens"}"#;
    assert!(matches!(whole(Api::Messages, cut), Err(ModelError::TooLong)));

    for body in ["", "<html>", "[]", "{}", "null", "3"] {
        for api in [Api::Chat, Api::Messages] {
            assert!(matches!(whole(api, body), Err(ModelError::Garbled { .. })), "{body:?}");
        }
    }
    let error =
        whole(Api::Chat, r#"{"error":{"message":"upstream died","code":502}}"#).unwrap_err();
    assert_eq!(error.to_string(), "the endpoint answered with status 502: upstream died");
}

#[test]
fn a_chat_stream_is_whole_when_it_says_so() {
    let hello = r#"{"choices":[{"delta":{"content":"Hel"},"finish_reason":null}]}"#;
    let rest = r#"{"choices":[{"delta":{"content":"lo"},"finish_reason":"stop"}],"usage":null}"#;
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}"#;
    let (text, tokens) = read(Api::Chat, &[hello, rest, usage, "[DONE]"]);
    assert_eq!((text.unwrap().as_str(), tokens), ("Hello", (9, 2)));
    assert_eq!(read(Api::Chat, &[hello, rest]).0.unwrap(), "Hello");
    assert_eq!(read(Api::Chat, &[hello, "[DONE]"]).0.unwrap(), "Hel");
    assert!(matches!(read(Api::Chat, &[hello]).0, Err(ModelError::Cut { .. })));
    assert!(matches!(read(Api::Chat, &[]).0, Err(ModelError::Cut { .. })));
    let long = r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#;
    assert!(matches!(read(Api::Chat, &[hello, long, "[DONE]"]).0, Err(ModelError::TooLong)));
    let error = read(Api::Chat, &[hello, r#"{"error":"no memory"}"#]).0.unwrap_err();
    assert_eq!(error.to_string(), "the endpoint answered with status 500: no memory");
}

#[test]
fn a_message_stream_is_whole_at_its_stop() {
    let start = r#"{"type":"message_start","message":{"usage":{"input_tokens":5,"cache_read_input_tokens":20,"output_tokens":1}}}"#;
    let ping = r#"{"type":"ping"}"#;
    let delta =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}"#;
    let thought = r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#;
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":12}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    let (text, tokens) = read(Api::Messages, &[start, ping, thought, delta, end, stop]);
    assert_eq!((text.unwrap().as_str(), tokens), ("Hello", (25, 12)));
    let (cut, tokens) = read(Api::Messages, &[start, delta, end]);
    assert!(matches!(cut, Err(ModelError::Cut { .. })));
    // What was spent is known all the same.
    assert_eq!(tokens, (25, 12));
    let long = r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":3}}"#;
    assert!(matches!(read(Api::Messages, &[start, long, stop]).0, Err(ModelError::TooLong)));
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let error = read(Api::Messages, &[start, error]).0.unwrap_err();
    assert_eq!(error.to_string(), "the endpoint answered with status 529: Overloaded");
    assert!(error.is_passing());
}
