//! Ages and sizes as people write them: `30d`, `10GB`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

/// Units of time and how many seconds each has.
const AGE_UNITS: &[(&str, u64)] =
    &[("w", 7 * 86_400), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// Units of size and how many bytes each has, the largest first.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

/// A span of time in whole seconds, written with the largest unit that divides it.
///
/// ```
/// use overspill::store::Age;
///
/// let age: Age = "90m".parse()?;
/// assert_eq!(age.0.as_secs(), 5_400);
/// assert_eq!("48h".parse::<Age>()?.to_string(), "2d");
/// # Ok::<(), overspill::store::AgeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age(pub Duration);

/// A number of bytes, written with the largest unit that divides it.
///
/// ```
/// use overspill::store::ByteSize;
///
/// assert_eq!("10 GB".parse::<ByteSize>()?.0, 10_000_000_000);
/// assert_eq!("512kib".parse::<ByteSize>()?.to_string(), "512KiB");
/// # Ok::<(), overspill::store::ByteSizeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// Why a text is not an age.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no age; {hint}", hint = Age::HINT)]
pub struct AgeError(String);

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no size; {hint}", hint = ByteSize::HINT)]
pub struct ByteSizeError(String);

impl Age {
    /// How to write one.
    pub const HINT: &str = "write a whole number and a unit, s, m, h, d or w, such as \"30d\"";
}

impl ByteSize {
    /// How to write one.
    pub const HINT: &str =
        "write a whole number and a unit, B, KB, MB, GB or TB (or KiB, MiB, …), such as \"10GB\"";
}

impl FromStr for Age {
    type Err = AgeError;

    fn from_str(text: &str) -> Result<Self, AgeError> {
        let seconds = parse(text, AGE_UNITS).ok_or_else(|| AgeError(text.to_owned()))?;
        Ok(Self(Duration::from_secs(seconds)))
    }
}

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, ByteSizeError> {
        parse(text, SIZE_UNITS).map(Self).ok_or_else(|| ByteSizeError(text.to_owned()))
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.as_secs().saturating_add(u64::from(self.0.subsec_nanos() > 0));
        f.write_str(&show(whole, AGE_UNITS))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(self.0, SIZE_UNITS))
    }
}

/// A whole number and a unit; white space between them and the unit's case mean nothing.
fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '_')?);
    if digits.starts_with('_') {
        return None;
    }
    let (_, factor) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()))?;
    digits.replace('_', "").parse::<u64>().ok()?.checked_mul(*factor)
}

fn show(amount: u64, units: &[(&str, u64)]) -> String {
    let unit = units.iter().find(|(_, factor)| amount > 0 && amount.is_multiple_of(*factor));
    let (name, factor) = unit.or(units.last()).copied().unwrap_or(("", 1));
    format!("{}{name}", amount / factor)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_a_number_and_a_unit() {
        for (text, seconds) in
            [("0s", 0), ("1m", 60), (" 36 h ", 129_600), ("30D", 2_592_000), ("1_0w", 6_048_000)]
        {
            assert_eq!(text.parse(), Ok(Age(Duration::from_secs(seconds))), "{text}");
        }
        for (text, bytes) in [("7B", 7), ("1kb", 1_000), ("3 MiB", 3 << 20), ("2TB", 2 * TB)] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for bad in ["", "d", "30", "-1d", "1.5d", "30days", "_1d", "_", "1 2d", "9999999999999999w"]
        {
            let error = bad.parse::<Age>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{bad:?} is no age; write a whole")), "{error}");
        }
        for bad in ["10", "GB", "1PB", "10 G B", "99999999999TB", "1d"] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
    }

    const TB: u64 = 1_000_000_000_000;

    proptest! {
        #[test]
        fn what_is_shown_reads_back(number in any::<u64>(), unit in 0..SIZE_UNITS.len()) {
            let bytes = ByteSize(number.saturating_mul(SIZE_UNITS[unit].1));
            prop_assert_eq!(bytes.to_string().parse(), Ok(bytes));
            let age = Age(Duration::from_secs(number));
            prop_assert_eq!(age.to_string().parse(), Ok(age));
        }

        #[test]
        fn any_text_is_an_amount_or_an_error(text in "[0-9_]{0,30} ?\\PC{0,3}") {
            let _ = (text.parse::<Age>(), text.parse::<ByteSize>());
        }
    }
}
