//! The text that stands where something was stored; made only from a receipt.

use crate::measure::{counted, grouped};
use crate::store::{Handle, Receipt};

/// How the reader of a marker reaches what is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadVia {
    /// Through the read tool, under the name the host registered it with.
    Tool(String),
    /// Through the command line: `overspill read HANDLE`.
    Command,
}

impl ReadVia {
    /// How to say "read this part of it" in the host's own way.
    fn instruction(&self, handle: &Handle) -> String {
        match self {
            Self::Tool(name) => format!(
                "{handle}; read any part with {name}(handle, offset=LINE or pattern=\"TEXT\")"
            ),
            Self::Command => format!(
                "{handle}; read any part with `overspill read HANDLE --offset LINE` or `--pattern TEXT`"
            ),
        }
    }
}

/// What of the payload stands below a marker, or around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Below {
    /// Nothing of the payload.
    Nothing,
    /// Nothing, and it is not said how to read it: where many markers stand in one history, the
    /// read tool's own description says so once.
    Bare,
    /// Verbatim lines of it.
    Excerpt {
        /// How many of its lines are shown whole.
        lines: u64,
    },
    /// Its end, verbatim; its beginning stands above.
    Ends {
        /// How many characters between the two are left out.
        left_out: u64,
    },
    /// What a model wrote about it.
    Summary,
}

/// Says what is stored, how big it is, and how to read it.
///
/// The size is the one the policy measured, in the policy's unit, so that the marker and the
/// threshold that was crossed speak of the same number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker(String);

/// What every marker opens with; [`Marker::handles`] finds it again.
pub(crate) const OPENING: &str = "[overspill: ";

/// What stands right before a marker's handle.
const BEFORE_HANDLE: &str = "stored as ";

impl Marker {
    /// The marker of a stored payload, measured as `measured` of `unit` (a plural).
    pub fn new(
        receipt: &Receipt,
        measured: u64,
        unit: &str,
        exit_status: Option<i32>,
        below: Below,
        via: &ReadVia,
    ) -> Self {
        let mut text = String::from(OPENING);
        if let Some(status) = exit_status {
            text.push_str(&format!("exit status {status}; "));
        }
        text.push_str(&format!("{} {unit}", grouped(measured)));
        if receipt.media_type == "application/octet-stream" {
            text.push_str(&format!(" ({} bytes, binary)", grouped(receipt.bytes)));
        }
        text.push_str(&format!(", {}, ", counted(receipt.lines, "line")));
        text.push_str(BEFORE_HANDLE);
        match below {
            Below::Bare => text.push_str(receipt.handle.as_str()),
            _ => text.push_str(&via.instruction(&receipt.handle)),
        }
        match below {
            Below::Bare => text.push(']'),
            Below::Nothing => text.push_str(". Nothing of it is shown]"),
            Below::Excerpt { lines: 0 } => text.push_str(". Excerpt:]"),
            Below::Excerpt { lines } => {
                text.push_str(&format!(". Excerpt ({}):]", counted(lines, "line")));
            }
            Below::Ends { left_out } => {
                text.push_str(&format!(
                    ". {} characters of it are left out here]",
                    grouped(left_out)
                ));
            }
            Below::Summary => text.push_str(". A model's summary of it:]"),
        }
        Self(text)
    }

    /// The marker's text, on one line.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The handles that the markers in `text` show, in their order.
    ///
    /// A tool can print a text that looks like a marker, so a handle found here is a claim, not
    /// a receipt.
    pub fn handles(text: &str) -> impl Iterator<Item = Handle> + '_ {
        // A marker ends where the next opens, so that each part of the text is looked at once.
        text.split(OPENING).skip(1).filter_map(|marker| {
            let (_, behind) = marker.lines().next()?.split_once(BEFORE_HANDLE)?;
            behind.split([';', ']']).next()?.parse().ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::ToolCall;
    use crate::store::{Digest, PartName};

    fn receipt() -> Receipt {
        let digest = Digest::of(b"x");
        Receipt {
            handle: Handle::new(
                &ToolCall::new("run-1", "call_7", "bash"),
                PartName::Value(0),
                &digest,
            ),
            bytes: 168_300,
            chars: 168_234,
            lines: 2_310,
            digest,
            media_type: "text/plain".into(),
            tool: "bash".into(),
        }
    }

    #[test]
    fn a_marker_says_how_much_where_and_how_to_read_it() {
        let via = ReadVia::Tool("read_tool_result".into());
        let marker = Marker::new(
            &receipt(),
            168_234,
            "characters",
            Some(101),
            Below::Excerpt { lines: 24 },
            &via,
        );
        assert_eq!(
            marker.as_str(),
            format!(
                "[overspill: exit status 101; 168,234 characters, 2,310 lines, stored as {}; read \
                 any part with read_tool_result(handle, offset=LINE or pattern=\"TEXT\"). Excerpt \
                 (24 lines):]",
                receipt().handle
            )
        );
    }

    #[test]
    fn a_marker_parses_back_to_the_handle_it_shows() {
        let receipt = receipt();
        for via in [ReadVia::Tool("mcp__x__read".into()), ReadVia::Command] {
            let ends = Below::Ends { left_out: 9 };
            for below in
                [Below::Nothing, Below::Bare, Below::Excerpt { lines: 1 }, ends, Below::Summary]
            {
                let marker = Marker::new(&receipt, 42_000, "tokens", None, below, &via);
                let text = format!("before\n{}\nafter", marker.as_str());
                assert_eq!(
                    Marker::handles(&text).collect::<Vec<_>>(),
                    std::slice::from_ref(&receipt.handle)
                );
            }
        }
    }

    #[test]
    fn what_only_looks_like_a_marker_is_passed_over() {
        for text in ["", "[overspill: ", "[overspill: x, stored as ../../etc/passwd; read"] {
            assert_eq!(Marker::handles(text).count(), 0, "{text}");
        }
    }

    #[test]
    fn what_only_opens_like_a_marker_hides_none_behind_it() {
        let receipt = receipt();
        let marker = Marker::new(&receipt, 1, "tokens", None, Below::Nothing, &ReadVia::Command);
        for before in ["[overspill: ", "[overspill: 7 lines, stored as ", "[overspill: stored as x"]
        {
            let text = format!("{before}{}", marker.as_str());
            assert_eq!(
                Marker::handles(&text).collect::<Vec<_>>(),
                std::slice::from_ref(&receipt.handle)
            );
        }
    }

    #[test]
    fn hostile_text_takes_linear_time() {
        // Looking through the whole line from each opening on would take minutes.
        let text = OPENING.repeat(1 << 20) + BEFORE_HANDLE;
        assert_eq!(Marker::handles(&text).count(), 0);
    }
}
