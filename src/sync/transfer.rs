//! A batch, step by step: each operation's files one after the other, then its commands. Owns what all of it needs: the
//! time there is, commands in the sandbox, the scratch file's end; how files move is told by `inbound` and `outbound`.
//! Whatever happens, nothing of a transfer's own is left on either side, and blocking work on the host has ended before
//! this has.

use std::time::Duration;

use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout},
};

use super::{
    Skips,
    batch::{Direction, Mapping, Operation as Batched, PostUpload},
    remote::Scratch,
};
use crate::{
    api::client::{Client, ResourceId, within},
    error::{Attempt, Details, Error, Failure, Fault, Operation},
    lease::WORKSPACE,
    process::{
        execute::{Outcome, execute},
        output::{Captured, Output},
        script::Command,
        stop::{Reason, Stop},
    },
    stream::frame::Exit,
};

const TRANSFER: Operation = Operation::FileTransfer;

/// After everything else went well the removal of a scratch file is waited for no longer than this.
const REMOVAL_AFTER_SUCCESS: Duration = Duration::from_secs(5);

/// What one operation has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub files: u64,
    pub bytes: u64,
}

/// A batch that is over.
#[derive(Debug)]
pub struct Synced {
    pub outcome: Result<Vec<Moved>, Error>,
    pub skips: Skips,
    /// What the last command had printed, if it failed.
    pub output: Option<Captured>,
}

/// Moves a checked batch. `stop` ends it early.
pub async fn sync(
    client: &Client,
    lease: &ResourceId,
    batch: Vec<Batched>,
    direction: Direction,
    stop: &Stop,
) -> Synced {
    let client = &*client.about(lease, None);
    let deadline = Instant::now() + Duration::from_millis(client.config.timeout_ms.into());
    let mut transfer = Transfer { client, lease, stop, deadline, skips: Skips::default(), output: None };
    let outcome = transfer.run(batch, direction).await;
    Synced { outcome, skips: transfer.skips, output: transfer.output }
}

pub(super) struct Transfer<'a> {
    pub client: &'a Client,
    pub lease: &'a ResourceId,
    pub skips: Skips,
    stop: &'a Stop,
    deadline: Instant,
    output: Option<Captured>,
}

impl Transfer<'_> {
    async fn run(&mut self, batch: Vec<Batched>, direction: Direction) -> Result<Vec<Moved>, Error> {
        let mut all = Vec::with_capacity(batch.len());
        for operation in batch {
            let mut moved = Moved::default();
            for mapping in operation.files {
                let Moved { files, bytes } = self.mapping(mapping, direction).await?;
                moved.files += files;
                moved.bytes += bytes;
            }
            for command in operation.commands {
                self.command(command).await?;
            }
            all.push(moved);
        }
        Ok(all)
    }

    async fn mapping(&mut self, mapping: Mapping, direction: Direction) -> Result<Moved, Error> {
        let scratch = Scratch::default();
        let moved = match direction {
            Direction::In => self.inbound(mapping, &scratch).await,
            Direction::Out => self.outbound(mapping, &scratch).await,
        };
        // A placed file was renamed, and a placed archive removed, by the command that placed it.
        if direction == Direction::Out || moved.is_err() {
            self.remove(&scratch, moved.is_ok()).await;
        }
        moved
    }

    async fn command(&mut self, command: PostUpload) -> Result<(), Error> {
        self.shell(command.cwd.guard()?).await?;
        let deadline = command.timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms.into()));
        let deadline = deadline.map_or(self.deadline, |deadline| deadline.min(self.deadline));
        self.bash(command.command, command.cwd.as_str(), deadline).await.map(drop)
    }

    /// Runs one of our own scripts.
    pub async fn shell(&mut self, script: String) -> Result<String, Error> {
        self.bash(script, WORKSPACE, self.deadline).await
    }

    /// Runs a script, as a command of the lease, and gives what it printed.
    async fn bash(&mut self, script: String, cwd: &str, deadline: Instant) -> Result<String, Error> {
        let command = Command {
            command: "/bin/bash".to_owned(),
            args: vec!["-c".to_owned(), script],
            cwd: Some(cwd.to_owned()),
            ..Command::default()
        };
        let mut output = Output::new(None);
        let ended = execute(self.client, self.lease, &command, Some(deadline), self.stop, &mut output).await;
        let captured = output.into_captured();
        let error = match ended.outcome {
            Ok(Outcome::Exited(Exit { code: Some(0.0), .. })) => return Ok(captured.stdout.to_string()),
            Ok(_) => Error::new(Fault::TransferCommand, Details::new(Operation::WorkspaceCommand)),
            Err(error) => error,
        };
        self.output = ended.process.map(|_| captured);
        Err(error)
    }

    /// Ends requests when the time is up, or when the sync is stopped.
    pub async fn bounded<T>(&self, requests: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::select! {
            biased;
            reason = self.stop.stopped() => Err(match reason {
                Reason::Cancelled => Fault::Cancelled.into(),
                Reason::Timeout => Error::request(Fault::Connection, TRANSFER, Attempt::Failure(Failure::Timeout)),
            }),
            result = within(self.deadline, TRANSFER, requests) => result,
        }
    }

    async fn remove(&self, scratch: &Scratch, succeeded: bool) {
        let removal = self.client.remove_files(self.lease, std::slice::from_ref(&scratch.path));
        let allowed = if succeeded { REMOVAL_AFTER_SUCCESS } else { self.client.options.cleanup_timeout };
        // A removal that fails, or takes too long, fails nothing.
        tokio::select! {
            _ = timeout(allowed, removal) => {}
            () = self.stop.out_of_time(Instant::now() + allowed) => {}
        }
    }
}

/// What went over the wire is not all of it.
pub(super) fn cut() -> Error {
    Error::request(Fault::Connection, TRANSFER, Attempt::Failure(Failure::Reset))
}

/// Runs what blocks where it may.
pub(super) async fn blocking<T, F>(work: F) -> Result<T, Error>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Error> + Send + 'static,
{
    joined(spawn_blocking(work).await)
}

pub(super) fn joined<T>(result: Result<Result<T, Error>, tokio::task::JoinError>) -> Result<T, Error> {
    result.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        // The runtime is ending.
        Err(_) => Err(Fault::Cancelled.into()),
    })
}
