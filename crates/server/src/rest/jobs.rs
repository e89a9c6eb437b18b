//! Jobs: made, listed, shown, changed, removed.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use axum::Json;
use axum::extract::{OriginalUri, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::access::Deed;
use domain::audit::{Event, Kind};
use domain::id::JobId;
use domain::job::{Job, JobState};
use engine::{Deletion, JobFilter, LastRun, NewJob, Page};
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

use super::find;
use super::job_choice::{JobChoice, JobFacets, JobList};
use super::job_patch::{change, change_some, patched, strip_read_only};
use super::shape::job::JobSpec;
use super::shape::job_view::{JobCreated, JobView, RunOutcome};
use super::warnings::{JobWarnings, warnings};
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, PATCH_KINDS, Params, parse, parse_value, read, require_json};
use crate::condition::{Condition, etag, is_known, not_modified};
use crate::page::{self, List};
use crate::problem::{Code, Problem, Result};

/// How many outcomes of a job a list shows.
const OUTCOMES: u32 = 20;

/// How long a search by a part of the name waits until the jobs of a large tenant are known.
const SEARCH_PATIENCE: Duration = Duration::from_millis(100);

/// Makes a job.
#[utoipa::path(
    post, path = "/v1/jobs", operation_id = "create_job", tag = "jobs", request_body = JobSpec,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same answer for a day.")),
    responses((status = 201, body = JobCreated))
)]
pub(crate) async fn create(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<JobSpec>,
) -> Result<Response> {
    let new = new_job(&app, &actor, &spec).await?;
    let missing = || Problem::new(Code::Internal, "the job was not made");
    let job = app.engine.by(&actor).create_jobs(vec![new]).await?.pop().ok_or_else(missing)??;
    let warnings = warnings(&app, &job).await;
    let body = JobCreated::of(&job, &app, warnings);
    let location = HeaderValue::from_str(&format!("/v1/jobs/{}", job.id));
    let location = location.unwrap_or(HeaderValue::from_static("/v1/jobs"));
    let headers = [etag(job.version), (header::LOCATION, location)];
    Ok((StatusCode::CREATED, headers, Json(body)).into_response())
}

/// The job of a request.
pub(crate) async fn new_job(app: &App, actor: &Actor, spec: &JobSpec) -> Result<NewJob> {
    let upstream = find::upstream(app, actor, spec).await?;
    let mut definition = spec.definition(upstream, app.now(), &app.zones)?;
    let defaults = app.engine.by(actor).job_defaults().await?;
    defaults.fill(&mut definition, spec.has_timeout());
    Ok(NewJob {
        tenant: actor.tenant,
        owner: actor.user,
        name: spec.parts.name.clone(),
        definition,
        state: spec.parts.state()?.unwrap_or(JobState::Enabled),
    })
}

