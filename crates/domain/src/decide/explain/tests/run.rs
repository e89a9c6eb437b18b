use super::*;
use crate::job::DependsOn;

/// A situation of a run: the stage, the run, its details, the verdict with the step that decided,
/// and the required parts of the message.
pub struct Row(
    pub &'static str,
    pub Stage,
    pub RunFacts,
    pub RunDetail,
    pub &'static str,
    pub &'static [&'static str],
);

pub fn check(rows: Vec<Row>) {
    for Row(situation, stage, run, detail, verdict, parts) in rows {
        let report = explain_run(&stage.subject(), &run, &detail);
        let (found, message) = told(&report);
        assert_eq!(found, verdict, "{situation}: {message}");
        has(situation, &message, parts);
    }
}

pub fn none() -> RunDetail {
    RunDetail::default()
}

pub fn of_live(wait: Option<Wait>) -> RunDetail {
    RunDetail {
        live: Some(live(wait)),
        cluster: Some(cluster(vec![node("a", NodeState::Active, 0)])),
        ..none()
    }
}

#[test]
fn an_ended_run_names_its_cause() {
    let once = || Stage::hourly().edit(|it| it.retry.max_attempts = 1);
    let exhausted = |error: &str, message: &str| RunFacts {
        reason: Some("RETRIES_EXHAUSTED".to_owned()),
        reason_text: Some("attempt 4 of 4".to_owned()),
        ..failed(4, error, message)
    };
    let completed = RunFacts {
        attempts: 1,
        started_at: Some(at("02:00:00")),
        finished_at: Some(at("02:00:04.1")),
        node: Some("a".to_owned()),
        ..tick(RunState::Ended(Outcome::Completed))
    };
    let retried = RunFacts { attempts: 3, started_at: Some(at("02:03")), ..completed.clone() };
    let bad = AttemptFacts {
        error: Some("EXIT_5".to_owned()),
        message: Some("no route".to_owned()),
        ..attempt(2, "02:02", "FAILED")
    };
    let timeout = RunFacts { state: RunState::Ended(Outcome::Timeout), ..exhausted("TIMEOUT", "") };
    let cancelled =
        ended(Outcome::Cancelled, "CANCEL_REQUESTED", "cancelled by bob with CANCEL JOB RUN");
    let cancel = |text: &str| RunDetail {
        cancel: Some(Deed { at: at("02:00:30"), actor: "bob".to_owned(), text: text.to_owned() }),
        ..none()
    };
    let begun = RunFacts { attempts: 1, started_at: Some(at("02:00")), ..cancelled.clone() };
    let replaced = ended(Outcome::Cancelled, "CANCEL_REQUESTED", "run x takes its place");
    let by_other =
        RunDetail { named_run: Some(other(0x300, "03:00", RunState::Running)), ..none() };
    let lost = RunFacts { lost: 3, ..ended(Outcome::Failed, "LOST", "its node was lost 3 times") };
    let three = (1..4).map(|number| attempt(number, "02:01", "LOST")).collect();
    let refused = RunFacts {
        reason: Some("NOT_RETRYABLE".to_owned()),
        reason_text: Some("COMMAND_NOT_ALLOWED is not retried: refused by policy".to_owned()),
        ..failed(1, "COMMAND_NOT_ALLOWED", "/bin/rm is not in jobs.external.allow")
    };
    let excluded = RunFacts {
        reason: Some("NOT_RETRYABLE".to_owned()),
        reason_text: Some("EXIT_2 is not retried: excluded from retries by the job".to_owned()),
        ..failed(1, "EXIT_2", "")
    };
    let coalesced = RunFacts { coalesced: 3, origin: Origin::CatchUp, ..completed.clone() };
    check(vec![
        Row(
            "completed",
            Stage::hourly(),
            completed.clone(),
            none(),
            "COMPLETED EXECUTION",
            &["completed in 4.1 s on node a"],
        ),
        Row(
            "completed after failures",
            Stage::hourly(),
            retried,
            RunDetail { attempts: vec![attempt(1, "02:00", "FAILED"), bad], ..none() },
            "COMPLETED EXECUTION",
            &["attempt 3 of 4", "attempt 2 failed: exit code 5: no route"],
        ),
        Row(
            "completed after its node was lost",
            Stage::hourly(),
            RunFacts { attempts: 1, lost: 1, ..completed.clone() },
            RunDetail { attempts: vec![attempt(1, "02:00", "LOST")], ..none() },
            "COMPLETED EXECUTION",
            &["attempt 2 of 5; attempt 1 was lost with node"],
        ),
        Row(
            "stands for others",
            Stage::hourly(),
            coalesced,
            none(),
            "COMPLETED EXECUTION",
            &["stands for 3 missed times"],
        ),
        Row(
            "exit code",
            Stage::hourly(),
            exhausted("EXIT_5", "no route"),
            none(),
            "FAILED EXECUTION",
            &[
                "attempt 4 of 4 failed",
                "on node a",
                "exit code 5: no route",
                "no attempts are left",
            ],
        ),
        Row(
            "exit code once",
            once(),
            RunFacts { attempts: 1, ..exhausted("EXIT_1", "") },
            none(),
            "FAILED EXECUTION",
            &["its only attempt failed", "exit code 1", "MAX_ATTEMPTS 1"],
        ),
        Row(
            "signal",
            Stage::hourly(),
            exhausted("SIGNAL_9", ""),
            none(),
            "FAILED EXECUTION",
            &["signal 9 (SIGKILL)"],
        ),
        Row(
            "status",
            Stage::hourly(),
            exhausted("HTTP_503", "overloaded"),
            none(),
            "FAILED EXECUTION",
            &["HTTP status 503: overloaded"],
        ),
        Row(
            "sqlstate",
            Stage::hourly(),
            exhausted("SQLSTATE_42P01", "relation \"orders\" does not exist"),
            none(),
            "FAILED EXECUTION",
            &["SQLSTATE 42P01", "\"orders\" does not exist"],
        ),
        Row(
            "host",
            Stage::hourly(),
            exhausted("DNS", "api.example: no such host"),
            none(),
            "FAILED EXECUTION",
            &["DNS: api.example: no such host"],
        ),
        Row(
            "secret",
            Stage::hourly(),
            exhausted("SECRET_NOT_FOUND", "env: there is no secret \"token\""),
            none(),
            "FAILED EXECUTION",
            &["SECRET_NOT_FOUND", "\"token\""],
        ),
        Row(
            "refused",
            Stage::hourly(),
            refused,
            none(),
            "FAILED EXECUTION",
            &["/bin/rm is not in jobs.external.allow", "refused by policy"],
        ),
        Row(
            "excluded",
            Stage::hourly(),
            excluded,
            none(),
            "FAILED EXECUTION",
            &["exit code 2", "excluded from retries by the job"],
        ),
        Row(
            "timeout",
            Stage::hourly(),
            timeout,
            none(),
            "TIMEOUT EXECUTION",
            &["attempt 4 of 4 exceeded the timeout of 1m"],
        ),
        Row(
            "lost",
            Stage::hourly(),
            lost,
            RunDetail { attempts: three, ..none() },
            "FAILED EXECUTION",
            &["its node was lost 3 times", "node a"],
        ),
        Row(
            "cancelled before it started",
            Stage::hourly(),
            cancelled.clone(),
            cancel("cancelled by bob with CANCEL JOB RUN"),
            "CANCELLED EXECUTION",
            &["cancelled by bob at 02:00:30Z, before it started"],
        ),
        Row(
            "cancelled with a reason",
            Stage::hourly(),
            cancelled.clone(),
            cancel("wrong day"),
            "CANCELLED EXECUTION",
            &["by bob", "(wrong day)"],
        ),
        Row(
            "cancelled while it ran",
            Stage::hourly(),
            begun,
            cancel(""),
            "CANCELLED EXECUTION",
            &["cancelled by bob at 02:00:30Z", "1m after its attempt had begun"],
        ),
        Row(
            "cancelled long ago",
            Stage::hourly(),
            cancelled,
            none(),
            "CANCELLED EXECUTION",
            &["cancelled by bob with CANCEL JOB RUN"],
        ),
        Row(
            "replaced",
            Stage::hourly(),
            replaced,
            by_other,
            "CANCELLED OVERLAP",
            &["00000300", "took its place", "CANCEL_PREVIOUS"],
        ),
    ]);
}

