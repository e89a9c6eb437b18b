//! History goes when its time is over.

use domain::job::{Definition, Retention, RetryPolicy};
use domain::run::{AttemptResult, ErrorCode};

use domain::id::TenantId;
use engine::{Deletion, Settings};
use store::{Answer, IdempotencyKeys, JobRecords, RequestState, SYSTEM};

use crate::world::{Steps, World};

async fn run_once(
    world: &World,
    node: &crate::world::TestNode,
    job: &domain::job::Job,
    fails: bool,
) {
    node.trigger(job).await;
    let started = node.work().await.remove(0);
    let result = if fails {
        AttemptResult::failed(ErrorCode::Exit(1), "no")
    } else {
        AttemptResult::completed()
    };
    node.complete(started.run.grant, result);
    node.flush().await;
    world.pass(60);
}

#[tokio::test]
async fn by_age_by_number_and_longer_for_failures() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let with = |retention| Definition { retry: once.clone(), retention, ..Definition::default() };
    let common = node.create("common", with(Retention::default())).await;
    let short = node
        .create(
            "short",
            with(Retention { days: Some(1), failed_days: Some(2), ..Retention::default() }),
        )
        .await;
    let few =
        node.create("few", with(Retention { keep_last: Some(2), ..Retention::default() })).await;
    for job in [&common, &short, &few] {
        for fails in [false, true, false] {
            run_once(&world, &node, job, fails).await;
        }
    }
    let mut left = Vec::new();
    for day in [0, 1, 2, 31, 91] {
        world.go_to("2026-01-01T01:00:00Z");
        world.pass(day * 86_400);
        while node.prune().await.unwrap() > 0 {}
        let mut counts = Vec::new();
        for job in [&common, &short, &few] {
            counts.push(world.ledger(job.id).await.len());
        }
        left.push((day, counts));
    }
    let expected =
        [(0, [3, 3, 2]), (1, [3, 1, 2]), (2, [3, 0, 2]), (31, [1, 0, 1]), (91, [0, 0, 0])];
    assert_eq!(left, expected.map(|(day, counts)| (day, counts.to_vec())));
}

/// A deleted job takes its history along, live runs included, unless that is to be kept.
#[tokio::test]
async fn of_a_deleted_job_unless_it_is_kept() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let with = |retention| Definition { retry: once.clone(), retention, ..Definition::default() };
    let purged = node.create("purged", with(Retention::default())).await;
    let kept = node.create("kept", with(Retention::default())).await;
    let long =
        node.create("long", with(Retention { days: Some(60), ..Retention::default() })).await;
    for job in [&purged, &kept, &long] {
        for fails in [false, true] {
            run_once(&world, &node, job, fails).await;
        }
    }
    node.trigger(&purged).await;
    let goes_on = node.work().await.remove(0);
    for (job, purge_history) in [(&purged, true), (&kept, false), (&long, false)] {
        let deletion = Deletion { purge_history, ..Deletion::default() };
        node.delete_job(job.id, deletion, SYSTEM).await.unwrap();
    }
    let left = async || {
        while node.prune().await.unwrap() > 0 {}
        let mut counts = Vec::new();
        for job in [&purged, &kept, &long] {
            counts.push(world.ledger(job.id).await.len());
        }
        counts
    };
    world.pass(1);
    assert_eq!(left().await, [1, 2, 2], "one goes on");
    node.complete(goes_on.run.grant, AttemptResult::completed());
    node.flush().await;
    world.pass(1);
    assert_eq!(left().await, [0, 2, 2]);
    // Records of deleted jobs are removed with their history, and not within a day.
    let deleted = async || {
        let jobs = world.store.deleted_jobs(TenantId::DEFAULT, None, 9).await.unwrap();
        jobs.into_iter().map(|job| job.name).collect::<Vec<_>>()
    };
    assert_eq!(deleted().await.len(), 3);
    // Those that are kept follow their own rule, and the common one.
    world.pass(31 * 86_400);
    assert_eq!(left().await, [0, 1, 2]);
    assert_eq!(deleted().await, ["long", "kept"]);
    world.pass(61 * 86_400);
    assert_eq!(left().await, [0, 0, 0]);
    assert_eq!(deleted().await, [""; 0]);
}

#[tokio::test]
async fn requests_are_remembered_for_a_day_and_given_up_after_minutes() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let begin = async |key: &str| {
        world.store.begin_request(TenantId::DEFAULT, key, b"create").await.unwrap()
    };
    assert_eq!(
        (begin("answered").await, begin("lost").await),
        (RequestState::New, RequestState::New)
    );
    let answer = Answer { status: 201, ..Answer::default() };
    world.store.finish_request(TenantId::DEFAULT, "answered", Some(&answer)).await.unwrap();
    world.pass(5 * 60);
    assert_eq!(begin("lost").await, RequestState::InProgress);
    world.pass(1);
    // The process that should have answered is gone.
    assert_eq!(begin("lost").await, RequestState::New);
    world.go_to("2026-01-02T00:00:00Z");
    assert_eq!(node.forget_requests().await.unwrap(), 0);
    assert_eq!(begin("answered").await, RequestState::Replay(answer));
    world.pass(1);
    assert_eq!(node.forget_requests().await.unwrap(), 1);
    assert_eq!(begin("answered").await, RequestState::New);
}

#[tokio::test]
async fn a_cluster_can_keep_no_history() {
    let world = World::at("2026-01-01T00:00:00Z");
    let none = Settings { retention_days: 0, failed_retention_days: 0, ..Settings::default() };
    let node = world.node_with(crate::world::immortal(none)).await;
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let job = node.create("job", Definition { retry: once, ..Definition::default() }).await;
    run_once(&world, &node, &job, false).await;
    run_once(&world, &node, &job, true).await;
    assert_eq!(node.prune().await.unwrap(), 2);
    assert!(world.ledger(job.id).await.is_empty());
}
