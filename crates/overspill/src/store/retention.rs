//! How long payloads are kept: which of those in a store go, and why.
//!
//! The decision is a pure function of what a store lists and of a time that it is told; listing,
//! deleting and the clock are the store's.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::amount::{Age, ByteSize};
use super::handle::Handle;
use super::port::BlobStat;

/// The size cap spares what is younger: an agent may still be at work with it. An hour is longer
/// than most runs take between two looks at one result.
const SPARED_BY_SIZE: Duration = Duration::from_secs(3_600);

/// What is kept, and for how long; by default everything, forever.
///
/// The age of a payload starts anew whenever it is stored again. A payload under a lease is kept,
/// whatever its age and the store's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// What is older goes.
    pub max_age: Option<Duration>,
    /// The bytes that all payloads together may have. Beyond it the oldest go first, but none
    /// that was stored within the last hour: rather is the limit exceeded, with a warning.
    pub max_bytes: Option<u64>,
}

/// A payload that rests in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resident {
    /// Its handle.
    pub handle: Handle,
    /// Its length, and when it was stored last.
    pub stat: BlobStat,
    /// Whether a lease keeps it.
    pub leased: bool,
}

/// A payload that is to go, or is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expired {
    /// Its handle.
    pub handle: Handle,
    /// What it was like when that was decided.
    pub stat: BlobStat,
    /// Why.
    pub cause: Cause,
}

/// Why a payload expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It was older than this.
    Age(Duration),
    /// All payloads together were more bytes than this, and it was among the oldest.
    Size(u64),
}

/// When and why a payload expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    /// When it was deleted.
    pub at: SystemTime,
    /// Why.
    pub cause: Cause,
}

/// What is to become of the payloads in a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Judgement {
    /// Those that go, ordered by handle.
    pub expired: Vec<Expired>,
    /// Those that stay, ordered by handle.
    pub kept: Vec<Resident>,
    /// How many bytes those that stay are over the limit, since what is left is too young to go
    /// or under a lease.
    pub excess: u64,
}

impl Retention {
    /// Whether nothing ever goes.
    pub fn is_forever(&self) -> bool {
        self.max_age.is_none() && self.max_bytes.is_none()
    }

    /// Decides which payloads go at the time `now`.
    ///
    /// What was stored later than `now`, by a clock that has jumped, counts as stored now.
    pub fn judge(&self, residents: Vec<Resident>, now: SystemTime) -> Judgement {
        let mut expired = Vec::new();
        let mut expire = |resident: Resident, cause| {
            expired.push(Expired { handle: resident.handle, stat: resident.stat, cause });
        };

        let mut kept = Vec::with_capacity(residents.len());
        for resident in residents {
            match self.max_age {
                Some(max_age) if !resident.leased && resident.age(now) > max_age => {
                    expire(resident, Cause::Age(max_age));
                }
                _ => kept.push(resident),
            }
        }

        let mut excess = 0;
        if let Some(max_bytes) = self.max_bytes {
            let bytes = |residents: &[Resident]| {
                residents.iter().fold(0_u64, |sum, resident| sum.saturating_add(resident.stat.len))
            };
            excess = bytes(&kept).saturating_sub(max_bytes);
            kept.sort_unstable_by(|a, b| (b.age(now), &a.handle).cmp(&(a.age(now), &b.handle)));
            let mut stay = Vec::with_capacity(kept.len());
            for resident in kept {
                if excess > 0 && !resident.leased && resident.age(now) >= SPARED_BY_SIZE {
                    excess = excess.saturating_sub(resident.stat.len);
                    expire(resident, Cause::Size(max_bytes));
                } else {
                    stay.push(resident);
                }
            }
            kept = stay;
        }

        expired.sort_unstable_by(|a, b| a.handle.cmp(&b.handle));
        kept.sort_unstable_by(|a, b| a.handle.cmp(&b.handle));
        Judgement { expired, kept, excess }
    }
}

impl Resident {
    fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.stat.modified).unwrap_or_default()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Age(max_age) => write!(f, "it was older than {}", Age(*max_age)),
            Self::Size(max_bytes) => {
                write!(f, "the store was over its {} and it was the oldest", ByteSize(*max_bytes))
            }
        }
    }
}

/// `on 2026-03-01 at 09:30 UTC: it was older than 30d`
impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute) = (seconds / 3_600 % 24, seconds / 60 % 60);
        let cause = self.cause;
        write!(f, "on {year}-{month:02}-{day:02} at {hour:02}:{minute:02} UTC: {cause}")
    }
}

