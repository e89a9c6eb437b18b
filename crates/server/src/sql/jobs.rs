//! Jobs: made, changed, removed, held.

use std::collections::HashMap;

use domain::id::JobId;
use domain::job::{Definition, Job, JobState};
use domain::schedule::{CatchUpPolicy, Zone, parse_instant};
use engine::{Deletion, NewJob};
use jiff::Timestamp;
use sql::{AlterJob, Clauses, Context, CreateJob, Defined, DropJob, IfPresent, Spanned};

use super::{Answer, Result, Session, SqlError};
use crate::problem::Problem;
use crate::rest::find;
use crate::rest::shape::job::check_tags;
use crate::rest::warnings::warnings;

impl Session {
    /// The job of a name or an id.
    pub(super) async fn job(&self, name: &Spanned<String>) -> Result<Job> {
        let found = find::job(&self.app, &self.actor, &name.value).await;
        found.map_err(|problem| SqlError::from(problem).or_at(name.at))
    }

    /// The job, or none when it is not there and nobody minds.
    async fn job_if(&self, name: &Spanned<String>, if_exists: bool) -> Result<Option<Job>> {
        match if_exists {
            true => Ok(find::job_if_any(&self.app, &self.actor, &name.value).await?),
            false => self.job(name).await.map(Some),
        }
    }

    /// The zone of local times that are written without one.
    pub(super) fn zone(&self) -> Zone {
        let name = self.settings.get("timezone").unwrap_or_default();
        self.app.zones.find(&name).unwrap_or(Zone::UTC)
    }

    /// A time as it was written; the present when nothing was.
    pub(super) fn time_of(&self, written: Option<&Spanned<String>>) -> Result<Timestamp> {
        let Some(Spanned { value, at }) = written else { return Ok(self.app.now()) };
        let time = parse_instant(value, &self.zone(), &self.app.zones);
        time.map_err(|error| SqlError::from(error).or_at(*at))
    }

    /// What clauses make of a job.
    async fn define(&self, clauses: &Clauses, base: Option<&Definition>) -> Result<Defined> {
        let mut upstream: HashMap<String, JobId> = HashMap::new();
        for name in clauses.upstream() {
            if let Some(job) = self.job_if(name, true).await? {
                upstream.insert(name.value.clone(), job.id);
            }
        }
        let (zones, zone) = (&self.app.zones, self.zone());
        let context = Context { zones, zone: &zone, upstream: &upstream };
        let defined = clauses.define(base, &context)?;
        check_tags(&defined.definition.tags)
            .map_err(|problem| SqlError::of_clauses(problem, clauses, 0))?;
        Ok(defined)
    }

    async fn new_job(&self, create: &CreateJob) -> Result<NewJob> {
        let Defined { definition, state } = self.define(&create.clauses, None).await?;
        Ok(NewJob {
            tenant: self.actor.tenant,
            owner: self.actor.user,
            name: create.name.value.clone(),
            definition,
            state: state.unwrap_or(JobState::Enabled),
        })
    }

    pub(super) async fn check_create(&self, create: &CreateJob) -> Result<()> {
        let placed = |error: engine::EngineError| of_create(error.into(), create);
        let new = self.new_job(create).await?;
        let present = self.job_if(&create.name, true).await?;
        match (present, create.if_present) {
            (Some(job), IfPresent::Refuse) => {
                let error = engine::EngineError::NameTaken { name: job.name, by: job.id };
                Err(placed(error))
            }
            (Some(_), _) => Ok(()),
            (None, _) => self.app.engine.by(&self.actor).check_job(new).await.map_err(placed),
        }
    }

    pub(super) async fn create_job(&self, create: &CreateJob) -> Result<Answer> {
        let tag = sql::Statement::CreateJob(create.clone()).tag();
        let present = match create.if_present {
            IfPresent::Refuse => None,
            _ => self.job_if(&create.name, true).await?,
        };
        let Some(job) = present else {
            let new = self.new_job(create).await?;
            return self.create(new, create, tag).await;
        };
        if create.if_present == IfPresent::Keep {
            let name = sql::quoted(&job.name);
            let notice = format!("job {name} already exists, skipping");
            return Ok(Answer::done(tag).with_notice(notice));
        }
        // The job becomes what the text says, in one step: nothing is lost between an old job and
        // a new one, and what depends on it still does.
        let anew = create.if_present == IfPresent::Replace;
        let Defined { mut definition, state } = self.define(&create.clauses, None).await?;
        if anew && definition.when.needs_start() {
            definition.when.start_at(self.app.now());
        }
        let edit = move |job: &mut Job| {
            let rescheduled = job.definition.when != definition.when;
            job.definition = definition;
            job.state = match (state, job.state) {
                (Some(state), _) => state,
                (None, _) if anew => JobState::Enabled,
                (None, JobState::Completed) if rescheduled => JobState::Enabled,
                (None, state) => state,
            };
            Ok(())
        };
        let done = self.app.engine.by(&self.actor).alter_job(job.id, edit).await;
        let job = done.map_err(|problem| of_create(problem, create))?;
        Ok(self.told(Answer::done(tag), &job).await)
    }

