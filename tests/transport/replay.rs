//! Connections that break while they carry a request: when it is sent again, and when never.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use createos_native::api::transport::{Reuse, SendError, Transport, classify};
use createos_native::error::Failure;
use reqwest::Method;
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

use crate::plain::{ONCE, REPLAY, get, plain, request, settle, text};
use crate::server::{Authority, Server, answer, read_request, reset, serve};

/// Answers the first request of the first connection; reads the second and breaks, without or after part of an answer.
/// Later connections are served. Counts the requests.
async fn breaking(by_reset: bool, part: &'static str) -> (Server, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let server = Server::start(move |number, mut stream| {
        let count = Arc::clone(&count);
        async move {
            while read_request(&mut stream).await.is_some() {
                if count.fetch_add(1, Ordering::SeqCst) == 1 && number == 0 {
                    stream.write_all(part.as_bytes()).await.unwrap();
                    if by_reset {
                        settle().await;
                        reset(stream);
                    }
                    return;
                }
                answer(&mut stream, "ok").await;
            }
        }
    })
    .await;
    (server, requests)
}

#[tokio::test]
async fn a_reused_connection_that_breaks_is_replaced_exactly_once() {
    for by_reset in [false, true] {
        let (server, requests) = breaking(by_reset, "").await;
        let (transport, url) = (plain(), server.url("http", "127.0.0.1", "/"));
        text(&transport, get(&url), REPLAY).await.unwrap();
        settle().await;
        let put = request(Method::PUT, &url, "body");
        assert_eq!(text(&transport, put, REPLAY).await.unwrap(), "ok");
        assert_eq!((server.connections(), requests.load(Ordering::SeqCst)), (2, 3));
    }
}

#[tokio::test]
async fn without_replay_it_is_an_error() {
    let (server, requests) = breaking(true, "").await;
    let (transport, url) = (plain(), server.url("http", "127.0.0.1", "/"));
    text(&transport, get(&url), ONCE).await.unwrap();
    settle().await;
    let error = text(&transport, get(&url), ONCE).await.unwrap_err();
    assert_eq!(error, SendError { failure: Failure::Reset, tries: 1 });
    assert_eq!((server.connections(), requests.load(Ordering::SeqCst)), (1, 2));
}

#[tokio::test]
async fn a_server_that_always_breaks_sees_two_requests_and_no_more() {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let server = Server::start(move |number, mut stream| {
        let count = Arc::clone(&count);
        async move {
            while read_request(&mut stream).await.is_some() {
                if count.fetch_add(1, Ordering::SeqCst) > 0 {
                    return reset(stream);
                }
                assert_eq!(number, 0);
                answer(&mut stream, "ok").await;
            }
        }
    })
    .await;
    let (transport, url) = (plain(), server.url("http", "127.0.0.1", "/"));
    text(&transport, get(&url), REPLAY).await.unwrap();
    settle().await;
    let error = text(&transport, get(&url), REPLAY).await.unwrap_err();
    assert_eq!(error, SendError { failure: Failure::Reset, tries: 2 });
    assert_eq!(requests.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_new_connection_that_breaks_is_not_replaced() {
    for reuse in [REPLAY, ONCE, Reuse::Fresh] {
        let requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&requests);
        let server = Server::start(move |_, mut stream| {
            let count = Arc::clone(&count);
            async move {
                read_request(&mut stream).await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                reset(stream);
            }
        })
        .await;
        let post = request(Method::POST, &server.url("http", "127.0.0.1", "/"), "{}");
        let error = plain().send(post, reuse).await.unwrap_err();
        assert_eq!(error, SendError { failure: Failure::Reset, tries: 1 });
        assert_eq!((server.connections(), requests.load(Ordering::SeqCst)), (1, 1));
    }
}

#[tokio::test]
async fn an_answer_that_has_begun_is_never_asked_for_again() {
    for by_reset in [false, true] {
        let (server, requests) = breaking(by_reset, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
        let (transport, url) = (plain(), server.url("http", "127.0.0.1", "/"));
        text(&transport, get(&url), REPLAY).await.unwrap();
        settle().await;
        let response = transport.send(get(&url), REPLAY).await.unwrap();
        let error = response.text().await.unwrap_err();
        assert_eq!(classify(&error), Failure::Reset);
        assert_eq!((server.connections(), requests.load(Ordering::SeqCst)), (1, 2));
    }
}

/// The server ends idle connections at the very moment when the next request comes.
#[tokio::test]
async fn a_connection_closed_while_the_next_request_is_written_costs_nothing() {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let server = Server::start(move |number, mut stream| {
        let count = Arc::clone(&count);
        async move {
            read_request(&mut stream).await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            answer(&mut stream, "ok").await;
            tokio::time::sleep(Duration::from_micros((number as u64 % 20) * 100)).await;
        }
    })
    .await;
    let (transport, url) = (plain(), server.url("http", "127.0.0.1", "/"));
    for number in 0..300_u64 {
        let put = request(Method::PUT, &url, "body");
        assert_eq!(text(&transport, put, REPLAY).await.unwrap(), "ok", "{number}");
        tokio::time::sleep(Duration::from_micros((number % 23) * 100)).await;
    }
    // This server reads one request from each connection: every one was read once.
    assert_eq!(requests.load(Ordering::SeqCst), 300);
}

/// hyper-util races a new connection against one that may come free. Here the new one hangs in its handshake, so the request
/// takes the other, which breaks: having begun to connect does not make the request's own connection a new one.
#[tokio::test]
async fn a_connection_that_comes_free_during_connecting_counts_as_reused() {
    let authority = Authority::new();
    let acceptor = authority.acceptor(&["http/1.1"]);
    let go = Arc::new(Notify::new());
    let gate = Arc::clone(&go);
    let server = Server::start(move |number, stream| {
        let (acceptor, gate) = (acceptor.clone(), Arc::clone(&gate));
        async move {
            if number == 1 {
                return tokio::time::sleep(Duration::from_secs(5)).await;
            }
            let mut stream = acceptor.accept(stream).await.unwrap();
            if number > 1 {
                return serve(stream).await;
            }
            read_request(&mut stream).await.unwrap();
            gate.notified().await;
            answer(&mut stream, "slow").await;
            read_request(&mut stream).await.unwrap();
        }
    })
    .await;
    let transport = Arc::new(Transport::new(&authority.network()));
    let url = server.url("https", "127.0.0.1", "/");
    let slow = tokio::spawn({
        let (transport, url) = (Arc::clone(&transport), url.clone());
        async move { text(&transport, get(&url), REPLAY).await }
    });
    while server.connections() < 1 {
        settle().await;
    }
    settle().await;
    let (second, ()) = tokio::join!(text(&transport, get(&url), REPLAY), async {
        while server.connections() < 2 {
            settle().await;
        }
        go.notify_one();
    });
    assert_eq!(slow.await.unwrap().unwrap(), "slow");
    assert_eq!(second.unwrap(), "ok");
    assert_eq!(server.connections(), 3);
}
