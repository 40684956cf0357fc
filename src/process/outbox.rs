//! Live output on its way to JavaScript: what has been read and not yet taken. Joins neighbouring text of one stream
//! while JavaScript is busy, bounds how far reading may run ahead of it, for each command and for the process, and keeps
//! the memory of what was delivered for what comes next.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit},
    time::{Instant, timeout},
};

use crate::stream::{Stream, text::Counted};

/// No delivery is longer than this many bytes, hence neither than this many UTF-16 units. The promise is 262,144 of those;
/// but V8 keeps a string of more than about 128 KiB among its large objects, each in fresh pages of the system, which
/// costs JavaScript's thread twice as much.
pub const MAX_DELIVERY: usize = 65_536;
/// So many are worth waking JavaScript's end before all that has arrived is read: that costs more than a delivery.
const SEVERAL: usize = 4;
/// The memory of so many deliveries is kept: of those that are on their way, and of those that are filled meanwhile.
const SPARE: usize = 16;

/// Reading that is ahead by more than this lets JavaScript come nearer, to half of it: the same memory is used again, and
/// JavaScript's thread need not compete for a processor with what it waits for.
const NEAR: usize = 1024 * 1024;
/// For so long in all, until JavaScript has everything. What is printed meanwhile waits in sockets, which hold little; of
/// JavaScript that is slow, reading must not become as slow.
const PATIENCE: Duration = Duration::from_millis(10);
/// Bytes of output that one command may be ahead. The endpoint evicts what nobody reads, so this is generous.
const AHEAD_COMMAND: usize = 16 * 1024 * 1024;
/// The same for all commands of the process together.
const AHEAD_PROCESS: usize = 48 * 1024 * 1024;

static PROCESS: Semaphore = Semaphore::const_new(AHEAD_PROCESS);

/// A piece of one stream's output.
#[derive(Debug)]
pub struct Delivery {
    pub stream: Stream,
    pub text: String,
    units: usize,
    room: Room,
}

impl Delivery {
    pub fn counted(&self) -> Counted<'_> {
        Counted { text: &self.text, units: self.units }
    }
}

/// Permission to hold so many bytes, of the command's budget and of the process's; given back when dropped.
#[derive(Debug)]
struct Room {
    bytes: usize,
    ahead: Arc<Semaphore>,
}

impl Room {
    fn none(ahead: &Arc<Semaphore>) -> Self {
        Self { bytes: 0, ahead: ahead.clone() }
    }

    /// Takes over what was acquired of both budgets.
    fn add(&mut self, command: SemaphorePermit<'_>, process: SemaphorePermit<'_>) {
        self.bytes += command.num_permits();
        command.forget();
        process.forget();
    }

