//! The one writer above the port: one pass that hashes, counts and indexes, and a deposit of what
//! it passes over.

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};

use super::handle::{Handle, PartName};
use super::index::{Facts, ROW_SPACING, Row};
use super::port::{BlobName, ByteRange, Commit, Stage, Store, StoreError};
use super::receipt::{Digest, Receipt};
use crate::item::ToolCall;
use crate::lines::{Line, LineScanner, MAX_LINE_BYTES};
use crate::measure::count_chars;

/// How much is read or written at once: large enough that a request's own cost does not count,
/// small enough to hold.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// How much is hashed, counted and scanned at once: little enough to stay in a processor's cache
/// from the first of these to the last.
const BLOCK_BYTES: usize = 128 * 1024;

/// Small pieces are gathered to this size before they are scanned. It is more than twice the
/// undecided rest a scan leaves, so that gathering costs little and every scan gets on.
const GATHERED_BYTES: usize = 4 * MAX_LINE_BYTES;

/// Index rows are held until they are this many bytes, which few payloads reach: 128 MiB of
/// payload have as many.
const HELD_ROW_BYTES: usize = 64 * 1024;

/// What one pass over a payload learns of it: digest, size, lines and index.
///
/// It does no I/O, so it goes on when a store fails midway. Its memory does not grow with the
/// payload if the rows are taken from time to time.
///
/// ```
/// use overspill::store::Survey;
///
/// let mut lines = 0;
/// let mut survey = Survey::new();
/// survey.push(b"one\ntw", &mut |_| lines += 1);
/// survey.push(b"o\n", &mut |_| lines += 1);
/// let surveyed = survey.finish(&mut |_| lines += 1);
/// assert_eq!((surveyed.bytes, surveyed.chars, surveyed.lines, lines), (8, 8, 2, 2));
/// ```
#[derive(Debug)]
pub struct Survey {
    hasher: blake3::Hasher,
    scanner: LineScanner,
    /// What is not decided yet, and small pieces that wait to be scanned.
    carry: Vec<u8>,
    chars: u64,
    is_utf8: bool,
    rows: Vec<Row>,
    taken: u64,
}

/// What a pass over a whole payload learned of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Surveyed {
    /// The payload's length in bytes.
    pub bytes: u64,
    /// Its length in characters; an invalid UTF-8 sequence counts as one.
    pub chars: u64,
    /// Its lines on the line grid.
    pub lines: u64,
    /// The digest of all its bytes.
    pub digest: Digest,
    /// Whether all of it is valid UTF-8.
    pub is_utf8: bool,
    /// The index rows that were not taken before.
    pub rows: Vec<Row>,
    /// How many rows were taken before.
    pub rows_taken: u64,
}

impl Default for Survey {
    fn default() -> Self {
        Self {
            hasher: blake3::Hasher::new(),
            scanner: LineScanner::default(),
            carry: Vec::new(),
            chars: 0,
            is_utf8: true,
            rows: Vec::new(),
            taken: 0,
        }
    }
}

