//! Who there is and what they were given. Every change begins with the generation, whose row is
//! locked until commit: changes of identity come one after the other.

use domain::access::{Award, Entry, Kind, Record};
use domain::id::TenantId;
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::pipeline::{Pipeline, values};
use super::row::{at, signed, text, unsigned, us};
use crate::author::author;
use crate::identity::{
    EXPIRED_TTL_US, audit_kind, audit_state, awarded, body_of, columns, entry_of, page, reached,
};
use crate::{EntryFilter, Given, Identity, Page, Reach, Recorded, Removed, Result, StoreError};

impl Identity for PostgresStore {
    async fn generation(&self) -> Result<i64> {
        let row = self.shared.query_one(sql!("identity_generation"), values![]).await?;
        Ok(row.try_get(0)?)
    }

    async fn entries(&self, ids: &[Uuid]) -> Result<Vec<Record>> {
        let rows = self.shared.query(sql!("entry_by_id"), values![ids.to_vec()]).await?;
        rows.iter().map(record).collect()
    }

    async fn entry_named(
        &self,
        kind: Kind,
        tenant: TenantId,
        name: &str,
    ) -> Result<Option<Record>> {
        let values = values![tenant.0, i16::from(kind as u8), text(name)];
        let rows = self.shared.query(sql!("entry_by_name"), values).await?;
        rows.first().map(record).transpose()
    }

    async fn list_entries(
        &self,
        filter: &EntryFilter,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Record, String>> {
        let values = values![
            filter.tenant.0,
            i16::from(filter.kind as u8),
            text(after.unwrap_or_default()),
            filter.owner.map(|owner| owner.0),
            i64::from(limit) + 1,
        ];
        let rows = self.shared.query(sql!("entry_list"), values).await?;
        let items = rows.iter().map(record).collect::<Result<Vec<_>>>()?;
        Ok(page(items, limit, |record| record.entry.name()))
    }

    async fn put_entry(&self, entry: &Entry, expected: Option<u32>) -> Result<Recorded> {
        let (id, kind, tenant) = (entry.id(), i16::from(entry.kind() as u8), entry.tenant().0);
        let name = entry.name();
        let mut values = values![
            id,
            kind,
            tenant,
            text(&name).into_owned(),
            entry.owner().map(|owner| owner.0),
            entry.expires_at().map(us),
            body_of(entry)?,
        ];
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("identity_bump"), values![]);
        let step = match expected {
            None => pipeline.push(sql!("entry_insert"), values),
            Some(expected) => {
                values.push(Box::new(signed(expected)));
                pipeline.push(sql!("entry_update"), values)
            }
        };
        if let Entry::Tenant(tenant) = entry {
            let quota = |quota: Option<u32>| quota.map(i64::from);
            let (jobs, running) = (quota(tenant.max_jobs), quota(tenant.max_concurrent));
            let values = values![id, jobs, running, signed(tenant.tier.weight())];
            pipeline.push(sql!("quota_set"), values);
        }
        let kind = audit_kind(entry, expected.is_none()).name().to_owned();
        let state = text(&audit_state(entry).to_string()).into_owned();
        pipeline.push(sql!("audit_entry"), values![id, by(), kind, state]);
        let answers = pipeline.commit(&self.shared.pool).await?;
        if let Some(row) = answers[step].first() {
            return Ok(Recorded::Done(Record {
                entry: entry.clone(),
                version: unsigned(row.try_get(0)?),
                created_at: at(row.try_get(1)?),
                updated_at: at(row.try_get(2)?),
            }));
        }
        let version = self.version_of(id).await?;
        let is_taken = match expected {
            None => {
                let named = self.entry_named(entry.kind(), entry.tenant(), &name).await?;
                named.is_some() || version > 0
            }
            Some(expected) => version == expected,
        };
        Ok(if is_taken { Recorded::Taken } else { Recorded::Conflict(version) })
    }

