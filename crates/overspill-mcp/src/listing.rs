//! Lists of tools, resources and prompts: names prefixed, several servers' lists joined, what is
//! the proxy's own added.

use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;
use overspill::ReadTool;
use serde_json::json;

use crate::json::{Edits, Members, items, quote, string};

/// What a list is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ListOf {
    Tools,
    Resources,
    Templates,
    Prompts,
    Tasks,
}

impl ListOf {
    pub(crate) fn of_method(method: &str) -> Option<Self> {
        Some(match method {
            "tools/list" => Self::Tools,
            "resources/list" => Self::Resources,
            "resources/templates/list" => Self::Templates,
            "prompts/list" => Self::Prompts,
            "tasks/list" => Self::Tasks,
            _ => return None,
        })
    }

    /// The key of the list in a result.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
            Self::Tasks => "tasks",
        }
    }

    /// The capability that a server with such a list has.
    pub(crate) fn capability(self) -> &'static str {
        match self {
            Self::Templates => "resources",
            other => other.key(),
        }
    }

    /// Whether the names in it are prefixed where there are several servers.
    pub(crate) fn is_prefixed(self) -> bool {
        matches!(self, Self::Tools | Self::Prompts)
    }
}

/// What stands between a server's name and the name of its tool or prompt.
const SEPARATOR: &str = "__";

pub(crate) fn prefixed(server: &str, name: &str) -> String {
    format!("{server}{SEPARATOR}{name}")
}

/// The server, by its place in `servers`, and its own name for what is called `name`.
pub(crate) fn unprefixed<'n>(servers: &[String], name: &'n str) -> Option<(usize, &'n str)> {
    servers.iter().enumerate().find_map(|(i, server)| {
        Some((i, name.strip_prefix(server.as_str())?.strip_prefix(SEPARATOR)?))
    })
}

/// Whether two servers could have tools of one name once they are prefixed: what stands before the
/// names of one begins with what stands before those of the other.
pub(crate) fn could_collide(one: &str, other: &str) -> bool {
    let (one, other) = (prefixed(one, ""), prefixed(other, ""));
    one.starts_with(&other) || other.starts_with(&one)
}

/// Characters that a name may have for most clients: those whose models are given it as it is
/// refuse a longer one.
pub(crate) const MAX_NAME: usize = 64;

/// The elements of a list in a result, as they are spelled, and where the next page starts.
pub(crate) fn page(result: &str, list: ListOf) -> (Vec<&str>, Option<String>) {
    let members = Members::of(result).unwrap_or_default();
    let elements = members.get(list.key()).and_then(items).unwrap_or_default();
    (elements, members.text("nextCursor"))
}

/// The name of a tool, prompt or resource, or what stands for it.
pub(crate) fn name_of(element: &str, key: &str) -> Option<String> {
    Members::of(element)?.text(key)
}

/// The element under another name.
pub(crate) fn renamed(element: &str, name: &str) -> String {
    let mut edits = Edits::default();
    if let Some(old) = Members::of(element).and_then(|members| members.get("name")) {
        edits.replace_part(element, old, quote(name));
    }
    edits.apply(element)
}

/// The read tool as `tools/list` has it.
pub(crate) fn read_tool(tool: &ReadTool, takers: &[String]) -> String {
    let mut description = tool.description.clone();
    if !takers.is_empty() {
        description.push_str(&format!(
            " To hand a stored result on without reading it, write {{\"$overspill\": \"HANDLE\"}} in \
             place of an argument's value; these tools take it: {}.",
            takers.join(", ")
        ));
    }
    json!({
        "name": tool.name,
        "description": description,
        "inputSchema": tool.parameters,
        "annotations": {
            "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true,
            "openWorldHint": false
        },
    })
    .to_string()
}

/// A name for the read tool that none of `taken` is.
pub(crate) fn free_name(wanted: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut name = wanted.to_owned();
    let mut n = 1;
    while taken(&name) {
        name = match n {
            1 => format!("overspill_{wanted}"),
            n => format!("overspill{n}_{wanted}"),
        };
        n += 1;
    }
    name
}

