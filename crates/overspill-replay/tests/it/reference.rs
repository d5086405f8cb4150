//! Agreement with figures computed by another program, on published recordings that are not part
//! of this repository.

use std::collections::BTreeMap;
use std::path::Path;

use overspill_replay::{Figures, HeadTail, Keep, Mask, Session, evaluate, read};

use crate::fixture;

fn long_sessions() -> Option<Vec<Session>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/sessions");
    if !data.is_dir() {
        println!("skipped: {} is absent", data.display());
        return None;
    }
    let mut sessions = read(&data).unwrap();
    sessions.retain(Session::is_long);
    Some(sessions)
}

fn figures(session: &Session, policy: &str) -> Figures {
    match policy {
        "none" => evaluate(session, &mut Keep::default()),
        "ht2000" => evaluate(session, &mut HeadTail::over(2_000)),
        "ht5000" => evaluate(session, &mut HeadTail::over(5_000)),
        "ht10000" => evaluate(session, &mut HeadTail::over(10_000)),
        "mask10_1" => evaluate(session, &mut Mask::new(10, 1)),
        "mask10_10" => evaluate(session, &mut Mask::new(10, 10)),
        other => panic!("{other}"),
    }
}

#[test]
fn every_count_of_every_session_agrees() {
    let Some(sessions) = long_sessions() else { return };
    assert_eq!(sessions.len(), 12);
    let mut by_name = BTreeMap::new();
    for session in &sessions {
        let path = session.path.display().to_string().replace('\\', "/");
        let (_, path) = path.rsplit_once("data/sessions/").unwrap();
        by_name.insert((format!("sessions/{path}"), session.sub.clone()), session);
    }
    let table = std::fs::read_to_string(fixture("reference.tsv")).unwrap();
    for row in table.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let session = by_name[&(columns[0].to_owned(), columns[1].to_owned())];
        let expected: Vec<u64> = columns[3..].iter().map(|n| n.parse().unwrap()).collect();
        let Figures { traffic: t, net: n, evidence: e, identifiers: i, .. } =
            figures(session, columns[2]);
        let found = [
            [t.requests, t.sent, t.cached],
            [e.used, e.in_view, e.reachable],
            [i.used, i.in_view, i.reachable],
            [n.requests, n.sent, n.cached],
        ];
        assert_eq!(found.concat(), expected, "{row}");
    }
}

/// The table as it is published: percentages of all sessions together.
#[test]
fn the_reductions_agree() {
    let Some(sessions) = long_sessions() else { return };
    let sum = |policy: &str| -> Figures { sessions.iter().map(|s| figures(s, policy)).sum() };
    let none = sum("none");
    assert_eq!(
        (none.traffic.requests, none.identifiers.used, none.evidence.used),
        (1_070, 932, 2_064)
    );
    for (policy, expected) in [
        ("ht2000", "35.4 36.5 18.5 51.6 50.3 100.0"),
        ("ht5000", "28.2 29.2 16.7 70.6 69.6 100.0"),
        ("ht10000", "23.7 24.2 13.1 76.7 76.5 100.0"),
        ("mask10_1", "49.8 -14.3 -47.9 86.3 86.3 86.3"),
        ("mask10_10", "46.3 31.8 20.2 87.7 87.7 87.7"),
    ] {
        let r = sum(policy).against(&none);
        let found = [r.sent, r.cost, r.net_cost, r.in_view, r.with_line, r.reachable];
        let found = found.map(|n| format!("{n:.1}")).join(" ");
        assert_eq!(found, expected, "{policy}");
    }
}
