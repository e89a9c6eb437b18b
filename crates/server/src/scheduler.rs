//! The engine as the doors see it: the same whatever its store.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use domain::access::{Actor, ApiKey, Award, Entry, Kind, Record, Standing};
use domain::audit::{self, Event, Seal};
use domain::decide::explain::Explanation;
use domain::id::{JobId, KeyId, ObjectId, RunId, TenantId, UserId};
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
use uuid::Uuid;

use crate::problem::Problem;

/// An answer that takes a while.
pub type Answer<'a, T, E = engine::EngineError> =
    Pin<Box<dyn Future<Output = std::result::Result<T, E>> + Send + 'a>>;

/// A change of a job that can be refused.
pub type Edit = Box<dyn FnOnce(&mut Job) -> std::result::Result<(), Problem> + Send>;

/// What the doors ask of an engine: everything in the name of an actor, and refused if they may
/// not. What is not theirs is answered like what does not exist.
pub trait Scheduler: Directory {
    /// Whether the store answers.
    fn is_ready(&self) -> bool;
    /// What this process has done since its start.
    fn activity(&self) -> Activity;
    /// How much there is of what, in all tenants.
    fn counts(&self) -> Answer<'_, Counts>;
    /// Whether a run of any tenant is known.
    fn knows_run(&self, id: RunId) -> Answer<'_, bool>;
    /// Creates jobs of the actor, each on its own.
    fn create_jobs<'a>(
        &'a self,
        actor: &'a Actor,
        jobs: Vec<NewJob>,
    ) -> Answer<'a, Vec<Result<Job>>>;
    /// Changes a job if the change agrees to it.
    fn alter_job<'a>(&'a self, actor: &'a Actor, id: JobId, edit: Edit)
    -> Answer<'a, Job, Problem>;
    /// Holds a job.
    fn pause_job<'a>(&'a self, actor: &'a Actor, id: JobId) -> Answer<'a, Job>;
    /// Lets a job go on.
    fn resume_job<'a>(&'a self, actor: &'a Actor, id: JobId) -> Answer<'a, Job>;
    /// Removes a job if it has the expected version, and with `cascade` the dependencies of others
    /// on it.
    fn delete_job<'a>(
        &'a self,
        actor: &'a Actor,
        id: JobId,
        cascade: bool,
        expected: Option<u32>,
    ) -> Answer<'a, ()>;
    /// Whether a job could be created.
    fn check_job<'a>(&'a self, actor: &'a Actor, job: NewJob) -> Answer<'a, ()>;
    /// Starts a run by hand, under the given id if there is one; a run that has it already is the
    /// answer. Durable when it answers.
    fn trigger<'a>(
        &'a self,
        actor: &'a Actor,
        id: JobId,
        trigger: Trigger,
        run: Option<RunId>,
    ) -> Answer<'a, NewRun>;
    /// Starts an ended run once more.
    fn redrive<'a>(&'a self, actor: &'a Actor, run: RunId) -> Answer<'a, NewRun>;
    /// Asks for the end of a run.
    fn cancel<'a>(&'a self, actor: &'a Actor, run: RunId, text: &'a str) -> Answer<'a, Cancelled>;
    /// Asks for runs of times that have passed.
    fn backfill<'a>(
        &'a self,
        actor: &'a Actor,
        id: JobId,
        backfill: Backfill,
    ) -> Answer<'a, Vec<Timestamp>>;
    /// Says why a job did or did not run at a time.
    fn explain<'a>(&'a self, actor: &'a Actor, id: JobId, at: Timestamp)
    -> Answer<'a, Explanation>;
    /// Jobs by id.
    fn jobs_by_id<'a>(&'a self, actor: &'a Actor, ids: &'a [JobId]) -> Answer<'a, Vec<Job>>;
    /// A job by its name.
    fn job_by_name<'a>(&'a self, actor: &'a Actor, name: &'a str) -> Answer<'a, Option<Job>>;
    /// The jobs that a filter lets through, by name.
    fn list_jobs<'a>(
        &'a self,
        actor: &'a Actor,
        filter: &'a JobFilter,
        after: Option<&'a str>,
        limit: u32,
    ) -> Answer<'a, Page<Job, String>>;
    /// A run.
    fn run<'a>(&'a self, actor: &'a Actor, id: RunId) -> Answer<'a, Option<RunView>>;
    /// The runs that a filter lets through, newest first.
    fn list_runs<'a>(
        &'a self,
        actor: &'a Actor,
        filter: &'a RunFilter,
        before: Option<RunId>,
        limit: u32,
    ) -> Answer<'a, Page<RunView, RunId>>;
    /// A run's ended attempts.
    fn attempts<'a>(&'a self, actor: &'a Actor, run: RunId) -> Answer<'a, Vec<AttemptView>>;
    /// Marks dead letters as seen to. Answers for each whether it was there.
    fn acknowledge<'a>(&'a self, actor: &'a Actor, runs: &'a [RunId]) -> Answer<'a, Vec<bool>>;
    /// The nodes of the cluster.
    fn nodes<'a>(&'a self, actor: &'a Actor) -> Answer<'a, Vec<NodeView>>;
    /// How the tenant's jobs are doing.
    fn stats<'a>(&'a self, actor: &'a Actor) -> Answer<'a, Stats>;
    /// How the runs of some jobs ended in this hour and so many before.
    fn job_stats<'a>(
        &'a self,
        actor: &'a Actor,
        jobs: &'a [JobId],
        hours: u32,
    ) -> Answer<'a, HashMap<JobId, Summary>>;
    /// What the whole cluster agrees on.
    fn settings<'a>(&'a self, actor: &'a Actor) -> Answer<'a, Vec<Setting>>;
    /// Changes a setting, or removes it.
    fn set<'a>(
        &'a self,
        actor: &'a Actor,
        name: &'a str,
        value: Option<&'a str>,
        expected: u32,
    ) -> Answer<'a, Set>;
    /// What was done, newest first, from the given place backwards.
    fn audit<'a>(
        &'a self,
        actor: &'a Actor,
        filter: &'a AuditFilter,
        from: Option<i64>,
        limit: u32,
    ) -> Answer<'a, Vec<audit::Record>>;
    /// Looks at a tenant's whole chain of what was done.
    fn verify_audit<'a>(
        &'a self,
        actor: &'a Actor,
        tenant: TenantId,
        known: Option<Seal>,
    ) -> Answer<'a, Verified>;
    /// Records what no other command does.
    fn record(&self, event: Event) -> Answer<'_, ()>;
    /// Runs that ended after the cursor and before a time, in that order, and where to go on.
    fn ended<'a>(
        &'a self,
        actor: &'a Actor,
        after: Cursor,
        until: Timestamp,
        limit: u32,
    ) -> Answer<'a, (Vec<EndedRun>, Option<Cursor>)>;
    /// Jobs that were changed after the cursor, in that order, and where to go on.
    fn changed_jobs<'a>(
        &'a self,
        actor: &'a Actor,
        after: Cursor,
        limit: u32,
    ) -> Answer<'a, (Vec<Job>, Option<Cursor>)>;
    /// The last runs of jobs whose runs the actor sees; a job without one is left out.
    fn last_runs<'a>(&'a self, actor: &'a Actor, jobs: &'a [JobId]) -> Answer<'a, Vec<LastRun>>;
    /// Makes an object, or changes the one that still has the expected version.
    fn put_object<'a>(
        &'a self,
        actor: &'a Actor,
        object: &'a Object,
        expected: u32,
    ) -> Answer<'a, Put>;
    /// Removes an object if it still has the expected version.
    fn remove_object<'a>(&'a self, actor: &'a Actor, object: &'a Object) -> Answer<'a, Set>;
    /// An object by its id.
    fn object<'a>(&'a self, actor: &'a Actor, id: ObjectId) -> Answer<'a, Option<Object>>;
    /// An object by its name.
    fn object_by_name<'a>(
        &'a self,
        actor: &'a Actor,
        kind: ObjectKind,
        name: &'a str,
    ) -> Answer<'a, Option<Object>>;
    /// The tenant's objects of a kind, by name.
    fn list_objects<'a>(
        &'a self,
        actor: &'a Actor,
        kind: ObjectKind,
        after: Option<&'a str>,
        limit: u32,
    ) -> Answer<'a, Page<Object, String>>;
    /// What a channel has tried to deliver, newest first.
    fn deliveries<'a>(
        &'a self,
        actor: &'a Actor,
        channel: ObjectId,
        before: Option<DeliveryKey>,
        limit: u32,
    ) -> Answer<'a, Page<DeliveryView, DeliveryKey>>;
    /// A request begins that its caller may send again under the same key.
    fn begin_request<'a>(
        &'a self,
        actor: &'a Actor,
        key: &'a str,
        fingerprint: &'a [u8],
    ) -> Answer<'a, Begun>;
    /// Keeps the answer to a request, or lets it be made anew.
    fn finish_request<'a>(
        &'a self,
        actor: &'a Actor,
        key: &'a str,
        answer: Option<&'a Kept>,
    ) -> Answer<'a, ()>;
}

