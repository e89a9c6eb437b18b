//! What those at the doors ask.

use domain::id::{RunId, TenantId};
use rusqlite::OptionalExtension;

use super::writer::Tx;
use super::{SqliteStore, nodes};
use crate::desk::{ANSWER_TTL_US, KEY_TTL_US};
use crate::{Answer, Begun, Desk, NodeView, Result, StoreError};

impl Desk for SqliteStore {
    async fn acknowledge(&self, runs: &[RunId]) -> Result<Vec<bool>> {
        let runs = runs.to_vec();
        self.writer
            .write(move |tx| {
                let mut update = tx.connection.prepare_cached(sql!("dead_acknowledge"))?;
                runs.iter().map(|run| Ok(update.execute((run.0,))? > 0)).collect()
            })
            .await
    }

    async fn count_dead_letters(&self, tenant: TenantId, most: u32) -> Result<u32> {
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("dead_count"))?;
            Ok(query.query_row((tenant.0, most), |row| row.get(0))?)
        })
        .await
    }

    async fn nodes(&self) -> Result<Vec<NodeView>> {
        self.read(nodes::list).await
    }

    async fn begin_request(
        &self,
        tenant: TenantId,
        key: &str,
        fingerprint: &[u8],
    ) -> Result<Begun> {
        let (key, fingerprint) = (key.to_owned(), fingerprint.to_vec());
        self.writer.write(move |tx| begin(tx, tenant, &key, &fingerprint)).await
    }

    async fn finish_request(
        &self,
        tenant: TenantId,
        key: &str,
        answer: Option<&Answer>,
    ) -> Result<()> {
        let (key, answer) = (key.to_owned(), answer.cloned());
        self.writer
            .write(move |tx| {
                match answer {
                    Some(Answer { status, head, body }) => tx
                        .connection
                        .prepare_cached(sql!("request_finish"))?
                        .execute((tenant.0, key, status, head, body))?,
                    None => tx
                        .connection
                        .prepare_cached(sql!("request_drop"))?
                        .execute((tenant.0, key))?,
                };
                Ok(())
            })
            .await
    }

    async fn forget_requests(&self, limit: u32) -> Result<u64> {
        self.writer
            .write(move |tx| {
                let mut delete = tx.connection.prepare_cached(sql!("request_forget"))?;
                Ok(delete.execute((tx.now_us() - KEY_TTL_US, limit))? as u64)
            })
            .await
    }
}

fn begin(tx: &mut Tx<'_>, tenant: TenantId, key: &str, fingerprint: &[u8]) -> Result<Begun> {
    let now = tx.now_us();
    let begun = tx.connection.prepare_cached(sql!("request_begin"))?.execute((
        tenant.0,
        key,
        fingerprint,
        now,
        now - KEY_TTL_US,
        now - ANSWER_TTL_US,
    ))?;
    if begun > 0 {
        return Ok(Begun::New);
    }
    let mut query = tx.connection.prepare_cached(sql!("request_known"))?;
    let known: Option<(Vec<u8>, Option<u16>, Option<String>, Option<Vec<u8>>)> = query
        .query_row((tenant.0, key), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let Some((first, status, head, body)) = known else {
        return Err(StoreError::Unreadable(format!("the request {key} is there and is not")));
    };
    Ok(match status {
        _ if first != fingerprint => Begun::Conflict,
        None => Begun::InProgress,
        Some(status) => Begun::Replay(Answer {
            status,
            head: head.unwrap_or_default(),
            body: body.unwrap_or_default(),
        }),
    })
}
