//! Roles: bundles of rights with a name.

use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use domain::access::{Entry, Kind, Record, Role};
use domain::id::{RoleId, TenantId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::entry::{self, EntryParams, Shown};
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, Params};
use crate::page::List;
use crate::problem::{ErrorBody, Result};

/// A role.
#[derive(Serialize, ToSchema)]
pub struct RoleView {
    /// Its identity.
    pub role_id: Uuid,
    /// Its name.
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// Whether jobs of its members may act as the role of the same name on a database.
    pub run_as: bool,
    /// Grows with every change.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// A role.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleSpec {
    /// Its name, unique in the tenant.
    #[schema(min_length = 1, max_length = 100, example = "operators")]
    pub name: String,
    /// For people.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether jobs of its members may act as the role of the same name on a database. Only an
    /// administrator of the cluster sets it.
    #[serde(default)]
    #[schema(required = false)]
    pub run_as: bool,
}

impl Shown for RoleView {
    const KIND: Kind = Kind::Role;

    fn of(record: &Record) -> Option<Self> {
        let Entry::Role(role) = &record.entry else { return None };
        let &Record { version, created_at, updated_at, .. } = record;
        let RoleSpec { name, description, run_as } = RoleSpec::of(role);
        let role_id = role.id.0;
        Some(RoleView { role_id, name, description, run_as, version, created_at, updated_at })
    }

    fn place(&self) -> String {
        format!("/v1/roles/{}", self.role_id)
    }
}

impl RoleSpec {
    fn of(role: &Role) -> Self {
        let Role { name, description, run_as, .. } = role.clone();
        RoleSpec { name, description, run_as }
    }

    fn entry(self, id: RoleId, tenant: TenantId) -> Entry {
        let RoleSpec { name, description, run_as } = self;
        Entry::Role(Role { id, tenant, name, description, run_as })
    }
}

/// Lists roles by name.
#[utoipa::path(
    get, path = "/v1/roles", operation_id = "list_roles", tag = "access", params(EntryParams),
    responses((status = 200, body = List<RoleView>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    OriginalUri(uri): OriginalUri,
    Params(params): Params<EntryParams>,
) -> Result<Response> {
    entry::list::<RoleView>(&app, &actor, None, &params, &uri).await
}

/// Shows a role.
#[utoipa::path(
    get, path = "/v1/roles/{role}", operation_id = "get_role", tag = "access",
    params(("role" = String, Path, description = "The role's id or name.")),
    responses((status = 200, body = RoleView), (status = 304), (status = 400, body = ErrorBody))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path(role): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    entry::get::<RoleView>(&app, &actor, &role, &headers).await
}

/// Makes a role.
#[utoipa::path(
    post, path = "/v1/roles", operation_id = "create_role", tag = "access", request_body = RoleSpec,
    responses((status = 201, body = RoleView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn create(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<RoleSpec>,
) -> Result<Response> {
    let entry = spec.entry(RoleId(entry::new_id(&app)), actor.tenant);
    entry::create::<RoleView>(&app, &actor, entry).await
}

/// Changes some fields of a role (RFC 7396): what is null is taken away.
#[utoipa::path(
    patch, path = "/v1/roles/{role}", operation_id = "patch_role", tag = "access", request_body = RoleSpec,
    params(
        ("role" = String, Path, description = "The role's id or name."),
        ("If-Match" = Option<String>, Header, description = "The ETag that the change is based on."),
    ),
    responses((status = 200, body = RoleView))
)]
pub(crate) async fn patch(
    State(app): State<App>,
    actor: Actor,
    Path(role): Path<String>,
    headers: HeaderMap,
    Body(patch): Body<Value>,
) -> Result<Response> {
    let found = entry::find(&app, &actor, Kind::Role, &role).await?;
    let Entry::Role(role) = &found.entry else { return Err(entry::other()) };
    let entry = entry::patched(&RoleSpec::of(role), patch)?.entry(role.id, role.tenant);
    entry::change::<RoleView>(&app, &actor, &found, entry, &headers).await
}

/// Removes a role.
#[utoipa::path(
    delete, path = "/v1/roles/{role}", operation_id = "delete_role", tag = "access",
    params(
        ("role" = String, Path, description = "The role's id or name."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the role."),
    ),
    responses((status = 204))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Path(role): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    entry::remove(&app, &actor, Kind::Role, &role, &headers).await
}
