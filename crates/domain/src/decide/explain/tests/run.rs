use super::*;
use crate::cluster::{Class, Quorum};
use crate::job::{DependsOn, OnLost, Overlap};
use crate::queue::QueueSettings;

/// A situation of a run: the stage, the run, its details, the verdict with the step that decided,
/// and what the message must name.
struct Row(&'static str, Stage, RunFacts, RunDetail, &'static str, &'static [&'static str]);

fn check(rows: Vec<Row>) {
    for Row(situation, stage, run, detail, verdict, parts) in rows {
        let report = explain_run(&stage.subject(), &run, &detail);
        let (found, message) = told(&report);
        assert_eq!(found, verdict, "{situation}: {message}");
        has(situation, &message, parts);
    }
}

fn none() -> RunDetail {
    RunDetail::default()
}

fn of_live(wait: Option<Wait>) -> RunDetail {
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

fn upstream(last: Option<(Outcome, &str)>) -> Upstream {
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
                "no server was running from 2026-11-16T22:58:10Z to 00:21:03Z",
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
            &["no server was running from A to B", "does not catch up"],
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
            &["no server was running from 01:50:00Z to 02:04:00Z"],
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

#[test]
fn a_live_run_names_what_it_waits_for() {
    let due = || tick(RunState::Queued);
    let pending = || tick(RunState::Pending);
    let retry = RunFacts {
        attempts: 2,
        due_at: at("02:07:10"),
        ..RunFacts {
            state: RunState::Pending,
            finished_at: None,
            ..failed(2, "EXIT_5", "no route")
        }
    };
    let soon = RunFacts { due_at: at("02:10"), scheduled_for: at("02:10"), ..pending() };
    let running = RunFacts {
        started_at: Some(at("02:00:01")),
        node: Some("a".to_owned()),
        ..tick(RunState::Running)
    };
    let in_cluster = |nodes| RunDetail { cluster: Some(cluster(nodes)), ..of_live(None) };
    let waits = |up: Upstream| RunDetail { upstream: vec![up], ..of_live(Some(Wait::Upstream)) };
    let busy = || RunDetail {
        others: vec![other(0x100, "01:00", RunState::Running)],
        ..of_live(Some(Wait::Overlap))
    };
    let queue = || Stage::hourly().edit(|it| it.overlap = Overlap::Queue);
    let quorum = |acknowledged, led| RunDetail {
        quorum: Some(Quorum { led, acknowledged, schedulers: 3 }),
        ..of_live(Some(Wait::Quorum))
    };
    let labelled = || Stage::hourly().edit(|it| it.run_on = "zone=eu".parse().unwrap());
    let leader_only = || Stage::hourly().edit(|it| it.class = Class::LeaderOnly);
    let drained = NodeFacts {
        drained: Some(Deed { at: at("01:30"), actor: "ops".to_owned(), text: String::new() }),
        ..node("a", NodeState::Draining, 0)
    };
    let silent = || NodeFacts {
        renewed_at: at("02:04:20"),
        lease_until: at("02:05:20"),
        ..node("a", NodeState::Active, 1)
    };
    let limited = RunDetail {
        cluster: Some(ClusterFacts {
            tenant_max: Some(3),
            ..cluster(vec![node("a", NodeState::Active, 0)])
        }),
        ..of_live(None)
    };
    let unstarted = RunDetail {
        live: Some(LiveFacts { is_unstarted: true, ..live(None) }),
        cluster: Some(cluster(vec![node("a", NodeState::Active, 2)])),
        ..none()
    };
    let behind = RunDetail {
        live: Some(LiveFacts { ahead: 7, ..live(None) }),
        cluster: Some(cluster(vec![node("a", NodeState::Active, 2)])),
        ..none()
    };
    let urgent = RunDetail {
        live: Some(LiveFacts { ahead: 7, priority: 2, ..live(None) }),
        cluster: Some(cluster(vec![node("a", NodeState::Active, 1)])),
        ..none()
    };
    let cancel = RunDetail {
        cancel: Some(Deed { at: at("02:04"), actor: "bob".to_owned(), text: String::new() }),
        ..of_live(None)
    };
    check(vec![
        Row(
            "not due",
            Stage::hourly(),
            soon,
            of_live(None),
            "PLANNED DUE",
            &["due at 02:10:00Z (in 5m)"],
        ),
        Row(
            "between attempts",
            Stage::hourly(),
            retry,
            of_live(None),
            "RETRYING EXECUTION",
            &[
                "waits for attempt 3 of 4 at 02:07:10Z",
                "attempt 2 failed: exit code 5: no route",
                "2 attempts left",
            ],
        ),
        Row(
            "upstream runs",
            Stage::hourly(),
            pending(),
            waits(Upstream { live: Some((RunState::Running, at("01:58"))), ..upstream(None) }),
            "WAITING DEPENDENCIES",
            &[
                "waits for extract to complete after 01:00:00Z",
                "RUNNING since 01:58:00Z",
                "gives up at 03:00:00Z",
            ],
        ),
        Row(
            "upstream failed",
            Stage::hourly(),
            pending(),
            waits(upstream(Some((Outcome::Failed, "01:58")))),
            "WAITING DEPENDENCIES",
            &["it ended as FAILED at 01:58:00Z: exit code 5", "its next time is 02:30:00Z"],
        ),
        Row(
            "upstream never ran",
            Stage::hourly(),
            pending(),
            waits(upstream(None)),
            "WAITING DEPENDENCIES",
            &["it has never run"],
        ),
        Row(
            "upstream is paused",
            Stage::hourly(),
            pending(),
            waits(Upstream { state: Some(JobState::Paused), ..upstream(None) }),
            "WAITING DEPENDENCIES",
            &["it is paused"],
        ),
        Row(
            "upstream was deleted",
            Stage::hourly(),
            pending(),
            waits(Upstream { state: None, ..upstream(None) }),
            "WAITING DEPENDENCIES",
            &["it was deleted"],
        ),
        Row(
            "upstream must fail",
            Stage::hourly(),
            pending(),
            waits(Upstream {
                on: DependsOn::Failure,
                ..upstream(Some((Outcome::Completed, "01:58")))
            }),
            "WAITING DEPENDENCIES",
            &["waits for extract to fail"],
        ),
        Row(
            "in line",
            queue(),
            due(),
            busy(),
            "WAITING OVERLAP",
            &[
                "waits in line for earlier runs of the job, place 1",
                "runs one at a time",
                "00000100 of 01:00:00Z is RUNNING since 01:00:02Z",
                "due 5m ago",
            ],
        ),
        Row(
            "in line by concurrency",
            queue().edit(|it| it.concurrency = Some(3)),
            due(),
            busy(),
            "WAITING OVERLAP",
            &["at most 3 runs at a time (CONCURRENCY)"],
        ),
        Row(
            "in line by the limit of the cluster",
            Stage::hourly().edit(|it| it.overlap = Overlap::Allow),
            due(),
            busy(),
            "WAITING OVERLAP",
            &["16 runs at a time (engine.max_runs_per_job)"],
        ),
        Row(
            "quorum",
            Stage::hourly(),
            pending(),
            quorum(1, true),
            "WAITING QUORUM",
            &["1 of 2 acknowledgements", "3 registered schedulers"],
        ),
        Row(
            "quorum without a leader",
            Stage::hourly(),
            pending(),
            quorum(0, false),
            "WAITING QUORUM",
            &["no leader"],
        ),
        Row(
            "label",
            labelled(),
            due(),
            of_live(None),
            "WAITING PLACEMENT",
            &["a node with the labels zone=eu", "a has zone=us"],
        ),
        Row(
            "no leader",
            leader_only(),
            due(),
            of_live(None),
            "WAITING PLACEMENT",
            &["waits for a leader: the cluster has none"],
        ),
        Row(
            "drained",
            Stage::hourly(),
            due(),
            in_cluster(vec![drained]),
            "WAITING PLACEMENT",
            &["a was drained at 01:30:00Z by ops"],
        ),
        Row(
            "down",
            Stage::hourly(),
            due(),
            in_cluster(vec![node("a", NodeState::Down, 0)]),
            "WAITING PLACEMENT",
            &["a is down since"],
        ),
        Row(
            "no node",
            Stage::hourly(),
            due(),
            in_cluster(vec![]),
            "WAITING PLACEMENT",
            &["a node that executes runs: there is none"],
        ),
        Row(
            "tenant",
            Stage::hourly(),
            due(),
            limited,
            "WAITING SLOT",
            &["3 of 3 runs are under way (max_concurrent = 3)"],
        ),
        Row(
            "slots",
            Stage::hourly(),
            due(),
            in_cluster(vec![node("a", NodeState::Active, 2)]),
            "WAITING SLOT",
            &["waits for a slot: 2 of 2 busy with etl (2)"],
        ),
        Row(
            "slots and others before it",
            Stage::hourly(),
            due(),
            behind,
            "WAITING SLOT",
            &["7 runs before it (its priority is 5)"],
        ),
        Row(
            "priority",
            Stage::hourly(),
            due(),
            urgent,
            "WAITING SLOT",
            &["7 runs of its tenant are claimed before it (its priority is 2)"],
        ),
        Row(
            "about to be claimed",
            Stage::hourly(),
            due(),
            of_live(None),
            "WAITING SLOT",
            &["about to claim it"],
        ),
        Row(
            "message",
            Stage::hourly().edit(|it| it.queue = Some(QueueSettings::default())),
            due(),
            of_live(None),
            "WAITING SLOT",
            &["waits for a worker to lease it"],
        ),
        Row(
            "deadline to come",
            Stage::hourly().edit(|it| it.start_deadline = Some(seconds(600))),
            due(),
            of_live(None),
            "WAITING SLOT",
            &["MISSED if it has not started by 02:10:00Z"],
        ),
        Row(
            "claimed without a slot",
            Stage::hourly(),
            RunFacts { started_at: None, ..running.clone() },
            unstarted,
            "RUNNING SLOT",
            &["claimed by node a, waits there for a slot: 2 of 2 busy with etl (2)"],
        ),
        Row(
            "running",
            Stage::hourly(),
            running.clone(),
            of_live(None),
            "RUNNING EXECUTION",
            &["runs on node a since 02:00:01Z", "attempt 1 of 4", "times out at 02:01:01Z"],
        ),
        Row(
            "cancel requested",
            Stage::hourly(),
            running.clone(),
            cancel,
            "RUNNING EXECUTION",
            &["cancellation was requested at 02:04:00Z by bob", "it has 10 s to stop"],
        ),
        Row(
            "killed node",
            Stage::hourly(),
            running.clone(),
            in_cluster(vec![silent()]),
            "RUNNING EXECUTION",
            &[
                "node a has not renewed its lease since 02:04:20Z",
                "its lease ends at 02:05:20Z",
                "another node attempts the run again",
            ],
        ),
        Row(
            "killed node at most once",
            Stage::hourly().edit(|it| it.on_lost = OnLost::Fail),
            running.clone(),
            in_cluster(vec![silent()]),
            "RUNNING EXECUTION",
            &["its lease ends at 02:05:20Z", "ends as FAILED (ON_LOST FAIL)"],
        ),
        Row(
            "killed node for the last time",
            Stage::hourly(),
            RunFacts { lost: 2, ..running },
            in_cluster(vec![silent()]),
            "RUNNING EXECUTION",
            &["its node was lost 3 times"],
        ),
    ]);
}

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
            &["no server was running from 01:50:00Z to 02:00:10Z"],
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
