//! Identity: tenants, users, roles, keys and grants.
//!
//! Every change begins with the generation, whose row PostgreSQL locks until commit (SQLite has one
//! writer): changes of identity are serialized, and a condition that was checked in one (a name is
//! free, a role does not contain itself, a tenant is empty) still holds when it is written. Each is
//! audited in the same transaction; rows that are removed along with another one have no audit row
//! of their own, and neither has a key that expired.

use std::future::Future;

use domain::access::{Award, Awarded, Entry, Kind, Privilege, Privileges, QueueGrant, Record};
use domain::audit::{self, Event};
use domain::id::{JobId, RoleId, TenantId, UserId};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::audit_log::audit_row;
use crate::records::{Records, Row, Statement, Transaction, page, params};
use crate::{Page, Result, Store, StoreError};

/// A store of tenants, users, roles, keys and grants.
pub trait Identity: Store {
    /// Grows with every change: rows that were read at one generation are valid as long as it
    /// lasts.
    fn generation(&self) -> impl Future<Output = Result<i64>> + Send;

    /// Entries by id, in no particular order; unknown ones are left out.
    fn entries(&self, ids: &[Uuid]) -> impl Future<Output = Result<Vec<Record>>> + Send;

    /// The entry of a name, within a tenant; a tenant's own belongs to the zero id.
    fn entry_named(
        &self,
        kind: Kind,
        tenant: TenantId,
        name: &str,
    ) -> impl Future<Output = Result<Option<Record>>> + Send;

    /// Entries by name, after the given one.
    fn list_entries(
        &self,
        filter: &EntryFilter,
        after: Option<&str>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<Record, String>>> + Send;

    /// Makes an entry, or changes the one of the expected version.
    fn put_entry(
        &self,
        entry: &Entry,
        expected: Option<u32>,
        by: &str,
    ) -> impl Future<Output = Result<Recorded>> + Send;

    /// Removes an entry with all that belongs to it: keys of a user, awards to and of a role.
    fn remove_entry(
        &self,
        id: Uuid,
        expected: Option<u32>,
        by: &str,
    ) -> impl Future<Output = Result<Removed>> + Send;

    /// Gives something to a user or a role.
    fn award(&self, award: &Award, by: &str) -> impl Future<Output = Result<GrantOutcome>> + Send;

    /// Takes an award away. Returns whether it was there.
    fn revoke(&self, id: Uuid, by: &str) -> impl Future<Output = Result<bool>> + Send;

    /// An award by its id.
    fn award_by_id(&self, id: Uuid) -> impl Future<Output = Result<Option<Award>>> + Send;

    /// The grants of a tenant, of all grantees or of one, by id after the given one.
    fn list_awards(
        &self,
        tenant: TenantId,
        to: Option<Uuid>,
        after: Option<Uuid>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<Award, Uuid>>> + Send;

    /// All that a user or a role has, directly or by way of roles.
    fn reach(&self, id: Uuid) -> impl Future<Output = Result<EffectiveGrants>> + Send;

    /// Secret that the salts of all users are derived from. The first that is offered is kept for
    /// ever.
    fn salt(&self, offered: [u8; 32]) -> impl Future<Output = Result<[u8; 32]>> + Send;

    /// Deletes keys that expired a day ago or earlier, at most `limit`; returns how many.
    fn forget_keys(&self, limit: u32) -> impl Future<Output = Result<u64>> + Send;
}

/// Which entries a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryFilter {
    /// Of this kind.
    pub kind: Kind,
    /// Of this tenant.
    pub tenant: TenantId,
    /// Of this user.
    pub owner: Option<UserId>,
}

/// Result of writing an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It is this now.
    Done(Record),
    /// Another one has its name, or its id.
    Taken,
    /// It has this version; 0 when it, its tenant or its owner is not there.
    Conflict(u32),
}

