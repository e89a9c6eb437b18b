use super::*;
use crate::cluster::NodeState;
use crate::job::Overlap;
use crate::queue::KeepCompleted;
use crate::schedule::{AskedTime, GapRule, OverlapRule, asked_time};

fn asked(stage: &Stage, text: &str) -> AskedTime {
    asked_time(text, &stage.zone, &Zones::bundled(), stage.now).unwrap()
}

fn facts(stage: &Stage, text: &str) -> TimeFacts {
    let asked = asked(stage, text);
    let nodes = vec![node("a", NodeState::Active, 0)];
    let prospect = RunDetail { cluster: Some(cluster(nodes)), ..RunDetail::default() };
    TimeFacts { asked, runs: Vec::new(), before: None, prospect }
}

#[test]
fn a_time_without_a_run_names_its_cause() {
    use JobState::{Completed, Deleted, Disabled, Enabled, Paused};
    let paused = || Stage::hourly().changed("01:30", "bob", Paused, "status");
    let disabled = || Stage::hourly().changed("01:30", "bob", Disabled, "status");
    let between = || disabled().changed("02:02", "cid", Enabled, "status");
    let deleted = || Stage::hourly().changed("01:30", "bob", Deleted, "status");
    let changed = || Stage::hourly().changed("01:30", "bob", Enabled, "schedule");
    let renamed = || Stage::hourly().changed("01:30", "bob", Enabled, "name");
    let once = |time: &str| Stage::with(When::At { at: at(time) });
    let every = || {
        let when = When::Every {
            interval: seconds(600),
            starts: Some(at("01:00")),
            ends: Some(at("04:00")),
        };
        Stage::with(when)
    };
    let late = || {
        let mut stage = Stage::hourly().outage("00:30", "02:04:30");
        stage.job.next_run = Some(at("01:00"));
        stage
    };
    let kept = |keep_completed| KeptFor {
        days: 1,
        failed_days: 2,
        keep_last: None,
        keep_completed,
        is_own: true,
    };
    let kept_of = |keep_completed| {
        let mut stage = Stage::hourly();
        stage.kept = kept(keep_completed);
        stage
    };
    let own = || {
        let mut stage = Stage::hourly();
        stage.kept = KeptFor { keep_last: Some(5), ..kept(KeepCompleted::All) };
        stage
    };
    let rows: Vec<(&str, Stage, &str, &str, &[&str])> = vec![
        (
            "to come",
            Stage::hourly(),
            "04:00",
            "PLANNED DUE",
            &["a run will be due at 04:00:00Z (in 1h 55m)"],
        ),
        (
            "to come with jitter",
            Stage::hourly().edit(|it| it.jitter = seconds(600)),
            "04:00",
            "PLANNED DUE",
            &["because of JITTER"],
        ),
        (
            "to come and paused",
            paused(),
            "04:00",
            "PAUSED ENABLED",
            &["the job is paused since 01:30:00Z by bob", "CATCH_UP LAST"],
        ),
        (
            "to come and disabled",
            disabled(),
            "04:00",
            "DISABLED ENABLED",
            &["disabled since 01:30:00Z by bob"],
        ),
        (
            "never",
            Stage::hourly(),
            "04:30",
            "NOT_SCHEDULED SCHEDULED",
            &[
                "04:30:00Z is not a time of the schedule",
                "the nearest times are 04:00:00Z and 05:00:00Z",
            ],
        ),
        (
            "never, in the past",
            Stage::hourly(),
            "01:15",
            "NOT_SCHEDULED SCHEDULED",
            &["01:00:00Z and 02:00:00Z"],
        ),
        (
            "never, and the schedule was changed",
            changed(),
            "01:15",
            "NOT_SCHEDULED SCHEDULED",
            &["changed by bob"],
        ),
        (
            "before the schedule begins",
            every(),
            "00:50",
            "NOT_SCHEDULED SCHEDULED",
            &["the schedule begins at 01:00:00Z"],
        ),
        (
            "after the schedule ended",
            every(),
            "04:10",
            "NOT_SCHEDULED SCHEDULED",
            &["the schedule ended at 04:00:00Z"],
        ),
        (
            "once, another time",
            once("03:00"),
            "03:30",
            "NOT_SCHEDULED SCHEDULED",
            &["due once, at 03:00:00Z"],
        ),
        (
            "no schedule",
            Stage::with(When::Manual),
            "02:00",
            "NO_SCHEDULE SCHEDULED",
            &["runs only on request"],
        ),
        (
            "after dependencies",
            Stage::with(When::AfterDependencies),
            "02:00",
            "NO_SCHEDULE SCHEDULED",
            &["when the jobs that it depends on have ended"],
        ),
        (
            "before the job",
            Stage::hourly(),
            "2026-10-31 02:00",
            "BEFORE_JOB EXISTS",
            &["created at 2026-11-01T00:30:00Z by ann"],
        ),
        (
            "the day on which the job was created",
            Stage::hourly(),
            "2026-11-01",
            "FORGOTTEN PLANNED",
            &["2026-11-01T01:00:00Z was a time of the schedule"],
        ),
        (
            "after the deletion",
            deleted(),
            "02:00",
            "DELETED EXISTS",
            &["deleted at 01:30:00Z by bob"],
        ),
        (
            "paused then",
            paused(),
            "02:00",
            "PAUSED ENABLED",
            &["paused since 01:30:00Z by bob", "when it is resumed"],
        ),
        (
            "disabled then",
            disabled(),
            "02:00",
            "DISABLED ENABLED",
            &["disabled at 02:00:00Z", "disabled since 01:30:00Z by bob"],
        ),
        (
            "disabled then, enabled now",
            between(),
            "02:00",
            "DISABLED ENABLED",
            &["disabled from 01:30:00Z by bob until it was resumed at 02:02:00Z by cid"],
        ),
        (
            "another schedule then",
            changed(),
            "01:00",
            "BEFORE_CHANGE SCHEDULED",
            &["another schedule until 01:30:00Z, when it was changed by bob"],
        ),
        (
            "forgotten",
            Stage::hourly(),
            "2026-11-02 02:00",
            "FORGOTTEN PLANNED",
            &["forgotten (retention of the cluster: runs are kept for 30 days"],
        ),
        (
            "forgotten by a rule of the job",
            own(),
            "2026-11-02 02:00",
            "FORGOTTEN PLANNED",
            &[
                "retention of the job: runs are kept for 1 day and failed runs for 2 days, and only the last 5",
            ],
        ),
        (
            "not kept, because it completed",
            kept_of(KeepCompleted::None),
            "01:00",
            "FORGOTTEN PLANNED",
            &["its run completed, and its record was deleted (KEEP_COMPLETED = NONE of the job: \
                 of completed runs, only the newest is kept)"],
        ),
        (
            "not in the sample",
            kept_of(KeepCompleted::Sample(100)),
            "01:00",
            "FORGOTTEN PLANNED",
            &["(KEEP_COMPLETED = SAMPLE 100 of the job: one of 100 completed runs is kept)"],
        ),
        (
            "older than what is kept in any case",
            kept_of(KeepCompleted::None),
            "2026-11-02 02:00",
            "FORGOTTEN PLANNED",
            &["retention of the job: runs are kept for 1 day"],
        ),
        (
            "forgotten although renamed since",
            renamed(),
            "2026-11-02 02:00",
            "FORGOTTEN PLANNED",
            &["forgotten"],
        ),
        (
            "late",
            late(),
            "02:00",
            "LATE PLANNED",
            &[
                "will be caught up",
                "no server was running: the last heartbeat was at 00:30:00Z, the next start at 02:04:30Z",
            ],
        ),
        (
            "late and dropped",
            late(),
            "01:00",
            "LATE PLANNED",
            &["will end as SKIPPED", "the run of 2026-11-17T02:00:00Z stands for it"],
        ),
        (
            "completed",
            once("01:00").changed("01:01", "punctual", Completed, "status"),
            "01:30",
            "NOT_SCHEDULED SCHEDULED",
            &["the job is completed"],
        ),
    ];
    for (situation, stage, time, verdict, parts) in rows {
        let report = explain_time(&stage.subject(), &facts(&stage, time));
        let (found, message) = told(&report);
        assert_eq!(found, verdict, "{situation}: {message}");
        has(situation, &message, parts);
        let has_next = report.lines.iter().any(|line| line.aspect == Aspect::Next);
        let is_on = stage.job.state == JobState::Enabled;
        assert!(is_on || !has_next, "{situation}: nothing comes next");
    }
}

