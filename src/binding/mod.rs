//! The only code that knows Node-API: [`input`] turns what `index.js` passes into the core's types, [`outcome`] turns
//! what came of it back, [`log`] delivers live output and [`events`] what a call tells of itself, [`teardown`] ends what a worker thread leaves behind. What the
//! addon exports is in [`exports`], [`lifecycle`] and [`sync`]. Nothing here throws for a command: promises resolve with an outcome,
//! out of which `index.js` makes the package's errors, with a stack that starts at the caller.

mod events;
mod exports;
mod input;
mod lifecycle;
mod log;
mod outcome;
mod sync;
mod teardown;
