//! HTTP/2 over TLS: sharing, at most once, shutdowns with streams open, and peers that fall silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use createos_native::api::transport::{Reuse, SendError, Timing, Transport, classify};
use createos_native::error::Failure;
use h2::Reason;
use h2::server::{Connection, SendResponse};
use reqwest::{Method, Version};
use tokio::io::AsyncReadExt;
use tokio::sync::{Notify, mpsc};

use crate::plain::{get, request, text};
use crate::server::{Authority, Server, Tls, protocol};

const REPLAY: Reuse = Reuse::Pooled { replay: true };

type Peer = Connection<Tls, Bytes>;

/// A server that talks HTTP/2 by ALPN, and a transport that trusts it.
async fn http2<F, H>(handler: F) -> (Server, Transport)
where
    F: Fn(usize, Peer) -> H + Send + Sync + 'static,
    H: Future<Output = ()> + Send + 'static,
{
    http2_with(Timing::default(), handler).await
}

async fn http2_with<F, H>(timing: Timing, handler: F) -> (Server, Transport)
where
    F: Fn(usize, Peer) -> H + Send + Sync + 'static,
    H: Future<Output = ()> + Send + 'static,
{
    let authority = Authority::new();
    let acceptor = authority.acceptor(&["h2", "http/1.1"]);
    let handler = Arc::new(handler);
    let server = Server::start(move |number, stream| {
        let (acceptor, handler) = (acceptor.clone(), Arc::clone(&handler));
        async move {
            let stream = acceptor.accept(stream).await.unwrap();
            assert_eq!(protocol(&stream).as_deref(), Some("h2"));
            // As many streams as common servers admit.
            let peer = h2::server::Builder::new().max_concurrent_streams(100).handshake(stream).await.unwrap();
            handler(number, peer).await;
        }
    })
    .await;
    (server, Transport::with_timing(&authority.network(), timing))
}

fn respond(mut respond: SendResponse<Bytes>, body: &'static str) {
    let mut stream = respond.send_response(http::Response::new(()), false).unwrap();
    stream.send_data(Bytes::from_static(body.as_bytes()), true).unwrap();
}

async fn serve(mut peer: Peer) {
    while let Some(Ok((_, answer))) = peer.accept().await {
        respond(answer, "ok");
    }
}

fn url(server: &Server) -> String {
    server.url("https", "127.0.0.1", "/")
}

#[tokio::test]
async fn pooled_requests_share_a_connection_and_fresh_ones_never_do() {
    let (closed, mut closings) = mpsc::unbounded_channel();
    let (server, transport) = http2(move |number, peer| {
        let closed = closed.clone();
        async move {
            serve(peer).await;
            closed.send(number).unwrap();
        }
    })
    .await;
    for _ in 0..3 {
        let response = transport.send(get(&url(&server)), REPLAY).await.unwrap();
        assert_eq!(response.version(), Version::HTTP_2);
        assert_eq!(response.text().await.unwrap(), "ok");
    }
    assert_eq!(server.connections(), 1);
    for number in 1..4 {
        text(&transport, request(Method::POST, &url(&server), "{}"), Reuse::Fresh).await.unwrap();
        assert_eq!(server.connections(), number + 1);
        let closed = tokio::time::timeout(Duration::from_secs(2), closings.recv()).await.expect("closed");
        assert_eq!(closed, Some(number));
    }
    text(&transport, get(&url(&server)), REPLAY).await.unwrap();
    assert_eq!(server.connections(), 4);
}

/// Ways to end a stream whose request was read whole.
#[derive(Clone, Copy, Debug)]
enum End {
    Refused,
    Cancelled,
    GoAway,
    Abrupt,
    Dropped,
}

async fn end(how: End, mut peer: Peer, mut answer: SendResponse<Bytes>) {
    match how {
        End::Refused => answer.send_reset(Reason::REFUSED_STREAM),
        End::Cancelled => answer.send_reset(Reason::INTERNAL_ERROR),
        End::GoAway => {
            // "Your stream was not processed": last stream 0, no error. The classic invitation to send it again.
            peer.abrupt_shutdown(Reason::NO_ERROR);
        }
        End::Abrupt => peer.abrupt_shutdown(Reason::INTERNAL_ERROR),
        End::Dropped => return,
    }
    let more = peer.accept().await;
    assert!(!matches!(more, Some(Ok(_))), "sent again on the same connection");
}

