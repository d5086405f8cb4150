//! A key is sent, and never seen.

use std::error::Error;

use overspill::summary::TextModel;
use overspill_model::{HttpModel, ModelError};

use crate::server::{KEY, Server, Step, VARIABLE, ask_in_vain, chat_says, fails, limits};

/// Everything that can be printed of an error and its causes.
fn printed(error: &(dyn Error + 'static)) -> String {
    let own = format!("{error} {error:?} {error:#?}\n");
    error.source().map_or(own.clone(), |source| own + &printed(source))
}

#[tokio::test]
async fn a_refused_key_is_not_tried_again_and_is_named_by_its_variable() {
    for status in [401, 403] {
        let server = Server::start([fails(status, &format!("Incorrect API key: {KEY}"))]).await;
        let model = server.chat();
        let error = model.complete("Sum up").await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "openai:gpt-5-mini: the key in {VARIABLE} was refused (status {status}); set it to a key \
                 that may use this model"
            )
        );
        let source = error.source.as_deref().and_then(|source| source.downcast_ref());
        assert!(matches!(source, Some(ModelError::KeyRefused { .. })));
        let printed = printed(&error) + &format!("{model:?} {model:#?}");
        assert!(!printed.contains(KEY), "{printed}");
        // A key that was refused is refused again: nobody asks for a while.
        ask_in_vain(&model).await;
        assert_eq!(server.asked().len(), 1);
        assert_eq!(server.asked()[0].headers["authorization"], format!("Bearer {KEY}"));
    }
}

#[tokio::test]
async fn an_endpoint_that_repeats_the_key_is_not_repeated() {
    let said = format!("unknown model for {KEY}\n\u{1b}[31mcheck");
    let server = Server::start([fails(404, &said)]).await;
    let error = server.chat().complete("Sum up").await.unwrap_err();
    assert!(!printed(&error).contains(KEY), "{}", printed(&error));
    assert!(
        error.to_string().ends_with("status 404: unknown model for [redacted] [31mcheck"),
        "{error}"
    );
}

#[tokio::test]
async fn an_error_in_the_place_of_an_answer_is_not_repeated_either() {
    let body = |code: u16, said: String| {
        serde_json::json!({ "error": { "message": said, "code": code } }).to_string()
    };
    let said = format!("no quota for {KEY}\n\u{1b}[31m{}", "x".repeat(10_000));
    let stream =
        |body: String| Step::Stream { pieces: vec![format!("data: {body}\n\n")], breaks: false };
    for step in [Step::Say(200, vec![], body(404, said.clone())), stream(body(404, said))] {
        let server = Server::start([step]).await;
        let error = server.chat().complete("Sum up").await.unwrap_err();
        assert!(!printed(&error).contains(KEY), "{}", printed(&error));
        let shown = error.to_string();
        assert!(shown.contains("status 404: no quota for [redacted] [31mxxx"), "{shown}");
        assert!(shown.ends_with("x…"), "{shown}");
    }
    let server = Server::start([Step::Say(200, vec![], body(401, KEY.to_owned()))]).await;
    let (error, _) = ask_in_vain(&server.chat()).await;
    assert!(error.contains("the key in TEST_API_KEY was refused (status 401)"), "{error}");
}

#[tokio::test]
async fn without_a_key_none_is_sent_and_one_that_is_wanted_is_asked_for() {
    let server = Server::start([chat_says("Short"), fails(401, "who are you?")]).await;
    let model = HttpModel::builder("ollama:llama3.2".parse().unwrap());
    let model = model.base_url(server.url().parse().unwrap()).limits(limits()).build();
    assert_eq!(model.complete("Sum up").await.unwrap().text, "Short");
    assert!(!server.asked()[0].headers.contains_key("authorization"));
    let (error, _) = ask_in_vain(&model).await;
    assert_eq!(error, "ollama:llama3.2: the endpoint wants a key (status 401), and none was named");
}
