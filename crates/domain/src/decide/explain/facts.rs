//! Facts that an explanation is made from.

use jiff::{SignedDuration, Timestamp};

use super::division::Division;
use crate::audit::Kind;
use crate::cluster::{NodeState, Quorum};
use crate::id::RunId;
use crate::job::{DependsOn, Job, JobState};
use crate::queue::KeepCompleted;
use crate::run::{Origin, Outcome, RunState, Wait};
use crate::schedule::{Outage, Schedule, Zone};
use crate::slot::SlotKind;

/// A job, its past and the present moment.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The job.
    pub job: &'a Job,
    /// Its schedule; none if it has no scheduled times.
    pub schedule: Option<&'a Schedule>,
    /// Time zone of the explanation.
    pub zone: &'a Zone,
    /// Its creation and changes, newest first.
    pub events: &'a [JobEvent],
    /// Whether the oldest event is older than those that are known.
    pub has_older_events: bool,
    /// Periods in which no scheduler was alive, newest first.
    pub outages: &'a [Outage],
    /// How long its history is kept.
    pub kept: KeptFor,
    /// The current time.
    pub now: Timestamp,
}

/// How long history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptFor {
    /// Days to keep runs.
    pub days: u32,
    /// Days to keep failed runs.
    pub failed_days: u32,
    /// The maximum number of runs to keep.
    pub keep_last: Option<u32>,
    /// Which completed runs are kept.
    pub keep_completed: KeepCompleted,
    /// Whether the job has a rule of its own.
    pub is_own: bool,
}

/// A change of a job, as the audit knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEvent {
    /// Time of the change.
    pub at: Timestamp,
    /// The user.
    pub actor: String,
    /// Created, changed or deleted.
    pub kind: Kind,
    /// The version of the job after it.
    pub version: u32,
    /// The state of the job after it.
    pub state: Option<JobState>,
    /// The name of the job after it.
    pub name: String,
    /// The fields that it changed.
    pub changed: Vec<String>,
    /// The values that changed fields had before it, where they are known.
    pub before: Vec<(String, String)>,
}

impl JobEvent {
    /// A row of the audit. Details that this release cannot read are left out.
    pub fn read(at: Timestamp, actor: String, kind: Kind, details: &str) -> Self {
        let details: serde_json::Value = serde_json::from_str(details).unwrap_or_default();
        let changed = details["changed"].as_array().into_iter().flatten();
        JobEvent {
            at,
            actor,
            kind,
            version: details["version"].as_u64().and_then(|it| it.try_into().ok()).unwrap_or(0),
            state: serde_json::from_value(details["state"].clone()).ok(),
            name: details["name"].as_str().unwrap_or_default().to_owned(),
            changed: changed.filter_map(|it| it.as_str()).map(str::to_owned).collect(),
            before: Vec::new(),
        }
    }
}

/// A deed of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// Time of the action.
    pub at: Timestamp,
    /// The user.
    pub actor: String,
    /// Comment of the user.
    pub text: String,
}

/// A run, or a row for times without one.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFacts {
    /// The id of the run, or of a row without a run.
    pub id: RunId,
    /// Its state or outcome.
    pub state: RunState,
    /// The reason code.
    pub reason: Option<String>,
    /// The text of the reason.
    pub reason_text: Option<String>,
    /// The first scheduled time of the row.
    pub scheduled_for: Timestamp,
    /// The last scheduled time of the row.
    pub scheduled_last: Timestamp,
    /// The number of scheduled times of the row.
    pub count: u64,
    /// Its origin.
    pub origin: Origin,
    /// How many missed times it stands for besides its own.
    pub coalesced: u32,
    /// How many backfilled runs of its job may be at work at a time, if its backfill limits it.
    pub backfill_concurrency: Option<u32>,
    /// When it may start, or might have; between two attempts, when the next one may.
    pub due_at: Timestamp,
    /// How many attempts have ended, without lost ones.
    pub attempts: u32,
    /// How many attempts were lost.
    pub lost: u32,
    /// When its last attempt began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The code of the last attempt's error.
    pub error: Option<String>,
    /// The message of the last attempt.
    pub message: Option<String>,
    /// The name of the node that has claimed it, or made its last attempt.
    pub node: Option<String>,
    /// Whether it is a dead letter that was not acknowledged.
    pub is_dead_letter: bool,
    /// The name of the user that requested it.
    pub requested_by: Option<String>,
    /// The version of the job that it was made from.
    pub job_version: u32,
}

impl RunFacts {
    /// How many attempts have ended, lost ones included.
    pub fn ended_attempts(&self) -> u32 {
        self.attempts + self.lost
    }

    /// `attempt 3 of 5`, of a run of which so many attempts have ended without lost ones. A lost
    /// attempt has a number, and the run may have one more for it.
    pub(super) fn attempt_words(&self, counted: u32, max_attempts: u32) -> String {
        format!("attempt {} of {}", counted + self.lost, max_attempts.max(1) + self.lost)
    }
}

