//! From when on a strategy runs.

use std::sync::Arc;

use super::{Draft, Strategy, StrategyError};
use crate::BoxFuture;
use crate::window::fraction_trigger;

/// A number of tokens, absolute or by the model's window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// So many tokens.
    Tokens(u64),
    /// This part of the model's input budget, between 0 and 1.
    Fraction(f64),
}

impl Limit {
    /// In tokens, for a model whose input budget is `budget` tokens; at least one, so that the
    /// fraction of a small window never asks for nothing.
    ///
    /// ```
    /// use overspill::strategy::Limit;
    ///
    /// assert_eq!(Limit::Fraction(0.7).tokens(200_000), 140_000);
    /// assert_eq!(Limit::Fraction(0.01).tokens(7), 1);
    /// assert_eq!(Limit::Tokens(5_000).tokens(200_000), 5_000);
    /// ```
    pub fn tokens(self, budget: u64) -> u64 {
        match self {
            Self::Tokens(tokens) => tokens,
            Self::Fraction(fraction) => fraction_trigger(budget, fraction),
        }
    }
}

/// Fires when a history is strictly larger than a limit; without one, always.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Trigger {
    /// More messages than this.
    pub messages: Option<usize>,
    /// More tokens than this.
    pub tokens: Option<Limit>,
}

impl Trigger {
    /// More messages than these.
    pub fn messages(messages: usize) -> Self {
        Self { messages: Some(messages), tokens: None }
    }

    /// More tokens than these.
    pub fn tokens(limit: Limit) -> Self {
        Self { messages: None, tokens: Some(limit) }
    }

    /// Whether the draft, as it is now, is larger than one of the limits.
    pub fn fires(&self, draft: &Draft<'_, '_>) -> bool {
        let messages = self.messages.map(|most| draft.messages_left() > most);
        let tokens = self.tokens.map(|limit| draft.tokens() > limit.tokens(draft.scene().budget));
        match (messages, tokens) {
            (None, None) => true,
            (messages, tokens) => messages == Some(true) || tokens == Some(true),
        }
    }
}

/// A strategy that only runs when its trigger fires.
#[derive(Debug, Clone)]
pub struct Triggered {
    /// When.
    pub when: Trigger,
    /// What.
    pub strategy: Arc<dyn Strategy>,
}

impl Strategy for Triggered {
    fn edit<'f>(
        &'f self,
        draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        if self.when.fires(draft) { self.strategy.edit(draft) } else { super::done() }
    }

    fn instead(&self) -> Option<Arc<dyn Strategy>> {
        let strategy = self.strategy.instead()?;
        Some(Arc::new(Self { when: self.when, strategy }))
    }
}
