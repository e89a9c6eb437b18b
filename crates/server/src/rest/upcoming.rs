//! Runs that are due soon, by the minute and by the hour.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::actor::Actor;
use crate::app::App;
use crate::body::Params;
use crate::problem::{Code, Problem, Result};
use crate::week_plan::{PlannedMinute, week_plan};

/// How long the list of what is due is when the caller does not say, and at most.
const MINUTES_DEFAULT: u32 = 60;
const MINUTES_MAX: u32 = 24 * 60;

/// The days of the heat map.
const DAYS: i64 = 7;

/// Which part of what is due is listed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UpcomingParams {
    /// From this time on, within seven days; from now on when absent.
    from: Option<Timestamp>,
    /// How many minutes; 60 when absent, at most 1440.
    #[param(minimum = 1, maximum = 1440)]
    minutes: Option<u32>,
}

/// The runs that are due soon.
#[derive(Serialize, ToSchema)]
pub struct Upcoming {
    /// The minutes in which something is due, in order.
    pub minutes: Vec<UpcomingMinute>,
    /// Whether there are more runs than were counted.
    pub is_cut: bool,
    /// When the schedules of all jobs were counted. Null while that happens for the first time: ask
    /// again.
    pub computed_at: Option<Timestamp>,
}

/// The runs that are due in a minute.
#[derive(Serialize, ToSchema)]
pub struct UpcomingMinute {
    /// When the minute begins.
    pub at: Timestamp,
    /// How many runs are due in it.
    pub starts: u64,
    /// The first ten jobs that are due in it, by name.
    pub jobs: Vec<UpcomingJob>,
}

/// A job that is due.
#[derive(Serialize, ToSchema)]
pub struct UpcomingJob {
    /// The job.
    pub job_id: Uuid,
    /// Its name.
    pub name: String,
}

impl UpcomingMinute {
    fn new(minute: i64, planned: &PlannedMinute) -> Self {
        let job = |(name, id): &(std::sync::Arc<str>, Uuid)| UpcomingJob {
            job_id: *id,
            name: name.to_string(),
        };
        UpcomingMinute {
            at: Timestamp::from_second(minute * 60).unwrap_or(Timestamp::MIN),
            starts: planned.starts,
            jobs: planned.jobs.iter().map(job).collect(),
        }
    }
}

/// Lists what is due soon, by the minute: jobs on a schedule that are active.
#[utoipa::path(
    get, path = "/v1/schedule", operation_id = "list_upcoming", tag = "jobs", params(UpcomingParams),
    responses((status = 200, body = Upcoming))
)]
pub(crate) async fn upcoming(
    State(app): State<App>,
    actor: Actor,
    Params(params): Params<UpcomingParams>,
) -> Result<Json<Upcoming>> {
    let length = params.minutes.unwrap_or(MINUTES_DEFAULT);
    if !(1..=MINUTES_MAX).contains(&length) {
        let text = format!("must be 1 to {MINUTES_MAX}, not {length}");
        return Err(Problem::field(Code::InvalidRequest, "minutes", text));
    }
    let now = app.now();
    let from = params.from.unwrap_or(now).max(now);
    let latest = now.saturating_add(SignedDuration::from_hours(24 * DAYS)).unwrap_or(now);
    if from > latest {
        let text = "must be within seven days";
        return Err(Problem::field(Code::InvalidRequest, "from", text));
    }
    let Some(plan) = week_plan(&app, &actor).await? else {
        return Ok(Json(Upcoming { minutes: Vec::new(), is_cut: false, computed_at: None }));
    };
    // The present minute counts: what is due later in it is still to come.
    let first = from.as_second().div_euclid(60);
    let minutes = plan.minutes.range(first..first + i64::from(length));
    Ok(Json(Upcoming {
        minutes: minutes.map(|(minute, planned)| UpcomingMinute::new(*minute, planned)).collect(),
        is_cut: plan.is_cut,
        computed_at: Some(plan.computed_at),
    }))
}

/// In which zone the hours are shown.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HeatParams {
    /// The zone of the local hours; `UTC` when absent.
    timezone: Option<String>,
}

/// How many runs start in each hour of the week to come.
#[derive(Serialize, ToSchema)]
pub struct Heat {
    /// The zone of the local hours.
    pub timezone: String,
    /// Every hour of the next seven days, in order. When clocks change, a local hour is missing or
    /// comes twice.
    pub hours: Vec<HeatHour>,
    /// The minute in which most runs start.
    pub peak: Option<UpcomingMinute>,
    /// How many jobs on a schedule were counted.
    pub jobs: usize,
    /// Whether there are more runs than were counted.
    pub is_cut: bool,
    /// When the schedules of all jobs were counted. Null while that happens for the first time: ask
    /// again.
    pub computed_at: Option<Timestamp>,
}

/// How many runs start in an hour.
#[derive(Serialize, ToSchema)]
pub struct HeatHour {
    /// When the hour begins.
    pub at: Timestamp,
    /// The local time, such as `2026-03-29T03:00`.
    pub local: String,
    /// How many runs start in it.
    pub starts: u64,
    /// How many start in its busiest minute.
    pub busiest: u64,
}

/// Counts the runs that start in each hour of the week to come.
#[utoipa::path(
    get, path = "/v1/schedule/heat", operation_id = "get_schedule_heat", tag = "jobs", params(HeatParams),
    responses((status = 200, body = Heat))
)]
pub(crate) async fn heat(
    State(app): State<App>,
    actor: Actor,
    Params(params): Params<HeatParams>,
) -> Result<Json<Heat>> {
    let zone = app
        .zones
        .find(params.timezone.as_deref().unwrap_or("UTC"))
        .map_err(|error| Problem::field(Code::InvalidTimezone, "timezone", error.to_string()))?;
    let timezone = zone.name().to_owned();
    let Some(plan) = week_plan(&app, &actor).await? else {
        let (hours, peak) = (Vec::new(), None);
        let empty = Heat { timezone, hours, peak, jobs: 0, is_cut: false, computed_at: None };
        return Ok(Json(empty));
    };
    // Hours begin where the clocks of the zone show a full one, which is not so in UTC everywhere.
    let now = app.now();
    let offset = i64::from(zone.time_zone().to_offset(now).seconds()) / 60;
    let minute = now.as_second().div_euclid(60);
    let first = (minute + offset).div_euclid(60) * 60 - offset;
    let last = first + DAYS * 24 * 60;
    let mut cells: BTreeMap<i64, (u64, u64)> =
        (0..DAYS * 24).map(|hour| (first + hour * 60, (0, 0))).collect();
    let mut peak: Option<(&i64, &PlannedMinute)> = None;
    for (minute, planned) in plan.minutes.range(first..last) {
        if let Some((_, cell)) = cells.range_mut(..=*minute).next_back() {
            *cell = (cell.0 + planned.starts, cell.1.max(planned.starts));
        }
        if peak.is_none_or(|(_, most)| planned.starts > most.starts) {
            peak = Some((minute, planned));
        }
    }
    let hour = |(minute, (starts, busiest)): (i64, (u64, u64))| {
        let at = Timestamp::from_second(minute * 60).unwrap_or(now);
        let local = zone.time_zone().to_datetime(at).strftime("%Y-%m-%dT%H:%M").to_string();
        HeatHour { at, local, starts, busiest }
    };
    Ok(Json(Heat {
        timezone,
        hours: cells.into_iter().map(hour).collect(),
        peak: peak.map(|(minute, planned)| UpcomingMinute::new(*minute, planned)),
        jobs: plan.jobs,
        is_cut: plan.is_cut,
        computed_at: Some(plan.computed_at),
    }))
}
