//! The one reader above the port: a stored payload, its lines from any line on, and whether it is
//! still what was stored.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::handle::Handle;
use super::index::{Facts, IndexError, ROW_BYTES, ROW_SPACING, Row, TRAILER_BYTES};
use super::port::{BlobName, ByteRange, Commit, Store, StoreError};
use super::receipt::Receipt;
use super::writer::{PIECE_BYTES, Surveyed, survey_stored};
use crate::lines::{Lines, ScanState};

/// The first block a cursor reads: the answer to most reads lies in one.
const FIRST_BLOCK_BYTES: u64 = ROW_SPACING;

/// Rows read at once: 16 KiB of index, which stand for 32 MiB of payload.
const ROWS_AT_ONCE: u64 = 512;

/// Looks for a line by its number as if all lines were equally long so many times, before it
/// halves what is left. Where lines are of one kind, the first look finds it.
const GUESSES: usize = 3;

/// A stored payload.
///
/// Opening it reads a few facts, not the payload. An index that is missing or damaged is computed
/// again in one pass over the payload and kept in memory.
#[derive(Debug)]
pub struct Stored {
    store: Arc<dyn Store>,
    payload: BlobName,
    index: BlobName,
    facts: Facts,
    receipt: Receipt,
    /// Rows in memory, as encoded: the last ones, or all where the index was computed again.
    held_rows: Bytes,
    health: IndexHealth,
}

/// What became of the index beside a payload. The payload does not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexHealth {
    /// It is there and was not found to be wrong.
    Sound,
    /// It is not there; what it said was computed again.
    Missing,
    /// It is not what was written; what it said was computed again.
    Damaged,
}

impl Stored {
    /// Opens a payload.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] when the payload is not there, whatever is left of its index.
    /// [`StoreError::Damaged`] when it has another length than was stored, or, where it had to
    /// be read through because the index was of no use, another digest. Else whatever the store
    /// says.
    pub async fn open(store: &Arc<dyn Store>, handle: &Handle) -> Result<Self, StoreError> {
        let payload = BlobName::Payload(handle.clone());
        let index = BlobName::Index(handle.clone());
        let payload_len = store.read(&payload, ByteRange::Span(0..1)).await?.blob_len;
        let (facts, held_rows, health) = match read_index(&**store, &index).await? {
            Ok((facts, held_rows)) => (facts, held_rows, IndexHealth::Sound),
            Err(health) => {
                let surveyed = survey_stored(&**store, &payload, &mut |_| {}).await?;
                // The tool's name is written nowhere else, and whether text was meant as JSON is
                // not guessed.
                let media_type =
                    if surveyed.is_utf8 { "text/plain" } else { "application/octet-stream" };
                (surveyed.facts(media_type, ""), encode_rows(&surveyed.rows), health)
            }
        };
        let damaged = |what: String| StoreError::Damaged { name: payload.to_string(), what };
        if !handle.names(&facts.digest) {
            return Err(damaged(format!("its digest is {}", facts.digest)));
        }
        if facts.bytes != payload_len {
            return Err(damaged(format!(
                "it is {payload_len} bytes long, but {} were stored",
                facts.bytes
            )));
        }
        let receipt = facts.receipt(handle.clone());
        Ok(Self { store: Arc::clone(store), payload, index, facts, receipt, held_rows, health })
    }

    /// The receipt, as it was made when the payload was stored; where the index had to be
    /// computed again, without the tool's name and with the media type guessed.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// What opening the payload found of its index, of which it reads the end only;
    /// [`check_index`](Self::check_index) looks at all of it.
    pub fn index_health(&self) -> IndexHealth {
        self.health
    }

    /// Reads bytes of the payload; what lies past its end is left out.
    ///
    /// # Errors
    ///
    /// Whatever the store says.
    pub async fn bytes(&self, range: Range<u64>) -> Result<Bytes, StoreError> {
        Ok(self.store.read(&self.payload, ByteRange::Span(range)).await?.bytes)
    }

