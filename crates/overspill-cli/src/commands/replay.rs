//! `overspill replay`: what a policy would have saved and kept in recorded sessions.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use futures_lite::future::block_on;
use overspill::config::Preset;
use overspill::window::{self, FALLBACK_WINDOW, Source, WindowOptions};
use overspill::{Action, Band, Spill, ToolCall, ToolOutputLimits, Truncate, Unit};
use overspill_replay::{
    Cause, Figures, HeadTail, Item, Keep, PerResult, Policy, Prices, ReadError, Reduced, Reduction,
    Session, Trace, evaluate_with, files, read,
};
use overspill_store::MemoryStore;
use serde::Serialize;

use super::report::{self, Traced};
use crate::cli;
use crate::failure::{Failure, NOT_DONE};
use crate::output::{self, Out, Progress};

/// Characters that a marker takes above an excerpt, at most, with the short handles given here.
const MARKER_CHARS: usize = 200;

/// A policy by its name on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// Everything is sent as it was.
    None,
    /// Head and tail of every result over so many characters.
    HeadTail(usize),
    /// What a preset does to every result.
    Preset(Preset),
    /// Both paths, with a high and a low mark in tokens.
    Both(u64, u64),
    /// Spills results from so many characters on, to so many with the marker.
    Spill(u64, usize),
}

impl FromStr for Named {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let numbers = |text: &str| -> Option<Vec<usize>> {
            text.split('-').map(|number| number.parse().ok()).collect()
        };
        if name == "none" {
            return Ok(Self::None);
        }
        if let Some([over]) = name.strip_prefix("headtail-").and_then(numbers).as_deref() {
            return Ok(Self::HeadTail(*over));
        }
        if let Some([high, low]) = name.strip_prefix("both-").and_then(numbers).as_deref() {
            return Ok(Self::Both(*high as u64, *low as u64));
        }
        if let Some([over, view]) = name.strip_prefix("spill-").and_then(numbers).as_deref()
            && *view > MARKER_CHARS
        {
            return Ok(Self::Spill(*over as u64, *view));
        }
        name.parse().map(Self::Preset).map_err(|_| {
            "it must be none, default, lean, headtail-N (over N characters, 500 of each end) or \
             spill-N-M (from N characters on, M stay with the marker; M over 200)"
                .to_owned()
        })
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::HeadTail(over) => write!(f, "headtail-{over}"),
            Self::Preset(preset) => f.write_str(preset.name()),
            Self::Both(high, low) => write!(f, "both-{high}-{low}"),
            Self::Spill(over, view) => write!(f, "spill-{over}-{view}"),
        }
    }
}

