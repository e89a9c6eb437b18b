//! Secrets, sealed: the store keeps values that it cannot read.

use std::future::Future;

use domain::audit::{Event, Kind};
use domain::id::{JobId, TenantId};
use domain::secret::{Scope, SecretPlace};
use jiff::Timestamp;

use crate::audit_log::audit_row;
use crate::records::{Param, Records, Row, Statement, Transaction, params};
use crate::{Page, Result, Set, Store};

/// A store that keeps secrets. The caller seals their values.
pub trait SecretStore: Store {
    /// Keeps a secret in the place of the one that it is based on: its version is one more. Version
    /// 1 is for one that is not there.
    fn keep_secret(&self, secret: &KeptSecret) -> impl Future<Output = Result<Set>> + Send;

    /// Removes a secret if it has this version.
    fn remove_secret(
        &self,
        place: &SecretPlace,
        expected: u32,
        by: &str,
    ) -> impl Future<Output = Result<Set>> + Send;

    /// The secrets that are at some of these places, in no particular order.
    fn secrets(
        &self,
        places: &[SecretPlace],
    ) -> impl Future<Output = Result<Vec<KeptSecret>>> + Send;

    /// Metadata of a secret, without its value.
    fn secret_view(
        &self,
        place: &SecretPlace,
    ) -> impl Future<Output = Result<Option<SecretView>>> + Send;

    /// The secrets of a tenant and its jobs, or those of the cluster, by job and name, after the
    /// given one. Not their values, and not those of objects.
    fn list_secrets(
        &self,
        tenant: Option<TenantId>,
        after: Option<&(JobId, String)>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<SecretView, (JobId, String)>>> + Send;

    /// The master keys that secrets are sealed under, and how many are under each.
    fn secret_keys(&self) -> impl Future<Output = Result<Vec<(String, u64)>>> + Send;

    /// Secrets that are sealed under a master key, by place, after the given one.
    fn secrets_under(
        &self,
        key: &str,
        after: Option<&SecretPlace>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<KeptSecret>>> + Send;

    /// Puts data keys under another master key, where secrets are still the ones that were read.
    /// Their versions stay. Returns how many were.
    fn rewrap(&self, batch: &[Rewrapped]) -> impl Future<Output = Result<u64>> + Send;
}

/// A secret as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSecret {
    /// Where it is.
    pub place: SecretPlace,
    /// Grows with every change, from 1.
    pub version: u32,
    /// Its value.
    pub sealed: Sealed,
    /// Name of the user of the last change.
    pub changed_by: String,
}

/// A value that only a holder of the master key can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The name of the master key.
    pub key: String,
    /// The data key, under the master key.
    pub data_key: Vec<u8>,
    /// The value, under the data key.
    pub value: Vec<u8>,
}

/// A data key under another master key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrapped {
    /// The secret.
    pub place: SecretPlace,
    /// Its version when it was read.
    pub version: u32,
    /// The master key that it was under.
    pub from: String,
    /// The master key that it is under now.
    pub key: String,
    /// The data key, under that.
    pub data_key: Vec<u8>,
}

/// Metadata of a secret, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretView {
    /// Where it is.
    pub place: SecretPlace,
    /// Grows with every change, from 1.
    pub version: u32,
    /// The name of the master key that it is sealed under.
    pub key: String,
    /// When it was last changed.
    pub changed_at: Timestamp,
    /// Name of the user of the last change.
    pub changed_by: String,
}

impl SecretView {
    /// The page of a list with this limit.
    pub(crate) fn page(items: Vec<Self>, limit: u32) -> Result<Page<Self, (JobId, String)>> {
        let last = items.last().filter(|_| items.len() >= limit as usize);
        let next = last.map(|last| (last.place.scope.ids().1, last.place.name.clone()));
        Ok(Page { items, next })
    }
}

/// The columns of a secret in the order in which [`kept`] reads them.
const KEPT: &str = "tenant_id, job_id, name, version, key_id, data_key, value, changed_by";

/// The columns of a secret without its value in the order in which [`view`] reads them.
const VIEW: &str = "tenant_id, job_id, name, version, key_id, changed_at, changed_by";

impl<S: Records> SecretStore for S {
    async fn keep_secret(&self, secret: &KeptSecret) -> Result<Set> {
        let KeptSecret { place, version, sealed, changed_by } = secret;
        let (tenant, job) = place.scope.ids();
        let Sealed { key, data_key, value } = sealed;
        let (data_key, value) = (data_key.as_slice(), value.as_slice());
        let expected = version.saturating_sub(1);
        let statement = match expected {
            0 => Statement::new(
                "INSERT INTO secrets
                     (tenant_id, job_id, name, version, key_id, data_key, value, changed_at, changed_by)
                 VALUES ($1, $2, $3, 1, $4, $5, $6, {now}, $7)
                 ON CONFLICT DO NOTHING RETURNING version",
                params![tenant.0, job.0, &place.name, key, data_key, value, changed_by],
            ),
            _ => Statement::new(
                "UPDATE secrets SET version = version + 1, key_id = $5, data_key = $6, value = $7,
                     changed_at = {now}, changed_by = $8
                 WHERE tenant_id = $1 AND job_id = $2 AND name = $3 AND version = $4
                 RETURNING version",
                params![tenant.0, job.0, &place.name, expected, key, data_key, value, changed_by],
            ),
        };
        let audit = audit_row(&audit(place, expected + 1, changed_by));
        let transaction = Transaction::from(vec![statement.expect_row(), audit]);
        if self.commit(transaction).await?.is_some() {
            return Ok(Set::Done(expected + 1));
        }
        Ok(Set::Conflict(secret_version(self, place).await?))
    }

