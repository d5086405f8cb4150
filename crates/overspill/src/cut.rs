//! Cuts text to a number of characters, and says where it was cut.

use memchr::memchr_iter;
use unicode_segmentation::GraphemeCursor;

use crate::measure::grouped;
use crate::render::Decoder;

/// Which part of a text a cut keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// The beginning.
    Head,
    /// The end.
    Tail,
    /// 40 % of what is kept from the beginning, 60 % from the end: commands say at the end how
    /// they went.
    #[default]
    HeadAndTail,
}

/// How a text is cut.
///
/// ```
/// use overspill::cut::{Keep, Truncate, not_stored};
///
/// let how = Truncate { max_chars: 90, keep: Keep::Head, ..Truncate::default() };
/// let cut = how.cut(&"all work and no play\n".repeat(100), &not_stored).unwrap();
/// assert_eq!(cut.text, "\
/// all work and no play
/// all wo
/// [… 2,073 characters (99 lines) left out here and not stored …]");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truncate {
    /// The most characters that stay, the marker counted in. A policy takes
    /// [`MIN_CHARS`](Self::MIN_CHARS) at least.
    pub max_chars: usize,
    /// Which part stays.
    pub keep: Keep,
    /// How many complete lines of the end stay whatever `keep` says, where they fit. Only `\n`
    /// ends a line.
    pub keep_tail_lines: usize,
}

impl Default for Truncate {
    fn default() -> Self {
        Self { max_chars: 4_000, keep: Keep::default(), keep_tail_lines: 0 }
    }
}

/// What a cut left, and what it left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// What is left, with the marker in it.
    pub text: String,
    /// What is left out.
    pub gap: Gap,
    /// Whether there was room for a marker; without one, the text does not say that it was cut.
    pub marked: bool,
}

/// What a cut leaves out of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Which part stays: the marker stands at the other end, or between head and tail.
    pub keep: Keep,
    /// How many characters stay before the gap.
    pub head_chars: u64,
    /// How many characters stay after the gap.
    pub tail_chars: u64,
    /// How many characters the text had.
    pub total_chars: u64,
    /// How many lines do not stay whole because of the gap.
    pub lines: u64,
}

impl Gap {
    /// How many characters are left out.
    pub fn chars(&self) -> u64 {
        self.total_chars - self.head_chars - self.tail_chars
    }
}

/// How far from a cut its grapheme cluster is looked for, in characters. The longest in use have
/// some ten, and text that Unicode calls stream-safe has at most thirty marks in a row; a longer
/// cluster is split, because keeping it whole would leave out too much. Only a row of more than
/// 500 flags (pairs of characters that must be counted from its beginning) can be split in error.
const CLUSTER_REACH: usize = 1_024;

/// How many characters more may fit than a first guess says: a marker holds a handful of numbers,
/// each of which may become shorter when more stays.
const GUESS_SLACK: usize = 8;

impl Truncate {
    /// From this many characters on, there is room for any marker of what is not stored, and for
    /// some of the text: the longest has 147 characters, with two numbers of 26 in it. A policy
    /// that allows fewer is refused, because its cuts could not say that they are cuts.
    pub const MIN_CHARS: usize = 160;

    /// Cuts `text`; `None` where it has at most `max_chars` characters.
    ///
    /// `marker` writes what stands in the gap, line ends included. Its numbers are exact although
    /// its own length decides them: the most is kept with which it still fits. Where not even a
    /// marker fits, a bare slice is left.
    ///
    /// Neither a grapheme cluster nor a CRLF is split. Lines to be kept that do not fit give way
    /// to a cut that keeps the end.
    pub fn cut(&self, text: &str, marker: &dyn Fn(&Gap) -> String) -> Option<Cut> {
        let chars = text.chars().count();
        if chars <= self.max_chars {
            return None;
        }
        let ends = Ends {
            head: &text[..start_of(text, self.head_reach())],
            tail: &text[start_from_end(text, self.tail_reach())..],
            chars: chars as u64,
            newlines: newlines(text),
        };
        Some(ends.cut(self, marker))
    }

