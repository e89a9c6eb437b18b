//! The engine as the doors see it: the same whatever its store.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::access::{Actor, ApiKey, Award, Entry, Kind, Record, Standing, User, Verifier};
use domain::audit::{self, Event, KeptHead};
use domain::decide::explain::Explanation;
use domain::id::{JobId, KeyId, NodeId, ObjectId, RunId, TenantId, UserId};
use domain::job::Job;
use domain::object::{Object, ObjectKind};
use domain::partition::{Part, Progress};
use domain::run::NewRun;
use domain::schedule::CatchUpPolicy;
use domain::tally::{EndedRun, Summary};
use engine::{
    Acknowledgement, Activity, Answer as Kept, AttemptView, AuditFilter, Backfill, Begun,
    Cancelled, Counts, Cursor, Deletion, DeliveryKey, DeliveryView, Engine, FullStore, Health,
    Holder, JobFilter, LastRun, NewJob, NodeView, OwnedShard, Page, Put, Result, RunFilter,
    RunView, Set, Setting, StartFilter, StartKey, Stats, Steer, Steered, Trigger, Verified,
};
use jiff::Timestamp;
use uuid::Uuid;

use crate::problem::Problem;

/// An answer that takes a while.
pub type Answer<'a, T, E = engine::EngineError> =
    Pin<Box<dyn Future<Output = std::result::Result<T, E>> + Send + 'a>>;

/// A change of a job that can be refused.
pub type Edit = Box<dyn FnOnce(&mut Job) -> std::result::Result<(), Problem> + Send>;

