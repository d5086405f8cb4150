//! Messages of our own in a history, and the mark by which they are known again.

/// A message that an edit put into the history.
///
/// It stands as a user's text between two marks, so that a later pass finds it whatever its words
/// are, in every format and after any number of round trips.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Note {
    /// A model's summary of what was dropped.
    Summary,
    /// What was dropped, and the handle under which it is stored.
    Receipt,
    /// Says that a limit is near.
    Warning,
}

impl Note {
    const ALL: [Self; 3] = [Self::Summary, Self::Receipt, Self::Warning];

    /// The note's text with `body` between its marks.
    ///
    /// ```
    /// use overspill::entry::Note;
    ///
    /// let text = Note::Warning.wrap("Two requests are left.");
    /// assert_eq!(Note::of(&text), Some(Note::Warning));
    /// assert_eq!(Note::Warning.body(&text), Some("Two requests are left."));
    /// ```
    pub fn wrap(self, body: &str) -> String {
        let name = self.name();
        format!("<overspill-{name}>\n{body}\n</overspill-{name}>")
    }

    /// Which note a text is, if it is one.
    pub fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|note| note.body(text).is_some())
    }

    /// What stands between this note's marks in `text`.
    pub fn body(self, text: &str) -> Option<&str> {
        let name = self.name();
        text.strip_prefix("<overspill-")?
            .strip_prefix(name)?
            .strip_prefix(">\n")?
            .strip_suffix(">")?
            .strip_suffix(name)?
            .strip_suffix("\n</overspill-")
    }

    fn name(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::Receipt => "receipt",
            Self::Warning => "warning",
        }
    }
}
