//! What a configuration file says: its keys and values with their lines, and nothing concluded.
//!
//! The file is walked by hand rather than through serde because serde ends at the first problem,
//! and whoever writes a configuration wants to see all of them.

use std::cell::RefCell;

use toml::de::{DeTable, DeValue};

use super::problem::{Problem, did_you_mean, quoted};

/// The longest chain a file can hold. TOML's own nesting ends at 80; the bound is here so that
/// keys with dots cannot go around it.
const MAX_CHAIN: usize = 64;

/// The file, key by key.
#[derive(Debug, Default)]
pub(super) struct RawConfig {
    pub(super) enabled: Said<bool>,
    pub(super) preset: Said<String>,
    pub(super) unit: Said<String>,
    pub(super) strip_ansi: Said<bool>,
    pub(super) json: Said<String>,
    pub(super) read_tool: Said<String>,
    pub(super) only: Said<Vec<Given<String>>>,
    pub(super) except: Said<Vec<Given<String>>>,
    pub(super) bands: Said<Vec<RawBand>>,
    /// In the order of the file.
    pub(super) tools: Vec<(Given<String>, Vec<RawBand>)>,
    pub(super) prompt: Said<String>,
    pub(super) store_kind: Said<String>,
    pub(super) store_path: Said<String>,
}

/// One `[[bands]]` entry.
#[derive(Debug)]
pub(super) struct RawBand {
    /// Where the entry starts.
    pub(super) at: At,
    pub(super) over: Said<u64>,
    /// The band's action and those behind its `then`s; never empty.
    pub(super) chain: Vec<RawAction>,
}

/// An action's name and every option that any action has.
#[derive(Debug)]
pub(super) struct RawAction {
    /// Where it starts: the band, or the `then` it stands under.
    pub(super) at: At,
    pub(super) action: Said<String>,
    pub(super) preview_chars: Said<usize>,
    pub(super) max_chars: Said<usize>,
    pub(super) keep: Said<String>,
    pub(super) keep_tail_lines: Said<usize>,
}

/// What the file says under a key.
#[derive(Debug, Default)]
pub(super) enum Said<T> {
    /// Nothing.
    #[default]
    Nothing,
    /// Something that was refused; the problem is reported already.
    Nonsense(At),
    /// This.
    This(Given<T>),
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Given<T> {
    pub(super) value: T,
    pub(super) at: At,
}

/// Where something stands.
#[derive(Debug, Clone, Default)]
pub(super) struct At {
    pub(super) line: usize,
    /// The full key: `bands[0].over`.
    pub(super) key: String,
    /// As a message calls it: `"over" in [[bands]]`, or `[[bands]]` itself.
    pub(super) name: String,
}

impl At {
    pub(super) fn problem(&self, message: impl Into<String>, hint: impl Into<String>) -> Problem {
        let (message, hint) = (message.into(), hint.into());
        Problem { line: self.line, key: self.key.clone(), message, hint }
    }
}

impl<T> Said<T> {
    /// What was said, if it was said and made sense.
    pub(super) fn given(&self) -> Option<&Given<T>> {
        match self {
            Self::This(given) => Some(given),
            _ => None,
        }
    }

    /// Where it was said, whether or not it made sense.
    pub(super) fn at(&self) -> Option<&At> {
        match self {
            Self::Nothing => None,
            Self::Nonsense(at) | Self::This(Given { at, .. }) => Some(at),
        }
    }
}

impl RawConfig {
    /// Reads a file's text; what is not understood is left out and told of.
    pub(super) fn read(text: &str) -> (Self, Vec<Problem>) {
        let source = Source::new(text);
        let (table, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            let raw = Self::from_table(table.into_inner(), &source);
            return (raw, source.problems.into_inner());
        }
        // What was recovered from text that is not TOML would only repeat these problems.
        for error in errors {
            source.syntax_problem(&error);
        }
        let mut problems = source.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        problems.dedup_by_key(|problem| problem.line);
        (Self::default(), problems)
    }