    /// Cuts `text` as [`cut`](Self::cut) does, and says so: where the complete lines of the end
    /// leave no room for the marker, they give way to it too. From
    /// [`MIN_CHARS`](Self::MIN_CHARS) on, no cut is without one.
    pub fn cut_marked(&self, text: &str, marker: &dyn Fn(&Gap) -> String) -> Option<Cut> {
        let cut = self.cut(text, marker)?;
        if cut.marked { Some(cut) } else { self.without_tail_lines().cut(text, marker) }
    }

    /// The cut that keeps the end, instead of one that keeps lines that do not fit.
    fn without_tail_lines(&self) -> Self {
        match self.keep_tail_lines {
            0 => self.clone(),
            _ => Self { keep: Keep::Tail, keep_tail_lines: 0, ..self.clone() },
        }
    }

    /// How many characters of the beginning decide a cut: one more than can stay, because a cut
    /// looks at the characters on both of its sides.
    fn head_reach(&self) -> usize {
        self.max_chars.saturating_add(1)
    }

    /// How many characters of the end decide a cut.
    fn tail_reach(&self) -> usize {
        self.max_chars.saturating_add(CLUSTER_REACH)
    }
}

/// Holds as much of a text that arrives in pieces as a cut needs: its two ends.
///
/// Memory is bounded by `max_chars`, whatever the length of the text, and the cut is the same as
/// that of the whole text, shown as [`show_bytes`](crate::render::show_bytes) does.
#[derive(Debug, Clone)]
pub struct HeadTail {
    how: Truncate,
    decoder: Decoder,
    head: String,
    head_chars: usize,
    /// The end, with up to twice the characters it needs, so that it is seldom moved.
    tail: String,
    tail_chars: usize,
    chars: u64,
    newlines: u64,
}

/// What a [`HeadTail`] has when the text ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// The whole text: there was nothing to cut.
    Whole(String),
    /// The text, cut.
    Cut(Cut),
}

impl HeadTail {
    /// Holds what a cut as `how` needs.
    pub fn new(how: Truncate) -> Self {
        Self {
            how,
            decoder: Decoder::default(),
            head: String::new(),
            head_chars: 0,
            tail: String::new(),
            tail_chars: 0,
            chars: 0,
            newlines: 0,
        }
    }

    /// Takes the next piece; it may end within a character.
    pub fn push(&mut self, piece: &[u8]) {
        let mut decoder = std::mem::take(&mut self.decoder);
        decoder.push(piece, &mut |text| self.push_text(text));
        self.decoder = decoder;
    }

    /// Ends the text and cuts it as [`Truncate::cut_marked`] does.
    pub fn finish(mut self, marker: &dyn Fn(&Gap) -> String) -> Held {
        let rest = std::mem::take(&mut self.decoder).finish();
        self.push_text(&rest);
        if self.chars <= self.how.max_chars as u64 {
            return Held::Whole(self.head);
        }
        let ends = Ends {
            head: &self.head,
            tail: &self.tail[start_from_end(&self.tail, self.how.tail_reach())..],
            chars: self.chars,
            newlines: self.newlines,
        };
        let cut = ends.cut(&self.how, marker);
        if cut.marked {
            return Held::Cut(cut);
        }
        Held::Cut(ends.cut(&self.how.without_tail_lines(), marker))
    }

