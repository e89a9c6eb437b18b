//! Who there is and what they were given.

use domain::access::{Award, Awarded, Entry, Kind, Record};
use domain::audit::{self, Event};
use domain::id::TenantId;
use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::{Value, json};
use uuid::Uuid;

use super::row::{at, us};
use super::writer::Tx;
use super::{SqliteStore, journal};
use crate::author::author;
use crate::identity::{
    EXPIRED_TTL_US, audit_kind, audit_state, awarded, body_of, columns, entry_of, page, reached,
};
use crate::{EntryFilter, Given, Identity, Page, Reach, Recorded, Removed, Result};

impl Identity for SqliteStore {
    async fn generation(&self) -> Result<i64> {
        self.read(|connection| {
            let mut query = connection.prepare_cached(sql!("identity_generation"))?;
            Ok(query.query_row([], |row| row.get(0))?)
        })
        .await
    }

    async fn entries(&self, ids: &[Uuid]) -> Result<Vec<Record>> {
        let ids = ids.to_vec();
        self.read(move |connection| {
            let found = ids.iter().map(|id| by_id(connection, *id));
            found.filter_map(Result::transpose).collect()
        })
        .await
    }

    async fn entry_named(
        &self,
        kind: Kind,
        tenant: TenantId,
        name: &str,
    ) -> Result<Option<Record>> {
        let name = name.to_owned();
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("entry_by_name"))?;
            let mut rows = query.query_and_then((tenant.0, kind as u8, name), record)?;
            rows.next().transpose()
        })
        .await
    }

    async fn list_entries(
        &self,
        filter: &EntryFilter,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Record, String>> {
        let (filter, after) = (*filter, after.unwrap_or_default().to_owned());
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("entry_list"))?;
            let (owner, look) = (filter.owner.map(|owner| owner.0), limit.saturating_add(1));
            let values = (filter.tenant.0, filter.kind as u8, after, owner, look);
            let items = query.query_and_then(values, record)?.collect::<Result<Vec<_>>>()?;
            Ok(page(items, limit, |record| record.entry.name()))
        })
        .await
    }

    async fn put_entry(&self, entry: &Entry, expected: Option<u32>) -> Result<Recorded> {
        let (entry, by) = (entry.clone(), author());
        self.writer.write(move |tx| put(tx, &entry, expected, &by)).await
    }

    async fn remove_entry(&self, id: Uuid, expected: Option<u32>) -> Result<Removed> {
        let by = author();
        self.writer.write(move |tx| remove(tx, id, expected, &by)).await
    }

    async fn award(&self, award: &Award) -> Result<Given> {
        let (award, by) = (award.clone(), author());
        self.writer
            .write(move |tx| {
                let (role, privilege) = columns(&award.what);
                let id = award.id();
                let mut insert = tx.connection.prepare_cached(sql!("award_insert"))?;
                let values = (id, award.tenant.0, award.to, role, privilege);
                if insert.execute(values)? > 0 {
                    bump(tx)?;
                    record_award(tx, &award, "DONE", &by)?;
                    return Ok(Given::Done);
                }
                let mut query = tx.connection.prepare_cached(sql!("award_refused"))?;
                let values = (id, award.tenant.0, award.to, role);
                let (known, there) =
                    query.query_row(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
                Ok(if known {
                    Given::Known
                } else if there {
                    Given::Cycle
                } else {
                    Given::Absent
                })
            })
            .await
    }

    async fn revoke(&self, id: Uuid) -> Result<bool> {
        let by = author();
        self.writer
            .write(move |tx| {
                bump(tx)?;
                let Some(award) = award_of(tx.connection, id)? else { return Ok(false) };
                tx.connection.prepare_cached(sql!("award_delete"))?.execute((id,))?;
                record_award(tx, &award, "DELETED", &by)?;
                Ok(true)
            })
            .await
    }

    async fn award_by_id(&self, id: Uuid) -> Result<Option<Award>> {
        self.read(move |connection| award_of(connection, id)).await
    }

    async fn list_awards(
        &self,
        tenant: TenantId,
        to: Option<Uuid>,
        after: Option<Uuid>,
        limit: u32,
    ) -> Result<Page<Award, Uuid>> {
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("award_list"))?;
            let after = after.unwrap_or(Uuid::nil());
            let rows =
                query.query_and_then((tenant.0, after, to, limit.saturating_add(1)), award)?;
            Ok(page(rows.collect::<Result<Vec<_>>>()?, limit, Award::id))
        })
        .await
    }

    async fn reach(&self, id: Uuid) -> Result<Reach> {
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("award_reach"))?;
            let rows = query.query_and_then((id,), |row| {
                awarded(row.get(0)?, row.get::<_, Option<String>>(1)?.as_deref())
            })?;
            reached(rows)
        })
        .await
    }

    async fn salt(&self, offered: [u8; 32]) -> Result<[u8; 32]> {
        self.writer
            .write(move |tx| {
                let mut set = tx.connection.prepare_cached(sql!("identity_salt"))?;
                Ok(set.query_row((offered,), |row| row.get(0))?)
            })
            .await
    }

    async fn forget_keys(&self, limit: u32) -> Result<u64> {
        self.writer
            .write(move |tx| {
                let mut delete = tx.connection.prepare_cached(sql!("key_forget"))?;
                Ok(delete.execute((tx.now_us() - EXPIRED_TTL_US, limit))? as u64)
            })
            .await
    }
}

