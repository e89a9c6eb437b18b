//! `punctual serve`: engine, agent and HTTP API in one process.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use agent::artifact::{ArtifactOptions, ArtifactSource};
use agent::backup::{Backups, NoBackups};
use agent::output::Outputs;
use agent::{Agent, DatabaseSource};
use clap::{ArgAction, Args};
use domain::cluster::NodeState;
use engine::{Engine, Env, LogNotifier, Predecessor, Replaces, StartLog, Tracer};
use server::{
    AgentEndpoint, App, ArtifactCollector, ArtifactStorage, Key, Keys, Metrics, OutputArchive,
    OutputArchiver, Queries, SqlListener,
};
use sha2::{Digest, Sha256};
use store::sqlite::SqliteStore;
use store::{FullStore, PostgresOptions, PostgresStore, SharedStore, StoreError};
use tokio::runtime::{Builder, Handle};
use uuid::Uuid;
use vault::{Rotated, SecretService, Vault};

use crate::artifacts::StoredArtifacts;
use crate::backup::{self, Contents, DataBackups};
use crate::channels::{RealTrials, StoreChannels, StoreDatabases};
use crate::cli_error::CliError;
use crate::config::{Config, Sources, environment};
use crate::data::{self, DataFolder, MASTER_KEY};
use crate::executor::LocalAgent;
use crate::exit::Failure;
use crate::key_custody::{FromSettings, KeyFile};
use crate::logs::{self, LogFormat};
use crate::start_log::{self, FileStartLog};
use crate::tls;
use crate::{artifacts, clock, jobs, random, signals};

mod audit_heads;
mod cluster_keys;
mod listeners;
mod plan;

use listeners::{bind, cannot_listen, listen_for_sql, serve_http};
pub use plan::ServerPlan;
use plan::StoreKind;

/// How long open connections may take to end when the work has.
const CONNECTION_GRACE: Duration = Duration::from_secs(2);

/// How much lower the priority of the threads of the listeners is, from 0 to 19.
const LISTENER_NICENESS: i32 = 5;

/// The stack of each thread that schedules or listens. A statement about a DAG goes through many
/// calls with large definitions, and a build without optimisation needs more than tokio's 2 MiB.
/// Only memory that is touched is used.
const STACK_BYTES: usize = 8 << 20;

/// The flags of `punctual serve`; each has a setting of the same name.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual serve
  punctual serve --http 0.0.0.0:8630 --tls-cert cert.pem --tls-key key.pem
  punctual serve --store postgres://punctual@db.example.com/punctual

The first start makes the data folder, with the administrator's key in admin.key and the key that
protects secrets in master.key; keep a copy of the latter. Commands on this machine find the server
and its key through the data folder. There are more settings than flags: punctual config show lists
them all, and each can be in the file, or in the environment as PUNCTUAL_NAME. SIGTERM lets running
work end, a second one does not wait.")]
pub struct ServeArgs {
    /// Folder for the embedded store, keys and outputs [default: ./punctual-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,

    /// Where state is kept: sqlite, or postgres://… [default: sqlite]
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// Address of the HTTP API; port 0 takes a free one [default: 127.0.0.1:8630]
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,

    /// Address of the SQL interface; port 0 takes a free one, none disables it [default:
    /// 127.0.0.1:8632]
    #[arg(long, value_name = "ADDR")]
    pg: Option<String>,

    /// File of the certificate for TLS and those above it, in PEM
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,

    /// File of its key, in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,

    /// Listen without TLS on an address that others reach
    #[arg(long, action = ArgAction::SetTrue)]
    insecure: bool,

    /// How long running work may take to end at a shutdown [default: 30s]
    #[arg(long, value_name = "DURATION")]
    shutdown_grace: Option<String>,

    /// Form of the logs: pretty, json, or auto [default: auto]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,

    /// The file of settings [default: punctual.toml, /etc/punctual/punctual.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ServeArgs {
    fn sources(self) -> Sources {
        let given = [
            ("data", self.data),
            ("store", self.store),
            ("http", self.http),
            ("pg", self.pg),
            ("tls_cert", self.tls_cert),
            ("tls_key", self.tls_key),
            ("insecure", self.insecure.then(|| "true".to_owned())),
            ("shutdown_grace", self.shutdown_grace),
            ("log_format", self.log_format),
        ];
        let flags = given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        Sources { flags, file: self.config, environment: environment() }
    }
}