/// What the doors ask about identity.
pub trait Directory: Send + Sync + 'static {
    /// A key and its user, if both are there and the user is not disabled.
    fn key(&self, id: KeyId) -> Answer<'_, Option<(Arc<ApiKey>, Arc<Standing>)>>;
    /// The tenant of a name.
    fn tenant_named<'a>(&'a self, name: &'a str) -> Answer<'a, Option<TenantId>>;
    /// A user with all that they have.
    fn standing(&self, user: UserId) -> Answer<'_, Option<Arc<Standing>>>;
    /// The user of a name in a tenant of a name, for a door that checks their password.
    fn user_named<'a>(
        &'a self,
        tenant: &'a str,
        name: &'a str,
    ) -> Answer<'a, Option<Arc<Standing>>>;
    /// Keeps the key that a login made.
    fn open_session(&self, key: ApiKey) -> Answer<'_, Record>;
    /// Entries of a kind by name, of one user or of the tenant.
    fn list_entries<'a>(
        &'a self,
        actor: &'a Actor,
        kind: Kind,
        owner: Option<UserId>,
        after: Option<&'a str>,
        limit: u32,
    ) -> Answer<'a, Page<Record, String>>;
    /// An entry by its name or id.
    fn entry<'a>(&'a self, actor: &'a Actor, kind: Kind, text: &'a str) -> Answer<'a, Record>;
    /// Makes an entry, or changes the one of the expected version.
    fn put_entry<'a>(
        &'a self,
        actor: &'a Actor,
        entry: Entry,
        expected: Option<u32>,
    ) -> Answer<'a, Record>;
    /// Removes an entry with what belongs to it.
    fn remove_entry<'a>(
        &'a self,
        actor: &'a Actor,
        entry: &'a Entry,
        expected: Option<u32>,
    ) -> Answer<'a, ()>;
    /// Gives something to a user or a role. Answers whether it is new.
    fn award<'a>(&'a self, actor: &'a Actor, award: Award) -> Answer<'a, bool>;
    /// An award by its id.
    fn award_by_id<'a>(&'a self, actor: &'a Actor, id: Uuid) -> Answer<'a, Award>;
    /// What was given in the tenant, to everybody or to one.
    fn list_awards<'a>(
        &'a self,
        actor: &'a Actor,
        to: Option<Uuid>,
        after: Option<Uuid>,
        limit: u32,
    ) -> Answer<'a, Page<Award, Uuid>>;
    /// Takes an award away.
    fn revoke<'a>(&'a self, actor: &'a Actor, id: Uuid) -> Answer<'a, ()>;
}

