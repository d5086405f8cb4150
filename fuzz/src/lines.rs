//! The line grid and its index, against the grid computed naively.

use std::sync::Arc;

use bytes::Bytes;
use futures_lite::future::block_on;
use overspill::lines::{LineScanner, MAX_LINE_BYTES, MAX_LINE_CHARS, ScanState, lines};
use overspill::measure::count_chars;
use overspill::store::index::{Facts, ROW_BYTES, ROW_SPACING, Row};
use overspill::store::{
    BlobName, ByteRange, Digest, Handle, IndexHealth, PartName, Receipt, Store, Stored, Survey,
    deposit,
};
use overspill::{StoreError, ToolCall};
use overspill_store::MemoryStore;

use crate::input::{self, Choices};

#[path = "../../crates/overspill/src/lines/naive.rs"]
mod naive;

/// What payloads are made of.
const TOKENS: [&[u8]; 40] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b" ",
    b"\t",
    b"\n",
    b"\r\n",
    b"[{",
    b"},{",
    b"}]",
    b"[[",
    b"],[",
    b"\"k\":",
    b"\"v,[\"",
    b"\\\"",
    b"null",
    b"1",
    b"x",
    b"{\"a\":[{\"b\":1},",
    b"{\"id\":12,\"tags\":[\"a\",\"b\"]},",
    b"2026-01-01 INFO request served in 3 ms\n",
    "é".as_bytes(),
    "🦀".as_bytes(),
    "\u{85}".as_bytes(),
    "\u{2028}".as_bytes(),
    b"\xff",
    b"\xf0\x90",
    b"\xf0\x90\x80",
    b"\xe2\x82",
    b"\xc3",
    b"\x80",
    b"\xed\xa0\x80",
    b"\x00",
    b"line of text\n",
    b"xxxxxxxxxxxxxxx",
];

/// A line as all ways of finding it must agree on.
type Found<'a> = (u64, u64, ScanState, &'a [u8]);

/// Lines are the naive ones, whatever the pieces a payload arrives in, whichever index row they
/// are found from, and whatever is wrong with the index.
pub fn check(data: &[u8]) {
    any_bytes_are_an_index_or_none(data);
    let payload = input::text(data, &TOKENS);
    let mut choices = Choices::of(data);
    let grid: Vec<Found<'_>> =
        lines(&payload).map(|line| (line.number, line.offset, line.state, line.bytes)).collect();
    let bytes: Vec<&[u8]> = grid.iter().map(|line| line.3).collect();
    assert!(bytes == naive::lines(&payload), "the grid is not the naive one");
    pieces_do_not_matter(&payload, &grid, &mut choices);

    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let call = ToolCall::new("run", "call", "tool");
    let shared = Bytes::from(payload.clone());
    let receipt =
        block_on(deposit(&store, &call, PartName::Value(0), "text/plain", shared.clone())).unwrap();
    assert_eq!(receipt.lines, grid.len() as u64);
    assert_eq!(receipt.chars, count_chars(&payload));
    let index = read_index(&store, &receipt.handle);
    every_row_is_a_place_to_resume(&payload, &grid, &index);
    let from = choices.below(grid.len() + 2);
    assert_eq!(read(&store, &receipt, from, &grid), IndexHealth::Sound);

    let mut damaged = index.to_vec();
    wound(&mut damaged, data, &mut choices);
    let is_same = damaged == index;
    let store = holding(&receipt.handle, shared, damaged);
    assert_eq!(read(&store, &receipt, from, &grid) == IndexHealth::Sound, is_same);
}

fn any_bytes_are_an_index_or_none(data: &[u8]) {
    if let Ok(facts) = Facts::decode(data, data.len() as u64) {
        assert_eq!(facts.rows as usize * ROW_BYTES + facts.encode().len(), data.len());
    }
    if let Some(row) = Row::decode(data, 1) {
        assert_eq!(row.encode(1), data);
    }
    // Any number is a state that scanning goes on from.
    let bits = u64::from_le_bytes(std::array::from_fn(|i| data.get(i).copied().unwrap_or(0)));
    let mut whole = 0;
    LineScanner::resume(7, 9, ScanState::from_bits(bits)).scan(data, true, &mut |line| {
        assert!(naive::chars(line.content()).len() <= MAX_LINE_CHARS);
        whole += line.bytes.len();
    });
    assert_eq!(whole, data.len());
}

