//! The events of a stream, as servers over HTTP send them: of any length.
//!
//! A reader that holds a whole event takes several times its size; what is too long to hold goes to
//! disk here, as lines do.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use crate::lines::{self, Ends, Line};

/// An event; what it does not say is `None`.
#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) data: Option<Line>,
    pub(crate) id: Option<String>,
    /// Milliseconds to wait before the stream is opened again.
    pub(crate) retry: Option<u64>,
    /// Whether the stream ended before its empty line.
    pub(crate) is_cut: bool,
}

/// Reads events.
#[derive(Debug)]
pub(crate) struct Events<R> {
    reader: R,
    /// A carriage return has ended a line; a newline right behind it is of the same end.
    skips_newline: bool,
}

impl<R: AsyncBufRead + Unpin> Events<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, skips_newline: false }
    }

    /// The next event; `None` where the stream ends. One that the end leaves without its empty line is
    /// given, too: whether it is complete is seen in what it holds.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Event>> {
        let mut event = Event::default();
        let mut is_any = false;
        loop {
            let Some((field, value)) = self.field().await? else {
                event.is_cut = true;
                break;
            };
            match (field.as_slice(), value) {
                (b"", None) if is_any => break,
                (b"data", value) => {
                    let value = value.unwrap_or(Line::Whole(String::new()));
                    event.data = Some(match event.data.take() {
                        None => value,
                        Some(held) => joined(held, value)?,
                    });
                }
                // An id with a NUL is none.
                (b"id", Some(Line::Whole(id))) if !id.contains('\0') => event.id = Some(id),
                (b"retry", Some(Line::Whole(wait))) => event.retry = wait.parse().ok(),
                // A comment, or a field that nobody knows.
                _ => continue,
            }
            is_any = true;
        }
        Ok(is_any.then_some(event))
    }

    /// The name of the next line's field, and its value, if it has any.
    async fn field(&mut self) -> io::Result<Option<(Vec<u8>, Option<Line>)>> {
        let mut name = Vec::new();
        loop {
            let held = self.reader.fill_buf().await?;
            if held.is_empty() {
                return Ok((!name.is_empty()).then_some((name, None)));
            }
            if std::mem::take(&mut self.skips_newline) && held[0] == b'\n' {
                self.reader.consume(1);
                continue;
            }
            let Some(end) = memchr::memchr3(b':', b'\n', b'\r', held) else {
                let used = held.len();
                name.extend_from_slice(held);
                self.reader.consume(used);
                continue;
            };
            name.extend_from_slice(&held[..end]);
            let by = held[end];
            self.reader.consume(end + 1);
            if by != b':' {
                self.skips_newline = by == b'\r';
                return Ok(Some((name, None)));
            }
            // Some put a mark of the encoding before the first line.
            let name = name.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&name).to_vec();
            if self.reader.fill_buf().await?.first() == Some(&b' ') {
                self.reader.consume(1);
            }
            let value = lines::read_to(&mut self.reader, Ends::Either).await?;
            self.skips_newline = matches!(value, Some((_, Some(b'\r'))));
            return Ok(Some((name, value.map(|(line, _)| line))));
        }
    }
}

