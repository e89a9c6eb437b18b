//! Tables of start decisions.

use super::*;
use crate::cluster::{Placement, Quorum};
use crate::id::{JobId, TenantId};
use crate::run::{Grant, NewRun};
use crate::slot::SlotKind;
use uuid::Uuid;

fn at(text: &str) -> Timestamp {
    format!("2026-01-01T{text}:00Z").parse().unwrap()
}

fn run(origin: Origin) -> ClaimedRun {
    let id = RunId(Uuid::from_u128(7));
    ClaimedRun {
        grant: Grant { run: id, fence: 1, turn: 0 },
        run: NewRun {
            id,
            job: JobId(Uuid::from_u128(1)),
            tenant: TenantId::DEFAULT,
            job_version: 1,
            scheduled_for: at("12:00"),
            shard: String::new(),
            due_at: at("12:00"),
            priority: 5,
            origin,
            coalesced: 0,
            ignore_dependencies: false,
            parameters: None,
            place: Placement::default(),
            slot: SlotKind::Process,
            requested_by: None,
        },
        attempts: 0,
        lost: 0,
        token: 0,
    }
}

fn held() -> StartFacts {
    StartFacts { held: true, job_state: Some(JobState::Enabled), ..StartFacts::default() }
}

/// Another run of the same job; before the one in question by default.
#[derive(Clone, Copy, Debug)]
enum Other {
    /// This node has started it.
    BegunHere,
    /// Another node has claimed it, and it is due.
    Elsewhere,
    /// Another node has claimed it, it is due, and it comes later in line.
    LaterUndecided,
    /// Another node has started it, and it comes later in line.
    LaterBegun,
    /// It failed once and waits for its next attempt.
    BetweenAttempts,
    /// It waits for its child runs.
    Split,
    /// It waits in line for other runs of the job.
    InLine,
    /// It waits for other jobs.
    Upstream,
    /// It is due and not claimed.
    Queued,
    /// It waits for earlier runs of its backfill.
    InBackfill,
}

/// The facts if these runs of the job have not ended.
fn beside(others: &[(Other, Origin)]) -> (StartFacts, Vec<ActiveRun>) {
    let (mut facts, mut here) = (held(), Vec::new());
    for (n, (other, origin)) in others.iter().enumerate() {
        let (id, origin) = (RunId(Uuid::from_u128(100 + n as u128)), *origin);
        let earlier = |wait, was_tried| EarlierRun { id, origin, wait, was_tried };
        match other {
            Other::BegunHere => {
                here.push(ActiveRun { id, origin });
                // The store lists it as well: it has not ended.
                facts.earlier.push(earlier(None, false));
            }
            Other::Elsewhere => {
                facts.elsewhere.push(ActiveRun { id, origin });
                facts.earlier.push(earlier(None, false));
            }
            Other::LaterUndecided => {
                facts.elsewhere.push(ActiveRun { id, origin });
                facts.undecided.push(id);
            }
            Other::LaterBegun => facts.elsewhere.push(ActiveRun { id, origin }),
            Other::BetweenAttempts => facts.earlier.push(earlier(None, true)),
            Other::Split => facts.earlier.push(earlier(Some(Wait::Parts), false)),
            Other::InLine => facts.earlier.push(earlier(Some(Wait::Overlap), false)),
            Other::Upstream => facts.earlier.push(earlier(Some(Wait::Upstream), true)),
            Other::Queued => facts.earlier.push(earlier(None, false)),
            Other::InBackfill => facts.earlier.push(earlier(Some(Wait::Backfill), false)),
        }
    }
    (facts, here)
}

fn moment(begun_here: &[ActiveRun], now: Timestamp) -> Moment<'_> {
    let running_here = begun_here.len() as u32;
    let (line_here, fate, window) = (&[][..], Fate::Live, day());
    Moment {
        now,
        begun_here,
        running_here,
        most_running: 1,
        line_here,
        fate,
        window,
        excluded: None,
    }
}