fn pieces_do_not_matter(payload: &[u8], grid: &[Found<'_>], choices: &mut Choices) {
    let mut expected = grid.iter();
    let mut same = |line: overspill::lines::Line<'_>| {
        let next = expected.next().expect("no line too many");
        assert!((line.number, line.offset, line.state, line.bytes) == *next);
    };
    let mut survey = Survey::new();
    for piece in choices.pieces(payload) {
        survey.push(piece, &mut same);
    }
    let surveyed = survey.finish(&mut same);
    assert_eq!(expected.next(), None);
    assert_eq!(surveyed.digest, Digest::of(payload));
    assert_eq!(surveyed.is_utf8, std::str::from_utf8(payload).is_ok());

    let mut expected = grid.iter();
    let mut scanner = LineScanner::default();
    let mut buf = vec![];
    let pieces = choices.pieces(payload);
    for (i, piece) in pieces.iter().enumerate() {
        buf.extend_from_slice(piece);
        let used = scanner.scan(&buf, i + 1 == pieces.len(), &mut |line| {
            let next = expected.next().expect("no line too many");
            assert!((line.number, line.offset, line.state, line.bytes) == *next);
        });
        buf.drain(..used);
        assert!(buf.len() <= MAX_LINE_BYTES);
    }
    assert_eq!(expected.next(), None);
}

fn every_row_is_a_place_to_resume(payload: &[u8], grid: &[Found<'_>], index: &[u8]) {
    let facts = Facts::decode(index, index.len() as u64).unwrap();
    assert_eq!((facts.bytes, facts.lines), (payload.len() as u64, grid.len() as u64));
    let rows = facts.rows as usize * ROW_BYTES;
    let mut expected = (1..).map_while(|k| {
        let place = grid.partition_point(|line| line.1 < k * ROW_SPACING);
        grid.get(place).map(|line| (k, place, line))
    });
    for bytes in index[..rows].chunks(ROW_BYTES) {
        let (k, place, line) = expected.next().expect("no row too many");
        let row = Row::decode(bytes, k).expect("a row that was just written");
        assert_eq!((row.number, row.offset, row.state), (line.0, line.1, line.2));
        let mut rest = grid[place..].iter();
        row.scanner().scan(&payload[row.offset as usize..], true, &mut |line| {
            let next = rest.next().expect("no line too many");
            assert!((line.number, line.offset, line.state, line.bytes) == *next);
        });
        assert_eq!(rest.next(), None);
    }
    assert_eq!(expected.next(), None, "every block of 64 KiB has its row");
}

/// Reads lines through the index from line `from` on, and says how the index is.
fn read(store: &Arc<dyn Store>, receipt: &Receipt, from: usize, grid: &[Found<'_>]) -> IndexHealth {
    let stored = block_on(Stored::open(store, &receipt.handle)).unwrap();
    assert_eq!(stored.receipt().lines, receipt.lines);
    let mut expected = grid.get(from..).unwrap_or_default().iter();
    let mut cursor = stored.blocks(from as u64);
    while let Some(block) = block_on(cursor.next()).unwrap() {
        assert!(block.line_count() > 0);
        for line in block.lines() {
            let next = expected.next().expect("no line too many");
            assert!((line.number, line.offset, line.state, line.bytes) == *next);
        }
    }
    assert_eq!(expected.next(), None);
    block_on(stored.verify(&mut |_| {})).unwrap()
}

fn read_index(store: &Arc<dyn Store>, handle: &Handle) -> Bytes {
    let name = BlobName::Index(handle.clone());
    block_on(store.read(&name, ByteRange::Last(u64::MAX))).unwrap().bytes
}

/// Does to an index what disks and people do.
fn wound(index: &mut Vec<u8>, data: &[u8], choices: &mut Choices) {
    match choices.below(5) {
        0 => *index = data.to_vec(),
        1 => index.truncate(choices.below(index.len() + 1)),
        2 => {
            let at = choices.below(index.len() + 1);
            index.splice(at..at, data.iter().copied().take(100));
        }
        3 => index.swap(0, choices.below(ROW_BYTES * 2)),
        _ => {
            for _ in 0..1 + choices.below(4) {
                let at = choices.below(index.len());
                index[at] ^= 1 << choices.below(8);
            }
        }
    }
}

/// A store that holds this payload with this index.
fn holding(handle: &Handle, payload: Bytes, index: Vec<u8>) -> Arc<dyn Store> {
    let store = MemoryStore::new();
    let put = async |name: BlobName, bytes: Bytes| {
        let mut stage = store.stage().await?;
        stage.append(bytes).await?;
        stage.commit(&name).await?;
        Ok::<(), StoreError>(())
    };
    block_on(put(BlobName::Index(handle.clone()), index.into())).unwrap();
    block_on(put(BlobName::Payload(handle.clone()), payload)).unwrap();
    Arc::new(store)
}
