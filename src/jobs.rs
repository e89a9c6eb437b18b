//! The limits and permissions of jobs, from the settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agent::artifact::ArtifactOptions;
use agent::descriptors::CallsMax;
use agent::guard::Rule;
use agent::sandbox::{Level, Limits, User};
use agent::{
    Database, DatabaseError, Databases, ExternalOptions, HttpOptions, Network, SqliteDatabase,
};

use crate::backup::{self, BackupTarget};
use crate::cli_error::CliError;
use crate::config::Config;

/// Reads the settings that are about jobs. Commands never see the data folder.
pub fn options(config: &Config, data: &Path) -> Result<agent::Options, CliError> {
    let embedded = config.text("store") == "sqlite";
    of_settings(config, data, embedded)
}

/// The same for an agent elsewhere: the database of the server's data folder is not there.
pub fn options_elsewhere(config: &Config, data: &Path) -> Result<agent::Options, CliError> {
    of_settings(config, data, false)
}

fn of_settings(config: &Config, data: &Path, embedded: bool) -> Result<agent::Options, CliError> {
    let mut allow_private = Vec::new();
    for rule in config.list("jobs.http_allow_private") {
        let right = "addresses, networks or host names that are not public, such as 10.1.0.0/16";
        let rule: Rule =
            rule.parse().map_err(|_| config.wrong("jobs.http_allow_private", right))?;
        allow_private.push(rule);
    }
    Ok(agent::Options {
        http: HttpOptions { allow_private, ..HttpOptions::default() },
        external: external(config, data)?,
        databases: databases(config, data, embedded)?,
        artifacts: artifacts(config, data)?,
        ..agent::Options::default()
    })
}

fn external(config: &Config, data: &Path) -> Result<ExternalOptions, CliError> {
    let paths = |name| config.list(name).map(PathBuf::from).collect::<Vec<PathBuf>>();
    let external = ExternalOptions {
        enabled: config.parse("external.enabled", "true or false")?,
        allow: paths("external.allow"),
        working_directory: match config.text("external.working_directory") {
            "" => None,
            path => Some(path.into()),
        },
        environment: environment(config)?,
        variables: config.list("external.variables").map(str::to_owned).collect(),
        limits: limits(config)?,
        user: match config.text("external.user") {
            "" => None,
            name => Some(User::find(name).map_err(|right| config.wrong("external.user", &right))?),
        },
        network: match config.text("external.network") {
            "deny" => Network::Deny,
            "allow" => Network::Allow,
            _ => return Err(config.wrong("external.network", "deny or allow")),
        },
        sandbox: match config.text("external.sandbox") {
            "required" => Level::Required,
            "best-effort" => Level::BestEffort,
            "off" => Level::Off,
            _ => return Err(config.wrong("external.sandbox", "required, best-effort or off")),
        },
        readable: paths("external.readable"),
        writable: paths("external.writable"),
        protected: protected(config, data)?,
        ..ExternalOptions::default()
    };
    match external.check() {
        Ok(()) => Ok(external),
        Err(error) => Err(CliError::new(format!("external.{error}"))),
    }
}

/// Whether and how artifacts are run. Their sandbox and limits are those of external commands.
fn artifacts(config: &Config, data: &Path) -> Result<ArtifactOptions, CliError> {
    Ok(ArtifactOptions {
        enabled: config.parse("artifacts.enabled", "true or false")?,
        folder: data.join("artifact-cache"),
        cache_bytes_max: config.parse("artifacts.cache_bytes", "a whole number")?,
        python: config.text("artifacts.python").into(),
        ..ArtifactOptions::default()
    })
}

/// How many HTTP calls this process makes at the same time: the limit of the settings, as far as
/// the limit on open files allows.
pub fn http_calls_max(wanted: u32, max_concurrent_jobs: u32) -> u32 {
    match agent::descriptors::http_calls_max(wanted, max_concurrent_jobs) {
        Ok(most) => {
            let CallsMax { calls, open_files } = most;
            if calls < wanted {
                tracing::warn!(
                    wanted,
                    calls,
                    open_files,
                    "engine.max_http_calls was lowered to fit the limit on open files (LimitNOFILE, ulimit -n)"
                );
            }
            calls
        }
        Err(error) => {
            tracing::warn!(%error, "cannot read the limit on open files");
            wanted
        }
    }
}

fn environment(config: &Config) -> Result<BTreeMap<String, String>, CliError> {
    let right = "variables as NAME=value, with commas between them";
    let read = |item: &str| {
        let (name, value) = item.split_once('=').filter(|(name, _)| !name.trim().is_empty())?;
        Some((name.trim().to_owned(), value.to_owned()))
    };
    let all = config.list("external.environment").map(read).collect::<Option<_>>();
    all.ok_or_else(|| config.wrong("external.environment", right))
}

