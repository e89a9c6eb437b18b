//! Slots: one job, one kind of work or one tenant does not stop the others.

use std::collections::BTreeMap;

use domain::access::{Entry, Tenant};
use domain::action::{Action, HttpAction};
use domain::fairness::Tier;
use domain::id::{TenantId, UserId};
use domain::job::{Definition, Job, JobState, Overlap};
use domain::run::AttemptResult;
use domain::slot::SlotKind;
use engine::{NewJob, Settings, Started};
use jiff::SignedDuration;
use store::{Identity, SYSTEM};
use uuid::Uuid;

use crate::world::{Steps, TestNode, World, every, immortal};

const START: &str = "2026-01-01T00:00:00Z";

fn call() -> Action {
    Action::Http(HttpAction {
        endpoint: "http://127.0.0.1/".into(),
        method: "GET".into(),
        headers: BTreeMap::new(),
        body: None,
        expected_status: Vec::new(),
    })
}

fn calling(definition: Definition) -> Definition {
    Definition { action: call(), ..definition }
}

fn allowing(definition: Definition) -> Definition {
    Definition { overlap: Overlap::Allow, ..definition }
}

fn slots(process: u32, http: u32) -> Settings {
    Settings { max_concurrent_jobs: process, max_http_calls: http, ..Settings::default() }
}

fn names(started: &[Started]) -> Vec<&str> {
    let mut names: Vec<&str> = started.iter().map(|run| run.job.name.as_str()).collect();
    names.sort_unstable();
    names
}

/// Lets so many seconds pass. Runs of jobs whose names begin with `stuck` never end, all others end
/// at once. Returns how many of the others started, and how late the latest of them was.
async fn live(world: &World, node: &TestNode, seconds: i64) -> (usize, SignedDuration) {
    let (mut count, mut latest) = (0, SignedDuration::ZERO);
    for _ in 0..seconds {
        world.pass(1);
        node.release_slot_waiters();
        for run in node.work().await {
            if run.job.name.starts_with("stuck") {
                continue;
            }
            count += 1;
            latest = latest.max(run.started_at.duration_since(run.run.run.scheduled_for));
            node.complete(run.run.grant, AttemptResult::completed());
        }
        node.flush().await;
    }
    (count, latest)
}

/// One job that may overlap calls an endpoint that never answers, every second.
#[tokio::test]
async fn calls_that_never_end_hold_up_no_other_job() {
    let world = World::at(START);
    let node = world.node().await;
    node.create("stuck", allowing(calling(every(1, START)))).await;
    for n in 0..5 {
        node.create(&format!("works {n}"), every(1, START)).await;
        node.create(&format!("calls {n}"), calling(every(1, START))).await;
    }
    live(&world, &node, 1).await;
    let (count, latest) = live(&world, &node, 150).await;
    assert_eq!(count, 10 * 150);
    assert!(latest <= SignedDuration::from_secs(1), "{latest:?}");
    assert_eq!(node.running(), 16, "the limit for one job");
}

#[tokio::test]
async fn each_kind_of_slot_is_taken_for_itself() {
    let world = World::at(START);
    let node = world.node_with(slots(1, 2)).await;
    let works = node.create("works", allowing(Definition::default())).await;
    let calls = node.create("calls", allowing(calling(Definition::default()))).await;
    for _ in 0..3 {
        node.trigger(&works).await;
        node.trigger(&calls).await;
    }
    let started = node.work().await;
    assert_eq!(names(&started), ["calls", "calls", "works"]);
    for (name, next) in [("calls", vec!["calls"]), ("works", vec!["works"]), ("calls", vec![])] {
        let ended = started.iter().find(|run| {
            run.job.name == name && node.complete(run.run.grant, AttemptResult::completed())
        });
        assert!(ended.is_some(), "{name}");
        assert_eq!(names(&node.work().await), next, "after {name}");
    }
    let used = node.slot_use();
    assert_eq!((used.process.taken, used.http.taken), (1, 1));
    assert_eq!((used.process.slots, used.http.slots), (1, 2));
}

/// A run that was prepared for a call and is a command by now waits for a process slot.
#[tokio::test]
async fn a_run_takes_the_slot_of_what_its_job_does_now() {
    let world = World::at(START);
    let node = world.node_with(slots(1, 5)).await;
    let other = node.create("other", Definition::default()).await;
    node.trigger(&other).await;
    let other = node.work().await.remove(0);
    let job = node.create("job", calling(every(10, START))).await;
    world.pass(8);
    assert_eq!(names(&node.work().await), ["job"], "that of the start");
    assert!(node.next_prepared().is_some());
    node.alter_job(
        job.id,
        |job| {
            job.definition.action = Action::Noop;
            job.definition.overlap = Overlap::Allow;
        },
        SYSTEM,
    )
    .await
    .unwrap();
    world.pass(2);
    assert_eq!(names(&node.work().await), Vec::<&str>::new(), "there is no process slot");
    assert_eq!(node.slot_use().http.taken, 1);
    node.complete(other.run.grant, AttemptResult::completed());
    let mut started = node.work().await;
    started.extend(node.work().await);
    assert_eq!(names(&started), ["job"]);
    assert_eq!(started[0].run.run.slot, SlotKind::Process);
    assert_eq!(node.slot_use().process.taken, 1);
}

