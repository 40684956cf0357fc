//! The native engine of Paperclip's CreateOS sandbox provider: it runs commands in CreateOS sandboxes, follows their
//! output over any number of broken connections, ends what has to end and looks after leases.
//!
//! # Layout
//!
//! Data flows one way, and a module knows only those before it:
//!
//! 1. [`error`]: every message, once, and the facts that go with it.
//! 2. [`events`]: what a call tells of itself, if somebody listens.
//! 3. [`config`]: raw settings → valid ones, and the API key.
//! 4. [`api`]: requests. Who may send when, over which connection, and what an answer means.
//! 5. [`stream`]: bytes → lines → frames → sequence → text → tail. Pure.
//! 6. [`process`]: one command. Its script, its output over many connections, its early end, its cleanup.
//! 7. [`lease`]: who holds which sandbox, and what runs on it.
//! 8. [`sync`]: files and directories, in and out.
//! 9. `binding`: the only code that knows Node.js; `index.js` and `index.d.ts` are what users see of it.
//!
//! The core needs no Node.js: it is tested, fuzzed and measured as an ordinary library.

pub mod api;
// Unit tests link no Node.js, and need none.
#[cfg(not(test))]
mod binding;
pub mod config;
pub mod error;
pub mod events;
pub mod lease;
pub mod process;
pub mod stream;
pub mod sync;
