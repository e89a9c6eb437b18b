//! Secrets: values go in and never come out.

use std::fmt;

use axum::Json;
use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::access::Deed;
use domain::id::JobId;
use domain::secret::{Scope, SecretPlace, problem_of_name, problem_of_value};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use vault::{Rotated, SecretView as Kept, Set, VaultError};

use super::find;
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, Params};
use crate::condition::{etag, is_known, not_modified, version_of};
use crate::page::{List, bad_cursor, cursor, limit};
use crate::problem::{Code, ErrorBody, Problem, Result};

/// The metadata of a secret.
#[derive(Serialize, ToSchema)]
pub struct SecretView {
    /// Its name, as in `${secrets.NAME}`.
    pub name: String,
    /// `job`, `tenant` or `cluster`: who sees it.
    pub scope: &'static str,
    /// The job that sees it, if it is one job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<Uuid>,
    /// The name of that job, in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
    /// Grows with every change, from 1.
    pub version: u32,
    /// The name of the master key that it is sealed under.
    pub key_id: String,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// The user who changed it last.
    pub updated_by: String,
}

impl SecretView {
    fn of(secret: Kept) -> Self {
        SecretView {
            scope: secret.place.scope.name(),
            name: secret.place.name,
            job_id: secret.place.scope.job().map(|job| job.0),
            job_name: None,
            version: secret.version,
            key_id: secret.key,
            updated_at: secret.changed_at,
            updated_by: secret.changed_by,
        }
    }
}

/// A value for a secret.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretBody {
    /// The value: text of 4 to 65536 bytes. It is never shown again.
    #[schema(value_type = String, min_length = 1, max_length = 65536)]
    value: Value,
}

/// It holds a secret.
impl fmt::Debug for SecretBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBody(…)")
    }
}

/// The scope of a secret.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ScopeParams {
    /// `tenant` (the default) or `cluster`; not together with `job`.
    #[param(pattern = "^(tenant|cluster)$")]
    pub(crate) scope: Option<String>,
    /// The id or the name of the one job that sees it.
    pub(crate) job: Option<String>,
}

/// Which secrets.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListParams {
    /// `tenant` (the default): those of the tenant and of its jobs; or `cluster`.
    #[param(pattern = "^(tenant|cluster)$")]
    scope: Option<String>,
    /// The most items of a page: 1 to 500, 50 by default.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// Where the page begins: `next_cursor` of the page before.
    cursor: Option<String>,
}

/// The outcome of a rotation.
#[derive(Serialize, ToSchema)]
pub struct RotationView {
    /// The name of the new master key.
    pub key_id: String,
    /// How many secrets were put under it.
    pub rewrapped: u64,
    /// How many are under a key that this node does not have.
    pub unreadable: u64,
}

fn is_cluster(scope: Option<&str>) -> Result<bool> {
    match scope {
        None | Some("tenant") => Ok(false),
        Some("cluster") => Ok(true),
        Some(other) => {
            let text = format!("{other:?} is not one of tenant, cluster; for one job send job");
            Err(Problem::field(Code::InvalidRequest, "scope", text))
        }
    }
}

/// A request about a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// To see it.
    See,
    /// To change it.
    Change,
}

/// Those of the cluster are its administrator's, those of a tenant its administrator's, and those
/// of a job belong to the users who may change the job.
pub(crate) async fn place(
    app: &App,
    actor: &Actor,
    params: &ScopeParams,
    name: String,
    wish: Wish,
) -> Result<SecretPlace> {
    let scope = match (&params.job, is_cluster(params.scope.as_deref())?) {
        (Some(_), true) => {
            let text = "a secret of the cluster belongs to no job; send one of the two";
            return Err(Problem::field(Code::InvalidRequest, "job", text));
        }
        (Some(job), false) => {
            let job = find::job(app, actor, job).await?;
            actor.may(Deed::AlterJob(job.owner))?;
            Scope::Job(actor.tenant, job.id)
        }
        (None, true) => {
            let see = wish == Wish::See;
            actor.may(if see { Deed::SeeCluster } else { Deed::ChangeCluster })?;
            Scope::Cluster
        }
        (None, false) => {
            let see = wish == Wish::See;
            actor.may(if see { Deed::SeeAccess } else { Deed::ChangeAccess })?;
            Scope::Tenant(actor.tenant)
        }
    };
    if let Some(problem) = problem_of_name(&name) {
        return Err(Problem::invalid("name", problem));
    }
    Ok(SecretPlace { scope, name })
}

pub(crate) fn no_secret(place: &SecretPlace) -> Problem {
    let (name, scope) = (&place.name, place.scope.name());
    Problem::new(Code::NotFound, format!("there is no secret {name:?} of the {scope}"))
}

impl From<VaultError> for Problem {
    fn from(error: VaultError) -> Self {
        match error {
            VaultError::Store(error) => error.into(),
            VaultError::NoKey(_) | VaultError::CannotRotate(_) => {
                Problem::new(Code::WrongState, error.to_string())
            }
        }
    }
}

