//! How many requests a run may still make, known to all that make them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Summary, SummaryError, TextModel};
use crate::BoxFuture;

/// A limit on the requests of one run, shared by the agent and the models that write for it.
///
/// The agent counts its own requests with [`spend`](Self::spend) (a
/// [`Stack`](crate::capability::Stack) does it), and a model asks with
/// [`take_beside`](Self::take_beside) before each of its own. The last request is never given to a
/// summary: somebody waits for it, and a run that sums up and then cannot ask has gained nothing.
///
/// ```
/// use overspill::summary::RequestBudget;
///
/// let budget = RequestBudget::new(3);
/// budget.spend(1); // the agent's first request
/// assert!(budget.take_beside().is_ok()); // a summary
/// let error = budget.take_beside().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "the run's limit of 3 requests leaves 1, which is kept for the agent"
/// );
/// ```
#[derive(Debug, Clone)]
pub struct RequestBudget {
    limit: u64,
    made: Arc<AtomicU64>,
}

impl RequestBudget {
    /// A run that may make `limit` requests. Clones count together.
    pub fn new(limit: u64) -> Self {
        Self { limit, made: Arc::default() }
    }

    /// Counts requests that were made, whatever the limit says.
    pub fn spend(&self, requests: u64) {
        // The closure always gives a value, so this cannot fail.
        let _ = self.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |made| {
            Some(made.saturating_add(requests))
        });
    }

    /// How many requests are left.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.made.load(Ordering::Relaxed))
    }

    /// Takes one request beside those of the agent.
    ///
    /// # Errors
    ///
    /// [`SummaryError`] where that would leave none for the request that waits.
    pub fn take_beside(&self) -> Result<(), SummaryError> {
        let taken = self.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |made| {
            (self.limit.saturating_sub(made) > 1).then_some(made + 1)
        });
        taken.map(|_| ()).map_err(|made| {
            let limit = self.limit;
            SummaryError::new(match limit.saturating_sub(made) {
                0 => format!("the run's limit of {limit} requests is reached"),
                left => format!(
                    "the run's limit of {limit} requests leaves {left}, which is kept for the agent"
                ),
            })
        })
    }
}

/// A model whose requests count toward a run's limit.
///
/// It is for a host's own [`TextModel`]. It asks before each call and counts what the call made
/// beyond one request afterwards; a model that retries is better told of the budget itself.
#[derive(Clone)]
pub struct Budgeted {
    model: Arc<dyn TextModel>,
    budget: RequestBudget,
}

impl Budgeted {
    /// Asks `model` while `budget` lets it.
    pub fn new(model: Arc<dyn TextModel>, budget: RequestBudget) -> Self {
        Self { model, budget }
    }
}

impl TextModel for Budgeted {
    fn complete<'a>(&'a self, prompt: &'a str) -> BoxFuture<'a, Result<Summary, SummaryError>> {
        Box::pin(async move {
            self.budget.take_beside()?;
            let answer = self.model.complete(prompt).await;
            let usage = answer.as_ref().map_or_else(|error| error.usage, |summary| summary.usage);
            self.budget.spend(usage.requests.saturating_sub(1));
            answer
        })
    }
}

impl fmt::Debug for Budgeted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budgeted").field("budget", &self.budget).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::block_on;

    use super::*;
    use crate::summary::Usage;

    /// A model that makes three requests for each answer.
    struct Thrice;

    impl TextModel for Thrice {
        fn complete<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Summary, SummaryError>> {
            let usage = Usage { requests: 3, input_tokens: 30, output_tokens: 3 };
            Box::pin(std::future::ready(Ok(Summary { text: "short".into(), usage })))
        }
    }

    #[test]
    fn the_last_request_is_the_agents() {
        let budget = RequestBudget::new(2);
        assert!(budget.take_beside().is_ok());
        assert_eq!(budget.left(), 1);
        assert!(budget.take_beside().is_err());
        budget.spend(1);
        assert_eq!(
            budget.take_beside().unwrap_err().to_string(),
            "the run's limit of 2 requests is reached"
        );
        assert!(RequestBudget::new(0).take_beside().is_err());
    }

    #[test]
    fn all_that_a_model_made_is_counted() {
        let budget = RequestBudget::new(5);
        let model = Budgeted::new(Arc::new(Thrice), budget.clone());
        assert!(block_on(model.complete("?")).is_ok());
        assert_eq!(budget.left(), 2);
        assert!(block_on(model.complete("?")).is_ok());
        assert_eq!(budget.left(), 0);
        assert!(block_on(model.complete("?")).is_err());
    }

    #[test]
    fn threads_together_take_no_more_than_there_is() {
        let budget = RequestBudget::new(100);
        let taken: usize = std::thread::scope(|scope| {
            let take = || (0..50).filter(|_| budget.take_beside().is_ok()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((taken, budget.left()), (99, 1));
    }
}
