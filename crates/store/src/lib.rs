//! The state of Punctual: traits, and a module for each database behind them.
//!
//! The kernel ([`Store`], [`Cluster`], [`Shards`]) has the operations of the scheduler's loops,
//! written by hand for each database. Everything else is made of [`records`], written once.
//!
//! An operation is one transition of the domain, atomic and durable when it returns, in one round
//! trip for any number of items. Operations know nothing of cron, retries or dependencies: the
//! caller has decided, and the store compares, writes and stamps the time.
//!
//! # Live rows and history
//!
//! Live rows are kept apart from history, so that no query gets slower as history grows. On
//! PostgreSQL a live run is a row of `runs`, and its end moves it to `history`, which is
//! partitioned by time. On SQLite the row of a run is written once; its end is a row of its own,
//! and small tables list the runs that are live, claimable, and held by a node.
//!
//! # Claims, fencing tokens, generations
//!
//! ```text
//!   node joins ──▶ lease ──renew──▶ lease ──renew──▶ … ──(silence)──▶ expired ──▶ dead
//!                    │                                                  │
//!   claim ───────────┴─▶ Grant { run, fence, turn } ──▶ finish          └─▶ its claims are lost
//! ```
//!
//! A node has one lease, for all runs that it holds. A [`Grant`] is the claim of one run: its fence
//! is larger than that of every claim before it, and its turn is the claim generation of the run.
//! Whatever ends a claim (finish, retry, release, loss) raises the generation, so a write under an
//! old claim finds no row. A node whose lease expired is declared dead first, which refuses all its
//! writes, and only then are its runs claimed by other nodes.

use std::future::Future;

use domain::bucket::Buckets;
use domain::facts::StartFacts;
use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::job::{Job, LostAnswer, Retention};
use domain::run::{ClaimedRun, Grant, LedgerEntry, NewRun, Outcome, Reason};
use domain::slot::PerSlot;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

mod alerts;
mod artifacts;
mod audit_log;
mod author;
mod change_feed;
mod cluster;
mod dags;
mod dead_letters;
mod error;
mod filter;
mod grant;
mod idempotency_keys;
mod identity;
mod jobs;
mod lane;
mod lineage;
mod message_queries;
mod messages;
mod named_resources;
mod node_info;
mod output_records;
mod policy;
mod pools;
pub mod postgres;
mod queue_statistics;
pub mod records;
mod run_queries;
mod secret_store;
mod settings;
mod shards;
mod shared;
pub mod sqlite;
mod starts;
mod versions;
mod view;

pub use alerts::{Alerts, Channel, Delivery, DeliveryKey, DeliveryView};
pub use artifacts::{Artifacts, PushedArtifact};
pub use audit_log::{AuditFilter, AuditLog, AuditedEvent, Chain};
pub use author::SYSTEM;
pub use change_feed::{ChangeFeed, Cursor};
pub use cluster::{Acknowledgement, Cluster, NodeControl, NodeControlOutcome, POLICY};
pub use dags::{Advance, Advanced, DagRecords, DagRun, Dags, StepEnd, StepOutcomes};
pub use dead_letters::DeadLetters;
pub use error::{Result, StoreError};
pub use filter::{JobFilter, RunFilter, RunsOf};
pub use grant::{Applied, ClaimRequest, Exchanged, Finish, Verdict};
pub(crate) use grant::{LINE_WAKE, TOKEN_BITS, TOKENS_SINCE, token_floor, token_of_mark};
pub use idempotency_keys::{Answer, IdempotencyKeys, RequestState};
pub use identity::{EffectiveGrants, EntryFilter, GrantOutcome, Identity, Recorded, Removed};
pub use message_queries::{MessagePlace, MessageQueries, QueueLine, WorkspaceDepth};
pub use messages::{
    Deduplication, Extended, HeldLease, LapseKind, Lapsed, LeaseExtension, LeaseRequest, Leased,
    LeasedMessage, Messages, NewMessage, QueueDepth, Sent, SettledMessage, TimeLimit,
};
pub use named_resources::{NamedResources, Put};
pub(crate) use node_info::OUTAGES_MAX;
pub use node_info::{Joined, NodeInfo, Replaces, START_LOG_WAIT};
pub use output_records::OutputRecords;
pub use pools::Pools;
pub use postgres::{PostgresAddress, PostgresOptions, PostgresStore};
pub use queue_statistics::{QueueRates, QueueStatistics, WorkspaceDepths};
pub use records::Records;
pub use run_queries::{AHEAD_MAX, LastRun, LiveCounts, LiveRun, RecentEnd, RunQueries};
pub use secret_store::{KeptSecret, Rewrapped, Sealed, SecretStore, SecretView};
pub use settings::{Set, Setting, Settings};
pub use shards::{Move, OwnedShard, ParentRun, Shards};
pub use shared::{Operation, SharedStore, StoreMetrics};
pub use starts::{StartFilter, StartKey};
pub use versions::{JobRecords, JobVersion, PrunedJobs, VERSIONS_MAX};
pub use view::{AttemptView, NodeView, Page, RunView};

