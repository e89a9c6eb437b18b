//! Versions of jobs, which the kernel writes in its own transactions.

use domain::id::JobId;
use serde::Serialize;

use super::writer::Tx;
use crate::Result;
use crate::versions::{changed_text, forgotten_before};

/// Keeps the present version of a job that was just written.
pub(super) fn keep<T: AsRef<str> + Serialize>(
    tx: &Tx<'_>,
    job: JobId,
    at_us: i64,
    by: &str,
    changed: &[T],
) -> Result<()> {
    let sql = "INSERT INTO job_versions
                   (job_id, version, name, state, definition, changed_at, changed_by, changed)
               SELECT id, version, name, state, definition, ?2, ?3, ?4 FROM jobs WHERE id = ?1
               ON CONFLICT (job_id, version) DO NOTHING";
    tx.connection.prepare_cached(sql)?.execute((job.0, at_us, by, changed_text(changed)))?;
    Ok(())
}

/// Deletes the versions of a job that are too old when it gets this one.
pub(super) fn forget_old(tx: &Tx<'_>, job: JobId, version: u32) -> Result<()> {
    if let Some(oldest) = forgotten_before(version) {
        let sql = "DELETE FROM job_versions WHERE job_id = ?1 AND version <= ?2";
        tx.connection.prepare_cached(sql)?.execute((job.0, oldest))?;
    }
    Ok(())
}
