//! The current identity, and logins with a password.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use domain::access::{Kind, Privilege};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::shape::job_defaults::JobDefaultsSpec;
use crate::actor::Actor;
use crate::app::App;
use crate::body::Body;
use crate::limit::{Caller, Limits};
use crate::login::Login;
use crate::problem::{ErrorBody, Result};

/// A user and their password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginBody {
    /// The name of the tenant; `default` when absent.
    #[serde(default)]
    tenant: Option<String>,
    /// The name of the user.
    user: String,
    /// The password.
    #[schema(write_only)]
    password: String,
}

/// A key for some hours.
#[derive(Serialize, ToSchema)]
pub struct LoggedIn {
    /// The key, for `Authorization: Bearer`.
    pub key: String,
    /// When it stops working.
    pub expires_at: Timestamp,
}

/// Makes a key for some hours of a user and their password.
#[utoipa::path(
    post, path = "/v1/login", tag = "access", security(()), request_body = LoginBody,
    responses(
        (status = 200, body = LoggedIn), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
        (status = 413, body = ErrorBody), (status = 415, body = ErrorBody), (status = 422, body = ErrorBody), (status = 429, body = ErrorBody),
    )
)]
pub(crate) async fn login(
    State(app): State<App>,
    Extension(limits): Extension<Arc<Limits>>,
    caller: Option<Extension<Caller>>,
    Body(body): Body<LoginBody>,
) -> Result<Response> {
    let (caller, rate) = (caller.map(|Extension(caller)| caller), app.options.failure_rate);
    limits.try_password(caller, rate, app.now())?;
    let tenant = body.tenant.unwrap_or_else(|| "default".to_owned());
    let login = Login { tenant, user: body.user, password: body.password };
    let session = app.authority.login(login).await?;
    limits.was_right(caller, rate);
    let body = LoggedIn { key: session.key.reveal().to_owned(), expires_at: session.expires_at };
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(body)).into_response())
}

/// An identity.
#[derive(Serialize, ToSchema)]
pub struct Whoami {
    /// Their identity.
    pub user_id: Uuid,
    /// Their name.
    pub user: String,
    /// Where they act.
    pub tenant_id: Uuid,
    /// The name of that tenant.
    pub tenant: String,
    /// The key that they showed; null for that of the data folder and for a token.
    pub key_id: Option<String>,
    /// Their privileges there with this key.
    pub privileges: Vec<&'static str>,
    /// Whether the key changes nothing.
    pub read_only: bool,
    /// When the token ends that they showed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub token_expires_at: Option<Timestamp>,
    /// Defaults of the jobs of the tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_defaults: Option<JobDefaultsSpec>,
}

/// Says who the caller is and what they may do.
#[utoipa::path(
    get, path = "/v1/whoami", tag = "access",
    responses((status = 200, body = Whoami))
)]
pub(crate) async fn whoami(State(app): State<App>, actor: Actor) -> Result<Json<Whoami>> {
    identity(&app, &actor).await.map(Json)
}

/// The name of the tenant in which an actor acts.
pub(super) async fn tenant_name(app: &App, actor: &Actor) -> Result<String> {
    let standing = app.engine.node().standing(actor.user).await?;
    match standing.filter(|standing| standing.tenant.id == actor.tenant) {
        Some(standing) => Ok(standing.tenant.name.clone()),
        // An administrator of the cluster is elsewhere.
        None => {
            let id = actor.tenant.to_string();
            Ok(app.engine.by(actor).entry(Kind::Tenant, &id).await?.entry.name())
        }
    }
}

/// The identity of an actor and its permissions.
pub(super) async fn identity(app: &App, actor: &Actor) -> Result<Whoami> {
    let tenant = tenant_name(app, actor).await?;
    Ok(Whoami {
        user_id: actor.user.0,
        user: actor.name.clone(),
        tenant_id: actor.tenant.0,
        tenant,
        key_id: actor.key.map(|key| key.text()),
        privileges: actor.privileges.iter().map(Privilege::name).collect(),
        read_only: actor.read_only,
        token_expires_at: actor.until,
        job_defaults: JobDefaultsSpec::of(&app.engine.by(actor).job_defaults().await?),
    })
}

/// Another password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PasswordBody {
    /// The password that the caller has.
    #[schema(write_only)]
    old_password: String,
    /// The one that they want, 8 to 256 bytes.
    #[schema(write_only, min_length = 8, max_length = 256)]
    new_password: String,
}

/// Changes the caller's own password. Keys of their other logins end.
#[utoipa::path(
    post, path = "/v1/whoami/password", operation_id = "change_password", tag = "access", request_body = PasswordBody,
    responses((status = 204), (status = 409, body = ErrorBody))
)]
pub(crate) async fn change_password(
    State(app): State<App>,
    actor: Actor,
    Body(body): Body<PasswordBody>,
) -> Result<StatusCode> {
    app.authority.change_password(&actor, body.old_password, body.new_password).await?;
    Ok(StatusCode::NO_CONTENT)
}
