//! Blackouts: windows of time in which no tick of the tenant, or of the cluster, starts.

use axum::Json;
use axum::extract::{OriginalUri, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::access::Deed;
use domain::blackout::{Blackout, BlackoutWindow};
use domain::id::{ObjectId, TenantId};
use domain::object::{Object, ObjectKind, check_name};
use domain::schedule::parse_instant;
use engine::{Put, Scope, Set};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::objects::{self, body_of};
use super::shape::duration::Seconds;
use crate::actor::Actor;
use crate::app::App;
use crate::body::Body;
use crate::page::List;
use crate::problem::{Code, ErrorBody, Problem, Result};

const KIND: ObjectKind = ObjectKind::Blackout;

/// Where a blackout or a pause holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ScopeName {
    /// For the jobs of the tenant.
    #[default]
    Tenant,
    /// For the jobs of all tenants.
    Cluster,
}

impl From<ScopeName> for Scope {
    fn from(name: ScopeName) -> Self {
        match name {
            ScopeName::Tenant => Scope::Tenant,
            ScopeName::Cluster => Scope::Cluster,
        }
    }
}

impl ScopeName {
    pub(super) fn from_tenant(tenant: TenantId) -> Self {
        if tenant == TenantId::CLUSTER { ScopeName::Cluster } else { ScopeName::Tenant }
    }
}

/// A blackout: once, with `from` and `until`; or again and again, with `cron_expression`
/// and `duration_seconds`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BlackoutSpec {
    /// Unique among the blackouts of the tenant.
    #[schema(
        min_length = 1,
        max_length = 100,
        pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$",
        example = "release-freeze"
    )]
    pub name: String,
    /// Where it holds; `TENANT` when absent.
    #[serde(default)]
    #[schema(required = false)]
    pub scope: ScopeName,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// When it begins: an instant, or a local time of `timezone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// When it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// When it begins, again and again: five fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "0 18 * * FRI")]
    pub cron_expression: Option<String>,
    /// The zone of local times; `UTC` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// How long it lasts each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<Seconds>,
}

/// A blackout as it is shown.
#[derive(Debug, Serialize, ToSchema)]
pub struct BlackoutView {
    /// Its identity.
    pub blackout_id: Uuid,
    /// Its name.
    pub name: String,
    /// Where it holds.
    pub scope: ScopeName,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// When it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// When it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// When it begins, again and again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron_expression: Option<String>,
    /// The zone of the expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// How long it lasts each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<Seconds>,
    /// Whether it holds now.
    pub is_active: bool,
    /// The beginning of the present window, or of the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_from: Option<Timestamp>,
    /// The end of that window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_until: Option<Timestamp>,
    /// Grows with every change.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl BlackoutSpec {
    fn body(&self, app: &App) -> Result<Blackout> {
        let zone_name = self.timezone.as_deref().unwrap_or("UTC");
        let zone = app.zones.find(zone_name).map_err(|error| {
            Problem::field(Code::InvalidTimezone, "timezone", error.to_string())
        })?;
        let time = |field: &'static str, text: &str| {
            parse_instant(text, &zone, &app.zones)
                .map_err(|error| Problem::invalid(field, error.to_string()))
        };
        let window = match (&self.from, &self.until, &self.cron_expression, self.duration_seconds) {
            (Some(from), Some(until), None, None) => {
                BlackoutWindow::Once { from: time("from", from)?, until: time("until", until)? }
            }
            (None, None, Some(cron), Some(duration)) => BlackoutWindow::Recurring {
                cron: cron.clone(),
                timezone: zone.name().to_owned(),
                duration: duration.0,
            },
            _ => {
                let text = "a blackout has from and until, or cron_expression and duration_seconds";
                return Err(Problem::invalid("from", text));
            }
        };
        let blackout = Blackout { description: self.description.clone(), window };
        let field = if self.from.is_some() { "until" } else { "cron_expression" };
        blackout
            .compile(&self.name, &app.zones)
            .map_err(|error| Problem::invalid(field, error.to_string()))?;
        Ok(blackout)
    }
}

fn view(app: &App, object: &Object) -> Result<BlackoutView> {
    let blackout: Blackout = body_of(object)?;
    let now = app.now();
    let compiled = blackout.compile(&object.name, &app.zones).ok();
    let next = compiled.as_ref().and_then(|it| it.window_from(now));
    let mut view = BlackoutView {
        blackout_id: object.id.0,
        name: object.name.clone(),
        scope: ScopeName::from_tenant(object.tenant),
        description: blackout.description,
        from: None,
        until: None,
        cron_expression: None,
        timezone: None,
        duration_seconds: None,
        is_active: compiled.is_some_and(|it| it.contains(now)),
        next_from: next.map(|(from, _)| from),
        next_until: next.map(|(_, until)| until),
        version: object.version,
        created_at: object.created_at,
        updated_at: object.changed_at,
    };
    match blackout.window {
        BlackoutWindow::Once { from, until } => {
            (view.from, view.until) = (Some(from), Some(until));
        }
        BlackoutWindow::Recurring { cron, timezone, duration } => {
            (view.cron_expression, view.timezone) = (Some(cron), Some(timezone));
            view.duration_seconds = Some(Seconds(duration));
        }
    }
    Ok(view)
}