/// Which jobs a list shows.
#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobParams {
    /// How many; 50 when absent, at most 500.
    #[param(minimum = 1, maximum = 500)]
    pub(super) limit: Option<u32>,
    /// The `next_cursor` of the page before.
    pub(super) cursor: Option<String>,
    /// Only jobs with one of these statuses, with commas between them. `DELETED` stands alone: it lists
    /// deleted jobs whose history is still there, the youngest job first.
    #[param(
        example = "ACTIVE,PAUSED",
        pattern = "^(DELETED|(ACTIVE|PAUSED|DISABLED|COMPLETED)( *, *(ACTIVE|PAUSED|DISABLED|COMPLETED))*)$"
    )]
    pub(super) status: Option<String>,
    /// Only jobs with this tag.
    pub(super) tag: Option<String>,
    /// Only jobs whose names begin like this.
    pub(super) name_prefix: Option<String>,
    /// Only jobs whose names contain this, in capital or small letters. A page may be short and
    /// have a next one: it looks at some thousands of jobs.
    pub(super) q: Option<String>,
    /// Additional fields of each job, with commas between them: `outcomes`, how its last 20 runs ended;
    /// `warnings`.
    #[param(pattern = "^(outcomes|warnings)( *, *(outcomes|warnings))*$")]
    pub(super) include: Option<String>,
    /// Only jobs of this kind of schedule: `CRON`, `ONE_TIME`, `INTERVAL`, `MANUAL` or `DEPENDENT`.
    #[param(pattern = "^(CRON|ONE_TIME|INTERVAL|MANUAL|DEPENDENT)$")]
    pub(super) job_type: Option<String>,
    /// Only jobs with this kind of payload: `HTTP`, `SQL`, `PROCEDURE`, `EXTERNAL`, `QUEUE`,
    /// `BACKUP` or `NOOP`.
    #[param(pattern = "^(HTTP|SQL|PROCEDURE|EXTERNAL|QUEUE|BACKUP|NOOP)$")]
    pub(super) payload_type: Option<String>,
    /// Only jobs whose last run ended in one of these ways, with commas between them. Runs that were
    /// skipped or missed do not count.
    #[param(
        example = "FAILED,TIMEOUT",
        pattern = "^(COMPLETED|FAILED|CANCELLED|TIMEOUT)( *, *(COMPLETED|FAILED|CANCELLED|TIMEOUT))*$"
    )]
    pub(super) last_status: Option<String>,
    /// The order: `name` (the default), `next` (due first) or `last` (ran last).
    #[param(pattern = "^(name|next|last)$")]
    pub(super) sort: Option<String>,
    /// Whether the answer counts jobs by status and by how their last runs ended.
    pub(super) facets: Option<bool>,
    /// The purpose of the list: `list` (the default), or `export`, which is recorded in the audit.
    #[param(pattern = "^(list|export)$")]
    pub(super) purpose: Option<String>,
}

impl JobParams {
    /// The filter of deleted jobs: the same but for the status.
    fn filter_of_deleted(&self, actor: &Actor) -> Result<JobFilter> {
        let filter = self.filter_but_status(actor)?;
        Ok(JobFilter { states: vec![JobState::Deleted], ..filter })
    }

    pub(super) fn filter(&self, actor: &Actor) -> Result<JobFilter> {
        let states = page::words("status", &self.status, &STATUSES)?;
        Ok(JobFilter { states, ..self.filter_but_status(actor)? })
    }

    fn filter_but_status(&self, actor: &Actor) -> Result<JobFilter> {
        let kind = |field, asked: &Option<String>, known: &[(&str, &'static str)]| {
            Ok::<_, Problem>(page::word(field, asked, known)?.map(str::to_owned))
        };
        Ok(JobFilter {
            tag: self.tag.clone(),
            prefix: self.name_prefix.clone(),
            contains: self.q.clone().filter(|part| !part.is_empty()),
            schedule: kind("job_type", &self.job_type, &SCHEDULES)?,
            action: kind("payload_type", &self.payload_type, &ACTIONS)?,
            ..JobFilter::of_tenant(actor.tenant)
        })
    }
}

/// Additional contents of a list of jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Include {
    Outcomes,
    Warnings,
}

const INCLUDES: [(&str, Include); 2] =
    [("outcomes", Include::Outcomes), ("warnings", Include::Warnings)];

/// Purposes of a list of jobs, and whether each is an export.
const PURPOSES: [(&str, bool); 2] = [("list", false), ("export", true)];

/// Records that a user exports jobs, before the first of them is read.
async fn record_export(app: &App, actor: &Actor, params: &JobParams) -> Result<()> {
    let asked = [
        ("status", &params.status),
        ("tag", &params.tag),
        ("name_prefix", &params.name_prefix),
        ("job_type", &params.job_type),
        ("payload_type", &params.payload_type),
    ];
    let given = asked.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let filter: BTreeMap<&str, &str> = given.collect();
    let event = Event {
        tenant: actor.tenant,
        actor: actor.name.clone(),
        kind: Kind::JobsExported,
        job: None,
        run: None,
        outcome: "REQUESTED".to_owned(),
        details: serde_json::json!({ "filter": filter }).to_string(),
    };
    Ok(app.engine.node().record(event).await?)
}

