//! The table of all settings.

/// One setting.
pub struct Key {
    /// Its path in the file.
    pub name: &'static str,
    /// Its value when it is not set.
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
        "`WORD=ROLE`: the role here of a word there, `*` for all users; the one of the same name when empty",
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
    key(
        "api.unauthenticated_per_address",
        "256",
        "connections of one address without a request with a valid key; the oldest that is silent makes way",
    ),
    key("api.reads_max", "32", "requests that read at the same time; more wait"),
    key("api.tenant_reads_max", "8", "those of one tenant"),
    key(
        "ui.base_path",
        "/ui/",
        "where browsers see the dashboard: `/ui/`, with what a proxy puts before it",
    ),
    key("ui.environment", "", "what every page of the dashboard names, such as `production`"),
    key("sql.connections_max", "256", "SQL sessions at the same time"),
    key(
        "sql.reserved_connections",
        "8",
        "sessions of these that only administrators of the cluster get",
    ),
    key("sql.sessions_per_user", "64", "SQL sessions of one user at the same time"),
    key("sql.sessions_per_tenant", "128", "SQL sessions of one tenant at the same time"),
    key("sql.strangers_max", "128", "SQL clients that have not logged in yet"),
    key(
        "sql.unauthenticated_per_address",
        "32",
        "those of one address; the oldest that is silent makes way",
    ),
    key("sql.login_patience", "10s", "how long a SQL client may take to log in"),
    key("sql.message_bytes_max", "4194304", "the longest message of a SQL client"),
    key("sql.statement_timeout", "60s", "how long a question may take; a session can say less"),
    key("sql.statement_steps_max", "2000000000", "steps of a question inside of the query engine"),
    key("sql.statement_memory_max", "67108864", "bytes of memory of a question"),
    key("sql.read_timeout", "60s", "how long a client may leave the rows unread that it asked for"),
    key(
        "sql.running_max",
        "2",
        "questions that compute at the same time, by turns; administrators have one more",
    ),
    key("sql.statements_max", "256", "questions at the same time, those that wait included"),
    key("sql.tenant_statements_max", "64", "those of one tenant"),
    key("sql.memory_max", "268435456", "bytes of memory of all questions together"),
    key("sql.tenant_memory_max", "134217728", "bytes of memory of those of one tenant"),
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