    fn give_back(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.ahead.add_permits(bytes);
        PROCESS.add_permits(bytes);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[derive(Debug, Default)]
struct Queue {
    deliveries: VecDeque<Delivery>,
    closed: bool,
    /// Memory of deliveries that were taken.
    spare: Vec<String>,
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
pub struct Outbox {
    shared: Arc<Shared>,
    /// Room that was acquired and is not used yet: more than one frame needs, since most are small.
    credit: Room,
    /// For how long JavaScript was waited for since it last had everything.
    waited: Duration,
}

/// JavaScript's end.
#[derive(Debug)]
pub struct Outgoing(Arc<Shared>);

pub fn outbox() -> (Outbox, Outgoing) {
    let ahead = Arc::new(Semaphore::new(AHEAD_COMMAND));
    let credit = Room::none(&ahead);
    let shared = Arc::new(Shared { queue: Mutex::default(), filled: Notify::new(), ahead });
    (Outbox { shared: shared.clone(), credit, waited: Duration::ZERO }, Outgoing(shared))
}

impl Outbox {
    /// Waits until `bytes` more may be read ahead. `None` only if the outbox's semaphores were closed, which they never
    /// are.
    pub async fn room(&mut self, bytes: usize) -> Option<()> {
        if self.credit.bytes >= bytes {
            return Some(());
        }
        self.credit.give_back();
        self.stay_near().await?;
        // One frame is far smaller than either budget, so that this fits in the end.
        let needed = bytes.min(AHEAD_COMMAND);
        let generous = u32::try_from(needed.max(MAX_DELIVERY)).ok()?;
        if let (Ok(command), Ok(process)) =
            (self.shared.ahead.try_acquire_many(generous), PROCESS.try_acquire_many(generous))
        {
            self.credit.add(command, process);
            return Some(());
        }
        // What is in the outbox must be taken, or there may never be room.
        self.flush();
        let needed = u32::try_from(needed).ok()?;
        let command = self.shared.ahead.acquire_many(needed).await.ok()?;
        let process = PROCESS.acquire_many(needed).await.ok()?;
        self.credit.add(command, process);
        Some(())
    }

    /// Waits for JavaScript to take what it was given, for as long as there is patience.
    async fn stay_near(&mut self) -> Option<()> {
        let free = self.shared.ahead.available_permits();
        if free == AHEAD_COMMAND {
            self.waited = Duration::ZERO;
        } else if free < AHEAD_COMMAND - NEAR && self.waited < PATIENCE {
            self.flush();
            let start = Instant::now();
            // Nobody else waits for these.
            let nearer = self.shared.ahead.acquire_many((AHEAD_COMMAND - NEAR / 2) as u32);
            if let Ok(taken) = timeout(PATIENCE - self.waited, nearer).await {
                drop(taken.ok()?);
            }
            self.waited += start.elapsed();
        }
        Some(())
    }

    /// Adds the text of so many bytes that room was made for; the few bytes of an unfinished character need none. JavaScript's
    /// end may learn of it no sooner than [`flush`](Self::flush).
    pub fn push(&mut self, stream: Stream, text: Counted<'_>, bytes: usize) {
        let mut queue = self.shared.queue();
        let mut rest = text;
        while !rest.text.is_empty() {
            let (piece, after) = rest.split_bytes(MAX_DELIVERY);
            queue.add(stream, piece, &self.shared.ahead);
            rest = after;
        }
        // The last piece holds the room for all of the text; without text there is nothing to hold.
        if let (Some(last), false) = (queue.deliveries.back_mut(), text.text.is_empty()) {
            let bytes = bytes.min(self.credit.bytes);
            self.credit.bytes -= bytes;
            last.room.bytes += bytes;
        }
        if queue.deliveries.len() > SEVERAL {
            self.shared.filled.notify_one();
        }
    }

    /// To be called before anything is waited for. Room that is not used is for others.
    pub fn flush(&mut self) {
        self.credit.give_back();
        if !self.shared.queue().deliveries.is_empty() {
            self.shared.filled.notify_one();
        }
    }
}

impl Queue {
    fn add(&mut self, stream: Stream, piece: Counted<'_>, ahead: &Arc<Semaphore>) {
        match self.deliveries.back_mut() {
            Some(last) if last.stream == stream && last.text.len() + piece.text.len() <= MAX_DELIVERY => {
                if last.text.capacity() < last.text.len() + piece.text.len() {
                    // What was joined once is joined again: all the memory that this delivery can need.
                    last.text.reserve_exact(MAX_DELIVERY - last.text.len());
                }
                last.text.push_str(piece.text);
                last.units += piece.units;
            }
            _ => {
                let mut text = self.spare.pop().unwrap_or_default();
                text.push_str(piece.text);
                self.deliveries.push_back(Delivery { stream, text, units: piece.units, room: Room::none(ahead) });
            }
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.shared.queue().closed = true;
        self.shared.filled.notify_one();
    }
}

impl Outgoing {
    /// The next piece of output; `None` once the outbox is closed and empty.
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            let filled = self.0.filled.notified();
            {
                let mut queue = self.0.queue();
                let next = queue.deliveries.pop_front();
                if next.is_some() || queue.closed {
                    return next;
                }
            }
            filled.await;
        }
    }

    /// Where the memory of what was taken goes.
    pub fn spare(&self) -> Spare {
        Spare(self.0.clone())
    }
}

/// The memory of deliveries, to be used again.
#[derive(Debug)]
pub struct Spare(Arc<Shared>);

impl Spare {
    pub fn put(&self, mut text: String) {
        text.clear();
        let mut queue = self.0.queue();
        if queue.spare.len() < SPARE {
            queue.spare.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn push(outbox: &mut Outbox, stream: Stream, text: &str) {
        outbox.room(text.len()).await.unwrap();
        outbox.push(stream, text.into(), text.len());
        outbox.flush();
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
        let (mut outbox, mut outgoing) = outbox();
        for (stream, text) in [
            (Stream::Stdout, "a"),
            (Stream::Stdout, "b"),
            (Stream::Stderr, "e"),
            (Stream::Stdout, ""),
            (Stream::Stderr, "f"),
            (Stream::Stdout, "c"),
        ] {
            push(&mut outbox, stream, text).await;
        }
        drop(outbox);
        let expected = [(Stream::Stdout, "ab"), (Stream::Stderr, "ef"), (Stream::Stdout, "c")];
        assert_eq!(drain(&mut outgoing).await, expected.map(|(stream, text)| (stream, text.to_owned())));
    }

    #[tokio::test]
    async fn no_delivery_is_too_long_or_cut_inside_a_character() {
        let (mut outbox, mut outgoing) = outbox();
        let text = format!("a{}", "😀".repeat(MAX_DELIVERY));
        push(&mut outbox, Stream::Stdout, &text).await;
        drop(outbox);
        let all = drain(&mut outgoing).await;
        assert!(all.iter().all(|(_, piece)| !piece.is_empty() && piece.len() <= MAX_DELIVERY));
        assert_eq!(all.iter().map(|(_, piece)| piece.as_str()).collect::<String>(), text);
    }

    #[tokio::test]
    async fn what_was_pushed_is_delivered_before_room_is_waited_for() {
        let (mut outbox, mut outgoing) = outbox();
        let taking = tokio::spawn(async move { outgoing.next().await.is_some() });
        tokio::task::yield_now().await;
        outbox.room(AHEAD_COMMAND).await.unwrap();
        outbox.push(Stream::Stdout, "a".into(), AHEAD_COMMAND);
        assert!(timeout(Duration::from_secs(60), outbox.room(1)).await.is_ok());
        assert!(taking.await.unwrap());
    }

    #[tokio::test]
    async fn the_memory_of_what_was_delivered_holds_what_comes_next() {
        let (mut outbox, mut outgoing) = outbox();
        let mut memory = Vec::new();
        for _ in 0..2 {
            push(&mut outbox, Stream::Stdout, "text").await;
            let text = outgoing.next().await.unwrap().text;
            assert_eq!(text, "text");
            memory.push(text.as_ptr());
            outgoing.spare().put(text);
        }
        assert_eq!(memory[0], memory[1]);
    }

    #[tokio::test]
    async fn reading_ahead_stops_at_the_bound_and_goes_on_when_something_is_taken() {
        let (mut outbox, mut outgoing) = outbox();
        let text = "x".repeat(MAX_DELIVERY);
        for _ in 0..AHEAD_COMMAND / MAX_DELIVERY {
            push(&mut outbox, Stream::Stdout, &text).await;
        }
        let mut waiting = Box::pin(outbox.room(1));
        assert!(poll_once(&mut waiting).await.is_none());
        assert!(outgoing.next().await.is_some());
        assert!(waiting.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn reading_stays_near_javascript_that_is_quick_and_goes_on_without_it_when_it_is_not() {
        let (mut outbox, mut outgoing) = outbox();
        let text = "x".repeat(MAX_DELIVERY);
        let mut taken = Vec::new();
        let start = Instant::now();
        while outbox.shared.ahead.available_permits() >= AHEAD_COMMAND - NEAR {
            push(&mut outbox, Stream::Stdout, &text).await;
        }
        let mut waiting = Box::pin(outbox.room(1));
        assert!(poll_once(&mut waiting).await.is_none());
        // What is on its way to JavaScript is not taken yet.
        while taken.len() * MAX_DELIVERY <= NEAR / 2 {
            taken.push(outgoing.next().await.unwrap());
        }
        assert!(poll_once(&mut waiting).await.is_none());
        taken.clear();
        assert!(waiting.await.is_some());
        assert_eq!(start.elapsed(), Duration::ZERO);

        // Taking eight a millisecond it comes nearer each time, but never catches up with what is read in no time.
        let slow = tokio::spawn(async move {
            while outgoing.next().await.is_some() {
                tokio::time::sleep(Duration::from_micros(125)).await;
            }
        });
        for _ in 0..AHEAD_COMMAND / MAX_DELIVERY {
            push(&mut outbox, Stream::Stdout, &text).await;
        }
        // In all, and not for each of them.
        assert!(start.elapsed() <= PATIENCE, "{:?}", start.elapsed());
        drop(outbox);
        slow.await.unwrap();
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
        let (mut outbox, outgoing) = outbox();
        push(&mut outbox, Stream::Stderr, &"x".repeat(AHEAD_COMMAND)).await;
        drop((outbox, outgoing));
        // Other tests use the same semaphore; none of them holds this much for long.
        assert!(PROCESS.available_permits() + AHEAD_COMMAND > before);
    }
}
