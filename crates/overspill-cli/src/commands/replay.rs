//! `overspill replay`: what a policy would have saved and kept in recorded sessions.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use overspill::config::Config;
use overspill::window::{self, FALLBACK_WINDOW, ModelWindow, Source, WindowOptions};
use overspill_replay::{
    Cause, Figures, Prices, ReadError, Reduction, Session, Trace, evaluate_with, files, recording,
};
use serde::{Serialize, Serializer};

use super::named::Named;
use super::report::{self, Traced};
use crate::cli;
use crate::failure::{Failure, NOT_DONE};
use crate::output::{self, Out, Progress};
use crate::settings::Settings;
use crate::target::Target;

/// What the requests are made to, in thought; as `--json` writes it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Model {
    /// Its name, where one was given.
    pub(super) name: Option<String>,
    /// The tokens that a request may have.
    pub(super) window: u64,
    /// Dollars for a million tokens of input, where they are known.
    pub(super) dollars: Option<Prices>,
}

impl Model {
    /// The model of a name, and its window; without a name, the window that a model which nobody
    /// knows is given: recordings seldom say which model it was.
    fn named(name: Option<&str>) -> Result<(Self, ModelWindow), Failure> {
        let known = window::resolve(name.unwrap_or_default(), &WindowOptions::default());
        if let Some(name) = name
            && known.source == Source::Fallback
        {
            return Err(Failure::usage(format!("nothing is known of a model {name:?}")).hint(
                format!(
                    "name another, or none: the window is then {} tokens",
                    output::grouped(FALLBACK_WINDOW)
                ),
            ));
        }
        // Where a price of the cache is not known, what it holds costs what other input costs.
        let prices = known.prices;
        let dollars = prices.input.map(|input| Prices {
            cached: prices.cache_read.unwrap_or(input),
            fresh: prices.cache_write.unwrap_or(input),
        });
        let name = name.map(str::to_owned);
        Ok((Self { name, window: known.input_budget, dollars }, known))
    }

    /// The prices that reductions are at.
    pub(super) fn prices(&self) -> Prices {
        self.dollars.unwrap_or(Prices::ANTHROPIC)
    }
}

/// What the requests of a session cost; as `--json` writes it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Dollars {
    /// As they were recorded.
    pub(super) cost: f64,
    /// With the read-backs.
    pub(super) net_cost: f64,
}

/// One policy's row; as `--json` writes it.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) policy: String,
    pub(super) figures: Figures,
    pub(super) reduction: Reduction,
    /// Recorded requests that are larger than the window.
    pub(super) over_window: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dollars: Option<Dollars>,
}

impl Row {
    fn new(named: &Named, seen: &Seen, none: &Seen, model: &Model) -> Self {
        let dollars = |prices: Prices| {
            // Prices are for a million tokens, of about four characters each.
            let cost = |characters: f64| characters / 4.0 / 1e6;
            let figures = &seen.figures;
            Dollars {
                cost: cost(figures.traffic.cost(prices)),
                net_cost: cost(figures.net.cost(prices)),
            }
        };
        Self {
            policy: named.to_string(),
            figures: seen.figures,
            reduction: seen.figures.against_at(&none.figures, model.prices()),
            over_window: seen.over_window,
            dollars: model.dollars.map(dollars),
        }
    }
}

/// One session's rows; as `--json` writes it.
#[derive(Debug, Serialize)]
pub(super) struct SessionRows {
    #[serde(serialize_with = "as_shown")]
    pub(super) path: PathBuf,
    pub(super) session: String,
    pub(super) format: &'static str,
    pub(super) rows: Vec<Row>,
    /// For each policy, where a report is asked for.
    #[serde(skip)]
    pub(super) traces: Vec<Traced>,
}

impl SessionRows {
    /// Whether the last policy left everything as it was.
    pub(super) fn is_idle(&self) -> bool {
        let traffic = |row: Option<&Row>| row.map(|row| row.figures.traffic);
        traffic(self.rows.last()) == traffic(self.rows.first())
    }

    /// What the last policy saves of the cost, read-backs paid.
    pub(super) fn saved(&self) -> f64 {
        self.rows.last().map_or(0.0, |row| row.reduction.net_cost)
    }
}