    async fn remove_secret(&self, place: &SecretPlace, expected: u32, by: &str) -> Result<Set> {
        let (tenant, job) = place.scope.ids();
        let delete = Statement::new(
            "DELETE FROM secrets
             WHERE tenant_id = $1 AND job_id = $2 AND name = $3 AND version = $4 RETURNING version",
            params![tenant.0, job.0, &place.name, expected],
        );
        let audit = audit_row(&audit(place, 0, by));
        let transaction = Transaction::from(vec![delete.expect_row(), audit]);
        if self.commit(transaction).await?.is_some() {
            return Ok(Set::Done(0));
        }
        Ok(Set::Conflict(secret_version(self, place).await?))
    }

    async fn secrets(&self, places: &[SecretPlace]) -> Result<Vec<KeptSecret>> {
        let select = format!(
            "SELECT {KEPT} FROM secrets WHERE tenant_id = $1 AND job_id = $2 AND name = $3"
        );
        let statement = |place: &SecretPlace| Statement::new(select.clone(), at_place(place));
        let rows = self.query_each(places.iter().map(statement).collect()).await?;
        rows.iter().flatten().map(kept).collect()
    }

    async fn secret_view(&self, place: &SecretPlace) -> Result<Option<SecretView>> {
        let sql = format!(
            "SELECT {VIEW} FROM secrets WHERE tenant_id = $1 AND job_id = $2 AND name = $3"
        );
        self.query(Statement::new(sql, at_place(place))).await?.first().map(view).transpose()
    }

    async fn list_secrets(
        &self,
        tenant: Option<TenantId>,
        after: Option<&(JobId, String)>,
        limit: u32,
    ) -> Result<Page<SecretView, (JobId, String)>> {
        let (tenant, _) = tenant.map_or(Scope::Cluster, Scope::Tenant).ids();
        let (job, name) = after.cloned().unwrap_or((JobId::NONE, String::new()));
        let sql = format!(
            "SELECT {VIEW} FROM secrets
             WHERE tenant_id = $1 AND (job_id, name) > ($2, $3) AND name NOT LIKE ':%'
             ORDER BY job_id, name LIMIT $4"
        );
        let rows = self.query(Statement::new(sql, params![tenant.0, job.0, name, limit])).await?;
        SecretView::page(rows.iter().map(view).collect::<Result<_>>()?, limit)
    }

    async fn secret_keys(&self) -> Result<Vec<(String, u64)>> {
        let sql = "SELECT key_id, count(*) FROM secrets GROUP BY key_id ORDER BY key_id";
        let rows = self.query(Statement::new(sql, params![])).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    async fn secrets_under(
        &self,
        key: &str,
        after: Option<&SecretPlace>,
        limit: u32,
    ) -> Result<Vec<KeptSecret>> {
        let (tenant, job) = after.map_or(Scope::Cluster, |place| place.scope).ids();
        let name = after.map_or("", |place| place.name.as_str());
        let sql = format!(
            "SELECT {KEPT} FROM secrets
             WHERE key_id = $1 AND (tenant_id, job_id, name) > ($2, $3, $4)
             ORDER BY tenant_id, job_id, name LIMIT $5"
        );
        let statement = Statement::new(sql, params![key, tenant.0, job.0, name, limit]);
        self.query(statement).await?.iter().map(kept).collect()
    }

    async fn rewrap(&self, batch: &[Rewrapped]) -> Result<u64> {
        let rewrap = |item: &Rewrapped| {
            let mut params = at_place(&item.place);
            params.extend(params![item.version, &item.from, &item.key, item.data_key.as_slice()]);
            Statement::new(
                "UPDATE secrets SET key_id = $6, data_key = $7
                 WHERE tenant_id = $1 AND job_id = $2 AND name = $3 AND version = $4
                     AND key_id = $5",
                params,
            )
        };
        let statements: Vec<_> = batch.iter().map(rewrap).collect();
        let answers = self.commit(Transaction::from(statements)).await?.unwrap_or_default();
        Ok(answers.iter().map(|answer| answer.affected).sum())
    }
}

/// The parameters of a place: tenant, job and name.
fn at_place(place: &SecretPlace) -> Vec<Param> {
    let (tenant, job) = place.scope.ids();
    params![tenant.0, job.0, &place.name]
}

/// The version of a secret; 0 when it is not there.
async fn secret_version(store: &impl Records, place: &SecretPlace) -> Result<u32> {
    Ok(store.secret_view(place).await?.map_or(0, |found| found.version))
}

fn place(row: &Row) -> Result<SecretPlace> {
    Ok(SecretPlace::of_ids(TenantId(row.get(0)?), JobId(row.get(1)?), row.get(2)?))
}

fn kept(row: &Row) -> Result<KeptSecret> {
    let sealed = Sealed { key: row.get(4)?, data_key: row.get(5)?, value: row.get(6)? };
    Ok(KeptSecret { place: place(row)?, version: row.get(3)?, sealed, changed_by: row.get(7)? })
}

fn view(row: &Row) -> Result<SecretView> {
    Ok(SecretView {
        place: place(row)?,
        version: row.get(3)?,
        key: row.get(4)?,
        changed_at: row.get(5)?,
        changed_by: row.get(6)?,
    })
}

/// Audit event of a change of a secret; version 0 stands for its removal.
fn audit(place: &SecretPlace, version: u32, by: &str) -> Event {
    let (tenant, _) = place.scope.ids();
    Event {
        tenant,
        actor: by.to_owned(),
        kind: Kind::SecretChanged,
        job: place.scope.job(),
        run: None,
        outcome: if version == 0 { "DELETED" } else { "DONE" }.to_owned(),
        details: serde_json::json!({
            "name": place.name, "scope": place.scope.name(), "version": version,
        })
        .to_string(),
    }
}
