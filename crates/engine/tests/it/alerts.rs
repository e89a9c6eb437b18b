//! Delivery of alerts, also when a channel does not answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;

use domain::alert::Alert;
use domain::job::{Definition, Overlap, RetryPolicy};
use domain::run::{AttemptResult, ErrorCode};
use engine::{Notifier, Settings};
use jiff::SignedDuration;
use store::DeadLetters;

use crate::world::{Steps, World, cron, every, immortal};

/// Keeps the alerts that it delivered; fails a given number of times.
#[derive(Default)]
pub struct Postbox {
    delivered: Mutex<Vec<String>>,
    refusals: Mutex<u32>,
}

impl Notifier for Postbox {
    fn channel(&self) -> &str {
        "postbox"
    }

    fn deliver<'a>(
        &'a self,
        alert: &'a Alert,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        let mut refusals = self.refusals.lock().unwrap();
        if *refusals > 0 {
            *refusals -= 1;
            return Box::pin(std::future::ready(Err("nobody is at home".into())));
        }
        self.delivered.lock().unwrap().push(format!("{} {}", alert.kind.name(), alert.text));
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Postbox {
    pub fn empty(&self) -> Vec<String> {
        std::mem::take(&mut self.delivered.lock().unwrap())
    }
}

fn once(definition: Definition) -> Definition {
    Definition { retry: RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }, ..definition }
}

#[tokio::test]
async fn a_failure_and_a_recovery_are_told_once_each() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let postbox = Postbox::default();
    let job = node.create("job", once(Definition::default())).await;
    node.trigger(&job).await;
    let started = node.work().await.remove(0);
    node.complete(started.run.grant, AttemptResult::failed(ErrorCode::Exit(1), "no"));
    node.flush().await;
    node.notify(&postbox).await;
    node.notify(&postbox).await;
    let mut told = postbox.empty();
    told.sort();
    assert_eq!(
        told,
        [
            "DEAD_LETTERS_WAITING 1 run waits among the dead letters",
            "JOB_MAX_RETRIES_EXCEEDED FAILED RETRIES_EXHAUSTED: attempt 1 of 1"
        ]
    );
    world.pass(5);
    node.trigger(&job).await;
    node.work_and_complete().await;
    node.notify(&postbox).await;
    node.notify(&postbox).await;
    let recovered = "JOB_RECOVERED completed again after FAILED RETRIES_EXHAUSTED: attempt 1 of 1";
    assert_eq!(postbox.empty(), [recovered]);
}

#[tokio::test]
async fn a_refusal_by_policy_is_final_and_other_errors_use_up_the_retries() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let postbox = Postbox::default();
    for (error, attempts, alert) in [
        (
            ErrorCode::SqlState("42P01".into()),
            4,
            "JOB_MAX_RETRIES_EXCEEDED FAILED RETRIES_EXHAUSTED: attempt 4 of 4",
        ),
        (
            ErrorCode::Refused("COMMAND_NOT_ALLOWED".into()),
            1,
            "JOB_FAILED FAILED NOT_RETRYABLE: COMMAND_NOT_ALLOWED is not retried: refused by policy",
        ),
    ] {
        let job = node.create(&error.to_string(), Definition::default()).await;
        let run = node.trigger(&job).await;
        let mut made = 0;
        for _ in 0..10 {
            for started in node.work().await {
                made += 1;
                node.complete(started.run.grant, AttemptResult::failed(error.clone(), "no"));
            }
            node.flush().await;
            world.pass(300);
            node.renew().await.unwrap().unwrap();
        }
        assert_eq!(made, attempts, "{error}");
        world.store.acknowledge(&[run]).await.unwrap();
        node.notify(&postbox).await;
        assert_eq!(postbox.empty(), [alert]);
    }
}

#[tokio::test]
async fn a_refused_delivery_is_tried_again_later() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let postbox = Postbox { refusals: Mutex::new(2), ..Postbox::default() };
    let job = node.create("job", once(Definition::default())).await;
    let run = node.trigger(&job).await;
    let started = node.work().await.remove(0);
    node.complete(started.run.grant, AttemptResult::failed(ErrorCode::Exit(1), "no"));
    node.flush().await;
    world.store.acknowledge(&[run]).await.unwrap();
    for (pass, arrived) in [(0, 0), (4, 0), (1, 0), (59, 0), (1, 1), (3_600, 0)] {
        world.pass(pass);
        assert_eq!(node.notify(&postbox).await, arrived, "after {pass} s more");
    }
    assert_eq!(postbox.empty().len(), 1);
}

