//! Hints reach the right node at once: two engines that never poll by the clock.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::action::{Action, SqlAction};
use domain::cluster::NodeRole;
use domain::id::{NodeId, ObjectId, RunId, TenantId, UserId};
use domain::job::{Definition, Job, JobState, Overlap};
use domain::object::{Object, ObjectKind};
use domain::partition::Partition;
use domain::run::AttemptResult;
use domain::shard::ShardBody;
use engine::{AgentLimits, Engine, Executor, NewJob, NodeInfo, Settings, Started, Stop, Trigger};
use jiff::SignedDuration;
use store::sqlite::SqliteStore;
use store::{NamedResources, Put, SYSTEM, Shards, Store};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::present::{Process, now, until};
use crate::world::both;

/// Records its runs. A run with the parameter "wait" waits for the test.
#[derive(Clone, Default)]
struct Worker {
    done: Arc<Mutex<Vec<RunId>>>,
    go_on: Arc<Notify>,
}

impl Executor for Worker {
    async fn execute(&self, run: Started, _: Stop) -> AttemptResult {
        if run.run.run.parameters.as_deref() == Some("\"wait\"") {
            self.go_on.notified().await;
        }
        self.done.lock().unwrap().push(run.run.grant.run);
        AttemptResult::completed()
    }
}

/// An engine with these settings whose address is its name.
async fn engine(process: &Process, name: &str, worker: &Worker, settings: Settings) -> Engine {
    let info = NodeInfo { address: Some(name.to_owned()), ..settings.info.clone() };
    process.engine_with(name, worker.clone(), Settings { info, ..settings }).await
}

async fn ended(process: &Process, run: RunId) {
    let what = format!("completed: run {run}");
    until_true(process, &what, async |store| {
        store.run(run).await.unwrap().unwrap().state.to_string() == "COMPLETED"
    })
    .await;
}

async fn until_true(process: &Process, what: &str, mut is: impl AsyncFnMut(&SqliteStore) -> bool) {
    until(what, async || is(&process.store).await.then_some(())).await;
}

async fn create(engine: &Engine, name: &str, definition: Definition) -> Job {
    let definition = Definition { overlap: Overlap::Allow, ..definition };
    let new = NewJob {
        tenant: TenantId::DEFAULT,
        owner: UserId::ADMIN,
        name: name.into(),
        definition,
        state: JobState::Enabled,
    };
    engine.node().create_job(new, SYSTEM).await.unwrap()
}

async fn trigger(engine: &Engine, job: &Job, parameters: Option<&str>) -> RunId {
    let trigger = Trigger { parameters: parameters.map(str::to_owned), ..Trigger::default() };
    let run = engine.node().triggered(job.id, trigger).await.unwrap();
    assert_eq!(engine.submit(vec![run.clone()]).await.unwrap(), [true]);
    run.id
}

/// A child run belongs to another node, and no node polls before an hour has passed: without a hint
/// it would not begin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_for_another_node_needs_no_look_at_the_clock() {
    let process = Process::new();
    let body = ShardBody { node: Some("b".into()), ..ShardBody::default() };
    let object = Object {
        id: ObjectId(Uuid::from_u128(5)),
        tenant: TenantId::DEFAULT,
        kind: ObjectKind::Shard,
        name: "shard".into(),
        body: body.to_json(),
        version: 0,
        created_at: now(),
        changed_at: now(),
    };
    assert!(matches!(process.store.put_object(&object, 0, SYSTEM).await.unwrap(), Put::Done(_)));
    let rarely =
        || Settings { poll_every: SignedDuration::from_secs(3_600), ..Settings::default() };
    let (at_a, at_b) = (Worker::default(), Worker::default());
    let b = engine(&process, "b", &at_b, rarely()).await;
    let owner: NodeId = b.node().id();
    let owns =
        async |store: &SqliteStore| store.shards(None).await.unwrap()[0].owner.node == Some(owner);
    until_true(&process, "owned", owns).await;
    let a = engine(&process, "a", &at_a, rarely()).await;
    let definition = Definition { partition: Some(Partition::AllShards), ..Definition::default() };
    let job = create(&a, "spread", definition).await;
    let run = trigger(&a, &job, None).await;
    ended(&process, run).await;
    let parts = process.store.parts(&[run]).await.unwrap();
    assert_eq!(*at_b.done.lock().unwrap(), [parts[0].run]);
    assert_eq!(*at_a.done.lock().unwrap(), []);
}

/// A remote agent cannot execute runs that only a server can: it does not get them, though every
/// slot of the server is taken and the agent is idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_cannot_do_waits_for_a_server() {
    let process = Process::new();
    let worker = Worker::default();
    let one = Settings {
        max_concurrent_jobs: 1,
        poll_every: SignedDuration::from_millis(50),
        ..Settings::default()
    };
    let server = engine(&process, "server", &worker, one).await;
    let sql = Action::Sql(SqlAction { sql: "SELECT 1".into(), database: None });
    let plain = create(&server, "plain", Definition::default()).await;
    let query = create(&server, "query", Definition { action: sql, ..Definition::default() }).await;
    let busy = trigger(&server, &plain, Some("\"wait\"")).await;
    let is_busy = async |store: &SqliteStore| {
        store.run(busy).await.unwrap().unwrap().state.to_string() == "RUNNING"
    };
    until_true(&process, "busy", is_busy).await;
    let can = |job: &Job| !matches!(job.definition.action, Action::Sql(_));
    let stay = AgentLimits { only_placed: false, can: Arc::new(can) };
    let info = NodeInfo { capacity: both(2), ..NodeInfo::named("far") };
    let proxy = server.host(info, stay, None).await.unwrap().unwrap();
    let for_server = trigger(&server, &query, None).await;
    let for_anybody = trigger(&server, &plain, None).await;
    let mut seen = Vec::new();
    for poll in 1..=60 {
        let work = proxy.work(poll, both(2), &HashSet::new(), Duration::from_secs(1)).await;
        seen.extend(work);
        if !seen.is_empty() {
            break;
        }
    }
    let seen: Vec<RunId> = seen.iter().map(|run| run.run.grant.run).collect();
    assert_eq!(seen, [for_anybody]);
    worker.go_on.notify_one();
    ended(&process, for_server).await;
    assert_eq!(*worker.done.lock().unwrap(), [busy, for_server]);
    let attempts = process.store.attempts(for_server).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].node, server.node().id());
}

/// Where no server executes, the agent gets runs that it cannot execute: its error is the most
/// specific one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_that_executes_the_agent_says_what_it_lacks() {
    let process = Process::new();
    let roles = vec![NodeRole::Scheduler];
    let plans = Settings {
        info: NodeInfo { roles, ..NodeInfo::default() },
        poll_every: SignedDuration::from_millis(50),
        ..Settings::default()
    };
    let server = engine(&process, "server", &Worker::default(), plans).await;
    let job = create(&server, "job", Definition::default()).await;
    let stay = AgentLimits { only_placed: false, can: Arc::new(|_| false) };
    let info = NodeInfo { capacity: both(1), ..NodeInfo::named("far") };
    let proxy = server.host(info, stay, None).await.unwrap().unwrap();
    let run = trigger(&server, &job, None).await;
    for poll in 1..=60 {
        let work = proxy.work(poll, both(1), &HashSet::new(), Duration::from_secs(1)).await;
        if let Some(first) = work.first() {
            assert_eq!(first.run.grant.run, run);
            return;
        }
    }
    panic!("nobody got it");
}
