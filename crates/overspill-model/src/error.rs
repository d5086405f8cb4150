//! Why a model gave no answer.

use std::time::Duration;

use overspill::summary::{BaseUrl, SummaryError};
use thiserror::Error;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a model gave no answer. It is the source of the
/// [`SummaryError`](overspill::summary::SummaryError) that the library sees.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// It failed a short while ago, so it was not asked.
    #[error("{}, because it failed: {why}", rests(*.left))]
    Resting {
        /// How long it still rests; nothing while another call tries it.
        left: Duration,
        /// How it failed.
        why: String,
    },
    /// There was no whole answer in time.
    #[error("there was no answer within {} s", secs(*.after))]
    TimedOut {
        /// The time it was given, retries included.
        after: Duration,
    },
    /// Nobody answers there.
    #[error("nobody can be reached at {base_url}")]
    Unreachable {
        /// Where.
        base_url: BaseUrl,
        /// What went wrong.
        source: Source,
    },
    /// The key is not taken.
    #[error(
        "the key in {variable} was refused (status {status}); set it to a key that may use this model"
    )]
    KeyRefused {
        /// The status of the answer.
        status: u16,
        /// The name of the variable that holds the key.
        variable: String,
    },
    /// A key is wanted, and none was given.
    #[error("the endpoint wants a key (status {status}), and none was named")]
    KeyMissing {
        /// The status of the answer.
        status: u16,
    },
    /// The request was refused, or the endpoint failed.
    #[error("the endpoint answered with status {status}: {message}")]
    Status {
        /// The status of the answer.
        status: u16,
        /// What it said, shortened.
        message: String,
    },
    /// The endpoint asks to be left alone for longer than anybody wants to wait.
    #[error(
        "the endpoint asks to wait {} s (status {status}), and no more than {} s are waited",
        secs(*.wait), secs(*.most)
    )]
    Busy {
        /// The status of the answer.
        status: u16,
        /// How long it asks to wait.
        wait: Duration,
        /// The longest wait.
        most: Duration,
    },
    /// The answer broke off.
    #[error("the answer broke off before its end")]
    Cut {
        /// What went wrong, where it was not just the end.
        source: Option<Source>,
    },
    /// The model reached the most tokens that it can write.
    #[error("the model reached its limit of tokens before the end of its answer")]
    TooLong,
    /// The model, or a filter over it, did not want to answer.
    #[error("the model declined to answer")]
    Declined,
    /// The answer is not what this API answers.
    #[error("this is no answer of such an API: {what}; check the model's base URL")]
    Garbled {
        /// What is wrong.
        what: String,
    },
    /// The run's limit leaves no request for this.
    #[error(transparent)]
    OutOfRequests(#[from] SummaryError),
    /// There is no HTTP client, or no thread to run it on.
    #[error("no HTTP client could be started")]
    NoClient {
        /// What went wrong.
        source: Source,
    },
}

/// How long it is not asked.
fn rests(left: Duration) -> String {
    match left.is_zero() {
        true => "it is not asked while another call tries it".to_owned(),
        false => format!("it is not asked again for another {} s", secs(left)),
    }
}

/// Seconds as a person reads them.
fn secs(duration: Duration) -> String {
    match duration.as_millis() {
        millis if millis % 1_000 == 0 => format!("{}", millis / 1_000),
        millis => format!("{:.1}", millis as f64 / 1_000.0),
    }
}

impl ModelError {
    /// Its kind, for traces: nothing that the endpoint said is in it.
    pub(crate) fn kind(&self) -> String {
        let kind = match self {
            Self::Resting { .. } => "resting",
            Self::TimedOut { .. } => "timeout",
            Self::Unreachable { .. } => "unreachable",
            Self::KeyRefused { status, .. }
            | Self::KeyMissing { status }
            | Self::Status { status, .. }
            | Self::Busy { status, .. } => return status.to_string(),
            Self::Cut { .. } => "cut",
            Self::TooLong => "too_long",
            Self::Declined => "declined",
            Self::Garbled { .. } => "garbled",
            Self::OutOfRequests(_) => "out_of_requests",
            Self::NoClient { .. } => "no_client",
        };
        kind.to_owned()
    }

    /// Whether the same may work a moment later.
    ///
    /// A timeout does not count: to wait once more for what is dead is what nobody wants.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Cut { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 409 | 425 | 429 | 500..=599),
            _ => false,
        }
    }

    /// Whether any other request would fail in the same way.
    pub(crate) fn is_of_endpoint(&self) -> bool {
        match self {
            Self::TooLong | Self::Declined | Self::OutOfRequests(_) | Self::Resting { .. } => false,
            Self::Status { status, .. } => !matches!(status, 400 | 413 | 422),
            _ => true,
        }
    }
}
