//! The engine as the doors see it: the same whatever its store.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use domain::audit::{Event, Record, Seal};
use domain::decide::explain::Explanation;
use domain::id::{JobId, ObjectId, RunId, TenantId};
use domain::job::Job;
use domain::object::{Object, ObjectKind};
use domain::run::NewRun;
use domain::tally::{EndedRun, Summary};
use engine::{
    Activity, Answer as Kept, AttemptView, AuditFilter, Backfill, Begun, Cancelled, Counts, Cursor,
    DeliveryKey, DeliveryView, Engine, FullStore, JobFilter, LastRun, NewJob, NodeView, Page, Put,
    Result, RunFilter, RunView, Set, Setting, Stats, Trigger, Verified,
};
use jiff::Timestamp;

use crate::problem::Problem;

/// An answer that takes a while.
pub type Answer<'a, T, E = engine::EngineError> =
    Pin<Box<dyn Future<Output = std::result::Result<T, E>> + Send + 'a>>;

/// A change of a job that can be refused.
pub type Edit = Box<dyn FnOnce(&mut Job) -> std::result::Result<(), Problem> + Send>;

/// What the doors ask of an engine.
pub trait Scheduler: Send + Sync + 'static {
    /// Whether the store answers.
    fn is_ready(&self) -> bool;
    /// What this process has done since its start.
    fn activity(&self) -> Activity;
    /// Creates jobs, each on its own.
    fn create_jobs(&self, jobs: Vec<NewJob>) -> Answer<'_, Vec<Result<Job>>>;
    /// Changes a job if the change agrees to it.
    fn alter_job(&self, id: JobId, edit: Edit) -> Answer<'_, Job, Problem>;
    /// Holds a job.
    fn pause_job(&self, id: JobId) -> Answer<'_, Job>;
    /// Lets a job go on.
    fn resume_job(&self, id: JobId) -> Answer<'_, Job>;
    /// Removes a job if it has the expected version, and with `cascade` the dependencies of others
    /// on it.
    fn delete_job(&self, id: JobId, cascade: bool, expected: Option<u32>) -> Answer<'_, ()>;
    /// Whether a job could be created.
    fn check_job(&self, job: NewJob) -> Answer<'_, ()>;
    /// Starts a run by hand, under the given id if there is one; a run that has it already is the
    /// answer. Durable when it answers.
    fn trigger(&self, id: JobId, trigger: Trigger, run: Option<RunId>) -> Answer<'_, NewRun>;
    /// Starts an ended run once more.
    fn redrive(&self, run: RunId) -> Answer<'_, NewRun>;
    /// Asks for the end of a run.
    fn cancel<'a>(&'a self, run: RunId, text: &'a str) -> Answer<'a, Cancelled>;
    /// Asks for runs of times that have passed.
    fn backfill(&self, id: JobId, backfill: Backfill) -> Answer<'_, Vec<Timestamp>>;
    /// Says why a job did or did not run at a time.
    fn explain(&self, id: JobId, at: Timestamp) -> Answer<'_, Explanation>;
    /// Jobs by id.
    fn jobs_by_id<'a>(&'a self, ids: &'a [JobId]) -> Answer<'a, Vec<Job>>;
    /// A job by its name.
    fn job_by_name<'a>(&'a self, tenant: TenantId, name: &'a str) -> Answer<'a, Option<Job>>;
    /// The jobs that a filter lets through, by name.
    fn list_jobs<'a>(
        &'a self,
        filter: &'a JobFilter,
        after: Option<&'a str>,
        limit: u32,
    ) -> Answer<'a, Page<Job, String>>;
    /// The last runs of jobs; a job without one is left out.
    fn last_runs<'a>(&'a self, jobs: &'a [JobId]) -> Answer<'a, Vec<LastRun>>;
    /// A run.
    fn run(&self, id: RunId) -> Answer<'_, Option<RunView>>;
    /// The runs that a filter lets through, newest first.
    fn list_runs<'a>(
        &'a self,
        filter: &'a RunFilter,
        before: Option<RunId>,
        limit: u32,
    ) -> Answer<'a, Page<RunView, RunId>>;
    /// A run's ended attempts.
    fn attempts(&self, run: RunId) -> Answer<'_, Vec<AttemptView>>;
    /// How much there is of what.
    fn counts(&self) -> Answer<'_, Counts>;
    /// Marks dead letters as seen to. Answers for each whether it was there.
    fn acknowledge<'a>(&'a self, runs: &'a [RunId]) -> Answer<'a, Vec<bool>>;
    /// The nodes of the cluster.
    fn nodes(&self) -> Answer<'_, Vec<NodeView>>;
    /// How a tenant's jobs are doing.
    fn stats(&self, tenant: TenantId) -> Answer<'_, Stats>;
    /// How the runs of some jobs ended in this hour and so many before.
    fn job_stats<'a>(
        &'a self,
        tenant: TenantId,
        jobs: &'a [JobId],
        hours: u32,
    ) -> Answer<'a, HashMap<JobId, Summary>>;
    /// What the whole cluster agrees on.
    fn settings(&self) -> Answer<'_, Vec<Setting>>;
    /// Changes a setting, or removes it.
    fn set<'a>(&'a self, name: &'a str, value: Option<&'a str>, expected: u32) -> Answer<'a, Set>;
    /// What was done, newest first, from the given place backwards.
    fn audit<'a>(
        &'a self,
        filter: &'a AuditFilter,
        from: Option<i64>,
        limit: u32,
    ) -> Answer<'a, Vec<Record>>;
    /// Looks at a tenant's whole chain of what was done.
    fn verify_audit(&self, tenant: TenantId, known: Option<Seal>) -> Answer<'_, Verified>;
    /// Records what no other command does.
    fn record(&self, event: Event) -> Answer<'_, ()>;
    /// Runs that ended after the cursor and before a time, in that order.
    fn ended(&self, after: Cursor, until: Timestamp, limit: u32) -> Answer<'_, Vec<EndedRun>>;
    /// Jobs that were changed after the cursor, in that order.
    fn changed_jobs(&self, after: Cursor, limit: u32) -> Answer<'_, Vec<Job>>;
    /// Makes an object, or changes the one that still has the expected version.
    fn put_object<'a>(&'a self, object: &'a Object, expected: u32) -> Answer<'a, Put>;
    /// Removes an object if it still has the expected version.
    fn remove_object(&self, tenant: TenantId, id: ObjectId, expected: u32) -> Answer<'_, Set>;
    /// An object by its id, whosever it is.
    fn object(&self, id: ObjectId) -> Answer<'_, Option<Object>>;
    /// An object by its name.
    fn object_by_name<'a>(
        &'a self,
        tenant: TenantId,
        kind: ObjectKind,
        name: &'a str,
    ) -> Answer<'a, Option<Object>>;
    /// A tenant's objects of a kind, by name.
    fn list_objects<'a>(
        &'a self,
        tenant: TenantId,
        kind: ObjectKind,
        after: Option<&'a str>,
        limit: u32,
    ) -> Answer<'a, Page<Object, String>>;
    /// What a channel has tried to deliver, newest first.
    fn deliveries<'a>(
        &'a self,
        channel: &'a str,
        before: Option<DeliveryKey>,
        limit: u32,
    ) -> Answer<'a, Page<DeliveryView, DeliveryKey>>;
    /// A request begins that its caller may send again under the same key.
    fn begin_request<'a>(
        &'a self,
        tenant: TenantId,
        key: &'a str,
        fingerprint: &'a [u8],
    ) -> Answer<'a, Begun>;
    /// Keeps the answer to a request, or lets it be made anew.
    fn finish_request<'a>(
        &'a self,
        tenant: TenantId,
        key: &'a str,
        answer: Option<&'a Kept>,
    ) -> Answer<'a, ()>;
}

