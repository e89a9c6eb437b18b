//! The versions of a job: listed, shown, compared, restored.

use axum::Json;
use axum::extract::{OriginalUri, Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use domain::job::{Definition, Job};
use domain::schedule::Zones;
use engine::JobVersion;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::find;
use super::jobs::shown;
use super::shape::diff::diff as differences;
use super::shape::job::JobSpec;
use super::shape::mirror::JobStatus;
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, Params};
use crate::condition::Condition;
use crate::page::{self, List};
use crate::problem::{Code, ErrorBody, Problem, Result};

/// The times of two schedules are compared for so long from now on.
const TIMES_AHEAD: SignedDuration = SignedDuration::from_hours(14 * 24);

/// At most so many times of each schedule are compared.
const TIMES_MAX: usize = 1_000;

/// A version of a job in a list.
#[derive(Serialize, ToSchema)]
pub struct VersionSummary {
    /// Its number.
    pub version: u32,
    /// When it was made.
    pub at: Timestamp,
    /// The user who created it; `punctual` for what the server did by itself.
    pub by: String,
    /// The fields that differ from the version before; none in the first one.
    pub changed: Vec<String>,
    /// The name that the job had.
    pub name: String,
    /// The status that the job had when the version was made.
    pub status: JobStatus,
}

/// A version of a job with its definition.
#[derive(Serialize, ToSchema)]
pub struct VersionView {
    /// Its number.
    pub version: u32,
    /// When it was made.
    pub at: Timestamp,
    /// The user who created it.
    pub by: String,
    /// The fields that differ from the version before; none in the first one.
    pub changed: Vec<String>,
    /// The job as it was.
    pub definition: JobSpec,
}

/// How two versions of a job differ.
#[derive(Serialize, ToSchema)]
pub struct VersionDiff {
    /// The number of the one.
    pub from: u32,
    /// The number of the other.
    pub to: u32,
    /// The fields that differ.
    pub fields: Vec<FieldDiff>,
    /// The scheduled times that differ, in the next 14 days.
    pub times: TimesDiff,
}

/// A field that differs. A side that does not have the field has no value.
#[derive(Serialize, ToSchema)]
pub struct FieldDiff {
    /// Where it is, as a path through the definition: `payload.headers.Accept`.
    pub path: String,
    /// Its value in the one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// Its value in the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

/// Scheduled times that only one of two versions has.
#[derive(Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct TimesDiff {
    /// Times of `from` that `to` does not have.
    pub gone: Vec<Timestamp>,
    /// Times of `to` that `from` does not have.
    pub new: Vec<Timestamp>,
}

/// Which versions a list shows.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct VersionParams {
    /// How many; 50 when absent, at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Lists the versions of a job, newest first. A job keeps its last 1,000 versions.
#[utoipa::path(
    get, path = "/v1/jobs/{job_id}/versions", operation_id = "list_job_versions", tag = "jobs",
    params(("job_id" = String, Path, description = "The job's id or name."), VersionParams),
    responses((status = 200, body = List<VersionSummary>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    OriginalUri(uri): OriginalUri,
    Path(job): Path<String>,
    Params(params): Params<VersionParams>,
) -> Result<Response> {
    let limit = page::limit(params.limit)?;
    let before = page::cursor(params.cursor.as_deref())?;
    let before: Option<u32> =
        before.map(|text| text.parse().map_err(|_| page::bad_cursor())).transpose()?;
    let job = find::job(&app, &actor, &job).await?;
    let versions = app.engine.by(&actor).job_versions(job.id, before, limit).await?;
    let summary = |version: JobVersion| VersionSummary {
        version: version.version,
        at: version.changed_at,
        by: version.changed_by,
        changed: version.changed,
        name: version.name,
        status: version.state.into(),
    };
    let data = versions.items.into_iter().map(summary).collect();
    Ok(List::new(data, versions.next).answer(&uri))
}

/// Shows a version of a job.
#[utoipa::path(
    get, path = "/v1/jobs/{job_id}/versions/{version}", operation_id = "get_job_version", tag = "jobs",
    params(
        ("job_id" = String, Path, description = "The job's id or name."),
        ("version" = u32, Path, description = "The number of the version."),
    ),
    responses((status = 200, body = VersionView), (status = 400, body = ErrorBody))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path((job, version)): Path<(String, String)>,
) -> Result<Json<VersionView>> {
    let version = number("version", &version)?;
    let job = find::job(&app, &actor, &job).await?;
    let version = app.engine.by(&actor).job_version(job.id, version).await?;
    Ok(Json(VersionView {
        version: version.version,
        at: version.changed_at,
        by: version.changed_by.clone(),
        changed: version.changed.clone(),
        definition: JobSpec::of(&job_at(&job, version)),
    }))
}

/// The number of a version in a path.
fn number(field: &str, text: &str) -> Result<u32> {
    let wrong = || Problem::field(Code::InvalidRequest, field, "must be the number of a version");
    text.parse().map_err(|_| wrong())
}

/// The job as a version was.
pub(crate) fn job_at(job: &Job, version: JobVersion) -> Job {
    Job {
        version: version.version,
        name: version.name,
        state: version.state,
        definition: version.definition,
        updated_at: version.changed_at,
        ..job.clone()
    }
}

