//! Who is told what, and what happens when nobody answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;

use domain::alert::Alert;
use domain::job::{Definition, RetryPolicy};
use domain::run::{AttemptResult, ErrorCode};
use engine::Courier;
use jiff::SignedDuration;
use store::Desk;

use crate::world::{Steps, World, cron};

/// Remembers what it delivered; refuses as often as it was told to.
#[derive(Default)]
struct Postbox {
    delivered: Mutex<Vec<String>>,
    refusals: Mutex<u32>,
}

impl Courier for Postbox {
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
    fn empty(&self) -> Vec<String> {
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
            "RUN_MISSED MISSED START_DEADLINE: it could not start before its deadline"
        ]
    );
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
    let refused = node.raise_noticed().await.unwrap_err().to_string();
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
