//! The state of every lease of one provider: what runs on it, whether it is being released, whether a cleanup on it is
//! unconfirmed. Pure bookkeeping; ends commands only by telling them to stop.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use crate::{
    error::Fault,
    process::stop::{Reason, Stop},
};

/// A sandbox as one account of one environment holds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseKey {
    pub company_id: String,
    pub environment_id: String,
    pub api_url: String,
    /// A digest of the API key.
    pub account: [u8; 32],
    pub lease_id: String,
}

#[derive(Debug, Default)]
struct Lease {
    running: HashMap<u64, Arc<Stop>>,
    closing: bool,
    unconfirmed: bool,
}

#[derive(Debug, Default)]
struct State {
    leases: HashMap<LeaseKey, Lease>,
    next_run: u64,
    shut_down: bool,
}

impl State {
    fn lease(&mut self, key: &LeaseKey) -> &mut Lease {
        self.leases.entry(key.clone()).or_default()
    }

    /// A lease of which there is nothing to know takes no memory.
    fn forget_if_idle(&mut self, key: &LeaseKey) {
        if self.leases.get(key).is_some_and(|lease| lease.running.is_empty() && !lease.closing && !lease.unconfirmed) {
            self.leases.remove(key);
        }
    }
}

#[derive(Debug, Default)]
pub struct Registry {
    state: Mutex<State>,
    /// Something has ended.
    ended: Notify,
}

/// Whether a lease's state can refuse a command. The module's `execute` is the primitive: it is never refused, but a
/// release stops it all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Guarded,
    Always,
}

impl Registry {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a command, which `stop` ends, on a lease. It counts as running until the returned value is dropped.
    pub fn begin(self: &Arc<Self>, key: LeaseKey, admission: Admission, stop: Arc<Stop>) -> Result<Running, Fault> {
        let mut state = self.state();
        if admission == Admission::Guarded {
            let refused = state.leases.get(&key).is_some_and(|lease| lease.closing || lease.unconfirmed);
            if refused || state.shut_down {
                return Err(Fault::LeaseClosing);
            }
        }
        let id = state.next_run;
        state.next_run += 1;
        state.lease(&key).running.insert(id, stop);
        drop(state);
        Ok(Running { registry: self.clone(), key, id })
    }

    /// Marks a lease as being released; there is one release at a time.
    pub fn close(self: &Arc<Self>, key: LeaseKey) -> Result<Closing, Fault> {
        let mut state = self.state();
        let lease = state.lease(&key);
        if lease.closing {
            return Err(Fault::ReleaseInProgress);
        }
        lease.closing = true;
        drop(state);
        Ok(Closing { registry: self.clone(), key })
    }

    /// Refuses commands from now on, stops what runs and lets its cleanup take until `cleanup_until`. The future waits for
    /// it, no longer than `until`.
    pub fn shut_down(
        self: &Arc<Self>,
        cleanup_until: Instant,
        until: Instant,
    ) -> impl Future<Output = ()> + Send + use<> {
        let registry = self.clone();
        {
            let mut state = self.state();
            state.shut_down = true;
            for stop in state.leases.values().flat_map(|lease| lease.running.values()) {
                stop.hurry(cleanup_until);
                stop.stop(Reason::Cancelled);
            }
        }
        async move {
            let idle = registry.wait(|state| state.leases.values().all(|lease| lease.running.is_empty()));
            // What takes longer still ends by its own bound; a worker that shuts down cannot wait for it.
            let _ = timeout_at(until, idle).await;
        }
    }

    async fn wait(&self, done: impl Fn(&State) -> bool) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if done(&self.state()) {
                return;
            }
            ended.await;
        }
    }
}

/// A command that runs on a lease.
#[derive(Debug)]
pub struct Running {
    registry: Arc<Registry>,
    key: LeaseKey,
    id: u64,
}

impl Running {
    /// Nobody can say whether its process still runs: the lease must be destroyed before it is used again.
    pub fn mark_unconfirmed(&self) {
        self.registry.state().lease(&self.key).unconfirmed = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.registry.state();
        state.lease(&self.key).running.remove(&self.id);
        state.forget_if_idle(&self.key);
        drop(state);
        self.registry.ended.notify_waiters();
    }
}

