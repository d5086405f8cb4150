//! How many tokens is a history?
//!
//! Each part is estimated, or counted by a tokenizer. Where the provider has reported how many
//! tokens a request and its response were, that figure stands for everything up to that response,
//! and only what came after it is estimated.

use std::fmt;
use std::sync::Arc;

use crate::entry::{Entry, EntryId, Image, ImageSource, Kind, MessageId};
use crate::history::{History, Preamble};
use crate::image::{self, ImageRule, Provider};
use crate::measure::{CHARS_PER_TOKEN, Tokenizer, count_chars};

/// Counts tokens; by default it estimates four characters to be one.
#[derive(Clone)]
pub struct Counter {
    tokenizer: Option<Arc<dyn Tokenizer>>,
    images: ImageRule,
}

impl Default for Counter {
    /// Estimates, and counts pictures as OpenAI's newest models do.
    fn default() -> Self {
        Self { tokenizer: None, images: ImageRule::of("", Provider::default()) }
    }
}

/// Parts of a token, as many to one as there are characters to an estimated token: so estimates
/// of parts add up to the estimate of the whole, with no rounding between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Weight(pub u64);

impl Weight {
    /// What a text of so many characters is estimated at.
    pub fn of_chars(chars: u64) -> Self {
        Self(chars)
    }

    /// So many tokens.
    pub fn of_tokens(tokens: u64) -> Self {
        Self(tokens.saturating_mul(CHARS_PER_TOKEN))
    }

    /// Whole tokens, rounded down.
    pub fn tokens(self) -> u64 {
        self.0 / CHARS_PER_TOKEN
    }
}

impl std::iter::Sum for Weight {
    fn sum<I: Iterator<Item = Self>>(weights: I) -> Self {
        Self(weights.map(|weight| weight.0).fold(0, u64::saturating_add))
    }
}

/// How many tokens a history is, and each part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    preamble: Weight,
    entries: Vec<Weight>,
    /// The message after the last response whose usage the provider reported, and that usage.
    anchor: Option<(MessageId, u64)>,
    /// What is counted in the messages from the anchor on; everything, without one.
    after: Weight,
}

impl Counter {
    /// Counts with a tokenizer.
    #[must_use]
    pub fn tokenizer(mut self, tokenizer: Arc<dyn Tokenizer>) -> Self {
        self.tokenizer = Some(tokenizer);
        self
    }

    /// Counts pictures by a model's rule.
    #[must_use]
    pub fn images(mut self, rule: ImageRule) -> Self {
        self.images = rule;
        self
    }

    /// Counts a history, and what is sent before it.
    pub fn count(&self, history: &History<'_>) -> Count {
        let entries: Vec<Weight> =
            history.entries().iter().map(|entry| self.entry(entry)).collect();
        let anchor = history.messages().iter().enumerate().rev().find_map(|(at, message)| {
            // A report without input says nothing of what came before.
            let usage = message.usage.filter(|usage| usage.input_tokens > 0)?;
            let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
            Some((MessageId(at + 1), tokens))
        });
        let first = anchor.map_or(Some(0), |(message, _)| {
            history.messages().get(message.0).map(|message| message.entries.start)
        });
        let after = entries[first.unwrap_or(entries.len())..].iter().copied().sum();
        Count { preamble: self.preamble(history.preamble()), entries, anchor, after }
    }

    /// Weighs a text.
    pub fn text(&self, text: &str) -> Weight {
        match &self.tokenizer {
            Some(tokenizer) => Weight::of_tokens(tokenizer.count(text)),
            None => Weight::of_chars(count_chars(text.as_bytes())),
        }
    }

    fn preamble(&self, preamble: &Preamble<'_>) -> Weight {
        let instructions = preamble.instructions.iter().map(|text| self.text(text));
        let tools = preamble.tools.iter().map(|tool| self.text(tool));
        instructions.chain(tools).sum()
    }

    fn image(&self, image: &Image<'_>) -> u64 {
        let size = match &image.source {
            ImageSource::Base64(base64) => image::size(base64),
            ImageSource::Elsewhere(_) => None,
        };
        self.images.tokens(size, image.detail.as_deref())
    }

    fn entry(&self, entry: &Entry<'_>) -> Weight {
        let images = |images: &[Image<'_>]| -> Weight {
            images.iter().map(|image| Weight::of_tokens(self.image(image))).sum()
        };
        let text = self.text(&entry.text);
        let beside = match &entry.kind {
            Kind::Call { name, .. } | Kind::ServerCall { name, .. } => self.text(name),
            Kind::Return { images: shown, .. } => images(shown),
            Kind::Image(image) => images(std::slice::from_ref(image)),
            // Opaque: all there is to go by is its length.
            Kind::Boundary | Kind::Other | Kind::ServerReturn { .. } if entry.text.is_empty() => {
                self.text(entry.raw)
            }
            _ => Weight::default(),
        };
        [text, beside].into_iter().sum()
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tokenizer.is_some() {
            "Counter(tokenizer)"
        } else {
            "Counter(estimate)"
        })
    }
}

impl Count {
    /// Tokens of the whole request: instructions, tools and messages.
    pub fn tokens(&self) -> u64 {
        self.weight().tokens()
    }

    /// The weight of the whole request.
    pub fn weight(&self) -> Weight {
        let before = self.anchor.map_or(self.preamble, |(_, tokens)| Weight::of_tokens(tokens));
        [before, self.after].into_iter().sum()
    }

    /// Whether the provider's own report stands for a part of it.
    pub fn is_anchored(&self) -> bool {
        self.anchor.is_some()
    }

    /// Instructions and tools.
    pub fn preamble(&self) -> Weight {
        self.preamble
    }

    /// One entry; nothing for one that is not there.
    pub fn entry(&self, entry: EntryId) -> Weight {
        self.entries.get(entry.0).copied().unwrap_or_default()
    }

    /// All entries, in order.
    pub fn entries(&self) -> &[Weight] {
        &self.entries
    }
}
