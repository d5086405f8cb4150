//! What a call of the read tool asks for.

use serde_json::{Map, Value};

/// Lines an answer holds unless told otherwise.
pub const DEFAULT_LIMIT: u64 = 200;

/// Lines an answer holds at most; a larger limit is taken for this one.
pub const MAX_LIMIT: u64 = 1_000;

/// Lines shown around a match at most; a larger context is taken for this one.
pub const MAX_CONTEXT: u64 = 50;

/// What a call of the read tool asks for.
///
/// ```
/// use overspill::read::ReadArgs;
///
/// let args = ReadArgs::parse(&serde_json::json!({ "handle": "run/call.x", "offset": 400 }));
/// assert_eq!(args.map(|args| (args.offset, args.limit)), Ok((400, 200)));
/// let wrong = ReadArgs::parse(&serde_json::json!({ "handle": "run/call.x", "offset": -1 }));
/// assert!(wrong.is_err_and(|sentence| sentence.contains("`offset` must be a whole number")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadArgs {
    /// The handle, as a marker shows it.
    pub handle: String,
    /// The first line to show, or to search, counted from 0; from the end with `from_end`.
    pub offset: u64,
    /// How many lines to show, from 1 to [`MAX_LIMIT`].
    pub limit: u64,
    /// Counts `offset` from the end: 0 with a limit of 20 shows the last 20 lines.
    pub from_end: bool,
    /// Shows only lines that hold this.
    pub pattern: Option<String>,
    /// Whether `pattern` is a regular expression.
    pub regex: bool,
    /// How many lines to show around each match, at most [`MAX_CONTEXT`].
    pub context: u64,
    /// Shows what this RFC 9535 query finds in a JSON payload; `offset` and `limit` then count
    /// what it finds.
    pub json_path: Option<String>,
}

impl ReadArgs {
    /// The first lines of a payload.
    pub fn new(handle: impl Into<String>) -> Self {
        Self {
            handle: handle.into(),
            offset: 0,
            limit: DEFAULT_LIMIT,
            from_end: false,
            pattern: None,
            regex: false,
            context: 0,
            json_path: None,
        }
    }

    /// Reads the arguments a model wrote. Numbers may stand as strings and `null` for what is
    /// left out, as models write them.
    ///
    /// # Errors
    ///
    /// A sentence for the model that says which argument is wrong and what it must be.
    pub fn parse(args: &Value) -> Result<Self, String> {
        let Some(args) = args.as_object() else {
            return Err(format!("The arguments must be a JSON object, not {}.", kind(args)));
        };
        const KNOWN: [&str; 8] =
            ["handle", "offset", "limit", "from_end", "pattern", "regex", "context", "json_path"];
        if let Some(unknown) = args.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            let unknown: String = unknown.chars().take(100).collect();
            return Err(format!(
                "There is no argument {unknown:?}; there are {}.",
                KNOWN.map(|key| format!("`{key}`")).join(", ")
            ));
        }
        let handle = match text(args, "handle")? {
            Some(handle) if !handle.trim().is_empty() => handle,
            _ => return Err(
                "`handle` is missing: copy it from a marker, where it stands behind \"stored as\"."
                    .into(),
            ),
        };
        let pattern = text(args, "pattern")?.filter(|pattern| !pattern.is_empty());
        let json_path = text(args, "json_path")?.filter(|path| !path.is_empty());
        if pattern.is_some() && json_path.is_some() {
            return Err("Give `pattern` or `json_path`, not both.".into());
        }
        let limit = whole(args, "limit")?.unwrap_or(DEFAULT_LIMIT);
        if limit == 0 {
            return Err("`limit` must be a whole number of lines from 1 to 1000.".into());
        }
        Ok(Self {
            handle,
            offset: whole(args, "offset")?.unwrap_or(0),
            limit: limit.min(MAX_LIMIT),
            from_end: switch(args, "from_end")?,
            pattern,
            regex: switch(args, "regex")?,
            context: whole(args, "context")?.unwrap_or(0).min(MAX_CONTEXT),
            json_path,
        })
    }
}

fn text(args: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match args.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(format!("`{key}` must be a string, not {}.", kind(other))),
    }
}

fn whole(args: &Map<String, Value>, key: &str) -> Result<Option<u64>, String> {
    let number = match args.get(key) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.as_u64().or_else(|| {
            // 200.0 is how some models write 200; beyond 2^53 a float is no whole number.
            number
                .as_f64()
                .filter(|f| f.fract() == 0.0 && (0.0..=9e15).contains(f))
                .map(|f| f as u64)
        }),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(_) => None,
    };
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(format!(
            "`{key}` must be a whole number of lines, 0 or more{}.",
            match args.get(key) {
                Some(Value::Number(n)) if n.as_f64().is_some_and(|f| f < 0.0) =>
                    "; to count from the end, set `from_end` to true",
                _ => "",
            }
        )),
    }
}

fn switch(args: &Map<String, Value>, key: &str) -> Result<bool, String> {
    match args.get(key) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(switch)) => Ok(*switch),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
        Some(other) => Err(format!("`{key}` must be true or false, not {}.", kind(other))),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