/// Result of removing an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// It is gone.
    Done,
    /// It has this version; 0 when it is not there.
    Conflict(u32),
    /// Jobs, users or roles belong to the tenant.
    InUse,
}

/// Result of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantOutcome {
    /// It is given.
    Done,
    /// It was given before.
    Known,
    /// The role would contain itself.
    Cycle,
    /// The grantee, or the role, is not there.
    Absent,
}

/// All that a user or a role has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectiveGrants {
    /// Its privileges.
    pub privileges: Privileges,
    /// The roles that it has, in no particular order.
    pub roles: Vec<RoleId>,
    /// The databases that jobs may work in, by name, in no particular order.
    pub databases: Vec<String>,
    /// Rights to the messages of queues, in no particular order.
    pub queues: Vec<QueueGrant>,
}

/// How often a removal begins again because the entry was changed meanwhile.
const REMOVE_TRIES: u32 = 4;

/// An expired key is deleted after this time.
const EXPIRED_TTL_US: i64 = 24 * 3_600 * 1_000_000;

impl<S: Records> Identity for S {
    async fn generation(&self) -> Result<i64> {
        let sql = "SELECT generation FROM identity_generation";
        let rows = self.query(Statement::new(sql, params![])).await?;
        rows.first().ok_or_else(StoreError::no_row)?.get(0)
    }

    async fn entries(&self, ids: &[Uuid]) -> Result<Vec<Record>> {
        let select = |id: &Uuid| {
            let sql = "SELECT body, version, created_at, updated_at FROM identities WHERE id = $1";
            Statement::new(sql, params![*id])
        };
        let rows = self.query_each(ids.iter().map(select).collect()).await?;
        rows.iter().flatten().map(record).collect()
    }

    async fn entry_named(
        &self,
        kind: Kind,
        tenant: TenantId,
        name: &str,
    ) -> Result<Option<Record>> {
        let sql = "SELECT body, version, created_at, updated_at FROM identities
                   WHERE tenant_id = $1 AND kind = $2 AND name = $3";
        let rows = self.query(Statement::new(sql, params![tenant.0, kind as u8, name])).await?;
        rows.first().map(record).transpose()
    }

