//! Counts tokens with the vocabularies that OpenAI publishes (feature `tiktoken`).
//!
//! Counting is exact for models whose vocabulary it is, at 50 to 150 MB a second. A vocabulary is
//! unpacked when it is first used, which takes 0.1 to 0.2 s and 13 to 25 MB; [`load`] it at start-up
//! where the first request must not wait.
//!
//! [`load`]: Vocabulary::load
//!
//! The makers of Claude and Gemini publish no vocabulary: [`Vocabulary::of_model`] has none for
//! them, since one of another family would only look exact.

use std::sync::Arc;

use crate::measure::{Tokenizer, Unit, count_chars, estimate_tokens};
use crate::window::name::{gpt, is_of, plain};

/// A vocabulary that OpenAI publishes.
///
/// What looks like a special token (`<|endoftext|>`) is counted as the text it is.
///
/// ```
/// use overspill::Tokenizer;
/// use overspill::tokenizer::Vocabulary;
///
/// let vocabulary = Vocabulary::of_model("openai:gpt-4o-2024-08-06").ok_or("known")?;
/// assert_eq!(vocabulary, Vocabulary::O200k);
/// assert_eq!(vocabulary.count("tiktoken is great!"), 6);
/// assert_eq!(Vocabulary::of_model("claude-opus-5"), None);
/// # Ok::<(), &str>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Vocabulary {
    /// `o200k_base`: GPT-4o and every later model whose vocabulary is known.
    O200k,
    /// `cl100k_base`: GPT-4 and GPT-3.5.
    Cl100k,
}

impl Vocabulary {
    /// The vocabulary of a model, told by its name, which is read as [`resolve`] reads it. `None`
    /// where it is not known, or not OpenAI's.
    ///
    /// [`resolve`]: crate::window::resolve
    pub fn of_model(model: &str) -> Option<Self> {
        let name = plain(model);
        // Open weights of OpenAI's have its vocabulary too.
        let others = ["o1", "o3", "o4-mini", "codex-mini", "computer-use", "gpt-oss"];
        if others.iter().any(|family| is_of(&name, family)) {
            return Some(Self::O200k);
        }
        match gpt(&name)? {
            (_, (3 | 35, _)) => Some(Self::Cl100k),
            (rest, (4, 0)) if !rest.starts_with("4o") => Some(Self::Cl100k),
            (_, (4.., _)) => Some(Self::O200k),
            _ => None,
        }
    }

    /// Unpacks the vocabulary, if that has not been done.
    pub fn load(self) {
        self.count("");
    }

    /// The unit that counts with it.
    pub fn unit(self) -> Unit {
        Unit::Tokens(Arc::new(self))
    }

    fn name(self) -> &'static str {
        match self {
            Self::O200k => "o200k_base",
            Self::Cl100k => "cl100k_base",
        }
    }
}

impl Tokenizer for Vocabulary {
    fn count(&self, text: &str) -> u64 {
        match tiktoken::get_encoding(self.name()) {
            Some(encoding) => encoding.count(text) as u64,
            // Both vocabularies are part of the feature.
            None => estimate_tokens(count_chars(text.as_bytes())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_the_vocabulary_of_its_family() {
        for (model, vocabulary) in [
            ("gpt-4o", Some(Vocabulary::O200k)),
            ("openai/gpt-4.1-mini", Some(Vocabulary::O200k)),
            ("gpt-5.2-2025-12-11", Some(Vocabulary::O200k)),
            ("azure:gpt-6-astra", Some(Vocabulary::O200k)),
            ("o3", Some(Vocabulary::O200k)),
            ("o4-mini-2025-04-16", Some(Vocabulary::O200k)),
            ("groq/openai/gpt-oss-120b", Some(Vocabulary::O200k)),
            ("chatgpt-4o-latest", Some(Vocabulary::O200k)),
            ("ft:gpt-4o-mini-2024-07-18:org::id", Some(Vocabulary::O200k)),
            ("gpt-4", Some(Vocabulary::Cl100k)),
            ("gpt-4-turbo-2024-04-09", Some(Vocabulary::Cl100k)),
            ("gpt-3.5-turbo", Some(Vocabulary::Cl100k)),
            ("gpt-35-turbo", Some(Vocabulary::Cl100k)),
            ("claude-opus-5", None),
            ("gemini-3.8-flash", None),
            ("qwen3-32b", None),
            ("gpt-j-6b", None),
            ("o300-large", None),
            ("", None),
        ] {
            assert_eq!(Vocabulary::of_model(model), vocabulary, "{model}");
        }
    }

    /// Counts of OpenAI's own tokenizer.
    #[test]
    fn counts_are_those_of_the_vocabulary() {
        for (text, o200k, cl100k) in [
            ("", 0, 0),
            ("tiktoken is great!", 6, 6),
            ("antidisestablishmentarianism", 6, 6),
            ("2 + 2 = 4", 7, 7),
            ("お誕生日おめでとう", 8, 9),
            ("<|endoftext|>", 7, 7),
        ] {
            assert_eq!(Vocabulary::O200k.count(text), o200k, "o200k: {text}");
            assert_eq!(Vocabulary::Cl100k.count(text), cl100k, "cl100k: {text}");
        }
    }
}
