//! Messages as lines, as the stdio transport has them: of any length.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};

/// Reads the next line that is not empty, without its line end; `None` at the end.
///
/// A line that is no UTF-8 is given as it could be read, for whoever reports it: it is no JSON.
pub(crate) async fn read<R: AsyncBufRead + Unpin>(
    reader: &mut R,
) -> std::io::Result<Option<String>> {
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
        let line = String::from_utf8(line)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        return Ok(Some(line));
    }
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
