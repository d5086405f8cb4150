//! Everything the first path decides by, checked once.

use std::fmt;
use std::sync::Arc;

use crate::band::Bands;
use crate::filter::{ToolBands, ToolFilter};
use crate::marker::ReadVia;
use crate::measure::Unit;
use crate::read::ReadTool;
use crate::render::JsonStyle;
use crate::store::Store;
use crate::summary::Summarizer;

/// Everything the first path decides by.
pub(crate) struct Policy {
    pub(crate) enabled: bool,
    pub(crate) filter: ToolFilter,
    pub(crate) bands: Bands,
    pub(crate) tool_bands: ToolBands,
    pub(crate) unit: Unit,
    pub(crate) strip_ansi: bool,
    pub(crate) json: JsonStyle,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) summarizer: Option<Arc<dyn Summarizer>>,
    pub(crate) via: ReadVia,
    pub(crate) read_tool: ReadTool,
}

impl Policy {
    pub(crate) fn bands_for(&self, tool: &str) -> &Bands {
        self.tool_bands.for_tool(tool).unwrap_or(&self.bands)
    }

    /// Whether returns of this tool are looked at at all.
    pub(crate) fn concerns(&self, tool: &str) -> bool {
        self.enabled && self.filter.applies_to(tool) && !self.read_tool.is(tool)
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("enabled", &self.enabled)
            .field("filter", &self.filter)
            .field("bands", &self.bands)
            .field("tool_bands", &self.tool_bands)
            .field("unit", &self.unit)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}
