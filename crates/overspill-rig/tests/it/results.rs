//! What a tool put out, in rig's own kinds of content.

use std::sync::Arc;

use overspill::capability::{Capability, Stack};
use overspill::fit::Fitter;
use overspill::strategy::SlidingWindow;
use overspill::{Store, ToolOutputLimits};
use overspill_rig::{Overspill, WithOverspill};
use overspill_store::MemoryStore;
use rig_agent::agent::{Agent, AgentBuilder};
use rig_core::message::{
    ImageDetail, ImageMediaType, Message, ToolName, ToolResult, ToolResultContent, UserContent,
};
use rig_core::test_utils::{MockCompletionModel, MockTurn};
use rig_core::tool::{DynamicTool, ToolExecutionError, ToolOutput};
use serde_json::json;

/// The result that entered the history for what the tool put out.
async fn entered(output: Result<ToolOutput, ToolExecutionError>) -> ToolResult {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let limits = ToolOutputLimits::builder().store(Arc::clone(&store)).build().unwrap();
    let fitter = Fitter::new(Arc::new(SlidingWindow::default()), store, 1_000_000);
    let stack = Stack::new(fitter, [Arc::new(limits) as Arc<dyn Capability>]);
    let model = MockCompletionModel::from_turns([
        MockTurn::tool_call("call_1", "look", json!({})),
        MockTurn::text("Done."),
    ]);
    let output = std::sync::Mutex::new(Some(output));
    let tool = DynamicTool::new(ToolName::new("look").unwrap(), "Looks.", json!({}), move |_| {
        let output = output.lock().unwrap().take().unwrap();
        Box::pin(async move { output })
    });
    let agent: Agent = AgentBuilder::new(model.clone())
        .dynamic_tool(tool)
        .overspill(&Overspill::new(stack))
        .build();
    let answer = agent.prompt("Go.").max_turns(3).await.unwrap();
    let of = |message: &Message| match message {
        Message::User { content } => match &content[0] {
            UserContent::ToolResult(result) => Some(result.clone()),
            _ => None,
        },
        _ => None,
    };
    let kept = answer.messages.iter().find_map(of).unwrap();
    let sent = model.requests()[1].chat_history.iter().find_map(of).unwrap();
    assert_eq!(kept, sent);
    kept
}

fn picture() -> ToolResultContent {
    ToolResultContent::image_base64("AAAA", Some(ImageMediaType::PNG), Some(ImageDetail::High))
}

#[tokio::test]
async fn a_small_result_stays_as_it_is() {
    let content = vec![ToolResultContent::json(json!({ "b": 1.0, "a": [null] })), picture()];
    let result = entered(ToolOutput::content(content.clone())).await;
    assert_eq!(result.content, content);
}

#[tokio::test]
async fn a_picture_stays_beside_a_text_that_is_stored() {
    let content = vec![
        picture(),
        ToolResultContent::text("x\n".repeat(20_000)),
        ToolResultContent::image_url("https://example.org/a.png", None, None),
    ];
    let result = entered(ToolOutput::content(content.clone())).await;
    assert_eq!([&result.content[0], &result.content[2]], [&content[0], &content[2]]);
    let text = result.content[1].as_text().unwrap();
    assert!(text.starts_with("[overspill: ") && text.len() < 3_000, "{text}");
    assert!(text.contains("stored as rig-"), "{text}");
}

#[tokio::test]
async fn a_value_is_stored_as_json() {
    let rows: Vec<_> = (0..2_000).map(|i| json!({ "id": i, "name": format!("row {i}") })).collect();
    let result = entered(Ok(ToolOutput::json(json!(rows)))).await;
    let [ToolResultContent::Text(text)] = &result.content[..] else { panic!("{result:?}") };
    assert!(text.text.starts_with("[overspill: "), "{}", text.text);
}

#[tokio::test]
async fn a_failure_is_left_alone() {
    let words = "it broke\n".repeat(5_000);
    let error = ToolExecutionError::other("broke").with_model_feedback(words.clone());
    let result = entered(Err(error)).await;
    assert!(result.is_error);
    assert_eq!(result.content, [ToolResultContent::text(words)]);
}