    async fn list_entries(
        &self,
        filter: &EntryFilter,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Record, String>> {
        let sql = "SELECT body, version, created_at, updated_at FROM identities
                   WHERE tenant_id = $1 AND kind = $2 AND name > $3
                       AND ($4 IS NULL OR owner_id = $4)
                   ORDER BY name LIMIT $5";
        let EntryFilter { kind, tenant, owner } = *filter;
        let (after, owner) = (after.unwrap_or_default(), owner.map(|owner| owner.0));
        let params = params![tenant.0, kind as u8, after, owner, i64::from(limit) + 1];
        let rows = self.query(Statement::new(sql, params)).await?;
        let items = rows.iter().map(record).collect::<Result<Vec<_>>>()?;
        Ok(page(items, limit, |record| record.entry.name()))
    }

    async fn put_entry(&self, entry: &Entry, expected: Option<u32>, by: &str) -> Result<Recorded> {
        let (id, kind, tenant) = (entry.id(), entry.kind() as u8, entry.tenant().0);
        let (name, body, expires) = (entry.name(), body_of(entry)?, entry.expires_at());
        let owner = entry.owner().map(|owner| owner.0);
        let mut params = params![id, kind, tenant, &name, owner, expires, body];
        let write = match expected {
            None => Statement::new(include_str!("../sql/entry_insert.sql"), params),
            Some(expected) => {
                params.extend(params![expected]);
                let sql = "UPDATE identities
                           SET name = $4, expires_at = $6, body = $7, version = version + 1,
                               updated_at = {now}
                           WHERE id = $1 AND kind = $2 AND tenant_id = $3
                               AND owner_id IS NOT DISTINCT FROM $5 AND version = $8
                           RETURNING version, created_at, updated_at";
                Statement::new(sql, params)
            }
        };
        let mut transaction = Transaction::from(vec![next_generation()]);
        let written = transaction.push(write.expect_row());
        if let Entry::Tenant(tenant) = entry {
            transaction.push(Statement::new(
                "INSERT INTO quotas (tenant_id, max_jobs, max_concurrent, weight)
                 VALUES ($1, $2, $3, $4)
                 ON CONFLICT (tenant_id) DO UPDATE SET
                     max_jobs = excluded.max_jobs, max_concurrent = excluded.max_concurrent,
                     weight = excluded.weight",
                params![id, tenant.max_jobs, tenant.max_concurrent, tenant.tier.weight()],
            ));
        }
        let audited = audit_kind(entry, expected.is_none());
        let version = expected.unwrap_or(0) + 1;
        for event in audit_entry(self, entry, audited, version, by).await? {
            transaction.push(audit_row(&event));
        }
        if let Some(answers) = self.commit(transaction).await? {
            let row = answers[written].rows.first().ok_or_else(StoreError::no_row)?;
            return Ok(Recorded::Done(Record {
                entry: entry.clone(),
                version: row.get(0)?,
                created_at: row.get(1)?,
                updated_at: row.get(2)?,
            }));
        }
        let version = by_id(self, id).await?.map_or(0, |found| found.version);
        let is_taken = match expected {
            None => {
                let named = self.entry_named(entry.kind(), entry.tenant(), &name).await?;
                named.is_some() || version > 0
            }
            Some(expected) => version == expected,
        };
        Ok(if is_taken { Recorded::Taken } else { Recorded::Conflict(version) })
    }

    async fn remove_entry(&self, id: Uuid, expected: Option<u32>, by: &str) -> Result<Removed> {
        for _ in 0..REMOVE_TRIES {
            let Some(seen) = by_id(self, id).await? else { return Ok(Removed::Conflict(0)) };
            if expected.is_some_and(|expected| expected != seen.version) {
                return Ok(Removed::Conflict(seen.version));
            }
            let mut transaction = Transaction::from(vec![next_generation()]);
            // The version matches, so the entry is the one that was read: its name goes into the
            // audit.
            let delete = Statement::new(
                "DELETE FROM identities
                 WHERE id = $1 AND version = $2 AND NOT (kind = 1 AND (
                     EXISTS (SELECT 1 FROM identities AS i WHERE i.tenant_id = $1)
                     OR EXISTS (SELECT 1 FROM jobs AS j WHERE j.tenant_id = $1 AND j.state <> 'DELETED')
                 ))
                 RETURNING id",
                params![id, seen.version],
            );
            transaction.push(delete.expect_row());
            for sql in [
                "DELETE FROM identities WHERE owner_id = $1",
                "DELETE FROM awards WHERE to_id = $1 OR role_id = $1",
                "DELETE FROM quotas WHERE tenant_id = $1",
                "DELETE FROM artifacts WHERE tenant_id = $1",
            ] {
                transaction.push(Statement::new(sql, params![id]));
            }
            let audited = audit_kind(&seen.entry, false);
            for event in audit_entry(self, &seen.entry, audited, 0, by).await? {
                transaction.push(audit_row(&event));
            }
            if self.commit(transaction).await?.is_some() {
                return Ok(Removed::Done);
            }
            // If it still has this version, something belongs to the tenant.
            let found = by_id(self, id).await?.map_or(0, |found| found.version);
            if found == seen.version {
                return Ok(Removed::InUse);
            }
        }
        let found = by_id(self, id).await?.map_or(0, |found| found.version);
        Ok(Removed::Conflict(found))
    }

    async fn award(&self, award: &Award, by: &str) -> Result<GrantOutcome> {
        let (role, privilege) = columns(&award.what);
        let (id, tenant, to) = (award.id(), award.tenant.0, award.to);
        let insert = include_str!("../sql/award_insert.sql");
        let queue = award.what.queue().map(|queue| queue.0);
        let insert = Statement::new(insert, params![id, tenant, to, role, privilege, queue]);
        let event = audit_award(self, award, "DONE", by).await?;
        let statements = vec![next_generation(), insert.expect_row(), audit_row(&event)];
        if self.commit(Transaction::from(statements)).await?.is_some() {
            return Ok(GrantOutcome::Done);
        }
        let sql = "SELECT
                       EXISTS (SELECT 1 FROM awards WHERE id = $1),
                       EXISTS (
                           SELECT 1 FROM identities
                           WHERE id = $3 AND kind IN (2, 3) AND tenant_id = $2
                       ) AND ($4 IS NULL OR EXISTS (
                           SELECT 1 FROM identities WHERE id = $4 AND kind = 3 AND tenant_id = $2
                       )) AND ($5 IS NULL OR EXISTS (
                           SELECT 1 FROM jobs
                           WHERE id = $5 AND tenant_id = $2 AND state <> 'DELETED'
                       ))";
        let rows = self.query(Statement::new(sql, params![id, tenant, to, role, queue])).await?;
        let row = rows.first().ok_or_else(StoreError::no_row)?;
        Ok(match (row.get(0)?, row.get(1)?) {
            (true, _) => GrantOutcome::Known,
            (false, true) => GrantOutcome::Cycle,
            (false, false) => GrantOutcome::Absent,
        })
    }

    async fn revoke(&self, id: Uuid, by: &str) -> Result<bool> {
        let Some(award) = self.award_by_id(id).await? else { return Ok(false) };
        let delete = Statement::new("DELETE FROM awards WHERE id = $1 RETURNING id", params![id]);
        let event = audit_award(self, &award, "DELETED", by).await?;
        let statements = vec![next_generation(), delete.expect_row(), audit_row(&event)];
        Ok(self.commit(Transaction::from(statements)).await?.is_some())
    }

    async fn award_by_id(&self, id: Uuid) -> Result<Option<Award>> {
        let sql = "SELECT tenant_id, to_id, role_id, privilege FROM awards WHERE id = $1";
        self.query(Statement::new(sql, params![id])).await?.first().map(award).transpose()
    }

    async fn list_awards(
        &self,
        tenant: TenantId,
        to: Option<Uuid>,
        after: Option<Uuid>,
        limit: u32,
    ) -> Result<Page<Award, Uuid>> {
        let sql = "SELECT tenant_id, to_id, role_id, privilege FROM awards
                   WHERE tenant_id = $1 AND id > $2 AND ($3 IS NULL OR to_id = $3)
                   ORDER BY id LIMIT $4";
        let after = after.unwrap_or(Uuid::nil());
        let params = params![tenant.0, after, to, i64::from(limit) + 1];
        let rows = self.query(Statement::new(sql, params)).await?;
        Ok(page(rows.iter().map(award).collect::<Result<Vec<_>>>()?, limit, Award::id))
    }

    async fn reach(&self, id: Uuid) -> Result<EffectiveGrants> {
        let sql = "WITH RECURSIVE reach (id) AS (
                       SELECT $1
                       UNION
                       SELECT a.role_id FROM awards AS a JOIN reach AS r ON a.to_id = r.id
                       WHERE a.role_id IS NOT NULL
                   )
                   SELECT DISTINCT a.role_id, a.privilege
                   FROM awards AS a JOIN reach AS r ON a.to_id = r.id";
        let rows = self.query(Statement::new(sql, params![id])).await?;
        reached(rows.iter().map(|row| awarded(row.get(0)?, row.get(1)?)))
    }