fn day() -> Window {
    Window { start: at("11:00"), deadline: at("13:00") }
}

/// `go`, `forget`, `wait OVERLAP`, `cancel earlier`, `SKIPPED OVERLAP`.
fn verdict(run: &ClaimedRun, definition: &Definition, facts: &StartFacts, now: &str) -> String {
    beside_verdict(run, definition, facts, &[], now)
}

fn beside_verdict(
    run: &ClaimedRun,
    definition: &Definition,
    facts: &StartFacts,
    here: &[ActiveRun],
    now: &str,
) -> String {
    let most_running = definition.most_running(16);
    words(&start(run, definition, facts, &Moment { most_running, ..moment(here, at(now)) }))
}

fn words(verdict: &Start) -> String {
    match verdict {
        Start::Go => "go".into(),
        Start::Forget => "forget".into(),
        Start::Early(by) => format!("early by {by:#}"),
        Start::LaterUndecided => "later undecided".into(),
        Start::Wait(wait, until) => {
            format!("wait {wait:?} {}", if until.is_some() { "with deadline" } else { "" })
        }
        Start::CancelEarlier(_) => "cancel earlier".into(),
        Start::End(outcome, reason) => format!("{outcome} {}", reason.code.name()),
    }
}

#[test]
fn overlap_by_policy_and_origin() {
    use Origin::{Backfill, CatchUp, Manual, Schedule};
    use Other::{BegunHere, BetweenAttempts, Elsewhere, InLine, Queued, Split, Upstream};
    use Overlap::{Allow, CancelPrevious, Queue, Skip};
    for (policy, origin, other, expected) in [
        (Allow, Schedule, (BegunHere, Schedule), "go"),
        // A started run blocks a live tick, a waiting run does not.
        (Skip, Schedule, (BegunHere, Schedule), "SKIPPED OVERLAP"),
        (Skip, Schedule, (Elsewhere, Schedule), "SKIPPED OVERLAP"),
        (Skip, Schedule, (BetweenAttempts, Schedule), "SKIPPED OVERLAP"),
        (Skip, Schedule, (Split, Schedule), "SKIPPED OVERLAP"),
        (Skip, Schedule, (BegunHere, Manual), "SKIPPED OVERLAP"),
        (Skip, Schedule, (BegunHere, Backfill), "SKIPPED OVERLAP"),
        (Skip, Schedule, (InLine, Manual), "go"),
        (Skip, Schedule, (InLine, Backfill), "go"),
        (Skip, Schedule, (InLine, Schedule), "go"),
        (Skip, Schedule, (Queued, Schedule), "go"),
        (Skip, Schedule, (Upstream, Schedule), "go"),
        // All other runs wait in line, and are never skipped.
        (Skip, CatchUp, (BegunHere, CatchUp), "wait Overlap "),
        (Skip, CatchUp, (InLine, CatchUp), "wait Overlap "),
        (Skip, Manual, (BegunHere, Schedule), "wait Overlap "),
        (Skip, Manual, (InLine, Backfill), "wait Overlap "),
        (Skip, Manual, (Queued, Schedule), "go"),
        (Skip, Backfill, (BegunHere, Schedule), "wait Overlap "),
        (Queue, Schedule, (BegunHere, Schedule), "wait Overlap "),
        (Queue, Schedule, (InLine, Schedule), "wait Overlap "),
        (Queue, Schedule, (InLine, Backfill), "go"),
        (Queue, Manual, (InLine, Backfill), "wait Overlap "),
        (CancelPrevious, Schedule, (BegunHere, Schedule), "cancel earlier"),
        (CancelPrevious, Manual, (InLine, Schedule), "cancel earlier"),
        (CancelPrevious, Backfill, (BegunHere, Schedule), "wait Overlap "),
    ] {
        let definition = Definition { overlap: policy, ..Definition::default() };
        let (facts, here) = beside(&[other]);
        let case = format!("{policy:?} {origin:?} {other:?}");
        let told = beside_verdict(&run(origin), &definition, &facts, &here, "12:00");
        assert_eq!(told, expected, "{case}");
        let alone = verdict(&run(origin), &definition, &held(), "12:00");
        assert_eq!(alone, "go", "{case}");
    }
}

