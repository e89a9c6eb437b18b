//! The change feed: ended runs in the order in which they ended, jobs in the order of their
//! changes, and the statistics that are counted from it.
//!
//! A [`Cursor`] is the position of a reader. The node that saw a run end stamps its end, and
//! records it a moment later, so a row can appear behind a cursor that is close to the present: a
//! reader that must see everything stays [`Cursor::settled`] behind; one that must be fast reads
//! that time once more and drops rows that it has seen already.
//!
//! Nothing is written when a run starts, so there is no such event.

use std::future::Future;

use domain::id::{JobId, RunId, TenantId, UserId};
use domain::job::Job;
use domain::run::{Origin, Outcome};
use domain::tally::{EndedRun, Key, Measure};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::jobs::job;
use crate::records::{Records, Row, Sql, Statement, Transaction, params};
use crate::{Result, Store, StoreError};

/// A store whose changes can be followed.
pub trait ChangeFeed: Store {
    /// Runs of all tenants that ended after the cursor and before `until`, in that order.
    fn ended(
        &self,
        after: Cursor,
        until: Timestamp,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<EndedRun>>> + Send;

    /// Jobs of all tenants that were defined after the cursor, deleted ones included, in that
    /// order, as they are now: one that changed twice is listed once.
    fn changed_jobs(
        &self,
        after: Cursor,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Job>>> + Send;

    /// How far the tally has come.
    fn tally_cursor(&self) -> impl Future<Output = Result<Cursor>> + Send;

    /// Adds amounts to the tallies and moves their cursor, if it still stands where they were
    /// counted from. Returns whether it did.
    fn add_tallies(
        &self,
        from: Cursor,
        to: Cursor,
        amounts: &[(Key, u64)],
    ) -> impl Future<Output = Result<bool>> + Send;

    /// The amounts of some jobs of a tenant, [`JobId::NONE`] for the tenant as a whole, from an
    /// hour on.
    fn tallies(
        &self,
        tenant: TenantId,
        jobs: &[JobId],
        since_hour: i64,
    ) -> impl Future<Output = Result<Vec<(Key, u64)>>> + Send;

    /// Deletes amounts of earlier hours, at most `limit`; answers how many.
    fn forget_tallies(
        &self,
        before_hour: i64,
        limit: u32,
    ) -> impl Future<Output = Result<u64>> + Send;
}

/// How far a reader has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The time of the last thing seen.
    pub at: Timestamp,
    /// Tie-breaker among entries of the same time.
    pub id: Uuid,
}

impl Cursor {
    /// Before everything that happens at a time.
    pub fn from(at: Timestamp) -> Self {
        Cursor { at, id: Uuid::nil() }
    }

    /// Just after a run's end.
    pub fn after(run: &EndedRun) -> Self {
        Cursor { at: run.finished_at, id: run.id.0 }
    }

    /// Just after a job's change.
    pub fn after_change(job: &Job) -> Self {
        Cursor { at: job.updated_at, id: job.id.0 }
    }

    /// All events before this time have been recorded: a node that missed heartbeats for longer has
    /// lost its lease, and its writes are refused.
    pub fn settled(now: Timestamp) -> Timestamp {
        now.saturating_sub(SignedDuration::from_secs(60)).unwrap_or(Timestamp::MIN)
    }
}

impl<S: Records> ChangeFeed for S {
    async fn ended(&self, after: Cursor, until: Timestamp, limit: u32) -> Result<Vec<EndedRun>> {
        let sql = Sql::Differs {
            postgres: include_str!("../sql/postgres/ended_after.sql"),
            sqlite: include_str!("../sql/sqlite/ended_after.sql"),
        };
        let statement = Statement::new(sql, params![after.at, after.id, until, limit]);
        self.query(statement).await?.iter().map(ended_run).collect()
    }

    async fn changed_jobs(&self, after: Cursor, limit: u32) -> Result<Vec<Job>> {
        let sql = "SELECT id, tenant_id, name, version, state, definition, next_run, created_at,
                       updated_at, owner_id
                   FROM jobs WHERE (updated_at, id) > ($1, $2) ORDER BY updated_at, id LIMIT $3";
        let statement = Statement::new(sql, params![after.at, after.id, limit]);
        self.query(statement).await?.iter().map(job).collect()
    }

