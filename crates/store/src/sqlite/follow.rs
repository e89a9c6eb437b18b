//! What those read who follow, and the tallies.

use domain::id::{JobId, RunId, TenantId, UserId};
use domain::job::Job;
use domain::tally::{EndedRun, Key, Measure};
use jiff::Timestamp;
use rusqlite::Row;
use uuid::Uuid;

use super::SqliteStore;
use super::ends::outcome_of;
use super::row::{at, at_opt, job, origin, us};
use crate::{ChangeFeed, Cursor, Result, StoreError};

impl ChangeFeed for SqliteStore {
    async fn ended(&self, after: Cursor, until: Timestamp, limit: u32) -> Result<Vec<EndedRun>> {
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("ended_after"))?;
            let values = (us(after.at), after.id, us(until), limit);
            query.query_and_then(values, ended_run)?.collect()
        })
        .await
    }

    async fn changed_jobs(&self, after: Cursor, limit: u32) -> Result<Vec<Job>> {
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("job_changed_after"))?;
            query.query_and_then((us(after.at), after.id, limit), job)?.collect()
        })
        .await
    }

    async fn tally_cursor(&self) -> Result<Cursor> {
        self.read(|connection| {
            let mut query = connection.prepare_cached(sql!("tally_cursor"))?;
            let (us, id) = query.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(Cursor { at: at(us)?, id })
        })
        .await
    }

    async fn add_tallies(&self, from: Cursor, to: Cursor, amounts: &[(Key, u64)]) -> Result<bool> {
        let amounts = amounts.to_vec();
        self.writer
            .write(move |tx| {
                let mut go_on = tx.connection.prepare_cached(sql!("tally_move"))?;
                if go_on.execute((us(from.at), from.id, us(to.at), to.id))? == 0 {
                    return Ok(false);
                }
                let mut add = tx.connection.prepare_cached(sql!("tally_add"))?;
                for (Key { tenant, job, hour, measure, class }, amount) in amounts {
                    let amount = i64::try_from(amount).unwrap_or(i64::MAX);
                    add.execute((tenant.0, job.0, hour, measure as u8, class, amount))?;
                }
                Ok(true)
            })
            .await
    }

    async fn tallies(
        &self,
        tenant: TenantId,
        jobs: &[JobId],
        since_hour: i64,
    ) -> Result<Vec<(Key, u64)>> {
        let jobs = jobs.to_vec();
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("tally_list"))?;
            let mut amounts = Vec::new();
            for job in jobs {
                for amount in query.query_and_then((tenant.0, job.0, since_hour), amount)? {
                    amounts.push(amount?);
                }
            }
            Ok(amounts)
        })
        .await
    }

    async fn forget_tallies(&self, before_hour: i64, limit: u32) -> Result<u64> {
        self.writer
            .write(move |tx| {
                let mut delete = tx.connection.prepare_cached(sql!("tally_forget"))?;
                Ok(delete.execute((before_hour, limit))? as u64)
            })
            .await
    }
}

/// finished_at, id, job_id, tenant_id, outcome, reason, origin, scheduled_for, count, due_at,
/// started_at, attempts, dead_letter, requested_by
fn ended_run(row: &Row<'_>) -> Result<EndedRun> {
    Ok(EndedRun {
        finished_at: at(row.get(0)?)?,
        id: RunId(row.get(1)?),
        job: JobId(row.get(2)?),
        tenant: TenantId(row.get(3)?),
        outcome: outcome_of(row.get(4)?)?,
        reason: row.get(5)?,
        origin: origin(row.get(6)?)?,
        scheduled_for: at(row.get(7)?)?,
        count: row.get::<_, i64>(8)? as u64,
        due_at: at(row.get(9)?)?,
        started_at: at_opt(row.get(10)?)?,
        attempts: row.get(11)?,
        dead_letter: row.get(12)?,
        requested_by: row.get::<_, Option<Uuid>>(13)?.map(UserId),
    })
}

/// tenant_id, job_id, hour, measure, class, amount
fn amount(row: &Row<'_>) -> Result<(Key, u64)> {
    let measure: i64 = row.get(3)?;
    let key = Key {
        tenant: TenantId(row.get(0)?),
        job: JobId(row.get(1)?),
        hour: row.get(2)?,
        measure: Measure::from_number(measure)
            .ok_or_else(|| StoreError::Unreadable(format!("{measure} is not a measure")))?,
        class: row.get(4)?,
    };
    Ok((key, row.get::<_, i64>(5)? as u64))
}
