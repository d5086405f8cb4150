//! What is wrong with a configuration file: every problem with its key, its line and its mend.

use std::fmt;

/// Why a configuration file was refused: all its problems, in the order of their lines.
///
/// Displayed, each problem takes a line that starts with the file and the line, and its mend
/// takes the next:
///
/// ```text
/// overspill.toml:7: unknown key "preveiw_chars" in [[bands]]
/// hint: did you mean "preview_chars"?
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, as the caller called it.
    pub file: String,
    /// What is wrong; never empty.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// The line it stands on, from 1.
    pub line: usize,
    /// The full key, such as `bands[0].then.max_chars`, counted from 0; empty where the text is
    /// not TOML.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Problem { line, message, hint, .. }) in self.problems.iter().enumerate() {
            let line_end = if i == 0 { "" } else { "\n" };
            write!(f, "{line_end}{}:{line}: {message}\nhint: {hint}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// A hint that names the choice the writer probably meant, or else all of them.
pub(super) fn did_you_mean(said: &str, choices: &[&str], all: &str) -> String {
    match nearest(said, choices) {
        Some(choice) => format!("did you mean \"{choice}\"?"),
        None => format!("{all} {}", list(choices)),
    }
}

/// `"a", "b", "c"`.
pub(super) fn list(choices: &[&str]) -> String {
    choices.iter().map(|choice| quoted(choice)).collect::<Vec<_>>().join(", ")
}

/// A text from the file as an error repeats it: on one line, escaped, and not endlessly long.
pub(super) fn quoted(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{:?}", format!("{}…", &text[..end])),
        None => format!("{text:?}"),
    }
}

/// The choice that `said` is a slip of the keyboard away from, or a part of.
fn nearest<'a>(said: &str, choices: &[&'a str]) -> Option<&'a str> {
    let said = said.to_lowercase().replace(['-', ' '], "_");
    let slips = |choice: &str| {
        // A third of the letters wrong is no slip any more. The lengths alone often say so, and
        // spare the comparison with a text of any length.
        let most = choice.len().div_ceil(3);
        if said.len().abs_diff(choice.len()) > most { usize::MAX } else { distance(&said, choice) }
    };
    let (least, best) = choices.iter().map(|choice| (slips(choice), *choice)).min()?;
    if least <= best.len().div_ceil(3) {
        return Some(best);
    }
    choices.iter().copied().find(|choice| said.len() >= 4 && choice.contains(&said))
}

/// How many letters to insert, delete, replace or swap with their neighbour turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_the_word_that_was_meant() {
        let keys = ["over", "action", "preview_chars", "max_chars", "keep", "keep_tail_lines"];
        for (said, meant) in [
            ("preveiw_chars", Some("preview_chars")),
            ("preview-chars", Some("preview_chars")),
            ("Max Chars", Some("max_chars")),
            ("ovr", Some("over")),
            ("tail_lines", Some("keep_tail_lines")),
            ("actoin", Some("action")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(said, &keys), meant, "{said}");
        }
        assert_eq!(nearest(&"x".repeat(1_000_000), &keys), None);
        assert_eq!(nearest("x", &[]), None);
    }

    #[test]
    fn a_swap_is_one_slip() {
        assert_eq!(distance("preveiw", "preview"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn a_text_is_repeated_on_one_line() {
        assert_eq!(quoted("a\nb"), r#""a\nb""#);
        assert_eq!(quoted(&"é".repeat(100)).chars().count(), 63);
    }
}
