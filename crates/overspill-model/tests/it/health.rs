//! A dead model costs one timeout, and not many are asked at once.

use std::time::Duration;

use futures_lite::future;
use overspill_model::HttpModel;

use crate::server::{Server, Step, ask, ask_in_vain, chat_body, chat_says, fails, limits};

const TIMEOUT: Duration = Duration::from_secs(60);

const REST: Duration = Duration::from_secs(90);

/// Lets a time pass, in no time.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

fn patient(server: &Server) -> HttpModel {
    let mut patient = limits();
    patient.timeout = TIMEOUT;
    patient.rest = REST;
    server.builder("openai:gpt-5-mini").limits(patient).build()
}

/// Asks, and lets the time run out once that was the server's so-manieth request.
async fn time_out(model: &HttpModel, server: &Server, arrivals: usize) -> (u64, u64, u64) {
    let clock = async {
        server.arrived(arrivals).await;
        pass(TIMEOUT).await;
    };
    let ((error, taken), ()) = future::zip(ask_in_vain(model), clock).await;
    assert_eq!(error, "openai:gpt-5-mini: there was no answer within 60 s");
    taken
}

#[tokio::test]
async fn a_dead_model_costs_one_timeout_and_not_one_per_return() {
    let server = Server::start([Step::Silence]).await;
    let model = patient(&server);
    assert_eq!(time_out(&model, &server, 1).await, (1, 0, 0));
    for _ in 0..10 {
        let (error, taken) = ask_in_vain(&model.clone()).await;
        assert!(error.contains("is not asked again for another"), "{error}");
        assert!(error.ends_with("because it failed: there was no answer within 60 s"), "{error}");
        assert_eq!(taken, (0, 0, 0));
    }
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn after_its_rest_one_request_tries_it() {
    let server = Server::start([Step::Silence, Step::Silence]).await;
    let model = patient(&server);
    time_out(&model, &server, 1).await;
    pass(REST).await;
    time_out(&model, &server, 2).await;
    // It rests again.
    ask_in_vain(&model).await;
    assert_eq!(server.asked().len(), 2);
    pass(REST).await;
    server.then(chat_says("Short"));
    server.then(chat_says("Short again"));
    assert_eq!(ask(&model).await.unwrap().0, "Short");
    assert_eq!(ask(&model).await.unwrap().0, "Short again");
}

#[tokio::test]
async fn a_failing_endpoint_rests_and_a_refused_request_lets_it_go_on() {
    let server = Server::start([fails(400, "too long"), chat_says("Short")]).await;
    let model = server.chat();
    ask_in_vain(&model).await;
    assert_eq!(ask(&model).await.unwrap().0, "Short");

    (0..3).for_each(|_| server.then(fails(500, "oh")));
    ask_in_vain(&model).await;
    let (error, _) = ask_in_vain(&model).await;
    assert!(error.ends_with("because it failed: the endpoint answered with status 500: oh"));
    assert_eq!(server.asked().len(), 5);
}

#[tokio::test]
async fn no_more_are_asked_at_once_than_the_limit_says() {
    let server = Server::start((0..6).map(|_| Step::Gated(chat_body("Short")))).await;
    let mut two = limits();
    two.at_once = 2;
    let model = server.builder("openai:gpt-5-mini").limits(two).build();
    let calls: Vec<_> = (0..6)
        .map(|_| {
            let model = model.clone();
            tokio::spawn(async move { ask(&model).await.unwrap().0 })
        })
        .collect();
    for answered in 0..6 {
        let open = (answered + 2).min(6);
        server.arrived(open).await;
        // Server and calls share this thread: whoever could go on would by now.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        assert_eq!(server.asked().len(), open);
        server.gate.add_permits(1);
    }
    for call in calls {
        assert_eq!(call.await.unwrap(), "Short");
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_frees_its_place() {
    let server = Server::start([Step::Silence, chat_says("Short")]).await;
    let mut one = limits();
    one.at_once = 1;
    let model = server.builder("openai:gpt-5-mini").limits(one).build();
    let arrived = async {
        server.arrived(1).await;
        None
    };
    let given_up = future::or(async { Some(ask(&model).await) }, arrived).await;
    assert!(given_up.is_none());
    assert_eq!(ask(&model).await.unwrap().0, "Short");
}

/// Asks on a runtime of its own, which is left as it is.
fn ask_apart(model: &HttpModel) -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(ask(model)).unwrap();
    runtime
}

#[tokio::test(flavor = "multi_thread")]
async fn runtimes_that_share_a_model_do_not_wait_for_each_other() {
    let server = Server::start([chat_says("Short"), chat_says("Short")]).await;
    let model = server.chat();
    let apart = std::thread::spawn(move || {
        let idle = ask_apart(&model);
        drop(ask_apart(&model));
        drop(idle);
    });
    tokio::task::spawn_blocking(|| apart.join().unwrap()).await.unwrap();
}
