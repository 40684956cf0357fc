//! HTTP/1.1 without TLS: which connections requests take, and that nothing is sent that was not asked for.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use createos_native::api::transport::{Network, Reuse, SendError, Transport};
use createos_native::error::Failure;
use reqwest::{Method, Request, Url};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};

use crate::server::{Server, answer, read_request, serve};

pub const REPLAY: Reuse = Reuse::Pooled { replay: true };
pub const ONCE: Reuse = Reuse::Pooled { replay: false };

pub fn request(method: Method, url: &str, body: &'static str) -> Request {
    let mut request = Request::new(method, Url::parse(url).unwrap());
    if !body.is_empty() {
        *request.body_mut() = Some(body.into());
    }
    request
}

pub fn get(url: &str) -> Request {
    request(Method::GET, url, "")
}

pub async fn text(transport: &Transport, request: Request, reuse: Reuse) -> Result<String, SendError> {
    let response = transport.send(request, reuse).await?;
    Ok(response.text().await.unwrap())
}

pub fn plain() -> Transport {
    Transport::new(&Network::default())
}

/// Lets a connection get back into its pool.
pub async fn settle() {
    tokio::time::sleep(Duration::from_millis(30)).await;
}

#[tokio::test]
async fn a_fresh_request_has_a_connection_of_its_own_which_is_closed_afterwards() {
    let (closed, mut closings) = mpsc::unbounded_channel();
    let server = Server::start(move |_, mut stream| {
        let closed = closed.clone();
        async move {
            read_request(&mut stream).await.unwrap();
            answer(&mut stream, "ok").await;
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "more than one request");
            closed.send(()).unwrap();
        }
    })
    .await;
    let transport = plain();
    for _ in 0..5 {
        let url = server.url("http", "127.0.0.1", "/");
        assert_eq!(text(&transport, request(Method::POST, &url, "{}"), Reuse::Fresh).await.unwrap(), "ok");
        tokio::time::timeout(Duration::from_secs(2), closings.recv()).await.expect("closed").unwrap();
    }
    assert_eq!(server.connections(), 5);
}

#[tokio::test]
async fn fresh_requests_neither_use_nor_feed_the_pool() {
    let server = Server::start(|_, stream| serve(stream)).await;
    let (transport, url) = (plain(), server.url("http", "127.0.0.1", "/"));
    for reuse in [ONCE, Reuse::Fresh, ONCE, Reuse::Fresh, ONCE] {
        text(&transport, get(&url), reuse).await.unwrap();
        settle().await;
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn pooled_requests_share_a_connection() {
    let server = Server::start(|_, stream| serve(stream)).await;
    let (transport, url) = (plain(), server.url("http", "127.0.0.1", "/"));
    for _ in 0..5 {
        text(&transport, get(&url), REPLAY).await.unwrap();
        settle().await;
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_network_has_one_transport_in_the_process() {
    let other = Network { no_proxy: Some("*".to_owned()), ..Network::default() };
    assert!(Arc::ptr_eq(&Transport::shared(&Network::default()), &Transport::shared(&Network::default())));
    assert!(!Arc::ptr_eq(&Transport::shared(&Network::default()), &Transport::shared(&other)));
}

#[tokio::test]
async fn a_post_is_sent_once_however_its_connection_ends() {
    // Also a status that some clients take as an invitation to try again.
    for (answer, failure) in [
        ("", Some(Failure::Reset)),
        ("HTTP/1.1 20", Some(Failure::Reset)),
        ("HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", None),
        ("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n", None),
    ] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let server = Server::start(move |_, mut stream| {
            let log = Arc::clone(&log);
            async move {
                let request = read_request(&mut stream).await.unwrap();
                log.lock().unwrap().push(request);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        })
        .await;
        let post = request(Method::POST, &server.url("http", "127.0.0.1", "/p"), "{}");
        let result = plain().send(post, Reuse::Fresh).await;
        assert_eq!(result.err().map(|error| error.failure), failure);
        settle().await;
        assert_eq!(seen.lock().unwrap().len(), 1);
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn redirects_are_answers_and_the_second_server_sees_nothing() {
    let other = Server::start(|_, stream| serve(stream)).await;
    for status in [301, 302, 303, 307, 308] {
        let target = other.url("http", "127.0.0.1", "/stolen");
        let server = Server::start(move |_, mut stream| {
            let target = target.clone();
            async move {
                read_request(&mut stream).await.unwrap();
                let answer = format!("HTTP/1.1 {status} Moved\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        })
        .await;
        for method in [Method::GET, Method::POST] {
            let request = request(method, &server.url("http", "127.0.0.1", "/"), "");
            let response = plain().send(request, Reuse::Fresh).await.unwrap();
            assert_eq!(response.status().as_u16(), status);
        }
    }
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn no_compression_is_asked_for() {
    let (sender, mut heads) = mpsc::unbounded_channel();
    let server = Server::start(move |_, mut stream| {
        let sender = sender.clone();
        async move {
            sender.send(read_request(&mut stream).await.unwrap()).unwrap();
            answer(&mut stream, "ok").await;
        }
    })
    .await;
    text(&plain(), get(&server.url("http", "127.0.0.1", "/")), ONCE).await.unwrap();
    let head = heads.recv().await.unwrap().to_lowercase();
    assert!(!head.contains("accept-encoding") && !head.contains("referer"), "{head}");
}

#[tokio::test]
async fn localhost_reaches_a_server_on_either_address() {
    for ip in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        let server = Server::start_on(ip, |_, stream| serve(stream)).await;
        for reuse in [Reuse::Fresh, REPLAY] {
            let url = server.url("http", "localhost", "/");
            assert_eq!(text(&plain(), get(&url), reuse).await.unwrap(), "ok");
        }
    }
}

#[tokio::test]
async fn a_dropped_request_closes_its_connection() {
    for reuse in [Reuse::Fresh, REPLAY] {
        let (arrived, closed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let notes = (Arc::clone(&arrived), Arc::clone(&closed));
        let server = Server::start(move |_, mut stream| {
            let (arrived, closed) = notes.clone();
            async move {
                read_request(&mut stream).await.unwrap();
                arrived.notify_one();
                let _ = stream.read(&mut [0]).await;
                closed.notify_one();
            }
        })
        .await;
        let transport = plain();
        let url = server.url("http", "127.0.0.1", "/");
        tokio::select! {
            _ = transport.send(get(&url), reuse) => panic!("nobody answered"),
            () = arrived.notified() => (),
        }
        tokio::time::timeout(Duration::from_secs(2), closed.notified()).await.expect("closed");
    }
}