/// One line for each question: it is asked of an engine in the name of an actor, and
/// [`Acting`](engine::Acting) answers.
macro_rules! in_the_name_of_an_actor {
    ($(#[$about:meta])* $life:lifetime $name:ident {
        $($(#[$doc:meta])* $verb:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)*
    }) => {
        $(#[$about])*
        pub trait $name: Backstage {
            $($(#[$doc])*
            fn $verb<$life>(&$life self, actor: &$life Actor $(, $arg: $kind)*) -> $answer;)*
        }

        impl<S: FullStore> $name for Engine<S> {
            $(fn $verb<$life>(&$life self, actor: &$life Actor $(, $arg: $kind)*) -> $answer {
                Box::pin(async move { self.by(actor).$verb($($arg),*).await })
            })*
        }
    };
}

in_the_name_of_an_actor! {
    /// What the doors ask of an engine: everything in the name of an actor, and refused if they may
    /// not. What is not theirs is answered like what does not exist.
    'a Scheduler {
        /// Creates jobs of the actor, each on its own.
        create_jobs(jobs: Vec<NewJob>) -> Answer<'a, Vec<Result<Job>>>;
        /// Changes a job if the change agrees to it.
        alter_job(id: JobId, edit: Edit) -> Answer<'a, Job, Problem>;
        /// Holds a job.
        pause_job(id: JobId) -> Answer<'a, Job>;
        /// Lets a job go on.
        resume_job(id: JobId, catch_up: Option<CatchUpPolicy>) -> Answer<'a, Job>;
        /// Removes a job.
        delete_job(id: JobId, deletion: Deletion) -> Answer<'a, Vec<String>>;
        /// Whether a job could be created.
        check_job(job: NewJob) -> Answer<'a, ()>;
        /// Starts a run by hand, under the given id if there is one; a run that has it already is the
        /// answer. Durable when it answers.
        trigger(id: JobId, trigger: Trigger, run: Option<RunId>) -> Answer<'a, NewRun>;
        /// The same of the job that has this id or this name.
        trigger_named(job: &'a str, trigger: Trigger, run: Option<RunId>) -> Answer<'a, NewRun>;
        /// Starts an ended run once more.
        redrive(run: RunId) -> Answer<'a, NewRun>;
        /// Asks for the end of a run.
        cancel(run: RunId, text: &'a str) -> Answer<'a, Cancelled>;
        /// Asks for runs of times that have passed.
        backfill(id: JobId, backfill: Backfill) -> Answer<'a, Vec<Timestamp>>;
        /// Says why a job did or did not run at a time.
        explain(id: JobId, at: Timestamp) -> Answer<'a, Explanation>;
        /// Jobs by id.
        jobs_by_id(ids: &'a [JobId]) -> Answer<'a, Vec<Job>>;
        /// A job by its name.
        job_by_name(name: &'a str) -> Answer<'a, Option<Job>>;
        /// The jobs that a filter lets through, by name.
        list_jobs(filter: &'a JobFilter, after: Option<&'a str>, limit: u32)
            -> Answer<'a, Page<Job, String>>;
        /// A run.
        run(id: RunId) -> Answer<'a, Option<RunView>>;
        /// The runs that a filter lets through, newest first.
        list_runs(filter: &'a RunFilter, before: Option<RunId>, limit: u32)
            -> Answer<'a, Page<RunView, RunId>>;
        /// The jobs of runs that are shown, perhaps as they were a few seconds ago.
        jobs_of(seen: &'a [RunView]) -> Answer<'a, Vec<Arc<Job>>>;
        /// Ended runs of a job by when they began, latest first.
        latest_starts(filter: &'a StartFilter, after: Option<StartKey>, limit: u32)
            -> Answer<'a, Page<RunView, StartKey>>;
        /// Runs with attempts that were not their last word, newest first.
        retried(before: Option<RunId>, limit: u32) -> Answer<'a, Page<RunView, RunId>>;
        /// A run's ended attempts.
        attempts(run: RunId) -> Answer<'a, Vec<AttemptView>>;
        /// The output of an attempt as its agent compressed it, if it is kept with the record;
        /// empty if it is in files of the node that executed it.
        attempt_output(run: RunId, number: u32) -> Answer<'a, Option<Vec<u8>>>;
        /// Marks dead letters as seen to. Answers for each whether it was there.
        acknowledge(runs: &'a [RunId]) -> Answer<'a, Vec<bool>>;
        /// The nodes of the cluster.
        nodes() -> Answer<'a, Vec<NodeView>>;
        /// The shards of the tenant and who owns them.
        shards() -> Answer<'a, Vec<OwnedShard>>;
        /// The parts of a run, in their order; none when it was not divided.
        parts(run: RunId) -> Answer<'a, Vec<Part>>;
        /// How far those of these runs have come that were divided.
        progress(seen: &'a [RunView]) -> Answer<'a, HashMap<RunId, Progress>>;
        /// Of which run each of these is a part.
        parents(seen: &'a [RunView]) -> Answer<'a, HashMap<RunId, RunId>>;
        /// Drains, resumes or removes a node.
        steer(node: NodeId, steer: Steer) -> Answer<'a, Steered>;
        /// What every node should run with, once a leader has said it.
        policy() -> Answer<'a, Option<Setting>>;
        /// Who has acknowledged a run.
        acknowledgements(run: RunId) -> Answer<'a, Vec<Acknowledgement>>;
        /// How the tenant's jobs are doing.
        stats() -> Answer<'a, Stats>;
        /// How the runs of some jobs ended in this hour and so many before.
        job_stats(jobs: &'a [JobId], hours: u32) -> Answer<'a, HashMap<JobId, Summary>>;
        /// What the whole cluster agrees on.
        settings() -> Answer<'a, Vec<Setting>>;
        /// Changes a setting, or removes it.
        set(name: &'a str, value: Option<&'a str>, expected: u32) -> Answer<'a, Set>;
        /// What was done, newest first, from the given place backwards.
        audit(filter: &'a AuditFilter, from: Option<i64>, limit: u32)
            -> Answer<'a, Vec<audit::Record>>;
        /// Looks at a tenant's whole chain of what was done.
        verify_audit(tenant: TenantId, known: Option<KeptHead>) -> Answer<'a, Verified>;
        /// Runs that ended after the cursor and before a time, in that order, and where to go on.
        ended(after: Cursor, until: Timestamp, limit: u32)
            -> Answer<'a, (Vec<EndedRun>, Option<Cursor>)>;
        /// Jobs that were changed after the cursor, in that order, and where to go on.
        changed_jobs(after: Cursor, limit: u32) -> Answer<'a, (Vec<Job>, Option<Cursor>)>;
        /// The last runs of jobs whose runs the actor sees; a job without one is left out.
        last_runs(jobs: &'a [JobId]) -> Answer<'a, Vec<LastRun>>;
        /// Makes an object, or changes the one that still has the expected version.
        put_object(object: &'a Object, expected: u32) -> Answer<'a, Put>;
        /// Removes an object if it still has the expected version.
        remove_object(object: &'a Object) -> Answer<'a, Set>;
        /// An object by its id.
        object(id: ObjectId) -> Answer<'a, Option<Object>>;
        /// An object by its name.
        object_by_name(kind: ObjectKind, name: &'a str) -> Answer<'a, Option<Object>>;
        /// The tenant's objects of a kind, by name.
        list_objects(kind: ObjectKind, after: Option<&'a str>, limit: u32)
            -> Answer<'a, Page<Object, String>>;
        /// Makes something of the cluster's: an agent, or the right to become one.
        put_cluster_object(object: &'a Object, expected: u32) -> Answer<'a, Put>;
        /// Removes something of the cluster's.
        remove_cluster_object(object: &'a Object) -> Answer<'a, Set>;
        /// The cluster's objects of a kind, by name.
        list_cluster_objects(kind: ObjectKind, after: Option<&'a str>, limit: u32)
            -> Answer<'a, Page<Object, String>>;
        /// What a channel has tried to deliver, newest first.
        deliveries(channel: ObjectId, before: Option<DeliveryKey>, limit: u32)
            -> Answer<'a, Page<DeliveryView, DeliveryKey>>;
        /// A request begins that its caller may send again under the same key.
        begin_request(key: &'a str, fingerprint: &'a [u8]) -> Answer<'a, Begun>;
        /// Keeps the answer to a request, or lets it be made anew.
        finish_request(key: &'a str, answer: Option<&'a Kept>) -> Answer<'a, ()>;
        /// Entries of a kind by name, of one user or of the tenant.
        list_entries(kind: Kind, owner: Option<UserId>, after: Option<&'a str>, limit: u32)
            -> Answer<'a, Page<Record, String>>;
        /// An entry by its name or id.
        entry(kind: Kind, text: &'a str) -> Answer<'a, Record>;
        /// Makes an entry, or changes the one of the expected version.
        put_entry(entry: Entry, expected: Option<u32>) -> Answer<'a, Record>;
        /// Gives the actor another password than the one that was found to be theirs.
        change_own_password(old: Option<&'a str>, new: String, verifier: Box<Verifier>)
            -> Answer<'a, ()>;
        /// Removes an entry with what belongs to it.
        remove_entry(entry: &'a Entry, expected: Option<u32>) -> Answer<'a, ()>;
        /// Gives something to a user or a role. Answers whether it is new.
        award(award: Award) -> Answer<'a, bool>;
        /// An award by its id.
        award_by_id(id: Uuid) -> Answer<'a, Award>;
        /// What was given in the tenant, to everybody or to one.
        list_awards(to: Option<Uuid>, after: Option<Uuid>, limit: u32)
            -> Answer<'a, Page<Award, Uuid>>;
        /// Takes an award away.
        revoke(id: Uuid) -> Answer<'a, ()>;
    }
}

/// What the doors need before they know who asks, and for themselves.
pub trait Backstage: Send + Sync + 'static {
    /// Whether the scheduler does its work; a loop without an answer for longer than `limit` has
    /// stalled.
    fn health(&self, limit: Duration) -> Health;
    /// Asks the store for its clock: whether it answers now.
    fn ping(&self) -> Answer<'_, ()>;
    /// What this process has done since its start.
    fn activity(&self) -> Activity;
    /// Whether a node is this process, or an agent that it stands in for.
    fn is_here(&self, node: NodeId) -> bool;
    /// How much there is of what, in all tenants.
    fn counts(&self) -> Answer<'_, Counts>;
    /// Whether a run of any tenant is known.
    fn knows_run(&self, id: RunId) -> Answer<'_, bool>;
    /// Records what no other command does.
    fn record(&self, event: Event) -> Answer<'_, ()>;
    /// Records that somebody was refused a deed; many of a kind become one row a minute.
    fn refused<'a>(&'a self, event: Event, deed: &'a str) -> Answer<'a, ()>;
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
    /// Whoever came with a token, with what its roles give; none when it gives nothing here.
    fn holder<'a>(&'a self, holder: &'a Holder) -> Answer<'a, Option<Arc<Standing>>>;
    /// All keys of a user.
    fn keys_of<'a>(&'a self, user: &'a User) -> Answer<'a, Arc<[ApiKey]>>;
    /// What the salts of all users are made of.
    fn salt(&self) -> Answer<'_, [u8; 32]>;
    /// Keeps what the SQL door recognises a password or a key by.
    fn keep_verifier(&self, id: Uuid, verifier: Box<Verifier>) -> Answer<'_, ()>;
    /// Keeps the key that a login made.
    fn open_session(&self, key: ApiKey) -> Answer<'_, Record>;
}

impl<S: FullStore> Backstage for Engine<S> {
    fn health(&self, limit: Duration) -> Health {
        self.health(limit)
    }

    fn ping(&self) -> Answer<'_, ()> {
        Box::pin(self.node().ping())
    }

    fn activity(&self) -> Activity {
        self.activity()
    }

    fn is_here(&self, node: NodeId) -> bool {
        self.is_here(node)
    }

    fn counts(&self) -> Answer<'_, Counts> {
        Box::pin(self.node().counts())
    }

    fn knows_run(&self, id: RunId) -> Answer<'_, bool> {
        Box::pin(async move { Ok(self.node().run(id).await?.is_some()) })
    }

    fn record(&self, event: Event) -> Answer<'_, ()> {
        Box::pin(self.node().record(event))
    }

    fn refused<'a>(&'a self, event: Event, deed: &'a str) -> Answer<'a, ()> {
        Box::pin(self.node().refused(event, deed))
    }

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

    fn holder<'a>(&'a self, holder: &'a Holder) -> Answer<'a, Option<Arc<Standing>>> {
        Box::pin(self.node().holder(holder))
    }

    fn keys_of<'a>(&'a self, user: &'a User) -> Answer<'a, Arc<[ApiKey]>> {
        Box::pin(self.node().keys_of(user))
    }

    fn salt(&self) -> Answer<'_, [u8; 32]> {
        Box::pin(self.node().salt())
    }

    fn keep_verifier(&self, id: Uuid, verifier: Box<Verifier>) -> Answer<'_, ()> {
        Box::pin(self.keep_verifier(id, verifier))
    }

    fn open_session(&self, key: ApiKey) -> Answer<'_, Record> {
        Box::pin(self.open_session(key))
    }
}
