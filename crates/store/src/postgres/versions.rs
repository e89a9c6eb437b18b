//! Versions of jobs, which the kernel writes in its own transactions.

use uuid::Uuid;

use super::pipeline::{Pipeline, values};
use super::row::{signed, text};
use crate::Change;
use crate::versions::{changed_text, forgotten_before};

/// Keeps the versions that changes make: the statement finds out which jobs were written.
pub(super) fn keep(wave: &[Change], by: &str, pipeline: &mut Pipeline<'_>) {
    let jobs: Vec<Uuid> = wave.iter().map(|change| change.job.id.0).collect();
    let versions: Vec<i32> = wave.iter().map(|change| signed(change.job.version)).collect();
    let changed: Vec<String> = wave.iter().map(|change| changed_text(&change.changed)).collect();
    let by = text(by).into_owned();
    pipeline.push(sql!("job_version_insert"), values![jobs, by, versions, changed]);
    let oldest = |change: &Change| Some((change.job.id.0, forgotten_before(change.job.version)?));
    let (jobs, oldest): (Vec<Uuid>, Vec<u32>) = wave.iter().filter_map(oldest).unzip();
    if !jobs.is_empty() {
        let oldest: Vec<i32> = oldest.into_iter().map(signed).collect();
        let sql = "DELETE FROM job_versions v
                   USING unnest($1::uuid[], $2::integer[]) AS u (job_id, version)
                   WHERE v.job_id BETWEEN u.job_id AND u.job_id AND v.version <= u.version";
        pipeline.push(sql, values![jobs, oldest]);
    }
}
