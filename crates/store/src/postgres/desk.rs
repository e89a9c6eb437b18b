//! What those at the doors ask.

use std::collections::HashSet;

use domain::id::{RunId, TenantId};
use uuid::Uuid;

use super::PostgresStore;
use super::pipeline::values;
use super::row::text;
use crate::desk::{ANSWER_TTL_US, KEY_TTL_US};
use crate::{Answer, Begun, Desk, NodeView, Result};

impl Desk for PostgresStore {
    async fn acknowledge(&self, runs: &[RunId]) -> Result<Vec<bool>> {
        let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
        let rows = self.shared.query(sql!("dead_acknowledge"), values![ids]).await?;
        let mut done =
            rows.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<HashSet<Uuid>>>()?;
        Ok(runs.iter().map(|run| done.remove(&run.0)).collect())
    }

    async fn count_dead_letters(&self, tenant: TenantId, most: u32) -> Result<u32> {
        let values = values![tenant.0, i64::from(most)];
        let count: i64 = self.shared.query_one(sql!("dead_count"), values).await?.try_get(0)?;
        Ok(u32::try_from(count).unwrap_or(most))
    }

    async fn nodes(&self) -> Result<Vec<NodeView>> {
        self.shared.nodes().await
    }

    async fn begin_request(
        &self,
        tenant: TenantId,
        key: &str,
        fingerprint: &[u8],
    ) -> Result<Begun> {
        let key = text(key);
        let values = values![tenant.0, key.clone(), fingerprint, KEY_TTL_US, ANSWER_TTL_US];
        if !self.shared.query(sql!("request_begin"), values).await?.is_empty() {
            return Ok(Begun::New);
        }
        let rows = self.shared.query(sql!("request_known"), values![tenant.0, key]).await?;
        // One that came to nothing in between leaves the caller to ask once more.
        let Some(row) = rows.first() else { return Ok(Begun::InProgress) };
        if row.try_get::<_, &[u8]>(0)? != fingerprint {
            return Ok(Begun::Conflict);
        }
        let Some(status) = row.try_get::<_, Option<i16>>(1)? else {
            return Ok(Begun::InProgress);
        };
        Ok(Begun::Replay(Answer {
            status: status.cast_unsigned(),
            head: row.try_get::<_, Option<String>>(2)?.unwrap_or_default(),
            body: row.try_get::<_, Option<Vec<u8>>>(3)?.unwrap_or_default(),
        }))
    }

    async fn finish_request(
        &self,
        tenant: TenantId,
        key: &str,
        answer: Option<&Answer>,
    ) -> Result<()> {
        let (sql, mut values) = (sql!("request_drop"), values![tenant.0, text(key)]);
        let Some(answer) = answer else {
            return self.shared.query(sql, values).await.map(drop);
        };
        let kept = values![answer.status.cast_signed(), text(&answer.head), answer.body.as_slice()];
        values.extend(kept);
        self.shared.query(sql!("request_finish"), values).await.map(drop)
    }

    async fn forget_requests(&self, limit: u32) -> Result<u64> {
        let values = values![KEY_TTL_US, i64::from(limit)];
        let gone: i64 = self.shared.query_one(sql!("request_forget"), values).await?.try_get(0)?;
        Ok(gone.cast_unsigned())
    }
}
