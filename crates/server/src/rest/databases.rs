//! Databases: where SQL jobs work, named over REST or in the settings of the server.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{OriginalUri, Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::access::Deed;
use domain::id::TenantId;
use domain::object::{Object, ObjectKind};

use super::objects::{self, Fresh, Kept, PageParams, TrialView, body_of};
use super::shape::database::{DatabaseBody, DatabaseSpec, DatabaseView, masked, unmasked};
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, Params};
use crate::condition::{Condition, etag, is_known, not_modified};
use crate::page::{self, List};
use crate::problem::{Code, Problem, Result};

const KIND: ObjectKind = ObjectKind::Database;

/// The longest description.
const DESCRIPTION_CHARS_MAX: usize = 1_000;

fn view(object: &Object) -> Result<DatabaseView> {
    Ok(DatabaseView::of(object, body_of(object)?))
}

impl Kept for DatabaseBody {
    fn sealed(&self) -> Vec<&str> {
        self.sealed.as_deref().into_iter().collect()
    }
}

/// What is kept of a request, and the address if it has a new password. One that comes back with a
/// hidden password means the old one.
fn body(
    app: &App,
    spec: &DatabaseSpec,
    old: Option<DatabaseBody>,
) -> Result<(DatabaseBody, Vec<Fresh>)> {
    let wrong = |problem: String| Problem::invalid("url", problem);
    let url = unmasked(&spec.url, old.as_ref().map(|old| old.url.as_str())).map_err(wrong)?;
    if let Err(error) = agent::Database::parse_remote(&url) {
        return Err(match error {
            agent::DatabaseError::Bad { field, problem } => Problem::invalid(field, problem),
            error => wrong(error.to_string()),
        });
    }
    let description = spec.description.clone();
    if description.as_ref().is_some_and(|text| text.chars().count() > DESCRIPTION_CHARS_MAX) {
        let text = format!("has at most {DESCRIPTION_CHARS_MAX} characters");
        return Err(Problem::invalid("description", text));
    }
    let shown = masked(&url);
    let kept = old.filter(|old| old.url == url).and_then(|old| old.sealed);
    if kept.is_some() || shown == url {
        return Ok((DatabaseBody { url, sealed: kept, description }, Vec::new()));
    }
    let fresh = Fresh::new(app, url);
    let body = DatabaseBody { url: shown, sealed: Some(fresh.name.clone()), description };
    Ok((body, vec![fresh]))
}

/// The databases of the settings, as far as they are there for the tenant: addresses by name.
fn of_settings<'a>(app: &'a App, actor: &Actor) -> &'a BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    if actor.tenant == TenantId::DEFAULT { &app.options.databases } else { &NONE }
}

/// A name of the settings is theirs: one over REST would never be used.
fn refuse_settings(app: &App, actor: &Actor, name: &str) -> Result<()> {
    if !of_settings(app, actor).contains_key(name) {
        return Ok(());
    }
    let text = format!("the database {name:?} is named in the settings of the server");
    Err(Problem { message: text.clone(), ..Problem::field(Code::AlreadyExists, "name", text) })
}

/// A database that can be changed.
async fn changeable(app: &App, actor: &Actor, name: &str) -> Result<Object> {
    actor.may(Deed::ChangeCluster)?;
    if of_settings(app, actor).contains_key(name) {
        let text = format!("the database {name:?} is changed in the settings of the server");
        return Err(Problem::new(Code::WrongState, text));
    }
    objects::find(app, actor, KIND, name).await
}

/// Makes a database known to SQL jobs.
#[utoipa::path(
    post, path = "/v1/databases", operation_id = "create_database", tag = "databases", request_body = DatabaseSpec,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same answer for a day.")),
    responses((status = 201, body = DatabaseView))
)]
pub(crate) async fn create(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<DatabaseSpec>,
) -> Result<Response> {
    actor.may(Deed::ChangeCluster)?;
    refuse_settings(&app, &actor, &spec.name)?;
    let (body, fresh) = body(&app, &spec, None)?;
    let body = (&body, fresh.as_slice());
    let object = objects::create(&app, &actor, KIND, spec.name, body).await?;
    Ok(objects::created(&object, "/v1/databases", view(&object)?))
}

