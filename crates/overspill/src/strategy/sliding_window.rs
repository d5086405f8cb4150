//! Drops the oldest turns.

use super::{Draft, Limit, Strategy, StrategyError, done};
use crate::BoxFuture;
use crate::count::Weight;
use crate::entry::{Entry, Kind, MessageId, Role};

/// Drops everything but the newest messages. What it drops is stored as one transcript, and a
/// receipt names its handle.
///
/// All system prompts stay, and by default the first message of the user, which says what the task
/// is. A turn stays whole if any part of it does.
///
/// Use it last in a stack, where nothing else brings the history down: it costs no model call, but
/// all that was said leaves the view, and the cache breaks behind the first message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlidingWindow {
    /// How much of the end stays.
    pub keep: Keep,
    /// Whether the first message of the user stays.
    pub keep_first_user: bool,
    /// It stops once the request is at this size; `None` drops all it may.
    pub until: Option<Limit>,
}

/// How much of the end of a history stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// So many messages, and those their turns need.
    Messages(usize),
    /// The shortest end that holds at least so many tokens.
    Tokens(u64),
}

impl Default for SlidingWindow {
    /// The last 40 messages, and the first of the user: about the newest twenty steps of an agent.
    fn default() -> Self {
        Self { keep: Keep::Messages(40), keep_first_user: true, until: None }
    }
}

impl Keep {
    /// The first message that stays, before any turn is looked at. Only what an earlier strategy
    /// left counts.
    pub(super) fn cutoff(self, draft: &Draft<'_, '_>) -> MessageId {
        let messages = draft.history().messages();
        let mut cut = messages.len();
        let mut left = Weight::default();
        let mut count = 0;
        for (at, message) in messages.iter().enumerate().rev() {
            let enough = match self {
                Self::Messages(keep) => count >= keep,
                Self::Tokens(keep) => left >= Weight::of_tokens(keep),
            };
            if enough {
                break;
            }
            count += usize::from(draft.has_message(MessageId(at)));
            left.0 += message.entry_ids().map(|entry| draft.weight(entry).0).sum::<u64>();
            cut = at;
        }
        MessageId(cut)
    }

    /// The first message that stays so that no turn is split.
    pub(super) fn safe_cutoff(self, draft: &Draft<'_, '_>) -> MessageId {
        let mut cut = self.cutoff(draft);
        let history = draft.history();
        for turn in history.turns().iter().rev() {
            let returns = turn.returns.iter().map(|&entry| history.entries()[entry.0].message);
            let last = turn.response.iter().copied().chain(returns).max();
            if let (Some(&first), Some(last)) = (turn.response.first(), last)
                && first < cut
                && cut <= last
            {
                cut = first;
            }
        }
        cut
    }
}

/// The first message in which the user speaks.
pub(super) fn first_user(draft: &Draft<'_, '_>) -> Option<MessageId> {
    let entries = draft.history().entries();
    entries.iter().find(|entry| user_says(entry)).map(|entry| entry.message)
}

/// Whether an entry is something the user says or shows, and no note of ours.
pub(super) fn user_says(entry: &Entry<'_>) -> bool {
    entry.role == Role::User
        && matches!(entry.kind, Kind::Text | Kind::Image(_))
        && entry.note().is_none()
}

impl SlidingWindow {
    /// Keeps this, and the first message of the user.
    pub fn new(keep: Keep) -> Self {
        Self { keep, ..Self::default() }
    }
}

impl Strategy for SlidingWindow {
    fn edit<'f>(
        &'f self,
        draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        let cut = self.keep.safe_cutoff(draft);
        let first = first_user(draft).filter(|_| self.keep_first_user);
        let enough = self.until.map(|limit| limit.tokens(draft.scene().budget));
        let before = draft.clone();
        for message in (0..cut.0).map(MessageId) {
            if enough.is_some_and(|enough| draft.tokens() <= enough) {
                break;
            }
            if Some(message) != first {
                draft.drop_message(message);
                continue;
            }
            // Of the first message only what the user says stays: a return in it leaves with its
            // call, and an earlier receipt that the format joined to it is counted into the new one.
            for entry in draft.history().messages()[message.0].entry_ids() {
                let found = &draft.history().entries()[entry.0];
                if found.role != Role::User || found.note().is_some() {
                    draft.drop_entry(entry);
                }
            }
        }
        // What was cleared before may weigh less than the words that tell of its leaving.
        if draft.tokens() > before.tokens() {
            *draft = before;
        }
        done()
    }
}
