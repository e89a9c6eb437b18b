use super::*;
use crate::id::{JobId, TenantId, UserId};
use crate::job::{Definition, When};
use crate::schedule::{CatchUpPolicy, DstPolicy, Zones};
use uuid::Uuid;

fn at(text: &str) -> Timestamp {
    format!("2026-{text}:00Z").parse().unwrap()
}

/// Every hour in UTC, created on January 1st at 00:30, planned up to 10:00.
fn job() -> Job {
    hourly("0 * * * *", "UTC")
}

fn hourly(expression: &str, zone: &str) -> Job {
    let (expression, zone) = (expression.into(), zone.into());
    let when = When::Cron { expression, zone, dst: DstPolicy::default() };
    Job {
        id: JobId(Uuid::from_u128(1)),
        tenant: TenantId::DEFAULT,
        owner: UserId::ADMIN,
        name: "job".into(),
        version: 3,
        state: JobState::Enabled,
        definition: Definition { when, ..Definition::default() },
        next_run: Some(at("01-01T10:00")),
        created_at: at("01-01T00:30"),
        updated_at: at("01-01T04:30"),
    }
}

fn asked(job: &Job, time: &str, now: &str, record: Option<Record>) -> Explanation {
    let schedule = job.definition.when.compile(&Zones::bundled()).unwrap();
    explain(Question {
        job,
        schedule: schedule.as_ref(),
        at: at(time),
        now: at(now),
        outages: &[],
        record,
        active: 1,
        upstream: Vec::new(),
        cluster: None,
        division: None,
    })
}

/// The name, the sentence and the obstacles.
fn line(explanation: &Explanation) -> String {
    let verdict = &explanation.verdict;
    let obstacles = explanation.obstacles.iter().map(|obstacle| format!(" | {obstacle:?}"));
    format!("{} {verdict}{}", verdict.name(), obstacles.collect::<String>())
}

#[test]
fn every_time_has_an_answer() {
    let paused = Job { state: JobState::Paused, ..job() };
    let disabled = Job { state: JobState::Disabled, ..job() };
    let ended = Job { state: JobState::Completed, next_run: None, ..job() };
    let mut manual = job();
    manual.definition.when = When::Manual;
    let mut beside = job();
    beside.definition.overlap = Overlap::Allow;
    let mut jitter = beside.clone();
    jitter.definition.jitter = SignedDuration::from_secs(600);
    let mut careless = beside.clone();
    careless.definition.catch_up = CatchUpPolicy::None;
    let now = "01-01T09:30";
    let table = [
        (&job(), "01-01T12:30", now, "NOT_SCHEDULED it is not a time of the schedule"),
        (&job(), "01-01T07:30", now, "NOT_SCHEDULED it is not a time of the schedule"),
        (&job(), "01-01T00:00", now, "BEFORE_JOB the job did not exist yet"),
        (
            &job(),
            "01-01T03:00",
            now,
            "BEFORE_CHANGE the job was changed since; it was not due at that time",
        ),
        (
            &job(),
            "01-01T08:00",
            now,
            "FORGOTTEN it was planned, but its record is older than history is kept",
        ),
        (
            &job(),
            "01-01T11:00",
            now,
            "PLANNED a run will be due at 2026-01-01T11:00:00Z | Active(Skip, 1)",
        ),
        (&beside, "01-01T11:00", now, "PLANNED a run will be due at 2026-01-01T11:00:00Z"),
        (&jitter, "01-01T11:00", now, "PLANNED a run will be due at 2026-01-01T11:00:12.071Z"),
        (
            &paused,
            "01-01T11:00",
            now,
            "PLANNED a run will be due at 2026-01-01T11:00:00Z | Paused | Active(Skip, 1)",
        ),
        (&disabled, "01-01T11:00", now, "OFF the job is disabled, so nothing is planned"),
        (&ended, "01-01T11:00", now, "OFF the job is completed, so nothing is planned"),
        (&manual, "01-01T11:00", now, "NO_SCHEDULE the job has no schedule of its own"),
        // The planner has not run since ten o'clock.
        (&beside, "01-01T12:00", "01-01T12:30", "LATE it is late and will be caught up"),
        (
            &beside,
            "01-01T11:00",
            "01-01T12:30",
            "LATE it is late and will end as SKIPPED: the run of 2026-01-01T12:00:00Z stands for it",
        ),
        (
            &careless,
            "01-01T11:00",
            "01-01T12:30",
            "LATE it is late and will end as SKIPPED: no scheduler was alive at its time, and the job does not catch up",
        ),
    ];
    for (job, time, now, expected) in table {
        assert_eq!(line(&asked(job, time, now, None)), expected, "{time} at {now}");
    }
}

