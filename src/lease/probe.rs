//! A trial: a sandbox is set up as for a lease, runs a command and is deleted, whatever came of it.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    WORKSPACE,
    acquire::{discard, set_up},
    provider::{Provider, Scope, Surroundings},
    registry::Admission,
};
use crate::{
    api::client::{Client, ResourceId},
    config::Config,
    error::{Error, Fault},
    process::{
        execute::{Outcome, execute},
        output::Output,
        script::Command,
        stop::Stop,
    },
    stream::frame::Exit,
};

const READY: &str = "paperclip-createos-ready";

/// What a successful probe says.
pub const SUCCEEDED: &str = "CreateOS sandbox creation and command execution succeeded.";

impl Provider {
    /// Tells whether the settings work, and fails itself only if its sandbox may still be there.
    pub async fn probe(
        &self,
        scope: &Scope,
        surroundings: &Surroundings,
        stop: &Arc<Stop>,
    ) -> Result<Result<(), Error>, Error> {
        let set_up = async {
            let client = self.client(Config::parse(&scope.config)?, surroundings)?;
            let probing = self.registry.begin(scope.key(&client, None), Admission::Guarded, stop.clone())?;
            let (lease, _) = set_up(&client, stop).await?;
            Ok::<_, Error>((client, probing, lease))
        };
        let (client, _probing, lease) = match set_up.await {
            Ok(parts) => parts,
            Err(error) => return Ok(Err(error)),
        };
        let probed = try_command(&client, &lease, stop).await;
        discard(&client, &lease, stop).await?;
        Ok(probed)
    }
}

async fn try_command(client: &Client, lease: &ResourceId, stop: &Stop) -> Result<(), Error> {
    let command = Command {
        command: "/bin/echo".to_owned(),
        args: vec![READY.to_owned()],
        cwd: Some(WORKSPACE.to_owned()),
        ..Command::default()
    };
    let deadline = Instant::now() + Duration::from_millis(client.config.timeout_ms.into());
    let mut output = Output::new(None);
    let ended = execute(client, lease, &command, Some(deadline), stop, &mut output).await;
    let exited = matches!(ended.outcome?, Outcome::Exited(Exit { code: Some(0.0), .. }));
    let ready = output.into_captured().stdout.to_string().contains(READY);
    if exited && ready { Ok(()) } else { Err(Fault::ProbeFailed.into()) }
}
