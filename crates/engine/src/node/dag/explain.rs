//! Why a step ran, waits or did not run; replayed decisions; inconsistencies of records.

use std::collections::{BTreeMap, HashMap, HashSet};

use domain::dag::call::StepCall;
use domain::dag::path::{critical_path, makespan};
use domain::dag::state::{Changes, Control, DagState, StepKey, StepRecord, StepState, dag_outcome};
use domain::dag::{Judgement, StepWork};
use domain::id::{JobId, RunId, TenantId};
use domain::run::{Outcome, ReasonCode, RunState};
use jiff::Timestamp;
use store::{DagRun, RunView};

use super::KnownRun;
use super::decide::load;
use crate::dags::{CompiledDag, DagVerification, ReplayReport, StepExplanation, StepView};
use crate::error::{EngineError, Result};
use crate::node::Node;

/// Parents that an explanation names.
const PARENTS_SHOWN: usize = 10;

impl Node {
    pub(crate) async fn explain_step(
        &self,
        run: &RunView,
        dag: &CompiledDag,
        key: StepKey,
        at: Option<Timestamp>,
    ) -> Result<StepExplanation> {
        self.is_past(at)?;
        let (header, state, records) = self.recorded(run.id, dag, at).await?;
        let mut step = self.step_view_of(run.id, dag, key).await?;
        step.state = state.state(key);
        let record = records.iter().find(|record| record.key == key);
        if at.is_some() {
            step.ended_at = record.and_then(|record| record.ended_at);
            step.decided_at = record.map(|record| record.decided_at);
            step.reason = record.and_then(|record| record.reason.clone());
        }
        let node = dag.graph.step(key.step);
        let tally = state.tally(&dag.graph, key.step);
        let parents: Vec<(String, StepState)> = node
            .parents
            .iter()
            .map(|parent| {
                let along = node.along == Some(*parent) && key.item.is_some();
                let parent_key = StepKey { step: *parent, item: key.item.filter(|_| along) };
                (dag.graph.name(*parent).to_owned(), state.state(parent_key))
            })
            .collect();
        let call = step.run.as_ref().and_then(|run| run.parameters.as_deref());
        let call = call.and_then(StepCall::from_parameters);
        let inputs = call.map(|call| (call.inputs.clone(), call.values.into_iter().collect()));
        let mut explanation = StepExplanation {
            rule: node.step.rule,
            tally,
            parents,
            when: node.step.when.clone(),
            inputs,
            lines: Vec::new(),
            step,
        };
        explanation.lines = match self.not_begun(run, &records, at) {
            Some(text) => vec![text],
            None => lines(&explanation, dag, header.as_ref(), &state, at),
        };
        Ok(explanation)
    }

    /// Refuses a time that has not come.
    fn is_past(&self, at: Option<Timestamp>) -> Result<()> {
        match at.filter(|at| *at > self.now()) {
            None => Ok(()),
            Some(at) => {
                let problem = format!("{at} is in the future");
                Err(EngineError::Invalid { field: "at", problem })
            }
        }
    }

    /// Explanation for a time before any decision about a DAG run.
    fn not_begun(
        &self,
        run: &RunView,
        records: &[StepRecord],
        at: Option<Timestamp>,
    ) -> Option<String> {
        match at {
            Some(at) if at < run.created_at => Some(format!(
                "the DAG run did not exist at {at}: it was created {}",
                run.created_at
            )),
            Some(at) if records.is_empty() => Some(format!("the DAG run had not begun at {at}")),
            _ => None,
        }
    }

