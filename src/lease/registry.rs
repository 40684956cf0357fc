//! The state of every lease of one provider: what runs on it, whether it is being released, whether a cleanup on it is
//! unconfirmed. Pure bookkeeping; ends commands only by telling them to stop.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
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
    /// None while the sandbox is being set up: what runs then has a place of its own, which nobody can release.
    pub lease_id: Option<String>,
}

#[derive(Debug, Default)]
struct Lease {
    running: HashMap<u64, Work>,
    closing: bool,
    unconfirmed: bool,
    /// What an earlier worker may have left running is being ended.
    recovering: bool,
    /// Acquired or resumed here, so that nothing runs on it that was not started here.
    ours: bool,
}

#[derive(Debug)]
struct Work {
    stop: Arc<Stop>,
    resumes: bool,
    /// The thread that asked for it, and that is to be told what came of it.
    caller: ThreadId,
    /// Nothing is done for it any more; its caller has yet to be told.
    ended: bool,
}

impl Lease {
    fn refuses(&self) -> bool {
        self.closing || self.unconfirmed || self.recovering
    }

    fn is_idle(&self) -> bool {
        self.running.is_empty() && !self.refuses() && !self.ours
    }
}

#[derive(Debug, Default)]
struct State {
    leases: HashMap<LeaseKey, Lease>,
    /// Calls whose callers have yet to be told how they ended.
    unanswered: HashSet<u64>,
    /// The next number of a run or a call.
    next: u64,
    shut_down: bool,
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn lease(&mut self, key: &LeaseKey) -> &mut Lease {
        self.leases.entry(key.clone()).or_default()
    }

