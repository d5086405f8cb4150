//! The way to one server: what waits there is bounded, and a server that reads nothing holds nobody
//! up for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

use crate::router::Mark;

/// How many KiB may wait for a server before whoever sends more waits too.
const ROOM: u32 = 64 * 1024;

/// How long is waited for room. A server that took nothing for so long gets nothing more until it
/// reads again.
pub(crate) const STALL: Duration = Duration::from_secs(30);

/// What a server gets.
#[derive(Debug)]
pub(crate) struct ToServer {
    pub(crate) text: String,
    pub(crate) mark: Mark,
    /// What it takes of the room, as long as it is held.
    pub(crate) room: OwnedSemaphorePermit,
}

/// The way to one server.
#[derive(Debug)]
pub(crate) struct Lane {
    queue: mpsc::UnboundedSender<ToServer>,
    room: Arc<Semaphore>,
    patience: Duration,
    is_stalled: AtomicBool,
}

/// A message for which there is no room, since the server does not read.
#[derive(Debug)]
pub(crate) struct Stalled(pub(crate) String);

impl Lane {
    /// The way, and where what is sent comes out.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<ToServer>) {
        Self::with_patience(STALL)
    }

    fn with_patience(patience: Duration) -> (Self, mpsc::UnboundedReceiver<ToServer>) {
        let (queue, end) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(ROOM as usize));
        (Self { queue, room, patience, is_stalled: AtomicBool::new(false) }, end)
    }

    /// Sends a message as soon as there is room.
    ///
    /// # Errors
    ///
    /// [`Stalled`], with the message, where there was none for long.
    pub(crate) async fn send(&self, text: String, mark: Mark) -> Result<(), Stalled> {
        // What is longer than all of the room takes all of it.
        let size = u32::try_from(text.len() / 1024 + 1).unwrap_or(ROOM).min(ROOM);
        let room = match Arc::clone(&self.room).try_acquire_many_owned(size) {
            Ok(room) => Some(room),
            Err(_) if self.is_stalled.load(Ordering::Relaxed) => None,
            Err(_) => {
                let room = Arc::clone(&self.room).acquire_many_owned(size);
                timeout(self.patience, room).await.ok().and_then(Result::ok)
            }
        };
        self.is_stalled.store(room.is_none(), Ordering::Relaxed);
        let Some(room) = room else { return Err(Stalled(text)) };
        // It is closed only when the session is.
        let _ = self.queue.send(ToServer { text, mark, room });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(test);
    }

    #[test]
    fn a_server_that_reads_nothing_is_given_up_until_it_reads() {
        run(async {
            let (lane, mut end) = Lane::with_patience(Duration::ZERO);
            let text = "x".repeat(20 << 20);
            let mut sent = 0;
            while lane.send(text.clone(), Mark::Plain).await.is_ok() {
                sent += 1;
            }
            assert_eq!(sent, 3);
            let refused = lane.send(text.clone(), Mark::Plain).await;
            assert!(matches!(refused, Err(Stalled(back)) if back == text));
            // A short one still fits, and comes behind the others.
            lane.send("short".to_owned(), Mark::Plain).await.unwrap();
            drop(end.recv().await);
            lane.send(text, Mark::Plain).await.unwrap();
            end.close();
            let mut left = Vec::new();
            while let Some(message) = end.recv().await {
                left.push(message.text.len());
            }
            assert_eq!(left, [20 << 20, 20 << 20, 5, 20 << 20]);
        });
    }

    #[test]
    fn one_that_is_longer_than_the_room_takes_all_of_it() {
        run(async {
            let (lane, mut end) = Lane::with_patience(Duration::ZERO);
            lane.send("x".repeat(100 << 20), Mark::Plain).await.unwrap();
            assert!(lane.send(String::new(), Mark::Plain).await.is_err());
            drop(end.recv().await);
            assert!(lane.send(String::new(), Mark::Plain).await.is_ok());
        });
    }
}
