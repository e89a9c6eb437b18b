//! Tenants: who jobs belong to. Administrators of the cluster make and change them.

use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use domain::access::{Entry, Kind, Record, Tenant};
use domain::id::TenantId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::entry::{self, EntryParams, Shown};
use super::shape::job_defaults::JobDefaultsSpec;
use super::shape::mirror::Tier;
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, Params};
use crate::page::List;
use crate::problem::{ErrorBody, Result};

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

/// Lists tenants by name.
#[utoipa::path(
    get, path = "/v1/tenants", operation_id = "list_tenants", tag = "access", params(EntryParams),
    responses((status = 200, body = List<TenantView>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    OriginalUri(uri): OriginalUri,
    Params(params): Params<EntryParams>,
) -> Result<Response> {
    entry::list::<TenantView>(&app, &actor, None, &params, &uri).await
}

/// Shows a tenant.
#[utoipa::path(
    get, path = "/v1/tenants/{tenant}", operation_id = "get_tenant", tag = "access",
    params(("tenant" = String, Path, description = "The tenant's id or name.")),
    responses((status = 200, body = TenantView), (status = 304), (status = 400, body = ErrorBody))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path(tenant): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    entry::get::<TenantView>(&app, &actor, &tenant, &headers).await
}

/// Makes a tenant.
#[utoipa::path(
    post, path = "/v1/tenants", operation_id = "create_tenant", tag = "access", request_body = TenantSpec,
    responses((status = 201, body = TenantView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn create(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<TenantSpec>,
) -> Result<Response> {
    let entry = spec.entry(TenantId(entry::new_id(&app)))?;
    entry::create::<TenantView>(&app, &actor, entry).await
}

/// Changes some fields of a tenant (RFC 7396): what is null is taken away.
#[utoipa::path(
    patch, path = "/v1/tenants/{tenant}", operation_id = "patch_tenant", tag = "access", request_body = TenantSpec,
    params(
        ("tenant" = String, Path, description = "The tenant's id or name."),
        ("If-Match" = Option<String>, Header, description = "The ETag that the change is based on."),
    ),
    responses((status = 200, body = TenantView))
)]
pub(crate) async fn patch(
    State(app): State<App>,
    actor: Actor,
    Path(tenant): Path<String>,
    headers: HeaderMap,
    Body(patch): Body<Value>,
) -> Result<Response> {
    let found = entry::find(&app, &actor, Kind::Tenant, &tenant).await?;
    let Entry::Tenant(tenant) = &found.entry else { return Err(entry::other()) };
    let entry = entry::patched(&TenantSpec::of(tenant), patch)?.entry(tenant.id)?;
    entry::change::<TenantView>(&app, &actor, &found, entry, &headers).await
}

/// Removes a tenant.
#[utoipa::path(
    delete, path = "/v1/tenants/{tenant}", operation_id = "delete_tenant", tag = "access",
    params(
        ("tenant" = String, Path, description = "The tenant's id or name."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the tenant."),
    ),
    responses((status = 204))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Path(tenant): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    entry::remove(&app, &actor, Kind::Tenant, &tenant, &headers).await
}
