//! `overspill read-tool`: the definition of the read tool, for a request's list of tools.

use overspill::ToolOutputLimits;
use overspill_wire::Format;
use serde_json::{Value, json};

use crate::cli;
use crate::failure::Failure;
use crate::output::Out;
use crate::settings::Settings;

pub(crate) fn read_tool(common: &cli::Common, args: &cli::ReadTool) -> Result<u8, Failure> {
    let settings = Settings::of_reader(common)?;
    let limits = ToolOutputLimits::builder()
        .enabled(false)
        .read_tool_name(settings.config.read_tool.clone())
        .build()?;
    let tool = limits.read_tool();
    let (name, about, schema) = (&tool.name, &tool.description, &tool.parameters);
    let definition: Value = match args.format {
        Format::Anthropic => json!({ "name": name, "description": about, "input_schema": schema }),
        Format::Responses => json!({
            "type": "function", "name": name, "description": about, "parameters": schema
        }),
        Format::Chat => json!({
            "type": "function",
            "function": { "name": name, "description": about, "parameters": schema }
        }),
        _ => json!({ "name": name, "description": about, "parameters": schema }),
    };
    let mut out = Out::new();
    out.json(&definition)?;
    Ok(out.flush().map(|()| 0)?)
}
