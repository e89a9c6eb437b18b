//! A prepared run is an option and nothing more: what depends on the moment is decided at the
//! start.

use std::sync::{Arc, Mutex};

use domain::id::NodeId;
use domain::job::{Definition, OnLost, Overlap};
use domain::run::{AttemptResult, Grant};
use domain::schedule::CatchUpPolicy;
use engine::{BegunRun, BegunRuns, Predecessor, Settings, StartLog};
use jiff::Timestamp;
use store::{Replaces, SYSTEM, Store};

use crate::world::{Steps, TestNode, World, at, cron, every, immortal};

/// A start log in memory, as the process after it reads it.
#[derive(Default)]
struct MemoryLog {
    predecessor: Option<Predecessor>,
    node: Mutex<Option<NodeId>>,
    begun: Mutex<BegunRuns>,
    acted_at: Mutex<Option<Timestamp>>,
}

impl StartLog for MemoryLog {
    fn predecessor(&self) -> Option<&Predecessor> {
        self.predecessor.as_ref()
    }

    fn restart(&self, node: NodeId) {
        *self.node.lock().unwrap() = Some(node);
        self.begun.lock().unwrap().clear();
        *self.acted_at.lock().unwrap() = None;
    }

    fn act(&self, at: Timestamp) {
        *self.acted_at.lock().unwrap() = Some(at);
    }

    fn begin(&self, grant: Grant, begun: BegunRun) {
        self.begun.lock().unwrap().insert(grant, begun);
    }

    fn retract(&self, grant: Grant) {
        self.begun.lock().unwrap().remove(&grant);
    }

    fn end(&self, grant: Grant) {
        self.begun.lock().unwrap().remove(&grant);
    }
}

/// A process of an embedded server, which may be killed and started again.
struct Server {
    node: TestNode,
    log: Arc<MemoryLog>,
}

impl Server {
    async fn start(world: &World) -> Self {
        Self::start_after(world, None).await
    }

    async fn start_after(world: &World, predecessor: Option<Predecessor>) -> Self {
        let mut settings = immortal(Settings::default());
        settings.info.replaces = Replaces::EveryScheduler;
        Self::start_with(world, predecessor, settings).await
    }

    /// A process of a cluster, with a lease that it does not renew.
    async fn start_in_cluster(world: &World, predecessor: Option<Predecessor>) -> Self {
        let mut settings = Settings::default();
        if let Some(Predecessor { node, begun, .. }) = &predecessor {
            let begun = begun.as_ref().map(|begun| begun.keys().copied().collect());
            settings.info.replaces = Replaces::Node { node: *node, begun };
        }
        Self::start_with(world, predecessor, settings).await
    }

    async fn start_with(
        world: &World,
        predecessor: Option<Predecessor>,
        mut settings: Settings,
    ) -> Self {
        settings.info.acted = predecessor.as_ref().and_then(|it| Some((it.node, it.acted_at?)));
        let log = Arc::new(MemoryLog { predecessor, ..MemoryLog::default() });
        let node = world.node_logging(settings, Arc::clone(&log) as Arc<dyn StartLog>).await;
        node.recover().await.unwrap();
        Server { node, log }
    }

    /// State after a kill: nothing but the log.
    fn kill(self) -> Option<Predecessor> {
        let begun = self.log.begun.lock().unwrap().clone();
        let node = self.log.node.lock().unwrap().unwrap();
        let acted_at = *self.log.acted_at.lock().unwrap();
        Some(Predecessor { node, begun: Some(begun), acted_at })
    }
}

/// Ticks of every ten seconds from 00:00:00 on, as `10 COMPLETED`, `20 SKIPPED CATCH_UP`.
async fn seconds(world: &World, job: domain::id::JobId) -> Vec<String> {
    let filter = store::RunFilter::of_job(job);
    let mut runs = world.store.list_runs(&filter, None, 500).await.unwrap().items;
    runs.retain(|run| run.state.to_string() != "PENDING");
    runs.reverse();
    let line = |run: &store::RunView| {
        let reason = run.reason.as_ref().map(|reason| format!(" {reason}")).unwrap_or_default();
        format!("{} {}{reason}", run.scheduled_for.strftime("%S"), run.state)
    };
    runs.iter().map(line).collect()
}

