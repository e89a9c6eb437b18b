//! The table `sys.jobs`.

use std::collections::HashMap;

use domain::action::Action;
use domain::calendar::{CalendarUse, Shift};
use domain::id::JobId;
use domain::job::{Definition, Job, JobState, Policy, PolicyValue, When};
use domain::partition::Partition;
use engine::{JobFilter, LastRun};
use jiff::{SignedDuration, Timestamp};
use query::{Pages, QueryError, Row, Scan, Value};
use serde::Serialize;
use uuid::Uuid;

use super::Sys;
use super::pages::{Made, ROWS, all, maybe, ms, text_of};
use super::tables::policy_columns;
use crate::rest::shape::job_view::next_run;

/// The jobs that match a scan: by id, by name, or all.
pub(super) fn jobs(sys: &Sys, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
    let wants = Wants {
        last: ["last_run_time", "last_run_at", "last_status"].iter().any(|it| scan.uses(it)),
        roles: scan.uses("run_as_role_uuid"),
        shards: scan.uses("partition_shard_uuid"),
    };
    about(sys, scan, move |sys, jobs| {
        let facts = Facts::of(sys, jobs, wants)?;
        Ok(jobs.iter().map(|job| job_row(sys, job, &facts)).collect())
    })
}

/// Columns of a query that need more than the definitions of jobs.
#[derive(Clone, Copy)]
struct Wants {
    last: bool,
    roles: bool,
    shards: bool,
}

/// Values of these columns for the jobs of a page.
#[derive(Default)]
struct Facts {
    last: HashMap<JobId, LastRun>,
    /// The ids of roles that jobs act as, by name.
    roles: HashMap<String, Uuid>,
    /// The ids of shards, by name.
    shards: HashMap<String, Uuid>,
    /// The columns of the table of job fields.
    columns: Vec<&'static Policy>,
}

impl Facts {
    fn of(sys: &Sys, jobs: &[Job], wants: Wants) -> Result<Self, QueryError> {
        let (engine, mut facts) = (&sys.app.engine, Facts::default());
        facts.columns = policy_columns().map(|(.., policy)| policy).collect();
        if wants.last {
            let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
            let last = sys.ask(engine.by(&sys.actor).last_runs(&ids))?;
            facts.last = last.into_iter().map(|last| (last.job, last)).collect();
        }
        if wants.roles {
            for name in jobs.iter().filter_map(|job| job.definition.run_as.as_ref()) {
                if !facts.roles.contains_key(name)
                    && let Some(id) = sys.ask(engine.node().role_id(sys.actor.tenant, name))?
                {
                    facts.roles.insert(name.clone(), id);
                }
            }
        }
        let is_of_shard =
            |job: &Job| matches!(&job.definition.partition, Some(Partition::SingleShard { .. }));
        if wants.shards && jobs.iter().any(is_of_shard) {
            let tenant = sys.actor.tenant;
            facts.shards = sys.ask(engine.node().shard_ids(tenant))?.into_iter().collect();
        }
        Ok(facts)
    }
}

/// The identity of a procedure: the same name in the same database has always the same.
fn procedure_uuid(database: Option<&str>, procedure: &str) -> Uuid {
    let name = format!("{}\n{procedure}", database.unwrap_or_default());
    Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes())
}

/// The calendars of a job: `EXCLUDE holidays SHIFT NEXT`.
fn calendar_words(definition: &Definition) -> Vec<String> {
    let words = |it: &CalendarUse| match it.shift {
        Shift::Skip => format!("\"{} {}\"", it.mode.name(), it.name),
        shift => format!("\"{} {} SHIFT {}\"", it.mode.name(), it.name, shift.name()),
    };
    definition.calendars.iter().map(words).collect()
}

/// How many hours to come are shown in `sys.tick_hours`.
const HOURS: i64 = 24;

