//! What comes back when a model reads what was left out of its view, and whether a view shows it.

use memchr::{memchr, memmem, memrchr};

/// Characters shown before and after each place that is read back.
const AROUND: usize = 800;
/// Slices that are nearer to each other than this many characters are read as one,
const NEAR: usize = 1_500;
/// as long as it stays under this many.
const LONGEST: usize = 10_000;
/// Characters before and after a string that show it as well as its whole line does.
const CONTEXT: usize = 100;

/// A place in a text, in bytes and in code points.
#[derive(Clone, Copy)]
struct Place {
    byte: usize,
    char: usize,
}

/// The slices around the first occurrence of each token, as a search through a handle gives them.
pub(crate) fn slices<'t>(text: &str, tokens: impl Iterator<Item = &'t str>) -> String {
    let mut found: Vec<usize> =
        tokens.filter_map(|token| memmem::find(text.as_bytes(), token.as_bytes())).collect();
    found.sort_unstable();
    let mut windows: Vec<(Place, Place)> = Vec::new();
    let mut last = Place { byte: 0, char: 0 };
    for byte in found {
        last = Place { byte, char: last.char + text[last.byte..byte].chars().count() };
        let (from, to) = (back(text, last, AROUND), forward(text, last, AROUND));
        match windows.last_mut() {
            Some((first, end)) if from.char < end.char + NEAR && to.char - first.char < LONGEST => {
                *end = to;
            }
            _ => windows.push((from, to)),
        }
    }
    let parts: Vec<&str> = windows.iter().map(|(from, to)| &text[from.byte..to.byte]).collect();
    parts.join("\n...\n")
}

fn back(text: &str, from: Place, chars: usize) -> Place {
    let mut place = from;
    for c in text[..from.byte].chars().rev().take(chars) {
        place.byte -= c.len_utf8();
        place.char -= 1;
    }
    place
}

fn forward(text: &str, from: Place, chars: usize) -> Place {
    let mut place = from;
    for c in text[from.byte..].chars().take(chars) {
        place.byte += c.len_utf8();
        place.char += 1;
    }
    place
}

/// Whether `view` shows some occurrence of `token` in `original` with its whole line, or with the
/// 100 characters before and after it (fewer only at the ends of `original`). A token that only
/// stands in a list of names is not shown so.
pub(crate) fn shows_line(view: &str, original: &str, token: &str) -> bool {
    let bytes = original.as_bytes();
    let holds = |slice: &[u8]| memmem::find(view.as_bytes(), slice).is_some();
    let mut line_end = 0;
    let mut same_line = false;
    for at in memmem::find_iter(bytes, token.as_bytes()) {
        let end = at + token.len();
        // A line longer than the view need not be measured to its ends.
        if at >= line_end || line_end == 0 {
            let floor = at.saturating_sub(view.len());
            let start = match memrchr(b'\n', &bytes[floor..at]) {
                Some(newline) => Some(floor + newline + 1),
                None => (floor == 0).then_some(0),
            };
            let ceiling = bytes.len().min(end + view.len() + 1);
            let stop = match memchr(b'\n', &bytes[end..ceiling]) {
                Some(newline) => Some(end + newline),
                None => (ceiling == bytes.len()).then_some(ceiling),
            };
            same_line = match (start, stop) {
                (Some(start), Some(stop)) => holds(&bytes[start..stop]),
                _ => false,
            };
            line_end = stop.unwrap_or(0);
        }
        let from = back(original, Place { byte: at, char: at }, CONTEXT).byte;
        let to = forward(original, Place { byte: end, char: end }, CONTEXT).byte;
        if same_line || holds(&bytes[from..to]) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_slices_are_read_as_one() {
        let text = format!(
            "{}needle{}second{}third_",
            "é".repeat(900),
            "x".repeat(2_000),
            "y".repeat(4_000)
        );
        let read = slices(&text, ["second", "needle", "absent"].into_iter());
        assert_eq!(read.chars().count(), 800 + 6 + 2_000 + 800);
        let read = slices(&text, ["needle", "third_"].into_iter());
        assert_eq!(
            read.split("\n...\n").map(|s| s.chars().count()).collect::<Vec<_>>(),
            [1_600, 806]
        );
    }

    #[test]
    fn a_line_is_shown_whole_or_with_its_surroundings() {
        let long = format!("{}needle{}", "a".repeat(300), "b".repeat(300));
        let original = format!("one\nthe needle here\n{long}\nend");
        assert!(shows_line("x\nthe needle here\ny", &original, "needle"));
        assert!(!shows_line("names: needle other", &original, "needle"));
        assert!(shows_line(&long[200..406], &original, "needle"));
        assert!(!shows_line(&long[201..406], &original, "needle"));
    }
}
