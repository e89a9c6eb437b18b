//! Steps that wait for messages, and versions of DAGs that are slower than those before them.

use domain::dag::state::{Control, StepKey};
use domain::dag::{Step, StepWork};
use domain::id::RunId;
use domain::job::{Definition, Job};
use domain::queue::{MessageBody, QueueSettings};
use domain::run::AttemptResult;
use engine::{Message, Node};
use jiff::SignedDuration;
use store::{Advance, DagRecords, Dags, LeaseRequest, Messages, SYSTEM, Store};

use crate::alerts::Postbox;
use crate::dags::{START, dag, state, step, steps, triggered, work};
use crate::world::{Steps, TestNode, World};

fn wait(name: &str, after: &[&str], timeout: Option<i64>) -> Step {
    let timeout = timeout.map(SignedDuration::from_secs);
    let work = StepWork::WaitForMessage { queue: "orders".into(), timeout };
    Step { work, ..step(name, after) }
}

async fn queue(node: &TestNode) -> Job {
    let settings = Some(QueueSettings::default());
    node.create("orders", Definition { queue: settings, ..Definition::default() }).await
}

async fn send(node: &Node, queue: &Job, payload: &str) -> RunId {
    let payload = serde_json::from_str(payload).unwrap();
    let body = MessageBody { payload, ..MessageBody::default() };
    let message = Message {
        body,
        priority: None,
        process_after: None,
        time_to_live: None,
        deduplication: None,
    };
    node.send_messages(queue, vec![message], None).await.unwrap()[0].0
}

/// Lets some time pass, with the periodic steps of a node.
async fn pass(world: &World, node: &TestNode, seconds: i64) {
    for _ in 0..seconds {
        world.pass(1);
        while node.reap().await.unwrap().more {}
        while node.reap_messages().await.unwrap().more {}
        node.deal_messages().await.unwrap();
        work(node, |_| AttemptResult::completed()).await;
    }
}

async fn result(world: &World, run: RunId, step: u32) -> Option<String> {
    let (_, records) = world.store.dag_run(run, true).await.unwrap().unwrap();
    let record = records.into_iter().find(|it| it.key == StepKey::of_step(step)).unwrap();
    world.store.run_results(&[record.run?]).await.unwrap().pop().unwrap()
}

