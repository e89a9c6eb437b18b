//! Functions that databases and alert channels share: found by name or id, changed by version.

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::audit::{self, Event};
use domain::id::{ObjectId, TenantId};
use domain::object::{Object, ObjectKind, check_name};
use domain::secret::SecretPlace;
use engine::{Put, Set};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::job_patch::merge;
use crate::actor::Actor;
use crate::app::App;
use crate::body::{PATCH_KINDS, parse, parse_value, read, require_json};
use crate::condition::{Condition, etag};
use crate::problem::{Code, Problem, Result};

/// The fields that an answer has and a request does not: a client that sends back what it was shown
/// need not take them out.
const READ_ONLY: [&str; 24] = [
    "hook_id",
    "path",
    "created_by",
    "old_secret_until",
    "pool_id",
    "used",
    "waiting",
    "runs",
    "database_id",
    "channel_id",
    "shard_id",
    "owner_id",
    "owner",
    "owned_since",
    "fence",
    "kind",
    "source",
    "has_secret",
    "created_at",
    "updated_at",
    "calendar_id",
    "next_days",
    "jobs",
    "status_page_id",
];

/// Where a page begins, and how long it is.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageParams {
    /// How many; 50 when absent, at most 500.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// The `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// The result of a trial.
#[derive(Serialize, ToSchema)]
pub struct TrialView {
    /// Whether it worked.
    pub ok: bool,
    /// The reply, or the reason that there is none.
    pub message: String,
    /// How long it took.
    pub duration_ms: u64,
}

impl TrialView {
    /// Records who tries what out, and waits for the trial.
    pub async fn of(
        app: &App,
        actor: &Actor,
        kind: ObjectKind,
        name: &str,
        trial: crate::trials::Tried<'_>,
    ) -> Result<Self> {
        let event = Event {
            tenant: actor.tenant,
            actor: actor.name.clone(),
            kind: audit::Kind::Tested,
            job: None,
            run: None,
            outcome: "REQUESTED".to_owned(),
            details: serde_json::json!({ kind.word(): name }).to_string(),
        };
        app.engine.node().record(event).await?;
        let began = app.now();
        let (ok, message) = match trial.await {
            Ok(message) => (true, message),
            Err(message) => (false, message),
        };
        let took = app.now().duration_since(began).as_millis();
        Ok(TrialView { ok, message, duration_ms: u64::try_from(took).unwrap_or(0) })
    }
}

/// There is no such thing, for this caller.
pub(super) fn none(kind: ObjectKind, name: &str) -> Problem {
    Problem::new(Code::NotFound, format!("there is no {} {name:?}", kind.word()))
}

fn name_taken(object: &Object) -> Problem {
    let text = format!("there is another {} named {:?}", object.kind.word(), object.name);
    Problem { message: text.clone(), ..Problem::field(Code::AlreadyExists, "name", text) }
}

/// The object of an id or a name. An object of another user is not found.
pub(super) async fn find(app: &App, actor: &Actor, kind: ObjectKind, text: &str) -> Result<Object> {
    if let Ok(id) = text.parse::<ObjectId>() {
        let found = app.engine.by(actor).object(id).await?;
        if let Some(object) = found.filter(|it| it.kind == kind) {
            return Ok(object);
        }
    }
    let found = app.engine.by(actor).object_by_name(kind, text).await?;
    found.ok_or_else(|| none(kind, text))
}

/// The stored body of an object, and the names of its sealed values.
pub(crate) trait Kept: Serialize + DeserializeOwned {
    /// Which secrets of the object belong to it.
    fn sealed(&self) -> Vec<&str>;
}

/// A new secret value. It has a name of its own: the old body refers to the old value until the new
/// body is stored.
pub(crate) struct Fresh {
    pub name: String,
    value: String,
}

impl Fresh {
    pub fn new(app: &App, value: String) -> Self {
        Fresh { name: format!("{:032x}", (app.random)()), value }
    }

    async fn keep(&self, app: &App, actor: &Actor, object: &Object) -> Result<()> {
        let place = SecretPlace::of_object(object.tenant, object.id, &self.name);
        match app.secrets.put(&place, &self.value, 0, &actor.name).await? {
            Set::Done(_) => Ok(()),
            Set::Conflict(_) => Err(Problem::new(Code::Internal, "a new name was known already")),
        }
    }
}

/// Removes a value that no body refers to. If that fails, it is removed with the object.
async fn forget(app: &App, actor: &Actor, object: &Object, name: &str) {
    let place = SecretPlace::of_object(object.tenant, object.id, name);
    // Such values are not changed, so they have their first version.
    if let Err(error) = app.secrets.remove(&place, 1, &actor.name).await {
        tracing::warn!(%error, object = %object.id, "a value that is not needed any more stays");
    }
}

/// Stores new values, and then the object that refers to them. Values that no body refers to in the
/// end are removed.
async fn put<T: Kept>(
    app: &App,
    actor: &Actor,
    object: &Object,
    (body, fresh): (&T, &[Fresh]),
    old: Option<&T>,
) -> Result<Put> {
    // Before anything is kept.
    actor.may(object.kind.changing())?;
    for fresh in fresh {
        fresh.keep(app, actor, object).await?;
    }
    // Without an answer, old and new values stay: one of the bodies means them.
    let put = app.engine.by(actor).put_object(object, object.version).await?;
    match put {
        Put::Done(_) => {
            let meant = body.sealed();
            for old in old.map(T::sealed).unwrap_or_default() {
                if !meant.contains(&old) {
                    forget(app, actor, object, old).await;
                }
            }
        }
        Put::Conflict(_) | Put::NameTaken => {
            for fresh in fresh {
                forget(app, actor, object, &fresh.name).await;
            }
        }
    }
    Ok(put)
}

