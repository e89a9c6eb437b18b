//! Pools: a run begins when its pool has a place for it, and waits in line without a slot.

use domain::id::{ObjectId, TenantId};
use domain::job::{Definition, OnLost, Overlap, When};
use domain::object::{Object, ObjectKind};
use domain::pool::PoolUse;
use domain::run::AttemptResult;
use domain::schedule::CatchUpPolicy;
use engine::{Settings, Started};
use jiff::Timestamp;
use store::{NamedResources, Pools, SYSTEM, Store};
use uuid::Uuid;

use crate::world::{Steps, TestNode, World, at, immortal};

/// Makes a pool of the default tenant.
async fn pool(world: &World, name: &str, size: u32) {
    let object = Object {
        id: ObjectId(Uuid::new_v5(&Uuid::nil(), name.as_bytes())),
        tenant: TenantId::DEFAULT,
        kind: ObjectKind::Pool,
        name: name.to_owned(),
        body: format!(r#"{{"size":{size}}}"#),
        version: 0,
        created_at: Timestamp::UNIX_EPOCH,
        changed_at: Timestamp::UNIX_EPOCH,
    };
    world.store.put_object(&object, 0, SYSTEM).await.unwrap();
}

fn pooled(weight: u32) -> Definition {
    let pool = Some(PoolUse { name: "warehouse".to_owned(), weight });
    Definition { pool, overlap: Overlap::Allow, ..Definition::default() }
}

fn names(started: &[Started]) -> Vec<&str> {
    started.iter().map(|started| started.job.name.as_str()).collect()
}

async fn end(node: &TestNode, started: Started) {
    assert!(node.complete(started.run.grant, AttemptResult::completed()));
    node.flush().await;
}

#[tokio::test]
async fn runs_of_several_jobs_and_nodes_share_a_pool_in_order() {
    let world = World::at("2026-01-01T00:00:00Z");
    let (here, there) = (world.node().await, world.node().await);
    pool(&world, "warehouse", 2).await;
    let mut jobs = Vec::new();
    for name in ["a", "b", "c", "d"] {
        jobs.push(here.create(name, pooled(1)).await);
    }
    let urgent = here.create("urgent", Definition { priority: 9, ..pooled(1) }).await;
    let mut first = Vec::new();
    for job in &jobs[..2] {
        here.trigger(job).await;
        first.extend(here.work().await);
        world.pass(1);
    }
    assert_eq!(names(&first), ["a", "b"]);
    let mut waiting = Vec::new();
    for job in [&jobs[2], &jobs[3], &urgent] {
        waiting.push(there.trigger(job).await);
        assert_eq!(names(&there.work().await), [""; 0]);
        world.pass(1);
    }
    for run in &waiting {
        assert_eq!(world.store.run(*run).await.unwrap().unwrap().state.to_string(), "QUEUED");
    }
    // The urgent one comes first, and it may begin on any node.
    end(&here, first.remove(0)).await;
    let mut next = here.work().await;
    next.extend(there.work().await);
    assert_eq!(names(&next), ["urgent"]);
    end(&here, first.remove(0)).await;
    let mut next = there.work().await;
    next.extend(here.work().await);
    assert_eq!(names(&next), ["c"]);
}

#[tokio::test]
async fn a_run_that_waits_for_a_place_takes_no_slot() {
    let world = World::at("2026-01-01T00:00:00Z");
    let settings = Settings { max_concurrent_jobs: 2, ..immortal(Settings::default()) };
    let node = world.node_with(settings).await;
    pool(&world, "warehouse", 1).await;
    let job = node.create("job", pooled(1)).await;
    let plain = node.create("plain", Definition::default()).await;
    node.trigger(&job).await;
    assert_eq!(node.work().await.len(), 1);
    for _ in 0..3 {
        node.trigger(&job).await;
    }
    assert!(node.work().await.is_empty());
    node.trigger(&plain).await;
    assert_eq!(names(&node.work().await), ["plain"], "the second slot is free");
}

#[tokio::test]
async fn a_pool_gets_the_slots_of_a_dead_node_back() {
    let world = World::at("2026-01-01T00:00:00Z");
    let dead = world.mortal_node().await;
    pool(&world, "warehouse", 1).await;
    let job = dead.create("job", Definition { on_lost: OnLost::Fail, ..pooled(1) }).await;
    dead.trigger(&job).await;
    assert_eq!(dead.work().await.len(), 1);
    let heir = world.node().await;
    world.pass(5);
    heir.trigger(&job).await;
    assert!(heir.work().await.is_empty());
    world.pass(6);
    // The first reaping declares the node dead and ends its run, the second one calls the line.
    heir.reap().await.unwrap();
    heir.reap().await.unwrap();
    assert_eq!(heir.work().await.len(), 1);
    let runs = world.store.pool_runs(TenantId::DEFAULT, None).await.unwrap();
    assert_eq!(runs.len(), 1, "{runs:?}");
}

#[tokio::test]
async fn a_retry_gives_its_place_to_others() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    pool(&world, "warehouse", 1).await;
    let (a, b) = (node.create("a", pooled(1)).await, node.create("b", pooled(1)).await);
    node.trigger(&a).await;
    let first = node.work().await.remove(0);
    world.pass(1);
    node.trigger(&b).await;
    assert!(node.work().await.is_empty());
    let failed = AttemptResult::failed(domain::run::ErrorCode::Exit(1), "no");
    node.complete(first.run.grant, failed);
    node.flush().await;
    assert_eq!(names(&node.work().await), ["b"]);
    world.pass(61);
    assert!(node.work().await.is_empty(), "the second attempt of a waits for b");
}

/// A one-time job whose time has come waits in line. A pause does not end it, whatever happens to
/// future times.
#[tokio::test]
async fn a_pause_does_not_drop_what_waits() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    pool(&world, "warehouse", 1).await;
    let hold = node.create("hold", pooled(1)).await;
    node.trigger(&hold).await;
    let first = node.work().await.remove(0);
    let when = When::At { at: at("2026-01-01T00:00:02Z") };
    let catch_up = CatchUpPolicy::None;
    let once = node.create("once", Definition { when, catch_up, ..pooled(1) }).await;
    world.pass(3);
    node.plan().await.unwrap();
    assert!(node.work().await.is_empty());
    node.pause_job(once.id, SYSTEM).await.unwrap();
    assert!(node.work().await.is_empty());
    end(&node, first).await;
    assert!(node.work().await.is_empty(), "its job is paused");
    node.resume_job(once.id, None, SYSTEM).await.unwrap();
    assert_eq!(names(&node.work().await), ["once"]);
}

#[tokio::test]
async fn a_job_without_its_pool_is_refused() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let new = |definition| engine::NewJob {
        tenant: TenantId::DEFAULT,
        owner: domain::id::UserId::ADMIN,
        name: "job".into(),
        definition,
        state: domain::job::JobState::Enabled,
    };
    let error = node.create_job(new(pooled(1)), SYSTEM).await.unwrap_err().to_string();
    assert!(error.contains("there is no pool \"warehouse\""), "{error}");
    pool(&world, "warehouse", 2).await;
    let error = node.create_job(new(pooled(3)), SYSTEM).await.unwrap_err().to_string();
    assert!(error.contains("a weight of 3 does not fit into the pool"), "{error}");
    node.create_job(new(pooled(2)), SYSTEM).await.unwrap();
}
