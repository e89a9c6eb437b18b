//! Changes of several jobs that happen together, wholly or not at all.

use std::collections::HashSet;

use domain::id::JobId;
use domain::job::{Job, JobState, Retention};
use store::{Change, Changed, StoreError};

use super::alter::Altered;
use super::{ALTER_TRIES_MAX, NewJob, answer, creation, log_schedule, to_microsecond};
use crate::error::{EngineError, Result};
use crate::node::Node;

/// The maximum number of changes that happen together.
pub const CHANGES_MAX: usize = 100;

/// A change of one job, among others that happen with it.
#[derive(Clone, Debug)]
pub enum JobChange {
    /// A new job. Its schedule begins when it is written.
    Create(Box<Job>),
    /// A job becomes another one, if it still is the version that was read.
    Alter {
        /// The job as it was read.
        old: Box<Job>,
        /// The job as it shall be.
        new: Box<Job>,
    },
    /// A job is removed, if it still is the version that was read.
    Drop {
        /// The job as it was read.
        old: Box<Job>,
        /// Whether its history is deleted soon.
        purge_history: bool,
        /// Whether its runs that have not ended are cancelled.
        cancel_running: bool,
    },
}

impl JobChange {
    /// The job that it is about.
    pub fn id(&self) -> JobId {
        match self {
            JobChange::Create(job) => job.id,
            JobChange::Alter { old, .. } | JobChange::Drop { old, .. } => old.id,
        }
    }

    /// The job after the change; none if it is removed.
    pub fn after(&self) -> Option<&Job> {
        match self {
            JobChange::Create(job) | JobChange::Alter { new: job, .. } => Some(job),
            JobChange::Drop { .. } => None,
        }
    }

    /// The job before the change; none if it is new.
    pub fn before(&self) -> Option<&Job> {
        match self {
            JobChange::Create(_) => None,
            JobChange::Alter { old, .. } | JobChange::Drop { old, .. } => Some(old),
        }
    }

    /// The name under which a user knows the job.
    fn name(&self) -> &str {
        self.after().or(self.before()).map_or("", |job| &job.name)
    }
}

/// Why changes were not made: the job of one of them, and its error.
#[derive(Debug)]
pub struct ChangeRefused {
    /// The name of the job; empty if no job is the cause.
    pub job: String,
    /// The cause.
    pub error: EngineError,
}

impl From<EngineError> for ChangeRefused {
    fn from(error: EngineError) -> Self {
        ChangeRefused { job: String::new(), error }
    }
}

impl From<StoreError> for ChangeRefused {
    fn from(error: StoreError) -> Self {
        EngineError::from(error).into()
    }
}

/// Changes that happen together: at most one for each job.
#[derive(Clone, Debug, Default)]
pub struct JobChanges {
    list: Vec<JobChange>,
}

impl JobChanges {
    /// The changes, in the order in which the jobs were first named.
    pub fn iter(&self) -> impl Iterator<Item = &JobChange> {
        self.list.iter()
    }

    /// Whether a job exists after the changes; none if they do not touch it.
    pub fn exists(&self, id: JobId) -> Option<bool> {
        self.list.iter().find(|change| change.id() == id).map(|change| change.after().is_some())
    }

    /// A job as the changes leave it, if they touch it and it exists.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.list.iter().find(|change| change.id() == id)?.after()
    }

    /// The job that has a name after the changes, if they touch it.
    pub fn named(&self, name: &str) -> Option<&Job> {
        self.list.iter().filter_map(JobChange::after).find(|job| job.name == name)
    }

    /// Adds a new job.
    pub fn create(&mut self, job: Job) {
        self.list.push(JobChange::Create(Box::new(job)));
    }

    /// Replaces a job, which is `current` in the store or after the changes so far.
    pub fn alter(&mut self, current: Job, new: Job) {
        let new = Box::new(new);
        match self.list.iter_mut().find(|change| change.id() == current.id) {
            Some(JobChange::Create(job)) => *job = new,
            Some(JobChange::Alter { new: job, .. }) => *job = new,
            Some(JobChange::Drop { .. }) => {}
            None => self.list.push(JobChange::Alter { old: Box::new(current), new }),
        }
    }

    /// Removes a job, which is `current` in the store or after the changes so far.
    pub fn drop(&mut self, current: Job, purge_history: bool, cancel_running: bool) {
        let place = self.list.iter().position(|change| change.id() == current.id);
        let old = match place.map(|place| self.list.remove(place)) {
            // It was never there.
            Some(JobChange::Create(_)) => return,
            Some(JobChange::Alter { old, .. } | JobChange::Drop { old, .. }) => old,
            None => Box::new(current),
        };
        self.list.push(JobChange::Drop { old, purge_history, cancel_running });
    }

    /// A name that two of the jobs have, before or after the changes: a name passes from one job to
    /// another only from one transaction to the next.
    pub fn doubled_name(&self) -> Option<&str> {
        let mut names: HashSet<&str> = HashSet::new();
        self.list.iter().find_map(|change| {
            let before = change.before().map(|job| job.name.as_str());
            let after =
                change.after().map(|job| job.name.as_str()).filter(|it| Some(*it) != before);
            before.into_iter().chain(after).find(|name| !names.insert(name))
        })
    }

    /// Jobs that exist after the changes and depend on another one. `stored` are those that do in
    /// the store.
    pub fn dependents<'a>(&'a self, of: JobId, stored: &'a [Job]) -> Vec<&'a Job> {
        let untouched = stored.iter().filter(|job| self.exists(job.id).is_none());
        let changed = self.list.iter().filter_map(JobChange::after);
        let depends = |job: &&Job| job.definition.depends_on.iter().any(|it| it.job == of);
        untouched.chain(changed).filter(depends).collect()
    }
}

