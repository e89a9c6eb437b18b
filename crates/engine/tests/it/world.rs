//! A store in a temporary folder, a clock that stands still, and nodes that work only when stepped.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use domain::id::{JobId, RunId, TenantId, UserId};
use domain::job::{Definition, Job, JobState, When};
use domain::run::AttemptResult;
use domain::schedule::{DstPolicy, Zones};
use domain::slot::PerSlot;
use engine::{Env, NewJob, Node, Notifier, Settings, StartLog, Started, Tracer, Trigger};
use jiff::{SignedDuration, Timestamp};
use store::sqlite::SqliteStore;
use store::{RunFilter, RunView, SYSTEM, Store};

pub struct World {
    pub store: Arc<SqliteStore>,
    clock: Arc<AtomicI64>,
    random: Arc<AtomicU64>,
    /// Tracer of new nodes.
    pub tracer: Option<Arc<dyn Tracer>>,
    folder: tempfile::TempDir,
}

pub type TestNode = Node;

impl World {
    pub fn at(start: &str) -> Self {
        let clock = Arc::new(AtomicI64::new(at(start).as_microsecond()));
        let folder = tempfile::tempdir().unwrap();
        let now = Arc::clone(&clock);
        let now = move || Timestamp::from_microsecond(now.load(Ordering::Relaxed)).unwrap();
        let store = SqliteStore::open(&folder.path().join("punctual.db"), Arc::new(now)).unwrap();
        World {
            store: Arc::new(store),
            clock,
            random: Arc::new(AtomicU64::new(1)),
            tracer: None,
            folder,
        }
    }

    /// The file of the store.
    pub fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("punctual.db")
    }

    /// A node whose lease outlives the test: tests turn the clock by hours, and renew nothing.
    pub async fn node(&self) -> TestNode {
        self.node_with(immortal(Settings::default())).await
    }

    /// A node whose lease ends after ten seconds, as that of a process that never renews it.
    pub async fn mortal_node(&self) -> TestNode {
        self.node_with(Settings::default()).await
    }

    pub async fn node_with(&self, settings: Settings) -> TestNode {
        self.node_behind(settings, Arc::default()).await
    }

    /// A node whose clock is so many microseconds behind the store's.
    pub async fn node_behind(&self, settings: Settings, behind_us: Arc<AtomicI64>) -> TestNode {
        self.node_by(settings, behind_us, Arc::default()).await
    }

    /// The same, with so many microseconds more on its clock than on the store's.
    pub async fn node_by(
        &self,
        settings: Settings,
        behind_us: Arc<AtomicI64>,
        hurried_us: Arc<AtomicI64>,
    ) -> TestNode {
        self.joined(settings, behind_us, hurried_us, None).await
    }

    /// A node with a start log.
    pub async fn node_logging(&self, settings: Settings, log: Arc<dyn StartLog>) -> TestNode {
        self.joined(settings, Arc::default(), Arc::default(), Some(log)).await
    }

    async fn joined(
        &self,
        settings: Settings,
        behind_us: Arc<AtomicI64>,
        hurried_us: Arc<AtomicI64>,
        start_log: Option<Arc<dyn StartLog>>,
    ) -> TestNode {
        let [clock, steady] = [0; 2].map(|_| Arc::clone(&self.clock));
        let random = Arc::clone(&self.random);
        let parts = Env {
            steady: Arc::new(move || {
                let hurried_us = hurried_us.load(Ordering::Relaxed);
                Timestamp::from_microsecond(steady.load(Ordering::Relaxed) + hurried_us).unwrap()
            }),
            clock: Arc::new(move || {
                let behind_us = behind_us.load(Ordering::Relaxed);
                Timestamp::from_microsecond(clock.load(Ordering::Relaxed) - behind_us).unwrap()
            }),
            random: Arc::new(move || {
                u128::from(random.fetch_add(1, Ordering::Relaxed)) << 50 | 0x5bd1
            }),
            zones: Zones::bundled(),
            tracer: self.tracer.clone(),
            start_log,
        };
        let node = Node::new(Arc::clone(&self.store), settings, parts);
        node.join().await.unwrap();
        node
    }

    pub fn go_to(&self, time: &str) {
        self.clock.store(at(time).as_microsecond(), Ordering::Relaxed);
    }

    pub fn pass(&self, seconds: i64) {
        self.clock.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
    }

    /// The job's rows, oldest first: `00:01 COMPLETED`, `00:02..00:05 x4 SKIPPED CATCH_UP`.
    pub async fn ledger(&self, job: JobId) -> Vec<String> {
        let mut runs =
            self.store.list_runs(&RunFilter::of_job(job), None, 500).await.unwrap().items;
        runs.reverse();
        runs.iter().map(line).collect()
    }
}

