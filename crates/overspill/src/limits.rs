//! The front door to the first path: [`ToolOutputLimits`].

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use thiserror::Error;

use crate::action::Action;
use crate::band::{Band, BandError, Bands};
use crate::config::{Config, Preset};
use crate::cut::Truncate;
use crate::filter::{ToolBands, ToolFilter};
use crate::intake::{self, Admitted, ReturnStream};
use crate::item::{ToolCall, ToolReturn};
use crate::marker::ReadVia;
use crate::measure::Unit;
use crate::policy::Policy;
use crate::read::{self, ReadArgs, ReadTool};
use crate::render::JsonStyle;
use crate::store::Store;
use crate::summary::Summarizer;

/// Reduces tool returns and reads them back.
///
/// It is cheap to clone and share; everything in it is fixed once it is built.
///
/// ```
/// use std::sync::Arc;
/// use overspill::{ToolCall, ToolOutputLimits};
/// use overspill_store::MemoryStore;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # futures_lite::future::block_on(async {
/// let limits = ToolOutputLimits::builder().store(Arc::new(MemoryStore::default())).build()?;
/// let log: String = (0..5_000).map(|i| format!("line {i}\n")).collect();
/// let admitted = limits.admit(&ToolCall::new("run-1", "call-1", "bash"), log).await;
///
/// let receipt = admitted.receipts().next().ok_or("stored")?;
/// let args = serde_json::json!({ "handle": receipt.handle, "offset": 2_500, "limit": 1 });
/// assert!(limits.read(&args).await.ends_with("line 2500\n"));
/// # Ok(()) })
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ToolOutputLimits {
    policy: Arc<Policy>,
}

impl ToolOutputLimits {
    /// Starts from the default policy: from 10,000 characters on, spill, else truncate.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Reduces what a tool returned, as the policy says, and stores it first.
    ///
    /// It never fails: a store that is down, a model that fails or a return that cannot be cut
    /// lets the next action of the chain run, and says so in [`Admitted::warnings`].
    pub async fn admit(&self, call: &ToolCall, output: impl Into<ToolReturn>) -> Admitted {
        intake::admit(&self.policy, call, output.into()).await
    }

    /// Reduces a return that arrives in pieces, in constant memory.
    pub fn stream(&self, call: &ToolCall) -> ReturnStream {
        ReturnStream::new(Arc::clone(&self.policy), call.clone())
    }

    /// Answers a call of the read tool with bounded text.
    ///
    /// It never fails either: what is wrong with the arguments, the handle or the store is said
    /// in a sentence that the model can act on.
    pub async fn read(&self, args: &Value) -> String {
        let args = match ReadArgs::parse(args) {
            Ok(args) => args,
            Err(sentence) => return sentence,
        };
        match &self.policy.store {
            Some(store) => read::read(store, &args, self.policy.strip_ansi).await,
            None => "Nothing is stored here: this agent runs without a store.".to_owned(),
        }
    }

    /// The read tool's name, description and JSON schema, for the host to offer to the model.
    pub fn read_tool(&self) -> &ReadTool {
        &self.policy.read_tool
    }
}

/// Builds [`ToolOutputLimits`].
#[derive(Debug, Clone)]
pub struct Builder {
    enabled: bool,
    filter: ToolFilter,
    bands: Option<Vec<Band>>,
    tool_bands: ToolBands,
    unit: Unit,
    strip_ansi: bool,
    json: JsonStyle,
    store: Option<Arc<dyn Store>>,
    summarizer: Option<SharedSummarizer>,
    by_command: bool,
    read_tool_name: String,
}

#[derive(Clone)]
struct SharedSummarizer(Arc<dyn Summarizer>);

impl fmt::Debug for SharedSummarizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Summarizer")
    }
}

/// Why a policy was refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The bands do not fit together.
    #[error(transparent)]
    Bands(#[from] BandError),
    /// An action stores returns, and there is nowhere to store them.
    #[error(
        "the policy stores returns ({action}), but no store is set; set one with `.store(…)`, or use bands that only truncate"
    )]
    NoStore {
        /// The chain that stores.
        action: String,
    },
    /// An action summarizes, and there is nothing to do it.
    #[error(
        "the policy summarizes returns ({action}), but no summarizer is set; set one with `.summarizer(…)`"
    )]
    NoSummarizer {
        /// The chain that summarizes.
        action: String,
    },
    /// A cut would have no room to say that it is one.
    #[error(
        "the policy truncates to {max_chars} characters, which leaves no room to say what was left out; allow {} at least",
        Truncate::MIN_CHARS
    )]
    TooShort {
        /// How many characters were to stay.
        max_chars: usize,
    },
    /// The read tool's name cannot be a tool's name.
    #[error(
        "{name:?} cannot be the read tool's name; use letters, digits, `_` and `-`, at most 64 of them"
    )]
    ReadToolName {
        /// The name as it was given.
        name: String,
    },
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            enabled: true,
            filter: ToolFilter::default(),
            bands: None,
            tool_bands: ToolBands::default(),
            unit: Unit::default(),
            strip_ansi: false,
            json: JsonStyle::default(),
            store: None,
            summarizer: None,
            by_command: false,
            read_tool_name: ReadTool::NAME.to_owned(),
        }
    }
}

