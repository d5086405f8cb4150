//! OpenAI Chat Completions: one message per speaker, each return a message of its own.

use overspill::entry::Role;
use overspill::history::ReturnPlace;

use super::{Format, common_role, holds, list, need, object, optional, string};
use crate::error::WireError;
use crate::json::{Type, Value};
use crate::skeleton::{Home, ImageAt, PartKind, Place, Skeleton, TextAt};

const FORMAT: Format = Format::Chat;

pub(super) fn read(root: Value<'_>) -> Result<Skeleton, WireError> {
    let messages = list(need(root, "messages", FORMAT)?, FORMAT)?;
    let mut out = Skeleton::over(messages);
    out.rules.returns = ReturnPlace::Next;
    out.model = optional(root, "model", FORMAT)?.map(Value::span);
    for key in ["tools", "functions"] {
        out.tools.extend(root.get(key).into_iter().flat_map(Value::items).map(Value::span));
    }
    for message in messages.items() {
        let message = object(message, FORMAT)?;
        let spelled = string(need(message, "role", FORMAT)?, FORMAT)?;
        match &*spelled.text() {
            "tool" | "function" => read_return(&mut out, message)?,
            role => match common_role(role) {
                Some(role) => read_message(&mut out, role, message)?,
                None => return Err(WireError::shape(spelled, "a role", FORMAT)),
            },
        }
    }
    Ok(out)
}

fn read_return(out: &mut Skeleton, message: Value<'_>) -> Result<(), WireError> {
    out.message(Role::Tool, message);
    let id = optional(message, "tool_call_id", FORMAT)?.map(Value::span);
    let name = optional(message, "name", FORMAT)?.map(Value::span);
    let content = message.spelled("content");
    let items = content.into_iter().flat_map(Value::items);
    let texts: Vec<_> =
        items.clone().filter_map(|item| item.get("text")).map(Value::span).collect();
    let holds_more = items.clone().any(|item| item.get("text").is_none());
    let images: Vec<_> = items.filter_map(image).collect();
    let images = out.images(images);
    let text = match content {
        Some(content) if content.is_string() => TextAt::Literal(content.span()),
        _ => out.literals(texts),
    };
    let part =
        out.part(Role::Tool, PartKind::Return { id, name, is_error: false, images }, message);
    part.text = text;
    part.holds_more = holds_more;
    part.place = content.map_or(Place::Nowhere, |content| Place::String(content.span()));
    part.cache_marker =
        is_marked(message) || content.into_iter().flat_map(Value::items).any(is_marked);
    Ok(())
}

fn read_message(out: &mut Skeleton, role: Role, message: Value<'_>) -> Result<(), WireError> {
    out.message(role, message);
    if role == Role::Assistant {
        read_reasoning(out, message);
    }
    if let Some(content) = message.get("content") {
        read_content(out, role, message, content)?;
    }
    if role != Role::Assistant {
        return Ok(());
    }
    if let Some(refusal) = optional(message, "refusal", FORMAT)? {
        out.part(role, PartKind::Refusal, refusal).text = TextAt::Literal(refusal.span());
    }
    if let Some(audio) = message.get("audio") {
        out.part(role, PartKind::Other, audio);
    }
    if let Some(call) = message.get("function_call") {
        read_call(out, None, object(call, FORMAT)?, call)?;
    }
    if let Some(calls) = message.get("tool_calls") {
        for call in list(calls, FORMAT)?.items() {
            let id = optional(call, "id", FORMAT)?;
            match call.any(&["function", "custom"]) {
                Some(function) => read_call(out, id, object(function, FORMAT)?, call)?,
                None => return Err(WireError::shape(call, "a call of a function", FORMAT)),
            }
        }
    }
    Ok(())
}

fn read_call(
    out: &mut Skeleton,
    id: Option<Value<'_>>,
    function: Value<'_>,
    call: Value<'_>,
) -> Result<(), WireError> {
    let (id, name) = (id.map(Value::span), optional(function, "name", FORMAT)?.map(Value::span));
    let arguments = optional(function, "arguments", FORMAT)?;
    // The input of a custom tool is text that need not be JSON, so no other can take its place.
    let input = optional(function, "input", FORMAT)?;
    let part = out.part(Role::Assistant, PartKind::Call { id, name }, call);
    if let Some(text) = arguments.or(input) {
        part.text = TextAt::Literal(text.span());
    }
    if let Some(arguments) = arguments {
        part.place = Place::JsonInString(arguments.span());
    }
    Ok(())
}

/// Thinking, as the servers that add it to this format spell it.
fn read_reasoning(out: &mut Skeleton, message: Value<'_>) {
    let words = message.any(&["reasoning_content", "reasoning"]).filter(|words| words.is_string());
    let details = message.get("reasoning_details");
    if let Some(at) = words.or(details) {
        let part = out.part(Role::Assistant, PartKind::Thinking, at);
        if let Some(words) = words {
            part.text = TextAt::Literal(words.span());
            // Details hold signatures over the thinking.
            part.place = match details {
                Some(_) => Place::Nowhere,
                None => Place::String(words.span()),
            };
        }
    }
}

fn read_content(
    out: &mut Skeleton,
    role: Role,
    message: Value<'_>,
    content: Value<'_>,
) -> Result<(), WireError> {
    let cited = holds(message, "annotations");
    match content.kind() {
        Type::String => {
            let part = out.part(role, PartKind::Text, content);
            part.text = TextAt::Literal(content.span());
            part.place = Place::String(content.span());
            part.cited = cited;
            part.cache_marker = is_marked(message);
            return Ok(());
        }
        Type::Array => {}
        _ => return Err(WireError::shape(content, "a string or a list of parts", FORMAT)),
    }
    let parts = out.list(content, None);
    for (element, item) in content.items().enumerate() {
        let kind = string(need(object(item, FORMAT)?, "type", FORMAT)?, FORMAT)?;
        // Anthropic's: taken for parts nobody knows, a call could lose its return.
        if ["tool_use", "tool_result"].iter().any(|foreign| kind.is(foreign)) {
            return Err(WireError::shape(
                kind,
                "a part of this format, and no block of Anthropic's",
                FORMAT,
            ));
        }
        let (kind, words) = match &*kind.text() {
            "text" => (PartKind::Text, Some(need(item, "text", FORMAT)?)),
            "refusal" => (PartKind::Refusal, Some(need(item, "refusal", FORMAT)?)),
            "image_url" => (image(item).map_or(PartKind::Other, PartKind::Image), None),
            _ => (PartKind::Other, None),
        };
        let words = words.map(|words| string(words, FORMAT)).transpose()?;
        let is_text = kind == PartKind::Text;
        let part = out.part(role, kind, item);
        part.home = Some(Home { list: parts, element });
        part.cited = cited && is_text;
        part.cache_marker = is_marked(item);
        if let Some(words) = words {
            part.text = TextAt::Literal(words.span());
            part.place = if is_text { Place::String(words.span()) } else { Place::Nowhere };
        }
    }
    Ok(())
}

/// Whether the part ends a prefix that is to be cached, in either of the spellings in use.
fn is_marked(item: Value<'_>) -> bool {
    item.any(&["cache_control", "prompt_cache_breakpoint"]).is_some()
}

fn image(item: Value<'_>) -> Option<ImageAt> {
    let image = item.get("image_url")?;
    let url = if image.is_string() { Some(image) } else { image.get("url") };
    Some(ImageAt {
        source: url.filter(|url| url.is_string()).map(Value::span),
        is_data: false,
        detail: image.get("detail").filter(|detail| detail.is_string()).map(Value::span),
    })
}
