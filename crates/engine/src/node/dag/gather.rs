//! The beginning and the end of DAG runs, a batch at a time.

use std::sync::Arc;

use domain::dag::state::Control;
use domain::id::{NodeId, RunId};
use domain::job::Job;
use domain::run::{AttemptEnd, AttemptResult, ClaimedRun, ErrorCode, Outcome, RunState};
use store::{DagRun, SYSTEM};

use super::decide::load;
use super::{DagEnd, DagNews, KnownRun};
use crate::dags::CompiledDag;
use crate::node::Node;
use crate::node::split::Turn;

/// A DAG run that a node holds.
pub(in crate::node) struct HeldDag {
    pub run: Arc<ClaimedRun>,
    pub job: Arc<Job>,
    /// Whether it has begun; otherwise it begins.
    pub has_begun: bool,
    /// Whether its end was requested.
    pub is_cancelled: bool,
}

impl Node {
    /// DAG runs begin, or are looked at: each waits for its steps, or ends as they did.
    pub(in crate::node) async fn attend_dags(&self, node: NodeId, held: &[HeldDag]) {
        if held.is_empty() {
            return;
        }
        let begun = self.begin_dags(node, held).await;
        let attended = match begun {
            Ok(()) => self.advance_dags().await.map(drop),
            Err(error) => Err(error),
        };
        for it in held {
            let turn = match &attended {
                Ok(()) => self.turn_of_dag(it).await,
                Err(error) => Err(error.clone()),
            };
            match turn {
                Ok(turn) => self.turn(node, &it.run, &it.job, turn),
                Err(error) => self.requeue_if_failed(node, &it.run, Err(error)),
            }
        }
    }

    async fn begin_dags(&self, node: NodeId, held: &[HeldDag]) -> store::Result<()> {
        let mut new: Vec<(domain::run::Grant, DagRun)> = Vec::new();
        let mut versions: Vec<Arc<CompiledDag>> = Vec::new();
        for it in held {
            let id = it.run.run.id;
            if it.has_begun {
                if it.is_cancelled {
                    self.dags.note(id, DagNews::Cancel(SYSTEM.to_owned()));
                }
                if !self.dags.is_over(id) {
                    self.dags.note(id, DagNews::Look);
                }
                continue;
            }
            // As every run, it follows the definition that its job has when it starts.
            let Some(dag) = self.dag_version(it.job.id, it.job.version).await? else { continue };
            let header = DagRun {
                run: id,
                job: it.run.run.job,
                tenant: it.run.run.tenant,
                version: dag.job.version,
                revision: 0,
                control: Control::Running,
                is_over: false,
                rerun_of: None,
                forced: Vec::new(),
                scheduled_for: it.run.run.scheduled_for,
                parameters: dag.job.definition.parameters.with(it.run.run.parameters.clone()),
            };
            new.push((it.run.grant, header));
            versions.push(dag);
        }
        if new.is_empty() {
            return Ok(());
        }
        let begun = self.store.begin_dags(node, &new).await?;
        for (((_, header), dag), begun) in new.into_iter().zip(versions).zip(begun) {
            let run = header.run;
            if !begun {
                // It repeats another run, or was begun by a node that has not reported it: a read
                // shows which.
                self.dags.note(run, DagNews::Look);
                continue;
            }
            let known = KnownRun::from_records(header, dag, Vec::new());
            let mut desk = self.dags.lock();
            desk.known.entry(run).or_insert(known);
            desk.news.entry(run).or_default().push(DagNews::Begun);
        }
        Ok(())
    }

    /// Next step of a DAG run after a check.
    async fn turn_of_dag(&self, it: &HeldDag) -> store::Result<Turn> {
        let id = it.run.run.id;
        if let Some(end) = self.end_of_dag(&it.job, id).await? {
            return Ok(end);
        }
        if it.has_begun || self.dags.lock().known.contains_key(&id) {
            return Ok(Turn::Wait);
        }
        // It did not begin: its end was requested, or its version is gone.
        match self.store.dag_run(id, false).await? {
            Some(_) => Ok(Turn::Wait),
            None if self.dag_version(it.job.id, it.job.version).await?.is_none() => {
                let code = ErrorCode::Other("NO_VERSION".to_owned());
                let message = format!("version {} of the DAG is not kept", it.job.version);
                Ok(Turn::Fail(AttemptResult::failed(code, message)))
            }
            None => Ok(Turn::Again),
        }
    }

    /// The end of a DAG run; none while steps are left.
    async fn end_of_dag(&self, job: &Job, run: RunId) -> store::Result<Option<Turn>> {
        let known = self.dags.lock().over.remove(&run);
        let end = match known {
            Some(end) => Some(end),
            // While this node knows its state, steps are left.
            None if self.dags.lock().known.contains_key(&run) => None,
            None => self.recorded_end(run).await?,
        };
        let Some(DagEnd { outcome, reason, counts, version }) = end else { return Ok(None) };
        if outcome == Outcome::Completed {
            self.watch_pace(job, version).await?;
        }
        let end = match outcome {
            Outcome::Completed => AttemptEnd::Completed,
            Outcome::Cancelled => AttemptEnd::Cancelled,
            _ => AttemptEnd::Failed,
        };
        let message = match &reason {
            Some(reason) => reason.text.clone(),
            None => format!("{} of {} steps completed", counts.completed, counts.steps),
        };
        let result = Some(format!(
            r#"{{"steps":{},"completed":{},"failed":{},"skipped":{}}}"#,
            counts.steps, counts.completed, counts.failed, counts.skipped
        ));
        let result = AttemptResult { end, message, result, ..AttemptResult::completed() };
        Ok(Some(Turn::End(outcome, reason, result)))
    }

    /// The outcome of a DAG run that no step is left of and that was not cancelled before.
    pub(in crate::node) async fn end_without_cancel(
        &self,
        run: RunId,
    ) -> store::Result<Option<Outcome>> {
        let header = self.store.dag_run(run, false).await?.map(|(header, _)| header);
        let is_over = header.is_some_and(|it| it.is_over && it.control != Control::Cancelling);
        if !is_over {
            return Ok(None);
        }
        if let Some(RunState::Ended(outcome)) = self.store.run(run).await?.map(|run| run.state) {
            return Ok(Some(outcome));
        }
        Ok(self.recorded_end(run).await?.map(|end| end.outcome))
    }

    async fn recorded_end(&self, run: RunId) -> store::Result<Option<DagEnd>> {
        let header = self.store.dag_run(run, false).await?;
        if !header.is_some_and(|(header, _)| header.is_over) {
            return Ok(None);
        }
        let Some((header, records)) = self.store.dag_run(run, true).await? else {
            return Ok(None);
        };
        let Some(dag) = self.dag_version(header.job, header.version).await? else {
            return Ok(None);
        };
        let state = load(&dag, header.control, &header.forced, &records);
        Ok(DagEnd::from_state(&dag, &state))
    }
}
