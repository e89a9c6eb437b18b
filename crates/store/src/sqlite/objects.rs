//! Things with a name.

use domain::id::{ObjectId, TenantId};
use domain::object::{Object, ObjectKind};
use domain::secret::Scope;
use rusqlite::{Connection, Row};
use uuid::Uuid;

use super::row::at;
use super::writer::Tx;
use super::{SqliteStore, journal, safe};
use crate::author::author;
use crate::objects::{audit, page};
use crate::{NamedResources, Page, Put, Result, Set, StoreError};

impl NamedResources for SqliteStore {
    async fn put_object(&self, object: &Object, expected: u32) -> Result<Put> {
        let (object, by) = (object.clone(), author());
        self.writer
            .write(move |tx| {
                let put = put(tx, &object, expected)?;
                if let Put::Done(object) = &put {
                    journal::insert(tx, &audit(object, object.version, &by))?;
                }
                Ok(put)
            })
            .await
    }

    async fn remove_object(&self, tenant: TenantId, id: ObjectId, expected: u32) -> Result<Set> {
        let by = author();
        self.writer
            .write(move |tx| {
                let seen = by_id(tx.connection, id)?;
                let mut delete = tx.connection.prepare_cached(sql!("object_delete"))?;
                if delete.execute((id.0, tenant.0, expected))? == 0 {
                    return Ok(Set::Conflict(version(tx.connection, tenant, id)?));
                }
                let mut forget = tx.connection.prepare_cached(sql!("delivery_forget"))?;
                forget.execute((id.to_string(),))?;
                tx.connection.prepare_cached(sql!("shard_disown"))?.execute((id.0,))?;
                safe::remove_of(tx, Scope::Object(tenant, id))?;
                if let Some(object) = seen {
                    journal::insert(tx, &audit(&object, 0, &by))?;
                }
                Ok(Set::Done(0))
            })
            .await
    }

    async fn object(&self, id: ObjectId) -> Result<Option<Object>> {
        self.read(move |connection| by_id(connection, id)).await
    }

    async fn object_by_name(
        &self,
        tenant: TenantId,
        kind: ObjectKind,
        name: &str,
    ) -> Result<Option<Object>> {
        let name = name.to_owned();
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("object_by_name"))?;
            let mut rows = query.query((tenant.0, kind.name(), name))?;
            rows.next()?.map(object).transpose()
        })
        .await
    }

    async fn list_objects(
        &self,
        tenant: TenantId,
        kind: ObjectKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Object, String>> {
        let after = after.unwrap_or_default().to_owned();
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("object_list"))?;
            let look = i64::from(limit) + 1;
            let rows = query.query_and_then((tenant.0, kind.name(), after, look), object)?;
            Ok(page(rows.collect::<Result<_>>()?, limit))
        })
        .await
    }

    async fn objects_of_kind(
        &self,
        kind: ObjectKind,
        after: Option<ObjectId>,
        limit: u32,
    ) -> Result<Vec<Object>> {
        let after = after.map_or(Uuid::nil(), |id| id.0);
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("object_list_of_kind"))?;
            query.query_and_then((kind.name(), after, limit), object)?.collect()
        })
        .await
    }
}

fn put(tx: &mut Tx<'_>, new: &Object, expected: u32) -> Result<Put> {
    let query = |sql| tx.connection.prepare_cached(sql);
    let (id, tenant, now) = (new.id.0, new.tenant.0, tx.now_us());
    let done = match expected {
        0 => query(sql!("object_insert"))?.execute((
            id,
            tenant,
            new.kind.name(),
            &new.name,
            &new.body,
            now,
        ))?,
        _ => query(sql!("object_update"))?
            .execute((id, tenant, &new.name, &new.body, now, expected))?,
    };
    let found = by_id(tx.connection, new.id)?.filter(|found| found.tenant == new.tenant);
    Ok(match found {
        Some(found) if done > 0 => Put::Done(found),
        Some(found) if expected == 0 || found.version != expected => Put::Conflict(found.version),
        None if expected != 0 => Put::Conflict(0),
        _ => Put::NameTaken,
    })
}

fn by_id(connection: &Connection, id: ObjectId) -> Result<Option<Object>> {
    let mut query = connection.prepare_cached(sql!("object_by_id"))?;
    let mut rows = query.query((id.0,))?;
    rows.next()?.map(object).transpose()
}

fn version(connection: &Connection, tenant: TenantId, id: ObjectId) -> Result<u32> {
    let found = by_id(connection, id)?.filter(|found| found.tenant == tenant);
    Ok(found.map_or(0, |found| found.version))
}

/// id, tenant_id, kind, name, body, version, created_at, changed_at
pub(super) fn object(row: &Row<'_>) -> Result<Object> {
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
        created_at: at(row.get(6)?)?,
        changed_at: at(row.get(7)?)?,
    })
}
