//! DAG runs and steps as they are shown.

use std::collections::HashMap;
use std::sync::Arc;

use domain::dag::Graph;
use domain::dag::call::{StepCall, definition_hash};
use domain::dag::path::{critical_path, estimate};
use domain::dag::state::{Control, DagState, StepKey, StepRecord, StepState};
use domain::id::RunId;
use jiff::{SignedDuration, Timestamp};
use store::{DagRun, Page, RunView};

use super::decide::load;
use crate::dags::{CompiledDag, DagRunDiff, DagRunView, StepDiff, StepView};
use crate::error::Result;
use crate::node::Node;

/// Earlier runs that the durations of steps are estimated from.
const EARLIER_RUNS: u32 = 5;

impl Node {
    /// The records of a DAG run and the state that follows from them, now or at a time in the past.
    pub(crate) async fn recorded(
        &self,
        run: RunId,
        dag: &CompiledDag,
        at: Option<Timestamp>,
    ) -> Result<(Option<DagRun>, DagState, Vec<StepRecord>)> {
        let (header, mut records) = match self.store.dag_run(run, true).await? {
            Some((header, records)) => (Some(header), records),
            None => (None, Vec::new()),
        };
        let mut control = header.as_ref().map_or(Control::Running, |header| header.control);
        if let Some(at) = at {
            records.retain(|record| record.decided_at <= at);
            for record in &mut records {
                if record.ended_at.is_some_and(|ended| ended > at) {
                    (record.outcome, record.ended_at, record.reason) = (None, None, None);
                }
            }
            // When it was cancelled or stopped is not recorded.
            if records.iter().any(|record| record.outcome.is_none()) {
                control = Control::Running;
            }
        }
        let forced = header.as_ref().map_or(&[][..], |header| header.forced.as_slice());
        let state = load(dag, control, forced, &records);
        Ok((header, state, records))
    }

    pub(crate) async fn dag_run_view(
        &self,
        run: RunView,
        header: Option<DagRun>,
        dag: Arc<CompiledDag>,
    ) -> Result<DagRunView> {
        let (_, state, records) = self.recorded(run.id, &dag, None).await?;
        let expected_end = match header.as_ref().is_some_and(|header| !header.is_over) {
            true => self.expected_end(&run, &dag, &records).await?,
            false => None,
        };
        Ok(DagRunView {
            control: header.as_ref().map_or(Control::Running, |header| header.control),
            rerun_of: header.and_then(|header| header.rerun_of),
            counts: state.counts(),
            critical_path: critical_path(&records),
            expected_end,
            run,
            dag,
        })
    }

    /// How long the steps of a version took in its latest runs that ended, by name: the median.
    pub(crate) async fn step_durations(
        &self,
        dag: &CompiledDag,
        but: RunId,
    ) -> Result<HashMap<String, SignedDuration>> {
        let (tenant, job) = (dag.job.tenant, Some(dag.job.id));
        let page = self.store.list_dag_runs(tenant, job, None, EARLIER_RUNS + 1).await?;
        let mut durations: HashMap<String, Vec<SignedDuration>> = HashMap::new();
        for earlier in page.items.into_iter().filter(|it| it.is_over && it.run != but) {
            let Some(of) = self.dag_version(earlier.job, earlier.version).await? else { continue };
            let records = self.store.dag_run(earlier.run, true).await?;
            for record in records.map(|(_, records)| records).unwrap_or_default() {
                if record.key.item.is_none()
                    && !record.is_adopted
                    && let Some(ended) = record.ended_at
                    && let Some(step) = of.graph.get(record.key.step)
                {
                    let took = ended.duration_since(record.decided_at);
                    durations.entry(step.step.name.clone()).or_default().push(took);
                }
            }
        }
        let median = |(name, mut all): (String, Vec<SignedDuration>)| {
            all.sort_unstable();
            (name, all[all.len() / 2])
        };
        Ok(durations.into_iter().map(median).collect())
    }

    async fn expected_end(
        &self,
        run: &RunView,
        dag: &CompiledDag,
        records: &[StepRecord],
    ) -> Result<Option<Timestamp>> {
        let durations = self.step_durations(dag, run.id).await?;
        if durations.is_empty() {
            return Ok(None);
        }
        let now = self.now();
        let done: HashMap<u32, &StepRecord> = records
            .iter()
            .filter(|record| record.key.item.is_none())
            .map(|record| (record.key.step, record))
            .collect();
        let left = |step: u32| {
            let usual = durations.get(dag.graph.name(step)).copied().unwrap_or_default();
            match done.get(&step) {
                Some(record) if record.outcome.is_some() => SignedDuration::ZERO,
                Some(record) => {
                    let begun = now.duration_since(record.decided_at);
                    usual.saturating_sub(begun).max(SignedDuration::ZERO)
                }
                None => usual,
            }
        };
        let (_, length) = estimate(&dag.graph, left);
        Ok(now.saturating_add(length).ok())
    }

