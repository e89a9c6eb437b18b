//! History that nobody wants any more goes in small batches.

use domain::id::{JobId, RunId};
use rusqlite::Params;
use uuid::Uuid;

use super::row::us;
use super::writer::Tx;
use crate::lane::LANES;
use crate::{Result, RetentionCutoff};

pub(super) fn prune(tx: &mut Tx<'_>, cut: &RetentionCutoff, limit: u32) -> Result<u64> {
    let (before, failed_before) = (us(cut.before), us(cut.failed_before));
    let Some(job) = cut.job else {
        // An id carries the nominal time, and nothing ends before that.
        let newest = RunId::last_of(cut.before.max(cut.failed_before));
        let gone = delete(tx, sql!("prune_age"), (newest.0, before, failed_before, limit))?;
        tx.connection.prepare_cached(sql!("place_forget"))?.execute((LANES,))?;
        return Ok(gone);
    };
    let mut gone = delete(tx, sql!("prune_age_of_job"), (job.0, before, failed_before, limit))?;
    if let Some(keep) = cut.keep_last {
        let room = u64::from(limit).saturating_sub(gone) as u32;
        gone += delete_surplus(tx, job, keep, room)?;
    }
    if gone == 0 {
        tx.connection.prepare_cached(sql!("job_rule_over"))?.execute((job.0,))?;
    }
    Ok(gone)
}

/// Deletes all but the newest runs of a job. What a run was divided into goes before it.
fn delete_surplus(tx: &Tx<'_>, job: JobId, keep: u32, limit: u32) -> Result<u64> {
    let mut rows = Vec::new();
    for whole in find(tx, sql!("prune_count_of_job"), (job.0, keep, limit))?.into_iter().rev() {
        let room = limit.saturating_sub(rows.len() as u32);
        rows.extend(find(tx, sql!("prune_parts_of_run"), (whole.1, room))?);
        rows.push(whole);
    }
    rows.truncate(limit as usize);
    delete_all(tx, &rows)
}

/// Deletes the runs that a query finds.
fn delete(tx: &Tx<'_>, sql: &str, values: impl Params) -> Result<u64> {
    delete_all(tx, &find(tx, sql, values)?)
}

fn find(tx: &Tx<'_>, sql: &str, values: impl Params) -> Result<Vec<(i64, Uuid)>> {
    let mut query = tx.connection.prepare_cached(sql)?;
    let found = query.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Deletes runs with all that is known of them.
fn delete_all(tx: &Tx<'_>, found: &[(i64, Uuid)]) -> Result<u64> {
    let connection = tx.connection;
    let mut runs = connection.prepare_cached(sql!("run_vanish"))?;
    let mut ends = connection.prepare_cached(sql!("end_delete"))?;
    let mut attempts = connection.prepare_cached(sql!("prune_attempts"))?;
    let mut outputs = connection.prepare_cached(sql!("output_delete"))?;
    let mut acknowledgements = connection.prepare_cached(sql!("ack_delete"))?;
    for (seq, run) in found {
        runs.execute((seq,))?;
        ends.execute((seq,))?;
        attempts.execute((run,))?;
        outputs.execute((run,))?;
        acknowledgements.execute((run,))?;
    }
    Ok(found.len() as u64)
}
