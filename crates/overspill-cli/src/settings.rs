//! What the flags, the environment and the file come to. Nothing else asks the
//! environment, but for what concerns colours.

mod project;

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_lite::future;
use overspill::config::{Config, ConfigError, Preset, StoreConfig};
use overspill::store::{BlobName, ByteRange, Retention, Slice, Stage, Store, StoreError};
use overspill::summary::{ModelName, NoModel, PromptedSummarizer, SummaryError, TextModel};
use overspill::{BoxFuture, Summarizer, Summary, ToolOutputLimits};
use overspill_model::HttpModel;
use overspill_store::{LocalStore, MemoryStore};
pub(crate) use project::ServerFiles;

use crate::cli;
use crate::failure::{Failure, USAGE};
use crate::model::Choice;
use crate::signals::Interrupt;

/// The file's name wherever it is looked for.
const FILE: &str = "overspill.toml";

/// The run that handles begin with when nobody names one. It is always the same, so that the same
/// output of the same command gives the same handle.
const RUN: &str = "cli";

const ONLY_A_SHELL: &str = "only a shell reads ~; write the whole path";

const NOT_OF_A_PROJECT: &str = "[retention] of a project's file does not count for a store that \
    other projects use too; name a store of its own under [store], or move it to the file in the \
    user's configuration folder";

/// What everything comes to.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// The file that was read, if there is one.
    pub(crate) file: Option<FoundFile>,
    /// The run that handles begin with, where somebody named one.
    run: Option<String>,
    pub(crate) store: StoreRoot,
    /// What goes before the file, and where it was said.
    pub(crate) overrides: Vec<(&'static str, Origin)>,
}

/// A configuration file and how it was found.
#[derive(Debug)]
pub(crate) struct FoundFile {
    pub(crate) path: PathBuf,
    pub(crate) origin: Origin,
}

/// Where the local store is, or why there is none.
#[derive(Debug)]
pub(crate) enum StoreRoot {
    At(PathBuf, Origin),
    /// The file asks for a store in memory.
    Memory,
    /// Nothing is said, and the user has no home to put it in.
    Homeless,
}

/// Where something was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag(&'static str),
    Argument,
    Environment(&'static str),
    File,
    CurrentFolder,
    FolderAbove,
    UserFolder,
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag(name) | Self::Environment(name) => name,
            Self::Argument => "named on the command line",
            Self::File => "the file",
            Self::CurrentFolder => "in the current directory",
            Self::FolderAbove => "in a directory above the current one",
            Self::UserFolder => "in the user's configuration folder",
            Self::Default => "the default",
        })
    }
}

/// Why settings cannot be used.
#[derive(Debug)]
pub(crate) enum SettingsError {
    /// The file is wrong; every problem has its line and its mend.
    File(ConfigError),
    Other(Failure),
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        match error {
            SettingsError::File(error) => Self::from(error).with_status(USAGE),
            SettingsError::Other(failure) => failure,
        }
    }
}

impl From<Failure> for SettingsError {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

impl Settings {
    /// For a command that only reads what is stored.
    pub(crate) fn of_reader(common: &cli::Common) -> Result<Self, Failure> {
        Ok(Self::load(common, &cli::Policy::default(), None)?)
    }

