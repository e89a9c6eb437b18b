//! Every step of a DAG run has exactly one outcome, which follows from the outcomes of its parents.

use std::collections::{BTreeMap, HashMap};

use domain::dag::state::{Control, DagState, Inputs, StepKey, StepRecord, StepState, dag_outcome};
use domain::dag::{Dag, Graph, JsonMap};
use domain::run::{Outcome, RunState};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use store::{DagRecords, DagRun, Store};

use super::Held;
use crate::oracle::Oracle;

/// DAG runs of a job that are looked at.
const RUNS_MAX: u32 = 1_000;

/// Checks all DAG runs, and returns the violations.
pub async fn check<S: Store + DagRecords>(
    store: &S,
    oracle: &Oracle,
    settled: bool,
) -> store::Result<Held> {
    for (id, expected) in oracle.jobs() {
        if expected.definitions.values().all(|definition| !definition.is_dag()) {
            continue;
        }
        let runs = store.list_dag_runs(expected.job.tenant, Some(*id), None, RUNS_MAX).await?;
        for header in runs.items {
            let definition = expected.definitions.get(&header.version);
            let Some(dag) = definition.and_then(|definition| definition.dag.as_ref()) else {
                continue;
            };
            let Some((_, records)) = store.dag_run(header.run, true).await? else { continue };
            let view = store.run(header.run).await?.map(|run| run.state);
            let mut runs = BTreeMap::new();
            for record in &records {
                if let Some(run) = record.run {
                    runs.insert(record.key, store.run(run).await?.map(|run| run.state));
                }
            }
            let held = check_run(dag, &header, &records, view, &runs, settled);
            if let Err(detail) = held {
                return Ok(Err(format!(
                    "DAG run {} of {}: {detail}",
                    header.run, expected.job.name
                )));
            }
        }
    }
    Ok(Ok(()))
}

fn check_run(
    dag: &Dag,
    header: &DagRun,
    records: &[StepRecord],
    view: Option<RunState>,
    runs: &BTreeMap<StepKey, Option<RunState>>,
    settled: bool,
) -> Held {
    let graph = Graph::compile(dag).map_err(|error| error.to_string())?;
    let state = DagState::load(&graph, dag, header.control, [], records);
    for record in records {
        let ended = match runs.get(&record.key) {
            Some(Some(RunState::Ended(ended))) => Some(*ended),
            _ => None,
        };
        let name = graph.name(record.key.step);
        match (record.outcome, ended) {
            (Some(outcome), Some(ended)) if outcome != ended && record.reason.is_none() => {
                return Err(format!("step {name} is {outcome}, its run {ended}"));
            }
            (None, Some(ended)) if settled => {
                return Err(format!("step {name} is open, its run {ended}"));
            }
            _ => {}
        }
    }
    if let Some(RunState::Ended(ended)) = view {
        if !header.is_over {
            // A job that was deleted ends its runs without a look at their steps.
            return match ended {
                Outcome::Skipped | Outcome::Cancelled | Outcome::Failed => Ok(()),
                // Its node was lost before it had decided anything.
                Outcome::Missed if header.revision == 0 && records.is_empty() => Ok(()),
                ended => Err(format!("it ended as {ended} although steps are left: {records:?}")),
            };
        }
        let outcome = dag_outcome(&graph, &state).map(|(outcome, _)| outcome);
        // A cancel counts exactly if it kept a step from its end.
        if outcome != Some(ended) {
            return Err(format!("it ended as {ended}, its steps say {outcome:?}"));
        }
    }
    if header.is_over {
        for step in 0..graph.len() as u32 {
            if !matches!(state.state(StepKey::of_step(step)), StepState::Ended(_)) {
                return Err(format!("it is over, and step {} has no outcome", graph.name(step)));
            }
        }
        if header.control == Control::Running {
            return replay(dag, &graph, header, records);
        }
    }
    Ok(())
}

/// The recorded ends of runs lead to the recorded outcomes of all steps.
fn replay(dag: &Dag, graph: &Graph, header: &DagRun, records: &[StepRecord]) -> Held {
    let by_key: HashMap<StepKey, &StepRecord> =
        records.iter().map(|record| (record.key, record)).collect();
    let mut state = DagState::load(graph, dag, Control::Running, [], &[]);
    let (params, results) = (JsonMap::new(), HashMap::new());
    let inputs = Inputs {
        run: header.run,
        dag: "",
        scheduled_for: Timestamp::UNIX_EPOCH,
        zone: TimeZone::UTC,
        params: &params,
        results: &results,
    };
    loop {
        if state.decide(graph, dag, &inputs).is_err() {
            return Err("a decision needs results".to_owned());
        }
        let Some(key) = state.open().first().copied() else { break };
        let Some(outcome) = by_key.get(&key).and_then(|record| record.outcome) else {
            return Err(format!("step {} was not released", graph.name(key.step)));
        };
        state.end(graph, dag, key, outcome, None);
    }
    for record in records {
        let expected = state.state(record.key);
        if Some(expected) != record.outcome.map(StepState::Ended) {
            let name = graph.name(record.key.step);
            return Err(format!("step {name} is {:?}, and should be {expected}", record.outcome));
        }
    }
    Ok(())
}
