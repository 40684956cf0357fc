//! Servers for the tests: a closure for each accepted connection, a count of connections, and the certificates for TLS. A
//! handler that panics fails its test.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use createos_native::api::transport::Network;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub struct Server {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    panicked: Arc<AtomicBool>,
}

impl Server {
    /// Calls the handler with each connection and its number, from 0.
    pub async fn start<F, H>(handler: F) -> Self
    where
        F: Fn(usize, TcpStream) -> H + Send + 'static,
        H: Future<Output = ()> + Send + 'static,
    {
        Self::start_on(Ipv4Addr::LOCALHOST.into(), handler).await
    }

    pub async fn start_on<F, H>(ip: IpAddr, handler: F) -> Self
    where
        F: Fn(usize, TcpStream) -> H + Send + 'static,
        H: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let panicked = Arc::new(AtomicBool::new(false));
        let (count, failed) = (Arc::clone(&connections), Arc::clone(&panicked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let handling = tokio::spawn(handler(count.fetch_add(1, Ordering::SeqCst), stream));
                let failed = Arc::clone(&failed);
                tokio::spawn(async move {
                    if handling.await.is_err_and(|error| error.is_panic()) {
                        failed.store(true, Ordering::SeqCst);
                    }
                });
            }
        });
        Self { address, connections, panicked }
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn url(&self, scheme: &str, host: &str, path: &str) -> String {
        format!("{scheme}://{host}:{}{path}", self.address.port())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(!self.panicked.load(Ordering::SeqCst), "a handler panicked");
        }
    }
}

/// Reads one HTTP/1.1 request with its body. `None` when the connection ended before its first byte.
pub async fn read_request<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut read = Vec::new();
    loop {
        match stream.read_u8().await {
            Ok(byte) => read.push(byte),
            Err(_) if read.is_empty() => return None,
            Err(error) => panic!("cut in the middle of a request: {error}"),
        }
        if read.ends_with(b"\r\n\r\n") {
            break;
        }
    }
    let head = String::from_utf8(read).unwrap();
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(0, |(_, value)| value.trim().parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    Some(head + &String::from_utf8(body).unwrap())
}

pub async fn answer<S: AsyncWrite + Unpin>(stream: &mut S, body: &str) {
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await.unwrap();
}

/// Answers every request of a connection until it ends.
pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    while read_request(&mut stream).await.is_some() {
        answer(&mut stream, "ok").await;
    }
}

/// Closes by a reset instead of an end.
pub fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}

/// A certificate authority of its own, as a file, and what it signs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub file: PathBuf,
}

impl Authority {
    pub fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let file = std::env::temp_dir().join(format!("createos-ca-{}-{number}.pem", std::process::id()));
        std::fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        Self { issuer: Issuer::new(params, key), file }
    }

    pub fn network(&self) -> Network {
        Network { extra_ca_certs: Some(self.file.clone()), ..Network::default() }
    }

    /// An acceptor for `127.0.0.1` and `localhost` that offers these protocols.
    pub fn acceptor(&self, protocols: &[&str]) -> TlsAcceptor {
        self.acceptor_for(protocols, |_| ())
    }

    pub fn acceptor_for(&self, protocols: &[&str], change: impl FnOnce(&mut CertificateParams)) -> TlsAcceptor {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

pub type Tls = TlsStream<TcpStream>;

pub fn protocol(stream: &Tls) -> Option<String> {
    stream.get_ref().1.alpn_protocol().map(|name| String::from_utf8(name.to_vec()).unwrap())
}
