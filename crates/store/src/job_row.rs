//! Jobs as rows.

use domain::id::{JobId, TenantId, UserId};
use domain::job::{Job, JobState};

use crate::records::Row;
use crate::{Result, StoreError};

/// id, tenant_id, name, version, state, definition, next_run, created_at, updated_at, owner_id
pub(crate) fn job(row: &Row) -> Result<Job> {
    let (name, definition): (String, String) = (row.get(2)?, row.get(5)?);
    let definition = serde_json::from_str(&definition).map_err(|error| {
        StoreError::Unreadable(format!("the definition of job {name}: {error}"))
    })?;
    Ok(Job {
        id: JobId(row.get(0)?),
        tenant: TenantId(row.get(1)?),
        owner: UserId(row.get(9)?),
        name,
        version: row.get(3)?,
        state: job_state(&row.get::<String>(4)?)?,
        definition,
        next_run: row.get(6)?,
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
    })
}

/// The name under which a state is stored.
pub(crate) fn state_name(state: JobState) -> &'static str {
    match state {
        JobState::Enabled => "ENABLED",
        JobState::Paused => "PAUSED",
        JobState::Disabled => "DISABLED",
        JobState::Completed => "COMPLETED",
        JobState::Deleted => "DELETED",
    }
}

/// The state of a name.
pub(crate) fn job_state(name: &str) -> Result<JobState> {
    Ok(match name {
        "ENABLED" => JobState::Enabled,
        "PAUSED" => JobState::Paused,
        "DISABLED" => JobState::Disabled,
        "COMPLETED" => JobState::Completed,
        "DELETED" => JobState::Deleted,
        other => return Err(StoreError::Unreadable(format!("{other} is not a state of a job"))),
    })
}
