//! Live output from the outbox to the caller's log function, a few pieces at a time, and no more than two times ahead of
//! it: while JavaScript is busy nothing piles up in Node.js, and what is read meanwhile is joined in the outbox.

use std::sync::Arc;

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

/// So many calls are on their way to JavaScript at once: when it has done one, the next is there already.
const CALLS: u32 = 2;

/// Pieces of output: of each its stream, 0 for stdout or 1 for stderr, and its text.
type Pieces = FnArgs<(Vec<u32>, Vec<NativeText>)>;

/// The function of `index.js` that calls the caller's, once for each piece. It never throws.
pub type Deliver<'env> = Function<'env, Pieces, ()>;

pub struct Live {
    outgoing: Outgoing,
    calls: Calls<Pieces, Pieces>,
}

impl Live {
    pub fn new(deliver: &Deliver<'_>, outgoing: Outgoing) -> napi::Result<Self> {
        let calls = deliver.build_threadsafe_function::<Pieces>().build_callback(|context| Ok(context.value))?;
        Ok(Self { outgoing, calls })
    }

    /// Delivers until the outbox is closed and empty, or JavaScript is gone.
    pub async fn deliver(mut self) {
        let turns = Arc::new(Semaphore::new(CALLS as usize));
        let mut batch = Vec::new();
        while let Ok(turn) = turns.clone().acquire_owned().await
            && self.outgoing.next(&mut batch).await
        {
            if !self.call(std::mem::take(&mut batch), turn) {
                return;
            }
        }
        // Nothing comes any more; what is on its way has to arrive.
        let _ = turns.acquire_many(CALLS).await;
    }

    /// Sends pieces on their way, unless JavaScript is gone. What they hold is given back when it has taken them.
    fn call(&self, mut batch: Vec<Delivery>, turn: OwnedSemaphorePermit) -> bool {
        let spare = self.outgoing.spare();
        let streams = batch.iter().map(|delivery| delivery.stream.index() as u32).collect();
        // Converted here, so that JavaScript's thread has only to copy it.
        let texts: Vec<_> = batch.iter_mut().map(|delivery| Arc::new(text(delivery, &spare))).collect();
        let sent = texts.iter().cloned().map(NativeText).collect();
        let taken = move |_, _| {
            // Only now is there room again for what these were.
            drop(batch);
            texts.into_iter().for_each(|text| reuse(text, &spare));
            drop(turn);
            Ok(())
        };
        let mode = ThreadsafeFunctionCallMode::NonBlocking;
        self.calls.call_with_return_value(FnArgs::from((streams, sent)), mode, taken) == Status::Ok
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
