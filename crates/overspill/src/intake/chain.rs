//! Runs a chain of actions on one payload: the first that can run decides.

use crate::action::{Action, Spill};
use crate::excerpt::Excerpt;
use crate::item::ToolCall;
use crate::marker::{Below, Marker};
use crate::measure::{Size, count_chars};
use crate::policy::Policy;
use crate::store::{PartName, Receipt, StoreError};
use crate::summary::{SummaryError, traced};

use super::specimen::{Kind, Specimen};
use super::{Admitted, Reduction, Warning};

/// One payload's way through a chain.
pub(super) struct Run<'a> {
    pub(super) policy: &'a Policy,
    pub(super) call: &'a ToolCall,
    pub(super) part: PartName,
    pub(super) over: u64,
    pub(super) exit_status: Option<i32>,
}

impl Run<'_> {
    /// The text that is to stand in view and its size; `None` where the payload is to pass as it
    /// came, because the chain says so, because nothing in it can run, or because the text would
    /// not be smaller.
    pub(super) async fn act(
        &self,
        first: &Action,
        specimen: &mut Specimen,
        admitted: &mut Admitted,
    ) -> Option<(String, Size)> {
        for action in first.chain() {
            let (view, receipt) = match action {
                Action::Passthrough => return None,
                Action::Truncate(truncate, then) => {
                    let what = match specimen.kind() {
                        Kind::Binary => "not text",
                        Kind::Json if then.action().is_some() => "a structured value",
                        _ => {
                            let view = specimen.cut(truncate)?;
                            return self.keep_smaller(action, view, None, specimen, admitted);
                        }
                    };
                    admitted.warnings.push(Warning::NotCut { tool: self.tool(), what });
                    continue;
                }
                Action::Spill(spill, _) => {
                    match self.store(specimen, Some(spill.preview_chars)).await {
                        Ok(receipt) => (self.spilled(spill, &receipt, specimen), receipt),
                        Err(source) => {
                            admitted.warnings.push(self.not_stored(action, source));
                            continue;
                        }
                    }
                }
                Action::Summarize(..) => match self.store(specimen, None).await {
                    Err(source) => {
                        admitted.warnings.push(self.not_stored(action, source));
                        continue;
                    }
                    Ok(receipt) => match self.summary(specimen, admitted).await {
                        Ok(text) => (self.summarized(&text, &receipt, specimen), receipt),
                        Err(source) => {
                            let tool = self.tool();
                            admitted.warnings.push(Warning::NotSummarized { tool, source });
                            continue;
                        }
                    },
                },
            };
            return self.keep_smaller(action, view, Some(receipt), specimen, admitted);
        }
        admitted.warnings.push(Warning::Whole {
            tool: self.tool(),
            measured: specimen.size().measured,
            unit: self.policy.unit.name(),
        });
        None
    }

    /// What stands in view of a stream when no action could run: it is not there to pass whole. If
    /// it was stored all the same, for a summary that failed, its marker and excerpt; else its
    /// beginning and end.
    pub(super) fn leave(&self, specimen: Specimen, admitted: &mut Admitted) -> String {
        admitted.warnings.retain(|warning| !matches!(warning, Warning::Whole { .. }));
        let stored = specimen.receipt().cloned().and_then(|receipt| {
            let spill = Spill::default();
            let view = self.spilled(&spill, &receipt, &specimen);
            self.keep_smaller(&spill.into(), view, Some(receipt), &specimen, admitted)
        });
        match stored {
            Some((view, _)) => view,
            None => {
                admitted.warnings.push(Warning::MiddleLost { tool: self.tool() });
                specimen.into_cut()
            }
        }
    }

    /// A reduction that does not make the return smaller is not applied.
    fn keep_smaller(
        &self,
        action: &Action,
        view: String,
        receipt: Option<Receipt>,
        specimen: &Specimen,
        admitted: &mut Admitted,
    ) -> Option<(String, Size)> {
        let before = specimen.size();
        let after = self.policy.size_of(&view);
        if after.measured >= before.measured || after.chars >= before.chars {
            return None;
        }
        admitted.reductions.push(Reduction {
            part: self.part,
            action: action.name(),
            over: self.over,
            before,
            after,
            receipt,
        });
        Some((view, after))
    }

    async fn store(
        &self,
        specimen: &mut Specimen,
        preview_chars: Option<usize>,
    ) -> Result<Receipt, StoreError> {
        match &self.policy.store {
            Some(store) => specimen.store(store, self.call, self.part, preview_chars).await,
            None => Err(no_store()),
        }
    }

    fn spilled(&self, spill: &Spill, receipt: &Receipt, specimen: &Specimen) -> String {
        let excerpt = specimen.excerpt(spill.preview_chars);
        self.policy.spill_view(receipt, specimen.size().measured, self.exit_status, &excerpt)
    }

    async fn summary(
        &self,
        specimen: &mut Specimen,
        admitted: &mut Admitted,
    ) -> Result<String, SummaryError> {
        let (Some(summarizer), Some(store)) = (&self.policy.summarizer, &self.policy.store) else {
            return Err(SummaryError::new("no summarizer is set"));
        };
        if specimen.kind() == Kind::Binary {
            return Err(SummaryError::new("it is not text"));
        }
        let chars = specimen.size().chars;
        let text = specimen.text(store).await?;
        let asked = summarizer.summarize(&self.call.tool, &text);
        let summary = match traced(chars, asked).await {
            Ok(summary) => summary,
            Err(error) => {
                admitted.usage += error.usage;
                return Err(error);
            }
        };
        admitted.usage += summary.usage;
        if summary.text.trim().is_empty() {
            return Err(SummaryError::new("the summary is empty"));
        }
        if count_chars(summary.text.as_bytes()) >= chars {
            return Err(SummaryError::new("the summary is no shorter than the output"));
        }
        Ok(summary.text)
    }

    fn summarized(&self, text: &str, receipt: &Receipt, specimen: &Specimen) -> String {
        let marker =
            self.policy.marker(receipt, specimen.size().measured, self.exit_status, Below::Summary);
        format!("{}\n{text}", marker.as_str())
    }

    fn tool(&self) -> String {
        self.call.tool.clone()
    }

    fn not_stored(&self, action: &Action, source: StoreError) -> Warning {
        Warning::NotStored { action: action.name(), tool: self.tool(), source }
    }
}

pub(super) fn no_store() -> StoreError {
    StoreError::Refused { what: "no store is set".into(), source: None }
}

impl Policy {
    fn size_of(&self, text: &str) -> Size {
        Size {
            bytes: text.len() as u64,
            chars: count_chars(text.as_bytes()),
            measured: self.unit.of_bytes(text.as_bytes()),
        }
    }

    fn marker(
        &self,
        receipt: &Receipt,
        measured: u64,
        exit_status: Option<i32>,
        below: Below,
    ) -> Marker {
        Marker::new(receipt, measured, self.unit.name(), exit_status, below, &self.via)
    }

    fn spill_view(
        &self,
        receipt: &Receipt,
        measured: u64,
        exit_status: Option<i32>,
        excerpt: &Excerpt,
    ) -> String {
        let below = if excerpt.text.is_empty() {
            Below::Nothing
        } else {
            Below::Excerpt { lines: excerpt.shown_lines }
        };
        let marker = self.marker(receipt, measured, exit_status, below);
        if excerpt.text.is_empty() {
            return marker.as_str().to_owned();
        }
        format!("{}\n{}", marker.as_str(), excerpt.text)
    }
}
