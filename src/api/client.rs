//! One authenticated request to a CreateOS endpoint and what its answer means: status, envelope, JSON. Knows the shape
//! of requests, but no process and no lease; waits for its turn with the pacer, leaves connections to the transport.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use reqwest::{
    Body, Method, Request, Response, StatusCode,
    header::{self, HeaderValue},
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::{
    envelope,
    pacer::{Pacer, Pacing, Priority, retry_after},
    transport::{Network, Reuse, Transport},
};
use crate::{
    config::{Config, Staging},
    error::{Attempt, Details, Error, Failure, Fault, Operation},
    events::{Cause, Events, Notice, Throttle},
};

/// No JSON answer of the API is nearly this large; one that is has gone astray.
const MAX_JSON: usize = 16 * 1024 * 1024;

/// What a client's requests wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Nothing, and they are not counted.
    Unpaced,
    /// Their URL's budget, which has these numbers or must get them.
    By(Pacing),
    /// Their URL's budget, whatever its numbers: for requests whose maker had no say in them.
    AsSet,
}

/// How persistent a client is. All durations are its own, none is a command's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub pace: Pace,
    /// Failures in a row of a command's output stream that are tolerated.
    pub reconnect_attempts: u32,
    /// The first delay between two of them.
    pub reconnect_delay: Duration,
    /// After this long without a byte an output stream is connected anew; `None` waits for ever.
    pub idle_timeout: Option<Duration>,
    /// The bound on ending a process tree and removing its staged files.
    pub cleanup_timeout: Duration,
    pub staging: Staging,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pace: Pace::By(Pacing::default()),
            reconnect_attempts: 3,
            reconnect_delay: Duration::from_millis(250),
            idle_timeout: Some(Duration::from_secs(300)),
            cleanup_timeout: Duration::from_secs(15),
            staging: Staging::Large,
        }
    }
}

/// A sandbox's or a process's identifier: safe as a path segment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceId(String);

