//! Summaries by the model of the run.

use std::sync::Arc;

use overspill::strategy::{Fallback, Keep, Limit, SlidingWindow, Summarize, Trigger, Triggered};
use overspill::summary::TextModel;
use overspill_rig::RigModel;
use serde_json::{Value, json};

use crate::server::{Reply, Server, calls};
use crate::support::{Rig, Setup, messages, tokens};

const BUDGET: u64 = 8_000;

fn summarizing() -> Triggered {
    Triggered {
        when: Trigger::tokens(Limit::Fraction(0.6)),
        strategy: Arc::new(Fallback::new(
            Arc::new(Summarize { summary_tokens: 300, ..Summarize::new(Keep::Messages(4)) }),
            [Arc::new(SlidingWindow { keep: Keep::Messages(4), ..SlidingWindow::default() }) as _],
        )),
    }
}

/// Whether a request is for a summary: nothing but a prompt.
fn is_summary(request: &Value) -> bool {
    request["tools"].is_null()
}

/// Fifteen calls, with `answer` to what is asked of the model besides.
async fn run(answer: fn() -> Reply) -> (Rig, Server) {
    let mut asked = 0;
    let server = Server::start(move |request| {
        if is_summary(request) {
            return answer();
        }
        asked += 1;
        match asked {
            16 => Reply::Says("Done.".to_owned()),
            n => calls(format!("call_{n}"), "log", json!({ "n": n })),
        }
    })
    .await;
    let mut setup = Setup::new(summarizing(), BUDGET);
    setup.summaries = Some(Arc::new(RigModel::new(server.model())));
    let rig = setup.agent(server.model());
    let response = rig.agent.prompt("Go.").await.unwrap();
    assert_eq!(response.output(), "Done.");
    assert_eq!(response.requests(), 16);
    (rig, server)
}

fn sent(server: &Server) -> (Vec<Value>, Vec<Value>) {
    server.requests().into_iter().partition(is_summary)
}

#[tokio::test]
async fn a_summary_stands_for_what_left_and_counts() {
    let (rig, server) = run(|| Reply::Says("Runs 1 and 2 passed.".to_owned())).await;
    let (summaries, requests) = sent(&server);
    assert!(!summaries.is_empty());
    assert!(requests.iter().all(|request| tokens(request) <= BUDGET));
    let last = messages(requests.last().unwrap()).join("\n");
    assert!(last.contains("<overspill-summary>") && last.contains("Runs 1 and 2 passed."));
    assert_eq!(*rig.warnings.lock().unwrap(), [""; 0]);
    assert_eq!(rig.overspill.spent().requests, (summaries.len() + requests.len()) as u64);
}

#[tokio::test]
async fn a_model_that_fails_leaves_it_to_the_next_strategy() {
    let answers: [fn() -> Reply; 4] = [
        || Reply::Fails(429, "Rate limit reached"),
        || Reply::Breaks,
        || Reply::Says("  ".to_owned()),
        || Reply::Says("word ".repeat(50_000)),
    ];
    for answer in answers {
        let (rig, server) = run(answer).await;
        let (summaries, requests) = sent(&server);
        assert!(requests.iter().all(|request| tokens(request) <= BUDGET));
        let warnings = rig.warnings.lock().unwrap().clone();
        let says = "what stands for the history could not be written";
        assert!(
            !warnings.is_empty() && warnings.iter().all(|it| it.ends_with(says)),
            "{warnings:?}"
        );
        let last = messages(requests.last().unwrap()).join("\n");
        assert!(last.contains("<overspill-receipt>") && !last.contains("<overspill-summary>"));
        // What failed was paid for all the same.
        assert_eq!(rig.overspill.spent().requests, (summaries.len() + requests.len()) as u64);
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_off_is_no_summary() {
    use rig_core::completion::{FinishReason, Usage};
    use rig_core::test_utils::{MockCompletionModel, MockTurn};

    let usage = Usage::new().input_tokens(100).output_tokens(7);
    let turn =
        MockTurn::text("All tests").with_finish_reason(FinishReason::Length).with_usage(usage);
    let model = RigModel::new(MockCompletionModel::from_turns([turn]))
        .shape(|request| request.max_tokens(7));
    let error = model.complete("Sum up.").await.unwrap_err();
    assert_eq!(error.to_string(), "the model's answer was cut off");
    assert_eq!((error.usage.requests, error.usage.input_tokens), (1, 100));
}