/// A place that keeps jobs, runs and their history.
pub trait Store: Send + Sync + 'static {
    /// The store's clock, by which runs are due and leases expire.
    fn now(&self) -> impl Future<Output = Result<Timestamp>> + Send;

    /// Creates and changes jobs, each on its own: one that conflicts does not stop the others.
    /// An operation with a `by` records the name of its author in the audit.
    fn define(
        &self,
        changes: &[Change],
        by: &str,
    ) -> impl Future<Output = Result<Vec<Changed>>> + Send;

    /// Creates and changes jobs in one transaction, all of them or none: unless every result is
    /// [`Changed::Done`], nothing was written, and the other results have the cause. The changes
    /// concern different jobs with different names.
    fn define_together(
        &self,
        changes: &[Change],
        by: &str,
    ) -> impl Future<Output = Result<Vec<Changed>>> + Send;

    /// The enabled jobs of some buckets whose next time lies at most `ahead` after now, earliest
    /// first.
    fn due_jobs(
        &self,
        ahead: SignedDuration,
        limit: u32,
        of: &Buckets,
    ) -> impl Future<Output = Result<DueJobs>> + Send;

    /// Records the plans of due jobs and moves each job's next time forward, if it still is the one
    /// that the plan was based on. Returns for each whether it was.
    fn fire(&self, batch: &[RecordPlan]) -> impl Future<Output = Result<Vec<bool>>> + Send;

    /// Records requested runs, and claims up to `claim` of those that are due for the submitting
    /// node in the same commit. A run whose id exists already is not recorded again. A run that was
    /// made of another version of its job than the current one, or of a deleted job, is not
    /// recorded either: the caller reads the job again. So a caller may make runs of a job that it
    /// read any time before.
    fn submit(
        &self,
        runs: &[NewRun],
        claim: Option<ClaimFor>,
    ) -> impl Future<Output = Result<Submitted>> + Send;

    /// Ends claims and makes new ones, in one commit.
    fn complete_and_claim(
        &self,
        node: NodeId,
        done: &[Finish],
        want: ClaimRequest,
    ) -> impl Future<Output = Result<Exchanged>> + Send;

    /// Everything that a node holds, after every call of the node that was sent before. A node
    /// asks when the answer to a claim was lost; nothing when it was declared dead.
    fn held(&self, node: NodeId) -> impl Future<Output = Result<Vec<ClaimedRun>>> + Send;

    /// Facts about runs that are about to start, in the order of the questions.
    fn facts(
        &self,
        node: NodeId,
        questions: &[FactsFor],
    ) -> impl Future<Output = Result<Vec<StartFacts>>> + Send;

    /// Fencing tokens that are larger than all that were drawn before, in their order: for starts
    /// whose facts have become old.
    fn start_tokens(&self, count: usize) -> impl Future<Output = Result<Vec<i64>>> + Send;

    /// Cancels a run: at once when no node holds it, by its holder otherwise.
    fn cancel(
        &self,
        run: RunId,
        reason: &Reason,
        by: &str,
    ) -> impl Future<Output = Result<Cancelled>> + Send;

    /// Registers a node with a lease. A node of the same name that missed heartbeats is replaced by
    /// it, and is gone; if that one was draining, so is this one. The leases of the nodes that it
    /// replaces end. If it is a scheduler and no other one is alive, the time since the last one
    /// was is recorded as an outage.
    fn join(
        &self,
        node: NodeId,
        info: &NodeInfo,
        lease: SignedDuration,
    ) -> impl Future<Output = Result<Joined>> + Send;

    /// Records that runs begin, before they do. Returns for each whether the node still holds it.
    fn begin(
        &self,
        node: NodeId,
        grants: &[Grant],
    ) -> impl Future<Output = Result<Vec<bool>>> + Send;

    /// Decides about a run that is HELD: it is attempted again or ends, with this reason.
    fn decide(
        &self,
        run: RunId,
        answer: LostAnswer,
        reason: &Reason,
        by: &str,
    ) -> impl Future<Output = Result<Decided>> + Send;

    /// Extends a node's lease; none when the lease has expired and its runs may be claimed by
    /// others.
    fn renew(
        &self,
        node: NodeId,
        lease: SignedDuration,
    ) -> impl Future<Output = Result<Option<Renewed>>> + Send;

    /// Replaces the recorded runs under way of a node, with their start times. Nothing is written
    /// when a run starts, so readers on other nodes have the time from here.
    fn record_starts(
        &self,
        node: NodeId,
        starts: &[(Grant, Timestamp)],
    ) -> impl Future<Output = Result<()>> + Send;

    /// Keeps how far the clock of the store is ahead of a node's own: readers on other nodes have it
    /// from there.
    fn record_clock_offset(
        &self,
        node: NodeId,
        offset: SignedDuration,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Notes that a node stops and takes nothing new. If no other scheduler is alive, the outage
    /// begins now and not when the node leaves.
    fn retire(&self, node: NodeId) -> impl Future<Output = Result<()>> + Send;

    /// Ends a node's registration and releases the runs that it had not begun. Begun runs are left
    /// to the reapers. The node is listed as gone for a day.
    fn leave(&self, node: NodeId, begun: &[Grant]) -> impl Future<Output = Result<()>> + Send;

    /// Declares the nodes dead whose lease expired, makes runs claimable whose wait is over, and
    /// returns up to `limit` claims of dead nodes. They are settled with [`Store::settle_lost`].
    fn reap(&self, limit: u32) -> impl Future<Output = Result<Reaped>> + Send;

    /// Settles claims of dead nodes, each with the node that held it.
    fn settle_lost(
        &self,
        lost: &[(NodeId, Finish)],
    ) -> impl Future<Output = Result<Vec<Applied>>> + Send;

    /// Deletes old history, at most `limit` rows; answers how many. PostgreSQL also drops
    /// partitions that are old as a whole, and lets the rows of a large one wait for that.
    fn prune(&self, cut: &RetentionCutoff, limit: u32) -> impl Future<Output = Result<u64>> + Send;

    /// Jobs that keep their history by a rule of their own, by id, after the given one. A deleted
    /// job is among them until a cut of it finds nothing and it has no run left.
    fn retention_rules(
        &self,
        after: Option<JobId>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<(JobId, Retention)>>> + Send;

    /// Jobs by id, in no particular order; unknown and deleted ones are left out.
    fn jobs_by_id(&self, ids: &[JobId]) -> impl Future<Output = Result<Vec<Job>>> + Send;

    /// A tenant's jobs by name, in no particular order; unknown ones are left out.
    fn jobs_by_name(
        &self,
        tenant: TenantId,
        names: &[&str],
    ) -> impl Future<Output = Result<Vec<Job>>> + Send;

    /// A job by its name.
    fn job_by_name(
        &self,
        tenant: TenantId,
        name: &str,
    ) -> impl Future<Output = Result<Option<Job>>> + Send {
        async move { Ok(self.jobs_by_name(tenant, &[name]).await?.pop()) }
    }

    /// The jobs that a filter lets through by name, after the given one. A page can be short, even
    /// empty, and still have a next one: no page looks at more than a few thousand jobs.
    fn list_jobs(
        &self,
        filter: &JobFilter,
        after: Option<&str>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<Job, String>>> + Send;

    /// Which job depends on which, among a tenant's jobs that are not deleted: (job, upstream).
    fn dependencies(
        &self,
        tenant: TenantId,
    ) -> impl Future<Output = Result<Vec<(JobId, JobId)>>> + Send;

    /// A run, live or ended.
    fn run(&self, id: RunId) -> impl Future<Output = Result<Option<RunView>>> + Send;

    /// Runs by their ids, live or ended, in any order. Those that are gone are left out.
    fn runs(&self, ids: &[RunId]) -> impl Future<Output = Result<Vec<RunView>>> + Send;

    /// The runs that a filter lets through, live and ended ones, newest first and older than the
    /// given one; rows for times without a run included.
    ///
    /// The position of a run in the list is fixed by its id: the run neither moves nor doubles when
    /// it ends between two pages. Every run that exists from the first page to the last is seen
    /// once; one that is recorded meanwhile is seen unless its position has been passed. A filter
    /// by state refers to the moment in which the page was made. A page can be short, even empty,
    /// and still have a next one: no page reads more than a few thousand ended runs.
    fn list_runs(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<RunView, RunId>>> + Send;

    /// A run's ended attempts, oldest first.
    fn attempts(&self, run: RunId) -> impl Future<Output = Result<Vec<AttemptView>>> + Send;

    /// How much there is of what.
    fn counts(&self) -> impl Future<Output = Result<Counts>> + Send;

    /// Waits for a hint that something changed: a run can be taken, a job was defined. The hint
    /// may be late, doubled or missing; it is never the truth.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    /// Gives such a hint, here and to other nodes.
    fn hint(&self);

    /// Waits for a hint that a run with a placement request was recorded. Like every hint, it may
    /// be late, doubled or missing.
    fn placed(&self) -> impl Future<Output = ()> + Send;
}

/// Whether one of these runs has a placement request.
pub(crate) fn asks_for_place<'a>(runs: impl IntoIterator<Item = &'a NewRun>) -> bool {
    runs.into_iter().any(|run| !run.place.is_anywhere())
}

/// A store that does everything that a server needs.
pub trait FullStore: Dags + Messages + Shards + Records + RunQueries {}

impl<S: Dags + Messages + Shards + Records + RunQueries> FullStore for S {}

/// A job to be created or changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The job as it shall be, its version included.
    pub job: Job,
    /// The version that the change is based on; none to create the job.
    pub expected: Option<u32>,
    /// Treatment of runs that were prepared for future times.
    pub prepared: Prepared,
    /// A plan that is recorded with the change, in the same commit: that of the times of a pause.
    pub plan: Option<RecordPlan>,
    /// The fields that become others, for the audit; none for a job that is created.
    pub changed: Vec<String>,
}

impl Change {
    /// Details of the audit row, as JSON.
    pub(crate) fn audit_details(&self) -> String {
        let Job { name, version, state, .. } = &self.job;
        let mut details = serde_json::json!({ "name": name, "version": version, "state": state });
        if !self.changed.is_empty() {
            details["changed"] = serde_json::json!(self.changed);
        }
        if let Some(role) = &self.job.definition.run_as {
            details["run_as"] = serde_json::json!(role);
        }
        details.to_string()
    }
}

/// Treatment of a job's prepared runs: ticks whose nominal time has not come and that were never
/// attempted nor cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prepared {
    /// They stay, and so does the job's next time.
    Keep,
    /// They vanish: the schedule that made them is gone, and the change brings the next time.
    Drop,
    /// They vanish, and the job's next time goes back to the first of them. Those that come before
    /// a tick about which something was decided already (it was cancelled, or tried) stay.
    Return,
}