/// Lists databases by name, those of the settings among them.
#[utoipa::path(
    get, path = "/v1/databases", operation_id = "list_databases", tag = "databases", params(PageParams),
    responses((status = 200, body = List<DatabaseView>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    Params(params): Params<PageParams>,
    OriginalUri(uri): OriginalUri,
) -> Result<Response> {
    let limit = page::limit(params.limit)?;
    let after = page::cursor(params.cursor.as_deref())?;
    let found = app.engine.by(&actor).list_objects(KIND, after.as_deref(), limit).await?;
    let is_after = |name: &str| after.as_deref().is_none_or(|after| name > after);
    // The page ends where the store's page does; what the settings have behind it comes later.
    let is_before = |name: &str| found.next.as_deref().is_none_or(|next| name <= next);
    let settings = of_settings(&app, &actor).iter();
    let mut items: Vec<DatabaseView> = settings
        .filter(|(name, _)| is_after(name) && is_before(name))
        .map(|(name, url)| DatabaseView::of_settings(name, url))
        .collect();
    let hidden = |object: &&Object| !of_settings(&app, &actor).contains_key(&object.name);
    for object in found.items.iter().filter(hidden) {
        items.push(view(object)?);
    }
    items.sort_by(|a, b| a.name.cmp(&b.name));
    let more = found.next.is_some() || items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = items.last().filter(|_| more).map(|last| last.name.clone());
    // A page of nothing but hidden ones still says where to go on.
    let next = next.or(found.next);
    Ok(List::new(items, next).answer(&uri))
}

/// Shows a database, without its password.
#[utoipa::path(
    get, path = "/v1/databases/{name}", operation_id = "get_database", tag = "databases",
    params(("name" = String, Path, description = "The database's name or id.")),
    responses((status = 200, body = DatabaseView), (status = 304))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    actor.may(Deed::SeeAccess)?;
    if let Some(url) = of_settings(&app, &actor).get(&name) {
        return Ok(Json(DatabaseView::of_settings(&name, url)).into_response());
    }
    let object = objects::find(&app, &actor, KIND, &name).await?;
    if is_known(&headers, object.version) {
        return Ok(not_modified(object.version));
    }
    Ok(([etag(object.version)], Json(view(&object)?)).into_response())
}

/// Replaces a database. A url whose password is hidden means the one that is there.
#[utoipa::path(
    put, path = "/v1/databases/{name}", operation_id = "replace_database", tag = "databases", request_body = DatabaseSpec,
    params(
        ("name" = String, Path, description = "The database's name or id."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the database that the change is based on."),
    ),
    responses((status = 200, body = DatabaseView))
)]
pub(crate) async fn replace(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response> {
    let old = changeable(&app, &actor, &name).await?;
    let headers = request.headers().clone();
    let spec = objects::changed(&app, request, None).await?;
    change(&app, &actor, old, spec, &headers).await
}

/// Changes some fields of a database (RFC 7396).
#[utoipa::path(
    patch, path = "/v1/databases/{name}", operation_id = "patch_database", tag = "databases",
    request_body(content = DatabaseSpec, content_type = "application/merge-patch+json"),
    params(
        ("name" = String, Path, description = "The database's name or id."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the database that the change is based on."),
    ),
    responses((status = 200, body = DatabaseView))
)]
pub(crate) async fn patch(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response> {
    let old = changeable(&app, &actor, &name).await?;
    let headers = request.headers().clone();
    let shown = view(&old)?;
    let current = DatabaseSpec {
        name: shown.name,
        url: shown.url,
        description: shown.description,
        version: None,
    };
    let current = serde_json::to_value(current)
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    let spec = objects::changed(&app, request, Some(current)).await?;
    change(&app, &actor, old, spec, &headers).await
}

async fn change(
    app: &App,
    actor: &Actor,
    old: Object,
    spec: DatabaseSpec,
    headers: &HeaderMap,
) -> Result<Response> {
    let condition = Condition::of(headers, spec.version, app)?;
    refuse_settings(app, actor, &spec.name)?;
    let (body, fresh) = body(app, &spec, Some(body_of(&old)?))?;
    let body = (&body, fresh.as_slice());
    let object = objects::change(app, actor, old, spec.name, body, condition).await?;
    Ok(([etag(object.version)], Json(view(&object)?)).into_response())
}

/// Removes a database. Jobs that name it fail until another one has its name.
#[utoipa::path(
    delete, path = "/v1/databases/{name}", operation_id = "delete_database", tag = "databases",
    params(
        ("name" = String, Path, description = "The database's name or id."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the database."),
    ),
    responses((status = 204))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    let object = changeable(&app, &actor, &name).await?;
    objects::remove(&app, &actor, object, &headers).await
}

/// Connects to a database as a job would, and says what answered.
#[utoipa::path(
    post, path = "/v1/databases/{name}/test", operation_id = "test_database", tag = "databases",
    params(("name" = String, Path, description = "The database's name or id.")),
    responses((status = 200, body = TrialView))
)]
pub(crate) async fn test(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
) -> Result<Json<TrialView>> {
    actor.may(Deed::ChangeAccess)?;
    let name = match of_settings(&app, &actor).contains_key(&name) {
        true => name,
        false => objects::find(&app, &actor, KIND, &name).await?.name,
    };
    let trial = app.trials.database(actor.tenant, &name);
    Ok(Json(TrialView::of(&app, &actor, KIND, &name, trial).await?))
}
