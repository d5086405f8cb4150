//! `overspill replay`: what a policy would have saved and kept in recorded sessions.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use overspill::window::{self, WindowOptions};
use overspill_replay::{Figures, ReadError, Reduction, Session, evaluate, files, recording};
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
    skipped_lines: Vec<SkippedLines>,
    unanswered: Vec<PathBuf>,
}

/// Lines of a recording that are not valid JSON; as `--json` writes it.
#[derive(Debug, Serialize)]
struct SkippedLines {
    path: PathBuf,
    lines: usize,
}

pub(crate) fn replay(common: &cli::Common, args: &cli::Replay) -> Result<u8, Failure> {
    let mut policies = args.policy.clone();
    if policies.first() != Some(&Named::None) {
        policies.retain(|named| *named != Named::None);
        policies.insert(0, Named::None);
    }
    let mut paths = Vec::new();
    for path in &args.paths {
        path.metadata().map_err(|error| cannot_look_at(path, error))?;
        paths.extend(files(path)?);
    }
    let Outcome { sessions, skipped, skipped_lines, unanswered, short } =
        measure(&paths, &policies, args.long)?;
    for error in &skipped {
        output::warning(error);
    }
    for SkippedLines { path, lines } in &skipped_lines {
        let lines = match lines {
            1 => "1 line is not valid JSON and was passed over".to_owned(),
            lines => format!(
                "{} lines are not valid JSON and were passed over",
                output::grouped(*lines as u64)
            ),
        };
        output::notice(&format!("{}: {lines}", path.display()));
    }
    // What was named is answered for; of what only lies in a folder, there may be many.
    let (named, found): (Vec<_>, Vec<_>) =
        unanswered.iter().partition(|path| args.paths.contains(path));
    for path in named {
        let path = path.display();
        output::notice(&format!(
            "{path}: the model never answers in it, so there is nothing to replay"
        ));
    }
    if !found.is_empty() {
        let found = output::grouped(found.len() as u64);
        output::notice(&format!("recordings in which the model never answers: {found}"));
    }
    if short > 0 && sessions.is_empty() {
        let short = output::grouped(short);
        output::notice(&format!("sessions that are shorter than --long asks for: {short}"));
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
        skipped_lines,
        unanswered,
    };

    let mut out = Out::new();
    if common.json {
        out.json(&replayed)?;
    } else if replayed.sessions == 0 {
        out.text("no recorded session to replay was found")?;
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

fn cannot_look_at(path: &Path, error: io::Error) -> Failure {
    let path = path.display();
    if error.kind() == io::ErrorKind::NotFound {
        return Failure::new(format!("{path} does not exist"))
            .hint("name a file or folder of recordings");
    }
    Failure::from(error).context(format!("cannot read {path}"))
}

/// What came of the recordings.
#[derive(Debug, Default)]
struct Outcome {
    /// The figures of each session under each policy.
    sessions: Measured,
    /// Why recordings could not be read.
    skipped: Vec<ReadError>,
    skipped_lines: Vec<SkippedLines>,
    /// Recordings in which the model never answers.
    unanswered: Vec<PathBuf>,
    /// How many sessions were left out because only long ones were asked for.
    short: u64,
}

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
            let outcome = match recording(path) {
                Ok(recording) => {
                    let measured = replay_all(&recording.sessions, policies, only_long)?;
                    Ok((recording.skipped_lines, recording.sessions.len(), measured))
                }
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
        // Where fewer can be had, fewer will do.
        let worker = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let workers: Vec<_> = (1..threads).map_while(worker).collect();
        work()?;
        for worker in workers {
            worker.join().map_err(|_| Failure::new("a session could not be replayed"))??;
        }
        Ok(())
    })?;
    let mut all = Outcome::default();
    for (i, outcome) in done.into_inner().unwrap_or_default() {
        match outcome {
            Ok((lines, sessions, measured)) => {
                if lines > 0 {
                    all.skipped_lines.push(SkippedLines { path: paths[i].clone(), lines });
                }
                if sessions == 0 {
                    all.unanswered.push(paths[i].clone());
                }
                all.short += (sessions - measured.len()) as u64;
                all.sessions.extend(measured);
            }
            Err(error) => all.skipped.push(error),
        }
    }
    Ok(all)
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