    async fn salt(&self, offered: [u8; 32]) -> Result<[u8; 32]> {
        let sql = "UPDATE identity_generation SET salt = coalesce(salt, $1) RETURNING salt";
        let statement = Statement::new(sql, params![offered.as_slice()]);
        let answers = self.commit(Transaction::from(vec![statement])).await?.unwrap_or_default();
        let row = answers.first().and_then(|answer| answer.rows.first());
        let kept: Vec<u8> = row.ok_or_else(StoreError::no_row)?.get(0)?;
        kept.try_into()
            .map_err(|_| StoreError::Unreadable("the salt has another length".to_owned()))
    }

    async fn forget_keys(&self, limit: u32) -> Result<u64> {
        let sql = "DELETE FROM identities WHERE id IN (
                       SELECT id FROM identities
                       WHERE expires_at < {now} - $1 ORDER BY expires_at LIMIT $2
                   )";
        self.execute(Statement::new(sql, params![EXPIRED_TTL_US, limit])).await
    }
}

/// The first statement of every change: a cache looks at the generation whether it still holds.
pub(crate) fn next_generation() -> Statement {
    Statement::new("UPDATE identity_generation SET generation = generation + 1", params![])
}

async fn by_id(store: &impl Records, id: Uuid) -> Result<Option<Record>> {
    Ok(store.entries(&[id]).await?.pop())
}