    fn push_text(&mut self, text: &str) {
        let chars = text.chars().count();
        self.chars += chars as u64;
        self.newlines += newlines(text);

        let room = self.how.head_reach() - self.head_chars;
        if room > 0 {
            self.head.push_str(&text[..start_of(text, room)]);
            self.head_chars += room.min(chars);
        }

        let reach = self.how.tail_reach();
        if chars >= reach {
            self.tail.clear();
            self.tail.push_str(&text[start_from_end(text, reach)..]);
            self.tail_chars = reach;
        } else {
            self.tail.push_str(text);
            self.tail_chars += chars;
            if self.tail_chars >= reach.saturating_mul(2) {
                self.tail.drain(..start_from_end(&self.tail, reach));
                self.tail_chars = reach;
            }
        }
    }
}

/// The marker of a cut whose rest is stored nowhere.
pub fn not_stored(gap: &Gap) -> String {
    place(gap, &format!("[… {} left out here and not stored …]", left_out(gap)))
}

/// The marker of a cut through a structured value whose rest is stored nowhere.
pub fn not_stored_nor_json(gap: &Gap) -> String {
    let left_out = left_out(gap);
    let text = format!(
        "[… {left_out} left out here and not stored; what is left is no longer valid JSON …]"
    );
    place(gap, &text)
}

/// Puts a marker on a line of its own.
fn place(gap: &Gap, marker: &str) -> String {
    match gap.keep {
        Keep::Head => format!("\n{marker}"),
        Keep::Tail => format!("{marker}\n"),
        Keep::HeadAndTail => format!("\n{marker}\n"),
    }
}

fn left_out(gap: &Gap) -> String {
    let chars = match gap.chars() {
        1 => "1 character".to_owned(),
        chars => format!("{} characters", grouped(chars)),
    };
    match gap.lines {
        0 | 1 => chars,
        lines => format!("{chars} ({} lines)", grouped(lines)),
    }
}

/// The two ends of a text that is longer than the cut allows; they may overlap.
struct Ends<'a> {
    head: &'a str,
    tail: &'a str,
    chars: u64,
    newlines: u64,
}

/// What stays before and after the gap.
struct Kept<'a> {
    head: &'a str,
    tail: &'a str,
    gap: Gap,
}

impl<'a> Ends<'a> {
    fn cut(&self, how: &Truncate, marker: &dyn Fn(&Gap) -> String) -> Cut {
        let max = how.max_chars;
        // Lines that do not fit give way to a cut that keeps the end.
        let (keep, reserved) = match self.last_lines(how.keep_tail_lines) {
            Some(reserved) if reserved <= max => (how.keep, reserved),
            _ => (Keep::Tail, 0),
        };
        // How many characters the head and the tail get if `share` are shared out beyond the
        // reserved lines.
        let kept = |share: usize| match (keep, reserved) {
            (Keep::Head, 0) => self.keep(Keep::Head, share, 0),
            (Keep::Head, _) => self.keep(Keep::HeadAndTail, share, reserved),
            (Keep::Tail, _) => self.keep(Keep::Tail, 0, share + reserved),
            (Keep::HeadAndTail, _) => {
                let head = share * 2 / 5;
                self.keep(Keep::HeadAndTail, head, share - head + reserved)
            }
        };
        let marked = |share: usize| {
            let kept = kept(share);
            let marker = marker(&kept.gap);
            let chars = share + reserved + marker.chars().count();
            (kept, marker, chars)
        };

        // The largest share that fits with its marker. The first guess steps down by what is too
        // much; since a marker may be shorter a few characters further up, it then looks there.
        let all = max - reserved;
        let least = usize::from(reserved == 0);
        let mut share = all;
        while share > least {
            let too_much = marked(share).2.saturating_sub(max);
            if too_much == 0 {
                break;
            }
            share = share.saturating_sub(too_much).max(least);
        }
        let fitting = (share..=(share + GUESS_SLACK).min(all))
            .rev()
            .map(marked)
            .find(|&(_, _, chars)| chars <= max);
        match fitting {
            Some((Kept { head, tail, gap }, marker, _)) => {
                Cut { text: [head, &marker, tail].concat(), gap, marked: true }
            }
            None => {
                let Kept { head, tail, gap } =
                    if reserved > 0 { self.keep(Keep::Tail, 0, max) } else { kept(all) };
                Cut { text: [head, tail].concat(), gap, marked: false }
            }
        }
    }