/// A server that answers.
pub struct ServerReady {
    /// Its address.
    pub url: String,
    /// Where SQL clients find it.
    pub sql: Option<SocketAddr>,
    /// Its data folder.
    pub data: PathBuf,
    /// The administrator's key.
    pub key: Key,
    /// Whether the key was made now.
    pub is_new: bool,
    /// Where a browser is let in once, at a first start.
    pub login_link: Option<String>,
    /// The cluster that it joined, in a line; none on the embedded store.
    pub cluster: Option<String>,
}

/// Runs a server until a signal stops it.
pub fn run(args: ServeArgs) -> Result<(), Failure> {
    start(&Config::load(args.sources())?, welcome)
}

/// The callback of a server that is ready.
type Greet = Box<dyn FnOnce(ServerReady) -> Pin<Box<dyn Future<Output = Result<(), Failure>>>>>;

/// Runs a server of these settings until a signal stops it. `greet` is called once it answers.
pub fn start(
    config: &Config,
    greet: impl AsyncFnOnce(ServerReady) -> Result<(), Failure> + 'static,
) -> Result<(), Failure> {
    // One type for all, so that what serves is compiled once.
    start_with(config, Box::new(move |ready| Box::pin(async move { greet(ready).await })))
}

fn start_with(config: &Config, greet: Greet) -> Result<(), Failure> {
    let mut plan = ServerPlan::from_config(config)?;
    logs::start(config, LogFormat::of(config)?)?;
    let settings = &mut plan.settings;
    settings.max_http_calls =
        jobs::http_calls_max(settings.max_http_calls, settings.max_concurrent_jobs);
    let folder = DataFolder::open(&plan.data).map_err(Failure::Failed)?;
    if folder.join(backup::MARK).exists() {
        let text = format!("a restore to {} has not ended", folder.path().display());
        return Err(Failure::Failed(CliError::new(text).hint("run punctual restore once more")));
    }
    // Before anything opens a database: what questions hold in memory is counted from now on.
    if !server::count_memory() {
        tracing::warn!("sql.statement_memory_max does not count what SQLite holds");
    }
    // Scheduling has threads of its own. Those of the listeners have a lower priority, and those
    // that answer questions the lowest.
    let runtime = Builder::new_multi_thread()
        .thread_name("scheduler")
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()?;
    let listeners = Builder::new_multi_thread()
        .thread_name("listener")
        .thread_stack_size(STACK_BYTES)
        .on_thread_start(|| server::lower_priority(LISTENER_NICENESS))
        .enable_all()
        .build()?;
    let front = listeners.handle();
    let served = runtime.block_on(async {
        let clock: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync> = Arc::new(clock::now);
        match plan.store.clone() {
            StoreKind::Sqlite => {
                let path = folder.join("punctual.db");
                folder.check_database(&path).map_err(Failure::Failed)?;
                let store = SqliteStore::open(&path, Arc::new(clock::now))
                    .map_err(|error| no_store(&path.display().to_string(), &error))?;
                serve(plan, &folder, store, clock, front, greet).await
            }
            StoreKind::Postgres(address) => {
                let store = PostgresStore::open(address, PostgresOptions::default())
                    .await
                    .map_err(|error| no_store("the database of --store", &error))?;
                serve(plan, &folder, store, clock, front, greet).await
            }
        }
    });
    listeners.shutdown_timeout(Duration::from_millis(200));
    runtime.shutdown_timeout(Duration::from_millis(200));
    served
}

fn no_store(what: &str, error: &StoreError) -> Failure {
    Failure::Failed(match error {
        StoreError::Refused { problem, advice } => {
            CliError::new(format!("store: {problem}")).hint(advice.as_str())
        }
        StoreError::Unavailable(cause) => {
            CliError::new(format!("{what} cannot be opened: {cause}"))
        }
        error => CliError::new(format!("{what} cannot be opened: {error}")),
    })
}