/// The blackout of a name or id: the tenant's own, or that of the cluster.
pub(crate) async fn find(app: &App, actor: &Actor, name: &str) -> Result<Object> {
    let id = name.parse::<ObjectId>().ok();
    let found = app.engine.by(actor).blackouts().await?;
    let mut found = found.into_iter().filter(|it| it.name == name || Some(it.id) == id);
    found.next().ok_or_else(|| objects::none(KIND, name))
}

/// Makes a blackout, or replaces one.
pub(crate) async fn put(
    app: &App,
    actor: &Actor,
    spec: &BlackoutSpec,
    old: Option<Object>,
) -> Result<Object> {
    actor.may(match spec.scope {
        ScopeName::Tenant => Deed::ChangeAccess,
        ScopeName::Cluster => Deed::ChangeCluster,
    })?;
    check_name(&spec.name).map_err(|problem| Problem::invalid("name", problem))?;
    let body = spec.body(app)?;
    let body = serde_json::to_string(&body)
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    if let Some(old) = &old
        && ScopeName::from_tenant(old.tenant) != spec.scope
    {
        return Err(Problem::invalid("scope", "the scope of a blackout cannot be changed"));
    }
    let version = old.as_ref().map_or(0, |old| old.version);
    let object = match old {
        Some(old) => Object { name: spec.name.clone(), body, ..old },
        None => objects::new_object(app, actor.tenant, KIND, spec.name.clone(), body),
    };
    let engine = app.engine.by(actor);
    let put = match spec.scope {
        ScopeName::Tenant => engine.put_object(&object, version).await?,
        ScopeName::Cluster => engine.put_cluster_object(&object, version).await?,
    };
    match put {
        Put::Done(object) => Ok(object),
        Put::NameTaken => {
            let text = format!("there is another blackout named {:?}", spec.name);
            Err(Problem {
                message: text.clone(),
                ..Problem::field(Code::AlreadyExists, "name", text)
            })
        }
        Put::Conflict(_) => {
            let text = "the blackout was changed meanwhile; try again";
            Err(Problem::new(Code::VersionConflict, text))
        }
    }
}

/// Removes a blackout.
pub(crate) async fn remove(app: &App, actor: &Actor, object: &Object) -> Result<()> {
    let engine = app.engine.by(actor);
    let removed = match ScopeName::from_tenant(object.tenant) {
        ScopeName::Tenant => engine.remove_object(object).await?,
        ScopeName::Cluster => engine.remove_cluster_object(object).await?,
    };
    match removed {
        Set::Done(_) => Ok(()),
        Set::Conflict(0) => Err(objects::none(KIND, &object.name)),
        Set::Conflict(_) => {
            let text = "the blackout was changed meanwhile; try again";
            Err(Problem::new(Code::VersionConflict, text))
        }
    }
}

/// Creates a blackout. It holds on this server at once, and on other nodes within three seconds.
#[utoipa::path(
    post, path = "/v1/blackouts", operation_id = "create_blackout", tag = "calendars", request_body = BlackoutSpec,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same answer for a day.")),
    responses((status = 201, body = BlackoutView))
)]
pub(crate) async fn create(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<BlackoutSpec>,
) -> Result<Response> {
    let object = put(&app, &actor, &spec, None).await?;
    Ok(objects::created(&object, "/v1/blackouts", view(&app, &object)?))
}

/// Lists the blackouts that hold for the jobs of the tenant, those of the cluster included.
#[utoipa::path(
    get, path = "/v1/blackouts", operation_id = "list_blackouts", tag = "calendars",
    responses((status = 200, body = List<BlackoutView>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    OriginalUri(uri): OriginalUri,
) -> Result<Response> {
    let found = app.engine.by(&actor).blackouts().await?;
    let items = found.iter().map(|object| view(&app, object)).collect::<Result<Vec<_>>>()?;
    Ok(List::new(items, None::<String>).answer(&uri))
}

/// Shows a blackout and its next window.
#[utoipa::path(
    get, path = "/v1/blackouts/{name}", operation_id = "get_blackout", tag = "calendars",
    params(("name" = String, Path, description = "The blackout's name or id.")),
    responses((status = 200, body = BlackoutView))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
) -> Result<Json<BlackoutView>> {
    let object = find(&app, &actor, &name).await?;
    view(&app, &object).map(Json)
}

/// Replaces a blackout.
#[utoipa::path(
    put, path = "/v1/blackouts/{name}", operation_id = "replace_blackout", tag = "calendars", request_body = BlackoutSpec,
    params(("name" = String, Path, description = "The blackout's name or id.")),
    responses((status = 200, body = BlackoutView), (status = 409, body = ErrorBody))
)]
pub(crate) async fn replace(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    Body(spec): Body<BlackoutSpec>,
) -> Result<Response> {
    let old = find(&app, &actor, &name).await?;
    let object = put(&app, &actor, &spec, Some(old)).await?;
    Ok(Json(view(&app, &object)?).into_response())
}

/// Deletes a blackout. Ticks that it skipped stay skipped.
#[utoipa::path(
    delete, path = "/v1/blackouts/{name}", operation_id = "delete_blackout", tag = "calendars",
    params(("name" = String, Path, description = "The blackout's name or id.")),
    responses((status = 204), (status = 409, body = ErrorBody))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
) -> Result<StatusCode> {
    let object = find(&app, &actor, &name).await?;
    remove(&app, &actor, &object).await?;
    Ok(StatusCode::NO_CONTENT)
}
