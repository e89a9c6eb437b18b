//! Decides whether a due run starts, waits, or ends without an attempt.

use jiff::{SignedDuration, Timestamp};

use super::plan::{NOT_CAUGHT_UP, over_cap, stood_for};
use crate::dependency::DependencyRule;
use crate::id::RunId;
use crate::job::{Definition, Dependency, DependsOn, JobState, Overlap};
use crate::run::{ClaimedRun, Origin, Outcome, Reason, ReasonCode, Wait};
use crate::schedule::{CatchUpPolicy, Fate};

pub use crate::facts::{ActiveRun, EarlierRun, StartFacts, UpstreamFact};

/// The decision about a due run.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// The run starts now.
    Go,
    /// The node has lost its claim: nothing is written.
    Forget,
    /// The run is not due yet by the clock of the store: check again after this time.
    Early(SignedDuration),
    /// Runs that come later in line are held by other nodes and may have started: check again soon.
    /// Their nodes see this run and decide first; a start is reported with the next renewal.
    LaterUndecided,
    /// The run waits, and is checked again when the condition is met or at this time.
    Wait(Wait, Option<Timestamp>),
    /// Earlier runs are cancelled, and the run waits for them.
    CancelEarlier(Vec<RunId>),
    /// The run ends without an attempt.
    End(Outcome, Reason),
}

/// The time window in which upstream runs must end.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The scheduled time before this one.
    pub start: Timestamp,
    /// When the wait ends.
    pub deadline: Timestamp,
}

/// How long a run waits for other jobs if its job has no next scheduled time.
pub const DEPENDENCY_TIMEOUT: SignedDuration = SignedDuration::from_hours(12);

/// How long a proposed run waits for acknowledgements before it is proposed again.
pub const QUORUM_ROUND: SignedDuration = SignedDuration::from_secs(10);

/// The longest time between two proposals.
pub const QUORUM_ROUND_MAX: SignedDuration = SignedDuration::from_mins(10);

/// Knowledge of the deciding node in addition to the facts of the store.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The current time.
    pub now: Timestamp,
    /// The runs of the job that the node has started. Empty for jobs whose runs may overlap.
    pub begun_here: &'a [ActiveRun],
    /// The number of runs of the job that the node has started.
    pub running_here: u32,
    /// The maximum number of concurrent runs of the job.
    pub most_running: u32,
    /// The runs of the job that wait in line on the node before this one.
    pub line_here: &'a [RunId],
    /// Whether a tick was missed because no scheduler was alive, and what happens to it.
    pub fate: Fate,
    /// The time window in which upstream runs must end.
    pub window: Window,
    /// Why a tick does not run: a calendar or a blackout.
    pub excluded: Option<&'a Reason>,
}

/// Decides about a run at its start.
pub fn start(
    run: &ClaimedRun,
    definition: &Definition,
    facts: &StartFacts,
    moment: &Moment<'_>,
) -> Start {
    let Moment { now, window, .. } = *moment;
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
    if facts.job_state == Some(JobState::Paused) && outlives_pause(run, definition) {
        return Start::Wait(Wait::Pause, None);
    }
    let unscheduled = facts.job_state != Some(JobState::Enabled) && run.run.origin.is_tick();
    // The steps and parts of a run that has begun start until it ends.
    if facts.job_state == Some(JobState::Deleted) && !run.run.origin.is_child()
        || facts.job_state.is_none()
        || unscheduled && run.attempts == 0
    {
        let state =
            facts.job_state.map_or("gone".to_owned(), |state| format!("{state:?}").to_lowercase());
        let text = format!("the job was {state} before the run started");
        return Start::End(Outcome::Skipped, reason(ReasonCode::JobChanged, &text));
    }
    let is_first = run.attempts + run.lost == 0;
    if run.run.origin.is_tick()
        && is_first
        && let Some(excluded) = moment.excluded
    {
        return Start::End(Outcome::Skipped, excluded.clone());
    }
    if run.run.origin == Origin::Schedule
        && is_first
        && let Some(text) = given_up(moment.fate)
    {
        return Start::End(Outcome::Skipped, reason(ReasonCode::CatchUp, &text));
    }
    if let Some(deadline) = definition.start_deadline {
        let lateness = now.duration_since(run.run.scheduled_for);
        if run.run.origin.is_tick() && is_first && lateness > deadline {
            let text = format!("it could not start within {deadline:#} of its time");
            return Start::End(Outcome::Missed, reason(ReasonCode::StartDeadline, &text));
        }
    }
    // A part has the place of its run. It would be in line behind it for ever.
    if run.run.origin.is_child() {
        return quorum(run, facts, now);
    }
    // A run with an earlier attempt was admitted: it is not skipped, and its dependencies have
    // ended. A lost run may never have started: its node may have held it behind others of the job.
    if run.attempts > 0 {
        if let Some(limit) = run.run.backfill_limit()
            && working(run, facts, moment).filter(|it| it.origin == Origin::Backfill).count()
                >= limit as usize
        {
            return Start::Wait(Wait::Backfill, None);
        }
        return match is_crowded_out(run, definition, facts, moment) {
            true => Start::Wait(Wait::Overlap, None),
            false => quorum(run, facts, now),
        };
    }
    if !run.run.ignore_dependencies
        && let Some(verdict) = upstream(definition, window, facts, now)
    {
        return verdict;
    }
    if is_beyond_backfill_limit(run, facts, moment) {
        return Start::Wait(Wait::Backfill, None);
    }
    match overlap(run, definition, facts, moment) {
        Start::Go => quorum(run, facts, now),
        verdict => verdict,
    }
}