impl<S: FullStore> Scheduler for Engine<S> {
    fn is_ready(&self) -> bool {
        self.is_ready()
    }

    fn activity(&self) -> Activity {
        self.activity()
    }

    fn counts(&self) -> Answer<'_, Counts> {
        Box::pin(self.node().counts())
    }

    fn knows_run(&self, id: RunId) -> Answer<'_, bool> {
        Box::pin(async move { Ok(self.node().run(id).await?.is_some()) })
    }

    fn create_jobs<'a>(
        &'a self,
        actor: &'a Actor,
        jobs: Vec<NewJob>,
    ) -> Answer<'a, Vec<Result<Job>>> {
        Box::pin(async move { self.by(actor).create_jobs(jobs).await })
    }

    fn alter_job<'a>(
        &'a self,
        actor: &'a Actor,
        id: JobId,
        edit: Edit,
    ) -> Answer<'a, Job, Problem> {
        Box::pin(async move { self.by(actor).alter_job(id, edit).await })
    }

    fn pause_job<'a>(&'a self, actor: &'a Actor, id: JobId) -> Answer<'a, Job> {
        Box::pin(async move { self.by(actor).pause_job(id).await })
    }

    fn resume_job<'a>(&'a self, actor: &'a Actor, id: JobId) -> Answer<'a, Job> {
        Box::pin(async move { self.by(actor).resume_job(id).await })
    }

    fn delete_job<'a>(
        &'a self,
        actor: &'a Actor,
        id: JobId,
        cascade: bool,
        expected: Option<u32>,
    ) -> Answer<'a, ()> {
        Box::pin(async move { self.by(actor).delete_job(id, cascade, expected).await })
    }

    fn check_job<'a>(&'a self, actor: &'a Actor, job: NewJob) -> Answer<'a, ()> {
        Box::pin(async move { self.by(actor).check_job(job).await })
    }

    fn trigger<'a>(
        &'a self,
        actor: &'a Actor,
        id: JobId,
        trigger: Trigger,
        run: Option<RunId>,
    ) -> Answer<'a, NewRun> {
        Box::pin(async move { self.by(actor).trigger(id, trigger, run).await })
    }

    fn redrive<'a>(&'a self, actor: &'a Actor, run: RunId) -> Answer<'a, NewRun> {
        Box::pin(async move { self.by(actor).redrive(run).await })
    }

    fn cancel<'a>(&'a self, actor: &'a Actor, run: RunId, text: &'a str) -> Answer<'a, Cancelled> {
        Box::pin(async move { self.by(actor).cancel(run, text).await })
    }

    fn backfill<'a>(
        &'a self,
        actor: &'a Actor,
        id: JobId,
        backfill: Backfill,
    ) -> Answer<'a, Vec<Timestamp>> {
        Box::pin(async move { self.by(actor).backfill(id, backfill).await })
    }

    fn explain<'a>(
        &'a self,
        actor: &'a Actor,
        id: JobId,
        at: Timestamp,
    ) -> Answer<'a, Explanation> {
        Box::pin(async move { self.by(actor).explain(id, at).await })
    }

    fn jobs_by_id<'a>(&'a self, actor: &'a Actor, ids: &'a [JobId]) -> Answer<'a, Vec<Job>> {
        Box::pin(async move { self.by(actor).jobs_by_id(ids).await })
    }

    fn job_by_name<'a>(&'a self, actor: &'a Actor, name: &'a str) -> Answer<'a, Option<Job>> {
        Box::pin(async move { self.by(actor).job_by_name(name).await })
    }

    fn list_jobs<'a>(
        &'a self,
        actor: &'a Actor,
        filter: &'a JobFilter,
        after: Option<&'a str>,
        limit: u32,
    ) -> Answer<'a, Page<Job, String>> {
        Box::pin(async move { self.by(actor).list_jobs(filter, after, limit).await })
    }

    fn run<'a>(&'a self, actor: &'a Actor, id: RunId) -> Answer<'a, Option<RunView>> {
        Box::pin(async move { self.by(actor).run(id).await })
    }

    fn list_runs<'a>(
        &'a self,
        actor: &'a Actor,
        filter: &'a RunFilter,
        before: Option<RunId>,
        limit: u32,
    ) -> Answer<'a, Page<RunView, RunId>> {
        Box::pin(async move { self.by(actor).list_runs(filter, before, limit).await })
    }

    fn attempts<'a>(&'a self, actor: &'a Actor, run: RunId) -> Answer<'a, Vec<AttemptView>> {
        Box::pin(async move { self.by(actor).attempts(run).await })
    }

    fn acknowledge<'a>(&'a self, actor: &'a Actor, runs: &'a [RunId]) -> Answer<'a, Vec<bool>> {
        Box::pin(async move { self.by(actor).acknowledge(runs).await })
    }

    fn nodes<'a>(&'a self, actor: &'a Actor) -> Answer<'a, Vec<NodeView>> {
        Box::pin(async move { self.by(actor).nodes().await })
    }

    fn stats<'a>(&'a self, actor: &'a Actor) -> Answer<'a, Stats> {
        Box::pin(async move { self.by(actor).stats().await })
    }

    fn job_stats<'a>(
        &'a self,
        actor: &'a Actor,
        jobs: &'a [JobId],
        hours: u32,
    ) -> Answer<'a, HashMap<JobId, Summary>> {
        Box::pin(async move { self.by(actor).job_stats(jobs, hours).await })
    }

    fn settings<'a>(&'a self, actor: &'a Actor) -> Answer<'a, Vec<Setting>> {
        Box::pin(async move { self.by(actor).settings().await })
    }

    fn set<'a>(
        &'a self,
        actor: &'a Actor,
        name: &'a str,
        value: Option<&'a str>,
        expected: u32,
    ) -> Answer<'a, Set> {
        Box::pin(async move { self.by(actor).set(name, value, expected).await })
    }

    fn audit<'a>(
        &'a self,
        actor: &'a Actor,
        filter: &'a AuditFilter,
        from: Option<i64>,
        limit: u32,
    ) -> Answer<'a, Vec<audit::Record>> {
        Box::pin(async move { self.by(actor).audit(filter, from, limit).await })
    }

    fn verify_audit<'a>(
        &'a self,
        actor: &'a Actor,
        tenant: TenantId,
        known: Option<Seal>,
    ) -> Answer<'a, Verified> {
        Box::pin(async move { self.by(actor).verify_audit(tenant, known).await })
    }

    fn record(&self, event: Event) -> Answer<'_, ()> {
        Box::pin(self.node().record(event))
    }

    fn ended<'a>(
        &'a self,
        actor: &'a Actor,
        after: Cursor,
        until: Timestamp,
        limit: u32,
    ) -> Answer<'a, (Vec<EndedRun>, Option<Cursor>)> {
        Box::pin(async move { self.by(actor).ended(after, until, limit).await })
    }

    fn changed_jobs<'a>(
        &'a self,
        actor: &'a Actor,
        after: Cursor,
        limit: u32,
    ) -> Answer<'a, (Vec<Job>, Option<Cursor>)> {
        Box::pin(async move { self.by(actor).changed_jobs(after, limit).await })
    }

    fn last_runs<'a>(&'a self, actor: &'a Actor, jobs: &'a [JobId]) -> Answer<'a, Vec<LastRun>> {
        Box::pin(async move { self.by(actor).last_runs(jobs).await })
    }

    fn put_object<'a>(
        &'a self,
        actor: &'a Actor,
        object: &'a Object,
        expected: u32,
    ) -> Answer<'a, Put> {
        Box::pin(async move { self.by(actor).put_object(object, expected).await })
    }

    fn remove_object<'a>(&'a self, actor: &'a Actor, object: &'a Object) -> Answer<'a, Set> {
        Box::pin(async move { self.by(actor).remove_object(object).await })
    }

    fn object<'a>(&'a self, actor: &'a Actor, id: ObjectId) -> Answer<'a, Option<Object>> {
        Box::pin(async move { self.by(actor).object(id).await })
    }

    fn object_by_name<'a>(
        &'a self,
        actor: &'a Actor,
        kind: ObjectKind,
        name: &'a str,
    ) -> Answer<'a, Option<Object>> {
        Box::pin(async move { self.by(actor).object_by_name(kind, name).await })
    }

    fn list_objects<'a>(
        &'a self,
        actor: &'a Actor,
        kind: ObjectKind,
        after: Option<&'a str>,
        limit: u32,
    ) -> Answer<'a, Page<Object, String>> {
        Box::pin(async move { self.by(actor).list_objects(kind, after, limit).await })
    }

    fn deliveries<'a>(
        &'a self,
        actor: &'a Actor,
        channel: ObjectId,
        before: Option<DeliveryKey>,
        limit: u32,
    ) -> Answer<'a, Page<DeliveryView, DeliveryKey>> {
        Box::pin(async move { self.by(actor).deliveries(channel, before, limit).await })
    }

    fn begin_request<'a>(
        &'a self,
        actor: &'a Actor,
        key: &'a str,
        fingerprint: &'a [u8],
    ) -> Answer<'a, Begun> {
        Box::pin(async move { self.by(actor).begin_request(key, fingerprint).await })
    }

    fn finish_request<'a>(
        &'a self,
        actor: &'a Actor,
        key: &'a str,
        answer: Option<&'a Kept>,
    ) -> Answer<'a, ()> {
        Box::pin(async move { self.by(actor).finish_request(key, answer).await })
    }
}

