//! Where the proxy says what went wrong and what it did about it: never to the client.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Characters of a line that are shown.
const LINE: usize = 2_000;

/// Lines that wait to be written, at most; 2 MB where all are long.
const WAITING: usize = 1_000;

/// What every written line begins with.
const PREFIX: &str = "overspill: ";

/// Where the proxy says what went wrong and what it did about it: never to the client.
///
/// What servers said is among it. So a line is one line, without control characters that would move a
/// terminal's cursor, and not longer than 2,000 characters.
#[derive(Clone)]
pub struct Log(Sink);

#[derive(Clone)]
enum Sink {
    Told(Arc<dyn Fn(&str) + Send + Sync>),
    Written(Arc<Queue>),
}

impl Log {
    /// Says it through `say`, one line at a time.
    pub fn new(say: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Sink::Told(Arc::new(say)))
    }

    /// Says nothing.
    pub fn silent() -> Self {
        Self::new(|_| {})
    }

    /// Writes each line through `writer`, after `overspill: `, on a thread of its own: whoever reads
    /// what is written may stop to, and the proxy goes on. Lines that find no room are counted, and
    /// how many they were is written once there is room.
    ///
    /// # Errors
    ///
    /// Where there can be no such thread.
    pub fn writing(writer: impl Write + Send + 'static) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let written = Arc::clone(&queue);
        thread::Builder::new().name("log".to_owned()).spawn(move || written.write(writer))?;
        Ok(Self(Sink::Written(queue)))
    }

    /// Says one thing.
    pub fn say(&self, what: &str) {
        let line = one_line(what);
        match &self.0 {
            Sink::Told(say) => say(&line),
            Sink::Written(queue) => queue.add(line),
        }
    }

    /// Waits until everything has been written, but no longer than `patience`.
    pub fn finish(&self, patience: Duration) {
        if let Sink::Written(queue) = &self.0 {
            let waiting = |lines: &mut Lines| lines.is_writing || lines.has_any();
            // What could not be written by then will not be.
            drop(queue.changed.wait_timeout_while(queue.lines(), patience, waiting));
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

/// Lines on their way to whoever writes them.
#[derive(Default)]
struct Queue {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Default)]
struct Lines {
    waiting: VecDeque<String>,
    /// Those that found no room, behind all that wait.
    lost: u64,
    is_writing: bool,
}

impl Lines {
    fn has_any(&self) -> bool {
        !self.waiting.is_empty() || self.lost > 0
    }

    fn next(&mut self) -> Option<String> {
        self.waiting.pop_front().or_else(|| self.take_lost())
    }

    fn take_lost(&mut self) -> Option<String> {
        match std::mem::take(&mut self.lost) {
            0 => None,
            1 => Some("1 line was not shown, since nobody read".to_owned()),
            lost => Some(format!("{lost} lines were not shown, since nobody read")),
        }
    }
}

impl Queue {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: String) {
        let mut lines = self.lines();
        // Room for it, and for how many found none before it.
        if lines.waiting.len() + 2 > WAITING {
            lines.lost += 1;
        } else {
            if let Some(lost) = lines.take_lost() {
                lines.waiting.push_back(lost);
            }
            lines.waiting.push_back(line);
        }
        self.changed.notify_all();
    }

    /// Writes what comes for as long as the process runs.
    fn write(&self, mut writer: impl Write) {
        loop {
            let line = {
                let idle = |lines: &mut Lines| !lines.has_any();
                let lines = self.lines();
                let mut lines =
                    self.changed.wait_while(lines, idle).unwrap_or_else(PoisonError::into_inner);
                lines.is_writing = true;
                lines.next().unwrap_or_default()
            };
            // Where nobody reads any more, there is nowhere left to say so.
            let _ = writer.write_all(format!("{PREFIX}{line}\n").as_bytes());
            let _ = writer.flush();
            self.lines().is_writing = false;
            self.changed.notify_all();
        }
    }
}

/// A text on one line that can do nothing to a terminal, cut where it is long.
fn one_line(text: &str) -> String {
    let mut chars = text.chars();
    let mut line = String::new();
    for it in chars.by_ref().take(LINE) {
        // Those that turn the direction of what is written, too.
        if it.is_control() || matches!(it, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            line.extend(it.escape_debug());
        } else {
            line.push(it);
        }
    }
    match chars.count() {
        0 => line,
        more => format!("{line}… ({more} characters more)"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A reader that takes nothing before it is told to, and then all.
    struct Slow {
        begun: Sender<()>,
        go_on: Receiver<()>,
        read: Arc<Mutex<String>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.begun.send(());
            // It fails once nobody holds it up any more.
            let _ = self.go_on.recv();
            self.read.lock().unwrap().push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_for_a_reader_and_what_found_no_room_is_counted() {
        let ((begun, has_begun), (hold_up, go_on)) = (channel(), channel());
        let read = Arc::new(Mutex::new(String::new()));
        let log = Log::writing(Slow { begun, go_on, read: Arc::clone(&read) }).unwrap();
        log.say("first");
        has_begun.recv().unwrap();
        for i in 0..WAITING + 10 {
            log.say(&format!("line {i}"));
        }
        log.finish(Duration::from_millis(1));
        assert_eq!(*read.lock().unwrap(), "");

        drop(hold_up);
        log.finish(PATIENCE);
        log.say("last");
        log.finish(PATIENCE);
        let read = read.lock().unwrap();
        let lines: Vec<&str> = read.lines().collect();
        assert_eq!(lines.len(), 1 + (WAITING - 1) + 1 + 1);
        assert_eq!(lines[..2], ["overspill: first", "overspill: line 0"]);
        assert_eq!(
            lines[lines.len() - 3..],
            [
                "overspill: line 998",
                "overspill: 11 lines were not shown, since nobody read",
                "overspill: last"
            ]
        );
    }

    #[test]
    fn a_line_is_one_line_and_shows_what_it_would_do() {
        for (said, line) in [
            ("plain, and ünïcode 界", "plain, and ünïcode 界"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}[2J\u{7}\u{9b}\0", "\\u{1b}[2J\\u{7}\\u{9b}\\0"),
            ("\u{202e}\u{2028}\u{2066}", "\\u{202e}\\u{2028}\\u{2066}"),
        ] {
            assert_eq!(one_line(said), line);
        }
        let long = "é".repeat(LINE + 7);
        assert_eq!(one_line(&long[..2 * LINE]), long[..2 * LINE]);
        assert_eq!(one_line(&long), format!("{}… (7 characters more)", &long[..2 * LINE]));
    }
}
