//! Calendars: named sets of days that jobs include or exclude.

use axum::Json;
use axum::extract::{OriginalUri, Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::access::Deed;
use domain::calendar::{Calendar, DayRule, RULES_MAX, read_ics};
use domain::object::{Object, ObjectKind};
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::objects::{self, Kept, PageParams, body_of};
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, Params};
use crate::condition::{Condition, etag, is_known, not_modified};
use crate::page::{self, List};
use crate::problem::{Code, Problem, Result};

pub(crate) const KIND: ObjectKind = ObjectKind::Calendar;

/// How many days to come are shown.
const DAYS_SHOWN: usize = 10;

/// The longest description.
const DESCRIPTION_CHARS_MAX: usize = 1_000;

/// What a calendar is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CalendarSpec {
    /// Unique among the calendars of the tenant.
    #[schema(
        min_length = 1,
        max_length = 100,
        pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$",
        example = "holidays"
    )]
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its days: `2026-12-25`, `2026-12-24..2026-12-31`, `12-25`, `SAT,SUN`, `EASTER+1` or
    /// `* 1 MON#3`, each with `FROM date`, `UNTIL date` or a leading `NOT` where needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, max_items = 2000, example = json!(["SAT,SUN", "12-25"]))]
    pub days: Vec<String>,
    /// An iCalendar file (RFC 5545) whose events are added to the days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ics: Option<String>,
    /// The zone of its days for schedules without one, which are intervals and single times; `UTC`
    /// when absent. A cron schedule uses its own zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// The version that a change is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// A calendar as it is shown.
#[derive(Debug, Serialize, ToSchema)]
pub struct CalendarView {
    /// Its identity.
    pub calendar_id: Uuid,
    /// Its name.
    pub name: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The rules of its days.
    pub days: Vec<String>,
    /// The zone of its days for schedules without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Its next days, by the date in UTC.
    pub next_days: Vec<String>,
    /// The names of the jobs that use it; where one calendar is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<String>>,
    /// Grows with every change.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl Kept for Calendar {
    fn sealed(&self) -> Vec<&str> {
        Vec::new()
    }
}

impl CalendarSpec {
    /// What is kept of it.
    fn body(&self, app: &App) -> Result<Calendar> {
        let mut days: Vec<DayRule> = Vec::with_capacity(self.days.len());
        for (i, text) in self.days.iter().enumerate() {
            let rule = text.parse::<DayRule>();
            days.push(
                rule.map_err(|error| Problem::invalid(format!("days[{i}]"), error.to_string()))?,
            );
        }
        if let Some(ics) = &self.ics {
            let read = read_ics(ics).map_err(|error| Problem::invalid("ics", error.to_string()))?;
            days.extend(read.days);
        }
        if days.is_empty() {
            return Err(Problem::invalid("days", "a calendar has at least one rule"));
        }
        if days.len() > RULES_MAX {
            return Err(Problem::invalid("days", format!("must be at most {RULES_MAX} rules")));
        }
        let too_long = |text: &String| text.chars().count() > DESCRIPTION_CHARS_MAX;
        if self.description.as_ref().is_some_and(too_long) {
            let text = format!("has at most {DESCRIPTION_CHARS_MAX} characters");
            return Err(Problem::invalid("description", text));
        }
        let timezone = match &self.timezone {
            None => None,
            Some(name) => {
                let found = app.zones.find(name).map_err(|error| {
                    Problem::field(Code::InvalidTimezone, "timezone", error.to_string())
                })?;
                Some(found.name().to_owned())
            }
        };
        Ok(Calendar { description: self.description.clone(), days, timezone })
    }

    /// What is kept, to be changed.
    pub(crate) fn from_object(object: &Object) -> Result<Self> {
        let Calendar { description, days, timezone } = body_of(object)?;
        Ok(CalendarSpec {
            name: object.name.clone(),
            description,
            days: days.iter().map(ToString::to_string).collect(),
            timezone,
            ..CalendarSpec::default()
        })
    }
}

fn view(app: &App, object: &Object) -> Result<CalendarView> {
    let calendar: Calendar = body_of(object)?;
    let today = jiff::tz::TimeZone::UTC.to_datetime(app.now()).date();
    let next = calendar.days_between(today, today.saturating_add(2.years()), DAYS_SHOWN);
    Ok(CalendarView {
        calendar_id: object.id.0,
        name: object.name.clone(),
        days: calendar.days.iter().map(ToString::to_string).collect(),
        description: calendar.description,
        timezone: calendar.timezone,
        next_days: next.iter().map(ToString::to_string).collect(),
        jobs: None,
        version: object.version,
        created_at: object.created_at,
        updated_at: object.changed_at,
    })
}

