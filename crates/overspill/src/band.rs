//! Which row of the policy does a size fall in?

use thiserror::Error;

use crate::action::Action;

/// From this size on, this action.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// The smallest size the band applies to, in the policy's unit.
    pub over: u64,
    /// What to do with a return of that size.
    pub action: Action,
}

impl Band {
    /// A band from `over` on; `size >= over` fits.
    pub fn new(over: u64, action: Action) -> Self {
        Self { over, action }
    }
}

/// Bands in order, proved to be distinct: asking which one fits cannot fail.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bands(Vec<Band>);

/// Why a list of bands was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BandError {
    /// Two bands start at the same size, so one of them could never be chosen.
    #[error("two bands start at {over}; give each threshold one action")]
    SameThreshold {
        /// The threshold that stands twice.
        over: u64,
    },
}

impl Bands {
    /// Orders the bands by threshold; they may be given in any order.
    ///
    /// # Errors
    ///
    /// [`BandError::SameThreshold`] when two bands share a threshold.
    pub fn new(bands: impl IntoIterator<Item = Band>) -> Result<Self, BandError> {
        let mut bands: Vec<Band> = bands.into_iter().collect();
        bands.sort_by_key(|band| band.over);
        match bands.windows(2).find(|pair| pair[0].over == pair[1].over) {
            Some(pair) => Err(BandError::SameThreshold { over: pair[0].over }),
            None => Ok(Self(bands)),
        }
    }

    /// The band with the largest threshold that `size` reaches; `None` below the smallest.
    pub fn fit(&self, size: u64) -> Option<&Band> {
        let above = self.0.partition_point(|band| band.over <= size);
        above.checked_sub(1).map(|i| &self.0[i])
    }

    /// The band that every size from some point on falls in; `None` where there are no bands.
    pub fn largest(&self) -> Option<&Band> {
        self.0.last()
    }

    /// The bands, the smallest threshold first.
    pub fn iter(&self) -> impl Iterator<Item = &Band> {
        self.0.iter()
    }
}
