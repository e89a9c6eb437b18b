//! Secrets, sealed.

use domain::id::{JobId, TenantId};
use domain::secret::{Scope, SecretPlace};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::pipeline::values;
use super::row::{at, signed, text, unsigned};
use crate::author::author;
use crate::safe::place_audit;
use crate::{KeptSecret, Page, Result, Rewrapped, Sealed, SecretStore, SecretView, Set};

impl SecretStore for PostgresStore {
    async fn keep_secret(&self, secret: &KeptSecret) -> Result<Set> {
        let KeptSecret { place, version, sealed, changed_by } = secret;
        let (tenant, job) = place.scope.ids();
        let (key, data_key) = (sealed.key.as_str(), sealed.data_key.as_slice());
        let (name, by, value) = (text(&place.name), text(changed_by), sealed.value.as_slice());
        let details = text(&place_audit(place, *version, changed_by).details).into_owned();
        let rows = match version.saturating_sub(1) {
            0 => {
                let values = values![tenant.0, job.0, name, key, data_key, value, by, details];
                self.shared.query(sql!("secret_insert"), values).await?
            }
            expected => {
                let expected = signed(expected);
                let values =
                    values![tenant.0, job.0, name, expected, key, data_key, value, by, details];
                self.shared.query(sql!("secret_update"), values).await?
            }
        };
        match rows.first() {
            Some(row) => Ok(Set::Done(unsigned(row.try_get(0)?))),
            None => Ok(Set::Conflict(self.secret_version(place).await?)),
        }
    }

    async fn remove_secret(&self, place: &SecretPlace, expected: u32) -> Result<Set> {
        let (tenant, job) = place.scope.ids();
        let by = author();
        let details = text(&place_audit(place, 0, &by).details).into_owned();
        let by = text(&by).into_owned();
        let values = values![tenant.0, job.0, text(&place.name), signed(expected), by, details];
        if !self.shared.query(sql!("secret_delete"), values).await?.is_empty() {
            return Ok(Set::Done(0));
        }
        Ok(Set::Conflict(self.secret_version(place).await?))
    }

    async fn secrets(&self, places: &[SecretPlace]) -> Result<Vec<KeptSecret>> {
        let ids = places.iter().map(|place| place.scope.ids());
        let (tenants, jobs): (Vec<Uuid>, Vec<Uuid>) = ids.map(|(t, j)| (t.0, j.0)).unzip();
        let names: Vec<_> = places.iter().map(|place| text(&place.name)).collect();
        let values = values![tenants, jobs, names];
        self.shared.query(sql!("secret_get"), values).await?.iter().map(kept).collect()
    }

    async fn secret_view(&self, place: &SecretPlace) -> Result<Option<SecretView>> {
        let (tenant, job) = place.scope.ids();
        let values = values![tenant.0, job.0, text(&place.name)];
        self.shared.query(sql!("secret_view"), values).await?.first().map(view).transpose()
    }

    async fn list_secrets(
        &self,
        tenant: Option<TenantId>,
        after: Option<&(JobId, String)>,
        limit: u32,
    ) -> Result<Page<SecretView, (JobId, String)>> {
        let (tenant, _) = tenant.map_or(Scope::Cluster, Scope::Tenant).ids();
        let (job, name) = after.cloned().unwrap_or((JobId::NONE, String::new()));
        let values = values![tenant.0, job.0, text(&name).into_owned(), i64::from(limit)];
        let rows = self.shared.query(sql!("secret_list"), values).await?;
        SecretView::page(rows.iter().map(view).collect::<Result<_>>()?, limit)
    }

    async fn secret_keys(&self) -> Result<Vec<(String, u64)>> {
        let rows = self.shared.query(sql!("secret_keys"), values![]).await?;
        let key = |row: &Row| Ok((row.try_get(0)?, row.try_get::<_, i64>(1)?.cast_unsigned()));
        rows.iter().map(key).collect()
    }

    async fn secrets_under(
        &self,
        key: &str,
        after: Option<&SecretPlace>,
        limit: u32,
    ) -> Result<Vec<KeptSecret>> {
        let (tenant, job) = after.map_or(Scope::Cluster, |place| place.scope).ids();
        let name = text(after.map_or("", |place| place.name.as_str()));
        let values = values![text(key), tenant.0, job.0, name, i64::from(limit)];
        self.shared.query(sql!("secret_under"), values).await?.iter().map(kept).collect()
    }

    async fn rewrap(&self, batch: &[Rewrapped]) -> Result<u64> {
        let (mut tenants, mut jobs, mut names) = (Vec::new(), Vec::new(), Vec::new());
        let (mut versions, mut from, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        let mut data_keys: Vec<&[u8]> = Vec::new();
        for item in batch {
            let (tenant, job) = item.place.scope.ids();
            tenants.push(tenant.0);
            jobs.push(job.0);
            names.push(text(&item.place.name));
            versions.push(signed(item.version));
            from.push(text(&item.from));
            keys.push(text(&item.key));
            data_keys.push(&item.data_key);
        }
        let values = values![tenants, jobs, names, versions, from, keys, data_keys];
        let done: i64 = self.shared.query_one(sql!("secret_rewrap"), values).await?.try_get(0)?;
        Ok(done.cast_unsigned())
    }
}

impl PostgresStore {
    async fn secret_version(&self, place: &SecretPlace) -> Result<u32> {
        let (tenant, job) = place.scope.ids();
        let values = values![tenant.0, job.0, text(&place.name)];
        let rows = self.shared.query(sql!("secret_version"), values).await?;
        rows.first().map_or(Ok(0), |row| Ok(unsigned(row.try_get(0)?)))
    }
}

fn place(row: &Row) -> Result<SecretPlace> {
    let (tenant, job): (Uuid, Uuid) = (row.try_get(0)?, row.try_get(1)?);
    Ok(SecretPlace::of_ids(TenantId(tenant), JobId(job), row.try_get(2)?))
}

fn kept(row: &Row) -> Result<KeptSecret> {
    let (data_key, value) = (row.try_get(5)?, row.try_get(6)?);
    Ok(KeptSecret {
        place: place(row)?,
        version: unsigned(row.try_get(3)?),
        sealed: Sealed { key: row.try_get(4)?, data_key, value },
        changed_by: row.try_get(7)?,
    })
}

fn view(row: &Row) -> Result<SecretView> {
    Ok(SecretView {
        place: place(row)?,
        version: unsigned(row.try_get(3)?),
        key: row.try_get(4)?,
        changed_at: at(row.try_get(5)?),
        changed_by: row.try_get(6)?,
    })
}
