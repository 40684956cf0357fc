//! Proxies. The destinations do not exist: what matters is who is connected to, and what is said.

use std::sync::{Arc, Mutex};

use createos_native::api::transport::{Network, Reuse, Transport};
use createos_native::error::Failure;
use tokio::io::AsyncWriteExt;

use crate::plain::{get, text};
use crate::server::{Authority, Server, protocol, read_request, serve};

fn through(proxy: &str, network: Network) -> Network {
    Network { https_proxy: Some(proxy.to_owned()), ..network }
}

#[tokio::test]
async fn an_https_request_takes_a_tunnel_with_the_proxys_credentials() {
    let authority = Authority::new();
    let acceptor = authority.acceptor_for(&["http/1.1"], |params| {
        params.subject_alt_names = vec![rcgen::SanType::DnsName("api.test".try_into().unwrap())];
    });
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let proxy = Server::start(move |_, mut stream| {
        let (acceptor, log) = (acceptor.clone(), Arc::clone(&log));
        async move {
            let connect = read_request(&mut stream).await.unwrap();
            log.lock().unwrap().push(connect);
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
            // The tunnel's end, as if it were the destination.
            let stream = acceptor.accept(stream).await.unwrap();
            assert_eq!(protocol(&stream).as_deref(), Some("http/1.1"));
            serve(stream).await;
        }
    })
    .await;
    let url = format!("http://user:p%40ss@127.0.0.1:{}", proxy.address.port());
    let transport = Transport::new(&through(&url, authority.network()));
    for reuse in [Reuse::Fresh, Reuse::Pooled { replay: true }, Reuse::Fresh] {
        assert_eq!(text(&transport, get("https://api.test/path"), reuse).await.unwrap(), "ok");
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    for connect in seen.iter() {
        assert!(connect.starts_with("CONNECT api.test:443 HTTP/1.1\r\n"), "{connect}");
        // user:p@ss
        assert!(connect.to_lowercase().contains("proxy-authorization: basic dxnlcjpwqhnz\r\n"), "{connect}");
        assert!(!connect.contains("/path"));
    }
}

#[tokio::test]
async fn loopback_plain_http_and_no_proxy_go_around_it() {
    let proxy = Server::start(|_, _stream| async { panic!("the proxy was used") }).await;
    let authority = Authority::new();
    let acceptor = authority.acceptor(&[]);
    let secure = Server::start(move |_, stream| {
        let acceptor = acceptor.clone();
        async move { serve(acceptor.accept(stream).await.unwrap()).await }
    })
    .await;
    let plain = Server::start(|_, stream| serve(stream)).await;
    let url = proxy.url("http", "127.0.0.1", "");
    let transport = Transport::new(&through(&url, authority.network()));
    for url in [
        secure.url("https", "127.0.0.1", "/"),
        secure.url("https", "localhost", "/"),
        plain.url("http", "127.0.0.1", "/"),
        plain.url("http", "localhost", "/"),
    ] {
        for reuse in [Reuse::Fresh, Reuse::Pooled { replay: true }] {
            assert_eq!(text(&transport, get(&url), reuse).await.unwrap(), "ok");
        }
    }
    let unresolvable = format!("{}.invalid", "a".repeat(64));
    let network = Network { no_proxy: Some("other.test, .invalid".to_owned()), ..through(&url, Network::default()) };
    let error =
        Transport::new(&network).send(get(&format!("https://{unresolvable}/")), Reuse::Fresh).await.unwrap_err();
    assert_eq!(error.failure, Failure::Dns);
    assert_eq!(proxy.connections(), 0);
}

#[tokio::test]
async fn a_proxy_that_is_not_there_or_refuses_or_makes_no_sense_is_refused() {
    let refusing = Server::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await.unwrap();
    })
    .await;
    for proxy in [refusing.url("http", "127.0.0.1", ""), "http://127.0.0.1:1".to_owned(), "http://a b".to_owned()] {
        let transport = Transport::new(&through(&proxy, Network::default()));
        for reuse in [Reuse::Fresh, Reuse::Pooled { replay: true }] {
            let error = transport.send(get("https://api.test/"), reuse).await.unwrap_err();
            assert_eq!((error.failure, error.tries), (Failure::Refused, 1), "{proxy}");
        }
    }
}
