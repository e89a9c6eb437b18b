//! Reading runs back, live or ended.

use std::collections::BTreeMap;

use domain::id::{JobId, NodeId, RunId, TenantId, UserId};
use domain::run::{RunState, Wait};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::Shared;
use super::pipeline::values;
use super::row::{at, attempt_end, live, origin, outcome, unsigned};
use crate::filter::{Part, Seen, merge};
use crate::{
    AttemptView, Counts, LiveCounts, Page, Result, RunFilter, RunView, RunsOf, token_of_mark,
};

impl Shared {
    pub(super) async fn run(&self, id: RunId) -> Result<Option<RunView>> {
        Ok(self.views(&[id]).await?.pop())
    }

    pub(super) async fn list_runs(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: u32,
    ) -> Result<Page<RunView, RunId>> {
        let (since, until) = filter.ids(before);
        let look = filter.look(limit);
        let live = live_states(filter);
        let origin = filter.origin.map(|origin| origin as i16);
        let enough = i64::from(limit) + 1;
        let outcomes: Vec<i16> = filter.outcomes().iter().map(|outcome| *outcome as i16).collect();
        // Both kinds in one statement: a run that ends meanwhile is seen once.
        let rows = match filter.of {
            RunsOf::Tenant(TenantId(of)) => {
                let values =
                    values![of, since.0, until.0, i64::from(look), live, origin, enough, outcomes];
                self.query(sql!("list_of_tenant"), values).await?
            }
            RunsOf::Job(JobId(of)) => {
                let values =
                    values![of, since.0, until.0, i64::from(look), live, origin, enough, outcomes];
                self.query(sql!("list_of_job"), values).await?
            }
            RunsOf::DeadLetters { tenant, .. } => {
                let values = values![tenant.0, until.0, i64::from(look)];
                self.query(sql!("list_dead"), values).await?
            }
        };
        let mut sources: BTreeMap<i16, Vec<&Row>> = BTreeMap::new();
        for row in &rows {
            sources.entry(row.try_get(0)?).or_default().push(row);
        }
        let mut parts = Vec::with_capacity(sources.len());
        for (part, rows) in &mut sources {
            let mut seen = rows.iter().map(|row| seen(row, filter)).collect::<Result<Vec<_>>>()?;
            seen.sort_unstable_by_key(|seen| std::cmp::Reverse(seen.id));
            let look = (*part > 0).then_some(look);
            parts.push(Part::read(seen.into_iter().map(Ok), filter, look, limit)?);
        }
        let page = merge(parts, limit);
        let mut items = self.views(&page.items).await?;
        items.retain(|run| filter.still(run));
        Ok(Page { items, next: page.next })
    }

    /// Runs by id, newest first.
    pub(super) async fn views(&self, ids: &[RunId]) -> Result<Vec<RunView>> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        // A run moves from live to ended, so it is found if it is looked for in that order. One
        // that moved in between is found twice.
        let [live, ended] = self.query_both([sql!("view_live"), sql!("view_ended")], &ids).await?;
        let live = live.iter().map(view_live);
        let ended = ended.iter().map(view_ended);
        let mut views = live.chain(ended).collect::<Result<Vec<_>>>()?;
        views.sort_by_key(|view| std::cmp::Reverse(view.id));
        views.dedup_by_key(|view| view.id);
        Ok(views)
    }

    /// The rows of two statements about the same runs, one after the other in one round trip.
    async fn query_both(&self, sql: [&str; 2], ids: &Vec<Uuid>) -> Result<[Vec<Row>; 2]> {
        let client = self.pool.get().await?;
        let first = client.prepare_cached(sql[0]).await?;
        let second = client.prepare_cached(sql[1]).await?;
        // Statements leave in the order in which they are polled for the first time.
        let values: [&(dyn ToSql + Sync); 1] = [ids];
        let (first, second) =
            tokio::try_join!(client.query(&first, &values), client.query(&second, &values))?;
        Ok([first, second])
    }

    pub(super) async fn attempts(&self, run: RunId) -> Result<Vec<AttemptView>> {
        self.query(sql!("view_attempts"), values![run.0]).await?.iter().map(attempt).collect()
    }

    pub(super) async fn counts(&self) -> Result<Counts> {
        let row = self.query_one(sql!("counts"), values![]).await?;
        let count =
            |column: usize| -> Result<u64> { Ok(row.try_get::<_, i64>(column)?.cast_unsigned()) };
        Ok(Counts {
            jobs: count(0)?,
            live: LiveCounts {
                pending: count(1)?,
                queued: count(2)?,
                running: count(3)?,
                oldest_due: row.try_get::<_, Option<i64>>(4)?.map(at),
            },
        })
    }
}

/// The live states that are let through, by number.
fn live_states(filter: &RunFilter) -> Vec<i16> {
    let number = |state: &RunState| match state {
        RunState::Pending => 0,
        RunState::Queued => 1,
        RunState::Running | RunState::Ended(_) => 2,
        RunState::Held => 3,
    };
    filter.live_states().iter().map(number).collect()
}

