//! What those at the doors ask.

use std::collections::HashSet;

use domain::id::{JobId, RunId, TenantId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::pipeline::values;
use super::row::{at, outcome, signed, text, unsigned};
use crate::author::author;
use crate::desk::{ANSWER_TTL_US, KEY_TTL_US};
use crate::{
    Answer, Begun, Desk, LastRun, LiveCounts, NodeView, Page, RecentEnd, Result, RunView, Set,
    Setting, StartFilter, StartKey,
};

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

    async fn attempt_output(&self, run: RunId, number: u32) -> Result<Option<Vec<u8>>> {
        let values = values![run.0, signed(number)];
        let rows = self.shared.query(sql!("output_of"), values).await?;
        rows.first().map(|row| Ok(row.try_get(0)?)).transpose()
    }

    async fn nodes(&self) -> Result<Vec<NodeView>> {
        self.shared.nodes().await
    }

    async fn live(&self, tenant: TenantId) -> Result<LiveCounts> {
        let row = self.shared.query_one(sql!("count_live_of_tenant"), values![tenant.0]).await?;
        let count =
            |column: usize| -> Result<u64> { Ok(row.try_get::<_, i64>(column)?.cast_unsigned()) };
        Ok(LiveCounts {
            pending: count(0)?,
            queued: count(1)?,
            running: count(2)?,
            oldest_due: row.try_get::<_, Option<i64>>(3)?.map(at),
        })
    }

    async fn last_runs(&self, jobs: &[JobId]) -> Result<Vec<LastRun>> {
        let ids: Vec<Uuid> = jobs.iter().map(|job| job.0).collect();
        let last = |row: &Row| {
            Ok(LastRun {
                job: JobId(row.try_get(0)?),
                scheduled_for: at(row.try_get(1)?),
                outcome: outcome(row.try_get(2)?)?,
            })
        };
        self.shared.query(sql!("last_runs"), values![ids]).await?.iter().map(last).collect()
    }

    async fn recent_ends(&self, jobs: &[JobId], limit: u32) -> Result<Vec<RecentEnd>> {
        let ids: Vec<Uuid> = jobs.iter().map(|job| job.0).collect();
        let end = |row: &Row| {
            Ok(RecentEnd {
                job: JobId(row.try_get(0)?),
                run: RunId(row.try_get(1)?),
                scheduled_for: at(row.try_get(2)?),
                outcome: outcome(row.try_get(3)?)?,
                job_version: row.try_get::<_, i32>(4)?.cast_unsigned(),
            })
        };
        let rows = self.shared.query(sql!("recent_ends"), values![ids, i64::from(limit)]).await?;
        rows.iter().map(end).collect()
    }

    async fn latest_starts(
        &self,
        filter: &StartFilter,
        after: Option<StartKey>,
        limit: u32,
    ) -> Result<Page<RunView, StartKey>> {
        self.shared.latest_starts(filter, after, limit).await
    }

    async fn retried(&self, before: Option<RunId>, limit: u32) -> Result<Page<RunView, RunId>> {
        let before = before.map_or(Uuid::max(), |before| before.0);
        let values = values![before, i64::from(limit)];
        let rows = self.shared.query(sql!("list_retried"), values).await?;
        let ids = rows.iter().map(|row| Ok(RunId(row.try_get(0)?)));
        let ids = ids.collect::<Result<Vec<RunId>>>()?;
        let next = ids.last().copied().filter(|_| ids.len() == limit as usize);
        Ok(Page { items: self.shared.views(&ids).await?, next })
    }

    async fn settings(&self) -> Result<Vec<Setting>> {
        let setting = |row: &Row| {
            Ok(Setting {
                name: row.try_get(0)?,
                value: row.try_get(1)?,
                version: unsigned(row.try_get(2)?),
                changed_at: at(row.try_get(3)?),
            })
        };
        self.shared.query(sql!("setting_list"), values![]).await?.iter().map(setting).collect()
    }

    async fn set(&self, name: &str, value: Option<&str>, expected: u32) -> Result<Set> {
        let name = text(name);
        let by = text(&author()).into_owned();
        let details = serde_json::json!({ "name": name, "value": value }).to_string();
        let details = text(&details).into_owned();
        let version = async |sql, values| -> Result<Option<u32>> {
            let rows = self.shared.query(sql, values).await?;
            rows.first().map(|row| Ok(unsigned(row.try_get(0)?))).transpose()
        };
        let done = match (value, expected) {
            (Some(value), 0) => {
                version(sql!("setting_insert"), values![name.clone(), text(value), by, details])
                    .await?
            }
            (Some(value), expected) => {
                let values = values![name.clone(), text(value), signed(expected), by, details];
                version(sql!("setting_update"), values).await?
            }
            (None, 0) => None,
            (None, expected) => {
                version(
                    sql!("setting_delete"),
                    values![name.clone(), signed(expected), by, details],
                )
                .await?
            }
        };
        if let Some(version) = done {
            return Ok(Set::Done(version));
        }
        let found = version(sql!("setting_version"), values![name]).await?.unwrap_or(0);
        let gone = value.is_none() && expected == 0 && found == 0;
        Ok(if gone { Set::Done(0) } else { Set::Conflict(found) })
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
