//! Calendars: named sets of days that jobs include or exclude.

use domain::calendar::{Calendar, DayRule, RULES_MAX, read_ics};
use domain::object::{Object, ObjectKind};
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::objects::{Fresh, Kept, body_of};
use super::resource::{Resource, ResourceDocs};
use crate::actor::Actor;
use crate::app::App;
use crate::problem::{Code, Problem, Result};

/// How many days to come are shown.
const DAYS_SHOWN: usize = 10;

/// The longest description.
const DESCRIPTION_CHARS_MAX: usize = 1_000;

/// A calendar.
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
    /// The body that is stored.
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
}

/// Calendars as a resource.
pub(crate) struct Calendars;

impl Resource for Calendars {
    const KIND: ObjectKind = ObjectKind::Calendar;
    const DOCS: ResourceDocs = ResourceDocs {
        path: "/v1/calendars",
        parameter: "name",
        tag: "calendars",
        word: "calendar",
        ids: ("calendar", "calendars"),
        get_id: "get_calendar_by_name",
        is_paged: true,
        create: Some("Creates a calendar, from rules or from an iCalendar file."),
        list: "Lists calendars by name.",
        get: "Shows a calendar, its next days and the jobs that use it.",
        replace: Some(
            "Replaces a calendar. The jobs that use it are planned again before the answer.",
        ),
        patch: Some("Changes some fields of a calendar (RFC 7396)."),
        delete: "Deletes a calendar that no job uses.",
    };
    type Spec = CalendarSpec;
    type Body = Calendar;
    type View = CalendarView;

    fn name_and_version(spec: &CalendarSpec) -> (&str, Option<u32>) {
        (&spec.name, spec.version)
    }

    fn spec(object: &Object) -> Result<CalendarSpec> {
        let Calendar { description, days, timezone } = body_of(object)?;
        Ok(CalendarSpec {
            name: object.name.clone(),
            description,
            days: days.iter().map(ToString::to_string).collect(),
            timezone,
            ..CalendarSpec::default()
        })
    }

    async fn body(
        app: &App,
        _: &Actor,
        spec: &CalendarSpec,
        _: Option<Calendar>,
    ) -> Result<(Calendar, Vec<Fresh>)> {
        Ok((spec.body(app)?, Vec::new()))
    }

    async fn views(app: &App, _: &Actor, objects: &[Object]) -> Result<Vec<CalendarView>> {
        objects.iter().map(|object| view(app, object)).collect()
    }

    async fn view(app: &App, actor: &Actor, object: &Object) -> Result<CalendarView> {
        let jobs = app.engine.by(actor).calendar_users(&object.name).await?;
        Ok(CalendarView { jobs: Some(jobs), ..view(app, object)? })
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
