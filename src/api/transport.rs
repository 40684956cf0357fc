//! What carries requests: connections, who may share them, and how often a request goes down the wire. One transport for
//! each [`Network`] and process. Knows nothing of CreateOS, of deadlines or of pacing; dropping a future aborts its request.
//!
//! **At most once.** Three layers could send a request again without being asked. reqwest would on a refused HTTP/2 stream:
//! `retry::never()`. reqwest would follow redirects: `Policy::none()`. hyper-util does, with no switch that reqwest exposes,
//! but only a request of which not a byte was written, and only if its connection came from the pool: the fresh client has
//! no pool, so each of its requests has one connection and one chance.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Proxy, Request, Response};
use rustls::ClientConfig;

pub use super::failure::classify;
use super::failure::read;
use super::proxy::{Route, Routes};
use super::resolve::Resolver;
use super::reuse::{Witness, carrier, witnessed};
use super::tls;
use crate::error::Failure;

/// What of the environment decides how connections are made. The caller passes only what Node.js itself would honour.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Network {
    /// `NODE_EXTRA_CA_CERTS`
    pub extra_ca_certs: Option<PathBuf>,
    /// `SSL_CERT_FILE`
    pub ssl_cert_file: Option<PathBuf>,
    /// Whether the system's certificates count as well.
    pub system_ca: bool,
    pub https_proxy: Option<String>,
    pub no_proxy: Option<String>,
}

impl fmt::Debug for Network {
    /// A proxy's URL can hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

/// How long connections may take and be silent.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Name resolution, TCP, a proxy's tunnel and TLS together.
    pub connect: Duration,
    /// Silence after which an HTTP/2 connection with open streams is asked whether it still lives.
    pub ping_after: Duration,
    pub ping_timeout: Duration,
    /// How long a connection is kept for the next request.
    pub idle: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            ping_after: Duration::from_secs(15),
            ping_timeout: Duration::from_secs(15),
            idle: Duration::from_secs(30),
        }
    }
}

/// Which connection a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// An idle or shared one if there is one. With `replay`, the request is sent exactly once more, on a connection of its
    /// own, when a connection that had been open before broke without an answer.
    Pooled { replay: bool },
    /// One of its own, closed afterwards. The request is sent at most once.
    Fresh,
}

/// A request that got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendError {
    pub failure: Failure,
    /// How often it was tried: 2 after a replay.
    pub tries: u32,
}

/// Silent connections are probed by the system after this long.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Written bytes that the peer's system has not acknowledged for this long mean that it is gone. Without it Linux
/// would resend for a quarter of an hour, during which keep-alive does not probe.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(60);
/// Requests on one HTTP/2 connection. Output streams stay open for hours, and servers admit 100 or so: what is over
/// their limit would wait, unsent, for a stream to end.
const LANE: usize = 32;
/// What one HTTP/2 stream may have in flight: 20 MB/s at a round trip of 50 ms.
const STREAM_WINDOW: u32 = 1 << 20;
/// All streams of a connection together: streams that nobody reads must not stop the others.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * LANE as u32;

pub struct Transport {
    clients: Result<Clients, Failure>,
    routes: Routes,
}

struct Clients {
    fresh: Client,
    lanes: Mutex<Vec<Lane>>,
    recipe: Recipe,
}

/// A pool, hence at most one HTTP/2 connection to each host that new requests share.
struct Lane {
    client: Client,
    /// Cloned by each request until its answer is read.
    load: Arc<()>,
}

/// What clients are built from.
struct Recipe {
    tls: ClientConfig,
    routes: Routes,
    timing: Timing,
}

static TRANSPORTS: LazyLock<Mutex<HashMap<Network, Arc<Transport>>>> = LazyLock::new(Mutex::default);

impl Transport {
    /// The transport of a network, the same for the whole process, worker threads included.
    pub fn shared(network: &Network) -> Arc<Self> {
        // Nothing panics while the lock is held, so a poisoned map is still whole.
        let mut transports = TRANSPORTS.lock().unwrap_or_else(PoisonError::into_inner);
        let transport = transports.entry(network.clone()).or_insert_with(|| Arc::new(Self::new(network)));
        Arc::clone(transport)
    }

