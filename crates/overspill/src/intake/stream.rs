//! A return that arrives in pieces takes the path in constant memory.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::action::{Action, Spill};
use crate::ansi::{self, Stripper};
use crate::band::{Band, Bands};
use crate::cut::{HeadTail, Held, not_stored};
use crate::excerpt::Excerpter;
use crate::item::{Payload, ToolCall, ToolReturn};
use crate::lines::Line;
use crate::measure::{Size, Unit, count_chars, estimate_tokens};
use crate::policy::Policy;
use crate::store::writer::{Survey, Surveyed};
use crate::store::{Deposit, PartName, StoreError};
use crate::trace::Span;

use super::chain::{Run, no_store};
use super::specimen::{Kind, Specimen, Streamed};
use super::{Admitted, admit};

/// What is held in memory at least before a stream is taken for a big one, in characters. Below
/// it a return takes the same path as one that came whole, which can weigh every action.
const HELD_CHARS: u64 = 64 * 1024;

/// Room for a marker above an excerpt, in characters; twice the longest there is.
const MARKER_CHARS: u64 = 1_024;

/// How many bytes of control sequences are held at most, about, before a stream is stored while it
/// runs although what it shows is still small: some seconds of a program that redraws its screen.
const HELD_STRIPPED_BYTES: usize = 1024 * 1024;

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
    /// Everything passes as it comes, or where there is a stripper, as it is shown.
    Passing(Option<Stripper>),
    /// It may still be small enough for any band.
    Holding { held: Vec<u8>, check_at: usize },
    /// It is in the largest band, whatever comes; or it has more control sequences than should be
    /// held.
    Big(Box<Big>),
}

impl ReturnStream {
    pub(crate) fn new(policy: Arc<Policy>, call: ToolCall) -> Self {
        let passes =
            !policy.concerns(&call.tool) || policy.bands_for(&call.tool).largest().is_none();
        let state = if passes {
            State::Passing(None)
        } else {
            State::Holding { held: Vec::new(), check_at: 0 }
        };
        Self { policy, call, state }
    }

    /// Whether everything passes as it comes, whatever will come: the policy does not concern
    /// this tool, or is turned off.
    pub fn passes(&self) -> bool {
        matches!(self.state, State::Passing(None))
    }

    /// Takes the next piece and gives back what is to be shown at once: everything, where the
    /// policy lets the return pass; else nothing until [`finish`](Self::finish).
    #[must_use = "what passes must be shown"]
    pub async fn push(&mut self, piece: Bytes) -> Option<Bytes> {
        match &mut self.state {
            State::Passing(stripper) => return Some(shown(stripper, piece)),
            State::Big(big) => {
                big.push(piece).await;
                if big.eye.has_outgrown() {
                    return self.settle();
                }
            }
            State::Holding { held, check_at } => {
                held.extend_from_slice(&piece);
                if held.len() < *check_at {
                    return None;
                }
                let bands = self.policy.bands_for(&self.call.tool);
                let largest = bands.largest()?;
                let strips = self.policy.strip_ansi && Kind::of(held) == Kind::Text;
                let seen = if strips { ansi::strip(held) } else { (&**held).into() };
                let missing =
                    missing(largest, self.policy.unit.of_bytes(&seen), count_chars(&seen));
                if missing > 0 && held.len() - seen.len() < HELD_STRIPPED_BYTES {
                    // A character is a byte at least, and so is nearly every token. Looking again
                    // only at twice the length keeps the looking linear, whatever is stripped.
                    *check_at = held.len() + held.len().max(missing as usize);
                    return None;
                }
                let held = Bytes::from(std::mem::take(held));
                if missing == 0 && matches!(largest.action, Action::Passthrough) {
                    let mut stripper = strips.then(Stripper::default);
                    let passed = shown(&mut stripper, held);
                    self.state = State::Passing(stripper);
                    return Some(passed);
                }
                let aside = (missing > 0).then(|| Aside::new(bands));
                let eye = Eye::new(&self.policy, largest, Kind::of(&held), aside);
                let mut big = Big::new(Arc::clone(&self.policy), self.call.clone(), eye).await;
                big.push(held).await;
                self.state = State::Big(Box::new(big));
            }
        }
        None
    }