    /// Finds and reads the file, which `argument` names before anything else does, and lays the
    /// environment and the flags over it.
    pub(crate) fn load(
        common: &cli::Common,
        policy: &cli::Policy,
        argument: Option<&Path>,
    ) -> Result<Self, SettingsError> {
        let found = match argument {
            Some(path) => Some(FoundFile { path: path.to_owned(), origin: Origin::Argument }),
            None => find_file(common),
        };
        let (mut config, file) = match found {
            Some(FoundFile { path, origin }) => {
                let (config, file) = read_file(path, origin)?;
                (config, Some(file))
            }
            None => (Config::default(), None),
        };

        let mut overrides = Vec::new();
        let preset = match (policy.preset, text_variable("OVERSPILL_PRESET")?) {
            (Some(preset), _) => Some((preset, Origin::Flag("--preset"))),
            (None, Some(name)) => {
                let origin = Origin::Environment("OVERSPILL_PRESET");
                let preset: Preset =
                    name.parse().map_err(|error| wrong(origin, &format!("{error}")))?;
                Some((preset, origin))
            }
            (None, None) => None,
        };
        if let Some((preset, origin)) = preset {
            config.use_preset(preset);
            overrides.push(("preset", origin));
        }
        let enabled = match (policy.enabled, text_variable("OVERSPILL_ENABLED")?) {
            (Some(enabled), _) => Some((enabled, Origin::Flag("--enabled"))),
            (None, Some(word)) => {
                let origin = Origin::Environment("OVERSPILL_ENABLED");
                let enabled = match word.as_str() {
                    "true" | "1" => true,
                    "false" | "0" => false,
                    _ => return Err(wrong(origin, &format!("{word:?} is neither true nor false"))),
                };
                Some((enabled, origin))
            }
            (None, None) => None,
        };
        if let Some((enabled, origin)) = enabled {
            config.enabled = enabled;
            overrides.push(("enabled", origin));
        }

        let store = store_root(common, &config, file.as_ref());
        if let StoreRoot::At(path, _) = &store {
            config.store = StoreConfig::Local { path: Some(path.clone()) };
        }
        let run = match &policy.run_id {
            Some(run) => Some(run.clone()),
            None => text_variable("OVERSPILL_RUN")?,
        };
        Ok(Self { config, file, run, store, overrides })
    }

    /// When payloads expire; or why the file's limits do not count: they would for the whole store,
    /// and nobody's checkout deletes what other projects stored.
    pub(crate) fn retention(&self) -> Result<Retention, &'static str> {
        let retention = self.config.retention;
        let of_file = match &self.store {
            StoreRoot::At(path, Origin::File) => !is_shared(path),
            _ => false,
        };
        if self.is_of_project() && !of_file && !retention.is_forever() {
            return Err(NOT_OF_A_PROJECT);
        }
        Ok(retention)
    }

    /// The run that handles begin with.
    pub(crate) fn run(&self) -> &str {
        self.said_run().unwrap_or(RUN)
    }

    /// The run that somebody named.
    pub(crate) fn said_run(&self) -> Option<&str> {
        self.run.as_deref()
    }

    /// Opens the store, for a command that needs it.
    pub(crate) fn open_store(&self) -> Result<LocalStore, Failure> {
        match &self.store {
            StoreRoot::At(path, origin) => LocalStore::open(path).map_err(|error| {
                let place = format!("cannot use the store {} ({origin})", path.display());
                match error {
                    StoreError::Refused { what, .. } => Failure::usage(format!("{place}: {what}")),
                    error => Failure::from(error).context(place).with_status(USAGE),
                }
            }),
            StoreRoot::Memory => Err(Failure::usage(
                "the file asks for a store in memory, which ends with each command",
            )
            .hint("set `kind = \"local\"` under [store], or name a folder with --store DIR")),
            StoreRoot::Homeless => Err(Failure::usage(
                "there is no folder for the store: neither XDG_DATA_HOME nor HOME names one",
            )
            .hint("name a folder with --store DIR or OVERSPILL_STORE")),
        }
    }

    /// The model that writes summaries: the one the file names, else the run's own.
    pub(crate) fn model(&self, of_run: Option<&ModelName>) -> Result<HttpModel, Failure> {
        let is_own_file = !self.is_of_project();
        let choice = Choice { named: self.config.model.as_ref(), of_run, is_own_file };
        choice.model(text_variable)
    }

    /// Who writes summaries, until `interrupt` is asked for; or one who writes none, and why.
    pub(crate) fn summarizer(
        &self,
        interrupt: &Interrupt,
    ) -> (Arc<dyn Summarizer>, Option<Failure>) {
        match self.model(None) {
            Ok(model) => {
                let model = UntilInterrupted { model, interrupt: interrupt.clone() };
                let prompted = PromptedSummarizer::new(self.config.prompt.clone(), Arc::new(model));
                (Arc::new(prompted), None)
            }
            Err(failure) => {
                let nobody = NoModel::because(failure.to_string().replace('\n', "; "));
                (Arc::new(nobody), Some(failure))
            }
        }
    }

