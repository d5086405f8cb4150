//! Claude: patches of 28 pixels.
//!
//! A picture is scaled to the largest size at which neither its longer side, in whole patches, nor
//! the number of patches passes the limit of the model's tier. (The rule of thumb `width × height /
//! 750`, published for earlier models, comes within 5 %.)
//!
//! Source: <https://platform.claude.com/docs/en/build-with-claude/vision> and, for how it is
//! scaled, `…/vision-coordinates`.

use super::Pixels;
use crate::window::name::version;

const PATCH: u32 = 28;

/// How large a picture the model looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Tier {
    /// Until Claude 4.6.
    Standard,
    /// From Claude 4.7 on.
    #[default]
    HighResolution,
}

impl Tier {
    pub(super) fn of(name: &str) -> Option<Self> {
        let (_, name) = name.split_once("claude")?;
        Some(match version(name) {
            Some(version) if version < (4, 7) => Self::Standard,
            _ => Self::HighResolution,
        })
    }

    pub(super) fn tokens(self, size: Pixels) -> u64 {
        let (edge, most) = match self {
            Self::Standard => (1_568, 1_568),
            Self::HighResolution => (2_576, 4_784),
        };
        let long = size.width.max(size.height);
        let fits = |long: u32| {
            let size = at(size, long);
            size.width.max(size.height).div_ceil(PATCH) * PATCH <= edge
                && size.squares(PATCH) <= most
        };
        if long <= edge && fits(long) {
            return size.squares(PATCH);
        }
        // The longest side that fits, between one that does and one that does not.
        let (mut low, mut high) = (1, long.min(edge + 1));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        at(size, low).squares(PATCH)
    }
}

/// The picture scaled so that its longer side is this long.
fn at(size: Pixels, long: u32) -> Pixels {
    let ratio = f64::from(size.width.min(size.height)) / f64::from(size.width.max(size.height));
    let short = ((f64::from(long) * ratio).round_ties_even() as u32).max(1);
    Pixels { width: long, height: short }
}
