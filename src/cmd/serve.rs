//! `punctual serve`: engine, agent and HTTP door in one process.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::Agent;
use agent::backup::{Backups, NoBackups};
use agent::output::{Limits, Outputs};
use clap::{ArgAction, Args};
use courier::Webhook;
use domain::cluster::{LabelError, NodeRole};
use engine::{Engine, FullStore, LogCourier, NodeInfo, Parts, Settings, Timed, Tracer};
use server::{App, Key, Keys, Metrics, Oidc, Patience, Rate, SqlDoor, SqlTerms};
use store::sqlite::SqliteStore;
use store::{PostgresOptions, PostgresStore};
use tokio::net::TcpListener;
use vault::{Keeper, Ring, Rotated, Vault};

use crate::backup::{self, Contents, DataBackups};
use crate::channels::{Poster, RealTrials, StoreChannels, StoreDatabases};
use crate::complaint::Complaint;
use crate::config::{Config, Sources, environment};
use crate::custody::{self, FromSettings, KeyFile};
use crate::data::{self, DataFolder, MASTER_KEY};
use crate::executor::LocalAgent;
use crate::exit::Failure;
use crate::logs::{self, LogFormat};
use crate::otlp::Collector;
use crate::tls::{self, Certificate, CertificateFiles, TlsListener};
use crate::{alerts, clock, jobs, random, signals, tokens};

/// How long open connections may take to end when the work has.
const CONNECTION_GRACE: Duration = Duration::from_secs(2);

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

    /// Address of the HTTP door; port 0 takes a free one [default: 127.0.0.1:8630]
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,

    /// Address of the SQL door; port 0 takes a free one, none keeps it shut [default: 127.0.0.1:8632]
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

/// What the settings mean.
pub struct Plan {
    data: PathBuf,
    store: StoreKind,
    http: SocketAddr,
    /// The SQL door, and whether somebody chose its address.
    pg: Option<(SocketAddr, bool)>,
    sql: SqlTerms,
    /// An address of its own for figures and health, and whether figures need no key there.
    watch: Option<(SocketAddr, bool)>,
    certificate: Option<Arc<Certificate>>,
    admin_key: Option<Key>,
    master_keys: Option<Ring>,
    grace: Duration,
    settings: Settings,
    options: server::Options,
    patience: Patience,
    agent: agent::Options,
    webhook: Option<Webhook>,
    poster: Poster,
    backup_targets: BTreeMap<String, PathBuf>,
    output_limits: Limits,
    collector: Option<Collector>,
    tokens: Option<Oidc>,
}

#[derive(Clone)]
enum StoreKind {
    Sqlite,
    Postgres(String),
}

