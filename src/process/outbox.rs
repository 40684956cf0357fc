//! Live output on its way to JavaScript: what has been read and not yet taken. Joins neighbouring text of one stream
//! while JavaScript is busy, and bounds how far reading may run ahead of it, for each command and for the process.

use std::{
    collections::VecDeque,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::stream::{Stream, text::split_bytes};

/// No delivery is longer than this many bytes, hence neither than this many UTF-16 units. The promise is 262,144 of those;
/// but V8 keeps a string of more than about 128 KiB among its large objects, each in fresh pages of the system, which
/// costs JavaScript's thread twice as much.
pub const MAX_DELIVERY: usize = 65_536;

/// Bytes of output that one command may be ahead. The endpoint evicts what nobody reads, so this is generous.
const AHEAD_COMMAND: usize = 16 * 1024 * 1024;
/// The same for all commands of the process together.
const AHEAD_PROCESS: usize = 48 * 1024 * 1024;

static PROCESS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(AHEAD_PROCESS)));

/// A piece of one stream's output.
#[derive(Debug)]
pub struct Delivery {
    pub stream: Stream,
    pub text: String,
    room: Option<Room>,
}

/// Permission to hold so many bytes; given back when dropped.
#[derive(Debug)]
pub struct Room {
    command: OwnedSemaphorePermit,
    process: OwnedSemaphorePermit,
}

impl Room {
    fn merge(&mut self, other: Room) {
        self.command.merge(other.command);
        self.process.merge(other.process);
    }
}

#[derive(Debug, Default)]
struct Queue {
    deliveries: VecDeque<Delivery>,
    closed: bool,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Notify,
    ahead: Arc<Semaphore>,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing that runs under the lock can leave the queue half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reading side's end. Dropping it closes the outbox; what is in it can still be taken.
#[derive(Debug)]
pub struct Outbox(Arc<Shared>);

/// JavaScript's end.
#[derive(Debug)]
pub struct Outgoing(Arc<Shared>);

pub fn outbox() -> (Outbox, Outgoing) {
    let shared = Arc::new(Shared {
        queue: Mutex::default(),
        filled: Notify::new(),
        ahead: Arc::new(Semaphore::new(AHEAD_COMMAND)),
    });
    (Outbox(shared.clone()), Outgoing(shared))
}

impl Outbox {
    /// Waits until `bytes` more may be read ahead. `None` only if the outbox's semaphores were closed, which they never
    /// are.
    pub async fn room(&self, bytes: usize) -> Option<Room> {
        // One frame is far smaller than either budget, so that this fits in the end.
        let permits = u32::try_from(bytes.min(AHEAD_COMMAND)).ok()?;
        let command = self.0.ahead.clone().acquire_many_owned(permits).await.ok()?;
        let process = PROCESS.clone().acquire_many_owned(permits).await.ok()?;
        Some(Room { command, process })
    }

    /// Adds text in the room made for it; the few bytes of an unfinished character need none.
    pub fn push(&self, stream: Stream, text: &str, room: Option<Room>) {
        let mut queue = self.0.queue();
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = split_bytes(rest, MAX_DELIVERY);
            queue.add(stream, piece);
            rest = after;
        }
        // The last piece holds the room for all of the text; without text there is nothing to hold.
        if let (Some(last), Some(room), false) = (queue.deliveries.back_mut(), room, text.is_empty()) {
            match &mut last.room {
                Some(held) => held.merge(room),
                none => *none = Some(room),
            }
        }
        drop(queue);
        self.0.filled.notify_one();
    }
}

impl Queue {
    fn add(&mut self, stream: Stream, piece: &str) {
        match self.deliveries.back_mut() {
            Some(last) if last.stream == stream && last.text.len() + piece.len() <= MAX_DELIVERY => {
                last.text.push_str(piece);
            }
            _ => self.deliveries.push_back(Delivery { stream, text: piece.to_owned(), room: None }),
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.0.queue().closed = true;
        self.0.filled.notify_one();
    }
}

impl Outgoing {
    /// The next piece of output, `None` once the outbox is closed and empty.
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            let filled = self.0.filled.notified();
            {
                let mut queue = self.0.queue();
                if let Some(delivery) = queue.deliveries.pop_front() {
                    return Some(delivery);
                }
                if queue.closed {
                    return None;
                }
            }
            filled.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn push(outbox: &Outbox, stream: Stream, text: &str) {
        let room = outbox.room(text.len()).await;
        outbox.push(stream, text, room);
    }

    async fn drain(outgoing: &mut Outgoing) -> Vec<(Stream, String)> {
        let mut all = Vec::new();
        while let Some(delivery) = outgoing.next().await {
            all.push((delivery.stream, delivery.text));
        }
        all
    }

    #[tokio::test]
    async fn neighbours_of_one_stream_are_joined_and_streams_keep_their_order() {
        let (outbox, mut outgoing) = outbox();
        for (stream, text) in [
            (Stream::Stdout, "a"),
            (Stream::Stdout, "b"),
            (Stream::Stderr, "e"),
            (Stream::Stdout, ""),
            (Stream::Stderr, "f"),
            (Stream::Stdout, "c"),
        ] {
            push(&outbox, stream, text).await;
        }
        drop(outbox);
        let expected = [(Stream::Stdout, "ab"), (Stream::Stderr, "ef"), (Stream::Stdout, "c")];
        assert_eq!(drain(&mut outgoing).await, expected.map(|(stream, text)| (stream, text.to_owned())));
    }

    #[tokio::test]
    async fn no_delivery_is_too_long_or_cut_inside_a_character() {
        let (outbox, mut outgoing) = outbox();
        let text = format!("a{}", "😀".repeat(MAX_DELIVERY));
        push(&outbox, Stream::Stdout, &text).await;
        drop(outbox);
        let all = drain(&mut outgoing).await;
        assert!(all.iter().all(|(_, piece)| !piece.is_empty() && piece.len() <= MAX_DELIVERY));
        assert_eq!(all.iter().map(|(_, piece)| piece.as_str()).collect::<String>(), text);
    }

    #[tokio::test]
    async fn reading_ahead_stops_at_the_bound_and_goes_on_when_something_is_taken() {
        let (outbox, mut outgoing) = outbox();
        let text = "x".repeat(MAX_DELIVERY);
        for _ in 0..AHEAD_COMMAND / MAX_DELIVERY {
            push(&outbox, Stream::Stdout, &text).await;
        }
        let mut waiting = Box::pin(outbox.room(1));
        assert!(poll_once(&mut waiting).await.is_none());
        drop(outgoing.next().await);
        assert!(waiting.await.is_some());
    }

    /// Polls once.
    async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = std::future::ready(()) => None,
        }
    }

    #[tokio::test]
    async fn what_nobody_takes_gives_its_room_back() {
        let before = PROCESS.available_permits();
        let (outbox, outgoing) = outbox();
        push(&outbox, Stream::Stderr, &"x".repeat(AHEAD_COMMAND)).await;
        drop((outbox, outgoing));
        // Other tests use the same semaphore; none of them holds this much for long.
        assert!(PROCESS.available_permits() + AHEAD_COMMAND > before);
    }
}