/// Joins `elements` to the result of a list that is a single page, or its last.
pub(crate) fn with_elements(result: &str, list: ListOf, elements: &[String]) -> String {
    let mut edits = Edits::default();
    let added = elements.join(",");
    if added.is_empty() {
        return result.to_owned();
    }
    match Members::of(result).and_then(|members| members.get(list.key())) {
        Some(held) => edits.add_item(result, held, &added),
        None => edits.add_member(result, result, list.key(), &format!("[{added}]")),
    }
    edits.apply(result)
}

/// The result of a list.
pub(crate) fn result(list: ListOf, elements: &[String], cursor: Option<&str>) -> String {
    let cursor = cursor.map(|cursor| format!(",\"nextCursor\":{}", quote(cursor)));
    format!("{{\"{}\":[{}]{}}}", list.key(), elements.join(","), cursor.unwrap_or_default())
}

/// One cursor for the next pages of several servers.
pub(crate) fn join_cursors(cursors: &BTreeMap<usize, String>) -> Option<String> {
    if cursors.is_empty() {
        return None;
    }
    let json = serde_json::to_string(cursors).ok()?;
    Some(BASE64URL_NOPAD.encode(json.as_bytes()))
}

/// The servers' own cursors in one of ours; `None` where it is none of ours.
pub(crate) fn split_cursor(cursor: &str) -> Option<BTreeMap<usize, String>> {
    let json = BASE64URL_NOPAD.decode(cursor.as_bytes()).ok()?;
    serde_json::from_slice(&json).ok()
}

