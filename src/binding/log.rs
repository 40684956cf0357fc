//! Live output from the outbox to the caller's log function, piece by piece. Each call is awaited: while JavaScript is
//! busy nothing piles up in Node.js, and what is read meanwhile is joined in the outbox.

use napi::{
    Status,
    bindgen_prelude::{FnArgs, Function},
    threadsafe_function::{ThreadsafeCallContext, ThreadsafeFunction},
};

use super::outcome::NativeText;
use crate::{
    process::outbox::{Delivery, Outgoing},
    stream::{Stream, text::JsText},
};

/// The function of `index.js` that calls the caller's: it takes 0 for stdout or 1 for stderr and the text, and never
/// throws.
pub type Deliver<'env> = Function<'env, FnArgs<(u32, NativeText)>, ()>;

/// What a delivery is called through.
type Calls = ThreadsafeFunction<
    (Stream, JsText),          // what is sent to JavaScript's thread
    (),                        // what the function returns
    FnArgs<(u32, NativeText)>, // what it takes
    Status,                    // the errors of Node-API
    false,                     // it takes no error as its first argument
>;

pub struct Live {
    outgoing: Outgoing,
    calls: Calls,
}

impl Live {
    pub fn new(deliver: &Deliver<'_>, outgoing: Outgoing) -> napi::Result<Self> {
        let calls = deliver.build_threadsafe_function::<(Stream, JsText)>().build_callback(
            |context: ThreadsafeCallContext<(Stream, JsText)>| {
                let (stream, text) = context.value;
                Ok(FnArgs::from((stream.index() as u32, NativeText(text))))
            },
        )?;
        Ok(Self { outgoing, calls })
    }

    /// Delivers until the outbox is closed and empty, or JavaScript is gone.
    pub async fn deliver(mut self) {
        while let Some(Delivery { stream, text, .. }) = self.outgoing.next().await {
            // Converted here, so that JavaScript's thread has only to copy it.
            let text = JsText::from(text);
            if self.calls.call_async_catch((stream, text)).await.is_err() {
                return;
            }
        }
    }
}
