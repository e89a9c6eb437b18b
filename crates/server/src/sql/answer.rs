//! Answers of statements.

use std::sync::Arc;

use query::{Column, Kind, Row, Value};
use sql::{DagStatement, Literal, Statement, Verb};

use super::stream::RowStream;

/// Answer of a statement.
#[derive(Debug)]
pub struct Answer {
    /// The columns of its rows; none if it answers none.
    pub columns: Vec<Column>,
    /// Its rows, or the first of them.
    pub rows: Vec<Row>,
    /// The others.
    pub rest: Option<RowStream>,
    /// The command tag, as clients of PostgreSQL expect it: `CREATE JOB`, `SELECT 3`. The number of
    /// rows is missing where some are still to come.
    pub tag: String,
    /// Notices for the author of the statement.
    pub notices: Vec<String>,
}

/// Columns and parameters of a statement that has not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The columns of its rows; none if it answers none.
    pub columns: Vec<Column>,
    /// The types of its parameters.
    pub parameters: Vec<Kind>,
}

impl Answer {
    /// Something was done.
    pub(super) fn done(tag: &str) -> Self {
        let (columns, rows, notices) = (Vec::new(), Vec::new(), Vec::new());
        Answer { columns, rows, rest: None, tag: tag.to_owned(), notices }
    }

    /// Rows of a statement.
    pub(super) fn rows(statement: Shape, rows: Vec<Row>) -> Self {
        let (tag, columns) = statement.0;
        Answer { columns: shaped(columns), rows, ..Answer::done(tag) }
    }

    /// The same with something that its author should know.
    pub(super) fn with_notice(mut self, notice: impl Into<String>) -> Self {
        self.notices.push(notice.into());
        self
    }
}

