//! Settings: flag, then environment, then file, then default; the only reader of the environment.
//!
//! Every setting has one row in [`KEYS`]. Its name is its path in the file; its variable is
//! `PUNCTUAL_` and the name in capitals, with two underscores for a dot. A secret can also be in a
//! file, whose path is in the variable with `_FILE` at its end.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use domain::schedule::parse_duration;
use jiff::SignedDuration;

use crate::complaint::Complaint;

/// One setting.
pub struct Key {
    /// Its path in the file.
    pub name: &'static str,
    /// Its value when nobody says.
    pub default: &'static str,
    /// Whether it is never shown.
    pub is_secret: bool,
    /// What it means.
    pub meaning: &'static str,
}

const fn key(name: &'static str, default: &'static str, meaning: &'static str) -> Key {
    Key { name, default, is_secret: false, meaning }
}

const fn secret(name: &'static str, default: &'static str, meaning: &'static str) -> Key {
    Key { name, default, is_secret: true, meaning }
}

/// Every setting, in the order of the reference.
pub const KEYS: &[Key] = &[
    key("data", "./punctual-data", "folder for the embedded store, keys and outputs"),
    secret("store", "sqlite", "`sqlite` in the data folder, or `postgres://…`"),
    key("http", "127.0.0.1:8630", "address of the HTTP door; port 0 takes a free one"),
    key(
        "pg",
        "127.0.0.1:8632",
        "address of the SQL door; port 0 takes a free one, `none` keeps it shut",
    ),
    key("tls_cert", "", "file of the certificate and those above it, in PEM; read again at SIGHUP"),
    key("tls_key", "", "file of its key, in PEM"),
    key("insecure", "false", "listen without TLS on addresses that others reach"),
    secret("admin_key", "", "the administrator's key; `admin.key` in the data folder when empty"),
    secret(
        "master_key",
        "",
        "what secrets are sealed under: 64 hex digits; several while one is replaced, the first seals; `master.key` in the data folder when empty",
    ),
    key("shutdown_grace", "30s", "how long running work may take to end at a shutdown"),
    key("log_format", "auto", "`pretty`, `json`, or `auto`: pretty on a terminal"),
    key("log", "info,refinery_core=warn", "what is logged, in the language of `RUST_LOG`"),
    key("api.strict_concurrency", "false", "whether a change must name the version it is based on"),
    key("api.open_metrics", "auto", "`true`, `false`, or `auto`: without a key on loopback only"),
    key("api.metrics_http", "", "an address of its own for `/metrics`, `/healthz` and `/readyz`"),
    key("api.body_bytes_max", "2097152", "the largest body of a request"),
    key("api.bulk_bytes_max", "67108864", "the largest body of a bulk request"),
    key(
        "api.stall_seconds_max",
        "15",
        "a step of the scheduler without an answer for longer makes the server unready",
    ),
    key(
        "auth.oidc.issuers",
        "",
        "issuers whose tokens are believed: `https://…`, or `TENANT=https://…` for those of one tenant",
    ),
    key("auth.oidc.audience", "", "for whom their tokens must be made: one of these"),
    key("auth.oidc.tenant_claim", "", "the claim with the name of the tenant"),
    key("auth.oidc.tenant", "", "the tenant of tokens that name none"),
    key("auth.oidc.roles_claim", "roles", "the claim with the roles; dots lead into it"),
    key(
        "auth.oidc.roles",
        "",
        "`WORD=ROLE`: the role here of a word there, `*` for everybody; the one of the same name when empty",
    ),
    key(
        "api.rate_per_second",
        "1000",
        "requests a second with one key in the long run; 0: no limit",
    ),
    key("api.rate_burst", "5000", "requests with one key at once after a pause"),
    key(
        "api.failures_per_second",
        "5",
        "requests a second without a valid key from one address in the long run; 0: no limit",
    ),
    key("api.failures_burst", "50", "requests without a valid key from one address at once"),
    key("api.head_patience", "20s", "how long a caller may take for the head of a request"),
    key("api.body_patience", "120s", "how long a caller may take for the body of a request"),
    key("api.connections_max", "4096", "connections at the same time; more wait at the door"),
    key("sql.connections_max", "256", "SQL sessions at the same time"),
    key(
        "sql.strangers_max",
        "128",
        "SQL clients that have not logged in yet; more wait at the door",
    ),
    key("sql.login_patience", "10s", "how long a SQL client may take to log in"),
    key("sql.message_bytes_max", "4194304", "the longest message of a SQL client"),
    key("sql.statement_timeout", "60s", "how long a question may take; a session can say less"),
    key(
        "engine.name",
        "",
        "the node's name: the same after a restart, and no other node's; host and port when empty",
    ),
    key("engine.roles", "scheduler,agent", "what the node does: `scheduler`, `agent` or both"),
    key(
        "engine.labels",
        "",
        "what is known about the node's place: `key=value`, for jobs that ask",
    ),
    key("engine.max_concurrent_jobs", "64", "runs at the same time here, without HTTP calls"),
    key("engine.max_http_calls", "4096", "HTTP calls at the same time here, bounded by open files"),
    key(
        "engine.max_runs_per_job",
        "16",
        "runs at a time of a job that allows overlap and has no limit",
    ),
    key("engine.tenant_max_concurrent", "", "runs of one tenant at the same time, on all nodes"),
    key(
        "engine.job_timeout_max",
        "",
        "the longest that an attempt may take, whatever its job says",
    ),
    key("engine.look_ahead", "120s", "jobs that are due within this time are planned now"),
    key(
        "engine.divide_planning_above",
        "100000",
        "with more scheduled jobs than this, each scheduler plans a share of them ahead",
    ),
    key("engine.lease", "10s", "how long a silent node keeps what it holds"),
    key("engine.renew_every", "3s", "how often the lease is renewed"),
    key("engine.poll_every", "1s", "how often the store is asked for work without a hint"),
    key("engine.retention_days", "30", "days that history is kept; 0 keeps none"),
    key(
        "engine.failed_retention_days",
        "90",
        "days that failed runs are kept; no fewer than others",
    ),
    key("engine.audit_retention_days", "365", "days that the audit is kept"),
    key("agent.server", "", "where `punctual agent` finds its servers: `https://…`"),
    secret("agent.join", "", "the token with which it joins; needed once"),
    key("agent.ca", "", "file of certificates that vouch for its servers, in PEM"),
    key("agent.exclusive", "false", "whether it takes only runs that ask for its labels"),
    secret("alerts.webhook_url", "", "where alerts are posted to"),
    secret(
        "alerts.webhook_secret",
        "",
        "what signs them: `whsec_…`; several while one is replaced",
    ),
    key(
        "otlp.endpoint",
        "",
        "the collector that a trace of each run is sent to, by OTLP over HTTP",
    ),
    secret("otlp.headers", "", "fields of the requests to it: `name=value`, for its key"),
    key("jobs.http_allow_private", "", "targets that are not public and HTTP jobs may call"),
    key(
        "jobs.database",
        "",
        "the database of SQL jobs that name none; on the embedded store `main`, a file in the data folder",
    ),
    key("jobs.output_head_bytes", "5242880", "how many of the first bytes of an output are kept"),
    key("jobs.output_tail_bytes", "5242880", "how many of the last bytes of an output are kept"),
    key("external.enabled", "false", "whether jobs may start commands of this machine"),
    key("external.allow", "", "the commands: files, or folders with everything in them"),
    key(
        "external.working_directory",
        "",
        "a folder that all commands run in and may write; the scratch directory of each run if empty",
    ),
    key("external.variables", "", "variables that a job may set: names, or beginnings with `*`"),
    key(
        "external.environment",
        "PATH=/usr/local/bin:/usr/bin:/bin,LANG=C.UTF-8",
        "variables that every command gets: `NAME=value`",
    ),
    key(
        "external.user",
        "",
        "as whom commands run: a name, or `UID:GID`; the server's user, or nobody if that is root",
    ),
    key("external.network", "deny", "`deny` or `allow` commands a network"),
    key("external.sandbox", "required", "`required`, `best-effort` or `off`"),
    key("external.readable", "", "other files and folders that commands may read"),
    key("external.writable", "", "other folders that commands may read and write"),
    key("external.cpu_seconds", "3600", "processor time of each process of a command"),
    key("external.memory_bytes", "1073741824", "memory of a command"),
    key("external.processes", "128", "processes and threads of a command"),
    key("external.open_files", "1024", "open files of each process of a command"),
    key("external.file_bytes", "1073741824", "the largest file that a command may write"),
    key("external.scratch_bytes", "268435456", "the size of the scratch directory of a run"),
];

