//! Statistics for dashboards.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use domain::tally::{Histogram, Summary};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::find;
use crate::actor::Actor;
use crate::app::App;
use crate::body::Params;
use crate::problem::{Code, Problem, Result};

/// The most hours that the statistics of a job reach back.
const HOURS_MAX: u32 = 24 * 30;

/// How a tenant's jobs are doing.
#[derive(Serialize, ToSchema)]
pub struct StatsView {
    /// Runs that wait for their time or for other runs.
    pub pending: u64,
    /// Runs that are due and that no node holds.
    pub queued: u64,
    /// Runs that are due and that a node holds.
    pub running: u64,
    /// When the oldest queued run was due that any node may execute.
    pub oldest_due: Option<Timestamp>,
    /// Dead letters, counted up to a thousand.
    pub dead_letters: u32,
    /// The runs that ended in this hour and the one before; a minute or two late.
    pub last_hour: SummaryView,
    /// The runs that ended in this hour and the 24 before.
    pub last_day: SummaryView,
}

/// Totals of ended runs.
#[derive(Serialize, ToSchema)]
pub struct SummaryView {
    /// How many ended how.
    pub ended: BTreeMap<&'static str, u64>,
    /// Which part of what was tried has completed.
    pub success_rate: Option<f64>,
    /// How long last attempts took.
    pub duration: Percentiles,
    /// How long after their time first attempts began.
    pub schedule_delay: Percentiles,
}

/// Lengths of time, in seconds. Percentiles are rounded up, by a quarter at most.
#[derive(Serialize, ToSchema)]
pub struct Percentiles {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean: Option<f64>,
    /// Half of them are not longer.
    pub p50: Option<f64>,
    /// 95 of 100 are not longer.
    pub p95: Option<f64>,
    /// 99 of 100 are not longer.
    pub p99: Option<f64>,
}

impl Percentiles {
    fn of(histogram: &Histogram) -> Self {
        let percentile = |percent| histogram.percentile(percent).map(|time| time.as_secs_f64());
        Percentiles {
            count: histogram.count(),
            mean: histogram.mean().map(|time| time.as_secs_f64()),
            p50: percentile(50),
            p95: percentile(95),
            p99: percentile(99),
        }
    }
}

impl SummaryView {
    fn of(summary: &Summary) -> Self {
        SummaryView {
            ended: summary.ended.iter().map(|(outcome, n)| (outcome.name(), *n)).collect(),
            success_rate: summary.success_rate(),
            duration: Percentiles::of(&summary.durations),
            schedule_delay: Percentiles::of(&summary.lags),
        }
    }
}

/// How the jobs are doing.
#[utoipa::path(
    get, path = "/v1/stats", operation_id = "get_stats", tag = "server",
    responses((status = 200, body = StatsView))
)]
pub(crate) async fn stats(State(app): State<App>, actor: Actor) -> Result<Json<StatsView>> {
    let stats = app.engine.by(&actor).stats().await?;
    Ok(Json(StatsView {
        pending: stats.live.pending,
        queued: stats.live.queued,
        running: stats.live.running,
        oldest_due: stats.live.oldest_due,
        dead_letters: stats.dead_letters,
        last_hour: SummaryView::of(&stats.last_hour),
        last_day: SummaryView::of(&stats.last_day),
    }))
}

/// The runs that ended in an hour.
#[derive(Serialize, ToSchema)]
pub struct HourView {
    /// When the hour began.
    pub at: Timestamp,
    /// The runs that ended in it.
    #[serde(flatten)]
    pub summary: SummaryView,
}

/// Statistics by hour.
#[derive(Serialize, ToSchema)]
pub struct SeriesView {
    /// One entry for each hour, oldest first; the last one is the present hour.
    pub hours: Vec<HourView>,
}

/// How the tenant's runs ended lately, by hour; a minute or two late.
#[utoipa::path(
    get, path = "/v1/stats/series", operation_id = "get_stats_series", tag = "server", params(StatsParams),
    responses((status = 200, body = SeriesView))
)]
pub(crate) async fn series(
    State(app): State<App>,
    actor: Actor,
    Params(params): Params<StatsParams>,
) -> Result<Json<SeriesView>> {
    let hours = app.engine.by(&actor).hourly_stats(params.hours()?).await?;
    let view =
        |it: &engine::HourlyStats| HourView { at: it.at, summary: SummaryView::of(&it.summary) };
    Ok(Json(SeriesView { hours: hours.iter().map(view).collect() }))
}

/// How far statistics reach back.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StatsParams {
    /// Hours before this one; 24 when absent, at most 720.
    #[param(minimum = 1, maximum = 720)]
    hours: Option<u32>,
}

impl StatsParams {
    fn hours(&self) -> Result<u32> {
        let hours = self.hours.unwrap_or(24);
        if !(1..=HOURS_MAX).contains(&hours) {
            let text = format!("must be 1 to {HOURS_MAX}, not {hours}");
            return Err(Problem::field(Code::InvalidRequest, "hours", text));
        }
        Ok(hours)
    }
}

/// How the runs of a job ended.
#[derive(Serialize, ToSchema)]
pub struct JobStats {
    /// The job.
    pub job_id: Uuid,
    /// Hours that the statistics reach back.
    pub hours: u32,
    /// Totals of its runs.
    #[serde(flatten)]
    pub summary: SummaryView,
}

/// How the runs of a job ended lately.
#[utoipa::path(
    get, path = "/v1/jobs/{job_id}/stats", operation_id = "get_job_stats", tag = "jobs",
    params(("job_id" = String, Path, description = "The job's id or name."), StatsParams),
    responses((status = 200, body = JobStats))
)]
pub(crate) async fn job_stats(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    Params(params): Params<StatsParams>,
) -> Result<Json<JobStats>> {
    let hours = params.hours()?;
    let job = find::job(&app, &actor, &job).await?;
    let mut all = app.engine.by(&actor).job_stats(&[job.id], hours).await?;
    let summary = all.remove(&job.id).unwrap_or_default();
    Ok(Json(JobStats { job_id: job.id.0, hours, summary: SummaryView::of(&summary) }))
}
