//! Functions that tenants, users, roles and keys share in this API.

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use domain::access::{Entry, Kind, Record};
use domain::id::UserId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::IntoParams;

use super::job_patch::merge;
use crate::actor::Actor;
use crate::app::App;
use crate::body::parse_value;
use crate::condition::{Condition, etag, is_known, not_modified};
use crate::page::{self, List};
use crate::problem::{Code, Problem, Result};

/// Which entries a list shows.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EntryParams {
    /// How many; 50 when absent, at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

impl EntryParams {
    pub(super) fn new(limit: Option<u32>, cursor: Option<String>) -> Self {
        EntryParams { limit, cursor }
    }
}

/// How an entry is shown; none for one of another kind.
pub(super) trait Shown: Serialize + Sized {
    /// Which entries it shows.
    const KIND: Kind;
    /// The entry as it is shown.
    fn of(record: &Record) -> Option<Self>;
    /// Its place.
    fn place(&self) -> String;
}

/// A page of entries by name.
pub(super) async fn list<V: Shown>(
    app: &App,
    actor: &Actor,
    owner: Option<UserId>,
    params: &EntryParams,
    uri: &Uri,
) -> Result<Response> {
    let limit = page::limit(params.limit)?;
    let after = page::cursor(params.cursor.as_deref())?;
    let found = app.engine.by(actor).list_entries(V::KIND, owner, after.as_deref(), limit).await?;
    let data: Vec<V> = found.items.iter().filter_map(V::of).collect();
    Ok(List::new(data, found.next).answer(uri))
}

/// An entry by its name or id.
pub(super) async fn find(app: &App, actor: &Actor, kind: Kind, text: &str) -> Result<Record> {
    Ok(app.engine.by(actor).entry(kind, text).await?)
}

/// An entry as an answer.
pub(super) async fn get<V: Shown>(
    app: &App,
    actor: &Actor,
    text: &str,
    headers: &HeaderMap,
) -> Result<Response> {
    let record = find(app, actor, V::KIND, text).await?;
    if is_known(headers, record.version) {
        return Ok(not_modified(record.version));
    }
    shown::<V>(&record, StatusCode::OK)
}

fn shown<V: Shown>(record: &Record, status: StatusCode) -> Result<Response> {
    let view = V::of(record).ok_or_else(other)?;
    let mut response = (status, [etag(record.version)]).into_response();
    if status == StatusCode::CREATED
        && let Ok(place) = HeaderValue::from_str(&view.place())
    {
        response.headers_mut().insert(header::LOCATION, place);
    }
    let (parts, _) = response.into_parts();
    Ok((parts, Json(view)).into_response())
}

/// Makes an entry.
pub(super) async fn create<V: Shown>(app: &App, actor: &Actor, entry: Entry) -> Result<Response> {
    let record = app.engine.by(actor).put_entry(entry, None).await?;
    shown::<V>(&record, StatusCode::CREATED)
}

/// Applies a merge patch (RFC 7396) to a body.
pub(super) fn patched<T: Serialize + DeserializeOwned>(now: &T, patch: Value) -> Result<T> {
    if !patch.is_object() {
        let text = "a merge patch is a JSON object with the fields to change";
        return Err(Problem::new(Code::ValidationFailed, text));
    }
    let mut merged = serde_json::to_value(now)
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    merge(&mut merged, patch);
    parse_value("", merged)
}

/// Changes an entry that was found.
pub(super) async fn change<V: Shown>(
    app: &App,
    actor: &Actor,
    found: &Record,
    entry: Entry,
    headers: &HeaderMap,
) -> Result<Response> {
    Condition::of(headers, None, app)?.check(found.version)?;
    let record = app.engine.by(actor).put_entry(entry, Some(found.version)).await?;
    shown::<V>(&record, StatusCode::OK)
}

/// Removes an entry.
pub(super) async fn remove(
    app: &App,
    actor: &Actor,
    kind: Kind,
    text: &str,
    headers: &HeaderMap,
) -> Result<StatusCode> {
    let found = find(app, actor, kind, text).await?;
    let condition = Condition::of(headers, None, app)?;
    condition.check(found.version)?;
    app.engine.by(actor).remove_entry(&found.entry, condition.version()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// An id for something new.
pub(crate) fn new_id(app: &App) -> uuid::Uuid {
    let bytes = (app.random)().to_be_bytes();
    let bytes = bytes[..10].try_into().unwrap_or([0; 10]);
    let ms = app.now().as_millisecond().max(0) as u64;
    uuid::Builder::from_unix_timestamp_millis(ms, &bytes).into_uuid()
}

/// An entry of another kind than was asked for.
pub(super) fn other() -> Problem {
    Problem::new(Code::Internal, "this is something else")
}