/// Tables of settings whose names are made up by the administrator; their values are secrets.
const TABLES: &[(&str, &str)] = &[
    (
        "databases",
        "where SQL jobs of the tenant `default` may work, by name: `postgres://user@host/name` or `sqlite:/path/to/file.db`",
    ),
    ("backup.targets", "where backups may go, by name: `/path/to/folder`"),
];

/// Variables of ours that are not settings of the server.
const OTHER_VARIABLES: &[&str] = &[
    "PUNCTUAL_CONFIG",
    "PUNCTUAL_CONTEXT",
    "PUNCTUAL_TENANT",
    "PUNCTUAL_TOKEN",
    "PUNCTUAL_TOKEN_FILE",
    "PUNCTUAL_URL",
];

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said.
    Default,
    /// The file.
    File(PathBuf),
    /// A variable of the environment.
    Environment(String),
    /// A flag of the command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path) => write!(f, "{}", path.display()),
            Origin::Environment(name) => write!(f, "${name}"),
            Origin::Flag(name) => f.write_str(name),
        }
    }
}

/// Every setting with its value and where that comes from.
pub struct Config {
    values: BTreeMap<&'static str, (String, Origin)>,
    /// By table and name.
    named: BTreeMap<(&'static str, String), (String, Origin)>,
}

/// What the process was given.
pub struct Sources {
    /// Flags, by the name of their setting.
    pub flags: Vec<(&'static str, String)>,
    /// The file that a flag names.
    pub file: Option<PathBuf>,
    /// The environment.
    pub environment: Vec<(String, String)>,
}

/// The environment of this process.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub fn environment() -> Vec<(String, String)> {
    let text = |value: std::ffi::OsString| value.into_string().ok();
    std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
}

impl Config {
    /// Puts the sources together. Every value is checked, and so is every name.
    pub fn load(sources: Sources) -> Result<Self, Complaint> {
        let mut config = Config {
            values: KEYS
                .iter()
                .map(|key| (key.name, (key.default.to_owned(), Origin::Default)))
                .collect(),
            named: BTreeMap::new(),
        };
        let named = |name: &str| {
            let found = sources.environment.iter().find(|(variable, _)| variable == name);
            found.map(|(_, value)| value.as_str())
        };
        let given = sources.file.clone().or_else(|| named("PUNCTUAL_CONFIG").map(PathBuf::from));
        match given {
            Some(path) => config.read_file(&path)?,
            None => {
                let usual = ["punctual.toml", "/etc/punctual/punctual.toml"].map(Path::new);
                if let Some(path) = usual.into_iter().find(|path| path.exists()) {
                    config.read_file(path)?;
                }
            }
        }
        if let Some(log) = named("RUST_LOG") {
            config.set("log", log.to_owned(), Origin::Environment("RUST_LOG".into()));
        }
        if let Some(folder) = named("CREDENTIALS_DIRECTORY") {
            config.read_credentials(Path::new(folder))?;
        }
        config.read_environment(&sources.environment)?;
        for (name, value) in sources.flags {
            let flag = format!("--{}", name.replace('_', "-"));
            config.set(name, value, Origin::Flag(flag));
        }
        Ok(config)
    }

