//! What the reference implementation returns for the same inputs: recorded vectors, and the list
//! of cases in which this library differs on purpose.

mod bands;
mod differences;
mod read;
mod text;
mod truncate;
mod window;

use std::fmt::Debug;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use differences::Difference;

/// A file of vectors; `None`, said aloud, where the vectors are not at hand.
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
fn vectors<V: DeserializeOwned>(name: &str) -> Option<Vec<V>> {
    #[derive(Deserialize)]
    struct File<V> {
        count: usize,
        vectors: Vec<V>,
    }

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden").join(name);
    let Ok(json) = std::fs::read(&path) else {
        println!("skipped: {} is not here", path.display());
        return None;
    };
    let file: File<V> = serde_json::from_slice(&json).expect("a file of vectors");
    assert_eq!(file.vectors.len(), file.count);
    Some(file.vectors)
}

/// An input, as the vectors spell long texts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Text {
    Lit(String),
    Rep(String, usize),
    Cat(Vec<Spec>),
    /// Prefix and suffix of each number below the third, and what stands between.
    Seq(String, String, usize, String),
    CjkSeq(u32),
}

/// A text with the facts that some vectors add.
#[derive(Debug, Deserialize)]
struct Spec {
    #[serde(flatten)]
    text: Text,
    chars: Option<usize>,
}

impl Spec {
    fn build(&self) -> String {
        let built = match &self.text {
            Text::Lit(text) => text.clone(),
            Text::Rep(unit, times) => unit.repeat(*times),
            Text::Cat(specs) => specs.iter().map(Self::build).collect(),
            Text::Seq(prefix, suffix, count, separator) => (0..*count)
                .map(|i| format!("{prefix}{i}{suffix}"))
                .collect::<Vec<_>>()
                .join(separator),
            Text::CjkSeq(count) => (0..*count)
                .map(|i| char::from_u32(0x4e00 + i % 5_000).expect("a CJK ideograph"))
                .collect(),
        };
        if let Some(chars) = self.chars {
            assert_eq!(built.chars().count(), chars);
        }
        built
    }
}

/// An output: as it is, or for a long one its size and its ends.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Output {
    Whole { lit: String },
    Ends { chars: usize, bytes: usize, head: String, tail: String },
}

impl Output {
    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Whole { lit } => lit == text,
            Self::Ends { chars, bytes, head, tail } => {
                text.chars().count() == *chars
                    && text.len() == *bytes
                    && text.starts_with(head)
                    && text.ends_with(tail)
            }
        }
    }
}

/// Compares case by case, and the cases that differ with those that are listed.
struct Comparison {
    listed: &'static [Difference],
    differing: Vec<String>,
    unexpected: Vec<String>,
}

impl Comparison {
    fn with(listed: &'static [Difference]) -> Self {
        Self { listed, differing: Vec::new(), unexpected: Vec::new() }
    }

    /// Notes whether a case came out the same.
    fn case(&mut self, id: &str, same: bool, expected: &dyn Debug, ours: &dyn Debug) {
        if same {
            return;
        }
        self.differing.push(id.to_owned());
        if !self.is_listed(id) {
            self.unexpected.push(format!("{id}\n  expected {expected:?}\n  got      {ours:?}"));
        }
    }

    /// Notes whether a text came out the same.
    fn text(&mut self, id: &str, expected: &Output, ours: &str) {
        self.case(id, expected.matches(ours), expected, &ours);
    }

    fn is_listed(&self, id: &str) -> bool {
        self.listed.iter().any(|difference| difference.cases.contains(&id))
    }

    /// Fails when a case differs that is not listed, or a listed one does not differ.
    fn finish(self) {
        assert!(self.unexpected.is_empty(), "{}", self.unexpected.join("\n"));
        for difference in self.listed {
            for case in difference.cases {
                assert!(
                    self.differing.iter().any(|id| id == case),
                    "{case} is listed as a difference ({}) but does not differ",
                    difference.reason
                );
            }
        }
    }
}
