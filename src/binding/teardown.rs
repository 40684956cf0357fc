//! The end of a JavaScript environment: a worker thread that is terminated, or the process itself. What it started on
//! the runtime, which all threads share, is cancelled then; nobody is left who could wait for it.

use std::cell::OnceCell;

use napi::{Env, Result};
use tokio_util::sync::CancellationToken;

use crate::process::stop::{Reason, Stop};

thread_local! {
    // One environment lives on one thread, and the addon is loaded once in it.
    static ENDED: OnceCell<CancellationToken> = const { OnceCell::new() };
}

/// A token that is cancelled when the environment ends.
pub fn ended(env: &Env) -> Result<CancellationToken> {
    ENDED.with(|cell| {
        if let Some(token) = cell.get() {
            return Ok(token.clone());
        }
        let token = CancellationToken::new();
        env.add_env_cleanup_hook(token.clone(), |token| token.cancel())?;
        Ok(cell.get_or_init(|| token).clone())
    })
}

/// Lets work end by itself, but tells it to stop when the environment ends.
pub async fn until<T>(ended: CancellationToken, stop: &Stop, work: impl Future<Output = T>) -> T {
    let watch = async {
        ended.cancelled().await;
        stop.stop(Reason::Cancelled);
        std::future::pending().await
    };
    tokio::select! {
        result = work => result,
        never = watch => never,
    }
}
