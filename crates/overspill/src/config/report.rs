//! Shows what was resolved: as a configuration file that means the same, and as JSON.

use std::fmt::{self, Write};

use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::resolve::{JSON_STYLES, KEEPS};
use super::{Config, ModelConfig, StoreConfig};
use crate::action::Action;
use crate::band::Bands;
use crate::measure::Unit;
use crate::store::{Age, ByteSize};
use crate::summary::PromptTemplate;

/// Writes the configuration as a complete `overspill.toml`; read again, it means the same.
///
/// Two things that no file can hold stand in it as comments: a tokenizer, and a filter that is a
/// predicate. What it leaves out, the serialized form leaves out too.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // TOML wants the keys of the top level before the first section.
        let mut sections = String::new();
        for (key, value) in shape(self) {
            match (key.as_str(), value) {
                ("unit", Value::String(unit)) if unit == "tokens" => {
                    writeln!(f, "# unit: tokens, as the program's tokenizer counts them")?;
                }
                ("tools", Value::Object(tools)) if tools.contains_key("predicate") => {
                    writeln!(f, "# tools: those that the program's predicate chooses")?;
                }
                ("tool", Value::Object(tools)) => {
                    for (tool, of_tool) in tools {
                        let section = format!("tool.{}", toml_key(&tool));
                        match &of_tool["bands"] {
                            Value::Array(bands) if bands.is_empty() => {
                                write!(sections, "\n[{section}]\nbands = []\n")?;
                            }
                            bands => write_bands(&mut sections, &format!("{section}."), bands)?,
                        }
                    }
                }
                ("bands", Value::Array(bands)) if bands.is_empty() => writeln!(f, "bands = []")?,
                ("bands", bands) => write_bands(&mut sections, "", &bands)?,
                (section, Value::Object(entries)) => {
                    write!(sections, "\n[{section}]\n")?;
                    write_entries(&mut sections, &entries)?;
                }
                (key, value) => writeln!(f, "{key} = {}", toml_value(&value))?,
            }
        }
        f.write_str(&sections)
    }
}

/// Writes the configuration in the shape of the file. It leaves out what says nothing: a filter
/// that takes every tool, the built-in prompt, the path of a local store where it is for the program
/// to choose, and a retention that keeps everything.
impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        shape(self).serialize(serializer)
    }
}

/// The configuration in the shape of the file, in the order of its documentation.
fn shape(config: &Config) -> Map<String, Value> {
    let mut shape = Map::new();
    let mut put = |key: &str, value: Value| shape.insert(key.to_owned(), value);
    put("enabled", config.enabled.into());
    put("preset", config.preset.name().into());
    put(
        "unit",
        match config.unit {
            Unit::Characters => "characters".into(),
            Unit::EstimatedTokens => "estimated_tokens".into(),
            Unit::Tokens(_) => "tokens".into(),
        },
    );
    put("strip_ansi", config.strip_ansi.into());
    put("json", name_of(config.json, JSON_STYLES));
    put("read_tool", config.read_tool.clone().into());
    if let Ok(tools) = serde_json::to_value(&config.tools)
        && tools != json!({})
    {
        put("tools", tools);
    }
    put("bands", bands_shape(&config.bands));
    let of_tools = config.tool_bands.iter();
    let tool: Map<String, Value> = of_tools
        .map(|(tool, bands)| (tool.to_owned(), json!({ "bands": bands_shape(bands) })))
        .collect();
    if !tool.is_empty() {
        put("tool", tool.into());
    }
    let mut summarize = Map::new();
    if let Some(ModelConfig { model, base_url, api_key_env }) = &config.model {
        summarize.insert("model".to_owned(), model.to_string().into());
        if let Some(base_url) = base_url {
            summarize.insert("base_url".to_owned(), base_url.as_str().into());
        }
        if let Some(name) = api_key_env {
            summarize.insert("api_key_env".to_owned(), name.as_str().into());
        }
    }
    if config.prompt != PromptTemplate::default() {
        summarize.insert("prompt".to_owned(), config.prompt.as_str().into());
    }
    if !summarize.is_empty() {
        put("summarize", summarize.into());
    }
    put(
        "store",
        match &config.store {
            StoreConfig::Memory => json!({ "kind": "memory" }),
            StoreConfig::Local { path: None } => json!({ "kind": "local" }),
            StoreConfig::Local { path: Some(path) } => {
                json!({ "kind": "local", "path": path.to_string_lossy() })
            }
        },
    );
    let mcp = config.mcp.shape();
    let mut retention = Map::new();
    if let Some(max_age) = config.retention.max_age {
        retention.insert("max_age".to_owned(), Age(max_age).to_string().into());
    }
    if let Some(max_bytes) = config.retention.max_bytes {
        retention.insert("max_size".to_owned(), ByteSize(max_bytes).to_string().into());
    }
    if !retention.is_empty() {
        put("retention", retention.into());
    }
    if !mcp.is_empty() {
        put("mcp", mcp.into());
    }
    shape
}

