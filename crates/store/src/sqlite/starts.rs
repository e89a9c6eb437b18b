//! Ended runs of a job in the order in which they began.

use std::collections::BTreeSet;

use domain::id::RunId;
use jiff::Timestamp;
use rusqlite::{Connection, Row};

use super::ends::outcome_of;
use super::read::views;
use crate::starts::{Start, page};
use crate::{Page, Result, RunView, StartFilter, StartKey};

pub(super) fn latest(
    connection: &Connection,
    filter: &StartFilter,
    after: Option<StartKey>,
    limit: u32,
    now: Timestamp,
) -> Result<Page<RunView, StartKey>> {
    let snapshot = connection.unchecked_transaction()?;
    let (place, most) = (Start::of(after), limit as usize);
    let mut best: BTreeSet<Start> = BTreeSet::new();
    let mut query = snapshot.prepare_cached(sql!("start_late"))?;
    let late = (filter.job.0, place.began, place.id.0);
    for found in query.query_and_then(late, |row| start(row, filter))? {
        best.extend(found?);
        if best.len() >= most {
            break;
        }
    }
    let mut query = snapshot.prepare_cached(sql!("start_by_id"))?;
    let mut rows = query.query((filter.job.0, place.last_id().0))?;
    while let Some(row) = rows.next()? {
        let last = best.first().filter(|_| best.len() >= most);
        let id = RunId(row.get(0)?);
        if last.is_some_and(|last| id < Start::first_id(last.began)) {
            break;
        }
        best.extend(start(row, filter)?.filter(|start| *start < place));
        if best.len() > most {
            best.pop_first();
        }
    }
    let (starts, next) = page(best.into_iter().collect(), limit);
    let items = views(&snapshot, starts.iter().map(|start| start.id), now)?;
    Ok(Page { items, next })
}

/// id, when it began, outcome, attempts; none when the filter does not let it through.
fn start(row: &Row<'_>, filter: &StartFilter) -> Result<Option<Start>> {
    let lets = filter.lets(outcome_of(row.get(2)?)?, row.get(3)?);
    Ok(lets.then_some(Start { began: row.get(1)?, id: RunId(row.get(0)?) }))
}
