//! A server in process: a store in a temporary folder, a clock that is set by hand or runs, and an
//! executor that the test controls.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::output::{Limits, Outputs, Stream};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use domain::action::Action;
use domain::cluster::NodeRole;
use domain::id::TenantId;
use domain::job::Definition;
use domain::object::Object;
use domain::run::{AttemptResult, ErrorCode};
use domain::schedule::Zones;
use engine::{Engine, Env, Executor, NodeInfo, Settings, Started, Stop};
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use server::{App, Key, Keys, Known, Metrics, Options, Trials, Tried};
use store::sqlite::SqliteStore;
use store::{FullStore, Operation, PostgresOptions, PostgresStore, SharedStore, StoreMetrics};
use tokio::sync::oneshot;
use tower::ServiceExt;
use uuid::Uuid;
use vault::{KeyCustody, MasterKey, Ring, Vault};

/// Does what the job's endpoint says: `http://ok`, `http://fail`, `http://held`, `http://talk`.
struct Hands {
    outputs: Outputs,
    held: Arc<Mutex<HashMap<String, oneshot::Sender<AttemptResult>>>>,
}

impl Executor for Hands {
    async fn execute(&self, run: Started, mut stop: Stop) -> AttemptResult {
        let endpoint = match &run.job.definition.action {
            domain::action::Action::Http(http) => http.endpoint.clone(),
            _ => String::new(),
        };
        let output = self.outputs.open(run.run.grant.run, run.run.attempts + run.run.lost + 1);
        let mut result = match endpoint.as_str() {
            "http://flood" => {
                (0..16).for_each(|_| output.write(Stream::Stdout, &[b'x'; 1 << 16]));
                AttemptResult::completed()
            }
            "http://long" => {
                // About three megabytes of lines, with a colour in one of them.
                let line = |n: u32| match n {
                    40_000 => "\u{1b}[31mthe needle\u{1b}[0m of line 40000\n".to_owned(),
                    n => format!("line {n:06} {}\n", "-".repeat(40)),
                };
                (0..60_000).for_each(|n| output.write(Stream::Stdout, line(n).as_bytes()));
                AttemptResult::completed()
            }
            "http://fail" => AttemptResult::failed(ErrorCode::Http(500), "it answered 500"),
            "http://talk" => {
                output.write(Stream::Stdout, b"one\ntwo\n");
                output.write(Stream::Stderr, b"oops\n");
                AttemptResult::completed()
            }
            _ if run.job.name.contains("held") || endpoint == "http://held" => {
                output.write(Stream::Stdout, b"begun\n");
                let (send, receive) = oneshot::channel();
                self.held.lock().unwrap().insert(run.job.name.clone(), send);
                tokio::select! {
                    result = receive => result.unwrap(),
                    end = stop.requested() => AttemptResult { end, ..AttemptResult::completed() },
                }
            }
            _ => AttemptResult::completed(),
        };
        result.output = output.finish().await.unwrap();
        result
    }
}

/// Everything answers but what is called broken.
struct Bench;

fn tried<'a>(name: &str) -> Tried<'a> {
    let answer = match name {
        "broken" => Err("nobody answers".to_owned()),
        _ => Ok("it answers".to_owned()),
    };
    Box::pin(std::future::ready(answer))
}

impl Trials for Bench {
    fn database<'a>(&'a self, _: TenantId, name: &'a str) -> Tried<'a> {
        tried(name)
    }

    fn known_database<'a>(&'a self, _: TenantId, name: Option<&'a str>) -> Known<'a> {
        let known = match name {
            Some("missing") => Err("there is no database named \"missing\"".to_owned()),
            _ => Ok(()),
        };
        Box::pin(std::future::ready(known))
    }

    fn objection(&self, _: TenantId, definition: &Definition) -> Option<String> {
        match &definition.action {
            Action::External(action) if action.command == "forbidden" => {
                Some("COMMAND_NOT_ALLOWED: command: \"forbidden\" is not allowed".to_owned())
            }
            _ => None,
        }
    }

    fn channel<'a>(&'a self, channel: &'a Object) -> Tried<'a> {
        tried(&channel.name)
    }
}

impl agent::DatabaseSource for Bench {
    fn url<'a>(
        &'a self,
        _: TenantId,
        name: &'a str,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Option<String>, String>> + Send + 'a>> {
        Box::pin(async move { Ok((name != "absent").then(|| format!("postgres://{name}"))) })
    }
}

/// How often a store was asked what.
#[derive(Default)]
pub struct Calls(Mutex<HashMap<Operation, usize>>);

impl StoreMetrics for Calls {
    fn record(&self, operation: Operation, _: Duration, _: bool) {
        *self.0.lock().unwrap().entry(operation).or_default() += 1;
    }
}