    pub(crate) async fn explain_dag_run(
        &self,
        run: &RunView,
        header: Option<DagRun>,
        dag: &CompiledDag,
        at: Option<Timestamp>,
    ) -> Result<Vec<String>> {
        self.is_past(at)?;
        let (_, state, records) = self.recorded(run.id, dag, at).await?;
        let counts = state.counts();
        let mut lines = Vec::new();
        let Some(header) = header else {
            return Ok(vec![format!("the DAG run is {} and has not begun", run.state)]);
        };
        if let Some(text) = self.not_begun(run, &records, at) {
            return Ok(vec![text]);
        }
        let has_ended = at.is_none_or(|at| run.finished_at.is_some_and(|end| end <= at));
        match run.state {
            RunState::Ended(outcome) if has_ended => {
                let reason = run.reason_text.as_deref().map(|text| format!(": {text}"));
                lines.push(format!("it ended as {outcome}{}", reason.unwrap_or_default()));
            }
            _ => lines.push(format!("it is {}", state.control().name())),
        }
        lines.push(format!("it follows version {} of the DAG", header.version));
        if let Some(other) = header.rerun_of {
            lines.push(format!("it repeats run {other}"));
        }
        lines.push(format!(
            "{} of {} steps completed, {} failed, {} were skipped, {} are open, {} are pending",
            counts.completed,
            counts.steps,
            counts.failed,
            counts.skipped,
            counts.open,
            counts.pending
        ));
        if header.control == Control::Held {
            lines.push("a step failed and ON FAILURE = HOLD: resume or cancel it".to_owned());
        }
        let names = |keys: Vec<StepKey>| {
            let shown: Vec<String> =
                keys.iter().take(PARENTS_SHOWN).map(|key| name_of(dag, *key)).collect();
            let more = keys.len().saturating_sub(PARENTS_SHOWN);
            match more {
                0 => shown.join(", "),
                more => format!("{} and {more} others", shown.join(", ")),
            }
        };
        let open = state.open();
        if !open.is_empty() {
            lines.push(format!("it waits for {}", names(open)));
        }
        let path = critical_path(&records);
        if !path.is_empty() {
            let steps: Vec<String> = path
                .iter()
                .map(|step| {
                    let until = step.until.unwrap_or_else(|| self.now());
                    let took = until.duration_since(step.from);
                    format!("{} {:.3} s", name_of(dag, step.key), took.as_secs_f64())
                })
                .collect();
            lines.push(format!("critical path: {}", steps.join(" -> ")));
        }
        Ok(lines)
    }

