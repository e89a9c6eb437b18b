//! Named resources: databases of SQL jobs, alert channels, shards and the like.
//!
//! A store does not read their bodies. A change names the version that it is based on, and a name
//! belongs to one resource of a kind in a tenant; both are checked in the write itself.

use std::future::Future;

use domain::access::Awarded;
use domain::audit::{Event, Kind};
use domain::id::{ObjectId, TenantId};
use domain::object::{Object, ObjectKind};
use uuid::Uuid;

use crate::audit_log::audit_row;
use crate::identity::next_generation;
use crate::records::{Records, Row, Statement, Transaction, page, params};
use crate::{Page, Result, Set, Store, StoreError};

/// A store that keeps named resources.
pub trait NamedResources: Store {
    /// Makes an object (`expected` is 0), or gives the one of this id a new name and body if it
    /// still has the version that the change is based on. Version and times are the store's.
    fn put_object(
        &self,
        object: &Object,
        expected: u32,
        by: &str,
    ) -> impl Future<Output = Result<Put>> + Send;

    /// Removes an object if it still has the version that was read, and with it its secrets, grants
    /// of its use, and the recorded deliveries under its id.
    fn remove_object(
        &self,
        tenant: TenantId,
        id: ObjectId,
        expected: u32,
        by: &str,
    ) -> impl Future<Output = Result<Set>> + Send;

    /// An object by its id, of any tenant.
    fn object(&self, id: ObjectId) -> impl Future<Output = Result<Option<Object>>> + Send;

    /// An object by its name.
    fn object_by_name(
        &self,
        tenant: TenantId,
        kind: ObjectKind,
        name: &str,
    ) -> impl Future<Output = Result<Option<Object>>> + Send;

    /// A tenant's objects of a kind by name, after the given one.
    fn list_objects(
        &self,
        tenant: TenantId,
        kind: ObjectKind,
        after: Option<&str>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<Object, String>>> + Send;

    /// All tenants' objects of a kind by id, after the given one.
    fn objects_of_kind(
        &self,
        kind: ObjectKind,
        after: Option<ObjectId>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Object>>> + Send;
}

/// The columns of an object in the order in which [`object`] reads them.
const COLUMNS: &str = "id, tenant_id, kind, name, body, version, created_at, changed_at";

impl<S: Records> NamedResources for S {
    async fn put_object(&self, new: &Object, expected: u32, by: &str) -> Result<Put> {
        let (id, tenant) = (new.id.0, new.tenant.0);
        let statement = match expected {
            0 => Statement::new(
                format!(
                    "INSERT INTO objects ({COLUMNS})
                     VALUES ($1, $2, $3, $4, $5, 1, {{now}}, {{now}})
                     ON CONFLICT DO NOTHING
                     RETURNING {COLUMNS}"
                ),
                params![id, tenant, new.kind.name(), &new.name, &new.body],
            ),
            _ => Statement::new(
                format!(
                    "UPDATE objects
                     SET name = $3, body = $4, version = version + 1, changed_at = {{now}}
                     WHERE id = $1 AND tenant_id = $2 AND version = $5
                     RETURNING {COLUMNS}"
                ),
                params![id, tenant, &new.name, &new.body, expected],
            ),
        };
        let seen = match expected {
            0 => None,
            _ => self.object(new.id).await?.filter(|seen| seen.version == expected),
        };
        let mut statements = vec![statement.expect_row()];
        if let Some(seen) = seen.filter(|seen| seen.name != new.name) {
            statements.extend(end_grants(&seen));
        }
        statements.push(audit_row(&audit(new, expected + 1, by)));
        if let Some(answers) = self.commit(Transaction::from(statements)).await? {
            let row = answers[0].rows.first();
            return Ok(Put::Done(object(row.ok_or_else(StoreError::no_row)?)?));
        }
        Ok(match version(self, new.tenant, new.id).await? {
            0 if expected == 0 => Put::NameTaken,
            found if expected != 0 && found == expected => Put::NameTaken,
            found => Put::Conflict(found),
        })
    }

    async fn remove_object(
        &self,
        tenant: TenantId,
        id: ObjectId,
        expected: u32,
        by: &str,
    ) -> Result<Set> {
        // The version matches, so the object is the one that was read: its name goes into the
        // audit.
        let seen = self.object(id).await?.filter(|seen| seen.tenant == tenant);
        let seen = match seen {
            Some(seen) if seen.version == expected => seen,
            other => return Ok(Set::Conflict(other.map_or(0, |found| found.version))),
        };
        let mut statements = vec![
            Statement::new(
                "DELETE FROM objects WHERE id = $1 AND tenant_id = $2 AND version = $3 RETURNING id",
                params![id.0, tenant.0, expected],
            )
            .expect_row(),
            Statement::new("DELETE FROM deliveries WHERE channel = $1", params![id.to_string()]),
            Statement::new("DELETE FROM shard_owners WHERE shard_id = $1", params![id.0]),
            Statement::new(
                "DELETE FROM secrets WHERE tenant_id = $1 AND job_id = $2",
                params![tenant.0, id.0],
            ),
            audit_row(&audit(&seen, 0, by)),
        ];
        statements.extend(end_grants(&seen));
        if self.commit(Transaction::from(statements)).await?.is_some() {
            return Ok(Set::Done(0));
        }
        Ok(Set::Conflict(version(self, tenant, id).await?))
    }

    async fn object(&self, id: ObjectId) -> Result<Option<Object>> {
        let sql = format!("SELECT {COLUMNS} FROM objects WHERE id = $1");
        self.query(Statement::new(sql, params![id.0])).await?.first().map(object).transpose()
    }

    async fn object_by_name(
        &self,
        tenant: TenantId,
        kind: ObjectKind,
        name: &str,
    ) -> Result<Option<Object>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM objects WHERE tenant_id = $1 AND kind = $2 AND name = $3"
        );
        let statement = Statement::new(sql, params![tenant.0, kind.name(), name]);
        self.query(statement).await?.first().map(object).transpose()
    }

