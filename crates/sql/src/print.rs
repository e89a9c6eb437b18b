//! Prints a job as a CREATE JOB statement: canonical spelling, clauses in the order of the table,
//! and without clauses that have their default.

use domain::action::{Action, HttpAction, ProcedureAction, QueueMetric, SqlAction};
use domain::calendar::{Calendar, CalendarMode, Shift};
use domain::dependency::DependencyRule;
use domain::id::JobId;
use domain::job::{
    Definition, DependsOn, ErrorFilter, JOB_FIELDS, JobState, LostQuestion, OnLost, Retention,
    RetryPolicy, When,
};
use domain::parameter::{ParameterRule, ParameterType};
use domain::partition::{Parameters, Partition};
use domain::schedule::{GapRule, OverlapRule};
use jiff::SignedDuration;
use serde_json::Value;
use sqlparser::tokenizer::Token;

use crate::clause::{printed, structure_of};
use crate::lex::lex;
use crate::name::{quoted, text};

mod dag;

/// The statement that creates this job. `name_of` resolves the jobs that it depends on. A tenant
/// may have a timeout for jobs that name none.
pub fn create_job(
    name: &str,
    state: JobState,
    definition: &Definition,
    name_of: &dyn Fn(JobId) -> String,
    tenant_timeout: Option<SignedDuration>,
) -> String {
    let mut lines = vec![format!("CREATE JOB {}", quoted(name))];
    lines.extend(clauses(definition, name_of, tenant_timeout));
    match state {
        JobState::Enabled => {}
        JobState::Paused => lines.push("PAUSED".to_owned()),
        JobState::Disabled | JobState::Completed | JobState::Deleted => {
            lines.push("DISABLED".to_owned());
        }
    }
    lines.push(format!("AS {}", action(&definition.action)));
    format!("{};", lines.join("\n  "))
}

/// The statement that creates this calendar.
pub fn create_calendar(name: &str, calendar: &Calendar) -> String {
    let days: Vec<String> = calendar.days.iter().map(|rule| text(rule.as_str())).collect();
    let mut lines =
        vec![format!("CREATE CALENDAR {}", quoted(name)), format!("DAYS ({})", days.join(", "))];
    lines.extend(calendar.timezone.as_ref().map(|zone| format!("TIMEZONE = {}", text(zone))));
    let description = calendar.description.as_ref();
    lines.extend(description.map(|description| format!("DESCRIPTION = {}", text(description))));
    format!("{};", lines.join("\n  "))
}

/// The statement that creates this DAG.
pub fn create_dag(
    name: &str,
    state: JobState,
    definition: &Definition,
    name_of: &dyn Fn(JobId) -> String,
) -> String {
    let mut lines = vec![format!("CREATE DAG {}", quoted(name))];
    // A DAG has the timeout of its steps only.
    let shared = Definition { timeout: definition.action.default_timeout(), ..definition.clone() };
    lines.extend(clauses(&shared, name_of, None));
    let dag = definition.dag.as_deref().cloned().unwrap_or_default();
    lines.extend(dag::clauses(&dag));
    match state {
        JobState::Enabled => {}
        JobState::Paused => lines.push("PAUSED".to_owned()),
        JobState::Disabled | JobState::Completed | JobState::Deleted => {
            lines.push("DISABLED".to_owned());
        }
    }
    let steps: Vec<String> =
        dag.steps.iter().map(|step| dag::step(step, &definition.retry)).collect();
    format!("{}\n  AS (\n    {}\n  );", lines.join("\n  "), steps.join(",\n    "))
}

