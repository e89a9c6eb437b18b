//! The end of a transaction, and its status when the reply is lost.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_postgres::error::SqlState;

use super::failure::{commit_unknown, describe, is_lost};
use super::session::AttemptSession;
use super::work::Work;
use crate::exec::Failure;

/// How long the server has to return the status of a commit whose reply was lost.
const INQUIRY: Duration = Duration::from_secs(20);

/// The background processes of the server. After a crash they have other ids.
const HELPERS: &str = "ARRAY(SELECT pid FROM pg_catalog.pg_stat_activity WHERE datid IS NULL)";

/// The identity of a transaction, to ask later whether it committed.
pub(super) struct TransactionId {
    number: i64,
    helpers: Vec<i32>,
}

/// The state of a transaction.
enum TransactionState {
    Committed,
    Aborted,
    InProgress,
    Unknown,
}

impl Work<'_, '_> {
    /// Transaction id of the current transaction, if it has written.
    pub async fn written(&self) -> Result<Option<TransactionId>, Failure> {
        // As a number, because the type of ids is younger than some servers.
        let sql = format!("SELECT pg_catalog.txid_current_if_assigned(), {HELPERS}");
        let read = async {
            let rows = self.session.client.query_typed(&sql, &[]).await?;
            let Some(row) = rows.first() else { return Ok(None) };
            let number: Option<i64> = row.try_get(0)?;
            let helpers: Vec<i32> = row.try_get(1)?;
            Ok(number.map(|number| TransactionId { number, helpers }))
        };
        read.await.map_err(|error| describe(&error, None))
    }

    /// Commits, and finds out whether it happened when the answer is lost.
    pub async fn commit(&self, written: Option<TransactionId>) -> Result<(), Failure> {
        self.progress.committing.store(written.is_some(), Ordering::SeqCst);
        let Err(error) = self.session.client.batch_execute("COMMIT").await else {
            return Ok(());
        };
        if !is_lost(&error) {
            return Err(describe(&error, None));
        }
        // Nothing was written: nothing can be lost.
        let Some(written) = written else { return Ok(()) };
        let inquiry = async {
            loop {
                match self.fate_of(&written).await {
                    Ok(TransactionState::Committed) => return Ok(()),
                    Ok(TransactionState::Aborted) => return Err(describe(&error, None)),
                    Ok(TransactionState::Unknown) => return Err(commit_unknown(&error)),
                    Ok(TransactionState::InProgress) | Err(_) => {
                        sleep(Duration::from_millis(100)).await
                    }
                }
            }
        };
        timeout(INQUIRY, inquiry).await.unwrap_or_else(|_| Err(commit_unknown(&error)))
    }

    /// Asks the server for the state of a transaction. After a crash the server may have reused the
    /// number of a transaction that left no trace: then only "aborted" can be trusted.
    async fn fate_of(&self, written: &TransactionId) -> Result<TransactionState, Failure> {
        let session = AttemptSession::open(self.database, self.attempt).await?;
        let sql = format!("SELECT pg_catalog.txid_status($1), {HELPERS}");
        let answer = async {
            let row = session.client.query_one(&sql, &[&written.number]).await?;
            Ok((row.try_get::<_, Option<String>>(0)?, row.try_get::<_, Vec<i32>>(1)?))
        };
        let answer: Result<_, tokio_postgres::Error> = answer.await;
        session.close().await;
        let (status, helpers) = match answer {
            Ok(answer) => answer,
            // A number that the server has not come to: what we wrote left no trace.
            Err(error) if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) => {
                return Ok(TransactionState::Aborted);
            }
            Err(error) => return Err(describe(&error, None)),
        };
        let crashed = !helpers.iter().any(|helper| written.helpers.contains(helper));
        Ok(match status.as_deref() {
            Some("aborted") => TransactionState::Aborted,
            Some("committed") if !crashed => TransactionState::Committed,
            Some("in progress") if !crashed => TransactionState::InProgress,
            _ => TransactionState::Unknown,
        })
    }
}