impl Calls {
    pub fn of(&self, operation: Operation) -> usize {
        self.0.lock().unwrap().get(&operation).copied().unwrap_or_default()
    }
}

/// A server over a store.
pub struct World {
    pub router: Router,
    pub store: SharedStore,
    pub app: App,
    pub engine: Arc<Engine>,
    pub calls: Arc<Calls>,
    pub key: String,
    clock: Arc<AtomicI64>,
    held: Arc<Mutex<HashMap<String, oneshot::Sender<AttemptResult>>>>,
    folder: tempfile::TempDir,
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The code of an error and the field that it names.
    pub fn error(&self) -> (u16, String, String) {
        let error = &self.json()["error"];
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (self.status, word(&error["code"]), word(&error["details"][0]["field"]))
    }
}

#[expect(clippy::disallowed_methods, reason = "ids of tests must not repeat")]
fn random() -> u128 {
    let id = Uuid::now_v7().as_u128();
    // Both ends must differ, whichever of them is used.
    id ^ id.swap_bytes()
}

#[expect(clippy::disallowed_methods, reason = "tests about streams run in real time")]
fn present() -> Timestamp {
    Timestamp::from_microsecond(Timestamp::now().as_microsecond()).unwrap()
}

fn random_bytes() -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&random().to_be_bytes());
    bytes[16..].copy_from_slice(&random().to_le_bytes());
    bytes
}

/// Keys that live as long as the test.
struct Memory;

impl KeyCustody for Memory {
    fn keep(&self, _: &Ring) -> Result<(), String> {
        Ok(())
    }
}

impl World {
    /// A server whose clock stands still.
    pub async fn at(start: &str) -> Self {
        World::with(start.parse().unwrap(), Options::default()).await
    }

    pub async fn now() -> Self {
        World::with(present(), Options::default()).await
    }

    pub async fn with(start: Timestamp, options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(AtomicI64::new(start.as_microsecond()));
        let path = folder.path().join("punctual.db");
        let store = SqliteStore::open(&path, Arc::new(reader(&clock))).unwrap();
        World::over(store, folder, clock, options).await
    }

    /// When a folder of the world was last changed, by the clock of the machine.
    /// A file of the data folder.
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub fn file_time(&self, name: &str) -> std::time::SystemTime {
        std::fs::metadata(self.folder.path().join(name)).unwrap().modified().unwrap()
    }

    pub fn is_postgres(&self) -> bool {
        !self.folder.path().join("punctual.db").exists()
    }

    /// Every byte that the store has written.
    pub fn stored_bytes(&self) -> Vec<u8> {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        let files = files.map(|file| file.unwrap().path()).filter(|path| path.is_file());
        files.flat_map(|path| std::fs::read(path).unwrap()).collect()
    }

    /// So many ended runs of a job, one a second; every tenth began two hours late.
    pub fn fill(&self, job: Uuid, runs: i64) {
        let connection =
            rusqlite::Connection::open(self.folder.path().join("punctual.db")).unwrap();
        let now = self.clock.load(Ordering::Relaxed);
        let fill = "
            DELETE FROM runs WHERE seq < 0;
            DELETE FROM ends WHERE seq < 0;
            INSERT INTO runs (seq, id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at,
                lane, origin, coalesced, ignore_dependencies, attempts, lost, turn, wait, created_at)
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :runs)
            SELECT -i, unhex(printf('%012x70008%015x', :now / 1000 - i * 1000, i)), :job, :tenant, 1,
                :now - i * 1000000, '', :now - i * 1000000, :now - i * 1000000, 5, 1, 0, 0, 0, 0, 0, 0, :now
            FROM n;
            INSERT INTO ends (seq, outcome, dead_letter, attempts, lost, finished_at, number, attempt_end, node_id,
                fence, started_at, job_id, id)
            SELECT seq, 1, 0, 1, 0, due_at + 9000000000, 1, 'COMPLETED', zeroblob(16), 1,
                due_at + iif(seq % 10 = 0, 7200000000, 1000), iif(seq % 10 = 0, job_id, NULL), iif(seq % 10 = 0, id, NULL)
            FROM runs WHERE seq < 0;";
        let (tenant, job) = (TenantId::DEFAULT.0, job);
        let fill = fill
            .replace(":runs", &runs.to_string())
            .replace(":now", &now.to_string())
            .replace(":job", &format!("x'{}'", job.simple()))
            .replace(":tenant", &format!("x'{}'", tenant.simple()));
        connection.busy_timeout(Duration::from_secs(60)).unwrap();
        connection.execute_batch(&format!("BEGIN IMMEDIATE; {fill} COMMIT;")).unwrap();
    }

    /// Makes the record of a run's first output one of files again.
    pub fn forget_archive(&self, run: domain::id::RunId) {
        let connection = rusqlite::Connection::open(self.folder.path().join("punctual.db"));
        let forget = "UPDATE outputs SET frames = x'' WHERE run_id = ?1 AND number = 1";
        assert_eq!(connection.unwrap().execute(forget, (run.0,)).unwrap(), 1);
    }

    /// Takes a table of the store away, or gives it back.
    pub fn rename_table(&self, from: &str, to: &str) {
        let connection = rusqlite::Connection::open(self.folder.path().join("punctual.db"));
        let rename = format!("ALTER TABLE {from} RENAME TO {to}");
        connection.unwrap().execute_batch(&rename).unwrap();
    }
}

