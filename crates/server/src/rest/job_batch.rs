//! One action on many jobs: chosen by name or by a filter, counted before anything is done.

use axum::Json;
use axum::extract::State;
use domain::access::Deed;
use domain::job::{Job, JobState};
use engine::{Deletion, Trigger};
use futures_util::stream::{self, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::find;
use super::job_choice::JobChoice;
use super::job_patch::{change_some, patched};
use super::jobs::JobParams;
use crate::actor::Actor;
use crate::app::App;
use crate::body::Body;
use crate::condition::Condition;
use crate::page::LIMIT_MAX;
use crate::problem::{Code, ErrorBody, Problem, Result};

/// The most jobs of one request.
const JOBS_MAX: usize = 10_000;

/// How many jobs are changed at the same time: their commits are shared.
const AT_ONCE: usize = 16;

/// Action on each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobBatchAction {
    /// Pauses it.
    Pause,
    /// Resumes it.
    Resume,
    /// Starts a run of it.
    Trigger,
    /// Deletes it; its history remains until its time is over.
    Delete,
    /// Adds `tag`.
    Tag,
    /// Takes `tag` away.
    Untag,
    /// Changes the fields of `patch`.
    Patch,
    /// Restores the version of `versions`.
    Restore,
}

/// Filter of jobs: the parameters of `list_jobs`.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JobBatchFilter {
    /// Statuses with commas between them.
    #[schema(example = "ACTIVE")]
    status: Option<String>,
    /// With this tag.
    tag: Option<String>,
    /// Prefix of the name.
    name_prefix: Option<String>,
    /// Text that the name contains.
    q: Option<String>,
    /// With this kind of schedule.
    job_type: Option<String>,
    /// With this kind of payload.
    payload_type: Option<String>,
    /// Outcomes of the last run, with commas between them.
    last_status: Option<String>,
}

/// A version of a job.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobVersionChoice {
    /// The job's id or name.
    job_id: String,
    /// The version to restore.
    version: u32,
    /// The version that the job must have; any when absent.
    #[serde(default)]
    expected_version: Option<u32>,
}

/// One action on many jobs. Exactly one of `job_ids`, `filter` and `versions` chooses them.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobBatchBody {
    /// The action.
    action: JobBatchAction,
    /// Jobs by id or name, at most 10,000.
    #[serde(default)]
    job_ids: Option<Vec<String>>,
    /// Jobs by what they are like. A filter without a field is refused.
    #[serde(default)]
    filter: Option<JobBatchFilter>,
    /// Jobs and the versions to restore.
    #[serde(default)]
    versions: Option<Vec<JobVersionChoice>>,
    /// The tag to add or to take away.
    #[serde(default)]
    tag: Option<String>,
    /// A merge patch (RFC 7396).
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    patch: Option<Value>,
    /// Only says what would be done.
    #[serde(default)]
    dry_run: bool,
    /// How many jobs the caller expects. If there are more or fewer, nothing is done. Needed with a
    /// filter, unless it is a dry run.
    #[serde(default)]
    expected_count: Option<usize>,
}