/// A change that was checked, and is dated when it is written.
enum Checked {
    Created(Box<Job>),
    Altered(Box<Job>, Box<Altered>),
}

impl Node {
    /// A job that is to be created with other changes, checked.
    pub(crate) async fn draft_job(&self, new: NewJob, among: &JobChanges) -> Result<Job> {
        let (now, definition) = (self.store.now().await?, new.definition.clone());
        let job = self.new_job(new, now, among).await?;
        // Its schedule begins when it is written.
        Ok(Job { definition, ..job })
    }

    /// Validates the change of one job among others, where it is requested: its name is free, and
    /// its definition is valid.
    pub(crate) async fn check_change(&self, id: JobId, among: &JobChanges) -> Result<()> {
        let Some(change) = among.iter().find(|change| change.id() == id) else { return Ok(()) };
        let before = change.before();
        if let Some(job) = change.after()
            && before.is_none_or(|before| before.name != job.name)
            && let Some(other) = self.store.job_by_name(job.tenant, &job.name).await?
            && other.id != job.id
            && among.exists(other.id).is_none()
        {
            return Err(EngineError::NameTaken { name: job.name.clone(), by: other.id });
        }
        match change {
            JobChange::Create(job) => {
                let job = (**job).clone();
                self.begun(job, to_microsecond(self.now()), among).await.map(drop)
            }
            JobChange::Alter { .. } => self.checked(change, among).await.map(drop),
            JobChange::Drop { .. } => Ok(()),
        }
    }

    /// Jobs of the store that depend on another one.
    pub(crate) async fn dependents(&self, job: &Job) -> Result<Vec<Job>> {
        let edges = self.store.dependencies(job.tenant).await?;
        let dependents = edges.iter().filter(|(_, upstream)| *upstream == job.id);
        let dependents: Vec<JobId> = dependents.map(|(job, _)| *job).collect();
        if dependents.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.store.jobs_by_id(&dependents).await?)
    }

    /// Makes all changes in one transaction of the store, or none of them. Returns the jobs that
    /// exist after them.
    pub(crate) async fn change_jobs(
        &self,
        changes: &JobChanges,
        by: &str,
    ) -> std::result::Result<Vec<Job>, ChangeRefused> {
        let mut checked = Vec::with_capacity(changes.list.len());
        for change in changes.iter() {
            let refused = |error| ChangeRefused { job: change.name().to_owned(), error };
            checked.push(self.checked(change, changes).await.map_err(refused)?);
        }
        let mut tries = 0;
        loop {
            let now = to_microsecond(self.store.now().await?);
            let mut dated = Vec::with_capacity(checked.len());
            for (it, change) in checked.iter_mut().zip(changes.iter()) {
                let refused = |error| ChangeRefused { job: change.name().to_owned(), error };
                dated.push(match it {
                    Checked::Created(job) => {
                        let job = self.begun((**job).clone(), now, changes).await;
                        creation(job.map_err(refused)?)
                    }
                    Checked::Altered(old, altered) => {
                        self.change_at(old, altered, None, now).map_err(refused)?
                    }
                });
            }
            let changed = self.store.define_together(&dated, by).await?;
            dated.iter().for_each(|change| self.forget_job(change.job.id));
            if tries < ALTER_TRIES_MAX && self.plan_overtaken(&mut checked, &changed).await? {
                tries += 1;
                continue;
            }
            let jobs = written(dated, changed)?;
            self.overtaken_by_pause(&jobs, by).await?;
            return Ok(jobs);
        }
    }

    /// Checks a change among others.
    async fn checked(&self, change: &JobChange, among: &JobChanges) -> Result<Checked> {
        Ok(match change {
            JobChange::Create(job) => Checked::Created(job.clone()),
            JobChange::Alter { old, new } => {
                let altered = self.altered(old, (**new).clone(), among).await?;
                Checked::Altered(old.clone(), Box::new(altered))
            }
            JobChange::Drop { old, purge_history, .. } => {
                let stored = self.dependents(old).await?;
                let dependents = among.dependents(old.id, &stored);
                if !dependents.is_empty() {
                    let names: Vec<&str> = dependents.iter().map(|job| &*job.name).collect();
                    let text = format!("other jobs depend on it: {}", names.join(", "));
                    return Err(EngineError::WrongState(text));
                }
                let mut new = (**old).clone();
                new.state = JobState::Deleted;
                if *purge_history {
                    // The pruner follows the rules of deleted jobs too.
                    new.definition.retention = Retention::NOTHING;
                }
                let altered = self.altered(old, new, among).await?;
                Checked::Altered(old.clone(), Box::new(altered))
            }
        })
    }

    /// Plans times of old schedules that have come meanwhile: they belong to those schedules, and
    /// into the ledger. Returns whether there were some.
    async fn plan_overtaken(
        &self,
        checked: &mut [Checked],
        changed: &[Changed],
    ) -> std::result::Result<bool, ChangeRefused> {
        let mut is_overtaken = false;
        for (it, changed) in checked.iter_mut().zip(changed) {
            if let (Checked::Altered(old, _), Changed::VersionConflict(version)) = (it, changed)
                && *version == old.version
            {
                self.plan_past(old).await?;
                let current = self.existing(old.id).await?;
                (old.next_run, old.state) = (current.next_run, current.state);
                is_overtaken = true;
            }
        }
        Ok(is_overtaken)
    }
}

