//! What the addon exports to run commands. Each function is a line or two around the core; the promises they return always
//! resolve.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use napi::{Env, bindgen_prelude::PromiseRaw};
use napi_derive::napi;
use tokio::time::Instant;

use super::{
    events::{Observe, Observer},
    input::{NativeCommand, NativeOptions, NativeRawConfig, NativeScope, NativeSurroundings},
    log::{Deliver, Live},
    outcome::{NativeConfig, NativeOutcome, thrown},
    teardown,
};
use crate::{
    api::client::{Client, Options, Pace, ResourceId},
    config::Config,
    error::Fault,
    lease::{
        provider::{Provider, Scope, Surroundings},
        registry::Running,
    },
    process::{
        execute::execute,
        outbox::outbox,
        output::Output,
        script::{self, Command},
        stop::{Reason, Stop},
    },
};

/// The error of a call without a promise; its code names the class that `index.js` throws.
type Thrown = napi::Error<String>;

/// The provider behind the module's own functions: one for the whole process, worker threads included.
static DEFAULT: LazyLock<Arc<Provider>> = LazyLock::new(|| {
    // Nobody chose its numbers, so it has no say in how a URL is paced.
    Arc::new(Provider::new(Options { pace: Pace::AsSet, ..Options::default() }))
});

#[napi]
pub fn parse_config(raw: NativeRawConfig) -> Result<NativeConfig, Thrown> {
    Config::parse(&raw.into()).map(|config| NativeConfig::from(&config)).map_err(thrown)
}

#[napi]
pub fn shell_quote(value: String) -> Result<String, Thrown> {
    script::shell_quote(&value).map_err(thrown)
}

/// Ends a command early. JavaScript makes one for each command and keeps it as long as the command runs.
#[napi]
#[derive(Default)]
pub struct NativeStop {
    pub(super) inner: Arc<Stop>,
}

#[napi]
impl NativeStop {
    #[napi(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    #[napi]
    pub fn stop(&self, timed_out: bool) {
        self.inner.stop(if timed_out { Reason::Timeout } else { Reason::Cancelled });
    }
}

#[napi]
pub struct NativeClient {
    inner: Arc<Client>,
}

#[napi]
impl NativeClient {
    #[napi(constructor)]
    pub fn new(
        config: NativeRawConfig,
        options: NativeOptions,
        surroundings: NativeSurroundings,
    ) -> Result<Self, Thrown> {
        let Surroundings { network, api_key } = surroundings.into();
        let config = Config::parse(&config.into()).map_err(thrown)?;
        let client = Client::new(config, options.into(), &network, api_key.as_deref()).map_err(thrown)?;
        Ok(Self { inner: Arc::new(client) })
    }

    #[napi(getter)]
    pub fn config(&self) -> NativeConfig {
        NativeConfig::from(&self.inner.config)
    }

    /// Runs a command. With `bounded` the command's own timeout, else that of the settings, is its deadline; without it
    /// only `stop` ends it early.
    #[napi]
    #[allow(clippy::too_many_arguments, reason = "JavaScript passes no more than six")]
    pub fn execute<'env>(
        &self,
        env: &'env Env,
        scope: NativeScope,
        command: NativeCommand,
        bounded: bool,
        stop: &NativeStop,
        #[napi(ts_arg_type = "(stream: number, text: string) => void")] deliver: Option<Deliver<'env>>,
        #[napi(ts_arg_type = "(event: NativeEvent) => void")] observe: Option<Observe<'env>>,
    ) -> napi::Result<PromiseRaw<'env, NativeOutcome>> {
        let observer = Observer::new(observe)?;
        let client = self.inner.observed(observer.events());
        let (stop, scope) = (stop.inner.clone(), Scope::from(scope));
        run(env, deliver, observer, stop.clone(), move || {
            let timeout = if bounded { Some(deadline(&command, &client)?) } else { None };
            let (lease, command) = checked(&scope, command)?;
            let running = DEFAULT.enter(&scope, &client, &stop)?;
            Ok(Start { client, lease, command, timeout, running })
        })
    }
}

#[napi]
pub struct NativeProvider {
    pub(super) inner: Arc<Provider>,
}

#[napi]
impl NativeProvider {
    #[napi(constructor)]
    pub fn new(options: NativeOptions) -> Self {
        Self { inner: Arc::new(Provider::new(options.into())) }
    }

