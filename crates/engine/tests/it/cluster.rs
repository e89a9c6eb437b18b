//! Several nodes over one store: leadership, placement, and draining.

use std::collections::HashSet;

use domain::cluster::{Class, Leadership, NodeRole};
use domain::job::{Definition, Job, Overlap};
use domain::run::AttemptResult;
use engine::{NodeControl, NodeInfo, Settings};
use jiff::{SignedDuration, Timestamp};
use store::{Alerts, Channel, Cluster, SYSTEM, Settings as _, Store};

use crate::world::{Steps, TestNode, World, cron, every, immortal};

fn named(name: &str) -> Settings {
    Settings { info: NodeInfo::named(name), ..Settings::default() }
}

fn of_class(class: Class) -> Definition {
    Definition { class, ..Definition::default() }
}

async fn state(world: &World, run: domain::id::RunId) -> String {
    world.store.run(run).await.unwrap().unwrap().state.to_string()
}

/// Attends, and starts the claimed runs.
async fn attend_and_start(node: &TestNode) -> Vec<engine::Started> {
    node.attend().await.unwrap();
    node.work().await
}

#[tokio::test]
async fn the_next_leader_follows_a_dead_one_within_fifteen_seconds() {
    let world = World::at("2026-01-01T00:00:00Z");
    let (dead, heir) = (world.node_with(named("a")).await, world.node_with(named("b")).await);
    let first = dead.elect().await.unwrap().unwrap();
    assert_eq!(heir.elect().await.unwrap(), None);
    let mut waited = 0;
    let second = loop {
        // The loops of a node renew every three seconds, reap and elect every second.
        world.pass(1);
        waited += 1;
        if waited % 3 == 0 {
            heir.renew().await.unwrap().unwrap();
        }
        heir.reap().await.unwrap();
        if let Some(epoch) = heir.elect().await.unwrap() {
            break epoch;
        }
    };
    assert!(second > first && waited <= 15, "{waited}");
    // The old one was only suspended: it does not lead any more, before it has read that and after.
    assert_eq!(dead.leads(), Some(first));
    assert_eq!(dead.claim_placed().await.unwrap(), 0);
    assert_eq!(dead.elect().await.unwrap(), None);
}

#[tokio::test]
async fn a_leader_that_stops_is_followed_at_once() {
    let world = World::at("2026-01-01T00:00:00Z");
    let (old, new) = (world.node_with(named("a")).await, world.node_with(named("b")).await);
    old.elect().await.unwrap().unwrap();
    old.drain();
    old.leave().await.unwrap();
    assert!(new.elect().await.unwrap().is_some());
}

#[tokio::test]
async fn only_the_leader_executes_what_only_the_leader_may() {
    let world = World::at("2026-01-01T00:00:00Z");
    let leader = world.node_with(named("a")).await;
    let other = world.node_with(immortal(named("b"))).await;
    leader.elect().await.unwrap().unwrap();
    let job = other.create("only", of_class(Class::LeaderOnly)).await;
    let run = other.trigger(&job).await;
    assert!(attend_and_start(&other).await.is_empty());
    let first = attend_and_start(&leader).await.remove(0);
    assert_eq!(first.run.grant.run, run);
    // The leader misses heartbeats in the middle of it. The next one tries again, under a larger
    // fence.
    world.pass(11);
    other.renew().await.unwrap().unwrap();
    other.reap().await.unwrap();
    let second = attend_and_start(&other).await.remove(0);
    assert!(second.run.grant.fence > first.run.grant.fence);
    leader.complete(first.run.grant, AttemptResult::completed());
    leader.flush().await;
    assert_eq!(state(&world, run).await, "RUNNING", "a stale leader changes nothing");
    other.complete(second.run.grant, AttemptResult::completed());
    other.flush().await;
    let attempts = world.store.attempts(run).await.unwrap();
    let ends: Vec<&str> = attempts.iter().map(|attempt| attempt.end.as_str()).collect();
    assert_eq!(ends, ["LOST", "COMPLETED"]);
}

