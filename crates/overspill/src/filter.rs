//! Which tools does a policy apply to, and which bands does each of them have?

use std::fmt;
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use serde::ser::{Serialize, SerializeMap, Serializer};
use thiserror::Error;

use crate::band::Bands;

/// The longest name or glob. Providers allow tool names of 64 characters, MCP of 128; the bound
/// also keeps the nesting of a glob shallow.
const MAX_PATTERN_CHARS: usize = 200;

/// The tools a policy applies to; all of them by default.
///
/// Globs know `*`, `?`, `[…]` and `{…,…}`; they match the whole name, and upper and lower case
/// differ. A tool whose own name looks like a glob is matched by that name too.
///
/// ```
/// use overspill::filter::ToolFilter;
///
/// let filter = ToolFilter::only(["bash", "mcp__*"])?;
/// assert!(filter.applies_to("mcp__files__read"));
/// assert!(!filter.applies_to("ask_user"));
/// # Ok::<(), overspill::filter::PatternError>(())
/// ```
#[derive(Clone, Default)]
pub struct ToolFilter(Rule);

#[derive(Clone, Default)]
enum Rule {
    #[default]
    All,
    Only(Vec<Pattern>),
    Except(Vec<Pattern>),
    Where(Arc<dyn Fn(&str) -> bool + Send + Sync>),
}

/// Bands of single tools: each list replaces the policy's own for the tools it names.
#[derive(Debug, Clone, Default)]
pub struct ToolBands(Vec<(Pattern, Bands)>);

/// Why names or globs of tools were refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PatternError {
    /// There is no name or glob, so no tool could ever match.
    #[error("no tool is named")]
    NoPattern,
    /// A text that is neither a tool's name nor a glob.
    #[error("{pattern:?} is no name or glob of a tool: {reason}")]
    BadPattern {
        /// The text, as it was given.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The same name or glob stands twice, so the second could never be chosen.
    #[error("{pattern:?} stands twice")]
    SamePattern {
        /// The text that stands twice.
        pattern: String,
    },
}

impl ToolFilter {
    /// Every tool.
    pub fn all() -> Self {
        Self::default()
    }

    /// The tools with these names or globs, and no others.
    ///
    /// # Errors
    ///
    /// [`PatternError`], for the first pattern that is refused, and for an empty list: a policy
    /// that applies to no tool is better switched off.
    pub fn only(patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, PatternError> {
        Ok(Self(Rule::Only(compile(patterns)?)))
    }

    /// Every tool but those with these names or globs.
    ///
    /// # Errors
    ///
    /// [`PatternError`], as for [`ToolFilter::only`]; a list that excepts nothing is
    /// [`ToolFilter::all`].
    pub fn except(
        patterns: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, PatternError> {
        Ok(Self(Rule::Except(compile(patterns)?)))
    }

    /// The tools for whose name `predicate` is true. It must depend on the name alone: the same
    /// return has to give the same bytes each time.
    pub fn matching(predicate: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Rule::Where(Arc::new(predicate)))
    }

    /// Whether the policy applies to the tool of this name.
    pub fn applies_to(&self, tool: &str) -> bool {
        match &self.0 {
            Rule::All => true,
            Rule::Only(patterns) => patterns.iter().any(|pattern| pattern.matches(tool)),
            Rule::Except(patterns) => !patterns.iter().any(|pattern| pattern.matches(tool)),
            Rule::Where(predicate) => predicate(tool),
        }
    }
}

impl ToolBands {
    /// Takes bands under names or globs; the first entry that matches a tool is the tool's.
    ///
    /// # Errors
    ///
    /// [`PatternError`], for the first pattern that is refused, and for one that stands twice.
    pub fn new(
        entries: impl IntoIterator<Item = (impl AsRef<str>, Bands)>,
    ) -> Result<Self, PatternError> {
        let mut taken: Vec<(Pattern, Bands)> = Vec::new();
        for (pattern, bands) in entries {
            let pattern = Pattern::new(pattern.as_ref())?;
            if taken.iter().any(|(earlier, _)| earlier.text == pattern.text) {
                return Err(PatternError::SamePattern { pattern: pattern.text });
            }
            taken.push((pattern, bands));
        }
        Ok(Self(taken))
    }

    /// The bands that replace the policy's own for this tool, if any do.
    pub fn for_tool(&self, tool: &str) -> Option<&Bands> {
        self.0.iter().find(|(pattern, _)| pattern.matches(tool)).map(|(_, bands)| bands)
    }

    /// Each name or glob with its bands, in the order they are tried.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Bands)> {
        self.0.iter().map(|(pattern, bands)| (pattern.text.as_str(), bands))
    }
}

impl fmt::Debug for ToolFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Rule::All => f.write_str("All"),
            Rule::Only(patterns) => f.debug_tuple("Only").field(patterns).finish(),
            Rule::Except(patterns) => f.debug_tuple("Except").field(patterns).finish(),
            Rule::Where(_) => f.write_str("Where(predicate)"),
        }
    }
}

/// Writes the filter as the `[tools]` table of the configuration file has it: `{"only": […]}`,
/// `{"except": […]}`, or an empty map for all tools. A predicate, which no file can hold, is
/// `{"predicate": true}`.
impl Serialize for ToolFilter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let texts = |patterns: &[Pattern]| -> Vec<String> {
            patterns.iter().map(|pattern| pattern.text.clone()).collect()
        };
        let mut map = serializer.serialize_map(None)?;
        match &self.0 {
            Rule::All => {}
            Rule::Only(patterns) => map.serialize_entry("only", &texts(patterns))?,
            Rule::Except(patterns) => map.serialize_entry("except", &texts(patterns))?,
            Rule::Where(_) => map.serialize_entry("predicate", &true)?,
        }
        map.end()
    }
}

