//! Things with a name.

use domain::id::{ObjectId, TenantId};
use domain::object::{Object, ObjectKind};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::pipeline::{Pipeline, values};
use super::row::{at, signed, text, unsigned};
use crate::author::author;
use crate::objects::page;
use crate::{NamedResources, Page, Put, Result, Set, StoreError};

impl NamedResources for PostgresStore {
    async fn put_object(&self, new: &Object, expected: u32) -> Result<Put> {
        let (id, tenant) = (new.id.0, new.tenant.0);
        let (name, body) = (text(&new.name), text(&new.body));
        // A name that is taken meanwhile collides, and is seen when the change is tried again.
        let mut pipeline = Pipeline::default();
        let changed = match expected {
            0 => {
                let values = values![id, tenant, new.kind.name(), name, body];
                pipeline.push(sql!("object_insert"), values)
            }
            _ => {
                let values = values![id, tenant, name, body, signed(expected)];
                pipeline.push(sql!("object_update"), values)
            }
        };
        pipeline.push(sql!("audit_object"), values![id, text(&author()).into_owned()]);
        let rows = pipeline.commit(&self.shared.pool).await?;
        if let Some(row) = rows[changed].first() {
            return Ok(Put::Done(object(row)?));
        }
        let found = self.version(new.tenant, new.id).await?;
        Ok(match found {
            0 if expected == 0 => Put::NameTaken,
            found if expected != 0 && found == expected => Put::NameTaken,
            found => Put::Conflict(found),
        })
    }

    async fn remove_object(&self, tenant: TenantId, id: ObjectId, expected: u32) -> Result<Set> {
        let values = values![id.0, tenant.0, signed(expected), text(&author()).into_owned()];
        if !self.shared.query(sql!("object_delete"), values).await?.is_empty() {
            return Ok(Set::Done(0));
        }
        Ok(Set::Conflict(self.version(tenant, id).await?))
    }

    async fn object(&self, id: ObjectId) -> Result<Option<Object>> {
        let rows = self.shared.query(sql!("object_by_id"), values![id.0]).await?;
        rows.first().map(object).transpose()
    }

    async fn object_by_name(
        &self,
        tenant: TenantId,
        kind: ObjectKind,
        name: &str,
    ) -> Result<Option<Object>> {
        let values = values![tenant.0, kind.name(), text(name)];
        let rows = self.shared.query(sql!("object_by_name"), values).await?;
        rows.first().map(object).transpose()
    }

    async fn list_objects(
        &self,
        tenant: TenantId,
        kind: ObjectKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Object, String>> {
        let after = text(after.unwrap_or_default());
        let values = values![tenant.0, kind.name(), after, i64::from(limit) + 1];
        let rows = self.shared.query(sql!("object_list"), values).await?;
        Ok(page(rows.iter().map(object).collect::<Result<_>>()?, limit))
    }

    async fn objects_of_kind(
        &self,
        kind: ObjectKind,
        after: Option<ObjectId>,
        limit: u32,
    ) -> Result<Vec<Object>> {
        let after = after.map_or(Uuid::nil(), |id| id.0);
        let values = values![kind.name(), after, i64::from(limit)];
        let rows = self.shared.query(sql!("object_list_of_kind"), values).await?;
        rows.iter().map(object).collect()
    }
}

impl PostgresStore {
    /// The version of an object; 0 when the tenant has none of this id.
    async fn version(&self, tenant: TenantId, id: ObjectId) -> Result<u32> {
        let found = self.object(id).await?.filter(|found| found.tenant == tenant);
        Ok(found.map_or(0, |found| found.version))
    }
}

/// id, tenant_id, kind, name, body, version, created_at, changed_at
pub(super) fn object(row: &Row) -> Result<Object> {
    let kind: &str = row.try_get(2)?;
    let kind = ObjectKind::from_name(kind)
        .ok_or_else(|| StoreError::Unreadable(format!("{kind} is not a kind of object")))?;
    Ok(Object {
        id: ObjectId(row.try_get(0)?),
        tenant: TenantId(row.try_get(1)?),
        kind,
        name: row.try_get(3)?,
        body: row.try_get(4)?,
        version: unsigned(row.try_get(5)?),
        created_at: at(row.try_get(6)?),
        changed_at: at(row.try_get(7)?),
    })
}
