//! Requests that their clients may send again, under a key of theirs.

use std::future::Future;

use domain::id::TenantId;

use crate::records::{Records, Statement, params};
use crate::{Result, Store};

/// A store of idempotency keys and the responses to their requests.
pub trait IdempotencyKeys: Store {
    /// A request begins that its client may repeat under the same key, with a fingerprint of its
    /// content. Keys are kept for a day. An answer that does not come within five minutes is given
    /// up, and the next request of the key is the first again.
    fn begin_request(
        &self,
        tenant: TenantId,
        key: &str,
        fingerprint: &[u8],
    ) -> impl Future<Output = Result<RequestState>> + Send;

    /// Keeps the answer to a request for clients that send it again; without one, the request may
    /// be made anew.
    fn finish_request(
        &self,
        tenant: TenantId,
        key: &str,
        answer: Option<&Answer>,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Deletes requests that are older than a day, at most `limit`; returns how many.
    fn forget_requests(&self, limit: u32) -> impl Future<Output = Result<u64>> + Send;
}

/// How a request stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestState {
    /// It is the first of its key: it has to be executed.
    New,
    /// It was answered before.
    Replay(Answer),
    /// The key belongs to a request with other content.
    Conflict,
    /// The first one is under way.
    InProgress,
}

/// The answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Headers and other metadata of the response, in a format of the API.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

/// Keys are deleted after this time.
const KEY_TTL_US: i64 = 24 * 3_600 * 1_000_000;

/// An answer is given up after this time.
const ANSWER_TTL_US: i64 = 5 * 60 * 1_000_000;

impl<S: Records> IdempotencyKeys for S {
    async fn begin_request(
        &self,
        tenant: TenantId,
        key: &str,
        fingerprint: &[u8],
    ) -> Result<RequestState> {
        let sql = "INSERT INTO requests (tenant_id, key, fingerprint, begun_at)
                   VALUES ($1, $2, $3, {now})
                   ON CONFLICT (tenant_id, key) DO UPDATE SET
                       fingerprint = excluded.fingerprint, begun_at = excluded.begun_at,
                       status = NULL, head = NULL, body = NULL
                   WHERE requests.begun_at < {now} - $4
                       OR requests.status IS NULL AND requests.begun_at < {now} - $5
                           AND requests.fingerprint = excluded.fingerprint";
        let params = params![tenant.0, key, fingerprint, KEY_TTL_US, ANSWER_TTL_US];
        if self.execute(Statement::new(sql, params)).await? > 0 {
            return Ok(RequestState::New);
        }
        let sql = "SELECT fingerprint, status, head, body FROM requests
                   WHERE tenant_id = $1 AND key = $2";
        let rows = self.query(Statement::new(sql, params![tenant.0, key])).await?;
        // A request that came to nothing in between leaves the client to ask once more.
        let Some(row) = rows.first() else { return Ok(RequestState::InProgress) };
        if row.get::<Vec<u8>>(0)? != fingerprint {
            return Ok(RequestState::Conflict);
        }
        let Some(status) = row.get(1)? else { return Ok(RequestState::InProgress) };
        Ok(RequestState::Replay(Answer {
            status,
            head: row.get::<Option<_>>(2)?.unwrap_or_default(),
            body: row.get::<Option<_>>(3)?.unwrap_or_default(),
        }))
    }

    async fn finish_request(
        &self,
        tenant: TenantId,
        key: &str,
        answer: Option<&Answer>,
    ) -> Result<()> {
        let statement = match answer {
            Some(Answer { status, head, body }) => Statement::new(
                "UPDATE requests SET status = $3, head = $4, body = $5
                 WHERE tenant_id = $1 AND key = $2 AND status IS NULL",
                params![tenant.0, key, *status, head, body.as_slice()],
            ),
            None => Statement::new(
                "DELETE FROM requests WHERE tenant_id = $1 AND key = $2 AND status IS NULL",
                params![tenant.0, key],
            ),
        };
        self.execute(statement).await.map(drop)
    }

    async fn forget_requests(&self, limit: u32) -> Result<u64> {
        let sql = "DELETE FROM requests WHERE (tenant_id, key) IN (
                       SELECT tenant_id, key FROM requests
                       WHERE begun_at < {now} - $1 ORDER BY begun_at LIMIT $2
                   )";
        self.execute(Statement::new(sql, params![KEY_TTL_US, limit])).await
    }
}
