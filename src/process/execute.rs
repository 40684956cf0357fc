//! One command: stages its input, starts it, follows it to its end and leaves nothing behind. Owns the order of things
//! and what each way to end means; leaves reading to [`follow`], ending early to [`Stop`] and leases to others.

use std::{borrow::Cow, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::{
    cleanup::Termination,
    follow::{Policy, Remote, follow},
    output::Output,
    script::{Command, is_staged},
    stop::{Reason, Stop},
};
use crate::{
    api::{
        client::{Call, CallError, Client, ResourceId},
        pacer::Priority,
    },
    error::{Details, Error, Failure, Fault, Operation},
    events::Notice,
    stream::frame::Exit,
};

/// After a normal exit nothing but the removal of a staged file is waited for, and that no longer than this.
const REMOVAL_AFTER_EXIT: Duration = Duration::from_secs(2);

/// How a command ended that ended well enough to have a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Exited(Exit),
    TimedOut,
}

/// A command that is no longer running, or of which nobody can say so.
#[derive(Debug)]
pub struct Ended {
    pub outcome: Result<Outcome, Error>,
    /// The process, once it was known.
    pub process: Option<ResourceId>,
}

/// Runs a checked command in a sandbox. What it prints goes to `output`.
pub async fn execute(
    client: &Client,
    lease: &ResourceId,
    command: &Command,
    deadline: Option<Instant>,
    stop: &Stop,
    output: &mut Output,
) -> Ended {
    let about = client.about(lease, None);
    let mut run = Run { base: client, client: about, lease, process: None, staged: Vec::new(), creating: false };
    let outcome = tokio::select! {
        biased;
        // First, so that a command that was stopped while it waited its turn is not started after all.
        reason = stop.stopped_or_due(deadline) => Err(reason),
        outcome = run.work(command, output) => Ok(outcome),
    };
    let outcome = match outcome {
        Ok(exit) => exit.map(Outcome::Exited),
        Err(reason) => run.interrupted(reason),
    };
    if outcome.is_ok() {
        output.finish();
    }
    output.flush();
    let outcome = run.settle(outcome, stop).await;
    Ended { outcome, process: run.process }
}

struct Run<'a> {
    base: &'a Client,
    /// What it tells is about this command.
    client: Cow<'a, Client>,
    lease: &'a ResourceId,
    process: Option<ResourceId>,
    /// Files in the sandbox that may exist.
    staged: Vec<String>,
    /// The create request was handed over and not yet answered.
    creating: bool,
}

