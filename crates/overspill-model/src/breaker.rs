//! Keeps a dead endpoint from being asked by every call.
//!
//! Closed, every call passes. A failure opens it for a time, in which none passes. Then one call is
//! let through: its answer closes it, its failure opens it again, and if it is given up, the next call
//! takes its place.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Whether an endpoint is asked.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Closed,
    /// Open until then; after that, half open.
    Open {
        until: Instant,
        why: String,
    },
    /// One call is on its way to try.
    Trying {
        why: String,
    },
}

/// Leave to ask.
#[derive(Debug)]
pub(crate) struct Leave<'b> {
    breaker: &'b Breaker,
    /// How the endpoint failed before, where this call is to try it.
    tries_after: Option<(Instant, String)>,
}

/// Why there is no leave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resting {
    pub(crate) left: Duration,
    pub(crate) why: String,
}

impl Breaker {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State::Closed) }
    }

    /// Asks for leave.
    pub(crate) fn ask(&self, now: Instant) -> Result<Leave<'_>, Resting> {
        let mut state = self.lock();
        let tries_after = match &*state {
            State::Closed => None,
            State::Open { until, why } if *until > now => {
                return Err(Resting { left: *until - now, why: why.clone() });
            }
            State::Trying { why } => {
                return Err(Resting { left: Duration::ZERO, why: why.clone() });
            }
            State::Open { why, .. } => Some((now, why.clone())),
        };
        if let Some((_, why)) = &tries_after {
            *state = State::Trying { why: why.clone() };
        }
        drop(state);
        Ok(Leave { breaker: self, tries_after })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // It is written in one step, so it is whole whatever happened to who held it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leave<'_> {
    /// The endpoint answered.
    pub(crate) fn answered(mut self) {
        self.tries_after = None;
        *self.breaker.lock() = State::Closed;
    }

    /// The endpoint failed, and rests until then.
    pub(crate) fn failed(mut self, until: Instant, why: String) {
        self.tries_after = None;
        *self.breaker.lock() = State::Open { until, why };
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        // Given up without a result: the next call may try.
        if let Some((until, why)) = self.tries_after.take() {
            *self.breaker.lock() = State::Open { until, why };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_secs(60);

    fn resting(breaker: &Breaker, now: Instant) -> Option<u64> {
        breaker.ask(now).err().map(|resting| resting.left.as_secs())
    }

    #[test]
    fn it_opens_for_a_time_and_then_lets_one_try() {
        let (breaker, start) = (Breaker::new(), Instant::now());
        let after = |secs| start + Duration::from_secs(secs);
        breaker.ask(start).unwrap().failed(start + REST, "dead".into());
        assert_eq!(
            breaker.ask(after(1)).unwrap_err(),
            Resting { left: Duration::from_secs(59), why: "dead".into() }
        );

        let first = breaker.ask(after(60)).unwrap();
        assert_eq!(resting(&breaker, after(61)), Some(0));
        first.failed(after(122), "still".into());
        assert_eq!(resting(&breaker, after(63)), Some(59));

        breaker.ask(after(122)).unwrap().answered();
        let (one, other) = (breaker.ask(after(122)).unwrap(), breaker.ask(after(122)).unwrap());
        one.answered();
        other.answered();
    }

    #[test]
    fn a_try_that_is_given_up_leaves_its_place_to_the_next() {
        let (breaker, start) = (Breaker::new(), Instant::now());
        breaker.ask(start).unwrap().failed(start + REST, "dead".into());
        drop(breaker.ask(start + REST).unwrap());
        let next = breaker.ask(start + REST).unwrap();
        assert_eq!(resting(&breaker, start + REST), Some(0));
        drop(next);
        // A call that is given up while all is well changes nothing.
        breaker.ask(start + REST).unwrap().answered();
        drop(breaker.ask(start + REST).unwrap());
        assert_eq!(resting(&breaker, start + REST), None);
    }
}
