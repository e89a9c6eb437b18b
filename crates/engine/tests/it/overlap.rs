//! Runs that are due while an earlier one has not ended.

use domain::id::JobId;
use domain::job::{Definition, Overlap};
use domain::run::{AttemptEnd, AttemptResult};
use store::{SYSTEM, Store};

use crate::world::{Steps, TestNode, World, cron};

fn minutely(overlap: Overlap) -> Definition {
    Definition { overlap, ..cron("* * * * *") }
}

#[tokio::test]
async fn skip_records_the_tick_and_goes_on() {
    let world = World::at("2026-01-01T00:00:30Z");
    let node = world.node().await;
    let job = node.create("job", minutely(Overlap::Skip)).await;
    world.go_to("2026-01-01T00:01:00Z");
    let first = node.work().await;
    world.go_to("2026-01-01T00:02:00Z");
    assert!(node.work().await.is_empty());
    assert_eq!(world.ledger(job.id).await[..2], ["00:01 RUNNING", "00:02 SKIPPED OVERLAP"]);
    node.complete(first[0].run.grant, AttemptResult::completed());
    node.flush().await;
    world.go_to("2026-01-01T00:03:00Z");
    assert_eq!(node.work().await.len(), 1);
}

#[tokio::test]
async fn queue_waits_for_its_turn() {
    let world = World::at("2026-01-01T00:00:30Z");
    let node = world.node().await;
    let job = node.create("job", minutely(Overlap::Queue)).await;
    world.go_to("2026-01-01T00:01:00Z");
    let mut running = node.work().await;
    for minute in 2..=4 {
        world.go_to(&format!("2026-01-01T00:0{minute}:00Z"));
        assert!(node.work().await.is_empty());
    }
    for minute in 1..=3 {
        let run = running.pop().unwrap();
        assert_eq!(run.run.run.scheduled_for.strftime("%M").to_string(), format!("0{minute}"));
        node.complete(run.run.grant, AttemptResult::completed());
        node.flush().await;
        running = node.work().await;
        assert_eq!(running.len(), 1, "exactly the next one");
    }
    assert_eq!(world.ledger(job.id).await[3], "00:04 RUNNING");
}

#[tokio::test]
async fn cancel_previous_takes_its_place_when_it_has_ended() {
    let world = World::at("2026-01-01T00:00:30Z");
    let node = world.node().await;
    let job = node.create("job", minutely(Overlap::CancelPrevious)).await;
    world.go_to("2026-01-01T00:01:00Z");
    let first = node.work().await.remove(0).run.grant;
    world.go_to("2026-01-01T00:02:00Z");
    assert!(node.work().await.is_empty());
    assert_eq!(node.renew().await.unwrap(), Some(vec![first.run]), "the holder is told");
    node.complete(
        first,
        AttemptResult { end: AttemptEnd::Cancelled, ..AttemptResult::completed() },
    );
    node.flush().await;
    assert_eq!(node.work().await.len(), 1);
    assert_eq!(
        world.ledger(job.id).await[..2],
        ["00:01 CANCELLED CANCEL_REQUESTED", "00:02 RUNNING"]
    );
}

#[tokio::test]
async fn allow_runs_beside() {
    let world = World::at("2026-01-01T00:00:30Z");
    let node = world.node().await;
    node.create("job", minutely(Overlap::Allow)).await;
    for minute in 1..=3 {
        world.go_to(&format!("2026-01-01T00:0{minute}:00Z"));
        assert_eq!(node.work().await.len(), 1);
    }
    assert_eq!(node.running(), 3);
}

#[tokio::test]
async fn a_cancelled_run_never_completes() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let job = node.create("job", Definition::default()).await;
    let run = node.trigger(&job).await;
    let started = node.work().await.remove(0);
    node.cancel_run(run, "enough", SYSTEM).await.unwrap();
    node.complete(started.run.grant, AttemptResult::completed());
    node.flush().await;
    let view = world.store.run(run).await.unwrap().unwrap();
    assert_eq!(view.state.to_string(), "CANCELLED");
    assert_eq!(view.reason_text.as_deref(), Some("enough"));
    assert!(
        node.cancel_run(run, "again", SYSTEM)
            .await
            .unwrap_err()
            .to_string()
            .contains("has ended as CANCELLED")
    );
}

