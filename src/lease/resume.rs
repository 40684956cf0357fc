//! A lease that is to be used again: the sandbox is woken if need be, proves by its marker that it is the one, and is
//! freed of what an earlier worker left running. What cannot come back is expired; a passing fault is an error and
//! changes nothing.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{task::JoinSet, time::Instant};

use super::{
    MARKER,
    provider::{Provider, Scope, Surroundings},
    registry::{Admission, Running},
};
use crate::{
    api::{
        client::{Call, CallError, Client, ResourceId, within},
        sandbox::Desired,
    },
    config::{Config, Setting},
    error::{Error, Fault, Operation},
    process::{cleanup::Termination, stop::Stop},
};

/// What a lease's metadata says of its sandbox.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    pub marker: Option<String>,
    pub shape: Setting,
    pub rootfs: Setting,
    pub region: Setting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumed {
    Running,
    Expired,
}

impl Claims {
    /// The marker, if there can be a sandbox that has it and is what the settings ask for now.
    fn marker_for(&self, config: &Config) -> Option<&str> {
        let wanted = |text: &Option<String>| text.clone().map_or(Setting::Absent, Setting::Text);
        let same = self.shape == Setting::Text(config.shape.clone())
            && self.rootfs == wanted(&config.rootfs)
            && self.region == wanted(&config.region);
        self.marker.as_deref().filter(|marker| same && is_marker(marker))
    }
}

fn is_marker(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'))
}

impl Provider {
    pub async fn resume(
        &self,
        scope: &Scope,
        claims: &Claims,
        surroundings: &Surroundings,
        stop: &Arc<Stop>,
    ) -> Result<Resumed, Error> {
        let (lease_id, config) = scope.own(Fault::LeaseForeign)?;
        let client = self.client(config, surroundings)?;
        let key = scope.key(&client, Some(lease_id));
        let resuming =
            self.registry.begin(key, Admission::Resume, stop.clone()).map_err(|_| Fault::ResumeUnfinished)?;
        let Some(marker) = claims.marker_for(&client.config) else { return Ok(Resumed::Expired) };
        let lease = ResourceId::parse(lease_id)?;
        let client = client.about(&lease, None);
        let resume = Resume { client: &client, lease: &lease, stop, resuming: &resuming };
        match resume.run(marker).await {
            // Whatever it is that is gone, the sandbox is.
            Err(error) if error.status() == Some(404) => Ok(Resumed::Expired),
            resumed => resumed,
        }
        .inspect(|resumed| match resumed {
            Resumed::Running => resuming.adopt(),
            Resumed::Expired => resuming.disown(),
        })
    }
}

struct Resume<'a> {
    client: &'a Client,
    lease: &'a ResourceId,
    stop: &'a Arc<Stop>,
    resuming: &'a Running,
}

impl Resume<'_> {
    async fn run(&self, marker: &str) -> Result<Resumed, Error> {
        let deadline = Instant::now() + Duration::from_millis(self.client.config.timeout_ms.into());
        if self.unless_stopped(self.wake(marker, deadline)).await? == Resumed::Expired {
            return Ok(Resumed::Expired);
        }
        if let Some(_recovery) = self.resuming.recover()? {
            let left = self.unless_stopped(self.left_running(deadline)).await?;
            self.end(left).await?;
        }
        Ok(Resumed::Running)
    }

    async fn unless_stopped<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::select! {
            biased;
            _ = self.stop.stopped() => Err(Fault::Cancelled.into()),
            result = work => result,
        }
    }

    /// Brings the sandbox to run and looks for its marker.
    async fn wake(&self, marker: &str, deadline: Instant) -> Result<Resumed, Error> {
        let (client, lease) = (self.client, self.lease);
        let state = within(deadline, Operation::SandboxLifecycle, client.sandbox_state(lease)).await?;
        if matches!(&*state, "destroyed" | "failed") {
            return Ok(Resumed::Expired);
        }
        client.reach(lease, Desired::Running, deadline).await?;
        let read = client.exec(lease, "/bin/cat", &[MARKER]);
        let read = within(deadline, Operation::WorkspaceCommand, read).await?;
        Ok(if read.succeeded && read.stdout == marker { Resumed::Running } else { Resumed::Expired })
    }

    /// The processes of which something still runs.
    async fn left_running(&self, deadline: Instant) -> Result<Vec<ResourceId>, Error> {
        let operation = Operation::ProcessCleanup;
        let call = self.client.data(Call::get(operation, format!("/sandboxes/{}/processes", self.lease)));
        let call = async { call.await.map_err(|error| error.into_error(operation)) };
        let data = within(deadline, operation, call).await?;
        let invalid = |fault| CallError::Invalid(fault).into_error(operation);
        let processes =
            data.get("processes").and_then(Value::as_array).ok_or_else(|| invalid(Fault::ResponseInvalid))?;
        let running = processes.iter().filter(|process| process.get("tree_exited") != Some(&Value::Bool(true)));
        running
            .map(|process| {
                let id = process.get("process_id").and_then(Value::as_str).unwrap_or_default();
                ResourceId::parse(id).map_err(invalid)
            })
            .collect()
    }

    /// Terminates all of them side by side, also when the resume is cancelled meanwhile: whoever releases the lease needs
    /// to know how that ended.
    async fn end(&self, processes: Vec<ResourceId>) -> Result<(), Error> {
        let client = self.client;
        let allowed = client.options.cleanup_timeout.min(Duration::from_millis(client.config.timeout_ms.into()));
        let deadline = Instant::now() + allowed;
        let mut terminations = JoinSet::new();
        for process in processes {
            let client = client.about(self.lease, Some(&process)).into_owned();
            let (lease, stop) = (self.lease.clone(), self.stop.clone());
            terminations
                .spawn(async move { Termination::new(&client, &lease, &process).confirm(&stop, deadline).await });
        }
        let mut confirmed = Ok(());
        while let Some(terminated) = terminations.join_next().await {
            confirmed = confirmed.and(terminated.unwrap_or_else(|_| Err(Fault::CleanupUnconfirmed.into())));
        }
        confirmed.inspect_err(|_| self.resuming.mark_unconfirmed())
    }
}
