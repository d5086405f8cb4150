//! Gemini: a fixed number of tokens for each resolution, tiles of 768 pixels before Gemini 3.
//!
//! Source: <https://ai.google.dev/gemini-api/docs/media-resolution>, and `…/docs/tokens` and
//! `…/docs/image-understanding` for tiles.

use super::Pixels;
use crate::window::name::version;

/// Tokens of a tile, and of a picture that is small or looked at as a whole.
const TILE: u64 = 258;

/// How the model looks at pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Generation {
    /// Until Gemini 2.5.
    Tiles,
    /// From Gemini 3 on.
    #[default]
    Fixed,
}

impl Generation {
    pub(super) fn of(name: &str) -> Option<Self> {
        let (_, name) = name.split_once("gemini")?;
        Some(match version(name) {
            Some((..3, _)) => Self::Tiles,
            _ => Self::Fixed,
        })
    }

    pub(super) fn tokens(self, size: Pixels, detail: Option<&str>) -> u64 {
        // `MEDIA_RESOLUTION_LOW`, `low`.
        let level = detail.unwrap_or_default().to_ascii_lowercase();
        let level = level.trim_start_matches("media_resolution_");
        match (self, level) {
            (Self::Tiles, "low") => 64,
            (Self::Tiles, "medium") => TILE,
            (Self::Tiles, _) => tiles(size) * TILE,
            (Self::Fixed, "low") => 280,
            (Self::Fixed, "medium") => 560,
            (Self::Fixed, "ultra_high") => 2_240,
            (Self::Fixed, _) => 1_120,
        }
    }
}

/// A picture of at most 384 by 384 pixels is one tile; others are cut into squares of two thirds of
/// the shorter side, of 256 to 768 pixels, after they are scaled to at most 3,072.
fn tiles(size: Pixels) -> u64 {
    if size.width.max(size.height) <= 384 {
        return 1;
    }
    let size = size.within(3_072);
    let unit = (f64::from(size.width.min(size.height)) / 1.5).floor() as u32;
    size.squares(unit.clamp(256, 768))
}