impl Plan {
    /// Reads the settings.
    pub fn of(config: &Config) -> Result<Self, Complaint> {
        let yes_or_no = "true or false";
        let number = "a whole number";
        let http: SocketAddr = config.parse("http", "an address such as 127.0.0.1:8630")?;
        let certificate = match (config.text("tls_cert"), config.text("tls_key")) {
            ("", "") => None,
            ("", _) => return Err(config.wrong("tls_cert", "set when tls_key is")),
            (_, "") => return Err(config.wrong("tls_key", "set when tls_cert is")),
            (certificate, key) => {
                let files = CertificateFiles { certificate: certificate.into(), key: key.into() };
                Some(Arc::new(Certificate::read(files)?))
            }
        };
        let insecure = config.parse::<bool>("insecure", yes_or_no)?;
        let watch: Option<SocketAddr> =
            config.parse_optional("api.metrics_http", "an address such as 127.0.0.1:8631")?;
        let pg: Option<SocketAddr> = match config.text("pg") {
            "" | "none" => None,
            _ => Some(config.parse("pg", "an address such as 127.0.0.1:8632, or none")?),
        };
        for (name, address) in [("http", Some(http)), ("pg", pg), ("api.metrics_http", watch)] {
            let outside = address.is_some_and(|address| !address.ip().is_loopback());
            if let Some(address) = address.filter(|_| outside && certificate.is_none() && !insecure)
            {
                let text =
                    format!("{name}: {address} is reached from outside, and there is no TLS");
                return Err(Complaint::new(text).hint(
                    "give it a certificate with --tls-cert and --tls-key, or say --insecure if you mean it",
                ));
            }
        }
        let store = match config.text("store") {
            "sqlite" => StoreKind::Sqlite,
            url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                StoreKind::Postgres(url.to_owned())
            }
            _ => return Err(config.wrong("store", "sqlite, or a URL that begins with postgres://")),
        };
        let admin_key = match config.text("admin_key") {
            "" => None,
            text => Some(Key::parse(text).ok_or_else(|| {
                config.wrong("admin_key", "a key of the form pk_<id>_<secret>_<crc>")
            })?),
        };
        let open_on = |address: SocketAddr| match config.text("api.open_metrics") {
            "auto" => Ok(address.ip().is_loopback()),
            _ => config.parse("api.open_metrics", "true, false or auto"),
        };
        let open_metrics = open_on(http)?;
        let watch = watch.map(|address| Ok((address, open_on(address)?))).transpose()?;
        let grace = config.duration("shutdown_grace")?;
        let settings = Settings {
            info: NodeInfo {
                name: node_name(config, http),
                address: Some(http.to_string()),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                roles: roles(config)?,
                labels: config.text("engine.labels").parse().map_err(|error: LabelError| {
                    config.wrong("engine.labels", &format!("labels such as zone=eu: {error}"))
                })?,
                ..NodeInfo::default()
            },
            max_concurrent_jobs: config.parse("engine.max_concurrent_jobs", number)?,
            tenant_max_concurrent: config.parse_optional("engine.tenant_max_concurrent", number)?,
            look_ahead: config.duration("engine.look_ahead")?,
            // The embedded store goes by this process's own clock: there is no other to be off from.
            clock_offset_max: match store {
                StoreKind::Sqlite => None,
                StoreKind::Postgres(_) => Settings::default().clock_offset_max,
            },
            lease: config.duration("engine.lease")?,
            renew_every: config.duration("engine.renew_every")?,
            poll_every: config.duration("engine.poll_every")?,
            retention_days: config.parse("engine.retention_days", number)?,
            failed_retention_days: config.parse("engine.failed_retention_days", number)?,
            audit_retention_days: config.parse("engine.audit_retention_days", number)?,
            ..Settings::default()
        };
        if settings.renew_every + settings.stop_before_lease_end >= settings.lease {
            return Err(
                config.wrong("engine.lease", "longer than engine.renew_every and two seconds")
            );
        }
        if settings.max_concurrent_jobs == 0 {
            return Err(config.wrong("engine.max_concurrent_jobs", "at least 1"));
        }
        let data = PathBuf::from(config.text("data"));
        let databases = jobs::addresses(config, &data);
        let agent = jobs::options(config, &data)?;
        let poster = Poster::new(&agent.http.allow_private, clock::now)
            .map_err(|error| Complaint::new(format!("nothing can be posted from here: {error}")))?;
        Ok(Plan {
            agent,
            poster,
            webhook: alerts::webhook(config)?,
            backup_targets: backup::targets(config)?,
            output_limits: jobs::output_limits(config)?,
            collector: Collector::of(config)?,
            tokens: tokens::of_settings(config)?,
            data,
            store,
            http,
            pg: pg.map(|address| (address, config.is_set("pg"))),
            sql: SqlTerms {
                connections_max: config.parse("sql.connections_max", number)?,
                strangers_max: config.parse("sql.strangers_max", number)?,
                patience: config.duration("sql.login_patience")?.unsigned_abs(),
                message_bytes_max: config.parse("sql.message_bytes_max", number)?,
                statement_timeout: config.duration("sql.statement_timeout")?.unsigned_abs(),
                needs_tls: !insecure,
            },
            watch,
            certificate,
            admin_key,
            master_keys: custody::from_settings(config)?,
            grace: grace.try_into().unwrap_or_default(),
            settings,
            options: server::Options {
                strict_concurrency: config.parse("api.strict_concurrency", yes_or_no)?,
                open_metrics,
                body_bytes_max: config.parse("api.body_bytes_max", number)?,
                bulk_bytes_max: config.parse("api.bulk_bytes_max", number)?,
                lag_seconds_max: config.parse("api.lag_seconds_max", number)?,
                rate: Rate {
                    per_second: config.parse("api.rate_per_second", number)?,
                    burst: config.parse("api.rate_burst", number)?,
                },
                failure_rate: Rate {
                    per_second: config.parse("api.failures_per_second", number)?,
                    burst: config.parse("api.failures_burst", number)?,
                },
                databases,
            },
            patience: Patience {
                head: config.duration("api.head_patience")?.unsigned_abs(),
                body: config.duration("api.body_patience")?.unsigned_abs(),
                connections_max: config.parse("api.connections_max", number)?,
            },
        })
    }
}

