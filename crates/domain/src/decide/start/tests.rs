//! What happens at the start, as tables.

use super::*;
use crate::cluster::{Place, Quorum};
use crate::id::{JobId, TenantId};
use crate::job::Dependency;
use crate::run::{Grant, NewRun};
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
            place: Place::default(),
        },
        attempts: 0,
        lost: 0,
    }
}

fn held() -> StartFacts {
    StartFacts { held: true, job_state: Some(JobState::Enabled), ..StartFacts::default() }
}

fn earlier(origin: Origin) -> EarlierRun {
    EarlierRun { id: RunId(Uuid::from_u128(6)), origin, waits_for_upstream: false }
}

fn day() -> Window {
    Window { start: at("11:00"), deadline: at("13:00") }
}

/// `go`, `forget`, `wait OVERLAP`, `cancel earlier`, `SKIPPED OVERLAP`.
fn verdict(run: &ClaimedRun, definition: &Definition, facts: &StartFacts, now: &str) -> String {
    match start(run, definition, day(), facts, at(now)) {
        Start::Go => "go".into(),
        Start::Forget => "forget".into(),
        Start::Early(by) => format!("early by {by:#}"),
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
    use Overlap::{Allow, CancelPrevious, Queue, Skip};
    for (policy, origin, blocker, expected) in [
        (Allow, Schedule, Some(Schedule), "go"),
        (Skip, Schedule, None, "go"),
        (Skip, Schedule, Some(Schedule), "SKIPPED OVERLAP"),
        // Only a live tick is skipped, and only for another live tick.
        (Skip, Schedule, Some(CatchUp), "wait Overlap "),
        (Skip, Schedule, Some(Manual), "wait Overlap "),
        (Skip, CatchUp, Some(CatchUp), "wait Overlap "),
        (Skip, Manual, Some(Schedule), "wait Overlap "),
        (Queue, Schedule, Some(Schedule), "wait Overlap "),
        (CancelPrevious, Schedule, Some(Schedule), "cancel earlier"),
        (CancelPrevious, Backfill, Some(Schedule), "wait Overlap "),
    ] {
        let definition = Definition { overlap: policy, ..Definition::default() };
        let facts = StartFacts { earlier: blocker.into_iter().map(earlier).collect(), ..held() };
        assert_eq!(
            verdict(&run(origin), &definition, &facts, "12:00"),
            expected,
            "{policy:?} {origin:?} {blocker:?}"
        );
    }
}

#[test]
fn concurrency_counts_active_runs_only() {
    let definition = Definition { concurrency: 2, overlap: Overlap::Skip, ..Definition::default() };
    let waiting = EarlierRun { waits_for_upstream: true, ..earlier(Origin::Schedule) };
    for (earlier_runs, expected) in [
        (vec![earlier(Origin::Schedule)], "go"),
        (vec![earlier(Origin::Schedule), waiting.clone(), waiting], "go"),
        (vec![earlier(Origin::Schedule), earlier(Origin::Schedule)], "SKIPPED OVERLAP"),
    ] {
        let facts = StartFacts { earlier: earlier_runs, ..held() };
        assert_eq!(verdict(&run(Origin::Schedule), &definition, &facts, "12:00"), expected);
    }
}

#[test]
fn what_changed_since_it_was_planned() {
    let definition =
        Definition { start_deadline: Some(SignedDuration::from_mins(30)), ..Definition::default() };
    let retried = ClaimedRun { attempts: 1, ..run(Origin::Schedule) };
    for (run, facts, now, expected) in [
        (run(Origin::Schedule), StartFacts::default(), "12:00", "forget"),
        // The clock of the node says that it is due, and it is not this clock that counts.
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
            run(Origin::Manual),
            StartFacts { job_state: None, ..held() },
            "12:00",
            "SKIPPED JOB_CHANGED",
        ),
        (run(Origin::Schedule), held(), "12:30", "go"),
        (run(Origin::Schedule), held(), "12:31", "MISSED START_DEADLINE"),
        // A retry has been let in before.
        (retried.clone(), held(), "12:31", "go"),
        (retried, StartFacts { earlier: vec![earlier(Origin::Schedule)], ..held() }, "12:31", "go"),
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
        // The window is open at its beginning: what ended then belongs to the one before.
        (
            Success,
            fact(Some((Completed, "11:00")), Some("11:00")),
            "12:00",
            "wait Upstream with deadline",
        ),
        (Success, fact(Some((Failed, "11:30")), None), "12:00", "wait Upstream with deadline"),
        // A later failure does not undo a success of the window.
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
    let until = |now: Timestamp| match start(
        &run(Origin::Schedule),
        &Definition::default(),
        day(),
        &facts,
        now,
    ) {
        Start::Wait(Wait::Quorum, Some(until)) => until.duration_since(now),
        verdict => panic!("{verdict:?}"),
    };
    assert_eq!(until(at("12:00")), QUORUM_ROUND);
    assert_eq!(until(at("12:02")), SignedDuration::from_mins(2));
    assert_eq!(until(at("23:00")), QUORUM_ROUND_MAX);
}
