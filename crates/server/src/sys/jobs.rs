//! `sys.jobs`.

use domain::action::Action;
use domain::id::JobId;
use domain::job::{Job, JobState, When};
use domain::partition::Partition;
use engine::JobFilter;
use jiff::SignedDuration;
use query::{Pages, QueryError, Row, Scan, Value};
use serde::Serialize;

use super::Sys;
use super::pages::{Made, ROWS, all, maybe, ms, text_of};

/// The jobs that a scan asks for: by id, by name, or all.
pub(super) fn jobs(sys: &Sys, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
    about(sys, scan, |_, jobs| Ok(jobs.iter().map(job_row).collect()))
}

/// How many times to come are shown for each job.
const NEXT_RUNS: usize = 10;

/// Something about the jobs that a scan asks for.
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
            let Ok(Some(schedule)) = job.definition.when.compile(&sys.app.zones) else { continue };
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

/// The jobs that a scan names, deleted ones too if it is by id; none when it names no jobs.
pub(super) fn named(sys: &Sys, scan: &Scan) -> Result<Option<Vec<Job>>, QueryError> {
    let engine = &sys.app.engine;
    if let Some(values) = scan.values("job_uuid") {
        let ids = values.iter().filter_map(|value| match value {
            Value::Uuid(id) => Some(JobId(*id)),
            _ => None,
        });
        let ids: Vec<JobId> = ids.collect();
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

/// The word of an enum as every door writes it.
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

fn job_row(job: &Job) -> Row {
    let it = &job.definition;
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
    match &it.action {
        Action::Sql(action) => {
            (sql, database) = (Value::text(&action.sql), text_of(action.database.as_ref()));
        }
        Action::Procedure(action) => {
            procedure = Value::text(&action.procedure);
            database = text_of(action.database.as_ref());
        }
        Action::External(action) => command = Value::text(&action.command),
        Action::Http(action) => endpoint = Value::text(&action.endpoint),
        Action::Noop | Action::Backup(_) => {}
    }
    let (mut shard, mut expression, mut shards) = (Value::Null, Value::Null, Value::Null);
    match &it.partition {
        None | Some(Partition::AllShards) => {}
        Some(Partition::SingleShard { shard: name }) => {
            shard = maybe(name.parse().ok(), Value::Uuid);
            shards = Value::text(format!("{{{name}}}"));
        }
        Some(Partition::ShardSet { shards: names }) => {
            shards = Value::text(format!("{{{}}}", names.join(",")));
        }
        Some(Partition::Dynamic { expression: text }) => expression = Value::text(text),
    }
    let tags = it.tags.join(",");
    vec![
        Value::Uuid(job.id.0),
        Value::text(&job.name),
        text_of(it.description.as_ref()),
        Value::text(it.class.name()),
        Value::text(it.action.kind()),
        sql,
        Value::Null,
        command,
        Value::text(it.when.kind()),
        cron,
        interval,
        starts,
        ends,
        zone,
        maybe(job.next_run, ms),
        word(&it.on_completion),
        maybe(it.partition.as_ref(), |rule| Value::text(rule.name())),
        shard,
        expression,
        Value::Int(i64::from(it.retry.max_attempts.saturating_sub(1))),
        seconds(it.retry.backoff),
        seconds(it.timeout),
        Value::Uuid(job.owner.0),
        Value::Null,
        ms(job.created_at),
        Value::text(state_name(job.state)),
        Value::text(if it.when.is_one_time() { "ONE_TIME" } else { "RECURRING" }),
        Value::Int(i64::from(job.version)),
        Value::Time(job.updated_at),
        Value::Time(job.created_at),
        maybe(job.next_run, Value::Time),
        text_of(it.run_as.as_ref()),
        procedure,
        database,
        endpoint,
        text_of(serde_json::to_string(&it.action).ok()),
        word(&it.catch_up),
        Value::Int(i64::from(it.max_catch_up)),
        maybe(it.start_deadline, seconds),
        word(&it.overlap),
        it.concurrency.map_or(Value::Null, |most| Value::Int(i64::from(most))),
        seconds(it.jitter),
        Value::Int(i64::from(it.priority)),
        seconds(it.retry.max_backoff),
        seconds(it.grace_period),
        word(&it.on_lost),
        Value::text(format!("{{{tags}}}")),
        Value::text(format!("{{{}}}", it.run_on.pairs().join(","))),
        shards,
        maybe(Some(&it.parameters).filter(|it| !it.is_empty()), |it| {
            text_of(serde_json::to_string(it).ok())
        }),
        word(&job.state),
    ]
}
