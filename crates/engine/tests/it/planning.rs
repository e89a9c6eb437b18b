//! Very many jobs: each scheduler plans its buckets ahead, and no bucket is lost with a scheduler.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::bucket::{BUCKETS, Buckets};
use domain::cluster::NodeRole;
use domain::id::{JobId, TenantId, UserId};
use domain::job::{Definition, JobState, Overlap, When};
use engine::{NewJob, Node, NodeControl, NodeInfo, Settings};
use jiff::{SignedDuration, Timestamp};
use store::postgres::{PostgresOptions, PostgresStore};
use store::{Cluster, RunFilter, SYSTEM, Store};
use testbed::postgres::Server;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::present::{now, random, real_parts};
use crate::world::{Steps, TestNode, World, cron};

/// A scheduler that shares its work with others however little there is of it.
fn sharing(name: &str) -> Settings {
    Settings { info: NodeInfo::named(name), planning_buckets_above: 0, ..Settings::default() }
}

/// Three schedulers that know of each other, and some jobs that are due every hour.
async fn three(world: &World) -> (Vec<TestNode>, Vec<JobId>) {
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(world.node_with(sharing(name)).await);
    }
    let mut jobs = Vec::new();
    for n in 0..60 {
        jobs.push(nodes[0].create(&format!("job {n}"), cron("0 * * * *")).await.id);
    }
    attend(&nodes).await;
    (nodes, jobs)
}

async fn attend(nodes: &[TestNode]) {
    for node in nodes {
        node.attend().await.unwrap();
    }
}

/// Plans until there is nothing more; answers how much was planned, and how much for others.
async fn plan_all(node: &TestNode) -> (usize, usize) {
    let mut sum = (0, 0);
    loop {
        let report = node.plan().await.unwrap();
        sum = (sum.0 + report.planned, sum.1 + report.helped);
        if report.planned == 0 {
            return sum;
        }
    }
}

fn own(node: &TestNode, jobs: &[JobId]) -> usize {
    jobs.iter().filter(|job| node.buckets().contains(**job)).count()
}

#[tokio::test]
async fn few_jobs_are_planned_by_whoever_comes_first() {
    let world = World::at("2026-01-01T00:00:10Z");
    let settings = || Settings { planning_buckets_above: 2, ..sharing("a") };
    let node = world.node_with(settings()).await;
    let other = world.node_with(Settings { info: NodeInfo::named("b"), ..settings() }).await;
    for n in 0..2 {
        node.create(&format!("job {n}"), cron("0 * * * *")).await;
    }
    assert_eq!(node.take_share().await.unwrap(), Buckets::ALL);
    node.create("one more", cron("0 * * * *")).await;
    // Jobs are counted once a minute.
    assert_eq!(node.take_share().await.unwrap(), Buckets::ALL);
    world.pass(9);
    other.renew().await.unwrap().unwrap();
    node.renew().await.unwrap().unwrap();
    let first = other.take_share().await.unwrap();
    assert_ne!(first, Buckets::ALL);
    world.pass(60);
    assert_eq!(node.take_share().await.unwrap(), first.others());
}

#[tokio::test]
async fn each_scheduler_plans_its_share_ahead() {
    let world = World::at("2026-01-01T00:00:10Z");
    let (nodes, jobs) = three(&world).await;
    let shares: u32 = nodes.iter().map(|node| node.buckets().count()).sum();
    assert_eq!(shares, BUCKETS as u32);
    world.go_to("2026-01-01T00:58:30Z");
    let mut planned = 0;
    for node in &nodes {
        let (done, helped) = plan_all(node).await;
        assert_eq!((done, helped), (own(node, &jobs), 0));
        assert!(done > 0, "nobody is without a share");
        planned += done;
    }
    assert_eq!(planned, jobs.len());
}

