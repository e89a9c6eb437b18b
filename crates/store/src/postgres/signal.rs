//! Hints that something changed, within this process and between nodes.
//!
//! Nodes tell each other with NOTIFY, on a connection of its own: inside the transactions that
//! change something it would halve their throughput, and nobody waits until one is on disk. Hints
//! are debounced, and none of them is needed: whoever waits for one also looks by the clock.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use dial::Tls;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Connection, Socket};

use super::PostgresAddress;

/// The least time between two hints to other nodes.
const DEBOUNCE: Duration = Duration::from_millis(10);

/// How long the first hint may take to come back to its sender.
const ECHO_MAX: Duration = Duration::from_secs(5);

/// The time before a lost connection is made again.
const RECONNECT: Duration = Duration::from_secs(2);

/// Sends and receives hints until it is dropped.
pub(super) struct Signal {
    changed: Arc<Notify>,
    outbox: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Signal {
    pub fn start(address: PostgresAddress, tls: Tls) -> Self {
        let changed = Arc::new(Notify::new());
        let outbox = Arc::new(Notify::new());
        let task = tokio::spawn(serve(address, tls, Arc::clone(&changed), Arc::clone(&outbox)));
        Signal { changed, outbox, task }
    }

    /// Tells everybody who waits, here at once and elsewhere soon.
    pub fn send(&self) {
        self.changed.notify_waiters();
        self.outbox.notify_one();
    }

    /// Waits for a hint that comes after this call.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(address: PostgresAddress, tls: Tls, changed: Arc<Notify>, outbox: Arc<Notify>) {
    loop {
        if let Err(error) = exchange(&address, &tls, &changed, &outbox).await {
            tracing::debug!(%error, "the connection for signals was lost");
        }
        // Something may have happened meanwhile.
        changed.notify_waiters();
        tokio::time::sleep(RECONNECT).await;
    }
}

/// Passes hints on until the connection is lost.
async fn exchange(
    address: &PostgresAddress,
    tls: &Tls,
    changed: &Notify,
    outbox: &Notify,
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
                Some(sender) if sender == own => {}
                Some(_) => changed.notify_waiters(),
                None => return receiver.ended(&client).await,
            },
            () = outbox.notified() => {
                client.batch_execute("NOTIFY punctual").await?;
                tokio::time::sleep(DEBOUNCE).await;
            }
        }
    }
}

/// The task that reads the connection; it ends with its owner.
struct Receiver(JoinHandle<()>);

impl Receiver {
    /// Why the connection ended: the next statement on it says.
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
    inbox: mpsc::UnboundedSender<i32>,
) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message
            && inbox.send(notification.process_id()).is_err()
        {
            return;
        }
    }
}