    /// Decides a run again by its recorded ends.
    pub(crate) async fn replay_dag_run(
        &self,
        run: RunId,
        assumed: &BTreeMap<u32, Outcome>,
        slots: Option<u32>,
    ) -> Result<ReplayReport> {
        let Some((header, records)) = self.store.dag_run(run, true).await? else {
            return Err(EngineError::WrongState(format!("DAG run {run} has not begun")));
        };
        let Some(dag) = self.dag_version(header.job, header.version).await? else {
            return Err(EngineError::NotFound(format!("version {} of the DAG", header.version)));
        };
        let mut adopted: Vec<StepRecord> =
            records.iter().filter(|record| record.is_adopted).cloned().collect();
        // A fan-out whose completed items were adopted has its items from the beginning.
        let items = adopted.iter().filter(|record| record.key.item.is_some());
        let expanded: HashSet<u32> = items.map(|record| record.key.step).collect();
        let is_expanded =
            |record: &&StepRecord| record.items.is_some() && expanded.contains(&record.key.step);
        for group in records.iter().filter(|record| !record.is_adopted).filter(is_expanded) {
            let group = group.clone();
            adopted.push(StepRecord { outcome: None, reason: None, ended_at: None, ..group });
        }
        let runs = records.iter().filter_map(|it| Some((it.key, it.run?))).collect();
        // A cancellation counts from its first decision on. Assumed outcomes are those without it.
        let mut is_cancelled = header.control == Control::Cancelling && assumed.is_empty();
        let code_of = |record: &StepRecord| record.reason.as_ref().map(|reason| reason.code);
        let unstarted = records.iter().filter(|record| {
            record.run.is_none() && code_of(record) == Some(ReasonCode::CancelRequested)
        });
        let cancelled_at = unstarted.filter_map(|record| record.ended_at).min();
        let header = DagRun { control: Control::Running, ..header };
        let mut known = KnownRun { runs, ..KnownRun::from_records(header, dag.clone(), adopted) };
        let by_key: HashMap<StepKey, &StepRecord> =
            records.iter().map(|record| (record.key, record)).collect();
        let mut ends: Vec<&StepRecord> = records
            .iter()
            .filter(|record| record.ended_at.is_some() && !record.is_adopted)
            // Steps that were decided without a run follow from the others.
            .filter(|record| {
                record.run.is_some()
                    || matches!(code_of(record), Some(ReasonCode::Marked | ReasonCode::Approval))
            })
            .collect();
        ends.sort_by_key(|record| (record.ended_at, record.key));
        let mut report = ReplayReport::default();
        let definition = dag.job.definition.dag.clone().unwrap_or_default();
        let mut changes = self.decide_with_results(&mut known).await?;
        compare(&dag, &by_key, &changes, assumed, &mut report);
        let mut pending = ends;
        loop {
            let next = pending.iter().position(|record| {
                let is_run = record.items.is_none();
                is_run && known.state.state(record.key) == StepState::Open
            });
            let is_after = |place: usize| {
                cancelled_at.is_some_and(|at| pending[place].ended_at.is_some_and(|it| it >= at))
            };
            if is_cancelled && next.is_none_or(is_after) {
                is_cancelled = false;
                known.state.set_control(Control::Cancelling);
                changes = self.decide_with_results(&mut known).await?;
                compare(&dag, &by_key, &changes, assumed, &mut report);
                continue;
            }
            let (key, outcome, reason) = match next {
                Some(place) => {
                    let record = pending.remove(place);
                    let assumed = assumed.get(&record.key.step).copied();
                    let outcome = assumed.or(record.outcome).unwrap_or(Outcome::Completed);
                    (record.key, outcome, record.reason.clone())
                }
                None if assumed.is_empty() => break,
                // Steps that did not run are assumed to complete.
                None => match known.state.open().first().copied() {
                    Some(key) => {
                        let outcome = assumed.get(&key.step).copied();
                        (key, outcome.unwrap_or(Outcome::Completed), None)
                    }
                    None => break,
                },
            };
            known.state.end(&dag.graph, &definition, key, outcome, reason);
            changes = self.decide_with_results(&mut known).await?;
            compare(&dag, &by_key, &changes, assumed, &mut report);
        }
        if !assumed.is_empty() {
            for step in 0..dag.graph.len() as u32 {
                if let StepState::Ended(outcome) = known.state.state(StepKey::of_step(step)) {
                    report.predicted.push((dag.graph.name(step).to_owned(), outcome));
                }
            }
        }
        let mut durations = self.step_durations(&dag, RunId(uuid::Uuid::nil())).await?;
        for record in records.iter().filter(|record| record.key.item.is_none()) {
            if let Some(ended) = record.ended_at.filter(|_| !record.is_adopted) {
                let took = ended.duration_since(record.decided_at);
                durations.insert(dag.graph.name(record.key.step).to_owned(), took);
            }
        }
        let took = |step: u32| durations.get(dag.graph.name(step)).copied().unwrap_or_default();
        report.duration = Some(makespan(&dag.graph, took, slots.unwrap_or(u32::MAX)));
        Ok(report)
    }

    /// Looks for steps without exactly one outcome, and for decisions that do not follow.
    pub(crate) async fn verify_dag_runs(
        &self,
        tenant: TenantId,
        job: Option<JobId>,
        since: Option<Timestamp>,
        limit: u32,
    ) -> Result<DagVerification> {
        let mut verification = DagVerification::default();
        let mut before = None;
        while verification.runs < limit as usize {
            let page = self.store.list_dag_runs(tenant, job, before, 100).await?;
            for header in &page.items {
                let is_old = since.is_some_and(|since| header.run.time() < since);
                if is_old || verification.runs >= limit as usize {
                    return Ok(verification);
                }
                self.verify_dag_run(header, &mut verification).await?;
            }
            match page.next {
                Some(next) => before = Some(next),
                None => break,
            }
        }
        Ok(verification)
    }

