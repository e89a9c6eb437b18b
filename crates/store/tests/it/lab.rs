//! Helpers of all tests: nodes, jobs, runs, and the ends of claims.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use domain::cluster::Placement;
use domain::id::{JobId, NodeId, RunId, TenantId, UserId};
use domain::job::{Definition, Dependency, DependsOn, Job, JobState};
use domain::run::{
    AttemptEnd, AttemptResult, ClaimedRun, EndedAttempt, ErrorCode, NewRun, Origin, Outcome,
    Reason, ReasonCode, RunState, Wait,
};
use domain::slot::PerSlot;
use jiff::{SignedDuration, Timestamp};
use store::{
    Applied, Change, Changed, ClaimRequest, FactsFor, Finish, NodeInfo, Prepared, RunView, SYSTEM,
    Store, Submitted, Verdict,
};
use uuid::Uuid;

use crate::bench::Bench;

/// A store with a fresh database, and names for new things.
pub struct Lab<B: Bench> {
    pub bench: B,
    pub store: Arc<B::S>,
    pub last_id: AtomicU64,
    /// The author of changes of jobs that the lab makes.
    pub author: Mutex<&'static str>,
}

pub fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

pub fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

/// A number of process slots, and none for calls of endpoints.
pub fn processes(count: u32) -> PerSlot<u32> {
    PerSlot { process: count, http: 0 }
}

/// A claim request for so many due runs.
pub fn want(due: u32) -> ClaimRequest {
    ClaimRequest { due: processes(due), ..ClaimRequest::default() }
}

/// A claim request for so many runs that are due within an hour.
pub fn want_soon(soon: u32) -> ClaimRequest {
    ClaimRequest { soon, ahead: seconds(3_600), ..ClaimRequest::default() }
}

pub fn tenant(number: u128) -> TenantId {
    TenantId(Uuid::from_u128(number))
}

pub fn reason(code: ReasonCode, text: &str) -> Reason {
    Reason { code, text: text.to_owned() }
}

/// Reason of a cancellation request.
pub fn stop() -> Reason {
    reason(ReasonCode::CancelRequested, "by hand")
}

pub fn ids(claimed: &[ClaimedRun]) -> Vec<RunId> {
    claimed.iter().map(|claimed| claimed.grant.run).collect()
}

pub fn ids_of(runs: &[NewRun]) -> Vec<RunId> {
    runs.iter().map(|run| run.id).collect()
}

/// A claimed run as a later look finds it: its token went with the claim.
pub fn read_back(claimed: &ClaimedRun) -> ClaimedRun {
    ClaimedRun { token: 0, ..claimed.clone() }
}

/// An attempt at a claimed run that took two seconds and ended a second after it was due.
pub fn attempt(node: NodeId, claimed: &ClaimedRun, end: AttemptEnd) -> EndedAttempt {
    let finished_at = claimed.run.due_at + seconds(1);
    let error = (end == AttemptEnd::Failed).then_some(ErrorCode::Exit(1));
    EndedAttempt {
        number: claimed.attempts + claimed.lost + 1,
        fence: Some(claimed.token).filter(|token| *token != 0),
        job_version: None,
        node,
        started_at: finished_at - seconds(2),
        finished_at,
        result: AttemptResult {
            end,
            message: end.name().to_lowercase(),
            error,
            ..AttemptResult::completed()
        },
    }
}

/// The run ends after an attempt with the same name.
pub fn ended(node: NodeId, claimed: &ClaimedRun, outcome: Outcome) -> Finish {
    let end = match outcome {
        Outcome::Completed => AttemptEnd::Completed,
        Outcome::Failed => AttemptEnd::Failed,
        Outcome::Cancelled => AttemptEnd::Cancelled,
        Outcome::Timeout => AttemptEnd::Timeout,
        Outcome::Skipped | Outcome::Missed => return skipped(claimed, outcome),
    };
    Finish {
        grant: claimed.grant,
        verdict: Verdict::End { outcome, reason: None, dead_letter: false },
        attempt: Some(attempt(node, claimed, end)),
        job_state: None,
        followers: 1,
        has_effect: false,
    }
}

pub fn completed(node: NodeId, claimed: &ClaimedRun) -> Finish {
    ended(node, claimed, Outcome::Completed)
}

