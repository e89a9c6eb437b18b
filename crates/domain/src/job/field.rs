//! Every field of a job, once: its names in SQL, REST, flags and `sys.jobs`, and its meaning.
//!
//! The interfaces read, check and show the fields with a [`Policy`] from this table alone. The
//! others (schedule, action, retries …) have code of their own; here they have their names, in the
//! order in which all interfaces list fields.

use super::policy::{Policy, PolicyType, Shown, kind_of, policy};
use super::{Definition, OnLost};

/// A field of a job.
#[derive(Clone, Copy, Debug)]
pub struct JobField {
    /// Its name, unique in the table.
    pub name: &'static str,
    /// Its meaning, without a full stop.
    pub about: &'static str,
    /// The value that it has if it is absent, in words of REST; empty if there is none.
    pub absent: &'static str,
    /// Its names in SQL (clauses), over REST and in documents (keys), on the command line (flags
    /// without hyphens) and in `sys.jobs` (columns), with commas between several ones.
    names: [&'static str; 4],
    /// How it is read and shown, unless it has code of its own.
    pub policy: Option<Policy>,
    /// Whether SQL has code of its own for it.
    pub has_own_sql: bool,
    /// Whether the command line has code of its own for it.
    pub has_own_flag: bool,
}

impl PartialEq for JobField {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// A field with code of its own in each interface.
const fn own(name: &'static str, about: &'static str) -> JobField {
    JobField {
        name,
        about,
        absent: "",
        names: [""; 4],
        policy: None,
        has_own_sql: true,
        has_own_flag: true,
    }
}

/// A field that interfaces read and show by this table.
const fn simple(name: &'static str, policy: Policy, about: &'static str) -> JobField {
    let policy = Some(policy);
    JobField { policy, has_own_sql: false, has_own_flag: false, ..own(name, about) }
}

impl JobField {
    const fn absent(self, absent: &'static str) -> Self {
        JobField { absent, ..self }
    }

    const fn names(
        self,
        clauses: &'static str,
        keys: &'static str,
        flags: &'static str,
        columns: &'static str,
    ) -> Self {
        JobField { names: [clauses, keys, flags, columns], ..self }
    }

    const fn own_sql(self) -> Self {
        JobField { has_own_sql: true, ..self }
    }

    const fn own_flag(self) -> Self {
        JobField { has_own_flag: true, ..self }
    }

    /// Its clauses in SQL.
    pub fn clauses(&self) -> impl Iterator<Item = &'static str> {
        listed(self.names[0])
    }

    /// Its keys over REST and in documents.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        listed(self.names[1])
    }

    /// Its flags on the command line, without hyphens.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        listed(self.names[2])
    }

    /// Its columns in `sys.jobs`.
    pub fn columns(&self) -> impl Iterator<Item = &'static str> {
        listed(self.names[3])
    }

    /// The REST key of a field with a policy.
    pub fn key(&self) -> &'static str {
        self.names[1]
    }
}