    async fn verify_dag_run(
        &self,
        header: &DagRun,
        verification: &mut DagVerification,
    ) -> Result<()> {
        let run = header.run;
        let mut problem =
            |text: String| verification.problems.push(format!("DAG run {run}: {text}"));
        let Some(dag) = self.dag_version(header.job, header.version).await? else {
            problem(format!("version {} of the DAG is not kept", header.version));
            return Ok(());
        };
        let Some((_, records)) = self.store.dag_run(run, true).await? else { return Ok(()) };
        verification.runs += 1;
        verification.steps += dag.graph.len();
        let mut problem =
            |text: String| verification.problems.push(format!("DAG run {run}: {text}"));
        let state = load(&dag, header.control, &header.forced, &records);
        let view = self.store.run(run).await?;
        if header.is_over {
            for step in 0..dag.graph.len() as u32 {
                let state = state.state(StepKey::of_step(step));
                if !matches!(state, StepState::Ended(_)) {
                    problem(format!("step {:?} has no outcome", dag.graph.name(step)));
                }
            }
            let outcome = dag_outcome(&dag.graph, &state).map(|(outcome, _)| outcome);
            if let Some(RunState::Ended(ended)) = view.as_ref().map(|view| view.state)
                && outcome != Some(ended)
            {
                let expected = outcome.map_or("no outcome".to_owned(), |it| it.to_string());
                problem(format!("it ended as {ended}, its steps say {expected}"));
            }
        } else if let Some(RunState::Ended(ended)) = view.as_ref().map(|view| view.state) {
            problem(format!("it ended as {ended} although steps are left"));
        }
        for record in records.iter().filter(|record| !state.has(record.key)) {
            let name = name_of(&dag, record.key);
            problem(format!("{name:?} is recorded, and the DAG run has no such step or item"));
        }
        for record in records.iter().filter(|record| record.reason.is_none()) {
            let (Some(outcome), Some(step)) = (record.outcome, record.run) else { continue };
            let ended = self.store.run(step).await?.map(|run| run.state);
            if let Some(state) = ended
                && state != RunState::Ended(outcome)
            {
                let name = name_of(&dag, record.key);
                problem(format!("step {name:?} is recorded as {outcome}, its run is {state}"));
            }
        }
        let replayed = match self.replay_dag_run(run, &BTreeMap::new(), None).await {
            Ok(replayed) => replayed,
            Err(EngineError::Store(error)) => return Err(error.into()),
            Err(error) => {
                problem(format!("its decisions cannot be repeated: {error}"));
                return Ok(());
            }
        };
        let is_plain = header.control == Control::Running;
        for (step, recorded, decided) in replayed.differences.into_iter().filter(|_| is_plain) {
            problem(format!("step {step:?} is recorded as {recorded}, decided as {decided}"));
        }
        Ok(())
    }
}

/// Compares decisions with the records.
fn compare(
    dag: &CompiledDag,
    records: &HashMap<StepKey, &StepRecord>,
    changes: &Changes,
    assumed: &BTreeMap<u32, Outcome>,
    report: &mut ReplayReport,
) {
    if !assumed.is_empty() {
        return;
    }
    for released in &changes.released {
        match records.get(&released.key) {
            Some(record) if record.run.is_some() || record.reason.is_some() => {
                report.reproduced += 1;
            }
            Some(record) if record.outcome.is_none() => report.reproduced += 1,
            Some(record) => {
                let recorded = record.outcome.map_or("OPEN".to_owned(), |it| it.to_string());
                let name = name_of(dag, released.key);
                report.differences.push((name, recorded, "RELEASED".to_owned()));
            }
            None => {
                let name = name_of(dag, released.key);
                report.differences.push((name, "PENDING".to_owned(), "RELEASED".to_owned()));
            }
        }
    }
    for ended in &changes.ended {
        let recorded = records.get(&ended.key).and_then(|record| record.outcome);
        if recorded == Some(ended.outcome) {
            report.reproduced += 1;
        } else {
            let recorded = recorded.map_or("PENDING".to_owned(), |it| it.to_string());
            let name = name_of(dag, ended.key);
            report.differences.push((name, recorded, ended.outcome.to_string()));
        }
    }
}

/// `load`, or `load[2]` for an item.
pub(crate) fn name_of(dag: &CompiledDag, key: StepKey) -> String {
    let name = dag.graph.get(key.step).map_or("?", |step| step.step.name.as_str());
    key.item.map_or_else(|| name.to_owned(), |item| format!("{name}[{item}]"))
}

/// The error of a run that failed, and its attempts.
fn failure(outcome: Outcome, run: &RunView) -> Option<String> {
    if matches!(outcome, Outcome::Completed | Outcome::Skipped) {
        return None;
    }
    let attempts = match run.attempts + run.lost {
        1 => "after 1 attempt".to_owned(),
        attempts => format!("after {attempts} attempts"),
    };
    let said = [run.error.as_deref(), run.message.as_deref()];
    let said: Vec<&str> = said.into_iter().flatten().filter(|text| !text.is_empty()).collect();
    Some(match said.is_empty() {
        true => attempts,
        false => format!("{attempts}: {}", said.join(": ")),
    })
}

