//! The read tool: whatever a model writes as arguments, whatever is stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_lite::future::block_on;
use overspill::ansi::strip;
use overspill::lines::{Line, lines};
use overspill::read::{MAX_ANSWER_CHARS, MAX_CONTEXT, MAX_LIMIT, Pattern, ReadArgs, Search, read};
use overspill::render::show_bytes;
use overspill::store::{PartName, Receipt, Stored, deposit};
use overspill::{Store, ToolCall, ToolOutputLimits};
use overspill_store::MemoryStore;
use serde_json::{Value, json};

use crate::input::{self, Choices};

/// What payloads are made of.
const TOKENS: [&[u8]; 36] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"\"a\":",
    b"\"b\"",
    b"1",
    b"-1.50e3",
    b"null",
    b"[[",
    b"]]",
    b"{\"a\":",
    b"[1,",
    b"\n",
    b"\r\n",
    b" ",
    b"error",
    b"ERROR: a\n",
    b"a",
    b"ab",
    b"aab",
    b"x\n",
    b"\x1b[31m",
    b"\x1b[0m",
    b"\x1b]",
    b"\x07",
    b"\xc2\x9b",
    b"\xff",
    b"\xf0\x90\x80",
    "é".as_bytes(),
    "🦀".as_bytes(),
    b"{\"id\":12,\"tags\":[\"a\",\"b\"]},",
    b"INFO request served in 3 ms\n",
    b"line\n",
    b"xxxxxxxxxxxxxxx",
];

/// Every call gets an answer within bounds; lines put together give the payload back; and a
/// search finds what looking at every line finds.
///
/// The first line of the input is the arguments: JSON, or a JSON path that opens with `$`, or a
/// regular expression behind a `/`, or else a text to look for. All behind it is the payload.
pub fn check(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let said = String::from_utf8_lossy(&data[..end]);
    let payload = input::text(data.get(end + 1..).unwrap_or_default(), &TOKENS);
    let mut choices = Choices::of(data);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let call = ToolCall::new("run", "call", "tool");
    let stored = deposit(&store, &call, PartName::Value(0), "text/plain", payload.clone().into());
    let receipt = block_on(stored).unwrap();

    let args = arguments(&said, receipt.handle.as_str(), &mut choices);
    for strip_ansi in [false, true] {
        let limits = ToolOutputLimits::builder()
            .store(Arc::clone(&store))
            .strip_ansi(strip_ansi)
            .build()
            .unwrap();
        let answer = block_on(limits.read(&args));
        assert_bounded(&answer);
        if let Ok(args) = ReadArgs::parse(&args) {
            assert!((1..=MAX_LIMIT).contains(&args.limit) && args.context <= MAX_CONTEXT);
            assert_eq!(block_on(read(&store, &args, strip_ansi)), answer);
        }
    }
    every_byte_can_be_reached(&store, &receipt, &payload);
    if let Some(needle) = args["pattern"].as_str().filter(|text| !text.is_empty()) {
        a_search_finds_what_is_there(&store, &receipt, &payload, needle);
    }
}

fn assert_bounded(answer: &str) {
    assert!(!answer.is_empty());
    let chars = answer.chars().count();
    assert!(chars <= MAX_ANSWER_CHARS, "an answer of {chars} characters");
}

/// The arguments that a line of the input stands for.
fn arguments(said: &str, handle: &str, choices: &mut Choices) -> Value {
    if let Ok(args) = serde_json::from_str::<Value>(&said.replace("HANDLE", handle)) {
        return args;
    }
    let mut args = json!({
        "handle": handle,
        "offset": choices.below(40),
        "limit": choices.one_of(&[1, 7, 1_000]),
        "from_end": choices.below(2) == 0,
        "context": choices.one_of(&[0, 0, 1, 50]),
    });
    if said.starts_with('$') {
        args["json_path"] = said.into();
    } else if let Some(regex) = said.strip_prefix('/') {
        args["pattern"] = regex.into();
        args["regex"] = true.into();
    } else {
        args["pattern"] = said.into();
    }
    args
}