    fn set(&mut self, name: &'static str, value: String, origin: Origin) {
        self.values.insert(name, (value, origin));
    }

    fn read_file(&mut self, path: &Path) -> Result<(), Complaint> {
        let text = read(path)?;
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            Complaint::new(format!("{}: {}", path.display(), error.message()))
        })?;
        let mut values = Vec::new();
        flatten("", &toml::Value::Table(table), &mut values);
        for (name, value) in values {
            if let Some((table, name)) = in_table(&name)
                && let Some(value) = value
            {
                self.named.insert((table, name), (value, Origin::File(path.to_owned())));
                continue;
            }
            let key = known(&name).ok_or_else(|| {
                let names = KEYS.iter().map(|key| key.name.to_owned());
                unknown(format!("{}: there is no setting {name:?}", path.display()), &name, names)
            })?;
            let value = value.ok_or_else(|| {
                Complaint::new(format!("{}: {name} must be a plain value", path.display()))
            })?;
            self.set(key.name, value, Origin::File(path.to_owned()));
        }
        Ok(())
    }

    fn read_environment(&mut self, environment: &[(String, String)]) -> Result<(), Complaint> {
        let told_to_jobs = agent::context::FACTS.iter().map(|fact| fact.variable);
        let others: Vec<&str> = OTHER_VARIABLES.iter().copied().chain(told_to_jobs).collect();
        for (variable, value) in environment {
            let Some(rest) = variable.strip_prefix("PUNCTUAL_") else { continue };
            if others.contains(&variable.as_str()) {
                continue;
            }
            let name = rest.to_ascii_lowercase().replace("__", ".");
            let origin = Origin::Environment(variable.clone());
            if let Some(key) = known(&name) {
                self.set(key.name, value.clone(), origin);
                continue;
            }
            if let Some((table, name)) = in_table(&name) {
                self.named.insert((table, name), (value.clone(), origin));
                continue;
            }
            let in_file = name.strip_suffix("_file").and_then(known).filter(|key| key.is_secret);
            let Some(key) = in_file else {
                let names = KEYS.iter().map(|key| variable_of(key.name));
                let text = format!("there is no setting of the variable {variable}");
                return Err(unknown(text, variable, names));
            };
            let text = read(Path::new(value))?;
            self.set(key.name, text.trim().to_owned(), origin);
        }
        Ok(())
    }

    /// Secrets that the service manager hands over as files, by the name of their setting.
    fn read_credentials(&mut self, folder: &Path) -> Result<(), Complaint> {
        for key in KEYS.iter().filter(|key| key.is_secret) {
            let path = folder.join(key.name);
            if path.exists() {
                let text = read(&path)?;
                self.set(key.name, text.trim().to_owned(), Origin::File(path));
            }
        }
        Ok(())
    }

    /// Every setting: its row, its value, where that comes from.
    pub fn all(&self) -> impl Iterator<Item = (&'static Key, &str, &Origin)> {
        KEYS.iter().map(|key| {
            let (value, origin) = &self.values[key.name];
            (key, value.as_str(), origin)
        })
    }

    /// The names of a table and their values.
    pub fn named(&self, table: &'static str) -> impl Iterator<Item = (&str, &str)> {
        let all = self.named.iter().filter(move |((of, _), _)| *of == table);
        all.map(|((_, name), (value, _))| (name.as_str(), value.as_str()))
    }

    /// Every name of every table, and where its value comes from.
    pub fn all_named(&self) -> impl Iterator<Item = (String, &'static str, &Origin)> {
        self.named.iter().map(|((table, name), (_, origin))| {
            let meaning = TABLES.iter().find(|(of, _)| of == table).map_or("", |(_, text)| *text);
            (format!("{table}.{name}"), meaning, origin)
        })
    }

    /// The value of a setting.
    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", |(value, _)| value)
    }

    /// The value of a setting that is a list.
    pub fn list(&self, name: &str) -> impl Iterator<Item = &str> {
        self.text(name).split(',').map(str::trim).filter(|item| !item.is_empty())
    }

    /// The value of a setting as something that is made from text.
    pub fn parse<T: std::str::FromStr>(&self, name: &str, right: &str) -> Result<T, Complaint> {
        self.text(name).parse().map_err(|_| self.wrong(name, right))
    }

    /// The value of a setting that may be empty.
    pub fn parse_optional<T: std::str::FromStr>(
        &self,
        name: &str,
        right: &str,
    ) -> Result<Option<T>, Complaint> {
        if self.text(name).is_empty() { Ok(None) } else { self.parse(name, right).map(Some) }
    }

    /// The value of a setting as a duration that is not zero.
    pub fn duration(&self, name: &str) -> Result<SignedDuration, Complaint> {
        match parse_duration(self.text(name)) {
            Ok(duration) if duration.is_positive() => Ok(duration),
            Ok(_) => Err(self.wrong(name, "a duration longer than nothing")),
            Err(error) => Err(self.wrong(name, &error.problem)),
        }
    }

    /// Whether somebody has said what it is.
    pub fn is_set(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|(_, origin)| *origin != Origin::Default)
    }

    /// The complaint about a value.
    pub fn wrong(&self, name: &str, right: &str) -> Complaint {
        let (value, origin) = &self.values[name];
        let is_secret = known(name).is_some_and(|key| key.is_secret);
        let shown = if is_secret { "its value".to_owned() } else { format!("{value:?}") };
        Complaint::new(format!("{name}: {shown} does not fit (from {origin})"))
            .hint(format!("it must be {right}"))
    }
}

