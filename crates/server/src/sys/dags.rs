//! `sys.dags`, `sys.dag_runs` and `sys.dag_steps`.

use domain::dag::OnStepFailure;
use domain::dag::state::StepKey;
use domain::id::{JobId, RunId};
use domain::job::{Job, When};
use engine::{JobFilter, Page, RunFilter, RunView};
use query::{Is, Pages, QueryError, Row, Scan, Value};

use super::Sys;
use super::jobs::state_name;
use super::pages::{Made, ROWS, all, maybe, text_of};
use crate::rest::shape::dag_run::{label, status};
use crate::rest::shape::job_view::next_run;

/// All DAGs that the actor sees.
fn seen(sys: &Sys) -> Result<Vec<Job>, QueryError> {
    let filter = JobFilter::of_tenant(sys.actor.tenant);
    let mut found = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let engine = sys.app.engine.by(&sys.actor);
        let Page { items, next } = sys.ask(engine.list_dags(&filter, after.as_deref(), ROWS))?;
        found.extend(items);
        match next {
            Some(next) => after = Some(next),
            None => return Ok(found),
        }
    }
}

fn int(number: impl Into<i64>) -> Value {
    Value::Int(number.into())
}

pub(super) fn dags(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let row = |job: &Job| -> Row {
        let definition = &job.definition;
        let dag = definition.dag.as_deref();
        let (expression, zone) = match &definition.when {
            When::Cron { expression, zone, .. } => (Some(expression), Some(zone)),
            _ => (None, None),
        };
        let policy = dag.map(|dag| match dag.on_step_failure {
            OnStepFailure::Continue => "CONTINUE",
            OnStepFailure::Stop => "STOP",
            OnStepFailure::Hold => "HOLD",
        });
        let config = serde_json::to_string(&definition.parameters.values).unwrap_or_default();
        vec![
            Value::Uuid(job.id.0),
            Value::text(&job.name),
            text_of(definition.description.as_ref()),
            Value::text(state_name(job.state)),
            Value::text(definition.when.kind()),
            text_of(expression),
            text_of(zone),
            maybe(next_run(job, &sys.app), Value::Time),
            Value::Int(dag.map_or(0, |dag| dag.steps.len()) as i64),
            maybe(dag.and_then(|dag| dag.max_parallel), int),
            maybe(policy, Value::text),
            text_of(dag.and_then(|dag| dag.queue.as_ref())),
            Value::text(config),
            int(job.version),
            Value::Uuid(job.owner.0),
            Value::Time(job.created_at),
            Value::Time(job.updated_at),
        ]
    };
    Ok(all(seen(sys)?.iter().map(row).collect()))
}

/// The DAG runs that match a scan, one DAG after the other.
struct Runs {
    sys: Sys,
    /// The one run that is named, if one is.
    one: Option<Option<RunId>>,
    dags: Vec<(JobId, String)>,
    before: Option<RunId>,
}

impl Runs {
    fn new(sys: &Sys, scan: &Scan) -> Result<Self, QueryError> {
        let equal = |name: &str| {
            let field = scan.table.fields.iter().position(|field| field.name == name)?;
            scan.constraints.iter().find_map(|it| match &it.is {
                Is::In(values) if it.field == field && values.len() == 1 => values.first().cloned(),
                _ => None,
            })
        };
        let one = match equal("dag_run_uuid") {
            Some(Value::Uuid(id)) => Some(Some(RunId(id))),
            _ => None,
        };
        let name = match equal("dag_name") {
            Some(Value::Text(name)) => Some(name),
            _ => None,
        };
        let dags = match one {
            Some(_) => Vec::new(),
            None => seen(sys)?
                .into_iter()
                .filter(|dag| name.as_ref().is_none_or(|name| **name == *dag.name))
                .map(|dag| (dag.id, dag.name))
                .rev()
                .collect(),
        };
        Ok(Runs { sys: sys.clone(), one, dags, before: None })
    }

    /// The next runs.
    fn next(&mut self) -> Result<Option<Vec<RunView>>, QueryError> {
        let engine = self.sys.app.engine.by(&self.sys.actor);
        if let Some(one) = &mut self.one {
            let Some(run) = one.take() else { return Ok(None) };
            return Ok(Some(self.sys.ask(engine.run(run))?.into_iter().collect()));
        }
        let Some((dag, _)) = self.dags.last() else { return Ok(None) };
        let filter = RunFilter { without_steps: true, ..RunFilter::of_job(*dag) };
        let page = self.sys.ask(engine.list_runs(&filter, self.before, ROWS))?;
        self.before = page.next;
        if self.before.is_none() {
            self.dags.pop();
        }
        Ok(Some(page.items))
    }
}