fn listed(names: &'static str) -> impl Iterator<Item = &'static str> {
    names.split(", ").filter(|name| !name.is_empty())
}

/// The policies of the table that interfaces read and show alike.
pub fn policies() -> impl Iterator<Item = (&'static JobField, &'static Policy)> {
    JOB_FIELDS.iter().filter_map(|field| Some((field, field.policy.as_ref()?)))
}

/// The policy with a REST key.
pub fn policy_of_key(key: &str) -> Option<(&'static JobField, &'static Policy)> {
    policies().find(|(field, _)| field.key() == key)
}

const fn shown_if(policy: Policy, has_use: fn(&Definition) -> bool) -> Policy {
    Policy { shown: Shown::If(has_use), ..policy }
}

const fn unless_default(policy: Policy) -> Policy {
    Policy { shown: Shown::UnlessDefault, ..policy }
}

const fn of_range(policy: Policy, range: (Option<u32>, Option<u32>)) -> Policy {
    Policy { range, ..policy }
}

const fn named(policy: Policy, noun: &'static str) -> Policy {
    Policy { noun, ..policy }
}

const fn by_default(policy: Policy, words: &'static str) -> Policy {
    Policy { default_words: Some(words), ..policy }
}

fn asks(definition: &Definition) -> bool {
    definition.on_lost == OnLost::Ask
}

fn is_one_time(definition: &Definition) -> bool {
    definition.when.is_one_time()
}

/// Every field, in the order in which interfaces list them. The names are those of its clauses, REST
/// keys, flags and columns.
pub const JOB_FIELDS: &[JobField] = &[
    own("name", "Unique among the jobs of the tenant").names("", "name", "", "job_name"),
    simple("description", policy!(description), "For people").names(
        "DESCRIPTION",
        "description",
        "description",
        "description",
    ),
    own("status", "Whether it is scheduled").names(
        "STATE, ENABLED, DISABLED, PAUSED",
        "status",
        "paused",
        "state, state_detail",
    ),
    own("schedule", "When it is due").names(
        "SCHEDULE, TIMEZONE, DST GAP, DST OVERLAP",
        "job_type, cron_expression, timezone, dst, run_at, delay_seconds, \
             interval_seconds, starts_at, ends_at",
        "cron, every, at, in, tz",
        "schedule_kind, cron_expression, interval_seconds, starts_at, ends_at, \
             schedule_tz, schedule_type",
    ),
    own("action", "The action").names(
        "AS, DATABASE",
        "payload, artifact_id, entrypoint",
        "http, sql, procedure, command, shell, artifact, entrypoint, send-to, \
             backup, noop, database",
        "job_type, job_sql, procedure_uuid, external_command, procedure_name, \
             database_name, endpoint, action, artifact_id, entrypoint",
    ),
    own("retry", "When a failed attempt is tried again").names(
        "MAX_RETRIES, RETRY_BACKOFF, MAX_BACKOFF, BACKOFF_MULTIPLIER, \
             RETRY_JITTER, RETRY ON, NO RETRY ON",
        "retry_config",
        "retries, backoff",
        "max_retries, retry_backoff_seconds, max_backoff_seconds",
    ),
    simple(
        "timeout",
        by_default(policy!(timeout), "5m for HTTP jobs, 1h for others"),
        "How long one attempt may take",
    )
    .absent("when absent 300 for HTTP jobs and 3600 for others")
    .names("TIMEOUT", "timeout_seconds", "timeout", "timeout_seconds"),
    simple(
        "grace_period",
        policy!(grace_period),
        "How long a cancelled attempt may take to end by itself",
    )
    .absent("10 when absent")
    .names("GRACE_PERIOD", "grace_period_seconds", "grace", "grace_period_seconds"),
    simple("catch_up", policy!(catch_up), "The policy for missed times")
        .absent("`LAST` when absent")
        .names("CATCH_UP", "catch_up", "catch-up", "catch_up"),
    simple("max_catch_up", policy!(max_catch_up), "The most times that `ALL` runs")
        .absent("100 when absent")
        .names("MAX_CATCH_UP", "max_catch_up", "max-catch-up", "max_catch_up"),
    simple(
        "start_deadline",
        policy!(start_deadline),
        "A run that cannot start within this time after its nominal time is missed",
    )
    .names("START_DEADLINE", "start_deadline_seconds", "deadline", "start_deadline_seconds"),
    simple(
        "overlap",
        policy!(overlap),
        "The policy when a run is due and earlier ones have not ended",
    )
    .absent("`SKIP` when absent")
    .names("OVERLAP", "overlap", "overlap", "overlap"),
    simple(
        "concurrency",
        by_default(of_range(policy!(concurrency), (Some(1), None)), "1; 16 with overlap ALLOW"),
        "How many runs may be under way before `overlap` decides",
    )
    .absent(
        "1 when absent. With `ALLOW`, how\nmany may be under way at all, and \
         `engine.max_runs_per_job` when absent; others wait",
    )
    .names("CONCURRENCY", "concurrency", "concurrency", "concurrency"),
    simple(
        "jitter",
        unless_default(policy!(jitter)),
        "Spreads starts over this much time after the nominal time",
    )
    .names("JITTER", "jitter_seconds", "jitter", "jitter_seconds"),
    simple(
        "priority",
        of_range(policy!(priority), (None, Some(9))),
        "0 to 9, higher is more urgent",
    )
    .absent("5 when absent")
    .names("PRIORITY", "priority", "priority", "priority"),
    simple(
        "on_completion",
        shown_if(policy!(on_completion), is_one_time),
        "The policy for a one-time job when its run has ended",
    )
    .absent("`PRESERVE` when absent")
    .names("ON COMPLETION", "on_completion", "", "on_completion"),
    simple("on_lost", policy!(on_lost), "The policy for a run whose node was lost")
        .absent("`RETRY` when absent")
        .names("ON LOST", "on_lost", "on-lost", "on_lost")
        .own_sql(),
    simple(
        "on_lost_timeout",
        shown_if(policy!(lost_question.timeout), asks),
        "How long a run is HELD for a decision with `on_lost` `ASK`",
    )
    .absent("a day when absent")
    .names("", "on_lost_timeout_seconds", "on-lost-timeout", "")
    .own_sql(),
    simple(
        "on_lost_default",
        shown_if(policy!(lost_question.then), asks),
        "The outcome without a decision",
    )
    .absent("`FAIL` when absent")
    .names("", "on_lost_default", "on-lost-default", "")
    .own_sql(),
    own("depends_on", "Jobs that must have ended before this one starts").names(
        "DEPENDS ON",
        "depends_on",
        "after",
        "",
    ),
    simple(
        "dependency_rule",
        unless_default(policy!(dependency_rule)),
        "How many of them must have ended",
    )
    .absent("`ALL` when absent")
    .names("", "dependency_rule", "after-any", "")
    .own_sql()
    .own_flag(),
    simple("dependency_timeout", policy!(dependency_timeout), "How long a run waits for them")
        .absent("until the next nominal time when absent")
        .names("DEPENDENCY_TIMEOUT", "dependency_timeout_seconds", "", ""),
    simple(
        "tags",
        unless_default(named(of_range(policy!(tags), (None, Some(64))), "tag")),
        "Words to find it by",
    )
    .names("TAGS", "tags", "tag", "tags")
    .own_flag(),
    own("retention", "How long its history is kept").names("RETENTION", "retention", "", ""),
    simple("run_as", named(policy!(run_as), "role"), "The database role that it acts as")
        .names("RUN AS", "run_as", "", "run_as"),
    simple("class", unless_default(policy!(class)), "Where and how it is executed")
        .absent("`LOCAL_SAFE` when absent")
        .names("CLASS", "class", "class", "job_class"),
    own("run_on", "Labels of the nodes that may execute it")
        .names("RUN ON", "run_on", "run-on", "run_on"),
    own("partition", "On which shards it runs").names(
        "PARTITION BY",
        "partition",
        "all-shards, shard, shard-key, shard-expression",
        "partition_strategy, partition_shard_uuid, partition_expression, \
             partition_shards",
    ),
    own("parameters", "Values for its runs").names(
        "PARAMETERS",
        "parameters, parameters_from",
        "param, params-from, params-database",
        "parameters",
    ),
    own("calendars", "The calendars that its schedule includes or excludes").names(
        "EXCLUDE CALENDAR, CALENDAR, INCLUDE CALENDAR",
        "calendars",
        "exclude-calendar, include-calendar, no-calendar",
        "calendars",
    ),
    own("parameter_rules", "The parameters that its runs accept").names(
        "DECLARE",
        "parameter_rules",
        "declare",
        "parameter_rules",
    ),
    simple(
        "exactly_once",
        unless_default(policy!(exactly_once)),
        "Whether its statements are committed together with the record that they were carried \
         out: they\nwork in the database of the store, which is PostgreSQL",
    )
    .names("EXACTLY_ONCE", "exactly_once", "exactly-once", "exactly_once"),
    own("pool", "The pool in which a run takes a place before it begins").names(
        "POOL",
        "pool",
        "pool",
        "pool_name, pool_weight",
    ),
    own("version", "The version that a change is based on").names("", "version", "", "version"),
];