fn lines(
    explanation: &StepExplanation,
    dag: &CompiledDag,
    header: Option<&DagRun>,
    state: &DagState,
    at: Option<Timestamp>,
) -> Vec<String> {
    let StepView { key, reason, decided_by, .. } = &explanation.step;
    let mut lines = Vec::new();
    let rule = explanation.rule;
    let tally = explanation.tally;
    let reason = reason.as_ref().map(|reason| format!(": {}", reason.text)).unwrap_or_default();
    let each = dag.graph.step(key.step).step.for_each.as_ref();
    let is_limited = dag.job.definition.dag.as_ref().is_some_and(|dag| dag.max_parallel.is_some())
        || each.is_some_and(|each| each.max_parallel.is_some());
    let can_start = match is_limited {
        true => "it can start and waits for max_parallel",
        false => "it can start and is about to be released",
    };
    let started = explanation.step.run.as_ref().and_then(|run| run.started_at);
    let was_running = match started.zip(at).is_some_and(|(started, at)| started <= at) {
        true => "it was running",
        false => "it was released, and its run had not started",
    };
    match explanation.step.state {
        StepState::Ended(outcome) => {
            lines.push(format!("it ended as {outcome}{reason}"));
            lines.extend(explanation.step.run.as_ref().and_then(|run| failure(outcome, run)));
        }
        StepState::Open => lines.push(match &dag.graph.step(key.step).step.work {
            StepWork::WaitForMessage { queue, .. } => {
                format!("it was released and waits for a message from queue {queue:?}")
            }
            _ => match explanation.step.run.as_ref().map(|run| run.state) {
                // The current state of its run does not apply to that time.
                Some(_) if at.is_some() => was_running.to_owned(),
                Some(RunState::Running) => "it is running".to_owned(),
                Some(run) => format!("it was released, and its run is {run}"),
                None => "it was released and waits for an answer".to_owned(),
            },
        }),
        StepState::Ready => lines.push(can_start.to_owned()),
        StepState::Pending => match (header, rule.judge(tally)) {
            (None, _) => lines.push("the DAG run has not begun".to_owned()),
            (Some(_), _) if state.control() == Control::Held => {
                lines.push("the DAG run is held after a failure".to_owned());
            }
            (_, Judgement::Undecided) => {
                lines.push(format!("it waits for {} of its parents", tally.pending));
            }
            (_, Judgement::Run) => {
                lines.push(can_start.to_owned());
            }
            (_, Judgement::Skip) => lines.push("it is about to be skipped".to_owned()),
        },
    }
    if explanation.parents.is_empty() {
        lines.push("it has no parents".to_owned());
    } else {
        let tolerated = match tally.tolerated {
            0 => String::new(),
            tolerated => format!(" ({tolerated} allowed to, which counts as success)"),
        };
        lines.push(format!(
            "{}: {} of {} parents succeeded, {} failed{tolerated}, {} were skipped, {} are pending",
            rule.name(),
            tally.succeeded,
            tally.parents(),
            tally.failed + tally.tolerated,
            tally.skipped,
            tally.pending
        ));
        let shown: Vec<String> = explanation
            .parents
            .iter()
            .take(PARENTS_SHOWN)
            .map(|(name, state)| format!("{name} {state}"))
            .collect();
        let more = explanation.parents.len().saturating_sub(PARENTS_SHOWN);
        let more = if more > 0 { format!(" and {more} others") } else { String::new() };
        lines.push(format!("parents: {}{more}", shown.join(", ")));
    }
    if let Some(by) = decided_by {
        lines.push(format!("the end of {} decided it", name_of(dag, *by)));
    }
    if let Some(when) = &explanation.when {
        lines.push(format!("condition: {when}"));
    }
    if let Some(items) = state.items(key.step).filter(|_| key.item.is_none()) {
        lines.push(format!("it has {items} items"));
    }
    if let Some((hash, _)) = &explanation.inputs {
        lines.push(format!("hash of its inputs: {hash}"));
    }
    if explanation.step.is_adopted {
        lines.push("it was adopted from the run that this one repeats".to_owned());
    }
    lines
}