impl World {
    /// A server over a database of PostgreSQL, which has the time by itself.
    pub async fn of_postgres() -> Self {
        World::of_database(&new_database().await, NodeRole::ALL.to_vec()).await
    }

    /// A server that executes, and another one on the same database that does not.
    pub async fn with_another() -> (Self, Self) {
        let url = new_database().await;
        let one = World::of_database(&url, NodeRole::ALL.to_vec()).await;
        (one, World::of_database(&url, vec![NodeRole::Scheduler]).await)
    }

    async fn of_database(url: &str, roles: Vec<NodeRole>) -> Self {
        let store = PostgresStore::connect(url, PostgresOptions::default()).await.unwrap();
        let clock = Arc::new(AtomicI64::new(present().as_microsecond()));
        World::over_as(store, tempfile::tempdir().unwrap(), clock, Options::default(), roles).await
    }
}

/// The address of a new database.
async fn new_database() -> String {
    let database = format!("world_{:032x}", random());
    let server = testbed::postgres::Server::shared();
    let (client, connection) =
        tokio_postgres::connect(&server.url("postgres"), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE DATABASE {database}")).await.unwrap();
    server.url(&database)
}

/// Reads the clock of the test.
fn reader(clock: &Arc<AtomicI64>) -> impl Fn() -> Timestamp + Clone + Send + Sync + 'static {
    let clock = Arc::clone(clock);
    move || Timestamp::from_microsecond(clock.load(Ordering::Relaxed)).unwrap()
}

impl World {
    async fn over(
        store: impl FullStore,
        folder: tempfile::TempDir,
        clock: Arc<AtomicI64>,
        options: Options,
    ) -> Self {
        World::over_as(store, folder, clock, options, NodeRole::ALL.to_vec()).await
    }

    async fn over_as(
        store: impl FullStore,
        folder: tempfile::TempDir,
        clock: Arc<AtomicI64>,
        options: Options,
        roles: Vec<NodeRole>,
    ) -> Self {
        let now = reader(&clock);
        let calls = Arc::new(Calls::default());
        let measured = Arc::clone(&calls) as Arc<dyn StoreMetrics>;
        let store = SharedStore::measured(store, measured);
        let outputs = folder.path().join("outputs");
        let outputs = Outputs::keeping_short(outputs, Limits::default()).unwrap();
        let held = Arc::default();
        let hands = Hands { outputs: outputs.clone(), held: Arc::clone(&held) };
        let settings = Settings {
            // A clock that a test sets by hours must not end the lease.
            lease: SignedDuration::from_hours(10_000),
            poll_every: SignedDuration::from_millis(20),
            // As many as of the other kind, so that a test can fill them.
            max_http_calls: 64,
            // A name for each world: another one on the same database is another node.
            info: NodeInfo { name: format!("node-{:x}", random()), roles, ..NodeInfo::default() },
            ..Settings::default()
        };
        let parts = Env {
            clock: Arc::new(now.clone()),
            steady: Arc::new(now.clone()),
            random: Arc::new(random),
            zones: Zones::bundled(),
            tracer: None,
            start_log: None,
        };
        let ring = Ring::new([MasterKey::new([5; 32])]);
        let vault = Arc::new(Vault::new(store.clone(), ring, Memory, random_bytes));
        let engine =
            Engine::start(store.clone(), hands, Vec::new(), settings, parts).await.unwrap();
        let engine = Arc::new(engine);
        let key = Key::new([9; 40]);
        let authority =
            Keys::new(&key, Arc::clone(&engine), Arc::new(now.clone()), Arc::new(random));
        let app = App::from(server::Parts {
            engine: Arc::clone(&engine),
            authority: Arc::new(authority),
            secrets: vault.clone(),
            outputs,
            artifacts: server::ArtifactStorage::new(
                blobs::BlobStore::in_folder(&folder.path().join("artifacts")).unwrap(),
                folder.path().join("artifact-uploads"),
                1 << 20,
                Arc::new(now.clone()),
            )
            .unwrap(),
            output_archive: server::OutputArchive::new(
                blobs::BlobStore::in_folder(&folder.path().join("artifacts")).unwrap(),
                folder.path().join("output-cache"),
            )
            .unwrap(),
            backups: Arc::new(agent::backup::NoBackups("the store of a test")),
            metrics: Arc::new(Metrics::new()),
            clock: Arc::new(now),
            random: Arc::new(random),
            zones: Zones::bundled(),
            trials: Arc::new(Bench),
            queries: Arc::new(server::Queries::new(server::QueryLimits::default()).unwrap()),
            node_names: Arc::default(),
            options: Arc::new(options),
        });
        let agents = server::AgentEndpoint::new(
            Arc::clone(&engine),
            vault,
            Arc::new(Bench),
            Arc::new(agent::artifact::NoArtifacts),
        );
        let router = server::router_with_agents(app.clone(), agents);
        let key = key.reveal().to_owned();
        World { router, store, app, engine, calls, key, clock, held, folder }
    }