/// part, id, origin, outcome, job_id. A live run was found by its state.
fn seen(row: &Row, filter: &RunFilter) -> Result<Seen> {
    let ended: Option<i16> = row.try_get(3)?;
    let live = filter.live_states().first().copied().unwrap_or(RunState::Pending);
    Ok(Seen {
        id: RunId(row.try_get(1)?),
        origin: origin(row.try_get(2)?)?,
        state: ended.map(outcome).transpose()?.map_or(live, RunState::Ended),
        job: JobId(row.try_get::<_, Option<Uuid>>(4)?.unwrap_or_default()),
    })
}

fn view_live(row: &Row) -> Result<RunView> {
    let claimed = live(row)?;
    let run = claimed.run;
    let wait = Wait::from_number(row.try_get::<_, i16>(15)?.into());
    let now = at(row.try_get(16)?);
    let holder: Option<Uuid> = row.try_get(17)?;
    let last_node: Option<Uuid> = row.try_get(18)?;
    let state = RunState::of_live(run.due_at <= now, holder.is_some(), wait);
    let is_under_way = state == RunState::Running && holder.is_some();
    let started_at: Option<i64> = row.try_get(if is_under_way { 23 } else { 20 })?;
    Ok(RunView {
        id: run.id,
        job: run.job,
        tenant: run.tenant,
        job_version: run.job_version,
        state,
        wait,
        reason: None,
        reason_text: None,
        scheduled_for: run.scheduled_for,
        scheduled_last: run.scheduled_for,
        count: 1,
        origin: run.origin,
        coalesced: run.origin.split_coalesced(run.coalesced).0,
        backfill_concurrency: run.backfill_limit(),
        shard: run.shard,
        due_at: run.due_at,
        attempts: claimed.attempts,
        lost: claimed.lost,
        node: holder.or(last_node).map(NodeId),
        fence: token_of_mark(row.try_get(19)?),
        started_at: started_at.map(at),
        finished_at: None,
        message: row.try_get(21)?,
        error: row.try_get(22)?,
        result: None,
        rows_affected: None,
        dead_letter: false,
        parameters: run.parameters,
        requested_by: row.try_get::<_, Option<Uuid>>(24)?.map(UserId),
        created_at: at(row.try_get(25)?),
        exactly_once: row.try_get(26)?,
    })
}

fn view_ended(row: &Row) -> Result<RunView> {
    let origin = origin(row.try_get(10)?)?;
    let (coalesced, backfill_concurrency) = origin.split_coalesced(unsigned(row.try_get(11)?));
    Ok(RunView {
        id: RunId(row.try_get(0)?),
        job: JobId(row.try_get(1)?),
        tenant: TenantId(row.try_get(2)?),
        job_version: unsigned(row.try_get(3)?),
        state: RunState::Ended(outcome(row.try_get(4)?)?),
        wait: None,
        reason: row.try_get(5)?,
        reason_text: row.try_get(6)?,
        scheduled_for: at(row.try_get(7)?),
        scheduled_last: at(row.try_get(8)?),
        count: row.try_get::<_, i64>(9)?.cast_unsigned(),
        origin,
        coalesced,
        backfill_concurrency,
        shard: row.try_get(25)?,
        due_at: at(row.try_get(12)?),
        attempts: unsigned(row.try_get(13)?),
        lost: unsigned(row.try_get(14)?),
        node: row.try_get::<_, Option<Uuid>>(15)?.map(NodeId),
        fence: token_of_mark(row.try_get(16)?),
        started_at: row.try_get::<_, Option<i64>>(17)?.map(at),
        finished_at: Some(at(row.try_get(18)?)),
        message: row.try_get(19)?,
        error: row.try_get(20)?,
        result: row.try_get(21)?,
        rows_affected: row.try_get::<_, Option<i64>>(22)?.map(i64::cast_unsigned),
        dead_letter: row.try_get(23)?,
        parameters: row.try_get(24)?,
        requested_by: row.try_get::<_, Option<Uuid>>(26)?.map(UserId),
        created_at: at(row.try_get(27)?),
        exactly_once: row.try_get(28)?,
    })
}

/// number, fence, node_id, started_at, finished_at, attempt_end, message, error, details
fn attempt(row: &Row) -> Result<AttemptView> {
    Ok(AttemptView {
        number: unsigned(row.try_get(0)?),
        fence: token_of_mark(row.try_get(1)?),
        node: NodeId(row.try_get(2)?),
        started_at: at(row.try_get(3)?),
        finished_at: at(row.try_get(4)?),
        end: attempt_end(row.try_get(5)?)?.name().to_owned(),
        message: row.try_get(6)?,
        error: row.try_get(7)?,
        details: row.try_get(8)?,
    })
}
