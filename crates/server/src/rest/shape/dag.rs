//! DAGs as REST shows them: the fields of a job, with tasks in place of a payload.

use std::borrow::Cow;

use domain::dag::{Dag, DagError, Graph};
use domain::job::{Definition, Dependency, Job};
use domain::schedule::Zones;
use engine::LastRun;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use uuid::Uuid;

use super::job::JobSpec;
use super::job_view::{JobView, next_run};
use super::mirror::{JobStatus, OnTaskFailure};
use super::schedule::JobType;
use super::task::{TaskSpec, payload_of, work};
use crate::app::App;
use crate::body::parse_value;
use crate::problem::{Code, Problem, Result};

/// The fields of a job that a DAG has not: its tasks have them.
const OF_TASKS: [&str; 6] =
    ["payload", "timeout_seconds", "class", "run_on", "partition", "parameters_from"];

/// The fields that an answer has and a request does not.
pub const READ_ONLY: [&str; 12] = [
    "dag_id",
    "created_by",
    "next_run_time",
    "last_run_time",
    "last_status",
    "created_at",
    "updated_at",
    "warnings",
    "schedule_text",
    "may",
    "task_count",
    "levels",
];

/// The fields of a DAG besides those of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DagFields {
    /// Its tasks, at most 10000.
    #[schema(min_items = 1, max_items = 10_000)]
    pub tasks: Vec<TaskSpec>,
    /// Values for its runs, `${config.NAME}` in templates; those that are given with a run come
    /// before them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub config: Option<Map<String, Value>>,
    /// The policy for the other tasks when a task fails; `CONTINUE` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_task_failure: Option<OnTaskFailure>,
    /// The maximum number of tasks of one run that execute at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_parallel: Option<u32>,
    /// The queue of tasks that workers execute; `default` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The payload of a handler that runs after a run whose tasks failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub on_failure: Option<Map<String, Value>>,
    /// The payload of a handler that runs after a run whose tasks completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub on_success: Option<Map<String, Value>>,
}

const FIELDS: [&str; 7] =
    ["tasks", "config", "on_task_failure", "max_parallel", "queue", "on_failure", "on_success"];

/// A DAG.
#[derive(Clone, Debug, Default)]
pub struct DagSpec {
    /// The fields that it shares with jobs.
    pub job: JobSpec,
    /// Its own fields.
    pub dag: DagFields,
}

impl DagSpec {
    /// Reads a body, which may be an answer that is sent back.
    pub fn read(body: Value) -> Result<Self> {
        let Value::Object(mut fields) = body else {
            let text = "the body is a JSON object with the fields of a DAG";
            return Err(Problem::new(Code::ValidationFailed, text));
        };
        fields.retain(|name, _| !READ_ONLY.contains(&name.as_str()));
        if let Some(field) = OF_TASKS.iter().find(|field| fields.contains_key(**field)) {
            return Err(Problem::invalid(*field, "a DAG has none: its tasks do"));
        }
        if let Some(parameters) = fields.remove("parameters")
            && fields.insert("config".to_owned(), parameters).is_some()
        {
            return Err(Problem::invalid("parameters", "is another name of config"));
        }
        let own = FIELDS.iter().filter_map(|name| fields.remove_entry(*name)).collect();
        fields.insert("payload".to_owned(), json!({ "type": "NOOP" }));
        // A field that neither has may be meant as one of a DAG.
        let or_own = |problem: Problem| {
            let field = problem.details.first().map(|it| it.field.clone()).unwrap_or_default();
            let near = |own: &&&str| strsim::damerau_levenshtein(own, &field) <= 2;
            match FIELDS.iter().find(near) {
                Some(own) if problem.message.contains("there is no field") => {
                    let text = format!("there is no field `{field}`; did you mean `{own}`?");
                    Problem::invalid(field, text)
                }
                _ => problem,
            }
        };
        let job: JobSpec = parse_value("", Value::Object(fields)).map_err(or_own)?;
        Ok(DagSpec { job, dag: parse_value("", Value::Object(own))? })
    }

