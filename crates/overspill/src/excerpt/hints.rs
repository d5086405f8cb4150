//! Could a line carry news? A look that costs less than a nanosecond a byte, so that the rules need
//! to see few lines.
//!
//! Every second position of a line is looked up in two tables of letter groups, three and four
//! bytes long, of the words that the rules look for; what the tables let through is compared with
//! the words.

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

static TABLES: (Threes, Fours) = tables();

type Threes = [u64; 1 << 9];
type Fours = [u64; 1 << 10];

/// Whether a rule could fit the line.
pub(super) fn hint(line: &[u8]) -> bool {
    if line.starts_with(MARGIN) {
        return true;
    }
    let mut at = 0;
    while let Some(window) = line.get(at..at + 4) {
        let window = u32::from_le_bytes([window[0], window[1], window[2], window[3]]);
        if listed(window) && word(line, at) {
            return true;
        }
        at += 2;
    }
    match line.get(at..) {
        Some(&[a, b, c]) => listed(u32::from_le_bytes([a, b, c, 0])) && word(line, at),
        _ => false,
    }
}

fn listed(window: u32) -> bool {
    let (threes, fours) = &TABLES;
    let three = three(window);
    if threes[three >> 6] >> (three & 63) & 1 == 0 {
        return false;
    }
    let four = four(window);
    fours[four >> 6] >> (four & 63) & 1 != 0
}

/// Whether one of the parts starts here or one byte before.
fn word(line: &[u8], at: usize) -> bool {
    [at, at.wrapping_sub(1)].into_iter().filter_map(|start| line.get(start..)).any(|rest| {
        let Some(head) = rest.first_chunk() else { return SIGNS.contains(&rest) };
        let head = u32::from_le_bytes(*head) & FOLD;
        let part = |(known, part): (&u32, &&[u8])| {
            *known == head
                && rest.get(..part.len()).is_some_and(|start| start.eq_ignore_ascii_case(part))
        };
        HEADS.iter().zip(PARTS).any(part) || SIGNS.iter().any(|sign| rest.starts_with(sign))
    })
}

/// Five bits of each byte: what a letter has in either case.
const FOLD: u32 = 0x1f1f_1f1f;

/// The first four bytes of each part.
static HEADS: [u32; PARTS.len()] = {
    let mut heads = [0; PARTS.len()];
    let mut i = 0;
    while i < heads.len() {
        let part = PARTS[i];
        heads[i] = u32::from_le_bytes([part[0], part[1], part[2], part[3]]) & FOLD;
        i += 1;
    }
    heads
};

const fn three(window: u32) -> usize {
    ((window & 0x1f) | (window >> 3 & 0x3e0) | (window >> 6 & 0x7c00)) as usize
}

const fn four(window: u32) -> usize {
    ((window & FOLD).wrapping_mul(0x9e37_79b1) >> 16) as usize
}

const fn tables() -> (Threes, Fours) {
    let mut tables = ([0; 1 << 9], [0; 1 << 10]);
    let mut i = 0;
    while i < PARTS.len() {
        let part = PARTS[i];
        // It may start at a position that is looked at, or one byte before it.
        add(&mut tables, [Some(part[0]), Some(part[1]), Some(part[2]), Some(part[3])]);
        let fifth = if part.len() > 4 { Some(part[4]) } else { None };
        add(&mut tables, [Some(part[1]), Some(part[2]), Some(part[3]), fifth]);
        i += 1;
    }
    let mut i = 0;
    while i < SIGNS.len() {
        let sign = SIGNS[i];
        add(&mut tables, [Some(sign[0]), Some(sign[1]), Some(sign[2]), None]);
        add(&mut tables, [Some(sign[1]), Some(sign[2]), None, None]);
        i += 1;
    }
    tables
}

/// Adds a group of four bytes, of which the last may be any.
const fn add(tables: &mut (Threes, Fours), group: [Option<u8>; 4]) {
    let mut any = 0;
    while any < 1 << 10 {
        let mut window = 0;
        let mut i = 0;
        while i < 4 {
            let byte = match group[i] {
                Some(byte) => byte as u32,
                None if i == 3 => any & 31,
                None => any >> 5,
            };
            window |= byte << (8 * i);
            i += 1;
        }
        set(&mut tables.0, &mut tables.1, window);
        any += if group[2].is_some() && group[3].is_some() { 1 << 10 } else { 1 };
    }
}

const fn set(threes: &mut Threes, fours: &mut Fours, window: u32) {
    let three = three(window);
    threes[three >> 6] |= 1 << (three & 63);
    let four = four(window);
    fours[four >> 6] |= 1 << (four & 63);
}
