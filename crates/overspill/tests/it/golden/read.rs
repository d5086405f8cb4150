//! What the read tool shows of a stored payload.

use overspill::read::{ReadArgs, read};
use overspill::store::{PartName, deposit};
use overspill::{Store, ToolCall};
use serde::Deserialize;

use super::{Comparison, Output, Spec, differences, vectors};
use crate::support::{block_on, memory};

#[derive(Deserialize)]
struct Vector {
    id: String,
    text: Option<Spec>,
    hex: Option<String>,
    offset: i64,
    limit: u64,
    from_end: bool,
    pattern: Option<String>,
    out: Option<Output>,
}

#[test]
fn lines_are_read_alike() {
    let Some(vectors) = vectors::<Vector>("read_tool_result.json") else { return };
    let mut comparison = Comparison::with(differences::READ);
    let mut compared = 0;
    for vector in vectors {
        // Unknown handles and arguments out of range have tests of their own.
        let (Some(out), Ok(offset)) = (&vector.out, vector.offset.try_into()) else { continue };
        let payload = match (&vector.text, &vector.hex) {
            (Some(text), _) => text.build().into_bytes(),
            (None, Some(hex)) => data_encoding::HEXLOWER.decode(hex.as_bytes()).unwrap(),
            _ => continue,
        };
        let store = memory();
        let handle = block_on(store_payload(&store, payload));
        let args = ReadArgs {
            offset,
            limit: vector.limit.clamp(1, 1_000),
            from_end: vector.from_end,
            pattern: vector.pattern.clone().filter(|pattern| !pattern.is_empty()),
            ..ReadArgs::new(handle)
        };
        let answer = block_on(read(&store, &args, false));
        let body = answer.split_once('\n').map_or("", |(_, body)| body);
        // The reference leaves out the last line's end, and shows no numbers beside matches.
        let rows = body.split_terminator('\n').map(|row| match &args.pattern {
            Some(_) => row.split_once(": ").map_or(row, |(_, text)| text),
            None => row.strip_suffix('\r').unwrap_or(row),
        });
        let ours = rows.collect::<Vec<_>>().join("\n");
        comparison.case(&vector.id, body_of(out).is_none_or(|body| body == ours), out, &ours);
        compared += 1;
    }
    comparison.finish();
    assert!(compared > 100, "{compared}");
}

async fn store_payload(store: &std::sync::Arc<dyn Store>, payload: Vec<u8>) -> String {
    let call = ToolCall::new("run-1", "call", "tool");
    let receipt = deposit(store, &call, PartName::Value(0), "text/plain", payload.into()).await;
    receipt.unwrap().handle.to_string()
}

/// What stands below the first line; of a long output only the ends are known.
fn body_of(out: &Output) -> Option<String> {
    match out {
        Output::Whole { lit } => Some(lit.split_once('\n').map_or("", |(_, body)| body).to_owned()),
        Output::Ends { .. } => None,
    }
}