    async fn create(&self, new: NewJob, create: &CreateJob, tag: &str) -> Result<Answer> {
        let placed = |problem| of_create(problem, create);
        let done = self.app.engine.by(&self.actor).create_jobs(vec![new]).await;
        let done = done.map_err(|error| placed(error.into()))?.pop();
        let job = done.ok_or_else(SqlError::internal)?.map_err(|error| placed(error.into()))?;
        Ok(self.told(Answer::done(tag), &job).await)
    }

    /// An answer with what may surprise about a job.
    async fn told(&self, mut answer: Answer, job: &Job) -> Answer {
        answer.notices.extend(warnings(&self.app, job).await);
        answer
    }

    pub(super) async fn check_alter(&self, alter: &AlterJob) -> Result<()> {
        if let Some(job) = self.job_if(&alter.name, alter.if_exists).await? {
            self.define_change(alter, &job).await?;
        }
        Ok(())
    }

    async fn define_change(&self, alter: &AlterJob, job: &Job) -> Result<Defined> {
        self.define(&alter.clauses, Some(&job.definition)).await
    }

    pub(super) async fn alter_job(&self, alter: &AlterJob) -> Result<Answer> {
        let answer = Answer::done("ALTER JOB");
        let Some(job) = self.job_if(&alter.name, alter.if_exists).await? else {
            return Ok(answer.with_notice(no_job(&alter.name)));
        };
        let version = job.version;
        let Defined { definition, state } = self.define_change(alter, &job).await?;
        let rename = alter.rename.as_ref().map(|name| name.value.clone());
        let edit = move |job: &mut Job| {
            // What was read is what is changed: all of the clauses or none.
            if job.version != version {
                let (expected, current) = (version, job.version);
                return Err(engine::EngineError::VersionConflict { expected, current }.into());
            }
            let rescheduled = job.definition.when != definition.when;
            job.definition = definition;
            if let Some(name) = rename {
                job.name = name;
            }
            job.state = match (state, job.state) {
                (Some(state), _) => state,
                // A one-time job that has run gets another time.
                (None, JobState::Completed) if rescheduled => JobState::Enabled,
                (None, state) => state,
            };
            Ok(())
        };
        let done = self.app.engine.by(&self.actor).alter_job(job.id, edit).await;
        let at = alter.rename.as_ref().map_or(alter.name.at, |name| name.at);
        let job = done.map_err(|problem| SqlError::of_clauses(problem, &alter.clauses, at))?;
        Ok(self.told(answer, &job).await)
    }

    pub(super) async fn drop_job(&self, drop: &DropJob) -> Result<Answer> {
        let answer = Answer::done("DROP JOB");
        let Some(job) = self.job_if(&drop.name, drop.if_exists).await? else {
            return Ok(answer.with_notice(no_job(&drop.name)));
        };
        let deletion = Deletion {
            cascade: drop.cascade,
            purge_history: drop.purge_history,
            cancel_running: drop.cancel_running,
            expected: None,
        };
        let done = self.app.engine.by(&self.actor).delete_job(job.id, deletion).await;
        let unscheduled = done.map_err(|error| {
            let is_needed = matches!(error, engine::EngineError::WrongState(_));
            let error = SqlError::from(error).or_at(drop.name.at);
            match is_needed {
                true => {
                    error.with_state("2BP01").with_hint("DROP JOB … CASCADE removes it anyway.")
                }
                false => error,
            }
        })?;
        let mut answer = answer;
        for name in unscheduled {
            let name = sql::quoted(&name);
            answer =
                answer.with_notice(format!("job {name} has no schedule left: it runs on request"));
        }
        Ok(match drop.purge_history {
            true => answer.with_notice("run history will be deleted within a day"),
            false => answer,
        })
    }

    pub(super) async fn pause_job(&self, name: &Spanned<String>) -> Result<Answer> {
        let job = self.job(name).await?;
        let done = self.app.engine.by(&self.actor).pause_job(job.id).await;
        done.map_err(|error| SqlError::from(error).or_at(name.at))?;
        Ok(Answer::done("PAUSE JOB"))
    }

    pub(super) async fn resume_job(
        &self,
        name: &Spanned<String>,
        catch_up: Option<CatchUpPolicy>,
    ) -> Result<Answer> {
        let job = self.job(name).await?;
        let done = self.app.engine.by(&self.actor).resume_job(job.id, catch_up).await;
        done.map_err(|error| SqlError::from(error).or_at(name.at))?;
        Ok(Answer::done("RESUME JOB"))
    }
}

fn of_create(problem: Problem, create: &CreateJob) -> SqlError {
    SqlError::of_clauses(problem, &create.clauses, create.name.at)
}

fn no_job(name: &Spanned<String>) -> String {
    format!("job {} does not exist, skipping", sql::quoted(&name.value))
}
