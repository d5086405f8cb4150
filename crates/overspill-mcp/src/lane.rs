//! The way to a peer: what waits there is bounded, and a peer that reads nothing holds nobody up for
//! good.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

/// How many KiB may wait for a server, or for a client in all, before whoever sends more waits too.
pub(crate) const ROOM: u32 = 64 * 1024;

/// How long is waited for a peer that takes nothing. It gets nothing more until it reads again.
pub(crate) const STALL: Duration = Duration::from_secs(30);

/// What a message takes of a lane's room, as long as it is held.
#[derive(Debug)]
pub(crate) struct Room {
    _permit: OwnedSemaphorePermit,
    taken: Arc<AtomicU64>,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }
}

/// The way to a peer.
#[derive(Debug)]
pub(crate) struct Lane<T> {
    queue: mpsc::UnboundedSender<(T, Option<Room>)>,
    room: Arc<Semaphore>,
    size: u32,
    /// How long is waited for a peer that takes nothing; for ever where it is `None`.
    patience: Option<Duration>,
    /// How much the peer has taken.
    taken: Arc<AtomicU64>,
    /// How many it had taken when it was given up, and one more; 0 where it was not.
    stalled_at: AtomicU64,
}

/// Where what is sent comes out.
pub(crate) type LaneEnd<T> = mpsc::UnboundedReceiver<(T, Option<Room>)>;

/// A message for which there is no room, since the peer does not read.
#[derive(Debug)]
pub(crate) struct Stalled<T>(pub(crate) T);

impl<T> Lane<T> {
    /// A way with room for so many KiB, and its end.
    pub(crate) fn new(size: u32, patience: Option<Duration>) -> (Self, LaneEnd<T>) {
        let (queue, end) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(size as usize));
        let (taken, stalled_at) = (Arc::default(), AtomicU64::new(0));
        (Self { queue, room, size, patience, taken, stalled_at }, end)
    }

    /// Whether nobody is at the end any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Sends a message of so many bytes as soon as there is room.
    ///
    /// # Errors
    ///
    /// [`Stalled`], with the message, where the peer has taken nothing for long.
    pub(crate) async fn send(&self, message: T, bytes: usize) -> Result<(), Stalled<T>> {
        match self.room(bytes).await {
            Some(room) => {
                self.push(message, Some(room));
                Ok(())
            }
            None => Err(Stalled(message)),
        }
    }

    /// Waits for room for so many bytes; `None` where the peer has taken nothing for long.
    pub(crate) async fn room(&self, bytes: usize) -> Option<Room> {
        // What is longer than all of the room takes all of it.
        let size = u32::try_from(bytes / 1024 + 1).unwrap_or(self.size).min(self.size);
        let permit = match Arc::clone(&self.room).try_acquire_many_owned(size) {
            Ok(permit) => Some(permit),
            Err(_) => self.wait(size).await,
        };
        permit.map(|permit| Room { _permit: permit, taken: Arc::clone(&self.taken) })
    }

    /// Sends a message that has its room, or one that must not wait for any.
    pub(crate) fn push(&self, message: T, room: Option<Room>) {
        // Nobody at the end wants nothing more.
        let _ = self.queue.send((message, room));
    }

    /// Counts what the peer takes: messages, and whatever whoever writes them adds for a part of one.
    pub(crate) fn taken(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.taken)
    }

    /// Waits for room, as long as the peer takes something now and then.
    async fn wait(&self, size: u32) -> Option<OwnedSemaphorePermit> {
        let mut taken = self.taken.load(Ordering::Relaxed);
        if self.stalled_at.load(Ordering::Relaxed) == taken + 1 {
            return None;
        }
        let acquire = Arc::clone(&self.room).acquire_many_owned(size);
        let Some(patience) = self.patience else { return acquire.await.ok() };
        tokio::pin!(acquire);
        loop {
            if let Ok(permit) = timeout(patience, &mut acquire).await {
                return permit.ok();
            }
            let now = self.taken.load(Ordering::Relaxed);
            if now == taken {
                self.stalled_at.store(taken + 1, Ordering::Relaxed);
                return None;
            }
            taken = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(test);
    }

    const MB: usize = 1024 * 1024;

    #[test]
    fn a_peer_that_reads_nothing_is_given_up_until_it_reads() {
        run(async {
            let (lane, mut end) = Lane::new(64 * 1024, Some(Duration::ZERO));
            for n in 0..3 {
                lane.send(n, 20 * MB).await.unwrap();
            }
            assert!(matches!(lane.send(3, 20 * MB).await, Err(Stalled(3))));
            // A short one still fits, and comes behind the others; the peer is given up all the same.
            lane.send(4, 5).await.unwrap();
            let patient = Lane { patience: None, ..lane };
            assert!(patient.send(5, 20 * MB).await.is_err());
            drop(end.recv().await);
            patient.send(6, 20 * MB).await.unwrap();
            end.close();
            let mut left = Vec::new();
            while let Some((message, _)) = end.recv().await {
                left.push(message);
            }
            assert_eq!(left, [1, 2, 4, 6]);
        });
    }

    #[test]
    fn a_peer_that_reads_slowly_is_waited_for() {
        run(async {
            let (lane, mut end) = Lane::new(1, Some(Duration::ZERO));
            lane.send(0, 0).await.unwrap();
            let reads = async {
                for _ in 0..100 {
                    drop(end.recv().await);
                    tokio::task::yield_now().await;
                }
            };
            let sends = async {
                for n in 1..100 {
                    // Whoever finds no room looks again as long as something was taken.
                    let mut next = lane.send(n, 0).await;
                    while let Err(Stalled(n)) = next {
                        tokio::task::yield_now().await;
                        next = lane.send(n, 0).await;
                    }
                }
            };
            tokio::join!(reads, sends);
        });
    }

    #[test]
    fn one_that_is_longer_than_the_room_takes_all_of_it() {
        run(async {
            let (lane, mut end) = Lane::new(64 * 1024, Some(Duration::ZERO));
            lane.send("long", 100 * MB).await.unwrap();
            assert!(lane.send("", 0).await.is_err());
            drop(end.recv().await);
            assert!(lane.send("", 0).await.is_ok());
        });
    }
}
