//! The ledger of a job as a calendar: how the times of each day ended, and which are to come. A day
//! is one of a time zone, so it has 23 or 25 hours when clocks change.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use domain::job::{Job, JobState, When};
use domain::run::RunState;
use domain::schedule::{Schedule, Zone};
use engine::{EngineError, RunFilter, RunView};
use jiff::civil::Date;
use jiff::{SignedDuration, Span, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::find;
use super::schedule::{PreviewSkip, fold};
use crate::actor::Actor;
use crate::app::App;
use crate::body::Params;
use crate::problem::{Code, Problem, Result};

/// The most days of an answer.
const DAYS_MAX: usize = 400;

/// Runs of the job that are counted one by one, newest first. Older days are counted from the
/// hourly statistics.
const RUNS_MAX: usize = 5_000;
const PAGE: u32 = 500;

/// Hours that the statistics are kept.
const HOURS_KEPT: u32 = 720;

/// The most times of a day that are listed: each minute of a day of 25 hours.
const TICKS_MAX: usize = 1_500;

/// A nanosecond, the step between two instants.
const INSTANT: SignedDuration = SignedDuration::from_nanos(1);

/// Which days are shown.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CalendarParams {
    /// The first day, such as `2026-03-01`; four weeks before today when absent.
    #[param(format = Date)]
    from: Option<String>,
    /// The last day; a week after today when absent, at most 400 days after the first.
    #[param(format = Date)]
    to: Option<String>,
    /// The zone of the days; that of the job when absent, `UTC` if it has none.
    timezone: Option<String>,
}

/// The days of a job.
#[derive(Serialize, ToSchema)]
pub struct Calendar {
    /// The zone of the days.
    pub timezone: String,
    /// The present day there.
    pub today: String,
    /// Every day that was asked for, in order.
    pub days: Vec<CalendarDay>,
    /// Before this time runs were counted by the hour in which they ended, because there are many.
    /// Null when each run was counted by the time that it stands for.
    pub counted_by_end_before: Option<Timestamp>,
}

/// A day of a job.
#[derive(Serialize, ToSchema)]
pub struct CalendarDay {
    /// The day, such as `2026-03-29`.
    pub date: String,
    /// When it begins.
    pub starts_at: Timestamp,
    /// How long it is: 1440 but for days on which clocks change.
    pub minutes: u32,
    /// How its times ended, by outcome.
    pub ended: BTreeMap<&'static str, u64>,
    /// Runs of times that have passed, and that have not ended.
    pub active: u64,
    /// Times to come.
    pub planned: u64,
    /// Local times of the schedule that do not happen, because clocks jump over them.
    pub skipped_by_clock: u64,
}

/// Shows how the times of each day ended, and how many are to come.
#[utoipa::path(
    get, path = "/v1/jobs/{job_id}/calendar", operation_id = "get_calendar", tag = "jobs",
    params(("job_id" = String, Path, description = "The job's id or name."), CalendarParams),
    responses((status = 200, body = Calendar))
)]
pub(crate) async fn calendar(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    Params(params): Params<CalendarParams>,
) -> Result<Json<Calendar>> {
    let job = find::job(&app, &actor, &job).await?;
    let zone = zone_of(&app, &job, params.timezone.as_deref())?;
    let now = app.now();
    let today = zone.time_zone().to_datetime(now).date();
    let away = |days| today.saturating_add(Span::new().days(days));
    let from = date("from", params.from.as_deref())?.unwrap_or_else(|| away(-28));
    let to = date("to", params.to.as_deref())?.unwrap_or_else(|| away(7));
    let mut days = Days::new(&zone, from, to)?;
    let schedule = job.definition.schedule(&app.zones)?;
    if let (Some(schedule), JobState::Enabled) = (&schedule, job.state) {
        days.plan(schedule, now);
    }
    if let Some(schedule) = &schedule {
        days.skip(schedule);
    }
    let is_past = days.starts[0] <= now;
    let counted_by_end_before = match is_past {
        true => days.count(&app, &actor, &job, schedule.as_ref(), now).await?,
        false => None,
    };
    Ok(Json(Calendar {
        timezone: zone.name().to_owned(),
        today: today.to_string(),
        days: days.days,
        counted_by_end_before,
    }))
}

