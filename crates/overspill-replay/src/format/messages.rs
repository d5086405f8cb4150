//! Lists of messages as the providers' interfaces carry them.

use std::borrow::Cow;

use crate::format::content;
use crate::json::Json;
use crate::transcript::Transcript;

/// Anthropic Messages.
pub(super) fn anthropic(messages: &[Json<'_>], to: &mut Transcript) {
    for message in messages {
        anthropic_content(message.at("role").str() == "user", message.at("content"), to);
    }
}

/// The content of one message of Anthropic's.
pub(super) fn anthropic_content(is_user: bool, content: &Json<'_>, to: &mut Transcript) {
    if let Some(text) = content.as_str() {
        return to.words(is_user, text);
    }
    for block in content.list() {
        let kind = block.at("type").str();
        match kind {
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                let (name, input) = (block.at("name").str(), block.at("input").text());
                to.call(block.at("id"), name, &input, None);
            }
            _ if kind.ends_with("tool_result") => {
                let tool = if kind == "tool_result" { "" } else { kind };
                to.result(block.at("tool_use_id"), tool, &content::text(block.at("content")));
            }
            _ => to.words(is_user, &content::block(block)),
        }
    }
}

/// The top-level system prompt of an Anthropic or Gemini request.
pub(super) fn system(prompt: &Json<'_>, to: &mut Transcript) {
    if prompt.truthy() {
        to.system(&content::text(prompt));
    }
}

/// OpenAI Chat Completions.
pub(super) fn openai(messages: &[Json<'_>], to: &mut Transcript) {
    for message in messages {
        let text = content::text(message.at("content"));
        match message.at("role").str() {
            "system" | "developer" => to.system(&text),
            "tool" | "function" => {
                let name = message.at("name");
                to.result(message.at("tool_call_id").or(name), name.str(), &text);
            }
            "assistant" | "model" => {
                if let Some(reasoning) = message.at("reasoning_content").as_str() {
                    to.say(reasoning, None);
                }
                to.say(&text, None);
                message.at("tool_calls").list().iter().for_each(|call| openai_call(call, to));
                let call = message.at("function_call");
                if call.truthy() {
                    // A call without an id: its words count, its result names the function.
                    let arguments = call.at("arguments").text();
                    to.note(call.at("name"), call.at("name").str(), &arguments);
                    to.say(&arguments, None);
                }
            }
            _ => to.user(&text),
        }
    }
}

fn openai_call(call: &Json<'_>, to: &mut Transcript) {
    let function = if call.has("function") { call.at("function") } else { call };
    let (name, arguments) = match function {
        Json::Str(_) => (function, call.at("arguments")),
        _ => {
            let input = function.at("args").or(function.at("input"));
            (function.at("name"), function.at("arguments").or(input))
        }
    };
    let arguments = arguments_text(arguments);
    to.note(call.at("id"), name.str(), &arguments);
    to.call(name, name.str(), &arguments, None);
}

/// Arguments as the model wrote them; a call without any has an empty map.
fn arguments_text<'v>(arguments: &'v Json<'_>) -> Cow<'v, str> {
    if arguments.truthy() { arguments.text() } else { Cow::Borrowed("{}") }
}

/// OpenAI Responses.
pub(super) fn responses(items: &[Json<'_>], to: &mut Transcript) {
    for item in items {
        let kind = if item.has("type") { item.at("type").str() } else { "message" };
        match kind {
            "message" => by_role(item, to),
            "function_call"
            | "custom_tool_call"
            | "local_shell_call"
            | "web_search_call"
            | "tool_search_call"
            | "mcp_call"
            | "computer_call"
            | "code_interpreter_call"
            | "file_search_call" => {
                let input = item.at("input").or(item.at("action"));
                let arguments = arguments_text(item.at("arguments").or(input));
                let name = item.at("name").str();
                let name = if name.is_empty() { kind } else { name };
                to.call(item.at("call_id").or(item.at("id")), name, &arguments, None);
                if kind == "mcp_call" && item.at("output").truthy() {
                    to.result_of(name, &arguments, &content::text(item.at("output")));
                }
            }
            _ if kind.ends_with("_output") => {
                let output = item.at("output");
                let wrapped = output
                    .as_str()
                    .filter(|text| text.starts_with("{\"output\""))
                    .and_then(|text| Json::parse(text).ok());
                let output = wrapped.as_ref().map_or(output, |wrapped| wrapped.at("output"));
                let output = if output.has("content") { output.at("content") } else { output };
                to.result(item.at("call_id"), "", &content::text(output));
            }
            "reasoning" => {
                let (summary, content) = (item.at("summary"), item.at("content"));
                to.say(&(content::text(summary) + content::text(content)), None);
            }
            _ if item.has("role") => by_role(item, to),
            _ => {}
        }
    }
}

fn by_role(item: &Json<'_>, to: &mut Transcript) {
    let text = content::text(item.at("content"));
    match item.at("role").str() {
        "assistant" => to.say(&text, None),
        "user" => to.user(&text),
        _ => to.system(&text),
    }
}

/// Gemini's `contents`.
pub(super) fn gemini(contents: &[Json<'_>], to: &mut Transcript) {
    for message in contents {
        for part in message.at("parts").list() {
            let call = part.at("functionCall").or(part.at("function_call"));
            let response = part.at("functionResponse").or(part.at("function_response"));
            if call.truthy() {
                to.call(call.at("name"), call.at("name").str(), &call.at("args").text(), None);
            } else if response.truthy() {
                let name = response.at("name");
                to.result(name, name.str(), &response.at("response").text());
            } else {
                to.words(message.at("role").str() != "model", &content::block(part));
            }
        }
    }
}

/// Bedrock Converse.
pub(super) fn bedrock(messages: &[Json<'_>], to: &mut Transcript) {
    for message in messages {
        let is_user = message.at("role").str() == "user";
        for part in message.at("content").list() {
            if part.has("toolUse") {
                let call = part.at("toolUse");
                let input = call.at("input").text();
                to.note(call.at("toolUseId"), call.at("name").str(), &input);
                to.say(&input, None);
            } else if part.has("toolResult") {
                let result = part.at("toolResult");
                to.result(result.at("toolUseId"), "", &content::text(result.at("content")));
            } else {
                to.words(is_user, &content::block(part));
            }
        }
    }
}

/// Whether a system message of Auto-GPT reports a command.
pub(super) fn is_autogpt(messages: &[Json<'_>]) -> bool {
    messages.iter().any(|message| {
        message.at("role").str() == "system" && message.at("content").str().starts_with("Command ")
    })
}

/// Auto-GPT: results of commands come as system messages.
pub(super) fn autogpt(messages: &[Json<'_>], to: &mut Transcript) {
    for message in messages {
        let text = content::text(message.at("content"));
        let is_result = || {
            let opening = text.char_indices().nth(80).map_or(&*text, |(end, _)| &text[..end]);
            text.starts_with("Command ") && opening.contains(" returned")
        };
        match message.at("role").str() {
            "system" if is_result() => {
                to.result_of(text.split_whitespace().nth(1).unwrap_or_default(), "", &text);
            }
            "system" => to.system(&text),
            "assistant" => to.say(&text, None),
            _ => to.user(&text),
        }
    }
}
