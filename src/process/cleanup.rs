//! Ending a process tree and removing what was staged, within one deadline. Says whether the tree is confirmed gone;
//! what that means for the command and its lease is decided elsewhere.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::stop::Stop;
use crate::{
    api::client::{Call, CallError, Client, ResourceId},
    error::{Attempt, Details, Error, Failure, Fault, Operation},
    events::Notice,
};

/// How long the endpoint lets a tree end by itself before it kills it.
const GRACE_MS: u32 = 1000;

/// An answer is due by then, grace included; later the request counts as unanswered and is asked anew.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Cleanup is urgent: it waits no longer than this between two tries, whatever `Retry-After` says.
const LONGEST_DELAY: Duration = Duration::from_secs(5);

const FIRST_DELAY: Duration = Duration::from_millis(250);
const LONGEST_OWN_DELAY: Duration = Duration::from_secs(2);

/// The termination of one process tree, with what was tried so far.
pub struct Termination<'a> {
    client: &'a Client,
    path: String,
    details: Details,
    /// A request was sent and is not answered yet.
    asking: bool,
}

impl<'a> Termination<'a> {
    pub fn new(client: &'a Client, lease: &ResourceId, process: &ResourceId) -> Self {
        let path = format!("/sandboxes/{lease}/processes/{process}?grace_ms={GRACE_MS}");
        Self { client, path, details: Details::new(Operation::ProcessCleanup), asking: false }
    }

    /// Asks until the tree is gone, the answer is final or the time is up. An error says that nobody knows whether the tree
    /// is gone.
    pub async fn confirm(mut self, stop: &Stop, deadline: Instant) -> Result<(), Error> {
        self.client.events.tell(Notice::CleanupStarted);
        let gone = tokio::select! {
            gone = self.run() => gone,
            () = stop.out_of_time(deadline) => false,
        };
        if gone {
            self.client.events.tell(Notice::CleanupConfirmed);
            return Ok(());
        }
        self.client.events.tell(Notice::CleanupUnconfirmed);
        if self.asking {
            self.details.push(Attempt::Failure(Failure::Timeout));
        }
        Err(Error::new(Fault::CleanupUnconfirmed, self.details))
    }

    /// Whether the tree is gone; if not, the answer was final.
    async fn run(&mut self) -> bool {
        let mut delay = FIRST_DELAY;
        loop {
            // Alone: the connection that the output came over may be the very one that no longer works.
            let call = Call::delete(Operation::ProcessCleanup, self.path.clone()).alone();
            self.client.turn(call.priority).await;
            self.asking = true;
            let unanswered = Err(CallError::Unanswered { failure: Failure::Timeout, tries: 1 });
            let answer = timeout(ANSWER_WITHIN, self.client.data_now(call)).await.unwrap_or(unanswered);
            self.asking = false;
            let retry_after = match answer {
                Ok(data) if data.get("tree_exited") == Some(&Value::Bool(true)) => return true,
                Ok(_) => {
                    self.details.push(Attempt::Status(200));
                    None
                }
                Err(error) if error.status() == Some(404) => return true,
                Err(error) => {
                    error.record(&mut self.details);
                    if matches!(error.status(), Some(status) if status != 429 && status < 500) {
                        return false;
                    }
                    error.retry_after()
                }
            };
            sleep(delay.max(retry_after.unwrap_or_default().min(LONGEST_DELAY))).await;
            delay = (delay * 2).min(LONGEST_OWN_DELAY);
        }
    }
}
