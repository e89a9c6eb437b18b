//! Reading runs back, live or ended.

use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::run::RunState;
use jiff::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};
use uuid::Uuid;

use super::history::outcome_of;
use super::row::{at, at_opt, claimed, origin, us};
use crate::filter::{Part, Seen, merge};
use crate::{AttemptView, Counts, Page, Result, RunFilter, RunView, RunsOf};

pub(super) fn run(connection: &Connection, id: RunId, now: Timestamp) -> Result<Option<RunView>> {
    let mut query = connection.prepare_cached(sql!("view_live"))?;
    if let Some(row) = query.query((id.0,))?.next()? {
        return live(row, now).map(Some);
    }
    let mut query = connection.prepare_cached(sql!("view_history"))?;
    let mut rows = query.query((id.0,))?;
    rows.next()?.map(ended).transpose()
}

pub(super) fn list_runs(
    connection: &Connection,
    filter: &RunFilter,
    before: Option<RunId>,
    limit: u32,
    now: Timestamp,
) -> Result<Page<RunView, RunId>> {
    // One snapshot: a run that ends meanwhile must not be seen twice.
    let _snapshot = connection.unchecked_transaction()?;
    let (since, until) = filter.ids(before);
    let mut parts = Vec::new();
    if !filter.live_states().is_empty() {
        let (sql, of) = match filter.of {
            RunsOf::Job(job) => (sql!("list_live_of_job"), job.0),
            RunsOf::Tenant(tenant) | RunsOf::DeadLetters { tenant, .. } => {
                (sql!("list_live_of_tenant"), tenant.0)
            }
        };
        let mut query = connection.prepare_cached(sql)?;
        let rows = query.query_and_then((since.0, until.0, of), |row| seen_live(row, now))?;
        parts.push(Part::read(rows, filter, None, limit)?);
    }
    let look = Some(filter.look(limit));
    match filter.of {
        RunsOf::Tenant(tenant) => {
            let mut query = connection.prepare_cached(sql!("list_ended_of_tenant"))?;
            for outcome in filter.outcomes() {
                let of = (since.0, until.0, tenant.0, outcome as i64);
                parts.push(Part::read(query.query_and_then(of, seen_ended)?, filter, look, limit)?);
            }
        }
        RunsOf::Job(job) if !filter.outcomes().is_empty() => {
            let mut query = connection.prepare_cached(sql!("list_ended_of_job"))?;
            let rows = query.query_and_then((since.0, until.0, job.0), seen_ended)?;
            parts.push(Part::read(rows, filter, look, limit)?);
        }
        RunsOf::Job(_) => {}
        RunsOf::DeadLetters { tenant, .. } => {
            let mut query = connection.prepare_cached(sql!("list_dead"))?;
            let rows = query.query_and_then((since.0, until.0, tenant.0), seen_ended)?;
            parts.push(Part::read(rows, filter, look, limit)?);
        }
    }
    let page = merge(parts, limit);
    let mut items = Vec::with_capacity(page.items.len());
    for id in page.items {
        items.extend(run(connection, id, now)?);
    }
    Ok(Page { items, next: page.next })
}

/// id, job_id, origin, due_at, wait, node_id
fn seen_live(row: &Row<'_>, now: Timestamp) -> Result<Seen> {
    let (due_at, wait): (i64, i64) = (row.get(3)?, row.get(4)?);
    let held = row.get_ref(5)? != ValueRef::Null;
    Ok(Seen {
        id: RunId(row.get(0)?),
        job: JobId(row.get(1)?),
        origin: origin(row.get(2)?)?,
        state: RunState::of_live(due_at <= us(now), held, wait != 0),
    })
}

/// id, job_id, origin, outcome
fn seen_ended(row: &Row<'_>) -> Result<Seen> {
    Ok(Seen {
        id: RunId(row.get(0)?),
        job: JobId(row.get(1)?),
        origin: origin(row.get(2)?)?,
        state: RunState::Ended(outcome_of(row.get(3)?)?),
    })
}

