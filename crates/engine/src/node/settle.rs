//! What the end of an attempt means for its run and its job.

use domain::decide::settle::{Settlement, settle, settle_lost};
use domain::job::{Job, JobState, OnCompletion};
use domain::run::{AttemptEnd, ClaimedRun, EndedAttempt};
use domain::schedule::jitter;
use jiff::SignedDuration;
use store::{Finish, Verdict};

/// What the end of an attempt means for its run.
pub(super) fn settled(run: &ClaimedRun, job: &Job, attempt: EndedAttempt) -> Finish {
    settled_after(run, job, attempt, run.lost)
}

/// The same, if so many starts of the run were lost before.
pub(super) fn settled_after(
    run: &ClaimedRun,
    job: &Job,
    attempt: EndedAttempt,
    lost: u32,
) -> Finish {
    let settlement = if attempt.result.end == AttemptEnd::Lost {
        settle_lost(&job.definition, lost)
    } else {
        settle(&job.definition, run.attempts, &attempt.result, || chance(run))
    };
    let verdict = match settlement {
        // The letter of a part is that of its run.
        Settlement::End { outcome, reason, dead_letter } => {
            let dead_letter = dead_letter && !run.run.id.is_part();
            Verdict::End { outcome, reason, dead_letter }
        }
        Settlement::Retry { delay } => Verdict::Retry { delay },
    };
    let job_state = job_state_after(run, job, &verdict);
    Finish { attempt: Some(attempt), job_state, ..Finish::untried(run.grant, verdict) }
}

/// A one-time job has done its work when the run of its time has ended.
pub(super) fn job_state_after(run: &ClaimedRun, job: &Job, verdict: &Verdict) -> Option<JobState> {
    let over = matches!(verdict, Verdict::End { .. })
        && run.run.origin.is_tick()
        && job.definition.when.is_one_time();
    over.then_some(match job.definition.on_completion {
        OnCompletion::Preserve => JobState::Completed,
        OnCompletion::Drop => JobState::Deleted,
    })
}

/// A number in 0..1 that is the same whenever this attempt is settled.
fn chance(run: &ClaimedRun) -> f64 {
    let scale = SignedDuration::from_secs(1_000);
    let at = run.run.due_at;
    jitter(run.grant.run.0.into_bytes(), at, scale).as_secs_f64() / scale.as_secs_f64()
}
