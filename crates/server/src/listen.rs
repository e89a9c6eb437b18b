//! The listener: accepts connections, and closes those that stay silent.
//!
//! A caller has so long to send the head of a request, also on a connection that was used before,
//! and so long for its body. There are only so many places, and fewer for callers of one address
//! that have sent no request with a valid key: of these, the one that has been silent for longest
//! makes way for the next. When all places are taken, so does the user who has most of them.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::serve::Listener;
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Sleep, sleep, timeout};
use tower::ServiceExt;

use crate::connection::{Connection, Connections};
use crate::limit::Caller;
use crate::pending::PendingConnections;

/// How long callers may take, and how many there may be.
#[derive(Clone, Copy, Debug)]
pub struct ListenerLimits {
    /// For the head of a request, and between two requests of a connection.
    pub head: Duration,
    /// For the body of a request.
    pub body: Duration,
    /// Connections at the same time.
    pub connections_max: usize,
    /// Connections of one address at the same time without a request with a valid key.
    pub unauthenticated_per_address: usize,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        ListenerLimits {
            head: Duration::from_secs(20),
            body: Duration::from_secs(120),
            connections_max: 4096,
            unauthenticated_per_address: 256,
        }
    }
}

/// How often a silent connection of HTTP/2 is pinged, and how long the
/// answer may take.
const ASK_EVERY: Duration = Duration::from_secs(20);

/// Interval of the check whether a connection can be evicted when the limit is reached.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Serves connections until `stop` completes, and then until the last of them has ended.
pub async fn serve<L>(
    mut listener: L,
    router: Router,
    patience: ListenerLimits,
    stop: impl Future<Output = ()> + Send,
) where
    L: Listener<Addr = SocketAddr>,
{
    let most = patience.connections_max.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
    let places = Arc::new(Semaphore::new(most));
    let pending = PendingConnections::new(most, patience.unauthenticated_per_address);
    let connections = Connections::new(most, pending.clone());
    let (closing, closed) = watch::channel(());
    let mut stop = pin!(stop);
    loop {
        let next = async {
            let place = free_place(&places, &connections).await;
            (place, listener.accept().await)
        };
        let (place, (io, caller)) = tokio::select! {
            next = next => next,
            () = &mut stop => break,
        };
        let Some(own) = pending.enter(caller.ip()) else {
            tracing::debug!(%caller, "too many connections of this address without a valid key");
            continue;
        };
        let own = connections.enter(own);
        let (router, closed) = (router.clone(), closed.clone());
        tokio::spawn(async move {
            if let Err(error) = connection::<L>(io, caller, own, router, patience, closed).await {
                tracing::debug!(%caller, error, "a connection ended early");
            }
            drop(place);
        });
    }
    drop(closing);
    drop(listener);
    let _ = places.acquire_many(u32::try_from(most).unwrap_or(u32::MAX)).await;
}

/// Waits for a place. A connection that is silent and unknown makes way, or one of a user who has
/// too many.
async fn free_place(
    places: &Arc<Semaphore>,
    connections: &Connections,
) -> Option<OwnedSemaphorePermit> {
    loop {
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            return Some(place);
        }
        connections.evict_one();
        let place = Arc::clone(places).acquire_owned();
        if let Ok(place) = timeout(LOOK_EVERY, place).await {
            return place.ok();
        }
    }
}

async fn connection<L: Listener<Addr = SocketAddr>>(
    io: L::Io,
    caller: SocketAddr,
    own: Connection,
    router: Router,
    patience: ListenerLimits,
    mut closed: watch::Receiver<()>,
) -> Result<(), String> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.head)
        .max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(ASK_EVERY)
        .keep_alive_timeout(ASK_EVERY)
        .max_header_list_size(HEAD_BYTES_MAX as u32);
    let begun = Arc::new(AtomicBool::new(false));
    let service = {
        let (begun, own) = (Arc::clone(&begun), own.clone());
        service_fn(move |request: Request<Incoming>| {
            begun.store(true, Ordering::Relaxed);
            own.receive(request.body().is_end_stream());
            let timely = |body| Body::new(Timely::new(body, patience.body, own.clone()));
            let mut request = request.map(timely);
            request.extensions_mut().insert(Caller(caller.ip()));
            request.extensions_mut().insert(own.clone());
            let (answered, own) = (router.clone().oneshot(request), own.clone());
            async move {
                let response = answered.await;
                own.end_request();
                response
            }
        })
    };
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
    let mut first = pin!(sleep(patience.head));
    let (mut waits, mut open) = (true, true);
    loop {
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(|error| error.to_string()),
            // Until the first request the protocol of the client is unknown.
            () = first.as_mut(), if waits => {
                waits = false;
                if !begun.load(Ordering::Relaxed) {
                    return Err("no request came in time".to_owned());
                }
            }
            () = own.evicted() => {
                return Err("it made way for another".to_owned());
            }
            _ = closed.changed(), if open => {
                open = false;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// A body that must come in time.
struct Timely {
    body: Incoming,
    patience: Duration,
    /// Where it comes from.
    connection: Connection,
    /// Runs from when the body was first waited for.
    end: Option<Pin<Box<Sleep>>>,
}

impl Timely {
    fn new(body: Incoming, patience: Duration, connection: Connection) -> Self {
        Timely { body, patience, connection, end: None }
    }
}

impl HttpBody for Timely {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.connection.receive(frame.is_none() || self.body.is_end_stream());
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let patience = self.patience;
        let end = self.end.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(end.as_mut().poll(context));
        Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::TimedOut).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
