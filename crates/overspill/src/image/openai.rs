//! OpenAI: patches of 32 pixels from GPT-5.2 on and in small models, tiles of 512 before.
//!
//! Source: <https://developers.openai.com/api/docs/guides/images-vision>, *Model sizing behavior*
//! and *Calculating costs*. What it no longer says of models about to be shut down is taken from
//! its earlier versions.

use super::Pixels;
use crate::window::name::{gpt, is_of};

const PATCH: u32 = 32;
const TILE: u32 = 512;

/// A picture that needs more patches is refused.
const MOST_PATCHES: u64 = 30_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    Patches(Patches),
    Tiles {
        /// Tokens of every picture; with low detail, all of them.
        base: u64,
        /// Tokens of a tile.
        tile: u64,
    },
}

/// Limits for each detail, and tokens for a hundred patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Patches {
    low: Limit,
    high: Limit,
    original: Limit,
    auto: Limit,
    percent: u64,
}

/// The picture is scaled down to this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    edge: u32,
    patches: u64,
}

const LOW: Limit = Limit { edge: 512, patches: MOST_PATCHES };
const HIGH: Limit = Limit { edge: 2_048, patches: 2_500 };
const LARGE: Limit = Limit { edge: 6_000, patches: 10_000 };
const WHOLE: Limit = Limit { edge: 65_535, patches: MOST_PATCHES };

/// GPT-5.4, and models of others behind OpenAI's formats: patches are how newer models of all
/// makers see.
const GPT_5_4: Patches = Patches {
    low: Limit { edge: 2_048, patches: 6_144 },
    high: HIGH,
    original: LARGE,
    auto: HIGH,
    percent: 120,
};
const GPT_5_5: Patches = Patches { low: LOW, auto: LARGE, ..GPT_5_4 };
const GPT_5_6: Patches = Patches { original: WHOLE, auto: WHOLE, ..GPT_5_5 };
const GPT_6: Patches = Patches { high: Limit { edge: 65_535, ..HIGH }, ..GPT_5_6 };

/// Models that take every detail alike.
const fn alike(patches: u64, percent: u64) -> Rule {
    let limit = Limit { edge: 2_048, patches };
    Rule::Patches(Patches { low: limit, high: limit, original: limit, auto: limit, percent })
}

impl Default for Rule {
    fn default() -> Self {
        Self::Patches(GPT_5_4)
    }
}

impl Rule {
    pub(super) fn of(name: &str) -> Option<Self> {
        let (is_mini, is_nano) = (name.contains("-mini"), name.contains("-nano"));
        if is_of(name, "o4-mini") {
            return Some(alike(1_536, 172));
        }
        if is_of(name, "o1") || is_of(name, "o3") {
            return Some(Self::Tiles { base: 75, tile: 150 });
        }
        if is_of(name, "computer-use") {
            return Some(Self::Tiles { base: 65, tile: 129 });
        }
        let (name, version) = gpt(name)?;
        if is_of(name, "4o-mini") {
            return Some(Self::Tiles { base: 2_833, tile: 5_667 });
        }
        Some(match version {
            // Azure writes `gpt-35-turbo`.
            (..4 | 35, _) => return None,
            (4, 1) if is_mini => alike(6_144, 162),
            (4, 1) if is_nano => alike(1_536, 246),
            (4, _) => Self::Tiles { base: 85, tile: 170 },
            (5, ..2) if is_mini => alike(1_536, 120),
            (5, ..2) if is_nano => alike(1_536, 150),
            (5, ..2) => Self::Tiles { base: 70, tile: 140 },
            (5, 2 | 3) => alike(6_144, 120),
            (5, 4) => Self::Patches(GPT_5_4),
            (5, 5) => Self::Patches(GPT_5_5),
            (5, _) => Self::Patches(GPT_5_6),
            _ => Self::Patches(GPT_6),
        })
    }

    pub(super) fn tokens(self, size: Pixels, detail: Option<&str>) -> u64 {
        match (self, detail.unwrap_or_default()) {
            (Self::Tiles { base, .. }, "low") => base,
            (Self::Tiles { base, tile }, _) => base + tile * tiles(size),
            (Self::Patches(rule), detail) => {
                let limit = match detail {
                    "low" => rule.low,
                    "high" => rule.high,
                    "original" => rule.original,
                    _ => rule.auto,
                };
                (limit.patches(size) * rule.percent).div_ceil(100)
            }
        }
    }
}

impl Limit {
    /// How many patches cover the picture once it is scaled to fit.
    fn patches(self, size: Pixels) -> u64 {
        let size = size.within(self.edge);
        let all = size.squares(PATCH);
        if all <= self.patches {
            return all;
        }
        // Scaled to the budget's area, then a little more, until one side is whole patches.
        let (width, height) = (f64::from(size.width), f64::from(size.height));
        let patch = f64::from(PATCH);
        let shrink = (patch * patch * self.patches as f64 / (width * height)).sqrt();
        let whole = |side: f64| (side * shrink / patch).floor() / (side * shrink / patch);
        let shrink = shrink * whole(width).min(whole(height));
        let scaled = |side: f64| ((side * shrink).floor() as u32).max(1);
        let scaled = Pixels { width: scaled(width), height: scaled(height) };
        scaled.squares(PATCH).min(self.patches)
    }
}

/// Fit into 2,048 by 2,048 pixels, then with the shorter side at most 768, in squares of 512.
fn tiles(size: Pixels) -> u64 {
    let size = size.within(2_048);
    let short = size.width.min(size.height);
    size.scaled(768.0 / f64::from(short)).squares(TILE)
}
