//! What a plan makes of times that have passed is exactly what the policy says, counted one by
//! one.

use domain::job::Definition;
use domain::run::{LedgerEntry, Origin, Outcome, ReasonCode};
use domain::schedule::{CatchUpPolicy, Schedule};
use jiff::{SignedDuration, Timestamp};
use store::Fire;

use super::{Held, Invariant};
use crate::event::Event;
use crate::oracle::{Oracle, before};

/// A time this late is on time.
const ON_TIME: SignedDuration = SignedDuration::from_secs(10);

#[derive(Default)]
pub struct CatchUpCounts;

/// The fate of each time, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Runs,
    LetGo,
    Missed,
}

impl Invariant for CatchUpCounts {
    fn name(&self) -> &'static str {
        "catch-up counts"
    }

    fn see(&mut self, event: &Event, oracle: &Oracle) -> Held {
        let Event::Fired { looks, fire } = event else { return Ok(()) };
        let definition =
            oracle.job(fire.job).and_then(|expected| expected.definitions.get(&fire.version));
        let Some(definition) = definition else {
            return Err(format!("nobody defined version {} of job {}", fire.version, fire.job));
        };
        let Some(schedule) = oracle.schedule(definition) else { return Ok(()) };
        if looks.iter().any(|now| is_right(&schedule, definition, fire, *now)) {
            return Ok(());
        }
        Err(format!("{definition:?} at one of {looks:?} made {fire:?}"))
    }
}

fn is_right(schedule: &Schedule, definition: &Definition, fire: &Fire, now: Timestamp) -> bool {
    let upto = fire.new_next.map_or(Timestamp::MAX, before);
    let first = schedule.next(before(fire.expected_next));
    let all = std::iter::successors(first, |at| schedule.next(*at));
    let all: Vec<Timestamp> = all.take_while(|at| *at <= upto).collect();
    let (past, future): (Vec<Timestamp>, Vec<Timestamp>) =
        all.into_iter().partition(|at| *at <= now);
    let (mut runs, mut let_go, mut missed) = (Vec::new(), Vec::new(), Vec::new());
    for (at, fate) in past.iter().zip(fates(&past, definition, now)) {
        match fate {
            Fate::Runs => runs.push(*at),
            Fate::LetGo => let_go.push(*at),
            Fate::Missed => missed.push(*at),
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

fn fates(past: &[Timestamp], definition: &Definition, now: Timestamp) -> Vec<Fate> {
    let late = |at: &Timestamp| now.duration_since(*at) > ON_TIME;
    let any_on_time = past.iter().any(|at| !late(at));
    let mut room = match definition.catch_up {
        CatchUpPolicy::All | CatchUpPolicy::None => definition.max_catch_up as usize,
        CatchUpPolicy::Last if any_on_time => definition.max_catch_up as usize,
        CatchUpPolicy::Last => 1,
    };
    let mut fates: Vec<Fate> = past
        .iter()
        .rev()
        .map(|at| {
            let too_late = definition
                .start_deadline
                .is_some_and(|deadline| now.duration_since(*at) > deadline);
            let stays_away = match definition.catch_up {
                CatchUpPolicy::None => late(at),
                CatchUpPolicy::Last => late(at) && any_on_time,
                CatchUpPolicy::All => false,
            };
            if too_late {
                Fate::Missed
            } else if stays_away || room == 0 {
                Fate::LetGo
            } else {
                room -= 1;
                Fate::Runs
            }
        })
        .collect();
    fates.reverse();
    fates
}

/// One run stands for those that were let go, if the policy is LAST.
fn stands_for(definition: &Definition, fire: &Fire, let_go: usize) -> bool {
    let stands_for: usize = fire.runs.iter().map(|run| run.coalesced as usize).sum();
    let runs_late = fire.runs.iter().any(|run| run.origin == Origin::CatchUp);
    match definition.catch_up {
        CatchUpPolicy::Last if runs_late => stands_for == let_go,
        CatchUpPolicy::Last => stands_for <= let_go,
        _ => stands_for == 0,
    }
}