/// Whether a due tick that has not started waits for the end of a pause. One that was in line, for
/// other runs of its job or for a pool, keeps its place; so does one that would be caught up in any
/// case: of a job that catches up with all times, or that has only one.
fn outlives_pause(run: &ClaimedRun, definition: &Definition) -> bool {
    let is_caught_up = match definition.catch_up {
        CatchUpPolicy::None => false,
        CatchUpPolicy::Last => definition.when.is_one_time(),
        CatchUpPolicy::All => true,
    };
    run.run.origin.is_tick() && run.attempts == 0 && (run.grant.turn > 0 || is_caught_up)
}

/// Why a missed tick does not run; none if it runs.
fn given_up(fate: Fate) -> Option<String> {
    match fate {
        Fate::Live | Fate::CaughtUp => None,
        Fate::GivenUp => Some(NOT_CAUGHT_UP.to_owned()),
        Fate::StoodFor(newest) => Some(stood_for(newest)),
        Fate::OverCap(cap) => Some(over_cap(cap)),
    }
}

/// A run without enough acknowledgements in this epoch is proposed and waits. It is never given up.
/// Each wait is as long as all before it together, up to a limit.
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

/// Whether other runs of the same job prevent this one from starting.
///
/// Only a run that has started blocks others. A live tick is skipped, waits or replaces the started
/// runs, by the policy; it never waits behind runs that only wait. Every other run (requested,
/// caught up, backfilled, redriven) waits in line and is never skipped.
fn overlap(
    run: &ClaimedRun,
    definition: &Definition,
    facts: &StartFacts,
    moment: &Moment<'_>,
) -> Start {
    if definition.overlap == Overlap::Allow {
        return beside_others(facts, moment);
    }
    let begun = begun(run, facts, moment.begun_here);
    // A lost run was admitted before: it is not skipped now.
    let is_live = run.run.origin == Origin::Schedule && run.lost == 0 && moment.fate == Fate::Live;
    let in_line = facts.earlier.iter().filter(|earlier| earlier.is_in_line());
    let ahead: Vec<RunId> = match definition.overlap {
        Overlap::Queue if is_live => {
            in_line.filter(|it| it.origin == Origin::Schedule).map(|it| it.id).collect()
        }
        Overlap::Skip if is_live => Vec::new(),
        _ => {
            let in_line = in_line.map(|earlier| earlier.id);
            in_line.chain(moment.line_here.iter().copied()).collect()
        }
    };
    if begun.len() + ahead.len() < moment.most_running as usize {
        return Start::Go;
    }
    // If two runs were skipped or cancelled because of each other, neither would run. Two that wait
    // in line because of each other do no harm: the store wakes the first of them.
    let decided = begun.iter().filter(|id| !facts.undecided.contains(id)).count();
    let is_undecided = decided + ahead.len() < moment.most_running as usize;
    match definition.overlap {
        Overlap::Skip if is_live && is_undecided => Start::LaterUndecided,
        Overlap::Skip if is_live => {
            let text = format!("run {} had not ended", begun[0]);
            Start::End(Outcome::Skipped, reason(ReasonCode::Overlap, &text))
        }
        Overlap::CancelPrevious if run.run.origin != Origin::Backfill && is_undecided => {
            Start::LaterUndecided
        }
        Overlap::CancelPrevious if run.run.origin != Origin::Backfill => {
            replace_earlier(begun, ahead, is_live, facts, moment.most_running)
        }
        _ => Start::Wait(Wait::Overlap, None),
    }
}

/// Cancels the runs that come before this one in line. A later run is not cancelled: it has taken
/// the place of a live tick, and every other run waits for it.
fn replace_earlier(
    begun: Vec<RunId>,
    ahead: Vec<RunId>,
    is_live: bool,
    facts: &StartFacts,
    most_running: u32,
) -> Start {
    let (later, earlier): (Vec<RunId>, Vec<RunId>) =
        begun.into_iter().partition(|id| facts.is_later(*id));
    if later.len() < most_running as usize {
        return Start::CancelEarlier(earlier.into_iter().chain(ahead).collect());
    }
    if !is_live {
        return Start::Wait(Wait::Overlap, None);
    }
    let text = format!("run {}, which comes later, has taken its place", later[0]);
    Start::End(Outcome::Cancelled, reason(ReasonCode::CancelRequested, &text))
}

