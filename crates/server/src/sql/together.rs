//! CREATE, ALTER and DROP JOB in a block: each is checked where it stands, among those before it, and
//! all are made at COMMIT.

use domain::id::JobId;
use domain::job::{Job, When};
use engine::{ChangeRefused, EngineError, JobChanges};
use sql::{AlterJob, CreateJob, DropJob, IfPresent, Spanned, Statement};

use super::jobs::{dropped, no_job, of_create, of_drop};
use super::{Answer, Result, Session, SqlError};

/// Whether a statement is one that a block may hold several of.
pub(super) fn is_of_job(statement: &Statement) -> bool {
    matches!(statement, Statement::CreateJob(_) | Statement::AlterJob(_) | Statement::DropJob(_))
}

impl Session {
    /// The job of a name or an id after some changes; none when it is not there and may be missing.
    pub(super) async fn job_among(
        &self,
        changes: &JobChanges,
        name: &Spanned<String>,
        if_exists: bool,
    ) -> Result<Option<Job>> {
        if let Some(job) = changes.named(&name.value) {
            return Ok(Some(job.clone()));
        }
        let found = self.job_if(name, if_exists).await?;
        let Some(job) = found else { return Ok(None) };
        match (changes.exists(job.id), changes.job(job.id)) {
            (None, _) => Ok(Some(job)),
            // One that is renamed is found by its id only.
            (Some(_), Some(changed)) if name.value.parse::<JobId>().ok() == Some(job.id) => {
                Ok(Some(changed.clone()))
            }
            _ if if_exists => Ok(None),
            _ => Err(SqlError::no_job_any_more(&name.value).or_at(name.at)),
        }
    }

    /// Adds a change of a job to those of a block.
    pub(super) async fn change_job(
        &self,
        changes: &mut JobChanges,
        statement: &Statement,
    ) -> Result<Answer> {
        let (answer, at) = match statement {
            Statement::CreateJob(create) => {
                (self.create_among(changes, create).await?, create.name.at)
            }
            Statement::AlterJob(alter) => (self.alter_among(changes, alter).await?, alter.name.at),
            Statement::DropJob(drop) => (self.drop_among(changes, drop).await?, drop.name.at),
            _ => return Err(SqlError::internal()),
        };
        if let Some(name) = changes.doubled_name() {
            return Err(SqlError::doubled_name(name).or_at(at));
        }
        for change in changes.iter() {
            let allowed = self.app.engine.by(&self.actor).may_change_job(change, changes).await;
            allowed.map_err(|error| SqlError::from(error).or_at(at))?;
        }
        Ok(answer)
    }

    async fn create_among(&self, changes: &mut JobChanges, create: &CreateJob) -> Result<Answer> {
        let answer = Answer::done(Statement::CreateJob(create.clone()).tag());
        let placed = |error: EngineError| of_create(error.into(), create);
        let Some(job) = self.job_among(changes, &create.name, true).await? else {
            let new = self.new_job(create, changes).await?;
            let job = self.app.engine.by(&self.actor).draft_job(new, changes).await;
            let job = job.map_err(placed)?;
            let id = job.id;
            changes.create(job);
            self.app.engine.by(&self.actor).check_change(id, changes).await.map_err(placed)?;
            return Ok(answer);
        };
        match create.if_present {
            IfPresent::Refuse => Err(placed(EngineError::NameTaken { name: job.name, by: job.id })),
            IfPresent::Keep => {
                let name = sql::quoted(&job.name);
                Ok(answer.with_notice(format!("job {name} already exists, skipping")))
            }
            IfPresent::Alter | IfPresent::Replace => {
                let mut new = job.clone();
                self.redefinition(create, &job, changes).await?(&mut new);
                let id = new.id;
                changes.alter(job, new);
                self.app.engine.by(&self.actor).check_change(id, changes).await.map_err(placed)?;
                Ok(answer)
            }
        }
    }

    async fn alter_among(&self, changes: &mut JobChanges, alter: &AlterJob) -> Result<Answer> {
        let answer = Answer::done("ALTER JOB");
        let found = self.job_among(changes, &alter.name, alter.if_exists).await?;
        let Some(job) = found else { return Ok(answer.with_notice(no_job(&alter.name))) };
        let mut new = job.clone();
        self.alteration(alter, &job, changes).await?(&mut new);
        if let Some(name) = &alter.rename
            && let Some(taken) = self.job_among(changes, name, true).await?
            && taken.id != job.id
        {
            let error = EngineError::NameTaken { name: taken.name, by: taken.id };
            return Err(SqlError::from(error).or_at(name.at));
        }
        let id = new.id;
        changes.alter(job, new);
        let checked = self.app.engine.by(&self.actor).check_change(id, changes).await;
        let at = alter.rename.as_ref().map_or(alter.name.at, |name| name.at);
        checked.map_err(|error| SqlError::of_clauses(error.into(), &alter.clauses, at))?;
        Ok(answer)
    }

    async fn drop_among(&self, changes: &mut JobChanges, drop: &DropJob) -> Result<Answer> {
        let answer = Answer::done("DROP JOB");
        let found = self.job_among(changes, &drop.name, drop.if_exists).await?;
        let Some(job) = found else { return Ok(answer.with_notice(no_job(&drop.name))) };
        let stored = self.app.engine.by(&self.actor).dependents(&job).await;
        let stored = stored.map_err(|error| of_drop(error, drop))?;
        let dependents: Vec<Job> =
            changes.dependents(job.id, &stored).into_iter().cloned().collect();
        if !drop.cascade && !dependents.is_empty() {
            let names: Vec<&str> = dependents.iter().map(|job| job.name.as_str()).collect();
            let text = format!("other jobs depend on it: {}", names.join(", "));
            return Err(of_drop(EngineError::WrongState(text), drop));
        }
        let mut unscheduled = Vec::new();
        for dependent in dependents {
            let mut new = dependent.clone();
            if detach(&mut new, job.id) {
                unscheduled.push(new.name.clone());
            }
            changes.alter(dependent, new);
        }
        changes.drop(job, drop.purge_history, drop.cancel_running);
        Ok(dropped(answer, drop, &unscheduled))
    }

    /// Makes the changes of a block.
    pub(super) async fn change_together(&self, changes: &JobChanges) -> Result<Answer> {
        let done = self.app.engine.by(&self.actor).change_jobs(changes).await;
        let jobs = done.map_err(|ChangeRefused { job, error }| {
            let mut error = SqlError::from(error);
            if !job.is_empty() && !error.problem.message.contains(&job) {
                error.problem.message = format!("job {:?}: {}", job, error.problem.message);
            }
            error
        })?;
        let mut answer = Answer::done("COMMIT");
        for job in &jobs {
            answer = self.told(answer, job).await;
        }
        Ok(answer)
    }
}

/// Removes the dependency of a job on another one. Answers whether it has no schedule left.
fn detach(job: &mut Job, upstream: JobId) -> bool {
    let definition = &mut job.definition;
    definition.depends_on.retain(|dependency| dependency.job != upstream);
    let is_bare = definition.when == When::AfterDependencies && definition.depends_on.is_empty();
    if is_bare {
        definition.when = When::Manual;
    }
    is_bare
}
