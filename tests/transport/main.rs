//! The transport against servers made of raw sockets: how many connections it opens, how often it sends a request, how it
//! names what went wrong, and whom it trusts.

mod failures;
mod http2;
mod plain;
mod proxies;
mod replay;
mod server;
mod tls;
