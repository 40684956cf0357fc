//! How a running command is told to end, by whom it may come: a signal, a release, a shutdown, the end of a worker
//! thread. The first reason counts. Ends nothing itself.

use std::sync::OnceLock;

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// What an early end is to the caller: a result that says so, or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Timeout,
    Cancelled,
}

#[derive(Debug)]
pub struct Stop {
    token: CancellationToken,
    reason: OnceLock<Reason>,
    hurry: watch::Sender<Option<Instant>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self { token: CancellationToken::new(), reason: OnceLock::new(), hurry: watch::Sender::new(None) }
    }
}

impl Stop {
    pub fn stop(&self, reason: Reason) {
        // Whoever comes later finds the command ending for the first reason.
        let _ = self.reason.set(reason);
        self.token.cancel();
    }

    /// Bounds the cleanup of a command that a shutdown has to wait for.
    pub fn hurry(&self, deadline: Instant) {
        self.hurry.send_replace(Some(deadline));
    }

    pub async fn stopped(&self) -> Reason {
        self.token.cancelled().await;
        // Set before the token was cancelled.
        self.reason.get().copied().unwrap_or(Reason::Cancelled)
    }

    /// Waits for the command's deadline or for somebody to stop it.
    pub async fn stopped_or_due(&self, deadline: Option<Instant>) -> Reason {
        let due = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            reason = self.stopped() => reason,
            () = due => Reason::Timeout,
        }
    }

    /// Waits until cleanup has used up its time: its own, or that of a shutdown.
    pub async fn out_of_time(&self, own: Instant) {
        let mut hurry = self.hurry.subscribe();
        loop {
            let deadline = hurry.borrow_and_update().map_or(own, |hurried| own.min(hurried));
            tokio::select! {
                () = sleep_until(deadline) => return,
                // The sender lives in `self`, so this cannot fail while it is waited for.
                _ = hurry.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_reason_counts() {
        let stop = Stop::default();
        stop.stop(Reason::Timeout);
        stop.stop(Reason::Cancelled);
        assert_eq!(stop.stopped().await, Reason::Timeout);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_is_a_timeout() {
        let due = Instant::now() + Duration::from_secs(3);
        assert_eq!(Stop::default().stopped_or_due(Some(due)).await, Reason::Timeout);
        assert_eq!(Instant::now(), due);
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_shortens_a_cleanup_that_has_begun_but_never_lengthens_it() {
        let stop = Stop::default();
        let start = Instant::now();
        let own = start + Duration::from_secs(15);
        let (_, ()) = tokio::join!(stop.out_of_time(own), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            stop.hurry(start + Duration::from_secs(9));
        });
        assert_eq!(Instant::now(), start + Duration::from_secs(9));
        stop.hurry(start + Duration::from_secs(60));
        stop.out_of_time(own).await;
        assert_eq!(Instant::now(), own);
    }
}