/// Result of a [`Change`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It is done.
    Done,
    /// Another job of the tenant has that name.
    NameTaken(JobId),
    /// The job has this version now. If that is the expected one, time was faster: the schedule
    /// should have ended or changed, and it was due at times that are not planned yet, or the
    /// new one has been due since the change was made up. Plan the job up to now, look at the
    /// clock and try again.
    VersionConflict(u32),
    /// There is no such job.
    NotFound,
    /// The tenant has as many jobs as it may have.
    TooMany,
}

/// Jobs to be planned, and the clock to plan them by.
#[derive(Clone, Debug)]
pub struct DueJobs {
    /// The store's clock.
    pub now: Timestamp,
    /// The jobs; `next_run` is set in all of them.
    pub jobs: Vec<Job>,
}

/// The plan of one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordPlan {
    /// The job.
    pub job: JobId,
    /// The version that was planned.
    pub version: u32,
    /// The next time that was planned from.
    pub expected_next: Timestamp,
    /// The first time that was not planned.
    pub new_next: Option<Timestamp>,
    /// Runs to record.
    pub runs: Vec<NewRun>,
    /// Times that ended without a run.
    pub ledger: Vec<LedgerEntry>,
}

/// A node with free slots for some runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimFor {
    /// The node.
    pub node: NodeId,
    /// How many it takes at most, by their kind of slot.
    pub max: PerSlot<u32>,
}

