use super::run::{Row, check, none, upstream};
use super::*;

#[test]
fn a_late_start_names_its_cause() {
    let run = |began: &str| RunFacts {
        attempts: 1,
        started_at: Some(at(began)),
        finished_at: Some(at(began) + seconds(4)),
        node: Some("a".to_owned()),
        ..tick(RunState::Ended(Outcome::Completed))
    };
    let waited = AttemptFacts {
        waited: Some(
            "waited for a slot: 2 of 2 process slots were busy until a run of etl ended".to_owned(),
        ),
        ..attempt(1, "02:00:12", "COMPLETED")
    };
    let after = RunDetail {
        others: vec![OtherRun {
            finished_at: Some(at("02:00:11")),
            ..other(0x100, "01:00", RunState::Ended(Outcome::Completed))
        }],
        ..none()
    };
    let dependent =
        RunDetail { upstream: vec![upstream(Some((Outcome::Completed, "02:00:11")))], ..none() };
    let joined = RunDetail { node_joined_at: Some(at("02:00:10")), ..none() };
    let reached = RunDetail { quorum_at: Some(at("02:00:10")), ..none() };
    let paused = || {
        Stage::hourly().changed("01:50", "bob", JobState::Paused, "status").changed(
            "02:00:10",
            "cid",
            JobState::Enabled,
            "status",
        )
    };
    let caught_up = RunFacts { origin: Origin::CatchUp, ..run("02:00:12") };
    let asked = RunFacts {
        origin: Origin::Manual,
        requested_by: Some("bob".to_owned()),
        ..run("02:00:12")
    };
    let lost = RunFacts { lost: 1, ..run("02:01:30") };
    let tried = RunDetail {
        attempts: vec![attempt(1, "02:00", "LOST"), attempt(2, "02:01:30", "COMPLETED")],
        ..none()
    };
    check(vec![
        Row(
            "slots",
            Stage::hourly(),
            run("02:00:12"),
            RunDetail { attempts: vec![waited], ..none() },
            "COMPLETED EXECUTION",
            &[
                "started 12 s late: waited for a slot: 2 of 2 process slots were busy until a run of etl ended",
            ],
        ),
        Row(
            "overlap",
            Stage::hourly(),
            run("02:00:12"),
            after,
            "COMPLETED EXECUTION",
            &["12 s late: waited for run", "00000100 of 01:00:00Z, which ended at 02:00:11Z"],
        ),
        Row(
            "upstream",
            Stage::hourly(),
            run("02:00:12"),
            dependent,
            "COMPLETED EXECUTION",
            &["waited for extract, which ended as COMPLETED at 02:00:11Z"],
        ),
        Row(
            "quorum",
            Stage::hourly(),
            run("02:00:12"),
            reached,
            "COMPLETED EXECUTION",
            &["waited for a quorum, which was reached at 02:00:10Z"],
        ),
        Row(
            "label",
            Stage::hourly().edit(|it| it.run_on = "zone=eu".parse().unwrap()),
            run("02:00:12"),
            joined,
            "COMPLETED EXECUTION",
            &["waited for a node with the labels zone=eu: node a joined at 02:00:10Z"],
        ),
        Row(
            "outage",
            Stage::hourly().outage("01:50", "02:00:10"),
            run("02:00:12"),
            none(),
            "COMPLETED EXECUTION",
            &[
                "no server was running: the last heartbeat was at 01:50:00Z, the next start at 02:00:10Z",
            ],
        ),
        Row(
            "pause",
            paused(),
            caught_up,
            none(),
            "COMPLETED EXECUTION",
            &["paused from 01:50:00Z by bob until it was resumed at 02:00:10Z by cid"],
        ),
        Row(
            "jitter",
            Stage::hourly().edit(|it| it.jitter = seconds(600)),
            run("02:08:42"),
            none(),
            "COMPLETED EXECUTION",
            &["JITTER moved its start by"],
        ),
        Row(
            "unknown",
            Stage::hourly(),
            run("02:00:12"),
            none(),
            "COMPLETED EXECUTION",
            &["12 s late; the cause was not recorded"],
        ),
        Row(
            "on request",
            Stage::hourly(),
            asked,
            none(),
            "COMPLETED EXECUTION",
            &["started 12 s late"],
        ),
        Row(
            "lost before",
            Stage::hourly(),
            lost,
            tried,
            "COMPLETED EXECUTION",
            &["attempt 1 was lost with node a"],
        ),
    ]);
}

#[test]
fn origins_and_repetitions_are_told() {
    let base = || RunFacts {
        attempts: 1,
        started_at: Some(at("02:00")),
        ..tick(RunState::Ended(Outcome::Completed))
    };
    let by =
        |origin, user: &str| RunFacts { origin, requested_by: Some(user.to_owned()), ..base() };
    let repeats = RunDetail {
        repeats: Some(other(0x100, "02:00", RunState::Ended(Outcome::Failed))),
        ..none()
    };
    let repeated = RunDetail {
        repeated_by: vec![OtherRun {
            requested_by: Some("cid".to_owned()),
            ..other(0x400, "02:00", RunState::Ended(Outcome::Completed))
        }],
        ..none()
    };
    let dead = RunFacts { is_dead_letter: true, ..failed(4, "EXIT_1", "") };
    for (run, detail, parts) in [
        (base(), none(), vec!["SCHEDULE the schedule names 02:00:00Z"]),
        (
            RunFacts { origin: Origin::CatchUp, coalesced: 2, ..base() },
            none(),
            vec!["CATCH_UP", "stands for 2 earlier times"],
        ),
        (by(Origin::Manual, "bob"), none(), vec!["MANUAL requested by bob for 02:00:00Z"]),
        (
            by(Origin::Backfill, "bob"),
            none(),
            vec!["BACKFILL backfill of 02:00:00Z, requested by bob"],
        ),
        (by(Origin::Manual, "bob"), repeats, vec!["RETRY retry by bob of run", "ended as FAILED"]),
        (RunFacts { origin: Origin::Dependency, ..base() }, none(), vec!["DEPENDENCY"]),
        (dead, repeated, vec!["it is a dead letter", "it was retried by cid: run", "COMPLETED"]),
    ] {
        let stage = Stage::hourly();
        let report = explain_run(&stage.subject(), &run, &detail);
        let text: Vec<String> = report
            .lines
            .iter()
            .map(|line| format!("{} {}", line.code.clone().unwrap_or_default(), line.text))
            .collect();
        has("origin", &text.join("\n"), &parts);
    }
}
