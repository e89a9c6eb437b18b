//! DAG runs as columns: for pictures of many tasks or many runs, which objects would make large.

use axum::Json;
use axum::extract::{Path, State};
use domain::dag::state::StepState;
use domain::run::{Outcome, RunState};
use engine::{CompiledDag, GridRun, StepColumn};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::find;
use crate::actor::Actor;
use crate::app::App;
use crate::body::Params;
use crate::page::{self, List};
use crate::problem::{Code, ErrorBody, Problem, Result};

/// The most tasks of a grid.
const TASKS_MAX: u32 = 1000;
const TASKS_DEFAULT: u32 = 200;

/// The most runs of a grid.
const RUNS_MAX: u32 = 100;

/// The letter of a task that a run does not have.
const NONE: char = '.';

/// A state as one letter.
fn letter(state: StepState, run: Option<RunState>) -> char {
    match (state, run) {
        (StepState::Pending | StepState::Ready, _) => 'P',
        (StepState::Open, Some(RunState::Pending | RunState::Queued)) => 'Q',
        (StepState::Open, Some(RunState::Held)) => 'H',
        (StepState::Open, _) => 'R',
        (StepState::Ended(outcome), _) => match outcome {
            Outcome::Completed => 'C',
            Outcome::Failed => 'F',
            Outcome::Cancelled => 'X',
            Outcome::Timeout => 'T',
            Outcome::Skipped => 'S',
            Outcome::Missed => 'M',
        },
    }
}

/// Which columns are wanted.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ColumnParams {
    /// Whether to include the graph, which stays the same as long as the run exists.
    #[serde(default = "yes")]
    #[param(default = true)]
    graph: bool,
}

fn yes() -> bool {
    true
}

/// All tasks of a DAG run, one list for each property, in the order of the definition.
#[derive(Serialize, ToSchema)]
pub struct DagRunColumns {
    /// The run.
    pub dag_run_id: Uuid,
    /// The version of the DAG that it follows.
    pub dag_version: u32,
    /// Names, kinds and dependencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphColumns>,
    /// A letter for each task: `P` pending, `Q` queued, `R` running, `H` held, `C` completed,
    /// `F` failed, `X` cancelled, `T` timed out, `S` skipped, `M` missed.
    pub statuses: String,
    /// The time that `released_ms`, `started_ms` and `ended_ms` count from.
    pub since: Timestamp,
    /// When each task could start, in milliseconds; null while it waits for tasks before it.
    pub released_ms: Vec<Option<i64>>,
    /// When its last attempt began.
    pub started_ms: Vec<Option<i64>>,
    /// When it ended.
    pub ended_ms: Vec<Option<i64>>,
    /// Attempts of those tasks that had more than one.
    pub attempts: Vec<TaskNumber>,
    /// The items of tasks with items.
    pub items: Vec<TaskItems>,
    /// Tasks that were adopted from the run that this one repeats, by position.
    pub adopted: Vec<u32>,
}

/// The graph of a DAG, with tasks by their positions in the definition.
#[derive(Serialize, ToSchema)]
pub struct GraphColumns {
    /// The names of the tasks.
    pub names: Vec<String>,
    /// The kind of payload of each of them.
    #[schema(value_type = Vec<String>)]
    pub kinds: Vec<&'static str>,
    /// The length of the longest way to each.
    pub levels: Vec<u32>,
    /// The positions of the tasks before each.
    pub dependencies: Vec<Vec<u32>>,
}

/// A number of a task.
#[derive(Serialize, ToSchema)]
pub struct TaskNumber {
    /// The position of the task.
    pub task: u32,
    /// The number.
    pub count: u32,
}

/// The items of a task by their states.
#[derive(Default, Serialize, ToSchema)]
pub struct TaskItems {
    /// The position of the task.
    pub task: u32,
    /// All of them.
    pub count: u32,
    /// Completed ones.
    pub completed: u32,
    /// Failed, timed out and cancelled ones.
    pub failed: u32,
    /// Skipped ones.
    pub skipped: u32,
}

impl GraphColumns {
    fn of(dag: &CompiledDag) -> Self {
        let steps = dag.graph.steps();
        GraphColumns {
            names: steps.iter().map(|it| it.step.name.clone()).collect(),
            kinds: steps.iter().map(|it| it.step.work.kind()).collect(),
            levels: steps.iter().map(|it| it.level).collect(),
            dependencies: steps.iter().map(|it| it.parents.clone()).collect(),
        }
    }
}

