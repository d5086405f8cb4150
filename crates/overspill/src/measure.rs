//! How big is a payload? Bytes, characters, lines, and tokens counted or estimated.

use std::fmt;
use std::sync::Arc;

/// Counts the tokens a model would see.
///
/// The answer must depend on the text alone: what the model sees is decided by it, and the same
/// input must give the same bytes.
pub trait Tokenizer: Send + Sync {
    /// How many tokens `text` is.
    fn count(&self, text: &str) -> u64;
}

/// The unit a policy measures in.
#[derive(Clone, Default)]
pub enum Unit {
    /// Unicode code points; an invalid UTF-8 sequence counts as one.
    #[default]
    Characters,
    /// Characters divided by [`CHARS_PER_TOKEN`], rounded down.
    EstimatedTokens,
    /// Tokens as this tokenizer counts them.
    Tokens(Arc<dyn Tokenizer>),
}

/// Characters per estimated token: the field's usual rule of thumb. Measured bytes per token are
/// 4.35 for English, 4.10 for code and 3.09 for one-line JSON under OpenAI's o200k vocabulary.
pub const CHARS_PER_TOKEN: u64 = 4;

impl Unit {
    /// Measures what a model would be shown.
    pub fn of_bytes(&self, shown: &[u8]) -> u64 {
        match self {
            Self::Characters => count_chars(shown),
            Self::EstimatedTokens => estimate_tokens(count_chars(shown)),
            Self::Tokens(tokenizer) => tokenizer.count(&String::from_utf8_lossy(shown)),
        }
    }

    /// Measures something that is no text, of so many characters once encoded; tokens can only
    /// be estimated.
    pub(crate) fn of_opaque(&self, chars: u64) -> u64 {
        match self {
            Self::Characters => chars,
            Self::EstimatedTokens | Self::Tokens(_) => estimate_tokens(chars),
        }
    }

    /// The unit's name in the plural, as markers and tables write it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Characters => "characters",
            Self::EstimatedTokens => "estimated tokens",
            Self::Tokens(_) => "tokens",
        }
    }
}

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Estimates tokens from characters, rounding down: `chars / 4`.
pub fn estimate_tokens(chars: u64) -> u64 {
    chars / CHARS_PER_TOKEN
}

/// Counts characters, taking each invalid UTF-8 sequence for one.
///
/// ```
/// assert_eq!(overspill::measure::count_chars("naïve".as_bytes()), 5);
/// assert_eq!(overspill::measure::count_chars(b"a\xff\xfeb"), 4);
/// ```
pub fn count_chars(bytes: &[u8]) -> u64 {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.chars().count() as u64,
        Err(_) => bytes
            .utf8_chunks()
            .map(|chunk| {
                chunk.valid().chars().count() as u64 + u64::from(!chunk.invalid().is_empty())
            })
            .sum(),
    }
}

/// A size in every unit there is, as the policy measured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Bytes, as stored.
    pub bytes: u64,
    /// Characters, as shown.
    pub chars: u64,
    /// What the policy measured: characters, estimated tokens or counted tokens.
    pub measured: u64,
}

/// `1 line`, `2 lines`, `12,345 lines`.
pub(crate) fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// Digits in groups of three: people and models misread long runs of digits.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        let shown: Vec<String> = [0, 999, 1_000, 12_345, 1_234_567].map(grouped).into();
        assert_eq!(shown, ["0", "999", "1,000", "12,345", "1,234,567"]);
    }
}