/// How much of the machine a command may use. A limit of nothing would be a command that cannot
/// begin.
fn limits(config: &Config) -> Result<Limits, CliError> {
    let limit = |name: &str| match config.parse(name, "a whole number")? {
        0 => Err(config.wrong(name, "at least 1")),
        limit => Ok(limit),
    };
    Ok(Limits {
        cpu_seconds: limit("external.cpu_seconds")?,
        memory_bytes: limit("external.memory_bytes")?,
        processes: limit("external.processes")?,
        open_files: limit("external.open_files")?,
        file_bytes: limit("external.file_bytes")?,
        scratch_bytes: limit("external.scratch_bytes")?,
    })
}

/// How much of an output is kept.
pub fn output_limits(config: &Config) -> Result<agent::output::Limits, CliError> {
    Ok(agent::output::Limits {
        head_bytes: config.parse("jobs.output_head_bytes", "a whole number")?,
        tail_bytes: config.parse("jobs.output_tail_bytes", "a whole number")?,
    })
}

/// Which outputs move to object storage. That must be one that every server reaches, so that readers
/// find them there.
pub fn archive_rule(config: &Config) -> Result<server::ArchiveRule, CliError> {
    let (after, bytes) = ("jobs.output_archive_after", "jobs.output_archive_bytes");
    let rule = server::ArchiveRule {
        after: match config.text(after) {
            "" => None,
            _ => Some(config.duration(after)?),
        },
        bytes: config.parse_optional(bytes, "a whole number")?,
    };
    if rule != server::ArchiveRule::default() && config.text("artifacts.url").is_empty() {
        let set = if rule.after.is_some() { after } else { bytes };
        return Err(CliError::new(format!("{set} needs object storage"))
            .hint("set artifacts.url to storage that all servers reach"));
    }
    Ok(rule)
}

/// The paths that commands never see: the data folder and copies of it, the files of settings,
/// which may hold passwords, and the key of the certificate.
fn protected(config: &Config, data: &Path) -> Result<Vec<PathBuf>, CliError> {
    let targets = backup::targets(config)?.into_values().filter_map(|target| match target {
        BackupTarget::Folder(folder) => Some(folder),
        BackupTarget::Storage(_) => None,
    });
    let storage = config.text("artifacts.url");
    let storage = storage.strip_prefix("file://").unwrap_or(storage);
    let storage = Some(storage).filter(|path| path.starts_with('/')).map(PathBuf::from);
    let files = config.files().map(Path::to_owned);
    let key = Some(config.text("tls_key")).filter(|key| !key.is_empty()).map(PathBuf::from);
    let all = [data.to_owned()].into_iter().chain(targets).chain(storage).chain(files).chain(key);
    Ok(all.map(|path| std::path::absolute(&path).unwrap_or(path)).collect())
}

/// The name of the database that is there without being configured.
const EMBEDDED: &str = "main";

/// The addresses of the databases of the settings, by name.
pub fn addresses(config: &Config, data: &Path) -> BTreeMap<String, String> {
    let named = config.named("databases");
    let mut all: BTreeMap<String, String> =
        named.map(|(name, url)| (name.to_owned(), url.to_owned())).collect();
    if config.text("store") == "sqlite" {
        let file = data.join("main.db");
        all.entry(EMBEDDED.to_owned()).or_insert_with(|| format!("sqlite:{}", file.display()));
    }
    all
}

/// The database of jobs that name none on a server, which the owner of such a job must be allowed
/// to use: that of the settings, or the one of the embedded store.
pub fn default_database(config: &Config) -> Option<&str> {
    let is_embedded = config.text("store") == "sqlite";
    match config.text("jobs.database") {
        "" => (is_embedded || config.named("databases").any(|(name, _)| name == EMBEDDED))
            .then_some(EMBEDDED),
        name => Some(name),
    }
}

/// The databases of the settings. A server on the embedded store has one more, a file of its own,
/// so that SQL jobs work at once; nodes of a cluster would each have another one.
fn databases(config: &Config, data: &Path, embedded: bool) -> Result<Databases, CliError> {
    let mut all = BTreeMap::new();
    if embedded {
        let file = data.join("main.db");
        all.insert(EMBEDDED.to_owned(), Database::Sqlite(SqliteDatabase::new(file)));
    }
    for (name, url) in config.named("databases") {
        let database = Database::parse(url).map_err(|error| match error {
            DatabaseError::Bad { problem, .. } => {
                CliError::new(format!("databases.{name}: {problem}"))
            }
            error => CliError::new(format!("databases.{name}: {error}")),
        })?;
        all.insert(name.to_owned(), database);
    }
    let default = match config.text("jobs.database") {
        "" => all.contains_key(EMBEDDED).then_some(EMBEDDED),
        name => Some(name),
    };
    let default = default.map(str::to_owned);
    Databases::new(all, default).map_err(|error| CliError::new(format!("jobs.database: {error}")))
}
