//! Lets a model judge which older turns still matter.

mod judge;

use self::judge::Judgements;
use super::clear_tool_results::marker_of;
use super::stub::stub;
use super::{Draft, Limit, Strategy, StrategyError};
use crate::BoxFuture;
use crate::entry::EntryId;
use crate::history::{History, TurnId};

/// Drops or reduces the older turns that matter least, as a model judges them, until the request
/// is at its target or under it.
///
/// A turn is reduced first: its results become markers with their handles, its long arguments
/// stubs. One that is judged below `drop_below` leaves at once; the others only where reducing all
/// of them was not enough. What users and instructions say stays.
///
/// The model is asked once about each turn: its judgement is remembered, so the same history gets
/// the same edits as long as this value lives. An answer that is not one number for each turn is
/// an error, and nothing is edited.
///
/// Use it where tasks change within one conversation, so that age says little about use. It costs
/// a model call with an excerpt of each new turn, and the provider's cache from the first turn it
/// touches: let a [`Trigger`](super::Trigger) run it rarely, and put `target` well under that.
#[derive(Debug)]
pub struct Relevance {
    /// How big the request may stay.
    pub target: Limit,
    /// How many of the newest turns stay as they are.
    pub keep_turns: usize,
    /// Below this score, of 10, a turn is not worth its markers.
    pub drop_below: f64,
    /// How much the model is given to read at once; what does not fit is judged in a next call.
    pub prompt: Limit,
    judgements: Judgements,
}

impl Relevance {
    /// Down to this target; the newest three turns stay, what scores under 3 leaves, and the model
    /// reads half a window at once.
    pub fn new(target: Limit) -> Self {
        Self {
            target,
            keep_turns: 3,
            drop_below: 3.0,
            prompt: Limit::Fraction(0.5),
            judgements: Judgements::default(),
        }
    }

    async fn cut(&self, draft: &mut Draft<'_, '_>) -> Result<(), StrategyError> {
        let target = self.target.tokens(draft.scene().budget);
        if draft.tokens() <= target {
            return Ok(());
        }
        let turns = older(draft, self.keep_turns);
        let prompt = self.prompt.tokens(draft.scene().budget);
        let mut judged = self.judgements.of(&turns, draft, prompt).await?;
        // The least relevant first; of equals, the oldest.
        judged.sort_by(|(a, one), (b, other)| one.total_cmp(other).then(a.cmp(b)));
        for (turn, score) in &judged {
            if draft.tokens() <= target {
                return Ok(());
            }
            if *score < self.drop_below {
                draft.drop_turn(*turn);
            } else {
                reduce(draft, *turn);
            }
        }
        for (turn, _) in &judged {
            if draft.tokens() <= target {
                break;
            }
            draft.drop_turn(*turn);
        }
        Ok(())
    }
}

/// The turns that may be judged: all but the newest, what earlier edits dropped, and pins.
fn older(draft: &Draft<'_, '_>, keep_turns: usize) -> Vec<TurnId> {
    let turns = draft.history().turns().len();
    let may_leave = |turn: &TurnId| {
        let mut entries = entries(draft.history(), *turn).peekable();
        entries.peek().is_some()
            && entries.all(|entry| draft.has_entry(entry) && !draft.is_fixed(entry))
    };
    (0..turns.saturating_sub(keep_turns)).map(TurnId).filter(may_leave).collect()
}

/// The entries of a turn: those of its response, then the returns that answer it.
fn entries(history: &History<'_>, turn: TurnId) -> impl Iterator<Item = EntryId> {
    let turn = &history.turns()[turn.0];
    let response = turn.response.iter().flat_map(|at| history.messages()[at.0].entry_ids());
    response.chain(turn.returns.iter().copied())
}

/// Clears the results and long arguments of a turn, where they may change and are long enough.
fn reduce(draft: &mut Draft<'_, '_>, turn: TurnId) {
    let history = draft.history();
    let turn = &history.turns()[turn.0];
    for answer in &turn.returns {
        let (words, weight) = marker_of(&history.entries()[answer.0].text);
        draft.replace_text(*answer, words, weight);
    }
    for call in &turn.calls {
        if let Some((object, weight)) = stub(draft, *call) {
            draft.replace_arguments(*call, object, weight);
        }
    }
}

impl Strategy for Relevance {
    fn edit<'f>(
        &'f self,
        draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        Box::pin(self.cut(draft))
    }
}

#[cfg(test)]
mod tests;
