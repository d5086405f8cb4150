//! Which file does a call of a tool read or write, and which lines of it?

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};

/// Tells from a tool's name and arguments what file a call reads or writes.
///
/// ```
/// use overspill::strategy::{FileAccess, FileKeys, FileUse};
/// use serde_json::json;
///
/// let common = FileKeys::default();
/// let read = common.of("Read", &json!({ "file_path": "src/lib.rs", "offset": 10, "limit": 5 }));
/// assert_eq!(
///     read,
///     Some(FileAccess { key: "src/lib.rs".into(), does: FileUse::Read, lines: Some(10..15) })
/// );
/// assert_eq!(common.of("bash", &json!({ "command": "cat src/lib.rs" })), None);
///
/// // A host whose tool nobody else has says so itself.
/// let own = FileKeys::new(|tool, arguments| match tool {
///     "fetch_page" => Some(FileAccess {
///         key: arguments["url"].as_str()?.to_owned(),
///         does: FileUse::Read,
///         lines: None,
///     }),
///     _ => FileKeys::default().of(tool, arguments),
/// });
/// assert!(own.of("fetch_page", &json!({ "url": "https://example.com" })).is_some());
/// ```
#[derive(Clone)]
pub struct FileKeys(Arc<Ask>);

type Ask = dyn Fn(&str, &Value) -> Option<FileAccess> + Send + Sync;

/// What a call does with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileAccess {
    /// What names the file; the same file has to have the same key each time.
    pub key: String,
    /// What is done with it.
    pub does: FileUse,
    /// The lines that are asked for, as the tool numbers them; `None` for a whole file.
    pub lines: Option<Range<u64>>,
}

/// Whether a file is read or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileUse {
    /// It is shown.
    Read,
    /// Part of it is changed; what was read of it before is still the only text of the rest.
    Edit,
    /// All of it is written anew.
    Write,
}

impl FileKeys {
    /// Asks this function, with a tool's name and its arguments. It must depend on them alone.
    pub fn new(keys: impl Fn(&str, &Value) -> Option<FileAccess> + Send + Sync + 'static) -> Self {
        Self(Arc::new(keys))
    }

    /// What the call does with a file, if it is known to do something.
    pub fn of(&self, tool: &str, arguments: &Value) -> Option<FileAccess> {
        (self.0)(tool, arguments)
    }
}

impl Default for FileKeys {
    /// The file tools of the coding agents and file servers in use, known by name and arguments.
    fn default() -> Self {
        Self::new(common)
    }
}

impl fmt::Debug for FileKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileKeys(function)")
    }
}

/// Tools that show a file, in lower case and without `_` and `-`.
const READERS: [&str; 7] =
    ["read", "readfile", "readtextfile", "view", "viewfile", "cat", "openfile"];

/// Tools that write a whole file.
const WRITERS: [&str; 5] = ["write", "writefile", "writetofile", "createfile", "create"];

/// Tools that change a part of a file.
const EDITORS: [&str; 13] = [
    "edit",
    "editfile",
    "multiedit",
    "strreplace",
    "strreplacefile",
    "replace",
    "replaceinfile",
    "replacestringinfile",
    "searchreplace",
    "applydiff",
    "insertcontent",
    "inserteditintofile",
    "notebookedit",
];

/// Tools whose argument `command` says which of these they do.
const COMMANDED: [&str; 4] =
    ["strreplaceeditor", "strreplacebasededittool", "texteditor", "fileeditor"];

/// Arguments that name the file.
const PATHS: [&str; 7] =
    ["file_path", "path", "filePath", "absolute_path", "target_file", "filename", "notebook_path"];

/// Arguments with the first line.
const STARTS: [&str; 5] =
    ["offset", "line_offset", "start_line", "startLine", "start_line_one_indexed"];

/// Arguments with the number of lines.
const COUNTS: [&str; 2] = ["limit", "n_lines"];

/// Arguments with the last line.
const ENDS: [&str; 3] = ["end_line", "endLine", "end_line_one_indexed_inclusive"];

/// Arguments that change nothing of what is read.
const TALK: [&str; 5] = ["command", "description", "explanation", "security_risk", "summary"];

fn common(tool: &str, arguments: &Value) -> Option<FileAccess> {
    // A server's tools come under its name: `mcp__files__read_text_file`.
    let name = tool.rsplit("__").next().unwrap_or(tool).to_lowercase().replace(['_', '-'], "");
    let arguments = arguments.as_object()?;
    let is = |names: &[&str]| names.contains(&name.as_str());
    let does = if is(&COMMANDED) {
        match arguments.get("command")?.as_str()? {
            "view" => FileUse::Read,
            "create" | "write" => FileUse::Write,
            _ => FileUse::Edit,
        }
    } else if is(&READERS) {
        FileUse::Read
    } else if is(&WRITERS) {
        FileUse::Write
    } else if is(&EDITORS) {
        FileUse::Edit
    } else {
        return None;
    };
    let key = first(arguments, &PATHS)?.as_str()?.to_owned();
    let lines = if does == FileUse::Read { asked_lines(arguments)? } else { None };
    Some(FileAccess { key, does, lines })
}