    /// Moves the clock on.
    pub fn go_on(&self, time: SignedDuration) {
        self.clock.fetch_add(time.as_micros() as i64, Ordering::Relaxed);
    }

    pub fn go_to(&self, time: &str) {
        self.go_to_instant(time.parse().unwrap());
    }

    pub fn go_to_instant(&self, time: Timestamp) {
        self.clock.store(time.as_microsecond(), Ordering::Relaxed);
    }

    /// Ends the attempt of a job that is held, when it has begun.
    pub async fn finish(&self, job: &str, result: AttemptResult) {
        let sender = until(|| async { self.held.lock().unwrap().remove(job) }).await;
        sender.send(result).unwrap();
    }

    /// Waits until the attempt of a job that is held has begun.
    pub async fn begun(&self, job: &str) {
        until(|| async { self.held.lock().unwrap().contains_key(job).then_some(()) }).await;
    }

    /// Sends a request as it is.
    pub async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            text: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// Sends a request with the key; a body is JSON.
    pub async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Reply {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {}", self.key));
        if body.is_some() && !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.map_or(Body::empty(), |body| Body::from(body.to_string()));
        self.send(request.body(body).unwrap()).await
    }

    /// Sends a request with the key and a JSON body as it is written.
    pub async fn call_text(&self, method: &str, path: &str, body: &str) -> Reply {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {}", self.key))
            .header("content-type", "application/json")
            .body(Body::from(body.to_owned()));
        self.send(request.unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, &[], None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.call("POST", path, &[], Some(body)).await
    }

    /// Makes a job that only runs when it is asked to; answers its id.
    pub async fn job(&self, name: &str, endpoint: &str) -> String {
        let body = json!({
            "name": name, "job_type": "MANUAL", "payload": {"endpoint": endpoint},
            "overlap": "ALLOW", "retry_config": {"max_attempts": 1},
        });
        let reply = self.post("/v1/jobs", body).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        reply.json()["job_id"].as_str().unwrap().to_owned()
    }

    /// Starts a run; answers its id.
    pub async fn trigger(&self, job: &str) -> String {
        let reply = self.call("POST", &format!("/v1/jobs/{job}/trigger"), &[], None).await;
        assert_eq!(reply.status, 202, "{}", reply.text);
        reply.json()["execution_id"].as_str().unwrap().to_owned()
    }

    /// Sends a delivery to a hook, without a key.
    pub async fn deliver(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut request = Request::builder().method("POST").uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    /// The time of the test, in seconds since 1970.
    pub fn now_second(&self) -> i64 {
        self.clock.load(Ordering::Relaxed) / 1_000_000
    }

    /// Waits until an execution has a status.
    pub async fn until_status(&self, execution: &str, status: &str) {
        until(|| async {
            let shown = self.get(&format!("/v1/executions/{execution}")).await.json();
            (shown["status"] == status).then_some(())
        })
        .await;
    }

    /// The execution, when it has ended.
    pub async fn ended(&self, execution: &str) -> Value {
        self.ended_in("default", execution).await
    }

    /// The execution of a tenant, when it has ended.
    pub async fn ended_in(&self, tenant: &str, execution: &str) -> Value {
        until(|| async {
            let path = format!("/v1/executions/{execution}");
            let headers = [("punctual-tenant", tenant)];
            let execution = self.call("GET", &path, &headers, None).await.json();
            execution.get("completed_at").is_some().then_some(execution)
        })
        .await
    }
}

/// Waits until something is there.
pub async fn until<T, F: Future<Output = Option<T>>>(mut look: impl FnMut() -> F) -> T {
    let look = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), look).await.expect("it did not happen")
}
