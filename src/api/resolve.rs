//! Names to addresses, by the system's resolver, with an error type of its own so that a name that does not resolve can be
//! told from a peer that does not answer. Keeps no cache.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// The name has no address. Deliberately without the name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unresolved;

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("name not resolved")
    }
}

impl std::error::Error for Unresolved {}

#[derive(Clone, Copy, Debug)]
pub(super) struct Resolver;

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let addresses = lookup(name.as_str()).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// The port 0 stands for "the URL's".
async fn lookup(name: &str) -> Result<Vec<SocketAddr>, Unresolved> {
    if is_localhost(name) {
        // Many hosts files know one of the two only, and a server may listen on the other. Both are tried, and a refused
        // one costs nothing.
        return Ok(vec![(Ipv4Addr::LOCALHOST, 0).into(), (Ipv6Addr::LOCALHOST, 0).into()]);
    }
    let found: Vec<_> = tokio::net::lookup_host((name, 0)).await.map_err(|_| Unresolved)?.collect();
    if found.is_empty() { Err(Unresolved) } else { Ok(found) }
}

pub(super) fn is_localhost(name: &str) -> bool {
    name.strip_suffix('.').unwrap_or(name).eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn localhost_is_always_both_loopback_addresses() {
        for name in ["localhost", "LOCALHOST", "localhost."] {
            let found = lookup(name).await.unwrap();
            assert_eq!(found, ["127.0.0.1:0".parse().unwrap(), "[::1]:0".parse().unwrap()]);
        }
    }

    #[tokio::test]
    async fn a_name_that_cannot_exist_is_unresolved() {
        // A label of more than 63 bytes: no resolver sends such a question.
        assert!(lookup(&format!("{}.invalid", "a".repeat(64))).await.is_err());
    }
}
