//! The exported calls about a lease's life and workspace, besides running commands.

use std::sync::Arc;

use napi::{
    Env,
    bindgen_prelude::{PromiseRaw, ToNapiValue},
};
use napi_derive::napi;

use super::{
    events::{Observe, Observer},
    exports::{NativeProvider, settling},
    input::{NativeClaims, NativeScope, NativeSurroundings},
    outcome::{NativeConfig, NativeRejection},
    teardown,
};
use crate::{
    error::{Error, Fault},
    lease::{
        WORKSPACE,
        acquire::Acquired,
        probe,
        provider::{Provider, Scope, Surroundings},
        resume::{Claims, Resumed},
    },
    process::stop::Stop,
};

#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct NativeAcquired {
    pub rejection: Option<NativeRejection>,
    pub lease_id: Option<String>,
    pub marker: Option<String>,
    pub workspace: Option<String>,
    pub config: Option<NativeConfig>,
}

impl From<Acquired> for NativeAcquired {
    fn from(acquired: Acquired) -> Self {
        Self {
            rejection: None,
            lease_id: Some(acquired.lease.to_string()),
            marker: Some(acquired.marker),
            workspace: Some(WORKSPACE.to_owned()),
            config: Some(NativeConfig::from(&acquired.config)),
        }
    }
}

#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct NativeResumed {
    pub rejection: Option<NativeRejection>,
    pub expired: bool,
}

#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct NativeReleased {
    pub rejection: Option<NativeRejection>,
    /// `stopped` or `destroyed`; absent when there was no lease.
    pub state: Option<String>,
}

#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct NativeProbed {
    pub rejection: Option<NativeRejection>,
    pub ok: bool,
    pub summary: String,
}

#[napi(object, object_from_js = false)]
pub struct NativeRealized {
    pub rejection: Option<NativeRejection>,
    pub workspace: String,
}

#[napi(object, object_from_js = false)]
pub struct NativeHealth {
    pub shut_down: bool,
    pub running: u32,
    pub unconfirmed: u32,
}

#[napi]
impl NativeProvider {
    #[napi]
    pub fn acquire<'env>(
        &self,
        env: &'env Env,
        scope: NativeScope,
        surroundings: NativeSurroundings,
        expires: bool,
        #[napi(ts_arg_type = "(event: NativeEvent) => void")] observe: Option<Observe<'env>>,
    ) -> napi::Result<PromiseRaw<'env, NativeAcquired>> {
        let (scope, surroundings) = (Scope::from(scope), Surroundings::from(surroundings));
        self.watched(env, observe, |provider, stop| async move {
            match provider.acquire(&scope, &surroundings, expires, &stop).await {
                Ok(acquired) => acquired.into(),
                Err(error) => NativeAcquired { rejection: Some(error.into()), ..NativeAcquired::default() },
            }
        })
    }

    #[napi]
    pub fn resume<'env>(
        &self,
        env: &'env Env,
        scope: NativeScope,
        claims: NativeClaims,
        surroundings: NativeSurroundings,
        #[napi(ts_arg_type = "(event: NativeEvent) => void")] observe: Option<Observe<'env>>,
    ) -> napi::Result<PromiseRaw<'env, NativeResumed>> {
        let (scope, surroundings) = (Scope::from(scope), Surroundings::from(surroundings));
        self.watched(env, observe, |provider, stop| async move {
            match provider.resume(&scope, &Claims::from(claims), &surroundings, &stop).await {
                Ok(resumed) => NativeResumed { rejection: None, expired: resumed == Resumed::Expired },
                Err(error) => NativeResumed { rejection: Some(error.into()), expired: false },
            }
        })
    }

    #[napi]
    pub fn release<'env>(
        &self,
        env: &'env Env,
        scope: NativeScope,
        surroundings: NativeSurroundings,
        destroy: bool,
        #[napi(ts_arg_type = "(event: NativeEvent) => void")] observe: Option<Observe<'env>>,
    ) -> napi::Result<PromiseRaw<'env, NativeReleased>> {
        let observer = Observer::new(observe)?;
        // Now, and not when the runtime gets to it: what is called next finds the lease closing.
        let closed = self.inner.observed(observer.events()).close(&scope.into(), &surroundings.into());
        let release = async move {
            let released = match closed {
                Ok(Some(release)) => release.run(destroy).await.map(Some),
                Ok(None) => Ok(None),
                Err(fault) => Err(fault.into()),
            };
            Ok(match released {
                Ok(released) => {
                    NativeReleased { rejection: None, state: released.map(|state| state.as_str().to_owned()) }
                }
                Err(error) => NativeReleased { rejection: Some(error.into()), state: None },
            })
        };
        env.spawn_future(observer.during(release))
    }

    #[napi]
    pub fn probe<'env>(
        &self,
        env: &'env Env,
        scope: NativeScope,
        surroundings: NativeSurroundings,
        #[napi(ts_arg_type = "(event: NativeEvent) => void")] observe: Option<Observe<'env>>,
    ) -> napi::Result<PromiseRaw<'env, NativeProbed>> {
        let (scope, surroundings) = (Scope::from(scope), Surroundings::from(surroundings));
        self.watched(env, observe, |provider, stop| async move {
            match provider.probe(&scope, &surroundings, &stop).await {
                Ok(Ok(())) => NativeProbed { rejection: None, ok: true, summary: probe::SUCCEEDED.to_owned() },
                Ok(Err(error)) => NativeProbed { rejection: None, ok: false, summary: error.to_string() },
                Err(error) => NativeProbed { rejection: Some(error.into()), ..NativeProbed::default() },
            }
        })
    }

    /// The workspace of a lease that is the caller's own; makes no request.
    #[napi]
    pub fn realize(&self, scope: NativeScope) -> NativeRealized {
        match Scope::from(scope).own(Fault::WorkspaceForeign) {
            Ok(_) => NativeRealized { rejection: None, workspace: WORKSPACE.to_owned() },
            Err(fault) => NativeRealized { rejection: Some(Error::from(fault).into()), workspace: String::new() },
        }
    }

    #[napi]
    pub fn health(&self) -> NativeHealth {
        let (running, unconfirmed) = self.inner.registry.counts();
        let count = |count| u32::try_from(count).unwrap_or(u32::MAX);
        NativeHealth {
            shut_down: self.inner.registry.is_shut_down(),
            running: count(running),
            unconfirmed: count(unconfirmed),
        }
    }
}

impl NativeProvider {
    /// Starts work that is told to stop when the JavaScript environment ends.
    fn watched<'env, T, F>(
        &self,
        env: &'env Env,
        observe: Option<Observe<'env>>,
        work: impl FnOnce(Arc<Provider>, Arc<Stop>) -> F,
    ) -> napi::Result<PromiseRaw<'env, T>>
    where
        T: ToNapiValue + Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let stop = Arc::<Stop>::default();
        let torn_down = teardown::ended(env)?;
        let observer = Observer::new(observe)?;
        let call = self.inner.registry.call();
        let work = work(self.inner.observed(observer.events()), stop.clone());
        env.spawn_future_with_callback(
            async move { Ok((teardown::until(torn_down, &stop, observer.during(work)).await, call)) },
            settling,
        )
    }
}
