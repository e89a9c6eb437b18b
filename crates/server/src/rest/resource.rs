//! Resources with a name: one implementation of their routes. A resource is data (what its
//! operations are called and described by) and the few functions in which it differs from others.

use axum::Json;
use axum::extract::{OriginalUri, Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing;
use domain::object::{Object, ObjectKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::openapi::path::{HttpMethod, ParameterIn};
use utoipa::{IntoParams, PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use super::objects::{self, Fresh, Kept, PageParams};
use super::operations::{self, Routes, request_body, responses, text_parameter};
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, PATCH_KINDS, Params};
use crate::condition::{Condition, etag, is_known, not_modified};
use crate::page::{self, LIMIT_MAX, List};
use crate::problem::{Code, Problem, Result};

/// How the routes of a resource are described. An operation without a summary has no route.
pub(crate) struct ResourceDocs {
    /// The address of the list.
    pub path: &'static str,
    /// The name of the parameter in the address of one.
    pub parameter: &'static str,
    /// The group of operations in the description.
    pub tag: &'static str,
    /// The singular for sentences.
    pub word: &'static str,
    /// The singular and the plural in names of operations.
    pub ids: (&'static str, &'static str),
    /// The name of the operation that shows one.
    pub get_id: &'static str,
    /// Whether the list comes in pages; otherwise in one piece.
    pub is_paged: bool,
    pub create: Option<&'static str>,
    pub list: &'static str,
    pub get: &'static str,
    pub replace: Option<&'static str>,
    pub patch: Option<&'static str>,
    pub delete: &'static str,
}

/// A kind of objects with a name.
pub(crate) trait Resource: Send + Sync + Sized + 'static {
    const KIND: ObjectKind;
    const DOCS: ResourceDocs;
    /// The body of a request.
    type Spec: Serialize + DeserializeOwned + ToSchema + Send + Sync + 'static;
    /// The body that is stored.
    type Body: Kept + Send + Sync;
    /// The body of an answer.
    type View: Serialize + ToSchema + Send;

    /// The name that a request gives, and the version that it is based on.
    fn name_and_version(spec: &Self::Spec) -> (&str, Option<u32>);

    /// The request that would make a stored object: a merge patch changes its fields.
    fn spec(object: &Object) -> Result<Self::Spec>;

    /// Checks a request; answers the body to be stored, and the values to be sealed with it.
    fn body(
        app: &App,
        actor: &Actor,
        spec: &Self::Spec,
        old: Option<Self::Body>,
    ) -> impl Future<Output = Result<(Self::Body, Vec<Fresh>)>> + Send;

    /// Objects as a list shows them.
    fn views(
        app: &App,
        actor: &Actor,
        objects: &[Object],
    ) -> impl Future<Output = Result<Vec<Self::View>>> + Send;

    /// An object as it is shown by itself.
    fn view(
        app: &App,
        actor: &Actor,
        object: &Object,
    ) -> impl Future<Output = Result<Self::View>> + Send {
        async move {
            let views = Self::views(app, actor, std::slice::from_ref(object)).await?;
            views.into_iter().next().ok_or_else(|| objects::none(Self::KIND, &object.name))
        }
    }

    /// A page of the list behind a name, and where the next one begins.
    fn page(
        app: &App,
        actor: &Actor,
        after: Option<&str>,
        limit: u32,
    ) -> impl Future<Output = Result<(Vec<Self::View>, Option<String>)>> + Send {
        async move {
            let found = app.engine.by(actor).list_objects(Self::KIND, after, limit).await?;
            Ok((Self::views(app, actor, &found.items).await?, found.next))
        }
    }

    /// One that the settings of the server define; it is not stored and cannot be changed.
    fn from_settings(_: &App, _: &Actor, _: &str) -> Option<Self::View> {
        None
    }

    /// Refuses to rename or delete an object that is in use.
    fn check_unused(
        _: &App,
        _: &Actor,
        _: &Object,
        _change: &'static str,
    ) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// Called after one was made, changed or removed.
    fn after_change(_: &App, _: &Actor) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }
}

