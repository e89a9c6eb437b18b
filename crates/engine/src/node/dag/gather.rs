//! The beginning and the end of DAG runs.

use std::sync::Arc;

use domain::dag::state::{Control, dag_outcome};
use domain::id::{NodeId, RunId};
use domain::job::{Job, JobState};
use domain::run::{AttemptEnd, AttemptResult, ClaimedRun, ErrorCode, Outcome};
use store::DagRun;

use super::DagNews;
use super::decide::load;
use crate::node::Node;
use crate::node::divide::Turn;

impl Node {
    /// A DAG run begins: its first steps are released.
    pub(in crate::node) async fn begin_dag(
        &self,
        node: NodeId,
        run: &ClaimedRun,
        job: &Arc<Job>,
    ) -> store::Result<()> {
        // As every run, it follows the definition that its job has when it starts.
        let dag = self.dag_version(job.id, job.version).await?;
        let Some(dag) = dag else {
            let code = ErrorCode::Other("NO_VERSION".to_owned());
            let message = format!("version {} of the DAG is not kept", job.version);
            self.turn(node, run, job, Turn::Fail(AttemptResult::failed(code, message)));
            return Ok(());
        };
        let header = DagRun {
            run: run.run.id,
            job: run.run.job,
            tenant: run.run.tenant,
            version: dag.job.version,
            revision: 0,
            control: Control::Running,
            is_over: false,
            rerun_of: None,
            forced: Vec::new(),
            scheduled_for: run.run.scheduled_for,
            parameters: dag.job.definition.parameters.with(run.run.parameters.clone()),
        };
        let is_recorded = self.store.dag_run(run.run.id, false).await?.is_some();
        if !is_recorded && !self.store.begin_dag(node, run.grant, &header).await? {
            // It has begun, or its end was asked for: a new look tells.
            self.turn(node, run, job, Turn::Again);
            return Ok(());
        }
        self.look_at_dag(node, run, job).await
    }

    /// A look at a DAG run that has begun: it waits for its steps, or ends as they did.
    pub(in crate::node) async fn gather_dag(
        &self,
        node: NodeId,
        run: &ClaimedRun,
        job: &Arc<Job>,
        is_cancelled: bool,
    ) -> store::Result<()> {
        if is_cancelled || job.state == JobState::Deleted {
            self.dags.note(run.run.id, DagNews::Control(Control::Cancelling));
        }
        self.look_at_dag(node, run, job).await
    }

    async fn look_at_dag(
        &self,
        node: NodeId,
        run: &ClaimedRun,
        job: &Arc<Job>,
    ) -> store::Result<()> {
        self.dags.note(run.run.id, DagNews::Look);
        self.advance_dags().await?;
        let turn = match self.end_of_dag(run.run.id).await? {
            None => Turn::Wait,
            Some(end) => end,
        };
        self.turn(node, run, job, turn);
        Ok(())
    }

    /// The end of a DAG run; none while steps are left.
    async fn end_of_dag(&self, run: RunId) -> store::Result<Option<Turn>> {
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
        let Some((outcome, reason)) = dag_outcome(&dag.graph, &state) else { return Ok(None) };
        let counts = state.counts();
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
}
