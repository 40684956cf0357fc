//! The only code that knows Node-API: [`input`] turns what `index.js` passes into the core's types, [`outcome`] turns
//! what came of it back, [`external`] without copying it, [`log`] delivers live output and [`events`] what a call tells of
//! itself, [`teardown`] ends what a worker thread leaves behind. What the addon exports is in [`exports`], [`lifecycle`]
//! and [`sync`]. Nothing here throws for a command: promises resolve with an outcome, out of which `index.js` makes the
//! package's errors, with a stack that starts at the caller.

use napi::{Status, threadsafe_function::ThreadsafeFunction};

mod events;
mod exports;
mod external;
mod input;
mod lifecycle;
mod log;
mod outcome;
mod sync;
mod teardown;

/// A function of `index.js` that other threads call; it never throws.
type Calls<Sent, Taken> = ThreadsafeFunction<
    Sent,   // what is sent to JavaScript's thread
    (),     // what the function returns
    Taken,  // what it takes
    Status, // the errors of Node-API
    false,  // it takes no error as its first argument
>;