/// body, version, created_at, updated_at
fn record(row: &Row) -> Result<Record> {
    Ok(Record {
        entry: entry_of(&row.get::<String>(0)?)?,
        version: row.get(1)?,
        created_at: row.get(2)?,
        updated_at: row.get(3)?,
    })
}

/// tenant_id, to_id, role_id, privilege
fn award(row: &Row) -> Result<Award> {
    let what = awarded(row.get(2)?, row.get(3)?)?;
    Ok(Award { tenant: TenantId(row.get(0)?), to: row.get(1)?, what })
}

/// The audit of an entry that gets this version; 0 stands for its removal. A tenant that is there
/// can read about itself too.
async fn audit_entry(
    store: &impl Records,
    entry: &Entry,
    kind: audit::Kind,
    version: u32,
    by: &str,
) -> Result<Vec<Event>> {
    let mut details = json!({ "name": entry.name() });
    if version > 0 {
        details["state"] = audit_state(entry);
    }
    if let Some(owner) = entry.owner()
        && let Some(owner) = by_id(store, owner.0).await?
    {
        details["user"] = owner.entry.name().into();
    }
    details["version"] = version.into();
    let outcome = if version > 0 { "DONE" } else { "DELETED" };
    let mut events = vec![audit_event(entry.tenant(), by, kind, outcome, &details)];
    if let Entry::Tenant(tenant) = entry
        && version > 0
    {
        events.push(Event { tenant: tenant.id, ..events[0].clone() });
    }
    Ok(events)
}

/// The audit of a grant that is given or revoked.
async fn audit_award(
    store: &impl Records,
    award: &Award,
    outcome: &str,
    by: &str,
) -> Result<Event> {
    let role = match &award.what {
        Awarded::Role(role) => Some(role.0),
        _ => None,
    };
    let ids: Vec<Uuid> = [Some(award.to), role].into_iter().flatten().collect();
    let found = store.entries(&ids).await?;
    let entry = |id: Uuid| found.iter().map(|found| &found.entry).find(|entry| entry.id() == id);
    let name = |id: Uuid| entry(id).map_or_else(|| id.to_string(), Entry::name);
    let is_role = entry(award.to).is_some_and(|entry| entry.kind() == Kind::Role);
    let to_key = if is_role { "to_role" } else { "to_user" };
    let queue = match award.what.queue() {
        Some(queue) => queue_name(store, queue).await?,
        None => String::new(),
    };
    let details = match role {
        Some(role) => json!({ "role": name(role), to_key: name(award.to) }),
        None => json!({ "privilege": award.what.text_with(&queue), to_key: name(award.to) }),
    };
    Ok(audit_event(award.tenant, by, audit::Kind::GrantChanged, outcome, &details))
}