/// Every clause except the state and the action, in the order of the table of job fields.
fn clauses(
    job: &Definition,
    name_of: &dyn Fn(JobId) -> String,
    tenant_timeout: Option<SignedDuration>,
) -> Vec<String> {
    let default = Definition::default();
    let names_timeout =
        !job.has_default_timeout() || tenant_timeout.is_some_and(|it| it != job.timeout);
    let mut lines = Vec::new();
    for field in JOB_FIELDS {
        match (&field.policy, field.clauses().next()) {
            (Some(policy), Some(clause)) if !field.has_own_sql => {
                let is_said = match field.name {
                    "timeout" => names_timeout,
                    _ => policy.differs(job, &default),
                };
                if is_said {
                    lines.push(printed(clause, policy, &(policy.get)(job)));
                }
            }
            _ => lines.extend(own_clauses(field.name, job, &default, name_of)),
        }
    }
    lines
}

/// The clauses of a field with a syntax of its own.
fn own_clauses(
    field: &str,
    job: &Definition,
    default: &Definition,
    name_of: &dyn Fn(JobId) -> String,
) -> Vec<String> {
    let clause: Option<String> = match field {
        "schedule" => return when(&job.when),
        "retry" => return retry_clauses(&job.retry, &default.retry),
        "calendars" => return calendars(job),
        "action" => database(&job.action).map(|name| format!("DATABASE = {}", quoted(name))),
        "depends_on" => depends_on(job, name_of),
        "retention" => (job.retention != default.retention).then(|| retention(job.retention)),
        "on_lost" => on_lost(job),
        "run_on" => (!job.run_on.is_empty()).then(|| format!("RUN ON ({})", pairs(&job.run_on.0))),
        "partition" => job.partition.as_ref().map(partition),
        "parameters" => (!job.parameters.is_empty()).then(|| parameters(&job.parameters)),
        "parameter_rules" => {
            (!job.parameter_rules.is_empty()).then(|| declaration(&job.parameter_rules))
        }
        "pool" => job.pool.as_ref().map(|pool| match pool.weight {
            1 => format!("POOL = {}", text(&pool.name)),
            weight => format!("POOL = {} WEIGHT {weight}", text(&pool.name)),
        }),
        _ => None,
    };
    clause.into_iter().collect()
}

fn calendars(job: &Definition) -> Vec<String> {
    let mut lines = Vec::new();
    for mode in [CalendarMode::Exclude, CalendarMode::Include] {
        let uses = job.calendars.iter().filter(|it| it.mode == mode);
        let uses: Vec<String> = uses
            .map(|it| match it.shift {
                Shift::Skip => quoted(&it.name),
                shift => format!("{} SHIFT {}", quoted(&it.name), shift.name()),
            })
            .collect();
        if !uses.is_empty() {
            lines.push(format!("{} CALENDAR {}", mode.name(), uses.join(", ")));
        }
    }
    lines
}

fn depends_on(job: &Definition, name_of: &dyn Fn(JobId) -> String) -> Option<String> {
    let one = |it: &domain::job::Dependency| {
        let name = quoted(&name_of(it.job));
        match it.on {
            DependsOn::Success => name,
            DependsOn::Completion => format!("{name} COMPLETION"),
            DependsOn::Failure => format!("{name} FAILURE"),
        }
    };
    let names = job.depends_on.iter().map(one).collect::<Vec<String>>().join(", ");
    (!names.is_empty()).then(|| match job.dependency_rule {
        DependencyRule::All => format!("DEPENDS ON {names}"),
        DependencyRule::Any => format!("DEPENDS ON ANY ({names})"),
    })
}

fn retention(kept: Retention) -> String {
    let parts =
        [("DAYS", kept.days), ("FAILED_DAYS", kept.failed_days), ("KEEP_LAST", kept.keep_last)];
    let parts = parts.iter().filter_map(|(word, n)| n.map(|n| format!("{word} = {n}")));
    let sample = kept.keep_completed.map(|it| format!("KEEP_COMPLETED = {}", it.words()));
    format!("RETENTION ({})", parts.chain(sample).collect::<Vec<_>>().join(", "))
}

fn on_lost(job: &Definition) -> Option<String> {
    let LostQuestion { timeout, then } = job.lost_question;
    match job.on_lost {
        OnLost::Retry => None,
        OnLost::Ask if job.lost_question != LostQuestion::default() => {
            Some(format!("ON LOST ASK FOR {} THEN {}", duration(timeout), then.name()))
        }
        policy => Some(format!("ON LOST {}", policy.name())),
    }
}

