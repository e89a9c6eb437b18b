//! Jobs as rows, and queries about jobs that no loop of a node waits for.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use domain::id::{JobId, TenantId, UserId};
use domain::job::{Definition, Job, JobState, Retention};
use uuid::Uuid;

use crate::records::{Records, Row, Sql, Statement, params};
use crate::{Result, StoreError};

/// More days than any history has.
const DAYS_MAX: u32 = 365_000;

/// Maximum number of unreadable jobs that are logged once each.
const LOGGED_MAX: usize = 10_000;

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
        let definition = definition_of(id, &definition);
        // Nothing is deleted of a job whose rule is not known.
        let kept = Retention { days: Some(DAYS_MAX), failed_days: Some(DAYS_MAX), ..definition.retention };
        Ok((id, if definition.unreadable.is_some() { kept } else { definition.retention }))
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
    let (id, name) = (JobId(row.get(0)?), row.get(2)?);
    let (definition, state): (String, String) = (row.get(5)?, row.get(4)?);
    let (state, definition) = parts_of(id, &state, &definition);
    Ok(Job {
        id,
        tenant: TenantId(row.get(1)?),
        owner: UserId(row.get(9)?),
        name,
        version: row.get(3)?,
        state,
        definition,
        next_run: row.get(6)?,
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
    })
}

/// The state and the definition of a row. If one of them cannot be read (it was damaged, or a newer
/// release wrote it), the job is set aside: the row of one job must not stop all others.
pub(crate) fn parts_of(id: JobId, state: &str, definition: &str) -> (JobState, Definition) {
    match job_state(state) {
        Ok(state) => (state, definition_of(id, definition)),
        Err(error) => (JobState::Disabled, set_aside(id, "state", &error)),
    }
}

/// The definition of a row, or what stands in for it.
pub(crate) fn definition_of(id: JobId, definition: &str) -> Definition {
    serde_json::from_str(definition).unwrap_or_else(|error| set_aside(id, "definition", &error))
}

fn set_aside(id: JobId, column: &str, error: &dyn std::fmt::Display) -> Definition {
    /// Jobs that were logged. Every list and every look reads the row again.
    static LOGGED: Mutex<BTreeMap<JobId, String>> = Mutex::new(BTreeMap::new());
    let problem = format!("column {column}: {error}");
    let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    if logged.get(&id) != Some(&problem) {
        if logged.len() >= LOGGED_MAX {
            logged.clear();
        }
        tracing::error!(job_id = %id, column, %error, "a job cannot be read and was set aside");
        logged.insert(id, problem.clone());
    }
    Definition::unreadable(problem)
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
