//! Gemini `generateContent`: contents of parts; calls and responses by name, ids optional.

use overspill::entry::Role;
use overspill::history::ReturnPlace;

use super::{Format, holds, list, need, object, optional, string};
use crate::error::WireError;
use crate::json::{Span, Value};
use crate::skeleton::{Home, ImageAt, PartKind, Place, Skeleton, TextAt};

const FORMAT: Format = Format::Gemini;

// The API reads both spellings of every key.
const FUNCTION_CALL: [&str; 2] = ["functionCall", "function_call"];
const FUNCTION_RESPONSE: [&str; 2] = ["functionResponse", "function_response"];
const INLINE_DATA: [&str; 2] = ["inlineData", "inline_data"];
const FILE_DATA: [&str; 2] = ["fileData", "file_data"];

pub(super) fn read(root: Value<'_>) -> Result<Skeleton, WireError> {
    let contents = list(need(root, "contents", FORMAT)?, FORMAT)?;
    let mut out = Skeleton::over(contents);
    out.rules.user_first = true;
    out.rules.responses_apart = true;
    out.rules.returns = ReturnPlace::Next;
    out.model = optional(root, "model", FORMAT)?.map(Value::span);
    if let Some(system) = root.any(&["systemInstruction", "system_instruction"]) {
        let parts = system.get("parts").into_iter().flat_map(Value::items);
        let texts = parts.filter_map(|part| part.get("text")).filter(|text| text.is_string());
        out.instructions.extend(texts.map(Value::span));
    }
    out.tools.extend(root.get("tools").into_iter().flat_map(Value::items).map(Value::span));
    for content in contents.items() {
        read_content(&mut out, object(content, FORMAT)?)?;
    }
    Ok(out)
}

fn read_content(out: &mut Skeleton, content: Value<'_>) -> Result<(), WireError> {
    let spelled = optional(content, "role", FORMAT)?;
    let role = match spelled.map(Value::text).as_deref() {
        None | Some("user") => Role::User,
        Some("function") => Role::Tool,
        Some("model") => Role::Assistant,
        Some(_) => return Err(WireError::shape(content, "`user` or `model` as role", FORMAT)),
    };
    // Vertex refuses a content without parts and the public API takes it for empty.
    let parts = content.get("parts").map(|parts| list(parts, FORMAT)).transpose()?;
    let plain = content.members().all(|(key, _)| key.is("role") || key.is("parts"));
    out.message(role, content).content =
        parts.filter(|_| role == Role::User && plain).map(Value::span);
    let continues = role == Role::Assistant && out.role_before() == Some(Role::Assistant);
    if let Some(open) = out.messages.last_mut() {
        open.continues = continues;
    }
    let Some(parts) = parts else { return Ok(()) };
    let home = out.list(parts, None);
    for (element, part) in parts.items().enumerate() {
        read_part(out, role, object(part, FORMAT)?, Home { list: home, element })?;
    }
    Ok(())
}

fn read_part(out: &mut Skeleton, role: Role, part: Value<'_>, home: Home) -> Result<(), WireError> {
    let mut speaks = role;
    let mut text = TextAt::Nowhere;
    let mut place = Place::Nowhere;
    let span = |at: Value<'_>, key| optional(at, key, FORMAT).map(|at| at.map(Value::span));
    let kind = if let Some(call) = part.any(&FUNCTION_CALL) {
        if role != Role::Assistant {
            return Err(WireError::shape(part, "no call outside a response", FORMAT));
        }
        if let Some(args) = object(call, FORMAT)?.get("args") {
            text = TextAt::Raw(args.span());
            place = Place::Json(args.span());
        }
        PartKind::Call { id: span(call, "id")?, name: span(call, "name")? }
    } else if let Some(answer) = part.any(&FUNCTION_RESPONSE) {
        if role == Role::Assistant {
            return Err(WireError::shape(part, "no function response of the model", FORMAT));
        }
        speaks = Role::Tool;
        let response = object(answer, FORMAT)?.get("response");
        if let Some(response) = response {
            (text, place) = words_of(response);
        }
        let is_error = response.is_some_and(|response| response.get("error").is_some());
        let images: Vec<ImageAt> =
            answer.get("parts").into_iter().flat_map(Value::items).filter_map(image).collect();
        if holds(answer, "parts") {
            // Other text would leave what else is there where it is.
            place = Place::Nowhere;
        }
        let images = out.images(images);
        PartKind::Return { id: span(answer, "id")?, name: span(answer, "name")?, is_error, images }
    } else if let Some(words) = part.get("text") {
        let words = string(words, FORMAT)?;
        text = TextAt::Literal(words.span());
        place = Place::String(words.span());
        match part.get("thought").is_some_and(|flag| flag.raw() == "true") {
            true => PartKind::Thinking,
            false => PartKind::Text,
        }
    } else if let Some(image) = image(part) {
        PartKind::Image(image)
    } else if let Some(call) = part.any(&["toolCall", "tool_call"]) {
        PartKind::ServerCall { id: span(call, "id")?, name: kind_of(call) }
    } else if let Some(answer) = part.any(&["toolResponse", "tool_response"]) {
        PartKind::ServerReturn { id: span(answer, "id")? }
    } else {
        PartKind::Other
    };
    let signature = part.any(&["thoughtSignature", "thought_signature"]);
    let part = out.part(speaks, kind, part);
    (part.text, part.place, part.home) = (text, place, Some(home));
    part.signature = signature.filter(|signature| signature.is_string()).map(Value::span);
    Ok(())
}

fn kind_of(call: Value<'_>) -> Option<Span> {
    call.any(&["toolType", "tool_type"]).filter(|kind| kind.is_string()).map(Value::span)
}

/// The text of a response: the one string in it, or all of it.
fn words_of(response: Value<'_>) -> (TextAt, Place) {
    let mut members = response.members().map(|(_, value)| value);
    match (members.next(), members.next()) {
        (Some(only), None) if only.is_string() => {
            (TextAt::Literal(only.span()), Place::String(only.span()))
        }
        _ => (TextAt::Raw(response.span()), Place::Output(response.span())),
    }
}

fn image(part: Value<'_>) -> Option<ImageAt> {
    let inline = part.any(&INLINE_DATA);
    let blob = inline.or(part.any(&FILE_DATA))?;
    let media = blob.any(&["mimeType", "mime_type"])?;
    if !media.text().starts_with("image/") {
        return None;
    }
    let source = blob.any(&["data", "fileUri", "file_uri"]).filter(|source| source.is_string());
    Some(ImageAt { source: source.map(Value::span), is_data: inline.is_some(), detail: None })
}
