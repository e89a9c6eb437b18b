//! Ended runs of a job in the order in which they began.

use std::collections::HashMap;

use domain::id::RunId;
use tokio_postgres::Row;
use uuid::Uuid;

use super::Shared;
use super::pipeline::values;
use crate::starts::{Start, page};
use crate::{Page, Result, RunView, StartFilter, StartKey};

impl Shared {
    pub(super) async fn latest_starts(
        &self,
        filter: &StartFilter,
        after: Option<StartKey>,
        limit: u32,
    ) -> Result<Page<RunView, StartKey>> {
        let (job, place, most) = (filter.job.0, Start::of(after), i64::from(limit));
        let outcomes: Vec<i16> = filter.outcomes().iter().map(|outcome| *outcome as i16).collect();
        let values = values![job, place.began, place.id.0, most, outcomes.clone(), filter.retried];
        let late = self.query(sql!("start_late"), values).await?;
        let mut found = late.iter().map(start).collect::<Result<Vec<_>>>()?;
        // Enough runs are known, so those with an earlier nominal time are left out.
        let mut first = oldest(&found, limit).map_or(Uuid::nil(), |last| last.0);
        for sql in [sql!("start_by_id"), sql!("start_latest")] {
            let values = values![
                job,
                place.began,
                place.id.0,
                most,
                outcomes.clone(),
                filter.retried,
                first,
                place.last_id().0
            ];
            let rows = self.query(sql, values).await?;
            let by_id = rows.iter().map(start).collect::<Result<Vec<_>>>()?;
            let oldest = oldest(&by_id, limit);
            found.extend(by_id);
            // All of them, if there are fewer than the limit.
            let Some(oldest) = oldest else { break };
            first = first.max(oldest.0);
        }
        let (starts, next) = page(found, limit);
        let ids: Vec<RunId> = starts.iter().map(|start| start.id).collect();
        let mut views: HashMap<RunId, RunView> =
            self.views(&ids).await?.into_iter().map(|run| (run.id, run)).collect();
        Ok(Page { items: ids.iter().filter_map(|id| views.remove(id)).collect(), next })
    }
}

/// The first id that a run can have that began in time and is among the first `limit`, when there
/// are so many.
fn oldest(found: &[Start], limit: u32) -> Option<RunId> {
    let last = found.iter().map(|start| start.began).min();
    last.filter(|_| found.len() >= limit as usize).map(Start::first_id)
}

/// id, when it began
fn start(row: &Row) -> Result<Start> {
    Ok(Start { id: RunId(row.try_get(0)?), began: row.try_get(1)? })
}
