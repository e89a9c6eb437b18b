use super::*;
use crate::action::{Action, BackupAction, ExternalAction, HttpAction, ProcedureAction, SqlAction};
use crate::cluster::{Class, Labels};
use crate::job::{Dependency, DependsOn, OnLost, Overlap, RetryPolicy};
use crate::partition::Partition;
use crate::schedule::CatchUpPolicy;

/// The line about the state of a job whose last change was of some fields.
fn state_of(stage: &Stage) -> String {
    let report = overview(&stage.subject(), &OverviewFacts::default());
    let line = report.lines.iter().find(|line| line.aspect == Aspect::State);
    line.unwrap().text.clone()
}

#[test]
fn a_change_is_told_with_the_value_that_it_replaced() {
    let old = Definition::default;
    let cron = |expression: &str, zone: &str| When::Cron {
        expression: expression.into(),
        zone: zone.into(),
        dst: DstPolicy::default(),
    };
    let every = |interval, ends: Option<&str>| When::Every {
        interval: seconds(interval),
        starts: Some(at("01:00")),
        ends: ends.map(at),
    };
    let when = |when| Definition { when, ..old() };
    let does = |action| Definition { action, ..old() };
    let sql = |sql: &str| Action::Sql(SqlAction { sql: sql.into(), database: None });
    let command = ExternalAction {
        command: "/bin/sync".into(),
        arguments: vec!["--all".into()],
        environment: Default::default(),
    };
    let call = HttpAction {
        endpoint: "https://example.org/x".into(),
        method: "GET".into(),
        headers: Default::default(),
        body: None,
        expected_status: Vec::new(),
    };
    let call = Action::Http(call);
    let procedure =
        ProcedureAction { procedure: "refresh".into(), arguments: Vec::new(), database: None };
    let backup =
        BackupAction { target: "nightly".into(), keep: None, outputs: true, artifacts: false };
    let upstream = Dependency { job: JobId(Uuid::from_u128(7)), on: DependsOn::Success };
    let labels: Labels = serde_json::from_str(r#"{"zone": "eu"}"#).unwrap();
    let shards = Partition::AllShards;
    let long = "x".repeat(90);
    let cut = format!("{}…", "x".repeat(80));
    for (field, old, was) in [
        ("schedule", when(every(7_200, None)), "every 2h"),
        ("schedule", when(every(5_400, Some("03:00"))), "every 1h30m until 2026-11-17T03:00:00Z"),
        ("schedule", when(cron("0 2 * * *", "UTC")), "0 2 * * *"),
        ("schedule", when(cron("0 2 * * *", "Europe/Berlin")), "0 2 * * * Europe/Berlin"),
        ("schedule", when(When::At { at: at("01:00") }), "once at 2026-11-17T01:00:00Z"),
        ("schedule", when(When::Manual), "on request"),
        ("schedule", when(When::AfterDependencies), "after dependencies"),
        ("payload", does(sql("DELETE FROM a")), "DELETE FROM a"),
        ("payload", does(sql("  DELETE FROM a;\nDELETE FROM b")), "DELETE FROM a; …"),
        ("payload", does(sql(&long)), &cut),
        ("payload", does(Action::External(command)), "/bin/sync --all"),
        ("payload", does(call), "GET https://example.org/x"),
        ("payload", does(Action::Procedure(procedure)), "CALL refresh"),
        ("payload", does(Action::Backup(backup)), "backup to nightly"),
        ("payload", does(Action::Noop), "no action"),
        ("name", old(), "daily"),
        ("description", old(), "none"),
        ("description", Definition { description: Some("Loads.".into()), ..old() }, "Loads."),
        ("run_as", Definition { run_as: Some("etl".into()), ..old() }, "etl"),
        (
            "retry_config",
            Definition { retry: RetryPolicy { max_attempts: 1, ..Default::default() }, ..old() },
            "1 attempt after 1m",
        ),
        ("timeout_seconds", Definition { timeout: seconds(90), ..old() }, "1m30s"),
        ("grace_period_seconds", old(), "10s"),
        ("catch_up", Definition { catch_up: CatchUpPolicy::All, ..old() }, "ALL"),
        ("max_catch_up", old(), "100"),
        ("start_deadline_seconds", old(), "none"),
        ("overlap", Definition { overlap: Overlap::CancelPrevious, ..old() }, "CANCEL_PREVIOUS"),
        ("concurrency", Definition { concurrency: Some(3), ..old() }, "3"),
        ("jitter_seconds", old(), "0s"),
        ("priority", Definition { priority: 9, ..old() }, "9"),
        ("on_completion", old(), "PRESERVE"),
        ("on_lost", Definition { on_lost: OnLost::Fail, ..old() }, "FAIL"),
        ("depends_on", old(), "none"),
        ("depends_on", Definition { depends_on: vec![upstream], ..old() }, "1 job"),
        ("dependency_timeout_seconds", old(), "none"),
        ("tags", old(), "none"),
        ("tags", Definition { tags: vec!["a".into(), "b".into()], ..old() }, "a b"),
        ("class", Definition { class: Class::QuorumRequired, ..old() }, "QUORUM_REQUIRED"),
        ("run_on", Definition { run_on: labels, ..old() }, "zone=eu"),
        ("partition", Definition { partition: Some(shards), ..old() }, "ALL_SHARDS"),
    ] {
        let stage = Stage::hourly().changed("11-16T17:03", "admin", JobState::Enabled, field);
        let text = state_of(&stage.was(old));
        let told = format!("{field} changed at 2026-11-16T17:03:00Z by admin (was: {was})");
        has(field, &text, &["enabled; created at", &told, ", version 2"]);
    }
}

#[test]
fn several_fields_are_told_by_name_and_states_apart_from_definitions() {
    let (enabled, paused) = (JobState::Enabled, JobState::Paused);
    let old = || Definition { priority: 9, ..Definition::default() };
    let both = Stage::hourly().changed("01:30", "bob", enabled, "schedule priority").was(old());
    let told =
        "; schedule, priority changed at 01:30:00Z by bob (was: schedule on request, priority 9)";
    has("both", &state_of(&both), &["enabled; created", told]);
    // Fields whose values are long are named without them.
    let long = Stage::hourly().changed("01:30", "bob", enabled, "parameters").was(old());
    has("long", &state_of(&long), &["; parameters changed at 01:30:00Z by bob, version 2"]);
    // A pause afterwards does not hide earlier changes.
    let stage = Stage::hourly()
        .changed("01:30", "bob", enabled, "priority")
        .changed("01:40", "eve", paused, "status")
        .was(old());
    let told = ["paused since 01:40:00Z by eve", "priority changed at 01:30:00Z by bob (was: 9)"];
    has("paused", &state_of(&stage), &told);
    let stage = stage.changed("01:50", "ann", enabled, "status");
    let told = ["enabled since 01:50:00Z by ann; created", "priority changed at 01:30:00Z by bob"];
    has("resumed", &state_of(&stage), &told);
    // The version before is not known any more.
    let forgotten = Stage::hourly().changed("01:30", "bob", enabled, "priority");
    has("forgotten", &state_of(&forgotten), &["; priority changed at 01:30:00Z by bob, version 2"]);
}
