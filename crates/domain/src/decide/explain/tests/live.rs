use super::run::{Row, check, none, of_live, upstream};
use super::*;
use crate::cluster::{Class, Quorum};
use crate::job::{DependsOn, OnLost, Overlap};
use crate::queue::QueueSettings;

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
            "message",
            Stage::hourly().edit(|it| it.queue = Some(QueueSettings::default())),
            due(),
            of_live(None),
            "WAITING SLOT",
            &["waits for a worker to lease it"],
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
fn a_run_that_is_not_due_names_what_will_prevent_it() {
    let soon =
        || RunFacts { due_at: at("02:10"), scheduled_for: at("02:10"), ..tick(RunState::Pending) };
    let labelled = || Stage::hourly().edit(|it| it.run_on = "zone=eu".parse().unwrap());
    let busy =
        RunDetail { others: vec![other(0x100, "01:00", RunState::Running)], ..of_live(None) };
    let after = RunDetail { upstream: vec![upstream(None)], ..of_live(None) };
    for (stage, detail, told) in [
        (Stage::hourly(), of_live(None), "due at 02:10:00Z (in "),
        (labelled(), of_live(None), "waits for a node with the labels zone=eu: a has zone=us"),
        (Stage::hourly(), busy, "1 earlier run active"),
        (Stage::hourly(), after, "depends on extract to complete"),
    ] {
        let report = explain_run(&stage.subject(), &soon(), &detail);
        assert_eq!((report.verdict, report.cause.as_deref()), ("PLANNED", Some("NOT_DUE")));
        assert!(report.obstacles[0].starts_with(told), "{told}: {:?}", report.obstacles);
        let waits = report.lines.iter().find(|line| line.aspect == Aspect::Waits);
        let expected = Some(&report.obstacles[0]).filter(|_| !told.starts_with("due"));
        assert_eq!(waits.map(|line| &line.text), expected);
    }
}

#[test]
fn a_run_in_a_list_has_one_reason_to_wait() {
    let due = || tick(RunState::Queued);
    let pending = || tick(RunState::Pending);
    let soon = RunFacts { due_at: at("02:10"), scheduled_for: at("02:10"), ..pending() };
    let retry = RunFacts {
        state: RunState::Pending,
        finished_at: None,
        due_at: at("02:07:10"),
        ..failed(2, "EXIT_5", "no route")
    };
    let part = RunFacts { id: RunId::of_part(id(1), 0, "s"), ..due() };
    let labelled = || Stage::hourly().edit(|it| it.run_on = "zone=eu".parse().unwrap());
    let free = || cluster(vec![node("a", NodeState::Active, 0)]);
    let full = cluster(vec![node("a", NodeState::Active, 2)]);
    let limited = ClusterFacts { tenant_max: Some(3), ..free() };
    let names = ["extract".to_owned(), "load".to_owned()];
    let none: [String; 0] = [];
    for (stage, run, wait, upstream, cluster, told) in [
        (Stage::hourly(), soon, None, &none[..], None, Some("due at 02:10:00Z (in ")),
        (Stage::hourly(), retry, None, &none, None, Some("waits for attempt 3 of 4 at 02:07:10Z")),
        (
            Stage::hourly(),
            pending(),
            Some(Wait::Upstream),
            &names,
            None,
            Some("waits for extract, load"),
        ),
        (
            Stage::hourly(),
            pending(),
            Some(Wait::Upstream),
            &none,
            None,
            Some("waits for the jobs that"),
        ),
        (
            Stage::hourly(),
            due(),
            Some(Wait::Overlap),
            &none,
            None,
            Some("waits in line for earlier"),
        ),
        (Stage::hourly(), pending(), Some(Wait::Quorum), &none, None, Some("waits for a quorum")),
        (Stage::hourly(), part, None, &none, Some(free()), Some("waits for the node that owns")),
        (
            Stage::hourly(),
            due(),
            None,
            &none,
            Some(full),
            Some("waits for a slot: 2 of 2 busy with etl"),
        ),
        (
            Stage::hourly(),
            due(),
            None,
            &none,
            Some(limited),
            Some("waits for the limit of the tenant"),
        ),
        (
            labelled(),
            due(),
            None,
            &none,
            Some(free()),
            Some("waits for a node with the labels zone=eu"),
        ),
        (
            Stage::hourly(),
            due(),
            None,
            &none,
            Some(free()),
            Some("is due, and a node with a free slot"),
        ),
        (Stage::hourly(), tick(RunState::Running), None, &none, None, None),
        (Stage::hourly(), ended(Outcome::Skipped, "X", "x"), None, &none, None, None),
    ] {
        let reason = waiting_reason(&stage.subject(), &run, wait, upstream, cluster.as_ref());
        match told {
            Some(told) => has(told, reason.as_deref().unwrap_or_default(), &[told]),
            None => assert_eq!(reason, None),
        }
    }
}