impl Survey {
    /// A survey that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in the next piece of the payload and hands every line that is decided to `on_line`,
    /// whole and in order.
    pub fn push(&mut self, piece: &[u8], on_line: &mut dyn FnMut(Line<'_>)) {
        for block in piece.chunks(BLOCK_BYTES) {
            self.hasher.update(block);
            self.push_block(block, on_line);
        }
    }

    /// Ends the payload and hands out the lines that are left.
    pub fn finish(mut self, on_line: &mut dyn FnMut(Line<'_>)) -> Surveyed {
        let carry = mem::take(&mut self.carry);
        self.pass(&carry, true, on_line);
        Surveyed {
            bytes: self.scanner.offset(),
            chars: self.chars,
            lines: self.scanner.number(),
            digest: self.hasher.finalize().into(),
            is_utf8: self.is_utf8,
            rows: self.rows,
            rows_taken: self.taken,
        }
    }

    /// Takes the index rows found since they were taken last, to be written down early.
    pub fn take_rows(&mut self) -> Vec<Row> {
        self.taken += self.rows.len() as u64;
        mem::take(&mut self.rows)
    }

    /// Lines that began in the carry are finished there, with a piece of `block`; all others are
    /// found in `block` itself, without a copy.
    fn push_block(&mut self, block: &[u8], on_line: &mut dyn FnMut(Line<'_>)) {
        let mut rest = block;
        if !self.carry.is_empty() || block.len() < GATHERED_BYTES {
            let (piece, behind) = block.split_at(block.len().min(GATHERED_BYTES));
            let mut carry = mem::take(&mut self.carry);
            let carried = carry.len();
            carry.extend_from_slice(piece);
            let used =
                if carry.len() < GATHERED_BYTES { 0 } else { self.pass(&carry, false, on_line) };
            if behind.is_empty() {
                carry.drain(..used);
                self.carry = carry;
                return;
            }
            carry.clear();
            self.carry = carry;
            rest = &block[used - carried..];
        }
        let used = self.pass(rest, false, on_line);
        self.carry.extend_from_slice(&rest[used..]);
    }

    /// Scans and counts what is decided in `buf` and returns how many bytes that is.
    fn pass(&mut self, buf: &[u8], last: bool, on_line: &mut dyn FnMut(Line<'_>)) -> usize {
        let rows = &mut self.rows;
        let mut next_row = (self.taken + rows.len() as u64 + 1) * ROW_SPACING;
        let used = self.scanner.scan(buf, last, &mut |line| {
            if line.offset >= next_row {
                rows.push(Row { offset: line.offset, number: line.number, state: line.state });
                next_row += ROW_SPACING;
            }
            on_line(line);
        });
        // Lines end between characters, so what is decided can be counted by itself.
        let decided = &buf[..used];
        self.chars += match std::str::from_utf8(decided) {
            Ok(text) => text.chars().count() as u64,
            Err(_) => {
                self.is_utf8 = false;
                count_chars(decided)
            }
        };
        used
    }
}

impl Surveyed {
    /// What the index says of the payload that was surveyed.
    pub(super) fn facts(&self, media_type: &str, tool: &str) -> Facts {
        Facts {
            bytes: self.bytes,
            chars: self.chars,
            lines: self.lines,
            digest: self.digest,
            media_type: media_type.to_owned(),
            tool: tool.to_owned(),
            rows: self.rows_taken + self.rows.len() as u64,
        }
    }
}

/// A payload being stored, with its index. Dropping it before it is committed leaves nothing
/// behind.
#[derive(Debug)]
pub struct Deposit {
    store: Arc<dyn Store>,
    payload: Box<dyn Stage>,
    bytes: u64,
    index: IndexStage,
}

impl Deposit {
    /// Opens a place for a payload that has no name yet.
    ///
    /// # Errors
    ///
    /// Whatever the store says that cannot stage a blob.
    pub async fn open(store: &Arc<dyn Store>) -> Result<Self, StoreError> {
        Ok(Self {
            store: Arc::clone(store),
            payload: store.stage().await?,
            bytes: 0,
            index: IndexStage::default(),
        })
    }

    /// Appends bytes of the payload.
    ///
    /// # Errors
    ///
    /// Whatever the store says that cannot take them.
    pub async fn append(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        self.bytes += bytes.len() as u64;
        self.payload.append(bytes).await
    }

    /// Appends bytes and does something else while the store is writing: it does so on a thread or
    /// a machine of its own.
    pub(crate) async fn append_while<T>(
        &mut self,
        bytes: Bytes,
        meanwhile: impl FnOnce() -> T,
    ) -> (Result<(), StoreError>, T) {
        let mut append = pin!(self.append(bytes));
        let started = poll_fn(|context| Poll::Ready(append.as_mut().poll(context))).await;
        let done = meanwhile();
        let appended = match started {
            Poll::Ready(appended) => appended,
            Poll::Pending => append.await,
        };
        (appended, done)
    }

    /// Takes rows that [`Survey::take_rows`] gave, in their order, so that they need not be held.
    /// Those never taken come with [`Surveyed`] in the end.
    ///
    /// # Errors
    ///
    /// Whatever the store says that cannot take them.
    pub async fn append_rows(&mut self, rows: &[Row]) -> Result<(), StoreError> {
        self.index.hold(rows);
        if self.index.held.len() >= HELD_ROW_BYTES {
            self.index.write(&*self.store).await?;
        }
        Ok(())
    }

    /// Gives payload and index their names and makes them durable, the index first: a payload
    /// that can be found has its index, unless the store refuses that alone.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] when other bytes rest under the payload's name; equal bytes are
    /// success. [`StoreError::Refused`] when `surveyed` is not of the bytes and rows appended
    /// here. Else whatever the store says.
    pub async fn commit(
        mut self,
        call: &ToolCall,
        part: PartName,
        media_type: &str,
        surveyed: Surveyed,
    ) -> Result<Receipt, StoreError> {
        if (self.bytes, self.index.rows) != (surveyed.bytes, surveyed.rows_taken) {
            let what = "the payload that was surveyed is not the one that was appended".to_owned();
            return Err(StoreError::Refused { what, source: None });
        }
        let handle = Handle::new(call, part, &surveyed.digest);
        let facts = surveyed.facts(media_type, &call.tool);
        self.index.hold(&surveyed.rows);
        match self.index.commit(&*self.store, &handle, &facts).await {
            // Something of another's stands in its place, or the store refuses the payload too.
            // An index is derived: without it, the payload can still be read.
            Ok(_) | Err(StoreError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
        let name = BlobName::Payload(handle.clone());
        if self.payload.commit(&name).await? == Commit::Existed {
            compare(&*self.store, &name, facts.digest).await?;
        }
        Ok(facts.receipt(handle))
    }
}

/// Stores a payload that is in memory, without copying it.
///
/// # Errors
///
/// As [`Deposit::commit`].
pub async fn deposit(
    store: &Arc<dyn Store>,
    call: &ToolCall,
    part: PartName,
    media_type: &str,
    payload: Bytes,
) -> Result<Receipt, StoreError> {
    deposit_seen(store, call, part, media_type, payload, &mut |_| {}).await
}

/// As [`deposit`]; hands every line to `on_line` in the same pass.
pub(crate) async fn deposit_seen(
    store: &Arc<dyn Store>,
    call: &ToolCall,
    part: PartName,
    media_type: &str,
    payload: Bytes,
    on_line: &mut (dyn FnMut(Line<'_>) + Send),
) -> Result<Receipt, StoreError> {
    let mut deposit = Deposit::open(store).await?;
    let mut survey = Survey::new();
    for start in (0..payload.len()).step_by(PIECE_BYTES) {
        let piece = payload.slice(start..payload.len().min(start + PIECE_BYTES));
        let look = || survey.push(&piece, on_line);
        deposit.append_while(piece.clone(), look).await.0?;
    }
    deposit.commit(call, part, media_type, survey.finish(on_line)).await
}

/// Reads a payload through and surveys it on the way; `progress` learns how many bytes are done.
pub(super) async fn survey_stored(
    store: &dyn Store,
    name: &BlobName,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<Surveyed, StoreError> {
    let mut survey = Survey::new();
    let mut done = 0;
    read_through(store, name, &mut |piece| {
        survey.push(piece, &mut |_| {});
        done += piece.len() as u64;
        progress(done);
    })
    .await?;
    Ok(survey.finish(&mut |_| {}))
}

/// Checks that the blob under `name` has this digest.
async fn compare(store: &dyn Store, name: &BlobName, digest: Digest) -> Result<(), StoreError> {
    let mut hasher = blake3::Hasher::new();
    read_through(store, name, &mut |piece| {
        hasher.update(piece);
    })
    .await?;
    if Digest::from(hasher.finalize()) == digest {
        Ok(())
    } else {
        Err(StoreError::Conflict { name: name.to_string() })
    }
}

async fn read_through(
    store: &dyn Store,
    name: &BlobName,
    on_piece: &mut (dyn FnMut(&[u8]) + Send),
) -> Result<(), StoreError> {
    let mut at = 0;
    loop {
        let slice = store.read(name, ByteRange::Span(at..at + PIECE_BYTES as u64)).await?;
        on_piece(&slice.bytes);
        at += slice.bytes.len() as u64;
        if slice.bytes.is_empty() || at >= slice.blob_len {
            return Ok(());
        }
    }
}

/// An index being written. It opens a stage only when its rows are many, or at the end.
#[derive(Debug, Default)]
struct IndexStage {
    stage: Option<Box<dyn Stage>>,
    held: BytesMut,
    rows: u64,
}

impl IndexStage {
    fn hold(&mut self, rows: &[Row]) {
        for row in rows {
            self.rows += 1;
            self.held.extend_from_slice(&row.encode(self.rows));
        }
    }

    async fn write(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        let stage = match &mut self.stage {
            Some(stage) => stage,
            none => none.insert(store.stage().await?),
        };
        stage.append(self.held.split().freeze()).await
    }

    async fn commit(
        mut self,
        store: &dyn Store,
        handle: &Handle,
        facts: &Facts,
    ) -> Result<Commit, StoreError> {
        self.held.extend_from_slice(&facts.encode());
        let mut stage = match self.stage {
            Some(stage) => stage,
            None => store.stage().await?,
        };
        stage.append(self.held.freeze()).await?;
        stage.commit(&BlobName::Index(handle.clone())).await
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::block_on;
    use proptest::prelude::*;

    use super::super::index::{ROW_BYTES, TRAILER_BYTES};
    use super::super::memory::Memory;
    use super::*;
    use crate::lines::lines;
    use crate::lines::tests::payloads;

    const TEXT: &str = "text/plain";

    fn call() -> ToolCall {
        ToolCall::new("run", "call", "bash")
    }

    fn put(store: &Arc<dyn Store>, payload: &[u8]) -> Result<Receipt, StoreError> {
        block_on(deposit(store, &call(), PartName::Value(0), TEXT, Bytes::copy_from_slice(payload)))
    }

    #[test]
    fn a_receipt_says_what_was_stored() {
        let store: Arc<dyn Store> = Arc::new(Memory::default());
        let receipt = put(&store, "héllo\nworld\n".as_bytes()).unwrap();
        assert_eq!((receipt.bytes, receipt.chars, receipt.lines), (13, 12, 2));
        assert_eq!(receipt.digest, Digest::of("héllo\nworld\n".as_bytes()));
        assert_eq!((&*receipt.media_type, &*receipt.tool), (TEXT, "bash"));
        assert!(receipt.handle.as_str().starts_with("run/call."));
    }

    #[test]
    fn storing_the_same_again_is_success_and_changes_nothing() {
        let memory = Arc::new(Memory::default());
        let store: Arc<dyn Store> = memory.clone();
        for payload in [&b""[..], b"same\n"] {
            let receipt = put(&store, payload).unwrap();
            assert_eq!(put(&store, payload).unwrap(), receipt);
            assert_eq!(memory.get(&BlobName::Payload(receipt.handle)).unwrap(), payload);
        }
    }

    #[test]
    fn other_bytes_under_the_same_name_are_a_conflict_and_stay() {
        for payload in [&b""[..], b"mine\n"] {
            let memory = Arc::new(Memory::default());
            let store: Arc<dyn Store> = memory.clone();
            let handle = Handle::new(&call(), PartName::Value(0), &Digest::of(payload));
            let name = BlobName::Payload(handle);
            memory.set(&name, Some(Bytes::from_static(b"other")));
            let error = put(&store, payload).unwrap_err();
            assert!(matches!(error, StoreError::Conflict { .. }), "{error}");
            assert!(error.to_string().contains("no longer match their digest"), "{error}");
            assert_eq!(memory.get(&name).unwrap(), "other");
        }
    }

    #[test]
    fn a_deposit_dropped_before_its_commit_leaves_nothing() {
        let memory = Arc::new(Memory::default());
        let store: Arc<dyn Store> = memory.clone();
        let mut deposit = block_on(Deposit::open(&store)).unwrap();
        block_on(deposit.append(Bytes::from_static(b"x"))).unwrap();
        drop(deposit);
        assert!(memory.is_empty());
    }

    #[test]
    fn a_survey_of_something_else_is_refused() {
        let memory = Arc::new(Memory::default());
        let store: Arc<dyn Store> = memory.clone();
        let mut deposit = block_on(Deposit::open(&store)).unwrap();
        block_on(deposit.append(Bytes::from_static(b"x"))).unwrap();
        let surveyed = Survey::new().finish(&mut |_| {});
        let error = block_on(deposit.commit(&call(), PartName::Value(0), TEXT, surveyed));
        assert!(matches!(error, Err(StoreError::Refused { .. })));
        assert!(memory.is_empty());
    }

    #[test]
    fn many_rows_are_written_before_the_end() {
        let memory = Arc::new(Memory::default());
        let store: Arc<dyn Store> = memory.clone();
        let rows: Vec<Row> =
            (1..5_000).map(|k| Row { offset: k * ROW_SPACING, number: k, ..Row::FIRST }).collect();
        let mut deposit = block_on(Deposit::open(&store)).unwrap();
        for some in rows.chunks(7) {
            block_on(deposit.append_rows(some)).unwrap();
            assert!(deposit.index.held.len() < HELD_ROW_BYTES + 7 * ROW_BYTES);
        }
        let surveyed = Surveyed { rows_taken: 4_999, ..Survey::new().finish(&mut |_| {}) };
        let receipt =
            block_on(deposit.commit(&call(), PartName::Value(0), TEXT, surveyed)).unwrap();
        let index = memory.get(&BlobName::Index(receipt.handle)).unwrap();
        let read: Vec<Row> =
            index.chunks(ROW_BYTES).zip(1..).map_while(|(row, k)| Row::decode(row, k)).collect();
        assert_eq!(read, rows);
        let end = &index[index.len() - TRAILER_BYTES as usize..];
        assert_eq!(Facts::decode(end, index.len() as u64).unwrap().rows, 4_999);
    }

    #[test]
    fn bytes_that_trickle_in_are_surveyed_in_linear_time() {
        let payload = format!("[{}]\n{}", r#"{"a":"b"},"#.repeat(50_000), "x\n".repeat(100_000));
        let mut survey = Survey::new();
        for byte in payload.as_bytes() {
            survey.push(&[*byte], &mut |_| {});
        }
        let mut whole = Survey::new();
        whole.push(payload.as_bytes(), &mut |_| {});
        assert_eq!(survey.finish(&mut |_| {}), whole.finish(&mut |_| {}));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn any_bytes_in_any_pieces_are_stored_exactly(
            payload in payloads(),
            times in prop_oneof![3 => Just(1_usize), 1 => 1..40_usize],
            sizes in prop::collection::vec(
                prop_oneof![1..50_usize, 1..70_000_usize, 100_000..300_000_usize], 1..6,
            ),
            takes in prop::collection::vec(any::<bool>(), 1..4),
        ) {
            let payload = payload.repeat(times);
            let memory = Arc::new(Memory::default());
            let store: Arc<dyn Store> = memory.clone();
            let mut deposit = block_on(Deposit::open(&store)).unwrap();
            let mut survey = Survey::new();
            let mut found = vec![];
            let mut rest = &payload[..];
            let mut takes = takes.iter().cycle();
            for size in sizes.iter().cycle() {
                let (piece, behind) = rest.split_at((*size).min(rest.len()));
                rest = behind;
                survey.push(piece, &mut |line| found.push((line.number, line.bytes.to_vec())));
                block_on(deposit.append(Bytes::copy_from_slice(piece))).unwrap();
                if *takes.next().unwrap() {
                    block_on(deposit.append_rows(&survey.take_rows())).unwrap();
                }
                if rest.is_empty() { break }
            }
            let surveyed = survey.finish(&mut |l| found.push((l.number, l.bytes.to_vec())));
            let part = PartName::Value(0);
            let receipt = block_on(deposit.commit(&call(), part, TEXT, surveyed.clone())).unwrap();
            let grid: Vec<_> = lines(&payload).map(|l| (l.number, l.bytes.to_vec())).collect();
            prop_assert!(found == grid);
            prop_assert_eq!(receipt.chars, count_chars(&payload));
            prop_assert_eq!(receipt.digest, Digest::of(&payload));
            prop_assert_eq!(surveyed.is_utf8, std::str::from_utf8(&payload).is_ok());
            let stored = memory.get(&BlobName::Payload(receipt.handle.clone())).unwrap();
            prop_assert!(stored == payload);
            // The same in one piece makes the same index, byte for byte.
            let index = memory.get(&BlobName::Index(receipt.handle.clone())).unwrap();
            let other = Arc::new(Memory::default());
            put(&(other.clone() as Arc<dyn Store>), &payload).unwrap();
            prop_assert_eq!(other.get(&BlobName::Index(receipt.handle)).unwrap(), index);
        }
    }
}