async fn serve(
    plan: ServerPlan,
    folder: &DataFolder,
    store: impl FullStore,
    clock: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>,
    front: &Handle,
    greet: Greet,
) -> Result<(), Failure> {
    let metrics = Arc::new(Metrics::with(plan.metrics.clone()));
    let measured = Arc::clone(&metrics) as Arc<dyn store::StoreMetrics>;
    let store = SharedStore::measured(store, measured);
    let of_store = store_id(&store).await.map_err(|error| no_store("the store", &error))?;
    let id = of_store.simple().to_string();
    folder.check_store(&id).map_err(Failure::Failed)?;
    let vault = Arc::new(open_vault(&plan, folder, &store)?);
    let is_cluster = matches!(plan.store, StoreKind::Postgres(_));
    if is_cluster {
        cluster_keys::check_master_key(&vault, folder.path()).await?;
    }
    let (admin_key, is_new) = match &plan.admin_key {
        Some(key) => (key.clone(), false),
        None => folder.admin_key().map_err(Failure::Failed)?,
    };
    // Bind before any run starts: two servers configured for one port must not both work.
    let listener = bind(front, plan.http).await.map_err(|error| cannot_listen(plan.http, error))?;
    let address = listener.local_addr()?;
    let sql_listener = match plan.pg {
        Some((address, is_chosen)) => listen_for_sql(front, address, is_chosen).await?,
        None => None,
    };
    let random: Arc<dyn Fn() -> u128 + Send + Sync> = Arc::new(random::number);
    let traces = match plan.collector {
        None => None,
        Some(collector) => {
            let started = collector.start(&plan.settings.info.name, Arc::clone(&metrics));
            Some(started.map_err(|error| {
                CliError::new(format!("otlp.endpoint: cannot be used: {error}"))
            })?)
        }
    };
    let mut start_log = FileStartLog::open(folder.path(), of_store).map_err(|error| {
        let path = folder.join(start_log::FILE);
        CliError::new(format!("cannot open the start log {}: {error}", path.display()))
    })?;
    let nodes = store.nodes().await.map_err(|error| no_store("the store", &error))?;
    start_log.compare_with_lease(|id| {
        nodes.iter().find(|node| node.id == id).map(|node| node.lease_until)
    });
    let mut settings = plan.settings.clone();
    settings.info.replaces = match (&plan.store, start_log.predecessor()) {
        // No other process has the file open.
        (StoreKind::Sqlite, _) => Replaces::EveryScheduler,
        (StoreKind::Postgres(_), Some(Predecessor { node, begun, .. })) => {
            let begun = begun.as_ref().map(|begun| begun.keys().copied().collect());
            Replaces::Node { node: *node, begun }
        }
        (StoreKind::Postgres(_), None) => Replaces::None,
    };
    settings.info.acted = start_log.predecessor().and_then(|it| Some((it.node, it.acted_at?)));
    let parts = Env {
        start_log: Some(Arc::new(start_log)),
        clock: Arc::clone(&clock),
        steady: Arc::new(clock::steady()),
        random: Arc::clone(&random),
        zones: clock::zones(),
        tracer: traces.as_ref().map(|traces| Arc::clone(&traces.spans) as Arc<dyn Tracer>),
    };
    let zones = parts.zones.clone();
    let blobs = plan.artifacts.storage(folder.path()).map_err(Failure::Failed)?;
    let uploads = folder.join(artifacts::UPLOADS);
    let restored = plan.artifacts.restored(folder.path());
    let artifact_source: Arc<dyn ArtifactSource> = Arc::new(StoredArtifacts {
        store: store.clone(),
        blobs: blobs.clone(),
        restored: restored.clone(),
    });
    let import = restored.map(|restored| restored.import(blobs.clone()));
    let artifact_objects = blobs.clone();
    let output_archive = OutputArchive::new(blobs.clone(), folder.join(artifacts::OUTPUT_CACHE))?;
    let artifacts =
        ArtifactStorage::new(blobs, uploads, plan.artifacts.bytes_max, Arc::clone(&clock))?;
    let outputs = Outputs::keeping_short(folder.join("outputs"), plan.output_limits)?;
    let backups: Arc<dyn Backups> = match plan.store {
        StoreKind::Sqlite => {
            let contents = Contents { data: folder.path().to_owned(), artifacts: artifact_objects };
            Arc::new(DataBackups::new(contents, plan.backup_targets, clock::now))
        }
        StoreKind::Postgres(_) => Arc::new(NoBackups(
            "the store is PostgreSQL, which makes its own backups: with pg_dump, or a base backup and its log",
        )),
    };
    let source: Arc<dyn DatabaseSource> =
        Arc::new(StoreDatabases { store: store.clone(), vault: Arc::clone(&vault) });
    let databases = plan.agent.databases.with_source(Arc::clone(&source));
    let options = agent::Options {
        databases,
        backups: Arc::clone(&backups),
        secrets: vault.clone(),
        artifacts: ArtifactOptions { source: Arc::clone(&artifact_source), ..plan.agent.artifacts },
        ..plan.agent
    };
    let agent = Arc::new(Agent::new(options));
    tokio::spawn(Arc::clone(&agent).prepare());
    let executor = LocalAgent {
        outputs: outputs.clone(),
        agent: Arc::clone(&agent),
        metrics: Arc::clone(&metrics),
        clock: clock::now,
        logs_completed: plan.logs_completed,
    };
    let mut notifiers: Vec<Box<dyn engine::Notifier>> = vec![Box::new(LogNotifier)];
    if let Some(webhook) = plan.webhook {
        notifiers.push(Box::new(webhook));
    }
    let channels = StoreChannels {
        store: store.clone(),
        vault: Arc::clone(&vault),
        poster: plan.poster.clone(),
    };
    let engine = Engine::start(store, executor, notifiers, settings, parts)
        .await
        .map_err(|error| no_store("the store", &error))?;
    engine.deliver_to(Arc::new(channels)).await;
    let engine = Arc::new(engine);
    let mut authority =
        Keys::new(&admin_key, Arc::clone(&engine), Arc::clone(&clock), Arc::clone(&random));
    if let Some(tokens) = plan.tokens {
        authority = authority.with_tokens(tokens);
    }
    if is_cluster {
        let node = &plan.settings.info.name;
        cluster_keys::share_admin_key(&authority, node, folder.path()).await;
    }
    let login_token = is_new.then(|| authority.make_login_link());
    let app = App::from(server::Parts {
        engine: Arc::clone(&engine),
        authority: Arc::new(authority),
        secrets: vault.clone(),
        outputs,
        artifacts,
        output_archive,
        backups,
        metrics,
        clock,
        random,
        zones,
        trials: Arc::new(RealTrials { agent, vault: vault.clone(), poster: plan.poster }),
        queries: Arc::new(Queries::new(plan.queries)?),
        node_names: Arc::default(),
        options: Arc::new(plan.options.clone()),
    });
    let agents = AgentEndpoint::new(Arc::clone(&engine), vault.clone(), source, artifact_source);
    front.spawn(server::Sweeper::new(&app).run());
    if let Some(archiver) = OutputArchiver::new(&app, plan.archive_rule) {
        front.spawn(archiver.run());
    }
    // The server starts without object storage: it may be slow or unavailable.
    if let Some(import) = import {
        front.spawn(import);
    }
    front.spawn(ArtifactCollector::new(&app, plan.artifacts.retention).run());
    front.spawn(server::take_job_requests(app.clone()));
    tokio::spawn(look_into(vault));
    tokio::spawn(audit_heads::log_heads(Arc::clone(&engine), plan.audit_head_every));
    let mut signals = signals::Signals::new()?;
    let (close, closed) = tokio::sync::watch::channel(());
    let certificate = plan.certificate.as_ref();
    let mut listeners = vec![serve_http(
        front,
        listener,
        server::router_with_agents(app.clone(), agents),
        plan.limits,
        certificate,
        closed.clone(),
    )?];
    let sql_address = match sql_listener {
        Some(listener) => {
            let address = listener.local_addr()?;
            let tls = certificate.map(|certificate| tls::sql_tls(Arc::clone(certificate)));
            let tls = tls.transpose().map_err(std::io::Error::other)?;
            let sql = SqlListener::new(app.clone(), plan.sql.clone(), tls);
            let mut closed = closed.clone();
            let closed = async move { while closed.changed().await.is_ok() {} };
            listeners.push(front.spawn(sql.serve(listener, closed)));
            Some(address)
        }
        None => None,
    };
    if let Some((address, open_metrics)) = plan.watch {
        let listener = bind(front, address).await.map_err(|error| cannot_listen(address, error))?;
        tracing::info!(address = %listener.local_addr()?, "metrics listener started");
        let options = Arc::new(server::Options { open_metrics, ..plan.options.clone() });
        let router = server::watch_router(app.but(|parts| parts.options = options));
        listeners.push(serve_http(front, listener, router, plan.limits, certificate, closed)?);
    }
    let scheme = if plan.certificate.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    folder.announce(scheme, address).map_err(Failure::Failed)?;
    folder.announce_sql(sql_address).map_err(Failure::Failed)?;
    folder.close_files();
    let data = folder.path().to_owned();
    let sql = sql_address.map(data::reachable);
    // Behind the number sign, so that the token is in no log and no proxy sees it.
    let login_link = login_token.map(|token| format!("{url}/ui/login#token={token}"));
    let cluster = match is_cluster {
        true => joined(&engine, &id).await,
        false => None,
    };
    let ready =
        ServerReady { url: url.clone(), sql, data, key: admin_key, is_new, login_link, cluster };
    greet(ready).await?;
    if let Some(sql) = sql {
        tracing::info!(address = %sql, "SQL interface listening");
    }
    tracing::info!(url, "ready");
    signals::ready();
    let read_again = || match plan.certificate.as_ref().map(|certificate| certificate.read_again())
    {
        Some(Ok(())) => tracing::info!("TLS certificate reloaded"),
        Some(Err(error)) => tracing::error!("{error}"),
        None => tracing::info!("SIGHUP ignored: TLS is not configured"),
    };
    signals.asked_to_stop(read_again).await;
    tracing::info!("stopping: running work may finish");
    signals::stopping();
    tokio::select! {
        () = engine.stop(plan.grace) => {}
        () = signals.asked_to_stop(|| ()) => tracing::warn!("stopping at once: asked a second time"),
    }
    if let Some(traces) = traces {
        traces.stop().await;
    }
    drop(close);
    // Open streams are cut after the grace period.
    let closing = async {
        for listener in listeners {
            let _ = listener.await;
        }
    };
    let _ = tokio::time::timeout(CONNECTION_GRACE, closing).await;
    tracing::info!("stopped");
    Ok(())
}

