//! How much does a model take? Its context window, its input budget and its prices, by its name.
//!
//! [`resolve`] asks three in turn: what the user said, the table that comes with the library, and
//! a fallback; the answer says which of them it was, so that a guess is never taken for knowledge.
//!
//! ```
//! use overspill::window::{self, Source, WindowOptions};
//!
//! let options = WindowOptions::default().context_window("my-finetune", 32_000);
//!
//! // The whole window is 400,000 tokens, but the provider takes no more than 272,000 of input.
//! let model = window::resolve("openai:gpt-5.2", &options);
//! assert_eq!((model.tokens, model.input_budget), (400_000, 272_000));
//! assert_eq!(model.trigger(0.5), 136_000);
//! assert_eq!(model.source, Source::Table);
//!
//! assert_eq!(window::resolve("my-finetune", &options).source, Source::Override);
//! assert_eq!(window::resolve("who-knows", &options).source, Source::Fallback);
//! ```
//!
//! The table is `models/models.tsv`, made by `tools/models.py` from a published list of models;
//! what is wrong there is corrected, with the source of each correction, in `overrides.tsv` beside
//! it. Names are matched as users write them: with the provider before them, in the spellings of
//! Bedrock and Vertex, and dated; a name is never shortened by anything but a date, a version of
//! the host or a word like `latest`, so that no model gets the window of another family.

pub(crate) mod name;
mod table;

use std::collections::BTreeMap;

use table::Row;

/// The window of a model that nobody knows. Claude took 200,000 until 4.6, and OpenAI's and Google's
/// models of the time take more: for most models that agents run on, it errs to the small side, and
/// a budget set by it is reached early rather than never.
pub const FALLBACK_WINDOW: u64 = 200_000;

/// What the user says about windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowOptions {
    overrides: BTreeMap<String, u64>,
    fallback: u64,
}

/// What is known about a model's window, and from where.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ModelWindow {
    /// The context window in tokens: what a request and its response may be together, as the
    /// provider publishes it.
    pub tokens: u64,
    /// How many of these tokens the request may be. It is less than the window where the provider
    /// keeps a part of it for the response; budgets are meant as fractions of this.
    pub input_budget: u64,
    /// The longest response in tokens.
    pub max_output: Option<u64>,
    /// What tokens cost; all unknown for a model that is not in the table.
    pub prices: Prices,
    /// Where the window comes from.
    pub source: Source,
    /// The table's row that was used; `None` where the model is in none.
    pub known_as: Option<&'static str>,
}

/// Where a window comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The user said so.
    Override,
    /// The table that comes with the library.
    Table,
    /// Nobody knows the model: the window is a guess.
    Fallback,
}

/// Prices in US dollars per million tokens: standard ones, before what some providers add for
/// long requests or for keeping a cache longer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Prices {
    /// Input that no cache holds.
    pub input: Option<f64>,
    /// Output, thinking included.
    pub output: Option<f64>,
    /// Input read from the provider's cache.
    pub cache_read: Option<f64>,
    /// Input written to the cache; `None` where that costs what other input costs, or is unknown.
    pub cache_write: Option<f64>,
}

impl Default for WindowOptions {
    fn default() -> Self {
        Self { overrides: BTreeMap::new(), fallback: FALLBACK_WINDOW }
    }
}

impl WindowOptions {
    /// States the context window of a model, whatever the table says. The name matches as names
    /// in the table do, so `gpt-5` is also meant where `openai:gpt-5-2025-08-07` is asked for; the
    /// name `*` means every model without a statement of its own.
    #[must_use]
    pub fn context_window(mut self, model: &str, tokens: u64) -> Self {
        let name = name::keys(model).into_iter().next();
        self.overrides.insert(name.unwrap_or_default(), tokens);
        self
    }

    /// States the window of models that neither the user nor the table knows, instead of
    /// [`FALLBACK_WINDOW`].
    #[must_use]
    pub fn fallback(mut self, tokens: u64) -> Self {
        self.fallback = tokens;
        self
    }

    fn stated(&self, keys: &[String]) -> Option<u64> {
        if self.overrides.is_empty() {
            return None;
        }
        let own = keys.iter().find_map(|key| self.overrides.get(key));
        own.or_else(|| self.overrides.get("*")).copied()
    }
}

/// Looks a model up by its name.
///
/// Every text is taken: an empty, an unknown or a nonsensical name gets the fallback.
pub fn resolve(model: &str, options: &WindowOptions) -> ModelWindow {
    let keys = name::keys(model);
    let row = keys.iter().find_map(|key| table::find(key));
    match (options.stated(&keys), row) {
        (Some(tokens), None) => ModelWindow::unknown(tokens, Source::Override),
        (Some(tokens), Some(row)) => ModelWindow::stated(tokens, &row),
        (None, Some(row)) => ModelWindow::known(&row),
        (None, None) => ModelWindow::unknown(options.fallback, Source::Fallback),
    }
}

/// The number of tokens from which on a fraction of a window is passed: the product in double
/// precision, rounded down, and at least 1.
///
/// ```
/// use overspill::window::fraction_trigger;
///
/// assert_eq!(fraction_trigger(200_000, 0.85), 170_000);
/// assert_eq!(fraction_trigger(200_000, 0.57), 113_999); // 0.57 is a little less than 57/100
/// assert_eq!(fraction_trigger(7, 0.01), 1);
/// ```
pub fn fraction_trigger(window: u64, fraction: f64) -> u64 {
    // `as` rounds toward zero and keeps within bounds; what is no number becomes 0.
    ((window as f64 * fraction) as u64).max(1)
}

impl ModelWindow {
    /// The number of tokens from which on a fraction of what the model takes is passed.
    ///
    /// Why of the input budget and not of the window? Where the two differ, nine tenths of the
    /// window may be more than the provider lets in, and the trigger would never fire.
    pub fn trigger(&self, fraction: f64) -> u64 {
        fraction_trigger(self.input_budget, fraction)
    }

    fn known(row: &Row) -> Self {
        Self {
            tokens: row.window,
            input_budget: row.input,
            max_output: row.output,
            prices: row.prices,
            source: Source::Table,
            known_as: Some(row.name),
        }
    }

    /// The user's word on the size of the window; what it leaves for input, the table knows: the
    /// part that the provider keeps for the response stays kept, but a smaller window than the
    /// provider's input budget is meant as it is.
    fn stated(tokens: u64, row: &Row) -> Self {
        let kept = row.window - row.input;
        let input_budget = tokens.min(row.input.max(tokens.saturating_sub(kept)));
        Self { tokens, input_budget, source: Source::Override, ..Self::known(row) }
    }

    fn unknown(tokens: u64, source: Source) -> Self {
        Self {
            tokens,
            input_budget: tokens,
            max_output: None,
            prices: Prices::default(),
            source,
            known_as: None,
        }
    }
}

#[cfg(test)]
mod tests;
