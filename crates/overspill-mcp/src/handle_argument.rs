//! A stored payload as an argument of a tool: it passes from one tool to another without being in
//! the context.
//!
//! `{"$overspill": "HANDLE"}` stands for the payload as a text, `{"$overspill": "HANDLE",
//! "as": "json"}` for it as the JSON it is, `"as": "base64"` for its bytes. What a reduced result
//! has as structured content is such an object, so a program can hand it on as it is.

use std::ops::Range;
use std::sync::Arc;

use data_encoding::BASE64;
use overspill::config::McpConfig;
use overspill::store::{Handle, Store, StoreError, Stored};

use crate::json::{Edits, Members, items, quote, span, string};

/// The key that says that an object stands for a payload.
pub(crate) const KEY: &str = "$overspill";

/// How a payload is put into an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
    Base64,
}

/// A place in the arguments where a payload belongs.
#[derive(Debug)]
struct Place {
    at: Range<usize>,
    handle: Handle,
    form: Form,
}

/// The arguments with every handle replaced by its payload; `None` where there is none in them.
///
/// # Errors
///
/// A sentence for the model that says why a payload cannot be put there.
pub(crate) async fn substitute(
    store: &Arc<dyn Store>,
    config: &McpConfig,
    tool: &str,
    arguments: &str,
) -> Result<Option<String>, String> {
    let takes = config.handle_arguments.as_ref().is_some_and(|tools| tools.applies_to(tool));
    let bare = takes && config.bare_handles;
    // Nearly all arguments hold none, and are not looked into.
    if !bare && memchr::memmem::find(arguments.as_bytes(), KEY.as_bytes()).is_none() {
        return Ok(None);
    }
    let mut places = Vec::new();
    find(arguments, arguments, bare, 0, &mut places)?;
    if places.is_empty() {
        return Ok(None);
    }
    if !takes {
        return Err(format!(
            "{tool} was not called: it takes no handle as an argument. Read what you need of the \
             stored result and write that, or ask the user to list {tool} under \
             handle_arguments in [mcp] of overspill.toml."
        ));
    }
    let mut edits = Edits::default();
    let mut room = config.max_argument;
    for place in places {
        let stored =
            Stored::open(store, &place.handle).await.map_err(|error| sorry(&place, &error))?;
        let bytes = stored.receipt().bytes;
        if bytes > room {
            return Err(format!(
                "{tool} was not called: what is stored as {} has {bytes} bytes, and the arguments \
                 of one call may be given {} of them (max_argument in [mcp] of overspill.toml).",
                place.handle, config.max_argument
            ));
        }
        room -= bytes;
        let payload = stored.bytes(0..bytes).await.map_err(|error| sorry(&place, &error))?;
        edits.replace(place.at.clone(), place.form.of(&payload, &place.handle)?);
    }
    Ok(Some(edits.apply(arguments)))
}

impl Form {
    fn of(self, payload: &[u8], handle: &Handle) -> Result<String, String> {
        let text = std::str::from_utf8(payload);
        match (self, text) {
            (Self::Base64, _) => Ok(quote(&BASE64.encode(payload))),
            (Self::Text, Ok(text)) => Ok(quote(text)),
            (Self::Json, Ok(text)) => {
                match serde_json::from_str::<&serde_json::value::RawValue>(text) {
                    Ok(value) => Ok(value.get().to_owned()),
                    Err(_) => Err(format!(
                        "What is stored as {handle} is not JSON; leave \"as\" out to pass it as text."
                    )),
                }
            }
            (Self::Text | Self::Json, Err(_)) => Err(format!(
                "What is stored as {handle} is not text; pass it with \"as\": \"base64\"."
            )),
        }
    }
}

/// How deep arguments are looked into; what nests deeper passes as it is.
const MAX_DEPTH: usize = 64;

fn find(
    whole: &str,
    value: &str,
    bare: bool,
    depth: usize,
    places: &mut Vec<Place>,
) -> Result<(), String> {
    if depth == MAX_DEPTH {
        return Ok(());
    }
    match value.as_bytes().first() {
        Some(b'{') => {
            let members = Members::of(value).unwrap_or_default();
            // No handle, or none alone: some other program's object.
            let handle = members.text(KEY).and_then(|text| text.parse().ok());
            let is_ours = members.iter().all(|(key, _)| [KEY, "as", "view"].contains(&key));
            if let Some(handle) = handle.filter(|_| is_ours) {
                let form = match members.text("as").as_deref() {
                    None | Some("text") => Form::Text,
                    Some("json") => Form::Json,
                    Some("base64") => Form::Base64,
                    Some(other) => {
                        let other: String = other.chars().take(40).collect();
                        return Err(format!(
                            "\"as\" is {other:?}, but a payload can be passed as \"text\", \
                             \"json\" or \"base64\"."
                        ));
                    }
                };
                places.push(Place { at: span(whole, value), handle, form });
                return Ok(());
            }
            for (_, member) in members.iter() {
                find(whole, member, bare, depth + 1, places)?;
            }
        }
        Some(b'[') => {
            for item in items(value).unwrap_or_default() {
                find(whole, item, bare, depth + 1, places)?;
            }
        }
        // A handle has 128 characters a part at most.
        Some(b'"') if bare && value.len() < 300 => {
            if let Some(handle) = string(value).and_then(|text| text.parse().ok()) {
                places.push(Place { at: span(whole, value), handle, form: Form::Text });
            }
        }
        _ => {}
    }
    Ok(())
}

fn sorry(place: &Place, error: &StoreError) -> String {
    let handle = &place.handle;
    match error {
        StoreError::NotFound { .. } | StoreError::Expired { .. } => format!(
            "Nothing is stored as {handle} any more, if it ever was: check the handle against the \
             marker."
        ),
        other => format!("What is stored as {handle} cannot be read now ({other})."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(arguments: &str, bare: bool) -> Result<Vec<String>, String> {
        let mut places = Vec::new();
        find(arguments, arguments, bare, 0, &mut places)?;
        Ok(places.iter().map(|place| arguments[place.at.clone()].to_owned()).collect())
    }

    #[test]
    fn a_handle_is_found_wherever_it_stands() {
        let handle = format!("run/call.{}", "a".repeat(26));
        let object = format!(r#"{{"$overspill": "{handle}"}}"#);
        let json = format!(r#"{{"$overspill":"{handle}","as":"json","view":"..."}}"#);
        let arguments = format!(r#"{{"a":{object},"b":[1,{{"c":{json}}}],"d":"{handle}"}}"#);
        assert_eq!(places(&arguments, false), Ok(vec![object.clone(), json.clone()]));
        assert_eq!(places(&arguments, true), Ok(vec![object, json, format!("\"{handle}\"")]));
    }

    #[test]
    fn what_only_looks_like_one_passes() {
        let handle = format!("run/call.{}", "a".repeat(26));
        for arguments in [
            r#"{"a":{"$overspill":"../../etc/passwd"}}"#.to_owned(),
            format!(r#"{{"a":{{"$overspill":"{handle}","mine":1}}}}"#),
            format!(r#"{{"$overspill":7,"b":"see {handle}"}}"#),
        ] {
            assert_eq!(places(&arguments, false), Ok(vec![]), "{arguments}");
        }
        let mentioned = format!(r#"{{"b":"see {handle}"}}"#);
        assert_eq!(places(&mentioned, true), Ok(vec![]));
        let wrong = format!(r#"{{"a":{{"$overspill":"{handle}","as":"xml"}}}}"#);
        assert!(places(&wrong, false).is_err_and(|sentence| sentence.contains("\"xml\"")));
    }
}
