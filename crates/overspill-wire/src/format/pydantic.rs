//! Pydantic AI's own messages: requests and responses in turn, each a list of parts.

use overspill::Usage;
use overspill::entry::Role;
use overspill::history::ReturnPlace;

use super::{Format, holds, list, need, object, optional, string};
use crate::error::WireError;
use crate::json::Value;
use crate::skeleton::{Home, ImageAt, PartKind, Place, Skeleton, TextAt};

const FORMAT: Format = Format::PydanticAi;

pub(super) fn read(root: Value<'_>) -> Result<Skeleton, WireError> {
    let mut out = Skeleton::over(list(root, FORMAT)?);
    out.rules.returns = ReturnPlace::Next;
    let mut instructions = None;
    for message in root.items() {
        let kind = string(need(object(message, FORMAT)?, "kind", FORMAT)?, FORMAT)?;
        let parts = list(need(message, "parts", FORMAT)?, FORMAT)?;
        match &*kind.text() {
            "request" => {
                instructions = optional(message, "instructions", FORMAT)?.or(instructions);
                read_request(&mut out, message, parts)?;
            }
            "response" => {
                out.model = optional(message, "model_name", FORMAT)?.map(Value::span).or(out.model);
                read_response(&mut out, message, parts)?;
            }
            _ => return Err(WireError::shape(kind, "`request` or `response`", FORMAT)),
        }
    }
    // Each request repeats the instructions; the last ones are sent.
    out.instructions.extend(instructions.map(Value::span));
    Ok(out)
}

fn read_request(out: &mut Skeleton, message: Value<'_>, parts: Value<'_>) -> Result<(), WireError> {
    out.message(Role::User, message);
    let home = out.list(parts, None);
    for (element, part) in parts.items().enumerate() {
        let home = Home { list: home, element };
        let kind = string(need(object(part, FORMAT)?, "part_kind", FORMAT)?, FORMAT)?;
        match &*kind.text() {
            "system-prompt" => say(out, Role::System, part, home)?,
            "user-prompt" => read_prompt(out, part, home)?,
            // The retry of a call answers it.
            "retry-prompt" if part.get("tool_name").is_some() => {
                read_return(out, part, home, true)?;
            }
            "retry-prompt" | "retry-feedback" => {
                let content = need(part, "content", FORMAT)?;
                let read = out.part(Role::User, PartKind::Text, part);
                read.home = Some(home);
                (read.text, read.place) = words(content);
            }
            "tool-return" => {
                let outcome = part.get("outcome");
                let failed = outcome.is_some_and(|outcome| !outcome.is("success"));
                read_return(out, part, home, failed)?;
            }
            // A summary the application wrote is the user's voice, and no boundary.
            "compaction" if part.get("content").is_some() => say(out, Role::User, part, home)?,
            // Instructions and tools that change on the way.
            _ => out.part(Role::System, PartKind::Other, part).home = Some(home),
        }
    }
    Ok(())
}

/// A part with one text.
fn say(out: &mut Skeleton, role: Role, part: Value<'_>, home: Home) -> Result<(), WireError> {
    let content = string(need(part, "content", FORMAT)?, FORMAT)?;
    let read = out.part(role, PartKind::Text, part);
    read.home = Some(home);
    (read.text, read.place) = words(content);
    Ok(())
}

/// The text of any value, and its place.
fn words(content: Value<'_>) -> (TextAt, Place) {
    let text = match content.is_string() {
        true => TextAt::Literal(content.span()),
        false => TextAt::Raw(content.span()),
    };
    (text, Place::String(content.span()))
}

fn read_prompt(out: &mut Skeleton, part: Value<'_>, home: Home) -> Result<(), WireError> {
    let content = need(part, "content", FORMAT)?;
    if content.is_string() {
        return say(out, Role::User, part, home);
    }
    let items = out.list(list(content, FORMAT)?, Some(home));
    for (element, item) in content.items().enumerate() {
        let home = Home { list: items, element };
        // A cache point stands behind what it marks, and leaves with it.
        if element > 0
            && item.get("kind").is_some_and(|kind| kind.is("cache-point"))
            && let Some(marked) = out.parts.last_mut()
        {
            marked.cache_marker = true;
            marked.trail += 1;
            continue;
        }
        let text = if item.is_string() { Some(item) } else { text_content(item) };
        let kind = match (text, image(item)) {
            (Some(_), _) => PartKind::Text,
            (None, Some(image)) => PartKind::Image(image),
            (None, None) => PartKind::Other,
        };
        let read = out.part(Role::User, kind, item);
        read.home = Some(home);
        if let Some(text) = text {
            (read.text, read.place) = words(text);
        }
    }
    Ok(())
}

