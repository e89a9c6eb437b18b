//! History that nobody wants any more goes in small batches.

use domain::id::RunId;
use uuid::Uuid;

use super::row::us;
use super::writer::Tx;
use crate::{Cut, Result};

pub(super) fn prune(tx: &mut Tx<'_>, cut: &Cut, limit: u32) -> Result<u64> {
    let (before, failed_before) = (us(cut.before), us(cut.failed_before));
    let mut gone = Vec::new();
    match cut.job {
        None => {
            // An id carries the nominal time, and nothing ends before that.
            let newest = RunId::of_request(cut.before.max(cut.failed_before), u128::MAX);
            let mut delete = tx.connection.prepare_cached(sql!("prune_age"))?;
            let rows = delete
                .query_map((newest.0, before, failed_before, limit), |row| row.get::<_, Uuid>(0))?;
            gone.extend(rows.collect::<rusqlite::Result<Vec<_>>>()?);
        }
        Some(job) => {
            let mut delete = tx.connection.prepare_cached(sql!("prune_age_of_job"))?;
            let rows = delete
                .query_map((job.0, before, failed_before, limit), |row| row.get::<_, Uuid>(0))?;
            gone.extend(rows.collect::<rusqlite::Result<Vec<_>>>()?);
            if let Some(keep) = cut.keep_last {
                let room = limit.saturating_sub(gone.len() as u32);
                let mut delete = tx.connection.prepare_cached(sql!("prune_count_of_job"))?;
                let rows = delete.query_map((job.0, keep, room), |row| row.get::<_, Uuid>(0))?;
                gone.extend(rows.collect::<rusqlite::Result<Vec<_>>>()?);
            }
        }
    }
    for run in &gone {
        tx.connection.prepare_cached(sql!("prune_attempts"))?.execute((run,))?;
    }
    Ok(gone.len() as u64)
}