/// The holder of a later run sees the earlier one. If the earlier one were skipped for the later
/// one, neither would run.
#[test]
fn a_run_is_decided_after_later_runs_that_may_have_started() {
    use Origin::{Backfill, Manual, Schedule};
    use Other::{Elsewhere, LaterBegun, LaterUndecided};
    use Overlap::{Allow, CancelPrevious, Queue, Skip};
    for (policy, origin, others, expected) in [
        (Skip, Schedule, vec![LaterUndecided], "later undecided"),
        (CancelPrevious, Schedule, vec![LaterUndecided], "later undecided"),
        (CancelPrevious, Manual, vec![LaterUndecided], "later undecided"),
        // The store wakes the first of those that wait in line.
        (Skip, Manual, vec![LaterUndecided], "wait Overlap "),
        (Queue, Schedule, vec![LaterUndecided], "wait Overlap "),
        (CancelPrevious, Backfill, vec![LaterUndecided], "wait Overlap "),
        (Allow, Schedule, vec![LaterUndecided], "go"),
        // Another run blocks it in any case.
        (Skip, Schedule, vec![LaterUndecided, Elsewhere], "SKIPPED OVERLAP"),
        (Skip, Schedule, vec![LaterUndecided, LaterBegun], "SKIPPED OVERLAP"),
        (Queue, Schedule, vec![LaterUndecided, Elsewhere], "wait Overlap "),
        (Skip, Schedule, vec![LaterBegun], "SKIPPED OVERLAP"),
        (Queue, Schedule, vec![LaterBegun], "wait Overlap "),
        // An earlier run does not cancel a later one.
        (CancelPrevious, Schedule, vec![LaterBegun], "CANCELLED CANCEL_REQUESTED"),
        (CancelPrevious, Schedule, vec![Elsewhere, LaterBegun], "CANCELLED CANCEL_REQUESTED"),
        (CancelPrevious, Manual, vec![LaterBegun], "wait Overlap "),
        (CancelPrevious, Manual, vec![Elsewhere], "cancel earlier"),
    ] {
        let definition = Definition { overlap: policy, ..Definition::default() };
        let case = format!("{policy:?} {origin:?} {others:?}");
        let others: Vec<_> = others.into_iter().map(|other| (other, Schedule)).collect();
        let (facts, here) = beside(&others);
        let told = beside_verdict(&run(origin), &definition, &facts, &here, "12:00");
        assert_eq!(told, expected, "{case}");
    }
    // Of two places, one is left to the earlier runs.
    let definition =
        Definition { overlap: CancelPrevious, concurrency: Some(2), ..Definition::default() };
    let (facts, here) = beside(&[(LaterBegun, Schedule), (Elsewhere, Schedule)]);
    let moment = Moment { most_running: 2, ..moment(&here, at("12:00")) };
    let earlier = vec![RunId(Uuid::from_u128(101))];
    let told = start(&run(Schedule), &definition, &facts, &moment);
    assert_eq!(told, Start::CancelEarlier(earlier));
}

#[test]
fn a_lost_run_waits_instead_of_being_skipped() {
    let lost = ClaimedRun { lost: 1, ..run(Origin::Schedule) };
    let (facts, here) = beside(&[(Other::BegunHere, Origin::Schedule)]);
    let definition = Definition::default();
    assert_eq!(beside_verdict(&lost, &definition, &facts, &here, "12:00"), "wait Overlap ");
}

