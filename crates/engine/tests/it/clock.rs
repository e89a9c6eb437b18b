//! A node whose clock is not the store's.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use domain::alert::Alert;
use domain::job::{Definition, JobState};
use engine::{ClockHealth, Notifier, Settings};
use jiff::SignedDuration;
use store::{Change, Changed, Cluster, Prepared, SYSTEM, Store};

use crate::world::{Steps, World, cron, immortal};

/// Keeps the alerts that it delivered.
#[derive(Default)]
struct Postbox(Mutex<Vec<String>>);

impl Notifier for Postbox {
    fn channel(&self) -> &str {
        "postbox"
    }

    fn deliver<'a>(
        &'a self,
        alert: &'a Alert,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        self.0.lock().unwrap().push(format!("{} {}", alert.kind.name(), alert.text));
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test]
async fn an_alarm_is_raised_once_each_time_it_gets_worse() {
    let world = World::at("2026-01-01T00:00:00Z");
    let behind = Arc::new(AtomicI64::new(0));
    let node = world.node_behind(Settings::default(), Arc::clone(&behind)).await;
    let postbox = Postbox::default();
    let mut told = Vec::new();
    for ms in [0, 1_900, 2_100, 3_000, -12_000, -11_000, -3_000, -1_000, 2_500] {
        behind.store(ms * 1_000, Ordering::Relaxed);
        node.renew().await.unwrap();
        world.pass(1);
        node.notify(&postbox).await;
        let words = std::mem::take(&mut *postbox.0.lock().unwrap());
        told.extend(words.into_iter().map(|words| format!("{ms}: {words}")));
    }
    assert_eq!(
        told,
        [
            "2100: NODE_CLOCK_OFFSET the clock of node punctual is 2s 100ms behind the store's",
            "-12000: NODE_CLOCK_OFFSET the clock of node punctual is 12s ahead of the store's; it plans and claims nothing until that is mended",
            "2500: NODE_CLOCK_OFFSET the clock of node punctual is 2s 500ms behind the store's",
        ]
    );
}

#[tokio::test]
async fn other_nodes_learn_of_a_changed_clock_offset() {
    let world = World::at("2026-01-01T00:00:00Z");
    let behind = Arc::new(AtomicI64::new(0));
    let node = world.node_behind(Settings::default(), Arc::clone(&behind)).await;
    let mut told = Vec::new();
    // Less than ten milliseconds are the noise of an answer.
    for ms in [0, 3_000, 3_005, -40, 0] {
        behind.store(ms * 1_000, Ordering::Relaxed);
        node.renew().await.unwrap();
        world.pass(1);
        told.push(world.store.nodes().await.unwrap()[0].clock_offset.as_millis());
    }
    assert_eq!(told, [0, 3_000, 3_000, -40, 0]);
}

#[tokio::test]
async fn a_node_far_off_takes_nothing_until_it_is_back() {
    let world = World::at("2026-01-01T00:00:58Z");
    let behind = Arc::new(AtomicI64::new(0));
    let node = world.node_behind(immortal(Settings::default()), Arc::clone(&behind)).await;
    let planned = node.create("planned", cron("* * * * *")).await;
    let by_hand = node.create("by hand", Definition::default()).await;
    behind.store(11_000_000, Ordering::Relaxed);
    node.renew().await.unwrap();
    assert_eq!(node.clock(), ClockHealth::Refused(SignedDuration::from_secs(11)));
    node.trigger(&by_hand).await;
    world.pass(5);
    assert_eq!(node.plan().await.unwrap().planned, 0);
    assert!(node.work().await.is_empty());
    assert_eq!(world.ledger(planned.id).await, [] as [&str; 0]);
    assert_eq!(world.ledger(by_hand.id).await, ["00:00 QUEUED"]);
    // Others go on meanwhile.
    let other = world.node().await;
    assert_eq!(other.work().await.len(), 2);
    node.trigger(&by_hand).await;
    behind.store(9_000_000, Ordering::Relaxed);
    node.renew().await.unwrap();
    assert_eq!(node.clock(), ClockHealth::Off(SignedDuration::from_secs(9)));
    other.drain();
    other.leave().await.unwrap();
    node.reap().await.unwrap();
    world.pass(60);
    assert!(!node.work().await.is_empty());
    behind.store(0, Ordering::Relaxed);
    node.renew().await.unwrap();
    assert_eq!(node.clock(), ClockHealth::Good);
}