/// The data of an event that is spread over lines. Which strings are on disk is told by one line
/// only, so of several all is held.
fn joined(held: Line, more: Line) -> io::Result<Line> {
    let whole = |line: Line| {
        Ok::<_, io::Error>(match line {
            Line::Whole(line) => Ok(line),
            Line::Long(skeleton, long) => Ok(long.whole(&skeleton)?),
            wrong @ Line::NotText(_) => Err(wrong),
        })
    };
    Ok(match (whole(held)?, whole(more)?) {
        (Ok(mut held), Ok(more)) => {
            held.push('\n');
            held.push_str(&more);
            Line::Whole(held)
        }
        (Err(wrong), _) | (_, Err(wrong)) => wrong,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::BufReader;

    use super::*;
    use crate::json::quote;
    use crate::long::LONG;

    /// The events of a stream that comes in pieces: data, id and retry.
    fn read(stream: &[u8], piece: usize) -> Vec<(Option<String>, Option<String>, Option<u64>)> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut events = Events::new(BufReader::with_capacity(piece, stream));
            let mut all = Vec::new();
            while let Some(Event { data, id, retry, .. }) = events.next().await.unwrap() {
                let data = data.map(|data| match data {
                    Line::Whole(data) => data,
                    Line::Long(skeleton, long) => long.whole(&skeleton).unwrap(),
                    Line::NotText(line) => format!("not text: {}", line.readable),
                });
                all.push((data, id, retry));
            }
            all
        })
    }

    #[test]
    fn events_are_read_as_the_format_has_them() {
        let some = |text: &str| Some(text.to_owned());
        for (stream, expected) in [
            ("data: a\n\n", vec![(some("a"), None, None)]),
            ("\u{feff}data:a\r\n\r\n", vec![(some("a"), None, None)]),
            (
                "data:  a\rdata\r\rdata: b\r\r",
                vec![(some(" a\n"), None, None), (some("b"), None, None)],
            ),
            (": comment\n\nid: 7\nretry: 20\ndata:\n\n", vec![(some(""), some("7"), Some(20))]),
            ("event: message\n\nid: 1\n\n", vec![(None, some("1"), None)]),
            (
                "id: a\0b\nretry: soon\ndata: {\"a\":\ndata: 1}\n\n",
                vec![(some("{\"a\":\n1}"), None, None)],
            ),
            ("data: not ended", vec![(some("not ended"), None, None)]),
            ("databases: 1\ndat", vec![]),
            ("", vec![]),
        ] {
            for piece in [1, 3, 1_000] {
                assert_eq!(read(stream.as_bytes(), piece), expected, "{stream:?} by {piece}");
            }
        }
        let wrong = read(b"data: {\"a\":\"\xff\"}\n\n", 8);
        assert!(wrong[0].0.as_ref().unwrap().starts_with("not text"), "{wrong:?}");
    }

    #[test]
    fn what_is_too_long_to_hold_goes_to_disk() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let long = format!("{{\"a\":{}}}", quote(&"x".repeat(LONG + 1)));
        for (stream, on_disk) in [
            (format!("id: 1\ndata: {long}\n\ndata: next\n\n"), true),
            // In several lines it is held: it is one text all the same.
            (format!("data: {long}\ndata: \n\ndata: next\n\n"), false),
        ] {
            runtime.block_on(async {
                let mut events = Events::new(BufReader::new(stream.as_bytes()));
                let event = events.next().await.unwrap().unwrap();
                match event.data.unwrap() {
                    Line::Long(skeleton, held) => {
                        assert!(on_disk && skeleton.len() < 1_000);
                        assert!(held.whole(&skeleton).unwrap() == long);
                    }
                    Line::Whole(text) => assert!(!on_disk && text.trim_end() == long),
                    Line::NotText(line) => panic!("{line:?}"),
                }
                let next = events.next().await.unwrap().unwrap();
                assert!(matches!(next.data, Some(Line::Whole(text)) if text == "next"));
            });
        }
    }

    proptest! {
        #[test]
        fn whatever_stands_in_an_event_comes_out(
            datas in proptest::collection::vec("[ -~é😀]{0,30}", 0..6),
            end in prop_oneof![Just("\n"), Just("\r"), Just("\r\n")],
            piece in 1..12_usize,
        ) {
            let stream: String = datas
                .iter()
                .map(|data| format!("id: {0}{end}data: {data}{end}: hm{end}{end}", data.len()))
                .collect();
            let read = read(stream.as_bytes(), piece);
            let expected: Vec<_> = datas
                .iter()
                .map(|data| (Some(data.clone()), Some(data.len().to_string()), None))
                .collect();
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn no_stream_panics(stream in proptest::collection::vec(any::<u8>(), 0..80), piece in 1..9_usize) {
            read(&stream, piece);
        }
    }
}
