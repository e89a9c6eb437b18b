//! DAG runs and their steps.
//!
//! ```text
//!   a DAG run starts ──▶ its first steps are recorded, with their runs ──▶ it waits (Wait::Parts)
//!                                                                             │
//!        a step's run ends ──▶ decided on its node ──▶ advance: ends, skips, new runs
//!                                                                             │
//!                              no step is left: the DAG run is woken ◀────────┘
//! ```
//!
//! A DAG run has a revision, which grows with every [`Dags::advance`]. A decision names the
//! revision that it is based on; if another one was written meanwhile, nothing is written and the
//! caller decides again. So the runs of steps that a decision releases exist exactly if the
//! decision counts.

use std::future::Future;

use domain::dag::state::{Control, StepKey, StepRecord};
use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::run::{ClaimedRun, Grant, NewRun, Outcome, Reason, ReasonCode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::records::{Records, Row, Sql, Statement, page, params};
use crate::{ClaimFor, Page, Result, Store, StoreError};

/// The numbers of recorded steps with their outcomes, which open ones have not.
pub type StepOutcomes = Vec<(u32, Option<Outcome>)>;

/// A store that advances DAG runs.
pub trait Dags: Store {
    /// Records the beginning of DAG runs that a node holds. Returns false for one, and writes
    /// nothing of it, if the node does not hold it any more, its end was requested, or it has
    /// begun.
    fn begin_dags(
        &self,
        node: NodeId,
        runs: &[(Grant, DagRun)],
    ) -> impl Future<Output = Result<Vec<bool>>> + Send;

    /// Records a DAG run that repeats another one, with the steps that it adopts. A node that
    /// claims it finds it begun. Returns false if its id is known.
    fn repeat_dag(
        &self,
        new: &NewRun,
        run: &DagRun,
        adopted: &[StepRecord],
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Records decisions, each of which is based on a revision of its DAG run, and claims up to
    /// `claim` of the new runs for the node. Each is applied on its own: one whose revision is not
    /// the current one writes nothing. A DAG run without remaining steps can be claimed.
    fn advance(
        &self,
        batch: &[Advance],
        claim: Option<ClaimFor>,
    ) -> impl Future<Output = Result<Advanced>> + Send;
}

/// Records of DAG runs and their steps.
pub trait DagRecords: Store {
    /// A DAG run, with all records of its steps if requested.
    fn dag_run(
        &self,
        run: RunId,
        with_steps: bool,
    ) -> impl Future<Output = Result<Option<(DagRun, Vec<StepRecord>)>>> + Send;

    /// Step records of a DAG run by number, after the given one; or the items of one fan-out step.
    fn dag_steps(
        &self,
        run: RunId,
        items_of: Option<u32>,
        after: Option<StepKey>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<StepRecord, StepKey>>> + Send;

    /// Steps that are recorded as open although their runs have ended or are not there, at most so
    /// many.
    fn unrecorded_ends(
        &self,
        run: RunId,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<StepEnd>>> + Send;

    /// The steps that wait for runs of other jobs: the DAG run and the step of each.
    fn called_steps(
        &self,
        runs: &[RunId],
    ) -> impl Future<Output = Result<Vec<(RunId, RunId, StepKey)>>> + Send;

    /// The results of ended runs, as JSON, in the order of the question.
    fn run_results(
        &self,
        runs: &[RunId],
    ) -> impl Future<Output = Result<Vec<Option<String>>>> + Send;

    /// The sizes of the results of ended runs, in bytes and in the order of the question; 0 for a
    /// run without one.
    fn result_sizes(&self, runs: &[RunId]) -> impl Future<Output = Result<Vec<u64>>> + Send;

    /// The DAG runs of a job or of a tenant, newest first and older than the given one.
    fn list_dag_runs(
        &self,
        tenant: TenantId,
        job: Option<JobId>,
        before: Option<RunId>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<DagRun, RunId>>> + Send;

    /// The outcomes of steps of several DAG runs, each with its first and last step: the number of
    /// a recorded step and its outcome, which an open one has not. One round trip.
    fn step_outcomes(
        &self,
        ranges: &[(RunId, u32, u32)],
    ) -> impl Future<Output = Result<Vec<StepOutcomes>>> + Send;

    /// When the last attempts of the ended runs of a DAG run's steps began, and how many attempts
    /// each had. Items are not among them.
    fn step_attempts(
        &self,
        run: RunId,
    ) -> impl Future<Output = Result<Vec<(u32, Option<Timestamp>, u32)>>> + Send;

    /// The items of each step of a DAG run by their outcomes; open ones have none.
    fn item_counts(
        &self,
        run: RunId,
    ) -> impl Future<Output = Result<Vec<(u32, Option<Outcome>, u32)>>> + Send;

    /// Deletes records of DAG runs that are gone, and of their steps, reading at most `limit` of
    /// them; returns how many.
    fn prune_dags(&self, limit: u32) -> impl Future<Output = Result<u64>> + Send;
}

const DAG_RUN: &str =
    "SELECT run_id, job_id, tenant_id, version, revision, control, is_over, rerun_of,
    forced, scheduled_for, parameters FROM dag_runs";

const STEP: &str =
    "SELECT step, item, outcome, reason, reason_text, run_id, items, by_step, by_item,
    decided_at, ended_at, adopted FROM dag_steps";

impl<S: Records> DagRecords for S {
    async fn dag_run(
        &self,
        run: RunId,
        with_steps: bool,
    ) -> Result<Option<(DagRun, Vec<StepRecord>)>> {
        let sql = format!("{DAG_RUN} WHERE run_id = $1");
        let mut statements = vec![Statement::new(sql, params![run.0])];
        if with_steps {
            let sql = format!("{STEP} WHERE dag_run_id = $1 ORDER BY step, item");
            statements.push(Statement::new(sql, params![run.0]));
        }
        let mut rows = self.query_each(statements).await?.into_iter();
        let header = rows.next().unwrap_or_default();
        let Some(header) = header.first() else { return Ok(None) };
        let steps = rows.next().unwrap_or_default();
        Ok(Some((dag_run(header)?, steps.iter().map(step).collect::<Result<_>>()?)))
    }

    async fn dag_steps(
        &self,
        run: RunId,
        items_of: Option<u32>,
        after: Option<StepKey>,
        limit: u32,
    ) -> Result<Page<StepRecord, StepKey>> {
        let limit_row = u64::from(limit) + 1;
        let statement = match items_of {
            None => {
                let after = after.map_or(-1, |key| i64::from(key.step));
                let sql = format!(
                    "{STEP} WHERE dag_run_id = $1 AND item = 0 AND step > $2 ORDER BY step LIMIT $3"
                );
                Statement::new(sql, params![run.0, after, limit_row])
            }
            Some(step) => {
                let after = after.map_or(0, item_number);
                let sql = format!(
                    "{STEP} WHERE dag_run_id = $1 AND item > $2 AND step = $3 ORDER BY item LIMIT $4"
                );
                Statement::new(sql, params![run.0, after, step, limit_row])
            }
        };
        let rows = self.query(statement).await?;
        let items = rows.iter().map(step).collect::<Result<Vec<_>>>()?;
        Ok(page(items, limit, |last| last.key))
    }

    async fn unrecorded_ends(&self, run: RunId, limit: u32) -> Result<Vec<StepEnd>> {
        let sql = Sql::Differs {
            postgres: "SELECT s.step, s.item, s.run_id, h.outcome FROM dag_steps AS s
                       LEFT JOIN history AS h ON h.id = s.run_id AND h.outcome > 0
                       WHERE s.dag_run_id = $1 AND s.outcome IS NULL AND s.run_id IS NOT NULL
                           AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.id = s.run_id)
                       ORDER BY s.step, s.item LIMIT $2",
            sqlite: "SELECT s.step, s.item, s.run_id, e.outcome FROM dag_steps AS s
                     LEFT JOIN runs AS r ON r.id = s.run_id LEFT JOIN ends AS e ON e.seq = r.seq
                     WHERE s.dag_run_id = $1 AND s.outcome IS NULL AND s.run_id IS NOT NULL
                         AND (r.seq IS NULL OR e.seq IS NOT NULL)
                     ORDER BY s.step, s.item LIMIT $2",
        };
        let rows = self.query(Statement::new(sql, params![run.0, limit])).await?;
        let end = |row: &Row| {
            Ok(StepEnd {
                key: key(row.get(0)?, row.get(1)?),
                run: RunId(row.get(2)?),
                outcome: outcome_at(row, 3)?,
            })
        };
        rows.iter().map(end).collect()
    }

    async fn called_steps(&self, runs: &[RunId]) -> Result<Vec<(RunId, RunId, StepKey)>> {
        let select = |run: &RunId| {
            let sql = "SELECT run_id, dag_run_id, step, item FROM dag_steps
                       WHERE run_id = $1 AND called";
            Statement::new(sql, params![run.0])
        };
        let rows = self.query_each(runs.iter().map(select).collect()).await?;
        let found =
            |row: &Row| Ok((RunId(row.get(0)?), RunId(row.get(1)?), key(row.get(2)?, row.get(3)?)));
        rows.iter().flatten().map(found).collect()
    }

    async fn run_results(&self, runs: &[RunId]) -> Result<Vec<Option<String>>> {
        let select = |run: &RunId| {
            let sql = Sql::Differs {
                postgres: "SELECT result FROM history WHERE id = $1 AND outcome > 0",
                sqlite: "SELECT e.result FROM runs AS r CROSS JOIN ends AS e ON e.seq = r.seq
                         WHERE r.id = $1",
            };
            Statement::new(sql, params![run.0])
        };
        let rows = self.query_each(runs.iter().map(select).collect()).await?;
        rows.iter().map(|rows| rows.first().map_or(Ok(None), |row| row.get(0))).collect()
    }

    async fn result_sizes(&self, runs: &[RunId]) -> Result<Vec<u64>> {
        let select = |run: &RunId| {
            let sql = Sql::Differs {
                postgres: "SELECT octet_length(result)::bigint FROM history
                           WHERE id = $1 AND outcome > 0 AND result IS NOT NULL",
                sqlite: "SELECT length(CAST(e.result AS BLOB)) FROM runs AS r
                         CROSS JOIN ends AS e ON e.seq = r.seq
                         WHERE r.id = $1 AND e.result IS NOT NULL",
            };
            Statement::new(sql, params![run.0])
        };
        let rows = self.query_each(runs.iter().map(select).collect()).await?;
        rows.iter().map(|rows| rows.first().map_or(Ok(0), |row| row.get(0))).collect()
    }

    async fn list_dag_runs(
        &self,
        tenant: TenantId,
        job: Option<JobId>,
        before: Option<RunId>,
        limit: u32,
    ) -> Result<Page<DagRun, RunId>> {
        let before = before.map_or(Uuid::max(), |run| run.0);
        let of = if job.is_some() { "job_id = $2" } else { "$2 IS NULL" };
        let sql = format!(
            "{DAG_RUN} WHERE tenant_id = $1 AND {of} AND run_id < $3 ORDER BY run_id DESC LIMIT $4"
        );
        let values = params![tenant.0, job.map(|job| job.0), before, u64::from(limit) + 1];
        let rows = self.query(Statement::new(sql, values)).await?;
        let items = rows.iter().map(dag_run).collect::<Result<Vec<_>>>()?;
        Ok(page(items, limit, |last| last.run))
    }

    async fn step_outcomes(&self, ranges: &[(RunId, u32, u32)]) -> Result<Vec<StepOutcomes>> {
        let select = |(run, first, last): &(RunId, u32, u32)| {
            let sql = "SELECT step, outcome FROM dag_steps
                       WHERE dag_run_id = $1 AND item = 0 AND step BETWEEN $2 AND $3 ORDER BY step";
            Statement::new(sql, params![run.0, *first, *last])
        };
        let found = self.query_each(ranges.iter().map(select).collect()).await?;
        let read = |row: &Row| Ok((row.get(0)?, outcome_at(row, 1)?));
        found.iter().map(|rows| rows.iter().map(read).collect()).collect()
    }

    async fn step_attempts(&self, run: RunId) -> Result<Vec<(u32, Option<Timestamp>, u32)>> {
        let sql = Sql::Differs {
            postgres: "SELECT s.step, h.started_at, h.attempts + h.lost FROM dag_steps AS s
                       JOIN history AS h ON h.id = s.run_id AND h.outcome > 0
                       WHERE s.dag_run_id = $1 AND s.item = 0 AND s.outcome IS NOT NULL
                       ORDER BY s.step",
            sqlite: "SELECT s.step, e.started_at, e.attempts + e.lost FROM dag_steps AS s
                     CROSS JOIN runs AS r ON r.id = s.run_id CROSS JOIN ends AS e ON e.seq = r.seq
                     WHERE s.dag_run_id = $1 AND s.item = 0 AND s.outcome IS NOT NULL
                     ORDER BY s.step",
        };
        let rows = self.query(Statement::new(sql, params![run.0])).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).collect()
    }

    async fn item_counts(&self, run: RunId) -> Result<Vec<(u32, Option<Outcome>, u32)>> {
        let sql = "SELECT step, outcome, count(*) FROM dag_steps
                   WHERE dag_run_id = $1 AND item > 0 GROUP BY step, outcome
                   ORDER BY step, coalesce(outcome, 0)";
        let rows = self.query(Statement::new(sql, params![run.0])).await?;
        rows.iter().map(|row| Ok((row.get(0)?, outcome_at(row, 1)?, row.get(2)?))).collect()
    }

    async fn prune_dags(&self, limit: u32) -> Result<u64> {
        let sql = Sql::Differs {
            postgres:
                "SELECT d.run_id FROM (SELECT run_id FROM dag_runs ORDER BY run_id LIMIT $1) AS d
                       WHERE NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.id = d.run_id)
                           AND NOT EXISTS (SELECT 1 FROM history AS h WHERE h.id = d.run_id)",
            sqlite:
                "SELECT d.run_id FROM (SELECT run_id FROM dag_runs ORDER BY run_id LIMIT $1) AS d
                     WHERE NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.id = d.run_id)",
        };
        let gone = self.query(Statement::new(sql, params![limit])).await?;
        let mut removed = 0;
        for row in &gone {
            let run: Uuid = row.get(0)?;
            let steps = Statement::new("DELETE FROM dag_steps WHERE dag_run_id = $1", params![run]);
            removed += self.execute(steps).await?;
            let header = Statement::new("DELETE FROM dag_runs WHERE run_id = $1", params![run]);
            removed += self.execute(header).await?;
        }
        Ok(removed)
    }
}

/// The stored number of an item: 0 for the step as a whole.
pub(crate) fn item_number(key: StepKey) -> i64 {
    key.item.map_or(0, |item| i64::from(item) + 1)
}

fn key(step: u32, item: u32) -> StepKey {
    StepKey { step, item: item.checked_sub(1) }
}

fn outcome(number: i64) -> Result<Outcome> {
    Outcome::from_number(number)
        .ok_or_else(|| StoreError::Unreadable(format!("outcome {number} of a step")))
}

fn outcome_at(row: &Row, column: usize) -> Result<Option<Outcome>> {
    row.get::<Option<i64>>(column)?.map(outcome).transpose()
}

fn dag_run(row: &Row) -> Result<DagRun> {
    let control: i64 = row.get(5)?;
    let control = Control::from_number(control)
        .ok_or_else(|| StoreError::Unreadable(format!("control {control} of a DAG run")))?;
    let forced: String = row.get(8)?;
    let forced = forced.split(',').filter_map(|step| step.parse().ok()).collect();
    Ok(DagRun {
        run: RunId(row.get(0)?),
        job: JobId(row.get(1)?),
        tenant: TenantId(row.get(2)?),
        version: row.get(3)?,
        revision: row.get(4)?,
        control,
        is_over: row.get(6)?,
        rerun_of: row.get::<Option<Uuid>>(7)?.map(RunId),
        forced,
        scheduled_for: row.get(9)?,
        parameters: row.get(10)?,
    })
}

fn step(row: &Row) -> Result<StepRecord> {
    let code: Option<String> = row.get(3)?;
    let text: Option<String> = row.get(4)?;
    let reason = code.and_then(|code| ReasonCode::from_name(&code));
    let by: Option<u32> = row.get(7)?;
    let by_item: Option<u32> = row.get(8)?;
    Ok(StepRecord {
        key: key(row.get(0)?, row.get(1)?),
        outcome: outcome_at(row, 2)?,
        reason: reason.map(|code| Reason { code, text: text.unwrap_or_default() }),
        run: row.get::<Option<Uuid>>(5)?.map(RunId),
        items: row.get(6)?,
        decided_by: by.map(|by| key(by, by_item.unwrap_or(0))),
        decided_at: row.get(9)?,
        ended_at: row.get(10)?,
        is_adopted: row.get(11)?,
    })
}

/// A DAG run as it is kept beside its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DagRun {
    /// Its run.
    pub run: RunId,
    /// The DAG.
    pub job: JobId,
    /// The tenant of the DAG.
    pub tenant: TenantId,
    /// The version of the DAG that it follows.
    pub version: u32,
    /// The number of decisions so far.
    pub revision: i64,
    /// State of the run apart from its steps.
    pub control: Control,
    /// Whether no step is left.
    pub is_over: bool,
    /// The run that it repeats.
    pub rerun_of: Option<RunId>,
    /// Steps that run although their rule would skip them.
    pub forced: Vec<u32>,
    /// The scheduled time.
    pub scheduled_for: Timestamp,
    /// The parameters, as a JSON object.
    pub parameters: Option<String>,
}

