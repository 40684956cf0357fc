//! A sandbox's life, one call each: create, look, pause or resume and wait, destroy. Decides nothing about leases.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use super::client::{Call, CallError, Client, ResourceId, within};
use crate::error::{Attempt, Details, Error, Failure, Fault, Operation};

/// The endpoint changes states on its own time; this is how often it is asked.
const POLL: Duration = Duration::from_millis(250);

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
    /// Asks for a sandbox as the settings describe it. Sent at most once: whether a lost answer left a sandbox behind
    /// nobody can find out. The request's turn has come when this is called.
    pub async fn create_sandbox_now(&self) -> Result<ResourceId, Error> {
        let mut body = json!({"shape": self.config.shape, "ingress_enabled": false});
        for (name, value) in [("rootfs", &self.config.rootfs), ("region", &self.config.region)] {
            if let Some(value) = value {
                body[name] = value.as_str().into();
            }
        }
        let call = Call::post(LIFECYCLE, "/sandboxes".to_owned()).json(body).alone();
        let data = self.data_now(call).await.map_err(|error| error.into_error(LIFECYCLE))?;
        let id = data.get("id").and_then(Value::as_str).and_then(|id| ResourceId::parse(id).ok());
        id.ok_or_else(|| CallError::Invalid(Fault::ResourceIdInvalid).into_error(LIFECYCLE))
    }

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
        let call = self.data(Call::delete(LIFECYCLE, format!("/sandboxes/{id}")));
        match within(deadline, LIFECYCLE, async { call.await.map_err(|error| error.into_error(LIFECYCLE)) }).await {
            Err(error) if error.status() != Some(404) => Err(error),
            _ => Ok(()),
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
}
