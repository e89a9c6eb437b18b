//! Secrets, sealed.

use domain::id::{JobId, TenantId};
use domain::secret::{Scope, SecretPlace};
use rusqlite::{Connection, OptionalExtension, Row};
use uuid::Uuid;

use super::row::at;
use super::writer::Tx;
use super::{SqliteStore, journal};
use crate::author::author;
use crate::safe::place_audit;
use crate::{KeptSecret, Page, Result, Rewrapped, Sealed, SecretStore, SecretView, Set};

impl SecretStore for SqliteStore {
    async fn keep_secret(&self, secret: &KeptSecret) -> Result<Set> {
        let secret = secret.clone();
        self.writer
            .write(move |tx| {
                let kept = keep(tx, &secret)?;
                audit(tx, kept, &secret.place, &secret.changed_by)?;
                Ok(kept)
            })
            .await
    }

    async fn remove_secret(&self, place: &SecretPlace, expected: u32) -> Result<Set> {
        let (place, by) = (place.clone(), author());
        self.writer
            .write(move |tx| {
                let removed = remove(tx, &place, expected)?;
                audit(tx, removed, &place, &by)?;
                Ok(removed)
            })
            .await
    }

    async fn secrets(&self, places: &[SecretPlace]) -> Result<Vec<KeptSecret>> {
        let places = places.to_vec();
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("secret_get"))?;
            let mut found = Vec::new();
            for place in &places {
                let (tenant, job) = place.scope.ids();
                found.extend(query.query_row((tenant.0, job.0, &place.name), kept).optional()?);
            }
            Ok(found)
        })
        .await
    }

    async fn secret_view(&self, place: &SecretPlace) -> Result<Option<SecretView>> {
        let place = place.clone();
        self.read(move |connection| {
            let (tenant, job) = place.scope.ids();
            let mut query = connection.prepare_cached(sql!("secret_view"))?;
            let mut rows = query.query_and_then((tenant.0, job.0, place.name), view)?;
            rows.next().transpose()
        })
        .await
    }

    async fn list_secrets(
        &self,
        tenant: Option<TenantId>,
        after: Option<&(JobId, String)>,
        limit: u32,
    ) -> Result<Page<SecretView, (JobId, String)>> {
        let (tenant, _) = tenant.map_or(Scope::Cluster, Scope::Tenant).ids();
        let (job, name) = after.cloned().unwrap_or((JobId::NONE, String::new()));
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("secret_list"))?;
            let rows = query.query_and_then((tenant.0, job.0, name, limit), view)?;
            SecretView::page(rows.collect::<Result<_>>()?, limit)
        })
        .await
    }

    async fn secret_keys(&self) -> Result<Vec<(String, u64)>> {
        self.read(|connection| {
            let mut query = connection.prepare_cached(sql!("secret_keys"))?;
            let rows = query
                .query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn secrets_under(
        &self,
        key: &str,
        after: Option<&SecretPlace>,
        limit: u32,
    ) -> Result<Vec<KeptSecret>> {
        let (key, after) = (key.to_owned(), after.cloned());
        self.read(move |connection| {
            let (tenant, job) = after.as_ref().map_or(Scope::Cluster, |place| place.scope).ids();
            let name = after.as_ref().map_or("", |place| place.name.as_str());
            let mut query = connection.prepare_cached(sql!("secret_under"))?;
            let rows = query.query_map((key, tenant.0, job.0, name, limit), kept)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn rewrap(&self, batch: &[Rewrapped]) -> Result<u64> {
        let batch = batch.to_vec();
        self.writer
            .write(move |tx| {
                let mut update = tx.connection.prepare_cached(sql!("secret_rewrap"))?;
                let mut done = 0;
                for Rewrapped { place, version, from, key, data_key } in &batch {
                    let (tenant, job) = place.scope.ids();
                    let values = (tenant.0, job.0, &place.name, version, from, key, data_key);
                    done += update.execute(values)? as u64;
                }
                Ok(done)
            })
            .await
    }
}

/// Who changed a secret, if it was.
fn audit(tx: &Tx<'_>, set: Set, place: &SecretPlace, by: &str) -> Result<()> {
    match set {
        Set::Done(version) => journal::insert(tx, &place_audit(place, version, by)),
        Set::Conflict(_) => Ok(()),
    }
}

fn version_of(connection: &Connection, place: &SecretPlace) -> Result<u32> {
    let (tenant, job) = place.scope.ids();
    let mut query = connection.prepare_cached(sql!("secret_version"))?;
    let found = query.query_row((tenant.0, job.0, &place.name), |row| row.get(0)).optional()?;
    Ok(found.unwrap_or(0))
}

fn keep(tx: &mut Tx<'_>, secret: &KeptSecret) -> Result<Set> {
    let KeptSecret { place, version, sealed, changed_by } = secret;
    let Sealed { key, data_key, value } = sealed;
    let (tenant, job) = place.scope.ids();
    let (name, now) = (&place.name, tx.now_us());
    let query = |sql| tx.connection.prepare_cached(sql);
    let done = match version.saturating_sub(1) {
        0 => query(sql!("secret_insert"))?
            .execute((tenant.0, job.0, name, key, data_key, value, now, changed_by))?,
        expected => query(sql!("secret_update"))?
            .execute((tenant.0, job.0, name, expected, key, data_key, value, now, changed_by))?,
    };
    let version = version_of(tx.connection, place)?;
    Ok(if done > 0 { Set::Done(version) } else { Set::Conflict(version) })
}

fn remove(tx: &mut Tx<'_>, place: &SecretPlace, expected: u32) -> Result<Set> {
    let (tenant, job) = place.scope.ids();
    let mut delete = tx.connection.prepare_cached(sql!("secret_delete"))?;
    if delete.execute((tenant.0, job.0, &place.name, expected))? > 0 {
        return Ok(Set::Done(0));
    }
    Ok(Set::Conflict(version_of(tx.connection, place)?))
}

/// The secrets of a job or an object go with it.
pub(super) fn remove_of(tx: &Tx<'_>, scope: Scope) -> Result<()> {
    let (tenant, job) = scope.ids();
    tx.connection.prepare_cached(sql!("secret_delete_of_job"))?.execute((tenant.0, job.0))?;
    Ok(())
}

fn place(row: &Row<'_>) -> rusqlite::Result<SecretPlace> {
    let (tenant, job): (Uuid, Uuid) = (row.get(0)?, row.get(1)?);
    Ok(SecretPlace::of_ids(TenantId(tenant), JobId(job), row.get(2)?))
}

fn kept(row: &Row<'_>) -> rusqlite::Result<KeptSecret> {
    let sealed = Sealed { key: row.get(4)?, data_key: row.get(5)?, value: row.get(6)? };
    Ok(KeptSecret { place: place(row)?, version: row.get(3)?, sealed, changed_by: row.get(7)? })
}

fn view(row: &Row<'_>) -> Result<SecretView> {
    Ok(SecretView {
        place: place(row)?,
        version: row.get(3)?,
        key: row.get(4)?,
        changed_at: at(row.get(5)?)?,
        changed_by: row.get(6)?,
    })
}