#[test]
fn the_ledger_has_the_last_word() {
    let record = |state, reason: Option<&str>, count| Record {
        id: RunId(Uuid::nil()),
        state,
        reason: reason.map(|_| "OVERLAP".into()),
        reason_text: reason.map(Into::into),
        first: at("01-01T05:00"),
        last: at("01-01T07:00"),
        count,
        started_at: None,
        finished_at: None,
    };
    let skipped = RunState::Ended(Outcome::Skipped);
    let table = [
        (record(RunState::Ended(Outcome::Completed), None, 1), "RECORDED it is COMPLETED"),
        (record(skipped, Some("another one ran"), 1), "RECORDED it is SKIPPED: another one ran"),
        (
            record(skipped, Some("gone"), 3),
            "RECORDED it is SKIPPED: gone (one row for 3 times from 2026-01-01T05:00:00Z to 2026-01-01T07:00:00Z)",
        ),
        (record(RunState::Running, None, 1), "RECORDED it is RUNNING"),
        (record(RunState::Queued, None, 1), "RECORDED it is QUEUED | Active(Skip, 1)"),
    ];
    for (record, expected) in table {
        let answer = asked(&job(), "01-01T07:00", "01-01T09:30", Some(record));
        assert_eq!(line(&answer), expected);
    }
}

#[test]
fn the_neighbours_and_the_gap_are_told() {
    let answer = asked(&job(), "01-01T12:30", "01-01T09:30", None);
    assert_eq!(answer.before, Some(at("01-01T12:00")));
    assert_eq!((answer.after, answer.skipped.len()), (Some(at("01-01T13:00")), 0));
    let job = hourly("30 2 * * *", "America/New_York");
    let answer = asked(&job, "03-08T07:30", "03-01T00:00", None);
    assert_eq!(answer.verdict, Verdict::NotScheduled);
    assert_eq!(answer.before, Some(at("03-07T07:30")));
    assert_eq!(answer.after, Some(at("03-09T06:30")));
    assert_eq!(answer.skipped.len(), 1);
    assert_eq!(answer.skipped[0].first.to_string(), "2026-03-08T02:30:00");
}

#[test]
fn jobs_that_are_waited_for_are_named() {
    let job = job();
    let schedule = job.definition.when.compile(&Zones::bundled()).unwrap();
    let upstream = Upstream { name: "load".into(), on: DependsOn::Success, last: None };
    let answer = explain(Question {
        job: &job,
        schedule: schedule.as_ref(),
        at: at("01-01T11:00"),
        outages: &[],
        now: at("01-01T09:30"),
        record: None,
        active: 0,
        upstream: vec![upstream.clone()],
        cluster: None,
        division: None,
    });
    assert_eq!(answer.obstacles, [Obstacle::DependsOn(upstream)]);
}

#[test]
fn what_a_run_waits_for_in_a_cluster_is_said() {
    let words = |text: &str| -> Vec<String> { text.split_whitespace().map(Into::into).collect() };
    let labels: Labels = "zone=eu".parse().unwrap();
    let quorum = |acknowledged| Quorum { led: true, acknowledged, schedulers: 3 };
    for (class, run_on, leader, agents, acknowledged, expected) in [
        (Class::LocalSafe, "", None, vec![""], 0, None),
        (Class::LocalSafe, "zone=eu", None, vec!["zone=us"], 0, Some(Obstacle::NoNode(labels))),
        (Class::LocalSafe, "zone=eu", None, vec!["zone=us", "zone=eu"], 0, None),
        (Class::LeaderOnly, "", None, vec![""], 0, Some(Obstacle::NoLeader)),
        (Class::LeaderOnly, "", Some("LEADER_ONLY"), vec!["LEADER_ONLY"], 0, None),
        (
            Class::LeaderOnly,
            "",
            Some("LEADER_ONLY"),
            vec!["zone=eu"],
            0,
            Some(Obstacle::NoNode(Labels::default())),
        ),
        (Class::QuorumRequired, "", None, vec![""], 3, Some(Obstacle::NoLeader)),
        (Class::QuorumRequired, "", Some(""), vec![""], 1, Some(Obstacle::Quorum(quorum(1)))),
        (Class::QuorumRequired, "", Some(""), vec![""], 2, None),
    ] {
        let run_on = run_on.parse().unwrap();
        let definition = Definition { class, run_on, ..Definition::default() };
        let cluster = Cluster {
            leader: leader.map(words),
            agents: agents.into_iter().map(words).collect(),
            quorum: quorum(acknowledged),
        };
        assert_eq!(placement(&definition, &cluster), expected, "{class} {cluster:?}");
    }
}
