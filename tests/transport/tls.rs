//! Certificates: who is trusted, and what counts as a failure of TLS.

use createos_native::api::transport::{Network, Reuse, Transport, classify};
use createos_native::error::Failure;
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;

use crate::plain::{get, text};
use crate::server::{Authority, Server, read_request, serve};

async fn https(acceptor: TlsAcceptor) -> Server {
    Server::start(move |_, stream| {
        let acceptor = acceptor.clone();
        async move {
            // A client that does not trust the certificate ends the handshake.
            if let Ok(stream) = acceptor.accept(stream).await {
                serve(stream).await;
            }
        }
    })
    .await
}

async fn failure(network: &Network, url: &str) -> Option<Failure> {
    text(&Transport::new(network), get(url), Reuse::Fresh).await.err().map(|error| error.failure)
}

#[tokio::test]
async fn a_private_authority_is_trusted_through_either_file() {
    let authority = Authority::new();
    let server = https(authority.acceptor(&[])).await;
    let by_ssl_cert_file = Network { ssl_cert_file: Some(authority.file.clone()), ..Network::default() };
    for network in [authority.network(), by_ssl_cert_file] {
        for host in ["127.0.0.1", "localhost"] {
            assert_eq!(failure(&network, &server.url("https", host, "/")).await, None);
        }
    }
}

#[tokio::test]
async fn an_unknown_authority_is_a_failure_of_tls() {
    let server = https(Authority::new().acceptor(&[])).await;
    let url = server.url("https", "localhost", "/");
    assert_eq!(failure(&Network::default(), &url).await, Some(Failure::Tls));
    let other = Authority::new();
    assert_eq!(failure(&other.network(), &url).await, Some(Failure::Tls));
}

#[tokio::test]
async fn a_wrong_name_is_a_failure_of_tls() {
    let authority = Authority::new();
    let acceptor = authority.acceptor_for(&[], |params| {
        params.subject_alt_names = vec![rcgen::SanType::DnsName("other.test".try_into().unwrap())];
    });
    let server = https(acceptor).await;
    for host in ["127.0.0.1", "localhost"] {
        assert_eq!(failure(&authority.network(), &server.url("https", host, "/")).await, Some(Failure::Tls));
    }
}

#[tokio::test]
async fn an_expired_certificate_is_a_failure_of_tls() {
    let authority = Authority::new();
    let acceptor = authority.acceptor_for(&[], |params| params.not_after = rcgen::date_time_ymd(2001, 1, 1));
    let server = https(acceptor).await;
    let url = server.url("https", "localhost", "/");
    assert_eq!(failure(&authority.network(), &url).await, Some(Failure::Tls));
}

#[tokio::test]
async fn an_end_without_close_notify_is_a_cut() {
    let authority = Authority::new();
    let acceptor = authority.acceptor(&[]);
    for (with_notify, expected) in [(true, None), (false, Some(Failure::Reset))] {
        let acceptor = acceptor.clone();
        let server = Server::start(move |_, stream| {
            let acceptor = acceptor.clone();
            async move {
                let mut stream = acceptor.accept(stream).await.unwrap();
                read_request(&mut stream).await.unwrap();
                // A body that lasts until the connection ends: only TLS can tell a whole one from a cut one.
                stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nbody").await.unwrap();
                stream.flush().await.unwrap();
                if with_notify {
                    stream.shutdown().await.unwrap();
                }
            }
        })
        .await;
        let transport = Transport::new(&authority.network());
        let response = transport.send(get(&server.url("https", "127.0.0.1", "/")), Reuse::Fresh).await.unwrap();
        assert_eq!(response.bytes().await.err().map(|error| classify(&error)), expected);
    }
}
