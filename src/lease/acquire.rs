//! A new lease: a sandbox that runs, with its workspace and its marker, or none at all. A sandbox whose setup fails or is
//! cancelled is deleted again.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use uuid::Uuid;

use super::{
    MARKER, WORKSPACE,
    provider::{Provider, Scope, Surroundings},
    registry::Admission,
};
use crate::{
    api::{
        client::{Client, ResourceId, within},
        pacer::Priority,
        sandbox::Desired,
    },
    config::Config,
    error::{Error, Fault, Operation},
    events::Notice,
    process::{script::shell_quote, stop::Stop},
};

/// A lease as its holder has to remember it.
#[derive(Debug)]
pub struct Acquired {
    pub lease: ResourceId,
    pub marker: String,
    pub config: Config,
}

impl Provider {
    /// Makes a lease. `expires` says that the caller needs it to end by itself, which no sandbox does.
    pub async fn acquire(
        &self,
        scope: &Scope,
        surroundings: &Surroundings,
        expires: bool,
        stop: &Arc<Stop>,
    ) -> Result<Acquired, Error> {
        if expires {
            return Err(Fault::ExpiryUnsupported.into());
        }
        let client = self.client(Config::parse(&scope.config)?, surroundings)?;
        let _setting_up = self.registry.begin(scope.key(&client, None), Admission::Guarded, stop.clone())?;
        let (lease, marker) = set_up(&client, stop).await?;
        self.registry.adopt(&scope.key(&client, Some(lease.as_str())));
        Ok(Acquired { lease, marker, config: client.config.clone() })
    }
}

/// Creates a sandbox and prepares it.
pub(super) async fn set_up(client: &Client, stop: &Stop) -> Result<(ResourceId, String), Error> {
    let deadline = Instant::now() + Duration::from_millis(client.config.timeout_ms.into());
    tokio::select! {
        biased;
        _ = stop.stopped() => return Err(Fault::Cancelled.into()),
        () = client.turn(Priority::Normal) => {}
    }
    // From here on the sandbox may exist, and only the answer tells its name: being cancelled has to wait for that.
    let creation = within(deadline, Operation::SandboxLifecycle, client.create_sandbox_now());
    let lease = tokio::select! {
        created = creation => created?,
        () = stop.out_of_time(deadline) => return Err(Fault::Cancelled.into()),
    };
    let prepared = tokio::select! {
        biased;
        _ = stop.stopped() => Err(Fault::Cancelled.into()),
        prepared = prepare(client, &lease, deadline) => prepared,
    };
    match prepared {
        Ok(marker) => Ok((lease, marker)),
        Err(error) => match discard(client, &lease, stop).await {
            Ok(()) => Err(error),
            Err(_) => Err(Error::new(Fault::SetupUnconfirmed(lease.to_string()), error.details)),
        },
    }
}

/// Deletes a sandbox that nobody will use.
pub(super) async fn discard(client: &Client, lease: &ResourceId, stop: &Stop) -> Result<(), Error> {
    let client = client.about(lease, None);
    let deadline = Instant::now() + Duration::from_millis(client.config.timeout_ms.into());
    client.events.tell(Notice::CleanupStarted);
    let deleted = tokio::select! {
        deleted = client.destroy_sandbox(lease, deadline) => deleted,
        // A shutdown's time is up.
        () = stop.out_of_time(deadline) => Err(Fault::Connection.into()),
    };
    client.events.tell(if deleted.is_ok() { Notice::CleanupConfirmed } else { Notice::CleanupUnconfirmed });
    deleted
}

async fn prepare(client: &Client, lease: &ResourceId, deadline: Instant) -> Result<String, Error> {
    let client = client.about(lease, None);
    client.reach(lease, Desired::Running, deadline).await?;
    let script = format!("mkdir -p -- {}", shell_quote(WORKSPACE)?);
    let arguments = ["-lc", &script];
    let made = client.exec(lease, "/bin/bash", &arguments);
    if !within(deadline, Operation::WorkspaceCommand, made).await?.succeeded {
        return Err(Fault::WorkspaceUnprepared.into());
    }
    let marker = Uuid::new_v4().to_string();
    let written = client.upload(lease, MARKER, marker.clone().into_bytes());
    within(deadline, Operation::FileTransfer, written).await?;
    Ok(marker)
}