/// Creates an object.
pub(crate) async fn make<R: Resource>(app: &App, actor: &Actor, spec: R::Spec) -> Result<Object> {
    actor.may(R::KIND.changing())?;
    let (body, fresh) = R::body(app, actor, &spec, None).await?;
    let name = R::name_and_version(&spec).0.to_owned();
    let object = objects::create(app, actor, R::KIND, name, (&body, &fresh)).await?;
    R::after_change(app, actor).await?;
    Ok(object)
}

/// An object by its name or id, for a caller that may change it.
pub(crate) async fn find<R: Resource>(app: &App, actor: &Actor, name: &str) -> Result<Object> {
    actor.may(R::KIND.changing())?;
    if R::from_settings(app, actor, name).is_some() {
        let word = R::DOCS.word;
        let text = format!("the {word} {name:?} is changed in the settings of the server");
        return Err(Problem::new(Code::WrongState, text));
    }
    objects::find(app, actor, R::KIND, name).await
}

/// Replaces an object, if the condition holds.
pub(crate) async fn alter<R: Resource>(
    app: &App,
    actor: &Actor,
    old: Object,
    spec: R::Spec,
    condition: Condition,
) -> Result<Object> {
    actor.may(R::KIND.changing())?;
    let (body, fresh) = R::body(app, actor, &spec, Some(objects::body_of(&old)?)).await?;
    let name = R::name_and_version(&spec).0.to_owned();
    if old.name != name {
        R::check_unused(app, actor, &old, "renamed").await?;
    }
    let object = objects::change(app, actor, old, name, (&body, &fresh), condition).await?;
    R::after_change(app, actor).await?;
    Ok(object)
}

/// Deletes an object, if the condition of the request holds.
pub(crate) async fn remove<R: Resource>(
    app: &App,
    actor: &Actor,
    object: Object,
    headers: &HeaderMap,
) -> Result<StatusCode> {
    actor.may(R::KIND.changing())?;
    R::check_unused(app, actor, &object, "deleted").await?;
    let status = objects::remove(app, actor, object, headers).await?;
    R::after_change(app, actor).await?;
    Ok(status)
}

/// All objects of the tenant, by name.
pub(crate) async fn all<R: Resource>(app: &App, actor: &Actor) -> Result<Vec<R::View>> {
    let (mut views, mut after) = (Vec::new(), None);
    loop {
        let (page, next) = R::page(app, actor, after.as_deref(), LIMIT_MAX).await?;
        views.extend(page);
        after = next;
        if after.is_none() {
            return Ok(views);
        }
    }
}

async fn create<R: Resource>(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<R::Spec>,
) -> Result<Response> {
    let object = make::<R>(&app, &actor, spec).await?;
    let view = R::view(&app, &actor, &object).await?;
    Ok(objects::created(&object, R::DOCS.path, view))
}

async fn list<R: Resource>(
    State(app): State<App>,
    actor: Actor,
    Params(params): Params<PageParams>,
    OriginalUri(uri): OriginalUri,
) -> Result<Response> {
    let limit = page::limit(params.limit)?;
    let after = page::cursor(params.cursor.as_deref())?;
    let (items, next) = R::page(&app, &actor, after.as_deref(), limit).await?;
    Ok(List::new(items, next).answer(&uri))
}

async fn list_all<R: Resource>(
    State(app): State<App>,
    actor: Actor,
) -> Result<Json<List<R::View>>> {
    Ok(Json(List { data: all::<R>(&app, &actor).await?, next_cursor: None }))
}

async fn get<R: Resource>(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    app.engine.by(&actor).may_see(R::KIND)?;
    if let Some(view) = R::from_settings(&app, &actor, &name) {
        return Ok(Json(view).into_response());
    }
    let object = objects::find(&app, &actor, R::KIND, &name).await?;
    if is_known(&headers, object.version) {
        return Ok(not_modified(object.version));
    }
    shown::<R>(&app, &actor, &object).await
}

async fn shown<R: Resource>(app: &App, actor: &Actor, object: &Object) -> Result<Response> {
    let view = R::view(app, actor, object).await?;
    Ok(([etag(object.version)], Json(view)).into_response())
}

