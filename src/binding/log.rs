//! Live output from the outbox to the caller's log function, a few pieces at a time. Each call is awaited: while JavaScript
//! is busy nothing piles up in Node.js, and what is read meanwhile is joined in the outbox.

use std::sync::Arc;

use napi::{
    Status,
    bindgen_prelude::{FnArgs, Function},
    threadsafe_function::ThreadsafeFunction,
};

use super::outcome::NativeText;
use crate::{
    process::outbox::{Delivery, Outgoing},
    stream::text::JsText,
};

/// Pieces of output: of each its stream, 0 for stdout or 1 for stderr, and its text.
type Pieces = FnArgs<(Vec<u32>, Vec<NativeText>)>;

/// The function of `index.js` that calls the caller's, once for each piece. It never throws.
pub type Deliver<'env> = Function<'env, Pieces, ()>;

/// What pieces are delivered through.
type Calls = ThreadsafeFunction<
    Pieces, // what is sent to JavaScript's thread
    (),     // what the function returns
    Pieces, // what it takes
    Status, // the errors of Node-API
    false,  // it takes no error as its first argument
>;

pub struct Live {
    outgoing: Outgoing,
    calls: Calls,
}

impl Live {
    pub fn new(deliver: &Deliver<'_>, outgoing: Outgoing) -> napi::Result<Self> {
        let calls = deliver.build_threadsafe_function::<Pieces>().build_callback(|context| Ok(context.value))?;
        Ok(Self { outgoing, calls })
    }

    /// Delivers until the outbox is closed and empty, or JavaScript is gone.
    pub async fn deliver(mut self) {
        let mut batch = Vec::new();
        while self.outgoing.next(&mut batch).await {
            let streams = batch.iter().map(|delivery| delivery.stream.index() as u32).collect();
            // Converted here, so that JavaScript's thread has only to copy it.
            let texts: Vec<_> = batch.iter_mut().map(|delivery| Arc::new(self.text(delivery))).collect();
            let sent = texts.iter().cloned().map(NativeText).collect();
            if self.calls.call_async_catch(FnArgs::from((streams, sent))).await.is_err() {
                return;
            }
            // Only now is there room again for what these were.
            batch.clear();
            texts.into_iter().for_each(|text| self.reuse(text));
        }
    }

    /// ASCII, which most output is, is sent in the memory it is in.
    fn text(&self, delivery: &mut Delivery) -> JsText {
        let ascii = delivery.counted().is_ascii();
        let text = std::mem::take(&mut delivery.text);
        if ascii {
            return JsText::Latin1(text.into_bytes());
        }
        let converted = JsText::from(text.as_str());
        self.outgoing.reuse(text);
        converted
    }

    /// Takes back what JavaScript has copied.
    fn reuse(&self, text: Arc<JsText>) {
        if let Some(JsText::Latin1(mut bytes)) = Arc::into_inner(text) {
            bytes.clear();
            // Nothing is UTF-8.
            self.outgoing.reuse(String::from_utf8(bytes).unwrap_or_default());
        }
    }
}