/// How many scheduled times lie in each hour to come, and of which jobs.
pub(super) fn tick_hours(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let now = sys.app.now();
    let first = now.as_second() - now.as_second().rem_euclid(3_600);
    let at = |hour: i64| Timestamp::from_second(first + 3_600 * hour).unwrap_or(Timestamp::MAX);
    let mut hours: Vec<(u64, Vec<Uuid>)> = vec![(0, Vec::new()); HOURS as usize];
    let mut each = Each::new(sys);
    while let Some(jobs) = each.next()? {
        for job in jobs.iter().filter(|job| job.state == JobState::Enabled) {
            // A schedule that this release cannot read has no times.
            let Ok(Some(schedule)) = job.definition.schedule(&sys.app.zones) else { continue };
            for (n, (ticks, ids)) in hours.iter_mut().enumerate() {
                // A time on the hour belongs to the hour that begins with it.
                let just_before = |time: Timestamp| {
                    time.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN)
                };
                let from = just_before(at(n as i64)).max(just_before(now));
                let count = schedule.count(from, just_before(at(n as i64 + 1)));
                if count > 0 {
                    *ticks += count;
                    ids.push(job.id.0);
                }
            }
        }
    }
    let row = |(n, (ticks, ids)): (usize, (u64, Vec<Uuid>))| {
        let list: Vec<String> = ids.iter().map(ToString::to_string).collect();
        vec![
            Value::Time(at(n as i64)),
            Value::Int(ticks.cast_signed()),
            Value::Int(ids.len() as i64),
            Value::text(format!("{{{}}}", list.join(","))),
        ]
    };
    Ok(all(hours.into_iter().enumerate().map(row).collect()))
}

/// How many times to come are shown for each job.
const NEXT_RUNS: usize = 10;

/// Rows about the jobs that match a scan.
fn about(
    sys: &Sys,
    scan: &Scan,
    mut rows: impl FnMut(&Sys, &[Job]) -> Result<Vec<Row>, QueryError> + Send + 'static,
) -> Result<Box<dyn Pages>, QueryError> {
    if let Some(mut found) = named(sys, scan)? {
        found.retain(|job| job.state != JobState::Deleted);
        return Ok(all(rows(sys, &found)?));
    }
    let (sys, mut each) = (sys.clone(), Each::new(sys));
    Ok(Box::new(Made(move || each.next()?.map(|jobs| rows(&sys, &jobs)).transpose())))
}

/// Which job waits for which.
pub(super) fn dependencies(sys: &Sys, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
    about(sys, scan, |sys, jobs| {
        let wanted = jobs.iter().flat_map(|job| &job.definition.depends_on).map(|it| it.job);
        let ids: Vec<JobId> = wanted.collect();
        let others = sys.ask(sys.app.engine.by(&sys.actor).jobs_by_id(&ids))?;
        let name = |id: JobId| text_of(others.iter().find(|job| job.id == id).map(|job| &job.name));
        let mut rows = Vec::new();
        for job in jobs {
            for dependency in &job.definition.depends_on {
                rows.push(vec![
                    Value::Uuid(job.id.0),
                    Value::Uuid(dependency.job.0),
                    Value::text(&job.name),
                    name(dependency.job),
                    word(&dependency.on),
                    word(&job.definition.dependency_rule),
                ]);
            }
        }
        Ok(rows)
    })
}

/// When jobs are due next.
pub(super) fn next_runs(sys: &Sys, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
    about(sys, scan, |sys, jobs| {
        let now = sys.app.now();
        let mut rows = Vec::new();
        for job in jobs.iter().filter(|job| job.state == JobState::Enabled) {
            // A schedule that this release cannot read has no times.
            let Ok(Some(schedule)) = job.definition.schedule(&sys.app.zones) else { continue };
            let times = std::iter::successors(schedule.next(now), |at| schedule.next(*at));
            for (n, at) in times.take(NEXT_RUNS).enumerate() {
                rows.push(vec![
                    Value::Uuid(job.id.0),
                    Value::text(&job.name),
                    Value::Int(n as i64 + 1),
                    ms(at),
                    Value::Time(at),
                ]);
            }
        }
        Ok(rows)
    })
}

