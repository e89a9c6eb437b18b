//! Hints that something changed, within this process and between nodes.
//!
//! Nodes notify each other with NOTIFY, on a connection of its own: inside the transactions that
//! change something it would halve their throughput, and no caller waits until one is on disk.
//! Hints are debounced, and none of them is needed: a waiter also polls. A hint about a run with a
//! placement request has a payload; releases that do not know the payload take it for a plain hint.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::run::NewRun;
use postgres_connect::Tls;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Connection, Socket};

use super::PostgresAddress;

use crate::asks_for_place;

/// Payload of a hint about runs with a placement request.
const PLACED: &str = "placed";

/// The least time between two hints to other nodes.
const DEBOUNCE: Duration = Duration::from_millis(10);

/// How long the first hint may take to come back to its sender.
const ECHO_MAX: Duration = Duration::from_secs(5);

/// The time before a lost connection is made again.
const RECONNECT: Duration = Duration::from_secs(2);

/// Sends and receives hints until it is dropped.
pub(super) struct Signal {
    hints: Arc<Hints>,
    task: JoinHandle<()>,
}

/// Hints that were received, and hints to be sent.
#[derive(Default)]
struct Hints {
    changed: Notify,
    placed: Notify,
    outbox: Notify,
    /// Whether the next hint is about runs with a placement request.
    says_placed: AtomicBool,
}

impl Hints {
    /// Wakes the waiters of this process.
    fn wake(&self, placed: bool) {
        self.changed.notify_waiters();
        if placed {
            self.placed.notify_waiters();
        }
    }
}

impl Signal {
    pub fn start(address: PostgresAddress, tls: Tls) -> Self {
        let hints = Arc::new(Hints::default());
        let task = tokio::spawn(serve(address, tls, Arc::clone(&hints)));
        Signal { hints, task }
    }

    /// Wakes all waiters, those of this process at once and those of others soon.
    pub fn send(&self) {
        self.hints.wake(false);
        self.hints.outbox.notify_one();
    }

    /// Also wakes waiters for runs with a placement request.
    pub fn send_placed(&self) {
        self.hints.says_placed.store(true, Ordering::SeqCst);
        self.hints.wake(true);
        self.hints.outbox.notify_one();
    }

    /// Wakes the nodes that these runs may be for.
    pub fn send_of<'a>(&self, runs: impl IntoIterator<Item = &'a NewRun>) {
        if asks_for_place(runs) { self.send_placed() } else { self.send() }
    }

    /// Waits for a hint that comes after this call.
    pub fn changed(&self) -> Notified<'_> {
        self.hints.changed.notified()
    }

    /// Waits for a hint about runs with a placement request.
    pub fn placed(&self) -> Notified<'_> {
        self.hints.placed.notified()
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(address: PostgresAddress, tls: Tls, hints: Arc<Hints>) {
    loop {
        if let Err(error) = exchange(&address, &tls, &hints).await {
            tracing::debug!(%error, "the connection for signals was lost");
        }
        // Something may have happened meanwhile.
        hints.wake(true);
        tokio::time::sleep(RECONNECT).await;
    }
}

/// Passes hints on until the connection is lost.
async fn exchange(
    address: &PostgresAddress,
    tls: &Tls,
    hints: &Hints,
) -> Result<(), tokio_postgres::Error> {
    let (client, connection) = address.config().connect(tls.clone()).await?;
    let (sender, mut inbox) = mpsc::unbounded_channel();
    let receiver = Receiver(tokio::spawn(receive(connection, sender)));
    let own: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?;
    client.batch_execute("SET synchronous_commit = off; LISTEN punctual; NOTIFY punctual").await?;
    let echo = tokio::time::timeout(ECHO_MAX, inbox.recv()).await;
    if echo.is_err() {
        tracing::warn!(
            "signals of other nodes do not arrive, as behind a pooler in transaction mode; \
             this node looks by the clock only"
        );
    }
    loop {
        tokio::select! {
            sender = inbox.recv() => match sender {
                Some((sender, _)) if sender == own => {}
                Some((_, placed)) => hints.wake(placed),
                None => return receiver.ended(&client).await,
            },
            () = hints.outbox.notified() => {
                let placed = hints.says_placed.swap(false, Ordering::SeqCst);
                let word = if placed { PLACED } else { "" };
                client.batch_execute(&format!("NOTIFY punctual, '{word}'")).await?;
                tokio::time::sleep(DEBOUNCE).await;
            }
        }
    }
}

/// The task that reads the connection; it ends with its owner.
struct Receiver(JoinHandle<()>);

impl Receiver {
    /// Error that ended the connection: the next statement on it reports it.
    async fn ended(&self, client: &Client) -> Result<(), tokio_postgres::Error> {
        client.batch_execute("").await
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn receive(
    mut connection: Connection<Socket, <Tls as MakeTlsConnect<Socket>>::Stream>,
    inbox: mpsc::UnboundedSender<(i32, bool)>,
) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message
            && let heard = (notification.process_id(), notification.payload() == PLACED)
            && inbox.send(heard).is_err()
        {
            return;
        }
    }
}
