//! The table of all settings.

/// One setting.
pub struct SettingKey {
    /// Its path in the file.
    pub name: &'static str,
    /// Its value when it is not set.
    pub default: &'static str,
    /// Whether it is never shown.
    pub is_secret: bool,
    /// The description in docs and `config show`.
    pub meaning: &'static str,
}

const fn key(name: &'static str, default: &'static str, meaning: &'static str) -> SettingKey {
    SettingKey { name, default, is_secret: false, meaning }
}

const fn secret(name: &'static str, default: &'static str, meaning: &'static str) -> SettingKey {
    SettingKey { name, default, is_secret: true, meaning }
}

/// Every setting, in the order of the reference.
pub const KEYS: &[SettingKey] = &[
    key("data", "./punctual-data", "folder for the embedded store, keys and outputs"),
    secret("store", "sqlite", "`sqlite` in the data folder, or `postgres://…`"),
    key("http", "127.0.0.1:8630", "address of the HTTP listener; port 0 uses a free one"),
    key(
        "pg",
        "127.0.0.1:8632",
        "address of the SQL listener; port 0 uses a free one, `none` disables it",
    ),
    key("tls_cert", "", "file of the certificate chain, in PEM; reloaded on SIGHUP"),
    key("tls_key", "", "file of its private key, in PEM"),
    key("insecure", "false", "allow listening without TLS on addresses other than loopback"),
    secret("admin_key", "", "the administrator's key; default: `admin.key` in the data folder"),
    secret(
        "master_key",
        "",
        "encrypts secrets: 64 hex digits; several keys during a rotation, the first encrypts; default: `master.key` in the data folder",
    ),
    key("shutdown_grace", "30s", "how long running work may take to end on shutdown"),
    key("log_format", "auto", "`pretty`, `json`, or `auto`: pretty on a terminal"),
    key("log", "info,refinery_core=warn", "log filter, in the syntax of `RUST_LOG`"),
    key(
        "api.strict_concurrency",
        "false",
        "whether a change must name the version that it is based on",
    ),
    key("api.open_metrics", "auto", "`true`, `false`, or `auto`: without a key on loopback only"),
    key("api.metrics_http", "", "a separate address for `/metrics`, `/healthz` and `/readyz`"),
    key("metrics.jobs", "", "names of jobs that have metrics of their own"),
    key("metrics.job_tags", "", "tags of jobs that have metrics of their own"),
    key("metrics.store", "true", "whether `/metrics` shows the operations of the store"),
    key("api.body_bytes_max", "2097152", "maximum size of a request body"),
    key("api.bulk_bytes_max", "67108864", "maximum size of the body of a bulk request"),
    key(
        "api.stall_seconds_max",
        "15",
        "the server is unready if a scheduler loop has not completed a step for longer",
    ),
    key(
        "auth.oidc.issuers",
        "",
        "trusted token issuers: `https://…`, or `TENANT=https://…` for one tenant",
    ),
    key("auth.oidc.audience", "", "accepted audiences of tokens"),
    key("auth.oidc.tenant_claim", "", "the claim with the name of the tenant"),
    key("auth.oidc.tenant", "", "the tenant of tokens without the tenant claim"),
    key("auth.oidc.roles_claim", "roles", "the claim with the roles; dots separate nested names"),
    key(
        "auth.oidc.roles",
        "",
        "`CLAIM=ROLE`: maps values of the claim to roles, `*` for all users; default: the role of the same name",
    ),
    key(
        "auth.oidc.client_id",
        "",
        "the client that this server is at its issuers: browsers can log in there",
    ),
    secret("auth.oidc.client_secret", "", "the secret of that client, if the issuer demands one"),
    key(
        "auth.oidc.redirect_url",
        "",
        "where browsers come back to: `https://…/v1/session/oidc/callback`, as they see it",
    ),
    key("api.rate_per_second", "1000", "requests per second with one key on average; 0: no limit"),
    key("api.rate_burst", "5000", "requests with one key at once after a pause"),
    key(
        "api.failures_per_second",
        "5",
        "requests per second without a valid key from one address on average; 0: no limit",
    ),
    key("api.failures_burst", "50", "requests without a valid key from one address at once"),
    key("api.head_timeout", "20s", "timeout for the head of a request"),
    key("api.body_timeout", "120s", "timeout for the body of a request"),
    key("api.connections_max", "4096", "concurrent connections; further ones wait"),
    key(
        "api.unauthenticated_per_address",
        "256",
        "connections of one address without a valid key; the longest idle one is closed for a new one",
    ),
    key("api.reads_max", "32", "concurrent read requests; further ones wait"),
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
        "sessions of these that are reserved for cluster administrators",
    ),
    key("sql.sessions_per_user", "64", "concurrent SQL sessions of one user"),
    key("sql.sessions_per_tenant", "128", "concurrent SQL sessions of one tenant"),
    key("sql.unauthenticated_max", "128", "unauthenticated SQL clients"),
    key(
        "sql.unauthenticated_per_address",
        "64",
        "unauthenticated SQL clients of one address; the longest idle one is disconnected for a new one",
    ),
    key("sql.login_timeout", "10s", "timeout of a SQL login"),
    key("sql.message_bytes_max", "4194304", "maximum size of a message of a SQL client"),
    key("sql.statement_timeout", "60s", "timeout of a query; a session can lower it"),
    key("sql.statement_steps_max", "2000000000", "maximum steps of a query in the query engine"),
    key("sql.statement_memory_max", "67108864", "memory of a query in bytes"),
    key("sql.read_timeout", "60s", "how long a client may leave rows unread"),
    key(
        "sql.running_max",
        "2",
        "queries that compute at the same time, in turns; administrators have one more",
    ),
    key("sql.statements_max", "256", "concurrent queries, including waiting ones"),
    key(
        "sql.tenant_statements_max",
        "64",
        "concurrent queries of one tenant, including waiting ones",
    ),
    key("sql.memory_max", "268435456", "memory of all queries in bytes"),
    key("sql.tenant_memory_max", "134217728", "memory of the queries of one tenant in bytes"),
    key(
        "engine.name",
        "",
        "unique name of the node, the same after a restart; default: host and port",
    ),
    key("engine.roles", "scheduler,agent", "roles of the node: `scheduler`, `agent` or both"),
    key("engine.labels", "", "labels of the node: `key=value`, for jobs with `run_on`"),
    key(
        "engine.max_concurrent_jobs",
        "64",
        "process slots: concurrent runs of the node without HTTP calls",
    ),
    key(
        "engine.max_http_calls",
        "4096",
        "HTTP slots: concurrent HTTP calls of the node, bounded by open files",
    ),
    key(
        "engine.max_runs_per_job",
        "16",
        "concurrent runs of a job that allows overlap and sets no limit",
    ),
    key("engine.tenant_max_concurrent", "", "concurrent runs of one tenant on all nodes"),
    key("engine.job_timeout_max", "", "maximum timeout of an attempt"),
    key("engine.look_ahead", "120s", "how far ahead jobs are planned"),
    key(
        "engine.planning_buckets_above",
        "100000",
        "with more scheduled jobs than this, the schedulers divide planning",
    ),
    key(
        "engine.lease",
        "10s",
        "lease of a node: after this time without a renewal it is declared dead",
    ),
    key("engine.renew_every", "3s", "interval of lease renewals"),
    key(
        "engine.worker_lease",
        "20s",
        "lease of a worker session: after this time without a poll its messages are ready again; 10s to 5m",
    ),
    key("engine.poll_every", "1s", "interval of claims without a notification"),
    key("engine.retention_days", "30", "days that history is kept; 0 keeps none"),
    key(
        "engine.failed_retention_days",
        "90",
        "days that failed runs are kept; no fewer than others",
    ),
    key("engine.audit_retention_days", "365", "days that the audit log is kept"),
    key(
        "engine.audit_head_every",
        "1h",
        "how often the changed heads of the audit log are written to the server's log",
    ),
    key("agent.server", "", "addresses of the servers of `punctual agent`: `https://…`"),
    secret("agent.join", "", "join token of the agent; needed once"),
    key("agent.ca", "", "file of trusted certificates for its servers, in PEM"),
    key("agent.exclusive", "false", "whether the agent executes only runs that ask for its labels"),
    secret("alerts.webhook_url", "", "address that alerts are posted to"),
    secret(
        "alerts.webhook_secret",
        "",
        "signs alerts: `whsec_…`; several secrets during a rotation",
    ),
    key("otlp.endpoint", "", "OpenTelemetry collector for a trace of each run, by OTLP over HTTP"),
    secret("otlp.headers", "", "headers of the requests to it: `name=value`"),
    key("jobs.http_allow_private", "", "targets that are not public and that HTTP jobs may call"),
    key(
        "jobs.database",
        "",
        "the default database of SQL jobs; on the embedded store `main`, a file in the data folder",
    ),
    key(
        "jobs.log_completed",
        "false",
        "whether each attempt that completed gets a line in the log",
    ),
    key("jobs.output_head_bytes", "5242880", "how many of the first bytes of an output are stored"),
    key("jobs.output_tail_bytes", "5242880", "how many of the last bytes of an output are stored"),
    key(
        "jobs.output_archive_after",
        "",
        "age at which outputs of ended runs move to the storage of `artifacts.url`, for example `7d`",
    ),
    key(
        "jobs.output_archive_bytes",
        "",
        "size of its files from which an output moves there as soon as its run has ended",
    ),
    secret(
        "artifacts.url",
        "",
        "where artifacts are kept: `/path/to/folder`, `s3://bucket/prefix?region=…&endpoint=…`, `gs://bucket/prefix` or `az://container/prefix`; default: a folder in the data folder",
    ),
    secret(
        "artifacts.credentials",
        "",
        "credentials of that storage: `KEY_ID:SECRET` for S3, the JSON of a service account for `gs`, `ACCOUNT:KEY` for `az`; default: the rights of the machine",
    ),
    key(
        "artifacts.enabled",
        "false",
        "whether this node runs artifacts; the sandbox and its limits are those of `external.*`",
    ),
    key("artifacts.cache_bytes", "2147483648", "size of the node's cache of unpacked artifacts"),
    key("artifacts.python", "/usr/bin/python3", "the Python that runs `module:function`"),
    key("artifacts.bytes_max", "536870912", "maximum size of the archive of an artifact"),
    key(
        "artifacts.keep_versions",
        "",
        "newest versions of each artifact that are kept; older ones that no job uses are deleted",
    ),
    key(
        "artifacts.keep_days",
        "",
        "days that versions are kept at least; older ones that no job uses are deleted",
    ),
    secret(
        "backup.credentials",
        "",
        "credentials of backup targets in object storage, in the form of `artifacts.credentials`",
    ),
    key("external.enabled", "false", "whether jobs may start commands"),
    key("external.allow", "", "the allowed commands: files, or folders with everything in them"),
    key(
        "external.working_directory",
        "",
        "working directory of all commands, writable; default: the scratch directory of each run",
    ),
    key("external.variables", "", "variables that a job may set: names, or prefixes with `*`"),
    key(
        "external.environment",
        "PATH=/usr/local/bin:/usr/bin:/bin,LANG=C.UTF-8",
        "variables that every command gets: `NAME=value`",
    ),
    key(
        "external.user",
        "",
        "the user that commands run as: a name, or `UID:GID`; default: the server's user, or `nobody` if that is root",
    ),
    key("external.network", "deny", "`deny` or `allow` network access of commands"),
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