/// Everything that was measured; as `--json` writes it.
#[derive(Debug, Serialize)]
pub(super) struct Replayed {
    pub(super) model: Model,
    pub(super) sessions: u64,
    pub(super) requests: u64,
    pub(super) rows: Vec<Row>,
    pub(super) by_session: Vec<SessionRows>,
    pub(super) skipped: Vec<String>,
    pub(super) skipped_lines: Vec<SkippedLines>,
    #[serde(serialize_with = "all_as_shown")]
    pub(super) unanswered: Vec<PathBuf>,
}

impl Replayed {
    /// The sessions, where the last policy does worst first; of equal ones, the larger first. Those
    /// in which it found nothing to do come last: they are neither good nor bad.
    pub(super) fn worst_first(&self) -> Vec<&SessionRows> {
        let sent = |rows: &SessionRows| rows.rows[0].figures.traffic.sent;
        let mut sessions: Vec<&SessionRows> = self.by_session.iter().collect();
        sessions.sort_by(|a, b| {
            let idle = a.is_idle().cmp(&b.is_idle());
            idle.then(a.saved().total_cmp(&b.saved())).then(sent(b).cmp(&sent(a)))
        });
        sessions
    }

    /// The recordings that hold several sessions, whose names then tell them apart.
    pub(super) fn of_several(&self) -> HashSet<&Path> {
        let mut seen = HashSet::new();
        let again = self.by_session.iter().filter(|session| !seen.insert(&*session.path));
        again.map(|session| &*session.path).collect()
    }
}

/// Lines of a recording that are no JSON, or nested too deeply; as `--json` writes it.
#[derive(Debug, Serialize)]
pub(super) struct SkippedLines {
    #[serde(serialize_with = "as_shown")]
    pub(super) path: PathBuf,
    pub(super) lines: usize,
}

/// A path as it is printed, also where it is not UTF-8, which JSON has no room for.
fn as_shown<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

fn all_as_shown<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.display().to_string()))
}