/// The end of a step's run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepEnd {
    /// The step.
    pub key: StepKey,
    /// Its run.
    pub run: RunId,
    /// How it ended; none if there is no such run.
    pub outcome: Option<Outcome>,
}

/// A decision about a DAG run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advance {
    /// The DAG run.
    pub run: RunId,
    /// The revision that it is based on.
    pub revision: i64,
    /// State of the run apart from its steps.
    pub control: Control,
    /// Records that are new or have changed, each key once.
    pub records: Vec<StepRecord>,
    /// The runs of the released steps.
    pub runs: Vec<NewRun>,
    /// Whether no step is left: the DAG run can be claimed.
    pub is_over: bool,
}

/// Result of writing decisions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advanced {
    /// For each whether it was written.
    pub written: Vec<bool>,
    /// New runs that the node holds.
    pub claimed: Vec<ClaimedRun>,
    /// Jobs that were changed lately, with their versions, if runs were claimed.
    pub changed_jobs: Vec<(JobId, u32)>,
}

impl DagRun {
    /// The stored text of its forced steps.
    pub(crate) fn forced_text(&self) -> String {
        self.forced.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }
}

/// Whether the run of a step is one of another job.
pub(crate) fn is_called(record: &StepRecord) -> bool {
    !record.is_adopted && record.run.is_some_and(RunId::is_called)
}
