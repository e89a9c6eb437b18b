//! What those read who follow, and the tallies.

use domain::id::{JobId, RunId, TenantId, UserId};
use domain::job::Job;
use domain::tally::{EndedRun, Key, Measure};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::pipeline::{Pipeline, values};
use super::row::{at, job, origin, outcome, unsigned, us};
use crate::{ChangeFeed, Cursor, Result, StoreError};

impl ChangeFeed for PostgresStore {
    async fn ended(&self, after: Cursor, until: Timestamp, limit: u32) -> Result<Vec<EndedRun>> {
        let values = values![us(after.at), after.id, us(until), i64::from(limit)];
        self.shared.query(sql!("ended_after"), values).await?.iter().map(ended_run).collect()
    }

    async fn changed_jobs(&self, after: Cursor, limit: u32) -> Result<Vec<Job>> {
        let values = values![us(after.at), after.id, i64::from(limit)];
        self.shared.query(sql!("job_changed_after"), values).await?.iter().map(job).collect()
    }

    async fn tally_cursor(&self) -> Result<Cursor> {
        let row = self.shared.query_one(sql!("tally_cursor"), values![]).await?;
        Ok(Cursor { at: at(row.try_get(0)?), id: row.try_get(1)? })
    }

    async fn add_tallies(&self, from: Cursor, to: Cursor, amounts: &[(Key, u64)]) -> Result<bool> {
        let tenants: Vec<Uuid> = amounts.iter().map(|(key, _)| key.tenant.0).collect();
        let jobs: Vec<Uuid> = amounts.iter().map(|(key, _)| key.job.0).collect();
        let hours: Vec<i64> = amounts.iter().map(|(key, _)| key.hour).collect();
        let measures: Vec<i16> = amounts.iter().map(|(key, _)| key.measure as i16).collect();
        let classes: Vec<i16> = amounts.iter().map(|(key, _)| i16::from(key.class)).collect();
        let sums: Vec<i64> =
            amounts.iter().map(|(_, sum)| i64::try_from(*sum).unwrap_or(i64::MAX)).collect();
        let mut pipeline = Pipeline::default();
        let cursors = values![us(from.at), from.id, us(to.at), to.id];
        let moved = pipeline.push(sql!("tally_move"), cursors);
        pipeline.push(sql!("tally_add"), values![tenants, jobs, hours, measures, classes, sums]);
        Ok(!pipeline.commit(&self.shared.pool).await?[moved].is_empty())
    }

    async fn tallies(
        &self,
        tenant: TenantId,
        jobs: &[JobId],
        since_hour: i64,
    ) -> Result<Vec<(Key, u64)>> {
        let jobs: Vec<Uuid> = jobs.iter().map(|job| job.0).collect();
        let values = values![tenant.0, jobs, since_hour];
        self.shared.query(sql!("tally_list"), values).await?.iter().map(amount).collect()
    }

    async fn forget_tallies(&self, before_hour: i64, limit: u32) -> Result<u64> {
        let values = values![before_hour, i64::from(limit)];
        let gone: i64 = self.shared.query_one(sql!("tally_forget"), values).await?.try_get(0)?;
        Ok(gone.cast_unsigned())
    }
}

/// finished_at, id, job_id, tenant_id, outcome, reason, origin, scheduled_for, count, due_at,
/// started_at, attempts, dead_letter, requested_by
fn ended_run(row: &Row) -> Result<EndedRun> {
    Ok(EndedRun {
        finished_at: at(row.try_get(0)?),
        id: RunId(row.try_get(1)?),
        job: JobId(row.try_get(2)?),
        tenant: TenantId(row.try_get(3)?),
        outcome: outcome(row.try_get(4)?)?,
        reason: row.try_get(5)?,
        origin: origin(row.try_get(6)?)?,
        scheduled_for: at(row.try_get(7)?),
        count: row.try_get::<_, i64>(8)?.cast_unsigned(),
        due_at: at(row.try_get(9)?),
        started_at: row.try_get::<_, Option<i64>>(10)?.map(at),
        attempts: unsigned(row.try_get(11)?),
        dead_letter: row.try_get(12)?,
        requested_by: row.try_get::<_, Option<Uuid>>(13)?.map(UserId),
    })
}

/// tenant_id, job_id, hour, measure, class, amount
fn amount(row: &Row) -> Result<(Key, u64)> {
    let (measure, class): (i16, i16) = (row.try_get(3)?, row.try_get(4)?);
    let unreadable = |what| StoreError::Unreadable(format!("{what} of a tally"));
    let key = Key {
        tenant: TenantId(row.try_get(0)?),
        job: JobId(row.try_get(1)?),
        hour: row.try_get(2)?,
        measure: Measure::from_number(i64::from(measure))
            .ok_or_else(|| unreadable(format!("{measure} is not a measure")))?,
        class: u8::try_from(class).map_err(|_| unreadable(format!("{class} is not a class")))?,
    };
    Ok((key, row.try_get::<_, i64>(5)?.cast_unsigned()))
}