/// Result for one job.
#[derive(Serialize, ToSchema)]
pub struct JobBatchItem {
    /// The job.
    pub job_id: Uuid,
    /// Its name.
    pub name: String,
    /// Whether it was done, or would be.
    pub ok: bool,
    /// The version of the job before.
    pub previous_version: u32,
    /// The version of the job now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The run that was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<Uuid>,
    /// The word for programs, if it was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// Why it was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Results of a batch of jobs.
#[derive(Serialize, ToSchema)]
pub struct JobBatch {
    /// How many jobs were chosen.
    pub matched: usize,
    /// For how many of them it was done, or would be.
    pub done: usize,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// Each of them.
    pub items: Vec<JobBatchItem>,
}

/// A job that was chosen.
struct Chosen {
    job: Job,
    /// The version to restore, and the one that it must have.
    restored: Option<(u32, Option<u32>)>,
}

/// Result of an action.
#[derive(Default)]
struct Done {
    version: Option<u32>,
    run: Option<Uuid>,
}

/// Does one thing with many jobs, each on its own.
#[utoipa::path(
    post, path = "/v1/jobs:batch", operation_id = "batch_jobs", tag = "jobs", request_body = JobBatchBody,
    responses((status = 200, body = JobBatch), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn batch(
    State(app): State<App>,
    actor: Actor,
    Body(body): Body<JobBatchBody>,
) -> Result<Json<JobBatch>> {
    body.check()?;
    let chosen = choose(&app, &actor, &body).await?;
    check_count(chosen.len(), body.expected_count, "jobs")?;
    let (app, actor, body) = (&app, &actor, &body);
    let items: Vec<JobBatchItem> = stream::iter(chosen)
        .map(|chosen| async move {
            let done = match check(actor, &chosen.job, body) {
                Ok(()) if body.dry_run => Ok(Done::default()),
                Ok(()) => act(app, actor, &chosen, body).await,
                Err(problem) => Err(problem),
            };
            item(chosen.job, done)
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let done = items.iter().filter(|item| item.ok).count();
    Ok(Json(JobBatch { matched: items.len(), done, dry_run: body.dry_run, items }))
}

/// Refuses a batch that would do something else than its caller expects.
pub(super) fn check_count(found: usize, expected: Option<usize>, what: &str) -> Result<()> {
    match expected {
        Some(expected) if expected != found => {
            let text = format!("{found} {what} match, not {expected}; nothing was done");
            let problem = Problem::field(Code::WrongState, "expected_count", text);
            Err(problem.with_hint("ask again with dry_run"))
        }
        _ => Ok(()),
    }
}

impl JobBatchBody {
    fn check(&self) -> Result<()> {
        use JobBatchAction::{Patch, Restore, Tag, Untag};
        let chosen = [self.job_ids.is_some(), self.filter.is_some(), self.versions.is_some()];
        if chosen.iter().filter(|is_given| **is_given).count() != 1 {
            let text = "give one of job_ids, filter and versions";
            return Err(Problem::invalid("filter", text));
        }
        let is_restore = self.action == Restore;
        if self.versions.is_some() != is_restore {
            return Err(Problem::invalid("versions", "belongs to RESTORE, which needs it"));
        }
        if self.tag.as_deref().is_some_and(|tag| !tag.trim().is_empty())
            != matches!(self.action, Tag | Untag)
        {
            return Err(Problem::invalid("tag", "belongs to TAG and UNTAG, which need it"));
        }
        if self.patch.is_some() != (self.action == Patch) {
            return Err(Problem::invalid("patch", "belongs to PATCH, which needs it"));
        }
        let has_name = self.patch.as_ref().is_some_and(|patch| patch.get("name").is_some());
        if has_name {
            return Err(Problem::invalid("patch.name", "several jobs cannot have one name"));
        }
        for (field, count) in [
            ("job_ids", self.job_ids.as_ref().map(Vec::len)),
            ("versions", self.versions.as_ref().map(Vec::len)),
        ] {
            if let Some(count) = count.filter(|count| !(1..=JOBS_MAX).contains(count)) {
                let text = format!("must be 1 to {JOBS_MAX}, not {count}");
                return Err(Problem::invalid(field, text));
            }
        }
        if self.filter.as_ref().is_some_and(JobBatchFilter::is_empty) {
            let text = "must have a field: a batch never means all jobs by accident";
            return Err(Problem::invalid("filter", text));
        }
        if self.filter.is_some() && !self.dry_run && self.expected_count.is_none() {
            let text = "is needed with a filter: the number of jobs that a dry run has found";
            return Err(Problem::invalid("expected_count", text));
        }
        Ok(())
    }
}

impl JobBatchFilter {
    fn is_empty(&self) -> bool {
        let fields = [
            &self.status,
            &self.tag,
            &self.name_prefix,
            &self.q,
            &self.job_type,
            &self.payload_type,
            &self.last_status,
        ];
        fields.iter().all(|field| field.as_deref().is_none_or(str::is_empty))
    }

    fn params(&self) -> JobParams {
        let JobBatchFilter { status, tag, name_prefix, q, job_type, payload_type, last_status } =
            self.clone();
        JobParams {
            status,
            tag,
            name_prefix,
            q,
            job_type,
            payload_type,
            last_status,
            ..JobParams::default()
        }
    }
}

async fn choose(app: &App, actor: &Actor, body: &JobBatchBody) -> Result<Vec<Chosen>> {
    let mut chosen: Vec<Chosen> = Vec::new();
    let mut add = |job: Job, restored| {
        // A job that is named twice is one.
        if chosen.iter().all(|it: &Chosen| it.job.id != job.id) {
            chosen.push(Chosen { job, restored });
        }
    };
    if let Some(filter) = &body.filter {
        let jobs = matching(app, actor, filter).await?;
        return Ok(jobs.into_iter().map(|job| Chosen { job, restored: None }).collect());
    }
    for (i, name) in body.job_ids.iter().flatten().enumerate() {
        let job = find::plain_job(app, actor, name).await;
        add(job.map_err(|problem| problem.inside(&format!("job_ids[{i}]")))?, None);
    }
    for (i, it) in body.versions.iter().flatten().enumerate() {
        let job = find::plain_job(app, actor, &it.job_id).await;
        let job = job.map_err(|problem| problem.inside(&format!("versions[{i}]")))?;
        add(job, Some((it.version, it.expected_version)));
    }
    Ok(chosen)
}

/// All jobs that match a filter and that the actor sees.
async fn matching(app: &App, actor: &Actor, filter: &JobBatchFilter) -> Result<Vec<Job>> {
    let params = filter.params();
    let filter = params.filter(actor)?;
    let choice = JobChoice::read(&params.last_status, &None)?;
    let (mut jobs, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = match choice.is_plain() {
            true => app.engine.by(actor).list_jobs(&filter, after.as_deref(), LIMIT_MAX).await?,
            false => choice.select(app, actor, &filter, after.as_deref(), LIMIT_MAX).await?,
        };
        jobs.extend(page.items);
        if jobs.len() > JOBS_MAX {
            let text = format!("more than {JOBS_MAX} jobs match; narrow it");
            return Err(Problem::invalid("filter", text));
        }
        after = page.next;
        if after.is_none() {
            return Ok(jobs);
        }
    }
}

/// Refuses what the actor may not do, and what the job is not in the state for.
fn check(actor: &Actor, job: &Job, body: &JobBatchBody) -> Result<()> {
    use JobBatchAction::{Delete, Patch, Pause, Restore, Resume, Tag, Trigger, Untag};
    actor.may(match body.action {
        Trigger => Deed::ExecuteJob(job.owner),
        Delete => Deed::DropJob(job.owner),
        Pause | Resume | Tag | Untag | Patch | Restore => Deed::AlterJob(job.owner),
    })?;
    let has_tag =
        body.tag.as_ref().is_some_and(|tag| job.definition.tags.iter().any(|it| it == tag.trim()));
    let wrong = match body.action {
        Pause if job.state == JobState::Paused => Some("it is paused already"),
        Pause if job.state != JobState::Enabled => Some("it is not active"),
        Resume if job.state == JobState::Enabled => Some("it is active already"),
        Resume if job.state == JobState::Completed => Some("its one run has ended"),
        Tag if has_tag => Some("it has the tag already"),
        Untag if !has_tag => Some("it does not have the tag"),
        _ => None,
    };
    if let Some(text) = wrong {
        return Err(Problem::new(Code::WrongState, text));
    }
    match &body.patch {
        Some(patch) => patched(job, patch.clone()).map(drop),
        None => Ok(()),
    }
}

async fn act(app: &App, actor: &Actor, chosen: &Chosen, body: &JobBatchBody) -> Result<Done> {
    let (engine, job) = (app.engine.by(actor), &chosen.job);
    let changed = |job: Job| Done { version: Some(job.version), run: None };
    match body.action {
        JobBatchAction::Pause => Ok(changed(engine.pause_job(job.id).await?)),
        JobBatchAction::Resume => Ok(changed(engine.resume_job(job.id, None).await?)),
        JobBatchAction::Trigger => {
            let run = engine.trigger_named(&job.id.to_string(), Trigger::default()).await?;
            Ok(Done { version: None, run: Some(run.id.0) })
        }
        JobBatchAction::Delete => {
            let deletion = Deletion { expected: Some(job.version), ..Deletion::default() };
            engine.delete_job(job.id, deletion).await?;
            Ok(Done::default())
        }
        JobBatchAction::Tag | JobBatchAction::Untag => {
            let tag = body.tag.as_deref().unwrap_or_default().trim().to_owned();
            let is_added = body.action == JobBatchAction::Tag;
            let edit = move |job: &mut Job| {
                job.definition.tags.retain(|known| *known != tag);
                job.definition.tags.extend(is_added.then_some(tag));
                Ok::<(), Problem>(())
            };
            Ok(changed(engine.alter_job(job.id, edit).await?))
        }
        JobBatchAction::Patch => {
            let spec = patched(job, body.patch.clone().unwrap_or_default())?;
            let condition = spec.parts.version.map_or(Condition::None, Condition::Body);
            Ok(changed(change_some(app, actor, job.id, spec, condition).await?))
        }
        JobBatchAction::Restore => {
            let (version, expected) = chosen.restored.unwrap_or((job.version, None));
            let condition = expected.map_or(Condition::None, Condition::Body);
            let check = move |job: &Job| condition.check(job.version);
            Ok(changed(engine.restore_job(job.id, version, check).await?))
        }
    }
}

fn item(job: Job, done: Result<Done>) -> JobBatchItem {
    let (done, problem) = match done {
        Ok(done) => (done, None),
        Err(problem) => (Done::default(), Some(problem)),
    };
    JobBatchItem {
        job_id: job.id.0,
        name: job.name,
        ok: problem.is_none(),
        previous_version: job.version,
        version: done.version,
        execution_id: done.run,
        code: problem.as_ref().map(|problem| problem.code.name()),
        message: problem.map(|problem| problem.message),
    }
}
