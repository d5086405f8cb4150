//! OpenAI Responses: one list of items, a response spread over several of them.

use overspill::entry::Role;

use super::{Format, common_role, holds, list, need, object, optional, string};
use crate::error::WireError;
use crate::json::{Span, Type, Value};
use crate::skeleton::{Home, ImageAt, PartKind, Place, Skeleton, TextAt};

const FORMAT: Format = Format::Responses;

pub(super) fn read(root: Value<'_>) -> Result<Skeleton, WireError> {
    let input = need(root, "input", FORMAT)?;
    let mut out = Skeleton::over(input);
    out.rules.continues = root.any(&["previous_response_id", "conversation"]).is_some();
    out.model = optional(root, "model", FORMAT)?.map(Value::span);
    out.instructions.extend(optional(root, "instructions", FORMAT)?.map(Value::span));
    out.tools.extend(root.get("tools").into_iter().flat_map(Value::items).map(Value::span));
    match input.kind() {
        Type::String => {
            out.message(Role::User, input);
            say(&mut out, Role::User, input);
        }
        Type::Array => {
            let mut response = Response::default();
            for item in input.items() {
                read_item(&mut out, object(item, FORMAT)?)?;
                response.step(&mut out, item);
            }
        }
        _ => return Err(WireError::shape(input, "a string or a list of items", FORMAT)),
    }
    Ok(out)
}

/// The response that the items read last belong to.
#[derive(Default)]
struct Response {
    /// Whether the item before was the model's.
    open: bool,
    /// Whether the response began with reasoning. Its calls are refused without it, so one that a
    /// client wrote behind a return still belongs to it; an item that came from the provider,
    /// with an id, tells.
    reasoned: bool,
}

impl Response {
    fn step(&mut self, out: &mut Skeleton, item: Value<'_>) {
        let Some(last) = out.messages.last_mut() else { return };
        let is_reasoning = item.get("type").is_some_and(|kind| kind.is("reasoning"));
        match last.role {
            Role::Assistant => {
                let held = self.reasoned && !is_reasoning && item.get("id").is_some();
                last.continues = self.open || held;
                self.reasoned = is_reasoning || (last.continues && self.reasoned);
                self.open = true;
            }
            Role::Tool => self.open = false,
            Role::User | Role::System => *self = Self::default(),
        }
    }
}

/// A text that stands for itself.
fn say(out: &mut Skeleton, role: Role, literal: Value<'_>) {
    let part = out.part(role, PartKind::Text, literal);
    part.text = TextAt::Literal(literal.span());
    part.place = Place::String(literal.span());
}

fn read_item(out: &mut Skeleton, item: Value<'_>) -> Result<(), WireError> {
    let kind = optional(item, "type", FORMAT)?.map(Value::text);
    let id = |key| optional(item, key, FORMAT).map(|id| id.map(Value::span));
    let call_id = id("call_id")?;
    match kind.as_deref() {
        None | Some("message") if item.get("role").is_some() => return read_message(out, item),
        Some("reasoning") => read_reasoning(out, item)?,
        Some("function_call") => {
            let call = PartKind::Call { id: call_id, name: id("name")? };
            let arguments = optional(item, "arguments", FORMAT)?;
            one(out, Role::Assistant, call, item, arguments.map(Value::span), |span| {
                Place::JsonInString(span)
            });
        }
        Some("custom_tool_call") => {
            // Its input need not be JSON, so no other can take its place.
            let call = PartKind::Call { id: call_id, name: id("name")? };
            let input = optional(item, "input", FORMAT)?;
            one(out, Role::Assistant, call, item, input.map(Value::span), |_| Place::Nowhere);
        }
        Some("mcp_approval_request") => {
            let call = PartKind::Call { id: id("id")?, name: id("name")? };
            let arguments = optional(item, "arguments", FORMAT)?;
            one(out, Role::Assistant, call, item, arguments.map(Value::span), |_| Place::Nowhere);
        }
        Some("mcp_approval_response") => {
            let images = out.images([]);
            let id = id("approval_request_id")?;
            let answer = PartKind::Return { id, name: None, is_error: false, images };
            one(out, Role::Tool, answer, item, None, |_| Place::Nowhere);
        }
        Some("program") => {
            let call = PartKind::ServerCall { id: call_id, name: id("type")? };
            one(out, Role::Assistant, call, item, None, |_| Place::Nowhere);
        }
        Some("program_output") => {
            let answer = PartKind::ServerReturn { id: call_id };
            one(out, Role::Assistant, answer, item, None, |_| Place::Nowhere);
        }
        Some("compaction_trigger") => {
            one(out, Role::User, PartKind::Other, item, None, |_| Place::Nowhere);
        }
        // What an item refers to is kept by the provider, so nothing here may rely on it.
        Some("item_reference") | None if item.get("id").is_some() => {
            out.rules.continues = true;
            one(out, Role::Assistant, PartKind::Boundary, item, None, |_| Place::Nowhere);
        }
        Some(kind) if kind.starts_with("compaction") => {
            one(out, Role::Assistant, PartKind::Boundary, item, None, |_| Place::Nowhere);
        }
        // This one alone says `id` for the call it answers.
        Some("local_shell_call_output") => read_output(out, item, call_id.or(id("id")?))?,
        Some("function_call_output" | "custom_tool_call_output") => {
            read_output(out, item, call_id)?;
        }
        Some(kind) if kind.ends_with("_output") && call_id.is_some() => {
            read_output(out, item, call_id)?;
        }
        Some(kind) if kind.ends_with("_call") && call_id.is_some() => {
            let call = PartKind::Call { id: call_id, name: id("type")? };
            let action = item.any(&["action", "operation", "arguments"]);
            out.message(Role::Assistant, item);
            let part = out.part(Role::Assistant, call, item);
            part.text = action.map_or(TextAt::Nowhere, |action| TextAt::Raw(action.span()));
        }
        Some(kind) if kind.ends_with("_call") || kind == "mcp_list_tools" => {
            let call = PartKind::ServerCall { id: None, name: id("type")? };
            one(out, Role::Assistant, call, item, None, |_| Place::Nowhere);
        }
        Some(_) => {
            let role = item.get("role").and_then(|role| common_role(&role.text()));
            let role = role.unwrap_or(Role::Assistant);
            one(out, role, PartKind::Other, item, None, |_| Place::Nowhere);
        }
        None => return Err(WireError::shape(item, "an item with a `type` or a `role`", FORMAT)),
    }
    Ok(())
}

