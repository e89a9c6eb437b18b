//! Preferences of a user for the dashboard, such as saved views. The server does not interpret
//! them.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use domain::id::ObjectId;
use domain::object::{Object, ObjectKind};
use engine::Put;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::actor::Actor;
use crate::app::App;
use crate::body::Body;
use crate::condition::{Condition, etag, if_match};
use crate::problem::{Code, Problem, Result};

/// The longest text of preferences, in bytes.
const BYTES_MAX: usize = 16 << 10;

/// How often a change is tried that others overtake.
const TRIES: usize = 5;

/// Preferences of a user for the dashboard.
#[derive(Serialize, ToSchema)]
pub struct Preferences {
    /// The stored values; empty at first.
    #[schema(value_type = Object)]
    pub values: Map<String, Value>,
    /// Grows with every change, from 0.
    pub version: u32,
}

/// New preferences.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PreferencesBody {
    /// The values to store, at most 16 KB.
    #[schema(value_type = Object)]
    values: Map<String, Value>,
}

/// Shows what the caller keeps about the dashboard.
#[utoipa::path(
    get, path = "/v1/whoami/preferences", operation_id = "get_preferences", tag = "access",
    responses((status = 200, body = Preferences))
)]
pub(crate) async fn get(State(app): State<App>, actor: Actor) -> Result<Response> {
    Ok(shown(app.engine.by(&actor).preferences().await?.as_ref()))
}

fn shown(object: Option<&Object>) -> Response {
    let version = object.map_or(0, |object| object.version);
    let values = object.and_then(|object| serde_json::from_str(&object.body).ok());
    let body = Preferences { values: values.unwrap_or_default(), version };
    ([etag(version)], Json(body)).into_response()
}

/// Replaces what the caller keeps about the dashboard.
#[utoipa::path(
    put, path = "/v1/whoami/preferences", operation_id = "put_preferences", tag = "access",
    request_body = PreferencesBody,
    params(("If-Match" = Option<String>, Header, description = "The ETag of the preferences that the change is based on.")),
    responses((status = 200, body = Preferences))
)]
pub(crate) async fn put(
    State(app): State<App>,
    actor: Actor,
    headers: HeaderMap,
    Body(body): Body<PreferencesBody>,
) -> Result<Response> {
    let text = Value::Object(body.values).to_string();
    if text.len() > BYTES_MAX {
        let text = format!("has {} bytes; at most {BYTES_MAX} are kept", text.len());
        return Err(Problem::invalid("values", text));
    }
    let condition = if_match(&headers)?.map_or(Condition::None, Condition::Header);
    for _ in 0..TRIES {
        let old = app.engine.by(&actor).preferences().await?;
        let version = old.as_ref().map_or(0, |old| old.version);
        condition.check(version)?;
        let object = Object {
            id: old.map_or_else(|| ObjectId(Uuid::from_u128((app.random)())), |old| old.id),
            tenant: actor.tenant,
            kind: ObjectKind::Preferences,
            name: actor.user.to_string(),
            body: text.clone(),
            version,
            created_at: Timestamp::UNIX_EPOCH,
            changed_at: Timestamp::UNIX_EPOCH,
        };
        // Another tab may have been quicker.
        if let Put::Done(object) = app.engine.by(&actor).put_object(&object, version).await? {
            return Ok(shown(Some(&object)));
        }
    }
    Err(Problem::new(Code::VersionConflict, "the preferences change too often; try again"))
}