#[tokio::test]
async fn a_leaders_tick_is_prepared_and_starts_on_time() {
    let world = World::at("2026-01-01T00:00:10Z");
    let node = world.node_with(immortal(named("a"))).await;
    let definition = Definition { class: Class::LeaderOnly, ..cron("* * * * *") };
    let job = node.create("minutely", definition).await;
    node.elect().await.unwrap();
    node.work().await;
    world.go_to("2026-01-01T00:00:58Z");
    node.renew().await.unwrap();
    assert_eq!(node.attend().await.unwrap().placed, 1);
    assert_eq!(node.next_prepared(), Some("2026-01-01T00:01:00Z".parse::<Timestamp>().unwrap()));
    world.go_to("2026-01-01T00:01:00Z");
    assert_eq!(node.start_due().await.unwrap().len(), 1);
    assert_eq!(world.ledger(job.id).await[0], "00:01 RUNNING");
}

#[tokio::test]
async fn labels_choose_the_node_and_a_change_moves_what_is_prepared() {
    let world = World::at("2026-01-01T00:00:58Z");
    let with = |name: &str, zone: &str| {
        let info =
            NodeInfo { labels: format!("zone={zone}").parse().unwrap(), ..NodeInfo::named(name) };
        Settings { info, ..Settings::default() }
    };
    let eu = world.node_with(with("eu", "eu")).await;
    let us = world.node_with(with("us", "us")).await;
    let run_on = "zone=eu".parse().unwrap();
    let job = us.create("in eu", Definition { run_on, ..cron("* * * * *") }).await;
    assert!(attend_and_start(&us).await.is_empty());
    assert_eq!(eu.attend().await.unwrap().placed, 1);
    // A user moves the job while its next run is held by the wrong node.
    us.alter_job(job.id, |job| job.definition.run_on = "zone=us".parse().unwrap(), SYSTEM)
        .await
        .unwrap();
    world.pass(8);
    eu.renew().await.unwrap();
    us.renew().await.unwrap();
    assert!(attend_and_start(&eu).await.is_empty());
    let started = attend_and_start(&us).await;
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].run.lost, 0);
}

/// Slots that never stay free are not only for runs that go anywhere.
#[tokio::test]
async fn a_run_that_asks_for_its_node_has_the_next_slot_where_all_are_taken() {
    let world = World::at("2026-01-01T00:00:00Z");
    let settings = Settings { max_concurrent_jobs: 1, ..Settings::default() };
    let node = world.node_with(settings).await;
    node.attend().await.unwrap();
    let plain = Definition { overlap: Overlap::Allow, ..Definition::default() };
    let anywhere = node.create("anywhere", plain).await;
    node.trigger(&anywhere).await;
    world.pass(1);
    let only = node.create("only", of_class(Class::LeaderOnly)).await;
    let run = node.trigger(&only).await;
    world.pass(1);
    for _ in 0..20 {
        node.trigger(&anywhere).await;
    }
    let mut order = Vec::new();
    for _ in 0..8 {
        let started = node.work().await;
        if started.is_empty() {
            assert!(node.has_placement_request(), "the slot is kept for somebody");
            node.attend_places().await.unwrap();
        }
        for started in started {
            order.push(started.run.run.id);
            // It looks while the slot is taken.
            node.attend().await.unwrap();
            assert!(node.complete(started.run.grant, AttemptResult::completed()));
        }
    }
    // One may have been in line here already.
    let place = order.iter().position(|started| *started == run);
    assert!(place.is_some_and(|place| place <= 2), "{place:?} of {}", order.len());
    assert!(order.len() > 3, "the others go on");
}

/// A run of a job that needs a quorum, proposed by a node.
async fn proposed(world: &World, node: &TestNode) -> (Job, domain::id::RunId) {
    let job = node.create("careful", of_class(Class::QuorumRequired)).await;
    let run = node.trigger(&job).await;
    assert!(node.work().await.is_empty(), "it waits for acknowledgements");
    assert_eq!(state(world, run).await, "PENDING");
    (job, run)
}

#[tokio::test]
async fn a_quorum_lets_a_run_in_and_its_acknowledgements_are_on_record() {
    let world = World::at("2026-01-01T00:00:00Z");
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(world.node_with(named(name)).await);
    }
    nodes[0].elect().await.unwrap();
    let (job, run) = proposed(&world, &nodes[1]).await;
    assert_eq!(nodes[0].attend().await.unwrap().acknowledged, 0);
    let view = world.store.run(run).await.unwrap().unwrap();
    let why = nodes[0].explain_run(&job, &view).await.unwrap();
    assert!(why.message.contains("1 of 2 acknowledgements that it needs"), "{why:?}");
    assert_eq!(nodes[2].attend().await.unwrap().acknowledged, 1);
    assert_eq!(nodes[2].work_and_complete().await, 1);
    assert_eq!(state(&world, run).await, "COMPLETED");
    let record = world.store.acknowledgements(run).await.unwrap();
    let mut record: Vec<_> = record.iter().map(|it| it.node).collect();
    record.sort_unstable();
    let mut expected = [nodes[0].id(), nodes[2].id()];
    expected.sort_unstable();
    assert_eq!(record, expected);
}

