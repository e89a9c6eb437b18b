//! Asking for the end of a run.

use domain::id::{NodeId, RunId};
use domain::run::{Outcome, Reason};
use rusqlite::OptionalExtension;
use uuid::Uuid;

use super::finish::{Taken, taken};
use super::history::{insert_history, outcome_of};
use super::wake::Freed;
use super::writer::Tx;
use crate::{Cancelled, Result};

pub(super) fn cancel(tx: &mut Tx<'_>, run: RunId, reason: &Reason) -> Result<Cancelled> {
    let held: Option<Uuid> = tx
        .connection
        .prepare_cached(sql!("run_cancel"))?
        .query_row((run.0, reason.code.name(), &reason.text), |row| row.get(0))
        .optional()?;
    if let Some(node) = held {
        return Ok(Cancelled::Requested(NodeId(node)));
    }
    let unheld = tx
        .connection
        .prepare_cached(sql!("run_take_unheld"))?
        .query_row((run.0,), taken)
        .optional()?;
    if let Some(taken) = unheld {
        end_unheld(tx, run, &taken, reason)?;
        return Ok(Cancelled::Ended);
    }
    let known: Option<i64> = tx
        .connection
        .prepare_cached(sql!("history_known"))?
        .query_row((run.0,), |row| row.get(0))
        .optional()?;
    known
        .map_or(Ok(Cancelled::NotFound), |outcome| Ok(Cancelled::EndedBefore(outcome_of(outcome)?)))
}

fn end_unheld(tx: &mut Tx<'_>, run: RunId, taken: &Taken, reason: &Reason) -> Result<()> {
    let mut row = taken.history(run, Outcome::Cancelled);
    row.reason = Some((reason.code.name(), &reason.text));
    let finished_at = insert_history(tx, &row)?;
    let mut freed = Freed::default();
    freed.ended(taken.job, Outcome::Cancelled, finished_at);
    freed.wake(tx)
}