fn bump(tx: &Tx<'_>) -> Result<()> {
    tx.connection.prepare_cached(sql!("identity_bump"))?.execute([])?;
    Ok(())
}

/// body, version, created_at, updated_at
fn record(row: &Row<'_>) -> Result<Record> {
    let body: String = row.get(0)?;
    Ok(Record {
        entry: entry_of(&body)?,
        version: row.get(1)?,
        created_at: at(row.get(2)?)?,
        updated_at: at(row.get(3)?)?,
    })
}

/// id, tenant_id, to_id, role_id, privilege
fn award(row: &Row<'_>) -> Result<Award> {
    let privilege: Option<String> = row.get(4)?;
    Ok(Award {
        tenant: TenantId(row.get(1)?),
        to: row.get(2)?,
        what: awarded(row.get(3)?, privilege.as_deref())?,
    })
}

fn award_of(connection: &Connection, id: Uuid) -> Result<Option<Award>> {
    let mut query = connection.prepare_cached(sql!("award_by_id"))?;
    let mut rows = query.query_and_then((id,), award)?;
    rows.next().transpose()
}

fn by_id(connection: &Connection, id: Uuid) -> Result<Option<Record>> {
    let mut query = connection.prepare_cached(sql!("entry_by_id"))?;
    let mut rows = query.query_and_then((id,), record)?;
    rows.next().transpose()
}

fn put(tx: &mut Tx<'_>, entry: &Entry, expected: Option<u32>, by: &str) -> Result<Recorded> {
    bump(tx)?;
    let (id, kind, tenant) = (entry.id(), entry.kind() as u8, entry.tenant().0);
    let (owner, expires) = (entry.owner().map(|owner| owner.0), entry.expires_at().map(us));
    let (name, body, now) = (entry.name(), body_of(entry)?, tx.now_us());
    let written = match expected {
        None => tx
            .connection
            .prepare_cached(sql!("entry_insert"))?
            .execute((id, kind, tenant, &name, owner, expires, body, now))?,
        Some(expected) => tx
            .connection
            .prepare_cached(sql!("entry_update"))?
            .execute((id, kind, tenant, &name, owner, expires, body, now, expected))?,
    };
    let found = by_id(tx.connection, id)?;
    if written > 0 {
        if let Entry::Tenant(tenant) = entry {
            let mut set = tx.connection.prepare_cached(sql!("quota_set"))?;
            let weight = tenant.tier.weight();
            set.execute((id, tenant.max_jobs, tenant.max_concurrent, weight))?;
        }
        let Some(found) = found else { return Ok(Recorded::Conflict(0)) };
        let kind = audit_kind(entry, expected.is_none());
        record_entry(tx, entry, kind, Some(found.version), by)?;
        return Ok(Recorded::Done(found));
    }
    let mut query = tx.connection.prepare_cached(sql!("entry_by_name"))?;
    let named = query.query_row((tenant, kind, &name), |_| Ok(())).optional()?;
    let version = found.map_or(0, |found| found.version);
    let is_taken = match expected {
        None => named.is_some() || version > 0,
        Some(expected) => version == expected,
    };
    Ok(if is_taken { Recorded::Taken } else { Recorded::Conflict(version) })
}