/// Makes an object.
pub(super) async fn create<T: Kept>(
    app: &App,
    actor: &Actor,
    kind: ObjectKind,
    name: String,
    (body, fresh): (&T, &[Fresh]),
) -> Result<Object> {
    check_name(&name).map_err(|problem| Problem::invalid("name", problem))?;
    let object = new_object(app, actor.tenant, kind, name, text_of(body)?);
    match put(app, actor, &object, (body, fresh), None).await? {
        Put::Done(object) => Ok(object),
        Put::NameTaken => Err(name_taken(&object)),
        Put::Conflict(_) => Err(Problem::new(Code::Internal, "a new id was known already")),
    }
}

/// An object with an id of its own, to be made.
pub(super) fn new_object(
    app: &App,
    tenant: TenantId,
    kind: ObjectKind,
    name: String,
    body: String,
) -> Object {
    let now = app.now();
    let random = (app.random)().to_be_bytes();
    let random = random[..10].try_into().unwrap_or([0; 10]);
    let ms = now.as_millisecond().max(0).unsigned_abs();
    let id = ObjectId(uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid());
    Object { id, tenant, kind, name, body, version: 0, created_at: now, changed_at: now }
}

/// Gives an object another name and body, if the condition holds and no other change is faster.
pub(super) async fn change<T: Kept>(
    app: &App,
    actor: &Actor,
    old: Object,
    name: String,
    (body, fresh): (&T, &[Fresh]),
    condition: Condition,
) -> Result<Object> {
    check_name(&name).map_err(|problem| Problem::invalid("name", problem))?;
    condition.check_of(old.kind.word(), old.version)?;
    let before: T = body_of(&old)?;
    let new = Object { name, body: text_of(body)?, ..old };
    match put(app, actor, &new, (body, fresh), Some(&before)).await? {
        Put::Done(object) => Ok(object),
        Put::NameTaken => Err(name_taken(&new)),
        Put::Conflict(version) => Err(overtaken(&new, version, condition)),
    }
}

/// Removes an object, if the condition holds and no other change is faster.
pub(super) async fn remove(
    app: &App,
    actor: &Actor,
    object: Object,
    headers: &HeaderMap,
) -> Result<StatusCode> {
    let condition = Condition::of(headers, None, app)?;
    condition.check_of(object.kind.word(), object.version)?;
    match app.engine.by(actor).remove_object(&object).await? {
        Set::Done(_) => Ok(StatusCode::NO_CONTENT),
        Set::Conflict(0) => Err(none(object.kind, &object.name)),
        Set::Conflict(version) => Err(overtaken(&object, version, condition)),
    }
}

fn overtaken(object: &Object, version: u32, condition: Condition) -> Problem {
    let refused = match condition {
        Condition::None => Condition::Body(object.version).check_of(object.kind.word(), version),
        condition => condition.check_of(object.kind.word(), version),
    };
    let gone = || none(object.kind, &object.name);
    if version == 0 { gone() } else { refused.err().unwrap_or_else(gone) }
}

fn text_of(body: &impl Serialize) -> Result<String> {
    serde_json::to_string(body).map_err(|error| Problem::new(Code::Internal, error.to_string()))
}

/// Deserializes the body of an object. Unknown fields of a later release are ignored.
pub(super) fn body_of<T: DeserializeOwned>(object: &Object) -> Result<T> {
    serde_json::from_str(&object.body).map_err(|error| {
        let text = format!("the {} {:?} cannot be read: {error}", object.kind.word(), object.name);
        Problem::new(Code::Internal, text)
    })
}

/// Reads the body of a replacement, or of a merge patch of what is there.
pub(super) async fn changed<T: DeserializeOwned>(
    app: &App,
    request: Request,
    current: Option<Value>,
) -> Result<T> {
    let kinds: &[&str] = match current {
        Some(_) => &PATCH_KINDS,
        None => &["application/json"],
    };
    require_json(&request, kinds)?;
    let bytes = read(request.into_body(), app.options.body_bytes_max).await?;
    let mut given: Value = parse(&bytes)?;
    let Some(fields) = given.as_object_mut() else {
        let text = "the body is a JSON object with the fields";
        return Err(Problem::new(Code::ValidationFailed, text));
    };
    fields.retain(|name, _| !READ_ONLY.contains(&name.as_str()));
    match current {
        Some(mut merged) => {
            merge(&mut merged, given);
            parse_value("", merged)
        }
        None => parse_value("", given),
    }
}

/// The answer that shows a new object.
pub(super) fn created(object: &Object, place: &str, view: impl Serialize) -> Response {
    let location = HeaderValue::from_str(&format!("{place}/{}", object.id));
    let location = location.unwrap_or(HeaderValue::from_static("/v1"));
    let headers = [etag(object.version), (header::LOCATION, location)];
    (StatusCode::CREATED, headers, Json(view)).into_response()
}
