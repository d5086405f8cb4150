//! What `overspill.toml` says and means.
//!
//! Reading it takes two steps: what the file says, with the line of every key, and then what
//! that means. Both are pure: text goes in, a [`Config`] or every problem of the file comes out.
//! Where the file lies, what flags and the environment add, and where a store without a path
//! goes is for the program to decide.
//!
//! Every key, with its default where it has one:
//!
//! ```
//! let text = r##"
//! enabled = true                  # false: every byte passes as it came
//! preset = "default"              # default, lean: the bands, where none are given
//! unit = "characters"             # characters, estimated_tokens (characters / 4)
//! strip_ansi = false              # true: measure and show without terminal sequences
//! json = "compact"                # compact, indented, lines (one element of a list a line)
//! read_tool = "read_tool_result"  # the name under which the host registers the read tool
//!
//! [tools]                         # without it, all tools
//! only = ["bash", "mcp__*"]       # or: except = [...]; names or globs
//!
//! [[bands]]                       # given bands replace those of the preset
//! over = 2_000                    # the smallest size it applies to; the largest that fits wins
//! action = "truncate"             # nothing is stored
//! max_chars = 4_000               # the marker counted in
//! keep = "head_and_tail"          # head, tail, head_and_tail (40 % and 60 %)
//! keep_tail_lines = 0             # complete lines of the end that stay in any case
//!
//! [[bands]]
//! over = 10_000
//! action = "spill"                # the whole is stored
//! preview_chars = 1_000           # the excerpt that stays in view; 0: none
//! then = "truncate"               # what runs when it cannot, by its name...
//!
//! [[bands]]
//! over = 100_000
//! action = "summarize"            # the whole is stored, a model says what it is
//! then = { action = "spill", preview_chars = 500, then = "truncate" }  # ...or with options
//!
//! [[tool.bash.bands]]             # this tool's bands replace the others
//! over = 5_000
//! action = "spill"
//!
//! [[tool."mcp__*".bands]]         # so do a glob's; a name goes before a glob, and of globs the
//! over = 20_000                   # first in the file
//! action = "passthrough"          # as it is
//!
//! [summarize]
//! model = "openai:gpt-5-mini"     # openai:, anthropic:, ollama:; without it, the run's own model
//! base_url = "http://localhost:8000/v1"  # without it, the provider's own
//! api_key_env = "MY_KEY"          # the variable that holds the key, not the key
//! prompt = "What does this output of {tool_name} say?\n{output}"  # without it, a built-in one
//!
//! [store]
//! kind = "local"                  # local, memory
//! path = "spills"                 # without it, a folder of the user's
//!
//! [retention]                     # without it, everything is kept forever
//! max_age = "30d"                 # what is older goes: s, m, h, d, w
//! max_size = "10GB"               # the oldest go first, none of the last hour: KB, MB, GB, TB
//!
//! [mcp]                           # for `overspill mcp` alone
//! max_error = "100KB"             # results of calls that failed pass whole up to here
//! resources = false               # true: what resources/read gives is reduced too
//! handle_arguments = ["write_*"]  # the tools that may be given a handle; without it, none
//! bare_handles = false            # true: an argument that is just a handle counts as one
//! max_argument = "16MB"           # of payloads in the arguments of one call
//!
//! [mcp.listen]                    # where it listens for HTTP
//! token_env = "OVERSPILL_TOKEN"   # the variable with the bearer token that clients must send
//! hosts = ["proxy.example.org"]   # its names, beside those of the loopback interface
//! max_body = "16MB"               # of a request
//! max_sessions = 64
//!
//! [mcp.servers.files]             # a server that is started
//! command = "npx"
//! args = ["-y", "@modelcontextprotocol/server-filesystem", "/srv"]
//! cwd = "/srv"
//! env = { LOG_LEVEL = "warn" }
//!
//! [mcp.servers.tickets]           # a server over HTTP
//! url = "https://tickets.example.org/mcp"
//! token_env = "TICKETS_TOKEN"     # the variable with its bearer token
//! headers = { X-Team = "core" }
//! "##;
//! let config = overspill::config::Config::parse("overspill.toml", text)?;
//! assert_eq!(config.bands.iter().count(), 3);
//! assert_eq!(config.tool_bands.for_tool("bash").unwrap().largest().unwrap().over, 5_000);
//! assert!(!config.tools.applies_to("ask_user"));
//! assert_eq!(config.mcp.servers.len(), 2);
//! # Ok::<(), overspill::config::ConfigError>(())
//! ```

