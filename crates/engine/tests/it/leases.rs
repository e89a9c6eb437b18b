//! Nodes that die, miss heartbeats, or come back too late.

use domain::job::{Definition, Overlap};
use domain::run::{AttemptResult, ErrorCode};
use engine::Settings;
use store::{RunFilter, Store};

use crate::world::{Steps, TestNode, World, cron, immortal};

#[tokio::test]
async fn the_start_of_an_attempt_is_known_at_once_here_and_elsewhere_with_the_renewal() {
    let world = World::at("2026-01-01T00:00:00Z");
    let (here, there) = (world.node().await, world.node().await);
    let job = here.create("job", Definition::default()).await;
    let run = here.trigger(&job).await;
    let started = here.work().await.remove(0);
    world.pass(2);
    let seen = async |node: &TestNode| node.run(run).await.unwrap().unwrap().started_at;
    assert_eq!(seen(&here).await, Some(started.started_at));
    assert_eq!(seen(&there).await, None, "nothing is written when a run starts");
    here.renew().await.unwrap().unwrap();
    assert_eq!(seen(&there).await, Some(started.started_at));
    // Another attempt has another start, and lists show the same.
    here.complete(started.run.grant, AttemptResult::failed(ErrorCode::Exit(1), "no"));
    here.flush().await;
    world.pass(60);
    let again = here.work().await.remove(0);
    assert_eq!(again.run.number(), 2);
    let filter = RunFilter::of_job(job.id);
    let listed = here.list_runs(&filter, None, 9).await.unwrap().items.remove(0);
    assert_eq!(listed.started_at, Some(again.started_at));
    assert_eq!(seen(&there).await, None, "not the start of the attempt before");
    here.renew().await.unwrap().unwrap();
    assert_eq!(seen(&there).await, Some(again.started_at));
}

#[tokio::test]
async fn a_dead_nodes_run_is_tried_again_with_a_larger_fence() {
    let world = World::at("2026-01-01T00:00:00Z");
    let dead = world.mortal_node().await;
    let job = dead.create("job", Definition::default()).await;
    let run = dead.trigger(&job).await;
    let first = dead.work().await.remove(0);
    // It dies before its first renewal. One lease later another node takes over.
    let heir = world.node().await;
    world.pass(11);
    heir.renew().await.unwrap();
    let report = heir.reap().await.unwrap();
    assert_eq!((report.dead, report.lost), (1, 1));
    let second = heir.work().await.remove(0);
    assert!(second.run.grant.fence > first.run.grant.fence);
    // The dead one was only suspended: it finds nothing that it could change.
    dead.complete(first.run.grant, AttemptResult::completed());
    dead.flush().await;
    assert_eq!(dead.renew().await.unwrap(), None);
    assert_eq!(world.store.run(run).await.unwrap().unwrap().state.to_string(), "RUNNING");
    heir.complete(second.run.grant, AttemptResult::completed());
    heir.flush().await;
    let view = world.store.run(run).await.unwrap().unwrap();
    assert_eq!((view.state.to_string().as_str(), view.lost, view.attempts), ("COMPLETED", 1, 1));
    let attempts = world.store.attempts(run).await.unwrap();
    assert_eq!(
        attempts.iter().map(|attempt| attempt.end.as_str()).collect::<Vec<_>>(),
        ["LOST", "COMPLETED"]
    );
}

#[tokio::test]
async fn a_run_that_kills_its_nodes_ends() {
    let world = World::at("2026-01-01T00:00:00Z");
    let watcher =
        world.node_with(immortal(Settings { max_concurrent_jobs: 0, ..Settings::default() })).await;
    let job = watcher.create("poison", Definition::default()).await;
    let run = watcher.trigger(&job).await;
    for _ in 0..3 {
        let victim = world.mortal_node().await;
        assert_eq!(victim.work().await.len(), 1);
        world.pass(11);
        watcher.renew().await.unwrap();
        watcher.reap().await.unwrap();
    }
    let view = world.store.run(run).await.unwrap().unwrap();
    assert_eq!((view.state.to_string().as_str(), view.lost, view.dead_letter), ("FAILED", 3, true));
    assert_eq!(view.reason.as_deref(), Some("LOST"));
}

#[tokio::test]
async fn prepared_runs_of_a_dead_node_are_not_lost_attempts() {
    let world = World::at("2026-01-01T00:00:58Z");
    let dead = world.mortal_node().await;
    let job = dead.create("job", cron("* * * * *")).await;
    dead.work().await;
    let heir = world.node().await;
    world.pass(11);
    heir.renew().await.unwrap();
    heir.reap().await.unwrap();
    let started = heir.work().await;
    // It was due while the dead node held it, so that attempt counts as lost.
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].run.lost, 1);
    heir.complete(started[0].run.grant, AttemptResult::completed());
    heir.flush().await;
    assert_eq!(world.ledger(job.id).await[0], "00:01 COMPLETED");
}

#[tokio::test]
async fn a_node_that_leaves_gives_everything_back() {
    let world = World::at("2026-01-01T00:00:58Z");
    let node = world.mortal_node().await;
    let job = node.create("job", cron("* * * * *")).await;
    node.work().await;
    node.drain();
    node.release_prepared();
    node.leave().await.unwrap();
    world.pass(2);
    assert!(node.work().await.is_empty());
    let other = world.mortal_node().await;
    let started = other.work().await;
    assert_eq!((started.len(), started[0].run.lost), (1, 0), "untouched");
    assert_eq!(world.ledger(job.id).await[0], "00:01 RUNNING");
}

#[tokio::test]
async fn two_nodes_share_the_work_and_no_run_is_started_twice() {
    let world = World::at("2026-01-01T00:00:00Z");
    let settings = || Settings { max_concurrent_jobs: 10, ..Settings::default() };
    let (a, b) = (world.node_with(settings()).await, world.node_with(settings()).await);
    let definition = Definition { overlap: Overlap::Allow, ..Definition::default() };
    let job = a.create("job", definition).await;
    let mut runs = Vec::new();
    for _ in 0..30 {
        runs.push(a.triggered(job.id, Default::default()).await.unwrap());
    }
    world.store.submit(&runs, None).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 30 {
        for node in [&a, &b] {
            for run in node.work().await {
                seen.push(run.run.grant.run);
                node.complete(run.run.grant, AttemptResult::completed());
            }
            node.flush().await;
        }
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 30);
}