/// The days of an answer while they are counted.
struct Days {
    days: Vec<CalendarDay>,
    /// When each day begins, and when the last one ends.
    starts: Vec<Timestamp>,
}

impl Days {
    fn new(zone: &Zone, from: Date, to: Date) -> Result<Self> {
        let wrong = |text: String| Problem::field(Code::InvalidRequest, "to", text);
        if to < from {
            return Err(wrong("must not be before from".to_owned()));
        }
        let (mut starts, mut dates) = (vec![begin(zone, from)?], Vec::new());
        let mut date = from;
        while date <= to {
            if dates.len() == DAYS_MAX {
                return Err(wrong(format!("must be at most {DAYS_MAX} days after from")));
            }
            dates.push(date);
            date = date.tomorrow().map_err(|_| wrong("is too late".to_owned()))?;
            starts.push(begin(zone, date)?);
        }
        let day = |(n, date): (usize, Date)| CalendarDay {
            date: date.to_string(),
            starts_at: starts[n],
            minutes: minutes(starts[n], starts[n + 1]),
            ended: BTreeMap::new(),
            active: 0,
            planned: 0,
            skipped_by_clock: 0,
        };
        let days = dates.into_iter().enumerate().map(day).collect();
        Ok(Days { days, starts })
    }

    fn end(&self) -> Timestamp {
        self.starts[self.days.len()]
    }

    /// The day of a time.
    fn at(&mut self, at: Timestamp) -> Option<&mut CalendarDay> {
        let n = self.starts.partition_point(|start| *start <= at).checked_sub(1)?;
        self.days.get_mut(n)
    }

    /// Counts the times to come.
    fn plan(&mut self, schedule: &Schedule, now: Timestamp) {
        for (n, day) in self.days.iter_mut().enumerate() {
            let (start, end) = (self.starts[n], self.starts[n + 1]);
            if end > now {
                day.planned = schedule.count(before(start).max(now), before(end));
            }
        }
    }

    /// Counts the local times that clocks jump over.
    fn skip(&mut self, schedule: &Schedule) {
        for range in schedule.skipped(before(self.starts[0]), before(self.end())) {
            if let Some(day) = self.at(range.transition) {
                day.skipped_by_clock += range.count;
            }
        }
    }

    /// Counts what has passed. Answers before when it was counted by the hour.
    async fn count(
        &mut self,
        app: &App,
        actor: &Actor,
        job: &Job,
        schedule: Option<&Schedule>,
        now: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let filter = RunFilter {
            since: Some(self.starts[0]),
            until: Some(self.end()),
            ..RunFilter::of_job(job.id)
        };
        let engine = app.engine.by(actor);
        let (mut older, mut seen) = (None, 0);
        loop {
            let page = engine.list_runs(&filter, older, PAGE).await?;
            for run in page.items.iter().filter(|run| !run.origin.is_child()) {
                self.add(run, schedule, now);
            }
            seen += page.items.len();
            older = page.next;
            let Some(last) = older else { return Ok(None) };
            if seen >= RUNS_MAX {
                let whole = page.items.last().map_or(now, |run| run.scheduled_for);
                let whole = whole.min(last.time());
                // A user who sees only some runs of the job does not see its statistics.
                let hours = match engine.hourly_job_stats(job.id, HOURS_KEPT).await {
                    Err(EngineError::Refused(_)) => Vec::new(),
                    other => other?,
                };
                for hour in hours {
                    if hour
                        .at
                        .saturating_add(SignedDuration::from_hours(1))
                        .is_ok_and(|end| end <= whole)
                        && let Some(day) = self.at(hour.at)
                    {
                        for (outcome, n) in hour.summary.ended {
                            *day.ended.entry(outcome.name()).or_default() += n;
                        }
                    }
                }
                return Ok(Some(whole));
            }
        }
    }

