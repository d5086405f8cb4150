//! How long does it take? Several ways take turns, so that what else the machine does weighs on
//! each alike.

use std::time::{Duration, Instant};

use anyhow::Result;

/// A way to do something; it returns how long the part that counts took.
pub(crate) type Way<'a> = &'a mut dyn FnMut() -> Result<Duration>;

/// Does each in turn, so many times, beginning with another one each time; returns the median of
/// each.
#[expect(clippy::needless_pass_by_value, reason = "a list of closures is written where it is used")]
pub(crate) fn medians<const N: usize>(rounds: usize, ways: [Way<'_>; N]) -> Result<[Duration; N]> {
    let mut times = [const { Vec::new() }; N];
    in_turn::<N>(rounds, |k| {
        times[k].push(ways[k]()?);
        Ok(())
    })?;
    Ok(times.map(median))
}

/// Calls `way` with each of the first `N` numbers in turn, so many times, beginning with another
/// one each time.
pub(crate) fn in_turn<const N: usize>(
    rounds: usize,
    mut way: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    for round in 0..rounds {
        for k in 0..N {
            way((k + round) % N)?;
        }
    }
    Ok(())
}

/// How long something that cannot fail takes.
pub(crate) fn time<T>(what: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    std::hint::black_box(what());
    start.elapsed()
}

pub(crate) fn median<T: Ord + Copy>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_each_way_is_its_own() {
        let (mut a, mut b) = ([3, 1, 2].into_iter(), [9, 8, 7].into_iter());
        let mut first = || Ok(Duration::from_secs(a.next().unwrap()));
        let mut second = || Ok(Duration::from_secs(b.next().unwrap()));
        let medians = medians(3, [&mut first, &mut second]).unwrap();
        assert_eq!(medians.map(|time| time.as_secs()), [2, 8]);
    }
}
