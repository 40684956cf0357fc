//! A provider: commands and releases on leases that belong to its caller's environment, and one state for all of them.
//! Decides whose lease it is and in which order refusals are told; how a lease begins is told by its neighbours.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::registry::{Admission, Closing, LeaseKey, Registry, Running};
use crate::{
    api::{
        client::{Client, Options, ResourceId},
        sandbox::Desired,
        transport::Network,
    },
    config::{Config, RawConfig},
    error::{Error, Fault},
    events::{Events, Notice},
    process::stop::Stop,
};

/// A host waits 10 s for a worker that shuts down; cleanup has to leave room for settling.
const SHUTDOWN_CLEANUP: Duration = Duration::from_secs(8);
const SHUTDOWN: Duration = Duration::from_millis(9500);

/// What a lease's metadata must name to be the caller's own.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    pub provider: Option<String>,
    pub company_id: Option<String>,
    pub environment_id: Option<String>,
    pub api_url: Option<String>,
}

/// Whose lease, and with which settings.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub company_id: String,
    pub environment_id: String,
    pub config: RawConfig,
    pub lease_id: Option<String>,
    pub metadata: Metadata,
}

/// What the process's environment says.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    pub network: Network,
    /// `CREATEOS_API_KEY`.
    pub api_key: Option<String>,
}

/// How a released lease's sandbox ended, confirmed by the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    Stopped,
    Destroyed,
}

impl Released {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Destroyed => "destroyed",
        }
    }
}

#[derive(Debug)]
pub struct Provider {
    pub registry: Arc<Registry>,
    options: Options,
    events: Events,
}

impl Scope {
    /// The scope's settings, if the lease belongs to it. Settings are parsed last: a lease that names somebody else is
    /// foreign whatever they are.
    pub fn own(&self, foreign: Fault) -> Result<(&str, Config), Fault> {
        let Metadata { provider, company_id, environment_id, api_url } = &self.metadata;
        let named = provider.as_deref() == Some("createos")
            && company_id.as_ref() == Some(&self.company_id)
            && environment_id.as_ref() == Some(&self.environment_id);
        let (Some(lease_id), true) = (self.lease_id.as_deref(), named) else { return Err(foreign) };
        let config = Config::parse(&self.config)?;
        if api_url.as_ref() != Some(&config.api_url) {
            return Err(foreign);
        }
        Ok((lease_id, config))
    }

    pub(super) fn key(&self, client: &Client, lease_id: Option<&str>) -> LeaseKey {
        LeaseKey {
            company_id: self.company_id.clone(),
            environment_id: self.environment_id.clone(),
            api_url: client.config.api_url.clone(),
            account: client.account(),
            lease_id: lease_id.map(str::to_owned),
        }
    }
}

impl Provider {
    pub fn new(options: Options) -> Self {
        Self { registry: Arc::default(), options, events: Events::default() }
    }

    /// The same provider, which tells what one of its calls does; it itself if nobody listens.
    pub fn observed(self: &Arc<Self>, events: &Events) -> Arc<Self> {
        if !events.are_heard() {
            return self.clone();
        }
        Arc::new(Self { registry: self.registry.clone(), options: self.options, events: events.clone() })
    }

    /// Admits a command or a sync to one of the caller's own leases.
    pub fn admit(
        &self,
        scope: &Scope,
        surroundings: &Surroundings,
        stop: &Arc<Stop>,
    ) -> Result<(Arc<Client>, Running), Fault> {
        let (lease_id, config) = scope.own(Fault::ExecutionForeign)?;
        let client = self.client(config, surroundings)?;
        let running = self.registry.begin(scope.key(&client, Some(lease_id)), Admission::Guarded, stop.clone())?;
        Ok((client, running))
    }

    /// Enters a command that runs with a client of its own.
    pub fn enter(&self, scope: &Scope, client: &Client, stop: &Arc<Stop>) -> Result<Running, Fault> {
        let lease_id = scope.lease_id.as_deref().unwrap_or_default();
        self.registry.begin(scope.key(client, Some(lease_id)), Admission::Always, stop.clone())
    }

    /// Begins to give a lease back: from now on nothing starts on it. `None` if there is no lease.
    pub fn close(&self, scope: &Scope, surroundings: &Surroundings) -> Result<Option<Release>, Fault> {
        if scope.lease_id.is_none() {
            return Ok(None);
        }
        let (lease_id, config) = scope.own(Fault::LeaseForeign)?;
        let client = self.client(config, surroundings)?;
        let closing = self.registry.close(scope.key(&client, Some(lease_id)))?;
        Ok(Some(Release { client, lease_id: lease_id.to_owned(), closing }))
    }

    /// Cancels all commands and refuses new ones, both at once; the future resolves when they have ended, and within ten
    /// seconds.
    pub fn shut_down(&self) -> impl Future<Output = ()> + Send + use<> {
        let now = Instant::now();
        self.registry.shut_down(now + SHUTDOWN_CLEANUP, now + SHUTDOWN)
    }

    pub(super) fn client(&self, config: Config, surroundings: &Surroundings) -> Result<Arc<Client>, Fault> {
        let client = Client::new(config, self.options, &surroundings.network, surroundings.api_key.as_deref())?;
        Ok(Arc::new(client).observed(&self.events))
    }
}

/// A lease that is being given back.
pub struct Release {
    client: Arc<Client>,
    lease_id: String,
    closing: Closing,
}

impl Release {
    /// Stops what runs on the lease, then deletes its sandbox, or pauses it to be used again.
    pub async fn run(self, destroy: bool) -> Result<Released, Error> {
        let released = self.give_back(destroy).await;
        self.closing.settled().await;
        released
    }

    async fn give_back(&self, destroy: bool) -> Result<Released, Error> {
        let Self { client, lease_id, closing } = self;
        closing.stop_running().await;
        let id = ResourceId::parse(lease_id)?;
        let client = client.about(&id, None);
        let deadline = Instant::now() + Duration::from_millis(client.config.timeout_ms.into());
        if destroy || !client.config.reuse_lease {
            client.destroy_sandbox(&id, deadline).await?;
            closing.destroyed();
            client.events.tell(Notice::Destroyed);
            return Ok(Released::Destroyed);
        }
        if closing.is_unconfirmed() {
            return Err(Fault::ReuseUnconfirmed.into());
        }
        match client.reach(&id, Desired::Paused, deadline).await {
            // Nothing is left to pause.
            Err(error) if error.status() == Some(404) => {
                closing.destroyed();
                client.events.tell(Notice::Destroyed);
                Ok(Released::Destroyed)
            }
            result => {
                result?;
                client.events.tell(Notice::Stopped);
                Ok(Released::Stopped)
            }
        }
    }
}
