//! The versions of jobs.

use domain::id::JobId;
use domain::job::Definition;
use rusqlite::Row;

use super::SqliteStore;
use super::row::{at, job_state};
use super::writer::Tx;
use crate::versions::{changed_text, forgotten_before, page};
use crate::{JobVersion, JobVersions, Page, Result, StoreError};

impl JobVersions for SqliteStore {
    async fn job_versions(
        &self,
        job: JobId,
        before: Option<u32>,
        limit: u32,
    ) -> Result<Page<JobVersion, u32>> {
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("job_version_list"))?;
            let before = before.map_or(i64::MAX, i64::from);
            let rows = query.query_and_then((job.0, before, i64::from(limit) + 1), version)?;
            Ok(page(rows.collect::<Result<_>>()?, limit))
        })
        .await
    }
}

/// Keeps the present version of a job that was just written.
pub(super) fn keep(
    tx: &Tx<'_>,
    job: JobId,
    at_us: i64,
    by: &str,
    changed: &[&'static str],
) -> Result<()> {
    let mut insert = tx.connection.prepare_cached(sql!("job_version_insert"))?;
    insert.execute((job.0, at_us, by, changed_text(changed)))?;
    Ok(())
}

/// Forgets the versions of a job that are too old when it gets this one.
pub(super) fn forget_old(tx: &Tx<'_>, job: JobId, version: u32) -> Result<()> {
    if let Some(oldest) = forgotten_before(version) {
        tx.connection.prepare_cached(sql!("job_version_forget"))?.execute((job.0, oldest))?;
    }
    Ok(())
}

/// job_id, version, name, state, definition, changed_at, changed_by, changed
fn version(row: &Row<'_>) -> Result<JobVersion> {
    let text = |index: usize| {
        row.get_ref(index)?.as_str().map_err(|error| StoreError::Unreadable(error.to_string()))
    };
    JobVersion {
        job: JobId(row.get(0)?),
        version: row.get(1)?,
        name: row.get(2)?,
        state: job_state(text(3)?)?,
        definition: Definition::default(),
        changed_at: at(row.get(5)?)?,
        changed_by: row.get(6)?,
        changed: Vec::new(),
    }
    .parse(text(4)?, text(7)?)
}