/// The tool with an output schema that also allows for what stands where structured content was
/// stored; `None` where it has no schema.
///
/// The schema as it was stays whole inside, so clients still know every shape. Where it points
/// into itself by a path that would no longer lead there, or has a name that would then stand
/// twice, it is left out instead.
pub(crate) fn with_wider_schema(tool: &str) -> Option<String> {
    let members = Members::of(tool)?;
    let schema = members.some("outputSchema")?;
    let wider = wider(schema).unwrap_or_else(|| r#"{"type":"object"}"#.to_owned());
    let mut edits = Edits::default();
    edits.replace_part(tool, schema, wider);
    Some(edits.apply(tool))
}

fn wider(schema: &str) -> Option<String> {
    let members = Members::of(schema)?;
    let mut hoisted = String::new();
    for (key, value) in members.iter() {
        match key {
            "$defs" | "definitions" | "$schema" => {
                hoisted.push_str(&format!("{}:{value},", quote(key)));
            }
            "id" | "$recursiveAnchor" => return None,
            _ => {}
        }
    }
    if !references(schema, 0)?.iter().all(|reference| {
        reference.starts_with("#/$defs/")
            || reference.starts_with("#/definitions/")
            || reference.starts_with("https:")
            || reference.starts_with("http:")
    }) {
        return None;
    }
    let stand_in = json!({
        "type": "object",
        "properties": {
            "$overspill": {
                "type": ["string", "null"],
                "description": "The handle under which the whole result is stored."
            },
            "view": { "type": "string", "description": "What is shown of it." }
        },
        "required": ["$overspill", "view"]
    });
    Some(format!("{{{hoisted}\"type\":\"object\",\"anyOf\":[{schema},{stand_in}]}}"))
}

/// Every `$ref` in a schema; `None` where it has a reference of another kind or a name of its own,
/// or nests too deep.
fn references(value: &str, depth: usize) -> Option<Vec<String>> {
    const MAX_DEPTH: usize = 64;
    let mut found = Vec::new();
    if depth == MAX_DEPTH {
        return None;
    }
    match value.as_bytes().first() {
        Some(b'{') => {
            for (key, member) in Members::of(value)?.iter() {
                match (key, string(member)) {
                    ("$ref", Some(reference)) => found.push(reference),
                    (
                        "$dynamicRef" | "$recursiveRef" | "$id" | "$anchor" | "$dynamicAnchor",
                        Some(_),
                    ) => return None,
                    _ => found.extend(references(member, depth + 1)?),
                }
            }
        }
        Some(b'[') => {
            for item in items(value)? {
                found.extend(references(item, depth + 1)?);
            }
        }
        _ => {}
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_of_servers_that_cannot_collide_are_told_apart(
            servers in proptest::array::uniform2("[a_]{1,4}"),
            tools in proptest::array::uniform2("[a_]{0,4}"),
        ) {
            let is_clear = !could_collide(&servers[0], &servers[1]);
            for (i, (server, tool)) in servers.iter().zip(&tools).enumerate() {
                let name = prefixed(server, tool);
                if is_clear {
                    prop_assert_eq!(unprefixed(&servers, &name), Some((i, tool.as_str())));
                }
            }
            let same = prefixed(&servers[0], &tools[0]) == prefixed(&servers[1], &tools[1]);
            prop_assert!(!(same && is_clear));
        }
    }

    #[test]
    fn a_name_is_led_back_to_its_server() {
        let servers = ["git".to_owned(), "git_hub".to_owned()];
        assert_eq!(unprefixed(&servers, "git__log"), Some((0, "log")));
        assert_eq!(unprefixed(&servers, "git__hub__log"), Some((0, "hub__log")));
        assert_eq!(unprefixed(&servers, "git_hub__log"), Some((1, "log")));
        assert_eq!(unprefixed(&servers, "log"), None);
    }

    #[test]
    fn cursors_come_back_as_they_were() {
        let cursors = BTreeMap::from([(0, "a/b".to_owned()), (7, "é".to_owned())]);
        let joined = join_cursors(&cursors).unwrap();
        assert_eq!(split_cursor(&joined), Some(cursors));
        assert_eq!(split_cursor("page-2"), None);
        assert_eq!(join_cursors(&BTreeMap::new()), None);
    }

    #[test]
    fn elements_go_behind_those_that_are_there() {
        for (before, after) in [
            (r#"{"tools":[{"name":"a"}],"x":1.0}"#, r#"{"tools":[{"name":"a"},{}],"x":1.0}"#),
            (r#"{"tools": [ ]}"#, r#"{"tools": [ {}]}"#),
            (r#"{}"#, r#"{"tools":[{}]}"#),
        ] {
            assert_eq!(with_elements(before, ListOf::Tools, &["{}".into()]), after);
        }
    }

    #[test]
    fn a_wider_schema_keeps_the_narrow_one_whole() {
        let schema = r##"{"type":"object","$defs":{"T":{"type":"number"}},"properties":{"t":{"$ref":"#/$defs/T"}},"required":["t"]}"##;
        let tool = format!(r#"{{"name":"a","outputSchema":{schema},"x":1.0}}"#);
        let wider = with_wider_schema(&tool).unwrap();
        assert!(wider.contains(schema) && wider.ends_with(r#","x":1.0}"#), "{wider}");
        assert!(
            wider.contains(r##""outputSchema":{"$defs":{"T":{"type":"number"}},"type":"object""##)
        );
        assert!(with_wider_schema(r#"{"name":"a"}"#).is_none());
        // A property may have any name.
        let schema = r#"{"type":"object","properties":{"$id":{"type":"string"}}}"#;
        let tool = format!(r#"{{"name":"a","outputSchema":{schema}}}"#);
        assert!(with_wider_schema(&tool).unwrap().contains(schema));
    }

    #[test]
    fn a_schema_that_would_point_elsewhere_is_left_out() {
        for schema in [
            r##"{"type":"object","properties":{"t":{"$ref":"#"}}}"##,
            r##"{"type":"object","properties":{"t":{"$ref":"#/properties/u"}}}"##,
            r##"{"type":"object","$id":"https://example.org/s"}"##,
            r##"{"type":"object","$defs":{"T":{"$id":"https://example.org/t"}}}"##,
            r##"{"type":"object","$defs":{"T":{"anyOf":[{"$anchor":"a"}]}},"properties":{"t":{"$ref":"#/$defs/T"}}}"##,
        ] {
            let tool = format!(r#"{{"name":"a","outputSchema":{schema}}}"#);
            let wider = with_wider_schema(&tool).unwrap();
            assert_eq!(wider, r#"{"name":"a","outputSchema":{"type":"object"}}"#, "{schema}");
        }
    }

    #[test]
    fn the_read_tool_takes_a_name_that_is_free() {
        let taken = ["read_tool_result", "overspill_read_tool_result"];
        assert_eq!(free_name("read", |name| taken.contains(&name)), "read");
        assert_eq!(
            free_name("read_tool_result", |name| taken.contains(&name)),
            "overspill2_read_tool_result"
        );
    }
}
