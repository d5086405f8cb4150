//! A return that arrives in pieces takes the path in constant memory.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::action::{Action, Spill};
use crate::ansi::{self, Stripper};
use crate::cut::{HeadTail, Held, not_stored};
use crate::excerpt::Excerpter;
use crate::item::{ToolCall, ToolReturn};
use crate::lines::Line;
use crate::measure::{Size, Unit, count_chars, estimate_tokens};
use crate::policy::Policy;
use crate::store::writer::{Survey, Surveyed};
use crate::store::{Deposit, PartName, StoreError};

use super::chain::{Run, no_store};
use super::specimen::{Kind, Specimen, Streamed};
use super::{Admitted, admit};

/// What is held in memory at least before a stream is taken for a big one, in characters. Below
/// it a return takes the same path as one that came whole, which can weigh every action.
const HELD_CHARS: u64 = 64 * 1024;

/// Room for a marker above an excerpt, in characters; twice the longest there is.
const MARKER_CHARS: u64 = 1_024;

/// A return that arrives in pieces; made by
/// [`ToolOutputLimits::stream`](crate::ToolOutputLimits::stream).
#[derive(Debug)]
pub struct ReturnStream {
    policy: Arc<Policy>,
    call: ToolCall,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Everything passes as it comes.
    Passing,
    /// It may still be small enough for any band.
    Holding { held: Vec<u8>, check_at: usize },
    /// It is in the largest band, whatever comes.
    Big(Box<Big>),
}

impl ReturnStream {
    pub(crate) fn new(policy: Arc<Policy>, call: ToolCall) -> Self {
        let passes =
            !policy.concerns(&call.tool) || policy.bands_for(&call.tool).largest().is_none();
        let state =
            if passes { State::Passing } else { State::Holding { held: Vec::new(), check_at: 0 } };
        Self { policy, call, state }
    }

    /// Whether everything passes as it comes, whatever will come: the policy does not concern
    /// this tool, or is turned off.
    pub fn passes(&self) -> bool {
        matches!(self.state, State::Passing)
    }

    /// Takes the next piece and gives back what is to be shown at once: everything, where the
    /// policy lets the return pass; else nothing until [`finish`](Self::finish).
    #[must_use = "what passes must be shown"]
    pub async fn push(&mut self, piece: Bytes) -> Option<Bytes> {
        match &mut self.state {
            State::Passing => return Some(piece),
            State::Big(big) => big.push(piece).await,
            State::Holding { held, check_at } => {
                held.extend_from_slice(&piece);
                if held.len() < *check_at {
                    return None;
                }
                let band = self.policy.bands_for(&self.call.tool).largest()?;
                let shown =
                    if self.policy.strip_ansi { ansi::strip(held) } else { (&**held).into() };
                let chars = count_chars(&shown);
                let measured = self.policy.unit.of_bytes(&shown);
                let missing = band
                    .over
                    .saturating_sub(measured)
                    .max(held_chars(&band.action).saturating_sub(chars));
                if missing > 0 {
                    // A character is a byte at least, and so is nearly every token. Looking again
                    // only at twice the length keeps the looking linear, whatever is stripped.
                    *check_at = held.len() + held.len().max(missing as usize);
                    return None;
                }
                let held = std::mem::take(held);
                if matches!(band.action, Action::Passthrough) {
                    self.state = State::Passing;
                    return Some(held.into());
                }
                let (over, action) = (band.over, band.action.clone());
                let (policy, call) = (Arc::clone(&self.policy), self.call.clone());
                let mut big = Big::new(policy, call, over, action, &held).await;
                big.push(held.into()).await;
                self.state = State::Big(Box::new(big));
            }
        }
        None
    }

    /// Ends the stream: what the model should see, beyond what `push` gave back.
    pub async fn finish(self, exit_status: Option<i32>) -> Admitted {
        match self.state {
            State::Passing => Admitted::default(),
            State::Holding { held, .. } => {
                let mut output = ToolReturn::from(held);
                output.exit_status = exit_status;
                admit(&self.policy, &self.call, output).await
            }
            State::Big(big) => big.finish(exit_status).await,
        }
    }
}

/// How many characters make sure that what an action leaves in view is smaller.
fn held_chars(action: &Action) -> u64 {
    let view = action.chain().map(|action| match action {
        Action::Spill(spill, _) => spill.preview_chars as u64,
        Action::Truncate(truncate, _) => truncate.max_chars as u64,
        Action::Passthrough | Action::Summarize(..) => 0,
    });
    HELD_CHARS.max(view.max().unwrap_or(0).saturating_add(MARKER_CHARS))
}

/// A stream in the largest band: stored while it runs, seen by the excerpter in the same pass,
/// its head and tail held in case the store fails.
struct Big {
    policy: Arc<Policy>,
    call: ToolCall,
    over: u64,
    action: Action,
    survey: Survey,
    eye: Eye,
    rest: Result<Deposit, StoreError>,
}