pub fn upstream(last: Option<(Outcome, &str)>) -> Upstream {
    let success = last.filter(|(outcome, _)| *outcome == Outcome::Completed);
    Upstream {
        name: "extract".to_owned(),
        on: DependsOn::Success,
        state: Some(JobState::Enabled),
        last: last.map(|(outcome, time)| UpstreamEnd {
            outcome,
            at: at(time),
            why: (outcome != Outcome::Completed).then(|| "exit code 5".to_owned()),
        }),
        last_success: success.map(|(_, time)| at(time)),
        live: None,
        skipped: None,
        next: Some(at("02:30")),
        window_start: Some(at("01:00")),
        deadline: at("03:00"),
    }
}

#[test]
fn a_time_that_did_not_run_names_its_cause() {
    let overlap = ended(
        Outcome::Skipped,
        "OVERLAP",
        "run 00000000-0000-0000-0000-000000000100 had not ended",
    );
    let earlier = RunDetail {
        named_run: Some(other(0x100, "01:00", RunState::Ended(Outcome::Completed))),
        ..none()
    };
    let outage = RunFacts {
        scheduled_for: at("00:00"),
        scheduled_last: at("01:00"),
        count: 2,
        ..ended(Outcome::Skipped, "CATCH_UP", "the run of 2026-11-17T02:00:00Z stands for it")
    };
    let stand_in = RunDetail {
        stand_in: Some(other(0x200, "02:00", RunState::Ended(Outcome::Completed))),
        ..none()
    };
    let paused = || {
        Stage::hourly().changed("11-17T00:10", "bob", JobState::Paused, "status").changed(
            "11-17T01:50",
            "cid",
            JobState::Enabled,
            "status",
        )
    };
    let of_pause = RunFacts {
        scheduled_for: at("01:00"),
        scheduled_last: at("01:00"),
        ..ended(
            Outcome::Skipped,
            "CATCH_UP",
            "the job was paused until 2026-11-17T01:50:00Z; the job does not catch up",
        )
    };
    let waited = |up: Upstream| RunDetail { upstream: vec![up], ..none() };
    let skipped = Upstream {
        skipped: Some((Outcome::Skipped, at("01:30"), "an earlier run had not ended".to_owned())),
        ..upstream(None)
    };
    let off = || Stage::hourly().changed("11-17T01:59", "bob", JobState::Disabled, "status");
    check(vec![
        Row(
            "overlap",
            Stage::hourly(),
            overlap.clone(),
            earlier,
            "SKIPPED OVERLAP",
            &[
                "an earlier run had not ended (OVERLAP SKIP)",
                "00000100 of 01:00:00Z",
                "ran from 01:00:02Z to 01:10:00Z",
            ],
        ),
        Row(
            "overlap of a run that is gone",
            Stage::hourly(),
            overlap,
            none(),
            "SKIPPED OVERLAP",
            &["had not ended"],
        ),
        Row(
            "outage",
            Stage::hourly().outage("11-16T22:58:10", "00:21:03").outage("11-16T23:58", "01:21:03"),
            outage,
            stand_in,
            "SKIPPED PLANNED",
            &[
                "with 1 others from 00:00:00Z to 01:00:00Z",
                "no server was running: the last heartbeat was at 2026-11-16T22:58:10Z, the next start at 00:21:03Z",
                "00000200 of 02:00:00Z",
                "COMPLETED",
                "CATCH_UP LAST",
            ],
        ),
        Row(
            "outage that is stored",
            Stage::hourly(),
            ended(
                Outcome::Skipped,
                "CATCH_UP",
                "no server was running from A to B; the job does not catch up",
            ),
            none(),
            "SKIPPED PLANNED",
            // The job has CATCH_UP LAST by now.
            &["no server was running from A to B", "does not catch up; policy CATCH_UP NONE"],
        ),
        Row(
            "resumed with another policy",
            Stage::hourly(),
            ended(
                Outcome::Skipped,
                "CATCH_UP",
                "the job was paused until A and was resumed with CATCH_UP NONE; the job does not catch up",
            ),
            none(),
            "SKIPPED PLANNED",
            &["resumed with CATCH_UP NONE; the job does not catch up"],
        ),
        Row(
            "pause",
            paused(),
            of_pause,
            none(),
            "SKIPPED PLANNED",
            &["paused from 00:10:00Z by bob until it was resumed at 01:50:00Z by cid"],
        ),
        Row(
            "upstream failed",
            Stage::hourly(),
            ended(Outcome::Skipped, "UPSTREAM_FAILED", "job extract ended as FAILED"),
            waited(upstream(Some((Outcome::Failed, "01:58")))),
            "SKIPPED DEPENDENCIES",
            &[
                "job extract ended as FAILED",
                "at 01:58:00Z: exit code 5",
                "ends from 01:00:00Z to 02:01:00Z",
            ],
        ),
        Row(
            "upstream not ready",
            Stage::hourly(),
            ended(Outcome::Skipped, "UPSTREAM_NOT_READY", "job extract did not end in time"),
            waited(upstream(Some((Outcome::Completed, "00:30")))),
            "SKIPPED DEPENDENCIES",
            &["extract to complete after 01:00:00Z", "too early to count"],
        ),
        Row(
            "upstream was skipped",
            Stage::hourly(),
            ended(Outcome::Skipped, "UPSTREAM_NOT_READY", "job extract did not end in time"),
            waited(skipped),
            "SKIPPED DEPENDENCIES",
            &["its run of 01:30:00Z was SKIPPED: an earlier run had not ended"],
        ),
        Row(
            "gap",
            Stage::of("30 2 * * *", "Europe/Berlin"),
            ended(
                Outcome::Skipped,
                "DST_GAP",
                "local time 2026-03-29 02:30 does not exist: clocks jump over it",
            ),
            none(),
            "SKIPPED SCHEDULED",
            &["02:30 does not exist", "GAP SKIP"],
        ),
        Row(
            "deadline",
            Stage::hourly(),
            ended(Outcome::Missed, "START_DEADLINE", "it could not start within 30s of its time"),
            none(),
            "MISSED DEADLINE",
            &["within 30s of its time"],
        ),
        Row(
            "deadline in an outage",
            Stage::hourly().outage("01:50", "02:04"),
            ended(Outcome::Missed, "START_DEADLINE", "it could not start within 30s of its time"),
            none(),
            "MISSED DEADLINE",
            &[
                "no server was running: the last heartbeat was at 01:50:00Z, the next start at 02:04:00Z",
            ],
        ),
        Row(
            "disabled",
            off(),
            ended(Outcome::Skipped, "JOB_CHANGED", "the job was disabled before the run started"),
            none(),
            "SKIPPED ENABLED",
            &["disabled since 01:59:00Z by bob"],
        ),
    ]);
}