impl<S: FullStore> Scheduler for Engine<S> {
    fn is_ready(&self) -> bool {
        self.is_ready()
    }

    fn activity(&self) -> Activity {
        self.activity()
    }

    fn create_jobs(&self, jobs: Vec<NewJob>) -> Answer<'_, Vec<Result<Job>>> {
        Box::pin(async move {
            let jobs = self.node().create_jobs(jobs).await?;
            self.planned_soon();
            Ok(jobs)
        })
    }

    fn alter_job(&self, id: JobId, edit: Edit) -> Answer<'_, Job, Problem> {
        Box::pin(async move {
            let job = self.node().try_alter_job(id, edit).await?;
            self.planned_soon();
            Ok(job)
        })
    }

    fn pause_job(&self, id: JobId) -> Answer<'_, Job> {
        Box::pin(self.node().pause_job(id))
    }

    fn resume_job(&self, id: JobId) -> Answer<'_, Job> {
        Box::pin(async move {
            let job = self.node().resume_job(id).await?;
            self.planned_soon();
            Ok(job)
        })
    }

    fn delete_job(&self, id: JobId, cascade: bool, expected: Option<u32>) -> Answer<'_, ()> {
        Box::pin(self.node().delete_job_at(id, cascade, expected))
    }

    fn check_job(&self, job: NewJob) -> Answer<'_, ()> {
        Box::pin(self.node().check_job(job))
    }

    fn trigger(&self, id: JobId, trigger: Trigger, run: Option<RunId>) -> Answer<'_, NewRun> {
        Box::pin(async move {
            let mut new = self.node().triggered(id, trigger).await?;
            new.id = run.unwrap_or(new.id);
            let run = new;
            self.submit(vec![run.clone()]).await?;
            Ok(run)
        })
    }

    fn redrive(&self, run: RunId) -> Answer<'_, NewRun> {
        Box::pin(self.redrive(run))
    }

    fn cancel<'a>(&'a self, run: RunId, text: &'a str) -> Answer<'a, Cancelled> {
        Box::pin(async move {
            let cancelled = self.node().cancel_run(run, text).await?;
            self.stop_run(run);
            Ok(cancelled)
        })
    }

    fn backfill(&self, id: JobId, backfill: Backfill) -> Answer<'_, Vec<Timestamp>> {
        Box::pin(self.node().backfill(id, backfill))
    }

    fn explain(&self, id: JobId, at: Timestamp) -> Answer<'_, Explanation> {
        Box::pin(self.node().explain(id, at))
    }

    fn jobs_by_id<'a>(&'a self, ids: &'a [JobId]) -> Answer<'a, Vec<Job>> {
        Box::pin(self.node().jobs_by_id(ids))
    }

    fn job_by_name<'a>(&'a self, tenant: TenantId, name: &'a str) -> Answer<'a, Option<Job>> {
        Box::pin(self.node().job_by_name(tenant, name))
    }

    fn list_jobs<'a>(
        &'a self,
        filter: &'a JobFilter,
        after: Option<&'a str>,
        limit: u32,
    ) -> Answer<'a, Page<Job, String>> {
        Box::pin(self.node().list_jobs(filter, after, limit))
    }

    fn last_runs<'a>(&'a self, jobs: &'a [JobId]) -> Answer<'a, Vec<LastRun>> {
        Box::pin(self.node().last_runs(jobs))
    }

    fn run(&self, id: RunId) -> Answer<'_, Option<RunView>> {
        Box::pin(self.node().run(id))
    }

    fn list_runs<'a>(
        &'a self,
        filter: &'a RunFilter,
        before: Option<RunId>,
        limit: u32,
    ) -> Answer<'a, Page<RunView, RunId>> {
        Box::pin(self.node().list_runs(filter, before, limit))
    }

    fn attempts(&self, run: RunId) -> Answer<'_, Vec<AttemptView>> {
        Box::pin(self.node().attempts(run))
    }

    fn counts(&self) -> Answer<'_, Counts> {
        Box::pin(self.node().counts())
    }

    fn acknowledge<'a>(&'a self, runs: &'a [RunId]) -> Answer<'a, Vec<bool>> {
        Box::pin(self.node().acknowledge(runs))
    }

    fn nodes(&self) -> Answer<'_, Vec<NodeView>> {
        Box::pin(self.node().nodes())
    }

    fn put_object<'a>(&'a self, object: &'a Object, expected: u32) -> Answer<'a, Put> {
        Box::pin(self.node().put_object(object, expected))
    }

    fn remove_object(&self, tenant: TenantId, id: ObjectId, expected: u32) -> Answer<'_, Set> {
        Box::pin(self.node().remove_object(tenant, id, expected))
    }

    fn object(&self, id: ObjectId) -> Answer<'_, Option<Object>> {
        Box::pin(self.node().object(id))
    }

    fn object_by_name<'a>(
        &'a self,
        tenant: TenantId,
        kind: ObjectKind,
        name: &'a str,
    ) -> Answer<'a, Option<Object>> {
        Box::pin(self.node().object_by_name(tenant, kind, name))
    }

    fn list_objects<'a>(
        &'a self,
        tenant: TenantId,
        kind: ObjectKind,
        after: Option<&'a str>,
        limit: u32,
    ) -> Answer<'a, Page<Object, String>> {
        Box::pin(self.node().list_objects(tenant, kind, after, limit))
    }

    fn deliveries<'a>(
        &'a self,
        channel: &'a str,
        before: Option<DeliveryKey>,
        limit: u32,
    ) -> Answer<'a, Page<DeliveryView, DeliveryKey>> {
        Box::pin(self.node().deliveries(channel, before, limit))
    }

    fn begin_request<'a>(
        &'a self,
        tenant: TenantId,
        key: &'a str,
        fingerprint: &'a [u8],
    ) -> Answer<'a, Begun> {
        Box::pin(self.node().begin_request(tenant, key, fingerprint))
    }

    fn finish_request<'a>(
        &'a self,
        tenant: TenantId,
        key: &'a str,
        answer: Option<&'a Kept>,
    ) -> Answer<'a, ()> {
        Box::pin(self.node().finish_request(tenant, key, answer))
    }

    fn stats(&self, tenant: TenantId) -> Answer<'_, Stats> {
        Box::pin(self.node().stats(tenant))
    }

    fn job_stats<'a>(
        &'a self,
        tenant: TenantId,
        jobs: &'a [JobId],
        hours: u32,
    ) -> Answer<'a, HashMap<JobId, Summary>> {
        Box::pin(self.node().job_stats(tenant, jobs, hours))
    }

    fn settings(&self) -> Answer<'_, Vec<Setting>> {
        Box::pin(self.node().settings())
    }

    fn set<'a>(&'a self, name: &'a str, value: Option<&'a str>, expected: u32) -> Answer<'a, Set> {
        Box::pin(self.node().set(name, value, expected))
    }

    fn audit<'a>(
        &'a self,
        filter: &'a AuditFilter,
        from: Option<i64>,
        limit: u32,
    ) -> Answer<'a, Vec<Record>> {
        Box::pin(self.node().audit(filter, from, limit))
    }

    fn verify_audit(&self, tenant: TenantId, known: Option<Seal>) -> Answer<'_, Verified> {
        Box::pin(async move { Ok(self.node().verify_audit(tenant, known).await?) })
    }

    fn record(&self, event: Event) -> Answer<'_, ()> {
        Box::pin(self.node().record(event))
    }

    fn ended(&self, after: Cursor, until: Timestamp, limit: u32) -> Answer<'_, Vec<EndedRun>> {
        Box::pin(self.node().ended(after, until, limit))
    }

    fn changed_jobs(&self, after: Cursor, limit: u32) -> Answer<'_, Vec<Job>> {
        Box::pin(self.node().changed_jobs(after, limit))
    }
}
