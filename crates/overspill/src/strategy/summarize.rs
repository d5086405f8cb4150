//! Lets a model sum up the older turns.

mod prompt;

use self::prompt::prompt;
use super::receipt::Receipt;
use super::sliding_window::{first_user, user_says};
use super::transcript::Part;
use super::{Draft, Keep, Limit, Strategy, StrategyError};
use crate::BoxFuture;
use crate::count::Weight;
use crate::entry::{EntryId, Kind, MessageId, Note, Role};
use crate::history::Words;
use crate::summary::SummaryError;

/// Puts one summary in the place of everything but the newest messages. What it sums up is stored
/// as one transcript, and the summary's receipt names its handle.
///
/// All system prompts stay, and what stands before the first message that leaves stays before the
/// summary. Pins, the first message of the user and the newest that the user said stay word for
/// word. An earlier summary is handed to the model to be brought up to date, not to be summed up
/// with the rest.
///
/// The model is asked when the plan is settled; if it fails, answers nothing, or answers more than
/// what it stands for, the plan is not settled and the history stays as it was. Put it in a
/// [`Fallback`](super::Fallback) with a strategy that needs no model.
///
/// Use it where what was decided early still matters at the end. It costs a model call about as
/// big as what it sums up, and the provider's cache from the first message that leaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summarize {
    /// How much of the end stays.
    pub keep: Keep,
    /// Whether the first message of the user stays.
    pub keep_first_user: bool,
    /// How many of the newest messages that the user said before that end stay, too: those that
    /// together are no more than an eighth of the budget.
    pub keep_user_messages: usize,
    /// How long a summary is asked to be, at most. Unless more than twice as many tokens can leave
    /// (without what an earlier summary holds), nothing does: so each summary frees at least what it takes,
    /// and none is made of little more than the last one.
    pub summary_tokens: u64,
    /// How much the model is given to read; what is older is left out and said to be. The model
    /// that summarizes needs a window of that size and two thousand tokens more.
    pub transcript: Limit,
    /// How many characters it is given of each return, of arguments, and of a thought.
    pub return_chars: usize,
}

/// Twice: what leaves is at least halved.
const WORTH: u64 = 2;

/// What share of the budget the user's own words may stay in.
const USER_SHARE: u64 = 8;

/// What a summary opens with, so that nobody takes it for the user's words.
const OPENING: &str = "What was said and done before this point, as a model notes it:\n\n";

impl Default for Summarize {
    /// The last 20 messages, about the newest ten steps of an agent; the three newest messages of
    /// the user before them; a summary of at most 2,000 tokens, a few pages, made of what fills
    /// half the window.
    fn default() -> Self {
        Self {
            keep: Keep::Messages(20),
            keep_first_user: true,
            keep_user_messages: 3,
            summary_tokens: 2_000,
            transcript: Limit::Fraction(0.5),
            return_chars: 2_000,
        }
    }
}

/// What is before the end that stays.
#[derive(Default)]
struct Older<'v> {
    /// Messages that leave whole.
    messages: Vec<MessageId>,
    /// What leaves messages that stay in part.
    entries: Vec<EntryId>,
    /// What the model reads, in order.
    parts: Vec<Part>,
    /// Earlier summaries among what leaves, without what they say of the store.
    summaries: Vec<&'v str>,
    /// What leaves besides notes of ours.
    news: Weight,
}

impl Summarize {
    /// Keeps this, and what the default keeps.
    pub fn new(keep: Keep) -> Self {
        Self { keep, ..Self::default() }
    }

    fn summarize(&self, draft: &mut Draft<'_, '_>) -> Result<(), StrategyError> {
        let older = self.older(draft);
        if older.news <= Weight::of_tokens(self.summary_tokens.saturating_mul(WORTH)) {
            return Ok(());
        }
        if draft.scene().model.is_none() {
            return Err(SummaryError::new("there is no model to summarize with").into());
        }
        let prompt = prompt(self, draft, &older);
        for message in older.messages {
            draft.drop_message(message);
        }
        for entry in older.entries {
            draft.drop_entry(entry);
        }
        let weight = Weight::of_tokens(self.summary_tokens).0.saturating_add(OPENING.len() as u64);
        let words = Words::text(OPENING).then(Words::written(prompt));
        draft.note_gap(Note::Summary, words, Weight(weight));
        Ok(())
    }

    fn older<'v>(&self, draft: &Draft<'v, '_>) -> Older<'v> {
        let history = draft.history();
        // The newest message stays in any case, and with it its turn.
        let keep = match self.keep {
            Keep::Messages(0) => Keep::Messages(1),
            Keep::Tokens(0) => Keep::Tokens(1),
            keep => keep,
        };
        let cut = keep.safe_cutoff(draft);
        let kept = self.kept_users(draft, cut);
        let mut older = Older::default();
        for (at, message) in history.messages().iter().enumerate().take(cut.0) {
            let stays_itself = |id: EntryId| {
                let entry = &history.entries()[id.0];
                let is_kept = kept[at] && entry.role == Role::User && entry.note().is_none();
                draft.is_fixed(id) || is_kept
            };
            let stays_in_part = message.entry_ids().any(stays_itself);
            if !stays_in_part {
                older.messages.push(MessageId(at));
            }
            for id in message.entry_ids().filter(|id| draft.has_entry(*id)) {
                let entry = &history.entries()[id.0];
                // What nobody knows leaves only with its whole message.
                let hangs_on = matches!(entry.kind, Kind::Other) && history.turn_of(id).is_none();
                let stays = stays_itself(id) || hangs_on && stays_in_part;
                if !stays && stays_in_part {
                    older.entries.push(id);
                }
                match entry.note() {
                    None if !stays || id >= history.reach() && entry.role != Role::System => {
                        older.parts.push(Part { entry: id, stays });
                    }
                    Some(Note::Summary) if !stays => {
                        let body = Note::Summary.body(&entry.text).unwrap_or_default();
                        let words = Receipt::before(body);
                        older.summaries.push(words.strip_prefix(OPENING).unwrap_or(words));
                    }
                    _ => {}
                }
                if !stays && entry.note().is_none() {
                    older.news.0 += draft.weight(id).0;
                }
            }
        }
        older
    }

    /// For each message before the cut, whether what the user says in it stays.
    fn kept_users(&self, draft: &Draft<'_, '_>, cut: MessageId) -> Vec<bool> {
        let history = draft.history();
        let mut kept = vec![false; cut.0];
        let first = first_user(draft).filter(|first| self.keep_first_user && *first < cut);
        if let Some(first) = first {
            kept[first.0] = true;
        }
        let mut room = Weight::of_tokens(draft.scene().budget / USER_SHARE).0;
        let mut left = self.keep_user_messages;
        for at in (0..cut.0).rev() {
            if left == 0 {
                break;
            }
            let said: Vec<EntryId> = history.messages()[at]
                .entry_ids()
                .filter(|id| draft.has_entry(*id) && !draft.is_fixed(*id))
                .filter(|id| user_says(&history.entries()[id.0]))
                .collect();
            let weight: Weight = said.iter().map(|id| draft.weight(*id)).sum();
            if !said.is_empty() && weight.0 <= room {
                room -= weight.0;
                left -= 1;
                kept[at] = true;
            }
        }
        kept
    }
}

impl Strategy for Summarize {
    fn edit<'f>(
        &'f self,
        draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        Box::pin(std::future::ready(self.summarize(draft)))
    }
}

#[cfg(test)]
mod tests;