    /// Keeps at most so many characters of head and tail, without splitting a grapheme cluster.
    fn keep(&self, keep: Keep, head_chars: usize, tail_chars: usize) -> Kept<'a> {
        let head = &self.head[..boundary_before(self.head, start_of(self.head, head_chars))];
        let start = boundary_after(self.tail, start_from_end(self.tail, tail_chars));
        let (before, tail) = self.tail.split_at(start);
        // A gap that does not end with a line leaves out a part of one more.
        let part = u64::from(!before.ends_with('\n'));
        let gap = Gap {
            keep,
            head_chars: head.chars().count() as u64,
            tail_chars: tail.chars().count() as u64,
            total_chars: self.chars,
            lines: self.newlines - newlines(head) - newlines(tail) + part,
        };
        Kept { head, tail, gap }
    }

    /// How many characters the last `lines` lines have; `None` where they are more than the tail.
    fn last_lines(&self, lines: usize) -> Option<usize> {
        if lines == 0 {
            return Some(0);
        }
        let lines_end = self.tail.strip_suffix('\n').unwrap_or(self.tail);
        let before = memchr::memrchr_iter(b'\n', lines_end.as_bytes()).nth(lines - 1)?;
        Some(self.tail[before + 1..].chars().count())
    }
}

fn newlines(text: &str) -> u64 {
    memchr_iter(b'\n', text.as_bytes()).count() as u64
}

/// Where the character number `chars` starts; the end of the text where there is none.
fn start_of(text: &str, chars: usize) -> usize {
    if text.as_bytes().get(..chars).is_some_and(<[u8]>::is_ascii) {
        return chars;
    }
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

/// Where the last `chars` characters start; the start of the text where there are fewer.
fn start_from_end(text: &str, chars: usize) -> usize {
    let by_bytes = text.len().checked_sub(chars);
    match (by_bytes, chars.checked_sub(1)) {
        (Some(at), _) if text.as_bytes()[at..].is_ascii() => at,
        (_, None) => text.len(),
        (_, Some(before)) => text.char_indices().nth_back(before).map_or(0, |(at, _)| at),
    }
}

/// The last boundary of grapheme clusters at or before `at`; `at` where the cluster is too long.
fn boundary_before(text: &str, at: usize) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    if cursor.is_boundary(text, 0).unwrap_or(true) {
        return at;
    }
    match cursor.prev_boundary(text, 0) {
        Ok(Some(start)) if text[start..at].chars().count() <= CLUSTER_REACH => start,
        _ => at,
    }
}

