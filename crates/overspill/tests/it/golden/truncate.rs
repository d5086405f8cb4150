//! Where a text is cut. The markers are the reference's own.

use overspill::cut::{Gap, Keep, Truncate};
use serde::Deserialize;
use unicode_segmentation::UnicodeSegmentation;

use super::{Comparison, Output, Spec, differences, vectors};

#[derive(Deserialize)]
struct Vector {
    id: String,
    text: Spec,
    strategy: String,
    max_chars: i64,
    keep_tail_lines: usize,
    out: Output,
}

#[test]
fn texts_are_cut_alike() {
    let Some(vectors) = vectors::<Vector>("truncate.json") else { return };
    let mut comparison = Comparison::with(differences::TRUNCATE);
    for Vector { id, text, strategy, max_chars, keep_tail_lines, out } in vectors {
        let text = text.build();
        let keep = match &*strategy {
            "head" => Keep::Head,
            "tail" => Keep::Tail,
            "head_tail" => Keep::HeadAndTail,
            other => panic!("unknown strategy {other}"),
        };
        // A cap below zero is what a cap of zero is.
        let max_chars = usize::try_from(max_chars).unwrap_or(0);
        let ours = cut(&Truncate { max_chars, keep, keep_tail_lines }, &text);
        comparison.text(&id, &out, &ours);
        if comparison.is_listed(&id) {
            assert!(splits_a_cluster(&out, &text), "{id}: the reference splits no cluster");
        }
    }
    comparison.finish();
}

#[test]
fn tails_are_cut_alike() {
    #[derive(Deserialize)]
    struct Vector {
        id: String,
        len: usize,
        max_chars: usize,
        out: Output,
    }

    let Some(vectors) = vectors::<Vector>("truncate_tail.json") else { return };
    let mut comparison = Comparison::with(&[]);
    for Vector { id, len, max_chars, out } in vectors {
        let how = Truncate { max_chars, keep: Keep::Tail, keep_tail_lines: 0 };
        comparison.text(&id, &out, &cut(&how, &"abcdefghij".repeat(len / 10)));
    }
    comparison.finish();
}

fn cut(how: &Truncate, text: &str) -> String {
    how.cut(text, &reference_marker).map_or_else(|| text.to_owned(), |cut| cut.text)
}

fn reference_marker(gap: &Gap) -> String {
    let (head, tail) = (grouped(gap.head_chars), grouped(gap.tail_chars));
    let (total, omitted) = (grouped(gap.total_chars), grouped(gap.chars()));
    match gap.keep {
        Keep::Head => format!("\n\n[truncated: showing first {head} of {total} chars]"),
        Keep::Tail => format!("[... output truncated, showing last {} chars]\n", gap.tail_chars),
        Keep::HeadAndTail => format!(
            "\n\n[truncated: {omitted} chars omitted from the middle; \
             showing first {head} + last {tail} of {total} chars]\n\n"
        ),
    }
}

fn grouped(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1_000), number % 1_000),
    }
}

/// Whether what `out` keeps of `text` at its beginning or end stops within a grapheme cluster.
fn splits_a_cluster(out: &Output, text: &str) -> bool {
    let Output::Whole { lit: out } = out else { return false };
    // Where there is no marker, the ends reach as far as they are the same.
    let head_end = out.find("\n\n[truncated: ").unwrap_or(out.len());
    let tail_start = ["chars]\n\n", "chars]\n"]
        .iter()
        .find_map(|end| out.find(end).map(|at| at + end.len()))
        .unwrap_or(0);
    let head = same(text.bytes(), out[..head_end].bytes());
    let tail = same(text.bytes().rev(), out[tail_start..].bytes().rev());
    let splits =
        |at: usize| text.grapheme_indices(true).all(|(start, _)| start != at) && at != text.len();
    splits(head) || splits(text.len() - tail)
}

fn same(a: impl Iterator<Item = u8>, b: impl Iterator<Item = u8>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}