/// Year, month and day of the n-th day since 1970: `civil_from_days` of Howard Hinnant's
/// "chrono-Compatible Low-Level Date Algorithms", for days that are not negative. Its years start
/// in March, so that a leap day is a year's last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: u64 = 3_600;
    const DAY: u64 = 24 * HOUR;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    /// A payload of `len` bytes, stored `age` seconds ago; in the future where that is negative.
    fn resident(name: &str, len: u64, age: i64) -> Resident {
        let span = Duration::from_secs(age.unsigned_abs());
        let modified = if age < 0 { now() + span } else { now() - span };
        let handle = format!("run/{name}.{}", "a".repeat(26)).parse().unwrap();
        Resident { handle, stat: BlobStat::new(len, modified), leased: false }
    }

    fn leased(name: &str, len: u64, age: i64) -> Resident {
        Resident { leased: true, ..resident(name, len, age) }
    }

    /// `-NAME` for each that goes, `NAME` for each that stays, and the excess.
    fn judge(retention: Retention, residents: Vec<Resident>) -> String {
        let judged = retention.judge(residents, now());
        let name = |handle: &Handle| handle.file().split('.').next().unwrap().to_owned();
        let gone = judged.expired.iter().map(|gone| format!("-{}", name(&gone.handle)));
        let kept = judged.kept.iter().map(|kept| name(&kept.handle));
        let excess = (judged.excess > 0).then(|| format!("over by {}", judged.excess));
        gone.chain(kept).chain(excess).collect::<Vec<_>>().join(" ")
    }

    fn by_age(seconds: u64) -> Retention {
        Retention { max_age: Some(Duration::from_secs(seconds)), max_bytes: None }
    }

    fn by_size(max_bytes: u64) -> Retention {
        Retention { max_age: None, max_bytes: Some(max_bytes) }
    }

    #[test]
    fn by_default_everything_is_kept() {
        let ages = vec![resident("old", u64::MAX, 1_700_000_000), resident("new", u64::MAX, 0)];
        assert_eq!(judge(Retention::default(), ages), "new old");
        assert!(Retention::default().is_forever() && !by_age(0).is_forever());
    }

    #[test]
    fn what_is_older_goes() {
        let ages = vec![
            resident("older", 1, 30 * DAY as i64 + 1),
            resident("just", 1, 30 * DAY as i64),
            resident("young", 1, 0),
            leased("leased", 1, 300 * DAY as i64),
        ];
        assert_eq!(judge(by_age(30 * DAY), ages), "-older just leased young");
    }

    #[test]
    fn the_size_cap_takes_the_oldest_first_and_no_more_than_it_must() {
        let all = vec![
            resident("a", 10, 5 * HOUR as i64),
            resident("b", 10, 9 * HOUR as i64),
            resident("c", 10, 7 * HOUR as i64),
            resident("d", 10, 2 * HOUR as i64),
        ];
        assert_eq!(judge(by_size(40), all.clone()), "a b c d");
        assert_eq!(judge(by_size(39), all.clone()), "-b a c d");
        assert_eq!(judge(by_size(20), all.clone()), "-b -c a d");
        assert_eq!(judge(by_size(0), all), "-a -b -c -d");
    }

    #[test]
    fn the_size_cap_spares_the_last_hour_and_what_is_leased() {
        let all = vec![
            resident("new", 30, HOUR as i64 - 1),
            leased("leased", 10, 9 * HOUR as i64),
            resident("old", 10, HOUR as i64),
        ];
        assert_eq!(judge(by_size(20), all), "-old leased new over by 20");
    }

    #[test]
    fn what_expires_by_age_counts_no_longer_for_the_size() {
        let both = Retention { max_bytes: Some(10), ..by_age(DAY) };
        let all = vec![resident("old", 50, 2 * DAY as i64), resident("new", 10, 2 * HOUR as i64)];
        assert_eq!(judge(both, all), "-old new");
    }

    #[test]
    fn a_time_in_the_future_counts_as_now() {
        let all = vec![resident("future", 10, -900 * DAY as i64), resident("past", 10, DAY as i64)];
        assert_eq!(judge(by_age(0), all.clone()), "-past future");
        assert_eq!(judge(by_size(0), all), "-past future over by 10");
        let before_all_time = Retention::default().judge(vec![resident("x", 1, 0)], UNIX_EPOCH);
        assert_eq!(before_all_time.kept.len(), 1);
    }

    #[test]
    fn an_expiry_says_when_and_why() {
        let show = |seconds, cause| {
            Expiry { at: UNIX_EPOCH + Duration::from_secs(seconds), cause }.to_string()
        };
        assert_eq!(
            show(1_772_357_400, Cause::Age(Duration::from_secs(30 * DAY))),
            "on 2026-03-01 at 09:30 UTC: it was older than 30d"
        );
        assert_eq!(
            show(0, Cause::Size(10_000_000_000)),
            "on 1970-01-01 at 00:00 UTC: the store was over its 10GB and it was the oldest"
        );
        assert!(show(951_782_400, Cause::Size(1)).starts_with("on 2000-02-29 at 00:00 UTC"));
        assert!(show(4_107_542_399, Cause::Size(1)).starts_with("on 2100-02-28 at 23:59 UTC"));
        assert!(show(4_107_542_400, Cause::Size(1)).starts_with("on 2100-03-01 at 00:00 UTC"));
    }

    proptest! {
        #[test]
        fn none_is_lost_and_the_limits_hold(
            rows in prop::collection::vec((0..100_u64, -9_000..90_000_i64, any::<bool>()), 0..40),
            max_age in proptest::option::of(0..90_000_u64),
            max_bytes in proptest::option::of(0..2_000_u64),
        ) {
            let all: Vec<Resident> = rows.iter().enumerate().map(|(n, &(len, age, leased))| {
                Resident { leased, ..resident(&format!("n{n}"), len, age) }
            }).collect();
            let retention = Retention { max_age: max_age.map(Duration::from_secs), max_bytes };
            let judged = retention.judge(all.clone(), now());
            prop_assert_eq!(judged.expired.len() + judged.kept.len(), all.len());
            for gone in &judged.expired {
                let was = all.iter().find(|resident| resident.handle == gone.handle).unwrap();
                prop_assert!(!was.leased);
            }
            if let Some(max_age) = retention.max_age {
                prop_assert!(judged.kept.iter().all(|r| r.leased || r.age(now()) <= max_age));
            }
            if let Some(max_bytes) = max_bytes {
                let bytes: u64 = judged.kept.iter().map(|kept| kept.stat.len).sum();
                prop_assert_eq!(judged.excess, bytes.saturating_sub(max_bytes));
                let free = |r: &Resident| !r.leased && r.age(now()) >= SPARED_BY_SIZE;
                prop_assert!(judged.excess == 0 || !judged.kept.iter().any(free));
            }
            let mut backwards = all;
            backwards.reverse();
            prop_assert_eq!(retention.judge(backwards, now()), judged);
        }
    }
}
