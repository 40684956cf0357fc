//! A sandbox's life, one call each: look, pause and wait, destroy; and the one-shot command that removes a staged file.
//! Decides nothing about leases.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use super::client::{Call, CallError, Client, Payload, ResourceId};
use crate::{
    api::pacer::Priority,
    error::{Attempt, Details, Error, Failure, Fault, Operation},
};

/// The endpoint changes states on its own time; this is how often it is asked.
const POLL: Duration = Duration::from_millis(250);

/// What JavaScript's `encodeURIComponent` escapes.
const URI_COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// A state that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Desired {
    Paused,
    Running,
}

impl Desired {
    fn state(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Running => "running",
        }
    }

    fn verb(self) -> &'static str {
        match self {
            Self::Paused => "pause",
            Self::Running => "resume",
        }
    }

    fn can_be_asked_in(self, state: &str) -> bool {
        match self {
            Self::Paused => state == "running",
            Self::Running => matches!(state, "paused" | "error"),
        }
    }
}

const LIFECYCLE: Operation = Operation::SandboxLifecycle;

impl Client {
    /// The sandbox's state, by the name that the endpoint gives it.
    pub async fn sandbox_state(&self, id: &ResourceId) -> Result<String, Error> {
        let data = self.data(Call::get(LIFECYCLE, format!("/sandboxes/{id}"))).await;
        let data = data.map_err(|error| error.into_error(LIFECYCLE))?;
        match (data.get("id").and_then(Value::as_str), data.get("status").and_then(Value::as_str)) {
            (Some(named), Some(state)) if named == id.as_str() => Ok(state.to_owned()),
            _ => Err(Error::request(Fault::SandboxInvalid, LIFECYCLE, Attempt::Failure(Failure::Protocol))),
        }
    }

    /// Deletes the sandbox; one that is gone already is deleted.
    pub async fn destroy_sandbox(&self, id: &ResourceId, deadline: Instant) -> Result<(), Error> {
        let call = Call::delete(LIFECYCLE, format!("/sandboxes/{id}"));
        let unanswered = Err(CallError::Unanswered { failure: Failure::Timeout, tries: 1 });
        match timeout_at(deadline, self.data(call)).await.unwrap_or(unanswered) {
            Ok(_) => Ok(()),
            Err(error) if error.status() == Some(404) => Ok(()),
            Err(error) => Err(error.into_error(LIFECYCLE)),
        }
    }

    /// Asks for a state once, if need be, and waits until it is reached.
    pub async fn reach(&self, id: &ResourceId, desired: Desired, deadline: Instant) -> Result<(), Error> {
        match timeout_at(deadline, self.reach_at_any_time(id, desired)).await {
            Ok(result) => result,
            Err(_) => {
                let fault = Fault::StateNotReached(desired.state());
                Err(Error::request(fault, LIFECYCLE, Attempt::Failure(Failure::Timeout)))
            }
        }
    }

    async fn reach_at_any_time(&self, id: &ResourceId, desired: Desired) -> Result<(), Error> {
        let mut asked = false;
        loop {
            let state = self.sandbox_state(id).await?;
            if state == desired.state() {
                return Ok(());
            }
            let can_ask = desired.can_be_asked_in(&state);
            if can_ask && !asked {
                let call = Call::post(LIFECYCLE, format!("/sandboxes/{id}/{}", desired.verb()));
                match self.data(call).await {
                    Ok(_) => asked = true,
                    // Somebody else is changing the state: reading it will tell how that ends.
                    Err(error) if error.status() == Some(409) => {}
                    Err(error) => return Err(error.into_error(LIFECYCLE)),
                }
            } else if !can_ask && !matches!(&*state, "creating" | "pausing" | "resuming") {
                return Err(Error::new(Fault::StateNotReached(desired.state()), Details::new(LIFECYCLE)));
            }
            sleep(POLL).await;
        }
    }

    /// Writes a file; its directories are created.
    pub async fn upload(&self, id: &ResourceId, path: &str, content: Vec<u8>) -> Result<(), Error> {
        let operation = Operation::FileTransfer;
        let query = utf8_percent_encode(path, URI_COMPONENT);
        let call = Call {
            payload: Payload::Bytes(content),
            ..Call::new(reqwest::Method::PUT, operation, format!("/sandboxes/{id}/files?path={query}"))
        };
        self.send(call).await.map(drop).map_err(|error| error.into_error(operation))
    }

    /// Removes files by a one-shot command, since the files API has no deletion.
    pub async fn remove_files(&self, id: &ResourceId, paths: &[String]) -> Result<Map<String, Value>, CallError> {
        let args: Vec<&str> = ["-f", "--"].into_iter().chain(paths.iter().map(String::as_str)).collect();
        let call = Call::post(Operation::WorkspaceCommand, format!("/sandboxes/{id}/exec"))
            .json(json!({"cmd": "/bin/rm", "args": args}));
        self.data(Call { priority: Priority::Cleanup, ..call }).await
    }
}
