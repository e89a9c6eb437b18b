//! Secrets, sealed: the store keeps what it cannot read.

use std::future::Future;

use domain::audit::{Event, Kind};
use domain::id::{JobId, TenantId};
use domain::secret::SecretPlace;
use jiff::Timestamp;

use crate::{Page, Result, Set, Store};

/// A store that keeps secrets. Values are sealed by whoever hands them in.
pub trait SecretStore: Store {
    /// Keeps a secret in the place of the one that it is based on: its version is one more. Version
    /// 1 is for one that is not there.
    fn keep_secret(&self, secret: &KeptSecret) -> impl Future<Output = Result<Set>> + Send;

    /// Removes a secret if it has this version.
    fn remove_secret(
        &self,
        place: &SecretPlace,
        expected: u32,
    ) -> impl Future<Output = Result<Set>> + Send;

    /// The secrets that are at some of these places, in no particular order.
    fn secrets(
        &self,
        places: &[SecretPlace],
    ) -> impl Future<Output = Result<Vec<KeptSecret>>> + Send;

    /// What people may know about a secret.
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
    /// Their versions stay. Answers how many were.
    fn rewrap(&self, batch: &[Rewrapped]) -> impl Future<Output = Result<u64>> + Send;
}

/// What the audit says about a change of a secret; version 0 stands for its removal.
pub(crate) fn place_audit(place: &SecretPlace, version: u32, by: &str) -> Event {
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

impl SecretView {
    /// The page of a list that asked for so many.
    pub(crate) fn page(items: Vec<Self>, limit: u32) -> Result<Page<Self, (JobId, String)>> {
        let last = items.last().filter(|_| items.len() >= limit as usize);
        let next = last.map(|last| (last.place.scope.ids().1, last.place.name.clone()));
        Ok(Page { items, next })
    }
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
    /// Who changed it last.
    pub changed_by: String,
}

/// A value that only who has the master key can read.
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

/// What people may know about a secret.
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
    /// Who changed it last.
    pub changed_by: String,
}
