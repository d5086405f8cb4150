//! What checks are made of: choices that follow from the input, and long texts from short ones.

/// The longest text that [`text`] writes.
pub(crate) const MAX_TEXT: usize = 256 * 1024;

/// Numbers that look random and depend on the input alone, so that every finding comes again.
#[derive(Debug, Clone)]
pub(crate) struct Choices(u64);

impl Choices {
    /// The choices for this input.
    pub(crate) fn of(data: &[u8]) -> Self {
        // FNV-1a.
        let hash = data.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(hash | 1)
    }

    /// A number below `end`, or 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        // xorshift64*.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        (number % end.max(1) as u64) as usize
    }

    /// One of `all`.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Cuts `text` into pieces: very short ones, long ones, or a mixture.
    pub(crate) fn pieces<'a>(&mut self, text: &'a [u8]) -> Vec<&'a [u8]> {
        let longest = self.one_of(&[1, 7, 300, 9_000, 200_000]);
        // Pieces of a byte or two of a long text would take all the time.
        let longest = longest.max(text.len() / 2_000);
        let mut pieces = vec![];
        let mut rest = text;
        while !rest.is_empty() {
            let longest = if self.below(4) == 0 { 3 } else { longest };
            let (piece, behind) = rest.split_at(rest.len().min(1 + self.below(longest)));
            pieces.push(piece);
            rest = behind;
        }
        pieces
    }
}

/// The text that an input stands for.
///
/// That is the input itself, but behind a first `#` it is read as a program: a fuzzer finds few
/// of the texts in which things are repeated a thousand times. Each step is two bytes: which
/// token, and how often; or a run of bytes as they are.
pub(crate) fn text(data: &[u8], tokens: &[&[u8]]) -> Vec<u8> {
    let Some(program) = data.strip_prefix(b"#") else {
        return data[..data.len().min(MAX_TEXT)].to_vec();
    };
    let mut text = vec![];
    let mut rest = program;
    while let [step, times, behind @ ..] = rest {
        rest = behind;
        if *step >= 0xf0 {
            let (verbatim, behind) = rest.split_at(rest.len().min(usize::from(*times)));
            text.extend_from_slice(verbatim);
            rest = behind;
        } else {
            let token = tokens[usize::from(*step) % tokens.len()];
            let times = match usize::from(*times) {
                few @ 0..128 => 1 + few % 4,
                some @ 128..224 => (some - 127) * 11,
                // Around the length of a line.
                many => 1_990 + (many - 224),
            };
            let times = times.min((MAX_TEXT - text.len().min(MAX_TEXT)) / token.len());
            text.extend(token.repeat(times));
        }
        if text.len() >= MAX_TEXT {
            break;
        }
    }
    text.truncate(MAX_TEXT);
    text
}