#[tokio::test]
async fn what_nobody_has_planned_in_time_everybody_plans() {
    let world = World::at("2026-01-01T00:00:10Z");
    let (nodes, jobs) = three(&world).await;
    let (dead, alive) = (&nodes[0], &nodes[1]);
    let orphans = own(dead, &jobs);
    world.go_to("2026-01-01T00:59:00Z");
    assert_eq!(plan_all(alive).await, (own(alive, &jobs), 0), "it leaves the others theirs");
    plan_all(&nodes[2]).await;
    world.go_to("2026-01-01T00:59:46Z");
    assert_eq!(plan_all(alive).await, (orphans, orphans), "a quarter of a minute before");
    for job in jobs {
        assert_eq!(world.ledger(job).await, ["01:00 PENDING"]);
    }
}

#[tokio::test]
async fn a_share_moves_when_its_owner_dies_drains_or_comes_back() {
    let world = World::at("2026-01-01T00:00:10Z");
    let (mut nodes, _) = three(&world).await;
    let gone = nodes.remove(0);
    let first = gone.buckets();
    let before: Vec<Buckets> = nodes.iter().map(|node| node.buckets()).collect();
    let among_two = |nodes: &[TestNode]| {
        assert_eq!(nodes[0].buckets(), nodes[1].buckets().others());
        for (node, before) in nodes.iter().zip(&before) {
            assert!(node.buckets().count() > before.count(), "each gets a part of it");
        }
    };
    world.store.steer(gone.id(), NodeControl::Drain, SYSTEM).await.unwrap();
    attend(&nodes).await;
    among_two(&nodes);
    gone.renew().await.unwrap().unwrap();
    gone.attend().await.unwrap();
    assert_eq!(gone.buckets(), Buckets::NONE);
    world.store.steer(gone.id(), NodeControl::Resume, SYSTEM).await.unwrap();
    gone.attend().await.unwrap();
    attend(&nodes).await;
    assert_eq!(gone.buckets(), first);
    assert_eq!(nodes.iter().map(|node| node.buckets()).collect::<Vec<_>>(), before);
    // It misses heartbeats.
    for _ in 0..4 {
        world.pass(3);
        for node in &nodes {
            node.renew().await.unwrap().unwrap();
        }
    }
    nodes[0].reap().await.unwrap();
    attend(&nodes).await;
    among_two(&nodes);
    // It wakes, and is another node from now on.
    assert_eq!(gone.renew().await.unwrap(), None);
    gone.become_another();
    assert_eq!(gone.buckets(), Buckets::ALL, "until it knows better");
    gone.join().await.unwrap();
    gone.attend().await.unwrap();
    attend(&nodes).await;
    let shares: u32 = nodes.iter().map(|node| node.buckets().count()).sum();
    assert_eq!(shares + gone.buckets().count(), BUCKETS as u32);
}

#[tokio::test]
async fn who_only_executes_plans_nothing() {
    let world = World::at("2026-01-01T00:00:10Z");
    let (nodes, _) = three(&world).await;
    let info = NodeInfo { roles: vec![NodeRole::Agent], ..NodeInfo::named("agent") };
    let agent = world.node_with(Settings { info, ..sharing("agent") }).await;
    attend(&nodes).await;
    assert_eq!(agent.take_share().await.unwrap(), Buckets::NONE);
    let shares: u32 = nodes.iter().map(|node| node.buckets().count()).sum();
    assert_eq!(shares, BUCKETS as u32);
}

/// A database for one test.
pub async fn database() -> String {
    let name = format!("planning_{:x}", random());
    let (admin, connection) =
        tokio_postgres::connect(&Server::shared().url("postgres"), tokio_postgres::NoTls)
            .await
            .unwrap();
    tokio::spawn(connection);
    admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.unwrap();
    Server::shared().url(&name)
}

/// A scheduler with connections of its own, as another process would have them.
async fn scheduler(url: &str, settings: Settings) -> Node {
    let store =
        PostgresStore::connect(url, PostgresOptions { pool_size: 2, ..PostgresOptions::default() })
            .await
            .unwrap();
    let parts = real_parts();
    let node = Node::new(Arc::new(store), settings, parts);
    node.join().await.unwrap();
    node
}