    fn from_table(table: DeTable<'_>, source: &Source<'_>) -> Self {
        let mut root = Section::root(table, source);
        let mut raw = Self {
            enabled: root.boolean("enabled"),
            preset: root.text("preset"),
            unit: root.text("unit"),
            strip_ansi: root.boolean("strip_ansi"),
            json: root.text("json"),
            read_tool: root.text("read_tool"),
            ..Self::default()
        };
        if let Some(mut tools) = root.table("tools") {
            raw.only = tools.texts("only");
            raw.except = tools.texts("except");
            tools.close();
        }
        raw.bands = root.bands();
        if let Some(tool) = root.table("tool") {
            for (name, mut of_tool) in tool.tables() {
                match of_tool.bands() {
                    Said::This(bands) => raw.tools.push((name, bands.value)),
                    Said::Nonsense(_) => {}
                    Said::Nothing => source.tell(name.at.problem(
                        format!("{} lacks \"bands\"", name.at.name),
                        format!("write [[{}.bands]]; a name with dots needs quotes", name.at.key),
                    )),
                }
                of_tool.close();
            }
        }
        if let Some(mut summarize) = root.table("summarize") {
            raw.prompt = summarize.text("prompt");
            summarize.close();
        }
        if let Some(mut store) = root.table("store") {
            raw.store_kind = store.text("kind");
            raw.store_path = store.text("path");
            store.close();
        }
        root.close();
        raw
    }
}

impl RawBand {
    fn read(mut section: Section<'_, '_>) -> Self {
        let (at, source) = (section.at.clone(), section.source);
        let over = section.count("over");
        let mut chain = Vec::new();
        // A loop and not a recursion: a chain may be long.
        loop {
            let head = section.at.clone();
            chain.push(RawAction {
                at: head,
                action: section.text("action"),
                preview_chars: section.count("preview_chars"),
                max_chars: section.count("max_chars"),
                keep: section.text("keep"),
                keep_tail_lines: section.count("keep_tail_lines"),
            });
            let then = section.take("then");
            let band = at.name.clone();
            section.close();
            let Some((at, value)) = then else { break };
            if chain.len() == MAX_CHAIN {
                source.tell(at.problem(
                    format!("a chain of more than {MAX_CHAIN} actions in {band}"),
                    "leave the last ones out",
                ));
                break;
            }
            match value {
                DeValue::String(name) => {
                    chain.push(RawAction::named(at, name.into_owned()));
                    break;
                }
                DeValue::Table(table) => {
                    let name = format!("then of {band}");
                    section = Section::new(table, At { name, ..at }, source);
                }
                other => {
                    source.wrong_type(
                        &at,
                        "an action's name or a table",
                        &other,
                        "write then = \"truncate\", or then = { action = \"truncate\", … }",
                    );
                    break;
                }
            }
        }
        Self { at, over, chain }
    }
}

impl RawAction {
    /// An action of which the file gives only the name.
    fn named(at: At, name: String) -> Self {
        Self {
            action: Said::This(Given { value: name, at: at.clone() }),
            at,
            preview_chars: Said::Nothing,
            max_chars: Said::Nothing,
            keep: Said::Nothing,
            keep_tail_lines: Said::Nothing,
        }
    }
}

/// The text's lines, and the problems found so far.
struct Source<'i> {
    text: &'i str,
    /// Where each line but the first starts.
    line_starts: Vec<usize>,
    problems: RefCell<Vec<Problem>>,
}