/// The run ends without an attempt.
pub fn skipped(claimed: &ClaimedRun, outcome: Outcome) -> Finish {
    let reason = Some(reason(ReasonCode::Overlap, "another one runs"));
    untried(claimed, Verdict::End { outcome, reason, dead_letter: false })
}

/// The attempt failed and another one follows.
pub fn retried(node: NodeId, claimed: &ClaimedRun, delay: SignedDuration) -> Finish {
    Finish {
        grant: claimed.grant,
        verdict: Verdict::Retry { delay },
        attempt: Some(attempt(node, claimed, AttemptEnd::Failed)),
        job_state: None,
        followers: 1,
        has_effect: false,
    }
}

/// The node was lost in the middle of an attempt and another one follows.
pub fn lost(node: NodeId, claimed: &ClaimedRun) -> (NodeId, Finish) {
    let finish = Finish {
        grant: claimed.grant,
        verdict: Verdict::Retry { delay: SignedDuration::ZERO },
        attempt: Some(attempt(node, claimed, AttemptEnd::Lost)),
        job_state: None,
        followers: 1,
        has_effect: false,
    };
    (node, finish)
}

/// The claim ends without an attempt.
pub fn untried(claimed: &ClaimedRun, verdict: Verdict) -> Finish {
    Finish::untried(claimed.grant, verdict)
}

/// A question about nothing but the run itself.
pub fn question(claimed: &ClaimedRun) -> FactsFor {
    FactsFor {
        grant: claimed.grant,
        job: claimed.run.job,
        others: false,
        upstream: Vec::new(),
        quorum: false,
    }
}

impl<B: Bench> Lab<B> {
    pub fn new(bench: B, store: Arc<B::S>) -> Self {
        Lab { bench, store, last_id: AtomicU64::new(0), author: Mutex::new(SYSTEM) }
    }