    /// Reads lines from line `from` on, in blocks.
    pub fn blocks(&self, from: u64) -> Cursor<'_> {
        Cursor {
            stored: self,
            from,
            at: None,
            rows: RowBlock::default(),
            block_bytes: FIRST_BLOCK_BYTES,
        }
    }

    /// Reads the payload through and compares it with what was stored: its digest, what the
    /// receipt says of it, and every row of the index. `progress` learns how many bytes are done.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] when the payload is not the one that was stored. A wrong index is
    /// no error, since it can be computed again.
    pub async fn verify(
        &self,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<IndexHealth, StoreError> {
        let surveyed = survey_stored(&*self.store, &self.payload, progress).await?;
        self.compare(&surveyed)?;
        if self.health != IndexHealth::Sound || self.has_index_of(&surveyed).await? {
            return Ok(self.health);
        }
        Ok(IndexHealth::Damaged)
    }

    /// Looks at every row of the index, and not at the payload.
    ///
    /// # Errors
    ///
    /// Whatever the store says.
    pub async fn check_index(&self) -> Result<IndexHealth, StoreError> {
        if self.health != IndexHealth::Sound {
            return Ok(self.health);
        }
        let end = self.facts.rows + 1;
        for start in (1..end).step_by(ROWS_AT_ONCE as usize) {
            let range = start..end.min(start + ROWS_AT_ONCE);
            let rows = range.end - range.start;
            if self.rows(range).await?.len() as u64 != rows {
                return Ok(IndexHealth::Damaged);
            }
        }
        Ok(IndexHealth::Sound)
    }

    /// Takes the index beside the payload for missing: what it said is computed again, but for what
    /// only a sound end of it tells. For whoever is about to remove one that is damaged, and to put
    /// back a sound one with [`reindex`](Self::reindex).
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] when the payload is not the one that was stored. Else whatever the
    /// store says.
    pub async fn without_index(mut self) -> Result<Self, StoreError> {
        if self.health == IndexHealth::Sound {
            let surveyed = survey_stored(&*self.store, &self.payload, &mut |_| {}).await?;
            self.compare(&surveyed)?;
            self.facts = surveyed.facts(&self.facts.media_type, &self.facts.tool);
            self.receipt = self.facts.receipt(self.receipt.handle.clone());
            self.held_rows = encode_rows(&surveyed.rows);
        }
        self.health = IndexHealth::Missing;
        Ok(self)
    }

    /// Puts an index that is missing back beside the payload, and returns what is there now. A
    /// damaged one stays: nothing that is stored is ever overwritten.
    ///
    /// # Errors
    ///
    /// Whatever the store says that cannot write it.
    pub async fn reindex(&self) -> Result<IndexHealth, StoreError> {
        if self.health != IndexHealth::Missing {
            return Ok(self.health);
        }
        let mut stage = self.store.stage().await?;
        stage.append(self.held_rows.clone()).await?;
        stage.append(self.facts.encode().into()).await?;
        match stage.commit(&self.index).await? {
            Commit::Created => Ok(IndexHealth::Sound),
            // Another reader was faster.
            Commit::Existed => Ok(match read_index(&*self.store, &self.index).await? {
                Ok(_) => IndexHealth::Sound,
                Err(health) => health,
            }),
        }
    }

    fn compare(&self, surveyed: &Surveyed) -> Result<(), StoreError> {
        if surveyed.digest == self.facts.digest {
            return Ok(());
        }
        let what = format!("its digest is {}, but was {}", surveyed.digest, self.facts.digest);
        Err(self.damaged(what))
    }

    async fn has_index_of(&self, surveyed: &Surveyed) -> Result<bool, StoreError> {
        if self.facts != surveyed.facts(&self.facts.media_type, &self.facts.tool) {
            return Ok(false);
        }
        let mut k = 1;
        for rows in surveyed.rows.chunks(ROWS_AT_ONCE as usize) {
            let range = k..k + rows.len() as u64;
            k = range.end;
            if self.rows(range).await? != rows {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Those of rows `range` that are not damaged.
    async fn rows(&self, range: Range<u64>) -> Result<Vec<Row>, StoreError> {
        let byte = |k: u64| (k - 1) * ROW_BYTES as u64;
        let held_from = self.facts.rows * ROW_BYTES as u64 - self.held_rows.len() as u64;
        let span = byte(range.start)..byte(range.end);
        let bytes = if span.start >= held_from {
            self.held_rows.slice((span.start - held_from) as usize..(span.end - held_from) as usize)
        } else {
            match self.store.read(&self.index, ByteRange::Span(span)).await {
                Ok(slice) => slice.bytes,
                // Swept since it was opened, or unreadable there: lines are found without rows.
                Err(StoreError::NotFound { .. } | StoreError::Damaged { .. }) => Bytes::new(),
                Err(error) => return Err(error),
            }
        };
        Ok(range.zip(bytes.chunks(ROW_BYTES)).filter_map(|(k, row)| Row::decode(row, k)).collect())
    }

    async fn read_exactly(&self, range: Range<u64>) -> Result<Bytes, StoreError> {
        let len = range.end - range.start;
        let bytes = self.bytes(range).await?;
        if bytes.len() as u64 == len {
            Ok(bytes)
        } else {
            Err(self.damaged(format!("it no longer has the {} bytes it had", self.facts.bytes)))
        }
    }

    fn damaged(&self, what: String) -> StoreError {
        StoreError::Damaged { name: self.payload.to_string(), what }
    }
}

/// Hands out the lines of a stored payload, in blocks of whole lines.
///
/// The first block is about 64 KiB, since most reads want few lines; they grow to about 1 MiB.
/// Blocks end where index rows are, so that a block is counted without being scanned: a search
/// for what is not there costs hardly more than reading. Where rows are damaged, blocks are
/// scanned to find their ends. Memory stays flat either way.
#[derive(Debug)]
pub struct Cursor<'s> {
    stored: &'s Stored,
    /// The line the first block starts with.
    from: u64,
    /// Where the next block starts; unknown before the first.
    at: Option<Row>,
    rows: RowBlock,
    block_bytes: u64,
}

/// Lines of a stored payload that follow one another.
#[derive(Debug, Clone)]
pub struct Block {
    bytes: Bytes,
    start: Row,
    end: Row,
    /// The state of the line behind the block, if there is one.
    next: Option<ScanState>,
}

impl Cursor<'_> {
    /// Reads the next block; none at the end of the payload.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] when the payload is found to have changed since it was stored,
    /// [`StoreError::NotFound`] when it was swept meanwhile. Else whatever the store says.
    pub async fn next(&mut self) -> Result<Option<Block>, StoreError> {
        if self.from >= self.stored.facts.lines {
            return Ok(None);
        }
        let mut at = match self.at {
            Some(at) => at,
            None => self.rows.row_before(self.stored, self.from).await?,
        };
        while at.offset < self.stored.facts.bytes {
            let block = self.read_block(at).await?;
            at = block.end;
            self.at = Some(at);
            if block.start.number >= self.from {
                return Ok(Some(block));
            }
            if block.end.number > self.from {
                let block = block.starting_at(self.from).ok_or_else(|| {
                    self.stored.damaged("its lines are not where they were".to_owned())
                })?;
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    async fn read_block(&mut self, start: Row) -> Result<Block, StoreError> {
        let stored = self.stored;
        let reach = start.offset + self.block_bytes;
        self.block_bytes = (self.block_bytes * 2).min(PIECE_BYTES as u64);
        if reach >= stored.facts.bytes {
            let bytes = stored.read_exactly(start.offset..stored.facts.bytes).await?;
            let number = stored.facts.lines.max(start.number);
            let end = Row { offset: stored.facts.bytes, number, state: ScanState::START };
            return Ok(Block { bytes, start, end, next: None });
        }
        if let Some(end) = self.rows.last_row(stored, start, reach / ROW_SPACING).await? {
            let bytes = stored.read_exactly(start.offset..end.offset).await?;
            return Ok(Block { bytes, start, end, next: Some(end.state) });
        }
        let mut bytes = stored.read_exactly(start.offset..reach).await?;
        let mut scanner = start.scanner();
        bytes.truncate(scanner.scan(&bytes, false, &mut |_| {}));
        let end = Row::from(&scanner);
        Ok(Block { bytes, start, end, next: Some(end.state) })
    }
}

impl Block {
    /// The payload's bytes, from the start of the first line to the end of the last.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Where in the payload it starts, in bytes.
    pub fn offset(&self) -> u64 {
        self.start.offset
    }

    /// The number of its first line.
    pub fn first_line(&self) -> u64 {
        self.start.number
    }

    /// How many lines it is; known without looking at them.
    pub fn line_count(&self) -> u64 {
        self.end.number.saturating_sub(self.start.number)
    }

    /// Whether its first line is cut off what comes before: no `\n` is between this block and the one
    /// before.
    pub fn is_continued(&self) -> bool {
        self.start.state.is_continued()
    }

    /// Whether its last line is cut off what follows: no `\n` is between this block and the next.
    pub fn is_cut_off(&self) -> bool {
        self.next.is_some_and(ScanState::is_continued)
    }

    /// Finds its lines, one after the other.
    pub fn lines(&self) -> Lines<'_> {
        Lines::within(&self.bytes, self.start.scanner(), self.next)
    }

    /// The same block from a later line on.
    fn starting_at(mut self, number: u64) -> Option<Self> {
        let start = self.lines().find(|line| line.number == number)?;
        let start = Row { offset: start.offset, number: start.number, state: start.state };
        self.bytes = self.bytes.slice((start.offset - self.start.offset) as usize..);
        self.start = start;
        Some(self)
    }
}

/// Rows read last, because those wanted next are mostly among them.
#[derive(Debug, Default)]
struct RowBlock {
    range: Range<u64>,
    rows: Vec<Row>,
}

impl RowBlock {
    /// The last row that is known to be at or before line `line`.
    async fn row_before(&mut self, stored: &Stored, line: u64) -> Result<Row, StoreError> {
        let mut best = Row::FIRST;
        // The row in question is one of `low..high`, or `best` where none is left.
        let (mut low, mut high) = (1, stored.facts.rows + 1);
        let mut high_line = stored.facts.lines;
        for look in 0.. {
            if low >= high {
                break;
            }
            let share = if look < GUESSES {
                let lines = u128::from(high_line.saturating_sub(best.number).max(1));
                let rows =
                    u128::from(high - low) * u128::from(line.saturating_sub(best.number)) / lines;
                rows as u64
            } else {
                (high - low) / 2
            };
            self.load(stored, (low + share).min(high - 1)).await?;
            match self.rows.partition_point(|row| row.number <= line) {
                // All of them are behind the line, or damaged: look before them.
                0 => {
                    high = self.range.start;
                    high_line = self.rows.first().map_or(high_line, |row| row.number);
                }
                before => {
                    best = self.rows[before - 1];
                    if before < self.rows.len() {
                        break;
                    }
                    low = self.range.end;
                }
            }
        }
        Ok(best)
    }

    /// The last row behind `start` and up to row `k` that is not damaged.
    async fn last_row(
        &mut self,
        stored: &Stored,
        start: Row,
        k: u64,
    ) -> Result<Option<Row>, StoreError> {
        let mut k = k.min(stored.facts.rows);
        while k > start.offset / ROW_SPACING {
            self.load(stored, k).await?;
            let before = self.rows.partition_point(|row| row.offset / ROW_SPACING <= k);
            let row = self.rows[..before].last();
            if let Some(row) = row {
                return Ok(Some(*row).filter(|row| row.offset > start.offset));
            }
            k = self.range.start - 1;
        }
        Ok(None)
    }

    /// Makes sure that row `k`, which must be one of the index, is among those read.
    async fn load(&mut self, stored: &Stored, k: u64) -> Result<(), StoreError> {
        if !self.range.contains(&k) {
            let first = (k - 1) / ROWS_AT_ONCE * ROWS_AT_ONCE + 1;
            let range = first..(first + ROWS_AT_ONCE).min(stored.facts.rows + 1);
            self.rows = stored.rows(range.clone()).await?;
            self.range = range;
        }
        Ok(())
    }
}

/// Reads the facts and the rows that come along with them; or says why there are none.
async fn read_index(
    store: &dyn Store,
    index: &BlobName,
) -> Result<Result<(Facts, Bytes), IndexHealth>, StoreError> {
    let mut wanted = TRAILER_BYTES;
    loop {
        let end = match store.read(index, ByteRange::Last(wanted)).await {
            Ok(end) => end,
            Err(StoreError::NotFound { .. }) => return Ok(Err(IndexHealth::Missing)),
            // Whatever keeps it from being read: the payload is the truth, and may be read.
            Err(_) => return Ok(Err(IndexHealth::Damaged)),
        };
        match Facts::decode(&end.bytes, end.blob_len) {
            Ok(facts) if index.handle().names(&facts.digest) => {
                let rows_end = facts.rows * ROW_BYTES as u64;
                let read_from = end.blob_len - end.bytes.len() as u64;
                let held_from = read_from.next_multiple_of(ROW_BYTES as u64).min(rows_end);
                let held = if held_from < read_from {
                    Bytes::new()
                } else {
                    end.bytes
                        .slice((held_from - read_from) as usize..(rows_end - read_from) as usize)
                };
                return Ok(Ok((facts, held)));
            }
            Err(IndexError::Short { needed }) if needed > wanted => wanted = needed,
            Ok(_) | Err(_) => return Ok(Err(IndexHealth::Damaged)),
        }
    }
}

fn encode_rows(rows: &[Row]) -> Bytes {
    let mut encoded = BytesMut::with_capacity(rows.len() * ROW_BYTES);
    for (row, k) in rows.iter().zip(1..) {
        encoded.extend_from_slice(&row.encode(k));
    }
    encoded.freeze()
}

#[cfg(test)]
mod tests {
    use futures_lite::future::block_on;
    use proptest::prelude::*;

    use super::super::memory::Memory;
    use super::super::{PartName, deposit};
    use super::*;
    use crate::item::ToolCall;
    use crate::lines::tests::payloads;
    use crate::lines::{MAX_LINE_BYTES, lines};

    type Found = (u64, u64, ScanState, Vec<u8>);

    fn stored(payload: &[u8]) -> (Arc<Memory>, Arc<dyn Store>, Handle) {
        let memory = Arc::new(Memory::default());
        let store: Arc<dyn Store> = memory.clone();
        let call = ToolCall::new("run", "call", "bash");
        let payload = Bytes::copy_from_slice(payload);
        let receipt =
            block_on(deposit(&store, &call, PartName::Value(0), "text/plain", payload)).unwrap();
        (memory, store, receipt.handle)
    }

    fn read(stored: &Stored, from: u64) -> Result<Vec<Found>, StoreError> {
        block_on(async {
            let mut found = vec![];
            let mut cursor = stored.blocks(from);
            while let Some(block) = cursor.next().await? {
                let before = found.len() as u64;
                assert_eq!(block.first_line(), from + before);
                assert!(block.bytes().len() <= PIECE_BYTES + MAX_LINE_BYTES);
                found
                    .extend(block.lines().map(|l| (l.number, l.offset, l.state, l.bytes.to_vec())));
                assert_eq!(block.line_count(), found.len() as u64 - before);
                assert_eq!(
                    block.is_cut_off(),
                    block.next.is_some() && !block.bytes().ends_with(b"\n")
                );
            }
            Ok(found)
        })
    }

    fn grid(payload: &[u8]) -> Vec<Found> {
        lines(payload).map(|l| (l.number, l.offset, l.state, l.bytes.to_vec())).collect()
    }

    /// At least so many bytes of lines of various lengths.
    fn log(bytes: usize) -> Vec<u8> {
        let line = |n: usize| format!("{n:04} GET /items/{} {}\n", n * 7, "x".repeat(n % 60));
        let lines: String = (0..2_000).map(line).collect();
        lines.repeat(bytes / lines.len() + 1).into_bytes()
    }

    /// Payloads that have several index rows.
    fn long_payloads() -> impl Strategy<Value = Vec<u8>> {
        (payloads(), 1..400_000_usize).prop_map(|(payload, len)| {
            let times = len / payload.len().max(1) + 1;
            payload.repeat(if payload.is_empty() { 0 } else { times })
        })
    }

    #[test]
    fn an_empty_payload_has_no_lines() {
        let (_, store, handle) = stored(b"");
        let stored = block_on(Stored::open(&store, &handle)).unwrap();
        assert_eq!((stored.receipt().bytes, stored.receipt().lines), (0, 0));
        assert_eq!(read(&stored, 0).unwrap(), []);
        assert_eq!(block_on(stored.verify(&mut |_| {})).unwrap(), IndexHealth::Sound);
    }

    #[test]
    fn a_few_lines_anywhere_need_few_short_reads() {
        // Lines of very different lengths, so that guessing where a line is misses at first.
        let mut payload = log(20 << 20);
        payload.extend(b"\n".repeat(4 << 20));
        payload.extend(log(20 << 20));
        let (memory, store, handle) = stored(&payload);
        let grid: Vec<u64> = lines(&payload).map(|l| l.offset).collect();
        let total = grid.len() as u64;
        for from in [0, 1, 1_000, 300_000, total / 2, total - 100_000, total - 200] {
            memory.take_reads();
            let stored = block_on(Stored::open(&store, &handle)).unwrap();
            let block = block_on(stored.blocks(from).next()).unwrap().unwrap();
            assert_eq!(block.lines().next().map(|l| l.offset), Some(grid[from as usize]));
            let reads = memory.take_reads();
            let bytes: usize = reads.iter().map(|(_, bytes)| bytes).sum();
            assert!(reads.len() <= 2 + 4 + 1 && bytes < 200_000, "line {from}: {reads:?}");
        }
    }

    #[test]
    fn a_payload_that_is_gone_is_not_found_though_its_index_is_left() {
        let (memory, store, handle) = stored(b"x\n");
        memory.set(&BlobName::Payload(handle.clone()), None);
        let error = block_on(Stored::open(&store, &handle)).unwrap_err();
        assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
    }

    #[test]
    fn a_payload_of_another_length_is_damaged_with_and_without_its_index() {
        let (memory, store, handle) = stored(b"one\ntwo\n");
        memory.set(&BlobName::Payload(handle.clone()), Some(Bytes::from_static(b"one\ntw")));
        let error = block_on(Stored::open(&store, &handle)).unwrap_err();
        assert!(error.to_string().ends_with("it is 6 bytes long, but 8 were stored"), "{error}");
        memory.set(&BlobName::Index(handle.clone()), None);
        let error = block_on(Stored::open(&store, &handle)).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    }

    #[test]
    fn a_payload_that_changed_in_place_fails_verification_and_never_panics() {
        let payload = log(300_000);
        let (memory, store, handle) = stored(&payload);
        for at in (0..payload.len()).step_by(9_973) {
            let mut other = payload.clone();
            other[at] = if other[at] == b'\n' { b'x' } else { b'\n' };
            memory.set(&BlobName::Payload(handle.clone()), Some(other.into()));
            let stored = block_on(Stored::open(&store, &handle)).unwrap();
            let error = block_on(stored.verify(&mut |_| {})).unwrap_err();
            assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
            for from in (0..stored.receipt().lines).step_by(997) {
                let mut cursor = stored.blocks(from);
                while let Ok(Some(block)) = block_on(cursor.next()) {
                    assert!(block.lines().count() > 0);
                }
            }
        }
    }

    #[test]
    fn a_lost_index_is_computed_again_and_can_be_put_back() {
        let payload = log(300_000);
        let (memory, store, handle) = stored(&payload);
        let name = BlobName::Index(handle.clone());
        let first = memory.get(&name).unwrap();
        memory.set(&name, None);
        let rebuilt = block_on(Stored::open(&store, &handle)).unwrap();
        assert_eq!(rebuilt.index_health(), IndexHealth::Missing);
        assert_eq!(rebuilt.receipt().tool, "");
        assert_eq!(block_on(rebuilt.reindex()).unwrap(), IndexHealth::Sound);
        let again = memory.get(&name).unwrap();
        assert_eq!(again[..4 * ROW_BYTES], first[..4 * ROW_BYTES]);
        let stored = block_on(Stored::open(&store, &handle)).unwrap();
        assert_eq!(stored.receipt(), rebuilt.receipt());
        assert_eq!(block_on(stored.verify(&mut |_| {})).unwrap(), IndexHealth::Sound);
    }

    #[test]
    fn a_damaged_index_is_found_without_the_payload_and_can_be_built_again() {
        let payload = log(300_000);
        let (memory, store, handle) = stored(&payload);
        let name = BlobName::Index(handle.clone());
        let sound = memory.get(&name).unwrap();
        // In a row, in the facts, and in a part that is not read when the payload is opened.
        for at in [5, ROW_BYTES + 3, sound.len() - 40] {
            let mut damaged = sound.to_vec();
            damaged[at] ^= 1;
            memory.set(&name, Some(damaged.into()));
            let stored = block_on(Stored::open(&store, &handle)).unwrap();
            let tool = stored.receipt().tool.clone();
            assert_eq!(block_on(stored.check_index()).unwrap(), IndexHealth::Damaged);
            assert_eq!(block_on(stored.verify(&mut |_| {})).unwrap(), IndexHealth::Damaged);
            let without = block_on(stored.without_index()).unwrap();
            memory.set(&name, None);
            assert_eq!(block_on(without.reindex()).unwrap(), IndexHealth::Sound);
            let mended = block_on(Stored::open(&store, &handle)).unwrap();
            assert_eq!(block_on(mended.verify(&mut |_| {})).unwrap(), IndexHealth::Sound);
            assert_eq!(mended.receipt().tool, tool);
            assert_eq!(tool.is_empty(), at > sound.len() - 100, "what the facts say is kept");
        }
        memory.set(&name, Some(sound));
        let stored = block_on(Stored::open(&store, &handle)).unwrap();
        assert_eq!(block_on(stored.check_index()).unwrap(), IndexHealth::Sound);
    }

    #[test]
    fn a_tool_with_a_very_long_name_still_has_a_readable_index() {
        let store: Arc<dyn Store> = Arc::new(Memory::default());
        let call = ToolCall::new("run", "call", "t".repeat(10_000));
        let payload = Bytes::from(log(100_000));
        let receipt =
            block_on(deposit(&store, &call, PartName::Value(0), "text/plain", payload)).unwrap();
        let stored = block_on(Stored::open(&store, &receipt.handle)).unwrap();
        assert_eq!((stored.index_health(), stored.receipt()), (IndexHealth::Sound, &receipt));
    }

    #[test]
    fn lines_are_found_in_flat_memory_though_every_row_is_damaged() {
        let payload = log(40 << 20);
        let (memory, store, handle) = stored(&payload);
        let name = BlobName::Index(handle.clone());
        let mut index = memory.get(&name).unwrap().to_vec();
        for row in index.chunks_exact_mut(ROW_BYTES).take(payload.len() / ROW_SPACING as usize) {
            row[9] ^= 1;
        }
        memory.set(&name, Some(index.into()));
        let stored = block_on(Stored::open(&store, &handle)).unwrap();
        let last = lines(&payload).last().unwrap();
        let found = read(&stored, last.number).unwrap();
        assert_eq!(found, [(last.number, last.offset, last.state, last.bytes.to_vec())]);
        assert_eq!(block_on(stored.verify(&mut |_| {})).unwrap(), IndexHealth::Damaged);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]

        #[test]
        fn reading_from_any_line_gives_the_grid(
            payload in long_payloads(),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 1..5),
        ) {
            let (_, store, handle) = stored(&payload);
            let stored = block_on(Stored::open(&store, &handle)).unwrap();
            let grid = grid(&payload);
            prop_assert_eq!(stored.receipt().lines, grid.len() as u64);
            for pick in picks {
                let from = pick.index(grid.len() + 1);
                prop_assert!(read(&stored, from as u64).unwrap() == grid[from..]);
            }
            prop_assert_eq!(read(&stored, u64::MAX).unwrap(), []);
            let all = block_on(stored.bytes(0..u64::MAX)).unwrap();
            prop_assert!(all == payload);
            prop_assert_eq!(block_on(stored.verify(&mut |_| {})).unwrap(), IndexHealth::Sound);
        }

        #[test]
        fn a_damaged_index_never_gives_wrong_lines(
            payload in long_payloads(),
            wounds in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..4),
            cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
            pick in any::<prop::sample::Index>(),
        ) {
            let (memory, store, handle) = stored(&payload);
            let name = BlobName::Index(handle.clone());
            let sound = memory.get(&name).unwrap().to_vec();
            let mut index = sound.clone();
            for (at, xor) in wounds {
                let at = at.index(index.len());
                index[at] ^= xor;
            }
            if let Some(cut) = cut {
                index.truncate(cut.index(index.len()));
            }
            let is_same = index == sound;
            memory.set(&name, Some(index.into()));
            let stored = block_on(Stored::open(&store, &handle)).unwrap();
            let grid = grid(&payload);
            let from = pick.index(grid.len() + 1);
            prop_assert!(read(&stored, from as u64).unwrap() == grid[from..]);
            let health = block_on(stored.verify(&mut |_| {})).unwrap();
            prop_assert_eq!(health == IndexHealth::Sound, is_same);
        }
    }
}
