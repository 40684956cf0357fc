//! What a call tells of itself, on its way to JavaScript: one event at a time, all of them before the call's promise
//! settles. Without a function to tell there is nothing here: no queue, no task, no call of JavaScript.

use std::time::Duration;

use napi::{bindgen_prelude::Function, threadsafe_function::ThreadsafeCallContext};
use napi_derive::napi;

use super::Calls;
use crate::events::{Cause, Event, Events, Loss, Notice, Subject, Throttle, Told, events};

/// The function of `index.js` that makes public events of these and hands them on; it never throws.
pub type Observe<'env> = Function<'env, NativeEvent, ()>;

/// An event without the name of its call. Only what its type has is there.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct NativeEvent {
    /// `connected`, `reconnecting`, `throttled`, `cleanup` or `released`.
    pub r#type: &'static str,
    pub lease_id: Option<String>,
    pub process_id: Option<String>,
    pub reason: Option<&'static str>,
    pub status: Option<u32>,
    pub attempt: Option<u32>,
    pub delay_ms: Option<f64>,
    pub cause: Option<&'static str>,
    pub wait_ms: Option<f64>,
    pub state: Option<&'static str>,
}

impl From<Event> for NativeEvent {
    fn from(event: Event) -> Self {
        let Subject { lease, process } = event.subject;
        let state = |r#type, state| Self { r#type, state: Some(state), ..Self::default() };
        let facts = match event.notice {
            Notice::Connected => Self { r#type: "connected", ..Self::default() },
            Notice::Reconnecting { reason, attempt, delay } => Self {
                r#type: "reconnecting",
                reason: Some(word(reason)),
                status: if let Loss::Status(status) = reason { Some(status.into()) } else { None },
                attempt: Some(attempt),
                delay_ms: Some(ms(delay)),
                ..Self::default()
            },
            Notice::Throttled(Throttle { cause, wait }) => Self {
                r#type: "throttled",
                cause: Some(match cause {
                    Cause::Budget => "budget",
                    Cause::Hold => "hold",
                    Cause::RateLimit => "rate-limit",
                }),
                wait_ms: Some(ms(wait)),
                ..Self::default()
            },
            Notice::CleanupStarted => state("cleanup", "started"),
            Notice::CleanupConfirmed => state("cleanup", "confirmed"),
            Notice::CleanupUnconfirmed => state("cleanup", "unconfirmed"),
            Notice::Stopped => state("released", "stopped"),
            Notice::Destroyed => state("released", "destroyed"),
        };
        Self { lease_id: lease, process_id: process, ..facts }
    }
}

fn word(loss: Loss) -> &'static str {
    match loss {
        Loss::Ended => "ended",
        Loss::Idle => "idle",
        Loss::Status(_) => "http",
        Loss::Failure(failure) => failure.as_str(),
    }
}

/// Whole milliseconds, rounded up: what is waited for is never 0.
fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).ceil()
}

/// Who listens to a call.
pub struct Observer {
    events: Events,
    telling: Option<(Told, Calls<Event, NativeEvent>)>,
}

impl Observer {
    pub fn new(observe: Option<Observe<'_>>) -> napi::Result<Self> {
        let Some(observe) = observe else { return Ok(Self { events: Events::default(), telling: None }) };
        let calls = observe
            .build_threadsafe_function::<Event>()
            .build_callback(|context: ThreadsafeCallContext<Event>| Ok(NativeEvent::from(context.value)))?;
        let (events, told) = events();
        Ok(Self { events, telling: Some((told, calls)) })
    }

    /// What the call's work tells by.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Does the call's work, and ends when that has and JavaScript was told everything.
    pub fn during<T>(self, work: impl Future<Output = T>) -> impl Future<Output = T> {
        // In memory of its own: each future around one that it was given has room for it twice, and there are several.
        let work = Box::pin(work);
        async move {
            let Some((told, calls)) = self.telling else { return work.await };
            let delivery = tokio::spawn(deliver(told, calls));
            let result = work.await;
            self.events.end();
            // It ends by itself, also when JavaScript is gone.
            let _ = delivery.await;
            result
        }
    }
}

async fn deliver(mut told: Told, calls: Calls<Event, NativeEvent>) {
    while let Some(event) = told.next().await {
        if calls.call_async_catch(event).await.is_err() {
            return;
        }
    }
}