/// The number of overlapping runs is limited, and further runs wait in line.
#[test]
fn runs_that_may_overlap_have_a_limit() {
    use Other::{BegunHere, BetweenAttempts, Elsewhere, InLine, Queued, Upstream};
    let definition = Definition { overlap: Overlap::Allow, ..Definition::default() };
    for (others, expected) in [
        (vec![], "go"),
        (vec![BegunHere, BegunHere], "go"),
        (vec![BegunHere, BegunHere, BegunHere], "wait Overlap "),
        (vec![BegunHere, Elsewhere, Elsewhere], "wait Overlap "),
        // Runs that wait come first, so that none waits forever.
        (vec![BegunHere, BegunHere, InLine], "wait Overlap "),
        // These occupy no slot.
        (vec![BegunHere, BegunHere, BetweenAttempts, Upstream, Queued], "go"),
    ] {
        let others: Vec<_> = others.iter().map(|other| (*other, Origin::Schedule)).collect();
        let (facts, here) = beside(&others);
        let moment = Moment { most_running: 3, ..moment(&here, at("12:00")) };
        for origin in [Origin::Schedule, Origin::Manual, Origin::Backfill] {
            let verdict = words(&start(&run(origin), &definition, &facts, &moment));
            assert_eq!(verdict, expected, "{others:?} {origin:?}");
        }
        let part = start(&run(Origin::Part), &definition, &facts, &moment);
        assert_eq!(part, Start::Go, "a part counts with its run");
    }
}

/// Only backfilled runs count for the limit of a backfill, and those that wait for it hold up no
/// other run.
#[test]
fn a_backfill_has_a_limit_of_its_own() {
    use Origin::{Backfill, Manual};
    use Other::{BegunHere, BetweenAttempts, Elsewhere, InBackfill, InLine, Queued, Split};
    let limited = |attempts| {
        let mut run = ClaimedRun { attempts, ..run(Backfill) };
        run.run.coalesced = 2;
        run
    };
    let definition = |overlap| Definition { overlap, concurrency: Some(4), ..Default::default() };
    for (others, first, again, manual) in [
        (vec![], "go", "go", "go"),
        (vec![(BegunHere, Backfill)], "go", "go", "go"),
        (vec![(BegunHere, Backfill); 2], "wait Backfill ", "wait Backfill ", "go"),
        (
            vec![(BegunHere, Backfill), (Elsewhere, Backfill)],
            "wait Backfill ",
            "wait Backfill ",
            "go",
        ),
        (vec![(BegunHere, Manual); 3], "go", "go", "go"),
        (vec![(BegunHere, Backfill), (Split, Backfill)], "wait Backfill ", "go", "go"),
        (vec![(BetweenAttempts, Backfill); 2], "wait Backfill ", "go", "go"),
        (vec![(InBackfill, Backfill); 2], "wait Backfill ", "go", "go"),
        (vec![(InBackfill, Backfill); 9], "wait Backfill ", "go", "go"),
        (vec![(Queued, Backfill); 9], "go", "go", "go"),
        (vec![(InLine, Manual); 4], "wait Overlap ", "go", "wait Overlap "),
        (vec![(BegunHere, Manual); 4], "wait Overlap ", "wait Overlap ", "wait Overlap "),
    ] {
        let (facts, here) = beside(&others);
        for overlap in [Overlap::Allow, Overlap::Skip, Overlap::Queue] {
            let definition = definition(overlap);
            let told = |run| beside_verdict(&run, &definition, &facts, &here, "12:00");
            let case = format!("{others:?} {overlap:?}");
            assert_eq!(told(limited(0)), first, "{case}");
            // A run of a job whose runs may overlap has no place to lose between two attempts.
            let again = if overlap == Overlap::Allow {
                again.replace("wait Overlap ", "go")
            } else {
                again.to_owned()
            };
            assert_eq!(told(limited(1)), again, "{case}");
            let requested = told(run(Manual));
            assert!(requested == manual, "{case}: {requested}");
        }
    }
}