fn bands_shape(bands: &Bands) -> Value {
    let band = |over: u64, action: &Action| {
        let mut band = Map::from_iter([("over".to_owned(), Value::from(over))]);
        band.extend(action_shape(action).into_iter().flatten());
        Value::from(band)
    };
    bands.iter().map(|row| band(row.over, &row.action)).collect()
}

/// The action with its options, and those behind it under `then`.
fn action_shape(action: &Action) -> Option<Map<String, Value>> {
    let mut chain: Vec<&Action> = action.chain().collect();
    chain.reverse();
    chain.into_iter().fold(None, |then, action| {
        let mut shape = Map::new();
        let mut put = |key: &str, value: Value| shape.insert(key.to_owned(), value);
        put("action", action.name().into());
        match action {
            Action::Truncate(truncate, _) => {
                put("max_chars", truncate.max_chars.into());
                put("keep", name_of(truncate.keep, KEEPS));
                put("keep_tail_lines", truncate.keep_tail_lines.into());
            }
            Action::Spill(spill, _) => {
                put("preview_chars", spill.preview_chars.into());
            }
            Action::Passthrough | Action::Summarize(..) => {}
        }
        if let Some(then) = then {
            put("then", Value::Object(then));
        }
        Some(shape)
    })
}

fn name_of<T: Copy + PartialEq>(value: T, choices: &[(&'static str, T)]) -> Value {
    choices.iter().find(|(_, choice)| *choice == value).map(|(name, _)| *name).into()
}

fn write_bands(out: &mut String, prefix: &str, bands: &Value) -> fmt::Result {
    for band in bands.as_array().into_iter().flatten().filter_map(Value::as_object) {
        write!(out, "\n[[{prefix}bands]]\n")?;
        write_entries(out, band)?;
    }
    Ok(())
}

fn write_entries(out: &mut String, entries: &Map<String, Value>) -> fmt::Result {
    entries.iter().try_for_each(|(key, value)| writeln!(out, "{key} = {}", toml_value(value)))
}

/// A value as TOML writes it on one line, or on several where it is a text of several.
fn toml_value(value: &Value) -> String {
    match value {
        Value::Number(number) => in_thousands(&number.to_string()),
        Value::String(text) => toml::Value::from(text.as_str()).to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(toml_value).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| {
                format!("{} = {}", toml_key(key), toml_value(value))
            };
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        Value::Bool(_) | Value::Null => value.to_string(),
    }
}

/// A key as TOML writes it: bare where it can be, else in quotes.
fn toml_key(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(bare) {
        key.to_owned()
    } else {
        // What JSON escapes, TOML escapes alike; control characters no tool name holds.
        Value::from(key).to_string()
    }
}

/// `10000` as `10_000`.
fn in_thousands(digits: &str) -> String {
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('_');
        }
        text.push(digit);
    }
    text
}