/// Which versions are compared.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DiffParams {
    /// The one; when absent, the version before `to`.
    from: Option<u32>,
    /// The other; when absent, the present version.
    to: Option<u32>,
}

/// Compares two versions of a job: the fields that differ, and the times that appear or disappear.
#[utoipa::path(
    get, path = "/v1/jobs/{job_id}/diff", operation_id = "diff_job_versions", tag = "jobs",
    params(("job_id" = String, Path, description = "The job's id or name."), DiffParams),
    responses((status = 200, body = VersionDiff))
)]
pub(crate) async fn diff(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    Params(params): Params<DiffParams>,
) -> Result<Json<VersionDiff>> {
    let job = find::job(&app, &actor, &job).await?;
    compare(&app, &actor, &job, params.from, params.to).await.map(Json)
}

/// How two versions of a job differ.
pub(crate) async fn compare(
    app: &App,
    actor: &Actor,
    job: &Job,
    from: Option<u32>,
    to: Option<u32>,
) -> Result<VersionDiff> {
    let to = to.unwrap_or(job.version);
    let from = from.unwrap_or_else(|| to.saturating_sub(1).max(1));
    let engine = app.engine.by(actor);
    let old = job_at(job, engine.job_version(job.id, from).await?);
    let new = job_at(job, engine.job_version(job.id, to).await?);
    let times = compare_times(&old.definition, &new.definition, app.now(), &app.zones)?;
    let fields = differences(&definition(&old)?, &definition(&new)?);
    let field = |change: super::shape::diff::Change| FieldDiff {
        path: change.path,
        from: change.from,
        to: change.to,
    };
    Ok(VersionDiff { from, to, fields: fields.into_iter().map(field).collect(), times })
}

/// The definition of a job as JSON, without its version.
fn definition(job: &Job) -> Result<Value> {
    let mut spec = JobSpec::of(job);
    spec.parts.version = None;
    serde_json::to_value(spec).map_err(|error| Problem::new(Code::Internal, error.to_string()))
}

/// The times of two schedules, with their calendars, that differ. Where a schedule has more times
/// than are compared, the comparison ends with the last of them.
fn compare_times(
    old: &Definition,
    new: &Definition,
    now: Timestamp,
    zones: &Zones,
) -> Result<TimesDiff> {
    if old.when == new.when && old.calendars == new.calendars {
        return Ok(TimesDiff::default());
    }
    let mut until = now.saturating_add(TIMES_AHEAD).unwrap_or(Timestamp::MAX);
    let mut times = |definition: &Definition| -> Result<Vec<Timestamp>> {
        let Some(schedule) = definition.schedule(zones)? else { return Ok(Vec::new()) };
        let all = std::iter::successors(schedule.next(now), |at| schedule.next(*at));
        let times: Vec<Timestamp> = all.take_while(|at| *at <= until).take(TIMES_MAX).collect();
        if times.len() == TIMES_MAX {
            until = times.last().copied().unwrap_or(until);
        }
        Ok(times)
    };
    let (old, new) = (times(old)?, times(new)?);
    let only = |these: &[Timestamp], those: &[Timestamp]| -> Vec<Timestamp> {
        let differs = |at: &&Timestamp| **at <= until && those.binary_search(at).is_err();
        these.iter().filter(differs).copied().collect()
    };
    Ok(TimesDiff { gone: only(&old, &new), new: only(&new, &old) })
}

/// Which version is restored.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreBody {
    /// The number of the version.
    version: u32,
}

/// Gives a job the definition of an earlier version, as a new version. Name and status stay.
#[utoipa::path(
    post, path = "/v1/jobs/{job_id}/restore", operation_id = "restore_job_version", tag = "jobs",
    request_body = RestoreBody,
    params(
        ("job_id" = String, Path, description = "The job's id or name."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the job that the change is based on."),
    ),
    responses((status = 200, body = super::shape::job_view::JobView))
)]
pub(crate) async fn restore(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    headers: HeaderMap,
    Body(body): Body<RestoreBody>,
) -> Result<Response> {
    let job = find::job(&app, &actor, &job).await?;
    let condition = Condition::of(&headers, None, &app)?;
    let check = move |job: &Job| condition.check(job.version);
    let job = app.engine.by(&actor).restore_job(job.id, body.version, check).await?;
    Ok(shown(&app, &job))
}

#[cfg(test)]
mod tests {
    use domain::job::When;

    use super::*;

    #[test]
    fn times_that_appear_and_disappear() {
        let zones = Zones::bundled();
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let cron = |expression: &str| When::Cron {
            expression: expression.to_owned(),
            zone: "UTC".to_owned(),
            dst: Default::default(),
        };
        for (old, new, gone, appeared) in [
            ("0 2 * * *", "0 2 * * *", 0, 0),
            ("0 2 * * *", "0 3 * * *", 14, 14),
            ("0 2 * * *", "0 2,3 * * *", 0, 14),
            ("0 2 * * *", "0 2 * * 1", 12, 0),
            // The comparison ends with the thousandth minute.
            ("* * * * *", "*/2 * * * *", 500, 0),
        ] {
            let [old_job, new_job] = [old, new]
                .map(|expression| Definition { when: cron(expression), ..Definition::default() });
            let diff = compare_times(&old_job, &new_job, now, &zones).unwrap();
            assert_eq!((diff.gone.len(), diff.new.len()), (gone, appeared), "{old} -> {new}");
        }
    }
}