/// A release in progress; over when dropped.
#[derive(Debug)]
pub struct Closing {
    registry: Arc<Registry>,
    key: LeaseKey,
}

impl Closing {
    /// Ends what runs on the lease and waits until it has.
    pub async fn stop_running(&self) {
        for stop in self.registry.state().lease(&self.key).running.values() {
            stop.stop(Reason::Cancelled);
        }
        let idle = |state: &State| state.leases.get(&self.key).is_none_or(|lease| lease.running.is_empty());
        self.registry.wait(idle).await;
    }

    pub fn is_unconfirmed(&self) -> bool {
        self.registry.state().lease(&self.key).unconfirmed
    }

    /// The sandbox is gone, and with it whatever may have run there.
    pub fn destroyed(&self) {
        self.registry.state().lease(&self.key).unconfirmed = false;
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let mut state = self.registry.state();
        state.lease(&self.key).closing = false;
        state.forget_if_idle(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(lease_id: &str) -> LeaseKey {
        LeaseKey {
            company_id: "company".into(),
            environment_id: "environment".into(),
            api_url: "https://a.test".into(),
            account: [0; 32],
            lease_id: lease_id.into(),
        }
    }

    fn begin(registry: &Arc<Registry>, lease_id: &str, admission: Admission) -> Result<Running, Fault> {
        registry.begin(key(lease_id), admission, Arc::default())
    }

    fn entries(registry: &Registry) -> usize {
        registry.state().leases.len()
    }

    #[test]
    fn a_lease_that_nothing_is_known_of_takes_no_memory() {
        let registry = Arc::new(Registry::default());
        let runs: Vec<_> = (0..3).map(|_| begin(&registry, "a", Admission::Guarded).unwrap()).collect();
        drop(registry.close(key("b")).unwrap());
        assert_eq!(entries(&registry), 1);
        drop(runs);
        assert_eq!(entries(&registry), 0);
    }

    #[test]
    fn an_unconfirmed_lease_takes_no_command_until_it_is_destroyed() {
        let registry = Arc::new(Registry::default());
        begin(&registry, "a", Admission::Guarded).unwrap().mark_unconfirmed();
        assert_eq!(begin(&registry, "a", Admission::Guarded).unwrap_err(), Fault::LeaseClosing);
        assert!(begin(&registry, "b", Admission::Guarded).is_ok());
        assert!(begin(&registry, "a", Admission::Always).is_ok());
        let closing = registry.close(key("a")).unwrap();
        assert!(closing.is_unconfirmed());
        closing.destroyed();
        drop(closing);
        assert!(begin(&registry, "a", Admission::Guarded).is_ok());
        assert_eq!(entries(&registry), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_is_the_only_one_stops_what_runs_and_waits_for_it() {
        let registry = Arc::new(Registry::default());
        let stop = Arc::<Stop>::default();
        let run = registry.begin(key("a"), Admission::Always, stop.clone()).unwrap();
        let other = begin(&registry, "b", Admission::Guarded).unwrap();
        let closing = registry.close(key("a")).unwrap();
        assert_eq!(registry.close(key("a")).unwrap_err(), Fault::ReleaseInProgress);
        assert_eq!(begin(&registry, "a", Admission::Guarded).unwrap_err(), Fault::LeaseClosing);
        let command = tokio::spawn(async move {
            let reason = stop.stopped().await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            drop(run);
            reason
        });
        let start = Instant::now();
        closing.stop_running().await;
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        assert_eq!(command.await.unwrap(), Reason::Cancelled);
        drop(other);
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_stops_everything_and_waits_no_longer_than_it_may() {
        let registry = Arc::new(Registry::default());
        let stop = Arc::<Stop>::default();
        let stubborn = registry.begin(key("a"), Admission::Guarded, stop.clone()).unwrap();
        let start = Instant::now();
        registry.shut_down(start + Duration::from_secs(8), start + Duration::from_secs(9)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(9));
        assert_eq!(stop.stopped().await, Reason::Cancelled);
        stop.out_of_time(start + Duration::from_secs(60)).await;
        assert_eq!(begin(&registry, "b", Admission::Guarded).unwrap_err(), Fault::LeaseClosing);
        drop(stubborn);
        registry.shut_down(start, start).await;
    }
}
