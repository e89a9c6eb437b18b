//! Ends of claims and new claims: the request and the reply of `complete_and_claim`.

use domain::id::JobId;
use domain::job::JobState;
use domain::run::{ClaimedRun, EndedAttempt, Grant, Outcome, Reason, Wait};
use domain::slot::PerSlot;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

#[cfg(doc)]
use crate::CHANGED_JOBS_MAX;

/// The fencing tokens of a second begin at this number. A store goes on there when it is opened, or
/// when a database comes back after a restore or a failover: earlier tokens are smaller, at fewer
/// than a million starts a second.
pub(crate) fn token_floor(now: Timestamp) -> i64 {
    (now.as_second() - TOKENS_SINCE).max(0) << TOKEN_BITS
}

/// The first second that tokens are counted from: 2026-01-01.
pub(crate) const TOKENS_SINCE: i64 = 1_767_225_600;

/// The bits of a token that count within a second.
pub(crate) const TOKEN_BITS: u32 = 20;

/// The end of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finish {
    /// The claim.
    pub grant: Grant,
    /// The decision about the run.
    pub verdict: Verdict,
    /// The attempt that was made, if one was.
    pub attempt: Option<EndedAttempt>,
    /// The state that the job takes when this applies, if it takes another one.
    pub job_state: Option<JobState>,
    /// How many runs of the job that wait in line can be claimed when this ends the run; one for
    /// each end at least. A node that begins them one after the other by itself names more, and no
    /// more are woken than it claims with the same call: another node could not begin them.
    pub followers: u32,
    /// Whether the work may have been committed together with a record of it, which then counts.
    pub has_effect: bool,
}

impl Finish {
    /// The end of a claim without an attempt.
    pub fn untried(grant: Grant, verdict: Verdict) -> Self {
        let (attempt, job_state) = (None, None);
        Finish { grant, verdict, attempt, job_state, followers: 1, has_effect: false }
    }

    /// The number by which a finish that is sent again is known: the fencing token of its attempt.
    /// Where no token is known, it is the number of the claim, negative so that it is not shown.
    pub(crate) fn mark(&self) -> i64 {
        let token = self.attempt.as_ref().and_then(|attempt| attempt.fence);
        token.unwrap_or(-self.grant.fence)
    }
}

/// The fencing token that a mark is, if it is one.
pub(crate) fn token_of_mark(mark: Option<i64>) -> Option<i64> {
    mark.filter(|mark| *mark > 0)
}

/// Decision about a run when its claim ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Verdict {
    /// It ends. If its cancellation was requested meanwhile, it ends cancelled.
    End {
        /// Outcome of the run.
        outcome: Outcome,
        /// Reason of the outcome.
        reason: Option<Reason>,
        /// Whether it is a dead letter that no operator has acknowledged.
        dead_letter: bool,
    },
    /// It is due again after a delay. If its cancellation was requested, it ends cancelled.
    Retry {
        /// The delay.
        delay: SignedDuration,
    },
    /// It waits for something, at most until then.
    Wait(Wait, Option<Timestamp>),
    /// It waits in line for other runs of its job, of which so many may be under way at a time.
    Line {
        /// [`Wait::Overlap`] for all runs, [`Wait::Backfill`] for backfilled ones.
        wait: Wait,
        /// Maximum number of concurrent runs.
        places: u32,
    },
    /// It is HELD for a decision, at most for so long: [`crate::Store::decide`]. If its
    /// cancellation was requested, it ends cancelled.
    Hold {
        /// Maximum time of the wait.
        timeout: SignedDuration,
    },
    /// The run is released unchanged.
    Release,
}

/// How many runs that wait in line look again when their job is changed, if it has no limit of its
/// own. Those that are too many wait again.
pub(crate) const LINE_WAKE: u32 = 16;

/// Result of a [`Finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The run ended like this.
    Ended(Outcome),
    /// The run goes on without the claim.
    Again,
    /// The claim was not valid any more; nothing was written.
    Stale,
}

/// How many runs a node can take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRequest {
    /// Runs that are due, by their kind of slot.
    pub due: PerSlot<u32>,
    /// Runs that become due soon, to be prepared: of any kind, as they take no slot yet. None of a
    /// tenant with a limit: a prepared run starts without another claim.
    pub soon: u32,
    /// How soon.
    pub ahead: SignedDuration,
    /// The most runs that one tenant may hold at a time, on all nodes together.
    pub tenant_max: Option<u32>,
}

/// The result of [`Store::complete_and_claim`].
#[derive(Clone, Debug, PartialEq)]
pub struct Exchanged {
    /// Result of each [`Finish`], in their order.
    pub applied: Vec<Applied>,
    /// New claims. Due runs come first, by kind of slot: fair between tenants, then by priority
    /// with ageing, then by time.
    pub claimed: Vec<ClaimedRun>,
    /// Jobs that were changed lately and their versions: a node that caches an older version drops
    /// it before it starts the claimed runs. With more than [`CHANGED_JOBS_MAX`], it drops all.
    /// Empty on a store whose changes are all made by the same process.
    pub changed_jobs: Vec<(JobId, u32)>,
    /// The store's clock.
    pub now: Timestamp,
    /// Whether an end made runs claimable that this call did not claim: the next in line of a job,
    /// or what depends on a run that ended. The store has hinted at them.
    pub left_work: bool,
}

impl Exchanged {
    /// The answer of a call that did nothing at this time.
    pub fn at(now: Timestamp) -> Self {
        let (applied, claimed, changed_jobs) = (Vec::new(), Vec::new(), Vec::new());
        Exchanged { applied, claimed, changed_jobs, now, left_work: false }
    }
}
