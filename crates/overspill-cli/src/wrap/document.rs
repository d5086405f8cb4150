//! A client's configuration as it is written, in JSON with comments or in TOML: which servers it
//! has, and changes that leave all else as it was.

use std::path::Path;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, TableLike};

use super::Client;
use super::entry::Edit;
use super::left::Left;

/// Where the tables of servers are, and whose they are: Claude, Cursor, Windsurf and Gemini have the
/// first; VS Code the second in `mcp.json` and the third in its settings; Zed the fourth.
const JSON_TABLES: [(&[&str], Client); 4] = [
    (&["mcpServers"], Client::Unknown),
    (&["servers"], Client::Usual),
    (&["mcp", "servers"], Client::Usual),
    (&["context_servers"], Client::Usual),
];

/// Claude Code has a table of servers for each project as well.
const PROJECTS: &str = "projects";

/// Codex.
const TOML_TABLE: &str = "mcp_servers";

/// What the file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    Json,
    Toml,
}

impl Syntax {
    /// What a file of that name is written in.
    pub(crate) fn of(path: &Path) -> Self {
        match path.extension().is_some_and(|extension| extension == "toml") {
            true => Self::Toml,
            false => Self::Json,
        }
    }
}

/// The configuration, read.
pub(crate) enum Document {
    /// With the byte order mark that stood before it.
    Json(&'static str, CstRootNode),
    /// With how its lines end, and whether the last one does.
    Toml(DocumentMut, &'static str, bool),
}

/// One server.
pub(crate) struct Server {
    /// Its name, and before it its project's, where it has one.
    pub(crate) name: String,
    pub(crate) entry: Map<String, Value>,
    /// How many of the same name stand before it.
    nth: usize,
    /// Why it cannot be changed, whatever it says.
    pub(crate) fault: Option<Left>,
    /// Who reads it, as far as the table tells in which it is.
    pub(crate) client: Client,
    place: Place,
}

impl Server {
    /// Whether it is the other one in another text of the same configuration.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (&self.name, self.nth) == (&other.name, other.nth)
    }
}

#[derive(Clone)]
enum Place {
    Json(CstObject),
    Toml(String, Item),
}

impl Document {
    /// Reads a configuration; the error says where it is wrong.
    pub(crate) fn parse(syntax: Syntax, text: &str) -> Result<Self, String> {
        match syntax {
            Syntax::Json => {
                let (mark, text) = match text.strip_prefix('\u{feff}') {
                    Some(rest) => ("\u{feff}", rest),
                    None => ("", text),
                };
                let root = CstRootNode::parse(text, &ParseOptions::default());
                Ok(Self::Json(mark, root.map_err(|error| error.to_string())?))
            }
            Syntax::Toml => {
                let document: Result<DocumentMut, toml_edit::TomlError> = text.parse();
                let document = document.map_err(|error| error.to_string().trim_end().to_owned())?;
                let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
                Ok(Self::Toml(document, line_end, text.ends_with('\n')))
            }
        }
    }