    async fn remove_entry(&self, id: Uuid, expected: Option<u32>) -> Result<Removed> {
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("identity_bump"), values![]);
        let step = pipeline.push(sql!("entry_delete"), values![id, expected.map(signed), by()]);
        if !pipeline.commit(&self.shared.pool).await?[step].is_empty() {
            return Ok(Removed::Done);
        }
        let version = self.version_of(id).await?;
        let meant = version > 0 && expected.is_none_or(|expected| expected == version);
        Ok(if meant { Removed::InUse } else { Removed::Conflict(version) })
    }

    async fn award(&self, award: &Award) -> Result<Given> {
        let (role, privilege) = columns(&award.what);
        let (id, tenant) = (award.id(), award.tenant.0);
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("identity_bump"), values![]);
        let values = values![id, tenant, award.to, role, privilege];
        let step = pipeline.push(sql!("award_insert"), values);
        pipeline.push(sql!("audit_award"), values![id, by()]);
        if !pipeline.commit(&self.shared.pool).await?[step].is_empty() {
            return Ok(Given::Done);
        }
        let values = values![id, tenant, award.to, role];
        let row = self.shared.query_one(sql!("award_refused"), values).await?;
        Ok(match (row.try_get(0)?, row.try_get(1)?) {
            (true, _) => Given::Known,
            (false, true) => Given::Cycle,
            (false, false) => Given::Absent,
        })
    }

    async fn revoke(&self, id: Uuid) -> Result<bool> {
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("identity_bump"), values![]);
        let step = pipeline.push(sql!("award_delete"), values![id, by()]);
        Ok(!pipeline.commit(&self.shared.pool).await?[step].is_empty())
    }

    async fn award_by_id(&self, id: Uuid) -> Result<Option<Award>> {
        let rows = self.shared.query(sql!("award_by_id"), values![id]).await?;
        rows.first().map(award).transpose()
    }

    async fn list_awards(
        &self,
        tenant: TenantId,
        to: Option<Uuid>,
        after: Option<Uuid>,
        limit: u32,
    ) -> Result<Page<Award, Uuid>> {
        let after = after.unwrap_or(Uuid::nil());
        let values = values![tenant.0, after, to, i64::from(limit) + 1];
        let rows = self.shared.query(sql!("award_list"), values).await?;
        Ok(page(rows.iter().map(award).collect::<Result<Vec<_>>>()?, limit, Award::id))
    }

    async fn reach(&self, id: Uuid) -> Result<Reach> {
        let rows = self.shared.query(sql!("award_reach"), values![id]).await?;
        reached(rows.iter().map(|row| awarded(row.try_get(0)?, row.try_get(1)?)))
    }

    async fn salt(&self, offered: [u8; 32]) -> Result<[u8; 32]> {
        let values = values![offered.to_vec()];
        let row = self.shared.query_one(sql!("identity_salt"), values).await?;
        let kept: Vec<u8> = row.try_get(0)?;
        let wrong = |_| StoreError::Unreadable("what salts are made of".to_owned());
        kept.try_into().map_err(wrong)
    }

    async fn forget_keys(&self, limit: u32) -> Result<u64> {
        let values = values![EXPIRED_TTL_US, i64::from(limit)];
        let gone: i64 = self.shared.query_one(sql!("key_forget"), values).await?.try_get(0)?;
        Ok(gone.cast_unsigned())
    }
}

impl PostgresStore {
    async fn version_of(&self, id: Uuid) -> Result<u32> {
        let found = self.entries(&[id]).await?.pop();
        Ok(found.map_or(0, |found| found.version))
    }
}

/// Who makes a change.
fn by() -> String {
    text(&author()).into_owned()
}

/// body, version, created_at, updated_at
fn record(row: &Row) -> Result<Record> {
    Ok(Record {
        entry: entry_of(row.try_get(0)?)?,
        version: unsigned(row.try_get(1)?),
        created_at: at(row.try_get(2)?),
        updated_at: at(row.try_get(3)?),
    })
}

/// id, tenant_id, to_id, role_id, privilege
fn award(row: &Row) -> Result<Award> {
    Ok(Award {
        tenant: TenantId(row.try_get(1)?),
        to: row.try_get(2)?,
        what: awarded(row.try_get(3)?, row.try_get(4)?)?,
    })
}