/// Result of submitting runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Submitted {
    /// For each run whether it is new.
    pub accepted: Vec<bool>,
    /// Those that the asking node holds now.
    pub claimed: Vec<ClaimedRun>,
    /// Those that were not recorded because their job has changed or is gone.
    pub stale: Vec<RunId>,
    /// Jobs that were changed lately, as in [`Exchanged`].
    pub changed_jobs: Vec<(JobId, u32)>,
}

/// Maximum number of changed jobs that are returned with a claim. When there are more, the list has
/// one entry more than this.
pub const CHANGED_JOBS_MAX: usize = 1_000;

/// A question about a run that is about to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactsFor {
    /// The claim.
    pub grant: Grant,
    /// Its job.
    pub job: JobId,
    /// Whether other runs of the job matter.
    pub others: bool,
    /// The jobs whose last ends matter.
    pub upstream: Vec<JobId>,
    /// Whether it matters how far the run is acknowledged.
    pub quorum: bool,
}

/// Result of a cancellation request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// No node held the run: it has ended.
    Ended,
    /// This node holds the run; it is notified with its next renewal.
    Requested(NodeId),
    /// It had ended before.
    EndedBefore(Outcome),
    /// It is a DAG run that has begun: its steps are cancelled, and it ends as they do.
    HasSteps,
    /// There is no such run.
    NotFound,
}