/// Whether the next attempt of a run has to wait, because other runs of the job started between two
/// of its attempts. Runs after it in line do not see it there.
fn is_crowded_out(
    run: &ClaimedRun,
    definition: &Definition,
    facts: &StartFacts,
    moment: &Moment<'_>,
) -> bool {
    let others = working(run, facts, moment).count();
    definition.overlap != Overlap::Allow && others >= moment.most_running as usize
}

/// The other runs of the job that have started, or may have, without those that wait.
fn working<'a>(
    run: &'a ClaimedRun,
    facts: &'a StartFacts,
    moment: &Moment<'a>,
) -> impl Iterator<Item = &'a ActiveRun> {
    let working = moment.begun_here.iter().chain(&facts.elsewhere);
    working.filter(|it| it.id != run.run.id && !it.origin.is_child())
}

/// Whether the backfill of a run has as many runs at work as it may have. Backfilled runs of the
/// same job count together, and those that wait come before it.
fn is_beyond_backfill_limit(run: &ClaimedRun, facts: &StartFacts, moment: &Moment<'_>) -> bool {
    let Some(limit) = run.run.backfill_limit() else { return false };
    let earlier = facts.earlier.iter().filter(|it| it.origin == Origin::Backfill);
    let ahead = earlier.clone().filter(|it| it.wait == Some(Wait::Backfill)).count();
    let mut begun: Vec<RunId> = working(run, facts, moment)
        .filter(|it| it.origin == Origin::Backfill)
        .map(|it| it.id)
        .chain(earlier.filter(|it| it.has_begun()).map(|it| it.id))
        .collect();
    begun.sort_unstable();
    begun.dedup();
    begun.len() + ahead >= limit as usize
}

/// Whether a run of a job whose runs may overlap exceeds the limit: then it waits in line. A run
/// that waits for its next attempt occupies no slot and is not counted.
fn beside_others(facts: &StartFacts, moment: &Moment<'_>) -> Start {
    let elsewhere = facts.elsewhere.iter().filter(|it| !it.origin.is_child()).count();
    let ahead = facts.earlier.iter().filter(|earlier| earlier.is_in_line()).count();
    let running = moment.running_here as usize + elsewhere + ahead;
    if running < moment.most_running as usize {
        Start::Go
    } else {
        Start::Wait(Wait::Overlap, None)
    }
}

/// The runs of the job that have started, or may have, and have not ended. A parent run stands for
/// its child runs.
fn begun(run: &ClaimedRun, facts: &StartFacts, begun_here: &[ActiveRun]) -> Vec<RunId> {
    let active = begun_here.iter().chain(&facts.elsewhere).map(|it| (it.id, it.origin));
    let before = facts.earlier.iter().filter(|it| it.has_begun()).map(|it| (it.id, it.origin));
    let mut begun: Vec<RunId> = Vec::new();
    for (id, origin) in active.chain(before) {
        if id != run.run.id && !origin.is_child() && !begun.contains(&id) {
            begun.push(id);
        }
    }
    begun
}

fn upstream(
    definition: &Definition,
    window: Window,
    facts: &StartFacts,
    now: Timestamp,
) -> Option<Start> {
    let in_window = |at: &Timestamp| *at > window.start;
    let last =
        |fact: &UpstreamFact| fact.last.filter(|(_, at)| in_window(at)).map(|(outcome, _)| outcome);
    let is_ready = |(dependency, fact): &(&Dependency, &UpstreamFact)| match dependency.on {
        DependsOn::Success => fact.last_success.as_ref().is_some_and(in_window),
        DependsOn::Completion => last(fact).is_some(),
        DependsOn::Failure => last(fact).is_some_and(|outcome| outcome != Outcome::Completed),
    };
    let upstream: Vec<_> = definition.depends_on.iter().zip(&facts.upstream).collect();
    let missing = definition.dependency_rule.missing(&upstream, is_ready);
    // The reason of a run that waited for any of several jobs is a job that did not end, if there
    // is one: it could have been the one.
    let first = match definition.dependency_rule {
        DependencyRule::All => missing.first(),
        DependencyRule::Any => missing.iter().find(|it| last(it.1).is_none()).or(missing.first()),
    };
    let (_, fact) = first?;
    if now < window.deadline {
        return Some(Start::Wait(Wait::Upstream, Some(window.deadline)));
    }
    let (code, mut text) = match last(fact) {
        Some(outcome) if outcome != Outcome::Completed => {
            (ReasonCode::UpstreamFailed, format!("job {} ended as {outcome}", fact.name))
        }
        _ => (ReasonCode::UpstreamNotReady, format!("job {} did not end in time", fact.name)),
    };
    if let (DependencyRule::Any, others @ 1..) = (definition.dependency_rule, missing.len() - 1) {
        text.push_str(&format!(", and none of {others} others as required"));
    }
    Some(Start::End(Outcome::Skipped, reason(code, &text)))
}

/// The dependency window of a run: from the scheduled time before it to the one after it, unless
/// the definition sets a timeout. Without either it has a fixed limit.
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