const STATUSES: [(&str, JobState); 4] = [
    ("ACTIVE", JobState::Enabled),
    ("PAUSED", JobState::Paused),
    ("DISABLED", JobState::Disabled),
    ("COMPLETED", JobState::Completed),
];

const SCHEDULES: [(&str, &str); 5] = [
    ("CRON", "CRON"),
    ("ONE_TIME", "AT"),
    ("INTERVAL", "EVERY"),
    ("MANUAL", "MANUAL"),
    ("DEPENDENT", "AFTER_DEPENDENCIES"),
];

const ACTIONS: [(&str, &str); 7] = [
    ("HTTP", "HTTP"),
    ("SQL", "SQL"),
    ("PROCEDURE", "PROCEDURE"),
    ("EXTERNAL", "EXTERNAL"),
    ("QUEUE", "QUEUE"),
    ("BACKUP", "BACKUP"),
    ("NOOP", "NOOP"),
];

/// Lists jobs by name.
#[utoipa::path(
    get, path = "/v1/jobs", operation_id = "list_jobs", tag = "jobs", params(JobParams),
    responses((status = 200, body = JobList))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    OriginalUri(uri): OriginalUri,
    Params(params): Params<JobParams>,
) -> Result<Response> {
    let limit = page::limit(params.limit)?;
    let after = page::cursor(params.cursor.as_deref())?;
    let is_export = page::word("purpose", &params.purpose, &PURPOSES)?.unwrap_or(false);
    if is_export && after.is_none() {
        record_export(&app, &actor, &params).await?;
    }
    if params.status.as_deref() == Some(DELETED) {
        return list_deleted(&app, &actor, &uri, &params).await;
    }
    let filter = params.filter(&actor)?;
    let include = page::words("include", &params.include, &INCLUDES)?;
    let choice = JobChoice::read(&params.last_status, &params.sort)?;
    let facets = match params.facets.unwrap_or(false) {
        true => choice.count(&app, &actor, &filter).await,
        false => None,
    };
    if !choice.is_plain() {
        let jobs = choice.select(&app, &actor, &filter, after.as_deref(), limit).await?;
        return Ok(page_of(&app, &actor, jobs, &include, facets).await?.answer(&uri));
    }
    let mut jobs = app.engine.by(&actor).list_jobs(&filter, after.as_deref(), limit).await?;
    // The search for a word that few names contain covers more than one page. In a large tenant the
    // store would take too long: the directory in memory answers, half a second behind the store.
    let wanted = limit.saturating_sub(jobs.items.len() as u32);
    if let Some(next) = jobs.next.take_if(|_| filter.contains.is_some() && wanted > 0) {
        let after = Some(next.as_str());
        let more = choice.select_within(&app, &actor, &filter, after, wanted, SEARCH_PATIENCE);
        let more = match more.await? {
            Some(more) => more,
            None => app.engine.by(&actor).list_jobs(&filter, after, wanted).await?,
        };
        jobs.items.extend(more.items);
        jobs.next = more.next;
    }
    Ok(page_of(&app, &actor, jobs, &include, facets).await?.answer(&uri))
}