    fn add(&mut self, run: &RunView, schedule: Option<&Schedule>, now: Timestamp) {
        let RunState::Ended(outcome) = run.state else {
            // Runs that are planned already are counted among the times to come.
            if run.scheduled_for <= now
                && let Some(day) = self.at(run.scheduled_for)
            {
                day.active += 1;
            }
            return;
        };
        let spread = schedule.filter(|_| run.count > 1 && run.scheduled_last > run.scheduled_for);
        let Some(schedule) = spread else {
            if let Some(day) = self.at(run.scheduled_for) {
                *day.ended.entry(outcome.name()).or_default() += run.count.max(1);
            }
            return;
        };
        // A row for several times: each day gets those that lie in it.
        for (n, day) in self.days.iter_mut().enumerate() {
            let from = self.starts[n].max(run.scheduled_for);
            let until = before(self.starts[n + 1]).min(run.scheduled_last);
            if from <= until {
                let times = schedule.count(before(from), until);
                if times > 0 {
                    *day.ended.entry(outcome.name()).or_default() += times;
                }
            }
        }
    }
}

/// Which zone a day is one of.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CalendarDayParams {
    /// The zone of the day; that of the job when absent, `UTC` if it has none.
    timezone: Option<String>,
}

/// The times of a job on a day.
#[derive(Serialize, ToSchema)]
pub struct CalendarTicks {
    /// The zone of the day.
    pub timezone: String,
    /// The day.
    pub date: String,
    /// When it begins.
    pub starts_at: Timestamp,
    /// How long it is: 1440 but for days on which clocks change.
    pub minutes: u32,
    /// Its times in order: those in the ledger, then those to come.
    pub ticks: Vec<CalendarTick>,
    /// Local times of the schedule that do not happen, because clocks jump over them.
    pub skipped: Vec<PreviewSkip>,
    /// Whether there are more times than are listed.
    pub is_cut: bool,
}

/// A time of a job on a day.
#[derive(Serialize, ToSchema)]
pub struct CalendarTick {
    /// The time.
    pub scheduled_time: Timestamp,
    /// The last of the times, if the row stands for several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_until: Option<Timestamp>,
    /// How many times the row stands for.
    pub occurrences: u64,
    /// The local time, such as `2026-03-29T03:30:00`.
    pub local: String,
    /// `FIRST` or `SECOND` when clocks show this local time twice on that day.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub fold: Option<&'static str>,
    /// The status of its execution; `PLANNED` for a time to come.
    pub status: String,
    /// Its execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<Uuid>,
    /// The code of the reason, of a time without a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Lists the times of a job on a day: how each ended, which are to come, and which local times do
/// not happen.
#[utoipa::path(
    get, path = "/v1/jobs/{job_id}/calendar/{date}", operation_id = "get_calendar_day", tag = "jobs",
    params(
        ("job_id" = String, Path, description = "The job's id or name."),
        ("date" = String, Path, description = "The day, such as `2026-03-29`."),
        CalendarDayParams,
    ),
    responses((status = 200, body = CalendarTicks))
)]
pub(crate) async fn day(
    State(app): State<App>,
    actor: Actor,
    Path((job, day)): Path<(String, String)>,
    Params(params): Params<CalendarDayParams>,
) -> Result<Json<CalendarTicks>> {
    let job = find::job(&app, &actor, &job).await?;
    let zone = zone_of(&app, &job, params.timezone.as_deref())?;
    let missing = || Problem::field(Code::InvalidRequest, "date", "must be a day");
    let date = date("date", Some(&day))?.ok_or_else(missing)?;
    let tomorrow = date.tomorrow().map_err(|_| missing())?;
    let (start, end) = (begin(&zone, date)?, begin(&zone, tomorrow)?);
    let now = app.now();
    let schedule = job.definition.schedule(&app.zones)?;
    let filter = RunFilter { since: Some(start), until: Some(end), ..RunFilter::of_job(job.id) };
    let (mut runs, mut older) = (Vec::new(), None);
    loop {
        let page = app.engine.by(&actor).list_runs(&filter, older, PAGE).await?;
        runs.extend(page.items.into_iter().filter(|run| !run.origin.is_child()));
        older = page.next;
        if older.is_none() || runs.len() >= TICKS_MAX {
            break;
        }
    }
    runs.reverse();
    let mut is_cut = older.is_some();
    let mut ticks: Vec<CalendarTick> = runs.iter().map(|run| recorded(&zone, run)).collect();
    let known = runs.iter().map(|run| run.scheduled_last).max();
    if let (Some(schedule), JobState::Enabled) = (&schedule, job.state) {
        let after = before(start).max(now).max(known.unwrap_or(Timestamp::MIN));
        let next = |at: &Timestamp| schedule.next(*at).filter(|next| *next < end);
        for at in std::iter::successors(next(&after), next) {
            if ticks.len() >= TICKS_MAX {
                is_cut = true;
                break;
            }
            ticks.push(planned(&zone, at));
        }
    }
    ticks.sort_by_key(|tick| tick.scheduled_time);
    let skipped = schedule.map(|it| it.skipped(before(start), before(end))).unwrap_or_default();
    Ok(Json(CalendarTicks {
        timezone: zone.name().to_owned(),
        date: date.to_string(),
        starts_at: start,
        minutes: minutes(start, end),
        ticks,
        skipped: skipped.iter().map(PreviewSkip::from).collect(),
        is_cut,
    }))
}