/// An item that is one message with one part.
fn one(
    out: &mut Skeleton,
    role: Role,
    kind: PartKind,
    item: Value<'_>,
    text: Option<Span>,
    place: fn(Span) -> Place,
) {
    out.message(role, item);
    let part = out.part(role, kind, item);
    if let Some(text) = text {
        part.text = TextAt::Literal(text);
        part.place = place(text);
    }
}

fn read_reasoning(out: &mut Skeleton, item: Value<'_>) -> Result<(), WireError> {
    let texts: Vec<Span> = ["summary", "content"]
        .into_iter()
        .filter_map(|key| item.get(key))
        .flat_map(Value::items)
        .filter_map(|piece| piece.get("text"))
        .filter(|text| text.is_string())
        .map(Value::span)
        .collect();
    let text = out.literals(texts);
    // Where the provider keeps the reasoning itself, the id stands for it.
    let proof = match optional(item, "encrypted_content", FORMAT)? {
        Some(encrypted) => Some(encrypted),
        None => optional(item, "id", FORMAT)?,
    };
    out.message(Role::Assistant, item);
    let part = out.part(Role::Assistant, PartKind::Thinking, item);
    part.text = text;
    part.signature = proof.map(Value::span);
    Ok(())
}

fn read_output(out: &mut Skeleton, item: Value<'_>, id: Option<Span>) -> Result<(), WireError> {
    let is_text_tool = item
        .get("type")
        .is_some_and(|kind| kind.is("function_call_output") || kind.is("custom_tool_call_output"));
    let output = item.get("output");
    let pieces = output.into_iter().flat_map(Value::items);
    let texts: Vec<Span> = pieces
        .clone()
        .filter_map(|piece| piece.get("text"))
        .filter(|text| text.is_string())
        .map(Value::span)
        .collect();
    let holds_more = pieces.clone().any(|piece| piece.get("text").is_none());
    let images: Vec<ImageAt> = pieces.clone().filter_map(image).collect();
    let images = out.images(images);
    let (text, place) = match output {
        None => (TextAt::Nowhere, Place::Nowhere),
        Some(output) if output.is_string() => {
            (TextAt::Literal(output.span()), Place::String(output.span()))
        }
        Some(output) if output.is_array() && is_text_tool => {
            (out.literals(texts), Place::String(output.span()))
        }
        // Screens, and the streams of a shell: a string cannot take their place.
        Some(output) => (TextAt::Raw(output.span()), Place::Nowhere),
    };
    out.message(Role::Tool, item);
    let part =
        out.part(Role::Tool, PartKind::Return { id, name: None, is_error: false, images }, item);
    (part.text, part.place, part.holds_more) = (text, place, holds_more);
    part.cache_marker = pieces.into_iter().any(is_marked);
    Ok(())
}

fn read_message(out: &mut Skeleton, item: Value<'_>) -> Result<(), WireError> {
    let spelled = string(need(item, "role", FORMAT)?, FORMAT)?;
    let role = common_role(&spelled.text()).ok_or_else(|| {
        WireError::shape(spelled, "`user`, `assistant`, `system` or `developer`", FORMAT)
    })?;
    let content = need(item, "content", FORMAT)?;
    out.message(role, item);
    if content.is_string() {
        say(out, role, content);
        return Ok(());
    }
    let parts = out.list(list(content, FORMAT)?, None);
    for (element, piece) in content.items().enumerate() {
        let kind = string(need(object(piece, FORMAT)?, "type", FORMAT)?, FORMAT)?;
        let (kind, words) = match &*kind.text() {
            "input_text" | "output_text" | "text" => (PartKind::Text, piece.get("text")),
            "refusal" => (PartKind::Refusal, piece.get("refusal")),
            "input_image" => (image(piece).map_or(PartKind::Other, PartKind::Image), None),
            _ => (PartKind::Other, None),
        };
        let is_text = kind == PartKind::Text;
        let words = words.map(|words| string(words, FORMAT)).transpose()?;
        let part = out.part(role, kind, piece);
        part.home = Some(Home { list: parts, element });
        part.cited = holds(piece, "annotations");
        part.cache_marker = is_marked(piece);
        if let Some(words) = words {
            part.text = TextAt::Literal(words.span());
            part.place = if is_text { Place::String(words.span()) } else { Place::Nowhere };
        }
    }
    Ok(())
}

fn is_marked(piece: Value<'_>) -> bool {
    piece.get("prompt_cache_breakpoint").is_some()
}

fn image(piece: Value<'_>) -> Option<ImageAt> {
    if !piece.get("type").is_some_and(|kind| kind.is("input_image")) {
        return None;
    }
    let source = piece.any(&["image_url", "file_id"]).filter(|source| source.is_string());
    Some(ImageAt {
        source: source.map(Value::span),
        is_data: false,
        detail: piece.get("detail").filter(|detail| detail.is_string()).map(Value::span),
    })
}
