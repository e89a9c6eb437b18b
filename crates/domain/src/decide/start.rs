//! Whether a run whose time has come starts, waits, or ends before it began.

use jiff::{SignedDuration, Timestamp};

use crate::id::RunId;
use crate::job::{Definition, DependsOn, JobState, Overlap};
use crate::run::{ClaimedRun, Origin, Outcome, Reason, ReasonCode, Wait};

pub use crate::facts::{EarlierRun, StartFacts, UpstreamFact};

/// What to do with the run.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// It starts now.
    Go,
    /// It is not this holder's any more: nothing is written.
    Forget,
    /// Its time comes so much later by the store's clock: it is looked at again then.
    Early(SignedDuration),
    /// It waits, and is looked at again when that happens or when the time is over.
    Wait(Wait, Option<Timestamp>),
    /// The earlier runs are asked to end, and it waits for them.
    CancelEarlier(Vec<RunId>),
    /// It ends here.
    End(Outcome, Reason),
}

/// The window in which upstream runs must have ended.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The nominal time before this one.
    pub start: Timestamp,
    /// When waiting is over.
    pub deadline: Timestamp,
}

/// How long a run waits for other jobs when no later time of its own job ends the wait.
pub const DEPENDENCY_TIMEOUT: SignedDuration = SignedDuration::from_hours(12);

/// How long a proposed run waits for acknowledgements before it is proposed again.
pub const QUORUM_ROUND: SignedDuration = SignedDuration::from_secs(10);

/// The longest time between two proposals.
pub const QUORUM_ROUND_MAX: SignedDuration = SignedDuration::from_mins(10);

/// Decides about a run at its start.
pub fn start(
    run: &ClaimedRun,
    definition: &Definition,
    window: Window,
    facts: &StartFacts,
    now: Timestamp,
) -> Start {
    if !facts.held {
        return Start::Forget;
    }
    if let Some(by) = facts.early_by {
        return Start::Early(by);
    }
    if facts.cancel_requested {
        return Start::End(
            Outcome::Cancelled,
            reason(ReasonCode::CancelRequested, "cancelled before it started"),
        );
    }
    let unscheduled = facts.job_state != Some(JobState::Enabled) && run.run.origin.is_tick();
    if facts.job_state == Some(JobState::Deleted)
        || facts.job_state.is_none()
        || unscheduled && run.attempts == 0
    {
        let state =
            facts.job_state.map_or("gone".to_owned(), |state| format!("{state:?}").to_lowercase());
        let text = format!("the job was {state} before the run started");
        return Start::End(Outcome::Skipped, reason(ReasonCode::JobChanged, &text));
    }
    if let Some(deadline) = definition.start_deadline {
        let lateness = now.duration_since(run.run.scheduled_for);
        if run.run.origin.is_tick() && run.attempts + run.lost == 0 && lateness > deadline {
            let text = format!("it could not start within {deadline:#} of its time");
            return Start::End(Outcome::Missed, reason(ReasonCode::StartDeadline, &text));
        }
    }
    // A run that has begun once has been let in. One that was lost may never have begun: it was
    // in the hands of its node, perhaps behind others of the same job.
    if run.attempts > 0 {
        return quorum(run, facts, now);
    }
    if !run.run.ignore_dependencies
        && let Some(verdict) = upstream(definition, window, facts, now)
    {
        return verdict;
    }
    match overlap(run, definition, facts) {
        Start::Go => quorum(run, facts, now),
        verdict => verdict,
    }
}

/// A run that not enough schedulers have acknowledged in this epoch is proposed: it waits for them.
/// It is never given up. Each look takes as long as all before it together, up to a limit.
fn quorum(run: &ClaimedRun, facts: &StartFacts, now: Timestamp) -> Start {
    match facts.quorum {
        Some(quorum) if !quorum.is_reached() => {
            let waited = now.duration_since(run.run.due_at);
            let round = waited.clamp(QUORUM_ROUND, QUORUM_ROUND_MAX);
            let until = now.saturating_add(round).unwrap_or(Timestamp::MAX);
            Start::Wait(Wait::Quorum, Some(until))
        }
        _ => Start::Go,
    }
}

fn overlap(run: &ClaimedRun, definition: &Definition, facts: &StartFacts) -> Start {
    // The run that was divided stands for its parts.
    let counts =
        |earlier: &&EarlierRun| !earlier.waits_for_upstream && earlier.origin != Origin::Part;
    let active: Vec<&EarlierRun> = facts.earlier.iter().filter(counts).collect();
    if definition.overlap == Overlap::Allow || active.len() < definition.concurrency as usize {
        return Start::Go;
    }
    let wait = Start::Wait(Wait::Overlap, None);
    // Only a live tick is skipped, and only for another live tick: what was asked for by hand or
    // is being caught up takes its turn.
    let live = |origin| origin == Origin::Schedule;
    match definition.overlap {
        Overlap::Skip
            if live(run.run.origin) && active.iter().all(|earlier| live(earlier.origin)) =>
        {
            let text = format!("run {} had not ended", active[0].id);
            Start::End(Outcome::Skipped, reason(ReasonCode::Overlap, &text))
        }
        Overlap::CancelPrevious if run.run.origin != Origin::Backfill => {
            Start::CancelEarlier(active.iter().map(|earlier| earlier.id).collect())
        }
        _ => wait,
    }
}

fn upstream(
    definition: &Definition,
    window: Window,
    facts: &StartFacts,
    now: Timestamp,
) -> Option<Start> {
    let in_window = |at: &Timestamp| *at > window.start;
    let mut not_ready = None;
    for (dependency, fact) in definition.depends_on.iter().zip(&facts.upstream) {
        let last = fact.last.filter(|(_, at)| in_window(at)).map(|(outcome, _)| outcome);
        let ready = match dependency.on {
            DependsOn::Success => fact.last_success.as_ref().is_some_and(in_window),
            DependsOn::Completion => last.is_some(),
            DependsOn::Failure => last.is_some_and(|outcome| outcome != Outcome::Completed),
        };
        if !ready {
            not_ready = Some((fact, last));
            break;
        }
    }
    let (fact, last) = not_ready?;
    if now < window.deadline {
        return Some(Start::Wait(Wait::Upstream, Some(window.deadline)));
    }
    let (code, text) = match last {
        Some(outcome) if outcome != Outcome::Completed => {
            (ReasonCode::UpstreamFailed, format!("job {} ended as {outcome}", fact.name))
        }
        _ => (ReasonCode::UpstreamNotReady, format!("job {} did not end in time", fact.name)),
    };
    Some(Start::End(Outcome::Skipped, reason(code, &text)))
}

/// The dependency window of a run: from the nominal time before it, until the one after it
/// unless the definition names a time-out. Without either, it ends some day all the same.
pub fn window(
    definition: &Definition,
    scheduled_for: Timestamp,
    previous: Option<Timestamp>,
    next: Option<Timestamp>,
) -> Window {
    let after = |wait| scheduled_for.saturating_add(wait).unwrap_or(Timestamp::MAX);
    let deadline = match (definition.dependency_timeout, next) {
        (Some(timeout), _) => after(timeout),
        (None, Some(next)) => next,
        (None, None) => after(DEPENDENCY_TIMEOUT),
    };
    Window { start: previous.unwrap_or(Timestamp::MIN), deadline }
}

fn reason(code: ReasonCode, text: &str) -> Reason {
    Reason { code, text: text.to_owned() }
}

#[cfg(test)]
mod tests;
