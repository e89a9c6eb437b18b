use super::*;
use crate::id::{JobId, TenantId, UserId};
use crate::job::{Definition, When};
use crate::schedule::{DstPolicy, Zones};
use uuid::Uuid;

fn at(text: &str) -> Timestamp {
    format!("2026-01-01T{text}Z").parse().unwrap()
}

fn hourly(state: JobState) -> Job {
    let (expression, zone) = ("0 * * * *".into(), "Europe/Berlin".into());
    let when = When::Cron { expression, zone, dst: DstPolicy::default() };
    Job {
        id: JobId(Uuid::from_u128(1)),
        tenant: TenantId::DEFAULT,
        owner: UserId::ADMIN,
        name: "job".into(),
        version: 1,
        state,
        definition: Definition { when, ..Definition::default() },
        next_run: None,
        created_at: at("00:30:00"),
        updated_at: at("00:30:00"),
    }
}

/// A run of a full hour that completed in four seconds.
fn run(hour: &str) -> RunFacts {
    let time = at(&format!("{hour}:00:00"));
    let after = |seconds| time + SignedDuration::from_secs(seconds);
    RunFacts {
        state: RunState::Ended(Outcome::Completed),
        reason: None,
        reason_text: None,
        scheduled_for: time,
        scheduled_last: time,
        count: 1,
        origin: Origin::Schedule,
        due_at: time,
        attempts: 1,
        started_at: Some(after(0)),
        finished_at: Some(after(4)),
        error: None,
        message: None,
        node: Some("a".into()),
        is_dead_letter: false,
    }
}

fn told(job: &Job, rows: &[RunFacts], aspect: Aspect) -> Vec<String> {
    let schedule = job.definition.when.compile(&Zones::bundled()).unwrap();
    let lines = overview(job, schedule.as_ref(), rows, at("10:30:00"));
    lines.into_iter().filter(|line| line.aspect == aspect).map(|line| line.text).collect()
}

#[test]
fn health_counts_runs_and_dead_letters_but_no_skips() {
    let failed = |hour| RunFacts { state: RunState::Ended(Outcome::Failed), ..run(hour) };
    let skipped = RunFacts { state: RunState::Ended(Outcome::Skipped), ..run("08") };
    let letter = RunFacts { is_dead_letter: true, ..failed("07") };
    for (rows, expected) in [
        (vec![], "NEW: no run has ended yet"),
        (vec![skipped.clone()], "NEW: no run has ended yet"),
        (vec![run("09")], "OK: its only run completed"),
        (vec![failed("09")], "FAILING: its only run did not complete"),
        (vec![run("10"), skipped, run("09")], "OK: the last 2 runs completed"),
        (
            vec![run("09"), failed("08"), letter],
            "FAILING: 2 of the last 3 runs did not complete, 1 dead letter",
        ),
    ] {
        assert_eq!(told(&hourly(JobState::Enabled), &rows, Aspect::Health), [expected]);
    }
}

#[test]
fn what_happens_now_names_the_attempt_and_the_error_before_it() {
    let running =
        RunFacts { state: RunState::Running, attempts: 1, finished_at: None, ..run("10") };
    let between = RunFacts {
        state: RunState::Pending,
        attempts: 2,
        due_at: at("10:31:00"),
        error: Some("EXIT_CODE".into()),
        message: Some("exit code 5".into()),
        ..run("10")
    };
    let queued = RunFacts { state: RunState::Queued, attempts: 0, ..run("10") };
    let prepared = RunFacts { state: RunState::Pending, attempts: 0, ..run("11") };
    for (row, expected) in [
        (running, vec!["RUNNING on node a since 2026-01-01T10:00:00Z, attempt 2 of 4"]),
        (
            between,
            vec![
                "waits for attempt 3 of 4 at 2026-01-01T10:31:00Z; the last one failed: \
                 EXIT_CODE: exit code 5",
            ],
        ),
        (queued, vec!["QUEUED for 30m: waits for a slot or for earlier runs of the job"]),
        (prepared, vec![]),
    ] {
        assert_eq!(told(&hourly(JobState::Enabled), &[row], Aspect::Now), expected);
    }
    let many: Vec<RunFacts> =
        (0..5).map(|_| RunFacts { state: RunState::Queued, ..run("10") }).collect();
    let lines = told(&hourly(JobState::Enabled), &many, Aspect::Now);
    assert_eq!(lines.last().unwrap(), "and 2 more runs that have not ended");
}

#[test]
fn the_last_outcome_says_how_long_how_late_and_why() {
    let late = RunFacts {
        started_at: Some(at("10:00:12")),
        finished_at: Some(at("10:00:16.1")),
        ..run("10")
    };
    let failed = RunFacts {
        state: RunState::Ended(Outcome::Failed),
        error: Some("HTTP_STATUS".into()),
        message: Some("500".into()),
        attempts: 4,
        ..run("09")
    };
    for (rows, expected) in [
        (vec![run("09")], vec!["COMPLETED in 4.0 s on node a"]),
        (vec![late], vec!["COMPLETED in 4.1 s on node a, started 12s late"]),
        (vec![failed], vec!["FAILED in 4.0 s on node a, attempt 4: HTTP_STATUS: 500"]),
        (vec![], vec![]),
    ] {
        assert_eq!(told(&hourly(JobState::Enabled), &rows, Aspect::Last), expected);
    }
}

#[test]
fn skips_name_their_reason_and_range() {
    let skipped = RunFacts {
        state: RunState::Ended(Outcome::Skipped),
        reason: Some("OVERLAP".into()),
        reason_text: Some("run x had not ended".into()),
        count: 3,
        ..run("09")
    };
    assert_eq!(
        told(&hourly(JobState::Enabled), &[skipped], Aspect::Skipped),
        ["3 ticks up to 2026-01-01T09:00:00Z, SKIPPED (OVERLAP): run x had not ended"]
    );
}

#[test]
fn only_an_enabled_job_has_times_to_come() {
    let next = told(&hourly(JobState::Enabled), &[], Aspect::Next);
    assert_eq!(next[0], "Thu 2026-01-01 12:00:00 +01:00");
    assert_eq!(next.len(), 3);
    for state in [JobState::Paused, JobState::Disabled, JobState::Completed, JobState::Deleted] {
        assert_eq!(told(&hourly(state), &[], Aspect::Next), Vec::<String>::new(), "{state:?}");
    }
    let paused = told(&hourly(JobState::Paused), &[], Aspect::State);
    assert!(paused[0].starts_with("paused: "), "{paused:?}");
}
