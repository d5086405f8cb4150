//! What policies do to sessions that are small enough to count by hand.

use overspill_replay::{HeadTail, Item, Keep, Mask, PerResult, Prices, Reduced, evaluate};

use crate::sessions;

#[test]
fn keeping_everything_keeps_everything() {
    let session = &sessions("claude_code.jsonl")[0];
    let figures = evaluate(session, &mut Keep::default());
    // 24 characters are asked; the second request adds a response of 7 + 31 + 19 and 38 + 6 of
    // results; the third starts anew after the compaction.
    assert_eq!(figures.traffic.requests, 3);
    let first = 24;
    let second = first + 7 + 31 + 19 + 36 + 6;
    let third = 19 + 6;
    assert_eq!(figures.traffic.sent, first + second + third);
    assert_eq!(figures.traffic.cached, first);
    assert_eq!(figures.traffic.peak, second);
    assert_eq!(figures.net, figures.traffic);
    assert_eq!((figures.identifiers.used, figures.identifiers.with_line), (2, 2));
    assert_eq!(figures.invalid, 0);
}

#[test]
fn a_closure_reduces_results_and_what_it_hides_is_read_back() {
    let session = &sessions("claude_code.jsonl")[0];
    let reduce = |handle: bool| {
        move |item: &Item| {
            let text = "listen_north …".to_owned();
            (item.chars > 30).then_some(Reduced { text, handle })
        }
    };
    let figures = evaluate(session, &mut PerResult::new(reduce(true)));
    let recall = figures.identifiers;
    assert_eq!((recall.used, recall.in_view, recall.with_line, recall.reachable), (2, 1, 0, 2));
    assert_eq!((figures.read_backs, figures.read_back_chars), (1, 36));
    assert_eq!(figures.net.requests, figures.traffic.requests + 1);
    let lost = evaluate(session, &mut PerResult::new(reduce(false)));
    assert_eq!(lost.identifiers.reachable, 1);
}

#[test]
fn head_and_tail_leave_short_results_alone() {
    let session = &sessions("claude_code.jsonl")[0];
    let none = evaluate(session, &mut Keep::default());
    assert_eq!(evaluate(session, &mut HeadTail::over(2_000)), none);
    let cut = evaluate(session, &mut HeadTail::new(20, 5, 5));
    assert_eq!(cut.identifiers.in_view, 0);
    assert_eq!(cut.identifiers.reachable, 2);
}

#[test]
fn an_edit_of_the_prefix_breaks_the_cache() {
    let session = &sessions("openhands.jsonl")[0];
    let mut mask = Mask::new(0, 1);
    let figures = evaluate(session, &mut mask);
    // Its only result is shorter than the line that would replace it.
    assert_eq!(figures.traffic.broken, 0);
    assert!(figures.traffic.cost(Prices::ANTHROPIC) > 0.0);
}
