//! The lines an excerpt can still be made of, in bounded memory however long the payload is.
//!
//! Up to [`SAMPLE_BYTES`] every line is held. Of a longer payload the opening and the closing
//! lines are, and between them every second line, then every fourth, and so on: a sample spread
//! evenly, chosen by line number alone.

/// Bytes of lines held between the opening and the closing lines. What is held is searched for
/// names at the end, which takes about 3 ms a megabyte.
const SAMPLE_BYTES: usize = 64 * 1024;

/// Lines of a payload with their numbers.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: Vec<u8>,
    lines: Vec<Place>,
    /// Every how many lines one is held, a power of two.
    stride: u64,
    /// Lines below this number are always held.
    opening: u64,
    /// Bytes the opening and the closing lines are asked to be.
    reach: usize,
    closing: Closing,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    number: u64,
    start: usize,
    end: usize,
}

/// A line that is held: its number and its bytes without the line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept<'a> {
    pub(super) number: u64,
    pub(super) bytes: &'a [u8],
}

impl Held {
    /// Holds at least `reach` bytes of lines at either end.
    pub(super) fn new(reach: usize) -> Self {
        Self { stride: 1, reach, ..Self::default() }
    }

    pub(super) fn line(&mut self, number: u64, line: &[u8]) {
        self.closing.line(number, line, self.reach);
        if self.bytes.len() < self.reach {
            self.opening = number + 1;
        } else if number & (self.stride - 1) != 0 {
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(line);
        self.lines.push(Place { number, start, end: self.bytes.len() });
        while self.bytes.len() > self.reach + SAMPLE_BYTES {
            self.thin();
        }
    }

    /// Lets go of every second line between the ends.
    fn thin(&mut self) {
        self.stride *= 2;
        let mut write = 0;
        let (stride, opening, bytes) = (self.stride, self.opening, &mut self.bytes);
        self.lines.retain_mut(|place| {
            let keep = place.number < opening || place.number & (stride - 1) == 0;
            if keep {
                bytes.copy_within(place.start..place.end, write);
                let length = place.end - place.start;
                *place = Place { start: write, end: write + length, ..*place };
                write += length;
            }
            keep
        });
        self.bytes.truncate(write);
    }

    /// The held lines in order, each once.
    pub(super) fn lines(&self) -> Vec<Kept<'_>> {
        let closing = self.closing.lines();
        let first = closing.first().map_or(u64::MAX, |kept| kept.number);
        self.lines
            .iter()
            .take_while(|place| place.number < first)
            .map(|place| Kept {
                number: place.number,
                bytes: chomp(&self.bytes[place.start..place.end]),
            })
            .chain(closing)
            .collect()
    }
}

/// The last lines: two runs of which the older is let go whenever the newer is full.
#[derive(Debug, Default)]
struct Closing {
    older: Run,
    newer: Run,
}

#[derive(Debug, Default)]
struct Run {
    first: u64,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Closing {
    fn line(&mut self, number: u64, line: &[u8], reach: usize) {
        if self.newer.bytes.len() >= reach.max(1) {
            std::mem::swap(&mut self.older, &mut self.newer);
            self.newer.bytes.clear();
            self.newer.ends.clear();
        }
        if self.newer.ends.is_empty() {
            self.newer.first = number;
        }
        self.newer.bytes.extend_from_slice(line);
        self.newer.ends.push(self.newer.bytes.len());
    }

    fn lines(&self) -> Vec<Kept<'_>> {
        let runs = [&self.older, &self.newer];
        runs.into_iter().flat_map(Run::lines).collect()
    }
}

impl Run {
    fn lines(&self) -> impl Iterator<Item = Kept<'_>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .zip(self.first..)
            .map(|((start, &end), number)| Kept { number, bytes: chomp(&self.bytes[start..end]) })
    }
}

/// A line without its line feed, and the carriage return before it.
pub(super) fn chomp(line: &[u8]) -> &[u8] {
    match line {
        [line @ .., b'\r', b'\n'] | [line @ .., b'\n'] => line,
        line => line,
    }
}