/// Says which cluster this node joined, and how many nodes it has now.
async fn joined(engine: &Engine, store: &str) -> Option<String> {
    let nodes = engine.node().nodes().await.ok()?;
    let is_there =
        |node: &&engine::NodeView| matches!(node.state, NodeState::Active | NodeState::Draining);
    let names: Vec<String> =
        nodes.iter().filter(is_there).map(|node| node.info.name.clone()).collect();
    let cluster = store.get(..8).unwrap_or(store);
    tracing::info!(cluster, nodes = names.len(), "joined the cluster");
    let nodes = match names.len() {
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    };
    Some(format!("joined cluster {cluster}, {nodes}: {}", names.join(", ")))
}

/// The identifier of the database, which stays with it through backups: derived from the salt that
/// is drawn for it once.
async fn store_id(store: &SharedStore) -> Result<Uuid, StoreError> {
    let salt = store.salt(random::bytes()).await?;
    let digest = Sha256::new().chain_update("punctual store\n").chain_update(salt).finalize();
    let mut bytes = uuid::Bytes::default();
    bytes.copy_from_slice(&digest[..16]);
    Ok(Uuid::from_bytes(bytes))
}

/// The vault of a server, with the keys of its settings or of its folder.
fn open_vault(
    plan: &ServerPlan,
    folder: &DataFolder,
    store: &SharedStore,
) -> Result<Vault, Failure> {
    let store = store.clone();
    Ok(match &plan.master_keys {
        Some(ring) => Vault::new(store, ring.clone(), FromSettings, random::bytes),
        None => {
            let ring = folder.master_keys().map_err(Failure::Failed)?;
            Vault::new(store, ring, KeyFile(folder.join(MASTER_KEY)), random::bytes)
        }
    })
}

