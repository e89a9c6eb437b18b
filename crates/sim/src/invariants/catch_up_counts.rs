//! A plan handles missed occurrences exactly by the catch-up policy, counted one by one.

use domain::job::Definition;
use domain::run::{LedgerEntry, Origin, Outcome, ReasonCode};
use domain::schedule::{CatchUpPolicy, Outage, Schedule};
use jiff::{SignedDuration, Timestamp};
use store::RecordPlan;

use super::{Held, Invariant};
use crate::event::SimEvent;
use crate::oracle::{Oracle, before};

/// A plan that is later than this missed its times, whatever the cause.
const LATE: SignedDuration = SignedDuration::from_secs(60);

#[derive(Default)]
pub struct CatchUpCounts {
    outages: Vec<Outage>,
}

/// The fate of each time, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TickFate {
    Runs,
    LetGo,
    Missed,
}

impl Invariant for CatchUpCounts {
    fn name(&self) -> &'static str {
        "catch-up counts"
    }

    fn see(&mut self, event: &SimEvent, oracle: &Oracle) -> Held {
        if let SimEvent::Down { outages } = event {
            self.outages.extend(outages);
        }
        let SimEvent::Fired { looks, fire } = event else { return Ok(()) };
        let definition =
            oracle.job(fire.job).and_then(|expected| expected.definitions.get(&fire.version));
        let Some(definition) = definition else {
            return Err(format!("job {} has no version {}", fire.job, fire.version));
        };
        let Some(schedule) = oracle.schedule(definition) else { return Ok(()) };
        let mut moments = looks.iter().flat_map(|now| {
            // When a pause ends, all of its times were missed.
            self.missed_until(fire, *now).into_iter().chain([*now]).map(|until| (until, *now))
        });
        if moments.any(|moment| is_right(&schedule, definition, fire, moment)) {
            return Ok(());
        }
        Err(format!("{definition:?} at one of {looks:?} made {fire:?}"))
    }
}

impl CatchUpCounts {
    /// Up to when the times of a plan were missed, by each outage that the planner can have known.
    fn missed_until(&self, fire: &RecordPlan, now: Timestamp) -> Vec<Timestamp> {
        let outages = self.outages.iter().map(|outage| outage.until);
        let ended = outages.filter(|until| *until >= fire.expected_next && *until <= now);
        ended.chain([Timestamp::MIN]).map(|until| until.max(now - LATE)).collect()
    }
}

fn is_right(
    schedule: &Schedule,
    definition: &Definition,
    fire: &RecordPlan,
    (missed_until, now): (Timestamp, Timestamp),
) -> bool {
    let upto = fire.new_next.map_or(Timestamp::MAX, before);
    let first = schedule.next(before(fire.expected_next));
    let all = std::iter::successors(first, |at| schedule.next(*at));
    let all: Vec<Timestamp> = all.take_while(|at| *at <= upto).collect();
    let (past, future): (Vec<Timestamp>, Vec<Timestamp>) =
        all.into_iter().partition(|at| *at <= now);
    let (mut runs, mut let_go, mut missed) = (Vec::new(), Vec::new(), Vec::new());
    for (at, fate) in past.iter().zip(fates(&past, definition, missed_until, now)) {
        match fate {
            TickFate::Runs => runs.push(*at),
            TickFate::LetGo => let_go.push(*at),
            TickFate::Missed => missed.push(*at),
        }
    }
    runs.extend(future);
    let planned: Vec<Timestamp> = fire.runs.iter().map(|run| run.scheduled_for).collect();
    let ranges = |outcome, code| -> Vec<Range> {
        let of = |it: &&LedgerEntry| it.outcome == outcome && it.reason.code == code;
        fire.ledger.iter().filter(of).map(|it| (it.first, it.last, it.count)).collect()
    };
    planned == runs
        && ranges(Outcome::Skipped, ReasonCode::CatchUp) == as_range(&let_go)
        && ranges(Outcome::Missed, ReasonCode::StartDeadline) == as_range(&missed)
        && stands_for(definition, fire, let_go.len())
}

type Range = (Timestamp, Timestamp, u64);

fn as_range(times: &[Timestamp]) -> Vec<Range> {
    match (times.first(), times.last()) {
        (Some(first), Some(last)) => vec![(*first, *last, times.len() as u64)],
        _ => Vec::new(),
    }
}

fn fates(
    past: &[Timestamp],
    definition: &Definition,
    missed_until: Timestamp,
    now: Timestamp,
) -> Vec<TickFate> {
    let mut left = match definition.catch_up {
        CatchUpPolicy::None => 0,
        CatchUpPolicy::Last => 1,
        CatchUpPolicy::All => definition.max_catch_up as usize,
    };
    let mut fates: Vec<TickFate> = past
        .iter()
        .rev()
        .map(|at| {
            let too_late = definition
                .start_deadline
                .is_some_and(|deadline| now.duration_since(*at) > deadline);
            if too_late {
                TickFate::Missed
            } else if *at > missed_until {
                TickFate::Runs
            } else if left == 0 {
                TickFate::LetGo
            } else {
                left -= 1;
                TickFate::Runs
            }
        })
        .collect();
    fates.reverse();
    fates
}

/// One run stands for those that were let go, if the policy is LAST.
fn stands_for(definition: &Definition, fire: &RecordPlan, let_go: usize) -> bool {
    let stands_for: usize = fire.runs.iter().map(|run| run.coalesced as usize).sum();
    let runs_late = fire.runs.iter().any(|run| run.origin == Origin::CatchUp);
    match definition.catch_up {
        // It also stands for times of the outage that were planned before.
        CatchUpPolicy::Last if runs_late => stands_for >= let_go,
        CatchUpPolicy::Last => stands_for <= let_go,
        _ => stands_for == 0,
    }
}