    pub fn author(&self) -> &'static str {
        *self.author.lock().unwrap()
    }

    /// From now on, this is the author of what the lab changes.
    pub fn set_author(&self, by: &'static str) {
        *self.author.lock().unwrap() = by;
    }

    /// Throws the database away. A test that failed leaves it.
    pub async fn close(self) {
        drop(self.store);
        self.bench.close().await;
    }

    pub fn id(&self) -> Uuid {
        Uuid::from_u128(0xa << 64 | u128::from(self.last_id.fetch_add(1, Ordering::SeqCst) + 1))
    }

    pub async fn now(&self) -> Timestamp {
        self.store.now().await.unwrap()
    }

    /// A time of the store's past.
    pub async fn ago(&self, past: i64) -> Timestamp {
        self.now().await - seconds(past)
    }

    /// A node that lives longer than the test.
    pub async fn node(&self) -> NodeId {
        self.node_behind(&self.store).await
    }

    /// A node of another process.
    pub async fn node_behind(&self, handle: &B::S) -> NodeId {
        let node = NodeId(self.id());
        handle.join(node, &NodeInfo::named("node"), seconds(3_600)).await.unwrap();
        node
    }

    /// Ends a node's lease in the past; the next reaping declares it dead.
    pub async fn expire(&self, node: NodeId) {
        let renewed = self.store.renew(node, seconds(-1)).await.unwrap();
        assert!(renewed.is_some(), "the node was alive");
    }

    /// An enabled job that runs only on request; not stored yet.
    pub async fn draft(&self, name: &str) -> Job {
        let now = self.now().await;
        Job {
            id: JobId(self.id()),
            tenant: TenantId::DEFAULT,
            owner: UserId::ADMIN,
            name: name.to_owned(),
            version: 1,
            state: JobState::Enabled,
            definition: Definition::default(),
            next_run: None,
            created_at: now,
            updated_at: now,
        }
    }

    /// Stores a new job.
    pub async fn create(&self, job: &Job) {
        assert_eq!(self.change(job, None, Prepared::Keep).await, Changed::Done);
    }

    /// Changes a stored job and moves its version on.
    pub async fn update(&self, job: &mut Job, prepared: Prepared) {
        job.version += 1;
        assert_eq!(self.change(job, Some(job.version - 1), prepared).await, Changed::Done);
    }

    pub async fn change(&self, job: &Job, expected: Option<u32>, prepared: Prepared) -> Changed {
        let change =
            Change { job: job.clone(), expected, prepared, plan: None, changed: Vec::new() };
        self.store.define(&[change], self.author()).await.unwrap().remove(0)
    }

    /// A stored job.
    pub async fn job(&self, name: &str) -> Job {
        let job = self.draft(name).await;
        self.create(&job).await;
        job
    }

    /// A stored job that depends on others.
    pub async fn job_after(&self, name: &str, upstream: &[&Job]) -> Job {
        let mut job = self.draft(name).await;
        job.definition.depends_on =
            upstream.iter().map(|job| Dependency { job: job.id, on: DependsOn::Success }).collect();
        self.create(&job).await;
        job
    }

    /// A job as the store has it now.
    pub async fn stored(&self, job: &Job) -> Option<Job> {
        self.store.jobs_by_id(&[job.id]).await.unwrap().pop()
    }

    /// A requested run; not stored yet.
    pub fn run(&self, job: &Job, due_at: Timestamp) -> NewRun {
        NewRun {
            id: RunId::of_request(due_at, self.id().as_u128()),
            job: job.id,
            tenant: job.tenant,
            job_version: job.version,
            scheduled_for: due_at,
            shard: String::new(),
            due_at,
            priority: 5,
            origin: Origin::Manual,
            coalesced: 0,
            ignore_dependencies: false,
            parameters: None,
            place: Placement::default(),
            slot: job.definition.action.slot_kind(),
            requested_by: None,
        }
    }

    /// The run of a tick; not stored yet.
    pub fn tick(&self, job: &Job, at: Timestamp) -> NewRun {
        let id = RunId::of_tick(job.id, at, "");
        NewRun { id, origin: Origin::Schedule, ..self.run(job, at) }
    }

    /// Stores runs that must be new.
    pub async fn submit(&self, runs: &[NewRun]) {
        let submitted = self.store.submit(runs, None).await.unwrap();
        let Submitted { accepted, claimed, stale, .. } = submitted;
        assert_eq!(stale, []);
        assert_eq!(accepted, vec![true; runs.len()]);
        assert_eq!(claimed, []);
    }

    /// Stores a run of the job that became due a minute ago.
    pub async fn due(&self, job: &Job) -> NewRun {
        let run = self.run(job, self.ago(60).await);
        self.submit(std::slice::from_ref(&run)).await;
        run
    }

    pub async fn claim(&self, node: NodeId, want: ClaimRequest) -> Vec<ClaimedRun> {
        self.store.complete_and_claim(node, &[], want).await.unwrap().claimed
    }

    /// Claims the one run that is due.
    pub async fn claim_one(&self, node: NodeId) -> ClaimedRun {
        let mut claimed = self.claim(node, want(10)).await;
        assert_eq!(claimed.len(), 1, "one run is due: {claimed:?}");
        claimed.remove(0)
    }

    /// Stores a run of the job and claims it.
    pub async fn started(&self, node: NodeId, job: &Job) -> ClaimedRun {
        let run = self.due(job).await;
        let claimed = self.claim_one(node).await;
        assert_eq!(claimed.run.id, run.id);
        claimed
    }

    pub async fn finish(&self, node: NodeId, finish: Finish) -> Applied {
        self.store
            .complete_and_claim(node, &[finish], ClaimRequest::default())
            .await
            .unwrap()
            .applied
            .remove(0)
    }

    pub async fn view(&self, run: RunId) -> RunView {
        self.store.run(run).await.unwrap().expect("the run is stored")
    }

    pub async fn state(&self, run: RunId) -> RunState {
        self.view(run).await.state
    }

    /// Stores so many runs of a job and claims them, oldest first.
    pub async fn line(&self, node: NodeId, job: &Job, length: i64) -> Vec<ClaimedRun> {
        let due_at = self.ago(600).await;
        let runs: Vec<_> = (0..length).map(|n| self.run(job, due_at + seconds(n))).collect();
        self.submit(&runs).await;
        let claimed = self.claim(node, want(99)).await;
        assert_eq!(ids(&claimed), ids_of(&runs));
        claimed
    }

    /// Lets a run wait.
    pub async fn wait(
        &self,
        node: NodeId,
        claimed: &ClaimedRun,
        wait: Wait,
        until: Option<Timestamp>,
    ) {
        let finish = untried(claimed, Verdict::Wait(wait, until));
        assert_eq!(self.finish(node, finish).await, Applied::Again);
    }
}
