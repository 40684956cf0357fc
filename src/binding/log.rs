//! Live output from the outbox to the caller's log function, piece by piece, and no more than a few pieces ahead of it: while
//! JavaScript is busy nothing piles up in Node.js, and what is read meanwhile is joined in the outbox.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use napi::{
    Status,
    bindgen_prelude::{FnArgs, Function},
    threadsafe_function::ThreadsafeFunctionCallMode,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Calls, outcome::NativeText};
use crate::{
    process::outbox::{Delivery, Outgoing, Spare},
    stream::text::JsText,
};

/// So many calls are on their way to JavaScript at once: when it has done one, the next is there already. Each is one piece,
/// whose string can be collected as soon as it is over: of strings that live together, V8 makes room for ever more.
const CALLS: u32 = 8;

/// How long the queue of calls may be kept from becoming empty. Until it is, Node.js does nothing else, up to 1000 calls
/// long: no timer and no abort would come through to a program whose log function is slow.
const TURN: Duration = Duration::from_millis(5);

/// A piece of output: its stream, 0 for stdout or 1 for stderr, and its text.
type Piece = FnArgs<(u32, NativeText)>;

/// The function of `index.js` that calls the caller's. It never throws.
pub type Deliver<'env> = Function<'env, Piece, ()>;

pub struct Live {
    outgoing: Outgoing,
    calls: Calls<Piece, Piece>,
}

impl Live {
    pub fn new(deliver: &Deliver<'_>, outgoing: Outgoing) -> napi::Result<Self> {
        let calls = deliver.build_threadsafe_function::<Piece>().build_callback(|context| Ok(context.value))?;
        Ok(Self { outgoing, calls })
    }

    /// Delivers until the outbox is closed and empty, or JavaScript is gone.
    pub async fn deliver(mut self) {
        let turns = Arc::new(Semaphore::new(CALLS as usize));
        let mut began = Instant::now();
        while let Ok(turn) = turns.clone().acquire_owned().await {
            if began.elapsed() >= TURN {
                let _ = turns.acquire_many(CALLS - 1).await;
                began = Instant::now();
            }
            let Some(delivery) = self.outgoing.next().await else { break };
            if !self.call(delivery, turn) {
                return;
            }
        }
        // Nothing comes any more; what is on its way has to arrive.
        let _ = turns.acquire_many(CALLS).await;
    }

    /// Sends a piece on its way, unless JavaScript is gone. What it holds is given back when JavaScript has taken it.
    fn call(&self, mut delivery: Delivery, turn: OwnedSemaphorePermit) -> bool {
        let spare = self.outgoing.spare();
        // Converted here, so that JavaScript's thread has only to copy it.
        let text = Arc::new(text(&mut delivery, &spare));
        let piece = FnArgs::from((delivery.stream.index() as u32, NativeText(text.clone())));
        let taken = move |_, _| {
            // Only now is there room again for what this was.
            drop(delivery);
            reuse(text, &spare);
            drop(turn);
            Ok(())
        };
        let mode = ThreadsafeFunctionCallMode::NonBlocking;
        self.calls.call_with_return_value(piece, mode, taken) == Status::Ok
    }
}

/// ASCII, which most output is, is sent in the memory it is in.
fn text(delivery: &mut Delivery, spare: &Spare) -> JsText {
    let ascii = delivery.counted().is_ascii();
    let text = std::mem::take(&mut delivery.text);
    if ascii {
        return JsText::Latin1(text.into_bytes());
    }
    let converted = JsText::from(text.as_str());
    spare.put(text);
    converted
}

/// Takes back what JavaScript has copied.
fn reuse(text: Arc<JsText>, spare: &Spare) {
    if let Some(JsText::Latin1(mut bytes)) = Arc::into_inner(text) {
        bytes.clear();
        // Nothing is UTF-8.
        spare.put(String::from_utf8(bytes).unwrap_or_default());
    }
}
