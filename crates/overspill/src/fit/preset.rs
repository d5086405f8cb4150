//! What the presets do to a history.

use std::sync::Arc;

use crate::config::Preset;
use crate::strategy::{
    CacheRates, ClearToolResults, CostGate, DeduplicateFileReads, HORIZON, Keep, Limit,
    SlidingWindow, StoreArguments, Strategy, Tiered, Trigger, Triggered,
};

/// What the lean preset lets a request grow to. On recorded sessions of coding agents most of what
/// is needed again was seen within the last few thousand tokens; what is older is one read away,
/// and costs less there than in every request.
const LEAN_TOKENS: u64 = 20_000;

/// From here on it makes room where that pays, and this is what it leaves.
const LEAN_PAYS_FROM: u64 = LEAN_TOKENS * 6 / 10;
const LEAN_LEAVES: u64 = LEAN_TOKENS * 4 / 10;

/// What is not worth breaking a cache for, even where the request is large.
const LEAN_MIN_TOKENS: u64 = LEAN_TOKENS / 10;

/// Arguments that the lean preset stores at once: as long as five stubs.
const LEAN_ARGUMENT_CHARS: u64 = 1_000;

/// Above this part of the window something has to leave, and this much is left.
const FULL: f64 = 0.8;
const ROOM: f64 = 0.5;

/// The second path of a preset, for a model whose cache has these rates.
///
/// Both keep a request inside the model's window: above 80 % of it, outdated file reads, long
/// arguments and old results become markers, and only then the oldest turns leave, until half of
/// the window is free. `default` does nothing before. `lean` stores long arguments as soon as their
/// call is answered, and keeps a request near 20,000 tokens by turning the oldest results and their
/// arguments into markers, where that pays: from 12,000 on within ten requests, above 20,000 within
/// as many as there were.
pub(super) fn strategy(preset: Preset, rates: CacheRates) -> Arc<dyn Strategy> {
    match preset {
        Preset::Default => inside_the_window(),
        Preset::Lean => all([
            Arc::new(StoreArguments {
                over_chars: LEAN_ARGUMENT_CHARS,
                ..StoreArguments::default()
            }),
            Arc::new(Triggered {
                when: Trigger::tokens(Limit::Tokens(LEAN_PAYS_FROM)),
                strategy: Arc::new(CostGate {
                    strategy: Arc::new(ClearToolResults {
                        clear_inputs: true,
                        min_clear_tokens: LEAN_MIN_TOKENS,
                        until: Some(Limit::Tokens(LEAN_LEAVES)),
                        ..ClearToolResults::default()
                    }),
                    rates,
                    horizon: HORIZON,
                    patient_above: Limit::Tokens(LEAN_TOKENS),
                    forced_above: Limit::Fraction(FULL),
                }),
            }),
            inside_the_window(),
        ]),
    }
}

fn inside_the_window() -> Arc<dyn Strategy> {
    let room = Limit::Fraction(ROOM);
    Arc::new(Triggered {
        when: Trigger::tokens(Limit::Fraction(FULL)),
        strategy: Arc::new(Tiered {
            tiers: vec![
                Arc::new(DeduplicateFileReads::default()),
                Arc::new(StoreArguments::default()),
                Arc::new(ClearToolResults { until: Some(room), ..ClearToolResults::default() }),
                Arc::new(SlidingWindow {
                    keep: Keep::Messages(1),
                    until: Some(room),
                    ..SlidingWindow::default()
                }),
            ],
            target: room,
        }),
    })
}

/// One after the other, whatever the size.
fn all<const N: usize>(tiers: [Arc<dyn Strategy>; N]) -> Arc<dyn Strategy> {
    Arc::new(Tiered { tiers: tiers.into(), target: Limit::Tokens(0) })
}
