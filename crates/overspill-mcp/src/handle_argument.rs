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

/// In what form a tool may be given a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// As an object that says so.
    Objects,
    /// As a text that is a handle, too.
    BareHandles,
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
    let takes = match &config.handle_arguments {
        Some(tools) if tools.applies_to(tool) && config.bare_handles => Takes::BareHandles,
        Some(tools) if tools.applies_to(tool) => Takes::Objects,
        _ => Takes::Nothing,
    };
    // Nearly all arguments hold none, and are not looked into.
    if takes != Takes::BareHandles && !has_key(arguments) {
        return Ok(None);
    }
    let put = put(store, config.max_argument, takes, arguments).await;
    put.map_err(|why| {
        let hint = match takes {
            Takes::Nothing => format!(
                " Read what you need of the stored result and write that, or ask the user to list \
                 {tool} under handle_arguments in [mcp] of overspill.toml."
            ),
            _ => String::new(),
        };
        format!("{tool} was not called: {why}{hint}")
    })
}

async fn put(
    store: &Arc<dyn Store>,
    max_argument: u64,
    takes: Takes,
    arguments: &str,
) -> Result<Option<String>, String> {
    let mut places = Vec::new();
    find(arguments, arguments, takes, 0, &mut places)?;
    if places.is_empty() {
        return Ok(None);
    }
    let mut edits = Edits::default();
    let mut room = max_argument;
    for place in places {
        let stored =
            Stored::open(store, &place.handle).await.map_err(|error| sorry(&place, &error))?;
        let bytes = stored.receipt().bytes;
        if bytes > room {
            return Err(format!(
                "what is stored as {} has {bytes} bytes, and the arguments of one call may be given \
                 {max_argument} of them (max_argument in [mcp] of overspill.toml).",
                place.handle
            ));
        }
        room -= bytes;
        let payload = stored.bytes(0..bytes).await.map_err(|error| sorry(&place, &error))?;
        let value = place.form.of(&payload, &place.handle)?;
        if place.at.len() == arguments.len() && !value.starts_with('{') {
            return Err(format!(
                "the arguments are an object, and what is stored as {} is none; put the handle in \
                 place of one argument's value.",
                place.handle
            ));
        }
        edits.replace(place.at.clone(), value);
    }
    Ok(Some(edits.apply(arguments)))
}

fn has_key(text: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), KEY.as_bytes()).is_some()
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
                        "what is stored as {handle} is not JSON; leave \"as\" out to pass it as text."
                    )),
                }
            }
            (Self::Text | Self::Json, Err(_)) => Err(format!(
                "what is stored as {handle} is not text; pass it with \"as\": \"base64\"."
            )),
        }
    }
}

/// How deep arguments are looked into.
const MAX_DEPTH: usize = 64;

fn find(
    whole: &str,
    value: &str,
    takes: Takes,
    depth: usize,
    places: &mut Vec<Place>,
) -> Result<(), String> {
    if depth == MAX_DEPTH {
        return match takes {
            Takes::Objects | Takes::BareHandles if has_key(value) => {
                Err(format!("a handle stands deeper than {MAX_DEPTH} levels in its arguments."))
            }
            _ => Ok(()),
        };
    }
    match value.as_bytes().first() {
        Some(b'{') => {
            let members = Members::of(value).unwrap_or_default();
            if let Some(said) = members.get(KEY) {
                if takes != Takes::Nothing {
                    let (handle, form) = meant(&members, said)?;
                    places.push(Place { at: span(whole, value), handle, form });
                    return Ok(());
                }
                if handle_of(said).is_some() && strangers(&members).is_none() {
                    return Err("it takes no handle as an argument.".to_owned());
                }
                // Some other program's object.
            }
            for (_, member) in members.iter() {
                find(whole, member, takes, depth + 1, places)?;
            }
        }
        Some(b'[') => {
            for item in items(value).unwrap_or_default() {
                find(whole, item, takes, depth + 1, places)?;
            }
        }
        // A handle has 128 characters a part at most.
        Some(b'"') if takes == Takes::BareHandles && value.len() < 300 => {
            if let Some(handle) = handle_of(value) {
                places.push(Place { at: span(whole, value), handle, form: Form::Text });
            }
        }
        _ => {}
    }
    Ok(())
}

/// The handle that a literal is.
fn handle_of(literal: &str) -> Option<Handle> {
    string(literal)?.parse().ok()
}

/// The first key beside `$overspill` that is none of what a handle is written with.
fn strangers<'m>(members: &'m Members<'_>) -> Option<&'m str> {
    members.iter().map(|(key, _)| key).find(|key| ![KEY, "as", "view"].contains(key))
}

