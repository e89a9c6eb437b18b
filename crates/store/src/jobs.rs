//! Jobs as rows, and queries about jobs that no loop of a node waits for.

use domain::id::{JobId, TenantId, UserId};
use domain::job::{Definition, Job, JobState, Retention};
use uuid::Uuid;

use crate::records::{Records, Row, Sql, Statement, params};
use crate::{Result, StoreError};

/// Jobs of a tenant by name; unknown ones are left out.
pub(crate) async fn by_name(
    store: &impl Records,
    tenant: TenantId,
    names: &[&str],
) -> Result<Vec<Job>> {
    let select = |name: &&str| {
        let sql = "SELECT id, tenant_id, name, version, state, definition, next_run, created_at,
                       updated_at, owner_id
                   FROM jobs WHERE tenant_id = $1 AND name = $2 AND state <> 'DELETED'";
        Statement::new(sql, params![tenant.0, *name])
    };
    let rows = store.query_each(names.iter().map(select).collect()).await?;
    rows.iter().flatten().map(job).collect()
}

/// Jobs that keep their history by a rule of their own, deleted ones included as long as they have
/// any, by id after the given one.
pub(crate) async fn retention_rules(
    store: &impl Records,
    after: Option<JobId>,
    limit: u32,
) -> Result<Vec<(JobId, Retention)>> {
    let sql =
        "SELECT id, definition FROM jobs WHERE own_retention AND id > $1 ORDER BY id LIMIT $2";
    let after = after.map_or(Uuid::nil(), |job| job.0);
    let rows = store.query(Statement::new(sql, params![after, limit])).await?;
    let rule = |row: &Row| {
        let (id, definition) = (JobId(row.get(0)?), row.get::<String>(1)?);
        let definition: Definition = serde_json::from_str(&definition).map_err(|error| {
            StoreError::Unreadable(format!("the definition of job {id}: {error}"))
        })?;
        Ok((id, definition.retention))
    };
    rows.iter().map(rule).collect()
}

/// Which job of a tenant depends on which.
pub(crate) async fn dependencies(
    store: &impl Records,
    tenant: TenantId,
) -> Result<Vec<(JobId, JobId)>> {
    // PostgreSQL is kept from reading all edges of all tenants.
    let sql = Sql::Differs {
        postgres: "SELECT u.job_id, u.depends_on
                   FROM jobs AS j CROSS JOIN LATERAL (
                       SELECT job_id, depends_on FROM upstream WHERE job_id = j.id OFFSET 0
                   ) AS u
                   WHERE j.tenant_id = $1 AND j.state <> 'DELETED'",
        sqlite: "SELECT u.job_id, u.depends_on FROM upstream AS u JOIN jobs AS j ON j.id = u.job_id
                 WHERE j.tenant_id = $1 AND j.state <> 'DELETED'",
    };
    let rows = store.query(Statement::new(sql, params![tenant.0])).await?;
    rows.iter().map(|row| Ok((JobId(row.get(0)?), JobId(row.get(1)?)))).collect()
}

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