/// A page of jobs as it is shown.
async fn page_of(
    app: &App,
    actor: &Actor,
    jobs: Page<Job, String>,
    include: &[Include],
    facets: Option<JobFacets>,
) -> Result<JobList> {
    let with_outcomes = include.contains(&Include::Outcomes);
    let with_warnings = include.contains(&Include::Warnings);
    // One question for the whole page.
    let ids: Vec<JobId> = jobs.items.iter().map(|job| job.id).collect();
    let last = app.engine.by(actor).last_runs(&ids).await?;
    let last: HashMap<JobId, LastRun> = last.into_iter().map(|last| (last.job, last)).collect();
    let mut outcomes: HashMap<JobId, Vec<RunOutcome>> = HashMap::new();
    if with_outcomes {
        for end in app.engine.by(actor).recent_ends(&ids, OUTCOMES).await? {
            outcomes.entry(end.job).or_default().push(RunOutcome::from(&end));
        }
    }
    let view = |job: &Job| {
        let mut view = JobView::of(job, app).with_last(last.get(&job.id));
        view.record.may = may(actor, job);
        if with_outcomes {
            view.record.last_outcomes = Some(outcomes.remove(&job.id).unwrap_or_default());
        }
        view
    };
    let mut data: Vec<JobView> = jobs.items.iter().map(view).collect();
    if with_warnings {
        let mut checks = JobWarnings::new(app);
        for (view, job) in data.iter_mut().zip(&jobs.items) {
            view.record.warnings = checks.of_job(job).await;
        }
    }
    let List { data, next_cursor } = List::new(data, jobs.next);
    Ok(JobList { data, next_cursor, facets })
}

/// The status of jobs that were deleted.
const DELETED: &str = "DELETED";

/// Lists deleted jobs whose history is still there.
async fn list_deleted(
    app: &App,
    actor: &Actor,
    uri: &axum::http::Uri,
    params: &JobParams,
) -> Result<Response> {
    let limit = page::limit(params.limit)?;
    let before = page::cursor(params.cursor.as_deref())?;
    let before: Option<JobId> =
        before.map(|text| text.parse().map_err(|_| page::bad_cursor())).transpose()?;
    let filter = params.filter_of_deleted(actor)?;
    let mut jobs = app.engine.by(actor).deleted_jobs(before, limit).await?;
    let has_tag =
        |job: &Job| filter.tag.as_ref().is_none_or(|tag| job.definition.tags.contains(tag));
    let begins = |job: &Job| filter.prefix.as_ref().is_none_or(|it| job.name.starts_with(it));
    jobs.items.retain(|job| filter.lets(job) && has_tag(job) && begins(job));
    let ids: Vec<JobId> = jobs.items.iter().map(|job| job.id).collect();
    let last = app.engine.by(actor).last_runs(&ids).await?;
    let view = |job: &Job| {
        let last = last.iter().find(|last| last.job == job.id);
        JobView::of(job, app).with_last(last)
    };
    let data = jobs.items.iter().map(view).collect();
    Ok(List::new(data, jobs.next).answer(uri))
}

/// Shows a job.
#[utoipa::path(
    get, path = "/v1/jobs/{job_id}", operation_id = "get_job", tag = "jobs",
    params(("job_id" = String, Path, description = "The job's id or name.")),
    responses((status = 200, body = JobView), (status = 304))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    let job = find::plain_job(&app, &actor, &job).await?;
    if let Some(problem) = job.unreadable() {
        return Err(Problem::new(Code::WrongState, problem));
    }
    if is_known(&headers, job.version) {
        return Ok(not_modified(job.version));
    }
    let last = app.engine.by(&actor).last_runs(&[job.id]).await?;
    let mut view = JobView::of(&job, &app).with_last(last.first());
    view.record.may = may(&actor, &job);
    view.record.warnings = warnings(&app, &job).await;
    Ok(([etag(job.version)], Json(view)).into_response())
}

/// Operations on a job that the caller is permitted.
pub(super) fn may(actor: &Actor, job: &Job) -> Vec<&'static str> {
    let deeds = [
        ("ALTER", Deed::AlterJob(job.owner)),
        ("DROP", Deed::DropJob(job.owner)),
        ("EXECUTE", Deed::ExecuteJob(job.owner)),
        ("VIEW_HISTORY", Deed::SeeRuns(job.owner)),
    ];
    deeds.into_iter().filter(|(_, deed)| actor.may(*deed).is_ok()).map(|(word, _)| word).collect()
}

