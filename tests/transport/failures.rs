//! The class of each failure, and that none of it says where the request went.

use std::time::Duration;

use createos_native::api::transport::{Network, Reuse, SendError, Timing, Transport, classify};
use createos_native::error::Failure;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::plain::get;
use crate::server::{Server, read_request, reset};

async fn failure(transport: &Transport, url: &str) -> Failure {
    let mut found = Vec::new();
    for reuse in [Reuse::Fresh, Reuse::Pooled { replay: true }] {
        let SendError { failure, tries } = transport.send(get(url), reuse).await.unwrap_err();
        assert_eq!(tries, 1);
        found.push(failure);
    }
    assert_eq!(found[0], found[1]);
    found[0]
}

fn plain() -> Transport {
    Transport::new(&Network::default())
}

fn impatient() -> Transport {
    let timing = Timing { connect: Duration::from_millis(200), ..Timing::default() };
    Transport::with_timing(&Network::default(), timing)
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    for scheme in ["http", "https"] {
        for host in ["127.0.0.1", "localhost", "[::1]"] {
            assert_eq!(failure(&plain(), &format!("{scheme}://{host}:{port}/")).await, Failure::Refused, "{host}");
        }
    }
}

#[tokio::test]
async fn a_name_without_an_address_is_dns() {
    // A label of more than 63 bytes: no resolver sends such a question.
    for scheme in ["http", "https"] {
        let url = format!("{scheme}://{}.invalid/", "a".repeat(64));
        assert_eq!(failure(&plain(), &url).await, Failure::Dns, "{scheme}");
    }
}

#[tokio::test]
async fn a_connection_closed_before_the_answer_is_reset() {
    let ends = Server::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
    })
    .await;
    assert_eq!(failure(&plain(), &ends.url("http", "127.0.0.1", "/")).await, Failure::Reset);

    let at_once = Server::start(|_, stream| async move { drop(stream) }).await;
    assert_eq!(failure(&plain(), &at_once.url("http", "127.0.0.1", "/")).await, Failure::Reset);

    let resets = Server::start(|_, stream| async move { reset(stream) }).await;
    assert_eq!(failure(&plain(), &resets.url("http", "127.0.0.1", "/")).await, Failure::Reset);
    // During the TLS handshake as well: nothing was said about certificates or protocols.
    assert_eq!(failure(&plain(), &resets.url("https", "127.0.0.1", "/")).await, Failure::Reset);
}

#[tokio::test]
async fn garbage_instead_of_http_is_protocol() {
    for garbage in
        ["SSH-2.0-OpenSSH_9.9\r\n", "\0\0\0\0\0\0\0\0\r\n\r\n", "HTTP/9.9 200 OK\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"]
    {
        let server = Server::start(move |_, mut stream| async move {
            read_request(&mut stream).await.unwrap();
            stream.write_all(garbage.as_bytes()).await.unwrap();
        })
        .await;
        assert_eq!(failure(&plain(), &server.url("http", "127.0.0.1", "/")).await, Failure::Protocol, "{garbage:?}");
    }
}

#[tokio::test]
async fn a_server_without_tls_on_the_port_is_tls() {
    let server = Server::start(|_, mut stream| async move {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").await.unwrap();
        stream.shutdown().await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    })
    .await;
    assert_eq!(failure(&plain(), &server.url("https", "127.0.0.1", "/")).await, Failure::Tls);
}

#[tokio::test]
async fn a_handshake_that_is_never_answered_is_a_timeout() {
    let server = Server::start(|_, stream| async move {
        tokio::time::sleep(Duration::from_secs(20)).await;
        drop(stream);
    })
    .await;
    assert_eq!(failure(&impatient(), &server.url("https", "127.0.0.1", "/")).await, Failure::Timeout);
}

#[tokio::test]
async fn only_connecting_has_a_limit() {
    let server = Server::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        stream.write_all(b"late").await.unwrap();
    })
    .await;
    let response = impatient().send(get(&server.url("http", "127.0.0.1", "/")), Reuse::Fresh).await.unwrap();
    assert_eq!(response.text().await.unwrap(), "late");
}

#[tokio::test]
async fn bodies_that_are_cut_are_reset_and_broken_ones_are_protocol() {
    let cases = [
        ("content-length: 9\r\n\r\nhalf", Failure::Reset),
        ("transfer-encoding: chunked\r\n\r\n4\r\nhalf", Failure::Reset),
        ("transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", Failure::Reset),
        ("transfer-encoding: chunked\r\n\r\nmany\r\nhalf\r\n", Failure::Protocol),
    ];
    for (rest, expected) in cases {
        let server = Server::start(move |_, mut stream| async move {
            read_request(&mut stream).await.unwrap();
            stream.write_all(format!("HTTP/1.1 200 OK\r\n{rest}").as_bytes()).await.unwrap();
        })
        .await;
        let mut response = plain().send(get(&server.url("http", "127.0.0.1", "/")), Reuse::Fresh).await.unwrap();
        let error = loop {
            match response.chunk().await {
                Ok(chunk) => assert!(chunk.is_some(), "{rest:?} ended cleanly"),
                Err(error) => break error,
            }
        };
        assert_eq!(classify(&error), expected, "{rest:?}");
    }
}

#[tokio::test]
async fn nothing_public_shows_a_url_or_a_password() {
    let network = Network { https_proxy: Some("http://user:secret@proxy.test".to_owned()), ..Network::default() };
    let transport = Transport::new(&network);
    let error = transport.send(get("http://127.0.0.1:1/private"), Reuse::Fresh).await.unwrap_err();
    let shown = format!("{network:?} {transport:?} {error:?}");
    for word in ["secret", "proxy", "127.0.0.1", "private"] {
        assert!(!shown.contains(word), "{shown}");
    }
}