mod mcp;
mod problem;
mod raw;
mod report;
mod resolve;
mod section;

use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

pub use self::mcp::{McpConfig, McpListen, McpServer, McpTransport};
pub use self::problem::{ConfigError, Problem};
use self::raw::RawConfig;
use crate::action::{Action, Spill};
use crate::band::{Band, Bands};
use crate::cut::Truncate;
use crate::filter::{ToolBands, ToolFilter};
use crate::measure::{CHARS_PER_TOKEN, Unit};
use crate::render::JsonStyle;
use crate::store::Retention;
use crate::summary::{BaseUrl, ModelName, PromptTemplate};

/// A policy and a store, as a file or a program asked for them.
///
/// The fields are open: a program lays what its flags and its environment say over what the file
/// said. [`Config::default`] is what an empty file means. Displayed, it is a complete file that
/// means the same; serialized, it has the same shape.
#[derive(Debug, Clone)]
pub struct Config {
    /// Whether anything is done at all; when false, every byte passes as it came.
    pub enabled: bool,
    /// Where the bands come from that were not given.
    pub preset: Preset,
    /// What sizes are measured in. The bands' thresholds count in it too: after another unit,
    /// give other bands or call [`Config::use_preset`] again.
    pub unit: Unit,
    /// Whether terminal control sequences are taken out before measuring and showing.
    pub strip_ansi: bool,
    /// How structured values are written.
    pub json: JsonStyle,
    /// The name under which the host registers the read tool; markers repeat it.
    pub read_tool: String,
    /// The tools it applies to.
    pub tools: ToolFilter,
    /// From which size on, which action.
    pub bands: Bands,
    /// The bands of single tools, which replace `bands`.
    pub tool_bands: ToolBands,
    /// What a model is asked when it summarizes.
    pub prompt: PromptTemplate,
    /// Who is asked; `None` leaves the choice to the program: the model of the run.
    pub model: Option<ModelConfig>,
    /// Where payloads are stored.
    pub store: StoreConfig,
    /// How long they are kept there.
    pub retention: Retention,
    /// The servers behind the MCP proxy, and its bounds.
    pub mcp: McpConfig,
}

/// Bands that fit many agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preset {
    /// Stores what has 10,000 characters or more.
    #[default]
    Default,
    /// Stores what has 2,000 characters or more; for coding agents, whose runs are long.
    Lean,
}

/// A word that names no preset.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown preset {name:?}; there are \"default\" and \"lean\"")]
#[non_exhaustive]
pub struct UnknownPreset {
    /// The word.
    pub name: String,
}

/// The model that writes summaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelConfig {
    /// The model.
    pub model: ModelName,
    /// Where it is asked; `None` means the provider's own endpoint.
    pub base_url: Option<BaseUrl>,
    /// The name of the environment variable that holds the key. `None` means the provider's usual
    /// one, or, where a `base_url` is named, that no key is sent.
    pub api_key_env: Option<String>,
}

