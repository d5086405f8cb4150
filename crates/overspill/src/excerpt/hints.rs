//! Could a line carry news? A look that costs a fraction of a nanosecond a byte, so that the rules
//! need to see few lines.
//!
//! Two bytes at a time are looked up in two tables: could one of the words that the rules look for
//! start with these, and could it go on with those? What the tables let through is compared with
//! the words.

use std::sync::OnceLock;

/// Of the words that the rules look for, parts of which every line that a rule fits holds at least
/// one, in any case; four bytes or more, in lower case. The first five bytes are what is looked up,
/// so a part starts where its word is least like others: `ndefin`, not `undefined`.
const PARTS: &[&[u8]] = &[
    b"error",
    b"rr! ",
    b"fail",
    b"panic",
    b"exception",
    b"aceback",
    b"xpect",
    b"eceived",
    b"exit",
    b"passed",
    b"passing",
    b"problem",
    b"rncode",
    b"fatal",
    b"critical",
    b"caused by",
    b"ndefined",
    b"cannot",
    b"denied",
    b"refused",
    b"unreach",
    b"meout",
    b"imed out",
    b"abort",
    b"killed",
    b"ld not",
    b"unable to",
    b" found",
    b"such",
    b"unresolv",
    b"mismatch",
    b"nflict",
    b"ot ok",
    b"dumped",
    b"of mem",
    b"oom-kill",
    b"oomkill",
    b"verflow",
    b"*** ",
    b"+++ ",
    b"____",
    b"rrupt",
    b"ot used",
    b"missing",
    b"invalid",
    b"oo many",
    b"t enough",
    b"stdout -",
    b"ce left",
    b"signal",
    b"sigsegv",
    b"sigabrt",
    b"sigkill",
    b"sigbus",
];

/// Signs that test runners put before names: `✕ ✖ ✗ ❌ ❯ ● ×`.
const SIGNS: &[&[u8]] = &[
    b"\xe2\x9c\x95",
    b"\xe2\x9c\x96",
    b"\xe2\x9c\x97",
    b"\xe2\x9d\x8c",
    b"\xe2\x9d\xaf",
    b"\xe2\x97\x8f",
    b"\xc3\x97 ",
];

/// What pytest puts before the lines of an assertion.
const MARGIN: &[u8] = b"E  ";

/// Whether a rule could fit the line.
pub(super) fn hint(line: &[u8]) -> bool {
    if line.starts_with(MARGIN) {
        return true;
    }
    let (pairs, rest) = line.as_chunks();
    let tables = Tables::get();
    let mut started = 0_u8;
    for (pair, at) in pairs.iter().zip((0..).step_by(2)) {
        let pair = usize::from(u16::from_le_bytes(*pair));
        if started & tables.on[pair] != 0 && tables.has(line, at - 2) {
            return true;
        }
        started = tables.start[pair];
    }
    rest.first().is_some_and(|last| {
        started & tables.on[usize::from(*last)] != 0 && tables.has(line, line.len() - 3)
    })
}

/// For each two bytes, which parts may start with them, and which may go on with them. A part is in
/// one of eight buckets, of which each has a bit; the signs are in the last.
struct Tables {
    start: Box<[u8; 1 << 16]>,
    on: Box<[u8; 1 << 16]>,
    /// The parts by a hash of their first four bytes: what the first two tables let through is
    /// seldom in it.
    parts: Vec<Vec<&'static [u8]>>,
}

impl Tables {
    fn get() -> &'static Self {
        static TABLES: OnceLock<Tables> = OnceLock::new();
        TABLES.get_or_init(Self::new)
    }

    fn new() -> Self {
        let mut tables = Self {
            start: Box::new([0; 1 << 16]),
            on: Box::new([0; 1 << 16]),
            parts: vec![Vec::new(); 1 << 10],
        };
        for (part, i) in PARTS.iter().zip(0..) {
            let bucket = 1 << (i % 7);
            // It may start at a position that is looked at, or one byte before it.
            set(&mut tables.start, bucket, part[0], Some(part[1]));
            set(&mut tables.on, bucket, part[2], Some(part[3]));
            set(&mut tables.start, bucket, part[1], Some(part[2]));
            set(&mut tables.on, bucket, part[3], part.get(4).copied());
            tables.parts[slot([part[0], part[1], part[2], part[3]])].push(part);
        }
        for sign in SIGNS {
            set(&mut tables.start, 1 << 7, sign[0], Some(sign[1]));
            set(&mut tables.start, 1 << 7, sign[1], Some(sign[2]));
        }
        // Two bytes tell enough of a sign.
        tables.on.iter_mut().for_each(|buckets| *buckets |= 1 << 7);
        tables
    }

    /// Whether a part or a sign starts here or one byte before.
    fn has(&self, line: &[u8], at: usize) -> bool {
        [at, at.wrapping_sub(1)].into_iter().filter_map(|start| line.get(start..)).any(|rest| {
            let known = |part: &&[u8]| {
                rest.get(..part.len()).is_some_and(|start| start.eq_ignore_ascii_case(part))
            };
            rest.first_chunk().is_some_and(|four| self.parts[slot(*four)].iter().any(known))
                || (rest.first().is_some_and(|byte| !byte.is_ascii())
                    && SIGNS.iter().any(|sign| rest.starts_with(sign)))
        })
    }
}

/// Where parts with these first four bytes, in either case, are listed.
fn slot(four: [u8; 4]) -> usize {
    // Five bits are what a letter has in either case.
    let folded = u32::from_le_bytes(four) & 0x1f1f_1f1f;
    (folded.wrapping_mul(0x9e37_79b1) >> 22) as usize
}

/// Puts two bytes, in either case, into a bucket; the second may be any.
fn set(table: &mut [u8; 1 << 16], bucket: u8, first: u8, second: Option<u8>) {
    let seconds = second.map_or(0..=0xff, |second| second..=second);
    for second in seconds {
        for first in [first, first.to_ascii_uppercase()] {
            for second in [second, second.to_ascii_uppercase()] {
                table[usize::from(u16::from_le_bytes([first, second]))] |= bucket;
            }
        }
    }
}