/// Makes a calendar.
pub(crate) async fn make(app: &App, actor: &Actor, spec: CalendarSpec) -> Result<Object> {
    actor.may(Deed::ChangeAccess)?;
    let body = spec.body(app)?;
    objects::create(app, actor, KIND, spec.name, (&body, &[])).await
}

/// Replaces a calendar, and plans the jobs again that use it.
pub(crate) async fn alter(
    app: &App,
    actor: &Actor,
    old: Object,
    spec: CalendarSpec,
    condition: Condition,
) -> Result<Object> {
    actor.may(Deed::ChangeAccess)?;
    let body = spec.body(app)?;
    objects::change(app, actor, old, spec.name, (&body, &[]), condition).await
}

/// Creates a calendar, from rules or from an iCalendar file.
#[utoipa::path(
    post, path = "/v1/calendars", operation_id = "create_calendar", tag = "calendars", request_body = CalendarSpec,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same answer for a day.")),
    responses((status = 201, body = CalendarView))
)]
pub(crate) async fn create(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<CalendarSpec>,
) -> Result<Response> {
    let object = make(&app, &actor, spec).await?;
    Ok(objects::created(&object, "/v1/calendars", view(&app, &object)?))
}

/// Lists calendars by name.
#[utoipa::path(
    get, path = "/v1/calendars", operation_id = "list_calendars", tag = "calendars", params(PageParams),
    responses((status = 200, body = List<CalendarView>))
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
    let items = found.items.iter().map(|object| view(&app, object)).collect::<Result<Vec<_>>>()?;
    Ok(List::new(items, found.next).answer(&uri))
}

/// Shows a calendar, its next days and the jobs that use it.
#[utoipa::path(
    get, path = "/v1/calendars/{name}", operation_id = "get_calendar_by_name", tag = "calendars",
    params(("name" = String, Path, description = "The calendar's name or id.")),
    responses((status = 200, body = CalendarView), (status = 304))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    let object = objects::find(&app, &actor, KIND, &name).await?;
    if is_known(&headers, object.version) {
        return Ok(not_modified(object.version));
    }
    let jobs = app.engine.by(&actor).calendar_users(&object.name).await?;
    let view = CalendarView { jobs: Some(jobs), ..view(&app, &object)? };
    Ok(([etag(object.version)], Json(view)).into_response())
}

/// Replaces a calendar. The jobs that use it are planned again before the answer.
#[utoipa::path(
    put, path = "/v1/calendars/{name}", operation_id = "replace_calendar", tag = "calendars", request_body = CalendarSpec,
    params(
        ("name" = String, Path, description = "The calendar's name or id."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the calendar that the change is based on."),
    ),
    responses((status = 200, body = CalendarView))
)]
pub(crate) async fn replace(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response> {
    let old = objects::find(&app, &actor, KIND, &name).await?;
    let headers = request.headers().clone();
    let spec = objects::changed(&app, request, None).await?;
    change(&app, &actor, old, spec, &headers).await
}

/// Changes some fields of a calendar (RFC 7396).
#[utoipa::path(
    patch, path = "/v1/calendars/{name}", operation_id = "patch_calendar", tag = "calendars",
    request_body(content = CalendarSpec, content_type = "application/merge-patch+json"),
    params(
        ("name" = String, Path, description = "The calendar's name or id."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the calendar that the change is based on."),
    ),
    responses((status = 200, body = CalendarView))
)]
pub(crate) async fn patch(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response> {
    let old = objects::find(&app, &actor, KIND, &name).await?;
    let headers = request.headers().clone();
    let current = serde_json::to_value(CalendarSpec::from_object(&old)?)
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    let spec = objects::changed(&app, request, Some(current)).await?;
    change(&app, &actor, old, spec, &headers).await
}

async fn change(
    app: &App,
    actor: &Actor,
    old: Object,
    spec: CalendarSpec,
    headers: &HeaderMap,
) -> Result<Response> {
    let condition = Condition::of(headers, spec.version, app)?;
    let object = alter(app, actor, old, spec, condition).await?;
    Ok(([etag(object.version)], Json(view(app, &object)?)).into_response())
}

/// Deletes a calendar that no job uses.
#[utoipa::path(
    delete, path = "/v1/calendars/{name}", operation_id = "delete_calendar", tag = "calendars",
    params(
        ("name" = String, Path, description = "The calendar's name or id."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the calendar."),
    ),
    responses((status = 204))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    let object = objects::find(&app, &actor, KIND, &name).await?;
    objects::remove(&app, &actor, object, &headers).await
}
