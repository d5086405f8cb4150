//! Which formats recordings have, and how each is read.
//!
//! Formats are told apart by what is in a file, not by its name. To add one: a file that turns its
//! records into a [`Transcript`], a variant of [`Format`], a line in each `match` below, a test.

use std::borrow::Cow;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use regex::Regex;
use serde::Serialize;

use crate::error::ReadError;
use crate::json::Json;
use crate::session::Session;
use crate::transcript::Transcript;
use crate::yaml;

mod content;
mod messages;
mod claude_code;
mod codex;
mod inspect;
mod kimi;
mod langchain;
mod mini_swe;
mod oh_llm;
mod openhands;
mod pi;
mod specstory;
mod swe_agent;
mod vcr;

/// A way in which sessions are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Format {
    /// Claude Code, `~/.claude/projects/*/*.jsonl`.
    ClaudeCode,
    /// OpenAI Codex, `~/.codex/sessions/**/*.jsonl`.
    Codex,
    /// Logs of Inspect, in their JSON form.
    Inspect,
    /// Kimi Code.
    Kimi,
    /// Messages serialized by LangChain.
    Langchain,
    /// Trajectories of mini-SWE-agent.
    MiniSwe,
    /// One logged model request with its OpenAI Chat messages, of OpenHands, LiteLLM and others.
    OhLlm,
    /// Event lists of OpenHands.
    Openhands,
    /// Pi, `~/.pi/agent/sessions/**/*.jsonl`.
    Pi,
    /// Markdown exports of SpecStory.
    Specstory,
    /// Trajectories of SWE-agent.
    SweAgent,
    /// Cassettes of VCR, go-vcr and httpmock with requests to a model.
    Vcr,
}

/// What a file holds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Recording {
    /// How it was recorded.
    pub format: Format,
    /// Its lines that are not valid JSON and were passed over.
    pub skipped_lines: usize,
    /// Its sessions; none where the model never answered.
    pub sessions: Vec<Session>,
}

/// Records of a format, fed one by one.
trait Lines {
    /// Takes the next record.
    fn line(&mut self, line: &Json<'_>);
    /// Gives the conversations found.
    fn finish(self: Box<Self>) -> Vec<Transcript>;
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 12] = [
        Self::ClaudeCode,
        Self::Codex,
        Self::Inspect,
        Self::Kimi,
        Self::Langchain,
        Self::MiniSwe,
        Self::OhLlm,
        Self::Openhands,
        Self::Pi,
        Self::Specstory,
        Self::SweAgent,
        Self::Vcr,
    ];

