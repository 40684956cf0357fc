//! How often an API may be asked: one budget for each URL and process. [`Budget`] is the arithmetic, with the time as an
//! argument; [`Pacer`] lets requests wait for it. Owns no request, and does not know which answers ask for a pause.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep};

use crate::error::Fault;
use crate::events::{Cause, Throttle};

/// Cleanup may draw this many requests beyond the budget, so that ending many commands at once is not late.
pub const CLEANUP_RESERVE: u32 = 50;
/// No answer can hold requests back longer than this, whatever it says.
pub const LONGEST_HOLD: Duration = Duration::from_secs(60);
/// Cleanup has a deadline of seconds; a longer hold would only make it fail.
pub const LONGEST_CLEANUP_HOLD: Duration = Duration::from_secs(5);

/// What a request's place in the queue depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    Normal,
    /// Terminating a process tree, deleting a sandbox, removing a staged file.
    Cleanup,
}

/// The numbers of a budget. Zeros count as one: a budget that never grants anything would only hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pacing {
    pub requests_per_minute: u32,
    pub burst: u32,
}

impl Default for Pacing {
    fn default() -> Self {
        Self { requests_per_minute: 200, burst: 40 }
    }
}

/// A token bucket that holds `burst` requests and refills by `requests_per_minute`. Whatever the pattern, no 60 seconds
/// contain more than the sum of both, or 50 more with cleanup.
#[derive(Clone, Debug)]
pub struct Budget {
    pacing: Pacing,
    /// In parts of a request, see [`REQUEST`]. Cleanup takes it below zero.
    level: i128,
    /// When `level` was right.
    at: Instant,
    normal_from: Instant,
    cleanup_from: Instant,
}

/// One request, in the unit of the level: a refill rate of one a minute adds one part each nanosecond. Integers keep the
/// bound exact; floating point would drift.
const REQUEST: i128 = 60_000_000_000;

impl Budget {
    pub fn new(pacing: Pacing, now: Instant) -> Self {
        let pacing = Pacing { requests_per_minute: pacing.requests_per_minute.max(1), burst: pacing.burst.max(1) };
        Self { pacing, level: i128::from(pacing.burst) * REQUEST, at: now, normal_from: now, cleanup_from: now }
    }

    /// Takes one request from the budget, or says how long to wait before it is worth asking again.
    pub fn take(&mut self, priority: Priority, now: Instant) -> Result<(), Throttle> {
        match self.foresee(priority, 0, now) {
            None => {
                self.level -= REQUEST;
                Ok(())
            }
            Some(throttle) => Err(throttle),
        }
    }

    /// How long a request has to wait with so many others ahead of it, as things stand, and why.
    pub fn foresee(&mut self, priority: Priority, ahead: u32, now: Instant) -> Option<Throttle> {
        self.refill(now);
        let (floor, from) = match priority {
            Priority::Normal => (0, self.normal_from),
            Priority::Cleanup => (-i128::from(CLEANUP_RESERVE), self.cleanup_from),
        };
        let held = from.saturating_duration_since(now);
        let missing = (floor + 1 + i128::from(ahead)) * REQUEST - self.level;
        if missing <= 0 && held.is_zero() {
            return None;
        }
        let rate = i128::from(self.pacing.requests_per_minute);
        let refilled = u64::try_from((missing.max(0) + rate - 1) / rate).unwrap_or(u64::MAX);
        let refilled = Duration::from_nanos(refilled);
        Some(if held >= refilled {
            Throttle { cause: Cause::Hold, wait: held }
        } else {
            Throttle { cause: Cause::Budget, wait: refilled }
        })
    }

    /// An answer asked for a pause. Holds do not shorten each other.
    pub fn hold(&mut self, pause: Duration, now: Instant) {
        self.normal_from = self.normal_from.max(now + pause.min(LONGEST_HOLD));
        self.cleanup_from = self.cleanup_from.max(now + pause.min(LONGEST_CLEANUP_HOLD));
    }