    /// The configuration as text; as it was read, but for what was edited.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Json(mark, root) => format!("{mark}{root}"),
            Self::Toml(document, line_end, ends) => {
                let text = document.to_string().replace("\r\n", "\n");
                let text = if *ends { &text } else { text.trim_end_matches('\n') };
                text.replace('\n', line_end)
            }
        }
    }

    /// The servers, in the order of the file's tables.
    pub(crate) fn servers(&self) -> Vec<Server> {
        match self {
            Self::Json(_, root) => {
                root.object_value().map(|it| json_servers(&it)).unwrap_or_default()
            }
            Self::Toml(document, ..) => {
                let table = document.get(TOML_TABLE).and_then(Item::as_table_like);
                let servers = table.into_iter().flat_map(TableLike::iter);
                servers.filter_map(|(name, item)| toml_server(name, item)).collect()
            }
        }
    }

    /// Writes one of its servers as it is written in another text.
    pub(crate) fn restore(&mut self, server: &Server, as_in: &Server) {
        match (self, &server.place, &as_in.place) {
            (Self::Json(..), Place::Json(object), Place::Json(as_in)) => {
                let property = object.parent().and_then(|parent| parent.as_object_prop());
                let Some(property) = property else { return };
                // A node that is written as it is told to be.
                property.set_value("".into());
                if let Some(verbatim) = property.value().and_then(|value| value.as_string_lit()) {
                    verbatim.set_raw_value(as_in.to_string());
                }
            }
            (Self::Toml(document, ..), Place::Toml(name, _), Place::Toml(_, as_in)) => {
                let table = document.get_mut(TOML_TABLE).and_then(Item::as_table_like_mut);
                if let Some(item) = table.and_then(|table| table.get_mut(name)) {
                    let position = item.as_table().and_then(toml_edit::Table::position);
                    *item = as_in.clone();
                    if let Some(table) = item.as_table_mut() {
                        put_at(table, position);
                    }
                }
            }
            _ => {}
        }
    }

    /// Changes one of its servers.
    pub(crate) fn edit(&mut self, server: &Server, edits: &[Edit]) {
        match (self, &server.place) {
            (Self::Json(..), Place::Json(object)) => {
                let inner = object.properties().into_iter().filter_map(|it| it.object_value());
                let objects = std::iter::once(object.clone()).chain(inner);
                let on_one_line: Vec<_> = objects.filter_map(OneLine::of).collect();
                edits.iter().for_each(|edit| edit_json(object, edit));
                on_one_line.iter().for_each(|it| it.join(&it.object.clone().into()));
            }
            (Self::Toml(document, ..), Place::Toml(name, _)) => {
                let table = document.get_mut(TOML_TABLE).and_then(Item::as_table_like_mut);
                let server = table.and_then(|table| table.get_mut(name));
                if let Some(server) = server.and_then(Item::as_table_like_mut) {
                    edits.iter().for_each(|edit| edit_toml(server, edit));
                }
            }
            _ => {}
        }
    }
}

fn json_servers(root: &CstObject) -> Vec<Server> {
    let mut servers = Vec::new();
    let of_projects = objects_under(root, PROJECTS).into_iter().flat_map(|projects| {
        let named = |it: jsonc_parser::cst::CstObjectProp| {
            Some((format!("{}: ", it.decoded_name()?), it.object_value()?))
        };
        projects.properties().into_iter().filter_map(named).collect::<Vec<_>>()
    });
    for (prefix, root) in std::iter::once((String::new(), root.clone())).chain(of_projects) {
        for (path, client) in JSON_TABLES {
            let tables = path.iter().fold(vec![root.clone()], |tables, key| {
                tables.iter().flat_map(|table| objects_under(table, key)).collect()
            });
            for property in tables.iter().flat_map(CstObject::properties) {
                let (Some(name), Some(object)) = (property.decoded_name(), property.object_value())
                else {
                    continue;
                };
                let entry = object.to_serde_value().and_then(|value| match value {
                    Value::Object(map) => Some(map),
                    _ => None,
                });
                let name = format!("{prefix}{name}");
                servers.push(Server {
                    nth: servers.iter().filter(|it: &&Server| it.name == name).count(),
                    name,
                    entry: entry.unwrap_or_default(),
                    fault: key_written_twice(&object).map(Left::Twice),
                    client,
                    place: Place::Json(object),
                });
            }
        }
    }
    servers
}

fn objects_under(object: &CstObject, key: &str) -> Vec<CstObject> {
    let properties = object.properties().into_iter();
    let named = properties.filter(|it| it.decoded_name().is_some_and(|name| name == key));
    named.filter_map(|it| it.object_value()).collect()
}

/// Readers differ in which of the two they take.
fn key_written_twice(object: &CstObject) -> Option<String> {
    let mut names: Vec<_> = object.properties().iter().filter_map(|it| it.decoded_name()).collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone())
}

/// An object that was written on one line, and is to stay there: what is put into it comes on lines of
/// its own.
struct OneLine {
    object: CstObject,
    /// What stands inside its braces, at either end.
    margin: &'static str,
    /// What stands behind its commas.
    gap: &'static str,
}

impl OneLine {
    fn of(object: CstObject) -> Option<Self> {
        if object.to_string().contains('\n') {
            return None;
        }
        let children = object.children();
        let margin = if children.get(1).is_some_and(CstNode::is_whitespace) { " " } else { "" };
        let is_close = |pair: &[CstNode]| pair[0].is_comma() && !pair[1].is_whitespace();
        let is_last = |pair: &[CstNode]| pair[1].token_char() == Some('}');
        let has_close = children.windows(2).any(|pair| is_close(pair) && !is_last(pair));
        Some(Self { object, margin, gap: if has_close { "" } else { " " } })
    }