/// A node that shares its clock with the store has no node that could do better.
#[tokio::test]
async fn without_a_limit_the_work_goes_on() {
    let world = World::at("2026-01-01T00:00:00Z");
    let behind = Arc::new(AtomicI64::new(0));
    let settings = Settings { clock_offset_max: None, ..Settings::default() };
    let node = world.node_behind(settings, Arc::clone(&behind)).await;
    let job = node.create("job", Definition::default()).await;
    behind.store(3_600_000_000, Ordering::Relaxed);
    node.renew().await.unwrap();
    assert_eq!(node.clock(), ClockHealth::Off(SignedDuration::from_hours(1)));
    node.trigger(&job).await;
    assert_eq!(node.work_and_complete().await, 1);
}

/// Runs under way when the clock jumps are completed and reported to the store.
#[tokio::test]
async fn what_runs_on_a_node_far_off_ends_well() {
    let world = World::at("2026-01-01T00:00:00Z");
    let behind = Arc::new(AtomicI64::new(0));
    let node = world.node_behind(Settings::default(), Arc::clone(&behind)).await;
    let job = node.create("job", Definition::default()).await;
    node.trigger(&job).await;
    let started = node.work().await.remove(0);
    behind.store(-60_000_000, Ordering::Relaxed);
    node.renew().await.unwrap();
    assert!(node.complete(started.run.grant, domain::run::AttemptResult::completed()));
    node.flush().await;
    assert_eq!(world.ledger(job.id).await, ["00:00 COMPLETED"]);
}

/// Runs wait in memory for their time. That comes by the store's clock, also before the node has
/// measured the offset of its own.
#[tokio::test]
async fn a_clock_that_is_set_starts_nothing_early_and_nothing_late() {
    for offset in [-3_600_000_000, 3_600_000_000] {
        let world = World::at("2026-01-01T00:00:58Z");
        let behind = Arc::new(AtomicI64::new(0));
        let node = world.node_behind(Settings::default(), Arc::clone(&behind)).await;
        node.create("job", cron("* * * * *")).await;
        assert!(node.work().await.is_empty(), "it waits for the full minute");
        behind.store(offset, Ordering::Relaxed);
        assert!(node.start_due().await.unwrap().is_empty());
        world.pass(2);
        assert_eq!(node.start_due().await.unwrap().len(), 1);
    }
}

/// A node that believes a tick's time has come asks the store, whose clock decides: until then the
/// job can be changed, and a tick that has vanished must not have begun.
#[tokio::test]
async fn a_tick_begins_when_its_time_has_come_for_the_store() {
    for pauses in [false, true] {
        let world = World::at("2026-01-01T00:00:58Z");
        let hurried = Arc::new(AtomicI64::new(0));
        let node = world.node_by(Settings::default(), Arc::default(), Arc::clone(&hurried)).await;
        let mut job = node.create("job", cron("* * * * *")).await;
        assert!(node.work().await.is_empty(), "it waits for the full minute");
        hurried.store(5_000_000, Ordering::Relaxed);
        assert!(node.start_due().await.unwrap().is_empty(), "not by this clock");
        if pauses {
            job.state = JobState::Paused;
            job.version = 2;
            let change = Change {
                job: job.clone(),
                expected: Some(1),
                prepared: Prepared::Return,
                plan: None,
                changed: Vec::new(),
            };
            assert_eq!(world.store.define(&[change], SYSTEM).await.unwrap(), [Changed::Done]);
        }
        world.pass(1);
        assert!(node.start_due().await.unwrap().is_empty());
        world.pass(1);
        assert_eq!(node.start_due().await.unwrap().len(), usize::from(!pauses));
        let record: &[&str] = if pauses { &[] } else { &["00:01 RUNNING", "00:02 PENDING"] };
        assert_eq!(world.ledger(job.id).await, record);
    }
}