impl ResourceId {
    pub fn parse(id: &str) -> Result<Self, Fault> {
        let valid = (1..=200).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if valid { Ok(Self(id.to_owned())) } else { Err(Fault::ResourceIdInvalid) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A request, described.
pub struct Call {
    pub method: Method,
    /// Below `/v1`, with its query.
    pub path: String,
    pub operation: Operation,
    pub payload: Payload,
    pub priority: Priority,
    pub reuse: Reuse,
}

pub enum Payload {
    None,
    Json(Value),
    Bytes(Vec<u8>),
    /// Sent as it comes, and only once: nobody has it a second time.
    Stream(Body),
}

impl Call {
    /// A request that does the same when it is sent twice, so that a stale connection is not the caller's problem.
    pub fn new(method: Method, operation: Operation, path: String) -> Self {
        let reuse = Reuse::Pooled { replay: true };
        Self { method, path, operation, payload: Payload::None, priority: Priority::Normal, reuse }
    }

    pub fn get(operation: Operation, path: String) -> Self {
        Self::new(Method::GET, operation, path)
    }

    pub fn post(operation: Operation, path: String) -> Self {
        Self::new(Method::POST, operation, path)
    }

    /// Deletions are cleanup: they go first.
    pub fn delete(operation: Operation, path: String) -> Self {
        Self { priority: Priority::Cleanup, ..Self::new(Method::DELETE, operation, path) }
    }

    pub fn json(self, body: Value) -> Self {
        Self { payload: Payload::Json(body), ..self }
    }

    /// On a connection of its own, and never sent again by anybody but the caller.
    pub fn alone(self) -> Self {
        Self { reuse: Reuse::Fresh, ..self }
    }
}

/// Why a request did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// No answer came, or one that counts as none.
    Unanswered { failure: Failure, tries: u32 },
    /// An answer that is no success.
    Status { status: u16, retry_after: Option<Duration> },
    /// A successful answer that makes no sense.
    Invalid(Fault),
}

impl CallError {
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    pub fn attempt(&self) -> Attempt {
        match self {
            Self::Unanswered { failure, .. } => Attempt::Failure(*failure),
            Self::Status { status, .. } => Attempt::Status(*status),
            Self::Invalid(_) => Attempt::Failure(Failure::Protocol),
        }
    }

    pub fn record(&self, details: &mut Details) {
        let tries = if let Self::Unanswered { tries, .. } = self { *tries } else { 1 };
        for _ in 0..tries {
            details.push(self.attempt());
        }
    }

    pub fn into_error(self, operation: Operation) -> Error {
        let mut details = Details::new(operation);
        self.record(&mut details);
        let fault = match self {
            Self::Unanswered { .. } => Fault::Connection,
            Self::Status { status, .. } => Fault::Api { status, operation },
            Self::Invalid(fault) => fault,
        };
        Error::new(fault, details)
    }
}

/// Bounds a call, or several of them: what is unanswered by the deadline has failed.
pub async fn within<T>(
    deadline: Instant,
    operation: Operation,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let unanswered = CallError::Unanswered { failure: Failure::Timeout, tries: 1 };
    timeout_at(deadline, call).await.unwrap_or_else(|_| Err(unanswered.into_error(operation)))
}

#[derive(Clone)]
pub struct Client {
    pub config: Config,
    pub options: Options,
    /// What happens to the call that this client makes requests for.
    pub events: Events,
    key: HeaderValue,
    account: [u8; 32],
    transport: Arc<Transport>,
    pacer: Option<Arc<Pacer>>,
}

impl Client {
    /// `environment_key` is the value of `CREATEOS_API_KEY`.
    pub fn new(
        config: Config,
        options: Options,
        network: &Network,
        environment_key: Option<&str>,
    ) -> Result<Self, Fault> {
        let text = config.resolve_key(environment_key)?;
        let mut key = HeaderValue::from_str(&text)
            .or_else(|_| HeaderValue::from_bytes(text.as_bytes()))
            .map_err(|_| Fault::ApiKeyMissing)?;
        key.set_sensitive(true);
        let pacer = match options.pace {
            Pace::Unpaced => None,
            Pace::By(pacing) => Some(Pacer::shared(&config.api_url, pacing)?),
            Pace::AsSet => Some(Pacer::existing(&config.api_url)),
        };
        Ok(Self {
            key,
            account: Sha256::digest(&text).into(),
            transport: Transport::shared(network),
            pacer,
            config,
            options,
            events: Events::default(),
        })
    }

    /// A client that tells what happens; the same if nobody listens.
    pub fn observed(self: &Arc<Self>, events: &Events) -> Arc<Self> {
        if !events.are_heard() {
            return self.clone();
        }
        Arc::new(Self { events: events.clone(), ..Self::clone(self) })
    }

    /// A client that tells what happens to this sandbox or process; the same if nobody listens.
    pub fn about(&self, lease: &ResourceId, process: Option<&ResourceId>) -> Cow<'_, Self> {
        if !self.events.are_heard() {
            return Cow::Borrowed(self);
        }
        let events = self.events.about(lease.as_str(), process.map(ResourceId::as_str));
        Cow::Owned(Self { events, ..self.clone() })
    }

    /// Tells accounts apart without holding their keys.
    pub fn account(&self) -> [u8; 32] {
        self.account
    }

    /// Waits for this request's turn. Dropping the future gives the place up.
    pub async fn turn(&self, priority: Priority) {
        // Cleanup has a deadline, and waits for no listener.
        if priority == Priority::Normal {
            self.events.room().await;
        }
        if let Some(pacer) = &self.pacer {
            pacer.acquire(priority, |throttle| self.events.tell(Notice::Throttled(throttle))).await;
        }
    }

    /// Waits for the request's turn and sends it; a success is what an HTTP status of 200 to 299 says.
    pub async fn send(&self, call: Call) -> Result<Response, CallError> {
        self.turn(call.priority).await;
        self.send_now(call).await
    }

    /// Sends a request whose turn it is.
    pub async fn send_now(&self, call: Call) -> Result<Response, CallError> {
        let reuse = call.reuse;
        let request = self.request(call)?;
        let response = self
            .transport
            .send(request, reuse)
            .await
            .map_err(|error| CallError::Unanswered { failure: error.failure, tries: error.tries })?;
        self.judge(response)
    }

    /// Sends a request and opens the envelope of its answer: `{"status":"success","data":{…}}`.
    pub async fn data(&self, call: Call) -> Result<Map<String, Value>, CallError> {
        self.turn(call.priority).await;
        self.data_now(call).await
    }

    /// The same for a request whose turn it is.
    pub async fn data_now(&self, call: Call) -> Result<Map<String, Value>, CallError> {
        let mut response = self.send_now(call).await?;
        let invalid = || CallError::Invalid(Fault::JsonInvalid);
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|_| invalid())? {
            if body.len() + chunk.len() > MAX_JSON {
                return Err(invalid());
            }
            body.extend_from_slice(&chunk);
        }
        envelope::open(&body).map_err(CallError::Invalid)
    }

