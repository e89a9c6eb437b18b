//! History whose retention is over is deleted in small batches.

use domain::id::RunId;
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
    // Runs of one job past their retention.
    let sql = "SELECT r.seq, r.id FROM runs AS r CROSS JOIN ends AS e ON e.seq = r.seq
               WHERE r.job_id = ?1
               AND e.finished_at < CASE WHEN e.outcome IN (2, 4) THEN ?3 ELSE ?2 END
               ORDER BY r.id LIMIT ?4";
    let mut gone = delete(tx, sql, (job.0, before, failed_before, limit))?;
    if let Some(keep) = cut.keep_last {
        let room = u64::from(limit).saturating_sub(gone) as u32;
        // All but the newest ended runs of one job. Child runs do not count.
        let sql = "SELECT r.seq, r.id FROM runs AS r CROSS JOIN ends AS e ON e.seq = r.seq
                   WHERE r.job_id = ?1 AND r.origin NOT IN (6, 8)
                   ORDER BY r.id DESC LIMIT ?3 OFFSET ?2";
        gone += delete_surplus(tx, sql, (job.0, keep, room), room)?;
    }
    if let Some(sample) = cut.sample {
        let room = u64::from(limit).saturating_sub(gone) as u32;
        let since = RunId::last_of(sample.since);
        let values = (job.0, room, sample.kept_below, us(sample.before), since.0);
        // Completed runs that are not in the sample, but the newest.
        let sql = "SELECT r.seq, r.id FROM runs AS r CROSS JOIN ends AS e ON e.seq = r.seq
                   WHERE r.job_id = ?1 AND r.id > ?5 AND r.origin NOT IN (6, 8)
                       AND e.outcome = 1 AND e.finished_at < ?4 AND substr(r.id, 13, 4) >= ?3
                   ORDER BY r.id DESC LIMIT ?2 OFFSET 1";
        gone += delete_surplus(tx, sql, values, room)?;
    }
    if gone == 0 {
        // A deleted job without any run needs no rule any more.
        let sql = "UPDATE jobs SET own_retention = 0
                   WHERE id = ?1 AND own_retention AND state = 'DELETED'
                       AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.job_id = ?1)";
        tx.connection.prepare_cached(sql)?.execute((job.0,))?;
    }
    Ok(gone)
}

/// Deletes the runs that a query finds, oldest first. The child runs of a run go before it.
fn delete_surplus(tx: &Tx<'_>, sql: &str, values: impl Params, limit: u32) -> Result<u64> {
    let mut rows = Vec::new();
    for whole in find(tx, sql, values)?.into_iter().rev() {
        let room = limit.saturating_sub(rows.len() as u32);
        // Child runs of an ended parent run, as far as they are there.
        let sql = "SELECT r.seq, r.id FROM parts AS p CROSS JOIN runs AS r ON r.id = p.run_id
                   WHERE p.parent_id = ?1 LIMIT ?2";
        rows.extend(find(tx, sql, (whole.1, room))?);
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
    let sql = "DELETE FROM ends WHERE seq = ?1";
    let mut ends = connection.prepare_cached(sql)?;
    // The attempts of a run that is gone.
    let sql = "DELETE FROM attempts WHERE run_id = ?1";
    let mut attempts = connection.prepare_cached(sql)?;
    // The outputs of a run that is gone.
    let sql = "DELETE FROM outputs WHERE run_id = ?1";
    let mut outputs = connection.prepare_cached(sql)?;
    let sql = "DELETE FROM acknowledgements WHERE run_id = ?1";
    let mut acknowledgements = connection.prepare_cached(sql)?;
    for (seq, run) in found {
        runs.execute((seq,))?;
        ends.execute((seq,))?;
        attempts.execute((run,))?;
        outputs.execute((run,))?;
        acknowledgements.execute((run,))?;
    }
    Ok(found.len() as u64)
}