#[test]
fn local_times_of_clock_changes_are_told() {
    let zone = "Europe/Berlin";
    let with = |expression: &str, gap, overlap| {
        let dst = DstPolicy { gap, overlap };
        let mut stage =
            Stage::with(When::Cron { expression: expression.into(), zone: zone.into(), dst });
        stage.job.created_at = at("01-01T00:00");
        stage.job.next_run = Some(at("03-01T00:00"));
        stage.events =
            vec![event("01-01T00:00", "ann", Kind::JobCreated, r#"{"state":"ENABLED"}"#)];
        stage.now = at("02-01T00:00");
        stage
    };
    let daily = |gap| with("30 2 * * *", gap, None);
    for (situation, stage, time, verdict, parts) in [
        (
            "gap",
            daily(None),
            "2026-03-29 02:30",
            "DST_GAP",
            vec!["2026-03-29T02:30:00 does not exist in Europe/Berlin", "GAP SKIP"],
        ),
        (
            "day with a gap",
            daily(None),
            "2026-03-29",
            "DST_GAP",
            vec!["2026-03-29T02:30:00 does not exist in Europe/Berlin", "GAP SKIP"],
        ),
        (
            "gap at another time",
            daily(None),
            "2026-03-29 02:15",
            "DST_GAP",
            vec!["not a time of the schedule"],
        ),
        (
            "gap of an hourly job",
            with("30 * * * *", None, None),
            "2026-03-29 02:30",
            "DST_GAP",
            vec!["matches every hour"],
        ),
        (
            "gap that shifts",
            daily(Some(GapRule::ShiftAfter)),
            "2026-03-29 02:30",
            "DST_GAP",
            vec!["GAP SHIFT_AFTER"],
        ),
        (
            "gap that shifts by the offset",
            daily(Some(GapRule::ShiftByOffset)),
            "2026-03-29 02:30",
            "DST_GAP",
            vec!["GAP SHIFT_BY_OFFSET"],
        ),
        (
            "fold",
            daily(None),
            "2026-10-25 02:30",
            "PLANNED",
            vec!["happens twice", "the first pass only"],
        ),
        (
            "fold, second",
            with("30 2 * * *", None, Some(OverlapRule::Second)),
            "2026-10-25 02:30",
            "PLANNED",
            vec!["the second pass only"],
        ),
        (
            "fold, both",
            with("30 2 * * *", None, Some(OverlapRule::Both)),
            "2026-10-25 02:30",
            "PLANNED",
            vec!["the job runs at both"],
        ),
        (
            "local time",
            daily(None),
            "2026-07-01 02:30",
            "PLANNED",
            vec!["2026-07-01T02:30:00+02:00"],
        ),
    ] {
        let report = explain_time(&stage.subject(), &facts(&stage, time));
        let lines: Vec<&str> = report.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(report.verdict, verdict, "{situation}: {lines:?}");
        has(situation, &lines.join("\n"), &parts);
    }
}

#[test]
fn both_passes_of_a_local_time_are_told() {
    let dst = DstPolicy { gap: None, overlap: Some(OverlapRule::Both) };
    let (expression, zone) = ("30 2 * * *".into(), "Europe/Berlin".into());
    let mut stage = Stage::with(When::Cron { expression, zone, dst });
    stage.now = at("10-25T01:00");
    stage.job.created_at = at("10-01T00:00");
    stage.events = vec![event("10-01T00:00", "ann", Kind::JobCreated, r#"{"state":"ENABLED"}"#)];
    let passes = [at("10-25T00:30"), at("10-25T01:30")];
    let mut facts = facts(&stage, "2026-10-25 02:30");
    let told = |facts: &TimeFacts| {
        let report = explain_time(&stage.subject(), facts);
        let lines = report.lines.iter().filter(|it| it.aspect == Aspect::Run);
        let others: Vec<_> = lines.map(|it| (it.at.unwrap(), it.code.clone().unwrap())).collect();
        (report.at.unwrap(), report.verdict, others)
    };
    // The first pass has ended, the second one is to come.
    let run = RunFacts {
        scheduled_for: passes[0],
        scheduled_last: passes[0],
        ..tick(RunState::Ended(Outcome::Completed))
    };
    facts.runs = vec![RunAndDetail { run: run.clone(), detail: RunDetail::default() }];
    let (at, verdict, others) = told(&facts);
    assert_eq!((at, verdict), (passes[0], "COMPLETED"));
    assert_eq!(others, [(passes[1], "PLANNED".to_owned())]);
    // Both have a run.
    let second =
        RunFacts { id: id(0x500), scheduled_for: passes[1], scheduled_last: passes[1], ..run };
    facts.runs.push(RunAndDetail { run: second, detail: RunDetail::default() });
    let (at, _, others) = told(&facts);
    assert_eq!((at, others), (passes[0], vec![(passes[1], "COMPLETED".to_owned())]));
}

#[test]
fn every_run_of_a_time_is_told() {
    let stage = Stage::hourly();
    let detail = RunDetail::default;
    let scheduled = RunAndDetail {
        run: ended(Outcome::Skipped, "OVERLAP", "run x had not ended"),
        detail: detail(),
    };
    let manual = RunFacts {
        id: id(0x300),
        scheduled_for: at("02:00:00.7"),
        origin: Origin::Manual,
        requested_by: Some("bob".to_owned()),
        ..tick(RunState::Ended(Outcome::Completed))
    };
    let backfill = RunFacts {
        id: id(0x400),
        origin: Origin::Backfill,
        requested_by: Some("cid".to_owned()),
        ..tick(RunState::Running)
    };
    let elsewhere = RunFacts { scheduled_for: at("02:00:01"), ..manual.clone() };
    let second = asked(&stage, "2026-11-17T02:00:00Z");
    assert!(TimeFacts::is_meant(&second, &manual), "within the second");
    assert!(!TimeFacts::is_meant(&second, &elsewhere));
    assert!(TimeFacts::is_meant(&asked(&stage, "02:00"), &elsewhere), "within the minute");
    let range = RunFacts {
        scheduled_for: at("00:00"),
        scheduled_last: at("04:00"),
        count: 5,
        ..scheduled.run.clone()
    };
    assert!(TimeFacts::is_meant(&second, &range), "a row for several times");
    let runs = [manual, backfill].map(|run| RunAndDetail { run, detail: detail() });
    let runs = runs.into_iter().chain([scheduled]).collect();
    let report = explain_time(&stage.subject(), &TimeFacts { runs, ..facts(&stage, "02:00") });
    assert_eq!((report.verdict, report.run), ("SKIPPED", Some(id(0x200))));
    let others: Vec<&str> = report
        .lines
        .iter()
        .filter(|line| line.aspect == Aspect::Run)
        .map(|line| line.text.as_str())
        .collect();
    assert_eq!(others.len(), 2);
    has("backfill", others[0], &["backfill of 02:00:00Z, requested by cid", "RUNNING"]);
    has("manual", others[1], &["requested by bob", "COMPLETED"]);
}

#[test]
fn obstacles_of_a_time_to_come_are_told() {
    let busy = || vec![other(0x100, "02:00", RunState::Running)];
    for (situation, overlap, parts) in [
        ("skip", Overlap::Skip, vec!["1 earlier run active", "OVERLAP SKIP"]),
        ("queue", Overlap::Queue, vec!["OVERLAP QUEUE"]),
        ("cancel", Overlap::CancelPrevious, vec!["OVERLAP CANCEL_PREVIOUS"]),
        ("allow", Overlap::Allow, vec![]),
    ] {
        let stage = Stage::hourly().edit(|it| it.overlap = overlap);
        let mut facts = facts(&stage, "03:00");
        facts.prospect.others = busy();
        let report = explain_time(&stage.subject(), &facts);
        assert_eq!(report.verdict, "PLANNED");
        assert_eq!(report.obstacles.len(), usize::from(!parts.is_empty()), "{situation}");
        has(situation, &report.obstacles.join("\n"), &parts);
    }
    let stage = Stage::hourly().edit(|it| it.run_on = "zone=eu".parse().unwrap());
    let report = explain_time(&stage.subject(), &facts(&stage, "03:00"));
    has("label", &report.obstacles.join("\n"), &["a node with the labels zone=eu"]);
}