#[tokio::test]
async fn what_was_prepared_before_an_outage_follows_the_catch_up_policy() {
    use CatchUpPolicy::{All, Last, None};
    for (catch_up, overlap, expected) in [
        (None, Overlap::Allow, ["10 SKIPPED CATCH_UP", "20 SKIPPED CATCH_UP", "30 COMPLETED"]),
        (None, Overlap::Skip, ["10 SKIPPED CATCH_UP", "20 SKIPPED CATCH_UP", "30 COMPLETED"]),
        (Last, Overlap::Allow, ["10 SKIPPED CATCH_UP", "20 COMPLETED", "30 COMPLETED"]),
        (Last, Overlap::Skip, ["10 SKIPPED CATCH_UP", "20 COMPLETED", "30 COMPLETED"]),
        (All, Overlap::Allow, ["10 COMPLETED", "20 COMPLETED", "30 COMPLETED"]),
        (All, Overlap::Skip, ["10 COMPLETED", "20 COMPLETED", "30 COMPLETED"]),
    ] {
        let world = World::at("2026-01-01T00:00:05Z");
        let server = Server::start(&world).await;
        let definition = Definition { catch_up, overlap, ..every(10, "2026-01-01T00:00:10Z") };
        let job = server.node.create("job", definition).await;
        assert!(server.node.work().await.is_empty(), "they are prepared");
        let before = server.kill();
        world.go_to("2026-01-01T00:00:25Z");
        let server = Server::start_after(&world, before).await;
        server.node.work_and_complete().await;
        world.go_to("2026-01-01T00:00:30Z");
        server.node.work_and_complete().await;
        assert_eq!(seconds(&world, job.id).await, expected, "{catch_up:?} {overlap:?}");
    }
}

/// A tick that was in line while the server was alive goes on after a kill, though the last renewal
/// of the lease was before its time. A tick of the time without a server follows the policy.
#[tokio::test]
async fn a_tick_that_was_in_line_before_a_kill_is_not_missed() {
    let world = World::at("2026-01-01T00:00:05Z");
    let server = Server::start(&world).await;
    let (catch_up, overlap) = (CatchUpPolicy::None, Overlap::Queue);
    let definition = Definition { catch_up, overlap, ..every(10, "2026-01-01T00:00:10Z") };
    let job = server.node.create("job", definition).await;
    world.go_to("2026-01-01T00:00:10Z");
    assert_eq!(server.node.work().await.len(), 1);
    world.go_to("2026-01-01T00:00:20Z");
    assert!(server.node.work().await.is_empty(), "it waits in line");
    assert_eq!(seconds(&world, job.id).await, ["10 RUNNING", "20 QUEUED"]);
    let before = server.kill();
    world.go_to("2026-01-01T00:00:35Z");
    let server = Server::start_after(&world, before).await;
    server.node.work_and_complete().await;
    world.go_to("2026-01-01T00:00:40Z");
    server.node.work_and_complete().await;
    let expected = ["10 COMPLETED", "20 COMPLETED", "30 SKIPPED CATCH_UP", "40 COMPLETED"];
    assert_eq!(seconds(&world, job.id).await, expected);
}

