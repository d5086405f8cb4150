//! Tells the model that a limit is near.

use super::{Draft, Limit, Strategy, StrategyError, done};
use crate::BoxFuture;
use crate::entry::{EntryId, MessageId, Note, Role};
use crate::history::Words;
use crate::measure::grouped;

/// Puts one warning after everything when requests, window or total tokens come near a limit.
/// Earlier warnings are taken out first, known by their mark and not by their words, so that they
/// never pile up.
///
/// Use it last, so that it speaks of the history as it is sent. It costs about forty tokens while
/// it stands, and nothing of the cache: it stands behind everything.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitWarner {
    /// How many requests the run may make.
    pub max_requests: Option<u64>,
    /// How many tokens a request may have.
    pub max_context: Option<Limit>,
    /// How many tokens the run may use in all.
    pub max_total_tokens: Option<u64>,
    /// From this part of a limit on it warns.
    pub threshold: f64,
}

impl Default for LimitWarner {
    /// Warns at 70 % of the window.
    fn default() -> Self {
        Self {
            max_requests: None,
            max_context: Some(Limit::Fraction(1.0)),
            max_total_tokens: None,
            threshold: 0.7,
        }
    }
}

/// With so few requests left, a warning is critical: one to finish, one to check, one to answer.
const FEW_REQUESTS: u64 = 3;

/// One limit, and how much of it is used.
struct Meter {
    what: &'static str,
    used: u64,
    of: u64,
    unit: &'static str,
    is_critical: bool,
}

impl Meter {
    fn percent(&self) -> u64 {
        self.used.saturating_mul(100) / self.of.max(1)
    }

    fn line(&self) -> String {
        format!(
            "- {}: {} of {} {} used ({} %), {} left.",
            self.what,
            grouped(self.used),
            grouped(self.of),
            self.unit,
            self.percent(),
            grouped(self.of.saturating_sub(self.used)),
        )
    }
}

impl LimitWarner {
    fn meters(&self, draft: &Draft<'_, '_>) -> Vec<Meter> {
        let scene = draft.scene();
        let meter = |what, used: u64, of: u64, unit, few| Meter {
            what,
            used,
            of,
            unit,
            is_critical: used >= of || of - used <= few,
        };
        let requests = self
            .max_requests
            .map(|of| meter("Requests", scene.spent.requests, of, "requests", FEW_REQUESTS));
        let context = self.max_context.map(|limit| {
            meter("Context window", draft.tokens(), limit.tokens(scene.budget), "tokens", 0)
        });
        let spent = scene.spent.input_tokens.saturating_add(scene.spent.output_tokens);
        let total = self.max_total_tokens.map(|of| meter("Total tokens", spent, of, "tokens", 0));
        let near = |meter: &Meter| meter.used as f64 >= meter.of as f64 * self.threshold;
        [requests, context, total].into_iter().flatten().filter(near).collect()
    }
}

impl Strategy for LimitWarner {
    fn edit<'f>(
        &'f self,
        draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        let history = draft.history();
        let mut stays = false;
        for at in 0..history.entries().len() {
            if history.entries()[at].note() == Some(Note::Warning) {
                stays |= !draft.drop_entry(EntryId(at));
            }
        }
        let last = (0..history.messages().len()).rfind(|at| draft.has_message(MessageId(*at)));
        let answered = last.is_some_and(|at| history.messages()[at].role == Role::Assistant);
        let near = self.meters(draft);
        // After a response there is nobody to warn: the run is over, or its returns are due. Nor
        // is there where an earlier warning has to stay.
        if near.is_empty() || answered || stays {
            return done();
        }
        let critical = near.iter().any(|meter| meter.is_critical);
        let (urgency, advice) = match critical {
            true => ("CRITICAL", "Finish now, and call no tool that is not needed."),
            false => ("URGENT", "Finish soon, and call only tools that are needed."),
        };
        let lines: Vec<String> = near.iter().map(Meter::line).collect();
        let text =
            format!("{urgency}: limits of this run are near.\n{}\n{advice}", lines.join("\n"));
        let weight = draft.scene().counter.text(&Note::Warning.wrap(&text));
        draft.note_end(Note::Warning, Words::text(text), weight);
        done()
    }
}