async fn replace<R: Resource>(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response> {
    let old = find::<R>(&app, &actor, &name).await?;
    change::<R>(&app, &actor, old, request, None).await
}

async fn patch<R: Resource>(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response> {
    let old = find::<R>(&app, &actor, &name).await?;
    let current = serde_json::to_value(R::spec(&old)?)
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    change::<R>(&app, &actor, old, request, Some(current)).await
}

async fn change<R: Resource>(
    app: &App,
    actor: &Actor,
    old: Object,
    request: Request,
    current: Option<serde_json::Value>,
) -> Result<Response> {
    let headers = request.headers().clone();
    let spec: R::Spec = objects::changed(app, request, current).await?;
    let condition = Condition::of(&headers, R::name_and_version(&spec).1, app)?;
    let object = alter::<R>(app, actor, old, spec, condition).await?;
    shown::<R>(app, actor, &object).await
}

async fn delete<R: Resource>(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    let object = find::<R>(&app, &actor, &name).await?;
    remove::<R>(&app, &actor, object, &headers).await
}

/// Adds the routes of a resource, and their description.
pub(crate) fn add_routes<R: Resource>(router: OpenApiRouter<App>) -> OpenApiRouter<App> {
    let docs = &R::DOCS;
    let (one, many) = docs.ids;
    let mut list_routes = Routes::at(docs.path.to_owned());
    let mut one_routes = Routes::at(format!("{}/{{{}}}", docs.path, docs.parameter));
    list_routes.schemas::<R::Spec>();
    list_routes.schemas::<R::View>();
    let list_name = format!("List_{}", R::View::name());
    list_routes.schemas.push((list_name.clone(), List::<R::View>::schema()));
    let named = || {
        text_parameter(
            docs.parameter,
            ParameterIn::Path,
            format!("The {}'s name or id.", docs.word),
        )
    };
    let if_match = |text: &str| {
        let text = format!("The ETag of the {}{text}.", docs.word);
        text_parameter("If-Match", ParameterIn::Header, text)
    };
    let of_change = || vec![named(), if_match(" that the change is based on")];

    let pages = if docs.is_paged { PageParams::into_params(|| None) } else { Vec::new() };
    let operation = operations::operation(docs.tag, &format!("list_{many}"), docs.list, pages)
        .responses(responses([("200", Some(&*list_name))]));
    let handler = if docs.is_paged { routing::get(list::<R>) } else { routing::get(list_all::<R>) };
    list_routes.add(HttpMethod::Get, operation, handler);
    let view = R::View::name();
    if let Some(summary) = docs.create {
        let text = "The same key and body give the same answer for a day.";
        let key = text_parameter("Idempotency-Key", ParameterIn::Header, text.to_owned());
        let operation =
            operations::operation(docs.tag, &format!("create_{one}"), summary, vec![key])
                .request_body(Some(request_body::<R::Spec>("application/json")))
                .responses(responses([("201", Some(&*view))]));
        list_routes.add(HttpMethod::Post, operation, routing::post(create::<R>));
    }
    let operation = operations::operation(docs.tag, docs.get_id, docs.get, vec![named()])
        .responses(responses([("200", Some(&*view)), ("304", None)]));
    one_routes.add(HttpMethod::Get, operation, routing::get(get::<R>));
    if let Some(summary) = docs.replace {
        let operation =
            operations::operation(docs.tag, &format!("replace_{one}"), summary, of_change())
                .request_body(Some(request_body::<R::Spec>("application/json")))
                .responses(responses([("200", Some(&*view))]));
        one_routes.add(HttpMethod::Put, operation, routing::put(replace::<R>));
    }
    if let Some(summary) = docs.patch {
        let operation =
            operations::operation(docs.tag, &format!("patch_{one}"), summary, of_change())
                .request_body(Some(request_body::<R::Spec>(PATCH_KINDS[0])))
                .responses(responses([("200", Some(&*view))]));
        one_routes.add(HttpMethod::Patch, operation, routing::patch(patch::<R>));
    }
    let parameters = vec![named(), if_match("")];
    let operation =
        operations::operation(docs.tag, &format!("delete_{one}"), docs.delete, parameters)
            .responses(responses([("204", None)]));
    one_routes.add(HttpMethod::Delete, operation, routing::delete(delete::<R>));
    router.routes(list_routes.finish()).routes(one_routes.finish())
}