    /// Takes the ends of lines out of a part of it.
    fn join(&self, node: &CstNode) {
        let children = node.children();
        for (i, child) in children.iter().enumerate() {
            if !child.is_newline() {
                self.join(child);
                continue;
            }
            let before = i.checked_sub(1).and_then(|i| children[i].token_char());
            let blank = children.get(i + 1).and_then(CstNode::as_whitespace);
            let after = children.get(i + 1 + usize::from(blank.is_some()));
            let between = match (before, after.and_then(CstNode::token_char)) {
                (Some('{'), _) | (_, Some('}')) => self.margin,
                (Some('['), _) | (_, Some(']')) => "",
                _ => self.gap,
            };
            match blank {
                Some(blank) if between.is_empty() => blank.remove(),
                Some(blank) => blank.set_value(between.to_owned()),
                None => {}
            }
            child.clone().remove();
        }
    }
}

fn edit_json(object: &CstObject, edit: &Edit) {
    match edit {
        Edit::Replace { key, with } => {
            let Some(property) = object.get(key) else { return };
            let at = property.property_index();
            let Some(((first, value), rest)) = with.split_first() else {
                return property.remove();
            };
            if first == key {
                property.set_value(json_input(value));
            } else {
                property.replace_with(first, json_input(value));
            }
            for (i, (name, value)) in rest.iter().enumerate() {
                object.insert(at + 1 + i, name, json_input(value));
            }
        }
        Edit::Prepend { key, words } => {
            if let Some(array) = object.array_value(key) {
                for word in words.iter().rev() {
                    array.insert(0, word.as_str().into());
                }
            }
        }
        Edit::DropFirst { key, count } => {
            let Some(array) = object.array_value(key) else { return };
            let blank = || array.child_at_index(1).filter(CstNode::is_whitespace);
            let was_blank = blank().is_some();
            array.elements().into_iter().take(*count).for_each(CstNode::remove);
            if let Some(blank) = blank().filter(|_| !was_blank) {
                blank.remove();
            }
        }
        Edit::SetIn { key, name, value } => {
            if let Some(inner) = object.object_value(key) {
                match inner.get(name) {
                    Some(property) => property.set_value(value.as_str().into()),
                    None => drop(inner.append(name, value.as_str().into())),
                }
            }
        }
        Edit::RemoveFrom { key, name } => {
            let Some(inner) = object.object_value(key) else { return };
            if let Some(property) = inner.get(name) {
                property.remove();
            }
            if let Some(property) = object.get(key).filter(|_| inner.properties().is_empty()) {
                property.remove();
            }
        }
    }
}

fn json_input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(it) => CstInputValue::Bool(*it),
        Value::Number(it) => CstInputValue::Number(it.to_string()),
        Value::String(it) => CstInputValue::String(it.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(json_input).collect()),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), json_input(value)));
            CstInputValue::Object(members.collect())
        }
    }
}

fn toml_server(name: &str, item: &Item) -> Option<Server> {
    let table = item.as_table_like()?;
    let entry = table.iter().map(|(key, item)| (key.to_owned(), toml_value(item))).collect();
    let place = Place::Toml(name.to_owned(), item.clone());
    let (name, client) = (name.to_owned(), Client::Codex);
    Some(Server { name, entry, nth: 0, fault: None, client, place })
}

/// A TOML value; what has no like in JSON counts as nothing.
fn toml_value(item: &Item) -> Value {
    fn plain(value: &toml_edit::Value) -> Value {
        match value {
            toml_edit::Value::String(it) => it.value().as_str().into(),
            toml_edit::Value::Integer(it) => (*it.value()).into(),
            toml_edit::Value::Float(it) => (*it.value()).into(),
            toml_edit::Value::Boolean(it) => (*it.value()).into(),
            toml_edit::Value::Datetime(_) => Value::Null,
            toml_edit::Value::Array(items) => items.iter().map(plain).collect(),
            toml_edit::Value::InlineTable(members) => {
                members.iter().map(|(key, value)| (key.to_owned(), plain(value))).collect()
            }
        }
    }
    match item {
        Item::Value(value) => plain(value),
        Item::Table(table) => {
            table.iter().map(|(key, item)| (key.to_owned(), toml_value(item))).collect()
        }
        Item::None | Item::ArrayOfTables(_) => Value::Null,
    }
}

