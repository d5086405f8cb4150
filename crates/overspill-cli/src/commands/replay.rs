//! `overspill replay`: what a policy would have saved and kept in recorded sessions.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use overspill::window::{self, WindowOptions};
use overspill_replay::{Figures, ReadError, Reduction, Session, evaluate, files, read};
use serde::Serialize;

use super::named::Named;
use crate::cli;
use crate::failure::{Failure, NOT_DONE};
use crate::output::{self, Out, Progress};

/// One policy's row; as `--json` writes it.
#[derive(Debug, Serialize)]
struct Row {
    policy: String,
    figures: Figures,
    reduction: Reduction,
}

/// One session's rows; as `--json` writes it.
#[derive(Debug, Serialize)]
struct SessionRows {
    path: PathBuf,
    session: String,
    format: &'static str,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Replayed {
    sessions: u64,
    requests: u64,
    rows: Vec<Row>,
    by_session: Vec<SessionRows>,
    skipped: Vec<String>,
}

pub(crate) fn replay(common: &cli::Common, args: &cli::Replay) -> Result<u8, Failure> {
    let mut policies = args.policy.clone();
    if policies.first() != Some(&Named::None) {
        policies.retain(|named| *named != Named::None);
        policies.insert(0, Named::None);
    }
    let mut paths = Vec::new();
    for path in &args.paths {
        paths.extend(files(path)?);
    }
    let (sessions, skipped) = measure(&paths, &policies, args.long)?;
    for error in &skipped {
        output::warning(error);
    }
    let mut sums: Vec<Figures> = vec![Figures::default(); policies.len()];
    for (_, figures) in &sessions {
        for (sum, one) in sums.iter_mut().zip(figures) {
            *sum += *one;
        }
    }
    let rows = |figures: &[Figures]| -> Vec<Row> {
        let rows = policies.iter().zip(figures).map(|(named, one)| Row {
            policy: named.to_string(),
            figures: *one,
            reduction: one.against(&figures[0]),
        });
        rows.collect()
    };
    let replayed = Replayed {
        sessions: sums[0].sessions,
        requests: sums[0].traffic.requests,
        rows: rows(&sums),
        by_session: sessions
            .into_iter()
            .map(|((path, session, format), figures)| SessionRows {
                path,
                session,
                format,
                rows: rows(&figures),
            })
            .collect(),
        skipped: skipped.iter().map(ToString::to_string).collect(),
    };

    let mut out = Out::new();
    if common.json {
        out.json(&replayed)?;
    } else if replayed.sessions == 0 {
        out.text("no recorded session was found")?;
    } else {
        print(&mut out, &replayed, args.by_session)?;
    }
    out.flush()?;
    Ok(if replayed.sessions == 0 { NOT_DONE } else { 0 })
}

fn print(out: &mut Out, replayed: &Replayed, by_session: bool) -> Result<(), Failure> {
    out.text(&format!(
        "{} sessions, {} model requests, {} tokens sent (estimated)",
        output::grouped(replayed.sessions),
        output::grouped(replayed.requests),
        output::grouped(replayed.rows[0].figures.traffic.sent / 4)
    ))?;
    let head =
        ["POLICY", "SENT", "COST", "NET COST", "IN VIEW", "WITH LINE", "REACHABLE", "READ-BACKS"];
    let right = [1, 2, 3, 4, 5, 6, 7];
    out.text(&output::table(&head, &right, replayed.rows.iter().map(cells).collect()))?;
    if by_session {
        // Where the last policy does worst comes first.
        let mut sessions: Vec<&SessionRows> = replayed.by_session.iter().collect();
        let worst = |rows: &SessionRows| rows.rows.last().map_or(0.0, |row| row.reduction.net_cost);
        sessions.sort_by(|a, b| worst(a).total_cmp(&worst(b)));
        for session in sessions {
            out.text(&format!(
                "\n{} ({}, {} requests)",
                session.path.display(),
                session.format,
                session.rows[0].figures.traffic.requests
            ))?;
            out.text(&output::table(&head, &right, session.rows.iter().map(cells).collect()))?;
        }
    }
    out.text(
        "\nIn percent. SENT, COST and NET COST are saved against `none`; IN VIEW and after are shares of the\n\
         identifiers a response used that only an earlier tool result had shown.",
    )?;
    Ok(())
}

fn cells(row: &Row) -> Vec<String> {
    let r = &row.reduction;
    let mut cells = vec![row.policy.clone()];
    let numbers = [r.sent, r.cost, r.net_cost, r.in_view, r.with_line, r.reachable];
    cells.extend(numbers.map(|number| format!("{number:.1}")));
    cells.push(output::grouped(row.figures.read_backs));
    cells
}

/// The figures of each session under each policy, and the recordings that could not be read.
type Outcome = (Measured, Vec<ReadError>);

type Measured = Vec<((PathBuf, String, &'static str), Vec<Figures>)>;

/// Replays every session under every policy, on as many threads as there are cores. What comes
/// out is in the order of the files.
fn measure(paths: &[PathBuf], policies: &[Named], only_long: bool) -> Result<Outcome, Failure> {
    let sizes: Vec<u64> =
        paths.iter().map(|path| path.metadata().map_or(0, |meta| meta.len())).collect();
    let progress = Mutex::new((Progress::of_bytes("replaying", sizes.iter().sum()), 0));
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    let work = || -> Result<(), Failure> {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(i) else { return Ok(()) };
            let outcome = match read(path) {
                Ok(sessions) => Ok(replay_all(&sessions, policies, only_long)?),
                Err(error) => Err(error),
            };
            if let Ok(mut done) = done.lock() {
                done.insert(i, outcome);
            }
            if let Ok(mut progress) = progress.lock() {
                progress.1 += sizes[i];
                let bytes = progress.1;
                progress.0.set(bytes);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(paths.len().max(1));
    thread::scope(|scope| -> Result<(), Failure> {
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        work()?;
        for worker in workers {
            worker.join().map_err(|_| Failure::new("a session could not be replayed"))??;
        }
        Ok(())
    })?;
    let (mut measured, mut skipped) = (Vec::new(), Vec::new());
    for (_, outcome) in done.into_inner().unwrap_or_default() {
        match outcome {
            Ok(sessions) => measured.extend(sessions),
            Err(error) => skipped.push(error),
        }
    }
    Ok((measured, skipped))
}

fn replay_all(
    sessions: &[Session],
    policies: &[Named],
    only_long: bool,
) -> Result<Measured, Failure> {
    // The recordings seldom say which model it was; what nobody knows has the usual window.
    let window = window::resolve("", &WindowOptions::default());
    let mut measured = Vec::new();
    for session in sessions.iter().filter(|session| !only_long || session.is_long()) {
        let figures = policies
            .iter()
            .map(|named| Ok(evaluate(session, &mut *named.policy(&window)?)))
            .collect::<Result<Vec<_>, Failure>>()?;
        let name = (session.path.clone(), session.sub.clone(), session.format.name());
        measured.push((name, figures));
    }
    Ok(measured)
}
