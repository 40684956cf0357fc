//! The exported calls that move files.

use std::sync::Arc;

use napi::{Env, bindgen_prelude::PromiseRaw};
use napi_derive::napi;

use super::{
    events::{Observe, Observer},
    exports::{NativeProvider, NativeStop, settling},
    input::{NativeScope, NativeSurroundings},
    outcome::{NativeOutput, NativeRejection},
    teardown,
};
use crate::{
    api::client::{Client, ResourceId},
    error::{Error, Fault},
    lease::{
        provider::{Provider, Scope, Surroundings},
        registry::Running,
    },
    process::stop::Stop,
    sync::{
        Skipped, Skips,
        batch::{Direction, Operation, RawCommand, RawMapping, RawOperation, check},
        transfer::{Moved, Synced, sync},
    },
};

#[napi(object, object_to_js = false)]
pub struct NativeMapping {
    pub source: String,
    pub target: String,
    pub kind: String,
    /// NaN where it is no number.
    pub mode: Option<f64>,
    pub exclude: Vec<String>,
    pub follow: bool,
}

#[napi(object, object_to_js = false)]
pub struct NativePostUpload {
    pub command: String,
    pub cwd: Option<String>,
    /// NaN where it is no number.
    pub timeout_ms: Option<f64>,
}

#[napi(object, object_to_js = false)]
pub struct NativeOperation {
    pub files: Vec<NativeMapping>,
    pub commands: Vec<NativePostUpload>,
}

impl From<NativeOperation> for RawOperation {
    fn from(operation: NativeOperation) -> Self {
        let mapping = |NativeMapping { source, target, kind, mode, exclude, follow }| RawMapping {
            source,
            target,
            kind,
            mode,
            exclude,
            follow,
        };
        let command = |NativePostUpload { command, cwd, timeout_ms }| RawCommand { command, cwd, timeout_ms };
        Self {
            files: operation.files.into_iter().map(mapping).collect(),
            commands: operation.commands.into_iter().map(command).collect(),
        }
    }
}

#[napi(object, object_from_js = false)]
pub struct NativeMoved {
    pub files: f64,
    pub bytes: f64,
}

impl From<Moved> for NativeMoved {
    fn from(Moved { files, bytes }: Moved) -> Self {
        Self { files: files as f64, bytes: bytes as f64 }
    }
}

#[napi(object, object_from_js = false)]
pub struct NativeSkipped {
    pub entry: String,
    pub reason: String,
}

impl From<Skipped> for NativeSkipped {
    fn from(Skipped { entry, reason }: Skipped) -> Self {
        Self { entry, reason: reason.as_str().to_owned() }
    }
}

#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct NativeSynced {
    pub rejection: Option<NativeRejection>,
    /// What a command that failed had printed.
    pub output: Option<NativeOutput>,
    pub operations: Vec<NativeMoved>,
    pub skipped: Vec<NativeSkipped>,
    /// How many were skipped besides those that are named.
    pub skipped_more: f64,
}

impl From<Synced> for NativeSynced {
    fn from(Synced { outcome, skips: Skips { named, total }, output }: Synced) -> Self {
        let (rejection, operations) = match outcome {
            Ok(moved) => (None, moved.into_iter().map(NativeMoved::from).collect()),
            Err(error) => (Some(error.into()), Vec::new()),
        };
        Self {
            rejection,
            output: output.map(NativeOutput::from),
            operations,
            skipped_more: (total - named.len() as u64) as f64,
            skipped: named.into_iter().map(NativeSkipped::from).collect(),
        }
    }
}

#[napi]
impl NativeProvider {
    /// Moves files in, or with `out` out.
    #[napi]
    #[allow(clippy::too_many_arguments, reason = "JavaScript passes no more than six")]
    pub fn sync<'env>(
        &self,
        env: &'env Env,
        scope: NativeScope,
        operations: Vec<NativeOperation>,
        surroundings: NativeSurroundings,
        out: bool,
        stop: &NativeStop,
        #[napi(ts_arg_type = "(event: NativeEvent) => void")] observe: Option<Observe<'env>>,
    ) -> napi::Result<PromiseRaw<'env, NativeSynced>> {
        let direction = if out { Direction::Out } else { Direction::In };
        let stop = stop.inner.clone();
        let torn_down = teardown::ended(env)?;
        let observer = Observer::new(observe)?;
        let provider = self.inner.observed(observer.events());
        let started = start(&provider, &scope.into(), &surroundings.into(), operations, direction, &stop);
        let Start { client, lease, batch, running } = match started {
            Ok(start) => start,
            Err(fault) => {
                let rejection = Some(Error::from(fault).into());
                return env.spawn_future(async { Ok(NativeSynced { rejection, ..NativeSynced::default() }) });
            }
        };
        let work = async move {
            let syncing = async {
                let synced = sync(&client, &lease, batch, direction, &stop).await;
                if matches!(&synced.outcome, Err(error) if error.fault.is_unconfirmed()) {
                    running.mark_unconfirmed();
                }
                running.end();
                synced
            };
            let synced = teardown::until(torn_down, &stop, observer.during(syncing)).await;
            Ok((synced.into(), running))
        };
        env.spawn_future_with_callback(work, settling)
    }
}

/// A sync that nothing stands in the way of.
struct Start {
    client: Arc<Client>,
    lease: ResourceId,
    batch: Vec<Operation>,
    running: Running,
}

fn start(
    provider: &Provider,
    scope: &Scope,
    surroundings: &Surroundings,
    operations: Vec<NativeOperation>,
    direction: Direction,
    stop: &Arc<Stop>,
) -> Result<Start, Fault> {
    let (client, running) = provider.admit(scope, surroundings, stop)?;
    let lease = ResourceId::parse(scope.lease_id.as_deref().unwrap_or_default())?;
    let batch = check(operations.into_iter().map(RawOperation::from).collect(), direction)?;
    Ok(Start { client, lease, batch, running })
}