#[tokio::test]
async fn missed_and_late_runs_are_told() {
    let world = World::at("2026-01-01T00:30:00Z");
    let node = world.node().await;
    let postbox = Postbox::default();
    let deadline = Some(SignedDuration::from_mins(10));
    node.create("strict", Definition { start_deadline: deadline, ..cron("0 * * * *") }).await;
    node.create("patient", cron("0 * * * *")).await;
    world.go_to("2026-01-01T01:30:00Z");
    node.work_and_complete().await;
    node.notify(&postbox).await;
    let mut told = postbox.empty();
    told.sort();
    assert_eq!(
        told,
        [
            "RUN_LATE started 30m after it was due",
            "RUN_MISSED MISSED START_DEADLINE: it could not start within 10m of its time: \
             no scheduler planned it in time"
        ]
    );
}

/// Slots that have been taken for a while raise one alert, with the jobs that occupy most of them;
/// a run that starts late behind them names those of its own tenant.
#[tokio::test]
async fn full_slots_are_told_of_with_the_jobs_that_take_them() {
    let world = World::at("2026-01-01T00:00:00Z");
    let settings = Settings { max_concurrent_jobs: 6, ..Settings::default() };
    let node = world.node_with(immortal(settings)).await;
    let postbox = Postbox::default();
    let mut running = Vec::new();
    for (name, count) in [("report", 3), ("a", 1), ("import", 1), ("b", 1)] {
        let overlap = Overlap::Allow;
        let job = node.create(name, Definition { overlap, ..Definition::default() }).await;
        for _ in 0..count {
            node.trigger(&job).await;
        }
        running.extend(node.work().await);
    }
    assert_eq!(running.len(), 6);
    for _ in 0..20 {
        world.pass(1);
        node.notify(&postbox).await;
    }
    assert_eq!(postbox.empty(), Vec::<String>::new(), "no run waits for a slot");
    node.create("waits", every(600, "2026-01-01T00:00:23Z")).await;
    for _ in 0..90 {
        world.pass(1);
        node.release_slot_waiters();
        node.work().await;
        node.notify(&postbox).await;
    }
    let full = "NODE_SLOTS_FULL all 6 process slots of node punctual have been taken for 10s, and \
                runs wait: report (3), a (1), b (1), others (1)";
    assert_eq!(postbox.empty(), [full]);
    node.complete(running.remove(0).run.grant, AttemptResult::completed());
    assert_eq!(node.work().await.len(), 1);
    node.notify(&postbox).await;
    let late = "RUN_LATE started 1m 27s after it was due; all process slots of its node are taken: \
                report (2), a (1), b (1), others (2)";
    assert_eq!(postbox.empty(), [late]);
}

#[tokio::test]
async fn an_alert_that_the_store_refuses_is_raised_again() {
    let world = World::at("2026-01-01T00:30:00Z");
    let node = world.node().await;
    let postbox = Postbox::default();
    node.create("patient", cron("0 * * * *")).await;
    world.go_to("2026-01-01T01:30:00Z");
    node.work_and_complete().await;
    let file = rusqlite::Connection::open(world.file()).unwrap();
    file.execute_batch(
        "CREATE TRIGGER full BEFORE INSERT ON alerts BEGIN SELECT RAISE(ABORT, 'not now'); END",
    )
    .unwrap();
    let refused = node.raise_pending_alerts().await.unwrap_err().to_string();
    assert!(refused.contains("not now"), "{refused}");
    file.execute_batch("DROP TRIGGER full").unwrap();
    node.notify(&postbox).await;
    node.notify(&postbox).await;
    assert_eq!(postbox.empty(), ["RUN_LATE started 30m after it was due"], "once");
}

#[tokio::test]
async fn waiting_dead_letters_are_told_daily() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let postbox = Postbox::default();
    let job = node.create("job", once(Definition::default())).await;
    let mut told = Vec::new();
    for hour in 0..60 {
        if hour % 20 == 0 {
            node.trigger(&job).await;
            let started = node.work().await.remove(0);
            node.complete(started.run.grant, AttemptResult::failed(ErrorCode::Exit(1), "no"));
            node.flush().await;
        }
        node.notify(&postbox).await;
        let words = postbox.empty();
        let words = words.iter().filter_map(|words| words.strip_prefix("DEAD_LETTERS_WAITING "));
        told.extend(words.map(|words| format!("{hour} h: {words}")));
        world.pass(3_600);
        node.renew().await.unwrap();
    }
    assert_eq!(
        told,
        [
            "0 h: 1 run waits among the dead letters",
            "24 h: 2 runs wait among the dead letters",
            "48 h: 3 runs wait among the dead letters"
        ]
    );
}