    /// Decides for the largest band once what is shown is sure to be in it, and gives back what is
    /// to be shown at once.
    fn settle(&mut self) -> Option<Bytes> {
        match std::mem::replace(&mut self.state, State::Passing(None)) {
            State::Big(big) if matches!(big.eye.largest.band.action, Action::Passthrough) => {
                let (passed, stripper) = big.pass();
                self.state = State::Passing(stripper);
                Some(passed.into())
            }
            State::Big(mut big) => {
                big.settle();
                self.state = State::Big(big);
                None
            }
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Ends the stream: what the model should see, beyond what `push` gave back.
    pub async fn finish(self, exit_status: Option<i32>) -> Admitted {
        match self.state {
            State::Passing(None) => Admitted::default(),
            State::Passing(Some(stripper)) => {
                let output = ToolReturn { exit_status, ..ToolReturn::from(stripper.finish()) };
                Admitted { output, ..Admitted::default() }
            }
            State::Holding { held, .. } => {
                let mut output = ToolReturn::from(held);
                output.exit_status = exit_status;
                admit(&self.policy, &self.call, output).await
            }
            State::Big(big) => {
                let span = Span::admit(&self.call);
                let admitted = span.around(big.finish(exit_status)).await;
                admitted.tell(&span);
                admitted
            }
        }
    }
}

/// A piece as it is shown.
fn shown(stripper: &mut Option<Stripper>, piece: Bytes) -> Bytes {
    match stripper {
        Some(stripper) => stripper.strip(&piece).into_owned().into(),
        None => piece,
    }
}

/// How much is missing, of the policy's unit or of characters, until a stream is sure to be in its
/// largest band and what the band's action leaves in view to be smaller.
fn missing(largest: &Band, measured: u64, chars: u64) -> u64 {
    let of_threshold = largest.over.saturating_sub(measured);
    of_threshold.max(held_chars(&largest.action).saturating_sub(chars))
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

/// Whether anything in a chain stores.
fn stores(action: &Action) -> bool {
    action.chain().any(|each| matches!(each, Action::Spill(..) | Action::Summarize(..)))
}

/// A stream that is stored while it runs, seen by the excerpter in the same pass, its head and tail
/// held in case the store fails.
struct Big {
    policy: Arc<Policy>,
    call: ToolCall,
    survey: Survey,
    eye: Eye,
    rest: Result<Deposit, StoreError>,
}

impl fmt::Debug for Big {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Big").field("call", &self.call).finish_non_exhaustive()
    }
}

impl Big {
    async fn new(policy: Arc<Policy>, call: ToolCall, eye: Eye) -> Self {
        let stores = eye.views().any(|view| stores(&view.band.action));
        let rest = match policy.store.as_ref().filter(|_| stores) {
            Some(store) => Deposit::open(store).await,
            None => Err(no_store()),
        };
        Self { policy, call, survey: Survey::new(), eye, rest }
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

    /// Goes on for the largest band alone.
    fn settle(&mut self) {
        self.eye.aside = None;
        if !stores(&self.eye.largest.band.action) {
            self.rest = Err(no_store());
        }
    }

    /// Leaves storing: all that is shown so far, and the stripper to go on with.
    fn pass(self) -> (Vec<u8>, Option<Stripper>) {
        let Self { survey, mut eye, .. } = self;
        survey.finish(&mut |line| eye.line(line));
        (eye.aside.map(|aside| aside.visible).unwrap_or_default(), eye.stripper)
    }

    async fn finish(mut self, exit_status: Option<i32>) -> Admitted {
        let mut admitted = Admitted::default();
        let surveyed = self.survey.finish(&mut |line| self.eye.line(line));
        let is_whole = self.eye.aside.is_some();
        let (band, mut specimen) = self.eye.specimen(surveyed, self.rest);
        let value = match band.filter(|_| !specimen.is_read_answer()) {
            None => specimen.pass(),
            Some(Band { over, action }) => {
                let part = PartName::Value(0);
                let run = Run { policy: &self.policy, call: &self.call, part, over, exit_status };
                match run.act(&action, &mut specimen, &mut admitted).await {
                    Some((view, _)) => vec![Payload::Text(view)],
                    None if is_whole => specimen.pass(),
                    None => vec![Payload::Text(run.leave(specimen, &mut admitted))],
                }
            }
        };
        admitted.output = ToolReturn { value, exit_status, ..ToolReturn::default() };
        admitted
    }
}

/// Sees a stream as it is shown.
struct Eye {
    unit: Unit,
    kind: Kind,
    stripper: Option<Stripper>,
    largest: View,
    aside: Option<Aside>,
    /// Characters shown, where the stripper makes them other than those stored.
    chars: u64,
    /// Tokens counted line by line, where the policy counts tokens.
    tokens: u64,
}

/// What is held of a stream that has many control sequences, as long as what it shows may not be
/// in the largest band.
struct Aside {
    /// All that is shown.
    visible: Vec<u8>,
    /// What the smaller bands would leave in view.
    lesser: Vec<View>,
}

impl Aside {
    fn new(bands: &Bands) -> Self {
        let lesser = bands.iter().count().saturating_sub(1);
        Self { visible: Vec::new(), lesser: bands.iter().take(lesser).map(View::new).collect() }
    }
}

/// What a band would leave in view.
struct View {
    band: Band,
    excerpter: Excerpter,
    head_tail: HeadTail,
}

impl View {
    fn new(band: &Band) -> Self {
        let preview = band.action.chain().find_map(|each| match each {
            Action::Spill(spill, _) => Some(spill.preview_chars),
            _ => None,
        });
        let truncate = band.action.chain().find_map(|each| match each {
            Action::Truncate(truncate, _) => Some(truncate.clone()),
            _ => None,
        });
        Self {
            band: band.clone(),
            excerpter: Excerpter::new(preview.unwrap_or(Spill::PREVIEW_CHARS)),
            head_tail: HeadTail::new(truncate.unwrap_or_default()),
        }
    }
}

impl Eye {
    fn new(policy: &Policy, largest: &Band, kind: Kind, aside: Option<Aside>) -> Self {
        Self {
            unit: policy.unit.clone(),
            kind,
            stripper: (policy.strip_ansi && kind == Kind::Text).then(Stripper::default),
            largest: View::new(largest),
            aside,
            chars: 0,
            tokens: 0,
        }
    }

    fn views(&self) -> impl Iterator<Item = &View> {
        self.aside.iter().flat_map(|aside| &aside.lesser).chain([&self.largest])
    }

    /// Whether what is held aside is needed no longer: the stream is in the largest band.
    fn has_outgrown(&self) -> bool {
        let measured = match self.unit {
            Unit::Characters => self.chars,
            Unit::EstimatedTokens => estimate_tokens(self.chars),
            Unit::Tokens(_) => self.tokens,
        };
        self.aside.is_some() && missing(&self.largest.band, measured, self.chars) == 0
    }

    /// Sees a piece, before its lines. What is shown as it came need not be gone through line by
    /// line.
    fn piece(&mut self, piece: &[u8]) {
        if self.stripper.is_none() {
            self.largest.head_tail.push(piece);
        }
    }

    fn line(&mut self, line: Line<'_>) {
        let stripped = self.stripper.as_mut().map(|stripper| stripper.strip(line.bytes));
        let bytes = stripped.as_deref().unwrap_or(line.bytes);
        self.largest.excerpter.line(Line { bytes, ..line });
        for view in self.aside.iter_mut().flat_map(|aside| &mut aside.lesser) {
            view.excerpter.line(Line { bytes, ..line });
        }
        if let Unit::Tokens(_) = self.unit {
            self.tokens += self.unit.of_bytes(bytes);
        }
        if let Some(stripped) = stripped {
            self.show(&stripped);
        }
    }

    /// Takes in what the stripper left.
    fn show(&mut self, bytes: &[u8]) {
        self.chars += count_chars(bytes);
        self.largest.head_tail.push(bytes);
        if let Some(Aside { visible, lesser }) = &mut self.aside {
            visible.extend_from_slice(bytes);
            lesser.iter_mut().for_each(|view| view.head_tail.push(bytes));
        }
    }

    /// What was seen, ready for its band; none where it is smaller than all of them.
    fn specimen(
        mut self,
        surveyed: Surveyed,
        rest: Result<Deposit, StoreError>,
    ) -> (Option<Band>, Specimen) {
        match self.stripper.take() {
            Some(stripper) => self.show(&stripper.finish()),
            None => self.chars = surveyed.chars,
        }
        let measured = match (&self.unit, &self.aside) {
            (unit, Some(aside)) => unit.of_bytes(&aside.visible),
            (Unit::Characters, None) => self.chars,
            (Unit::EstimatedTokens, None) => estimate_tokens(self.chars),
            (Unit::Tokens(_), None) => self.tokens,
        };
        let size = Size { bytes: surveyed.bytes, chars: self.chars, measured };
        let (mut views, visible) = match self.aside {
            Some(Aside { visible, lesser }) => (lesser, Some(visible)),
            None => (Vec::new(), None),
        };
        views.push(self.largest);
        let fits = |view: &View| visible.is_none() || view.band.over <= measured;
        let fitting = views.iter().rposition(fits);
        let View { band, excerpter, head_tail } = views.swap_remove(fitting.unwrap_or(0));
        let cut = match head_tail.finish(&not_stored) {
            Held::Whole(text) => text,
            Held::Cut(cut) => cut.text,
        };
        let excerpt = excerpter.finish();
        let streamed = Streamed { surveyed, rest, excerpt, cut, visible };
        (fitting.map(|_| band), Specimen::streamed(self.kind, size, streamed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::Truncate;
    use crate::limits::ToolOutputLimits;
    use crate::store::memory::Memory;

    /// How much of a stream is in memory.
    fn held(stream: &ReturnStream) -> usize {
        match &stream.state {
            State::Passing(_) => 0,
            State::Holding { held, .. } => held.len(),
            State::Big(big) => big.eye.aside.as_ref().map_or(0, |aside| aside.visible.len()),
        }
    }

    #[test]
    fn control_sequences_without_end_are_not_held() {
        let spill = Action::from(Spill::default());
        let cut = Action::from(Truncate::default());
        for action in [spill, cut, Action::Passthrough] {
            let limits = ToolOutputLimits::builder()
                .store(Arc::new(Memory::default()))
                .strip_ansi(true)
                .bands([Band::new(10_000, action)])
                .build()
                .unwrap();
            let mut stream = limits.stream(&ToolCall::new("run", "call", "bash"));
            let piece = Bytes::from("\u{1b}[2J\u{1b}[1;1H\u{1b}[32m".repeat(4_096) + "tick\n");
            futures_lite::future::block_on(async {
                let mut most = 0;
                for _ in 0..100 {
                    assert_eq!(stream.push(piece.clone()).await, None);
                    most = most.max(held(&stream));
                }
                assert!(matches!(stream.state, State::Big(_)));
                assert!(held(&stream) <= 100 * 5, "what is shown, and the rest is stored");
                assert!(most < 3 * HELD_STRIPPED_BYTES, "{most}");
            });
        }
    }
}