    /// The policy, for a command that must not fail because of its store or for want of a model;
    /// and the store it writes to, if that could be opened, which sweeps itself.
    ///
    /// A summary is given up when `interrupt` is asked for.
    pub(crate) fn limits(
        &self,
        interrupt: &Interrupt,
    ) -> Result<(ToolOutputLimits, Option<LocalStore>), Failure> {
        let retention = self.retention().unwrap_or_default();
        let opened = self.open_store().map(|store| store.with_retention(retention));
        let (store, local): (Arc<dyn Store>, _) = match opened {
            Ok(store) => (Arc::new(store.clone()), Some(store)),
            Err(failure) => (Arc::new(Closed::because(&failure)), None),
        };
        let (summarizer, _) = self.summarizer(interrupt);
        let limits = ToolOutputLimits::builder()
            .config(&self.config)
            .store(store)
            .summarizer(summarizer)
            .read_by_command()
            .build()
            .map_err(|error| Failure::from(error).with_status(USAGE))?;
        Ok((limits, local))
    }
}

impl Settings {
    /// The store, or one that refuses every write and the reason why; for a command that must not
    /// fail because of its store.
    pub(crate) fn store_or_closed(&self) -> (Arc<dyn Store>, Option<Failure>) {
        if let StoreRoot::Memory = self.store {
            return (Arc::new(MemoryStore::default()), None);
        }
        match self.open_store() {
            Ok(store) => {
                let retention = self.retention().unwrap_or_default();
                (Arc::new(store.with_retention(retention)), None)
            }
            Err(failure) => (Arc::new(Closed::because(&failure)), Some(failure)),
        }
    }
}

/// A store that could not be opened: it refuses every write, so that the next action of a chain
/// runs, with the reason in its warning.
#[derive(Debug)]
struct Closed {
    why: String,
}

impl Closed {
    fn because(failure: &Failure) -> Self {
        Self { why: failure.to_string().replace('\n', "; ") }
    }

    fn refuse<T>(&self) -> Result<T, StoreError> {
        Err(StoreError::Refused { what: self.why.clone(), source: None })
    }
}

impl Store for Closed {
    fn stage(&self) -> BoxFuture<'_, Result<Box<dyn Stage>, StoreError>> {
        Box::pin(async { self.refuse() })
    }

    fn read<'a>(
        &'a self,
        _: &'a BlobName,
        _: ByteRange,
    ) -> BoxFuture<'a, Result<Slice, StoreError>> {
        Box::pin(async { self.refuse() })
    }
}

/// A model that is waited for only until somebody asks to end.
#[derive(Debug)]
struct UntilInterrupted {
    model: HttpModel,
    interrupt: Interrupt,
}

impl TextModel for UntilInterrupted {
    fn complete<'a>(&'a self, prompt: &'a str) -> BoxFuture<'a, Result<Summary, SummaryError>> {
        let interrupted = async {
            self.interrupt.asked().await;
            Err(SummaryError::new(format!("{}: interrupted", self.model.name())))
        };
        Box::pin(future::or(self.model.complete(prompt), interrupted))
    }
}

fn find_file(common: &cli::Common) -> Option<FoundFile> {
    if let Some(path) = &common.config {
        return Some(FoundFile { path: path.clone(), origin: Origin::Flag("--config") });
    }
    if let Some(path) = variable("OVERSPILL_CONFIG") {
        let origin = Origin::Environment("OVERSPILL_CONFIG");
        return Some(FoundFile { path: path.into(), origin });
    }
    let users = user_file();
    // The user's own is that wherever one stands.
    let found = |path: PathBuf, origin| match &users {
        Some(users) if real(&path) == real(users) => FoundFile { path, origin: Origin::UserFolder },
        _ => FoundFile { path, origin },
    };
    if Path::new(FILE).exists() {
        return Some(found(FILE.into(), Origin::CurrentFolder));
    }
    let here = env::current_dir().ok();
    let above = here.iter().flat_map(|folder| folder.ancestors().skip(1));
    if let Some(path) = above.map(|folder| folder.join(FILE)).find(|path| path.exists()) {
        return Some(found(path, Origin::FolderAbove));
    }
    let path = users?;
    path.exists().then_some(FoundFile { path, origin: Origin::UserFolder })
}