impl Builder {
    /// Takes what a configuration file says, but for the store and the summarizer's prompt: the
    /// caller opens the one and gives the other to its
    /// [`PromptedSummarizer`](crate::summary::PromptedSummarizer).
    #[must_use]
    pub fn config(mut self, config: &Config) -> Self {
        self.enabled = config.enabled;
        self.filter = config.tools.clone();
        self.bands = Some(config.bands.iter().cloned().collect());
        self.tool_bands = config.tool_bands.clone();
        self.unit = config.unit.clone();
        self.strip_ansi = config.strip_ansi;
        self.json = config.json;
        self.read_tool_name = config.read_tool.clone();
        self
    }

    /// Turns everything off, or on again: while off, every return passes as it came.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// Which tools the policy applies to; all by default.
    #[must_use]
    pub fn tools(mut self, filter: ToolFilter) -> Self {
        self.filter = filter;
        self
    }

    /// The bands of every tool that has none of its own, in any order.
    #[must_use]
    pub fn bands(mut self, bands: impl IntoIterator<Item = Band>) -> Self {
        self.bands = Some(bands.into_iter().collect());
        self
    }

    /// The bands of the tools named; they replace the global ones for these.
    #[must_use]
    pub fn tool_bands(mut self, bands: ToolBands) -> Self {
        self.tool_bands = bands;
        self
    }

    /// What thresholds are measured in; characters by default.
    #[must_use]
    pub fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Whether terminal control sequences are taken out of what is measured and shown. What is
    /// stored keeps them.
    #[must_use]
    pub fn strip_ansi(mut self, strip: bool) -> Self {
        self.strip_ansi = strip;
        self
    }

    /// How structured values are written before they are measured and stored.
    #[must_use]
    pub fn json_style(mut self, style: JsonStyle) -> Self {
        self.json = style;
        self
    }

    /// Where payloads rest.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Who writes summaries.
    #[must_use]
    pub fn summarizer(mut self, summarizer: Arc<dyn Summarizer>) -> Self {
        self.summarizer = Some(SharedSummarizer(summarizer));
        self
    }

    /// The name under which the host registers the read tool; `read_tool_result` by default.
    #[must_use]
    pub fn read_tool_name(mut self, name: impl Into<String>) -> Self {
        self.read_tool_name = name.into();
        self
    }

    /// Markers say how to read by command line instead of by tool.
    #[must_use]
    pub fn read_by_command(mut self) -> Self {
        self.by_command = true;
        self
    }

    /// Checks the policy once, so that using it cannot fail.
    ///
    /// # Errors
    ///
    /// [`PolicyError`] where bands share a threshold, where an action needs a store or a
    /// summarizer that is not set, where one truncates to fewer characters than
    /// [`Truncate::MIN_CHARS`], and where the read tool's name is no name.
    pub fn build(self) -> Result<ToolOutputLimits, PolicyError> {
        let bands = match self.bands {
            Some(bands) => Bands::new(bands)?,
            None => Preset::Default.bands(&self.unit),
        };
        let all = bands.iter().chain(self.tool_bands.iter().flat_map(|(_, bands)| bands.iter()));
        for action in all.flat_map(|band| band.action.chain()).filter(|_| self.enabled) {
            let stores = matches!(action, Action::Spill(..) | Action::Summarize(..));
            if stores && self.store.is_none() {
                return Err(PolicyError::NoStore { action: action.to_string() });
            }
            if matches!(action, Action::Summarize(..)) && self.summarizer.is_none() {
                return Err(PolicyError::NoSummarizer { action: action.to_string() });
            }
            if let Action::Truncate(Truncate { max_chars, .. }, _) = *action
                && max_chars < Truncate::MIN_CHARS
            {
                return Err(PolicyError::TooShort { max_chars });
            }
        }
        let name = self.read_tool_name;
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_name) {
            return Err(PolicyError::ReadToolName { name });
        }
        Ok(ToolOutputLimits {
            policy: Arc::new(Policy {
                enabled: self.enabled,
                filter: self.filter,
                bands,
                tool_bands: self.tool_bands,
                unit: self.unit,
                strip_ansi: self.strip_ansi,
                json: self.json,
                store: self.store,
                summarizer: self.summarizer.map(|shared| shared.0),
                via: if self.by_command { ReadVia::Command } else { ReadVia::Tool(name.clone()) },
                read_tool: ReadTool::named(name),
            }),
        })
    }
}