    fn request(&self, call: Call) -> Result<Request, CallError> {
        // The path is made of checked identifiers and encoded queries, the origin was parsed before.
        let url = Url::parse(&format!("{}/v1{}", self.config.api_url, call.path))
            .map_err(|_| CallError::Unanswered { failure: Failure::Protocol, tries: 0 })?;
        let mut request = Request::new(call.method, url);
        let headers = request.headers_mut();
        headers.insert("x-api-key", self.key.clone());
        let (content_type, body) = match call.payload {
            Payload::None => return Ok(request),
            Payload::Json(value) => ("application/json", Body::from(value.to_string())),
            Payload::Bytes(bytes) => ("application/octet-stream", Body::from(bytes)),
            Payload::Stream(body) => ("application/octet-stream", body),
        };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        *request.body_mut() = Some(body);
        Ok(request)
    }

    fn judge(&self, response: Response) -> Result<Response, CallError> {
        let status = response.status();
        if is_redirect(status) {
            return Err(CallError::Unanswered { failure: Failure::Protocol, tries: 1 });
        }
        if !status.is_success() {
            let retry_after = response
                .headers()
                .get(header::RETRY_AFTER)
                .and_then(|value| value.to_str().ok())
                .and_then(|value| retry_after(value, std::time::SystemTime::now()));
            if status == StatusCode::TOO_MANY_REQUESTS {
                let throttle = Throttle { cause: Cause::RateLimit, wait: retry_after.unwrap_or_default() };
                self.events.tell(Notice::Throttled(throttle));
                if let (Some(pacer), Some(delay)) = (&self.pacer, retry_after) {
                    pacer.hold(delay);
                }
            }
            return Err(CallError::Status { status: status.as_u16(), retry_after });
        }
        let encoding = response.headers().get(header::CONTENT_ENCODING);
        if encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(CallError::Invalid(Fault::ResponseCompressed));
        }
        Ok(response)
    }
}

/// Following one would hand the key to another server.
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_safe_as_a_path_segment() {
        let longest = "a".repeat(200);
        for good in ["sb_test", "A-9", longest.as_str()] {
            assert!(ResourceId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "../sb", "a/b", "a b", "ä", "a\n", &"a".repeat(201)] {
            assert_eq!(ResourceId::parse(bad), Err(Fault::ResourceIdInvalid), "{bad}");
        }
    }

    #[test]
    fn an_error_tells_what_was_tried_and_nothing_that_was_sent() {
        let error = CallError::Unanswered { failure: Failure::Reset, tries: 2 }.into_error(Operation::StdinClose);
        assert_eq!(error.to_string(), "CreateOS connection failed.");
        assert_eq!(error.details.tries, 2);
        let error = CallError::Status { status: 418, retry_after: None }.into_error(Operation::FileTransfer);
        assert_eq!(error.to_string(), "CreateOS request failed (HTTP 418) during file transfer.");
        assert_eq!(error.details.attempts, [Attempt::Status(418)]);
    }
}
