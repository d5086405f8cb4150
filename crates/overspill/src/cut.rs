//! Cuts text to a number of characters, and says where it was cut.

/// Which part of a text a cut keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// The beginning.
    Head,
    /// The end.
    Tail,
    /// 40 % of what is kept from the beginning, 60 % from the end: commands say at the end how
    /// they went.
    #[default]
    HeadAndTail,
}

/// How a text is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truncate {
    /// The most characters that stay, the marker counted in.
    pub max_chars: usize,
    /// Which part stays.
    pub keep: Keep,
    /// How many complete lines of the end stay whatever `keep` says, where they fit.
    pub keep_tail_lines: usize,
}

impl Default for Truncate {
    fn default() -> Self {
        Self { max_chars: 4_000, keep: Keep::default(), keep_tail_lines: 0 }
    }
}