impl ModelConfig {
    /// The environment variable to read a key from; `None` where none is sent.
    ///
    /// ```
    /// use overspill::Config;
    ///
    /// let text = "[summarize]\nmodel = \"openai:gpt-5-mini\"\n";
    /// let model = Config::parse("f", text)?.model.unwrap();
    /// assert_eq!(model.key_variable(), Some("OPENAI_API_KEY"));
    ///
    /// let text = format!("{text}base_url = \"http://localhost:8000/v1\"\n");
    /// assert_eq!(Config::parse("f", &text)?.model.unwrap().key_variable(), None);
    /// # Ok::<(), overspill::config::ConfigError>(())
    /// ```
    pub fn key_variable(&self) -> Option<&str> {
        // Another endpoint gets the usual key of a provider only where somebody says so.
        let usual = self.model.provider.key_variable().filter(|_| self.base_url.is_none());
        self.api_key_env.as_deref().or(usual)
    }
}

/// Where payloads are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreConfig {
    /// In a folder of this machine.
    Local {
        /// The folder, as it was written; `None` leaves the choice to the program.
        path: Option<PathBuf>,
    },
    /// In memory, until the program ends.
    Memory,
}

impl Config {
    /// The name the read tool has unless a host needs another.
    pub const READ_TOOL: &str = "read_tool_result";

    /// Reads a configuration file's text; `file` is what errors call it.
    ///
    /// ```
    /// use overspill::config::Config;
    ///
    /// let text = "[[bands]]\nover = 10_000\naction = \"spill\"\npreveiw_chars = 500";
    /// let error = Config::parse("overspill.toml", text).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "overspill.toml:4: unknown key \"preveiw_chars\" in [[bands]]\n\
    ///      hint: did you mean \"preview_chars\"?"
    /// );
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with every problem of the text.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        let (raw, mut problems) = RawConfig::read(text);
        let config = resolve::resolve(&raw, &mut problems);
        if problems.is_empty() {
            return Ok(config);
        }
        problems.sort_by_key(|problem| problem.line);
        Err(ConfigError { file: file.to_owned(), problems })
    }

    /// Puts a preset's bands in the place of those for all tools; the bands of single tools stay.
    ///
    /// It is for a flag or a variable that names a preset: these go before the file, and so
    /// before the bands the file gives.
    pub fn use_preset(&mut self, preset: Preset) {
        self.preset = preset;
        self.bands = preset.bands(&self.unit);
    }
}

impl Default for Config {
    fn default() -> Self {
        resolve::resolve(&RawConfig::default(), &mut Vec::new())
    }
}

impl Preset {
    /// Every preset.
    pub const ALL: [Self; 2] = [Self::Default, Self::Lean];

    /// Its name, as the configuration writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Lean => "lean",
        }
    }

    /// Its bands. Where the unit is tokens, the thresholds are as many tokens as their characters
    /// are by estimate, so that a preset means about the same in every unit.
    pub fn bands(self, unit: &Unit) -> Bands {
        // 10,000 characters are about 2,500 tokens: what an agent reads without regret. The lean
        // preset stores all that is clearly longer than the excerpt and marker that replace it,
        // and what it cannot store it cuts to the size from which on it acts. Excerpts are longer than
        // those of a plain spill: on recorded sessions of coding agents they hold more of what is
        // named again, for a lower net cost, since less has to be read back. With a marker of 300
        // the lean one is 1,700.
        let (over_chars, preview_chars, truncate) = match self {
            Self::Default => (10_000, 2_000, Truncate::default()),
            Self::Lean => (2_000, 1_400, Truncate { max_chars: 2_000, ..Truncate::default() }),
        };
        let over = match unit {
            Unit::Characters => over_chars,
            Unit::EstimatedTokens | Unit::Tokens(_) => over_chars / CHARS_PER_TOKEN,
        };
        let action = Action::from(Spill { preview_chars }).or(truncate);
        // A single band has none to clash with.
        Bands::new([Band::new(over, action)]).unwrap_or_default()
    }
}

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(name: &str) -> Result<Self, UnknownPreset> {
        let preset = Self::ALL.into_iter().find(|preset| preset.name() == name);
        preset.ok_or_else(|| UnknownPreset { name: name.to_owned() })
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self::Local { path: None }
    }
}

#[cfg(test)]
mod tests;