/// The same for a process that was suspended until its lease had ended.
#[tokio::test]
async fn a_tick_that_was_in_line_before_a_suspension_is_not_missed() {
    let world = World::at("2026-01-01T00:00:05Z");
    let node = world.mortal_node().await;
    let (catch_up, overlap) = (CatchUpPolicy::None, Overlap::Queue);
    let definition = Definition { catch_up, overlap, ..every(4, "2026-01-01T00:00:08Z") };
    let job = node.create("job", definition).await;
    world.go_to("2026-01-01T00:00:08Z");
    assert_eq!(node.work().await.len(), 1);
    world.go_to("2026-01-01T00:00:12Z");
    assert!(node.work().await.is_empty(), "it waits in line");
    world.go_to("2026-01-01T00:00:25Z");
    assert!(node.work().await.is_empty(), "the lease has ended");
    assert_eq!(node.renew().await.unwrap(), None);
    assert_eq!(node.become_another().len(), 1);
    node.join().await.unwrap();
    while node.reap().await.unwrap().lost > 0 {}
    world.go_to("2026-01-01T00:00:28Z");
    node.work_and_complete().await;
    let ledger = seconds(&world, job.id).await;
    let expected = [
        "08 COMPLETED",
        "12 COMPLETED",
        "16 SKIPPED CATCH_UP",
        "20 SKIPPED CATCH_UP",
        "24 SKIPPED CATCH_UP",
        "28 COMPLETED",
    ];
    assert_eq!(ledger, expected);
}

/// All processes of a cluster are killed while one of them holds prepared ticks. The other is back
/// first; it must not take ticks for begun that the start log of the first can decide about.
#[tokio::test]
async fn an_outage_of_a_whole_cluster_follows_the_catch_up_policy() {
    use CatchUpPolicy::{All, Last, None};
    let rows = [
        (None, true, ["10 SKIPPED CATCH_UP", "20 SKIPPED CATCH_UP", "30 COMPLETED"]),
        (Last, true, ["10 SKIPPED CATCH_UP", "20 COMPLETED", "30 COMPLETED"]),
        (All, true, ["10 COMPLETED", "20 COMPLETED", "30 COMPLETED"]),
        // Without the folder there is no start log, so the tick may have begun.
        (None, false, ["10 COMPLETED", "20 SKIPPED CATCH_UP", "30 COMPLETED"]),
    ];
    for (catch_up, is_back, expected) in rows {
        let world = World::at("2026-01-01T00:00:05Z");
        let idle = Server::start_in_cluster(&world, Option::None).await;
        let holder = Server::start_in_cluster(&world, Option::None).await;
        let definition = Definition { catch_up, ..every(10, "2026-01-01T00:00:10Z") };
        let job = holder.node.create("job", definition).await;
        world.go_to("2026-01-01T00:00:08Z");
        assert!(holder.node.work().await.is_empty(), "it is prepared");
        let (idle, holder) = (idle.kill(), holder.kill());
        world.go_to("2026-01-01T00:00:25Z");
        let first = Server::start_in_cluster(&world, idle).await;
        first.node.reap().await.unwrap();
        first.node.work_and_complete().await;
        let second = match is_back {
            true => Some(Server::start_in_cluster(&world, holder).await),
            false => Option::None,
        };
        first.node.work_and_complete().await;
        for second in ["30", "34"] {
            world.go_to(&format!("2026-01-01T00:00:{second}Z"));
            first.node.work_and_complete().await;
            first.node.renew().await.unwrap();
        }
        world.go_to("2026-01-01T00:00:36Z");
        first.node.reap().await.unwrap();
        first.node.work_and_complete().await;
        drop(second);
        assert_eq!(seconds(&world, job.id).await, expected, "{catch_up:?} {is_back}");
    }
}

/// A live tick that is decided with a missed one goes first: the missed one waits and is never
/// skipped, so both run.
#[tokio::test]
async fn a_live_tick_is_not_skipped_for_one_that_is_caught_up() {
    let world = World::at("2026-01-01T00:00:05Z");
    let server = Server::start(&world).await;
    let overlap = Overlap::Skip;
    let definition = Definition { overlap, ..every(10, "2026-01-01T00:00:10Z") };
    let job = server.node.create("job", definition).await;
    server.node.work().await;
    let before = server.kill();
    world.go_to("2026-01-01T00:00:29Z");
    let server = Server::start_after(&world, before).await;
    world.go_to("2026-01-01T00:00:30Z");
    let mut started = server.node.work().await;
    let first = started.remove(0);
    assert!(started.is_empty(), "they do not overlap");
    assert_eq!(first.run.run.scheduled_for, at("2026-01-01T00:00:30Z"));
    server.node.complete(first.run.grant, AttemptResult::completed());
    server.node.work_and_complete().await;
    let expected = ["10 SKIPPED CATCH_UP", "20 COMPLETED", "30 COMPLETED"];
    assert_eq!(seconds(&world, job.id).await, expected);
}