#[tokio::test]
async fn a_step_waits_for_a_message_and_has_its_payload_as_result() {
    let world = World::at(START);
    let node = world.node().await;
    let queue = queue(&node).await;
    let mut next = step("next", &["wait"]);
    next.when = Some("steps.wait.result.rows > 1".into());
    let chain = vec![step("first", &[]), wait("wait", &["first"], Some(3_600)), next];
    let job = node.create("etl", dag(chain)).await;
    // A message that is there already.
    let early = send(&node, &queue, r#"{"rows":1}"#).await;
    let first = triggered(&node, &job, None).await;
    work(&node, |_| AttemptResult::completed()).await;
    let skipped = ["first COMPLETED", "wait COMPLETED", "next SKIPPED CONDITION"];
    assert_eq!(steps(&world, &job, first).await, skipped);
    assert_eq!(result(&world, first, 1).await.as_deref(), Some(r#"{"rows":1}"#));
    let view = world.store.run(early).await.unwrap().unwrap();
    assert_eq!(view.state.to_string(), "COMPLETED");
    // Two runs wait: the older one is served first.
    let older = triggered(&node, &job, None).await;
    world.pass(1);
    let newer = triggered(&node, &job, None).await;
    pass(&world, &node, 1).await;
    assert_eq!(steps(&world, &job, older).await, ["first COMPLETED", "wait OPEN"]);
    send(&node, &queue, r#"{"rows":2}"#).await;
    pass(&world, &node, 12).await;
    assert_eq!(state(&world, older).await, "COMPLETED");
    assert_eq!(steps(&world, &job, newer).await, ["first COMPLETED", "wait OPEN"]);
    // The time of the other one ends.
    pass(&world, &node, 5).await;
    world.pass(3_600);
    pass(&world, &node, 12).await;
    let missed = ["first COMPLETED", "wait TIMEOUT NO_MESSAGE", "next SKIPPED TRIGGER_RULE"];
    assert_eq!(steps(&world, &job, newer).await, missed);
    assert_eq!(state(&world, newer).await, "FAILED");
    let live = world.store.queue_depths(&[queue.id]).await.unwrap().pop().unwrap();
    assert_eq!((live.ready, live.leased), (0, 0));
}

#[tokio::test]
async fn a_message_survives_the_node_that_took_it_for_a_step() {
    let world = World::at(START);
    let dead = world.mortal_node().await;
    let queue = queue(&dead).await;
    let job = dead.create("etl", dag(vec![wait("wait", &[], None), step("next", &["wait"])])).await;
    let run = triggered(&dead, &job, None).await;
    work(&dead, |_| AttemptResult::completed()).await;
    assert_eq!(steps(&world, &job, run).await, ["wait OPEN"]);
    let message = send(&dead, &queue, r#""hello""#).await;
    // A node leases it, records it with the step, and dies before it acknowledges it.
    let request = LeaseRequest::new(queue.id, dead.id(), 1, SignedDuration::from_secs(30));
    let leased = world.store.lease_messages(&request).await.unwrap().messages;
    assert_eq!(leased[0].id, message);
    let (header, mut records) = world.store.dag_run(run, true).await.unwrap().unwrap();
    records[0].run = Some(message);
    let (revision, control) = (header.revision, Control::Running);
    let advance = Advance { run, revision, control, records, runs: Vec::new(), is_over: false };
    assert_eq!(world.store.advance(&[advance], None).await.unwrap().written, [true]);
    drop(dead);
    world.pass(15);
    let heir = world.node().await;
    pass(&world, &heir, 10).await;
    assert_eq!(state(&world, run).await, "RUNNING", "the lease has not ended");
    pass(&world, &heir, 40).await;
    assert_eq!(state(&world, run).await, "COMPLETED");
    assert_eq!(steps(&world, &job, run).await, ["wait COMPLETED", "next COMPLETED"]);
    assert_eq!(result(&world, run, 0).await.as_deref(), Some(r#""hello""#));
    let attempts = world.store.attempts(message).await.unwrap();
    let ends: Vec<&str> = attempts.iter().map(|it| it.end.as_str()).collect();
    assert_eq!(ends, ["LOST", "COMPLETED"]);
}

#[tokio::test]
async fn a_cancelled_wait_takes_no_message() {
    for timeout in [None, Some(60)] {
        let world = World::at(START);
        let node = world.node().await;
        let queue = queue(&node).await;
        let job = node.create("etl", dag(vec![wait("wait", &[], timeout)])).await;
        let run = triggered(&node, &job, None).await;
        work(&node, |_| AttemptResult::completed()).await;
        node.cancel_run(run, "enough", SYSTEM).await.unwrap();
        pass(&world, &node, 12).await;
        assert_eq!(state(&world, run).await, "CANCELLED");
        send(&node, &queue, "1").await;
        pass(&world, &node, 12).await;
        let depth = world.store.queue_depths(&[queue.id]).await.unwrap().pop().unwrap();
        assert_eq!((depth.ready, depth.leased), (1, 0), "{timeout:?}");
    }
}

#[tokio::test]
async fn a_large_message_fails_its_step() {
    let world = World::at(START);
    let node = world.node().await;
    let queue = queue(&node).await;
    let mut small = wait("wait", &[], None);
    small.result_bytes = Some(10);
    let job = node.create("etl", dag(vec![small])).await;
    send(&node, &queue, r#""0123456789""#).await;
    let run = triggered(&node, &job, None).await;
    work(&node, |_| AttemptResult::completed()).await;
    assert_eq!(steps(&world, &job, run).await, ["wait FAILED RESULT_TOO_LARGE"]);
}

/// Runs a DAG so often, with steps that take so long.
async fn run_often(world: &World, node: &TestNode, job: &Job, times: u32, seconds: i64) {
    for _ in 0..times {
        let run = triggered(node, job, None).await;
        loop {
            let started = node.work().await;
            if started.is_empty() {
                break;
            }
            world.pass(seconds);
            for it in started {
                assert!(node.complete(it.run.grant, AttemptResult::completed()));
            }
            node.flush().await;
        }
        assert_eq!(state(world, run).await, "COMPLETED");
    }
}

#[tokio::test]
async fn a_slower_version_of_a_dag_raises_one_alert() {
    let world = World::at(START);
    let node = world.node().await;
    let chain = || vec![step("load", &[]), step("report", &["load"])];
    let job = node.create("etl", dag(chain())).await;
    let postbox = Postbox::default();
    let mut alerts = Vec::new();
    // Version 2 is as fast as version 1, version 3 is slower.
    for (version, seconds) in [(1, 10), (2, 11), (3, 20)] {
        if version > 1 {
            let changed = dag(chain());
            let description = format!("version {version}");
            let change = move |job: &mut Job| {
                job.definition = changed;
                job.definition.description = Some(description);
            };
            node.alter_job(job.id, change, SYSTEM).await.unwrap();
        }
        run_often(&world, &node, &job, 5, seconds).await;
        node.notify(&postbox).await;
        alerts.push(postbox.empty());
    }
    assert_eq!((alerts[0].len(), alerts[1].len()), (0, 0), "{alerts:?}");
    assert_eq!(alerts[2].len(), 1, "{alerts:?}");
    let text = "the critical path of version 3 takes 40.0 s, that of version 2 took 22.0 s \
                (median of 3 runs); its longest step is report";
    assert!(alerts[2][0].starts_with("DAG_SLOWER"), "{alerts:?}");
    assert!(alerts[2][0].contains(text), "{alerts:?}");
}

#[tokio::test]
async fn a_handler_raises_an_alert_once() {
    let world = World::at(START);
    let node = world.node().await;
    let mut load = step("load", &[]);
    let message = "day ${params.day} was not loaded".to_owned();
    load.on_failure = Some(StepWork::Alert { message });
    let job = node.create("etl", dag(vec![load])).await;
    let run = triggered(&node, &job, Some(r#"{"day":7}"#)).await;
    let failed = || AttemptResult::failed(domain::run::ErrorCode::Exit(1), "no");
    let end = |started: &engine::Started| match started.job.name.ends_with("/load") {
        true => failed(),
        false => AttemptResult::completed(),
    };
    work(&node, end).await;
    assert_eq!(state(&world, run).await, "FAILED");
    let postbox = Postbox::default();
    for expected in [1, 0] {
        node.notify(&postbox).await;
        let alerts = postbox.empty();
        let own: Vec<_> = alerts.iter().filter(|it| it.starts_with("DAG_ALERT")).collect();
        assert_eq!(own.len(), expected, "{alerts:?}");
        assert!(own.iter().all(|it| it.contains("day 7 was not loaded")), "{alerts:?}");
    }
}
