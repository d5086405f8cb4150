//! Rig's own memories, whose messages are counted and stored when they leave.

use std::sync::Arc;

use overspill::count::Counter;
use overspill::store::StoreExt;
use overspill::{Store, ToolOutputLimits};
use overspill_rig::{Archive, RigModel, Tokens};
use overspill_store::MemoryStore;
use rig_core::memory::{ConversationMemory, InMemoryConversationMemory};
use rig_core::message::Message;
use rig_core::test_utils::{MockCompletionModel, MockTurn};
use rig_memory::{CompactingMemory, DemotingPolicyMemory, TokenWindowMemory};
use serde_json::json;

fn said(n: usize) -> Vec<Message> {
    vec![
        Message::user(format!("Question {n}: {}", "why? ".repeat(400))),
        Message::assistant(format!("Answer {n}.")),
    ]
}

fn window() -> TokenWindowMemory {
    TokenWindowMemory::new(1_100, Tokens(Counter::default()))
}

/// Loads after each of four questions; what the model would see.
async fn loaded(memory: &impl ConversationMemory) -> Vec<Vec<Message>> {
    let mut loads = Vec::new();
    for n in 0..4 {
        memory.append(&"thread".into(), said(n)).await.unwrap();
        loads.push(memory.load(&"thread".into()).await.unwrap());
    }
    loads
}

fn handle(message: &Message) -> String {
    let text = message.rag_text().unwrap();
    overspill::Marker::handles(&text).next().unwrap().to_string()
}

#[tokio::test]
async fn what_leaves_a_memory_is_read_by_the_handle_in_its_place() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let limits = ToolOutputLimits::builder().store(Arc::clone(&store)).build().unwrap();
    let memory =
        CompactingMemory::new(InMemoryConversationMemory::new(), window(), Archive::new(store));
    let loads = loaded(&memory).await;
    assert_eq!(loads[0], said(0));
    let note = &loads[3][0];
    assert!(
        note.rag_text().unwrap().starts_with("<overspill-receipt>\nEarlier in this conversation: ")
    );
    // Each note leaves with what follows it, so the chain of them leads to the first.
    let mut next = handle(note);
    let mut read = limits.read(&json!({ "handle": next })).await;
    while !read.contains("Question 0") {
        let found = overspill::Marker::handles(&read).map(|it| it.to_string());
        next = found.filter(|it| *it != next).last().unwrap();
        read = limits.read(&json!({ "handle": next })).await;
    }
}

#[tokio::test]
async fn a_model_sums_up_what_leaves() {
    let model =
        MockCompletionModel::from_turns([MockTurn::text("Asked why."), MockTurn::error("down")]);
    let archive =
        Archive::new(Arc::new(MemoryStore::new())).model(Arc::new(RigModel::new(model.clone())));
    let memory = CompactingMemory::new(InMemoryConversationMemory::new(), window(), archive);
    let notes: Vec<String> =
        loaded(&memory).await.iter().filter_map(|load| load[0].rag_text()).collect();
    let summary = notes
        .iter()
        .position(|note| note.starts_with("<overspill-summary>\nAsked why.\n\nEarlier"))
        .unwrap();
    // The model that fails costs the summary, not what it was to sum up.
    assert!(notes[summary + 1].starts_with("<overspill-receipt>\nEarlier"), "{notes:?}");
    let asked = model.requests()[0].chat_history[0].rag_text().unwrap();
    assert!(asked.contains("user: Question 0: why?"), "{asked}");
}

#[tokio::test]
async fn without_a_store_nothing_leaves_the_view() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("spills");
    let store = overspill_store::LocalStore::open(&root).unwrap();
    std::fs::write(&root, "").unwrap();
    let archive = Archive::new(Arc::new(store));
    let memory =
        CompactingMemory::new(InMemoryConversationMemory::new(), window(), archive.clone());
    let loads = loaded(&memory).await;
    let seen: String = loads[3].iter().map(|message| format!("{message:?}")).collect();
    for n in 0..4 {
        assert!(seen.contains(&format!("Question {n}")), "{seen}");
    }
    // A hook has no place to put it, so it says so.
    let memory = DemotingPolicyMemory::new(InMemoryConversationMemory::new(), window(), archive);
    memory.append(&"thread".into(), [said(0), said(1), said(2)].concat()).await.unwrap();
    let error = memory.load(&"thread".into()).await.unwrap_err();
    assert!(error.to_string().contains("could not be stored"), "{error}");
}

#[tokio::test]
async fn a_hook_stores_what_leaves_once() {
    let store = Arc::new(MemoryStore::new());
    for _ in 0..2 {
        // A process that starts again is told again.
        let archive = Archive::new(store.clone());
        let memory =
            DemotingPolicyMemory::new(InMemoryConversationMemory::new(), window(), archive);
        memory.append(&"thread".into(), [said(0), said(1), said(2)].concat()).await.unwrap();
        memory.load(&"thread".into()).await.unwrap();
    }
    // What can be read, and the JSON of it.
    let names = (*store).list(None).await.unwrap();
    assert_eq!(names.len(), 2, "{names:?}");
}