/// The node's name. Two servers of a machine differ in their ports; one that takes any free port
/// is no lasting member of anything.
fn node_name(config: &Config, http: SocketAddr) -> String {
    let name = config.text("engine.name");
    if !name.is_empty() {
        return name.to_owned();
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|host| !host.is_empty()).unwrap_or("punctual");
    match http.port() {
        0 => format!("{host}#{}", std::process::id()),
        port => format!("{host}:{port}"),
    }
}

fn roles(config: &Config) -> Result<Vec<NodeRole>, Complaint> {
    let wrong = || config.wrong("engine.roles", "scheduler, agent or both");
    let roles = config.list("engine.roles").map(|role| NodeRole::of(role).ok_or_else(wrong));
    let mut roles: Vec<NodeRole> = roles.collect::<Result<_, _>>()?;
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { Err(wrong()) } else { Ok(roles) }
}

/// A server that answers.
pub struct Ready {
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
}

/// Runs a server until it is told to stop.
pub fn run(args: ServeArgs) -> Result<(), Failure> {
    start(&Config::load(args.sources())?, welcome)
}

/// Runs a server of these settings until it is told to stop. `greet` comes when it answers.
pub fn start(
    config: &Config,
    greet: impl AsyncFnOnce(Ready) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let plan = Plan::of(config)?;
    logs::start(config, LogFormat::of(config)?)?;
    let folder = DataFolder::open(&plan.data).map_err(Failure::Failed)?;
    if folder.join(backup::MARK).exists() {
        let text = format!("a restore to {} has not ended", folder.path().display());
        return Err(Failure::Failed(Complaint::new(text).hint("run punctual restore once more")));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let clock: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync> = Arc::new(clock::now);
        match plan.store.clone() {
            StoreKind::Sqlite => {
                let path = folder.join("punctual.db");
                let store = SqliteStore::open(&path, Arc::new(clock::now))
                    .map_err(|error| no_store(&path.display().to_string(), &error))?;
                serve(plan, &folder, store, clock, greet).await
            }
            StoreKind::Postgres(url) => {
                let store = PostgresStore::connect(&url, PostgresOptions::default())
                    .await
                    .map_err(|error| no_store("the database of --store", &error))?;
                serve(plan, &folder, store, clock, greet).await
            }
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    served
}

fn no_store(what: &str, error: &store::StoreError) -> Failure {
    Failure::Failed(Complaint::new(format!("{what} cannot be opened: {error}")))
}

async fn serve<S: FullStore>(
    plan: Plan,
    folder: &DataFolder,
    store: S,
    clock: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>,
    greet: impl AsyncFnOnce(Ready) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let metrics = Arc::new(Metrics::new());
    let store = Arc::new(Timed::new(store, Arc::clone(&metrics) as Arc<dyn engine::Stopwatch>));
    let vault = Arc::new(open_vault(&plan, folder, &store)?);
    let (admin_key, is_new) = match &plan.admin_key {
        Some(key) => (key.clone(), false),
        None => folder.admin_key().map_err(Failure::Failed)?,
    };
    // The door is taken before the work begins: two servers on one port would both work.
    let listener =
        TcpListener::bind(plan.http).await.map_err(|error| cannot_listen(plan.http, error))?;
    let address = listener.local_addr()?;
    let sql_listener = match plan.pg {
        Some((address, is_chosen)) => listen_for_sql(address, is_chosen).await?,
        None => None,
    };
    let random: Arc<dyn Fn() -> u128 + Send + Sync> = Arc::new(random::number);
    let traces = match plan.collector {
        None => None,
        Some(collector) => {
            let started = collector.start(&plan.settings.info.name, Arc::clone(&metrics));
            Some(started.map_err(|error| {
                Complaint::new(format!("otlp.endpoint: cannot be used: {error}"))
            })?)
        }
    };
    let parts = Parts {
        clock: Arc::clone(&clock),
        random: Arc::clone(&random),
        zones: clock::zones(),
        tracer: traces.as_ref().map(|traces| Arc::clone(&traces.spans) as Arc<dyn Tracer>),
    };
    let zones = parts.zones.clone();
    let outputs = Outputs::new(folder.join("outputs"), plan.output_limits)?;
    let backups: Arc<dyn Backups> = match plan.store {
        StoreKind::Sqlite => {
            let contents = Contents { data: folder.path().to_owned() };
            Arc::new(DataBackups::new(contents, plan.backup_targets, clock::now))
        }
        StoreKind::Postgres(_) => Arc::new(NoBackups(
            "the store is PostgreSQL, which makes its own backups: with pg_dump, or a base backup and its log",
        )),
    };
    let source = StoreDatabases { store: Arc::clone(&store), vault: Arc::clone(&vault) };
    let databases = plan.agent.databases.with_source(Arc::new(source));
    let options = agent::Options {
        databases,
        backups: Arc::clone(&backups),
        secrets: vault.clone(),
        ..plan.agent
    };
    let agent = Arc::new(Agent::new(options));
    let executor = LocalAgent {
        outputs: outputs.clone(),
        agent: Arc::clone(&agent),
        metrics: Arc::clone(&metrics),
        clock: clock::now,
    };
    let mut couriers: Vec<Box<dyn engine::Courier>> = vec![Box::new(LogCourier)];
    if let Some(webhook) = plan.webhook {
        couriers.push(Box::new(webhook));
    }
    let channels = StoreChannels {
        store: Arc::clone(&store),
        vault: Arc::clone(&vault),
        poster: plan.poster.clone(),
    };
    let engine = Engine::start(store, executor, couriers, plan.settings.clone(), parts)
        .await
        .map_err(|error| no_store("the store", &error))?;
    engine.carry_to(Arc::new(channels)).await;
    let engine = Arc::new(engine);
    let scheduler: Arc<dyn server::Scheduler> = Arc::clone(&engine) as _;
    let mut authority =
        Keys::new(&admin_key, Arc::clone(&scheduler), Arc::clone(&clock), Arc::clone(&random));
    if let Some(tokens) = plan.tokens {
        authority = authority.with_tokens(tokens);
    }
    let app = App {
        scheduler,
        authority: Arc::new(authority),
        secrets: vault.clone(),
        outputs,
        backups,
        metrics,
        clock,
        random,
        zones,
        trials: Arc::new(RealTrials { agent, vault: vault.clone(), poster: plan.poster }),
        options: Arc::new(plan.options.clone()),
    };
    tokio::spawn(server::Sweeper::new(&app).run());
    tokio::spawn(look_into(vault));
    let mut signals = signals::Signals::new()?;
    let (close, closed) = tokio::sync::watch::channel(());
    let certificate = plan.certificate.as_ref();
    let mut doors = vec![open_door(
        listener,
        server::router(app.clone()),
        plan.patience,
        certificate,
        closed.clone(),
    )?];
    let sql_address = match sql_listener {
        Some(listener) => {
            let address = listener.local_addr()?;
            let tls = certificate
                .map(|certificate| tls::acceptor(Arc::clone(certificate), &["postgresql"]));
            let door = SqlDoor::new(app.clone(), plan.sql.clone(), tls.transpose()?);
            let mut closed = closed.clone();
            let closed = async move { while closed.changed().await.is_ok() {} };
            doors.push(tokio::spawn(door.serve(listener, closed)));
            Some(address)
        }
        None => None,
    };
    if let Some((address, open_metrics)) = plan.watch {
        let listener =
            TcpListener::bind(address).await.map_err(|error| cannot_listen(address, error))?;
        tracing::info!(address = %listener.local_addr()?, "figures have an address of their own");
        let options = Arc::new(server::Options { open_metrics, ..plan.options.clone() });
        let router = server::watch_router(App { options, ..app });
        doors.push(open_door(listener, router, plan.patience, certificate, closed)?);
    }
    let scheme = if plan.certificate.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    folder.announce(scheme, address).map_err(Failure::Failed)?;
    folder.announce_sql(sql_address).map_err(Failure::Failed)?;
    let data = folder.path().to_owned();
    let sql = sql_address.map(data::reachable);
    greet(Ready { url: url.clone(), sql, data, key: admin_key, is_new }).await?;
    if let Some(sql) = sql {
        tracing::info!(address = %sql, "SQL is answered");
    }
    tracing::info!(url, "ready");
    signals::ready();
    let read_again = || match plan.certificate.as_ref().map(|certificate| certificate.read_again())
    {
        Some(Ok(())) => tracing::info!("the certificate was read again"),
        Some(Err(complaint)) => tracing::error!("{complaint}"),
        None => tracing::info!("there is nothing to read again"),
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
    // Whoever still listens to a stream has been told enough.
    let closing = async {
        for door in doors {
            let _ = door.await;
        }
    };
    let _ = tokio::time::timeout(CONNECTION_GRACE, closing).await;
    tracing::info!("stopped");
    Ok(())
}

/// The vault of a server, with the keys of its settings or of its folder.
fn open_vault<S: FullStore>(
    plan: &Plan,
    folder: &DataFolder,
    store: &Arc<S>,
) -> Result<Vault<S>, Failure> {
    let store = Arc::clone(store);
    Ok(match &plan.master_keys {
        Some(ring) => Vault::new(store, ring.clone(), FromSettings, random::bytes),
        None => {
            let ring = folder.master_keys().map_err(Failure::Failed)?;
            Vault::new(store, ring, KeyFile(folder.join(MASTER_KEY)), random::bytes)
        }
    })
}

/// Answers callers of an address until the server closes.
fn open_door(
    listener: TcpListener,
    router: axum::Router,
    patience: Patience,
    certificate: Option<&Arc<Certificate>>,
    mut closed: tokio::sync::watch::Receiver<()>,
) -> Result<tokio::task::JoinHandle<()>, Failure> {
    let closed = async move { while closed.changed().await.is_ok() {} };
    Ok(match certificate {
        None => tokio::spawn(server::serve(listener, router, patience, closed)),
        Some(certificate) => {
            let listener = TlsListener::new(listener, Arc::clone(certificate))?;
            tokio::spawn(server::serve(listener, router, patience, closed))
        }
    })
}

/// Says what cannot be read, and goes on with what a rotation left undone.
async fn look_into<S: FullStore>(vault: Arc<Vault<S>>) {
    match vault.resume().await {
        Ok(Rotated { key, rewrapped: 1.., .. }) => {
            tracing::info!(key, "every secret that can be read is under this master key now");
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "secrets could not be looked into"),
    }
    if let Ok(health) = vault.health().await {
        for (key, secrets) in health.unreadable {
            tracing::error!(key, secrets, "secrets are sealed under a master key that is not here");
        }
    }
}

/// Takes the port of the SQL door. When it is the usual one and somebody else has it, the server
/// does without: most who start a second one do not know of it.
async fn listen_for_sql(
    address: SocketAddr,
    is_chosen: bool,
) -> Result<Option<TcpListener>, Failure> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && !is_chosen => {
            tracing::warn!(
                %address,
                "SQL is not answered here: another process has the port; --pg chooses another"
            );
            Ok(None)
        }
        Err(error) => {
            let text = format!("cannot listen on {address}: {error}");
            let hint = "choose another address with --pg 127.0.0.1:PORT, or --pg none";
            Err(Failure::Failed(Complaint::new(text).hint(hint)))
        }
    }
}

fn cannot_listen(http: SocketAddr, error: std::io::Error) -> Failure {
    let text = format!("cannot listen on {http}: {error}");
    let complaint = match error.kind() {
        std::io::ErrorKind::AddrInUse => Complaint::new(text).hint(
            "another server has this port; choose one with --http 127.0.0.1:PORT (0 takes a free one)",
        ),
        _ => Complaint::new(text),
    };
    Failure::Failed(complaint)
}

/// How to come in with psql.
pub fn psql(address: SocketAddr, key: &str) -> String {
    let (host, port) = (address.ip(), address.port());
    format!("PGPASSWORD=$(cat {key}) psql \"host={host} port={port} user=admin dbname=default\"")
}

/// The few lines that somebody needs who sees the server for the first time.
async fn welcome(Ready { url, sql, data, is_new, .. }: Ready) -> Result<(), Failure> {
    if !is_new && !std::io::stderr().is_terminal() {
        return Ok(());
    }
    let key = data.join("admin.key");
    let key = key.display();
    eprintln!(
        "\
Punctual {version} is ready.

  URL   {url}      (docs at /docs)
  Data  {data}
  Key   {key}

Make a first job and look at it:

  export PUNCTUAL_TOKEN=$(cat {key})
  curl -H \"Authorization: Bearer $PUNCTUAL_TOKEN\" -H 'Content-Type: application/json' \\
    -d '{{\"name\":\"hello\",\"job_type\":\"CRON\",\"cron_expression\":\"* * * * *\",\"payload\":{{\"type\":\"NOOP\"}}}}' \\
    {url}/v1/jobs
  curl -H \"Authorization: Bearer $PUNCTUAL_TOKEN\" {url}/v1/jobs/hello/executions
",
        version = env!("CARGO_PKG_VERSION"),
        data = data.display(),
    );
    if let Some(sql) = sql {
        eprintln!("Or in SQL:\n\n  {}\n", psql(sql, &key.to_string()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_machine_has_another_clock() {
        let offset_max = |store: &str| {
            let empty = tempfile::NamedTempFile::new().unwrap();
            let flags = vec![("store", store.to_owned())];
            let file = Some(empty.path().to_owned());
            let config = Config::load(Sources { flags, file, environment: Vec::new() }).unwrap();
            Plan::of(&config).unwrap_or_else(|error| panic!("{error}")).settings.clock_offset_max
        };
        assert_eq!(offset_max("sqlite"), None);
        assert!(offset_max("postgres://user@host/name").is_some());
    }
}