/// The database that an action names.
fn database(action: &Action) -> Option<&String> {
    match action {
        Action::Sql(SqlAction { database, .. })
        | Action::Procedure(ProcedureAction { database, .. }) => database.as_ref(),
        _ => None,
    }
}

/// The clauses of a retry policy that differ from another one.
fn retry_clauses(retry: &RetryPolicy, usual: &RetryPolicy) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |differs: bool, clause: &dyn Fn() -> String| {
        if differs {
            lines.push(clause());
        }
    };
    say(retry.max_attempts != usual.max_attempts, &|| {
        format!("MAX_RETRIES = {}", retry.max_attempts.saturating_sub(1))
    });
    say(retry.backoff != usual.backoff, &|| format!("RETRY_BACKOFF = {}", duration(retry.backoff)));
    say(retry.max_backoff != usual.max_backoff, &|| {
        format!("MAX_BACKOFF = {}", duration(retry.max_backoff))
    });
    say(retry.multiplier != usual.multiplier, &|| {
        format!("BACKOFF_MULTIPLIER = {:?}", retry.multiplier)
    });
    say(retry.jitter != usual.jitter, &|| format!("RETRY_JITTER = {:?}", retry.jitter));
    say(retry.retry_on != usual.retry_on, &|| {
        format!("RETRY ON {}", retry.retry_on.as_ref().map_or("ALL".to_owned(), errors))
    });
    say(retry.no_retry_on != usual.no_retry_on, &|| {
        format!("NO RETRY ON {}", retry.no_retry_on.as_ref().map_or("NONE".to_owned(), errors))
    });
    lines
}

fn partition(rule: &Partition) -> String {
    match rule {
        Partition::AllShards => "PARTITION BY ALL_SHARDS".to_owned(),
        Partition::SingleShard { shard } => format!("PARTITION BY SINGLE_SHARD {}", text(shard)),
        Partition::ShardSet { shards } => format!("PARTITION BY SHARD_SET ({})", texts(shards)),
        Partition::Dynamic { expression } => format!("PARTITION BY DYNAMIC {expression}"),
    }
}

fn parameters(parameters: &Parameters) -> String {
    let mut parts = vec!["PARAMETERS".to_owned()];
    if !parameters.values.is_empty() {
        let pair = |(name, it): (&String, &Value)| format!("{} = {}", text(name), value(it));
        let pairs: Vec<String> = parameters.values.iter().map(pair).collect();
        parts.push(format!("({})", pairs.join(", ")));
    }
    if let Some(rows) = &parameters.from {
        parts.push(format!("FROM {}", text(&rows.sql)));
        parts.extend(rows.database.as_ref().map(|name| format!("IN {}", text(name))));
    }
    parts.join(" ")
}

fn declaration(rules: &[ParameterRule]) -> String {
    let rules: Vec<String> = rules.iter().map(parameter_rule).collect();
    format!("DECLARE ({})", rules.join(", "))
}

fn parameter_rule(rule: &ParameterRule) -> String {
    // A document is written as text.
    let literal = |it: &Value| match (rule.kind, it) {
        (ParameterType::Json, it) => text(&it.to_string()),
        (_, it) => value(it),
    };
    let mut parts = vec![text(&rule.name), rule.kind.name().to_ascii_uppercase()];
    if rule.required {
        parts.push("REQUIRED".to_owned());
    }
    parts.extend(rule.default.as_ref().map(|it| format!("DEFAULT {}", literal(it))));
    if !rule.values.is_empty() {
        let values: Vec<String> = rule.values.iter().map(literal).collect();
        parts.push(format!("IN ({})", values.join(", ")));
    }
    parts.extend(rule.min.as_ref().map(|it| format!("MIN {}", value(it))));
    parts.extend(rule.max.as_ref().map(|it| format!("MAX {}", value(it))));
    parts.extend(rule.pattern.as_ref().map(|it| format!("PATTERN {}", text(it))));
    parts.extend(rule.description.as_ref().map(|it| format!("DESCRIPTION {}", text(it))));
    parts.join(" ")
}