fn known(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The table and the rest of a name that begins with one.
fn in_table(name: &str) -> Option<(&'static str, String)> {
    let within = |table: &str| name.strip_prefix(table)?.strip_prefix('.');
    let (table, rest) = TABLES.iter().find_map(|(table, _)| Some((*table, within(table)?)))?;
    let harmless = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (!rest.is_empty() && rest.chars().all(harmless)).then(|| (table, rest.to_owned()))
}

/// The variable of a setting.
fn variable_of(name: &str) -> String {
    format!("PUNCTUAL_{}", name.replace('.', "__").to_ascii_uppercase())
}

fn unknown(text: String, name: &str, names: impl Iterator<Item = String>) -> Complaint {
    let nearest = names
        .map(|known| (strsim::damerau_levenshtein(name, &known), known))
        .min()
        .filter(|(distance, known)| *distance <= 2 + known.len() / 5);
    match nearest {
        Some((_, known)) => Complaint::new(text).hint(format!("did you mean {known}?")),
        None => Complaint::new(text).hint("punctual config show lists every setting"),
    }
}

fn read(path: &Path) -> Result<String, Complaint> {
    std::fs::read_to_string(path)
        .map_err(|error| Complaint::new(format!("{} cannot be read: {error}", path.display())))
}

/// The values of a file by their paths; none for what is not a plain value.
fn flatten(path: &str, value: &toml::Value, values: &mut Vec<(String, Option<String>)>) {
    let text = match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(&path, value, values);
            }
            return;
        }
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(yes) => Some(yes.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Array(items) => items
            .iter()
            .map(toml::Value::as_str)
            .collect::<Option<Vec<&str>>>()
            .map(|items| items.join(",")),
        toml::Value::Datetime(_) => None,
    };
    values.push((path.to_owned(), text));
}

#[cfg(test)]
mod tests;