fn recorded(zone: &Zone, run: &RunView) -> CalendarTick {
    CalendarTick {
        scheduled_until: (run.count > 1).then_some(run.scheduled_last),
        occurrences: run.count.max(1),
        status: run.state.to_string(),
        execution_id: Some(run.id.0),
        reason: run.reason.clone(),
        ..planned(zone, run.scheduled_for)
    }
}

fn planned(zone: &Zone, at: Timestamp) -> CalendarTick {
    let local = zone.time_zone().to_datetime(at);
    CalendarTick {
        scheduled_time: at,
        scheduled_until: None,
        occurrences: 1,
        local: local.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
        fold: fold(zone, at),
        status: "PLANNED".to_owned(),
        execution_id: None,
        reason: None,
    }
}

/// The zone that was asked for, or that of the job.
fn zone_of(app: &App, job: &Job, asked: Option<&str>) -> Result<Zone> {
    let own = match &job.definition.when {
        When::Cron { zone, .. } => zone.as_str(),
        _ => "UTC",
    };
    app.zones
        .find(asked.unwrap_or(own))
        .map_err(|error| Problem::field(Code::InvalidTimezone, "timezone", error.to_string()))
}

fn date(field: &str, text: Option<&str>) -> Result<Option<Date>> {
    let parse = |text: &str| {
        text.parse::<Date>().map_err(|_| {
            let wrong = format!("{text:?} is not a day such as 2026-03-29");
            Problem::field(Code::InvalidRequest, field, wrong)
        })
    };
    text.map(parse).transpose()
}

/// When a day begins: at midnight, or when clocks jump over it.
fn begin(zone: &Zone, date: Date) -> Result<Timestamp> {
    let begin = date.to_zoned(zone.time_zone().clone());
    let wrong = |_| Problem::field(Code::InvalidRequest, "from", "is out of range");
    Ok(begin.map_err(wrong)?.timestamp())
}

fn minutes(start: Timestamp, end: Timestamp) -> u32 {
    u32::try_from(end.duration_since(start).as_mins()).unwrap_or(0)
}

/// The instant before one: intervals of a schedule leave out their lower end.
fn before(at: Timestamp) -> Timestamp {
    at.saturating_sub(INSTANT).unwrap_or(at)
}
