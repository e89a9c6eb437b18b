//! Queries about runs that clients ask and the engine's loops do not need.

use std::future::Future;

use domain::id::{JobId, RunId, TenantId};
use domain::run::{Outcome, Wait};
use domain::slot::SlotKind;
use jiff::Timestamp;

use crate::lane::LANES;
use crate::records::{Records, Sql, Statement, params};
use crate::{Page, Result, RunView, StartFilter, StartKey, Store, StoreError};

/// A store that answers queries about runs.
pub trait RunQueries: Store {
    /// The output of an attempt as its agent compressed it, if it is short and was kept.
    fn attempt_output(
        &self,
        run: RunId,
        number: u32,
    ) -> impl Future<Output = Result<Option<Vec<u8>>>> + Send;

    /// Live runs of a tenant by state.
    fn live(&self, tenant: TenantId) -> impl Future<Output = Result<LiveCounts>> + Send;

    /// Wait of a live run; none if the run has ended or does not exist.
    fn live_run(&self, run: RunId) -> impl Future<Output = Result<Option<LiveRun>>> + Send;

    /// For each of these jobs the newest of its latest runs that was executed and has ended; a job
    /// without one is left out.
    fn last_runs(&self, jobs: &[JobId]) -> impl Future<Output = Result<Vec<LastRun>>> + Send;

    /// The newest ended runs of each of these jobs, at most `limit` of each, newest first. Times
    /// without a run are among them, runs of shards are not.
    fn recent_ends(
        &self,
        jobs: &[JobId],
        limit: u32,
    ) -> impl Future<Output = Result<Vec<RecentEnd>>> + Send;

    /// Ended runs of a job: those that never began first, then by the start of their last attempt,
    /// latest first, after a position in this order; rows for times without a run included. The
    /// cost of a page does not grow with history.
    fn latest_starts(
        &self,
        filter: &StartFilter,
        after: Option<StartKey>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<RunView, StartKey>>> + Send;

    /// Runs of all tenants, live and ended ones, with attempts that were not their last word,
    /// newest first and older than the given one.
    fn retried(
        &self,
        before: Option<RunId>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<RunView, RunId>>> + Send;
}

/// The last run of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRun {
    /// The job.
    pub job: JobId,
    /// The time that the run stood for.
    pub scheduled_for: Timestamp,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a run of a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecentEnd {
    /// The job.
    pub job: JobId,
    /// The run.
    pub run: RunId,
    /// The time that the run stood for.
    pub scheduled_for: Timestamp,
    /// How it ended.
    pub outcome: Outcome,
    /// The version of the job that made it.
    pub job_version: u32,
}

/// Live runs counted by [`RunState`](domain::run::RunState).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveCounts {
    /// They wait for their time or for other runs.
    pub pending: u64,
    /// They are due and no node holds them.
    pub queued: u64,
    /// They are due and a node holds them, or they wait for their own parts.
    pub running: u64,
    /// When the oldest queued one was due that any node may execute. A run with a placement request
    /// may wait for a node that is not there, which is no fault of the others.
    pub oldest_due: Option<Timestamp>,
}

/// Wait of a live run, and its position among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRun {
    /// Its wait besides its time and a node.
    pub wait: Option<Wait>,
    /// When that wait ends at the latest.
    pub wait_until: Option<Timestamp>,
    /// The code and text of the reason for which its end was requested, if it was.
    pub cancel: Option<(String, String)>,
    /// 0 to 9, higher is more urgent.
    pub priority: u8,
    /// The kind of slot that it takes.
    pub slot: SlotKind,
    /// Runs of its tenant that can be claimed before it, at most [`AHEAD_MAX`]; 0 if it waits for
    /// something else.
    pub ahead: u32,
    /// Runs of its job that wait in line before it, at most [`AHEAD_MAX`].
    pub line_ahead: u32,
}

/// Maximum number of runs that are counted before another one.
pub const AHEAD_MAX: u32 = 1_000;

/// The reason of a request to cancel.
pub(crate) fn cancel_reason(
    code: Option<String>,
    text: Option<String>,
) -> Option<(String, String)> {
    code.map(|code| (code, text.unwrap_or_default()))
}

/// The output of an attempt, for both databases.
pub(crate) async fn attempt_output(
    store: &impl Records,
    run: RunId,
    number: u32,
) -> Result<Option<Vec<u8>>> {
    let sql = "SELECT frames FROM outputs WHERE run_id = $1 AND number = $2";
    let rows = store.query(Statement::new(sql, params![run.0, number])).await?;
    rows.first().map(|row| row.get(0)).transpose()
}

/// Live runs of a tenant by state, for both databases, which keep live runs in different tables. A
/// run that waits for earlier runs of its job (1) is queued, one that waits for its child runs (4)
/// is running.
pub(crate) async fn live(store: &impl Records, tenant: TenantId) -> Result<LiveCounts> {
    let sql = Sql::Differs {
        postgres: include_str!("../sql/postgres/count_live_of_tenant.sql"),
        sqlite: include_str!("../sql/sqlite/count_live_of_tenant.sql"),
    };
    let rows = store.query(Statement::new(sql, params![tenant.0, LANES])).await?;
    let row = rows.first().ok_or_else(StoreError::no_row)?;
    Ok(LiveCounts {
        pending: row.get(0)?,
        queued: row.get(1)?,
        running: row.get(2)?,
        oldest_due: row.get(3)?,
    })
}
