//! Each ended run is counted once, whichever node counts it.

use domain::id::{JobId, TenantId};
use domain::job::{Definition, Job, RetryPolicy};
use domain::run::{AttemptResult, ErrorCode, Outcome};
use engine::Settings;
use jiff::SignedDuration;

use crate::world::{Steps, TestNode, World};

const TENANT: TenantId = TenantId::DEFAULT;

/// A run that starts `lag` seconds after its time and takes so long.
async fn run(world: &World, node: &TestNode, job: &Job, lag: i64, took: i64, fails: bool) {
    node.trigger(job).await;
    world.pass(lag);
    let started = node.work().await.remove(0);
    world.pass(took);
    node.renew().await.unwrap();
    let result = match fails {
        true => AttemptResult::failed(ErrorCode::Exit(1), "no"),
        false => AttemptResult::completed(),
    };
    node.complete(started.run.grant, result);
    node.flush().await;
}

#[tokio::test]
async fn what_ended_is_added_up_once_by_many() {
    let world = World::at("2026-01-01T10:00:00Z");
    let settings = || Settings { batch_max: 3, ..Settings::default() };
    let (a, b) = (
        world.node_with(crate::world::immortal(settings())).await,
        world.node_with(crate::world::immortal(settings())).await,
    );
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let once = Definition { retry, ..Definition::default() };
    let (good, bad) = (a.create("good", once.clone()).await, a.create("bad", once).await);
    for took in [1, 2, 3, 4, 5, 6, 7, 8] {
        run(&world, &a, &good, 0, took, false).await;
    }
    run(&world, &a, &bad, 0, 100, true).await;
    run(&world, &a, &bad, 0, 200, false).await;
    let mut added = a.tally().await.unwrap().added;
    assert_eq!(added, 3, "a batch at a time");
    for _ in 0..2 {
        added += a.tally().await.unwrap().added;
    }
    assert_eq!(a.tally().await.unwrap().added, 0, "the last one is too young");
    world.pass(61);
    loop {
        // Both read from the same place; one of them moves on.
        let (first, second) = tokio::join!(a.tally(), b.tally());
        let (first, second) = (first.unwrap(), second.unwrap());
        added += first.added + second.added;
        if !first.more && !second.more {
            break;
        }
    }
    assert_eq!(added, 10);
    let stats = a.stats(TENANT).await.unwrap();
    assert_eq!(stats.last_hour.ended[&Outcome::Completed], 9);
    assert_eq!(stats.last_hour.ended[&Outcome::Failed], 1);
    assert_eq!(stats.last_hour, stats.last_day);
    assert_eq!((stats.dead_letters, stats.live.queued), (1, 0));
    let nobody = JobId(uuid::Uuid::from_u128(7));
    let jobs = a.job_stats(TENANT, &[good.id, bad.id, nobody], 1).await.unwrap();
    assert_eq!(jobs.len(), 2);
    assert_eq!(jobs[&good.id].success_rate(), Some(1.0));
    assert_eq!(jobs[&bad.id].success_rate(), Some(0.5));
    assert_eq!(jobs[&good.id].durations.mean(), Some(SignedDuration::from_millis(4_500)));
    let median = jobs[&good.id].durations.percentile(50).unwrap();
    assert!(median >= SignedDuration::from_secs(4) && median <= SignedDuration::from_secs(5));
}

#[tokio::test]
async fn statistics_leave_the_last_hour_and_the_last_day() {
    let world = World::at("2026-01-01T10:00:00Z");
    let node = world.node().await;
    let job = node.create("job", Definition::default()).await;
    run(&world, &node, &job, 0, 1, false).await;
    let mut seen = Vec::new();
    for hour in [0, 1, 2, 24, 25] {
        world.go_to("2026-01-01T10:02:00Z");
        world.pass(hour * 3_600);
        node.tally().await.unwrap();
        let stats = node.stats(TENANT).await.unwrap();
        let of = |ended: &std::collections::BTreeMap<Outcome, u64>| ended.values().sum::<u64>();
        seen.push((hour, of(&stats.last_hour.ended), of(&stats.last_day.ended)));
    }
    assert_eq!(seen, [(0, 1, 1), (1, 1, 1), (2, 0, 1), (24, 0, 1), (25, 0, 0)]);
}
