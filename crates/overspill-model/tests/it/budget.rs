//! A summary takes from the run's requests, and never the last.

use std::sync::Arc;

use overspill::capability::{Capability, Stack};
use overspill::fit::Fitter;
use overspill::strategy::{Keep, SlidingWindow};
use overspill::summary::RequestBudget;
use overspill::{ToolCall, Usage};
use overspill_store::MemoryStore;

use crate::library::{limits, log};
use crate::server::{Server, ask, ask_in_vain, chat_says, fails};

#[tokio::test]
async fn every_attempt_takes_one_and_the_last_is_kept() {
    let server = Server::start([fails(500, "one"), fails(500, "two")]).await;
    let budget = RequestBudget::new(3);
    let model = server.chat().counting(budget.clone());
    let (error, taken) = ask_in_vain(&model).await;
    // A third attempt would have been the last request.
    assert_eq!(error, "openai:gpt-5-mini: the endpoint answered with status 500: two");
    assert_eq!((taken, budget.left()), ((2, 0, 0), 1));
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn one_runs_limit_is_not_anothers_and_says_nothing_of_the_endpoint() {
    let server = Server::start([chat_says("Short")]).await;
    let model = server.chat();
    let (error, taken) = ask_in_vain(&model.counting(RequestBudget::new(1))).await;
    assert_eq!(
        error,
        "openai:gpt-5-mini: the run's limit of 1 requests leaves 1, which is kept for the agent"
    );
    assert_eq!(taken, (0, 0, 0));
    assert_eq!(ask(&model.counting(RequestBudget::new(2))).await.unwrap().0, "Short");
}

#[tokio::test]
async fn a_stack_counts_the_agents_requests_and_the_summaries_together() {
    let server = Server::start([chat_says("400 tests, all ok."), chat_says("All ok.")]).await;
    let budget = RequestBudget::new(4);
    let limits = limits(server.chat().counting(budget.clone()));
    let strategy = Arc::new(SlidingWindow::new(Keep::Messages(20)));
    let fitter = Fitter::new(strategy, Arc::new(MemoryStore::new()), 100_000);
    let stack =
        Stack::new(fitter, [Arc::new(limits) as Arc<dyn Capability>]).requests(budget.clone());
    let one = Usage { requests: 1, input_tokens: 10, output_tokens: 1 };
    let mut actions = Vec::new();
    for at in 0..3 {
        stack.after_response(one);
        let call = ToolCall::new("run-1", format!("call-{at}"), "bash");
        let admitted = stack.on_return(&call, format!("{at}\n{}", log())).await;
        actions.push(admitted.reductions[0].action);
    }
    // Three of the agent's own leave one summary, when one request is kept.
    assert_eq!(actions, ["summarize", "spill", "spill"]);
    assert_eq!(stack.spent(), Usage { requests: 4, input_tokens: 130, output_tokens: 10 });
    assert_eq!((budget.left(), server.asked().len()), (0, 1));
}