fn when(when: &When) -> Vec<String> {
    match when {
        When::Manual => vec!["SCHEDULE = MANUAL".to_owned()],
        When::AfterDependencies => vec!["SCHEDULE = AFTER DEPENDENCIES".to_owned()],
        When::At { at } => vec![format!("SCHEDULE = AT '{at}'")],
        When::Every { interval, starts, ends } => {
            let ends = ends.map(|ends| format!(" ENDS '{ends}'")).unwrap_or_default();
            let starts = starts.map(|starts| format!(" STARTS '{starts}'")).unwrap_or_default();
            vec![format!("SCHEDULE = EVERY {}{starts}{ends}", duration(*interval))]
        }
        When::Cron { expression, zone, dst } => {
            let mut lines = vec![format!("SCHEDULE = CRON {}", text(expression))];
            if zone != "UTC" {
                lines.push(format!("TIMEZONE = {}", text(zone)));
            }
            if let Some(gap) = dst.gap {
                let word = match gap {
                    GapRule::Skip => "SKIP",
                    GapRule::ShiftAfter => "SHIFT_AFTER",
                    GapRule::ShiftByOffset => "SHIFT_BY_OFFSET",
                };
                lines.push(format!("DST GAP = {word}"));
            }
            if let Some(overlap) = dst.overlap {
                let word = match overlap {
                    OverlapRule::First => "FIRST",
                    OverlapRule::Second => "SECOND",
                    OverlapRule::Both => "BOTH",
                };
                lines.push(format!("DST OVERLAP = {word}"));
            }
            lines
        }
    }
}

/// A duration in the largest unit that divides it.
pub(crate) fn duration(length: SignedDuration) -> String {
    let seconds = length.as_secs();
    if length.subsec_nanos() != 0 || seconds < 0 {
        return text(&format!("{length:#}"));
    }
    let units = [(86_400, "DAY"), (3_600, "HOUR"), (60, "MINUTE"), (1, "SECOND")];
    let fits = |(size, _): &&(i64, &str)| seconds % size == 0 && seconds >= *size;
    let (size, unit) = units.iter().find(fits).unwrap_or(&units[3]);
    let count = seconds / size;
    format!("{count} {unit}{}", if count == 1 { "" } else { "S" })
}

fn texts(list: &[String]) -> String {
    list.iter().map(|it| text(it)).collect::<Vec<_>>().join(", ")
}

fn pairs<'a>(list: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let pair = |(name, value): (&String, &String)| format!("{} = {}", text(name), text(value));
    list.into_iter().map(pair).collect::<Vec<_>>().join(", ")
}

