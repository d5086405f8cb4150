//! Messages as lines, as the stdio transport has them: of any length.

use crate::long::{LONG, Long, NotText, Spool};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};

/// Reads the next line that is not empty, without its line end; `None` at the end.
///
/// A line that is no UTF-8 is no JSON, and given for whoever reports it.
pub(crate) async fn read<R: AsyncBufRead + Unpin>(
    reader: &mut R,
) -> std::io::Result<Option<Result<String, NotText>>> {
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line).await? == 0 {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        return Ok(Some(text(line)));
    }
}

fn text(line: Vec<u8>) -> Result<String, NotText> {
    String::from_utf8(line).map_err(|error| error.into_bytes().into())
}

/// A line of a server.
#[derive(Debug)]
pub(crate) enum Line {
    /// All of it.
    Whole(String),
    /// The skeleton of one that lies on disk.
    Long(String, Long),
    /// It is no UTF-8.
    NotText(NotText),
}

/// What a line ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// A newline.
    Newline,
    /// A newline or a carriage return.
    Either,
    /// The end of the input.
    Input,
}

/// Reads as [`read`] does, but what is too long to hold goes to disk, as long as that takes it.
pub(crate) async fn read_any<R: AsyncBufRead + Unpin>(
    reader: &mut R,
) -> std::io::Result<Option<Line>> {
    loop {
        match read_to(reader, Ends::Newline).await? {
            Some((Line::Whole(line), _)) if line.bytes().all(|b| b.is_ascii_whitespace()) => {}
            line => return Ok(line.map(|(line, _)| line)),
        }
    }
}

/// Reads up to such an end, which is given too, where it was not that of the input; `None` where
/// nothing is left.
pub(crate) async fn read_to<R: AsyncBufRead + Unpin>(
    reader: &mut R,
    ends: Ends,
) -> std::io::Result<Option<(Line, Option<u8>)>> {
    let mut line = Vec::new();
    let mut spool: Option<Spool> = None;
    let mut may_spool = true;
    loop {
        let held = reader.fill_buf().await?;
        if held.is_empty() && line.is_empty() && spool.is_none() {
            return Ok(None);
        }
        let end = match ends {
            Ends::Newline => memchr::memchr(b'\n', held),
            Ends::Either => memchr::memchr2(b'\n', b'\r', held),
            Ends::Input => None,
        };
        let ended_by = end.map(|at| held[at]);
        let is_over = end.is_some() || held.is_empty();
        let piece = &held[..end.unwrap_or(held.len())];
        match spool.take() {
            // Writing a piece to a file without a name is hardly more than a copy.
            Some(mut open) => match open.push(piece) {
                Ok(()) => spool = Some(open),
                Err(_) => {
                    line = open.back()?;
                    line.extend_from_slice(piece);
                    may_spool = false;
                }
            },
            None => {
                line.extend_from_slice(piece);
                if may_spool && line.len() > LONG {
                    match Spool::new().and_then(|mut open| open.push(&line).map(|()| open)) {
                        Ok(open) => {
                            spool = Some(open);
                            line = Vec::new();
                        }
                        Err(_) => may_spool = false,
                    }
                }
            }
        }
        let used = piece.len() + usize::from(end.is_some());
        reader.consume(used);
        if !is_over {
            continue;
        }
        let line = match spool {
            Some(open) => match open.finish() {
                Ok((skeleton, long)) => Line::Long(skeleton, long),
                Err(line) => Line::NotText(line),
            },
            None => match text(line) {
                Ok(line) => Line::Whole(line),
                Err(line) => Line::NotText(line),
            },
        };
        return Ok(Some((line, ended_by)));
    }
}

/// Writes a message as a line, and what some of its strings stand for.
pub(crate) async fn write_long<W: AsyncWrite + Unpin>(
    writer: &mut W,
    message: String,
    long: Option<&Long>,
) -> std::io::Result<()> {
    let Some(long) = long else { return write(writer, message).await };
    let line = one_line(message);
    for piece in long.expand(&line) {
        writer.write_all(&piece?).await?;
    }
    writer.write_all(b"\n").await
}

/// Writes a message as a line.
pub(crate) async fn write<W: AsyncWrite + Unpin>(
    writer: &mut W,
    message: String,
) -> std::io::Result<()> {
    let mut line = one_line(message);
    line.push('\n');
    writer.write_all(line.as_bytes()).await
}

/// The message on one line. Line ends inside it can only stand between tokens; what came over HTTP
/// may have some.
pub(crate) fn one_line(message: String) -> String {
    if memchr::memchr2(b'\n', b'\r', message.as_bytes()).is_none() {
        return message;
    }
    message.replace(['\n', '\r'], " ")
}