#[tokio::test]
async fn a_post_on_a_fresh_connection_is_sent_once_however_its_stream_ends() {
    for how in [End::Refused, End::Cancelled, End::GoAway, End::Abrupt, End::Dropped] {
        let posts = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&posts);
        let (server, transport) = http2(move |_, mut peer| {
            let count = Arc::clone(&count);
            async move {
                let (request, answer) = peer.accept().await.unwrap().unwrap();
                assert_eq!(request.method(), Method::POST);
                count.fetch_add(1, Ordering::SeqCst);
                end(how, peer, answer).await;
            }
        })
        .await;
        let error = transport.send(request(Method::POST, &url(&server), "{}"), Reuse::Fresh).await.unwrap_err();
        assert_eq!(error, SendError { failure: Failure::Reset, tries: 1 }, "{how:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!((posts.load(Ordering::SeqCst), server.connections()), (1, 1), "{how:?}");
    }
}

#[tokio::test]
async fn a_shared_connection_that_ends_is_replaced_once_unless_the_server_may_have_acted() {
    for (how, replayed) in
        [(End::Refused, true), (End::GoAway, true), (End::Abrupt, true), (End::Dropped, true), (End::Cancelled, false)]
    {
        let requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&requests);
        let (server, transport) = http2(move |number, mut peer| {
            let count = Arc::clone(&count);
            async move {
                while let Some(Ok((_, answer))) = peer.accept().await {
                    if count.fetch_add(1, Ordering::SeqCst) == 1 {
                        assert_eq!(number, 0);
                        return end(how, peer, answer).await;
                    }
                    respond(answer, "ok");
                }
            }
        })
        .await;
        text(&transport, get(&url(&server)), REPLAY).await.unwrap();
        let result = text(&transport, get(&url(&server)), REPLAY).await;
        if replayed {
            assert_eq!(result.unwrap(), "ok", "{how:?}");
        } else {
            assert_eq!(result.unwrap_err(), SendError { failure: Failure::Reset, tries: 1 });
        }
        assert_eq!(requests.load(Ordering::SeqCst), 2 + usize::from(replayed), "{how:?}");
    }
}

