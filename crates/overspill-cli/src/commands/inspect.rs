//! `overspill inspect`: what a conversation's tokens are spent on.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use overspill::Marker;
use overspill::entry::{EntryId, Kind, Role};
use overspill::history::History;
use serde::Serialize;

use super::conversation;
use crate::cli;
use crate::failure::Failure;
use crate::output::{self, Out, counted, grouped};

/// How much of a part's text a table shows, in characters.
const SHOWN_CHARS: usize = 40;

#[derive(Debug, Serialize)]
struct Report {
    format: &'static str,
    tokens: u64,
    /// Whether the provider's own report stands for a part of it.
    anchored: bool,
    instructions_and_tools: u64,
    messages: usize,
    turns: usize,
    faults: Vec<String>,
    by_kind: Vec<Sum>,
    entries: Vec<Row>,
}

/// What all parts of a kind, and of a tool, come to.
#[derive(Debug, Serialize)]
struct Sum {
    kind: &'static str,
    tool: Option<String>,
    parts: u64,
    tokens: u64,
}

impl Sum {
    /// The largest first.
    fn of(rows: &[Row]) -> Vec<Self> {
        let mut sums: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for row in rows {
            let sum = sums.entry((row.kind, row.tool.clone())).or_default();
            *sum = (sum.0 + 1, sum.1 + row.tokens);
        }
        let sum = |((kind, tool), (parts, tokens))| Self { kind, tool, parts, tokens };
        let mut sums: Vec<Self> = sums.into_iter().map(sum).collect();
        sums.sort_by_key(|sum| Reverse(sum.tokens));
        sums
    }
}

#[derive(Debug, Serialize)]
struct Row {
    message: usize,
    role: &'static str,
    kind: &'static str,
    tool: Option<String>,
    tokens: u64,
    handles: Vec<String>,
    starts: String,
}

pub(crate) fn inspect(common: &cli::Common, args: &cli::Inspect) -> Result<u8, Failure> {
    let conversation = conversation::read(args.file.as_ref(), args.format)?;
    let history = conversation.history();
    let model = history.preamble().model.as_deref().unwrap_or_default();
    let count = conversation::counter(&conversation, model).count(&history);
    let mut entries: Vec<Row> = (0..history.entries().len())
        .map(|at| row(&history, EntryId(at), count.entry(EntryId(at)).tokens()))
        .collect();
    if !args.in_order {
        entries.sort_by_key(|row| Reverse(row.tokens));
    }
    let report = Report {
        format: conversation.format().name(),
        tokens: count.tokens(),
        anchored: count.is_anchored(),
        instructions_and_tools: count.preamble().tokens(),
        messages: history.messages().len(),
        turns: history.turns().len(),
        faults: history.faults().iter().map(ToString::to_string).collect(),
        by_kind: Sum::of(&entries),
        entries,
    };
    let mut out = Out::new();
    if common.json {
        out.json(&report)?;
        return Ok(out.flush().map(|()| 0)?);
    }
    let source = if report.anchored { "reported and estimated" } else { "estimated" };
    out.text(&format!(
        "{} of format {}, {}, {} tokens ({source}), {} of them instructions and tools\n\n",
        counted(report.messages as u64, "message"),
        report.format,
        counted(report.turns as u64, "turn"),
        grouped(report.tokens),
        grouped(report.instructions_and_tools),
    ))?;
    let share = |tokens: u64| format!("{:.1}", tokens as f64 * 100.0 / report.tokens.max(1) as f64);
    let sums = report.by_kind.iter().map(|sum| {
        let tool = sum.tool.clone().unwrap_or_default();
        vec![sum.kind.into(), tool, grouped(sum.parts), grouped(sum.tokens), share(sum.tokens)]
    });
    let head = ["KIND", "TOOL", "PARTS", "TOKENS", "PERCENT"];
    out.text(&output::table(&head, &[2, 3, 4], sums.collect()))?;
    out.text("\n")?;
    let count = report.entries.len();
    let shown = if args.limit == 0 { count } else { args.limit.min(count) };
    let rows = report.entries[..shown].iter().map(|row| {
        vec![
            row.message.to_string(),
            row.role.to_owned(),
            row.kind.to_owned(),
            row.tool.clone().unwrap_or_default(),
            grouped(row.tokens),
            row.handles.first().unwrap_or(&row.starts).clone(),
        ]
    });
    let head = ["MESSAGE", "ROLE", "KIND", "TOOL", "TOKENS", "HANDLE OR TEXT"];
    out.text(&output::table(&head, &[0, 4], rows.collect()))?;
    if shown < count {
        let more = counted((count - shown) as u64, "more part");
        out.text(&format!("\n{more}; --limit 0 shows all\n"))?;
    }
    for fault in &report.faults {
        out.text(&format!("fault: {fault}\n"))?;
    }
    Ok(out.flush().map(|()| 0)?)
}

fn row(history: &History<'_>, id: EntryId, tokens: u64) -> Row {
    let entry = &history.entries()[id.0];
    let shown = entry.text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let starts: String = shown.take(SHOWN_CHARS).collect();
    Row {
        message: entry.message.0,
        role: role(entry.role),
        kind: kind(&entry.kind),
        tool: history.tool_of(id).map(str::to_owned),
        tokens,
        handles: Marker::handles(&entry.text).map(|handle| handle.to_string()).collect(),
        starts,
    }
}

pub(super) fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

pub(super) fn kind(kind: &Kind<'_>) -> &'static str {
    match kind {
        Kind::Text => "text",
        Kind::Thinking => "thinking",
        Kind::Call { .. } => "call",
        Kind::Return { .. } => "return",
        Kind::Image(_) => "image",
        Kind::ServerCall { .. } => "server call",
        Kind::ServerReturn { .. } => "server return",
        Kind::Refusal => "refusal",
        Kind::Boundary => "compaction",
        _ => "other",
    }
}
