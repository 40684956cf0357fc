//! What went wrong with a request, read from the chain of errors that reqwest, hyper, h2, rustls and the system leave behind.
//! None of their texts gets past this module: they can hold URLs.

use std::error::Error;
use std::io;

use rustls::pki_types::InvalidDnsNameError;

use super::resolve::Unresolved;
use crate::error::Failure;

/// The class of an error of sending a request or of reading its answer's body.
pub fn classify(error: &reqwest::Error) -> Failure {
    read(error).failure
}

pub(super) struct Reading {
    pub(super) failure: Failure,
    /// The connection ended, or the server said that it did not look at the request. Says nothing about whether the
    /// connection had been used before.
    pub(super) broke: bool,
}

pub(super) fn read(error: &reqwest::Error) -> Reading {
    let links = links(error);
    let reading = |failure, broke| Reading { failure, broke };

    // The second: names that no server can have, which rustls refuses before they are looked up.
    if links.iter().any(|link| link.is::<Unresolved>() || link.is::<InvalidDnsNameError>()) {
        return reading(Failure::Dns, false);
    }
    if links.iter().any(|link| link.is::<rustls::Error>()) {
        return reading(Failure::Tls, false);
    }
    if error.is_timeout() {
        // No request has a timeout here, so on an open connection it is the system or a PING that found the peer gone.
        return reading(Failure::Timeout, true);
    }
    if let Some(h2) = find::<h2::Error>(&links).filter(|h2| !h2.is_io()) {
        return match (h2.is_remote(), h2.is_go_away()) {
            (true, true) => reading(Failure::Reset, true),
            // RFC 9113, 8.7: nothing of a refused stream was processed. Any other code may come after processing.
            (true, false) => reading(Failure::Reset, h2.reason() == Some(h2::Reason::REFUSED_STREAM)),
            // Found wrong on this side: frames that break the protocol.
            _ if h2.is_library() => reading(Failure::Protocol, false),
            _ => reading(Failure::Reset, false),
        };
    }
    if let Some(io) = find::<io::Error>(&links) {
        return match io.kind() {
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::AddrNotAvailable
            | io::ErrorKind::PermissionDenied => reading(Failure::Refused, true),
            // Chunk sizes that are no numbers and the like.
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => reading(Failure::Protocol, false),
            // Resets, broken pipes, and ends too early, among them a TLS end without close_notify.
            _ => reading(Failure::Reset, true),
        };
    }
    if let Some(hyper) = find::<hyper::Error>(&links) {
        return match () {
            () if hyper.is_parse() => reading(Failure::Protocol, false),
            () if hyper.is_incomplete_message() || hyper.is_canceled() || hyper.is_closed() => {
                reading(Failure::Reset, true)
            }
            () => reading(Failure::Reset, false),
        };
    }
    // A connector without a cause of the above: a proxy that refused to make a tunnel.
    let failure = if error.is_connect() {
        Failure::Refused
    } else if error.is_builder() || error.is_decode() {
        Failure::Protocol
    } else {
        Failure::Reset
    };
    reading(failure, false)
}

/// The error and its causes. `io::Error::source` skips the error that it wraps, which is where rustls is found.
fn links<'a>(error: &'a reqwest::Error) -> Vec<&'a (dyn Error + 'static)> {
    let mut links: Vec<&'a (dyn Error + 'static)> = vec![error];
    let mut next = error.source();
    while let Some(link) = next {
        links.push(link);
        next = match link.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => link.source(),
        };
    }
    links
}

fn find<'a, T: Error + 'static>(links: &[&'a (dyn Error + 'static)]) -> Option<&'a T> {
    links.iter().find_map(|link| link.downcast_ref())
}