pub(super) fn dag_runs(sys: &Sys, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
    let (sys, mut runs) = (sys.clone(), Runs::new(sys, scan)?);
    Ok(Box::new(Made(move || {
        let Some(page) = runs.next()? else { return Ok(None) };
        let mut rows: Vec<Row> = Vec::with_capacity(page.len());
        for run in page {
            let engine = sys.app.engine.by(&sys.actor);
            // One that is not a DAG run, or whose records are gone.
            let Some(view) = sys.ask_for(engine.dag_run(run.id))? else { continue };
            let counts = view.counts;
            rows.push(vec![
                Value::Uuid(run.id.0),
                Value::Uuid(run.job.0),
                Value::text(&view.dag.job.name),
                int(run.job_version),
                Value::text(run.state.to_string()),
                text_of(run.reason.as_ref()),
                text_of(run.reason_text.as_ref().filter(|text| !text.is_empty())),
                Value::Time(run.scheduled_for),
                maybe(run.started_at, Value::Time),
                maybe(run.finished_at, Value::Time),
                text_of(run.parameters.as_ref()),
                Value::text(view.control.name()),
                maybe(view.rerun_of, |run| Value::Uuid(run.0)),
                int(counts.steps),
                int(counts.pending),
                int(counts.open),
                int(counts.completed),
                int(counts.failed),
                int(counts.skipped),
                maybe(view.expected_end, Value::Time),
            ]);
        }
        Ok(Some(rows))
    })))
}

/// Where a walk over steps is.
#[derive(Default)]
struct StepWalk {
    /// The runs whose steps have not been read, the next one last.
    runs: Vec<RunId>,
    /// The last step that was read of the last run.
    after: Option<StepKey>,
    /// Steps with items that have not been read, the next one last, and the last item of it.
    expanded: Vec<String>,
    after_item: Option<StepKey>,
}

pub(super) fn dag_steps(sys: &Sys, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
    let (sys, mut runs) = (sys.clone(), Runs::new(sys, scan)?);
    let mut walk = StepWalk::default();
    Ok(Box::new(Made(move || {
        while walk.runs.is_empty() {
            match runs.next()? {
                // The newest comes first.
                Some(page) => walk.runs = page.into_iter().rev().map(|run| run.id).collect(),
                None => return Ok(None),
            }
        }
        let Some(run) = walk.runs.last().copied() else { return Ok(None) };
        let engine = sys.app.engine.by(&sys.actor);
        let (items_of, after) = match walk.expanded.last() {
            Some(step) => (Some(step.as_str()), walk.after_item),
            None => (None, walk.after),
        };
        let view = sys.ask_for(engine.dag_run(run))?;
        let page = match &view {
            Some(_) => sys.ask_for(engine.dag_steps(run, items_of, after, ROWS))?,
            None => None,
        };
        // One that is not a DAG run, or whose records are gone.
        let (Some(view), Some(page)) = (view, page) else {
            walk = StepWalk { runs: std::mem::take(&mut walk.runs), ..StepWalk::default() };
            walk.runs.pop();
            return Ok(Some(Vec::new()));
        };
        if walk.expanded.is_empty() {
            let has_items = |step: &&engine::StepView| step.items.is_some_and(|items| items > 0);
            let expanded = page.items.iter().filter(has_items).map(|step| step.name.clone());
            walk.expanded = expanded.rev().collect();
            walk.after = page.next;
        } else {
            walk.after_item = page.next;
            if walk.after_item.is_none() {
                walk.expanded.pop();
            }
        }
        if walk.expanded.is_empty() && walk.after.is_none() {
            walk.runs.pop();
        }
        Ok(Some(page.items.into_iter().map(|step| step_row(&view, step)).collect()))
    })))
}

fn step_row(view: &engine::DagRunView, step: engine::StepView) -> Row {
    let state = status(&step);
    let (code, text) = step.reason.map(|it| (it.code.name(), it.text)).unzip();
    let run = step.run.as_ref();
    let is_running = run.is_some_and(|run| run.state == domain::run::RunState::Running);
    let attempts = run.map_or(0, |run| run.attempts + run.lost + u32::from(is_running));
    let error = run.filter(|run| run.error.is_some()).and_then(|run| run.message.as_ref());
    vec![
        Value::Uuid(view.run.id.0),
        Value::text(&view.dag.job.name),
        Value::text(&step.name),
        maybe(step.key.item, int),
        Value::text(step.kind),
        Value::text(state),
        maybe(code, Value::text),
        text_of(text.as_ref()),
        maybe(step.items, int),
        maybe(run, |run| Value::Uuid(run.id.0)),
        int(attempts),
        maybe(step.decided_by, |by| Value::text(label(&view.dag, by))),
        maybe(step.decided_at, Value::Time),
        maybe(run.and_then(|run| run.started_at), Value::Time),
        maybe(step.ended_at, Value::Time),
        text_of(error),
        text_of(run.and_then(|run| run.result.as_ref())),
        Value::Bool(step.is_adopted),
    ]
}
