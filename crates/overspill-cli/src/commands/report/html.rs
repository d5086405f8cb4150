//! What of a recording may stand in a page: text and nothing but text.

use std::fmt::{self, Display, Write};

/// Text that means nothing to a browser, wherever in an element or a quoted attribute it stands.
///
/// Characters that would move what stands around them (controls, and those that turn the direction
/// of writing) are shown as the replacement character.
pub(super) struct Text<'a>(pub(super) &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\r' | '\t' => f.write_char(' ')?,
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => f.write_char('\u{fffd}')?,
                c if c.is_control() => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// At most so many characters, the last of them three dots where something was left out.
pub(super) fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some(_) => text.chars().take(chars.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// The end of a text, where what tells paths apart stands.
pub(super) fn tail(text: &str, chars: usize) -> String {
    let count = text.chars().count();
    match count > chars {
        false => text.to_owned(),
        true => ['…'].into_iter().chain(text.chars().skip(count - chars + 1)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_only_text() {
        let hostile = "</td><script>alert('1')</script>\" onload=\"x&\u{1b}[2J\u{202e}";
        assert_eq!(
            Text(hostile).to_string(),
            "&lt;/td&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot; onload=&quot;x&amp;\
             \u{fffd}[2J\u{fffd}"
        );
    }

    #[test]
    fn long_text_keeps_its_beginning_and_long_paths_their_end() {
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("äbcdefg", 6), "äbcde…");
        assert_eq!(tail("abcdefg", 6), "…cdefg");
        assert_eq!(tail("abc", 6), "abc");
    }
}
