//! Users: people and programs with rights of their own.

use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use domain::access::{Deed, Entry, Kind, Record, User};
use domain::id::UserId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::entry::{self, EntryParams, Shown};
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, Params};
use crate::login;
use crate::page::List;
use crate::problem::{ErrorBody, Result};

/// A user.
#[derive(Serialize, ToSchema)]
pub struct UserView {
    /// Their identity.
    pub user_id: Uuid,
    /// Their name.
    pub name: String,
    /// Whether they can do nothing for now, and their jobs neither.
    pub disabled: bool,
    /// Whether they can log in with a password.
    pub has_password: bool,
    /// Grows with every change.
    pub version: u32,
    /// When they were made.
    pub created_at: Timestamp,
    /// When they were last changed.
    pub updated_at: Timestamp,
}

/// A user.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserSpec {
    /// Their name, unique in the tenant.
    #[schema(min_length = 1, max_length = 100, example = "ann")]
    pub name: String,
    /// Whether they can do nothing for now.
    #[serde(default)]
    #[schema(required = false)]
    pub disabled: bool,
    /// Their password, 8 to 256 bytes. It is not shown again; null takes it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(write_only, max_length = 256)]
    pub password: Option<String>,
}

impl Shown for UserView {
    const KIND: Kind = Kind::User;

    fn of(record: &Record) -> Option<Self> {
        let Entry::User(user) = &record.entry else { return None };
        let &Record { version, created_at, updated_at, .. } = record;
        Some(UserView {
            user_id: user.id.0,
            name: user.name.clone(),
            disabled: user.disabled,
            has_password: user.password.is_some(),
            version,
            created_at,
            updated_at,
        })
    }

    fn place(&self) -> String {
        format!("/v1/users/{}", self.user_id)
    }
}

/// Lists users by name.
#[utoipa::path(
    get, path = "/v1/users", operation_id = "list_users", tag = "access", params(EntryParams),
    responses((status = 200, body = List<UserView>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    OriginalUri(uri): OriginalUri,
    Params(params): Params<EntryParams>,
) -> Result<Response> {
    entry::list::<UserView>(&app, &actor, None, &params, &uri).await
}

/// Shows a user.
#[utoipa::path(
    get, path = "/v1/users/{user}", operation_id = "get_user", tag = "access",
    params(("user" = String, Path, description = "The user's id or name.")),
    responses((status = 200, body = UserView), (status = 304), (status = 400, body = ErrorBody))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path(user): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    entry::get::<UserView>(&app, &actor, &user, &headers).await
}

/// Makes a user.
#[utoipa::path(
    post, path = "/v1/users", operation_id = "create_user", tag = "access", request_body = UserSpec,
    responses((status = 201, body = UserView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn create(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<UserSpec>,
) -> Result<Response> {
    let UserSpec { name, disabled, password } = spec;
    // Hashing costs a lot, so who may not do this does not get so far.
    actor.may(Deed::ChangeAccess)?;
    let (id, tenant) = (UserId(entry::new_id(&app)), actor.tenant);
    let (password, scram) = match password {
        Some(password) => login::kept(&app, id, &name, password).await?,
        None => (None, None),
    };
    let entry = Entry::User(User { id, tenant, name, password, scram, disabled });
    entry::create::<UserView>(&app, &actor, entry).await
}

/// Changes some fields of a user (RFC 7396): what is null is taken away.
#[utoipa::path(
    patch, path = "/v1/users/{user}", operation_id = "patch_user", tag = "access", request_body = UserSpec,
    params(
        ("user" = String, Path, description = "The user's id or name."),
        ("If-Match" = Option<String>, Header, description = "The ETag that the change is based on."),
    ),
    responses((status = 200, body = UserView))
)]
pub(crate) async fn patch(
    State(app): State<App>,
    actor: Actor,
    Path(user): Path<String>,
    headers: HeaderMap,
    Body(patch): Body<Value>,
) -> Result<Response> {
    let found = entry::find(&app, &actor, Kind::User, &user).await?;
    let Entry::User(user) = &found.entry else { return Err(entry::other()) };
    actor.may(Deed::ChangeAccess)?;
    let is_named = patch.get("password").is_some();
    let now = UserSpec { name: user.name.clone(), disabled: user.disabled, password: None };
    let UserSpec { name, disabled, password } = entry::patched(&now, patch)?;
    let (password, scram) = match password {
        Some(password) => login::kept(&app, user.id, &name, password).await?,
        None if is_named => (None, None),
        None => (user.password.clone(), user.scram.clone()),
    };
    let entry = Entry::User(User { name, password, scram, disabled, ..user.clone() });
    entry::change::<UserView>(&app, &actor, &found, entry, &headers).await
}

/// Removes a user.
#[utoipa::path(
    delete, path = "/v1/users/{user}", operation_id = "delete_user", tag = "access",
    params(
        ("user" = String, Path, description = "The user's id or name."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the user."),
    ),
    responses((status = 204))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Path(user): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    entry::remove(&app, &actor, Kind::User, &user, &headers).await
}
