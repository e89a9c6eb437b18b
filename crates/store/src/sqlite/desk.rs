//! What those at the doors ask.

use domain::audit::{Event, Kind};
use domain::id::{JobId, RunId, TenantId};
use rusqlite::OptionalExtension;
use uuid::Uuid;

use super::ends::outcome_of;
use super::read::views;
use super::row::{at, at_opt, us};
use super::writer::Tx;
use super::{SqliteStore, journal, nodes, starts};
use crate::author::author;
use crate::desk::{ANSWER_TTL_US, KEY_TTL_US};
use crate::lane::LANES;
use crate::{
    Answer, Begun, Desk, LastRun, LiveCounts, NodeView, Page, RecentEnd, Result, RunView, Set,
    Setting, StartFilter, StartKey, StoreError,
};

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

    async fn attempt_output(&self, run: RunId, number: u32) -> Result<Option<Vec<u8>>> {
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("output_of"))?;
            Ok(query.query_row((run.0, number), |row| row.get(0)).optional()?)
        })
        .await
    }

    async fn nodes(&self) -> Result<Vec<NodeView>> {
        self.read(nodes::list).await
    }

    async fn live(&self, tenant: TenantId) -> Result<LiveCounts> {
        let now = us(self.clock.now());
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("count_live_of_tenant"))?;
            let (counts, oldest): ([i64; 3], Option<i64>) = query
                .query_row((tenant.0, now, LANES), |row| {
                    Ok(([row.get(0)?, row.get(1)?, row.get(2)?], row.get(3)?))
                })?;
            let [pending, queued, running] = counts.map(i64::cast_unsigned);
            Ok(LiveCounts { pending, queued, running, oldest_due: at_opt(oldest)? })
        })
        .await
    }

    async fn last_runs(&self, jobs: &[JobId]) -> Result<Vec<LastRun>> {
        let jobs = jobs.to_vec();
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("last_run"))?;
            let mut found = Vec::with_capacity(jobs.len());
            for job in jobs {
                let mut rows = query.query((job.0,))?;
                if let Some(row) = rows.next()? {
                    let (scheduled_for, outcome) = (at(row.get(0)?)?, outcome_of(row.get(1)?)?);
                    found.push(LastRun { job, scheduled_for, outcome });
                }
            }
            Ok(found)
        })
        .await
    }

    async fn recent_ends(&self, jobs: &[JobId], limit: u32) -> Result<Vec<RecentEnd>> {
        let jobs = jobs.to_vec();
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("recent_ends"))?;
            let mut found = Vec::new();
            for job in jobs {
                let mut rows = query.query((job.0, limit))?;
                while let Some(row) = rows.next()? {
                    found.push(RecentEnd {
                        job,
                        run: RunId(row.get(0)?),
                        scheduled_for: at(row.get(1)?)?,
                        outcome: outcome_of(row.get(2)?)?,
                        job_version: row.get(3)?,
                    });
                }
            }
            Ok(found)
        })
        .await
    }

    async fn latest_starts(
        &self,
        filter: &StartFilter,
        after: Option<StartKey>,
        limit: u32,
    ) -> Result<Page<RunView, StartKey>> {
        let (filter, now) = (filter.clone(), self.clock.now());
        self.read(move |connection| starts::latest(connection, &filter, after, limit, now)).await
    }

    async fn retried(&self, before: Option<RunId>, limit: u32) -> Result<Page<RunView, RunId>> {
        let now = self.clock.now();
        self.read(move |connection| {
            let snapshot = connection.unchecked_transaction()?;
            let mut query = snapshot.prepare_cached(sql!("list_retried"))?;
            let before = before.map_or(Uuid::max(), |before| before.0);
            let ids = query.query_map((before, limit), |row| Ok(RunId(row.get(0)?)))?;
            let ids = ids.collect::<rusqlite::Result<Vec<RunId>>>()?;
            let next = ids.last().copied().filter(|_| ids.len() == limit as usize);
            Ok(Page { items: views(&snapshot, ids.into_iter(), now)?, next })
        })
        .await
    }

    async fn settings(&self) -> Result<Vec<Setting>> {
        self.read(|connection| {
            let mut query = connection.prepare_cached(sql!("setting_list"))?;
            let settings = query.query_and_then([], |row| {
                Ok(Setting {
                    name: row.get(0)?,
                    value: row.get(1)?,
                    version: row.get(2)?,
                    changed_at: at(row.get(3)?)?,
                })
            })?;
            settings.collect()
        })
        .await
    }

    async fn set(&self, name: &str, value: Option<&str>, expected: u32) -> Result<Set> {
        let (name, value, by) = (name.to_owned(), value.map(str::to_owned), author());
        self.writer
            .write(move |tx| {
                let set = set(tx, &name, value.as_deref(), expected)?;
                if matches!(set, Set::Done(1..)) || set == Set::Done(0) && expected > 0 {
                    let details = serde_json::json!({ "name": name, "value": value });
                    journal::insert(tx, &of_cluster(by, Kind::SettingChanged, details))?;
                }
                Ok(set)
            })
            .await
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

/// Something that concerns no tenant.
fn of_cluster(actor: String, kind: Kind, details: serde_json::Value) -> Event {
    Event {
        tenant: TenantId::CLUSTER,
        actor,
        kind,
        job: None,
        run: None,
        outcome: "DONE".to_owned(),
        details: details.to_string(),
    }
}

fn set(tx: &mut Tx<'_>, name: &str, value: Option<&str>, expected: u32) -> Result<Set> {
    let query = |sql| tx.connection.prepare_cached(sql);
    let version =
        || query(sql!("setting_version"))?.query_row((name,), |row| row.get(0)).optional();
    let done = match (value, expected) {
        (Some(value), 0) => query(sql!("setting_insert"))?.execute((name, value, tx.now_us()))?,
        (Some(value), _) => {
            query(sql!("setting_update"))?.execute((name, value, tx.now_us(), expected))?
        }
        (None, 0) => usize::from(version()?.is_none()),
        (None, _) => query(sql!("setting_delete"))?.execute((name, expected))?,
    };
    let version = version()?.unwrap_or(0);
    Ok(if done > 0 { Set::Done(version) } else { Set::Conflict(version) })
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
    let mut rows = query.query((tenant.0, key))?;
    let Some(row) = rows.next()? else {
        return Err(StoreError::Unreadable(format!("the request {key} is there and is not")));
    };
    if row.get::<_, Vec<u8>>(0)? != fingerprint {
        return Ok(Begun::Conflict);
    }
    let Some(status) = row.get(1)? else { return Ok(Begun::InProgress) };
    let head: Option<String> = row.get(2)?;
    let body: Option<Vec<u8>> = row.get(3)?;
    let (head, body) = (head.unwrap_or_default(), body.unwrap_or_default());
    Ok(Begun::Replay(Answer { status, head, body }))
}
