//! The engine with its loops, in real time: a test waits for an event, never for a while.

use std::sync::Arc;
use std::time::Duration;

use domain::id::{RunId, TenantId, UserId};
use domain::job::{Definition, Job, JobState, Overlap, RetryPolicy, When};
use domain::run::{AttemptEnd, AttemptResult};
use engine::{Engine, Executor, NewJob, Settings, Started, Stop, Trigger};
use jiff::{SignedDuration, Timestamp};
use store::sqlite::SqliteStore;
use store::{RunView, SYSTEM, Store};
use tokio::sync::mpsc;

use crate::present::{now, real_parts};

/// Event that the executor reports to the test.
#[derive(Debug, PartialEq)]
enum Seen {
    Started(RunId, Timestamp),
    Stopped(RunId, AttemptEnd),
}

/// Completes runs at once, unless their parameters have `hang` or `deaf`.
struct TestExecutor(mpsc::UnboundedSender<Seen>);

impl Executor for TestExecutor {
    async fn execute(&self, run: Started, mut stop: Stop) -> AttemptResult {
        let id = run.run.grant.run;
        self.0.send(Seen::Started(id, run.started_at)).unwrap();
        match run.run.run.parameters.as_deref() {
            Some("\"hang\"") => {
                let end = stop.requested().await;
                self.0.send(Seen::Stopped(id, end)).unwrap();
                AttemptResult { end, ..AttemptResult::completed() }
            }
            Some("\"deaf\"") => std::future::pending().await,
            _ => AttemptResult::completed(),
        }
    }
}

struct Process {
    engine: Engine,
    store: Arc<SqliteStore>,
    seen: mpsc::UnboundedReceiver<Seen>,
    _folder: tempfile::TempDir,
}

async fn start() -> Process {
    let folder = tempfile::tempdir().unwrap();
    let store =
        Arc::new(SqliteStore::open(&folder.path().join("punctual.db"), Arc::new(now)).unwrap());
    let (send, seen) = mpsc::unbounded_channel();
    let parts = real_parts();
    let settings = Settings { max_concurrent_jobs: 16, ..Settings::default() };
    let engine = Engine::start(Arc::clone(&store), TestExecutor(send), Vec::new(), settings, parts)
        .await
        .unwrap();
    Process { engine, store, seen, _folder: folder }
}

impl Process {
    async fn create(&self, definition: Definition) -> Job {
        let new = NewJob {
            tenant: TenantId::DEFAULT,
            owner: UserId::ADMIN,
            name: "job".into(),
            definition,
            state: JobState::Enabled,
        };
        let job = self.engine.node().create_job(new, SYSTEM).await.unwrap();
        self.engine.planned_soon();
        job
    }

    async fn trigger(&self, job: &Job, parameters: Option<&str>) -> RunId {
        let trigger = Trigger { parameters: parameters.map(str::to_owned), ..Trigger::default() };
        let run = self.engine.node().triggered(job.id, trigger).await.unwrap();
        assert_eq!(self.engine.submit(vec![run.clone()]).await.unwrap(), [true]);
        run.id
    }

    async fn next_seen(&mut self) -> Seen {
        tokio::time::timeout(Duration::from_secs(60), self.seen.recv())
            .await
            .expect("nothing happened")
            .unwrap()
    }

    /// The run, when it has ended.
    async fn ended(&self, run: RunId) -> RunView {
        let ended = async {
            loop {
                let view = self.store.run(run).await.unwrap().unwrap();
                if view.finished_at.is_some() {
                    return view;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), ended).await.expect("the run did not end")
    }
}

fn quick() -> Definition {
    Definition {
        overlap: Overlap::Allow,
        retry: RetryPolicy { max_attempts: 1, ..RetryPolicy::default() },
        grace_period: SignedDuration::from_millis(50),
        ..Definition::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_triggered_run_starts_and_ends() {
    let mut process = start().await;
    let job = process.create(quick()).await;
    let run = process.trigger(&job, None).await;
    assert!(matches!(process.next_seen().await, Seen::Started(id, _) if id == run));
    assert_eq!(process.ended(run).await.state.to_string(), "COMPLETED");
    process.engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduled_run_starts_at_its_time_and_never_before() {
    let mut process = start().await;
    let starts = now().round(jiff::Unit::Second).unwrap() + SignedDuration::from_secs(2);
    let interval = SignedDuration::from_secs(1);
    let when = When::Every { interval, starts: Some(starts), ends: None };
    process.create(Definition { when, ..quick() }).await;
    for tick in 0..3 {
        let Seen::Started(_, started_at) = process.next_seen().await else {
            panic!("a run was stopped")
        };
        assert!(started_at >= starts + SignedDuration::from_secs(tick), "tick {tick} was early");
    }
    process.engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_run_is_told_and_ends_cancelled() {
    let mut process = start().await;
    let job = process.create(quick()).await;
    let run = process.trigger(&job, Some("\"hang\"")).await;
    assert!(matches!(process.next_seen().await, Seen::Started(..)));
    process.engine.node().cancel_run(run, "enough", SYSTEM).await.unwrap();
    process.engine.stop_run(run);
    assert_eq!(process.next_seen().await, Seen::Stopped(run, AttemptEnd::Cancelled));
    assert_eq!(process.ended(run).await.state.to_string(), "CANCELLED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_takes_too_long_is_stopped_even_if_it_does_not_listen() {
    for parameters in ["\"hang\"", "\"deaf\""] {
        let process = start().await;
        let job = process
            .create(Definition { timeout: SignedDuration::from_millis(50), ..quick() })
            .await;
        let run = process.trigger(&job, Some(parameters)).await;
        assert_eq!(process.ended(run).await.state.to_string(), "TIMEOUT", "{parameters}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_stop_gives_back_what_it_cannot_finish() {
    let mut process = start().await;
    let job = process.create(quick()).await;
    let run = process.trigger(&job, Some("\"hang\"")).await;
    assert!(matches!(process.next_seen().await, Seen::Started(..)));
    process.engine.stop(Duration::from_millis(10)).await;
    let view = process.store.run(run).await.unwrap().unwrap();
    assert_eq!(view.state.to_string(), "QUEUED", "another node can have it at once");
    // It had begun, so the next attempt is its second.
    assert_eq!((view.attempts, view.lost), (0, 1));
    let attempts = process.store.attempts(run).await.unwrap();
    let ends: Vec<&str> = attempts.iter().map(|attempt| attempt.end.as_str()).collect();
    assert_eq!(ends, ["LOST"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_get_an_answer_each() {
    let process = Arc::new(start().await);
    let job = process.create(quick()).await;
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let (process, job) = (Arc::clone(&process), job.clone());
        callers.spawn(async move { process.trigger(&job, None).await });
    }
    let runs = callers.join_all().await;
    for run in runs {
        assert_eq!(process.ended(run).await.state.to_string(), "COMPLETED");
    }
}
