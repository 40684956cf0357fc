//! One command from its parameters to its outcome: [`script`] says what runs, [`execute`] starts, follows and settles
//! it, [`follow`] reads its output over any number of connections, [`reconnect`] says how many, [`output`] keeps and
//! forwards what was read, [`outbox`] holds what JavaScript has not taken yet, [`stop`] is how it is ended early and
//! [`cleanup`] what happens then.

pub mod cleanup;
pub mod execute;
pub mod follow;
pub mod outbox;
pub mod output;
pub mod reconnect;
pub mod script;
pub mod stop;
