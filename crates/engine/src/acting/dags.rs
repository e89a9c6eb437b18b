//! DAGs and their runs, as far as the actor may see and use them.
//!
//! A DAG is created, changed, paused, dropped, triggered and backfilled as every job is
//! ([`AuthorizedEngine::create_jobs`], `alter_job`, `trigger_named` and so on); here is the rest.

use std::collections::BTreeMap;

use domain::dag::ApprovalAnswer;
use domain::dag::rerun::Rerun;
use domain::dag::state::StepKey;
use domain::id::{JobId, RunId};
use domain::job::{Job, JobKind};
use domain::run::Outcome;
use jiff::Timestamp;
use store::{JobFilter, Page};

use super::AuthorizedEngine;
use crate::dags::{
    DagRunDiff, DagRunView, DagVerification, ReplayReport, RerunReport, StepExplanation, StepMark,
    StepView,
};
use crate::error::{EngineError, Result};

fn later<T>() -> Result<T> {
    Err(EngineError::WrongState("this is not built yet".to_owned()))
}

/// DAGs.
impl AuthorizedEngine<'_> {
    /// The DAG of an id or a name, if the actor sees it.
    pub async fn dag(&self, name: &str) -> Result<Job> {
        let mut found = None;
        if let Ok(id) = name.parse::<JobId>() {
            found = self.jobs_by_id(&[id]).await?.pop();
        }
        if found.is_none() {
            found = self.job_by_name(name).await?;
        }
        let found = found.filter(|job| job.definition.is_dag());
        found.ok_or_else(|| EngineError::NotFound(format!("DAG {name:?}")))
    }

    /// The DAGs of the tenant that the actor sees, by name.
    pub async fn list_dags(
        &self,
        filter: &JobFilter,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Job, String>> {
        self.list_jobs(&JobFilter { kind: JobKind::Dag, ..filter.clone() }, after, limit).await
    }
}

/// DAG runs.
impl AuthorizedEngine<'_> {
    /// A DAG run with its counts and its critical path, if the actor sees it.
    pub async fn dag_run(&self, _run: RunId) -> Result<DagRunView> {
        later()
    }

    /// The steps of a DAG run in the order of their keys, pending ones included, after the given
    /// one. The items of a fan-out follow it if `items` is set.
    pub async fn dag_steps(
        &self,
        _run: RunId,
        _items: bool,
        _after: Option<StepKey>,
        _limit: u32,
    ) -> Result<Page<StepView, StepKey>> {
        later()
    }

    /// One step of a DAG run, by the name of the step.
    pub async fn dag_step(&self, _run: RunId, _step: &str, _item: Option<u32>) -> Result<StepView> {
        later()
    }

    /// Runs a DAG run again as a new one, or says what that would do.
    pub async fn rerun_dag(
        &self,
        _run: RunId,
        _rerun: Rerun,
        _dry_run: bool,
    ) -> Result<RerunReport> {
        later()
    }

    /// Lets a DAG run go on that holds after a failure.
    pub async fn resume_dag_run(&self, _run: RunId) -> Result<()> {
        later()
    }

    /// Marks a step as succeeded or skipped. Its run is cancelled if it has not ended.
    pub async fn mark_step(
        &self,
        _run: RunId,
        _step: &str,
        _item: Option<u32>,
        _mark: StepMark,
        _note: &str,
    ) -> Result<()> {
        later()
    }

    /// Answers an approval.
    pub async fn decide_approval(
        &self,
        _run: RunId,
        _step: &str,
        _answer: ApprovalAnswer,
        _note: &str,
    ) -> Result<()> {
        later()
    }

    /// Why a step ran, waits or did not run, now or at a time in the past.
    pub async fn explain_step(
        &self,
        _run: RunId,
        _step: &str,
        _item: Option<u32>,
        _at: Option<Timestamp>,
    ) -> Result<StepExplanation> {
        later()
    }

    /// Why a DAG run is where it is: one sentence for each fact.
    pub async fn explain_dag_run(
        &self,
        _run: RunId,
        _at: Option<Timestamp>,
    ) -> Result<Vec<String>> {
        later()
    }

    /// Decides a DAG run again by its recorded ends, and predicts it with assumed outcomes and so
    /// many slots.
    pub async fn replay_dag_run(
        &self,
        _run: RunId,
        _assume: &BTreeMap<String, Outcome>,
        _slots: Option<u32>,
    ) -> Result<ReplayReport> {
        later()
    }

    /// Whether every step of the DAG runs of a time range has exactly one outcome and each decision
    /// follows from the recorded ends.
    pub async fn verify_dag_runs(
        &self,
        _dag: Option<JobId>,
        _since: Option<Timestamp>,
        _limit: u32,
    ) -> Result<DagVerification> {
        later()
    }

    /// How two runs of a DAG differ.
    pub async fn diff_dag_runs(&self, _one: RunId, _other: RunId) -> Result<DagRunDiff> {
        later()
    }
}