/// A server that stops takes no work while it waits for what runs: those ticks are missed,
/// whether it leaves in the end or is killed in its grace period.
#[tokio::test]
async fn ticks_in_the_grace_period_of_a_stop_are_missed() {
    for is_killed in [false, true] {
        let world = World::at("2026-01-01T00:00:05Z");
        let server = Server::start(&world).await;
        let catch_up = CatchUpPolicy::None;
        let definition = Definition { catch_up, ..every(10, "2026-01-01T00:00:10Z") };
        let job = server.node.create("job", definition).await;
        server.node.work().await;
        server.node.retire().await.unwrap();
        server.node.drain();
        server.node.release_prepared();
        world.go_to("2026-01-01T00:00:17Z");
        assert!(server.node.work().await.is_empty());
        server.node.renew().await.unwrap().unwrap();
        if !is_killed {
            server.node.leave().await.unwrap();
        }
        let before = server.kill();
        world.go_to("2026-01-01T00:00:19Z");
        let server = Server::start_after(&world, before).await;
        server.node.work_and_complete().await;
        world.go_to("2026-01-01T00:00:20Z");
        server.node.work_and_complete().await;
        let expected = ["10 SKIPPED CATCH_UP", "20 COMPLETED"];
        assert_eq!(seconds(&world, job.id).await, expected, "killed: {is_killed}");
    }
}

#[tokio::test]
async fn a_late_start_in_a_live_cluster_is_not_missed() {
    let world = World::at("2026-01-01T00:00:05Z");
    let server = Server::start(&world).await;
    let catch_up = CatchUpPolicy::None;
    let definition = Definition { catch_up, ..every(10, "2026-01-01T00:00:10Z") };
    let job = server.node.create("job", definition).await;
    server.node.work().await;
    world.go_to("2026-01-01T00:00:17Z");
    assert_eq!(server.node.work_and_complete().await, 1);
    assert_eq!(seconds(&world, job.id).await, ["10 COMPLETED"]);
}

#[tokio::test]
async fn after_a_crash_only_what_had_begun_is_lost() {
    let world = World::at("2026-01-01T00:00:08Z");
    let server = Server::start(&world).await;
    let begun = server.node.create("begun", every(10, "2026-01-01T00:00:10Z")).await;
    let catch_up = CatchUpPolicy::All;
    let prepared = Definition { catch_up, ..every(10, "2026-01-01T00:00:11Z") };
    let prepared = server.node.create("prepared", prepared).await;
    server.node.work().await;
    world.go_to("2026-01-01T00:00:10Z");
    assert_eq!(server.node.work().await.len(), 1, "the other one is prepared");
    let before = server.kill();
    // The lease of the dead node would last for a long time: it ends with the restart.
    world.go_to("2026-01-01T00:00:12Z");
    let server = Server::start_after(&world, before).await;
    let started = server.node.work().await;
    assert_eq!(started.len(), 2, "at once");
    for run in &started {
        let lost = u32::from(run.run.run.job == begun.id);
        assert_eq!((run.run.lost, run.run.attempts), (lost, 0));
        server.node.complete(run.run.grant, AttemptResult::completed());
    }
    server.node.flush().await;
    for (job, expected) in [(&begun, 2), (&prepared, 1)] {
        let filter = store::RunFilter::of_job(job.id);
        let runs = world.store.list_runs(&filter, None, 100).await.unwrap().items;
        let run = runs.iter().find(|run| run.state.to_string() == "COMPLETED").unwrap();
        let attempts = world.store.attempts(run.id).await.unwrap();
        assert_eq!(attempts.len(), expected, "{}", job.name);
        let started: Vec<_> =
            attempts.iter().map(|it| it.started_at.strftime("%S").to_string()).collect();
        if expected == 2 {
            assert_eq!(started, ["10", "12"], "when it really began");
            assert!(attempts[1].fence > attempts[0].fence);
        }
    }
}

