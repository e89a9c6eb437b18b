//! The listener of the SQL listener: who may come in, how many, and how long they may take.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::cancel::Cancels;
use super::report::{self, Report};
use super::session;
use super::session_slots::{SessionLimits, SessionSlots};
use super::startup::{self, Arrived};
use super::wire::Ended;
use crate::app::App;
use crate::limit::Limits;
use crate::pending::PendingConnections;

/// After an error of the listener, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Settings of the SQL listener.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Sessions at the same time.
    pub sessions: SessionLimits,
    /// Clients at the same time that have not proved who they are.
    pub unauthenticated_max: usize,
    /// Those of one address.
    pub unauthenticated_per_address: usize,
    /// How long that may take.
    pub patience: Duration,
    /// The longest message of a client, in bytes.
    pub message_bytes_max: usize,
    /// How long a question may take.
    pub statement_timeout: Duration,
    /// Whether clients of other machines must use TLS.
    pub needs_tls: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            sessions: SessionLimits::default(),
            unauthenticated_max: 128,
            unauthenticated_per_address: 64,
            patience: Duration::from_secs(10),
            message_bytes_max: 4 << 20,
            statement_timeout: Duration::from_secs(60),
            needs_tls: false,
        }
    }
}

/// A certificate, and what shows it to clients and nothing else.
#[derive(Clone)]
pub struct Shown {
    /// Performs the TLS handshake.
    pub acceptor: TlsAcceptor,
    /// The certificate itself, in DER.
    pub certificate: Arc<[u8]>,
}

/// Answers the certificate for each new client, so that a reload takes effect without a restart.
pub type Tls = Arc<dyn Fn() -> Shown + Send + Sync>;

/// The SQL listener.
pub struct SqlListener {
    pub(crate) app: App,
    pub(crate) terms: Terms,
    pub(crate) tls: Option<Tls>,
    pub(crate) cancels: Cancels,
    pub(crate) limits: Limits,
    pub(crate) session_slots: SessionSlots,
    pending: PendingConnections,
}

impl SqlListener {
    /// A listener of an app; with TLS if there is a certificate.
    pub fn new(app: App, terms: Terms, tls: Option<Tls>) -> Self {
        SqlListener {
            session_slots: SessionSlots::new(terms.sessions),
            pending: PendingConnections::new(
                terms.unauthenticated_max,
                terms.unauthenticated_per_address,
            ),
            app,
            terms,
            tls,
            cancels: Cancels::default(),
            limits: Limits::default(),
        }
    }

    /// Serves clients until `stop` completes, and then until the last of them has ended.
    pub async fn serve(self, socket: TcpListener, stop: impl Future<Output = ()> + Send) {
        let listener = Arc::new(self);
        let (closing, closed) = watch::channel(());
        // Every open connection holds one of these.
        let (talking, mut all_gone) = tokio::sync::mpsc::channel::<()>(1);
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                () = &mut stop => break,
            };
            let (stream, caller) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept an SQL client");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let Some(pending) = listener.pending.enter(caller.ip()) else {
                listener.app.metrics.sql_connection("refused");
                reject(&stream, &listener.terms);
                continue;
            };
            let (listener, closed, talking) =
                (Arc::clone(&listener), closed.clone(), talking.clone());
            tokio::spawn(async move {
                let arrived = tokio::select! {
                    arrived = listener.receive(stream, caller.ip(), closed.clone()) => arrived,
                    () = pending.evicted() => Ok(None),
                };
                drop(pending);
                let metrics = &listener.app.metrics;
                metrics.sql_connection(match arrived {
                    Ok(Some(_)) => "admitted",
                    _ => "refused",
                });
                let ended = match arrived {
                    Ok(Some(arrived)) => session::run(&listener, arrived, closed).await,
                    Ok(None) => Ok(()),
                    Err(ended) => Err(ended),
                };
                if let Err(ended) = ended {
                    tracing::debug!(%caller, %ended, "a conversation ended early");
                }
                drop(talking);
            });
        }
        drop((closing, talking, listener));
        let _ = all_gone.recv().await;
    }

    /// Authenticates the client, within a time limit.
    async fn receive(
        &self,
        stream: TcpStream,
        caller: IpAddr,
        mut closed: watch::Receiver<()>,
    ) -> Result<Option<Arrived>, Ended> {
        stream.set_nodelay(true)?;
        let begin = timeout(self.terms.patience, startup::begin(self, stream, caller));
        tokio::select! {
            begun = begin => begun.unwrap_or(Ok(None)),
            _ = closed.changed() => Ok(None),
        }
    }
}

/// Sends a client the error that there are too many connections. Bytes that do not fit into the
/// send buffer at once are dropped.
fn reject(stream: &TcpStream, terms: &Terms) {
    let Terms { unauthenticated_max, unauthenticated_per_address, .. } = terms;
    let text = format!(
        "too many clients are logging in (sql.unauthenticated_per_address = \
         {unauthenticated_per_address}, sql.unauthenticated_max = {unauthenticated_max})"
    );
    let mut bytes = BytesMut::new();
    if Report::new(report::TOO_MANY, text).fatal().encode(&mut bytes).is_ok() {
        let _ = stream.try_write(&bytes);
    }
}
