//! What to do with a return of some size, and what to do when that cannot be done.

use crate::cut::Truncate;

/// What happens to a return; each but [`Action::Passthrough`] names what runs when it cannot.
///
/// ```
/// use overspill::{Action, Spill, Truncate};
///
/// // Store it; if no store takes it, keep its head and tail.
/// let action = Action::from(Spill::default()).or(Truncate::default());
/// assert_eq!(action.to_string(), "spill, else truncate");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Leaves the return as it is.
    Passthrough,
    /// Keeps some of the text and drops the rest for good.
    Truncate(Truncate, Then),
    /// Stores the return whole and leaves an excerpt.
    Spill(Spill, Then),
    /// Stores the return whole and leaves a model's summary of it.
    Summarize(Summarize, Then),
}

/// What runs when an action cannot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Then(Option<Box<Action>>);

impl Then {
    /// The next action of the chain.
    pub fn action(&self) -> Option<&Action> {
        self.0.as_deref()
    }
}

/// How a spilled return stays in view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spill {
    /// The most characters of the payload that stay in view as an excerpt; 0 shows none. The
    /// marker comes on top.
    pub preview_chars: usize,
}

impl Spill {
    /// The default excerpt: enough for head, tail and the lines that carry the news.
    pub const PREVIEW_CHARS: usize = 1_000;
}

impl Default for Spill {
    fn default() -> Self {
        Self { preview_chars: Self::PREVIEW_CHARS }
    }
}

/// How a return is summarized. The summarizer itself belongs to the policy as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Summarize {}

impl Action {
    /// Appends `next` to the chain: it runs when none of the actions before it can.
    ///
    /// A [`Action::Passthrough`] always can, so nothing is appended behind it.
    #[must_use]
    pub fn or(mut self, next: impl Into<Self>) -> Self {
        self.append(next.into());
        self
    }

    fn append(&mut self, next: Self) {
        match self {
            Self::Passthrough => {}
            Self::Truncate(_, then) | Self::Spill(_, then) | Self::Summarize(_, then) => {
                match &mut then.0 {
                    Some(action) => action.append(next),
                    empty => *empty = Some(Box::new(next)),
                }
            }
        }
    }

    /// What runs when this action cannot.
    pub fn then(&self) -> Option<&Self> {
        match self {
            Self::Passthrough => None,
            Self::Truncate(_, then) | Self::Spill(_, then) | Self::Summarize(_, then) => {
                then.action()
            }
        }
    }

    /// The action's name, as the configuration writes it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Passthrough => "passthrough",
            Self::Truncate(..) => "truncate",
            Self::Spill(..) => "spill",
            Self::Summarize(..) => "summarize",
        }
    }

    /// This action and those behind it, in the order they are tried.
    pub fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |action| action.then())
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, action) in self.chain().enumerate() {
            if i > 0 {
                f.write_str(", else ")?;
            }
            f.write_str(action.name())?;
        }
        Ok(())
    }
}

impl From<Truncate> for Action {
    fn from(truncate: Truncate) -> Self {
        Self::Truncate(truncate, Then::default())
    }
}

impl From<Spill> for Action {
    fn from(spill: Spill) -> Self {
        Self::Spill(spill, Then::default())
    }
}

impl From<Summarize> for Action {
    fn from(summarize: Summarize) -> Self {
        Self::Summarize(summarize, Then::default())
    }
}
