//! Intervals: where their grid begins, on creation and on change.

use domain::job::{Definition, When};
use jiff::{SignedDuration, Timestamp};
use store::{SYSTEM, Store};

use crate::world::{Steps, World, at, every};

/// An interval of some seconds without a start.
fn unstarted(seconds: i64) -> Definition {
    let interval = SignedDuration::from_secs(seconds);
    let when = When::Every { interval, starts: None, ends: None };
    Definition { when, ..Definition::default() }
}

fn starts_of(job: &domain::job::Job) -> Option<Timestamp> {
    match job.definition.when {
        When::Every { starts, .. } => starts,
        _ => None,
    }
}

#[tokio::test]
async fn without_a_start_the_first_tick_is_the_next_whole_second() {
    let world = World::at("2026-01-01T00:00:13.25Z");
    let node = world.node().await;
    let job = node.create("often", unstarted(60)).await;
    assert_eq!(starts_of(&job), Some(at("2026-01-01T00:00:14Z")), "it is filled in");
    assert_eq!(job.next_run, starts_of(&job));
    let kept = world.store.job_by_name(job.tenant, "often").await.unwrap().unwrap();
    assert_eq!(starts_of(&kept), starts_of(&job), "and kept");
    world.go_to("2026-01-01T00:00:14Z");
    assert_eq!(node.work_and_complete().await, 1, "it runs at once");
    assert_eq!(world.ledger(job.id).await[0], "00:00 COMPLETED");
    world.go_to("2026-01-01T00:01:13.99Z");
    assert_eq!(node.work_and_complete().await, 0);
    world.go_to("2026-01-01T00:01:14Z");
    assert_eq!(node.work_and_complete().await, 1);
    assert_eq!(world.ledger(job.id).await[..2], ["00:00 COMPLETED", "00:01 COMPLETED"]);
}

#[tokio::test]
async fn a_start_in_the_past_is_an_anchor_and_nothing_is_caught_up() {
    let world = World::at("2026-01-01T00:10:30Z");
    let node = world.node().await;
    let job = node.create("anchored", every(600, "2025-12-31T00:05:00Z")).await;
    assert_eq!(job.next_run, Some(at("2026-01-01T00:15:00Z")));
    assert_eq!(node.work_and_complete().await, 0);
    world.go_to("2026-01-01T00:15:00Z");
    assert_eq!(node.work_and_complete().await, 1);
    assert_eq!(world.ledger(job.id).await, ["00:15 COMPLETED"], "no row for an earlier time");
}

#[tokio::test]
async fn a_start_in_the_future_is_the_first_tick() {
    let world = World::at("2026-01-01T00:00:30Z");
    let node = world.node().await;
    let job = node.create("later", every(600, "2026-01-01T00:05:00Z")).await;
    assert_eq!(job.next_run, Some(at("2026-01-01T00:05:00Z")));
    world.go_to("2026-01-01T00:05:00Z");
    assert_eq!(node.work_and_complete().await, 1);
    assert_eq!(world.ledger(job.id).await, ["00:05 COMPLETED"]);
}

#[tokio::test]
async fn another_interval_starts_at_the_change_and_the_same_one_goes_on() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let job = node.create("often", unstarted(600)).await;
    assert_eq!(node.work_and_complete().await, 1);
    world.go_to("2026-01-01T00:04:00Z");
    let same = node.alter_job(job.id, |job| job.definition = unstarted(600), SYSTEM).await.unwrap();
    assert_eq!(starts_of(&same), Some(at("2026-01-01T00:00:00Z")));
    assert_eq!(same.next_run, Some(at("2026-01-01T00:10:00Z")));
    let other =
        node.alter_job(job.id, |job| job.definition = unstarted(300), SYSTEM).await.unwrap();
    assert_eq!(starts_of(&other), Some(at("2026-01-01T00:04:00Z")));
    assert_eq!(other.next_run, Some(at("2026-01-01T00:09:00Z")), "a change runs nothing at once");
    assert_eq!(node.work_and_complete().await, 0);
    world.go_to("2026-01-01T00:09:00Z");
    assert_eq!(node.work_and_complete().await, 1);
    assert_eq!(world.ledger(job.id).await, ["00:00 COMPLETED", "00:09 COMPLETED"]);
}