/// Lets nodes plan the same jobs at the same time, round after round, while one of them leaves in
/// the middle, and looks at every tick.
async fn race(nodes: usize, planning_buckets_above: u32) {
    let url = database().await;
    let settings = |n: usize, look_ahead| Settings {
        info: NodeInfo::named(&format!("node {n}")),
        planning_buckets_above,
        look_ahead: SignedDuration::from_secs(look_ahead),
        // Nothing expires however slow the machine is.
        lease: SignedDuration::from_hours(1),
        batch_max: 7,
        ..Settings::default()
    };
    let mut racers = Vec::new();
    for n in 0..nodes {
        racers.push(Arc::new(scheduler(&url, settings(n, 600)).await));
    }
    let starts = Timestamp::from_second(now().as_second() + 300).unwrap();
    let interval = SignedDuration::from_secs(20);
    let when = When::Every { interval, starts: Some(starts), ends: None };
    let definition = Definition { when, overlap: Overlap::Allow, ..Definition::default() };
    let new = |n: usize| NewJob {
        tenant: TenantId::DEFAULT,
        owner: UserId::ADMIN,
        name: format!("job {n}"),
        definition: definition.clone(),
        state: JobState::Enabled,
    };
    let made = racers[0].create_jobs((0..40).map(new).collect(), SYSTEM).await.unwrap();
    let jobs: Vec<JobId> = made.into_iter().map(|job| job.unwrap().id).collect();
    let barrier = Arc::new(Barrier::new(nodes));
    let mut tasks = JoinSet::new();
    for (n, node) in racers.iter().enumerate() {
        let (node, barrier) = (Arc::clone(node), Arc::clone(&barrier));
        tasks.spawn(async move {
            node.attend().await.unwrap();
            let mut reports = Vec::new();
            for round in 0..12 {
                barrier.wait().await;
                if (round, n) == (4, 0) {
                    // In the middle of the work of the others.
                    node.leave().await.unwrap();
                }
                if n > 0 || round < 4 {
                    node.attend().await.unwrap();
                    reports.push(node.plan().await.unwrap());
                }
            }
            loop {
                let report = node.plan().await.unwrap();
                reports.push(report);
                if report.planned + report.lost_races == 0 {
                    return reports;
                }
            }
        });
    }
    let reports = tasks.join_all().await.concat();
    let runs: usize = reports.iter().map(|report| report.runs).sum();
    // The remaining scheduler plans jobs that no bucket owner planned.
    let last = scheduler(&url, Settings { planning_buckets_above: u32::MAX, ..settings(99, 600) });
    let last = last.await;
    let mut late = 0;
    loop {
        let report = last.plan().await.unwrap();
        if report.planned == 0 {
            break;
        }
        late += report.runs;
    }
    let store = PostgresStore::connect(
        &url,
        PostgresOptions { pool_size: 1, ..PostgresOptions::default() },
    )
    .await
    .unwrap();
    let mut recorded = 0;
    for job in store.jobs_by_id(&jobs).await.unwrap() {
        let found = store.list_runs(&RunFilter::of_job(job.id), None, 500).await.unwrap().items;
        let ticks: Vec<Timestamp> = found.iter().map(|run| run.scheduled_for).collect();
        let once: BTreeSet<Timestamp> = ticks.iter().copied().collect();
        let interval = SignedDuration::from_secs(20);
        let until = job.next_run.unwrap();
        let all: BTreeSet<Timestamp> =
            (0..).map(|n| starts + interval * n).take_while(|tick| *tick < until).collect();
        assert_eq!(ticks.len(), once.len(), "a tick of {} has two runs", job.name);
        assert_eq!(once, all, "{} has a tick without a run", job.name);
        assert!(all.len() >= 15, "{} was planned to the end: {}", job.name, all.len());
        recorded += ticks.len();
    }
    assert_eq!(recorded, runs + late, "each run was recorded by one planner");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_racing_nodes_make_one_run_a_tick() {
    race(2, u32::MAX).await;
    race(2, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_racing_nodes_make_one_run_a_tick() {
    race(10, u32::MAX).await;
    race(10, 0).await;
}
