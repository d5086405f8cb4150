//! Markers and handles, in and out of any text.

use std::sync::Arc;

use futures_lite::future::block_on;
use overspill::marker::{Below, Marker, ReadVia};
use overspill::store::{Digest, Handle, PartName, Receipt, deposit};
use overspill::{Store, ToolCall};
use overspill_store::MemoryStore;

use crate::input::{self, Choices};

/// What markers are made of.
const TOKENS: [&[u8]; 22] = [
    b"[overspill: ",
    b"stored as ",
    b"run/call.aaaaaaaaaaaaaaaaaaaaaaaaaa",
    b"; ",
    b";",
    b"\n",
    b"\r",
    b"/",
    b".",
    b"..",
    b"~",
    b"aaaaaaaaaaaaaaaaaaaaaaaaaa",
    b"-",
    b"_",
    b" ",
    b"[",
    b"]",
    b"12,345 lines, ",
    "é".as_bytes(),
    b"\0",
    b"A",
    b"\xff",
];

/// Handles are found where they stand and nowhere else; a marker shows its own, whatever stands
/// around it; and no name leaves the root.
pub fn check(data: &[u8]) {
    let text = input::text(data, &TOKENS);
    let text = String::from_utf8_lossy(&text);
    let mut choices = Choices::of(data);
    let found: Vec<Handle> = Marker::handles(&text).collect();
    assert!(found == naive(&text), "not the handles that the naive one finds");
    found.iter().for_each(is_safe);
    for part in text.split([' ', ';', '\n']).take(100) {
        if let Ok(handle) = part.parse::<Handle>() {
            assert_eq!(handle.as_str(), part);
            is_safe(&handle);
        }
    }
    a_marker_is_found_in_any_text(&text, &mut choices);
    ids_make_distinct_handles(&text, &mut choices);
}

/// A handle is what stands between `stored as ` and `;` in a line, between the opening of one
/// marker and that of the next.
fn naive(text: &str) -> Vec<Handle> {
    let mut handles = vec![];
    for line in text.lines() {
        for marker in line.split("[overspill: ").skip(1) {
            if let Some((_, behind)) = marker.split_once("stored as ") {
                let handle = behind.split(';').next().unwrap_or_default();
                handles.extend(handle.parse::<Handle>());
            }
        }
    }
    handles
}

fn is_safe(handle: &Handle) {
    let (run, file) = (handle.run(), handle.file());
    assert_eq!(format!("{run}/{file}"), handle.as_str());
    for name in [run, file] {
        assert!(!name.is_empty() && !name.starts_with('.') && name.len() <= 255);
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._~-".contains(&b)));
    }
}

fn a_marker_is_found_in_any_text(text: &str, choices: &mut Choices) {
    let cut = |choices: &mut Choices| text.floor_char_boundary(choices.below(text.len() + 1));
    let (before, behind) = text.split_at(cut(choices));
    let ids = [cut(choices), cut(choices), cut(choices)];
    let receipt = receipt(&text[ids[0]..], &text[ids[1]..], &text[ids[2]..], choices);
    let via = match choices.below(2) {
        0 => ReadVia::Command,
        _ => ReadVia::Tool("mcp__overspill__read_tool_result".to_owned()),
    };
    let below = choices.one_of(&[
        Below::Nothing,
        Below::Summary,
        Below::Excerpt { lines: 0 },
        Below::Excerpt { lines: u64::MAX },
    ]);
    let status = choices.one_of(&[None, Some(0), Some(i32::MIN)]);
    let measured = choices.one_of(&[0, 1, 1_000, u64::MAX]);
    let marker = Marker::new(&receipt, measured, "characters", status, below, &via);
    assert!(!marker.as_str().contains(['\n', '\r']));

    let around = format!("{before}{}{behind}", marker.as_str());
    let expected: Vec<Handle> = Marker::handles(before)
        .chain([receipt.handle.clone()])
        .chain(Marker::handles(behind))
        .collect();
    assert!(Marker::handles(&around).eq(expected), "a marker is lost or found in excess");
}

fn receipt(run: &str, call: &str, tool: &str, choices: &mut Choices) -> Receipt {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let call = ToolCall::new(run, call, tool).with_retry(choices.one_of(&[0, 1, u32::MAX]));
    let part = choices.one_of(&[
        PartName::Value(0),
        PartName::Value(u32::MAX),
        PartName::Content(0),
        PartName::Content(u32::MAX),
    ]);
    let media_type = choices.one_of(&["text/plain", "application/octet-stream"]);
    let payload = run.as_bytes()[..run.len().min(100)].to_vec();
    let receipt = block_on(deposit(&store, &call, part, media_type, payload.into())).unwrap();
    assert_eq!(receipt.handle.as_str().parse(), Ok(receipt.handle.clone()));
    assert!(receipt.handle.names(&receipt.digest));
    is_safe(&receipt.handle);
    receipt
}

fn ids_make_distinct_handles(text: &str, choices: &mut Choices) {
    let digest = Digest::of(b"");
    let mut parts = text.split(['\n', ' ']);
    let (one, other) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let changed = one.replace(choices.one_of(&[':', '/', '.', 'a', '~']), "_");
    for other in [other, &changed] {
        let handle = |run: &str, call: &str| {
            Handle::new(&ToolCall::new(run, call, "t"), PartName::Value(0), &digest)
        };
        let is_same = one == other;
        assert_eq!(handle(one, "call") == handle(other, "call"), is_same);
        assert_eq!(handle("run", one) == handle("run", other), is_same);
        assert_eq!(handle(one, other) == handle(other, one), is_same);
    }
}