#[tokio::test]
async fn without_a_quorum_a_run_is_put_off_and_neither_fails_nor_is_lost() {
    let world = World::at("2026-01-01T00:00:00Z");
    let alive = world.node_with(named("a")).await;
    let dead = world.node_with(named("b")).await;
    alive.elect().await.unwrap();
    let (_, run) = proposed(&world, &alive).await;
    let mut waits = 0;
    for _ in 0..200 {
        world.pass(3);
        alive.renew().await.unwrap();
        waits += alive.reap().await.unwrap().woken;
        alive.attend().await.unwrap();
        assert!(alive.work().await.is_empty());
    }
    assert!((4..9).contains(&waits), "in ten minutes, each wait as long as all before: {waits}");
    let view = world.store.run(run).await.unwrap().unwrap();
    assert_eq!((view.state.to_string().as_str(), view.attempts, view.lost), ("PENDING", 0, 0));
    // An administrator removes the other one.
    world.store.steer(dead.id(), NodeControl::Remove, SYSTEM).await.unwrap();
    assert_eq!(alive.attend().await.unwrap().acknowledged, 1);
    assert_eq!(alive.work_and_complete().await, 1);
    assert_eq!(state(&world, run).await, "COMPLETED");
}

#[tokio::test]
async fn a_run_that_was_prepared_where_no_slot_is_free_goes_to_a_node_that_has_one() {
    let world = World::at("2026-03-01T00:00:00Z");
    let settings = |name: &str| Settings {
        info: NodeInfo::named(name),
        max_concurrent_jobs: 1,
        ..Settings::default()
    };
    let full = world.node_with(settings("full")).await;
    for job in ["one", "two"] {
        full.create(job, every(60, "2026-03-01T00:00:02Z")).await;
    }
    assert!(full.work().await.is_empty(), "both are prepared here");
    world.pass(2);
    assert_eq!(full.work().await.len(), 1);
    let free = world.node_with(settings("free")).await;
    full.attend().await.unwrap();
    assert_eq!(free.work().await.len(), 0, "a slot may be free in a moment");
    world.pass(2);
    full.attend().await.unwrap();
    full.flush().await;
    free.hint();
    assert_eq!(free.work().await.len(), 1);
    assert_eq!((full.running(), free.running()), (1, 1));
}

#[tokio::test]
async fn a_drained_node_finishes_what_it_has_and_takes_nothing_new() {
    let world = World::at("2026-01-01T00:00:50Z");
    let (old, new) = (world.node_with(named("a")).await, world.node_with(named("b")).await);
    let epoch = old.elect().await.unwrap().unwrap();
    let only = old.create("only", of_class(Class::LeaderOnly)).await;
    old.trigger(&only).await;
    let running = attend_and_start(&old).await.remove(0);
    let ticks = old.create("ticks", cron("* * * * *")).await;
    world.go_to("2026-01-01T00:00:58Z");
    old.renew().await.unwrap();
    new.renew().await.unwrap();
    old.work().await;
    assert!(old.next_prepared().is_some(), "it has the next minute's run");
    world.store.steer(old.id(), NodeControl::Drain, SYSTEM).await.unwrap();
    old.renew().await.unwrap();
    assert!(old.is_drained());
    assert_eq!(old.next_prepared(), None, "there is nothing to wait for any more");
    assert_eq!(old.attend().await.unwrap().leads, Some(epoch), "its run is the leader's");
    assert_eq!(old.next_prepared(), None, "it was given back");
    let free = Definition { overlap: Overlap::Allow, ..Definition::default() };
    let job = old.create("job", free).await;
    let run = old.trigger(&job).await;
    assert!(old.work().await.is_empty());
    world.go_to("2026-01-01T00:01:00Z");
    let started = attend_and_start(&new).await;
    assert_eq!(started.len(), 2, "the tick and the run by hand");
    assert_eq!(state(&world, run).await, "RUNNING");
    assert_eq!(world.ledger(ticks.id).await[0], "00:01 RUNNING");
    // Its last run of a leader ends, and with it its leadership.
    assert!(old.complete(running.run.grant, AttemptResult::completed()));
    old.flush().await;
    assert_eq!(state(&world, running.run.grant.run).await, "COMPLETED");
    assert_eq!(old.attend().await.unwrap().leads, None);
    assert_eq!(new.attend().await.unwrap().leads, Some(epoch + 1));
    world.store.steer(old.id(), NodeControl::Resume, SYSTEM).await.unwrap();
    old.renew().await.unwrap();
    old.trigger(&job).await;
    assert_eq!(old.work().await.len(), 1);
}