    /// A lease of which there is nothing to know takes no memory.
    fn forget_if_idle(&mut self, key: &LeaseKey) {
        if self.leases.get(key).is_some_and(Lease::is_idle) {
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

/// Whether a lease's state can refuse work. The module's `execute` is the primitive: it is never refused, but a release
/// stops it all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Guarded,
    /// Guarded, too; a resume starts nothing on the lease.
    Resume,
    Always,
}

impl Registry {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a command or other work, which `stop` ends, on a lease, for a caller on this thread. It counts as running
    /// until the returned value is dropped, which is when its caller was told.
    pub fn begin(self: &Arc<Self>, key: LeaseKey, admission: Admission, stop: Arc<Stop>) -> Result<Running, Fault> {
        let mut state = self.state();
        if admission != Admission::Always {
            let refused = state.leases.get(&key).is_some_and(Lease::refuses);
            if refused || state.shut_down {
                return Err(Fault::LeaseClosing);
            }
        }
        let id = state.number();
        let resumes = admission == Admission::Resume;
        let work = Work { stop, resumes, caller: thread::current().id(), ended: false };
        state.lease(&key).running.insert(id, work);
        drop(state);
        Ok(Running { registry: self.clone(), key, id })
    }

    /// Enters a call. A shutdown is over only when the returned value is dropped: when its caller was told what came of it.
    pub fn call(self: &Arc<Self>) -> Call {
        let mut state = self.state();
        let id = state.number();
        state.unanswered.insert(id);
        drop(state);
        Call { registry: self.clone(), id }
    }

    /// Notes that a lease is new and that nothing runs on it.
    pub fn adopt(&self, key: &LeaseKey) {
        self.state().lease(key).ours = true;
    }

    /// How much is running, and on how many leases cleanup is unconfirmed.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.state();
        let running = state.leases.values().map(|lease| lease.running.len()).sum();
        (running, state.leases.values().filter(|lease| lease.unconfirmed).count())
    }

    pub fn is_shut_down(&self) -> bool {
        self.state().shut_down
    }

    /// Marks a lease as being released, for a caller on this thread; there is one release at a time.
    pub fn close(self: &Arc<Self>, key: LeaseKey) -> Result<Closing, Fault> {
        let mut state = self.state();
        let lease = state.lease(&key);
        if lease.closing {
            return Err(Fault::ReleaseInProgress);
        }
        lease.closing = true;
        drop(state);
        Ok(Closing { registry: self.clone(), key, caller: thread::current().id() })
    }

    /// Refuses commands from now on, stops what runs and lets its cleanup take until `cleanup_until`. The future waits for
    /// it, no longer than `until`, and not for what is never refused and begins later.
    pub fn shut_down(
        self: &Arc<Self>,
        cleanup_until: Instant,
        until: Instant,
    ) -> impl Future<Output = ()> + Send + use<> {
        let registry = self.clone();
        let last = {
            let mut state = self.state();
            state.shut_down = true;
            for Work { stop, .. } in state.leases.values().flat_map(|lease| lease.running.values()) {
                stop.hurry(cleanup_until);
                stop.stop(Reason::Cancelled);
            }
            state.next
        };
        async move {
            let idle = registry.wait(|state| {
                let running = state.leases.values().flat_map(|lease| lease.running.keys());
                running.chain(&state.unanswered).all(|&number| number > last)
            });
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

/// A call that is not answered yet.
#[derive(Debug)]
pub struct Call {
    registry: Arc<Registry>,
    id: u64,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.registry.state().unanswered.remove(&self.id);
        self.registry.ended.notify_waiters();
    }
}

/// A command, or other work, that runs on a lease.
#[derive(Debug)]
pub struct Running {
    registry: Arc<Registry>,
    key: LeaseKey,
    id: u64,
}

impl Running {
    /// Nothing is done for it any more: a release need not wait for a thread that takes its time to hear of it.
    pub fn end(&self) {
        if let Some(work) = self.registry.state().lease(&self.key).running.get_mut(&self.id) {
            work.ended = true;
        }
        self.registry.ended.notify_waiters();
    }

    /// Nobody can say whether its process still runs: the lease must be destroyed before it is used again.
    pub fn mark_unconfirmed(&self) {
        self.registry.state().lease(&self.key).unconfirmed = true;
    }

    /// For a resume: begins to end what an earlier worker may have left running. None if nothing can be left: the lease
    /// is one of ours, or in use here.
    pub fn recover(&self) -> Result<Option<Recovery>, Fault> {
        let mut state = self.registry.state();
        let lease = state.lease(&self.key);
        if lease.refuses() {
            return Err(Fault::ResumeUnfinished);
        }
        if lease.ours || lease.running.values().any(|work| !work.resumes) {
            return Ok(None);
        }
        lease.recovering = true;
        Ok(Some(Recovery { registry: self.registry.clone(), key: self.key.clone() }))
    }

    /// The lease may be used: nothing runs on it but what was started here.
    pub fn adopt(&self) {
        self.registry.state().lease(&self.key).ours = true;
    }

    /// The sandbox is no longer what the lease says.
    pub fn disown(&self) {
        self.registry.state().lease(&self.key).ours = false;
    }
}

/// While it lives no command starts on the lease; it could not be told from one that an earlier worker left.
#[derive(Debug)]
pub struct Recovery {
    registry: Arc<Registry>,
    key: LeaseKey,
}

impl Drop for Recovery {
    fn drop(&mut self) {
        let mut state = self.registry.state();
        state.lease(&self.key).recovering = false;
        state.forget_if_idle(&self.key);
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
    caller: ThreadId,
}

impl Closing {
    /// Ends what runs on the lease and waits until it has.
    pub async fn stop_running(&self) {
        let idle = |state: &State| {
            let running = state.leases.get(&self.key).into_iter().flat_map(|lease| lease.running.values());
            let mut idle = true;
            // Looked at again whenever something has ended: what is never refused may have begun meanwhile.
            for Work { stop, .. } in running.filter(|work| !work.ended) {
                stop.stop(Reason::Cancelled);
                idle = false;
            }
            idle
        };
        self.registry.wait(idle).await;
    }

    /// Ends the release and waits until the callers of what had run were told, so that they hear of it first. Those on
    /// other threads see no order, and may be busy for as long as they like: they are not waited for.
    pub async fn settled(self) {
        let (registry, key, caller) = (self.registry.clone(), self.key.clone(), self.caller);
        let last = registry.state().next;
        drop(self);
        let untold = |(&number, work): (&u64, &Work)| number <= last && work.ended && work.caller == caller;
        registry.wait(|state| !state.leases.get(&key).is_some_and(|lease| lease.running.iter().any(untold))).await;
    }

    pub fn is_unconfirmed(&self) -> bool {
        self.registry.state().lease(&self.key).unconfirmed
    }

    /// The sandbox is gone, and with it whatever may have run there.
    pub fn destroyed(&self) {
        let mut state = self.registry.state();
        let lease = state.lease(&self.key);
        (lease.unconfirmed, lease.ours) = (false, false);
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
mod tests;
