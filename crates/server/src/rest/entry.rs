//! Functions that tenants, users, roles and keys share in this API.

use axum::Json;
use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing;
use domain::access::{Entry, Kind, Record};
use domain::id::UserId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::openapi::path::{HttpMethod, ParameterIn};
use utoipa::{IntoParams, PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use super::job_patch::merge;
use super::objects::PageParams;
use super::operations::{self, Routes, request_body, responses, text_parameter};
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, Params, parse_value};
use crate::condition::{Condition, etag, is_known, not_modified};
use crate::page::{self, List};
use crate::problem::{Code, ErrorBody, Problem, Result};

/// How an entry is shown; none for one of another kind.
pub(super) trait Shown: Serialize + Sized {
    /// Which entries it shows.
    const KIND: Kind;
    /// The entry as it is shown.
    fn of(record: &Record) -> Option<Self>;
    /// Its place.
    fn place(&self) -> String;
}

/// Entries that have all five routes.
pub(super) trait EntryResource: Shown + ToSchema + Send {
    /// The singular in addresses, names and sentences; an `s` makes the plural.
    const WORD: &'static str;
    /// The body of a request.
    type Spec: DeserializeOwned + ToSchema + Send + 'static;

    /// The entry that a request makes.
    fn made(
        app: &App,
        actor: &Actor,
        spec: Self::Spec,
    ) -> impl Future<Output = Result<Entry>> + Send;

    /// An entry with the changes of a merge patch.
    fn patched(
        app: &App,
        actor: &Actor,
        entry: &Entry,
        patch: Value,
    ) -> impl Future<Output = Result<Entry>> + Send;
}

/// Adds the routes of tenants, users or roles, and their description.
pub(super) fn add_routes<V: EntryResource + 'static>(
    router: OpenApiRouter<App>,
) -> OpenApiRouter<App> {
    async fn list_all<V: EntryResource>(
        State(app): State<App>,
        actor: Actor,
        OriginalUri(uri): OriginalUri,
        Params(params): Params<PageParams>,
    ) -> Result<Response> {
        list::<V>(&app, &actor, None, &params, &uri).await
    }

    async fn get_one<V: EntryResource>(
        State(app): State<App>,
        actor: Actor,
        Path(name): Path<String>,
        headers: HeaderMap,
    ) -> Result<Response> {
        get::<V>(&app, &actor, &name, &headers).await
    }

    async fn create_one<V: EntryResource>(
        State(app): State<App>,
        actor: Actor,
        Body(spec): Body<V::Spec>,
    ) -> Result<Response> {
        let entry = V::made(&app, &actor, spec).await?;
        create::<V>(&app, &actor, entry).await
    }

    async fn patch_one<V: EntryResource>(
        State(app): State<App>,
        actor: Actor,
        Path(name): Path<String>,
        headers: HeaderMap,
        Body(patch): Body<Value>,
    ) -> Result<Response> {
        let found = find(&app, &actor, V::KIND, &name).await?;
        let entry = V::patched(&app, &actor, &found.entry, patch).await?;
        change::<V>(&app, &actor, &found, entry, &headers).await
    }

    async fn delete_one<V: EntryResource>(
        State(app): State<App>,
        actor: Actor,
        Path(name): Path<String>,
        headers: HeaderMap,
    ) -> Result<StatusCode> {
        remove(&app, &actor, V::KIND, &name, &headers).await
    }

    let word = V::WORD;
    let (view, error) = (V::name(), ErrorBody::name());
    let (view, error) = (Some(&*view), Some(&*error));
    let list_name = format!("List_{}", V::name());
    let mut list_routes = Routes::at(format!("/v1/{word}s"));
    let mut one_routes = Routes::at(format!("/v1/{word}s/{{{word}}}"));
    list_routes.schemas::<V::Spec>();
    list_routes.schemas::<V>();
    list_routes.schemas.push((list_name.clone(), List::<V>::schema()));
    let operation = |verb: &str, summary: String, parameters| {
        let plural = if verb == "list" { "s" } else { "" };
        operations::operation("access", &format!("{verb}_{word}{plural}"), &summary, parameters)
    };
    let named = || text_parameter(word, ParameterIn::Path, format!("The {word}'s id or name."));
    let if_match = |text: String| text_parameter("If-Match", ParameterIn::Header, text);

    let parameters = PageParams::into_params(|| None);
    let described = operation("list", format!("Lists {word}s by name."), parameters)
        .responses(responses([("200", Some(&*list_name))]));
    list_routes.add(HttpMethod::Get, described, routing::get(list_all::<V>));
    let described = operation("create", format!("Makes a {word}."), Vec::new())
        .request_body(Some(request_body::<V::Spec>("application/json")))
        .responses(responses([("201", view), ("404", error), ("409", error)]));
    list_routes.add(HttpMethod::Post, described, routing::post(create_one::<V>));

    let described = operation("get", format!("Shows a {word}."), vec![named()])
        .responses(responses([("200", view), ("304", None), ("400", error)]));
    one_routes.add(HttpMethod::Get, described, routing::get(get_one::<V>));
    let summary =
        format!("Changes some fields of a {word} (RFC 7396): what is null is taken away.");
    let based_on = if_match("The ETag that the change is based on.".to_owned());
    let described = operation("patch", summary, vec![named(), based_on])
        .request_body(Some(request_body::<V::Spec>("application/json")))
        .responses(responses([("200", view)]));
    one_routes.add(HttpMethod::Patch, described, routing::patch(patch_one::<V>));
    let tag = if_match(format!("The ETag of the {word}."));
    let described = operation("delete", format!("Removes a {word}."), vec![named(), tag])
        .responses(responses([("204", None)]));
    one_routes.add(HttpMethod::Delete, described, routing::delete(delete_one::<V>));
    router.routes(list_routes.finish()).routes(one_routes.finish())
}

/// A page of entries by name.
pub(super) async fn list<V: Shown>(
    app: &App,
    actor: &Actor,
    owner: Option<UserId>,
    params: &PageParams,
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