    /// A page of steps, or of the items of one.
    pub(crate) async fn step_page(
        &self,
        run: RunId,
        has_begun: bool,
        dag: &CompiledDag,
        items_of: Option<u32>,
        after: Option<StepKey>,
        limit: u32,
    ) -> Result<Page<StepView, StepKey>> {
        let mut items = Vec::new();
        if let Some(step) = items_of {
            let page = self.store.dag_steps(run, Some(step), after, limit).await?;
            let mut runs = self.runs_of_steps(page.items.iter()).await?;
            for record in page.items {
                items.push(step_view(dag, record.key, Some(record), &mut runs));
            }
            return Ok(Page { items, next: page.next });
        }
        let first = after.map_or(0, |key| key.step + 1);
        let last = first.saturating_add(limit).min(dag.graph.len() as u32);
        let mut records: HashMap<StepKey, StepRecord> = HashMap::new();
        if has_begun {
            let page = self.store.dag_steps(run, None, after, limit).await?;
            records.extend(page.items.into_iter().map(|record| (record.key, record)));
        }
        let mut runs = self.runs_of_steps(records.values()).await?;
        for step in first..last {
            let key = StepKey::of_step(step);
            items.push(step_view(dag, key, records.remove(&key), &mut runs));
        }
        let next = (last < dag.graph.len() as u32 && last > 0).then(|| StepKey::of_step(last - 1));
        Ok(Page { items, next })
    }

    pub(crate) async fn step_view_of(
        &self,
        run: RunId,
        dag: &CompiledDag,
        key: StepKey,
    ) -> Result<StepView> {
        let items_of = key.item.map(|_| key.step);
        let before = match key.item {
            Some(item) => StepKey { step: key.step, item: item.checked_sub(1) },
            None => StepKey { step: key.step.wrapping_sub(1), item: None },
        };
        let after = (before.step != u32::MAX && (items_of.is_none() || before.item.is_some()))
            .then_some(before);
        let page = self.store.dag_steps(run, items_of, after, 1).await?;
        let record = page.items.into_iter().find(|record| record.key == key);
        let mut runs = self.runs_of_steps(record.iter()).await?;
        Ok(step_view(dag, key, record, &mut runs))
    }

    /// The runs of recorded steps, by id.
    async fn runs_of_steps(
        &self,
        records: impl Iterator<Item = &StepRecord>,
    ) -> Result<HashMap<RunId, RunView>> {
        let ids: Vec<RunId> = records.filter_map(|record| record.run).collect();
        Ok(self.store.runs(&ids).await?.into_iter().map(|run| (run.id, run)).collect())
    }

    /// How two runs of a DAG differ.
    pub(crate) async fn diff_dag_runs(
        &self,
        (one, first): (RunId, &CompiledDag),
        (other, second): (RunId, &CompiledDag),
    ) -> Result<DagRunDiff> {
        let (_, states, records) = self.recorded(one, first, None).await?;
        let (_, other_states, other_records) = self.recorded(other, second, None).await?;
        let find = |records: &[StepRecord], step: u32| {
            records.iter().find(|record| record.key == StepKey::of_step(step)).cloned()
        };
        let in_order = |graph: &Graph| {
            let mut order: Vec<u32> = (0..graph.len() as u32).collect();
            order.sort_by_key(|step| (graph.step(*step).level, *step));
            order.into_iter().map(|step| graph.name(step).to_owned()).collect::<Vec<_>>()
        };
        let mut names = in_order(&first.graph);
        let added = in_order(&second.graph).into_iter();
        names.extend(added.filter(|name| first.graph.find(name).is_none()));
        let mut steps = Vec::new();
        for name in names {
            let (step, twin) = (first.graph.find(&name), second.graph.find(&name));
            let a = step.and_then(|step| find(&records, step));
            let b = twin.and_then(|twin| find(&other_records, twin));
            let inputs = (self.inputs_of(a.as_ref()).await?, self.inputs_of(b.as_ref()).await?);
            let definition = |graph: &Graph, step: u32| definition_hash(&graph.step(step).step);
            let definitions = (
                step.map(|step| definition(&first.graph, step)),
                twin.map(|twin| definition(&second.graph, twin)),
            );
            let states = (
                step.map(|step| states.state(StepKey::of_step(step))),
                twin.map(|twin| other_states.state(StepKey::of_step(twin))),
            );
            let took = |record: Option<StepRecord>| {
                let record = record?;
                Some(record.ended_at?.duration_since(record.decided_at))
            };
            let durations = (took(a), took(b));
            let is_changed = definitions.0 != definitions.1;
            if is_changed || inputs.0 != inputs.1 || states.0 != states.1 {
                steps.push(StepDiff { name, states, definitions, inputs, durations });
            }
        }
        Ok(DagRunDiff { steps })
    }

    async fn inputs_of(&self, record: Option<&StepRecord>) -> Result<Option<String>> {
        let Some(run) = record.and_then(|record| record.run) else { return Ok(None) };
        let parameters = self.store.run(run).await?.and_then(|run| run.parameters);
        let call = parameters.as_deref().and_then(StepCall::from_parameters);
        Ok(call.map(|call| call.inputs))
    }
}

/// A step with its run, which is taken from `runs`.
fn step_view(
    dag: &CompiledDag,
    key: StepKey,
    record: Option<StepRecord>,
    runs: &mut HashMap<RunId, RunView>,
) -> StepView {
    let step = &dag.graph.step(key.step).step;
    let state = match &record {
        None => StepState::Pending,
        Some(record) => record.outcome.map_or(StepState::Open, StepState::Ended),
    };
    let record = record.as_ref();
    StepView {
        key,
        name: step.name.clone(),
        kind: step.work.kind(),
        state,
        reason: record.and_then(|record| record.reason.clone()),
        items: record.and_then(|record| record.items),
        run: record.and_then(|record| record.run).and_then(|run| runs.remove(&run)),
        decided_by: record.and_then(|record| record.decided_by),
        decided_at: record.map(|record| record.decided_at),
        ended_at: record.and_then(|record| record.ended_at),
        is_adopted: record.is_some_and(|record| record.is_adopted),
    }
}
