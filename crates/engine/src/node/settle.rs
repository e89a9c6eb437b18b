//! Effects of the end of an attempt on its run and its job.

use domain::decide::settle::{Settlement, settle, settle_lost};
use domain::job::{Job, JobState, OnCompletion};
use domain::run::{AttemptEnd, ClaimedRun, EndedAttempt, Outcome};
use domain::schedule::jitter;
use jiff::SignedDuration;
use store::{Finish, Verdict};

/// Settlement of a run by the end of its attempt.
pub(super) fn settled(run: &ClaimedRun, job: &Job, attempt: EndedAttempt) -> Finish {
    let settlement = if attempt.result.end == AttemptEnd::Lost {
        settle_lost(&job.definition, run.lost)
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
        Settlement::Hold { timeout } => Verdict::Hold { timeout },
    };
    log_end(run, job, &attempt, &verdict);
    let job_state = job_state_after(run, job, &verdict);
    let has_effect = job.definition.exactly_once;
    Finish { attempt: Some(attempt), job_state, has_effect, ..Finish::untried(run.grant, verdict) }
}

/// Logs retries and runs that failed for good.
fn log_end(run: &ClaimedRun, job: &Job, attempt: &EndedAttempt, verdict: &Verdict) {
    let (id, number, job_id) = (run.grant.run, attempt.number, job.id);
    let (name, message) = (&job.name, &attempt.result.message);
    let error = attempt.result.error.as_ref().map(ToString::to_string);
    match verdict {
        Verdict::Retry { delay } => {
            let seconds = delay.as_secs_f64();
            tracing::info!(
                run = %id, job = %name, attempt = number, error, message,
                "Scheduled retry {number} for job {job_id} in {seconds}s"
            );
        }
        Verdict::End { outcome: outcome @ (Outcome::Failed | Outcome::Timeout), .. } => {
            let outcome = outcome.name();
            let retries = job.definition.retry.max_attempts.saturating_sub(1);
            let is_exhausted = retries > 0 && run.attempts >= retries;
            let retries = is_exhausted.then(|| format!(", exceeded max retries ({retries})"));
            tracing::error!(
                run = %id, job = %name, job_id = %job_id, attempt = number, outcome, error, message,
                "run failed{}", retries.unwrap_or_default()
            );
        }
        Verdict::End { outcome: Outcome::Completed, .. } => {
            tracing::debug!(run = %id, job = %name, "Job run {id} completed successfully");
        }
        _ => {}
    }
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