fn remove(tx: &mut Tx<'_>, id: Uuid, expected: Option<u32>, by: &str) -> Result<Removed> {
    bump(tx)?;
    let connection = tx.connection;
    let seen = by_id(connection, id)?;
    let gone = connection.prepare_cached(sql!("entry_delete"))?.execute((id, expected))?;
    if gone == 0 {
        let version = seen.map_or(0, |found| found.version);
        let meant = version > 0 && expected.is_none_or(|expected| expected == version);
        return Ok(if meant { Removed::InUse } else { Removed::Conflict(version) });
    }
    connection.prepare_cached(sql!("entry_delete_owned"))?.execute((id,))?;
    connection.prepare_cached(sql!("award_delete_of"))?.execute((id,))?;
    connection.prepare_cached(sql!("quota_delete"))?.execute((id,))?;
    if let Some(Record { entry, .. }) = seen {
        record_entry(tx, &entry, audit_kind(&entry, false), None, by)?;
    }
    Ok(Removed::Done)
}

/// Records what became of an entry; no version stands for its removal. A tenant that is there can
/// read about itself too.
fn record_entry(
    tx: &Tx<'_>,
    entry: &Entry,
    kind: audit::Kind,
    version: Option<u32>,
    by: &str,
) -> Result<()> {
    let mut details = json!({ "name": entry.name() });
    if version.is_some() {
        details["state"] = audit_state(entry);
    }
    let owner = entry.owner().map(|owner| by_id(tx.connection, owner.0)).transpose()?;
    if let Some(owner) = owner.flatten() {
        details["user"] = owner.entry.name().into();
    }
    details["version"] = version.unwrap_or(0).into();
    let outcome = if version.is_some() { "DONE" } else { "DELETED" };
    record_change(tx, entry.tenant(), kind.clone(), outcome, &details, by)?;
    match entry {
        Entry::Tenant(tenant) if version.is_some() => {
            record_change(tx, tenant.id, kind, outcome, &details, by)
        }
        _ => Ok(()),
    }
}

/// Records that something was given or taken.
fn record_award(tx: &Tx<'_>, award: &Award, outcome: &str, by: &str) -> Result<()> {
    let name = |id: Uuid| -> Result<(Option<Kind>, String)> {
        let found = by_id(tx.connection, id)?.map(|found| found.entry);
        Ok(found.map_or((None, id.to_string()), |entry| (Some(entry.kind()), entry.name())))
    };
    let (kind, to) = name(award.to)?;
    let to_key = if kind == Some(Kind::Role) { "to_role" } else { "to_user" };
    let details = match &award.what {
        Awarded::Role(role) => json!({ "role": name(role.0)?.1, to_key: to }),
        other => json!({ "privilege": other.text(), to_key: to }),
    };
    record_change(tx, award.tenant, audit::Kind::GrantChanged, outcome, &details, by)
}

fn record_change(
    tx: &Tx<'_>,
    tenant: TenantId,
    kind: audit::Kind,
    outcome: &str,
    details: &Value,
    by: &str,
) -> Result<()> {
    let (actor, outcome, details) = (by.to_owned(), outcome.to_owned(), details.to_string());
    journal::insert(tx, &Event { tenant, actor, kind, job: None, run: None, outcome, details })
}
