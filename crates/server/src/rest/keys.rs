//! API keys: made, shown once, listed, revoked.

use axum::Json;
use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::access::{ApiKey, Entry, Kind, Privilege, Privileges, Record};
use domain::id::{TenantId, UserId};
use domain::text::is_deceptive;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::entry::{self, Shown};
use super::objects::PageParams;
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, Params};
use crate::condition::etag;
use crate::key::Key;
use crate::page::List;
use crate::problem::{Code, ErrorBody, Problem, Result};
use crate::scram;

/// The longest label.
const LABEL_BYTES_MAX: usize = 200;

/// A key, without its secret.
#[derive(Serialize, ToSchema)]
pub struct KeyView {
    /// Which one it is: what its text shows after `pk_`.
    pub key_id: String,
    /// The owner.
    pub user_id: Uuid,
    /// A description.
    pub label: String,
    /// The only privileges that it gives; null for all that its user has.
    pub scopes: Option<Vec<&'static str>>,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
    /// Whether a login made it.
    pub session: bool,
    /// Grows with every change.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// The key itself, in the answer that made it and never again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The properties of a new key.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeySpec {
    /// The owner, by name or id; the caller's own when absent.
    #[serde(default)]
    user: Option<String>,
    /// A description.
    #[serde(default)]
    #[schema(required = false, max_length = 200)]
    label: String,
    /// It gives no more than these privileges; all that its user has when absent.
    #[serde(default)]
    #[schema(min_items = 1, example = json!(["EXECUTE JOB"]))]
    scopes: Option<Vec<String>>,
    /// Whether it changes nothing.
    #[serde(default)]
    #[schema(required = false)]
    read_only: bool,
    /// When it stops working; never when absent.
    #[serde(default)]
    expires_at: Option<Timestamp>,
}

/// The fields of a key that can be changed.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyPatch {
    /// A description.
    #[schema(max_length = 200)]
    label: String,
    /// When it stops working.
    #[serde(default)]
    expires_at: Option<Timestamp>,
}

/// The owner of the keys in a list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct KeyParams {
    /// Only keys of this user; one's own when absent, those of all users with `*`.
    user: Option<String>,
    /// How many; 50 when absent, at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

impl Shown for KeyView {
    const KIND: Kind = Kind::Key;

    fn of(record: &Record) -> Option<Self> {
        let Entry::Key(key) = &record.entry else { return None };
        Some(KeyView {
            key_id: key.id.text(),
            user_id: key.user.0,
            label: key.label.clone(),
            scopes: key.scopes.map(|scopes| scopes.iter().map(Privilege::name).collect()),
            read_only: key.read_only,
            expires_at: key.expires_at,
            session: key.session,
            version: record.version,
            created_at: record.created_at,
            key: None,
        })
    }

    fn place(&self) -> String {
        format!("/v1/keys/{}", self.key_id)
    }
}

/// Lists keys, without their secrets.
#[utoipa::path(
    get, path = "/v1/keys", operation_id = "list_keys", tag = "access", params(KeyParams),
    responses((status = 200, body = List<KeyView>), (status = 404, body = ErrorBody))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    OriginalUri(uri): OriginalUri,
    Params(params): Params<KeyParams>,
) -> Result<Response> {
    let owner = match params.user.as_deref() {
        Some("*") => None,
        user => Some(user_of(&app, &actor, user).await?.0),
    };
    let page = PageParams { limit: params.limit, cursor: params.cursor };
    entry::list::<KeyView>(&app, &actor, owner, &page, &uri).await
}

/// The user that a request names, or the caller, and where they belong.
async fn user_of(app: &App, actor: &Actor, name: Option<&str>) -> Result<(UserId, TenantId)> {
    if let Some(name) = name {
        return match entry::find(app, actor, Kind::User, name).await?.entry {
            Entry::User(user) => Ok((user.id, user.tenant)),
            _ => Err(entry::other()),
        };
    }
    let standing = app.engine.node().standing(actor.user).await?;
    let standing = standing.ok_or_else(Problem::unauthenticated)?;
    Ok((standing.user.id, standing.user.tenant))
}

/// Shows a key, without its secret.
#[utoipa::path(
    get, path = "/v1/keys/{key_id}", operation_id = "get_key", tag = "access",
    params(("key_id" = String, Path, description = "The id of the key.")),
    responses((status = 200, body = KeyView), (status = 304))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path(key): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    entry::get::<KeyView>(&app, &actor, &key, &headers).await
}

