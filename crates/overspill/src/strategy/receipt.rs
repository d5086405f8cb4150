//! What the model is told of what left its history.

use crate::history::Words;
use crate::marker::Below;
use crate::measure::{counted, grouped};

/// How much left a history, in all: also what earlier receipts, which leave with it, speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Receipt {
    pub(super) messages: u64,
    pub(super) tokens: u64,
}

/// What stands before and between the two numbers.
const LEFT: &str = "Earlier in this conversation: ";
const ABOUT: &str = " left, about ";
const TOKENS: &str = " tokens.";

impl Receipt {
    /// Reads one back; `None` where the body is none of ours.
    pub(super) fn parse(body: &str) -> Option<Self> {
        // The last one: a model's words before it may say the same.
        let (_, behind) = body.rsplit_once(LEFT)?;
        let (messages, behind) = behind.split_once(ABOUT)?;
        let (tokens, _) = behind.split_once(TOKENS)?;
        let number = |text: &str| {
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            digits.parse::<u64>().ok()
        };
        Some(Self { messages: number(messages)?, tokens: number(tokens)? })
    }

    /// What a note's body says before its receipt; all of it where there is none.
    pub(super) fn before(body: &str) -> &str {
        let receipt = Self::parse(body).and_then(|_| body.rsplit_once(LEFT));
        receipt.map_or(body, |(before, _)| before.trim_end())
    }

    pub(super) fn and(self, more: Self) -> Self {
        Self {
            messages: self.messages.saturating_add(more.messages),
            tokens: self.tokens.saturating_add(more.tokens),
        }
    }

    /// The sentence, without what follows it.
    pub(super) fn sentence(self) -> String {
        let messages = counted(self.messages, "message");
        format!("{LEFT}{messages}{ABOUT}{}{TOKENS}", grouped(self.tokens))
    }

    /// The sentence, and the marker of what is stored.
    pub(super) fn words(self, below: Below) -> Words {
        Words::text(format!("{} Check what matters against what is stored. ", self.sentence()))
            .then(Words::marker(below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_read_back() {
        let receipt = Receipt { messages: 1_012, tokens: 34_567 };
        assert_eq!(Receipt::parse(&receipt.sentence()), Some(receipt));
        let one = Receipt { messages: 1, tokens: 0 };
        assert_eq!(Receipt::parse(&format!("x {} y", one.sentence())), Some(one));
        assert_eq!(Receipt::parse("Earlier in this conversation: nothing"), None);
        let words = "Earlier in this conversation: 9 messages left, about 9 tokens.";
        let body = format!("{words}\n\n{} [marker]", receipt.sentence());
        assert_eq!(Receipt::parse(&body), Some(receipt));
        assert_eq!(Receipt::before(&body), words);
        assert_eq!(Receipt::before("only words\n"), "only words\n");
    }
}