/// Further facts about a run that is explained by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunDetail {
    /// Its wait, if it has not ended.
    pub live: Option<LiveFacts>,
    /// Cancellation request.
    pub cancel: Option<Deed>,
    /// Its ended attempts, oldest first.
    pub attempts: Vec<AttemptFacts>,
    /// Why its first attempt began late, if that is under way and its node has reported it.
    pub waited: Option<String>,
    /// The run that its reason names: that had not ended, or that takes its place.
    pub named_run: Option<OtherRun>,
    /// The run that stands for it.
    pub stand_in: Option<OtherRun>,
    /// The run that it repeats.
    pub repeats: Option<OtherRun>,
    /// Runs that repeat it.
    pub repeated_by: Vec<OtherRun>,
    /// Runs of the job that have begun and not ended; of a run that has begun, those that ended
    /// while it waited.
    pub others: Vec<OtherRun>,
    /// The jobs that it depends on, in the order of the definition.
    pub upstream: Vec<Upstream>,
    /// The acknowledgements of the run, if its job needs a quorum.
    pub quorum: Option<Quorum>,
    /// When the majority was reached.
    pub quorum_at: Option<Timestamp>,
    /// The child runs of a parent run.
    pub division: Option<Division>,
    /// The parent run and the shard of a child run.
    pub part: Option<PartOf>,
    /// Nodes, slots and limits, if it has not ended.
    pub cluster: Option<ClusterFacts>,
    /// When the node of its last attempt joined.
    pub node_joined_at: Option<Timestamp>,
    /// The pool of its job, if it waits for a place.
    pub pool: Option<PoolFacts>,
}

/// A pool and the runs that have its places.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolFacts {
    /// The name of the pool.
    pub name: String,
    /// Its size; none if there is no such pool.
    pub size: Option<u32>,
    /// The total weight of the runs that have a place.
    pub used: u32,
    /// The weight of the run that waits.
    pub weight: u32,
    /// The runs that have a place: the names of their jobs, and their ids; at most ten.
    pub holders: Vec<(String, RunId)>,
    /// How many have a place and are not listed.
    pub others: usize,
    /// How many runs come before it in line.
    pub ahead: usize,
}

/// The place of a child run.
#[derive(Clone, Debug, PartialEq)]
pub struct PartOf {
    /// The parent run.
    pub parent: RunId,
    /// The name of its shard, if it has one.
    pub shard: Option<String>,
    /// The name of the node that owns the shard.
    pub owner: Option<String>,
}

/// Wait of a live run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveFacts {
    /// Its wait besides its time and a node.
    pub wait: Option<Wait>,
    /// When that wait ends at the latest.
    pub wait_until: Option<Timestamp>,
    /// Its priority.
    pub priority: u8,
    /// The kind of slot that it takes.
    pub slot: SlotKind,
    /// Runs of the tenant that are claimed before it.
    pub ahead: u32,
    /// Runs of the job that wait in line before it.
    pub line_ahead: u32,
    /// Whether it is claimed and its node has not begun it.
    pub is_unstarted: bool,
}

/// An ended attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptFacts {
    /// The number of the attempt, from 1.
    pub number: u32,
    /// The name of its node.
    pub node: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// How it ended, by name.
    pub end: String,
    /// The code of its error.
    pub error: Option<String>,
    /// Its message.
    pub message: Option<String>,
    /// Why it began late, as its node saw it.
    pub waited: Option<String>,
}

/// Another run that an answer names.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherRun {
    /// Its id.
    pub id: RunId,
    /// Its scheduled time.
    pub scheduled_for: Timestamp,
    /// Its state or outcome.
    pub state: RunState,
    /// When its last attempt began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The name of its node.
    pub node: Option<String>,
    /// The name of the user that requested it.
    pub requested_by: Option<String>,
}

/// A job that the job depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// The name of the job.
    pub name: String,
    /// The required outcome.
    pub on: DependsOn,
    /// The state of the job; none if it does not exist.
    pub state: Option<JobState>,
    /// The last run that ended, up to the moment in question.
    pub last: Option<UpstreamEnd>,
    /// When a run last completed, up to that moment.
    pub last_success: Option<Timestamp>,
    /// Its oldest run that has not ended: its state and since when it is under way, or due.
    pub live: Option<(RunState, Timestamp)>,
    /// Its last time that did not run: the outcome, the time and the reason.
    pub skipped: Option<(Outcome, Timestamp, String)>,
    /// The next time of its schedule.
    pub next: Option<Timestamp>,
    /// From when on an end of the job counts: the scheduled time before that of the run.
    pub window_start: Option<Timestamp>,
    /// When the wait for it ends.
    pub deadline: Timestamp,
}

/// The end of a run of an upstream job.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamEnd {
    /// The outcome.
    pub outcome: Outcome,
    /// When it ended.
    pub at: Timestamp,
    /// Why it did not complete.
    pub why: Option<String>,
}

/// The nodes and limits of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterFacts {
    /// Its nodes, without those that left.
    pub nodes: Vec<NodeFacts>,
    /// How many runs of the tenant nodes hold now; 0 if there is no maximum.
    pub tenant_running: u64,
    /// The maximum of that.
    pub tenant_max: Option<u32>,
    /// The maximum number of concurrent runs of a job that has no limit of its own.
    pub per_job: u32,
    /// How often a node renews its lease.
    pub renew_every: SignedDuration,
    /// The jobs that occupy the slots of this node that the run needs: `etl (3), others (1)`.
    pub occupants: String,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: NodeState,
    /// Whether it executes runs.
    pub is_agent: bool,
    /// The words that it offers to placements.
    pub offer: Vec<String>,
    /// Whether it is the leader.
    pub is_leader: bool,
    /// How many slots of the kind that the run needs it has.
    pub slots: u32,
    /// How many of them are taken, as far as that is known.
    pub taken: u32,
    /// When it last renewed its lease.
    pub renewed_at: Timestamp,
    /// When its lease ends.
    pub lease_until: Timestamp,
    /// The user that drained it, and when.
    pub drained: Option<Deed>,
}
