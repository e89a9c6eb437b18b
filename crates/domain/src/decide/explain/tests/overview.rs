use super::*;

fn lines(stage: &Stage, rows: Vec<RunFacts>, details: Vec<RunDetail>) -> Vec<String> {
    let next = RunDetail::default();
    let report = overview(&stage.subject(), &OverviewFacts { rows, details, next });
    report.lines.iter().map(|line| format!("{} {}", line.aspect.name(), line.text)).collect()
}

#[test]
fn a_failing_job_is_told_from_health_to_next_times() {
    let every =
        When::Every { interval: seconds(7_200), starts: Some(at("11-01T00:30")), ends: None };
    let stage = Stage::hourly()
        .changed("11-16T17:03", "admin", JobState::Enabled, "schedule")
        .was(Definition { when: every, ..Definition::default() })
        .outage("11-16T22:58:10", "00:21:03");
    let retry = RunFacts {
        state: RunState::Pending,
        due_at: at("02:07:10"),
        finished_at: None,
        ..failed(2, "EXIT_5", "no route")
    };
    let last = RunFacts {
        id: id(0x100),
        scheduled_for: at("01:00"),
        attempts: 1,
        started_at: Some(at("01:00:12")),
        finished_at: Some(at("01:00:16.1")),
        node: Some("a".to_owned()),
        ..tick(RunState::Ended(Outcome::Completed))
    };
    let waited = AttemptFacts {
        waited: Some("waited for a slot: 64 of 64 busy".to_owned()),
        ..attempt(1, "01:00:12", "COMPLETED")
    };
    let skipped = RunFacts {
        scheduled_for: at("11-16T23:00"),
        scheduled_last: at("00:00"),
        count: 2,
        ..ended(Outcome::Skipped, "CATCH_UP", "the run of 2026-11-17T00:30:00Z stands for it")
    };
    let dead = RunFacts {
        scheduled_for: at("11-16T22:00"),
        finished_at: Some(at("11-16T22:09")),
        is_dead_letter: true,
        ..failed(4, "EXIT_1", "")
    };
    let rows = vec![retry, last, skipped, dead];
    let details =
        vec![RunDetail::default(), RunDetail { attempts: vec![waited], ..Default::default() }];
    assert_eq!(
        lines(&stage, rows, details),
        [
            "job report is enabled",
            "schedule at minute 0 past every hour, UTC",
            "health FAILING: 1 of the last 2 runs did not complete, 1 dead letter",
            "now 02:00:00Z RETRYING: waits for attempt 3 of 4 at 02:07:10Z; attempt 2 failed: exit code 5: no route; 2 attempts left",
            "last 01:00:00Z COMPLETED: completed in 4.1 s on node a; started 12 s late: waited for a slot: 64 of 64 busy",
            "skipped 2 ticks from 2026-11-16T23:00:00Z to 00:00:00Z SKIPPED (CATCH_UP): no server was running: the last heartbeat was at 2026-11-16T22:58:10Z, the next start at 00:21:03Z; the run of 2026-11-17T00:30:00Z stands for it; policy CATCH_UP LAST",
            "state enabled; created at 2026-11-01T00:30:00Z by ann; schedule changed at 2026-11-16T17:03:00Z by admin (was: every 2h), version 2",
            "next Tue 2026-11-17 03:00:00 +00:00",
            "next Tue 2026-11-17 04:00:00 +00:00",
            "next Tue 2026-11-17 05:00:00 +00:00",
        ]
    );
}

#[test]
fn states_have_a_verdict_of_their_own_and_no_next_times() {
    use JobState::{Completed, Deleted, Disabled, Paused};
    let done = || vec![RunFacts { attempts: 1, ..tick(RunState::Ended(Outcome::Completed)) }];
    for (stage, rows, verdict, parts) in [
        (Stage::hourly(), vec![], "NEW", vec!["NEW: no run has ended yet", "next "]),
        (Stage::hourly(), done(), "OK", vec!["OK: its only run completed"]),
        (
            Stage::hourly(),
            vec![failed(4, "EXIT_1", "")],
            "FAILING",
            vec!["its only run did not complete"],
        ),
        (
            Stage::hourly().changed("01:30", "bob", Paused, "status"),
            done(),
            "PAUSED",
            vec!["PAUSED: paused since 01:30:00Z by bob", "CATCH_UP LAST"],
        ),
        (
            Stage::hourly().changed("01:30", "bob", Disabled, "status"),
            done(),
            "DISABLED",
            vec!["disabled since 01:30:00Z by bob"],
        ),
        (
            Stage::hourly().changed("01:30", "bob", Deleted, "status"),
            done(),
            "DELETED",
            vec!["deleted since 01:30:00Z by bob"],
        ),
        (
            Stage::hourly().changed("01:30", "", Completed, "status"),
            done(),
            "COMPLETED",
            vec!["its run has ended"],
        ),
    ] {
        let report = overview(
            &stage.subject(),
            &OverviewFacts { rows: rows.clone(), ..OverviewFacts::default() },
        );
        assert_eq!(report.verdict, verdict);
        let text = lines(&stage, rows, Vec::new()).join("\n");
        has(verdict, &text, &parts);
        let is_on = stage.job.state == JobState::Enabled;
        assert_eq!(text.contains("\nnext "), is_on, "{text}");
        assert_eq!(report.next.is_some(), is_on);
    }
}

#[test]
fn more_live_runs_than_are_told_are_counted() {
    let rows: Vec<RunFacts> = (0..5)
        .map(|n| RunFacts { id: id(n), started_at: Some(at("02:00")), ..tick(RunState::Running) })
        .collect();
    let text = lines(&Stage::hourly(), rows, Vec::new()).join("\n");
    has("five", &text, &["RUNNING: runs since 02:00:00Z", "and 2 runs more that have not ended"]);
}