impl<'i> Source<'i> {
    fn new(text: &'i str) -> Self {
        let line_starts = memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1).collect();
        Self { text, line_starts, problems: RefCell::default() }
    }

    /// The number of the line, from 1, that a byte stands on.
    fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset) + 1
    }

    fn tell(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    fn syntax_problem(&self, error: &toml::de::Error) {
        let line = error.span().map_or(1, |span| self.line(span.start));
        let (message, hint) = match error.message() {
            "duplicate key" => {
                let key = error.span().and_then(|span| self.text.get(span)).unwrap_or_default();
                (format!("the key {} stands twice", quoted(key)), "keep one of the two")
            }
            message => (
                format!("not TOML: {}", message.split_whitespace().collect::<Vec<_>>().join(" ")),
                "write key = value with texts in quotes; https://toml.io has the rules",
            ),
        };
        self.tell(Problem { line, key: String::new(), message, hint: hint.to_owned() });
    }

    fn wrong_type(&self, at: &At, wanted: &str, found: &DeValue<'_>, hint: &str) {
        let found = match found {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a number",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.tell(at.problem(format!("{} must be {wanted}, not {found}", at.name), hint));
    }
}

/// A table that is being read; what is not taken from it when it is closed is unknown.
struct Section<'s, 'i> {
    table: DeTable<'i>,
    at: At,
    source: &'s Source<'s>,
    known: Vec<&'static str>,
}

impl<'s, 'i> Section<'s, 'i> {
    fn root(table: DeTable<'i>, source: &'s Source<'s>) -> Self {
        Self::new(table, At { line: 1, ..At::default() }, source)
    }

    fn new(table: DeTable<'i>, at: At, source: &'s Source<'s>) -> Self {
        Self { table, at, source, known: Vec::new() }
    }

    /// Takes what stands under `key`, and remembers that the section knows it.
    fn take(&mut self, key: &'static str) -> Option<(At, DeValue<'i>)> {
        self.known.push(key);
        let (name, value) = self.table.remove_entry(key)?;
        Some((self.at_key(key, name.span().start), value.into_inner()))
    }

    fn at_key(&self, key: &str, offset: usize) -> At {
        let line = self.source.line(offset);
        if self.at.key.is_empty() {
            return At { line, key: key_text(key), name: quoted(key) };
        }
        let name = format!("{} in {}", quoted(key), self.at.name);
        At { line, key: format!("{}.{}", self.at.key, key_text(key)), name }
    }

    fn read<T>(
        &mut self,
        key: &'static str,
        wanted: &str,
        hint: &str,
        convert: impl FnOnce(DeValue<'i>) -> Result<T, DeValue<'i>>,
    ) -> Said<T> {
        let Some((at, value)) = self.take(key) else { return Said::Nothing };
        match convert(value) {
            Ok(value) => Said::This(Given { value, at }),
            Err(value) => {
                self.source.wrong_type(&at, wanted, &value, hint);
                Said::Nonsense(at)
            }
        }
    }

    fn boolean(&mut self, key: &'static str) -> Said<bool> {
        let hint = format!("write {key} = true or {key} = false, without quotes");
        self.read(key, "true or false", &hint, |value| match value {
            DeValue::Boolean(value) => Ok(value),
            other => Err(other),
        })
    }

    fn text(&mut self, key: &'static str) -> Said<String> {
        let hint = format!("write {key} = \"…\", in quotes");
        self.read(key, "a text", &hint, |value| match value {
            DeValue::String(value) => Ok(value.into_owned()),
            other => Err(other),
        })
    }

    /// Reads a whole number that is not negative.
    fn count<N: TryFrom<u64>>(&mut self, key: &'static str) -> Said<N> {
        const HINT: &str = "write a whole number, such as 10_000";
        let number = self.read(key, "a whole number", HINT, |value| match value {
            DeValue::Integer(value) => Ok(value),
            other => Err(other),
        });
        let Said::This(Given { value, at }) = number else {
            return number.at().map_or(Said::Nothing, |at| Said::Nonsense(at.clone()));
        };
        match u64::from_str_radix(value.as_str(), value.radix()).map(N::try_from) {
            Ok(Ok(value)) => Said::This(Given { value, at }),
            _ => {
                let fault = if value.as_str().starts_with('-') { "negative" } else { "too big" };
                self.source.tell(at.problem(format!("{} is {fault}", at.name), HINT));
                Said::Nonsense(at)
            }
        }
    }

    fn texts(&mut self, key: &'static str) -> Said<Vec<Given<String>>> {
        let hint = format!("write {key} = [\"…\", \"…\"]");
        let list = self.read(key, "a list of texts", &hint, |value| match value {
            DeValue::Array(list) => Ok(list),
            other => Err(other),
        });
        let Said::This(Given { value: list, at }) = list else {
            return list.at().map_or(Said::Nothing, |at| Said::Nonsense(at.clone()));
        };
        let mut texts = Vec::new();
        let mut sound = true;
        for (i, item) in list.into_iter().enumerate() {
            let line = self.source.line(item.span().start);
            let at = At { line, key: format!("{}[{i}]", at.key), name: at.name.clone() };
            match item.into_inner() {
                DeValue::String(value) => texts.push(Given { value: value.into_owned(), at }),
                other => {
                    self.source.wrong_type(&at, "a list of texts", &other, &hint);
                    sound = false;
                }
            }
        }
        if sound || !texts.is_empty() {
            Said::This(Given { value: texts, at })
        } else {
            Said::Nonsense(at)
        }
    }

    fn table(&mut self, key: &'static str) -> Option<Section<'s, 'i>> {
        let hint = format!("write [{key}] on a line of its own and its keys below");
        let table = self.read(key, "a table", &hint, |value| match value {
            DeValue::Table(table) => Ok(table),
            other => Err(other),
        });
        match table {
            Said::This(Given { value, at }) => {
                let name = format!("[{}]", at.key);
                Some(Section::new(value, At { name, ..at }, self.source))
            }
            _ => None,
        }
    }

    /// Every table in this one under its name, in the order of the file.
    fn tables(mut self) -> Vec<(Given<String>, Section<'s, 'i>)> {
        let mut entries: Vec<_> = std::mem::take(&mut self.table).into_iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let mut tables = Vec::new();
        for (name, value) in entries {
            let at = self.at_key(name.get_ref(), name.span().start);
            match value.into_inner() {
                DeValue::Table(table) => {
                    let at = At { name: format!("[{}]", at.key), ..at };
                    let section = Section::new(table, at.clone(), self.source);
                    tables.push((Given { value: name.into_inner().into_owned(), at }, section));
                }
                other => {
                    let hint = format!("write [[{}.bands]] and the band's keys below", at.key);
                    self.source.wrong_type(&at, "a table", &other, &hint);
                }
            }
        }
        tables
    }

    /// Reads the `bands` of the policy or of a tool.
    fn bands(&mut self) -> Said<Vec<RawBand>> {
        let key = self.at_key("bands", 0).key;
        let header = format!("[[{key}]]");
        let hint = format!("write {header}, with two brackets, before each band");
        let list = self.read("bands", "a list of tables", &hint, |value| match value {
            DeValue::Array(list) => Ok(list),
            other => Err(other),
        });
        let Said::This(Given { value: list, at }) = list else {
            return list.at().map_or(Said::Nothing, |at| Said::Nonsense(at.clone()));
        };
        let mut bands = Vec::new();
        for (i, item) in list.into_iter().enumerate() {
            let line = self.source.line(item.span().start);
            let at = At { line, key: format!("{key}[{i}]"), name: header.clone() };
            match item.into_inner() {
                DeValue::Table(table) => {
                    bands.push(RawBand::read(Section::new(table, at, self.source)));
                }
                other => self.source.wrong_type(&at, "a list of tables", &other, &hint),
            }
        }
        Said::This(Given { value: bands, at })
    }

    /// Refuses every key that was not asked for.
    fn close(self) {
        for (name, _) in &self.table {
            let key = name.get_ref();
            let at = self.at_key(key, name.span().start);
            let place = if self.at.key.is_empty() { " at the top level" } else { "" };
            self.source.tell(at.problem(
                format!("unknown key {}{place}", at.name),
                did_you_mean(key, &self.known, "known keys:"),
            ));
        }
    }
}

/// A key as TOML writes it: bare where it can be, else in quotes.
pub(super) fn key_text(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(bare) { key.to_owned() } else { quoted(key) }
}