/// The jobs whose runs match a scan, deleted ones and those that had a name before included; none
/// if it names no jobs.
pub(super) fn ever_named(sys: &Sys, scan: &Scan) -> Result<Option<Vec<Job>>, QueryError> {
    let engine = &sys.app.engine;
    if let Some(values) = scan.values("job_uuid") {
        let ids: Vec<JobId> = values.iter().filter_map(id_of).collect();
        return Ok(Some(sys.ask(engine.by(&sys.actor).jobs_ever(&ids))?));
    }
    let Some(values) = scan.values("job_name") else { return Ok(None) };
    let mut jobs: Vec<Job> = Vec::new();
    for value in values {
        if let Value::Text(name) = value {
            jobs.extend(sys.ask(engine.by(&sys.actor).jobs_ever_named(name))?);
        }
    }
    jobs.sort_unstable_by_key(|job| job.id);
    jobs.dedup_by_key(|job| job.id);
    Ok(Some(jobs))
}

fn id_of(value: &Value) -> Option<JobId> {
    match value {
        Value::Uuid(id) => Some(JobId(*id)),
        _ => None,
    }
}

/// The jobs that a scan names; none when it names no jobs.
pub(super) fn named(sys: &Sys, scan: &Scan) -> Result<Option<Vec<Job>>, QueryError> {
    let engine = &sys.app.engine;
    if let Some(values) = scan.values("job_uuid") {
        let ids: Vec<JobId> = values.iter().filter_map(id_of).collect();
        return Ok(Some(sys.ask(engine.by(&sys.actor).jobs_by_id(&ids))?));
    }
    let Some(values) = scan.values("job_name") else { return Ok(None) };
    let mut jobs = Vec::new();
    for value in values {
        if let Value::Text(name) = value {
            jobs.extend(sys.ask(engine.by(&sys.actor).job_by_name(name))?);
        }
    }
    Ok(Some(jobs))
}

/// All jobs, a page at a time.
pub(super) struct Each {
    sys: Sys,
    after: Option<String>,
    over: bool,
}

impl Each {
    pub fn new(sys: &Sys) -> Self {
        Each { sys: sys.clone(), after: None, over: false }
    }

    pub fn next(&mut self) -> Result<Option<Vec<Job>>, QueryError> {
        if self.over {
            return Ok(None);
        }
        let filter = JobFilter::of_tenant(self.sys.actor.tenant);
        let engine = self.sys.app.engine.by(&self.sys.actor);
        let page = engine.list_jobs(&filter, self.after.as_deref(), ROWS);
        let page = self.sys.ask(page)?;
        self.over = page.next.is_none();
        self.after = page.next;
        Ok(Some(page.items))
    }
}

fn seconds(length: SignedDuration) -> Value {
    Value::Int(length.as_secs())
}

/// The word of an enum as every interface writes it.
pub(super) fn word(value: &impl Serialize) -> Value {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Value::text(word),
        Ok(value) => Value::text(value.to_string()),
        Err(_) => Value::Null,
    }
}

/// The state of a job as SQL names it: a one-time job whose run has ended is disabled.
pub(crate) fn state_name(state: JobState) -> &'static str {
    match state {
        JobState::Enabled => "ENABLED",
        JobState::Paused => "PAUSED",
        JobState::Disabled | JobState::Completed => "DISABLED",
        JobState::Deleted => "DELETED",
    }
}