/// Shows all tasks of a DAG run as columns: 10,000 tasks in one answer.
#[utoipa::path(
    get, path = "/v1/dag-runs/{dag_run_id}/columns", operation_id = "get_dag_run_columns", tag = "dag runs",
    params(("dag_run_id" = String, Path, description = "The run's id."), ColumnParams),
    responses((status = 200, body = DagRunColumns), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody))
)]
pub(crate) async fn columns(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
    Params(params): Params<ColumnParams>,
) -> Result<Json<DagRunColumns>> {
    let run = find::dag_run(&app, &actor, &run).await?;
    let found = app.engine.by(&actor).dag_columns(run).await?;
    let since = found.steps.iter().filter_map(|step| step.decided_at).min();
    let since = since.unwrap_or_else(|| app.now());
    let each = |time: fn(&StepColumn) -> Option<Timestamp>| {
        let ms = |at: Timestamp| at.as_millisecond() - since.as_millisecond();
        found.steps.iter().map(|step| time(step).map(ms)).collect()
    };
    let with_place = || (0u32..).zip(&found.steps);
    let attempts = with_place().filter(|(_, step)| step.attempts > 1);
    let mut items: Vec<TaskItems> = with_place()
        .filter_map(|(task, step)| {
            Some(TaskItems { task, count: step.items?, ..Default::default() })
        })
        .collect();
    for (task, outcome, count) in &found.item_counts {
        let Ok(at) = items.binary_search_by_key(task, |it| it.task) else { continue };
        match outcome {
            None => {}
            Some(Outcome::Completed) => items[at].completed += count,
            Some(Outcome::Skipped) => items[at].skipped += count,
            Some(_) => items[at].failed += count,
        }
    }
    Ok(Json(DagRunColumns {
        dag_run_id: run.0,
        dag_version: found.dag.job.version,
        graph: params.graph.then(|| GraphColumns::of(&found.dag)),
        statuses: found.steps.iter().map(|step| letter(step.state, step.run)).collect(),
        since,
        released_ms: each(|step| step.decided_at),
        started_ms: each(|step| step.started_at),
        ended_ms: each(|step| step.ended_at),
        attempts: attempts.map(|(task, it)| TaskNumber { task, count: it.attempts }).collect(),
        items,
        adopted: with_place().filter(|(_, it)| it.is_adopted).map(|(task, _)| task).collect(),
    }))
}

/// Which part of a grid is wanted.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GridParams {
    /// How many runs; 50 when absent, at most 100.
    #[param(minimum = 1, maximum = 100)]
    runs: Option<u32>,
    /// The `next_cursor` of the answer before: older runs.
    cursor: Option<String>,
    /// The position of the first task, from 0.
    #[serde(default)]
    first_task: u32,
    /// How many tasks; 200 when absent, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    tasks: Option<u32>,
}

/// The states of tasks in several runs of a DAG.
#[derive(Serialize, ToSchema)]
pub struct GridAnswer {
    /// The number of tasks of the DAG, handlers included.
    pub task_count: usize,
    /// The names of the tasks, in the order of the definition, from `first_task` on.
    pub tasks: Vec<String>,
    /// The runs, newest first.
    pub runs: Vec<GridColumn>,
    /// Send it as `cursor` for older runs; null if there are none.
    pub next_cursor: Option<String>,
}

/// A run of a grid.
#[derive(Serialize, ToSchema)]
pub struct GridColumn {
    /// The run.
    pub dag_run_id: Uuid,
    /// The version of the DAG that it follows.
    pub dag_version: u32,
    /// The time that it stands for.
    pub scheduled_time: Timestamp,
    /// Its status.
    pub status: String,
    /// A letter for each task of `tasks`, as in the columns of a run; `.` if this run has no such
    /// task.
    pub statuses: String,
}

fn in_range(field: &str, asked: Option<u32>, default: u32, max: u32) -> Result<u32> {
    match asked.unwrap_or(default) {
        count if (1..=max).contains(&count) => Ok(count),
        count => {
            let text = format!("must be 1 to {max}, not {count}");
            Err(Problem::field(Code::InvalidRequest, field, text))
        }
    }
}

/// Shows the states of the tasks of a DAG in its last runs: a letter for each task and run.
#[utoipa::path(
    get, path = "/v1/dags/{dag_id}/grid", operation_id = "get_dag_grid", tag = "dag runs",
    params(("dag_id" = String, Path, description = "The DAG's id or name."), GridParams),
    responses((status = 200, body = GridAnswer), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody))
)]
pub(crate) async fn grid(
    State(app): State<App>,
    actor: Actor,
    Path(dag): Path<String>,
    Params(params): Params<GridParams>,
) -> Result<Json<GridAnswer>> {
    let runs = in_range("runs", params.runs, RUNS_MAX / 2, RUNS_MAX)?;
    let tasks = in_range("tasks", params.tasks, TASKS_DEFAULT, TASKS_MAX)?;
    let before = match page::cursor(params.cursor.as_deref())? {
        Some(text) => Some(text.parse().map_err(|_| page::bad_cursor())?),
        None => None,
    };
    let dag = find::dag(&app, &actor, &dag).await?;
    let engine = app.engine.by(&actor);
    let (grid, next) = engine.dag_grid(&dag, before, runs, params.first_task, tasks).await?;
    let name = |step| grid.dag.graph.name(step).to_owned();
    let column = |run: &GridRun| GridColumn {
        dag_run_id: run.run.id.0,
        dag_version: run.version,
        scheduled_time: run.run.scheduled_for,
        status: run.run.state.to_string(),
        statuses: run.states.iter().map(|it| it.map_or(NONE, |it| letter(it, None))).collect(),
    };
    Ok(Json(GridAnswer {
        task_count: grid.dag.graph.len(),
        tasks: grid.steps.clone().map(name).collect(),
        runs: grid.runs.iter().map(column).collect(),
        next_cursor: List::<()>::new(Vec::new(), next).next_cursor,
    }))
}
