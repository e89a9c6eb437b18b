//! Support for tests in real time: a clock, randomness, and waiting.

use std::sync::Arc;
use std::time::Duration;

use domain::id::{TenantId, UserId};
use domain::job::{Definition, Job, JobState};
use domain::schedule::Zones;
use engine::{Engine, Env, Executor, NewJob, NodeInfo, Settings};
use jiff::{SignedDuration, Timestamp};
use store::SYSTEM;
use store::sqlite::SqliteStore;
use uuid::Uuid;

/// Shows the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

#[expect(clippy::disallowed_methods, reason = "these tests run in real time")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

#[expect(clippy::disallowed_methods, reason = "nodes of a real store have real ids")]
pub fn random() -> u128 {
    let id = Uuid::now_v7().as_u128();
    id ^ id.swap_bytes()
}

/// Environment of an engine with this clock.
pub fn parts(clock: &Clock) -> Env {
    Env {
        clock: Arc::clone(clock),
        steady: Arc::clone(clock),
        random: Arc::new(random),
        zones: Zones::bundled(),
        tracer: None,
        start_log: None,
    }
}

/// The same with the real time.
pub fn real_parts() -> Env {
    let clock: Clock = Arc::new(now);
    parts(&clock)
}

/// A store in a folder of its own, and engines on it.
pub struct Process {
    pub store: Arc<SqliteStore>,
    _folder: tempfile::TempDir,
}

impl Process {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("punctual.db");
        let store = SqliteStore::open(&path, Arc::new(now)).unwrap();
        Process { store: Arc::new(store), _folder: folder }
    }

    /// An engine that polls once an hour.
    pub async fn engine(&self, name: &str, executor: impl Executor) -> Arc<Engine> {
        let poll_every = SignedDuration::from_secs(3_600);
        let settings = Settings { poll_every, ..Settings::default() };
        Arc::new(self.engine_with(name, executor, settings).await)
    }

    /// An engine with these settings, and a lease that does not end during a test.
    pub async fn engine_with(
        &self,
        name: &str,
        executor: impl Executor,
        settings: Settings,
    ) -> Engine {
        let settings = Settings {
            info: NodeInfo { name: name.to_owned(), ..settings.info },
            lease: SignedDuration::from_secs(600),
            ..settings
        };
        let store = Arc::clone(&self.store);
        Engine::start(store, executor, Vec::new(), settings, real_parts()).await.unwrap()
    }
}

/// An enabled job of the administrator.
pub async fn create(engine: &Engine, name: &str, definition: Definition) -> Job {
    let new = NewJob {
        tenant: TenantId::DEFAULT,
        owner: UserId::ADMIN,
        name: name.into(),
        definition,
        state: JobState::Enabled,
    };
    engine.node().create_job(new, SYSTEM).await.unwrap()
}

/// Looks until something is there. Only a broken engine takes longer.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(60), looking).await;
    found.unwrap_or_else(|_| panic!("not {what}"))
}