/// Gives a table its place in the file, and those in it the places behind it.
fn put_at(table: &mut toml_edit::Table, position: Option<isize>) {
    table.set_position(position);
    for (_, item) in table.iter_mut() {
        if let Some(inner) = item.as_table_mut() {
            put_at(inner, None);
        }
    }
}

fn edit_toml(table: &mut dyn TableLike, edit: &Edit) {
    match edit {
        Edit::Replace { key, with } => {
            let before: Vec<_> = table.iter().map(|(name, _)| name.to_owned()).collect();
            // The comments above and behind what went stay with what came for it.
            let mut above = None;
            let mut behind = None;
            if !with.iter().any(|(name, _)| name == key) {
                above = table.key(key).map(|key| key.leaf_decor().clone());
                let removed = table.remove(key);
                behind = removed.as_ref().and_then(Item::as_value).map(|it| it.decor().clone());
            }
            for (name, value) in with {
                let mut value = toml_input(value);
                match table.get_mut(name).and_then(Item::as_value_mut) {
                    Some(old) => {
                        *value.decor_mut() = old.decor().clone();
                        *old = value;
                    }
                    None => {
                        if let Some(decor) = behind.take() {
                            *value.decor_mut() = decor;
                        }
                        table.insert(name, Item::Value(value));
                        if let (Some(decor), Some(mut key)) = (above.take(), table.key_mut(name)) {
                            *key.leaf_decor_mut() = decor;
                        }
                    }
                }
            }
            let came = with.iter().map(|(name, _)| name);
            let came: Vec<_> = came.filter(|it| *it == key || !before.contains(it)).collect();
            let order = before.iter().flat_map(|name| match name == key {
                true => came.clone(),
                false => vec![name],
            });
            put_in_order(table, order);
        }
        Edit::Prepend { key, words } => {
            let array = table.get_mut(key).and_then(Item::as_value_mut);
            let Some(array) = array.and_then(toml_edit::Value::as_array_mut) else { return };
            // On lines of their own where the first word is.
            let first = array.get(0).map(|first| first.decor().clone()).unwrap_or_default();
            let prefix = first.prefix().and_then(|it| it.as_str()).unwrap_or_default().to_owned();
            if let Some(old) = array.get_mut(0).filter(|_| prefix.is_empty()) {
                old.decor_mut().set_prefix(" ");
            }
            for (i, word) in words.iter().enumerate() {
                let mut value = toml_edit::Value::from(word.as_str());
                let own = if i > 0 && prefix.is_empty() { " " } else { &prefix };
                value.decor_mut().set_prefix(own);
                array.insert_formatted(i, value);
            }
        }
        Edit::DropFirst { key, count } => {
            let array = table.get_mut(key).and_then(Item::as_value_mut);
            let Some(array) = array.and_then(toml_edit::Value::as_array_mut) else { return };
            let first = array.get(0).map(|first| first.decor().clone());
            for _ in 0..(*count).min(array.len()) {
                array.remove(0);
            }
            if let (Some(now), Some(was)) = (array.get_mut(0), first) {
                *now.decor_mut() = was;
            }
        }
        Edit::SetIn { key, name, value } => {
            if let Some(inner) = table.get_mut(key).and_then(Item::as_table_like_mut) {
                inner.insert(name, toml_edit::value(value.as_str()));
            }
        }
        Edit::RemoveFrom { key, name } => {
            let Some(inner) = table.get_mut(key).and_then(Item::as_table_like_mut) else { return };
            inner.remove(name);
            if inner.is_empty() {
                table.remove(key);
            }
        }
    }
}

/// Puts all that is in a table into this order.
fn put_in_order<'a>(table: &mut dyn TableLike, order: impl Iterator<Item = &'a String>) {
    let members = order.filter_map(|name| table.get_key_value(name));
    let members: Vec<_> = members.map(|(key, item)| (key.clone(), item.clone())).collect();
    table.clear();
    for (key, item) in members {
        table.entry_format(&key).or_insert(item);
    }
}

fn toml_input(value: &Value) -> toml_edit::Value {
    match value {
        Value::Bool(it) => (*it).into(),
        Value::Number(it) => it.as_f64().unwrap_or_default().into(),
        Value::Array(items) => items.iter().map(toml_input).collect::<Array>().into(),
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| (key.as_str(), toml_input(value)));
            members.collect::<InlineTable>().into()
        }
        Value::String(it) => it.as_str().into(),
        Value::Null => "".into(),
    }
}