/// Lists secrets: names, scopes and versions, never values.
#[utoipa::path(
    get, operation_id = "list_secrets", path = "/v1/secrets", tag = "secrets", params(ListParams),
    responses((status = 200, body = List<SecretView>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    OriginalUri(uri): OriginalUri,
    Params(params): Params<ListParams>,
) -> Result<Response> {
    let cluster = is_cluster(params.scope.as_deref())?;
    actor.may(if cluster { Deed::SeeCluster } else { Deed::SeeAccess })?;
    let tenant = (!cluster).then_some(actor.tenant);
    let after = match cursor(params.cursor.as_deref())? {
        None => None,
        Some(text) => {
            let (job, name) = text.split_once(' ').ok_or_else(bad_cursor)?;
            let job: JobId = job.parse().map_err(|_| bad_cursor())?;
            Some((job, name.to_owned()))
        }
    };
    let page = app.secrets.list(tenant, after.as_ref(), limit(params.limit)?).await?;
    let next = page.next.map(|(job, name)| format!("{job} {name}"));
    let mut data: Vec<SecretView> = page.items.into_iter().map(SecretView::of).collect();
    let jobs: Vec<JobId> = data.iter().filter_map(|secret| secret.job_id.map(JobId)).collect();
    let jobs = app.engine.by(&actor).jobs_by_id(&jobs).await?;
    for secret in &mut data {
        let job = jobs.iter().find(|job| Some(job.id.0) == secret.job_id);
        secret.job_name = job.map(|job| job.name.clone());
    }
    Ok(List::new(data, next).answer(&uri))
}

/// Shows what may be known about a secret.
#[utoipa::path(
    get, operation_id = "get_secret", path = "/v1/secrets/{secret}", tag = "secrets",
    params(("secret" = String, Path, pattern = "^[A-Za-z0-9._-]{1,100}$", description = "The name of the secret."), ScopeParams),
    responses((status = 200, body = SecretView), (status = 304), (status = 422, body = ErrorBody))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    Params(params): Params<ScopeParams>,
    headers: HeaderMap,
) -> Result<Response> {
    let place = place(&app, &actor, &params, name, Wish::See).await?;
    let found = app.secrets.find(&place).await?.ok_or_else(|| no_secret(&place))?;
    if is_known(&headers, found.version) {
        return Ok(not_modified(found.version));
    }
    let view = SecretView::of(found);
    Ok(([etag(view.version)], Json(view)).into_response())
}

/// Keeps a value under a name. It is never shown again.
#[utoipa::path(
    put, operation_id = "put_secret", path = "/v1/secrets/{secret}", tag = "secrets", request_body = SecretBody,
    params(
        ("secret" = String, Path, pattern = "^[A-Za-z0-9._-]{1,100}$", description = "The name of the secret."), ScopeParams,
        ("If-Match" = Option<String>, Header, description = "The ETag of the secret that is replaced."),
    ),
    responses((status = 200, body = SecretView), (status = 201, body = SecretView))
)]
pub(crate) async fn put(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    Params(params): Params<ScopeParams>,
    headers: HeaderMap,
    Body(body): Body<SecretBody>,
) -> Result<Response> {
    let place = place(&app, &actor, &params, name, Wish::Change).await?;
    // Errors must not contain the value.
    let Value::String(value) = body.value else {
        return Err(Problem::invalid("value", "must be text"));
    };
    if let Some(problem) = problem_of_value(&value) {
        return Err(Problem::invalid("value", problem));
    }
    let (asked, expected) = expected(&app, &place, &headers).await?;
    match app.secrets.put(&place, &value, expected, &actor.name).await? {
        Set::Done(_) => {}
        Set::Conflict(version) => return Err(conflict(asked, version, expected)),
    }
    let gone = || Problem::new(Code::VersionConflict, "it was removed meanwhile");
    let view = SecretView::of(app.secrets.find(&place).await?.ok_or_else(gone)?);
    let status = if expected == 0 { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, [etag(view.version)], Json(view)).into_response())
}

/// Removes a secret.
#[utoipa::path(
    delete, operation_id = "delete_secret", path = "/v1/secrets/{secret}", tag = "secrets",
    params(
        ("secret" = String, Path, pattern = "^[A-Za-z0-9._-]{1,100}$", description = "The name of the secret."), ScopeParams,
        ("If-Match" = Option<String>, Header, description = "The ETag of the secret."),
    ),
    responses((status = 204), (status = 422, body = ErrorBody))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    Params(params): Params<ScopeParams>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    let place = place(&app, &actor, &params, name, Wish::Change).await?;
    let (asked, expected) = expected(&app, &place, &headers).await?;
    if expected == 0 {
        return Err(no_secret(&place));
    }
    match app.secrets.remove(&place, expected, &actor.name).await? {
        Set::Done(_) => Ok(StatusCode::NO_CONTENT),
        Set::Conflict(0) => Err(no_secret(&place)),
        Set::Conflict(version) => Err(conflict(asked, version, expected)),
    }
}

/// Makes a new master key and puts every secret under it.
#[utoipa::path(
    post, operation_id = "rotate_master_key", path = "/v1/secrets:rotate-master", tag = "secrets",
    responses((status = 200, body = RotationView), (status = 409, body = ErrorBody))
)]
pub(crate) async fn rotate(State(app): State<App>, actor: Actor) -> Result<Json<RotationView>> {
    actor.may(Deed::ChangeCluster)?;
    let Rotated { key, rewrapped, unreadable } = app.secrets.rotate(&actor.name).await?;
    Ok(Json(RotationView { key_id: key, rewrapped, unreadable }))
}

/// Whether the caller named a version, and the one that the change is based on.
async fn expected(app: &App, place: &SecretPlace, headers: &HeaderMap) -> Result<(bool, u32)> {
    match headers.get(header::IF_MATCH) {
        Some(tag) if tag != "*" => {
            let version = tag.to_str().ok().and_then(version_of).ok_or_else(|| {
                let text = "must be the ETag of the secret, for example \"3\"";
                Problem::field(Code::InvalidRequest, "If-Match", text)
            })?;
            Ok((true, version))
        }
        _ => Ok((false, app.secrets.find(place).await?.map_or(0, |secret| secret.version))),
    }
}

fn conflict(asked: bool, version: u32, expected: u32) -> Problem {
    let code = if asked { Code::PreconditionFailed } else { Code::VersionConflict };
    let text = format!("the secret has version {version}; the change is based on {expected}");
    Problem::field(code, "version", text)
}