/// A tag and columns.
#[derive(Clone, Copy)]
pub(super) struct Shape((&'static str, &'static [(&'static str, Kind)]));

/// A run that begins.
pub(super) const STARTED: Shape = Shape((
    "EXECUTE JOB",
    &[("job_run_uuid", Kind::Uuid), ("job_name", Kind::Text), ("scheduled_time", Kind::Time)],
));
/// A run that begins once more.
pub(super) const RETRIED: Shape = Shape(("RETRY JOB RUN", &[("job_run_uuid", Kind::Uuid)]));
/// Times that are filled.
pub(super) const BACKFILLED: Shape = Shape(("BACKFILL JOB", &[("scheduled_time", Kind::Time)]));
/// Why a job runs.
pub(super) const EXPLAINED: Shape = Shape((
    "EXPLAIN",
    &[
        ("aspect", Kind::Text),
        ("at", Kind::Time),
        ("explanation", Kind::Text),
        ("status", Kind::Text),
        ("code", Kind::Text),
        ("run_uuid", Kind::Uuid),
    ],
));
/// A job as the statement that makes it.
pub(super) const PRINTED: Shape =
    Shape(("SHOW", &[("job_name", Kind::Text), ("create_statement", Kind::Text)]));
/// Columns of a list of jobs.
pub(super) const JOBS: Shape = Shape((
    "SHOW",
    &[
        ("job_name", Kind::Text),
        ("state", Kind::Text),
        ("schedule", Kind::Text),
        ("next_run_time", Kind::Time),
        ("last_run_time", Kind::Time),
        ("last_status", Kind::Text),
        ("description", Kind::Text),
    ],
));
/// Columns of a list of runs.
pub(super) const RUNS: Shape = Shape((
    "SHOW",
    &[
        ("job_run_uuid", Kind::Uuid),
        ("state", Kind::Text),
        ("scheduled_time", Kind::Time),
        ("started_at", Kind::Time),
        ("completed_at", Kind::Time),
        ("retry_count", Kind::Int),
        ("result_message", Kind::Text),
    ],
));
/// The versions of a job.
pub(super) const VERSIONS: Shape = Shape((
    "SHOW",
    &[
        ("version", Kind::Int),
        ("changed_at", Kind::Time),
        ("changed_by", Kind::Text),
        ("changed_fields", Kind::Text),
        ("job_name", Kind::Text),
        ("state", Kind::Text),
    ],
));
/// The fields in which two versions differ.
pub(super) const DIFFERENCES: Shape =
    Shape(("SHOW", &[("field", Kind::Text), ("from", Kind::Text), ("to", Kind::Text)]));
/// A calendar as the statement that makes it.
pub(super) const CREATE_CALENDAR: Shape =
    Shape(("SHOW", &[("calendar_name", Kind::Text), ("create_statement", Kind::Text)]));
/// Columns of a list of calendars.
pub(super) const CALENDARS: Shape = Shape((
    "SHOW",
    &[
        ("calendar_name", Kind::Text),
        ("days", Kind::Text),
        ("timezone", Kind::Text),
        ("description", Kind::Text),
        ("version", Kind::Int),
    ],
));
/// Columns of a list of blackouts.
pub(super) const BLACKOUTS: Shape = Shape((
    "SHOW",
    &[
        ("blackout_name", Kind::Text),
        ("scope", Kind::Text),
        ("is_active", Kind::Bool),
        ("next_from", Kind::Time),
        ("next_until", Kind::Time),
        ("description", Kind::Text),
    ],
));
/// Columns of a list of shards.
pub(super) const SHARDS: Shape = Shape((
    "SHOW",
    &[
        ("shard_name", Kind::Text),
        ("shard_uuid", Kind::Uuid),
        ("database", Kind::Text),
        ("owner", Kind::Text),
        ("fence", Kind::Int),
        ("on_node", Kind::Text),
        ("labels", Kind::Text),
    ],
));
/// Columns of a list of hooks.
pub(super) const HOOKS: Shape = Shape((
    "SHOW",
    &[
        ("hook_name", Kind::Text),
        ("hook_uuid", Kind::Uuid),
        ("path", Kind::Text),
        ("job_uuid", Kind::Text),
        ("scheme", Kind::Text),
        ("requests_per_second", Kind::Int),
        ("disabled", Kind::Bool),
        ("description", Kind::Text),
    ],
));
/// The secret of a hook, where it was just made.
const HOOK_SECRET: &[(&str, Kind)] =
    &[("hook_name", Kind::Text), ("path", Kind::Text), ("secret", Kind::Text)];
/// A hook that was made.
pub(super) const HOOK_MADE: Shape = Shape(("CREATE HOOK", HOOK_SECRET));
/// A hook that has a new secret.
pub(super) const HOOK_ROTATED: Shape = Shape(("ALTER HOOK", HOOK_SECRET));
/// Columns of a list of pools.
pub(super) const POOLS: Shape = Shape((
    "SHOW",
    &[
        ("pool_name", Kind::Text),
        ("pool_uuid", Kind::Uuid),
        ("size", Kind::Int),
        ("used", Kind::Int),
        ("waiting", Kind::Int),
        ("description", Kind::Text),
    ],
));
/// Columns of a list of queues.
pub(super) const QUEUES: Shape = Shape((
    "SHOW",
    &[
        ("queue_name", Kind::Text),
        ("state", Kind::Text),
        ("ready", Kind::Int),
        ("delayed", Kind::Int),
        ("leased", Kind::Int),
        ("blocked", Kind::Int),
        ("oldest_ready_at", Kind::Time),
        ("description", Kind::Text),
    ],
));
/// A message that was sent.
pub(super) const SENT: Shape =
    Shape(("SEND", &[("message_uuid", Kind::Uuid), ("is_duplicate", Kind::Bool)]));
/// A DAG run that begins.
pub(super) const DAG_STARTED: Shape = Shape((
    "EXECUTE DAG",
    &[("dag_run_uuid", Kind::Uuid), ("dag_name", Kind::Text), ("scheduled_time", Kind::Time)],
));
/// Times that are filled.
pub(super) const DAG_BACKFILLED: Shape = Shape(("BACKFILL DAG", &[("scheduled_time", Kind::Time)]));
/// Columns of RERUN DAG RUN: the steps, and whether each runs again.
pub(super) const RERUN: Shape = Shape((
    "RERUN DAG RUN",
    &[
        ("dag_run_uuid", Kind::Uuid),
        ("step_name", Kind::Text),
        ("action", Kind::Text),
        ("outcome", Kind::Text),
    ],
));
/// Why a DAG run or a step is in its state.
pub(super) const DAG_EXPLAINED: Shape = Shape(("EXPLAIN", &[("explanation", Kind::Text)]));
/// A DAG as the statement that makes it.
pub(super) const DAG_PRINTED: Shape =
    Shape(("SHOW", &[("dag_name", Kind::Text), ("create_statement", Kind::Text)]));
/// Columns of a list of DAGS.
pub(super) const DAGS: Shape = Shape((
    "SHOW",
    &[
        ("dag_name", Kind::Text),
        ("state", Kind::Text),
        ("schedule", Kind::Text),
        ("steps", Kind::Int),
        ("next_run_time", Kind::Time),
        ("last_run_time", Kind::Time),
        ("last_status", Kind::Text),
        ("description", Kind::Text),
    ],
));
/// All settings.
pub(super) const SETTINGS: Shape =
    Shape(("SHOW", &[("name", Kind::Text), ("setting", Kind::Text), ("description", Kind::Text)]));

fn shaped(columns: &[(&str, Kind)]) -> Vec<Column> {
    let column = |(name, kind): &(&str, Kind)| Column { name: (*name).to_owned(), kind: *kind };
    columns.iter().map(column).collect()
}

/// The columns of what a statement answers.
pub(super) fn columns(statement: &Statement) -> Vec<Column> {
    let Shape((_, columns)) = match statement {
        Statement::ExecuteJob(_) => STARTED,
        Statement::RetryRun(_) => RETRIED,
        Statement::BackfillJob(_) => BACKFILLED,
        Statement::ExplainJob(_) | Statement::ExplainRun(_) | Statement::ExplainMessage(_) => {
            EXPLAINED
        }
        Statement::ShowCreateJob { .. } => PRINTED,
        Statement::ShowVersions { .. } => VERSIONS,
        Statement::ShowDiff { .. } => DIFFERENCES,
        Statement::ShowJobs { .. } => JOBS,
        Statement::ShowRuns { .. } => RUNS,
        Statement::ShowShards => SHARDS,
        Statement::ShowCalendars => CALENDARS,
        Statement::ShowCreateCalendar(_) => CREATE_CALENDAR,
        Statement::ShowBlackouts => BLACKOUTS,
        Statement::ShowPools => POOLS,
        Statement::ShowHooks => HOOKS,
        Statement::Hook(hook) if hook.verb == Verb::Create => HOOK_MADE,
        Statement::Hook(hook) if hook.rotate => HOOK_ROTATED,
        Statement::ShowQueues { .. } => QUEUES,
        Statement::Send(_) => SENT,
        Statement::Dag(dag) => match &**dag {
            DagStatement::Execute(_) => DAG_STARTED,
            DagStatement::Backfill(_) => DAG_BACKFILLED,
            DagStatement::Rerun { .. } => RERUN,
            DagStatement::ExplainRun { .. } | DagStatement::ExplainStep { .. } => DAG_EXPLAINED,
            DagStatement::ShowCreate { .. } => DAG_PRINTED,
            DagStatement::Show { .. } => DAGS,
            _ => return Vec::new(),
        },
        Statement::Show(None) => SETTINGS,
        Statement::Show(Some(name)) => return vec![setting_column(&name.value)],
        Statement::Template(template) => return self::columns(&template.shape),
        _ => return Vec::new(),
    };
    shaped(columns)
}

/// The column of a setting has its name, as PostgreSQL spells it.
pub(super) fn setting_column(name: &str) -> Column {
    let spelt = super::settings::SETTINGS.iter().find(|it| it.name.eq_ignore_ascii_case(name));
    let name = spelt.map_or_else(|| name.to_owned(), |setting| setting.name.to_owned());
    Column { name, kind: Kind::Text }
}

/// A text.
pub(super) fn text(text: impl AsRef<str>) -> Value {
    Value::Text(Arc::from(text.as_ref()))
}

/// A value that may be absent.
pub(super) fn or_null<T>(value: Option<T>, of: impl FnOnce(T) -> Value) -> Value {
    value.map_or(Value::Null, of)
}

/// A value for the place of `$1`.
pub(super) fn literal(value: &Value) -> Literal {
    match value {
        Value::Null => Literal::Null,
        Value::Bool(value) => Literal::Bool(*value),
        Value::Int(number) => Literal::Number(number.to_string()),
        Value::Float(number) => Literal::Number(number.to_string()),
        Value::Text(text) => Literal::Text(text.to_string()),
        Value::Time(time) => Literal::Text(time.to_string()),
        Value::Uuid(id) => Literal::Text(id.to_string()),
        Value::Bytes(bytes) => Literal::Text(String::from_utf8_lossy(bytes).into_owned()),
    }
}