impl Named {
    fn policy(&self) -> Result<Box<dyn Policy>, Failure> {
        let bands: Vec<Band> = match self {
            Self::None => return Ok(Box::new(Keep::default())),
            Self::HeadTail(over) => return Ok(Box::new(HeadTail::over(*over))),
            Self::Preset(preset) => preset.bands(&Unit::Characters).iter().cloned().collect(),
            Self::Both(high, low) => {
                let store: std::sync::Arc<dyn overspill::Store> =
                    std::sync::Arc::new(MemoryStore::new());
                let bands = Preset::Lean.bands(&Unit::Characters);
                let limits = ToolOutputLimits::builder()
                    .store(std::sync::Arc::clone(&store))
                    .bands(bands.iter().cloned())
                    .build()?;
                use overspill::strategy::*;
                let tiers: Vec<std::sync::Arc<dyn Strategy>> = vec![
                    std::sync::Arc::new(StoreArguments {
                        over_chars: 2_000,
                        ..StoreArguments::default()
                    }),
                    {
                        let num = |k: &str, d: f64| std::env::var(k).ok().and_then(|v| v.parse().ok()).unwrap_or(d);
                        let clear: std::sync::Arc<dyn Strategy> = std::sync::Arc::new(ClearToolResults { clear_inputs: true, keep_read_backs: num("KRB", 10.0) as usize, keep_pairs: num("KP", 3.0) as usize, min_clear_tokens: num("MINC", 0.0) as u64, until: Some(Limit::Tokens(*low)), ..ClearToolResults::default() });
                        let gate: std::sync::Arc<dyn Strategy> = if num("GATE", 0.0) > 0.0 { std::sync::Arc::new(CostGate { strategy: clear, rates: CacheRates::default(), horizon: num("GATE", 10.0) as u32, forced_above: Limit::Tokens(num("FORCE", 1e9) as u64) }) } else { clear };
                        std::sync::Arc::new(Triggered { when: Trigger::tokens(Limit::Tokens(*high)), strategy: gate })
                    },
                ];
                let strategy = std::sync::Arc::new(Tiered { tiers, target: Limit::Tokens(0) });
                let fitter = overspill::fit::Fitter::new(strategy, store, 200_000);
                return Ok(Box::new(super::refit::Refit::new(Some(limits), fitter)));
            }
            Self::Spill(over, view) => {
                let spill = Spill { preview_chars: view - MARKER_CHARS };
                vec![Band::new(*over, Action::from(spill).or(Truncate::default()))]
            }
        };
        let store = std::sync::Arc::new(MemoryStore::new());
        let limits = ToolOutputLimits::builder().store(store).bands(bands).build()?;
        Ok(Box::new(PerResult::new(move |item: &Item| reduced(&limits, item))))
    }
}

/// What the product makes of one recorded result.
pub(super) fn reduced(limits: &ToolOutputLimits, item: &Item) -> Option<Reduced> {
    let call = ToolCall::new("replay", format!("r{}", item.id.0), &*item.tool);
    let admitted = block_on(limits.admit(&call, &*item.text));
    let reduction = admitted.reductions.first()?;
    let handle = reduction.receipt.is_some();
    Some(Reduced { text: admitted.output.text()?.into(), handle })
}

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
    fn named(name: Option<&str>) -> Result<Self, Failure> {
        let Some(name) = name else {
            return Ok(Self { name: None, window: FALLBACK_WINDOW, dollars: None });
        };
        let known = window::resolve(name, &WindowOptions::default());
        if known.source == Source::Fallback {
            return Err(Failure::usage(format!("nothing is known of a model {name:?}")).hint(
                format!("name another, or none: the window is then {FALLBACK_WINDOW} tokens"),
            ));
        }
        // Where a price of the cache is not known, what it holds costs what other input costs.
        let prices = known.prices;
        let dollars = prices.input.map(|input| Prices {
            cached: prices.cache_read.unwrap_or(input),
            fresh: prices.cache_write.unwrap_or(input),
        });
        Ok(Self { name: Some(name.to_owned()), window: known.input_budget, dollars })
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
    pub(super) path: PathBuf,
    pub(super) session: String,
    pub(super) format: &'static str,
    pub(super) rows: Vec<Row>,
    /// For each policy, where a report is asked for.
    #[serde(skip)]
    pub(super) traces: Vec<Traced>,
}

impl SessionRows {
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
}

impl Replayed {
    /// The sessions, where the last policy does worst first; of equal ones, the larger first.
    pub(super) fn worst_first(&self) -> Vec<&SessionRows> {
        let sent = |rows: &SessionRows| rows.rows[0].figures.traffic.sent;
        let mut sessions: Vec<&SessionRows> = self.by_session.iter().collect();
        sessions.sort_by(|a, b| a.saved().total_cmp(&b.saved()).then(sent(b).cmp(&sent(a))));
        sessions
    }
}