/// The jobs that were written, or why none was.
fn written(
    changes: Vec<Change>,
    changed: Vec<Changed>,
) -> std::result::Result<Vec<Job>, ChangeRefused> {
    let mut jobs = Vec::with_capacity(changes.len());
    for (change, changed) in changes.into_iter().zip(changed) {
        let job = change.job.name.clone();
        jobs.push(answer(change, changed).map_err(|error| ChangeRefused { job, error })?);
    }
    jobs.retain(|job| job.state != JobState::Deleted);
    jobs.iter().for_each(|job| log_schedule(job, "job changed in a transaction"));
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use domain::id::{TenantId, UserId};
    use domain::job::{Definition, Dependency, DependsOn};
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn job(number: u128, name: &str) -> Job {
        Job {
            id: JobId(Uuid::from_u128(number)),
            tenant: TenantId::DEFAULT,
            owner: UserId::ADMIN,
            name: name.to_owned(),
            version: 1,
            state: JobState::Enabled,
            definition: Definition::default(),
            next_run: None,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        }
    }

    /// The changes as words: `+a` is new, `a>b` is renamed, `-a` is removed.
    fn words(changes: &JobChanges) -> String {
        let word = |change: &JobChange| match change {
            JobChange::Create(job) => format!("+{}", job.name),
            JobChange::Alter { old, new } => format!("{}>{}", old.name, new.name),
            JobChange::Drop { old, .. } => format!("-{}", old.name),
        };
        changes.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn changes_of_one_job_become_one() {
        type Edit = fn(&mut JobChanges);
        let rows: [(Edit, &str, Option<&str>); 8] = [
            (|it| it.create(job(1, "a")), "+a", None),
            (
                |it| {
                    it.create(job(1, "a"));
                    it.alter(job(1, "a"), job(1, "b"));
                },
                "+b",
                None,
            ),
            (
                |it| {
                    it.create(job(1, "a"));
                    it.drop(job(1, "a"), false, false);
                },
                "",
                None,
            ),
            (
                |it| {
                    it.alter(job(1, "a"), job(1, "b"));
                    it.alter(job(1, "b"), job(1, "c"));
                },
                "a>c",
                None,
            ),
            (
                |it| {
                    it.alter(job(1, "a"), job(1, "b"));
                    it.drop(job(1, "b"), false, false);
                },
                "-a",
                None,
            ),
            (
                |it| {
                    it.drop(job(1, "a"), false, false);
                    it.create(job(2, "a"));
                },
                "-a +a",
                Some("a"),
            ),
            (
                |it| {
                    it.alter(job(1, "a"), job(1, "b"));
                    it.alter(job(2, "b"), job(2, "a"));
                },
                "a>b b>a",
                Some("b"),
            ),
            (|it| it.alter(job(1, "a"), job(1, "a")), "a>a", None),
        ];
        for (edit, expected, doubled) in rows {
            let mut changes = JobChanges::default();
            edit(&mut changes);
            assert_eq!(words(&changes), expected);
            assert_eq!(changes.doubled_name(), doubled, "{expected}");
        }
    }

    #[test]
    fn dependents_are_those_after_the_changes() {
        let upstream = job(1, "up").id;
        let after = |number, name: &str| {
            let mut job = job(number, name);
            job.definition.depends_on = vec![Dependency { job: upstream, on: DependsOn::Success }];
            job
        };
        let stored = [after(2, "kept"), after(3, "freed"), after(4, "gone")];
        let mut changes = JobChanges::default();
        changes.alter(after(3, "freed"), job(3, "freed"));
        changes.drop(after(4, "gone"), false, false);
        changes.create(after(5, "new"));
        let names: Vec<&str> =
            changes.dependents(upstream, &stored).iter().map(|job| &*job.name).collect();
        assert_eq!(names, ["kept", "new"]);
        assert_eq!(changes.exists(job(4, "").id), Some(false));
        assert_eq!(changes.exists(job(2, "").id), None);
        assert_eq!(changes.named("new").map(|job| job.id), Some(job(5, "").id));
    }
}
