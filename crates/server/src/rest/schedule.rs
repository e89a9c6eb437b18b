//! A preview of a schedule.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use domain::job::When;
use domain::schedule::{DstPolicy, GapRule as Gap, Schedule, SkippedRange, Zone};
use jiff::Timestamp;
use jiff::tz::AmbiguousOffset;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::shape::schedule::Dst;
use crate::actor::Actor;
use crate::app::App;
use crate::body::Body;
use crate::problem::{Code, Problem, Result};

/// How many times a preview shows when the caller does not say, and at most.
const COUNT_DEFAULT: u32 = 20;
const COUNT_MAX: u32 = 1_000;

/// The most zones of a preview.
const ZONES_MAX: usize = 8;

/// A schedule to try out.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewBody {
    /// Five fields: minute, hour, day of month, month, day of week.
    #[schema(example = "30 2 * * *")]
    cron_expression: String,
    /// The zone of the local times; `UTC` when absent.
    #[serde(default)]
    timezone: Option<String>,
    /// Answers to daylight saving.
    #[serde(default)]
    dst: Option<Dst>,
    /// Further zones in which the times are shown, at most 8.
    #[serde(default)]
    #[schema(required = false, max_items = 8)]
    zones: Vec<String>,
    /// Times after this one; the present when absent.
    #[serde(default)]
    after: Option<Timestamp>,
    /// How many; 20 when absent, at most 1000.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1000)]
    count: Option<u32>,
}

/// A preview of a schedule.
#[derive(Serialize, ToSchema)]
pub struct Preview {
    /// The schedule in words.
    pub description: String,
    /// The matches of each of the five fields.
    pub fields: Vec<PreviewField>,
    /// Warnings about the definition.
    pub warnings: Vec<String>,
    /// The times to come.
    pub runs: Vec<PreviewRun>,
    /// Local times among them that do not happen, because clocks jump over them.
    pub skipped: Vec<PreviewSkip>,
    /// The longest time between two of the runs.
    pub longest_pause_seconds: Option<i64>,
}

/// The matches of a field of an expression.
#[derive(Serialize, ToSchema)]
pub struct PreviewField {
    /// Which field.
    #[schema(value_type = String)]
    pub field: &'static str,
    /// The matches.
    pub matches: String,
}

/// A time to come.
#[derive(Serialize, ToSchema)]
pub struct PreviewRun {
    /// The instant.
    pub at: Timestamp,
    /// The local time in the zone of the schedule and in each further zone, by name.
    pub local: BTreeMap<String, String>,
    /// `FIRST` or `SECOND` when clocks show this local time twice on that day.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub fold: Option<&'static str>,
}

/// Local times that do not happen.
#[derive(Serialize, ToSchema)]
pub struct PreviewSkip {
    /// When clocks jump over them.
    pub at: Timestamp,
    /// The first of them.
    pub first: String,
    /// The last of them.
    pub last: String,
    /// How many they are.
    pub count: u64,
}

impl From<&SkippedRange> for PreviewSkip {
    fn from(range: &SkippedRange) -> Self {
        PreviewSkip {
            at: range.transition,
            first: range.first.strftime("%Y-%m-%dT%H:%M").to_string(),
            last: range.last.strftime("%Y-%m-%dT%H:%M").to_string(),
            count: range.count,
        }
    }
}

/// Says in words what a cron expression means, when it is due, in several zones, and what clock
/// changes do to it.
#[utoipa::path(
    post, path = "/v1/schedule:preview", operation_id = "preview_schedule", tag = "jobs", request_body = PreviewBody,
    responses((status = 200, body = Preview))
)]
pub(crate) async fn preview(
    State(app): State<App>,
    _: Actor,
    Body(body): Body<PreviewBody>,
) -> Result<Json<Preview>> {
    let count = body.count.unwrap_or(COUNT_DEFAULT);
    if !(1..=COUNT_MAX).contains(&count) {
        let text = format!("must be 1 to {COUNT_MAX}, not {count}");
        return Err(Problem::invalid("count", text));
    }
    if body.zones.len() > ZONES_MAX {
        return Err(Problem::invalid("zones", format!("must be at most {ZONES_MAX}")));
    }
    let find = |field: String, name: &str| -> Result<Zone> {
        let wrong = |error: domain::schedule::ZoneError| {
            Problem::field(Code::InvalidTimezone, field, error.to_string())
        };
        app.zones.find(name).map_err(wrong)
    };
    let zone = find("timezone".to_owned(), body.timezone.as_deref().unwrap_or("UTC"))?;
    let mut zones = vec![zone.clone()];
    for (i, name) in body.zones.iter().enumerate() {
        zones.push(find(format!("zones[{i}]"), name)?);
    }
    let dst = body.dst.unwrap_or_default();
    let dst = DstPolicy { gap: dst.gap.map(Into::into), overlap: dst.overlap.map(Into::into) };
    let expression = body.cron_expression;
    let when = When::Cron { expression, zone: zone.name().to_owned(), dst };
    let Some(Schedule::Cron(cron)) = when.compile(&app.zones)? else {
        return Err(Problem::new(Code::Internal, "a cron expression is no cron schedule"));
    };
    let after = body.after.unwrap_or_else(|| app.now());
    let times = std::iter::successors(cron.next(after), |at| cron.next(*at));
    let times: Vec<Timestamp> = times.take(count as usize).collect();
    let run = |at: &Timestamp| {
        let local = |zone: &Zone| {
            let local = zone.time_zone().to_datetime(*at);
            (zone.name().to_owned(), local.strftime("%Y-%m-%dT%H:%M").to_string())
        };
        PreviewRun { at: *at, local: zones.iter().map(local).collect(), fold: fold(&zone, *at) }
    };
    let skipped = match times.last().filter(|_| dst.gap.is_none_or(|gap| gap == Gap::Skip)) {
        Some(last) => cron.skipped(after, *last),
        None => Vec::new(),
    };
    let pause = times.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs()).max();
    let fields = cron.cron().describe_fields().into_iter();
    Ok(Json(Preview {
        description: cron.describe(),
        fields: fields
            .map(|(field, matches)| PreviewField { field: field.name(), matches })
            .collect(),
        warnings: cron.lint(after).iter().map(ToString::to_string).collect(),
        runs: times.iter().map(run).collect(),
        skipped: skipped.iter().map(PreviewSkip::from).collect(),
        longest_pause_seconds: pause,
    }))
}

/// Which pass of a repeated local time an instant is.
pub(super) fn fold(zone: &Zone, at: Timestamp) -> Option<&'static str> {
    let offset = zone.time_zone().to_offset(at);
    let local = offset.to_datetime(at);
    match zone.time_zone().to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Fold { before, .. } => {
            Some(if offset == before { "FIRST" } else { "SECOND" })
        }
        _ => None,
    }
}
