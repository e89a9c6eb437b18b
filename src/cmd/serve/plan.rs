//! The settings of a server, parsed and checked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::output::Limits;
use domain::cluster::{LabelError, NodeRole};
use engine::{NodeInfo, Settings};
use jiff::SignedDuration;
use notify::Webhook;
use server::{
    JobSelection, Key, ListenerLimits, MetricsOptions, Oidc, PoolLimits, QueryLimits, Rate,
    ReadLimits, SessionLimits, SqlTerms, UiOptions,
};
use store::PostgresAddress;
use vault::Ring;

use crate::artifacts::ArtifactSettings;
use crate::backup;
use crate::channels::Poster;
use crate::cli_error::CliError;
use crate::config::Config;
use crate::key_custody;
use crate::otlp::Collector;
use crate::tls::{Certificate, CertificateFiles};
use crate::{alerts, clock, jobs, tokens};

pub struct ServerPlan {
    pub(super) data: PathBuf,
    pub(super) store: StoreKind,
    pub(super) http: SocketAddr,
    /// Address of the SQL interface, and whether the administrator chose it.
    pub(super) pg: Option<(SocketAddr, bool)>,
    pub(super) sql: SqlTerms,
    pub(super) queries: QueryLimits,
    /// A separate address for metrics and health, and whether metrics need no key there.
    pub(super) watch: Option<(SocketAddr, bool)>,
    pub(super) certificate: Option<Arc<Certificate>>,
    pub(super) admin_key: Option<Key>,
    pub(super) master_keys: Option<Ring>,
    pub(super) grace: Duration,
    pub(super) settings: Settings,
    pub(super) audit_head_every: Duration,
    pub(super) options: server::Options,
    pub(super) limits: ListenerLimits,
    pub(super) agent: agent::Options,
    pub(super) webhook: Option<Webhook>,
    pub(super) poster: Poster,
    pub(super) backup_targets: BTreeMap<String, backup::BackupTarget>,
    pub(super) output_limits: Limits,
    pub(super) archive_rule: server::ArchiveRule,
    pub(super) artifacts: ArtifactSettings,
    /// Which metrics it has.
    pub(super) metrics: MetricsOptions,
    /// Whether attempts that completed get a line in the log.
    pub(super) logs_completed: bool,
    pub(super) collector: Option<Collector>,
    pub(super) tokens: Option<Oidc>,
}

/// Where the state is.
#[derive(Clone)]
pub(super) enum StoreKind {
    Sqlite,
    Postgres(PostgresAddress),
}

impl ServerPlan {
    /// Reads the settings.
    pub fn from_config(config: &Config) -> Result<Self, CliError> {
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
                let text = format!(
                    "{name}: {address} is reachable from other machines, and TLS is not configured"
                );
                return Err(CliError::new(text).hint(
                    "give it a certificate with --tls-cert and --tls-key, or allow plain text with --insecure",
                ));
            }
        }
        let store = match config.text("store") {
            "sqlite" => StoreKind::Sqlite,
            url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                let address = PostgresAddress::parse(url).map_err(|wrong| {
                    CliError::new(format!("store: {}: {}", wrong.parameter, wrong.problem))
                })?;
                StoreKind::Postgres(address)
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
            max_http_calls: config.parse("engine.max_http_calls", number)?,
            max_runs_per_job: config.parse("engine.max_runs_per_job", number)?,
            tenant_max_concurrent: config.parse_optional("engine.tenant_max_concurrent", number)?,
            default_database: crate::jobs::default_database(config).map(str::to_owned),
            job_timeout_max: match config.text("engine.job_timeout_max") {
                "" => None,
                _ => Some(config.duration("engine.job_timeout_max")?),
            },
            look_ahead: config.duration("engine.look_ahead")?,
            planning_buckets_above: config.parse("engine.planning_buckets_above", number)?,
            // The embedded store goes by this process's own clock: there is no other to be off from.
            clock_offset_max: match store {
                StoreKind::Sqlite => None,
                StoreKind::Postgres(_) => Settings::default().clock_offset_max,
            },
            lease: config.duration("engine.lease")?,
            worker_lease: worker_lease(config)?,
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
        if settings.max_runs_per_job == 0 {
            return Err(config.wrong("engine.max_runs_per_job", "at least 1"));
        }
        if settings.max_http_calls == 0 {
            return Err(config.wrong("engine.max_http_calls", "at least 1"));
        }
        let data = PathBuf::from(config.text("data"));
        let databases = jobs::addresses(config, &data);
        let agent = jobs::options(config, &data)?;
        let poster = Poster::new(&agent.http.allow_private, clock::now).map_err(|error| {
            CliError::new(format!("cannot create the HTTP client for alerts: {error}"))
        })?;
        let has_tls = certificate.is_some();
        Ok(ServerPlan {
            agent,
            poster,
            webhook: alerts::webhook(config)?,
            backup_targets: backup::targets(config)?,
            output_limits: jobs::output_limits(config)?,
            archive_rule: jobs::archive_rule(config)?,
            artifacts: ArtifactSettings::from_config(config)?,
            metrics: MetricsOptions {
                jobs: JobSelection {
                    names: config.list("metrics.jobs").map(str::to_owned).collect(),
                    tags: config.list("metrics.job_tags").map(str::to_owned).collect(),
                },
                store: config.parse("metrics.store", yes_or_no)?,
            },
            logs_completed: config.parse("jobs.log_completed", yes_or_no)?,
            collector: Collector::of(config)?,
            tokens: tokens::of_settings(config)?,
            data,
            store,
            http,
            pg: pg.map(|address| (address, config.is_set("pg"))),
            sql: SqlTerms {
                sessions: sessions(config)?,
                unauthenticated_max: config.parse("sql.unauthenticated_max", number)?,
                unauthenticated_per_address: config
                    .parse("sql.unauthenticated_per_address", number)?,
                patience: config.duration("sql.login_timeout")?.unsigned_abs(),
                message_bytes_max: config.parse("sql.message_bytes_max", number)?,
                statement_timeout: config.duration("sql.statement_timeout")?.unsigned_abs(),
                needs_tls: !insecure,
            },
            watch,
            certificate,
            admin_key,
            master_keys: key_custody::from_settings(config)?,
            grace: grace.try_into().unwrap_or_default(),
            settings,
            audit_head_every: config
                .duration("engine.audit_head_every")?
                .unsigned_abs()
                .max(Duration::from_secs(1)),
            options: server::Options {
                strict_concurrency: config.parse("api.strict_concurrency", yes_or_no)?,
                open_metrics,
                has_tls,
                body_bytes_max: config.parse("api.body_bytes_max", number)?,
                bulk_bytes_max: config.parse("api.bulk_bytes_max", number)?,
                stall_seconds_max: config.parse("api.stall_seconds_max", number)?,
                rate: Rate {
                    per_second: config.parse("api.rate_per_second", number)?,
                    burst: config.parse("api.rate_burst", number)?,
                },
                failure_rate: Rate {
                    per_second: config.parse("api.failures_per_second", number)?,
                    burst: config.parse("api.failures_burst", number)?,
                },
                reads: ReadLimits {
                    all: config.parse("api.reads_max", number)?,
                    per_tenant: config.parse("api.tenant_reads_max", number)?,
                    threads: std::thread::available_parallelism().map_or(2, NonZero::get),
                },
                databases,
                ui: ui(config)?,
                configuration: crate::cmd::config::shown(config),
            },
            queries: queries(config)?,
            limits: ListenerLimits {
                head: config.duration("api.head_timeout")?.unsigned_abs(),
                body: config.duration("api.body_timeout")?.unsigned_abs(),
                connections_max: config.parse("api.connections_max", number)?,
                unauthenticated_per_address: config
                    .parse("api.unauthenticated_per_address", number)?,
            },
        })
    }
}