pub(crate) fn replay(common: &cli::Common, args: &cli::Replay) -> Result<u8, Failure> {
    let mut policies = args.policy.clone();
    let mut named = Vec::new();
    policies.retain(|policy| {
        !named.contains(policy) && {
            named.push(policy.clone());
            true
        }
    });
    if policies.first() != Some(&Named::None) {
        policies.retain(|named| *named != Named::None);
        policies.insert(0, Named::None);
    }
    let (model, window) = Model::named(args.model.as_deref())?;
    // A file that is wrong is no reason not to replay what does not depend on it.
    let config = match policies.contains(&Named::Config) {
        true => Settings::of_reader(common)?.config,
        false => Config::default(),
    };
    let mut paths = Vec::new();
    for path in &args.paths {
        let there = path.metadata().map_err(|error| cannot_look_at(path, error))?;
        if !there.is_dir() && !there.is_file() {
            return Err(Failure::new(format!("{} is neither a file nor a folder", path.display()))
                .hint("write what comes out of it into a file first"));
        }
        let found = files(path)?;
        found.unreadable.iter().for_each(|error| output::warning(error));
        paths.extend(found.files);
    }
    // A recording counts once, however often it is named.
    let mut seen = HashSet::new();
    paths.retain(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
    let report = args.html.as_deref().map(|file| report_target(file, &seen)).transpose()?;
    let task = Task {
        policies: &policies,
        only_long: args.long,
        window: &window,
        config: &config,
        traced: args.html.is_some(),
    };
    let Outcome { sessions, skipped, skipped_lines, unanswered, short } = measure(&paths, &task)?;
    for error in &skipped {
        output::warning(error);
    }
    for SkippedLines { path, lines } in &skipped_lines {
        let lines = match lines {
            1 => "1 line cannot be read as JSON and was passed over".to_owned(),
            lines => format!(
                "{} lines cannot be read as JSON and were passed over",
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
    let mut sums: Vec<Seen> = policies.iter().map(|_| Seen::default()).collect();
    for session in &sessions {
        for (sum, one) in sums.iter_mut().zip(&session.seen) {
            sum.figures += one.figures;
            sum.over_window += one.over_window;
        }
    }
    let rows = |seen: &[Seen]| -> Vec<Row> {
        let rows = policies.iter().zip(seen);
        rows.map(|(named, one)| Row::new(named, one, &seen[0], &model)).collect()
    };
    let replayed = Replayed {
        sessions: sums[0].figures.sessions,
        requests: sums[0].figures.traffic.requests,
        rows: rows(&sums),
        by_session: sessions
            .into_iter()
            .map(|measured| SessionRows {
                rows: rows(&measured.seen),
                traces: measured.seen.into_iter().filter_map(|seen| seen.trace).collect(),
                path: measured.path,
                session: measured.session,
                format: measured.format,
            })
            .collect(),
        skipped: skipped.iter().map(ToString::to_string).collect(),
        skipped_lines,
        unanswered,
        model,
    };

    let mut out = Out::new();
    if common.json {
        out.json(&replayed)?;
    } else if replayed.sessions == 0 {
        output::notice(
            "no recorded session to replay was found; agents keep them in folders such as \
             ~/.claude/projects, ~/.codex/sessions or ~/.pi/agent/sessions",
        );
    } else {
        print(&mut out, &replayed, args.by_session)?;
    }
    out.flush()?;
    if let Some(target) = report.filter(|_| replayed.sessions > 0) {
        target.write(true, no_report, |write| write(report::html(&replayed).as_bytes()))?;
    }
    Ok(if replayed.sessions == 0 { NOT_DONE } else { 0 })
}

/// Where the report goes: into a new file, or in the place of an older report.
fn report_target(path: &Path, recordings: &HashSet<PathBuf>) -> Result<Target, Failure> {
    let target = Target::at(path)?;
    if let Some(file) = target.file() {
        if recordings.contains(file) {
            return Err(Failure::usage(format!("{} is a recording", path.display()))
                .hint("name another file for the report"));
        }
        let mut begins = Vec::new();
        let opened = std::fs::File::open(file);
        let read = opened.and_then(|file| file.take(64).read_to_end(&mut begins));
        if read.is_err() || !begins.is_empty() && !begins.starts_with(report::BEGINS.as_bytes()) {
            return Err(no_report(path));
        }
    }
    Ok(target)
}

fn no_report(path: &Path) -> Failure {
    Failure::usage(format!("{} exists and is no report", path.display()))
        .hint("name another file for the report")
}

fn print(out: &mut Out, replayed: &Replayed, by_session: bool) -> Result<(), Failure> {
    out.text(&format!(
        "{}, {}, {} tokens sent (estimated)",
        output::counted(replayed.sessions, "session"),
        output::counted(replayed.requests, "model request"),
        output::grouped(replayed.rows[0].figures.traffic.sent / 4)
    ))?;
    let mut head = HEAD.to_vec();
    head.extend(replayed.model.dollars.map(|_| "NET DOLLARS"));
    let right: Vec<usize> = (1..head.len()).collect();
    out.text(&output::table(&head, &right, replayed.rows.iter().map(cells).collect()))?;
    if by_session {
        let (several, mut rows) = (replayed.of_several(), Vec::new());
        for session in replayed.worst_first() {
            let mut name = session.path.display().to_string();
            if several.contains(&*session.path) {
                name.push_str(&format!(" ({})", session.session));
            }
            // Without the policy that all are compared with, unless there is no other.
            let others = session.rows.get(1..).filter(|rows| !rows.is_empty());
            for row in others.unwrap_or(&session.rows) {
                let mut row = cells(row);
                row.push(output::grouped(session.rows[0].figures.traffic.requests));
                row.push(std::mem::take(&mut name));
                rows.push(row);
            }
        }
        let mut head = head.clone();
        head.extend(["REQUESTS", "SESSION"]);
        let right: Vec<usize> = (1..head.len() - 1).collect();
        out.text(&format!("\n{}", output::table(&head, &right, rows)))?;
    }
    for row in replayed.rows.iter().filter(|row| row.figures.invalid > 0) {
        out.text(&format!(
            "\n{} requests of {} hold a call without its result, or a result without its call: \
             providers refuse them.",
            output::grouped(row.figures.invalid),
            row.policy
        ))?;
    }
    let mut note = "SENT, COST and NET COST are what is saved against `none`".to_owned();
    let name = replayed.model.name.as_deref();
    if let (Some(name), Some(_)) = (name, &replayed.model.dollars) {
        note.push_str(&format!(", at the prices of {name} for input; NET DOLLARS what is paid"));
    }
    let window = output::grouped(replayed.model.window);
    note.push_str(&format!(
        ". IN VIEW and after are shares of the identifiers a response used that only an earlier tool \
         result had shown. All these are in percent. OVER: requests over the {window} tokens that {}.",
        name.map_or("a model takes, if no --model is named".to_owned(), |it| format!("{it} takes"))
    ));
    out.text(&format!("\n{}", output::wrapped(&note)))?;
    Ok(())
}

const HEAD: [&str; 9] = [
    "POLICY",
    "SENT",
    "COST",
    "NET COST",
    "IN VIEW",
    "WITH LINE",
    "REACHABLE",
    "READ-BACKS",
    "OVER",
];

fn cells(row: &Row) -> Vec<String> {
    let r = &row.reduction;
    let mut cells = vec![row.policy.clone()];
    let numbers = [r.sent, r.cost, r.net_cost, r.in_view, r.with_line, r.reachable];
    cells.extend(numbers.map(percent));
    cells.push(output::grouped(row.figures.read_backs));
    cells.push(output::grouped(row.over_window));
    cells.extend(row.dollars.map(|dollars| self::dollars(dollars.net_cost)));
    cells
}

/// A percentage as it is shown everywhere.
pub(super) fn percent(number: f64) -> String {
    // What rounds to nothing has no sign.
    let text = format!("{number:.1}");
    if text == "-0.0" { "0.0".to_owned() } else { text }
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
    sessions: Vec<Measured>,
    /// Why recordings could not be read.
    skipped: Vec<ReadError>,
    skipped_lines: Vec<SkippedLines>,
    /// Recordings in which the model never answers.
    unanswered: Vec<PathBuf>,
    /// How many sessions were left out because only long ones were asked for.
    short: u64,
}

/// Dollars as they are shown everywhere.
pub(super) fn dollars(number: f64) -> String {
    format!("{number:.2}")
}

/// What is to be done with each session.
struct Task<'a> {
    policies: &'a [Named],
    only_long: bool,
    /// The window of the model that the requests are made to.
    window: &'a ModelWindow,
    config: &'a Config,
    /// Whether a report needs to see what happened along the way.
    traced: bool,
}

/// What one policy did to one session, or to many.
#[derive(Debug, Default)]
struct Seen {
    figures: Figures,
    over_window: u64,
    trace: Option<Traced>,
}

/// A session, and what each policy did to it.
#[derive(Debug)]
struct Measured {
    path: PathBuf,
    session: String,
    format: &'static str,
    seen: Vec<Seen>,
}

/// Replays every session under every policy, on as many threads as there are cores. What comes
/// out is in the order of the files.
fn measure(paths: &[PathBuf], task: &Task<'_>) -> Result<Outcome, Failure> {
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
                    let measured = replay_all(&recording.sessions, task)?;
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

fn replay_all(sessions: &[Session], task: &Task<'_>) -> Result<Vec<Measured>, Failure> {
    let sessions = sessions.iter().filter(|session| !task.only_long || session.is_long());
    let measured = sessions.map(|session| {
        let seen = task.policies.iter().map(|named| replay_one(session, named, task));
        Ok(Measured {
            path: session.path.clone(),
            session: session.sub.clone(),
            format: session.format.name(),
            seen: seen.collect::<Result<_, Failure>>()?,
        })
    });
    measured.collect()
}

fn replay_one(session: &Session, named: &Named, task: &Task<'_>) -> Result<Seen, Failure> {
    // A token is estimated at four characters.
    let window_chars = task.window.input_budget.saturating_mul(4);
    let mut over_window = 0;
    let mut trace = task.traced.then(Trace::default);
    let figures =
        evaluate_with(session, &mut *named.policy(task.window, task.config)?, |request| {
            let is_over = request.cause == Cause::Recorded && request.sent > window_chars;
            over_window += u64::from(is_over);
            if let Some(trace) = &mut trace {
                trace.observe(request);
            }
        });
    Ok(Seen { figures, over_window, trace: trace.map(|trace| Traced::of(&trace)) })
}