    async fn list_objects(
        &self,
        tenant: TenantId,
        kind: ObjectKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Object, String>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM objects
             WHERE tenant_id = $1 AND kind = $2 AND name > $3
             ORDER BY name LIMIT $4"
        );
        let after = after.unwrap_or_default();
        let params = params![tenant.0, kind.name(), after, i64::from(limit) + 1];
        let rows = self.query(Statement::new(sql, params)).await?;
        let objects = rows.iter().map(object).collect::<Result<_>>()?;
        Ok(page(objects, limit, |object: &Object| object.name.clone()))
    }

    async fn objects_of_kind(
        &self,
        kind: ObjectKind,
        after: Option<ObjectId>,
        limit: u32,
    ) -> Result<Vec<Object>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM objects WHERE kind = $1 AND id > $2 ORDER BY id LIMIT $3"
        );
        let after = after.map_or(Uuid::nil(), |id| id.0);
        let rows = self.query(Statement::new(sql, params![kind.name(), after, limit])).await?;
        rows.iter().map(object).collect()
    }
}

/// Ends the grants of the use of a database whose name it has no longer: they name it, and must not
/// become grants for the next one of that name.
fn end_grants(object: &Object) -> Vec<Statement> {
    if object.kind != ObjectKind::Database {
        return Vec::new();
    }
    let privilege = Awarded::Database(object.name.clone()).text();
    let sql = "DELETE FROM awards WHERE tenant_id = $1 AND privilege = $2";
    vec![next_generation(), Statement::new(sql, params![object.tenant.0, privilege])]
}

/// The version of an object; 0 when the tenant has none of this id.
async fn version(store: &impl Records, tenant: TenantId, id: ObjectId) -> Result<u32> {
    let found = store.object(id).await?.filter(|found| found.tenant == tenant);
    Ok(found.map_or(0, |found| found.version))
}

/// id, tenant_id, kind, name, body, version, created_at, changed_at
pub(crate) fn object(row: &Row) -> Result<Object> {
    let kind: String = row.get(2)?;
    let kind = ObjectKind::from_name(&kind)
        .ok_or_else(|| StoreError::Unreadable(format!("{kind} is not a kind of object")))?;
    Ok(Object {
        id: ObjectId(row.get(0)?),
        tenant: TenantId(row.get(1)?),
        kind,
        name: row.get(3)?,
        body: row.get(4)?,
        version: row.get(5)?,
        created_at: row.get(6)?,
        changed_at: row.get(7)?,
    })
}

/// The result of a change of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is this now.
    Done(Object),
    /// It has this version; 0 when it is not there.
    Conflict(u32),
    /// Another one has the name.
    NameTaken,
}

/// Audit event of a change of an object; version 0 stands for its removal. The body is left out,
/// since it may hold a secret.
fn audit(object: &Object, version: u32, by: &str) -> Event {
    let (kind, name) = (object.kind.name(), &object.name);
    Event {
        tenant: object.tenant,
        actor: by.to_owned(),
        kind: Kind::SettingChanged,
        job: None,
        run: None,
        outcome: if version == 0 { "DELETED" } else { "DONE" }.to_owned(),
        details: serde_json::json!({ "kind": kind, "name": name, "version": version }).to_string(),
    }
}
