use super::*;
use crate::entry::Note;

/// A history in a small language, one message a line: `u TEXT` and `s TEXT` speak, `a` answers
/// with calls `ID:TOOL`, `t` returns to each `ID` or `ID:TOOL` (what else it says is a text).
fn history(lines: &str, rules: Rules) -> History<'_> {
    let mut builder = History::builder(rules);
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (who, rest) = line.split_once(' ').unwrap_or((line, ""));
        let role = match who {
            "s" => Role::System,
            "u" => Role::User,
            "a" => Role::Assistant,
            _ => Role::Tool,
        };
        builder.message(role, line);
        for word in rest.split(' ').filter(|word| !word.is_empty()) {
            let (id, name) = word.split_once(':').map_or((word, None), |(i, n)| (i, Some(n)));
            let kind = match (role, name) {
                (Role::Assistant, Some(name)) => Kind::Call { id: id.into(), name: name.into() },
                (Role::Tool, name) if word != "text" => Kind::Return {
                    id: id.into(),
                    name: name.map(Into::into),
                    is_error: false,
                    images: vec![],
                },
                _ => Kind::Text,
            };
            builder.entry(Entry::new(role, kind, word.into(), word));
        }
    }
    builder.build()
}

/// The calls that the returns answer, in the returns' order.
#[track_caller]
fn pairs(lines: &str, wanted: &[(usize, Option<usize>)]) {
    let history = history(lines, Rules::default());
    let found: Vec<_> = (0..history.entries().len())
        .filter(|&at| history.entries()[at].is_return())
        .map(|at| (at, history.call_of(EntryId(at)).map(|call| call.0)))
        .collect();
    assert_eq!(found, wanted);
}

#[test]
fn a_reused_id_is_the_nearest_open_call() {
    pairs(
        "u go\na call_0:f\nt call_0\na call_0:f\nt call_0\na call_0:f\nt call_0",
        &[(2, Some(1)), (4, Some(3)), (6, Some(5))],
    );
}

#[test]
fn ids_repeated_in_one_response_are_answered_in_order_or_by_name() {
    pairs("u go\na x:f x:g\nt x\nt x", &[(3, Some(1)), (4, Some(2))]);
    pairs("u go\na x:f x:g\nt x:g\nt x:f", &[(3, Some(2)), (4, Some(1))]);
}

#[test]
fn empty_ids_follow_names_and_order() {
    pairs("u go\na :f :g\nt :g\nt :f", &[(3, Some(2)), (4, Some(1))]);
    pairs("u go\na :f\nt :other", &[(2, None)]);
}

#[test]
fn a_return_far_behind_its_call_is_part_of_its_turn() {
    let lines = "u go\na x:f\nu 1\na y:f\nt y\nu 2\nu 3\nu 4\nu 5\nt x";
    let history = history(lines, Rules::default());
    let turn = &history.turns()[0];
    assert_eq!((turn.response.as_slice(), turn.returns.len()), ([MessageId(1)].as_slice(), 1));
    let mut plan = Plan::default();
    plan.drop_message(MessageId(1));
    assert_eq!(history.check(&plan), Err(Refusal::SplitTurn { turn: TurnId(0) }));
    plan.drop_message(MessageId(9));
    assert_eq!(history.check(&plan), Ok(()));
}

#[test]
fn a_second_return_leaves_with_its_call() {
    let history = history("u go\na x:f\nt x\nt x\nu on", Rules::default());
    assert_eq!(history.turns()[0].returns.len(), 2);
    assert_eq!(history.orphans().count(), 0);
}

#[test]
fn orphans_are_told_and_can_leave() {
    let history = history("u go\nt gone\na x:f\nu on", Rules::default());
    assert_eq!(history.orphans().collect::<Vec<_>>(), [EntryId(1)]);
    assert_eq!(
        history.faults(),
        [Fault::OrphanReturn(EntryId(1)), Fault::UnansweredCall(EntryId(2))]
    );
    let mut plan = Plan::default();
    plan.drop_entry(EntryId(1));
    assert_eq!(history.check(&plan), Ok(()));
}

#[test]
fn what_stands_beside_a_return_does_not_leave_with_its_turn() {
    let history = history("u go\na x:f\nt x text\na y:f\nt y", Rules::default());
    let mut plan = Plan::default();
    plan.drop_turn(&history.turns()[0]);
    assert_eq!(history.check(&plan), Ok(()));
    assert_eq!(history.turn_of(EntryId(3)), None);
}

#[test]
fn a_note_does_not_stand_inside_a_turn() {
    let history = history("u go\na x:f\nt x\nu on", Rules::default());
    let note = |before| {
        let mut plan = Plan::default();
        plan.insert(MessageId(before), Note::Warning, Words::text("w"));
        history.check(&plan)
    };
    assert_eq!(note(2), Err(Refusal::InsideTurn { turn: TurnId(0) }));
    for before in [0, 1, 3, 4] {
        assert_eq!(note(before), Ok(()), "{before}");
    }
    assert_eq!(note(5), Err(Refusal::NoMessage { message: MessageId(5) }));
}

#[test]
fn a_return_has_its_place() {
    let place = |returns, lines| history(lines, Rules { returns, ..Rules::default() }).faults();
    let late = "u go\na x:f\nu text\nt x";
    let misplaced = vec![Fault::MisplacedReturn(EntryId(3))];
    assert_eq!(place(ReturnPlace::Anywhere, late), []);
    assert_eq!(place(ReturnPlace::Next, late), misplaced);
    let behind = "u go\na x:f\nt text x";
    assert_eq!(place(ReturnPlace::Next, behind), []);
    assert_eq!(place(ReturnPlace::NextAndFirst, behind), misplaced);
}

#[test]
fn an_end_that_waits_is_no_fault() {
    assert_eq!(history("u go\na x:f y:f\nt y", Rules::default()).faults(), []);
    assert_eq!(history("u go\na done", Rules::default()).faults(), [Fault::EndsWithResponse]);
    assert_eq!(history("s be", Rules::default()).faults(), [Fault::Empty]);
}