#[tokio::test]
async fn after_a_reboot_every_due_run_may_have_begun() {
    let world = World::at("2026-01-01T00:00:08Z");
    let server = Server::start(&world).await;
    let job = server.node.create("job", every(10, "2026-01-01T00:00:10Z")).await;
    server.node.work().await;
    let mut before = server.kill().unwrap();
    before.begun = None;
    world.go_to("2026-01-01T00:00:12Z");
    let server = Server::start_after(&world, Some(before)).await;
    let started = server.node.work().await;
    assert_eq!((started.len(), started[0].run.lost), (1, 1));
    assert_eq!(started[0].run.run.job, job.id);
}

#[tokio::test]
async fn a_manual_run_does_not_switch_skip_off() {
    let world = World::at("2026-01-01T00:00:05Z");
    let node = world.node().await;
    let job = node.create("job", every(10, "2026-01-01T00:00:10Z")).await;
    node.work().await;
    world.go_to("2026-01-01T00:00:10Z");
    let tick = node.work().await.remove(0);
    let by_hand = node.trigger(&job).await;
    assert!(node.work().await.is_empty(), "it waits in line");
    // The tick is still at work, and the manual run waits: the next tick is skipped for the first.
    world.go_to("2026-01-01T00:00:20Z");
    assert!(node.work().await.is_empty());
    node.complete(tick.run.grant, AttemptResult::completed());
    node.flush().await;
    let started = node.work().await;
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].run.run.id, by_hand);
    // A manual run that has begun blocks a tick; one that is over does not.
    world.go_to("2026-01-01T00:00:30Z");
    assert!(node.work().await.is_empty());
    node.complete(started[0].run.grant, AttemptResult::completed());
    node.flush().await;
    world.go_to("2026-01-01T00:00:40Z");
    assert_eq!(node.work_and_complete().await, 1);
    let mut lines = seconds(&world, job.id).await;
    lines.sort();
    let expected = [
        "10 COMPLETED",
        "10 COMPLETED",
        "20 SKIPPED OVERLAP",
        "30 SKIPPED OVERLAP",
        "40 COMPLETED",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn a_live_tick_goes_before_a_backfill_that_waits() {
    let world = World::at("2026-01-01T00:10:05Z");
    let node = world.node().await;
    let job = node.create("job", cron("* * * * *")).await;
    let tick = |minute: &str| crate::world::at(&format!("2026-01-01T00:{minute}:00Z"));
    let range = engine::Backfill {
        from: tick("01"),
        until: tick("03"),
        concurrency: None,
        newest_first: false,
        dry_run: false,
        parameters: None,
        requested_by: None,
    };
    node.backfill(job.id, range).await.unwrap();
    let first = node.work().await;
    assert_eq!(first.len(), 1, "one at a time");
    node.complete(first[0].run.grant, AttemptResult::completed());
    world.go_to("2026-01-01T00:11:00Z");
    // The end of the first backfill and the tick come together.
    let next = node.work().await;
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].run.run.scheduled_for, tick("11"));
    for run in next {
        node.complete(run.run.grant, AttemptResult::completed());
    }
    assert_eq!(node.work_and_complete().await, 2, "none is lost");
}

