//! Whether a request that failed had gone down a connection that was open before. Decides nothing: `transport` does.
//!
//! hyper-util races an idle connection against a new one, and either may win after the other was started, so "a connection
//! was made" does not say which one carried the request. What does: the error names its connection by both addresses, and
//! [`Witness`] notes those of the connection that this very request's task opened. Connections that lose the race are finished
//! by a task of their own, outside the note's scope; a later request that gets one of them got it from the pool.

use std::cell::Cell;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::{Connected, Connection, HttpInfo};
use tower::{Layer, Service};

/// Both ends of a connection, which no two connections share at a time.
pub(super) type Ends = (SocketAddr, SocketAddr);

tokio::task_local! {
    static OPENED: Cell<Option<Ends>>;
}

/// Runs a request, and says besides its result which connection was opened for it, if any.
pub(super) async fn witnessed<T>(request: impl Future<Output = T>) -> (T, Option<Ends>) {
    let noted = async { (request.await, OPENED.with(Cell::get)) };
    OPENED.scope(Cell::new(None), noted).await
}

/// The connection that the request of this error went down; `None` if it never came to that.
pub(super) fn carrier(error: &reqwest::Error) -> Option<Ends> {
    let mut source = std::error::Error::source(error);
    while let Some(link) = source {
        if let Some(error) = link.downcast_ref::<hyper_util::client::legacy::Error>() {
            return error.connect_info().and_then(ends);
        }
        source = link.source();
    }
    None
}

fn ends(connected: &Connected) -> Option<Ends> {
    let mut extras = http::Extensions::new();
    connected.get_extras(&mut extras);
    extras.get::<HttpInfo>().map(|info| (info.local_addr(), info.remote_addr()))
}

/// A connector that notes what it opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Witness;

impl<S> Layer<S> for Witness {
    type Service = Witnessed<S>;

    fn layer(&self, connector: S) -> Witnessed<S> {
        Witnessed { connector }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Witnessed<S> {
    connector: S,
}

impl<S, Request> Service<Request> for Witnessed<S>
where
    S: Service<Request>,
    S::Response: Connection,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let opening = self.connector.call(request);
        Box::pin(async move {
            let connection = opening.await?;
            // An error means another task finishes a connection that lost its race: nobody's note.
            let _ = OPENED.try_with(|opened| opened.set(ends(&connection.connected())));
            Ok(connection)
        })
    }
}