fn job_row(sys: &Sys, job: &Job, facts: &Facts) -> Row {
    let it = &job.definition;
    let next = next_run(job, &sys.app);
    let last = facts.last.get(&job.id);
    let role = it.run_as.as_ref().and_then(|name| facts.roles.get(name)).copied();
    let (mut cron, mut zone, mut interval) = (Value::Null, Value::Null, Value::Null);
    let (mut starts, mut ends) = (Value::Null, Value::Null);
    match &it.when {
        When::Manual | When::AfterDependencies => {}
        When::Cron { expression, zone: name, .. } => {
            (cron, zone) = (Value::text(expression), Value::text(name));
        }
        When::Every { interval: every, starts: first, ends: last } => {
            (interval, starts, ends) = (seconds(*every), maybe(*first, ms), maybe(*last, ms));
        }
        When::At { at } => starts = ms(*at),
    }
    let (mut sql, mut command, mut procedure, mut database, mut endpoint) =
        (Value::Null, Value::Null, Value::Null, Value::Null, Value::Null);
    let mut procedure_id = None;
    let (mut artifact, mut entrypoint) = (Value::Null, Value::Null);
    match &it.action {
        Action::Sql(action) => {
            (sql, database) = (Value::text(&action.sql), text_of(action.database.as_ref()));
        }
        Action::Procedure(action) => {
            procedure = Value::text(&action.procedure);
            procedure_id = Some(procedure_uuid(action.database.as_deref(), &action.procedure));
            database = text_of(action.database.as_ref());
        }
        Action::External(action) => command = Value::text(&action.command),
        Action::Http(action) => endpoint = Value::text(&action.endpoint),
        Action::Artifact(action) => {
            artifact = Value::text(&action.artifact_id);
            entrypoint = Value::text(&action.entrypoint);
        }
        Action::Noop | Action::Backup(_) | Action::Queue(_) => {}
    }
    let (mut shard, mut expression, mut shards) = (Value::Null, Value::Null, Value::Null);
    match &it.partition {
        None | Some(Partition::AllShards) => {}
        Some(Partition::SingleShard { shard: name }) => {
            let id = facts.shards.get(name).copied().or_else(|| name.parse().ok());
            shard = maybe(id, Value::Uuid);
            shards = Value::text(format!("{{{name}}}"));
        }
        Some(Partition::ShardSet { shards: names }) => {
            shards = Value::text(format!("{{{}}}", names.join(",")));
        }
        Some(Partition::Dynamic { expression: text }) => expression = Value::text(text),
    }
    let mut row = vec![
        Value::Uuid(job.id.0),
        Value::text(&job.name),
        text_of(it.description.as_ref()),
        Value::text(it.class.name()),
        Value::text(it.action.kind()),
        sql,
        maybe(procedure_id, Value::Uuid),
        command,
        Value::text(it.when.kind()),
        cron,
        interval,
        starts,
        ends,
        zone,
        maybe(next, ms),
        Value::text(it.on_completion.name()),
        maybe(it.partition.as_ref(), |rule| Value::text(rule.name())),
        shard,
        expression,
        Value::Int(i64::from(it.retry.max_attempts.saturating_sub(1))),
        seconds(it.retry.backoff),
        seconds(it.timeout),
        Value::Uuid(job.owner.0),
        maybe(role, Value::Uuid),
        ms(job.created_at),
        Value::text(state_name(job.state)),
        Value::text(if it.when.is_one_time() { "ONE_TIME" } else { "RECURRING" }),
        Value::Int(i64::from(job.version)),
        ms(job.updated_at),
        Value::Time(job.created_at),
        maybe(next, Value::Time),
        procedure,
        database,
        endpoint,
        text_of(serde_json::to_string(&it.action).ok()),
        seconds(it.retry.max_backoff),
        Value::text(format!("{{{}}}", it.run_on.pairs().join(","))),
        shards,
        maybe(Some(&it.parameters).filter(|it| !it.is_empty()), |it| {
            text_of(serde_json::to_string(it).ok())
        }),
        word(&job.state),
        Value::Time(job.updated_at),
        maybe(last.map(|last| last.scheduled_for), ms),
        maybe(last.map(|last| last.scheduled_for), Value::Time),
        text_of(last.map(|last| last.outcome.name())),
        Value::text(format!("{{{}}}", calendar_words(it).join(","))),
        text_of(it.pool.as_ref().map(|pool| &pool.name)),
        maybe(it.pool.as_ref(), |pool| Value::Int(pool.weight.into())),
        maybe(Some(&it.parameter_rules).filter(|it| !it.is_empty()), |it| {
            text_of(serde_json::to_string(it).ok())
        }),
        artifact,
        entrypoint,
    ];
    row.extend(facts.columns.iter().map(|policy| policy_value((policy.get)(it))));
    row
}

fn policy_value(value: PolicyValue) -> Value {
    match value {
        PolicyValue::Absent => Value::Null,
        PolicyValue::Word(word) => Value::text(word),
        PolicyValue::Duration(length) => seconds(length),
        PolicyValue::Count(count) => Value::Int(count.into()),
        PolicyValue::Text(text) => Value::text(text),
        PolicyValue::Flag(is_set) => Value::Bool(is_set),
        PolicyValue::List(words) => Value::text(format!("{{{}}}", words.join(","))),
    }
}
