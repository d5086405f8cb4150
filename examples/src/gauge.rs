//! How full the context is, what was spilled, and what that saved.

use std::fmt;

use indicatif::{DecimalBytes, HumanCount};
use overspill::fit::Fitted;
use overspill::intake::Admitted;
use overspill::item::{Payload, ToolReturn};
use overspill::store::Receipt;

/// How many signs the bar has; the whole line fits on a terminal of 80.
const BAR: u64 = 10;

/// What a run has taken so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gauge {
    /// Requests made.
    pub requests: u64,
    /// What a request may have, in tokens.
    pub budget: u64,
    /// What the last request had, in tokens.
    pub context: u64,
    /// What the tools returned, in bytes.
    pub returned: u64,
    /// What was stored, in bytes: results, and what left the history later.
    pub spilled: u64,
    /// In how many payloads.
    pub payloads: u64,
    /// Tokens that the last request would have had besides.
    pub left_out: u64,
    /// The sum of these over all requests.
    pub saved: u64,
}

impl Gauge {
    /// Nothing taken yet, of a budget in tokens.
    pub fn new(budget: u64) -> Self {
        Self { budget, ..Self::default() }
    }

    /// Counts what a tool returned.
    pub(crate) fn returned(&mut self, output: &ToolReturn) {
        let bytes = output.value.iter().chain(&output.content).map(|payload| match payload {
            Payload::Text(text) => text.len(),
            Payload::Json(value) => value.to_string().len(),
            Payload::Bytes(bytes) => bytes.len(),
            Payload::Media(media) => media.bytes.len(),
        });
        self.returned += bytes.sum::<usize>() as u64;
    }

    /// Counts what was left out of a return.
    pub(crate) fn admitted(&mut self, admitted: &Admitted) {
        for reduction in &admitted.reductions {
            let (before, after) = (reduction.before.measured, reduction.after.measured);
            self.left_out += before.saturating_sub(after);
        }
        self.stored(admitted.receipts());
    }

    /// Counts a request of so many tokens, and what left the history before it.
    pub(crate) fn fitted(&mut self, fitted: &Fitted, context: u64) {
        self.left_out += fitted.before.saturating_sub(fitted.after);
        self.stored(fitted.plan.iter().flat_map(|plan| plan.receipts()));
        self.requests += 1;
        self.context = context;
        self.saved += self.left_out;
    }

    fn stored<'r>(&mut self, receipts: impl IntoIterator<Item = &'r Receipt>) {
        for receipt in receipts {
            self.spilled += receipt.bytes;
            self.payloads += 1;
        }
    }
}

impl fmt::Display for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = (self.context * BAR).div_ceil(self.budget.max(1)).min(BAR) as usize;
        write!(
            f,
            "{}{} {} of {} tokens, {} saved, {} spilled in {}",
            "█".repeat(full),
            "░".repeat(BAR as usize - full),
            HumanCount(self.context),
            HumanCount(self.budget),
            HumanCount(self.saved),
            DecimalBytes(self.spilled),
            HumanCount(self.payloads),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_one_line() {
        let gauge = Gauge {
            requests: 12,
            budget: 20_000,
            context: 8_412,
            returned: 2_000_000,
            spilled: 1_234_567,
            payloads: 31,
            left_out: 20_000,
            saved: 214_000,
        };
        assert_eq!(
            gauge.to_string(),
            "█████░░░░░ 8,412 of 20,000 tokens, 214,000 saved, 1.23 MB spilled in 31"
        );
        assert!(Gauge::new(0).to_string().starts_with("░░"));
    }
}