/// Settings of a node whose lease outlives the test.
pub fn immortal(settings: Settings) -> Settings {
    Settings { lease: SignedDuration::from_hours(24 * 3_650), ..settings }
}

fn line(run: &RunView) -> String {
    let time = |at: Timestamp| at.strftime("%H:%M").to_string();
    let reason = run.reason.as_ref().map(|reason| format!(" {reason}")).unwrap_or_default();
    let when = match run.count {
        1 => time(run.scheduled_for),
        n => format!("{}..{} x{n}", time(run.scheduled_for), time(run.scheduled_last)),
    };
    format!("{when} {}{reason}", run.state)
}

/// The same number of slots of each kind.
pub fn both(count: u32) -> PerSlot<u32> {
    PerSlot { process: count, http: count }
}

pub fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub fn cron(expression: &str) -> Definition {
    let when =
        When::Cron { expression: expression.into(), zone: "UTC".into(), dst: DstPolicy::default() };
    Definition { when, ..Definition::default() }
}

pub fn every(seconds: i64, starts: &str) -> Definition {
    let when = When::Every {
        interval: SignedDuration::from_secs(seconds),
        starts: Some(at(starts)),
        ends: None,
    };
    Definition { when, ..Definition::default() }
}

/// The steps of a node, as a test needs them.
pub trait Steps {
    async fn create(&self, name: &str, definition: Definition) -> Job;
    async fn trigger(&self, job: &Job) -> RunId;
    /// Plans and claims until there is nothing more to do, and starts due runs.
    async fn work(&self) -> Vec<Started>;
    /// Works, and completes whatever starts, until nothing starts any more.
    async fn work_and_complete(&self) -> usize;
    /// Reports results to the store.
    async fn flush(&self);
    /// Raises alerts and carries them to a channel. Returns how many arrived.
    async fn notify(&self, notifier: &dyn Notifier) -> usize;
}

impl Steps for TestNode {
    async fn create(&self, name: &str, definition: Definition) -> Job {
        let new = NewJob {
            tenant: TenantId::DEFAULT,
            owner: UserId::ADMIN,
            name: name.into(),
            definition,
            state: JobState::Enabled,
        };
        self.create_job(new, SYSTEM).await.unwrap()
    }

    async fn trigger(&self, job: &Job) -> RunId {
        let run = self.triggered(job.id, Trigger::default()).await.unwrap();
        assert_eq!(self.submit(std::slice::from_ref(&run)).await.unwrap().stale, []);
        run.id
    }

    async fn work(&self) -> Vec<Started> {
        while self.plan().await.unwrap().planned > 0 {}
        self.hint();
        let mut started = Vec::new();
        loop {
            let more = self.exchange().await.unwrap();
            let starts = self.start_due().await.unwrap();
            let idle = starts.is_empty() && !more && !self.has_news();
            started.extend(starts);
            if idle {
                return started;
            }
        }
    }

    async fn work_and_complete(&self) -> usize {
        let mut completed = 0;
        loop {
            let started = self.work().await;
            if started.is_empty() {
                return completed;
            }
            for run in started {
                assert!(self.complete(run.run.grant, AttemptResult::completed()));
                completed += 1;
            }
            self.flush().await;
        }
    }

    async fn flush(&self) {
        while self.has_news() {
            self.exchange().await.unwrap();
        }
    }

    async fn notify(&self, notifier: &dyn Notifier) -> usize {
        self.raise_news().await.unwrap();
        self.deliver(notifier).await.unwrap()
    }
}