fn numbers<T: ToString>(list: &[T]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn errors(filter: &ErrorFilter) -> String {
    let parts = [
        ("EXIT_CODES", numbers(&filter.exit_codes)),
        ("HTTP_STATUSES", numbers(&filter.http_statuses)),
        ("SQLSTATES", texts(&filter.sqlstates)),
    ];
    let parts = parts.iter().filter(|(_, list)| !list.is_empty());
    let parts: Vec<String> = parts.map(|(word, list)| format!("{word} ({list})")).collect();
    format!("({})", parts.join(", "))
}

fn action(action: &Action) -> String {
    match action {
        Action::Noop => "NOOP".to_owned(),
        Action::Sql(sql) => text(&sql.sql),
        Action::Procedure(procedure) => {
            let arguments: Vec<String> = procedure.arguments.iter().map(value).collect();
            let name = &procedure.procedure;
            let name = if is_name(name) { name.clone() } else { text(name) };
            format!("CALL {name}({})", arguments.join(", "))
        }
        Action::External(external) => {
            let mut parts = vec![format!("EXEC {}", text(&external.command))];
            if !external.arguments.is_empty() {
                parts.push(format!("ARGS ({})", texts(&external.arguments)));
            }
            if !external.environment.is_empty() {
                parts.push(format!("ENVIRONMENT ({})", pairs(&external.environment)));
            }
            parts.join(" ")
        }
        Action::Artifact(artifact) => {
            let mut parts = vec![format!("ARTIFACT {}", text(&artifact.artifact_id))];
            parts.push(format!("ENTRYPOINT {}", text(&artifact.entrypoint)));
            parts.extend(artifact.floating.then(|| "FLOATING".to_owned()));
            if !artifact.arguments.is_empty() {
                parts.push(format!("ARGS ({})", texts(&artifact.arguments)));
            }
            if !artifact.environment.is_empty() {
                parts.push(format!("ENVIRONMENT ({})", pairs(&artifact.environment)));
            }
            parts.join(" ")
        }
        Action::Http(request) => http(request),
        Action::Queue(send) => {
            let mut parts = vec![format!("SEND TO {}", text(&send.queue))];
            parts.push(match &send.message {
                Value::String(payload) if structure_of(payload).is_none() => {
                    format!("PAYLOAD {}", text(payload))
                }
                json => format!("PAYLOAD JSON {}", text(&json.to_string())),
            });
            if !send.workspace.is_empty() {
                parts.push(format!("WORKSPACE {}", text(&send.workspace)));
            }
            parts.extend(send.priority.map(|priority| format!("PRIORITY {priority}")));
            parts.extend(send.adaptive.map(|it| {
                let metric = match it.metric {
                    QueueMetric::Depth => "DEPTH",
                    QueueMetric::Age => "AGE",
                };
                let [from, to] = [it.min_seconds, it.max_seconds]
                    .map(|seconds| duration(SignedDuration::from_millis((seconds * 1e3) as i64)));
                format!("ADAPT {metric} {} FROM {from} TO {to}", it.target)
            }));
            parts.extend(send.awaits.then(|| "AWAIT".to_owned()));
            parts.join(" ")
        }
        Action::Backup(backup) => {
            let keep = backup.keep.map(|keep| format!(" KEEP {keep}")).unwrap_or_default();
            let outputs = if backup.outputs { "" } else { " WITHOUT OUTPUTS" };
            let artifacts = if backup.artifacts { " WITH ARTIFACTS" } else { "" };
            format!("BACKUP TO {}{keep}{outputs}{artifacts}", text(&backup.target))
        }
    }
}

fn http(request: &HttpAction) -> String {
    let target = format!("{} {}", request.method, request.endpoint);
    let mut parts = vec![format!("HTTP {}", text(&target))];
    if !request.headers.is_empty() {
        parts.push(format!("HEADERS ({})", pairs(&request.headers)));
    }
    match &request.body {
        None => {}
        Some(Value::String(body)) => parts.push(format!("BODY {}", text(body))),
        Some(json) => parts.push(format!("BODY JSON {}", text(&json.to_string()))),
    }
    if !request.expected_status.is_empty() {
        parts.push(format!("EXPECT ({})", numbers(&request.expected_status)));
    }
    parts.join(" ")
}

/// An argument of a procedure.
fn value(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(value) => value.to_string().to_uppercase(),
        Value::Number(number) => number.to_string(),
        Value::String(value) => text(value),
        json => format!("JSON {}", text(&json.to_string())),
    }
}

/// Whether a text is a name, possibly with dots, that needs no quotes.
fn is_name(name: &str) -> bool {
    let Ok(lexemes) = lex(name) else { return false };
    let is_whole = lexemes.first().is_some_and(|first| first.place.start == 0)
        && lexemes.last().is_some_and(|last| last.place.end == name.len());
    let fits = |(i, lexeme): (usize, &crate::lex::Lexeme)| match i % 2 {
        0 => matches!(lexeme.token, Token::Word(_)),
        _ => lexeme.token == Token::Period,
    };
    is_whole && lexemes.len() % 2 == 1 && lexemes.iter().enumerate().all(fits)
}
