use proptest::prelude::*;

use super::*;
use crate::entry::Note;

/// A history in a small language, one message a line: `u TEXT` and `s TEXT` speak, `a` answers
/// with calls `ID:TOOL`, `t` returns to each `ID` or `ID:TOOL` (what else it says is a text).
pub(super) fn history(lines: &str, rules: Rules) -> History<'_> {
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

#[test]
fn joined_plans_do_what_both_do() {
    let history = history("u go\na x:f\nt x\na y:f\nt y\nu on", Rules::default());
    let text = |text: &str| Words::text(text);
    let mut first = Plan::default();
    first.replace_text(EntryId(2), text("1"));
    first.replace_text(EntryId(4), text("1"));
    first.insert(MessageId(5), Note::Warning, text("w"));
    let mut second = Plan::default();
    second.drop_turn(&history.turns()[0]);
    second.replace_text(EntryId(4), text("2"));
    second.replace_text(EntryId(5), text("2"));
    let mut wanted = Plan::default();
    wanted.insert(MessageId(5), Note::Warning, text("w"));
    wanted.drop_turn(&history.turns()[0]);
    wanted.replace_text(EntryId(4), text("2"));
    wanted.replace_text(EntryId(5), text("2"));
    assert_eq!(first.and(second, &history), wanted);
}

#[test]
fn what_a_plan_leaves_can_be_looked_at() {
    let history = history("u go\na x:f\nt x text\nu on", Rules::default());
    let mut plan = Plan::default();
    plan.drop_turn(&history.turns()[0]);
    plan.drop_entry(EntryId(4));
    let left = history.after(&plan).unwrap();
    let entries: Vec<bool> = (0..6).map(|at| left.has_entry(EntryId(at))).collect();
    let messages: Vec<bool> = (0..5).map(|at| left.has_message(MessageId(at))).collect();
    assert_eq!(entries, [true, false, false, true, false, false]);
    assert_eq!(messages, [true, false, true, false, false]);
}

/// The definition of pairing, without a thought for time: the calls, return by return.
fn plain_pairing(entries: &[Entry<'_>], groups: &[Option<usize>]) -> Vec<Option<usize>> {
    let mut rows: Vec<Vec<usize>> = Vec::new();
    let mut is_open = false;
    let mut found: Vec<(usize, &str, Option<&str>, Option<usize>)> = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        match &entry.kind {
            Kind::Call { .. } => {
                match rows.last_mut() {
                    Some(row) if is_open && groups[row[0]] == groups[at] => row.push(at),
                    _ => rows.push(vec![at]),
                }
                is_open = true;
            }
            Kind::Return { id, name, .. } => {
                is_open = false;
                let name = name.as_deref();
                let exact = name.map(|name| (&**id, Some(name)));
                let loose = (!id.is_empty() || name.is_none()).then_some((&**id, None));
                let keys: Vec<_> = exact.into_iter().chain(loose).collect();
                let open = keys.iter().find_map(|&(id, name)| {
                    let calls = rows.iter().rev().flatten();
                    calls.copied().find(|&call| {
                        let Kind::Call { id: call_id, name: call_name } = &entries[call].kind
                        else {
                            return false;
                        };
                        let is_taken = found.iter().any(|&(.., taken)| taken == Some(call));
                        call_id == id && name.is_none_or(|name| call_name == name) && !is_taken
                    })
                });
                let call = open.or_else(|| {
                    keys.iter().find_map(|&(id, name)| {
                        let last = found.iter().rev().find(|(_, its_id, its_name, call)| {
                            let fits = match name {
                                Some(name) => *its_name == Some(name),
                                None => !its_id.is_empty() || its_name.is_none(),
                            };
                            *its_id == id && fits && call.is_some()
                        });
                        last.and_then(|(.., call)| *call)
                    })
                });
                found.push((at, &**id, name, call));
            }
            _ => {}
        }
    }
    found.into_iter().map(|(.., call)| call).collect()
}

proptest! {
    #[test]
    fn pairing_is_what_it_is_defined_to_be(
        messages in proptest::collection::vec(
            (0..4_usize, any::<bool>(), proptest::collection::vec((0..3_usize, 0..3_usize), 0..5)),
            0..12,
        ),
    ) {
        const IDS: [&str; 3] = ["", "a", "b"];
        const NAMES: [&str; 3] = ["f", "g", ""];
        let mut builder = History::builder(Rules::default());
        for (who, continues, parts) in &messages {
            let role = if *who < 2 { Role::Assistant } else { Role::Tool };
            builder.message(role, "");
            if *continues {
                builder.continues();
            }
            for &(id, name) in parts {
                let id = IDS[id].into();
                let kind = match (who, NAMES[name]) {
                    (0 | 1, "") => Kind::Text,
                    (0 | 1, name) => Kind::Call { id, name: name.into() },
                    (2, name) if !name.is_empty() => Kind::Return {
                        id, name: Some(name.into()), is_error: false, images: vec![],
                    },
                    _ => Kind::Return { id, name: None, is_error: false, images: vec![] },
                };
                builder.entry(Entry::new(role, kind, "".into(), ""));
            }
        }
        let history = builder.build();
        let groups = turn::response_groups(history.messages(), history.entries());
        let returns = (0..history.entries().len()).map(EntryId);
        let returns = returns.filter(|id| history.entries()[id.0].is_return());
        let found: Vec<_> = returns.map(|id| history.call_of(id).map(|call| call.0)).collect();
        prop_assert_eq!(found, plain_pairing(history.entries(), &groups));
    }
}
