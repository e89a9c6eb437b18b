//! The state of a DAG run, and the decision about it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use domain::dag::state::{Changes, Control, DagState, Inputs, StepKey, StepRecord, StepResult};
use domain::dag::{
    Graph, Json, JsonMap, RESULT_BYTES_DEFAULT, RESULTS_BYTES_MAX, StepWork, parse_object,
    parse_result,
};
use domain::id::{JobId, RunId};
use domain::job::{Job, When};
use domain::run::{Outcome, Reason, ReasonCode};
use jiff::tz::TimeZone;
use store::{Advance, DagRun, StepEnd};

use super::{DagNews, KnownRun};
use crate::dags::CompiledDag;
use crate::node::Node;

/// Ends that one look finds at most.
const ENDS_MAX: u32 = 100_000;

impl Node {
    /// The version of a DAG that a run follows.
    pub(crate) async fn dag_version(
        &self,
        job: JobId,
        version: u32,
    ) -> store::Result<Option<Arc<CompiledDag>>> {
        if let Some(known) = self.dags.lock().versions.get(&(job, version)) {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(job) = self.job_at_version(job, version).await? else { return Ok(None) };
        let Some(dag) = &job.definition.dag else { return Ok(None) };
        let Ok(graph) = Graph::compile(dag) else { return Ok(None) };
        let id = job.id;
        let is_wait = |work: &StepWork| matches!(work, StepWork::WaitForMessage { .. });
        let waits_for_messages = dag.works().any(is_wait);
        let compiled = Arc::new(CompiledDag { job, graph, waits_for_messages });
        let mut desk = self.dags.lock();
        if desk.versions.len() >= super::REMEMBERED_MAX {
            desk.versions.clear();
        }
        desk.versions.insert((id, version), Arc::clone(&compiled));
        Ok(Some(compiled))
    }

    /// A DAG run as it is known, or as it is recorded; none if it has not begun or is over.
    pub(super) async fn known_run(
        &self,
        run: RunId,
        known: Option<KnownRun>,
    ) -> store::Result<Option<KnownRun>> {
        if known.is_some() {
            return Ok(known);
        }
        let Some((header, records)) = self.store.dag_run(run, true).await? else {
            return Ok(None);
        };
        if header.is_over {
            return Ok(None);
        }
        let Some(dag) = self.dag_version(header.job, header.version).await? else {
            return Ok(None);
        };
        Ok(Some(KnownRun { is_fresh: true, ..KnownRun::from_records(header, dag, records) }))
    }

    /// Decides about a DAG run. Returns the changes to be written, and whether open steps are to be
    /// cancelled.
    pub(super) async fn decide_dag(
        &self,
        known: &mut KnownRun,
        news: &[DagNews],
    ) -> store::Result<(Option<Advance>, bool)> {
        let dag = Arc::clone(&known.dag);
        let control = known.state.control();
        let is_fresh = std::mem::take(&mut known.is_fresh);
        // Ends that a cancellation comes too late for are found before it.
        let looks = |news: &DagNews| matches!(news, DagNews::Look | DagNews::Cancel(_));
        let looks = is_fresh || news.iter().any(looks);
        let mut ends: Vec<(StepKey, Outcome)> = Vec::new();
        let mut received: Vec<StepKey> = Vec::new();
        let mut rerecorded: Vec<StepRecord> = Vec::new();
        if looks {
            for end in self.store.unrecorded_ends(known.header.run, ENDS_MAX).await? {
                match end {
                    StepEnd { key, run, outcome } if known.is_wait(key) && !run.is_part() => {
                        match outcome {
                            Some(Outcome::Completed) | None => received.push(key),
                            Some(_) => rerecorded.extend(known.wait_again(key, run)),
                        }
                    }
                    StepEnd { key, outcome: Some(outcome), .. } => ends.push((key, outcome)),
                    // Its message was not sent, or its history is gone: completed runs go first.
                    StepEnd { key, run, outcome: None } if run.is_called() => {
                        self.send_again(known, key).await?;
                    }
                    StepEnd { key, .. } => ends.push((key, Outcome::Completed)),
                }
            }
            for (key, message) in self.lost_messages(known).await? {
                rerecorded.extend(known.wait_again(key, message));
            }
        }
        // The node that was to cancel them may have died. Handlers run after all other steps.
        let is_handler = |key: &StepKey| dag.graph.step(key.step).finally.is_some();
        let mut cancels_open = is_fresh
            && control == Control::Cancelling
            && !known.state.open().iter().any(is_handler);
        let mut cancelled_by = None;
        for news in news {
            match news {
                DagNews::Begun | DagNews::Look => {}
                DagNews::Ended(key, outcome) => ends.push((*key, *outcome)),
                DagNews::Cancel(by) => cancelled_by = Some(by),
                DagNews::Control(control) => {
                    if known.state.control() != Control::Cancelling {
                        known.state.set_control(*control);
                    }
                }
                DagNews::Mark(key, outcome, reason) => {
                    let Some(definition) = &dag.job.definition.dag else { continue };
                    known.state.mark(&dag.graph, definition, *key, *outcome, reason.clone());
                }
                DagNews::Offered(offer) => rerecorded.extend(known.accept(offer)),
                DagNews::Received(key) => received.push(*key),
                DagNews::Withdrawn(key, message) => {
                    rerecorded.extend(known.wait_again(*key, *message));
                }
            }
        }
        self.end_steps(known, &ends).await?;
        self.end_waits(known, &received).await?;
        if let Some(by) = cancelled_by
            && known.state.control() != Control::Cancelling
            && !known.state.is_over()
        {
            known.state.set_control(Control::Cancelling);
            known.cancelled_by = Some(by.clone());
            cancels_open = true;
        }
        let changes = self.decide_with_results(known).await?;
        let (changes, runs, mut records) = self.release_steps(known, changes).await?;
        rerecorded.retain(|record| !records.iter().any(|other| other.key == record.key));
        let is_rerecorded = !rerecorded.is_empty();
        // A step that waits again is to be cancelled with the others.
        cancels_open |= is_rerecorded && known.state.control() == Control::Cancelling;
        records.extend(rerecorded);
        cancels_open |= changes.cancel_open;
        let is_over = known.state.is_over();
        let is_same = changes.is_empty() && !is_rerecorded && known.state.control() == control;
        if is_same && !is_over {
            return Ok((None, cancels_open));
        }
        let advance = Advance {
            run: known.header.run,
            revision: known.header.revision,
            control: known.state.control(),
            records,
            runs,
            is_over,
        };
        Ok((Some(advance), cancels_open))
    }

    async fn end_steps(
        &self,
        known: &mut KnownRun,
        ends: &[(StepKey, Outcome)],
    ) -> store::Result<()> {
        let dag = Arc::clone(&known.dag);
        let Some(definition) = &dag.job.definition.dag else { return Ok(()) };
        let completed = ends.iter().filter(|(_, outcome)| *outcome == Outcome::Completed);
        let mut oversize = self.oversize(known, completed.map(|(key, _)| *key)).await?;
        for (key, outcome) in ends {
            let Some(step) = dag.graph.get(key.step) else { continue };
            let (outcome, reason) = match &step.step.work {
                StepWork::WaitForMessage { .. } if *outcome == Outcome::Completed => {
                    let Some((outcome, reason)) = known.time_is_over(*key) else { continue };
                    (outcome, Some(reason))
                }
                // Its run starts when its time is over.
                StepWork::Approval { default, .. } if *outcome == Outcome::Completed => {
                    let text = "the time for an answer is over".to_owned();
                    let reason = Reason { code: ReasonCode::Approval, text };
                    match default {
                        domain::dag::ApprovalAnswer::Approve => (*outcome, Some(reason)),
                        domain::dag::ApprovalAnswer::Reject => (Outcome::Failed, Some(reason)),
                    }
                }
                _ => match oversize.remove(key) {
                    Some(reason) => (Outcome::Failed, Some(reason)),
                    None => (*outcome, None),
                },
            };
            known.state.end(&dag.graph, definition, *key, outcome, reason);
        }
        Ok(())
    }

    /// Ends steps that have received their messages.
    async fn end_waits(&self, known: &mut KnownRun, received: &[StepKey]) -> store::Result<()> {
        let dag = Arc::clone(&known.dag);
        let Some(definition) = &dag.job.definition.dag else { return Ok(()) };
        let mut oversize = self.oversize(known, received.iter().copied()).await?;
        for key in received {
            let reason = oversize.remove(key);
            let outcome = reason.as_ref().map_or(Outcome::Completed, |_| Outcome::Failed);
            known.state.end(&dag.graph, definition, *key, outcome, reason);
        }
        Ok(())
    }

    /// Why results of messages and called runs fail their steps: they are larger than the steps
    /// allow. A node limits the results of actions before they are recorded.
    async fn oversize(
        &self,
        known: &KnownRun,
        completed: impl Iterator<Item = StepKey>,
    ) -> store::Result<HashMap<StepKey, Reason>> {
        let graph = &known.dag.graph;
        let asked: Vec<(StepKey, RunId, u32)> = completed
            .filter_map(|key| {
                let step = &graph.get(key.step)?.step;
                let run = known.runs.get(&key).filter(|_| step.work.action().is_none())?;
                Some((key, *run, step.result_bytes.unwrap_or(RESULT_BYTES_DEFAULT)))
            })
            .collect();
        if asked.is_empty() {
            return Ok(HashMap::new());
        }
        let runs: Vec<RunId> = asked.iter().map(|(_, run, _)| *run).collect();
        let sizes = self.store.result_sizes(&runs).await?;
        let reason = |((key, _, most), bytes): ((StepKey, RunId, u32), u64)| {
            let text = format!("the result has {bytes} bytes, at most {most} are allowed");
            let reason = Reason { code: ReasonCode::ResultTooLarge, text };
            (bytes > u64::from(most)).then_some((key, reason))
        };
        Ok(asked.into_iter().zip(sizes).filter_map(reason).collect())
    }

    /// Decides, and loads the results that this needs.
    pub(super) async fn decide_with_results(&self, known: &mut KnownRun) -> store::Result<Changes> {
        let dag = Arc::clone(&known.dag);
        let Some(definition) = &dag.job.definition.dag else { return Ok(Changes::default()) };
        let zone = self.dag_zone(&dag.job);
        loop {
            let inputs = Inputs {
                run: known.header.run,
                dag: &dag.job.name,
                scheduled_for: known.header.scheduled_for,
                zone: zone.clone(),
                params: &known.params,
                results: &known.results,
            };
            let missing = match known.state.decide(&dag.graph, definition, &inputs) {
                Ok(changes) => return Ok(changes),
                Err(missing) => missing,
            };
            for key in missing {
                if !known.results.contains_key(&key) {
                    let result = self.result_of(known, key).await?;
                    known.results.insert(key, result);
                }
            }
        }
    }

    /// The time zone of a DAG's schedule.
    pub(crate) fn dag_zone(&self, job: &Job) -> TimeZone {
        match &job.definition.when {
            When::Cron { zone, .. } => {
                self.parts.zones.find(zone).map_or(TimeZone::UTC, |zone| zone.time_zone().clone())
            }
            _ => TimeZone::UTC,
        }
    }

    /// The result of a step. The items of a fan-out may together have more than a step can read.
    pub(super) async fn result_of(
        &self,
        known: &KnownRun,
        key: StepKey,
    ) -> store::Result<StepResult> {
        let items = known.state.items(key.step).filter(|_| key.item.is_none());
        let Some(items) = items else {
            let Some(run) = known.runs.get(&key) else { return Ok(Ok(Json::Null)) };
            let result = self.store.run_results(&[*run]).await?.pop().flatten();
            return Ok(Ok(result.as_deref().map_or(Json::Null, parse_result)));
        };
        let keys = (0..items).map(|item| StepKey { step: key.step, item: Some(item) });
        let runs: Vec<Option<RunId>> = keys.map(|key| known.runs.get(&key).copied()).collect();
        let asked: Vec<RunId> = runs.iter().flatten().copied().collect();
        let found = self.store.run_results(&asked).await?;
        let bytes: usize = found.iter().flatten().map(String::len).sum();
        if bytes > RESULTS_BYTES_MAX {
            let text = format!(
                "the results of {items} items have {bytes} bytes together, \
                 at most {RESULTS_BYTES_MAX} can be read (RESULT_TOO_LARGE)"
            );
            return Ok(Err(text));
        }
        let mut found = found.into_iter();
        let result = |run: Option<RunId>| {
            let result = run.and_then(|_| found.next().flatten());
            result.as_deref().map_or(Json::Null, parse_result)
        };
        Ok(Ok(Json::Array(runs.into_iter().map(result).collect())))
    }
}

impl KnownRun {
    pub(super) fn from_records(
        header: DagRun,
        dag: Arc<CompiledDag>,
        records: Vec<StepRecord>,
    ) -> Self {
        let state = load(&dag, header.control, &header.forced, &records);
        let runs = records.iter().filter_map(|record| Some((record.key, record.run?)));
        let runs = runs.collect();
        let open = records.into_iter().filter(|record| record.outcome.is_none());
        KnownRun {
            params: params_of(header.parameters.as_deref()),
            open: open.map(|record| (record.key, record)).collect(),
            results: HashMap::new(),
            callers: OnceLock::new(),
            accepted: Vec::new(),
            unwanted: Vec::new(),
            is_fresh: false,
            cancelled_by: None,
            header,
            dag,
            state,
            runs,
        }
    }
}

/// The state that follows from records.
pub(crate) fn load(
    dag: &CompiledDag,
    control: Control,
    forced: &[u32],
    records: &[StepRecord],
) -> DagState {
    let definition = dag.job.definition.dag.clone().unwrap_or_default();
    DagState::load(&dag.graph, &definition, control, forced.iter().copied(), records)
}

/// The parameters of a DAG run.
pub(crate) fn params_of(text: Option<&str>) -> JsonMap {
    text.and_then(parse_object).unwrap_or_default()
}