    /// The name of the format, as figures and messages show it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude_code",
            Self::Codex => "codex",
            Self::Inspect => "inspect",
            Self::Kimi => "kimi",
            Self::Langchain => "langchain",
            Self::MiniSwe => "mini_swe",
            Self::OhLlm => "oh_llm",
            Self::Openhands => "openhands",
            Self::Pi => "pi",
            Self::Specstory => "specstory",
            Self::SweAgent => "swe_agent",
            Self::Vcr => "vcr",
        }
    }

    pub(crate) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Finds out how a file was recorded, by what is in it; `None` where it holds no recording of
    /// a known format.
    ///
    /// # Errors
    ///
    /// [`ReadError::Io`] where the file cannot be read, [`ReadError::Json`] where a document
    /// that must be read whole to be told apart is not valid.
    pub fn detect(path: &Path) -> Result<Option<Self>, ReadError> {
        Ok(match Shape::of(path)? {
            Shape::Lines(format) | Shape::Text(format) => Some(format),
            Shape::Document => Self::of_document(&document(path, &whole(path)?)?),
            Shape::Unknown => None,
        })
    }

    /// The format that has such records, one a line.
    fn of_line(line: &Json<'_>) -> Option<Self> {
        Some(match line {
            _ if !line.is_map() => return None,
            _ if codex::is_event(line) => Self::Codex,
            _ if kimi::is_event(line) => Self::Kimi,
            _ if claude_code::is_event(line) => Self::ClaudeCode,
            _ if pi::is_event(line) => Self::Pi,
            _ if openhands::is_run(line) => Self::Openhands,
            _ => return None,
        })
    }

    /// The format that has such documents.
    fn of_document(document: &Json<'_>) -> Option<Self> {
        Some(match document {
            _ if inspect::is_log(document) => Self::Inspect,
            _ if swe_agent::is_trajectory(document) => Self::SweAgent,
            _ if mini_swe::is_trajectory(document) => Self::MiniSwe,
            _ if openhands::is_run(document) => Self::Openhands,
            _ if langchain::is_dump(document) => Self::Langchain,
            _ if oh_llm::is_log(document) => Self::OhLlm,
            _ => return None,
        })
    }

    fn of_text(opening: &str) -> Option<Self> {
        if specstory::is_export(opening) {
            Some(Self::Specstory)
        } else {
            vcr::is_cassette(opening).then_some(Self::Vcr)
        }
    }

    fn lines(self) -> Option<Box<dyn Lines>> {
        Some(match self {
            Self::ClaudeCode => Box::<claude_code::ClaudeCode>::default(),
            Self::Codex => Box::<codex::Codex>::default(),
            Self::Kimi => Box::<kimi::Kimi>::default(),
            Self::Pi => Box::<pi::Pi>::default(),
            Self::Openhands => Box::<openhands::OpenHands>::default(),
            _ => return None,
        })
    }

    fn read_document(self, document: &Json<'_>) -> Vec<Transcript> {
        match self {
            Self::Inspect => inspect::read(document),
            Self::Langchain => langchain::read(document),
            Self::MiniSwe => mini_swe::read(document),
            Self::OhLlm => oh_llm::read(document),
            Self::Openhands => vec![openhands::read(document)],
            Self::SweAgent => swe_agent::read(document),
            Self::ClaudeCode
            | Self::Codex
            | Self::Kimi
            | Self::Pi
            | Self::Specstory
            | Self::Vcr => Vec::new(),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Reads every session of a file, or of all files below a folder. In a folder, files that hold no
/// recording are passed over.
///
/// Sessions in which the model never answered are left out: there is nothing to re-enact.
///
/// # Errors
///
/// [`ReadError`] where a file or folder cannot be read, a document is not valid, or a file that is
/// named itself holds no recording.
pub fn read(path: impl AsRef<Path>) -> Result<Vec<Session>, ReadError> {
    let path = path.as_ref();
    if !path.is_dir() {
        return Ok(recording(path)?.sessions);
    }
    let mut sessions = Vec::new();
    let found = files(path)?;
    if let Some(error) = found.unreadable.into_iter().next() {
        return Err(error);
    }
    for file in found.files {
        match recording(&file) {
            Ok(found) => sessions.extend(found.sessions),
            Err(ReadError::Unrecognized { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sessions)
}

/// What lies below a folder.
#[derive(Debug, Default)]
pub struct Files {
    /// The files that may hold recordings, in order of their names.
    pub files: Vec<PathBuf>,
    /// Why folders below it could not be looked into.
    pub unreadable: Vec<ReadError>,
}

/// The files that may hold recordings: the file itself, or all below a folder whose names end as
/// those of recordings do. Links to folders are not followed.
///
/// # Errors
///
/// [`ReadError::Io`] where the folder itself cannot be read.
pub fn files(path: impl AsRef<Path>) -> Result<Files, ReadError> {
    let path = path.as_ref();
    if !path.is_dir() {
        return Ok(Files { files: vec![path.to_owned()], unreadable: Vec::new() });
    }
    let mut found = Files::default();
    let mut folders = Vec::new();
    look_into(path, &mut found.files, &mut folders)?;
    while let Some(folder) = folders.pop() {
        let looked = look_into(&folder, &mut found.files, &mut folders);
        found.unreadable.extend(looked.err());
    }
    found.files.sort();
    Ok(found)
}

fn look_into(
    folder: &Path,
    files: &mut Vec<PathBuf>,
    folders: &mut Vec<PathBuf>,
) -> Result<(), ReadError> {
    for entry in fs::read_dir(folder).map_err(|source| io(folder, source))? {
        let entry = entry.map_err(|source| io(folder, source))?;
        let kind = entry.file_type().map_err(|source| io(folder, source))?;
        let path = entry.path();
        if kind.is_dir() {
            folders.push(path);
        } else if has_known_ending(&path) && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

fn has_known_ending(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ["jsonl", "json", "ndjson", "traj", "md", "yaml", "yml"]
        .iter()
        .any(|known| ending.eq_ignore_ascii_case(known))
}

/// Reads a file, and tells what there is beside its sessions.
///
/// # Errors
///
/// [`ReadError`] where the file cannot be read, is not valid, or holds no recording.
pub fn recording(path: impl AsRef<Path>) -> Result<Recording, ReadError> {
    let path = path.as_ref();
    let unrecognized = || ReadError::Unrecognized { path: path.to_owned() };
    let mut skipped_lines = 0;
    let (format, transcripts) = match Shape::of(path)? {
        Shape::Lines(format) => {
            let mut lines = format.lines().ok_or_else(unrecognized)?;
            skipped_lines = each_line(path, |line| {
                lines.line(line);
                true
            })?;
            (format, lines.finish())
        }
        Shape::Document => {
            let text = whole(path)?;
            let document = document(path, &text)?;
            let format = Format::of_document(&document).ok_or_else(unrecognized)?;
            (format, format.read_document(&document))
        }
        Shape::Text(format) => {
            let text = unix_lines(whole(path)?);
            let transcripts = match format {
                Format::Vcr => vcr::read(&yaml::parse(&text).map_err(|error| ReadError::Yaml {
                    path: path.to_owned(),
                    line: error.line,
                    reason: error.reason,
                })?),
                _ => specstory::read(&text),
            };
            (format, transcripts)
        }
        Shape::Unknown => return Err(unrecognized()),
    };
    let sessions = transcripts
        .into_iter()
        .enumerate()
        .filter_map(|(place, transcript)| transcript.into_session(path, format, place))
        .map(|mut session| {
            session.skipped_lines = skipped_lines;
            session
        })
        .collect();
    Ok(Recording { format, skipped_lines, sessions })
}

/// What a file is made of, as far as its opening tells.
enum Shape {
    /// One JSON record a line.
    Lines(Format),
    /// One JSON document.
    Document,
    /// Text that is not JSON.
    Text(Format),
    Unknown,
}

/// How many records are looked at to find out the format: events that many formats share can
/// stand before the first that is telling.
const TELLING_LINES: usize = 50;
/// How much of a text is looked at.
const OPENING: u64 = 64 * 1024;

impl Shape {
    fn of(path: &Path) -> Result<Self, ReadError> {
        let mut file = File::open(path).map_err(|source| io(path, source))?;
        let mut opening = Vec::new();
        file.by_ref()
            .take(OPENING)
            .read_to_end(&mut opening)
            .and_then(|_| file.rewind())
            .map_err(|source| io(path, source))?;
        let opening = String::from_utf8_lossy(&opening);
        let first = opening.trim_start_matches('\u{feff}').trim_start().chars().next();
        if !matches!(first, Some('{' | '[')) {
            return Ok(Format::of_text(&opening).map_or(Self::Unknown, Self::Text));
        }
        let mut format = None;
        let mut left = TELLING_LINES;
        each_line(path, |line| {
            format = Format::of_line(line);
            left -= 1;
            format.is_none() && left > 0
        })?;
        Ok(format.map_or(Self::Document, Self::Lines))
    }
}

/// Calls `each` with every line that is valid JSON, until it returns false. Counts the others.
fn each_line(path: &Path, mut each: impl FnMut(&Json<'_>) -> bool) -> Result<usize, ReadError> {
    let file = File::open(path).map_err(|source| io(path, source))?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut line = Vec::new();
    let mut skipped = 0;
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(|source| io(path, source))? == 0 {
            return Ok(skipped);
        }
        let text = lossy(&line);
        let text = strip(text.trim_start_matches('\u{feff}'));
        if text.is_empty() {
            continue;
        }
        match Json::parse(text) {
            Ok(value) => {
                if !each(&value) {
                    return Ok(skipped);
                }
            }
            Err(_) => skipped += 1,
        }
    }
}

fn whole(path: &Path) -> Result<String, ReadError> {
    let bytes = fs::read(path).map_err(|source| io(path, source))?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| lossy(error.as_bytes()).into_owned()))
}

/// The text with U+FFFD for what is not UTF-8; fast where all of it is.
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

fn document<'t>(path: &Path, text: &'t str) -> Result<Json<'t>, ReadError> {
    Json::parse(text.trim_start_matches('\u{feff}')).map_err(|source| ReadError::Json {
        path: path.to_owned(),
        line: source.line(),
        source,
    })
}

/// The text with the line ends of every system written as `\n`.
fn unix_lines(text: String) -> String {
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text }
}

fn io(path: &Path, source: std::io::Error) -> ReadError {
    ReadError::Io { path: path.to_owned(), source }
}

/// The text without white space around it, as Python's `strip` understands it.
fn strip(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c))
}

/// A pattern that is written in this crate.
#[expect(clippy::unwrap_used, reason = "the patterns are constants; the tests compile each")]
fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap()
}