    fn refill(&mut self, now: Instant) {
        let full = i128::from(self.pacing.burst) * REQUEST;
        // A u128 of nanoseconds fits: the clock would have to run for millennia.
        let passed = i128::try_from(now.saturating_duration_since(self.at).as_nanos()).unwrap_or(i128::from(u64::MAX));
        self.level = self.level.saturating_add(passed * i128::from(self.pacing.requests_per_minute)).min(full);
        self.at = self.at.max(now);
    }
}

/// The queue before a [`Budget`].
pub struct Pacer {
    pacing: Pacing,
    budget: Mutex<Budget>,
    normal: Queue,
    cleanup: Queue,
}

/// Whoever is next of its kind holds the lock while it waits for the budget; tokio's lock is fair, so the others queue in
/// order behind it, and a waiter that is dropped leaves no trace.
#[derive(Default)]
struct Queue {
    turn: tokio::sync::Mutex<()>,
    /// How many have come and not yet gone.
    length: AtomicU32,
}

struct Place<'a>(&'a Queue);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.length.fetch_sub(1, Ordering::Relaxed);
    }
}

static PACERS: LazyLock<Mutex<HashMap<String, Arc<Pacer>>>> = LazyLock::new(Mutex::default);

impl Pacer {
    pub fn new(pacing: Pacing) -> Self {
        Self {
            pacing,
            budget: Mutex::new(Budget::new(pacing, Instant::now())),
            normal: Queue::default(),
            cleanup: Queue::default(),
        }
    }

    /// The pacer of a URL, the same for the whole process. The first numbers stick, others are refused.
    pub fn shared(api_url: &str, pacing: Pacing) -> Result<Arc<Self>, Fault> {
        // Nothing panics while the lock is held, so a poisoned map is still whole.
        let mut pacers = PACERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pacer) = pacers.get(api_url) {
            let Pacing { requests_per_minute, burst } = pacer.pacing;
            return if pacer.pacing == pacing {
                Ok(Arc::clone(pacer))
            } else {
                Err(Fault::PacingFixed { requests_per_minute, burst })
            };
        }
        let pacer = Arc::new(Self::new(pacing));
        pacers.insert(api_url.to_owned(), Arc::clone(&pacer));
        Ok(pacer)
    }

    /// The pacer of a URL with the numbers that it has; the default ones if nobody has asked for others.
    pub fn existing(api_url: &str) -> Arc<Self> {
        let mut pacers = PACERS.lock().unwrap_or_else(PoisonError::into_inner);
        let default = || Arc::new(Self::new(Pacing::default()));
        Arc::clone(pacers.entry(api_url.to_owned()).or_insert_with(default))
    }

    /// Waits until a request may be sent, and counts it. Dropping the future before it is ready counts nothing. `tell` is
    /// called once if there is something to wait for, with how long that will be as things stand.
    pub async fn acquire(&self, priority: Priority, tell: impl FnOnce(Throttle)) {
        let queue = match priority {
            Priority::Normal => &self.normal,
            Priority::Cleanup => &self.cleanup,
        };
        let ahead = queue.length.fetch_add(1, Ordering::Relaxed);
        let _place = Place(queue);
        let mut tell = Some(tell);
        let mut tell_once = |throttle| tell.take().into_iter().for_each(|tell| tell(throttle));
        let _turn = match queue.turn.try_lock() {
            Ok(turn) => turn,
            Err(_) => {
                let foreseen = self.budget().foresee(priority, ahead, Instant::now());
                foreseen.into_iter().for_each(&mut tell_once);
                queue.turn.lock().await
            }
        };
        loop {
            // Asked anew after every sleep: meanwhile cleanup may have taken what was there, or a hold begun.
            let taken = self.budget().take(priority, Instant::now());
            let Err(throttle) = taken else { return };
            tell_once(throttle);
            sleep(throttle.wait).await;
        }
    }

    /// An answer asked for a pause: later requests wait, see [`Budget::hold`].
    pub fn hold(&self, pause: Duration) {
        self.budget().hold(pause, Instant::now());
    }

    fn budget(&self) -> std::sync::MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads `Retry-After`: seconds or an HTTP date. `None` for anything else; a date that has passed means no wait. The result
/// can be as long as the header says: add it to an instant only after a cap.
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests;
