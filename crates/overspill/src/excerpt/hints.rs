//! Could a line carry news? A look that costs less than a nanosecond a byte, so that the rules need
//! to see few lines.
//!
//! Every second position of a line is looked up in two tables of letter groups, three and four
//! bytes long, of the words that the rules look for; what the tables let through is compared with
//! the words.

/// Words of which every line that a rule fits holds at least one, in any case; of four bytes or
/// more, in lower case.
const WORDS: &[&[u8]] = &[
    b"error", b"err!", b"fail", b"panic", b"exception", b"traceback", b"assert", b"expect", b"exit",
    b"passed", b"passing", b"problem", b"return code", b"returncode", b"fatal", b"critical",
    b"severe", b"caused by", b"undefined", b"cannot", b"denied", b"refused", b"unreachable",
    b"timeout", b"timed out", b"time out", b"abort", b"killed", b"could not", b"unable to",
    b"not found", b"no such", b"unresolved", b"mismatch", b"conflict", b"not ok", b"core dump",
    b"out of memory", b"oom-kill", b"oomkill", b"overflow", b"*** ", b"+++ ", b"____", b"interrupt",
    b"not used", b"missing", b"invalid", b"space left", b"multiple def", b"sigsegv", b"sigabrt",
    b"sigkill", b"sigbus", b"build success", b"ran ",
];

/// The first two bytes of signs that test runners put before names: `✓ ✕ ✖ ✗`, `❌ ❯`, `●`, `×`.
const SIGNS: &[[u8; 2]] = &[[0xe2, 0x9c], [0xe2, 0x9d], [0xe2, 0x97], [0xc3, 0x97]];

static TABLES: (Threes, Fours) = tables();

type Threes = [u64; 1 << 9];
type Fours = [u64; 1 << 10];

/// Whether a rule could fit the line.
pub(super) fn hint(line: &[u8]) -> bool {
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

/// Whether one of the words starts here or one byte before.
fn word(line: &[u8], at: usize) -> bool {
    [at, at.wrapping_sub(1)].into_iter().filter_map(|start| line.get(start..)).any(|rest| {
        let listed = |word: &&[u8]| {
            rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        WORDS.iter().any(|word| listed(word)) || SIGNS.iter().any(|sign| rest.starts_with(sign))
    })
}

const fn three(window: u32) -> usize {
    ((window & 0x1f) | (window >> 3 & 0x3e0) | (window >> 6 & 0x7c00)) as usize
}

const fn four(window: u32) -> usize {
    ((window & 0x1f1f_1f1f).wrapping_mul(0x9e37_79b1) >> 16) as usize
}

const fn tables() -> (Threes, Fours) {
    let mut threes = [0; 1 << 9];
    let mut fours = [0; 1 << 10];
    let mut i = 0;
    while i < WORDS.len() {
        let word = WORDS[i];
        // A word may start at a position that is looked at, or one byte before it.
        let mut start = 0;
        while start < 2 {
            let known = word.len() - start;
            let fourth = if known >= 4 { word[start + 3] as u32..word[start + 3] as u32 + 1 } else { 0..32 };
            let mut last = fourth.start;
            while last < fourth.end {
                let window = word[start] as u32
                    | (word[start + 1] as u32) << 8
                    | (word[start + 2] as u32) << 16
                    | last << 24;
                set(&mut threes, &mut fours, window);
                last += 1;
            }
            start += 1;
        }
        i += 1;
    }
    let mut i = 0;
    while i < SIGNS.len() {
        let sign = SIGNS[i][0] as u32 | (SIGNS[i][1] as u32) << 8;
        let mut rest = 0;
        while rest < 32 * 32 {
            let (a, b) = (rest % 32, rest / 32);
            set(&mut threes, &mut fours, sign | a << 16 | b << 24);
            set(&mut threes, &mut fours, a | sign << 8 | b << 24);
            rest += 1;
        }
        i += 1;
    }
    (threes, fours)
}

const fn set(threes: &mut Threes, fours: &mut Fours, window: u32) {
    let three = three(window);
    threes[three >> 6] |= 1 << (three & 63);
    let four = four(window);
    fours[four >> 6] |= 1 << (four & 63);
}