fn live(row: &Row<'_>, now: Timestamp) -> Result<RunView> {
    let claimed = claimed(row, 0)?;
    let wait: i64 = row.get(15)?;
    let holder: Option<Uuid> = row.get(16)?;
    let last_node: Option<Uuid> = row.get(17)?;
    let run = claimed.run;
    Ok(RunView {
        id: run.id,
        job: run.job,
        tenant: run.tenant,
        job_version: run.job_version,
        state: RunState::of_live(run.due_at <= now, holder.is_some(), wait != 0),
        reason: None,
        reason_text: None,
        scheduled_for: run.scheduled_for,
        scheduled_last: run.scheduled_for,
        count: 1,
        origin: run.origin,
        coalesced: run.coalesced,
        due_at: run.due_at,
        attempts: claimed.attempts,
        lost: claimed.lost,
        node: holder.or(last_node).map(NodeId),
        fence: row.get(18)?,
        started_at: at_opt(row.get(19)?)?,
        finished_at: None,
        message: row.get(20)?,
        error: row.get(21)?,
        result: None,
        rows_affected: None,
        dead_letter: false,
        parameters: run.parameters,
    })
}

fn ended(row: &Row<'_>) -> Result<RunView> {
    Ok(RunView {
        id: RunId(row.get("id")?),
        job: JobId(row.get("job_id")?),
        tenant: TenantId(row.get("tenant_id")?),
        job_version: row.get("job_version")?,
        state: RunState::Ended(outcome_of(row.get("outcome")?)?),
        reason: row.get("reason")?,
        reason_text: row.get("reason_text")?,
        scheduled_for: at(row.get("scheduled_for")?)?,
        scheduled_last: at(row.get("scheduled_last")?)?,
        count: row.get::<_, i64>("count")? as u64,
        origin: origin(row.get("origin")?)?,
        coalesced: row.get("coalesced")?,
        due_at: at(row.get("due_at")?)?,
        attempts: row.get("attempts")?,
        lost: row.get("lost")?,
        node: row.get::<_, Option<Uuid>>("node_id")?.map(NodeId),
        fence: row.get("fence")?,
        started_at: at_opt(row.get("started_at")?)?,
        finished_at: at_opt(row.get("finished_at")?)?,
        message: row.get("message")?,
        error: row.get("error")?,
        result: row.get("result")?,
        rows_affected: row.get::<_, Option<i64>>("rows_affected")?.map(|rows| rows as u64),
        dead_letter: row.get("dead_letter")?,
        parameters: row.get("parameters")?,
    })
}

pub(super) fn attempts(connection: &Connection, run: RunId) -> Result<Vec<AttemptView>> {
    let _snapshot = connection.unchecked_transaction()?;
    let mut query = connection.prepare_cached(sql!("attempt_list"))?;
    let mut rows = query.query((run.0,))?;
    let mut attempts = Vec::new();
    while let Some(row) = rows.next()? {
        attempts.push(attempt(row)?);
    }
    // The last attempt is part of the run's own record.
    let mut query = connection.prepare_cached(sql!("attempt_last"))?;
    if let Some(last) = query.query_row((run.0,), |row| Ok(attempt(row))).optional()? {
        attempts.push(last?);
    }
    Ok(attempts)
}

/// number, fence, node_id, started_at, finished_at, attempt_end, message, error, details
fn attempt(row: &Row<'_>) -> Result<AttemptView> {
    Ok(AttemptView {
        number: row.get(0)?,
        fence: row.get(1)?,
        node: NodeId(row.get(2)?),
        started_at: at(row.get(3)?)?,
        finished_at: at(row.get(4)?)?,
        end: row.get(5)?,
        message: row.get(6)?,
        error: row.get(7)?,
        details: row.get(8)?,
    })
}

pub(super) fn counts(connection: &Connection, now: Timestamp) -> Result<Counts> {
    let jobs: i64 =
        connection.prepare_cached(sql!("count_jobs"))?.query_row([], |row| row.get(0))?;
    let mut query = connection.prepare_cached(sql!("count_runs"))?;
    let (queued, held, pending, oldest): (i64, i64, i64, Option<i64>) = query
        .query_row((us(now),), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    Ok(Counts {
        jobs: jobs as u64,
        queued: queued as u64,
        held: held as u64,
        pending: pending as u64,
        oldest_due: at_opt(oldest)?,
    })
}