impl Run<'_> {
    async fn work(&mut self, command: &Command, output: &mut Output) -> Result<Exit, Error> {
        let stdin = match &command.stdin {
            Some(stdin) => Some(self.stage("stdin", stdin).await?),
            None => None,
        };
        let script = command.script(stdin.as_deref(), self.client.options.staging);
        let args = if is_staged(&script, self.client.options.staging) {
            json!(["-l", self.stage("script", &script).await?])
        } else {
            json!(["-lc", script])
        };
        let process = self.create(args, command.cwd()).await?;
        self.client = self.base.about(self.lease, Some(&process));
        self.process = Some(process.clone());
        self.close_stdin(&process).await?;
        let options = &self.client.options;
        let policy = Policy {
            attempts: options.reconnect_attempts,
            delay: options.reconnect_delay,
            idle_timeout: options.idle_timeout,
        };
        follow(&mut Remote::new(&self.client, self.lease, &process), output, policy).await
    }

    /// Uploads a file that is removed at the end, whether its upload succeeds or not.
    async fn stage(&mut self, what: &str, content: &str) -> Result<String, Error> {
        let path = format!("/tmp/paperclip-{what}-{}", Uuid::new_v4());
        self.staged.push(path.clone());
        self.client.upload(self.lease, &path, content.to_owned().into_bytes()).await?;
        Ok(path)
    }

    /// Starts the process. Once the request is handed over, only an answer can tell that no process was started.
    async fn create(&mut self, args: Value, cwd: Option<&str>) -> Result<ResourceId, Error> {
        let mut body = json!({"cmd": "/bin/bash", "args": args});
        if let Some(cwd) = cwd {
            body["cwd"] = cwd.into();
        }
        // Alone: a request on a reused connection can be lost without anybody knowing whether it arrived.
        let call =
            Call::post(Operation::ProcessCreation, format!("/sandboxes/{}/processes", self.lease)).json(body).alone();
        self.client.turn(Priority::Normal).await;
        self.creating = true;
        let answer = self.client.data_now(call).await;
        self.creating = false;
        match answer {
            Ok(data) => data
                .get("process_id")
                .and_then(Value::as_str)
                .and_then(|id| ResourceId::parse(id).ok())
                .ok_or_else(|| self.unconfirmed_creation(&CallError::Invalid(Fault::ResourceIdInvalid))),
            Err(error @ CallError::Status { status, .. }) if status < 500 => {
                Err(error.into_error(Operation::ProcessCreation))
            }
            Err(error) => Err(self.unconfirmed_creation(&error)),
        }
    }

    /// No command waits for more input: what it gets was staged before, or there is none.
    async fn close_stdin(&self, process: &ResourceId) -> Result<(), Error> {
        let path = format!("/sandboxes/{}/processes/{process}/stdin/close", self.lease);
        match self.client.data(Call::post(Operation::StdinClose, path)).await {
            Ok(_) => Ok(()),
            // It is closed already.
            Err(error) if error.status() == Some(409) => Ok(()),
            Err(error) => Err(error.into_error(Operation::StdinClose)),
        }
    }

    /// There may be a process, and nobody knows its name: nothing can end it.
    fn unconfirmed_creation(&self, error: &CallError) -> Error {
        self.client.events.tell(Notice::CleanupUnconfirmed);
        let mut details = Details::new(Operation::ProcessCreation);
        error.record(&mut details);
        Error::new(Fault::CreationUnconfirmed, details)
    }

    fn interrupted(&self, reason: Reason) -> Result<Outcome, Error> {
        match reason {
            _ if self.creating => {
                Err(self.unconfirmed_creation(&CallError::Unanswered { failure: Failure::Timeout, tries: 1 }))
            }
            Reason::Timeout => Ok(Outcome::TimedOut),
            Reason::Cancelled => Err(Fault::Cancelled.into()),
        }
    }

    /// Leaves nothing behind: terminates a process that did not exit, and removes what was staged.
    async fn settle(&self, outcome: Result<Outcome, Error>, stop: &Stop) -> Result<Outcome, Error> {
        if matches!(outcome, Ok(Outcome::Exited(_))) {
            // A removal that fails, or takes too long, fails nothing.
            let _ = timeout(REMOVAL_AFTER_EXIT, self.remove_staged()).await;
            return outcome;
        }
        let allowed =
            self.client.options.cleanup_timeout.min(Duration::from_millis(self.client.config.timeout_ms.into()));
        let started = Instant::now();
        let terminated = self.terminate(stop, started + allowed);
        // A termination that hangs must not cost the staged file its removal.
        let half = async {
            stop.out_of_time(started + allowed / 2).await;
        };
        tokio::pin!(terminated);
        let confirmed = tokio::select! {
            confirmed = &mut terminated => {
                self.remove_within(stop, started + allowed).await;
                confirmed
            }
            () = half => tokio::join!(terminated, self.remove_within(stop, started + allowed)).0,
        };
        confirmed.and(outcome)
    }

    /// Without a known process there is nothing to terminate.
    async fn terminate(&self, stop: &Stop, deadline: Instant) -> Result<(), Error> {
        let Some(process) = &self.process else { return Ok(()) };
        Termination::new(&self.client, self.lease, process).confirm(stop, deadline).await
    }

    async fn remove_within(&self, stop: &Stop, deadline: Instant) {
        tokio::select! {
            () = self.remove_staged() => {}
            () = stop.out_of_time(deadline) => {}
        }
    }

    async fn remove_staged(&self) {
        if !self.staged.is_empty() {
            // Nothing depends on it, and the sandbox's own end removes them for certain.
            let _ = self.client.remove_files(self.lease, &self.staged).await;
        }
    }
}