#[tokio::test]
async fn a_node_does_what_its_roles_say() {
    let world = World::at("2026-01-01T00:00:58Z");
    let with = |name: &str, role| {
        let info = NodeInfo { roles: vec![role], ..NodeInfo::named(name) };
        Settings { info, ..Settings::default() }
    };
    let planner = world.node_with(with("planner", NodeRole::Scheduler)).await;
    let agent = world.node_with(with("agent", NodeRole::Agent)).await;
    planner.create("ticks", cron("* * * * *")).await;
    assert_eq!(agent.plan().await.unwrap().planned, 0);
    assert_eq!(agent.attend().await.unwrap().leads, None);
    assert_eq!(world.store.leadership().await.unwrap(), Leadership { epoch: 0, node: None });
    assert!(planner.plan().await.unwrap().planned > 0);
    assert!(planner.attend().await.unwrap().leads.is_some());
    world.pass(2);
    assert!(planner.work().await.is_empty());
    assert_eq!(agent.work().await.len(), 1);
}

#[test]
fn every_setting_that_all_should_share_is_in_the_hash() {
    let long = SignedDuration::from_secs(77);
    let own = named("a").node_info().settings_hash;
    let others = [
        Settings { job_timeout_max: Some(long), ..named("a") },
        Settings { tenant_max_concurrent: Some(7), ..named("a") },
        Settings { look_ahead: long, ..named("a") },
        Settings { planning_buckets_above: 7, ..named("a") },
        Settings { lease: long, ..named("a") },
        Settings { max_runs_per_job: 7, ..named("a") },
        Settings { renew_every: long, ..named("a") },
        Settings { poll_every: long, ..named("a") },
        Settings { retention_days: 7, ..named("a") },
        Settings { failed_retention_days: 7, ..named("a") },
        Settings { audit_retention_days: 7, ..named("a") },
    ];
    let hashes: HashSet<String> =
        others.iter().map(|settings| settings.node_info().settings_hash).collect();
    assert_eq!(hashes.len(), others.len());
    assert!(!hashes.contains(&own));
    let policy: serde_json::Value = serde_json::from_str(&named("a").policy()).unwrap();
    assert_eq!(policy.as_object().unwrap().len(), others.len(), "a setting is not tried here");
    let larger = Settings { max_concurrent_jobs: 7, ..named("b") };
    assert_eq!(larger.node_info().settings_hash, own, "what a machine can do is its own");
}

#[tokio::test]
async fn a_node_with_other_settings_is_told_about_once() {
    let world = World::at("2026-01-01T00:00:00Z");
    let leader = world.node_with(named("a")).await;
    let twin = world.node_with(Settings { max_concurrent_jobs: 3, ..named("b") }).await;
    let other = Settings { lease: SignedDuration::from_secs(11), ..named("c") };
    world.node_with(other).await;
    assert_eq!(twin.watch_settings().await.unwrap(), 0, "it is the leader's to look");
    leader.elect().await.unwrap();
    for _ in 0..3 {
        assert_eq!(leader.watch_settings().await.unwrap(), 1, "how much a node can do is its own");
    }
    let settings = world.store.settings().await.unwrap();
    assert_eq!((settings[0].name.as_str(), settings[0].version), (store::POLICY, 1));
    leader.notify(&engine::LogNotifier).await;
    let channel = Channel::of_all("new");
    let alerts = world.store.undelivered(&channel, 9).await.unwrap();
    let texts: Vec<&str> = alerts.iter().map(|(alert, _)| alert.kind.name()).collect();
    assert_eq!(texts, ["NODE_SETTINGS_DRIFT"]);
    assert!(alerts[0].0.text.contains("node c "), "{}", alerts[0].0.text);
}