/// Two due ticks of a job on two nodes, of which the later one was claimed first: the node of the
/// earlier tick was replaced, as after a stall of the store. Returns the nodes that hold the
/// earlier and the later one.
async fn claimed_in_reverse(world: &World, overlap: Overlap) -> (TestNode, TestNode, JobId) {
    let first = world.node().await;
    let job = first.create("job", minutely(overlap)).await;
    world.go_to("2026-01-01T00:00:59Z");
    assert!(first.work().await.is_empty(), "the tick of 00:01 is prepared");
    let later = world.node().await;
    world.go_to("2026-01-01T00:01:59Z");
    assert!(later.work().await.is_empty(), "the tick of 00:02 is prepared");
    first.leave().await.unwrap();
    let earlier = world.node().await;
    earlier.exchange().await.unwrap();
    (earlier, later, job.id)
}

#[tokio::test]
async fn ticks_on_two_nodes_do_not_skip_each_other() {
    for is_earlier_first in [true, false] {
        let world = World::at("2026-01-01T00:00:30Z");
        let (earlier, later, job) = claimed_in_reverse(&world, Overlap::Skip).await;
        world.go_to("2026-01-01T00:02:00Z");
        if is_earlier_first {
            assert!(earlier.start_due().await.unwrap().is_empty(), "the later one may run");
        }
        assert!(later.start_due().await.unwrap().is_empty(), "the earlier one may run");
        later.flush().await;
        world.go_to("2026-01-01T00:02:00.1Z");
        assert_eq!(earlier.start_due().await.unwrap().len(), 1);
        let ledger = world.ledger(job).await;
        let expected = ["00:01 RUNNING", "00:02 SKIPPED OVERLAP"];
        assert_eq!(ledger[..2], expected, "{is_earlier_first}");
    }
}

/// Two that wait in line because of each other: the first of them is woken.
#[tokio::test]
async fn ticks_on_two_nodes_do_not_wait_for_each_other() {
    for is_earlier_first in [true, false] {
        let world = World::at("2026-01-01T00:00:30Z");
        let (earlier, later, job) = claimed_in_reverse(&world, Overlap::Queue).await;
        world.go_to("2026-01-01T00:02:00Z");
        let nodes = if is_earlier_first { [&earlier, &later] } else { [&later, &earlier] };
        for node in nodes {
            assert!(node.start_due().await.unwrap().is_empty(), "the other one may run");
        }
        for node in nodes {
            node.flush().await;
        }
        let mut started = Vec::new();
        for node in nodes {
            started.extend(node.work().await);
        }
        assert_eq!(started.len(), 1, "{is_earlier_first}");
        let ledger = world.ledger(job).await;
        assert_eq!(ledger[..2], ["00:01 RUNNING", "00:02 QUEUED"], "{is_earlier_first}");
    }
}

/// The later tick started while no node held the earlier one. The earlier one ends only when that
/// is known for sure.
#[tokio::test]
async fn a_tick_waits_until_the_start_of_a_later_one_is_known() {
    for (overlap, expected) in [
        (Overlap::Skip, "00:01 SKIPPED OVERLAP"),
        (Overlap::CancelPrevious, "00:01 CANCELLED CANCEL_REQUESTED"),
    ] {
        let world = World::at("2026-01-01T00:00:30Z");
        let first = world.node().await;
        let job = first.create("job", minutely(overlap)).await;
        world.go_to("2026-01-01T00:00:59Z");
        assert!(first.work().await.is_empty(), "the tick of 00:01 is prepared");
        let later = world.node().await;
        world.go_to("2026-01-01T00:01:59Z");
        assert!(later.work().await.is_empty(), "the tick of 00:02 is prepared");
        first.leave().await.unwrap();
        world.go_to("2026-01-01T00:02:00Z");
        assert_eq!(later.start_due().await.unwrap().len(), 1);
        let earlier = world.node().await;
        earlier.exchange().await.unwrap();
        for tenth in 0..3 {
            world.go_to(&format!("2026-01-01T00:02:00.{tenth}Z"));
            assert!(earlier.start_due().await.unwrap().is_empty());
            assert!(!earlier.has_news(), "{overlap:?}: nothing is decided");
        }
        later.renew().await.unwrap();
        world.go_to("2026-01-01T00:02:00.3Z");
        assert!(earlier.start_due().await.unwrap().is_empty());
        earlier.flush().await;
        let ledger = world.ledger(job.id).await;
        assert_eq!(ledger[..2], [expected, "00:02 RUNNING"], "{overlap:?}");
        assert_eq!(later.renew().await.unwrap(), Some(vec![]), "the later one goes on");
    }
}
