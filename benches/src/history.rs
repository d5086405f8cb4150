//! What the second path costs before anything is stored: counting a long history and planning.

use std::sync::Arc;

use anyhow::{Result, ensure};
use futures_lite::future::block_on;
use overspill::count::Counter;
use overspill::entry::{Entry, Kind, Role};
use overspill::fit::{Fitter, Occasion};
use overspill::history::{History, Rules};
use overspill::strategy::{Keep, SlidingWindow};
use overspill_store::MemoryStore;

use crate::Scale;
use crate::rounds::{medians, time};
use crate::row::{MS, Row, ms};

/// Messages of the history, and characters of each.
const MESSAGES: usize = 20_000;
const CHARS: usize = 500;

/// Tokens that a window keeps of them: a fifth.
const KEPT_TOKENS: u64 = (MESSAGES * CHARS) as u64 / 4 / 5;

pub(crate) fn rows(scale: Scale) -> Result<[Row; 3]> {
    let text = "a few words of a message ".repeat(CHARS / 25);
    ensure!(text.len() == CHARS, "{}", text.len());
    let whole = history(&text, MESSAGES);
    let half = history(&text, MESSAGES / 2);
    let counter = Counter::default();
    let strategy = SlidingWindow::new(Keep::Tokens(KEPT_TOKENS));
    let fitter = Fitter::new(Arc::new(strategy), Arc::new(MemoryStore::new()), 200_000);
    let plan = |history: &History<'_>| -> Result<_> {
        let mut edits = 0;
        let took = time(|| {
            let plan = block_on(fitter.plan(history, &Occasion::default()));
            edits = plan.map_or(0, |plan| plan.edits().len());
        });
        ensure!(edits > MESSAGES / 4, "{edits} edits");
        Ok(took)
    };
    let [count, slide, slide_half] = medians(
        scale.short_rounds,
        [&mut || Ok(time(|| counter.count(&whole).tokens())), &mut || plan(&whole), &mut || {
            plan(&half)
        }],
    )?;
    let size = format!("{MESSAGES} messages of {CHARS} characters");
    Ok([
        Row::below(format!("token estimate of {size}"), ms(count), MS, 97.0 / 20.0)
            .with_incumbent("estimate"),
        Row::below(format!("sliding window by tokens over {size}, planned"), ms(slide), MS, 10.0)
            .with_incumbent("slide"),
        Row::below(
            format!("the same, times that of {} messages", MESSAGES / 2),
            slide.as_secs_f64() / slide_half.as_secs_f64(),
            "",
            3.0,
        ),
    ])
}

/// A conversation of calls and returns that ends with words of the user.
fn history(text: &str, messages: usize) -> History<'_> {
    let mut builder = History::builder(Rules::default());
    for at in 0..messages {
        let (role, kind) = match (at % 2, at == 0 || at + 1 == messages) {
            (_, true) => (Role::User, Kind::Text),
            (1, _) => {
                (Role::Assistant, Kind::Call { id: "call_0".into(), name: "read_file".into() })
            }
            _ => {
                let (id, name) = ("call_0".into(), None);
                (Role::Tool, Kind::Return { id, name, is_error: false, images: Vec::new() })
            }
        };
        builder.message(role, text);
        builder.entry(Entry::new(role, kind, text.into(), text));
    }
    builder.build()
}