    async fn tally_cursor(&self) -> Result<Cursor> {
        let sql = "SELECT finished_at, id FROM tally_cursor";
        let rows = self.query(Statement::new(sql, params![])).await?;
        let row = rows.first().ok_or_else(StoreError::no_row)?;
        Ok(Cursor { at: row.get(0)?, id: row.get(1)? })
    }

    async fn add_tallies(&self, from: Cursor, to: Cursor, amounts: &[(Key, u64)]) -> Result<bool> {
        let moved = Statement::new(
            "UPDATE tally_cursor SET finished_at = $3, id = $4
             WHERE finished_at = $1 AND id = $2 RETURNING id",
            params![from.at, from.id, to.at, to.id],
        );
        let mut transaction = Transaction::from(vec![moved.expect_row()]);
        let rows = amounts.iter().map(|(Key { tenant, job, hour, measure, class }, amount)| {
            params![tenant.0, job.0, *hour, *measure as u8, *class, *amount]
        });
        let sql = "INSERT INTO tallies (tenant_id, job_id, hour, measure, class, amount)
                   VALUES {rows}
                   ON CONFLICT (tenant_id, job_id, hour, measure, class)
                   DO UPDATE SET amount = tallies.amount + excluded.amount";
        for statement in Statement::of_rows(sql, rows.collect()) {
            transaction.push(statement);
        }
        Ok(self.commit(transaction).await?.is_some())
    }

    async fn tallies(
        &self,
        tenant: TenantId,
        jobs: &[JobId],
        since_hour: i64,
    ) -> Result<Vec<(Key, u64)>> {
        let select = |job: &JobId| {
            let sql = "SELECT tenant_id, job_id, hour, measure, class, amount FROM tallies
                       WHERE tenant_id = $1 AND job_id = $2 AND hour >= $3";
            Statement::new(sql, params![tenant.0, job.0, since_hour])
        };
        let rows = self.query_each(jobs.iter().map(select).collect()).await?;
        rows.iter().flatten().map(amount).collect()
    }

    async fn forget_tallies(&self, before_hour: i64, limit: u32) -> Result<u64> {
        let sql = "DELETE FROM tallies WHERE (tenant_id, job_id, hour, measure, class) IN (
                       SELECT tenant_id, job_id, hour, measure, class FROM tallies
                       WHERE hour < $1 ORDER BY hour LIMIT $2
                   )";
        self.execute(Statement::new(sql, params![before_hour, limit])).await
    }
}

/// finished_at, id, job_id, tenant_id, outcome, reason, origin, scheduled_for, count, due_at,
/// started_at, attempts, dead_letter, requested_by
fn ended_run(row: &Row) -> Result<EndedRun> {
    let (outcome, origin): (i64, i64) = (row.get(4)?, row.get(6)?);
    Ok(EndedRun {
        finished_at: row.get(0)?,
        id: RunId(row.get(1)?),
        job: JobId(row.get(2)?),
        tenant: TenantId(row.get(3)?),
        outcome: Outcome::from_number(outcome).ok_or_else(|| unknown(outcome, "an outcome"))?,
        reason: row.get(5)?,
        origin: Origin::from_number(origin).ok_or_else(|| unknown(origin, "an origin"))?,
        scheduled_for: row.get(7)?,
        count: row.get(8)?,
        due_at: row.get(9)?,
        started_at: row.get(10)?,
        attempts: row.get(11)?,
        dead_letter: row.get(12)?,
        requested_by: row.get::<Option<_>>(13)?.map(UserId),
    })
}

/// tenant_id, job_id, hour, measure, class, amount
fn amount(row: &Row) -> Result<(Key, u64)> {
    let measure: i64 = row.get(3)?;
    let key = Key {
        tenant: TenantId(row.get(0)?),
        job: JobId(row.get(1)?),
        hour: row.get(2)?,
        measure: Measure::from_number(measure).ok_or_else(|| unknown(measure, "a measure"))?,
        class: row.get(4)?,
    };
    Ok((key, row.get(5)?))
}

fn unknown(number: i64, wanted: &str) -> StoreError {
    StoreError::Unreadable(format!("{number} is not {wanted}"))
}