/// The first boundary of grapheme clusters at or after `at`; `at` where the cluster is too long.
fn boundary_after(text: &str, at: usize) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    if cursor.is_boundary(text, 0).unwrap_or(true) {
        return at;
    }
    match cursor.next_boundary(text, 0) {
        Ok(Some(end)) if text[at..end].chars().count() <= CLUSTER_REACH => end,
        _ => at,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_segmentation::UnicodeSegmentation;

    use super::*;
    use crate::render::show_bytes;

    fn truncate(max_chars: usize, keep: Keep, keep_tail_lines: usize) -> Truncate {
        Truncate { max_chars, keep, keep_tail_lines }
    }

    fn short(gap: &Gap) -> String {
        format!("<{}>", gap.chars())
    }

    #[track_caller]
    fn check(how: &Truncate, text: &str, expected: &str) {
        let cut = how.cut(text, &short).expect("something to cut");
        assert_eq!(cut.text, expected);
        assert!(cut.text.chars().count() <= how.max_chars);
    }

    const LINES: &str = "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\n";

    #[test]
    fn each_part_is_kept() {
        check(&truncate(10, Keep::Head, 0), LINES, "line 1<36>");
        check(&truncate(10, Keep::Tail, 0), LINES, "<36>ine 6\n");
        check(&truncate(14, Keep::HeadAndTail, 0), LINES, "line<32>ine 6\n");
    }

    #[test]
    fn nothing_is_cut_at_or_under_the_cap() {
        for max_chars in [LINES.len(), LINES.len() + 1, usize::MAX] {
            assert_eq!(truncate(max_chars, Keep::Head, 0).cut(LINES, &short), None);
        }
        assert_eq!(truncate(4, Keep::Head, 0).cut("ééé🙂", &short), None);
        assert_eq!(truncate(0, Keep::Head, 0).cut("", &short), None);
    }

    #[test]
    fn a_cap_too_small_for_a_marker_leaves_a_bare_slice() {
        check(&truncate(0, Keep::Head, 0), LINES, "");
        check(&truncate(4, Keep::Head, 0), LINES, "line");
        check(&truncate(4, Keep::Tail, 0), LINES, "e 6\n");
        check(&truncate(4, Keep::HeadAndTail, 0), LINES, "l 6\n");
        assert!(!truncate(4, Keep::Head, 0).cut(LINES, &short).unwrap().marked);
    }

    #[test]
    fn tail_lines_are_kept_complete() {
        check(&truncate(16, Keep::Head, 1), LINES, "line <30>line 6\n");
        check(&truncate(16, Keep::Tail, 1), LINES, "<30>ne 5\nline 6\n");
        check(&truncate(21, Keep::HeadAndTail, 1), LINES, "line<25>ine 5\nline 6\n");
        // Three lines do not fit: the end is kept instead.
        check(&truncate(16, Keep::Head, 3), LINES, "<30>ne 5\nline 6\n");
        check(&truncate(16, Keep::Head, usize::MAX), LINES, "<30>ne 5\nline 6\n");
        // Without a `\n` at the end, the last line is what stands behind the last.
        check(&truncate(11, Keep::Head, 1), "aaa\nbbb\nccc\nddd", "aaa\nb<7>ddd");
    }

    #[test]
    fn clusters_are_not_split() {
        let family = "👩‍👩‍👧‍👦"; // seven characters
        check(&truncate(16, Keep::Head, 0), &family.repeat(4), &format!("{family}<21>"));
        check(&truncate(17, Keep::Tail, 0), &family.repeat(4), &format!("<21>{family}"));
        check(&truncate(6, Keep::Head, 0), &"e\u{301}".repeat(5), "e\u{301}<8>");
        check(&truncate(6, Keep::Tail, 0), "a\r\nb\r\nc\r\n", "<6>c\r\n");
        check(&truncate(5, Keep::Tail, 0), "a\r\nb\r\ncc\r\n", "<8>\r\n");
        check(&truncate(5, Keep::Head, 0), "a\r\nb\r\ncc\r\n", "a<9>");
        check(&truncate(8, Keep::Tail, 0), &"🇫🇷🇩🇪".repeat(4), "<12>🇫🇷🇩🇪");
        check(&truncate(7, Keep::Tail, 0), &"🇫🇷🇩🇪".repeat(4), "<14>🇩🇪");
    }

    #[test]
    fn an_endless_cluster_is_split_and_takes_linear_time() {
        for unit in ["\u{301}", "\u{200d}👩", "🇫", "\u{94d}\u{915}", "\u{1100}"] {
            let text = format!("e{}", unit.repeat(100_000));
            for keep in [Keep::Head, Keep::Tail, Keep::HeadAndTail] {
                let cut = truncate(4_000, keep, 2).cut(&text, &not_stored).unwrap();
                let chars = cut.text.chars().count();
                assert!((1_900..=4_000).contains(&chars), "{unit:?} {keep:?} {chars}");
            }
        }
    }

    #[test]
    fn the_marker_says_how_much_and_that_it_was_not_stored() {
        let log: String = (0..400).map(|i| format!("line {i} of the log\n")).collect();
        let cut = truncate(170, Keep::HeadAndTail, 0).cut(&log, &not_stored).unwrap();
        assert_eq!(
            cut.text,
            "line 0 of the log\nline 1 of the log\nline 2\n\
             [… 7,785 characters (395 lines) left out here and not stored …]\n\
             og\nline 397 of the log\nline 398 of the log\nline 399 of the log\n"
        );
        assert_eq!(cut.gap.lines, 395);
        let cut = truncate(100, Keep::Head, 0).cut(&"x".repeat(101), &not_stored).unwrap();
        assert!(cut.text.ends_with("\n[… 50 characters left out here and not stored …]"));
    }

    #[test]
    fn the_longest_marker_leaves_room_for_some_of_the_text() {
        let gap = Gap {
            keep: Keep::HeadAndTail,
            head_chars: 0,
            tail_chars: 0,
            total_chars: u64::MAX,
            lines: u64::MAX,
        };
        for marker in [not_stored(&gap), not_stored_nor_json(&gap)] {
            assert!(marker.chars().count() + 10 <= Truncate::MIN_CHARS, "{marker}");
        }
    }

    #[test]
    fn lines_that_leave_no_room_for_a_marker_give_way_to_it() {
        let text = format!("{}\n{}", "a".repeat(300), "b".repeat(195));
        for keep in [Keep::Head, Keep::Tail, Keep::HeadAndTail] {
            let how = truncate(200, keep, 1);
            assert!(!how.cut(&text, &not_stored).unwrap().marked);
            let cut = how.cut_marked(&text, &not_stored).unwrap();
            assert!(cut.text.starts_with("[… 3") && cut.text.ends_with("bbb"), "{}", cut.text);
        }
    }

    #[test]
    fn a_cut_structured_value_is_said_to_be_no_json() {
        let list = format!("[{}]", vec![r#"{"id":1}"#; 100].join(","));
        let cut = truncate(200, Keep::Tail, 0).cut(&list, &not_stored_nor_json).unwrap();
        assert!(cut.text.starts_with(
            "[… 789 characters left out here and not stored; what is left is no longer valid JSON …]\n"
        ));
    }

    #[test]
    fn no_marker_advises_to_run_the_tool_again() {
        for keep in [Keep::Head, Keep::Tail, Keep::HeadAndTail] {
            let gap = Gap { keep, head_chars: 1, tail_chars: 1, total_chars: 1_003, lines: 3 };
            for marker in [not_stored(&gap), not_stored_nor_json(&gap)] {
                for word in ["again", "re-run", "rerun", "retry", "call", "tool"] {
                    assert!(!marker.contains(word), "{marker}");
                }
            }
        }
    }

    #[test]
    fn a_stream_is_held_in_bounded_memory() {
        let mut stream = HeadTail::new(truncate(500, Keep::HeadAndTail, 0));
        for i in 0..100_000 {
            stream.push(format!("line {i}\n").as_bytes());
            assert!(stream.head.len() + stream.tail.len() < 4_000);
        }
        let Held::Cut(cut) = stream.finish(&not_stored) else { panic!("nothing was cut") };
        assert!(cut.text.starts_with("line 0\nline 1\n"));
        assert!(
            cut.text.contains("[… 1,088,462 characters (99,955 lines) left out"),
            "{}",
            cut.text
        );
        assert!(cut.text.ends_with("line 99998\nline 99999\n"));
    }

    fn hows() -> impl Strategy<Value = Truncate> {
        let keep = prop::sample::select(vec![Keep::Head, Keep::Tail, Keep::HeadAndTail]);
        (0usize..160, keep, prop_oneof![Just(0usize), 0usize..6])
            .prop_map(|(max_chars, keep, lines)| truncate(max_chars, keep, lines))
    }

    /// Text in which nearly every cut is one too many.
    fn texts() -> impl Strategy<Value = String> {
        let parts = prop::sample::select(vec![
            "\r\n",
            "\n",
            "\r",
            "e\u{301}",
            "Z\u{335}\u{321}\u{342}",
            "👩‍👩‍👧‍👦",
            "🇫",
            "🇩🇪",
            "한",
            "\u{1100}\u{1161}",
            "क\u{94d}ष",
            "第",
            "plain ",
            "x",
        ]);
        prop::collection::vec(parts, 0..120).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn a_cut_is_within_the_cap_and_tells_the_truth(how in hows(), text in texts()) {
            let chars = text.chars().count();
            let Some(cut) = how.cut(&text, &not_stored) else {
                prop_assert!(chars <= how.max_chars);
                return Ok(());
            };
            prop_assert!(chars > how.max_chars);
            prop_assert!(cut.text.chars().count() <= how.max_chars);

            let head = &text[..start_of(&text, cut.gap.head_chars as usize)];
            let tail = &text[start_from_end(&text, cut.gap.tail_chars as usize)..];
            let marker = if cut.marked { not_stored(&cut.gap) } else { String::new() };
            prop_assert_eq!(&cut.text, &[head, &marker, tail].concat());

            let gap = &text[head.len()..text.len() - tail.len()];
            prop_assert_eq!(cut.gap.lines as usize, gap.split_inclusive('\n').count());

            let boundaries: Vec<usize> =
                text.grapheme_indices(true).map(|(at, _)| at).chain([text.len()]).collect();
            prop_assert!(boundaries.contains(&head.len()));
            prop_assert!(boundaries.contains(&(text.len() - tail.len())));
        }

        #[test]
        fn no_cut_of_a_policy_is_without_a_marker(
            how in hows(),
            text in texts(),
            repeats in 1usize..9,
        ) {
            let how = Truncate { max_chars: how.max_chars + Truncate::MIN_CHARS, ..how };
            for marker in [not_stored, not_stored_nor_json] {
                if let Some(cut) = how.cut_marked(&text.repeat(repeats), &marker) {
                    prop_assert!(cut.text.contains(marker(&cut.gap).trim_matches('\n')));
                    prop_assert!(cut.text.chars().count() <= how.max_chars);
                }
            }
        }

        #[test]
        fn one_character_more_would_not_fit(how in hows(), length in 0usize..1_200) {
            // One-character clusters in one line, so that what is shared out is what stays.
            let text = "x".repeat(length);
            if let Some(cut) = how.cut(&text, &not_stored) && cut.marked {
                let kept = (cut.gap.head_chars + cut.gap.tail_chars) as usize;
                for more in kept + 1..how.max_chars {
                    let head = match how.keep {
                        _ if how.keep_tail_lines > 0 => 0,
                        Keep::Head => more,
                        Keep::Tail => 0,
                        Keep::HeadAndTail => more * 2 / 5,
                    };
                    let gap =
                        Gap { head_chars: head as u64, tail_chars: (more - head) as u64, ..cut.gap };
                    prop_assert!(more + not_stored(&gap).chars().count() > how.max_chars);
                }
            }
        }

        #[test]
        fn a_stream_is_cut_as_the_whole(
            how in hows(),
            text in texts(),
            noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            repeats in 1usize..6,
            size in 1usize..700,
        ) {
            let mut bytes = text.repeat(repeats).into_bytes();
            for (at, byte) in noise {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            let mut stream = HeadTail::new(how.clone());
            bytes.chunks(size).for_each(|piece| stream.push(piece));
            let whole = show_bytes(&bytes);
            let expected = match how.cut_marked(&whole, &not_stored) {
                Some(cut) => Held::Cut(cut),
                None => Held::Whole(whole.into_owned()),
            };
            prop_assert_eq!(stream.finish(&not_stored), expected);
        }
    }
}