/// The job may have been changed since its run was split. A part that waited in line would
/// wait for its own run.
#[test]
fn a_part_waits_for_no_other_run() {
    use Overlap::{Allow, CancelPrevious, Queue, Skip};
    let (facts, here) =
        beside(&[(Other::BegunHere, Origin::Manual), (Other::InLine, Origin::Manual)]);
    for overlap in [Allow, CancelPrevious, Queue, Skip] {
        let definition = Definition { overlap, ..Definition::default() };
        let moment = Moment { most_running: 1, ..moment(&here, at("12:00")) };
        for attempts in [0, 1] {
            let part = ClaimedRun { attempts, ..run(Origin::Part) };
            assert_eq!(start(&part, &definition, &facts, &moment), Start::Go, "{overlap:?}");
        }
    }
}

#[test]
fn limits_by_policy() {
    use Overlap::{Allow, CancelPrevious, Queue, Skip};
    for (overlap, concurrency, most) in [
        (Allow, None, 16),
        (Allow, Some(2), 2),
        (Skip, None, 1),
        (Queue, Some(5), 5),
        (CancelPrevious, None, 1),
    ] {
        let definition = Definition { overlap, concurrency, ..Definition::default() };
        assert_eq!(definition.most_running(16), most, "{overlap:?} {concurrency:?}");
    }
}

#[test]
fn concurrency_counts_begun_runs_once() {
    use Other::{BegunHere, BetweenAttempts, Elsewhere, InLine, Upstream};
    let definition =
        Definition { concurrency: Some(2), overlap: Overlap::Skip, ..Definition::default() };
    let ticks = |others: &[Other]| -> Vec<(Other, Origin)> {
        others.iter().map(|other| (*other, Origin::Schedule)).collect()
    };
    for (others, expected) in [
        (vec![BegunHere], "go"),
        (vec![BegunHere, Upstream, InLine], "go"),
        (vec![BegunHere, Elsewhere], "SKIPPED OVERLAP"),
        (vec![BetweenAttempts, Elsewhere], "SKIPPED OVERLAP"),
    ] {
        let (facts, here) = beside(&ticks(&others));
        let live = run(Origin::Schedule);
        let moment = Moment { most_running: 2, ..moment(&here, at("12:00")) };
        assert_eq!(words(&start(&live, &definition, &facts, &moment)), expected);
    }
    // A run that the node and the store both know counts once. A child run counts with its parent.
    let (mut facts, here) = beside(&ticks(&[BegunHere]));
    facts.elsewhere.push(here[0]);
    let part = ActiveRun { id: RunId(Uuid::from_u128(200)), origin: Origin::Part };
    facts.elsewhere.push(part);
    let live = run(Origin::Schedule);
    let moment = Moment { most_running: 2, ..moment(&here, at("12:00")) };
    assert_eq!(words(&start(&live, &definition, &facts, &moment)), "go");
}

#[test]
fn a_tick_of_an_outage_follows_the_policy() {
    let newest = at("12:30");
    let busy = beside(&[(Other::BegunHere, Origin::Schedule)]);
    let lost = ClaimedRun { lost: 1, ..run(Origin::Schedule) };
    for (run, fate, is_busy, expected) in [
        (run(Origin::Schedule), Fate::Live, false, "go"),
        (run(Origin::Schedule), Fate::GivenUp, false, "SKIPPED CATCH_UP"),
        (run(Origin::Schedule), Fate::StoodFor(newest), false, "SKIPPED CATCH_UP"),
        (run(Origin::Schedule), Fate::OverCap(3), false, "SKIPPED CATCH_UP"),
        (run(Origin::Schedule), Fate::CaughtUp, false, "go"),
        // A caught-up run waits in line and is never skipped.
        (run(Origin::Schedule), Fate::CaughtUp, true, "wait Overlap "),
        (run(Origin::Schedule), Fate::Live, true, "SKIPPED OVERLAP"),
        // It started before the outage, or was requested.
        (lost, Fate::GivenUp, false, "go"),
        (run(Origin::Manual), Fate::GivenUp, false, "go"),
        (run(Origin::CatchUp), Fate::GivenUp, false, "go"),
    ] {
        let (facts, here) = if is_busy { busy.clone() } else { (held(), Vec::new()) };
        let moment = Moment { fate, ..moment(&here, at("12:00")) };
        let told = words(&start(&run, &Definition::default(), &facts, &moment));
        assert_eq!(told, expected, "{:?} {fate:?} {is_busy}", run.run.origin);
    }
}

