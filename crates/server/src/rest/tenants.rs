//! Tenants: who jobs belong to. Administrators of the cluster make and change them.

use domain::access::{Entry, Kind, Record, Tenant};
use domain::id::TenantId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::entry::{self, EntryResource, Shown};
use super::shape::job_defaults::JobDefaultsSpec;
use super::shape::mirror::Tier;
use crate::actor::Actor;
use crate::app::App;
use crate::problem::Result;

/// A tenant.
#[derive(Serialize, ToSchema)]
pub struct TenantView {
    /// Its identity.
    pub tenant_id: Uuid,
    /// Its name.
    pub name: String,
    /// Its class of service: its share when tenants compete for slots.
    pub tier: Tier,
    /// The most jobs that it may have.
    pub max_jobs: Option<u32>,
    /// The most runs that it may have at work at a time.
    pub max_concurrent: Option<u32>,
    /// The most requests a second of each of its keys.
    pub requests_per_second: Option<u32>,
    /// Whether its administrators may have commands run, and let others do so.
    pub external_jobs: bool,
    /// Defaults of its jobs, when they are created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_defaults: Option<JobDefaultsSpec>,
    /// Grows with every change.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// A tenant.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantSpec {
    /// Its name, unique in the cluster.
    #[schema(min_length = 1, max_length = 100, example = "acme")]
    pub name: String,
    /// Its class of service: its share when tenants compete for slots; `STANDARD` when absent.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// The most jobs that it may have.
    #[serde(default)]
    #[schema(maximum = 4294967295_u32)]
    pub max_jobs: Option<u32>,
    /// The most runs that it may have at work at a time.
    #[serde(default)]
    #[schema(maximum = 4294967295_u32)]
    pub max_concurrent: Option<u32>,
    /// The most requests a second of each of its keys.
    #[serde(default)]
    #[schema(maximum = 4294967295_u32)]
    pub requests_per_second: Option<u32>,
    /// Whether its administrators may have commands run, and let others do so: `false` when
    /// absent.
    #[serde(default)]
    pub external_jobs: Option<bool>,
    /// Defaults of its jobs, when they are created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_defaults: Option<JobDefaultsSpec>,
}

impl Shown for TenantView {
    const KIND: Kind = Kind::Tenant;

    fn of(record: &Record) -> Option<Self> {
        let Entry::Tenant(tenant) = &record.entry else { return None };
        let &Record { version, created_at, updated_at, .. } = record;
        Some(TenantView {
            tenant_id: tenant.id.0,
            name: tenant.name.clone(),
            tier: tenant.tier.into(),
            max_jobs: tenant.max_jobs,
            max_concurrent: tenant.max_concurrent,
            requests_per_second: tenant.requests_per_second,
            external_jobs: tenant.external_jobs,
            job_defaults: JobDefaultsSpec::of(&tenant.job_defaults),
            version,
            created_at,
            updated_at,
        })
    }

    fn place(&self) -> String {
        format!("/v1/tenants/{}", self.tenant_id)
    }
}

impl TenantSpec {
    fn of(tenant: &Tenant) -> Self {
        TenantSpec {
            name: tenant.name.clone(),
            tier: Some(tenant.tier.into()),
            max_jobs: tenant.max_jobs,
            max_concurrent: tenant.max_concurrent,
            requests_per_second: tenant.requests_per_second,
            external_jobs: Some(tenant.external_jobs),
            job_defaults: JobDefaultsSpec::of(&tenant.job_defaults),
        }
    }

    fn entry(self, id: TenantId) -> Result<Entry> {
        let defaults = self.job_defaults.as_ref().map(JobDefaultsSpec::defaults).transpose()?;
        Ok(Entry::Tenant(Tenant {
            id,
            name: self.name,
            tier: self.tier.map(Into::into).unwrap_or_default(),
            max_jobs: self.max_jobs,
            max_concurrent: self.max_concurrent,
            requests_per_second: self.requests_per_second,
            external_jobs: self.external_jobs.unwrap_or(false),
            job_defaults: defaults.unwrap_or_default(),
        }))
    }
}

impl EntryResource for TenantView {
    const WORD: &'static str = "tenant";
    type Spec = TenantSpec;

    async fn made(app: &App, _: &Actor, spec: TenantSpec) -> Result<Entry> {
        spec.entry(TenantId(entry::new_id(app)))
    }

    async fn patched(_: &App, _: &Actor, entry: &Entry, patch: Value) -> Result<Entry> {
        let Entry::Tenant(tenant) = entry else { return Err(entry::other()) };
        entry::patched(&TenantSpec::of(tenant), patch)?.entry(tenant.id)
    }
}