/// Result of a decision about a HELD run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// The run is attempted again.
    Again,
    /// The run has ended like this.
    Ended(Outcome),
    /// The run is not HELD, or there is no such run.
    NotHeld,
}

impl Decided {
    /// The result that an answer leads to.
    pub(crate) fn from_answer(answer: LostAnswer) -> Self {
        match answer {
            LostAnswer::Retry => Decided::Again,
            LostAnswer::Fail => Decided::Ended(Outcome::Failed),
            LostAnswer::Complete => Decided::Ended(Outcome::Completed),
        }
    }
}

/// A renewed lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Runs of the node whose cancellation was requested.
    pub cancel: Vec<RunId>,
    /// Whether the node is drained: it takes no new runs.
    pub draining: bool,
    /// The weights of the tenants whose tier is not the default.
    pub weights: Vec<(TenantId, u32)>,
    /// Whether some tenant may hold only so many runs at a time.
    pub counts_tenants: bool,
    /// The store's clock.
    pub now: Timestamp,
}

/// Result of expiring nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reaped {
    /// Nodes that were declared dead now.
    pub dead: Vec<NodeId>,
    /// Claims that their nodes can no longer use.
    pub lost: Vec<LostRun>,
    /// How many waiting runs became claimable.
    pub woken: u64,
    /// HELD runs whose time for a decision is over, and their jobs.
    pub undecided: Vec<(RunId, JobId)>,
}

/// A run that a dead node held.
#[derive(Clone, Debug, PartialEq)]
pub struct LostRun {
    /// The node.
    pub node: NodeId,
    /// The end of the node's lease: it cannot have begun anything after it.
    pub lease_until: Timestamp,
    /// Whether its start was recorded under this claim.
    pub is_begun: bool,
    /// The run and the claim.
    pub run: ClaimedRun,
}

/// Which history is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionCutoff {
    /// Of this job only; of all jobs without an own rule when absent.
    pub job: Option<JobId>,
    /// Runs that ended earlier.
    pub before: Timestamp,
    /// Failed and timed-out runs that ended earlier.
    pub failed_before: Timestamp,
    /// Of one job: all but the newest so many.
    pub keep_last: Option<u32>,
    /// Of one job: completed runs that are not in the sample.
    pub sample: Option<SampleCutoff>,
}

/// Which completed runs of a job are not kept. The newest one always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleCutoff {
    /// The last four bytes of the ids of the others are below this.
    pub kept_below: [u8; 4],
    /// Runs that ended earlier.
    pub before: Timestamp,
    /// Runs whose ids are of this time or later: those before it were looked at long ago.
    pub since: Timestamp,
}

/// How much there is of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs that are not deleted.
    pub jobs: u64,
    /// Live runs of all tenants by state.
    pub live: LiveCounts,
}