#[test]
fn the_next_attempt_waits_for_runs_that_began_since_the_last_one() {
    use Other::{BegunHere, BetweenAttempts, Elsewhere, InLine, Queued};
    let next = ClaimedRun { attempts: 1, ..run(Origin::CatchUp) };
    for (overlap, other, expected) in [
        (Overlap::Queue, BegunHere, "wait Overlap "),
        (Overlap::Queue, Elsewhere, "wait Overlap "),
        (Overlap::Skip, BegunHere, "wait Overlap "),
        (Overlap::CancelPrevious, Elsewhere, "wait Overlap "),
        (Overlap::Allow, BegunHere, "go"),
        // Two runs between attempts do not wait for each other, nor for runs that have not begun.
        (Overlap::Queue, BetweenAttempts, "go"),
        (Overlap::Queue, InLine, "go"),
        (Overlap::Queue, Queued, "go"),
    ] {
        let definition = Definition { overlap, ..Definition::default() };
        let (facts, here) = beside(&[(other, Origin::Schedule)]);
        let told = beside_verdict(&next, &definition, &facts, &here, "12:00");
        assert_eq!(told, expected, "{overlap:?}");
    }
}

#[test]
fn what_changed_since_it_was_planned() {
    let definition =
        Definition { start_deadline: Some(SignedDuration::from_mins(30)), ..Definition::default() };
    let retried = ClaimedRun { attempts: 1, ..run(Origin::Schedule) };
    let mut waited = run(Origin::Schedule);
    waited.grant.turn = 1;
    for (run, facts, now, expected) in [
        (run(Origin::Schedule), StartFacts::default(), "12:00", "forget"),
        // It is due by the clock of the node, but the clock of the store counts.
        (
            run(Origin::Schedule),
            StartFacts { early_by: Some(SignedDuration::from_secs(2)), ..held() },
            "12:00",
            "early by 2s",
        ),
        (
            run(Origin::Schedule),
            StartFacts { cancel_requested: true, ..held() },
            "12:00",
            "CANCELLED CANCEL_REQUESTED",
        ),
        (
            run(Origin::Schedule),
            StartFacts { job_state: Some(JobState::Paused), ..held() },
            "12:00",
            "SKIPPED JOB_CHANGED",
        ),
        // It was in line when the job was paused, and keeps its place.
        (
            waited,
            StartFacts { job_state: Some(JobState::Paused), ..held() },
            "12:00",
            "wait Pause ",
        ),
        (
            run(Origin::Manual),
            StartFacts { job_state: Some(JobState::Paused), ..held() },
            "12:00",
            "go",
        ),
        (
            run(Origin::Manual),
            StartFacts { job_state: Some(JobState::Deleted), ..held() },
            "12:00",
            "SKIPPED JOB_CHANGED",
        ),
        (
            run(Origin::Step),
            StartFacts { job_state: Some(JobState::Deleted), ..held() },
            "12:00",
            "go",
        ),
        (
            run(Origin::Manual),
            StartFacts { job_state: None, ..held() },
            "12:00",
            "SKIPPED JOB_CHANGED",
        ),
        (run(Origin::Schedule), held(), "12:30", "go"),
        (run(Origin::Schedule), held(), "12:31", "MISSED START_DEADLINE"),
        // A retry was admitted before.
        (retried.clone(), held(), "12:31", "go"),
        (retried, beside(&[(Other::Elsewhere, Origin::Schedule)]).0, "12:31", "wait Overlap "),
    ] {
        assert_eq!(
            verdict(&run, &definition, &facts, now),
            expected,
            "{:?} {facts:?}",
            run.run.origin
        );
    }
}

