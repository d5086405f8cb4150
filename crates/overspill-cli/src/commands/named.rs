//! The policies that `overspill replay` compares, by their names on the command line.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use futures_lite::future::block_on;
use overspill::config::{Config, Preset};
use overspill::fit::Fitter;
use overspill::strategy::{
    ClearToolResults, Keep, Limit, SlidingWindow, Strategy, Tiered, Trigger, Triggered,
};
use overspill::window::ModelWindow;
use overspill::{Action, Band, Spill, Store, ToolCall, ToolOutputLimits, Truncate, Unit};
use overspill_replay::{HeadTail, Item, PerResult, Policy, Reduced};
use overspill_store::MemoryStore;

use super::refit::Refit;
use crate::failure::Failure;

/// Characters that a marker takes above an excerpt, at most, with the short handles given here.
const MARKER_CHARS: usize = 200;

/// Above this size of a request the strategies that stand alone run, in tokens: half of the
/// smallest windows that coding agents are given.
const ABOVE_TOKENS: u64 = 50_000;

/// A policy by its name on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// Everything is sent as it was.
    None,
    /// Head and tail of every result over so many characters.
    HeadTail(usize),
    /// Spills results from so many characters on, to so many with the marker.
    Spill(u64, usize),
    /// The newest 40 messages and the first of the user.
    Sliding,
    /// The newest three results.
    Clear,
    /// First the one, then 20 messages.
    Tiered,
    /// What a preset does, to every result and to the history.
    Preset(Preset),
    /// What the configuration does.
    Config,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let numbers = |text: &str| -> Option<Vec<usize>> {
            text.split('-').map(|number| number.parse().ok()).collect()
        };
        match name {
            "none" => return Ok(Self::None),
            "sliding" => return Ok(Self::Sliding),
            "clear" => return Ok(Self::Clear),
            "tiered" => return Ok(Self::Tiered),
            "config" => return Ok(Self::Config),
            _ => {}
        }
        if let Some([over]) = name.strip_prefix("headtail-").and_then(numbers).as_deref() {
            return Ok(Self::HeadTail(*over));
        }
        if let Some([over, view]) = name.strip_prefix("spill-").and_then(numbers).as_deref()
            && *view > MARKER_CHARS
        {
            return Ok(Self::Spill(*over as u64, *view));
        }
        name.parse().map(Self::Preset).map_err(|_| {
            "it must be none, default, lean, config (what the configuration says), headtail-N (over N characters, 500 of each end), \
             spill-N-M (from N characters on, M stay with the marker; M over 200), sliding, clear or \
             tiered (above 50,000 tokens)"
                .to_owned()
        })
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::HeadTail(over) => write!(f, "headtail-{over}"),
            Self::Spill(over, view) => write!(f, "spill-{over}-{view}"),
            Self::Sliding => f.write_str("sliding"),
            Self::Clear => f.write_str("clear"),
            Self::Tiered => f.write_str("tiered"),
            Self::Preset(preset) => f.write_str(preset.name()),
            Self::Config => f.write_str("config"),
        }
    }
}

impl Named {
    /// What it does to a session, for a model with this window.
    pub(super) fn policy(
        &self,
        window: &ModelWindow,
        config: &Config,
    ) -> Result<Box<dyn Policy>, Failure> {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let limits = |bands: &[Band]| {
            let builder = ToolOutputLimits::builder().store(Arc::clone(&store));
            builder.bands(bands.iter().cloned()).build()
        };
        let above = |strategy: Arc<dyn Strategy>| -> Box<dyn Policy> {
            let when = Trigger::tokens(Limit::Tokens(ABOVE_TOKENS));
            let strategy = Arc::new(Triggered { when, strategy });
            let fitter = Fitter::new(strategy, Arc::clone(&store), window.input_budget);
            Box::new(Refit::new(None, fitter))
        };
        let sliding = |keep| SlidingWindow::new(Keep::Messages(keep));
        Ok(match self {
            Self::None => Box::new(overspill_replay::Keep::default()),
            Self::HeadTail(over) => Box::new(HeadTail::over(*over)),
            Self::Spill(over, view) => {
                let spill = Spill { preview_chars: view - MARKER_CHARS };
                let band = Band::new(*over, Action::from(spill).or(Truncate::default()));
                let limits = limits(&[band])?;
                Box::new(PerResult::new(move |item: &Item| reduced(&limits, item)))
            }
            Self::Sliding => above(Arc::new(sliding(40))),
            Self::Clear => above(Arc::new(ClearToolResults::default())),
            Self::Tiered => {
                let tiers: Vec<Arc<dyn Strategy>> =
                    vec![Arc::new(ClearToolResults::default()), Arc::new(sliding(20))];
                above(Arc::new(Tiered { tiers, target: Limit::Tokens(ABOVE_TOKENS) }))
            }
            Self::Preset(preset) => {
                let bands: Vec<Band> = preset.bands(&Unit::Characters).iter().cloned().collect();
                let fitter = Fitter::preset(*preset, Arc::clone(&store), window);
                Box::new(Refit::new(Some(limits(&bands)?), fitter))
            }
            Self::Config if !config.enabled => Box::new(overspill_replay::Keep::default()),
            Self::Config => {
                let builder = ToolOutputLimits::builder().config(config).store(Arc::clone(&store));
                let fitter = Fitter::preset(config.preset, Arc::clone(&store), window);
                Box::new(Refit::new(Some(builder.build()?), fitter))
            }
        })
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