/// Neither prepared nor triggered runs exceed the limit, and each end admits one.
#[tokio::test]
async fn a_tenant_has_no_more_runs_at_work_than_it_may() {
    let world = World::at(START);
    let settings = Settings { tenant_max_concurrent: Some(1), ..Settings::default() };
    let node = world.node_with(settings).await;
    let job = node.create("ticks", allowing(every(1, START))).await;
    let mut running = Vec::new();
    for _ in 0..5 {
        node.trigger(&job).await;
        running.extend(node.work().await);
        assert_eq!(node.running(), 1);
        world.pass(1);
    }
    for _ in 0..8 {
        let run = running.remove(0);
        node.complete(run.run.grant, AttemptResult::completed());
        running.extend(node.work().await);
        assert_eq!((node.running(), running.len()), (1, 1), "the next one begins at once");
    }
}

/// Of runs that are due at the same time, tenants start as many as their tiers give them.
#[tokio::test]
async fn tenants_share_slots_by_their_tiers() {
    let world = World::at(START);
    let node = world.node_with(slots(17, 0)).await;
    let mut tenants = Vec::new();
    for tier in [Tier::Free, Tier::Premium] {
        let id = TenantId(Uuid::from_u128(700 + tier.weight() as u128));
        let tenant = Tenant {
            id,
            name: tier.name().into(),
            tier,
            max_jobs: None,
            max_concurrent: None,
            requests_per_second: None,
            external_jobs: false,
            job_defaults: Default::default(),
        };
        world.store.put_entry(&Entry::Tenant(tenant), None, SYSTEM).await.unwrap();
        tenants.push(id);
        for n in 0..30 {
            let definition = every(10, START);
            let (owner, state) = (UserId::ADMIN, JobState::Enabled);
            let new = NewJob { tenant: id, owner, name: format!("job {n}"), definition, state };
            node.create_job(new, SYSTEM).await.unwrap();
        }
    }
    node.renew().await.unwrap();
    world.pass(8);
    node.work_and_complete().await;
    assert!(node.next_prepared().is_some());
    world.pass(2);
    let started = node.work().await;
    let count = |tenant| started.iter().filter(|run| run.run.run.tenant == tenant).count();
    assert_eq!(tenants.into_iter().map(count).collect::<Vec<_>>(), [1, 16]);
}

/// One job whose runs never end does not take the slots of the others.
#[tokio::test]
async fn a_job_whose_runs_may_overlap_takes_so_many_slots() {
    let world = World::at("2026-01-01T00:00:00Z");
    let settings = Settings { max_concurrent_jobs: 8, max_runs_per_job: 3, ..Settings::default() };
    let node = world.node_with(immortal(settings)).await;
    let overlap = Overlap::Allow;
    let hangs = Definition { overlap, ..every(1, "2026-01-01T00:00:01Z") };
    let hangs = node.create("hangs", hangs).await;
    let limited = Definition { overlap, concurrency: Some(2), ..every(1, "2026-01-01T00:00:01Z") };
    let limited = node.create("limited", limited).await;
    let innocent = node.create("innocent", every(1, "2026-01-01T00:00:01Z")).await;
    let mut running = Vec::new();
    for second in 1..=20 {
        world.pass(1);
        for run in node.work().await {
            if run.job.id == innocent.id {
                assert!(node.complete(run.run.grant, AttemptResult::completed()));
            } else {
                running.push(run);
            }
        }
        node.flush().await;
        let ledger = world.ledger(innocent.id).await;
        let done = ledger.iter().filter(|line| line.contains("COMPLETED")).count();
        assert_eq!(done, second, "each tick of the innocent job ran");
    }
    let of =
        |job: &Job, running: &[Started]| running.iter().filter(|run| run.job.id == job.id).count();
    assert_eq!((of(&hangs, &running), of(&limited, &running)), (3, 2));
    // Also those that are asked for wait, and each end lets the next in line begin.
    for _ in 0..5 {
        node.trigger(&hangs).await;
    }
    assert_eq!(node.work().await.len(), 0);
    for _ in 0..12 {
        let first = running.iter().position(|run| run.job.id == hangs.id).unwrap();
        let ended = running.remove(first);
        assert!(node.complete(ended.run.grant, AttemptResult::completed()));
        let started = node.work().await;
        assert_eq!(started.len(), 1);
        assert!(started[0].run.run.scheduled_for > ended.run.run.scheduled_for, "in their order");
        running.extend(started);
    }
}