#[test]
fn upstream_jobs_within_the_window() {
    use DependsOn::{Completion, Failure, Success};
    use Outcome::{Completed, Failed};
    let fact = |last: Option<(Outcome, &str)>, success: Option<&str>| UpstreamFact {
        name: "extract".into(),
        last: last.map(|(outcome, when)| (outcome, at(when))),
        last_success: success.map(at),
    };
    for (on, fact, now, expected) in [
        (Success, fact(None, None), "12:00", "wait Upstream with deadline"),
        (Success, fact(Some((Completed, "11:30")), Some("11:30")), "12:00", "go"),
        // The window is open at its beginning: a run that ended then belongs to the window before.
        (
            Success,
            fact(Some((Completed, "11:00")), Some("11:00")),
            "12:00",
            "wait Upstream with deadline",
        ),
        (Success, fact(Some((Failed, "11:30")), None), "12:00", "wait Upstream with deadline"),
        // A later failure does not undo a success within the window.
        (Success, fact(Some((Failed, "11:45")), Some("11:30")), "12:00", "go"),
        (Success, fact(None, None), "13:00", "SKIPPED UPSTREAM_NOT_READY"),
        (Success, fact(Some((Failed, "11:30")), None), "13:00", "SKIPPED UPSTREAM_FAILED"),
        (Completion, fact(Some((Failed, "11:30")), None), "12:00", "go"),
        (Failure, fact(Some((Failed, "11:30")), None), "12:00", "go"),
        (
            Failure,
            fact(Some((Completed, "11:30")), Some("11:30")),
            "12:00",
            "wait Upstream with deadline",
        ),
    ] {
        let dependency = Dependency { job: JobId(Uuid::from_u128(2)), on };
        let definition = Definition { depends_on: vec![dependency], ..Definition::default() };
        let facts = StartFacts { upstream: vec![fact.clone()], ..held() };
        assert_eq!(
            verdict(&run(Origin::Schedule), &definition, &facts, now),
            expected,
            "{on:?} {fact:?} at {now}"
        );
        let mut by_hand = run(Origin::Manual);
        by_hand.run.ignore_dependencies = true;
        assert_eq!(verdict(&by_hand, &definition, &facts, now), "go");
    }
}

#[test]
fn any_of_several_upstream_jobs_is_enough() {
    use Outcome::{Completed, Failed};
    let none = UpstreamFact { name: "extract".into(), ..UpstreamFact::default() };
    let ended = |outcome: Outcome| UpstreamFact {
        last: Some((outcome, at("11:30"))),
        last_success: (outcome == Completed).then(|| at("11:30")),
        ..none.clone()
    };
    for (facts, now, all, any) in [
        ([none.clone(), none.clone()], "12:00", "wait", "wait"),
        ([ended(Completed), none.clone()], "12:00", "wait", "go"),
        ([none.clone(), ended(Completed)], "12:00", "wait", "go"),
        ([ended(Failed), ended(Completed)], "12:00", "wait", "go"),
        ([ended(Completed), ended(Completed)], "12:00", "go", "go"),
        ([ended(Failed), none.clone()], "12:00", "wait", "wait"),
        ([ended(Completed), none.clone()], "13:00", "SKIPPED UPSTREAM_NOT_READY", "go"),
        (
            [ended(Failed), none.clone()],
            "13:00",
            "SKIPPED UPSTREAM_FAILED",
            "SKIPPED UPSTREAM_NOT_READY",
        ),
        (
            [ended(Failed), ended(Failed)],
            "13:00",
            "SKIPPED UPSTREAM_FAILED",
            "SKIPPED UPSTREAM_FAILED",
        ),
    ] {
        let dependency = |n| Dependency { job: JobId(Uuid::from_u128(n)), on: DependsOn::Success };
        let facts = StartFacts { upstream: facts.to_vec(), ..held() };
        for (dependency_rule, expected) in [(DependencyRule::All, all), (DependencyRule::Any, any)]
        {
            let depends_on = vec![dependency(2), dependency(3)];
            let definition = Definition { depends_on, dependency_rule, ..Definition::default() };
            let told = verdict(&run(Origin::Schedule), &definition, &facts, now);
            let told = told.strip_suffix(" Upstream with deadline").unwrap_or(&told);
            assert_eq!(told, expected, "{dependency_rule:?} {facts:?} at {now}");
        }
    }
}

