//! Reads tables key by key, and tells of everything in them that is not understood.
//!
//! The file is walked by hand rather than through serde because serde ends at the first problem,
//! and whoever writes a configuration wants to see all of them.

use std::cell::RefCell;

use toml::de::{DeTable, DeValue};

use super::problem::{Problem, did_you_mean, quoted};

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

    /// The same with the value made into another.
    pub(super) fn map<U>(self, convert: impl FnOnce(T) -> U) -> Said<U> {
        match self {
            Self::Nothing => Said::Nothing,
            Self::Nonsense(at) => Said::Nonsense(at),
            Self::This(Given { value, at }) => Said::This(Given { value: convert(value), at }),
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

/// The text's lines, and the problems found so far.
pub(super) struct Source<'i> {
    text: &'i str,
    /// Where each line but the first starts.
    line_starts: Vec<usize>,
    problems: RefCell<Vec<Problem>>,
}

impl<'i> Source<'i> {
    pub(super) fn new(text: &'i str) -> Self {
        let line_starts = memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1).collect();
        Self { text, line_starts, problems: RefCell::default() }
    }

    /// The number of the line, from 1, that a byte stands on.
    fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset) + 1
    }

    /// The problems told of.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }

    pub(super) fn tell(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    pub(super) fn syntax_problem(&self, error: &toml::de::Error) {
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

    pub(super) fn wrong_type(&self, at: &At, wanted: &str, found: &DeValue<'_>, hint: &str) {
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
pub(super) struct Section<'s, 'i> {
    table: DeTable<'i>,
    pub(super) at: At,
    pub(super) source: &'s Source<'s>,
    known: Vec<&'static str>,
}

impl<'s, 'i> Section<'s, 'i> {
    pub(super) fn root(table: DeTable<'i>, source: &'s Source<'s>) -> Self {
        Self::new(table, At { line: 1, ..At::default() }, source)
    }

    pub(super) fn new(table: DeTable<'i>, at: At, source: &'s Source<'s>) -> Self {
        Self { table, at, source, known: Vec::new() }
    }

    /// Takes what stands under `key`, and remembers that the section knows it.
    pub(super) fn take(&mut self, key: &'static str) -> Option<(At, DeValue<'i>)> {
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

    pub(super) fn boolean(&mut self, key: &'static str) -> Said<bool> {
        let hint = format!("write {key} = true or {key} = false, without quotes");
        self.read(key, "true or false", &hint, |value| match value {
            DeValue::Boolean(value) => Ok(value),
            other => Err(other),
        })
    }

    pub(super) fn text(&mut self, key: &'static str) -> Said<String> {
        let hint = format!("write {key} = \"…\", in quotes");
        self.read(key, "a text", &hint, |value| match value {
            DeValue::String(value) => Ok(value.into_owned()),
            other => Err(other),
        })
    }

    /// Reads a whole number that is not negative.
    pub(super) fn count<N: TryFrom<u64>>(&mut self, key: &'static str) -> Said<N> {
        const HINT: &str = "write a whole number, such as 10_000";
        let number = self.read(key, "a whole number", HINT, |value| match value {
            DeValue::Integer(value) => Ok(value),
            other => Err(other),
        });
        let Given { value, at } = match number {
            Said::Nothing => return Said::Nothing,
            Said::Nonsense(at) => return Said::Nonsense(at),
            Said::This(given) => given,
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

    pub(super) fn texts(&mut self, key: &'static str) -> Said<Vec<Given<String>>> {
        let hint = format!("write {key} = [\"…\", \"…\"]");
        match self.list(key, "a list of texts", &hint) {
            Said::Nothing => Said::Nothing,
            Said::Nonsense(at) => Said::Nonsense(at),
            Said::This(Given { value: list, at }) => {
                let was_empty = list.is_empty();
                let mut texts = Vec::new();
                for (i, (line, item)) in list.into_iter().enumerate() {
                    let key = format!("{}[{i}]", at.key);
                    let at = At { line, key, name: at.name.clone() };
                    match item {
                        DeValue::String(text) => texts.push(Given { value: text.into_owned(), at }),
                        other => self.source.wrong_type(&at, "a list of texts", &other, &hint),
                    }
                }
                // A list of other things is not an empty list.
                if texts.is_empty() && !was_empty {
                    return Said::Nonsense(at);
                }
                Said::This(Given { value: texts, at })
            }
        }
    }

    /// Reads a list of tables, `[[key]]`.
    pub(super) fn list_of_tables(&mut self, key: &'static str) -> Said<Vec<Self>> {
        let full_key = self.at_key(key, 0).key;
        let header = format!("[[{full_key}]]");
        let hint = format!("write {header}, with two brackets, before each entry");
        let source = self.source;
        self.list(key, "a list of tables", &hint).map(|list| {
            let mut tables = Vec::new();
            for (i, (line, item)) in list.into_iter().enumerate() {
                let at = At { line, key: format!("{full_key}[{i}]"), name: header.clone() };
                match item {
                    DeValue::Table(table) => tables.push(Self::new(table, at, source)),
                    other => source.wrong_type(&at, "a list of tables", &other, &hint),
                }
            }
            tables
        })
    }

    /// Reads a list, each item with its line.
    fn list(
        &mut self,
        key: &'static str,
        wanted: &str,
        hint: &str,
    ) -> Said<Vec<(usize, DeValue<'i>)>> {
        let source = self.source;
        self.read(key, wanted, hint, |value| match value {
            DeValue::Array(list) => Ok(list
                .into_iter()
                .map(|item| (source.line(item.span().start), item.into_inner()))
                .collect()),
            other => Err(other),
        })
    }

    pub(super) fn table(&mut self, key: &'static str) -> Option<Self> {
        let hint = format!("write [{key}] on a line of its own and its keys below");
        let table = self.read(key, "a table", &hint, |value| match value {
            DeValue::Table(table) => Ok(table),
            other => Err(other),
        });
        match table {
            Said::This(Given { value, at }) => {
                let name = format!("[{}]", at.key);
                Some(Self::new(value, At { name, ..at }, self.source))
            }
            _ => None,
        }
    }

    /// Every table in this one under its name, in the order of the file.
    pub(super) fn named_tables(
        mut self,
        hint: impl Fn(&str) -> String,
    ) -> Vec<(Given<String>, Self)> {
        let mut entries: Vec<_> = std::mem::take(&mut self.table).into_iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let mut tables = Vec::new();
        for (name, value) in entries {
            let at = self.at_key(name.get_ref(), name.span().start);
            match value.into_inner() {
                DeValue::Table(table) => {
                    let at = At { name: format!("[{}]", at.key), ..at };
                    let section = Self::new(table, at.clone(), self.source);
                    tables.push((Given { value: name.into_inner().into_owned(), at }, section));
                }
                other => {
                    let hint = hint(&at.key);
                    self.source.wrong_type(&at, "a table", &other, &hint);
                }
            }
        }
        tables
    }

    /// Every text in this table under its key, in the order of the file.
    pub(super) fn all_texts(mut self) -> Vec<(String, String)> {
        let mut entries: Vec<_> = std::mem::take(&mut self.table).into_iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let mut texts = Vec::new();
        for (name, value) in entries {
            let at = self.at_key(name.get_ref(), name.span().start);
            match value.into_inner() {
                DeValue::String(text) => {
                    texts.push((name.into_inner().into_owned(), text.into_owned()));
                }
                other => self.source.wrong_type(&at, "a text", &other, "write it in quotes"),
            }
        }
        texts
    }

    /// Refuses every key that was not asked for.
    pub(super) fn close(self) {
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
fn key_text(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(bare) { key.to_owned() } else { quoted(key) }
}