/// Logs secrets that cannot be read, and resumes an interrupted rotation.
async fn look_into(vault: Arc<Vault>) {
    match vault.resume().await {
        Ok(Rotated { key, rewrapped: 1.., .. }) => {
            tracing::info!(key, "secrets rotated to this master key");
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "cannot check secrets"),
    }
    if let Ok(health) = vault.health().await {
        for (key, secrets) in health.unreadable {
            tracing::error!(key, secrets, "secrets are sealed under a missing master key");
        }
    }
}

/// How to come in with psql.
pub fn psql(address: SocketAddr, key: &str) -> String {
    let (host, port) = (address.ip(), address.port());
    format!("PGPASSWORD=$(cat {key}) psql \"host={host} port={port} user=admin dbname=default\"")
}

/// How to come into the dashboard after a first start.
pub fn login_lines(link: String) -> String {
    format!("\nOpen the dashboard with this link; it works once, within an hour:\n\n  {link}\n")
}

/// The few lines that a user needs who sees the server for the first time: how to create a job, and
/// the other ways in.
async fn welcome(ready: ServerReady) -> Result<(), Failure> {
    if !ready.is_new && !std::io::stderr().is_terminal() {
        return Ok(());
    }
    eprintln!("{}", welcome_text(&ready));
    Ok(())
}