#[test]
fn the_window_ends_with_the_next_time_or_the_time_out() {
    let plain = Definition::default();
    let timed = Definition {
        dependency_timeout: Some(SignedDuration::from_mins(10)),
        ..Definition::default()
    };
    let times = (Some(at("11:00")), Some(at("13:00")));
    assert_eq!(window(&plain, at("12:00"), times.0, times.1).deadline, at("13:00"));
    assert_eq!(window(&timed, at("12:00"), times.0, times.1).deadline, at("12:10"));
    assert_eq!(window(&plain, at("11:00"), None, None).deadline, at("23:00"));
}

#[test]
fn a_run_is_proposed_until_a_majority_of_an_epoch_has_acknowledged_it() {
    let definition = Definition::default();
    for (quorum, expected) in [
        (None, "go"),
        (Some((true, 2, 3)), "go"),
        (Some((true, 1, 3)), "wait Quorum with deadline"),
        (Some((false, 3, 3)), "wait Quorum with deadline"),
    ] {
        let quorum =
            quorum.map(|(led, acknowledged, schedulers)| Quorum { led, acknowledged, schedulers });
        let facts = StartFacts { quorum, ..held() };
        let mut run = run(Origin::Schedule);
        assert_eq!(verdict(&run, &definition, &facts, "12:00"), expected, "{quorum:?}");
        // The leader may have changed since the attempt before.
        run.attempts = 1;
        assert_eq!(verdict(&run, &definition, &facts, "12:00"), expected, "{quorum:?}");
    }
}

#[test]
fn proposals_get_rarer_and_never_end() {
    let facts = StartFacts { quorum: Some(Quorum::default()), ..held() };
    let until = |now: Timestamp| {
        let run = run(Origin::Schedule);
        match start(&run, &Definition::default(), &facts, &moment(&[], now)) {
            Start::Wait(Wait::Quorum, Some(until)) => until.duration_since(now),
            verdict => panic!("{verdict:?}"),
        }
    };
    assert_eq!(until(at("12:00")), QUORUM_ROUND);
    assert_eq!(until(at("12:02")), SignedDuration::from_mins(2));
    assert_eq!(until(at("23:00")), QUORUM_ROUND_MAX);
}

/// Runs that wait on the same node come first, like those that wait in the store.
#[test]
fn runs_that_wait_on_the_node_go_first() {
    use Origin::{Backfill, CatchUp, Manual, Schedule};
    use Overlap::{Allow, CancelPrevious, Queue, Skip};
    let before = [RunId(Uuid::from_u128(100))];
    for (policy, origin, expected) in [
        (Allow, Manual, "go"),
        (Skip, Manual, "wait Overlap "),
        (Skip, Backfill, "wait Overlap "),
        (Skip, CatchUp, "wait Overlap "),
        (Skip, Schedule, "go"),
        (Queue, Manual, "wait Overlap "),
        (Queue, Schedule, "go"),
        (CancelPrevious, Manual, "cancel earlier"),
    ] {
        let definition = Definition { overlap: policy, ..Definition::default() };
        let moment = Moment { line_here: &before, ..moment(&[], at("12:00")) };
        let verdict = start(&run(origin), &definition, &held(), &moment);
        assert_eq!(words(&verdict), expected, "{policy:?} {origin:?}");
        let two = Moment { most_running: 2, ..moment };
        let verdict = start(&run(origin), &definition, &held(), &two);
        assert_eq!(verdict, Start::Go, "{policy:?} {origin:?}");
    }
}