pub(crate) fn replay(common: &cli::Common, args: &cli::Replay) -> Result<u8, Failure> {
    let mut policies = args.policy.clone();
    if policies.first() != Some(&Named::None) {
        policies.retain(|named| *named != Named::None);
        policies.insert(0, Named::None);
    }
    let model = Model::named(args.model.as_deref())?;
    let mut paths = Vec::new();
    for path in &args.paths {
        paths.extend(files(path)?);
    }
    let task = Task {
        policies: &policies,
        only_long: args.long,
        window_chars: model.window.saturating_mul(4),
        traced: args.html.is_some(),
    };
    let (sessions, skipped) = measure(&paths, &task)?;
    for error in &skipped {
        output::warning(error);
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
        model,
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
    if let Some(file) = args.html.as_ref().filter(|_| replayed.sessions > 0) {
        std::fs::write(file, report::html(&replayed)).map_err(|error| {
            Failure::from(error).context(format!("{} cannot be written", file.display()))
        })?;
    }
    Ok(if replayed.sessions == 0 { NOT_DONE } else { 0 })
}

fn print(out: &mut Out, replayed: &Replayed, by_session: bool) -> Result<(), Failure> {
    out.text(&format!(
        "{} sessions, {} model requests, {} tokens sent (estimated)",
        output::grouped(replayed.sessions),
        output::grouped(replayed.requests),
        output::grouped(replayed.rows[0].figures.traffic.sent / 4)
    ))?;
    let mut head = HEAD.to_vec();
    head.extend(replayed.model.dollars.map(|_| "NET DOLLARS"));
    let right: Vec<usize> = (1..head.len()).collect();
    out.text(&output::table(&head, &right, replayed.rows.iter().map(cells).collect()))?;
    if by_session {
        for session in replayed.worst_first() {
            out.text(&format!(
                "\n{} ({}, {} requests)",
                session.path.display(),
                session.format,
                session.rows[0].figures.traffic.requests
            ))?;
            out.text(&output::table(&head, &right, session.rows.iter().map(cells).collect()))?;
        }
    }
    for row in replayed.rows.iter().filter(|row| row.figures.invalid > 0) {
        out.text(&format!(
            "\n{} requests of {} hold a call without its result, or a result without its call: \
             providers refuse them.",
            output::grouped(row.figures.invalid),
            row.policy
        ))?;
    }
    let (whose, costs) = match &replayed.model.name {
        Some(name) => (format!("{name} takes"), format!(" at the prices of {name} for input")),
        None => ("a model takes, if no --model is named".to_owned(), String::new()),
    };
    out.text(&format!(
        "\nIn percent. SENT, COST and NET COST are saved against `none`{}; IN VIEW and after are shares of the\n\
         identifiers a response used that only an earlier tool result had shown. OVER: requests over the\n\
         {} tokens that {whose}.",
        replayed.model.dollars.map_or("", |_| &costs),
        output::grouped(replayed.model.window),
    ))?;
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

/// Dollars as they are shown everywhere.
pub(super) fn dollars(number: f64) -> String {
    format!("{number:.2}")
}

/// What is to be done with each session.
struct Task<'a> {
    policies: &'a [Named],
    only_long: bool,
    /// Characters that a request may have.
    window_chars: u64,
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
struct Measured {
    path: PathBuf,
    session: String,
    format: &'static str,
    seen: Vec<Seen>,
}

/// The figures of each session under each policy, and the recordings that could not be read.
type Outcome = (Vec<Measured>, Vec<ReadError>);

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
            let outcome = match read(path) {
                Ok(sessions) => Ok(replay_all(&sessions, task)?),
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
    let mut over_window = 0;
    let mut trace = task.traced.then(Trace::default);
    let figures = evaluate_with(session, &mut *named.policy()?, |request| {
        let is_over = request.cause == Cause::Recorded && request.sent > task.window_chars;
        over_window += u64::from(is_over);
        if let Some(trace) = &mut trace {
            trace.observe(request);
        }
    });
    Ok(Seen { figures, over_window, trace: trace.map(|trace| Traced::of(&trace)) })
}