fn welcome_text(ready: &ServerReady) -> String {
    let ServerReady { url, sql, data, login_link, cluster, .. } = ready;
    let key = data.join("admin.key");
    let key = key.display();
    // A client finds this folder by itself.
    let is_default = data.ends_with("punctual-data");
    let export = match is_default {
        true => String::new(),
        false => format!("  export PUNCTUAL_DATA={}\n", data.display()),
    };
    let mut text = format!(
        "\
Punctual {version} is ready.

  Data  {data}
  Key   {key}
{cluster}
Create a first job and see it run, in another terminal{here}:

{export}  punctual job create hello --every 1m --noop
  punctual job list
  punctual run list hello

",
        version = env!("CARGO_PKG_VERSION"),
        data = data.display(),
        cluster = cluster.as_ref().map_or_else(String::new, |line| format!("\n{line}\n")),
        here = if is_default { " in this folder" } else { "" },
    );
    if let Some(sql) = sql {
        text.push_str(&format!("In SQL:\n\n  {}\n\n", psql(*sql, &key.to_string())));
    }
    text.push_str(&format!(
        "Over HTTP:\n\n  curl -H \"Authorization: Bearer $(cat {key})\" {url}/v1/jobs\n\n"
    ));
    text.push_str(&format!("In a browser: {url}/ui/ (reference of the API: {url}/docs)\n"));
    if let Some(link) = login_link {
        text.push_str(&login_lines(link.clone()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_show_how_to_create_a_job_before_anything_else() {
        let ready = ServerReady {
            url: "http://127.0.0.1:8630".to_owned(),
            sql: Some("127.0.0.1:8632".parse().unwrap()),
            data: "/srv/punctual-data".into(),
            key: Key::new([1; 40]),
            is_new: true,
            login_link: Some("http://127.0.0.1:8630/ui/login#token=x".to_owned()),
            cluster: Some("joined cluster 0a1b2c3d, 2 nodes: a, b".to_owned()),
        };
        let text = welcome_text(&ready);
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        let order = ["joined cluster", "punctual job create", "psql", "curl", "/ui/ "].map(place);
        assert!(order.is_sorted(), "{text}");
        assert!(!text.contains("PUNCTUAL_DATA"), "{text}");
        let elsewhere = welcome_text(&ServerReady { data: "/srv/jobs".into(), ..ready });
        assert!(elsewhere.contains("export PUNCTUAL_DATA=/srv/jobs\n"), "{elsewhere}");
    }
}
