//! How often a broken output stream is connected anew, and after what delay: pure arithmetic, fed with failures and
//! progress. Knows no connection and no clock.

use std::time::Duration;

/// Delays double up to this.
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// A heartbeat proves a connection good once the connection has lasted this long. Sooner it proves nothing: a proxy
/// that drops every connection after its first heartbeat would keep a command connecting for ever.
pub const STEADY_AFTER: Duration = Duration::from_secs(5);

/// The budget of failures in a row.
#[derive(Clone, Debug)]
pub struct Reconnect {
    tolerated: u32,
    first_delay: Duration,
    failures: u32,
    /// Connections since the last progress, besides the one that it was made on.
    attempts: u32,
    delay: Duration,
}

impl Reconnect {
    pub fn new(tolerated: u32, first_delay: Duration) -> Self {
        Self { tolerated, first_delay, failures: 0, attempts: 0, delay: first_delay }
    }

    /// New output came: failures and delays start anew.
    pub fn progress(&mut self) {
        self.failures = 0;
        self.attempts = 0;
        self.delay = self.first_delay;
    }

    /// A heartbeat came on a connection as old as this. It is life, though no progress: delays stay long.
    pub fn heartbeat(&mut self, age: Duration) {
        if age >= STEADY_AFTER {
            self.failures = 0;
        }
    }

    /// One more round of tries.
    pub fn renew(&mut self) {
        self.failures = 0;
    }

    /// Counts one more connection, whatever it is made for.
    pub fn attempt(&mut self) -> u32 {
        self.attempts = self.attempts.saturating_add(1);
        self.attempts
    }

    /// Counts a failure. The delay before the next try, or `None` when the budget is used up; the next delay is
    /// then still there for [`Self::delay`].
    pub fn failure(&mut self, retry_after: Option<Duration>) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        (self.failures <= self.tolerated).then(|| self.delay(retry_after))
    }

    /// The next delay: at least what the endpoint asked for, and twice as long the next time.
    pub fn delay(&mut self, retry_after: Option<Duration>) -> Duration {
        let delay = self.delay;
        self.delay = (self.delay * 2).min(LONGEST_DELAY);
        delay.max(retry_after.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn three_failures_in_a_row_are_tolerated_with_growing_delays() {
        let mut reconnect = Reconnect::new(3, ms(250));
        let delays: Vec<_> = (0..4).map(|_| reconnect.failure(None)).collect();
        assert_eq!(delays, [Some(ms(250)), Some(ms(500)), Some(ms(1000)), None]);
    }

    #[test]
    fn delays_grow_to_ten_seconds_and_honour_retry_after() {
        let mut reconnect = Reconnect::new(u32::MAX, ms(6000));
        assert_eq!(reconnect.failure(Some(ms(7000))), Some(ms(7000)));
        assert_eq!(reconnect.failure(None), Some(ms(10_000)));
        assert_eq!(reconnect.failure(Some(ms(1))), Some(ms(10_000)));
    }

    #[test]
    fn progress_starts_both_anew_a_heartbeat_only_the_count_and_only_on_a_steady_connection() {
        let mut reconnect = Reconnect::new(1, ms(250));
        assert!(reconnect.failure(None).is_some());
        reconnect.heartbeat(ms(4999));
        assert!(reconnect.failure(None).is_none());
        reconnect.heartbeat(STEADY_AFTER);
        assert_eq!(reconnect.failure(None), Some(ms(500)));
        reconnect.progress();
        assert_eq!(reconnect.failure(None), Some(ms(250)));
    }

    #[test]
    fn none_may_be_tolerated() {
        assert_eq!(Reconnect::new(0, ms(250)).failure(None), None);
    }
}
