//! The CreateOS HTTP API: who may send when ([`pacer`]), how bytes get there ([`transport`] and its parts), what an answer
//! means ([`client`], `envelope`), a sandbox's life ([`sandbox`]) and its files ([`files`]).

pub mod client;
mod envelope;
pub mod failure;
pub mod files;
pub mod pacer;
mod proxy;
mod resolve;
mod reuse;
pub mod sandbox;
mod tls;
pub mod transport;
