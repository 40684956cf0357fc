//! What a call tells of itself while it runs. Each part of the core tells in its own terms, as a [`Notice`]; the sandbox and
//! the process that it is about are added here, and who listens takes [`Event`]s from [`Told`], in order. Without a listener
//! [`Events`] is empty, and telling costs a branch. Nothing is decided by what is told, and nothing in it is secret.

use std::{sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::error::Failure;

/// Events that may wait for their listener before its call makes no further ordinary requests.
const AHEAD: usize = 1024;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A process's output stream is open.
    Connected,
    /// It is lost, and will be asked for again. Attempts count from the last new output.
    Reconnecting {
        reason: Loss,
        attempt: u32,
        delay: Duration,
    },
    Throttled(Throttle),
    CleanupStarted,
    CleanupConfirmed,
    CleanupUnconfirmed,
    /// A released sandbox is paused.
    Stopped,
    /// A released sandbox is gone.
    Destroyed,
}

/// How an output stream was lost, or was not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It ended without an exit.
    Ended,
    /// Nothing came for too long.
    Idle,
    Status(u16),
    Failure(Failure),
}

/// Requests are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    pub cause: Cause,
    pub wait: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A request waits for the budget of its URL.
    Budget,
    /// A request waits because an earlier answer asked for a pause.
    Hold,
    /// A request was answered with 429.
    RateLimit,
}

/// What an event is about, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    pub lease: Option<String>,
    pub process: Option<String>,
}

#[derive(Debug)]
pub struct Event {
    pub subject: Subject,
    pub notice: Notice,
    /// Given back when the event has been taken. Without one there are too many waiting already.
    _place: Option<OwnedSemaphorePermit>,
}

/// The telling end. Empty if nobody listens.
#[derive(Clone, Debug, Default)]
pub struct Events(Option<Arc<Teller>>);

#[derive(Clone, Debug)]
struct Teller {
    subject: Subject,
    /// `None` is the end.
    told: mpsc::UnboundedSender<Option<Event>>,
    ahead: Arc<Semaphore>,
}

/// The listener's end.
#[derive(Debug)]
pub struct Told(mpsc::UnboundedReceiver<Option<Event>>);

/// Of one call that somebody listens to.
pub fn events() -> (Events, Told) {
    let (told, taken) = mpsc::unbounded_channel();
    let teller = Teller { subject: Subject::default(), told, ahead: Arc::new(Semaphore::new(AHEAD)) };
    (Events(Some(Arc::new(teller))), Told(taken))
}

impl Events {
    pub fn are_heard(&self) -> bool {
        self.0.is_some()
    }

    /// The same call's, about this sandbox and process.
    pub fn about(&self, lease: &str, process: Option<&str>) -> Self {
        Self(self.0.as_ref().map(|teller| {
            let subject = Subject { lease: Some(lease.to_owned()), process: process.map(str::to_owned) };
            Arc::new(Teller { subject, ..Teller::clone(teller) })
        }))
    }

    pub fn tell(&self, notice: Notice) {
        let Some(teller) = &self.0 else { return };
        let place = teller.ahead.clone().try_acquire_owned().ok();
        // Fails when the listener has gone.
        let _ = teller.told.send(Some(Event { subject: teller.subject.clone(), notice, _place: place }));
    }

    /// Waits while too much is told that nobody has taken yet: memory stays bounded however slow the listener is.
    pub async fn room(&self) {
        if let Some(teller) = &self.0 {
            // It is never closed; and what a listener has not taken when it goes gives its places back.
            let _ = teller.ahead.acquire().await;
        }
    }

    /// Nothing more is told, whoever still could.
    pub fn end(&self) {
        if let Some(teller) = &self.0 {
            let _ = teller.told.send(None);
        }
    }
}

impl Told {
    /// `None` once everything was taken that had been told before the end.
    pub async fn next(&mut self) -> Option<Event> {
        self.0.recv().await.flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    /// Whether it is ready when it is polled for the first time.
    async fn ready(future: impl Future<Output = ()>) -> bool {
        let mut future = pin!(future);
        poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
    }

    #[tokio::test]
    async fn events_come_in_order_with_their_subject_and_none_after_the_end() {
        let (events, mut told) = events();
        let process = events.about("sb", Some("proc"));
        events.tell(Notice::Stopped);
        process.tell(Notice::Connected);
        events.about("sb", None).tell(Notice::Destroyed);
        events.end();
        process.tell(Notice::CleanupStarted);
        let mut taken = Vec::new();
        while let Some(Event { subject: Subject { lease, process }, notice, .. }) = told.next().await {
            taken.push((lease, process, notice));
        }
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            taken,
            [
                (None, None, Notice::Stopped),
                (text("sb"), text("proc"), Notice::Connected),
                (text("sb"), None, Notice::Destroyed),
            ]
        );
    }

    #[tokio::test]
    async fn a_slow_listener_is_waited_for_and_one_that_is_gone_is_not() {
        let (events, mut told) = events();
        for _ in 1..AHEAD {
            events.tell(Notice::Connected);
        }
        assert!(ready(events.room()).await);
        events.tell(Notice::Connected);
        // What must be told is told all the same.
        events.tell(Notice::CleanupStarted);
        assert!(!ready(events.room()).await);
        drop(told.next().await);
        assert!(ready(events.room()).await);
        events.tell(Notice::Connected);
        assert!(!ready(events.room()).await);
        drop(told);
        assert!(ready(events.room()).await);
        events.tell(Notice::Connected);
        assert!(ready(events.room()).await);
    }

    #[tokio::test]
    async fn without_a_listener_nothing_waits_and_nothing_is_kept() {
        let events = Events::default();
        events.tell(Notice::Connected);
        events.end();
        assert!(ready(events.room()).await);
        assert!(!events.about("sb", None).are_heard());
    }
}
