//! Pools: which runs have a place, and which wait in line.
//!
//! ```text
//!   start of a run ──take_places──▶ place (claim generation) ──claim ends──▶ void
//!         │                                                                   │
//!         └── no place: in line ──wake_pools: called, claimable ◀─────────────┘
//!                  ▲                            │
//!                  └──── start, take_places ◀───┘
//! ```
//!
//! No counter can drift: the weight in use is the sum over the rows whose run has not ended and
//! still has the claim generation under which the place was taken. Whatever ends a claim (result,
//! retry, release, loss of its node) raises the generation of the run, so it ends the place in the
//! same commit. Calls that take places exclude each other.

use std::future::Future;

use domain::id::{JobId, RunId, TenantId};
use domain::pool::{CALL_HOLDS, PlaceRequest, PoolRun};

use crate::records::{Records, Row, Sql, Statement, Transaction, params};
use crate::{Result, Store};

/// A store that knows which runs have a place in a pool.
pub trait Pools: Store {
    /// Takes places for runs that are about to begin. Returns for each whether it has one; the
    /// others are in line. A run that has a place under this claim generation already keeps it.
    fn take_places(
        &self,
        requests: &[PlaceRequest],
    ) -> impl Future<Output = Result<Vec<bool>>> + Send;

    /// The runs that have a place in pools of a tenant, or in one of them, and then those in line,
    /// in their order.
    fn pool_runs(
        &self,
        tenant: TenantId,
        pool: Option<&str>,
    ) -> impl Future<Output = Result<Vec<PoolRun>>> + Send;
}

/// Excludes every other look that takes or calls for places until the transaction ends. SQLite has
/// one writer.
pub(crate) const POOLS_LOCK: Sql = Sql::Differs {
    postgres: "SELECT pg_advisory_xact_lock('pool_runs'::regclass::oid::integer, 1)::text",
    sqlite: "SELECT 1",
};

/// Removes rows whose run or claim has ended, and those in line whose job is paused.
pub(crate) const POOLS_CLEAR: Sql = Sql::Differs {
    postgres: "DELETE FROM pool_runs p WHERE NOT EXISTS (
                   SELECT 1 FROM runs r WHERE r.id = p.run_id AND r.turn = coalesce(p.turn, r.turn)
                       AND r.wait + 0 <> 9
               )",
    sqlite: "DELETE FROM pool_runs WHERE NOT EXISTS (
                 SELECT 1 FROM runs AS r
                 WHERE r.id = pool_runs.run_id AND r.turn = coalesce(pool_runs.turn, r.turn)
                     AND r.wait <> 9 AND NOT EXISTS (SELECT 1 FROM ends AS e WHERE e.seq = r.seq)
             )",
};

/// A run gets in line. A place that it has under this claim generation stays, unless it needs more.
const GET_IN_LINE: &str = "
    INSERT INTO pool_runs
        (run_id, tenant_id, pool, job_id, weight, priority, due_at, turn, since, called_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, NULL, {now}, NULL)
    ON CONFLICT (run_id) DO UPDATE SET
        turn = CASE WHEN pool_runs.turn = $8 AND pool_runs.pool = $3 AND pool_runs.weight >= $5
            THEN pool_runs.turn END,
        tenant_id = $2, pool = $3, weight = $5, priority = $6, due_at = $7, called_at = NULL";

/// A run takes its place, if it has one already or if the pool has a free place and no run before
/// it in line was called. A run that needs more than the whole pool keeps no other waiting.
const TAKE: Sql = Sql::Differs {
    postgres: "
        UPDATE pool_runs SET turn = $8, since = CASE WHEN turn = $8 THEN since ELSE {now} END
        WHERE run_id = $1 AND (turn = $8 OR (
            $5 + (
                SELECT coalesce(sum(u.weight), 0) FROM pool_runs u
                WHERE u.tenant_id = $2 AND u.pool = $3 AND u.turn IS NOT NULL AND u.run_id <> $1
            ) <= (
                SELECT (o.body::jsonb ->> 'size')::bigint FROM objects o
                WHERE o.tenant_id = $2 AND o.kind = 'POOL' AND o.name = $3
            ) AND NOT EXISTS (
                SELECT 1 FROM pool_runs w
                WHERE w.tenant_id = $2 AND w.pool = $3 AND w.turn IS NULL AND w.run_id <> $1
                    AND (w.called_at IS NULL OR w.called_at > {now} - $9)
                    AND (w.priority > $6 OR w.priority = $6 AND (w.due_at, w.run_id) < ($7, $1))
                    AND w.weight <= (
                        SELECT (o.body::jsonb ->> 'size')::bigint FROM objects o
                        WHERE o.tenant_id = $2 AND o.kind = 'POOL' AND o.name = $3
                    )
            )
        )) AND job_id = $4
        RETURNING run_id",
    sqlite: "
        UPDATE pool_runs SET turn = $8, since = CASE WHEN turn = $8 THEN since ELSE {now} END
        WHERE run_id = $1 AND (turn = $8 OR (
            $5 + (
                SELECT coalesce(sum(u.weight), 0) FROM pool_runs AS u
                WHERE u.tenant_id = $2 AND u.pool = $3 AND u.turn IS NOT NULL AND u.run_id <> $1
            ) <= (
                SELECT o.body ->> 'size' FROM objects AS o
                WHERE o.tenant_id = $2 AND o.kind = 'POOL' AND o.name = $3
            ) AND NOT EXISTS (
                SELECT 1 FROM pool_runs AS w
                WHERE w.tenant_id = $2 AND w.pool = $3 AND w.turn IS NULL AND w.run_id <> $1
                    AND (w.called_at IS NULL OR w.called_at > {now} - $9)
                    AND (w.priority > $6 OR w.priority = $6 AND (w.due_at, w.run_id) < ($7, $1))
                    AND w.weight <= (
                        SELECT o.body ->> 'size' FROM objects AS o
                        WHERE o.tenant_id = $2 AND o.kind = 'POOL' AND o.name = $3
                    )
            )
        )) AND job_id = $4
        RETURNING run_id",
};

