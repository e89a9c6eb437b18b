//! A connection for one attempt: notices of the server go to the output, and when the attempt is
//! dropped a cancel request is sent to the server.

use std::future::poll_fn;
use std::time::Duration;

use postgres_connect::Tls;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::DbError;
use tokio_postgres::{AsyncMessage, CancelToken, Client};
use tracing::Instrument;

use super::PostgresDatabase;
use super::failure::connecting;
use crate::Attempt;
use crate::exec::Failure;
use crate::output::{Masked, Stream};

/// A server whose client has vanished does not keep its locks for hours.
const VANISHED: &str = "SELECT set_config(name, value, false) FROM (VALUES
    ('idle_in_transaction_session_timeout', '300s'), ('tcp_keepalives_idle', '10'),
    ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3')) AS limits (name, value)";
/// It looks for its client also while it computes. Only servers from release 14 have the setting,
/// and not on every system.
const WATCHED: &str = "SELECT set_config('client_connection_check_interval', '2s', false)
    WHERE current_setting('client_connection_check_interval', true) IS NOT NULL";

/// The longest wait for a request to cancel.
const CANCEL: Duration = Duration::from_secs(3);

/// An open connection.
pub(super) struct AttemptSession {
    pub client: Client,
    guard: CancelGuard,
}

/// Ends the connection, and the server's work for it.
struct CancelGuard {
    token: CancelToken,
    tls: Tls,
    listener: JoinHandle<()>,
    is_over: bool,
}

impl AttemptSession {
    pub async fn open(database: &PostgresDatabase, attempt: &Attempt<'_>) -> Result<Self, Failure> {
        let config = database.complete(attempt.assignment, attempt.secrets).await?;
        let tls = database.tls()?;
        let (client, mut connection) =
            config.connect(tls.clone()).await.map_err(|error| connecting(&error))?;
        let output = attempt.output.clone();
        let listener = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notice(notice) = message {
                    show(&notice, &output);
                }
            }
        });
        let token = client.cancel_token();
        let session =
            AttemptSession { client, guard: CancelGuard { token, tls, listener, is_over: false } };
        // Older servers do not know all of these settings, and continue without.
        let (vanished, watched) = tokio::join!(
            session.client.simple_query(VANISHED),
            session.client.simple_query(WATCHED)
        );
        for error in [vanished.err(), watched.err()].into_iter().flatten() {
            tracing::debug!(%error, "a limit for vanished clients is not in force");
        }
        Ok(session)
    }

    /// Sends a cancel request to the server.
    pub fn cancel(&self) {
        self.guard.cancel();
    }

    /// Closes the connection, and waits until all notices of the server are written.
    pub async fn close(self) {
        let AttemptSession { client, mut guard } = self;
        guard.is_over = true;
        // The listener ends when the client is dropped.
        drop(client);
        let _ = timeout(Duration::from_secs(1), &mut guard.listener).await;
    }
}

impl CancelGuard {
    fn cancel(&self) {
        let (token, tls) = (self.token.clone(), self.tls.clone());
        let cancel = async move {
            if let Ok(Err(error)) = timeout(CANCEL, token.cancel_query(tls)).await {
                tracing::warn!(%error, "a query could not be cancelled");
            }
        };
        tokio::spawn(cancel.in_current_span());
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        if !self.is_over && tokio::runtime::Handle::try_current().is_ok() {
            self.cancel();
        }
        self.listener.abort();
    }
}

/// Writes a notice of the server to the output.
fn show(notice: &DbError, output: &Masked) {
    let mut text = format!("{}: {}\n", notice.severity(), notice.message());
    for (label, part) in [("DETAIL", notice.detail()), ("HINT", notice.hint())] {
        if let Some(part) = part {
            text.push_str(&format!("{label}: {part}\n"));
        }
    }
    output.write(Stream::Stderr, text.as_bytes());
}