/// Makes a key. The answer shows it, and nothing shows it again.
#[utoipa::path(
    post, path = "/v1/keys", operation_id = "create_key", tag = "access", request_body = KeySpec,
    responses((status = 201, body = KeyView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn create(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<KeySpec>,
) -> Result<Response> {
    let scopes = spec.scopes.map(|scopes| scopes_of(&scopes)).transpose()?;
    check_label(&spec.label)?;
    check_end(&app, spec.expires_at)?;
    let (user, tenant) = user_of(&app, &actor, spec.user.as_deref()).await?;
    let key = Key::drawn(app.random.as_ref());
    let id = key.id();
    let secret = key.reveal().to_owned();
    let scram = scram::verifier_of(app.engine.as_ref(), user, secret).await?;
    let kept = ApiKey {
        id,
        tenant,
        user,
        label: spec.label,
        hash: key.hash().into(),
        scram: Some(scram),
        scopes,
        read_only: spec.read_only,
        expires_at: spec.expires_at,
        session: false,
    };
    let record = app.engine.by(&actor).put_entry(Entry::Key(kept), None).await?;
    let mut view = KeyView::of(&record).ok_or_else(entry::other)?;
    view.key = Some(key.reveal().to_owned());
    let no_store = [(header::CACHE_CONTROL, "no-store")];
    Ok((StatusCode::CREATED, [etag(record.version)], no_store, Json(view)).into_response())
}

fn scopes_of(names: &[String]) -> Result<Privileges> {
    // An empty list selects nothing, which no caller means.
    if names.is_empty() {
        return Err(Problem::invalid("scopes", "must name at least one privilege"));
    }
    let scope = |(i, name): (usize, &String)| {
        let wrong = |error: domain::access::UnknownPrivilege| {
            Problem::invalid(format!("scopes[{i}]"), error.to_string())
        };
        name.parse::<Privilege>().map_err(wrong)
    };
    names.iter().enumerate().map(scope).collect()
}

fn check_label(label: &str) -> Result<()> {
    let is_bad = |c: char| c.is_control() || is_deceptive(c);
    if label.len() > LABEL_BYTES_MAX || label.chars().any(is_bad) {
        let text = format!(
            "has at most {LABEL_BYTES_MAX} bytes and no control, invisible or bidirectional \
             characters"
        );
        return Err(Problem::invalid("label", text));
    }
    Ok(())
}

fn check_end(app: &App, end: Option<Timestamp>) -> Result<()> {
    match end {
        Some(end) if end <= app.now() => {
            Err(Problem::field(Code::ValidationFailed, "expires_at", "must be a time to come"))
        }
        _ => Ok(()),
    }
}

/// Changes the label of a key, or when it stops working.
#[utoipa::path(
    patch, path = "/v1/keys/{key_id}", operation_id = "patch_key", tag = "access", request_body = KeyPatch,
    params(
        ("key_id" = String, Path, description = "The id of the key."),
        ("If-Match" = Option<String>, Header, description = "The ETag that the change is based on."),
    ),
    responses((status = 200, body = KeyView))
)]
pub(crate) async fn patch(
    State(app): State<App>,
    actor: Actor,
    Path(key): Path<String>,
    headers: HeaderMap,
    Body(patch): Body<Value>,
) -> Result<Response> {
    let found = entry::find(&app, &actor, Kind::Key, &key).await?;
    let Entry::Key(key) = &found.entry else { return Err(entry::other()) };
    let now = KeyPatch { label: key.label.clone(), expires_at: key.expires_at };
    let KeyPatch { label, expires_at } = entry::patched(&now, patch)?;
    check_label(&label)?;
    if expires_at != key.expires_at {
        check_end(&app, expires_at)?;
    }
    let entry = Entry::Key(ApiKey { label, expires_at, ..key.clone() });
    entry::change::<KeyView>(&app, &actor, &found, entry, &headers).await
}

/// Revokes a key: it stops working at once, and what it reads ends within seconds.
#[utoipa::path(
    delete, path = "/v1/keys/{key_id}", operation_id = "delete_key", tag = "access",
    params(
        ("key_id" = String, Path, description = "The id of the key."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the key."),
    ),
    responses((status = 204))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Path(key): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    entry::remove(&app, &actor, Kind::Key, &key, &headers).await
}