impl<S: FullStore> Directory for Engine<S> {
    fn key(&self, id: KeyId) -> Answer<'_, Option<(Arc<ApiKey>, Arc<Standing>)>> {
        Box::pin(self.node().key(id))
    }

    fn tenant_named<'a>(&'a self, name: &'a str) -> Answer<'a, Option<TenantId>> {
        Box::pin(self.node().tenant_named(name))
    }

    fn standing(&self, user: UserId) -> Answer<'_, Option<Arc<Standing>>> {
        Box::pin(self.node().standing(user))
    }

    fn user_named<'a>(
        &'a self,
        tenant: &'a str,
        name: &'a str,
    ) -> Answer<'a, Option<Arc<Standing>>> {
        Box::pin(self.user_named(tenant, name))
    }

    fn open_session(&self, key: ApiKey) -> Answer<'_, Record> {
        Box::pin(self.open_session(key))
    }

    fn list_entries<'a>(
        &'a self,
        actor: &'a Actor,
        kind: Kind,
        owner: Option<UserId>,
        after: Option<&'a str>,
        limit: u32,
    ) -> Answer<'a, Page<Record, String>> {
        Box::pin(async move { self.by(actor).list_entries(kind, owner, after, limit).await })
    }

    fn entry<'a>(&'a self, actor: &'a Actor, kind: Kind, text: &'a str) -> Answer<'a, Record> {
        Box::pin(async move { self.by(actor).entry(kind, text).await })
    }

    fn put_entry<'a>(
        &'a self,
        actor: &'a Actor,
        entry: Entry,
        expected: Option<u32>,
    ) -> Answer<'a, Record> {
        Box::pin(async move { self.by(actor).put_entry(entry, expected).await })
    }

    fn remove_entry<'a>(
        &'a self,
        actor: &'a Actor,
        entry: &'a Entry,
        expected: Option<u32>,
    ) -> Answer<'a, ()> {
        Box::pin(async move { self.by(actor).remove_entry(entry, expected).await })
    }

    fn award<'a>(&'a self, actor: &'a Actor, award: Award) -> Answer<'a, bool> {
        Box::pin(async move { self.by(actor).award(award).await })
    }

    fn award_by_id<'a>(&'a self, actor: &'a Actor, id: Uuid) -> Answer<'a, Award> {
        Box::pin(async move { self.by(actor).award_by_id(id).await })
    }

    fn list_awards<'a>(
        &'a self,
        actor: &'a Actor,
        to: Option<Uuid>,
        after: Option<Uuid>,
        limit: u32,
    ) -> Answer<'a, Page<Award, Uuid>> {
        Box::pin(async move { self.by(actor).list_awards(to, after, limit).await })
    }

    fn revoke<'a>(&'a self, actor: &'a Actor, id: Uuid) -> Answer<'a, ()> {
        Box::pin(async move { self.by(actor).revoke(id).await })
    }
}