#[tokio::test]
async fn a_goaway_lets_open_streams_finish_while_new_requests_take_a_new_connection() {
    let goaway = Arc::new(Notify::new());
    let gate = Arc::clone(&goaway);
    let (server, transport) = http2(move |number, mut peer| {
        let gate = Arc::clone(&gate);
        async move {
            if number > 0 {
                return serve(peer).await;
            }
            let (_, mut answer) = peer.accept().await.unwrap().unwrap();
            let mut stream = answer.send_response(http::Response::new(()), false).unwrap();
            stream.send_data(Bytes::from_static(b"first "), false).unwrap();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(400)).await;
                stream.send_data(Bytes::from_static(b"last"), true).unwrap();
            });
            tokio::select! {
                _ = peer.accept() => panic!("a second request"),
                () = gate.notified() => (),
            }
            peer.graceful_shutdown();
            while peer.accept().await.is_some() {}
        }
    })
    .await;
    let mut stream = transport.send(get(&url(&server)), REPLAY).await.unwrap();
    assert_eq!(stream.chunk().await.unwrap().unwrap(), "first ");
    goaway.notify_one();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(text(&transport, get(&url(&server)), REPLAY).await.unwrap(), "ok");
    assert_eq!(server.connections(), 2);
    assert_eq!(stream.chunk().await.unwrap().unwrap(), "last");
    assert_eq!(stream.chunk().await.unwrap(), None);
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_found_by_ping() {
    let timing = Timing {
        ping_after: Duration::from_millis(200),
        ping_timeout: Duration::from_millis(200),
        ..Timing::default()
    };
    let (server, transport) = http2_with(timing, |_, mut peer| async move {
        let (_, mut answer) = peer.accept().await.unwrap().unwrap();
        let mut stream = answer.send_response(http::Response::new(()), false).unwrap();
        stream.send_data(Bytes::from_static(b"head"), false).unwrap();
        // Answers pings for longer than the limit, then nothing any more, the connection still being open.
        let _ = tokio::time::timeout(Duration::from_millis(900), peer.accept()).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
    })
    .await;
    let start = Instant::now();
    let mut response = transport.send(get(&url(&server)), REPLAY).await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "head");
    let error = response.chunk().await.unwrap_err();
    assert!(matches!(classify(&error), Failure::Reset | Failure::Timeout), "{:?}", classify(&error));
    assert!(start.elapsed() > Duration::from_millis(900), "a peer that answers pings was given up");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_silent_shared_connection_is_left_for_a_new_one() {
    let timing = Timing {
        ping_after: Duration::from_millis(200),
        ping_timeout: Duration::from_millis(200),
        ..Timing::default()
    };
    let (server, transport) = http2_with(timing, |number, mut peer| async move {
        if number > 0 {
            return serve(peer).await;
        }
        let (_, answer) = peer.accept().await.unwrap().unwrap();
        respond(answer, "ok");
        let _ = tokio::time::timeout(Duration::from_millis(50), peer.accept()).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
    })
    .await;
    for _ in 0..2 {
        assert_eq!(text(&transport, get(&url(&server)), REPLAY).await.unwrap(), "ok");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(server.connections(), 2);
}

/// More output streams than a server admits on one connection, none of which anybody reads: requests still get through.
#[tokio::test]
async fn many_open_streams_do_not_keep_other_requests_waiting() {
    const STREAMS: usize = 150;
    let (server, transport) = http2(|_, mut peer| async move {
        let mut open = Vec::new();
        while let Some(Ok((request, mut answer))) = peer.accept().await {
            if request.uri().path() == "/stream" {
                let mut stream = answer.send_response(http::Response::new(()), false).unwrap();
                stream.send_data(Bytes::from(vec![b'x'; 1 << 21]), false).unwrap();
                open.push(stream);
            } else {
                respond(answer, "ok");
            }
        }
    })
    .await;
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        let stream = transport.send(get(&server.url("https", "127.0.0.1", "/stream")), REPLAY);
        open.push(tokio::time::timeout(Duration::from_secs(5), stream).await.expect("admitted").unwrap());
    }
    // The servers have sent all that the windows admit.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let quick = text(&transport, get(&url(&server)), REPLAY);
    assert_eq!(tokio::time::timeout(Duration::from_secs(5), quick).await.expect("not blocked").unwrap(), "ok");
    assert_eq!(server.connections(), STREAMS.div_ceil(32));
    drop(open);
    // All places are free again: the first connection serves.
    for _ in 0..40 {
        text(&transport, get(&url(&server)), REPLAY).await.unwrap();
    }
    assert_eq!(server.connections(), STREAMS.div_ceil(32));
}

#[tokio::test]
async fn http2_garbage_is_protocol_and_a_cut_without_close_notify_is_reset() {
    let authority = Authority::new();
    let acceptor = authority.acceptor(&["h2"]);
    let server = Server::start(move |number, stream| {
        let acceptor = acceptor.clone();
        async move {
            let mut stream = acceptor.accept(stream).await.unwrap();
            if number == 0 {
                let _ = stream.read(&mut [0; 64]).await;
                let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, &[0xff; 64]).await;
                tokio::time::sleep(Duration::from_millis(200)).await;
            } else {
                let mut peer: Peer = h2::server::handshake(stream).await.unwrap();
                let (_, mut answer) = peer.accept().await.unwrap().unwrap();
                let mut body = answer.send_response(http::Response::new(()), false).unwrap();
                body.send_data(Bytes::from_static(b"head"), false).unwrap();
                // Dropped without ends of the stream, of HTTP/2 or of TLS.
                let _ = tokio::time::timeout(Duration::from_millis(100), peer.accept()).await;
            }
        }
    })
    .await;
    let transport = Transport::new(&authority.network());
    let error = transport.send(get(&url(&server)), Reuse::Fresh).await.unwrap_err();
    assert_eq!(error.failure, Failure::Protocol);
    let mut response = transport.send(get(&url(&server)), Reuse::Fresh).await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "head");
    assert_eq!(classify(&response.chunk().await.unwrap_err()), Failure::Reset);
}