/// The rows that are not void: places first, then the line in its order.
const LIST: Sql = Sql::Differs {
    postgres: "
        SELECT p.pool, p.run_id, p.job_id, p.weight, p.turn, p.since
        FROM pool_runs p JOIN runs r ON r.id = p.run_id AND r.turn = coalesce(p.turn, r.turn)
        WHERE p.tenant_id = $1 AND ($2::text IS NULL OR p.pool = $2)
        ORDER BY p.pool, p.turn IS NULL, p.priority DESC, p.due_at, p.run_id",
    sqlite: "
        SELECT p.pool, p.run_id, p.job_id, p.weight, p.turn, p.since
        FROM pool_runs AS p JOIN runs AS r ON r.id = p.run_id AND r.turn = coalesce(p.turn, r.turn)
        WHERE p.tenant_id = $1 AND ($2 IS NULL OR p.pool = $2)
            AND NOT EXISTS (SELECT 1 FROM ends AS e WHERE e.seq = r.seq)
        ORDER BY p.pool, p.turn IS NULL, p.priority DESC, p.due_at, p.run_id",
};

impl<S: Records> Pools for S {
    async fn take_places(&self, requests: &[PlaceRequest]) -> Result<Vec<bool>> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let mut ordered: Vec<&PlaceRequest> = requests.iter().collect();
        ordered.sort_unstable_by_key(|request| request.order());
        let mut transaction = Transaction::default();
        transaction.push(Statement::new(POOLS_LOCK, params![]));
        transaction.push(Statement::new(POOLS_CLEAR, params![]));
        // All of them get in line before the first takes a place.
        for request in &ordered {
            let mut params = columns(request);
            params.push(i64::from(request.turn).into());
            transaction.push(Statement::new(GET_IN_LINE, params));
        }
        let mut takes = Vec::with_capacity(ordered.len());
        for request in &ordered {
            let mut params = columns(request);
            params.extend(params![i64::from(request.turn), CALL_HOLDS]);
            takes.push((request.run, transaction.push(Statement::new(TAKE, params))));
        }
        let answers = self.commit(transaction).await?.unwrap_or_default();
        let has_place = |run: RunId| {
            let take = takes.iter().find(|(of, _)| *of == run);
            take.and_then(|(_, step)| answers.get(*step)).is_some_and(|it| !it.rows.is_empty())
        };
        Ok(requests.iter().map(|request| has_place(request.run)).collect())
    }

    async fn pool_runs(&self, tenant: TenantId, pool: Option<&str>) -> Result<Vec<PoolRun>> {
        let rows = self.query(Statement::new(LIST, params![tenant.0, pool])).await?;
        let pool_run = |row: &Row| {
            Ok(PoolRun {
                pool: row.get(0)?,
                run: RunId(row.get(1)?),
                job: JobId(row.get(2)?),
                weight: row.get(3)?,
                has_place: row.get::<Option<i64>>(4)?.is_some(),
                since: row.get(5)?,
            })
        };
        rows.iter().map(pool_run).collect()
    }
}

/// The run, the tenant, the pool, the job, weight, priority and due time.
fn columns(request: &PlaceRequest) -> Vec<crate::records::Param> {
    let PlaceRequest { run, job, tenant, pool, priority, due_at, .. } = request;
    params![run.0, tenant.0, &pool.name, job.0, pool.weight, *priority, *due_at]
}
