//! Anthropic Messages: content blocks, results in the user's next message.

use overspill::entry::Role;
use overspill::history::ReturnPlace;

use super::{Format, common_role, holds, list, need, object, optional, string};
use crate::error::WireError;
use crate::json::{Type, Value};
use crate::skeleton::{Home, ImageAt, PartKind, Place, Skeleton, TextAt};

const FORMAT: Format = Format::Anthropic;

/// Whether no other format has a block of this type.
pub(super) fn is_own_block(kind: &str) -> bool {
    matches!(kind, "tool_use" | "tool_result" | "thinking" | "redacted_thinking")
        || matches!(kind, "server_tool_use" | "mcp_tool_use" | "compaction" | "document")
        || kind.ends_with("_tool_result")
}

pub(super) fn read(root: Value<'_>) -> Result<Skeleton, WireError> {
    let messages = list(need(root, "messages", FORMAT)?, FORMAT)?;
    let mut out = Skeleton::over(messages);
    out.rules.user_first = true;
    out.rules.responses_apart = true;
    out.rules.returns = ReturnPlace::NextAndFirst;
    out.model = optional(root, "model", FORMAT)?.map(Value::span);
    if let Some(system) = root.get("system") {
        if system.is_string() {
            out.instructions.push(system.span());
        }
        for block in list_or_string(system)?.items() {
            out.instructions.extend(block.get("text").map(Value::span));
        }
    }
    out.tools.extend(root.get("tools").into_iter().flat_map(Value::items).map(Value::span));
    for message in messages.items() {
        read_message(&mut out, object(message, FORMAT)?)?;
    }
    Ok(out)
}

fn list_or_string(at: Value<'_>) -> Result<Value<'_>, WireError> {
    match at.kind() {
        Type::Array | Type::String => Ok(at),
        _ => Err(WireError::shape(at, "a string or a list of blocks", FORMAT)),
    }
}

fn read_message(out: &mut Skeleton, message: Value<'_>) -> Result<(), WireError> {
    let spelled = string(need(message, "role", FORMAT)?, FORMAT)?;
    let role = common_role(&spelled.text())
        .ok_or_else(|| WireError::shape(spelled, "`user`, `assistant` or `system`", FORMAT))?;
    let content = list_or_string(need(message, "content", FORMAT)?)?;
    // A member that a joined message would lose keeps its message apart.
    let plain = message.members().all(|(key, _)| key.is("role") || key.is("content"));
    let joins = role == Role::User && plain;
    out.message(role, message).content = joins.then(|| content.span());
    let continues = role == Role::Assistant && out.role_before() == Some(Role::Assistant);
    if let Some(open) = out.messages.last_mut() {
        open.continues = continues;
    }
    if content.is_string() {
        let part = out.part(role, PartKind::Text, content);
        part.text = TextAt::Literal(content.span());
        part.place = Place::String(content.span());
        return Ok(());
    }
    let blocks = out.list(content, None);
    for (element, block) in content.items().enumerate() {
        read_block(out, role, object(block, FORMAT)?, Home { list: blocks, element })?;
    }
    Ok(())
}

fn read_block(
    out: &mut Skeleton,
    role: Role,
    block: Value<'_>,
    home: Home,
) -> Result<(), WireError> {
    let kind = string(need(block, "type", FORMAT)?, FORMAT)?;
    let id = |key| optional(block, key, FORMAT).map(|id| id.map(Value::span));
    let mut text = TextAt::Nowhere;
    let mut place = Place::Nowhere;
    let mut signature = None;
    let mut holds_more = false;
    let mut speaks = role;
    let kind = match &*kind.text() {
        "text" => {
            let words = string(need(block, "text", FORMAT)?, FORMAT)?;
            text = TextAt::Literal(words.span());
            place = Place::String(words.span());
            PartKind::Text
        }
        "image" => PartKind::Image(image(block)),
        "thinking" => {
            text = TextAt::Literal(string(need(block, "thinking", FORMAT)?, FORMAT)?.span());
            signature = id("signature")?;
            PartKind::Thinking
        }
        "redacted_thinking" => {
            signature = id("data")?;
            PartKind::Thinking
        }
        "tool_use" => {
            if role != Role::Assistant {
                return Err(WireError::shape(block, "no `tool_use` outside a response", FORMAT));
            }
            if let Some(input) = block.spelled("input") {
                text = TextAt::Raw(input.span());
                place = Place::Json(input.span());
            }
            PartKind::Call { id: id("id")?, name: id("name")? }
        }
        "tool_result" => {
            if role == Role::Assistant {
                return Err(WireError::shape(block, "no `tool_result` in a response", FORMAT));
            }
            speaks = Role::Tool;
            (text, place) = result(out, block)?;
            let content = block.get("content").into_iter().flat_map(Value::items);
            holds_more = content.clone().any(|item| !is(item, "text"));
            let images: Vec<_> = content.filter(|item| is(*item, "image")).map(image).collect();
            let is_error = block.get("is_error").is_some_and(|flag| flag.raw() == "true");
            let images = out.images(images);
            PartKind::Return { id: id("tool_use_id")?, name: None, is_error, images }
        }
        "server_tool_use" | "mcp_tool_use" => {
            PartKind::ServerCall { id: id("id")?, name: id("name")? }
        }
        // One without content is a compaction that failed, and stands for nothing.
        "compaction" if block.any(&["content", "encrypted_content"]).is_some() => {
            PartKind::Boundary
        }
        other if other.ends_with("_tool_result") && role == Role::Assistant => {
            PartKind::ServerReturn { id: id("tool_use_id")? }
        }
        _ => PartKind::Other,
    };
    let part = out.part(speaks, kind, block);
    (part.text, part.place, part.signature, part.home) = (text, place, signature, Some(home));
    part.holds_more = holds_more;
    part.cache_marker = block.get("cache_control").is_some();
    part.cited = holds(block, "citations") && block.get("citations").is_some_and(Value::is_array);
    Ok(())
}

fn is(item: Value<'_>, kind: &str) -> bool {
    item.get("type").is_some_and(|found| found.is(kind))
}

/// The text of a result, and where other text can stand.
fn result(out: &mut Skeleton, block: Value<'_>) -> Result<(TextAt, Place), WireError> {
    let Some(content) = block.get("content") else {
        return Ok((TextAt::Nowhere, Place::Nowhere));
    };
    let content = list_or_string(content)?;
    if content.is_string() {
        return Ok((TextAt::Literal(content.span()), Place::String(content.span())));
    }
    let texts: Vec<_> = content
        .items()
        .filter(|item| is(*item, "text"))
        .filter_map(|item| item.get("text"))
        .collect();
    // A single text block is filled anew, so that what else is said of it stays.
    let place = match texts[..] {
        [only] if content.items().count() == 1 && only.is_string() => only.span(),
        _ => content.span(),
    };
    Ok((out.literals(texts.into_iter().map(Value::span)), Place::String(place)))
}

fn image(block: Value<'_>) -> ImageAt {
    let source = block.get("source");
    let data = source.and_then(|source| source.get("data"));
    let elsewhere = source.and_then(|source| source.any(&["url", "file_id"]));
    ImageAt {
        source: data.or(elsewhere).filter(|value| value.is_string()).map(Value::span),
        is_data: data.is_some(),
        detail: None,
    }
}
