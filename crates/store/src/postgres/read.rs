//! Reading runs back, live or ended.

use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::run::RunState;
use tokio_postgres::Row;
use uuid::Uuid;

use super::Shared;
use super::pipeline::values;
use super::row::{at, attempt_end, live, origin, outcome, unsigned};
use crate::{AttemptView, Counts, Page, Result, RunView};

impl Shared {
    pub(super) async fn run(&self, id: RunId) -> Result<Option<RunView>> {
        let none = None::<Uuid>;
        // A run moves from live to ended, so it is found if it is looked for in that order.
        let rows = self.query(sql!("view_live"), values![id.0, none, none, 0_i64]).await?;
        if let Some(row) = rows.first() {
            return view_live(row).map(Some);
        }
        let rows = self.query(sql!("view_ended"), values![id.0, none, none, 0_i64]).await?;
        rows.first().map(view_ended).transpose()
    }

    pub(super) async fn runs_of_job(
        &self,
        job: JobId,
        before: Option<RunId>,
        limit: u32,
    ) -> Result<Page<RunView, RunId>> {
        let before = before.map_or(Uuid::max(), |run| run.0);
        let asked = i64::from(limit) + 1;
        let none = None::<Uuid>;
        let rows = self.query(sql!("view_live"), values![none, job.0, before, asked]).await?;
        let mut items = rows.iter().map(view_live).collect::<Result<Vec<_>>>()?;
        let rows = self.query(sql!("view_ended"), values![none, job.0, before, asked]).await?;
        for row in &rows {
            let ended = view_ended(row)?;
            // It ended between the two looks.
            items.retain(|run| run.id != ended.id);
            items.push(ended);
        }
        items.sort_by_key(|run| std::cmp::Reverse(run.id));
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = items.last().filter(|_| more).map(|run| run.id);
        Ok(Page { items, next })
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
            queued: count(1)?,
            held: count(2)?,
            pending: count(3)?,
            oldest_due: row.try_get::<_, Option<i64>>(4)?.map(at),
        })
    }
}

fn view_live(row: &Row) -> Result<RunView> {
    let claimed = live(row)?;
    let run = claimed.run;
    let waiting = row.try_get::<_, i16>(15)? != 0;
    let now = at(row.try_get(16)?);
    let holder: Option<Uuid> = row.try_get(17)?;
    let last_node: Option<Uuid> = row.try_get(18)?;
    Ok(RunView {
        id: run.id,
        job: run.job,
        tenant: run.tenant,
        job_version: run.job_version,
        state: RunState::of_live(run.due_at <= now, holder.is_some(), waiting),
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
        fence: row.try_get(19)?,
        started_at: row.try_get::<_, Option<i64>>(20)?.map(at),
        finished_at: None,
        message: row.try_get(21)?,
        error: row.try_get(22)?,
        result: None,
        rows_affected: None,
        dead_letter: false,
        parameters: run.parameters,
    })
}

fn view_ended(row: &Row) -> Result<RunView> {
    Ok(RunView {
        id: RunId(row.try_get(0)?),
        job: JobId(row.try_get(1)?),
        tenant: TenantId(row.try_get(2)?),
        job_version: unsigned(row.try_get(3)?),
        state: RunState::Ended(outcome(row.try_get(4)?)?),
        reason: row.try_get(5)?,
        reason_text: row.try_get(6)?,
        scheduled_for: at(row.try_get(7)?),
        scheduled_last: at(row.try_get(8)?),
        count: row.try_get::<_, i64>(9)?.cast_unsigned(),
        origin: origin(row.try_get(10)?)?,
        coalesced: unsigned(row.try_get(11)?),
        due_at: at(row.try_get(12)?),
        attempts: unsigned(row.try_get(13)?),
        lost: unsigned(row.try_get(14)?),
        node: row.try_get::<_, Option<Uuid>>(15)?.map(NodeId),
        fence: row.try_get(16)?,
        started_at: row.try_get::<_, Option<i64>>(17)?.map(at),
        finished_at: Some(at(row.try_get(18)?)),
        message: row.try_get(19)?,
        error: row.try_get(20)?,
        result: row.try_get(21)?,
        rows_affected: row.try_get::<_, Option<i64>>(22)?.map(i64::cast_unsigned),
        dead_letter: row.try_get(23)?,
        parameters: row.try_get(24)?,
    })
}

/// number, fence, node_id, started_at, finished_at, attempt_end, message, error, details
fn attempt(row: &Row) -> Result<AttemptView> {
    Ok(AttemptView {
        number: unsigned(row.try_get(0)?),
        fence: row.try_get(1)?,
        node: NodeId(row.try_get(2)?),
        started_at: at(row.try_get(3)?),
        finished_at: at(row.try_get(4)?),
        end: attempt_end(row.try_get(5)?)?.name().to_owned(),
        message: row.try_get(6)?,
        error: row.try_get(7)?,
        details: row.try_get(8)?,
    })
}
