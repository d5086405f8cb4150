//! The read tool as a host offers it to a model: name, description, JSON schema.

use serde_json::{Value, json};

use super::args::{DEFAULT_LIMIT, MAX_CONTEXT, MAX_LIMIT};

/// The read tool's definition, for any host.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReadTool {
    /// The name it is registered under.
    pub name: String,
    /// What the model is told of it.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Value,
}

impl ReadTool {
    /// The name it has unless the host gives it another.
    pub const NAME: &'static str = "read_tool_result";

    /// The definition of another tool, for a [`Capability`](crate::capability::Capability) that
    /// offers one of its own. `parameters` is the JSON schema of its arguments.
    ///
    /// ```
    /// use overspill::capability::ToolDefinition;
    ///
    /// let schema = serde_json::json!({ "type": "object", "properties": {} });
    /// let tool = ToolDefinition::new("list_spills", "Lists what is stored.", schema);
    /// assert_eq!(tool.name, "list_spills");
    /// ```
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self { name: name.into(), description: description.into(), parameters }
    }

    pub(crate) fn named(name: String) -> Self {
        Self {
            name,
            description: "Reads any part of a tool result that was too long to show and is \
                          stored whole. Copy the handle from the marker that stands in its \
                          place. Lines are numbered from 0. Give `offset` to read from a line \
                          on, `from_end` to read the end, `pattern` to show only lines that \
                          hold a text, `json_path` to query JSON."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "handle": {
                        "type": "string",
                        "description": "The handle, exactly as the marker shows it."
                    },
                    "offset": {
                        "type": "integer",
                        "minimum": 0,
                        "default": 0,
                        "description": "The first line to show; with `pattern`, the line to search from; with `from_end`, how many lines to leave out at the end."
                    },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_LIMIT,
                        "default": DEFAULT_LIMIT,
                        "description": "How many lines to show."
                    },
                    "from_end": {
                        "type": "boolean",
                        "default": false,
                        "description": "Count from the end: the last `limit` lines, or the last matches."
                    },
                    "pattern": {
                        "type": ["string", "null"],
                        "default": null,
                        "description": "Show only lines that hold this text, with their numbers."
                    },
                    "regex": {
                        "type": "boolean",
                        "default": false,
                        "description": "Take `pattern` for a regular expression."
                    },
                    "context": {
                        "type": "integer",
                        "minimum": 0,
                        "maximum": MAX_CONTEXT,
                        "default": 0,
                        "description": "How many lines to show before and after each match."
                    },
                    "json_path": {
                        "type": ["string", "null"],
                        "default": null,
                        "description": "An RFC 9535 JSONPath such as $.items[*].name; `offset` and `limit` then count what it finds."
                    }
                },
                "required": ["handle"],
                "additionalProperties": false
            }),
        }
    }

    /// Whether `tool` is this tool, whatever prefix or server name a host puts before its name.
    pub(crate) fn is(&self, tool: &str) -> bool {
        tool.strip_suffix(self.name.as_str()).is_some_and(|prefix| {
            prefix.bytes().last().is_none_or(|before| !before.is_ascii_alphanumeric())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_is_known_under_any_prefix() {
        let tool = ReadTool::named(ReadTool::NAME.to_owned());
        for name in [
            "read_tool_result",
            "mcp__overspill__read_tool_result",
            "overspill.read_tool_result",
            "overspill:read_tool_result",
            "overspill/read_tool_result",
            "a-read_tool_result",
        ] {
            assert!(tool.is(name), "{name}");
        }
        for name in ["bash", "read_tool_results", "thread_tool_result", "read_tool_result2", ""] {
            assert!(!tool.is(name), "{name}");
        }
    }

    #[test]
    fn the_schema_names_every_argument_and_its_bounds() {
        let tool = ReadTool::named("read".to_owned());
        let schema = &tool.parameters;
        assert_eq!(schema["required"], json!(["handle"]));
        for key in schema["properties"].as_object().unwrap().keys() {
            let mut args = json!({ "handle": "h" });
            args[key] = schema["properties"][key].get("default").cloned().unwrap_or("h".into());
            assert!(super::super::ReadArgs::parse(&args).is_ok(), "{key}");
        }
        assert!(super::super::ReadArgs::parse(&json!({ "handle": "h", "more": 1 })).is_err());
    }
}