/// What an object with `$overspill` stands for, in a call that may be given a handle.
fn meant(members: &Members<'_>, said: &str) -> Result<(Handle, Form), String> {
    const HOW: &str = "Write {\"$overspill\": \"HANDLE\"} with the handle from the marker, and \
                       \"as\": \"json\" or \"as\": \"base64\" beside it where it is not to be a \
                       text.";
    if said == "null" {
        return Err("\"$overspill\" is null, since nothing could be stored there: what is in \
                    view of it is all there is. Write the value itself."
            .to_owned());
    }
    let handle = handle_of(said)
        .ok_or_else(|| format!("\"$overspill\" is {}, which is no handle. {HOW}", shown(said)))?;
    if let Some(key) = strangers(members) {
        return Err(format!(
            "{} stands beside \"$overspill\", where nothing but \"as\" can. {HOW}",
            shown(&quote(key))
        ));
    }
    let form = match members.some("as") {
        None => Form::Text,
        Some(said) => match string(said).as_deref() {
            Some("text") => Form::Text,
            Some("json") => Form::Json,
            Some("base64") => Form::Base64,
            _ => {
                return Err(format!(
                    "\"as\" is {}, but a payload can be passed as \"text\", \"json\" or \
                     \"base64\".",
                    shown(said)
                ));
            }
        },
    };
    Ok((handle, form))
}

/// The beginning of what was written.
fn shown(json: &str) -> String {
    const SHOWN: usize = 60;
    match json.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &json[..end]),
        None => json.to_owned(),
    }
}

fn sorry(place: &Place, error: &StoreError) -> String {
    let handle = &place.handle;
    match error {
        StoreError::NotFound { .. } | StoreError::Expired { .. } => format!(
            "nothing is stored as {handle} any more, if it ever was: check the handle against the \
             marker."
        ),
        other => format!("what is stored as {handle} cannot be read now ({other})."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(arguments: &str, takes: Takes) -> Result<Vec<String>, String> {
        let mut places = Vec::new();
        find(arguments, arguments, takes, 0, &mut places)?;
        Ok(places.iter().map(|place| arguments[place.at.clone()].to_owned()).collect())
    }

    fn handle() -> String {
        format!("run/call.{}", "a".repeat(26))
    }

    #[test]
    fn a_handle_is_found_wherever_it_stands() {
        let handle = handle();
        let object = format!(r#"{{"$overspill": "{handle}"}}"#);
        let json = format!(r#"{{"$overspill":"{handle}","as":"json","view":"..."}}"#);
        let arguments = format!(r#"{{"a":{object},"b":[1,{{"c":{json}}}],"d":"{handle}"}}"#);
        assert_eq!(places(&arguments, Takes::Objects), Ok(vec![object.clone(), json.clone()]));
        assert_eq!(
            places(&arguments, Takes::BareHandles),
            Ok(vec![object.clone(), json.clone(), format!("\"{handle}\"")])
        );
        for written in [object, json, format!(r#"{{"$overspill":"{handle}","as":"xml"}}"#)] {
            let refused = places(&format!("[{written}]"), Takes::Nothing);
            assert!(refused.is_err_and(|why| why.contains("takes no handle")), "{written}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_where_a_handle_is_taken_and_passes_elsewhere() {
        let handle = handle();
        for (object, why) in [
            (r#"{"$overspill":"cut"}"#.to_owned(), r#""$overspill" is "cut", which is no handle"#),
            (r#"{"$overspill":"../../etc/passwd"}"#.to_owned(), "is no handle"),
            (r#"{"$overspill":7}"#.to_owned(), r#""$overspill" is 7, which is no handle"#),
            (format!(r#"{{"$overspill":["{handle}"]}}"#), "is no handle"),
            (r#"{"$overspill":null,"view":"..."}"#.to_owned(), "nothing could be stored"),
            (format!(r#"{{"$overspill":"{handle}","mine":1}}"#), r#""mine" stands beside"#),
        ] {
            let arguments = format!(r#"{{"a":[{object}]}}"#);
            for takes in [Takes::Objects, Takes::BareHandles] {
                let refused = places(&arguments, takes).unwrap_err();
                assert!(refused.contains(why), "{refused}");
            }
            assert_eq!(places(&arguments, Takes::Nothing), Ok(vec![]), "{arguments}");
        }
        for form in [r#""xml""#, "7", r#"["json"]"#] {
            let arguments = format!(r#"{{"a":{{"$overspill":"{handle}","as":{form}}}}}"#);
            let refused = places(&arguments, Takes::Objects).unwrap_err();
            assert!(refused.contains(&format!("\"as\" is {form}, but")), "{refused}");
        }
        let deep = format!("{}{{\"$overspill\":\"{handle}\"}}{}", "[".repeat(70), "]".repeat(70));
        assert!(places(&deep, Takes::Objects).is_err());
        assert_eq!(places(&deep, Takes::Nothing), Ok(vec![]));
    }

    #[test]
    fn what_only_mentions_one_passes() {
        for arguments in [
            format!(r#"{{"b":"see {}"}}"#, handle()),
            r#"{"b":"{\"$overspill\":\"cut\"}"}"#.to_owned(),
        ] {
            assert_eq!(places(&arguments, Takes::BareHandles), Ok(vec![]), "{arguments}");
        }
    }
}