#[tokio::test]
async fn at_most_once_is_failed_only_if_it_had_begun() {
    let world = World::at("2026-01-01T00:00:00Z");
    let dead = world.mortal_node().await;
    let definition = Definition { on_lost: OnLost::Fail, ..Definition::default() };
    let begun = dead.create("begun", definition.clone()).await;
    let definition = Definition { overlap: Overlap::Allow, ..definition };
    let unbegun = dead.create("unbegun", definition).await;
    world.pass(1);
    let first = dead.trigger(&begun).await;
    assert_eq!(dead.work().await.len(), 1);
    let second = dead.trigger(&unbegun).await;
    dead.exchange().await.unwrap();
    let heir = world.node().await;
    world.pass(11);
    heir.reap().await.unwrap();
    let started = heir.work().await;
    let runs: Vec<_> = started.iter().map(|run| (run.run.run.id, run.run.lost)).collect();
    assert_eq!(runs, [(second, 0)], "it had not begun");
    let view = world.store.run(first).await.unwrap().unwrap();
    assert_eq!((view.state.to_string().as_str(), view.reason.as_deref()), ("FAILED", Some("LOST")));
}

#[tokio::test]
async fn tokens_follow_the_order_of_starts() {
    let world = World::at("2026-01-01T00:00:05Z");
    let node = world.node().await;
    let job = node.create("job", every(10, "2026-01-01T00:00:10Z")).await;
    node.work().await;
    let mut last = 0;
    for second in ["10", "20", "30"] {
        world.go_to(&format!("2026-01-01T00:00:{second}Z"));
        for run in node.work().await {
            assert!(run.token > last);
            last = run.token;
            node.complete(run.run.grant, AttemptResult::completed());
        }
        node.flush().await;
        // A run that is asked for between two ticks, which were claimed before it.
        node.trigger(&job).await;
        for run in node.work().await {
            assert!(run.token > last, "{} after {last}", run.token);
            last = run.token;
            node.complete(run.run.grant, AttemptResult::completed());
        }
        node.flush().await;
    }
}

#[tokio::test]
async fn a_decision_that_is_too_old_is_made_again() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let definition = Definition { overlap: Overlap::Allow, ..Definition::default() };
    let job = node.create("job", definition).await;
    let run = node.triggered(job.id, engine::Trigger::default()).await.unwrap();
    node.submit(std::slice::from_ref(&run)).await.unwrap();
    // It was claimed when it was submitted, and the job is deleted before it starts.
    world.pass(1);
    node.delete_job(job.id, engine::Deletion::default(), SYSTEM).await.unwrap();
    assert!(node.work().await.is_empty());
    let view = world.store.run(run.id).await.unwrap().unwrap();
    assert_eq!(view.state.to_string(), "SKIPPED");
}

/// A start that was decided and did not happen in time is no start: after a crash it is not lost,
/// and a run that happens at most once goes on.
#[tokio::test]
async fn a_start_that_was_decided_too_long_ago_is_not_lost_with_its_process() {
    let world = World::at("2026-01-01T00:00:08Z");
    let server = Server::start(&world).await;
    let definition = Definition {
        on_lost: OnLost::Fail,
        catch_up: CatchUpPolicy::All,
        ..every(10, "2026-01-01T00:00:10Z")
    };
    server.node.create("job", definition).await;
    server.node.work().await;
    world.go_to("2026-01-01T00:00:10Z");
    let started = server.node.work().await;
    assert_eq!(started.len(), 1);
    world.pass(1);
    assert!(!server.node.may_begin(&started[0]));
    let server = Server::start_after(&world, server.kill()).await;
    let again = server.node.work().await;
    assert_eq!((again.len(), again[0].run.lost, again[0].run.attempts), (1, 0, 0));
    assert!(server.node.may_begin(&again[0]));
}

/// A store that takes a second to write a start down keeps no run from starting for ever.
#[tokio::test]
async fn a_run_starts_although_each_start_is_late() {
    let world = World::at("2026-01-01T00:00:08Z");
    let server = Server::start(&world).await;
    let definition = Definition { on_lost: OnLost::Fail, ..every(10, "2026-01-01T00:00:10Z") };
    server.node.create("job", definition).await;
    server.node.work().await;
    world.go_to("2026-01-01T00:00:10Z");
    let mut late = 0;
    loop {
        let started = server.node.work().await;
        assert_eq!(started.len(), 1);
        world.pass(1);
        if server.node.may_begin(&started[0]) {
            break;
        }
        late += 1;
    }
    assert_eq!(late, 5);
}
