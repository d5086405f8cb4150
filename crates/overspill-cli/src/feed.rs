//! Output as it arrives, until it ends or until whoever wrote it is gone.

use std::io::{self, Read};
use std::os::fd::AsFd;

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What a pipe can hold on Linux unless an administrator allows more.
const PIPE_BYTES: usize = 1 << 20;

/// Bytes read at once: a quarter of a pipe, so that whoever writes into it seldom waits.
const PIECE_BYTES: usize = PIPE_BYTES / 4;

/// Bytes read at most after the end was announced: whatever was written before then is within
/// them.
const LEFT_BYTES: usize = PIPE_BYTES;

/// Reads a source piece by piece.
///
/// A pipe ends when nobody holds its other end any more; but a process that was killed may have
/// left others behind that do. So `stop`, a pipe whose other end is dropped, announces the end:
/// what is in the source by then is still read, and nothing is waited for.
#[derive(Debug)]
pub(crate) struct Feed<R> {
    source: R,
    stop: io::PipeReader,
    /// How much is still read, once the end was announced.
    left: Option<usize>,
    buffer: Vec<u8>,
}

impl<R: Read + AsFd> Feed<R> {
    /// A feed from `source`, which is widened where it is a pipe: in the 64 KiB that one
    /// holds by default, both sides wait for each other all the time.
    pub(crate) fn new(source: R, stop: io::PipeReader) -> Self {
        // Where there is no more room to be had, it is slower, no more.
        #[cfg(target_os = "linux")]
        let _ = rustix::pipe::fcntl_setpipe_size(&source, PIPE_BYTES);
        Self { source, stop, left: None, buffer: vec![0; PIECE_BYTES] }
    }

    /// Waits for the next piece; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let is_ready = self.wait()?;
            if !is_ready && self.left.is_some() {
                return Ok(None);
            }
            if !is_ready {
                continue;
            }
            let most = self.left.unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            match self.source.read(&mut self.buffer[..most]) {
                Ok(0) => return Ok(None),
                Ok(read) => {
                    self.left = self.left.map(|left| left - read);
                    return Ok(Some(Bytes::copy_from_slice(&self.buffer[..read])));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until there is something to read, or the end is announced; returns whether there is
    /// something to read.
    fn wait(&mut self) -> io::Result<bool> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = self.left.map(|_| &at_once);
        let mut fds =
            [PollFd::new(&self.source, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
        match poll(&mut fds, timeout) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return self.wait(),
            Err(error) => return Err(error.into()),
        }
        let [is_ready, is_stopped] = fds.map(|fd| !fd.revents().is_empty());
        if is_stopped && self.left.is_none() {
            // What there is to read may have come between the two looks.
            self.left = Some(LEFT_BYTES);
            return self.wait();
        }
        Ok(is_ready)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn all(feed: &mut Feed<io::PipeReader>) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(piece) = feed.next().unwrap() {
            all.extend_from_slice(&piece);
        }
        all
    }

    #[test]
    fn it_ends_with_the_source() {
        let (source, mut writer) = io::pipe().unwrap();
        let (stop, _stopper) = io::pipe().unwrap();
        writer.write_all(b"one").unwrap();
        drop(writer);
        assert_eq!(all(&mut Feed::new(source, stop)), b"one");
    }

    #[test]
    fn once_the_end_is_announced_it_waits_for_nothing() {
        let (source, mut writer) = io::pipe().unwrap();
        let (stop, stopper) = io::pipe().unwrap();
        writer.write_all(b"two").unwrap();
        drop(stopper);
        // The writer is still there.
        assert_eq!(all(&mut Feed::new(source, stop)), b"two");
        drop(writer);
    }

    #[test]
    fn a_source_that_never_ends_is_left_after_what_it_could_hold() {
        let source = std::fs::File::open("/dev/zero").unwrap();
        let (stop, stopper) = io::pipe().unwrap();
        drop(stopper);
        let mut feed = Feed::new(source, stop);
        let mut read = 0;
        while let Some(piece) = feed.next().unwrap() {
            read += piece.len();
        }
        assert_eq!(read, LEFT_BYTES);
    }
}