impl fmt::Debug for Big {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Big").field("call", &self.call).field("action", &self.action).finish()
    }
}

impl Big {
    async fn new(
        policy: Arc<Policy>,
        call: ToolCall,
        over: u64,
        action: Action,
        beginning: &[u8],
    ) -> Self {
        let stores =
            action.chain().any(|each| matches!(each, Action::Spill(..) | Action::Summarize(..)));
        let rest = match policy.store.as_ref().filter(|_| stores) {
            Some(store) => Deposit::open(store).await,
            None => Err(no_store()),
        };
        let eye = Eye::new(&policy, &action, Kind::of(beginning));
        Self { policy, call, over, action, survey: Survey::new(), eye, rest }
    }

    async fn push(&mut self, piece: Bytes) {
        let Self { survey, eye, rest, .. } = self;
        let mut look = || {
            eye.piece(&piece);
            survey.push(&piece, &mut |line| eye.line(line));
            survey.take_rows()
        };
        let Ok(deposit) = rest else {
            look();
            return;
        };
        let taken = match deposit.append_while(piece.clone(), look).await {
            (Ok(()), rows) => deposit.append_rows(&rows).await,
            (Err(error), _) => Err(error),
        };
        if let Err(error) = taken {
            *rest = Err(error);
        }
    }

    async fn finish(mut self, exit_status: Option<i32>) -> Admitted {
        let mut admitted = Admitted::default();
        let surveyed = self.survey.finish(&mut |line| self.eye.line(line));
        let mut specimen = self.eye.specimen(surveyed, self.rest);
        let run = Run {
            policy: &self.policy,
            call: &self.call,
            part: PartName::Value(0),
            over: self.over,
            exit_status,
        };
        let view = match run.act(&self.action, &mut specimen, &mut admitted).await {
            Some((view, _)) => view,
            None => run.leave(specimen, &mut admitted),
        };
        admitted.output = ToolReturn { exit_status, ..ToolReturn::from(view) };
        admitted
    }
}

/// Sees a stream as it is shown.
struct Eye {
    unit: Unit,
    kind: Kind,
    stripper: Option<Stripper>,
    excerpter: Excerpter,
    head_tail: HeadTail,
    /// Characters shown, where the stripper makes them other than those stored.
    chars: u64,
    /// Tokens counted line by line, where the policy counts tokens.
    tokens: u64,
}

impl Eye {
    fn new(policy: &Policy, action: &Action, kind: Kind) -> Self {
        let preview = action.chain().find_map(|each| match each {
            Action::Spill(spill, _) => Some(spill.preview_chars),
            _ => None,
        });
        let truncate = action.chain().find_map(|each| match each {
            Action::Truncate(truncate, _) => Some(truncate.clone()),
            _ => None,
        });
        Self {
            unit: policy.unit.clone(),
            kind,
            stripper: (policy.strip_ansi && kind == Kind::Text).then(Stripper::default),
            excerpter: Excerpter::new(preview.unwrap_or(Spill::PREVIEW_CHARS)),
            head_tail: HeadTail::new(truncate.unwrap_or_default()),
            chars: 0,
            tokens: 0,
        }
    }

    /// Sees a piece, before its lines. What is shown as it came need not be gone through line by
    /// line.
    fn piece(&mut self, piece: &[u8]) {
        if self.stripper.is_none() {
            self.head_tail.push(piece);
        }
    }

    fn line(&mut self, line: Line<'_>) {
        let stripped = self.stripper.as_mut().map(|stripper| stripper.strip(line.bytes));
        let bytes = stripped.as_deref().unwrap_or(line.bytes);
        self.excerpter.line(Line { bytes, ..line });
        if stripped.is_some() {
            self.head_tail.push(bytes);
            self.chars += count_chars(bytes);
        }
        if let Unit::Tokens(_) = self.unit {
            self.tokens += self.unit.of_bytes(bytes);
        }
    }

    fn specimen(mut self, surveyed: Surveyed, rest: Result<Deposit, StoreError>) -> Specimen {
        if let Some(stripper) = self.stripper.take() {
            let held = stripper.finish();
            self.chars += count_chars(&held);
            self.head_tail.push(&held);
        } else {
            self.chars = surveyed.chars;
        }
        let measured = match self.unit {
            Unit::Characters => self.chars,
            Unit::EstimatedTokens => estimate_tokens(self.chars),
            Unit::Tokens(_) => self.tokens,
        };
        let size = Size { bytes: surveyed.bytes, chars: self.chars, measured };
        let cut = match self.head_tail.finish(&not_stored) {
            Held::Whole(text) => text,
            Held::Cut(cut) => cut.text,
        };
        let excerpt = self.excerpter.finish();
        Specimen::streamed(self.kind, size, Streamed { surveyed, rest, excerpt, cut })
    }
}