/// The name of a queue, or its id if it was deleted.
async fn queue_name(store: &impl Records, queue: JobId) -> Result<String> {
    let sql = "SELECT name FROM jobs WHERE id = $1 AND state <> 'DELETED'";
    let rows = store.query(Statement::new(sql, params![queue.0])).await?;
    rows.first().map_or_else(|| Ok(queue.to_string()), |row| row.get(0))
}

fn audit_event(
    tenant: TenantId,
    by: &str,
    kind: audit::Kind,
    outcome: &str,
    details: &Value,
) -> Event {
    let (outcome, details) = (outcome.to_owned(), details.to_string());
    Event { tenant, actor: by.to_owned(), kind, job: None, run: None, outcome, details }
}

fn body_of(entry: &Entry) -> Result<String> {
    serde_json::to_string(entry).map_err(|error| StoreError::Unreadable(error.to_string()))
}

fn entry_of(body: &str) -> Result<Entry> {
    serde_json::from_str(body)
        .map_err(|error| StoreError::Unreadable(format!("an entry of identity: {error}")))
}

/// Granted role or privilege, from its two columns.
fn awarded(role: Option<Uuid>, privilege: Option<String>) -> Result<Awarded> {
    match (role, privilege) {
        (Some(role), None) => Ok(Awarded::Role(RoleId(role))),
        (None, Some(name)) => {
            let wrong = |error| StoreError::Unreadable(format!("a grant: {error}"));
            Awarded::from_text(&name).map_err(wrong)
        }
        _ => Err(StoreError::Unreadable("a grant of nothing".to_owned())),
    }
}

/// The columns of a grant.
fn columns(what: &Awarded) -> (Option<Uuid>, Option<String>) {
    match what {
        Awarded::Role(role) => (Some(role.0), None),
        other => (None, other.text()),
    }
}

/// Audit kind of a change of an entry. A key that was made by a login is audited as the login.
fn audit_kind(entry: &Entry, is_new: bool) -> audit::Kind {
    match entry {
        Entry::Tenant(_) => audit::Kind::TenantChanged,
        Entry::User(_) => audit::Kind::UserChanged,
        Entry::Role(_) => audit::Kind::RoleChanged,
        Entry::Key(key) if key.session && is_new => audit::Kind::Login,
        Entry::Key(_) => audit::Kind::KeyChanged,
    }
}

/// The audit details of an entry as it is now, without secrets.
fn audit_state(entry: &Entry) -> Value {
    match entry {
        Entry::Tenant(tenant) => json!({
            "max_concurrent": tenant.max_concurrent,
            "max_jobs": tenant.max_jobs,
            "requests_per_second": tenant.requests_per_second,
            "external_jobs": tenant.external_jobs,
            "tier": tenant.tier,
        }),
        Entry::User(user) => {
            json!({ "disabled": user.disabled, "has_password": user.password.is_some() })
        }
        Entry::Role(role) => json!({ "run_as": role.run_as }),
        Entry::Key(key) => {
            let scopes = key.scopes.as_ref();
            json!({
                "expires_at": key.expires_at,
                "label": key.label,
                "read_only": key.read_only,
                "scopes": scopes.map(|scopes| scopes.iter().map(Privilege::name).collect::<Vec<_>>()),
            })
        }
    }
}

/// Collects the grants that a search found.
fn reached(rows: impl Iterator<Item = Result<Awarded>>) -> Result<EffectiveGrants> {
    let (mut privileges, mut roles) = (Vec::new(), Vec::new());
    let (mut databases, mut queues) = (Vec::new(), Vec::new());
    for row in rows {
        match row? {
            Awarded::Privilege(privilege) => privileges.push(privilege),
            Awarded::Database(name) => databases.push(name),
            Awarded::Queue(grant) => queues.push(grant),
            Awarded::Role(role) => roles.push(role),
        }
    }
    Ok(EffectiveGrants { privileges: privileges.into_iter().collect(), roles, databases, queues })
}
