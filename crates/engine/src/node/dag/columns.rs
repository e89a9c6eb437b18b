//! DAG runs as columns: all steps of one run, or the outcomes of steps in many runs, in a few
//! statements of the store.

use std::collections::HashMap;
use std::sync::Arc;

use domain::dag::StepWork;
use domain::dag::state::StepState;
use domain::id::{JobId, RunId, TenantId};
use domain::run::RunState;
use store::RunView;
use uuid::Uuid;

use crate::dags::{CompiledDag, DagColumns, DagGrid, GridRun, StepColumn};
use crate::error::Result;
use crate::node::Node;

impl Node {
    /// All steps of a DAG run, without their items.
    pub(crate) async fn dag_columns(
        &self,
        run: RunId,
        dag: Arc<CompiledDag>,
    ) -> Result<DagColumns> {
        let mut steps = vec![StepColumn::default(); dag.graph.len()];
        let page = self.store.dag_steps(run, None, None, steps.len() as u32).await?;
        let mut open = HashMap::new();
        let mut has_items = false;
        for record in page.items {
            let Some(step) = steps.get_mut(record.key.step as usize) else { continue };
            step.state = record.outcome.map_or(StepState::Open, StepState::Ended);
            step.decided_at = Some(record.decided_at);
            step.ended_at = record.ended_at;
            step.items = record.items;
            step.is_adopted = record.is_adopted;
            has_items |= record.items.is_some();
            // A step that waits for an answer or a time has no run that could be queued.
            let work = &dag.graph.step(record.key.step).step.work;
            let waits = matches!(
                work,
                StepWork::Approval { .. }
                    | StepWork::Sleep { .. }
                    | StepWork::WaitForMessage { .. }
            );
            let is_open = record.outcome.is_none() && !waits;
            open.extend(record.run.filter(|_| is_open).map(|run| (run, record.key.step as usize)));
        }
        let ids: Vec<RunId> = open.keys().copied().collect();
        for view in self.store.runs(&ids).await? {
            let Some(step) = open.get(&view.id).and_then(|step| steps.get_mut(*step)) else {
                continue;
            };
            step.run = Some(view.state);
            step.started_at = view.started_at;
            step.attempts = view.attempts + view.lost + u32::from(is_under_way(&view));
        }
        for (step, started_at, attempts) in self.store.step_attempts(run).await? {
            if let Some(step) = steps.get_mut(step as usize) {
                (step.started_at, step.attempts) = (started_at, attempts);
            }
        }
        let item_counts = match has_items {
            true => self.store.item_counts(run).await?,
            false => Vec::new(),
        };
        Ok(DagColumns { dag, steps, item_counts })
    }

    /// The states of a DAG's steps from `first` on, at most so many, in the given runs.
    pub(crate) async fn dag_grid(
        &self,
        (tenant, job): (TenantId, JobId),
        dag: Arc<CompiledDag>,
        runs: Vec<RunView>,
        first: u32,
        steps: u32,
    ) -> Result<DagGrid> {
        let first = first.min(dag.graph.len() as u32);
        let last = first.saturating_add(steps).min(dag.graph.len() as u32);
        let headers = self.versions_of(tenant, job, &runs).await?;
        // Steps are numbered by their version: another version has them under other numbers.
        let mut places: HashMap<u32, Vec<Option<u32>>> = HashMap::new();
        let mut ranges = Vec::new();
        for run in &runs {
            let Some(version) = headers.get(&run.id) else { continue };
            if !places.contains_key(version) {
                let of = self.dag_version(job, *version).await?;
                let place = |step| of.as_ref().and_then(|of| of.graph.find(dag.graph.name(step)));
                places.insert(*version, (first..last).map(place).collect());
            }
            let known = places[version].iter().flatten();
            if let (Some(from), Some(to)) = (known.clone().min(), known.max()) {
                ranges.push((run.id, *from, *to));
            }
        }
        let outcomes = self.store.step_outcomes(&ranges).await?;
        let mut outcomes: HashMap<RunId, HashMap<u32, StepState>> = ranges
            .iter()
            .zip(outcomes)
            .map(|((run, ..), found)| {
                let state = |(step, outcome): (u32, Option<_>)| {
                    (step, outcome.map_or(StepState::Open, StepState::Ended))
                };
                (*run, found.into_iter().map(state).collect())
            })
            .collect();
        let column = |run: RunView| {
            let found = outcomes.remove(&run.id).unwrap_or_default();
            let version = headers.get(&run.id).copied();
            let missing = match run.state {
                RunState::Ended(_) => None,
                _ => Some(StepState::Pending),
            };
            let state = |place: &Option<u32>| match place {
                Some(place) => found.get(place).copied().or(missing),
                None => None,
            };
            let states = match version.and_then(|version| places.get(&version)) {
                Some(places) => places.iter().map(state).collect(),
                None => vec![missing; (last - first) as usize],
            };
            GridRun { version: version.unwrap_or(run.job_version), run, states }
        };
        let runs = runs.into_iter().map(column).collect();
        Ok(DagGrid { steps: first..last, runs, dag })
    }
}

impl Node {
    /// The versions that runs of a DAG follow. A run that has not begun follows none.
    async fn versions_of(
        &self,
        tenant: TenantId,
        job: JobId,
        runs: &[RunView],
    ) -> Result<HashMap<RunId, u32>> {
        let mut found = HashMap::new();
        let ids = runs.iter().map(|run| run.id);
        let (Some(oldest), Some(newest)) = (ids.clone().min(), ids.max()) else {
            return Ok(found);
        };
        let mut before = newest.0.as_u128().checked_add(1).map(|id| RunId(Uuid::from_u128(id)));
        loop {
            let limit = runs.len() as u32;
            let page = self.store.list_dag_runs(tenant, Some(job), before, limit).await?;
            found.extend(page.items.into_iter().map(|header| (header.run, header.version)));
            before = page.next.filter(|last| *last > oldest);
            if before.is_none() {
                return Ok(found);
            }
        }
    }
}

/// Whether an attempt executes, which is not among those that have ended.
fn is_under_way(run: &RunView) -> bool {
    run.state == RunState::Running
}
