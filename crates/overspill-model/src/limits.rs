//! How long a model is waited for, and how often it is asked again.

use std::time::{Duration, SystemTime};

use backon::{BackoffBuilder, ExponentialBuilder};
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

/// How long a model is waited for, and how often it is asked again.
///
/// ```
/// use std::time::Duration;
/// use overspill_model::Limits;
///
/// let mut patient = Limits::default();
/// patient.timeout = Duration::from_secs(600);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How long one summary may take, retries and the waits before them included; the wait for one
    /// of the `at_once` is not. It is the most that a dead model costs.
    pub timeout: Duration,
    /// How many times a request is made again after it failed in a way that may pass: a status of
    /// 408, 409, 425, 429 or from 500 on, a connection that fails, an answer that breaks off.
    pub retries: usize,
    /// The wait before the first retry; each next one is twice as long, and as much as doubled by
    /// chance, so that not everybody comes back at once.
    pub first_wait: Duration,
    /// The longest wait before a retry. An endpoint that asks for a longer one, by `Retry-After`, is
    /// not asked again.
    pub longest_wait: Duration,
    /// How many summaries are written at once; others wait for their turn.
    pub at_once: usize,
    /// How long the endpoint is left alone after a failure that any request would meet. Then one
    /// request tries it: if it is answered all go on, else it rests again.
    pub rest: Duration,
}

impl Default for Limits {
    /// Two minutes, which a long summary by a slow model takes. Two retries from half a second on, as
    /// the providers' own clients have it; no wait over half a minute, after which an excerpt serves
    /// better. Four at once: as many tools as agents tend to call in one step. A rest of a minute,
    /// since rate limits are counted by the minute.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(120),
            retries: 2,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
            at_once: 4,
            rest: Duration::from_secs(60),
        }
    }
}

impl Limits {
    /// The waits before the retries.
    pub(crate) fn waits(&self) -> impl Iterator<Item = Duration> + use<> {
        ExponentialBuilder::new()
            .with_min_delay(self.first_wait)
            .with_max_delay(self.longest_wait)
            .with_max_times(self.retries)
            .with_jitter()
            .build()
    }
}

/// OpenAI's finer way to say it, which other hosts took over.
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// How long an endpoint asks to wait: a number of seconds, or a date, taken by the endpoint's own
/// clock where it tells the time.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &HeaderName| headers.get(name)?.to_str().ok();
    if let Some(millis) = text(&RETRY_AFTER_MS).and_then(|text| text.trim().parse().ok()) {
        return seconds(millis).map(|millis| millis / 1_000);
    }
    let after = text(&RETRY_AFTER)?.trim();
    if let Ok(number) = after.parse() {
        return seconds(number);
    }
    let date = httpdate::parse_http_date(after).ok()?;
    let now = text(&DATE).and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now);
    Some(date.duration_since(now).unwrap_or_default())
}

/// So many seconds; none where the number makes no sense.
fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn asked(headers: &[(&'static str, &'static str)]) -> Option<Duration> {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        // Sun, 06 Nov 1994 08:49:37 GMT.
        retry_after(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777))
    }

    #[test]
    fn seconds_and_dates_are_understood() {
        let after = |text| asked(&[("retry-after", text)]);
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("1.5"), Some(Duration::from_millis(1_500)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:47 GMT"), Some(Duration::from_secs(10)));
        // What is past is now.
        assert_eq!(after("Sun, 06 Nov 1994 08:49:07 GMT"), Some(Duration::ZERO));
        assert_eq!(
            asked(&[("retry-after", "9"), ("retry-after-ms", "250")]),
            Some(Duration::from_millis(250))
        );
        for nonsense in ["soon", "-1", "NaN", "inf", "1e300", ""] {
            assert_eq!(after(nonsense), None, "{nonsense}");
        }
        assert_eq!(asked(&[]), None);
    }

    #[test]
    fn a_date_counts_by_the_endpoints_clock() {
        let headers = [
            ("retry-after", "Tue, 01 Dec 2026 00:00:05 GMT"),
            ("date", "Tue, 01 Dec 2026 00:00:00 GMT"),
        ];
        assert_eq!(asked(&headers), Some(Duration::from_secs(5)));
    }

    #[test]
    fn waits_grow_and_end() {
        let limits =
            Limits { retries: 4, longest_wait: Duration::from_secs(2), ..Limits::default() };
        let waits: Vec<_> = limits.waits().collect();
        assert_eq!(waits.len(), 4);
        for (wait, at_least) in waits.iter().zip([500, 1_000, 2_000, 2_000]) {
            let at_least = Duration::from_millis(at_least);
            assert!(*wait >= at_least && *wait <= 2 * at_least, "{waits:?}");
        }
        assert_eq!(Limits { retries: 0, ..limits }.waits().count(), 0);
    }
}