fn first<'a>(arguments: &'a Map<String, Value>, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| arguments.get(*name))
}

/// The lines a read asks for. `None` where it asks in a way that is not known here (pages, a
/// query, …): then nobody can say what it shows.
#[expect(clippy::option_option, reason = "not known, the whole file, and some lines of it")]
fn asked_lines(arguments: &Map<String, Value>) -> Option<Option<Range<u64>>> {
    let (mut start, mut end, mut count) = (None, None, None);
    for (name, value) in arguments.iter().filter(|(_, value)| !value.is_null()) {
        let name = name.as_str();
        if STARTS.contains(&name) {
            start = Some(value.as_u64()?);
        } else if COUNTS.contains(&name) {
            count = Some(value.as_u64()?);
        } else if ENDS.contains(&name) {
            end = Some(last(value)?);
        } else if name == "head" {
            (start, count) = (Some(0), Some(value.as_u64()?));
        } else if name == "view_range" {
            let [from, to] = value.as_array()?.as_slice() else { return None };
            (start, end) = (Some(from.as_u64()?), Some(last(to)?));
        } else if !PATHS.contains(&name) && !TALK.contains(&name) {
            return None;
        }
    }
    if (start, end, count) == (None, None, None) {
        return Some(None);
    }
    let start = start.unwrap_or(0);
    let end = end.map_or(u64::MAX, |last| last.saturating_add(1));
    let end = count.map_or(end, |count| end.min(start.saturating_add(count)));
    Some(Some(start..end))
}

/// A last line; -1 is the end of the file.
fn last(value: &Value) -> Option<u64> {
    if value.as_i64() == Some(-1) { Some(u64::MAX) } else { value.as_u64() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "json! makes values")]
    fn check(tool: &str, arguments: Value, expected: &str) {
        let found = FileKeys::default().of(tool, &arguments).map_or("-".into(), |access| {
            let lines = access.lines.map_or(String::new(), |lines| match lines.end {
                u64::MAX => format!(" {}..", lines.start),
                end => format!(" {}..{end}", lines.start),
            });
            format!("{:?} {}{lines}", access.does, access.key)
        });
        assert_eq!(found, expected, "{tool} {arguments}");
    }

    #[test]
    fn tools_in_use_are_known() {
        check("Read", json!({ "file_path": "/a.rs" }), "Read /a.rs");
        check("Write", json!({ "file_path": "/a.rs", "content": "x" }), "Write /a.rs");
        check("MultiEdit", json!({ "file_path": "/a.rs", "edits": [] }), "Edit /a.rs");
        check("read", json!({ "path": "a.rs", "offset": 40, "limit": 10 }), "Read a.rs 40..50");
        check("edit", json!({ "path": "a", "oldText": "x", "newText": "y" }), "Edit a");
        check("read", json!({ "filePath": "/a.rs", "offset": 40 }), "Read /a.rs 40..");
        check("read_file", json!({ "absolute_path": "/a", "limit": 9 }), "Read /a 0..9");
        check(
            "read_file",
            json!({ "filePath": "/a", "startLine": 3, "endLine": 5 }),
            "Read /a 3..6",
        );
        check(
            "read_file",
            json!({
                "target_file": "a",
                "start_line_one_indexed": 1,
                "end_line_one_indexed_inclusive": 200,
                "explanation": "to see"
            }),
            "Read a 1..201",
        );
        check("ReadFile", json!({ "path": "a", "line_offset": 5, "n_lines": 5 }), "Read a 5..10");
        check("mcp__files__read_text_file", json!({ "path": "a", "head": 3 }), "Read a 0..3");
        check("write_to_file", json!({ "path": "a", "content": "" }), "Write a");
    }

    #[test]
    fn a_command_says_what_the_tool_does() {
        let does = |command: &str, expected: &str| {
            check("str_replace_editor", json!({ "command": command, "path": "/a" }), expected);
        };
        does("view", "Read /a");
        does("create", "Write /a");
        does("str_replace", "Edit /a");
        let view = |range: Value, expected: &str| {
            let arguments = json!({ "command": "view", "path": "/a", "view_range": range });
            check("str_replace_based_edit_tool", arguments, expected);
        };
        view(json!([1, 30]), "Read /a 1..31");
        view(json!([30, -1]), "Read /a 30..");
        view(json!("30"), "-");
    }

    #[test]
    fn what_is_not_known_is_left_alone() {
        check("Read", json!({ "file_path": "/a.pdf", "pages": "1-5" }), "-");
        check("Read", json!({ "file_path": "/a", "pages": null }), "Read /a");
        check("read_text_file", json!({ "path": "a", "tail": 3 }), "-");
        check("Read", json!({ "url": "/a" }), "-");
        check("Read", json!("/a"), "-");
        check("grep", json!({ "path": "/a", "pattern": "x" }), "-");
    }
}