/// Where the user's own file is, if there is one.
fn user_file() -> Option<PathBuf> {
    Some(user_folder("XDG_CONFIG_HOME", ".config")?.join(FILE))
}

fn read_file(path: PathBuf, origin: Origin) -> Result<(Config, FoundFile), SettingsError> {
    let name = path.display().to_string();
    let text = fs::read_to_string(&path).map_err(|error| {
        let missing = error.kind() == io::ErrorKind::NotFound;
        let failure = Failure::from(error)
            .context(format!("cannot read the configuration file {name} ({origin})"))
            .with_status(USAGE);
        match missing {
            true if path.starts_with("~") => failure.hint(ONLY_A_SHELL),
            true => failure.hint("name one that exists, or none for the defaults"),
            false => failure,
        }
    })?;
    let config = Config::parse(&name, &text).map_err(SettingsError::File)?;
    Ok((config, FoundFile { path, origin }))
}

fn store_root(common: &cli::Common, config: &Config, file: Option<&FoundFile>) -> StoreRoot {
    // Shown as an absolute path, it means the same wherever it is read. Where there is no current
    // directory to start from, it stays as it is, and opening it says why.
    let at =
        |path: PathBuf, origin| StoreRoot::At(std::path::absolute(&path).unwrap_or(path), origin);
    if let Some(path) = &common.store {
        return at(path.clone(), Origin::Flag("--store"));
    }
    if let Some(path) = variable("OVERSPILL_STORE") {
        return at(path.into(), Origin::Environment("OVERSPILL_STORE"));
    }
    match &config.store {
        StoreConfig::Local { path: Some(path) } => {
            let folder = file.and_then(|file| file.path.parent());
            let path = folder.map_or_else(|| path.clone(), |folder| folder.join(path));
            at(path, Origin::File)
        }
        StoreConfig::Local { path: None } => match user_folder("XDG_DATA_HOME", ".local/share") {
            Some(path) => StoreRoot::At(path, Origin::Default),
            None => StoreRoot::Homeless,
        },
        // A kind of store that this command line does not know is in no file that it can read.
        _ => StoreRoot::Memory,
    }
}

/// Whether a folder is the store that all projects share, by whatever name.
fn is_shared(store: &Path) -> bool {
    let shared = user_folder("XDG_DATA_HOME", ".local/share");
    shared.is_some_and(|shared| real(&shared) == real(store))
}

/// A path without links, where it leads somewhere.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Overspill's part of a folder of the user's: the one an XDG variable names, else its usual place
/// in the user's home. As the XDG specification has it, a relative path counts for nothing.
fn user_folder(variable_name: &str, in_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute(variable_name).or_else(|| Some(absolute("HOME")?.join(in_home)))?;
    Some(folder.join("overspill"))
}

fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

fn text_variable(name: &str) -> Result<Option<String>, Failure> {
    variable(name)
        .map(OsString::into_string)
        .transpose()
        .map_err(|_| Failure::usage(format!("{name} is not UTF-8")))
}

/// What a variable that the user named holds; it is a secret.
pub(crate) fn secret_variable(name: &str) -> Result<String, Failure> {
    match variable(name).map(OsString::into_string) {
        Some(Ok(secret)) => Ok(secret),
        Some(Err(_)) => Err(Failure::usage(format!("{name} is not UTF-8"))),
        None => {
            let what = if env::var_os(name).is_some() { "is empty" } else { "is not set" };
            Err(Failure::usage(format!("{name} {what}"))
                .hint(format!("put the token into the environment variable {name}")))
        }
    }
}

fn wrong(origin: Origin, what: &str) -> SettingsError {
    Failure::usage(format!("{origin}: {what}")).hint(format!("correct or unset {origin}")).into()
}