    /// The provider behind the module's own `release` and `shutdown`.
    #[napi(factory)]
    pub fn process_wide() -> Self {
        Self { inner: DEFAULT.clone() }
    }

    #[napi]
    #[allow(clippy::too_many_arguments, reason = "JavaScript passes no more than six")]
    pub fn execute<'env>(
        &self,
        env: &'env Env,
        scope: NativeScope,
        command: NativeCommand,
        surroundings: NativeSurroundings,
        stop: &NativeStop,
        #[napi(ts_arg_type = "(stream: number, text: string) => void")] deliver: Option<Deliver<'env>>,
        #[napi(ts_arg_type = "(event: NativeEvent) => void")] observe: Option<Observe<'env>>,
    ) -> napi::Result<PromiseRaw<'env, NativeOutcome>> {
        let observer = Observer::new(observe)?;
        let provider = self.inner.observed(observer.events());
        let (stop, scope) = (stop.inner.clone(), Scope::from(scope));
        run(env, deliver, observer, stop.clone(), move || {
            let (client, running) = provider.admit(&scope, &surroundings.into(), &stop)?;
            let timeout = Some(deadline(&command, &client)?);
            let (lease, command) = checked(&scope, command)?;
            Ok(Start { client, lease, command, timeout, running })
        })
    }

    #[napi]
    pub fn shutdown<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, NativeOutcome>> {
        let shut_down = self.inner.shut_down();
        env.spawn_future(async move {
            shut_down.await;
            Ok(NativeOutcome::default())
        })
    }
}

/// A command that nothing stands in the way of.
struct Start {
    client: Arc<Client>,
    lease: ResourceId,
    command: Command,
    timeout: Option<Duration>,
    running: Running,
}

fn deadline(command: &NativeCommand, client: &Client) -> Result<Duration, Fault> {
    Ok(command.timeout()?.unwrap_or(Duration::from_millis(client.config.timeout_ms.into())))
}

fn checked(scope: &Scope, command: NativeCommand) -> Result<(ResourceId, Command), Fault> {
    let lease = ResourceId::parse(scope.lease_id.as_deref().unwrap_or_default())?;
    let command = Command::from(command);
    command.check()?;
    Ok((lease, command))
}

/// Starts a command, if `start` finds nothing against it, and delivers its output until it has ended.
fn run<'env>(
    env: &'env Env,
    deliver: Option<Deliver<'env>>,
    observer: Observer,
    stop: Arc<Stop>,
    start: impl FnOnce() -> Result<Start, Fault>,
) -> napi::Result<PromiseRaw<'env, NativeOutcome>> {
    let start = match start() {
        Ok(start) => start,
        Err(fault) => return env.spawn_future(async move { Ok(NativeOutcome::rejected(fault)) }),
    };
    let torn_down = teardown::ended(env)?;
    let (output, live) = match deliver {
        Some(deliver) => {
            let (outbox, outgoing) = outbox();
            (Output::new(Some(outbox)), Some(Live::new(&deliver, outgoing)?))
        }
        None => (Output::new(None), None),
    };
    let command = async move {
        let followed = observer.during(follow_through(start, &stop, output, live));
        Ok(teardown::until(torn_down, &stop, followed).await)
    };
    env.spawn_future_with_callback(command, settling)
}

async fn follow_through(start: Start, stop: &Stop, mut output: Output, live: Option<Live>) -> (NativeOutcome, Running) {
    let Start { client, lease, command, timeout, running } = start;
    // On a task of its own, so that reading and handing over overlap.
    let delivery = live.map(|live| tokio::spawn(live.deliver()));
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let ended = execute(&client, &lease, &command, deadline, stop, &mut output).await;
    if matches!(&ended.outcome, Err(error) if error.fault.is_unconfirmed()) {
        running.mark_unconfirmed();
    }
    running.end();
    let captured = output.into_captured();
    if let Some(delivery) = delivery {
        // It ends by itself, and a panic in it would have lost output that the result still holds.
        let _ = delivery.await;
    }
    (NativeOutcome::of_command(ended, captured), running)
}

/// Settles a promise, on JavaScript's thread, and drops what says that its caller is not told yet only then: a shutdown, or
/// a release by the same caller, is answered later.
pub(super) fn settling<T, Unsettled>(_env: &Env, (outcome, unsettled): (T, Unsettled)) -> napi::Result<T> {
    drop(unsettled);
    Ok(outcome)
}