/// How many SQL sessions there may be.
fn sessions(config: &Config) -> Result<SessionLimits, CliError> {
    let number = "a whole number";
    let limits = SessionLimits {
        connections_max: config.parse("sql.connections_max", number)?,
        reserved: config.parse("sql.reserved_connections", number)?,
        per_user: config.parse("sql.sessions_per_user", number)?,
        per_tenant: config.parse("sql.sessions_per_tenant", number)?,
    };
    if limits.reserved >= limits.connections_max {
        let right = format!("less than sql.connections_max, which is {}", limits.connections_max);
        return Err(config.wrong("sql.reserved_connections", &right));
    }
    Ok(limits)
}

/// The settings of the dashboard. Its path goes into a page unescaped, so only plain characters are
/// allowed.
fn ui(config: &Config) -> Result<UiOptions, CliError> {
    let base_path = config.text("ui.base_path").to_owned();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._~".contains(c);
    let is_path = base_path.starts_with('/') && base_path.ends_with('/');
    if !is_path || base_path.contains("//") || !base_path.chars().all(is_plain) {
        return Err(config.wrong("ui.base_path", "a path such as /ui/ or /punctual/ui/"));
    }
    let environment = config.text("ui.environment").trim().to_owned();
    Ok(UiOptions { base_path, environment: Some(environment).filter(|text| !text.is_empty()) })
}

/// The limits of queries.
fn queries(config: &Config) -> Result<QueryLimits, CliError> {
    let number = "a whole number";
    let at_least_one = |name: &str| match config.parse::<usize>(name, number)? {
        0 => Err(config.wrong(name, "at least 1")),
        most => Ok(most),
    };
    Ok(QueryLimits {
        pool: PoolLimits {
            running: at_least_one("sql.running_max")?,
            memory: config.parse("sql.memory_max", number)?,
            tenant_memory: config.parse("sql.tenant_memory_max", number)?,
        },
        statement_steps: config.parse("sql.statement_steps_max", number)?,
        statement_memory: config.parse("sql.statement_memory_max", number)?,
        statements: at_least_one("sql.statements_max")?,
        tenant_statements: at_least_one("sql.tenant_statements_max")?,
        read_timeout: config.duration("sql.read_timeout")?.unsigned_abs(),
    })
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

fn worker_lease(config: &Config) -> Result<SignedDuration, CliError> {
    let lease = config.duration("engine.worker_lease")?;
    let range = SignedDuration::from_secs(10)..=SignedDuration::from_mins(5);
    match range.contains(&lease) {
        true => Ok(lease),
        false => Err(config.wrong("engine.worker_lease", "a time from 10s to 5m")),
    }
}

fn roles(config: &Config) -> Result<Vec<NodeRole>, CliError> {
    let wrong = || config.wrong("engine.roles", "scheduler, agent or both");
    let roles = config.list("engine.roles").map(|role| NodeRole::of(role).ok_or_else(wrong));
    let mut roles: Vec<NodeRole> = roles.collect::<Result<_, _>>()?;
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { Err(wrong()) } else { Ok(roles) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    #[test]
    fn only_another_machine_has_another_clock() {
        let offset_max = |store: &str| {
            let empty = tempfile::NamedTempFile::new().unwrap();
            let flags = vec![("store", store.to_owned())];
            let file = Some(empty.path().to_owned());
            let config = Config::load(Sources { flags, file, environment: Vec::new() }).unwrap();
            ServerPlan::from_config(&config)
                .unwrap_or_else(|error| panic!("{error}"))
                .settings
                .clock_offset_max
        };
        assert_eq!(offset_max("sqlite"), None);
        assert!(offset_max("postgres://user@host/name").is_some());
    }
}