/// A tool's name or a glob over names.
#[derive(Clone)]
pub(crate) struct Pattern {
    text: String,
    glob: GlobMatcher,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Result<Self, PatternError> {
        let refuse =
            |reason: String| Err(PatternError::BadPattern { pattern: shorten(text), reason });
        if text.is_empty() {
            return refuse("it is empty".into());
        }
        if text.chars().count() > MAX_PATTERN_CHARS {
            return refuse(format!("it is longer than {MAX_PATTERN_CHARS} characters"));
        }
        if text.chars().any(char::is_control) {
            return refuse("it holds a control character".into());
        }
        // The escape is fixed because globset's own default differs from one system to another.
        match GlobBuilder::new(text).backslash_escape(true).build() {
            Ok(glob) => Ok(Self { text: text.to_owned(), glob: glob.compile_matcher() }),
            Err(error) => refuse(error.kind().to_string()),
        }
    }

    /// Whether the pattern is one name rather than a glob over several.
    pub(crate) fn is_name(&self) -> bool {
        !self.text.contains(['*', '?', '[', '{', '\\'])
    }

    fn matches(&self, tool: &str) -> bool {
        self.text == tool || self.glob.is_match(tool)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

fn compile(
    patterns: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<Vec<Pattern>, PatternError> {
    let patterns: Vec<Pattern> =
        patterns.into_iter().map(|text| Pattern::new(text.as_ref())).collect::<Result<_, _>>()?;
    if patterns.is_empty() { Err(PatternError::NoPattern) } else { Ok(patterns) }
}

/// The beginning of a text that is too long to be repeated in an error.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_PATTERN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::action::Action;
    use crate::band::Band;

    #[test]
    fn all_tools_by_default() {
        assert!(ToolFilter::default().applies_to("bash"));
        assert!(ToolFilter::all().applies_to(""));
    }

    #[test]
    fn only_and_except_are_each_others_opposite() {
        let names = ["bash", "mcp__*", "read_{file,dir}", "grep?"];
        let only = ToolFilter::only(names).unwrap();
        let except = ToolFilter::except(names).unwrap();
        for (tool, named) in [
            ("bash", true),
            ("Bash", false),
            ("bash2", false),
            ("mcp__", true),
            ("mcp__files/read.all", true),
            ("my_mcp__x", false),
            ("read_file", true),
            ("read_url", false),
            ("grep2", true),
            ("grep", false),
            ("", false),
        ] {
            assert_eq!(only.applies_to(tool), named, "only: {tool}");
            assert_eq!(except.applies_to(tool), !named, "except: {tool}");
        }
    }

    #[test]
    fn a_predicate_decides_by_name() {
        let filter = ToolFilter::matching(|tool| tool.len() > 4);
        assert!(filter.clone().applies_to("shell"));
        assert!(!filter.applies_to("bash"));
        assert_eq!(format!("{filter:?}"), "Where(predicate)");
    }

    #[test]
    fn a_name_that_looks_like_a_glob_matches_itself() {
        let filter = ToolFilter::only(["list[1]"]).unwrap();
        assert!(filter.applies_to("list[1]"));
        assert!(filter.applies_to("list1"));
    }

    #[test]
    fn errors_name_the_bad_pattern() {
        let error = |pattern: &str| ToolFilter::only(["ok", pattern]).unwrap_err().to_string();
        insta::assert_snapshot!(error("mcp__["), @r#""mcp__[" is no name or glob of a tool: unclosed character class; missing ']'"#);
        insta::assert_snapshot!(error("a{b"), @r#""a{b" is no name or glob of a tool: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)"#);
        insta::assert_snapshot!(error(""), @r#""" is no name or glob of a tool: it is empty"#);
        insta::assert_snapshot!(error("a\nb"), @r#""a\nb" is no name or glob of a tool: it holds a control character"#);
        assert!(error(&"{".repeat(100_000)).ends_with("longer than 200 characters"));
        let none: [&str; 0] = [];
        assert_eq!(ToolFilter::only(none).unwrap_err(), PatternError::NoPattern);
    }

    #[test]
    fn the_first_entry_that_matches_gives_the_bands() {
        let bands = |over| Bands::new([Band::new(over, Action::Passthrough)]).unwrap();
        let per_tool =
            ToolBands::new([("bash", bands(1)), ("b*", bands(2)), ("*sh", bands(3))]).unwrap();
        let over = |tool| per_tool.for_tool(tool).map(|bands| bands.largest().unwrap().over);
        assert_eq!(over("bash"), Some(1));
        assert_eq!(over("bosh"), Some(2));
        assert_eq!(over("zsh"), Some(3));
        assert_eq!(over("grep"), None);
    }

    #[test]
    fn an_entry_that_stands_twice_is_refused() {
        let twice = ToolBands::new([("bash", Bands::default()), ("bash", Bands::default())]);
        assert_eq!(twice.unwrap_err().to_string(), r#""bash" stands twice"#);
    }

    proptest! {
        #[test]
        fn no_pattern_panics(pattern in r"[\[\]{}*?!,^\\a-cé/-]{0,40}", tool in r"[a-cé/\[\]{}]{0,8}") {
            if let Ok(filter) = ToolFilter::only([&pattern]) {
                filter.applies_to(&tool);
                prop_assert!(filter.applies_to(&pattern));
            }
        }
    }
}