    /// One that shares its connections with nobody.
    pub fn new(network: &Network) -> Self {
        Self::with_timing(network, Timing::default())
    }

    pub fn with_timing(network: &Network, timing: Timing) -> Self {
        let routes = Routes::new(network.https_proxy.as_deref(), network.no_proxy.as_deref());
        let clients = tls::client_config(network)
            .map_err(|_| Failure::Tls)
            .and_then(|tls| Clients::new(Recipe { tls, routes: routes.clone(), timing }));
        Self { clients, routes }
    }

    /// Sends a request and waits for the head of its answer. Reading the body is the caller's, without any time limit.
    pub async fn send(&self, request: Request, reuse: Reuse) -> Result<Response, SendError> {
        let failed = |failure, tries| SendError { failure, tries };
        let clients = self.clients.as_ref().map_err(|failure| failed(*failure, 1))?;
        if self.routes.of(request.url()) == Route::Impossible {
            return Err(failed(Failure::Refused, 1));
        }
        let Reuse::Pooled { replay } = reuse else {
            return clients.fresh.execute(request).await.map_err(|error| failed(classify(&error), 1));
        };
        let spare = if replay { request.try_clone() } else { None };
        let (client, place) = clients.lane();
        let (result, opened) = witnessed(client.execute(request)).await;
        let error = match result {
            Ok(mut response) => {
                // The place is free again when the response is dropped.
                response.extensions_mut().insert(place);
                return Ok(response);
            }
            Err(error) => error,
        };
        drop(place);
        let reading = read(&error);
        let reused = carrier(&error).is_some_and(|carrier| opened != Some(carrier));
        match spare.filter(|_| reading.broke && reused) {
            Some(again) => clients.fresh.execute(again).await.map_err(|error| failed(classify(&error), 2)),
            None => Err(failed(reading.failure, 1)),
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

impl Clients {
    fn new(recipe: Recipe) -> Result<Self, Failure> {
        // Not even HTTP/2 connections are shared then: hyper-util has no pool at all for a maximum of none.
        let fresh = recipe.build(|builder| builder.pool_max_idle_per_host(0))?;
        let lanes = Mutex::new(vec![recipe.lane()?]);
        Ok(Self { fresh, lanes, recipe })
    }

    /// The first pool with room, so that few requests need few connections.
    fn lane(&self) -> (Client, Arc<()>) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let free = |lane: &&Lane| Arc::strong_count(&lane.load) <= LANE;
        if lanes.iter().find(free).is_none()
            && let Ok(lane) = self.recipe.lane()
        {
            lanes.push(lane);
        }
        // There always is a first one; a full one is better than none.
        let lane = lanes.iter().find(free).unwrap_or(&lanes[0]);
        (lane.client.clone(), Arc::clone(&lane.load))
    }
}

impl Recipe {
    fn lane(&self) -> Result<Lane, Failure> {
        let client = self.build(|builder| builder.pool_idle_timeout(self.timing.idle).connector_layer(Witness))?;
        Ok(Lane { client, load: Arc::default() })
    }

    fn build(&self, pool: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Result<Client, Failure> {
        let builder = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .dns_resolver(Resolver)
            .tls_backend_preconfigured(self.tls.clone())
            .connect_timeout(self.timing.connect)
            .tcp_nodelay(true)
            .tcp_keepalive(KEEP_ALIVE)
            .tcp_keepalive_interval(Duration::from_secs(5))
            .tcp_keepalive_retries(3)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .http2_keep_alive_interval(self.timing.ping_after)
            .http2_keep_alive_timeout(self.timing.ping_timeout);
        #[cfg(target_os = "linux")]
        let builder = builder.tcp_user_timeout(UNACKNOWLEDGED);
        // Whatever is set, the environment's own variables are never looked at.
        let builder = builder.no_proxy();
        let builder = if self.routes.are_direct() {
            builder
        } else {
            let routes = self.routes.clone();
            builder.proxy(Proxy::custom(move |url| match routes.of(url) {
                Route::Proxy(proxy) => Some(proxy),
                Route::Direct | Route::Impossible => None,
            }))
        };
        // Every part was made above and is known to fit; if it ever is not, requests fail instead of the process.
        pool(builder).build().map_err(|_| Failure::Tls)
    }
}