    /// The definition in the request; `upstream` are the jobs of `depends_on`, in their order.
    pub fn definition(
        &self,
        upstream: Vec<Dependency>,
        now: Timestamp,
        zones: &Zones,
    ) -> Result<Definition> {
        let mut job = self.job.clone();
        let parts = &mut job.parts;
        let has_time = [
            parts.job_type.is_some(),
            parts.cron_expression.is_some(),
            parts.run_at.is_some(),
            parts.delay_seconds.is_some(),
            parts.interval_seconds.is_some(),
        ];
        if !has_time.contains(&true) {
            let is_dependent = !parts.depends_on.is_empty();
            parts.job_type = Some(if is_dependent { JobType::Dependent } else { JobType::Manual });
            // The zone of a schedule that it does not have.
            parts.timezone = parts.timezone.take().filter(|zone| zone != "UTC");
        }
        let mut definition = job.definition(upstream, now, zones)?;
        definition.parameters.values =
            self.dag.config.clone().unwrap_or_default().into_iter().collect();
        let checked = definition.parameters.check_config();
        checked.map_err(|problem| Problem::invalid("config", problem))?;
        if self.job.parts.retry_config.is_none() {
            definition.retry = Definition::default().retry;
        }
        let mut dag = Dag {
            steps: Vec::with_capacity(self.dag.tasks.len()),
            on_step_failure: self.dag.on_task_failure.map(Into::into).unwrap_or_default(),
            max_parallel: self.dag.max_parallel,
            queue: self.dag.queue.clone(),
            on_failure: handler("on_failure", &self.dag.on_failure)?,
            on_success: handler("on_success", &self.dag.on_success)?,
        };
        for (i, task) in self.dag.tasks.iter().enumerate() {
            dag.steps.push(task.step(&format!("tasks[{i}]"), &definition.retry)?);
        }
        definition.dag = Some(Box::new(dag));
        Ok(definition)
    }

    /// A DAG as it can be sent back.
    pub fn of(job: &Job) -> Self {
        let definition = &job.definition;
        let dag = definition.dag.as_deref().cloned().unwrap_or_default();
        let mut spec = JobSpec::of(job);
        let config = std::mem::take(&mut spec.parts.parameters);
        DagSpec {
            job: spec,
            dag: DagFields {
                tasks: dag.steps.iter().map(TaskSpec::of).collect(),
                config: Some(config).filter(|config| !config.is_empty()),
                on_task_failure: Some(dag.on_step_failure.into()),
                max_parallel: dag.max_parallel,
                queue: dag.queue.clone(),
                on_failure: dag.on_failure.as_ref().map(payload_of),
                on_success: dag.on_success.as_ref().map(payload_of),
            },
        }
    }

    /// Its fields in one object.
    pub fn fields(&self) -> Map<String, Value> {
        let object = |value| match value {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let mut fields = object(serde_json::to_value(&self.job));
        fields.retain(|name, _| !OF_TASKS.contains(&name.as_str()));
        fields.extend(object(serde_json::to_value(&self.dag)));
        fields
    }
}

fn handler(
    place: &str,
    payload: &Option<Map<String, Value>>,
) -> Result<Option<domain::dag::StepWork>> {
    payload.as_ref().map(|payload| work(place, payload)).transpose()
}

/// Why a DAG is invalid, with the place in the body.
pub fn invalid(dag: &Dag, error: &DagError) -> Problem {
    let rest_field = |field: &'static str| match field {
        "after" => "dependencies",
        "steps" => "tasks",
        "backoff" | "backoff_multiplier" => "retry_config",
        field => field,
    };
    match error {
        DagError::Cycle(_) => {
            let text = error.to_string();
            let problem = Problem::field(Code::DependencyCycle, "tasks", text.clone());
            Problem { message: text, ..problem }
        }
        DagError::Dag { field, problem } => Problem::invalid(rest_field(field), problem.clone()),
        DagError::Step { step, field, problem } => {
            // The handler of a step is named after it.
            let (name, field) = match step.split_once('@') {
                Some((name, handler)) => (name, handler),
                None => (step.as_str(), rest_field(field)),
            };
            // Of two tasks with one name, the second is the wrong one.
            let mut places = dag.steps.iter().enumerate().filter(|(_, it)| it.name == name);
            let first = places.next();
            let place = if field == "name" { places.next().or(first) } else { first };
            let place = match place {
                Some((i, _)) => format!("tasks[{i}].{field}"),
                None => field.to_owned(),
            };
            let text = format!("task {step:?}: {problem}");
            let text = text.replace("add AFTER ", "add to its dependencies: ");
            Problem::invalid(place, text)
        }
    }
}

/// A DAG as it is shown.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct DagView(pub Map<String, Value>);