fn every_byte_can_be_reached(store: &Arc<dyn Store>, receipt: &Receipt, payload: &[u8]) {
    let shown: Vec<String> =
        lines(payload).map(|line| show_bytes(line.bytes).into_owned()).collect();
    let expected = shown.concat();
    for from_end in [false, true] {
        let mut args = ReadArgs::new(receipt.handle.as_str());
        (args.limit, args.from_end) = (MAX_LIMIT, from_end);
        let mut found: Vec<String> = vec![];
        loop {
            let answer = block_on(read(store, &args, false));
            assert_bounded(&answer);
            let (header, body) = answer.split_once('\n').unwrap();
            found.push(body.to_owned());
            match header.split_once("offset=") {
                Some((_, next)) => {
                    let next = next.trim_end_matches(']').parse().unwrap();
                    assert!(next > args.offset, "no progress");
                    args.offset = next;
                }
                None => break,
            }
        }
        if from_end {
            found.reverse();
        }
        assert!(found.concat() == expected, "what was read is not what was stored");
    }
}

fn a_search_finds_what_is_there(
    store: &Arc<dyn Store>,
    receipt: &Receipt,
    payload: &[u8],
    needle: &str,
) {
    if needle.contains(['\n', '\r', '\u{1b}']) || needle.len() > 1_000 {
        return;
    }
    let escaped: String = needle.chars().map(|c| format!("\\x{{{:x}}}", u32::from(c))).collect();
    let patterns = [Some(Pattern::literal(needle)), Pattern::regex(&escaped).ok()];
    let grid: Vec<Line<'_>> = lines(payload).collect();
    let is_cut = grid.iter().any(|line| line.state.is_continued());
    let stored = block_on(Stored::open(store, &receipt.handle)).unwrap();
    for strip_ansi in [false, true] {
        let begins = if strip_ansi {
            // Where long lines are cut, what was text in a broken sequence counts to the line
            // in which it broke.
            if is_cut {
                continue;
            }
            let has = |line: &&Line<'_>| places(&strip(line.bytes), needle).next().is_some();
            grid.iter().filter(has).map(|line| line.number).collect()
        } else {
            lines_with(payload, &grid, needle, 0)
        };
        let touched = if strip_ansi {
            begins.clone()
        } else {
            let mut touched = lines_with(payload, &grid, needle, needle.len() - 1);
            touched.extend(&begins);
            touched
        };
        for pattern in patterns.iter().flatten() {
            let search = Search { pattern, strip_ansi, limit: u64::MAX, bytes: u64::MAX };
            let forward = block_on(search.forward(&stored, 0)).unwrap();
            assert_eq!(forward.next, None);
            let hits: BTreeSet<u64> = forward.hits.iter().map(|hit| hit.line).collect();
            assert!(hits.is_superset(&begins), "a line is not found (strip_ansi={strip_ansi})");
            assert!(hits.is_subset(&touched), "a line is found in excess");
            let backward = block_on(search.backward(&stored, grid.len() as u64)).unwrap();
            assert!(backward.hits == forward.hits, "backward finds other lines");
            // A few at a time, they are all found too; what a match only reaches into may be left
            // out where a search goes on there.
            let some = Search { limit: 1 + hits.len() as u64 / 5, ..search };
            let (mut from, mut all) = (Some(0), BTreeSet::new());
            while let Some(start) = from {
                let found = block_on(some.forward(&stored, start)).unwrap();
                all.extend(found.hits.iter().map(|hit| hit.line));
                assert!(found.next.is_none_or(|next| next > start), "no progress");
                from = found.next;
            }
            assert!(all.is_superset(&begins), "a few at a time, a line is not found");
        }
    }
}

/// The lines in which an occurrence has its byte number `shift`.
fn lines_with(payload: &[u8], grid: &[Line<'_>], needle: &str, shift: usize) -> BTreeSet<u64> {
    places(payload, needle)
        .map(|at| grid.partition_point(|line| line.offset <= (at + shift) as u64) as u64 - 1)
        .collect()
}

fn places<'t>(text: &'t [u8], needle: &'t str) -> impl Iterator<Item = usize> + 't {
    let windows = text.windows(needle.len()).enumerate();
    windows.filter(move |(_, window)| *window == needle.as_bytes()).map(|(at, _)| at)
}