fn text_content(item: Value<'_>) -> Option<Value<'_>> {
    let is_text = item.get("kind").is_some_and(|kind| kind.is("text-content"));
    item.get("content").filter(|content| is_text && content.is_string())
}

fn read_return(
    out: &mut Skeleton,
    part: Value<'_>,
    home: Home,
    is_error: bool,
) -> Result<(), WireError> {
    let id = optional(part, "tool_call_id", FORMAT)?.map(Value::span);
    let name = optional(part, "tool_name", FORMAT)?.map(Value::span);
    let content = part.spelled("content");
    let pieces = || content.into_iter().flat_map(|content| alone(content).chain(content.items()));
    let holds_more = pieces().any(is_media);
    let images: Vec<ImageAt> = pieces().filter_map(image).collect();
    let (text, place) = match content {
        Some(content) if holds_more => {
            let texts = pieces().filter(|piece| piece.is_string()).map(Value::span);
            (out.literals(texts), Place::String(content.span()))
        }
        Some(content) if content.is_null() => (TextAt::Nowhere, Place::String(content.span())),
        Some(content) => words(content),
        None => (TextAt::Nowhere, Place::Nowhere),
    };
    let images = out.images(images);
    let read = out.part(Role::Tool, PartKind::Return { id, name, is_error, images }, part);
    (read.text, read.place, read.home) = (text, place, Some(home));
    read.holds_more = holds_more;
    Ok(())
}

/// A value that is no list, as the only piece of itself.
fn alone(content: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    Some(content).filter(|content| !content.is_array()).into_iter()
}

/// Whether a piece of a return is no text and no JSON, but a file or where one is.
fn is_media(piece: Value<'_>) -> bool {
    piece.get("kind").is_some_and(|kind| {
        let kind = kind.text();
        matches!(&*kind, "binary" | "uploaded-file") || kind.ends_with("-url")
    })
}

fn read_response(
    out: &mut Skeleton,
    message: Value<'_>,
    parts: Value<'_>,
) -> Result<(), WireError> {
    let tokens = |key| message.get("usage")?.get(key)?.as_u64();
    let usage = Usage {
        requests: 1,
        input_tokens: tokens("input_tokens").unwrap_or_default(),
        output_tokens: tokens("output_tokens").unwrap_or_default(),
    };
    // Zero is what is kept where the provider reported nothing.
    out.message(Role::Assistant, message).usage =
        Some(usage).filter(|usage| usage.input_tokens + usage.output_tokens > 0);
    for part in parts.items() {
        read_response_part(out, object(part, FORMAT)?)?;
    }
    Ok(())
}

fn read_response_part(out: &mut Skeleton, part: Value<'_>) -> Result<(), WireError> {
    let kind = string(need(part, "part_kind", FORMAT)?, FORMAT)?;
    let id = optional(part, "tool_call_id", FORMAT)?.map(Value::span);
    let name = optional(part, "tool_name", FORMAT)?.map(Value::span);
    let content = part.get("content");
    let mut text = TextAt::Nowhere;
    let mut place = Place::Nowhere;
    if let Some(content) = content.filter(|content| content.is_string()) {
        (text, place) = words(content);
    }
    let kind = match &*kind.text() {
        "text" => PartKind::Text,
        "thinking" => PartKind::Thinking,
        "tool-call" => {
            (text, place) = match part.spelled("args") {
                Some(args) if args.is_string() => {
                    (TextAt::Literal(args.span()), Place::JsonInString(args.span()))
                }
                Some(args) if args.is_null() => (TextAt::Nowhere, Place::Json(args.span())),
                Some(args) => (TextAt::Raw(args.span()), Place::Json(args.span())),
                None => (TextAt::Nowhere, Place::Nowhere),
            };
            PartKind::Call { id, name }
        }
        "builtin-tool-call" => {
            place = Place::Nowhere;
            PartKind::ServerCall { id, name }
        }
        "builtin-tool-return" => {
            place = Place::Nowhere;
            PartKind::ServerReturn { id }
        }
        "compaction" if content.is_some() || part.any(&["provider_details", "id"]).is_some() => {
            place = Place::Nowhere;
            PartKind::Boundary
        }
        "file" => content.and_then(image).map_or(PartKind::Other, PartKind::Image),
        _ => {
            place = Place::Nowhere;
            PartKind::Other
        }
    };
    let details = part.get("provider_details");
    let signature = part.get("signature").or_else(|| details?.get("thought_signature"));
    let cited = holds(part, "citations");
    let part = out.part(Role::Assistant, kind, part);
    (part.text, part.place, part.cited) = (text, place, cited);
    part.signature = signature.filter(|signature| signature.is_string()).map(Value::span);
    Ok(())
}

fn image(item: Value<'_>) -> Option<ImageAt> {
    let kind = item.get("kind")?;
    let source = if kind.is("image-url") {
        item.get("url")
    } else if kind.is("binary") && item.get("media_type")?.text().starts_with("image/") {
        item.get("data")
    } else {
        return None;
    };
    Some(ImageAt {
        source: source.filter(|source| source.is_string()).map(Value::span),
        is_data: kind.is("binary"),
        detail: None,
    })
}