/// Fields of a DAG besides its definition.
#[derive(Debug, Serialize, ToSchema)]
pub struct DagRecord {
    /// Its identity.
    pub dag_id: Uuid,
    /// When it is due next.
    pub next_run_time: Option<Timestamp>,
    /// The user who made it: it runs with their rights.
    pub created_by: Uuid,
    /// The time that its last run stood for, among those that have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run_time: Option<Timestamp>,
    /// How that run ended: `COMPLETED`, `FAILED`, `CANCELLED` or `TIMEOUT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub last_status: Option<&'static str>,
    /// Its schedule in words.
    pub schedule_text: String,
    /// The number of its tasks.
    pub task_count: usize,
    /// The names of its tasks, level by level: those of a level depend on none of each other. Where
    /// one DAG is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<Vec<Vec<String>>>,
    /// Permitted operations of the caller: `ALTER`, `DROP`, `EXECUTE` and `VIEW_HISTORY`.
    #[schema(required = false, value_type = Vec<String>)]
    pub may: Vec<&'static str>,
    /// Warnings about the definition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub warnings: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl DagRecord {
    /// The fields of a DAG.
    pub fn of(job: &Job, last: Option<&LastRun>, app: &App) -> Self {
        let record = JobView::of(job, app).with_last(last).record;
        DagRecord {
            dag_id: record.job_id,
            next_run_time: record.next_run_time,
            created_by: record.created_by,
            last_run_time: record.last_run_time,
            last_status: record.last_status,
            schedule_text: record.schedule_text,
            task_count: job.definition.dag.as_ref().map_or(0, |dag| dag.steps.len()),
            levels: None,
            may: Vec::new(),
            warnings: Vec::new(),
            created_at: record.created_at,
            updated_at: record.updated_at,
        }
    }
}

impl DagView {
    /// A DAG with its tasks, or without them in lists.
    pub fn new(job: &Job, record: &DagRecord, has_tasks: bool) -> Self {
        let mut shown = DagSpec::of(job).fields();
        if !has_tasks {
            shown.remove("tasks");
        }
        if let Ok(Value::Object(record)) = serde_json::to_value(record) {
            shown.extend(record);
        }
        DagView(shown)
    }
}

/// The schema of the fields that a DAG shares with jobs, together with others.
fn schema_with(description: &str, more: Vec<RefOr<Schema>>) -> RefOr<Schema> {
    let RefOr::T(Schema::Object(mut shown)) = JobSpec::schema() else { return JobSpec::schema() };
    let is_shared = |name: &str| !OF_TASKS.contains(&name) && name != "parameters";
    shown.properties.retain(|name, _| is_shared(name));
    shown.required.retain(|name| is_shared(name));
    for other in more {
        if let RefOr::T(Schema::Object(other)) = other {
            shown.properties.extend(other.properties);
            shown.required.extend(other.required);
        }
    }
    shown.description = Some(description.to_owned());
    shown.additional_properties = None;
    shown.into()
}

impl PartialSchema for DagSpec {
    fn schema() -> RefOr<Schema> {
        schema_with("A DAG.", vec![DagFields::schema()])
    }
}

impl ToSchema for DagSpec {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("DagSpec")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        JobSpec::schemas(schemas);
        DagFields::schemas(schemas);
    }
}

impl PartialSchema for DagView {
    fn schema() -> RefOr<Schema> {
        let RefOr::T(Schema::Object(mut own)) = DagFields::schema() else {
            return DagFields::schema();
        };
        // Lists show none.
        own.required.retain(|name| name != "tasks");
        let own = RefOr::T(Schema::Object(own));
        schema_with(
            "A DAG as it is shown; without `tasks` in lists.",
            vec![own, DagRecord::schema()],
        )
    }
}

impl ToSchema for DagView {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("DagView")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        DagSpec::schemas(schemas);
        DagRecord::schemas(schemas);
    }
}

/// A DAG that was made.
#[derive(Debug, Serialize, ToSchema)]
pub struct DagCreated {
    /// Its identity.
    pub dag_id: Uuid,
    /// Its name.
    pub name: String,
    /// Its activity.
    pub status: JobStatus,
    /// When it is due next.
    pub next_run_time: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Warnings about the definition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub warnings: Vec<String>,
}

impl DagCreated {
    /// The response to a new DAG.
    pub fn of(job: &Job, app: &App, warnings: Vec<String>) -> Self {
        DagCreated {
            dag_id: job.id.0,
            name: job.name.clone(),
            status: job.state.into(),
            next_run_time: next_run(job, app),
            created_at: job.created_at,
            warnings,
        }
    }
}

/// The names of the tasks of a graph, level by level.
pub fn levels(graph: &Graph) -> Vec<Vec<String>> {
    let names = |level: Vec<&str>| level.into_iter().map(str::to_owned).collect();
    graph.levels().into_iter().map(names).collect()
}