/// A job as an answer.
pub(super) fn shown(app: &App, job: &Job) -> Response {
    let body = JobView::of(job, app);
    ([etag(job.version)], Json(body)).into_response()
}

/// Replaces a job.
#[utoipa::path(
    put, path = "/v1/jobs/{job_id}", operation_id = "replace_job", tag = "jobs", request_body = JobSpec,
    params(
        ("job_id" = String, Path, description = "The job's id or name."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the job that the change is based on."),
    ),
    responses((status = 200, body = JobView))
)]
pub(crate) async fn replace(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    request: Request,
) -> Result<Response> {
    let job = find::plain_job(&app, &actor, &job).await?;
    require_json(&request, &["application/json"])?;
    let headers = request.headers().clone();
    let bytes = read(request.into_body(), app.options.body_bytes_max).await?;
    let mut body: Value = parse(&bytes)?;
    strip_read_only(&mut body);
    let spec: JobSpec = parse_value("", body)?;
    let defaults = app.engine.by(&actor).job_defaults().await?.for_replaced(&job.definition);
    let condition = Condition::of(&headers, spec.parts.version, &app)?;
    let job = change(&app, &actor, job.id, spec, defaults, condition).await?;
    Ok(changed(&app, &job).await)
}

/// Changes some fields of a job (RFC 7396): what is null is taken away, lists are replaced.
#[utoipa::path(
    patch, path = "/v1/jobs/{job_id}", operation_id = "patch_job", tag = "jobs",
    request_body(content = Object, content_type = "application/merge-patch+json"),
    params(
        ("job_id" = String, Path, description = "The job's id or name."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the job that the change is based on."),
    ),
    responses((status = 200, body = JobView))
)]
pub(crate) async fn patch(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    request: Request,
) -> Result<Response> {
    let job = find::plain_job(&app, &actor, &job).await?;
    require_json(&request, &PATCH_KINDS)?;
    let headers = request.headers().clone();
    let bytes = read(request.into_body(), app.options.body_bytes_max).await?;
    let spec = patched(&job, parse(&bytes)?)?;
    let condition = Condition::of(&headers, spec.parts.version, &app)?;
    let job = change_some(&app, &actor, job.id, spec, condition).await?;
    Ok(changed(&app, &job).await)
}

/// The response to a change of a job.
async fn changed(app: &App, job: &Job) -> Response {
    let mut view = JobView::of(job, app);
    view.record.warnings = warnings(app, job).await;
    ([etag(job.version)], Json(view)).into_response()
}

/// Treatment of the history of a deleted job, and of jobs that depend on it.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeleteParams {
    /// Removes the job even if others depend on it; they depend on it no more.
    cascade: Option<bool>,
    /// Deletes its history soon, instead of when its time is over.
    purge_history: Option<bool>,
    /// Cancels its executions that have not ended, instead of letting them end.
    cancel_running: Option<bool>,
}

/// Removes a job. Its history remains until its time is over, unless `purge_history` is set.
#[utoipa::path(
    delete, path = "/v1/jobs/{job_id}", operation_id = "delete_job", tag = "jobs",
    params(
        ("job_id" = String, Path, description = "The job's id or name."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the job."),
        DeleteParams,
    ),
    responses((status = 204))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    Params(params): Params<DeleteParams>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    let job = find::job(&app, &actor, &job).await?;
    let condition = Condition::of(&headers, None, &app)?;
    condition.check(job.version)?;
    let deletion = Deletion {
        cascade: params.cascade.unwrap_or(false),
        purge_history: params.purge_history.unwrap_or(false),
        cancel_running: params.cancel_running.unwrap_or(false),
        expected: condition.version(),
    };
    app.engine.by(&actor).delete_job(job.id, deletion).await?;
    Ok(StatusCode::NO_CONTENT)
}
