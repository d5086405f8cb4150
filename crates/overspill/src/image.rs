//! How many tokens is a picture? By the rule its model's provider publishes, and by its size,
//! which stands in its first bytes.
//!
//! ```
//! use overspill::image::{self, ImageRule, Pixels, Provider};
//!
//! let png = "iVBORw0KGgoAAAANSUhEUgAAB4AAAAQ4CAYAAADo08FDAAAA";
//! let size = image::size(png);
//! assert_eq!(size, Some(Pixels { width: 1_920, height: 1_080 }));
//!
//! let rule = ImageRule::of("claude-sonnet-4-5", Provider::Anthropic);
//! assert_eq!(rule.tokens(size, None), 1_560);
//! ```

mod claude;
mod gemini;
mod header;
mod openai;

use crate::window::name;

pub use header::size;

/// The size of a picture whose size is not known, because it stands at an address: that of the
/// screenshots which agents look at most.
pub const UNKNOWN_SIZE: Pixels = Pixels { width: 1_920, height: 1_080 };

/// How large a picture is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pixels {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// Whose format the request is in. It decides where the model's name tells nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Provider {
    /// OpenAI, and the many that speak its formats.
    #[default]
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Google.
    Google,
}

/// How a model counts pictures.
///
/// The rules are those that the providers published by November 2026. They change with every
/// generation of models; a model newer than this library counts as the newest of its family does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageRule(Rule);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Claude(claude::Tier),
    Gemini(gemini::Generation),
    OpenAi(openai::Rule),
}

impl ImageRule {
    /// The rule of a model, told by its name, which is read as [`resolve`] reads it; the rule of
    /// the provider's newest models where the name tells no family.
    ///
    /// [`resolve`]: crate::window::resolve
    pub fn of(model: &str, provider: Provider) -> Self {
        let name = name::plain(model);
        let rule = if let Some(tier) = claude::Tier::of(&name) {
            Rule::Claude(tier)
        } else if let Some(generation) = gemini::Generation::of(&name) {
            Rule::Gemini(generation)
        } else if let Some(rule) = openai::Rule::of(&name) {
            Rule::OpenAi(rule)
        } else {
            match provider {
                Provider::OpenAi => Rule::OpenAi(openai::Rule::default()),
                Provider::Anthropic => Rule::Claude(claude::Tier::default()),
                Provider::Google => Rule::Gemini(gemini::Generation::default()),
            }
        };
        Self(rule)
    }

    /// How many tokens a picture of this size is; [`UNKNOWN_SIZE`] where there is none. `detail`
    /// is how closely the model is asked to look, in the words of the format (`low`, `original`,
    /// `MEDIA_RESOLUTION_HIGH`); a word that the model does not know counts as none.
    pub fn tokens(self, size: Option<Pixels>, detail: Option<&str>) -> u64 {
        let size = size.unwrap_or(UNKNOWN_SIZE);
        match self.0 {
            Rule::Claude(tier) => tier.tokens(size),
            Rule::Gemini(generation) => generation.tokens(size, detail),
            Rule::OpenAi(rule) => rule.tokens(size, detail),
        }
    }
}

impl Pixels {
    /// How many squares of this edge cover it.
    fn squares(self, edge: u32) -> u64 {
        u64::from(self.width.div_ceil(edge)) * u64::from(self.height.div_ceil(edge))
    }

    /// Scaled down, if need be, until neither side is longer; never enlarged.
    fn within(self, edge: u32) -> Self {
        self.scaled(f64::from(edge) / f64::from(self.width.max(self.height)))
    }

    /// Scaled down by a factor, each side to the nearest pixel and at least one.
    fn scaled(self, factor: f64) -> Self {
        if factor >= 1.0 {
            return self;
        }
        let side = |pixels: u32| ((f64::from(pixels) * factor).round() as u32).max(1);
        Self { width: side(self.width), height: side(self.height) }
    }
}

#[cfg(test)]
mod tests;
