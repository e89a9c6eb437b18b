//! DAGs and their runs, as far as the actor may see and use them.
//!
//! A DAG is created, changed, paused, dropped, triggered and backfilled as every job is
//! ([`AuthorizedEngine::create_jobs`], `alter_job`, `trigger_named` and so on); here is the rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::access::{Kind as EntryKind, Privilege};
use domain::audit::Kind;
use domain::dag::rerun::{self, Rerun, RerunVersion};
use domain::dag::state::{Control, StepKey, StepState};
use domain::dag::{ApprovalAnswer, StepWork};
use domain::id::{JobId, RunId};
use domain::job::{Job, JobKind};
use domain::run::{NewRun, Outcome, Reason, ReasonCode, RunState};
use jiff::Timestamp;
use store::{DagRun, JobFilter, Page, RunFilter, RunView};

use super::AuthorizedEngine;
use crate::dags::{
    CompiledDag, DagColumns, DagGrid, DagRunDiff, DagRunView, DagVerification, ReplayReport,
    RerunReport, StepExplanation, StepMark, StepView,
};
use crate::error::{EngineError, Result};
use crate::node::DagNews;

/// Commands and queries about DAGs.
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

/// DAG runs, as they are seen.
impl AuthorizedEngine<'_> {
    /// A DAG run and the version that it follows, if the actor sees it.
    async fn seen_dag_run(&self, id: RunId) -> Result<(RunView, Option<DagRun>, Arc<CompiledDag>)> {
        let missing = || EngineError::NotFound(format!("DAG run {id}"));
        let view = self.run(id).await?.ok_or_else(missing)?;
        let header = self.node().store.dag_run(id, false).await?.map(|(header, _)| header);
        let version = header.as_ref().map_or(view.job_version, |header| header.version);
        let dag = self.node().dag_version(view.job, version).await?.ok_or_else(missing)?;
        if view.id.is_part() {
            return Err(missing());
        }
        Ok((view, header, dag))
    }

    /// A DAG run with its counts and its critical path, if the actor sees it.
    pub async fn dag_run(&self, run: RunId) -> Result<DagRunView> {
        let (view, header, dag) = self.seen_dag_run(run).await?;
        self.node().dag_run_view(view, header, dag).await
    }

    /// The steps of a DAG run by their numbers, pending ones included, after the given one; with
    /// `items_of`, the items of that step instead.
    pub async fn dag_steps(
        &self,
        run: RunId,
        items_of: Option<&str>,
        after: Option<StepKey>,
        limit: u32,
    ) -> Result<Page<StepView, StepKey>> {
        let (_, header, dag) = self.seen_dag_run(run).await?;
        let items_of = items_of.map(|name| find_step(&dag, name)).transpose()?;
        self.node().step_page(run, header.is_some(), &dag, items_of, after, limit).await
    }

    /// All steps of a DAG run as columns.
    pub async fn dag_columns(&self, run: RunId) -> Result<DagColumns> {
        let (_, _, dag) = self.seen_dag_run(run).await?;
        self.node().dag_columns(run, dag).await
    }

    /// The states of the steps of a DAG in its runs, newest first and older than the given one; the
    /// steps are those of its present version.
    pub async fn dag_grid(
        &self,
        dag: &Job,
        before: Option<RunId>,
        runs: u32,
        first: u32,
        steps: u32,
    ) -> Result<(DagGrid, Option<RunId>)> {
        let missing = || EngineError::NotFound(format!("DAG {:?}", dag.name));
        let filter = RunFilter { without_steps: true, ..RunFilter::of_job(dag.id) };
        let page = self.list_runs(&filter, before, runs).await?;
        let compiled = self.node().dag_version(dag.id, dag.version).await?.ok_or_else(missing)?;
        let of = (dag.tenant, dag.id);
        let grid = self.node().dag_grid(of, compiled, page.items, first, steps).await?;
        Ok((grid, page.next))
    }

    /// One step of a DAG run, by the name of the step.
    pub async fn dag_step(&self, run: RunId, step: &str, item: Option<u32>) -> Result<StepView> {
        let (_, _, dag) = self.seen_dag_run(run).await?;
        let key = self.find_item(run, &dag, step, item).await?;
        self.node().step_view_of(run, &dag, key).await
    }

    /// A step of a DAG run by its name, or one of its items by its position.
    async fn find_item(
        &self,
        run: RunId,
        dag: &CompiledDag,
        name: &str,
        item: Option<u32>,
    ) -> Result<StepKey> {
        let step = find_step(dag, name)?;
        let Some(position) = item else { return Ok(StepKey::of_step(step)) };
        let count = match dag.graph.step(step).step.for_each {
            None => "the step has no items".to_owned(),
            Some(_) => {
                match self.node().step_view_of(run, dag, StepKey::of_step(step)).await?.items {
                    Some(items) if position < items => return Ok(StepKey { step, item }),
                    Some(0) => "its list is empty".to_owned(),
                    Some(1) => "it has 1 item: 0".to_owned(),
                    Some(items) => format!("it has {items} items: 0 to {}", items - 1),
                    None => "its items are not known yet".to_owned(),
                }
            }
        };
        Err(EngineError::NotFound(format!("item {position} of step {name:?} ({count})")))
    }

    /// Why a step ran, waits or did not run, now or at a time in the past.
    pub async fn explain_step(
        &self,
        run: RunId,
        step: &str,
        item: Option<u32>,
        at: Option<Timestamp>,
    ) -> Result<StepExplanation> {
        let (view, _, dag) = self.seen_dag_run(run).await?;
        let key = self.find_item(run, &dag, step, item).await?;
        self.node().explain_step(&view, &dag, key, at).await
    }

    /// Why a DAG run is where it is: one sentence for each fact.
    pub async fn explain_dag_run(&self, run: RunId, at: Option<Timestamp>) -> Result<Vec<String>> {
        let (view, header, dag) = self.seen_dag_run(run).await?;
        self.node().explain_dag_run(&view, header, &dag, at).await
    }

    /// Decides a DAG run again by its recorded ends, and predicts it with assumed outcomes and so
    /// many slots.
    pub async fn replay_dag_run(
        &self,
        run: RunId,
        assume: &BTreeMap<String, Outcome>,
        slots: Option<u32>,
    ) -> Result<ReplayReport> {
        let (_, _, dag) = self.seen_dag_run(run).await?;
        let mut assumed = BTreeMap::new();
        for (name, outcome) in assume {
            assumed.insert(find_step(&dag, name)?, *outcome);
        }
        self.node().replay_dag_run(run, &assumed, slots).await
    }

    /// Whether every step of the DAG runs since a time has exactly one outcome and each decision
    /// follows from the recorded ends.
    pub async fn verify_dag_runs(
        &self,
        dag: Option<JobId>,
        since: Option<Timestamp>,
        limit: u32,
    ) -> Result<DagVerification> {
        if let Some(dag) = dag {
            self.job_for(dag, domain::access::Deed::SeeRuns).await?;
        } else {
            self.may(domain::access::Deed::SeeAllRuns)?;
        }
        self.node().verify_dag_runs(self.actor.tenant, dag, since, limit).await
    }

    /// How two runs of a DAG differ.
    pub async fn diff_dag_runs(&self, one: RunId, other: RunId) -> Result<DagRunDiff> {
        let (_, _, first) = self.seen_dag_run(one).await?;
        let (_, _, second) = self.seen_dag_run(other).await?;
        self.node().diff_dag_runs((one, &first), (other, &second)).await
    }
}

/// DAG runs, as they are changed.
impl AuthorizedEngine<'_> {
    /// A DAG run that has begun and not ended, if the actor may start and stop its runs.
    async fn live_dag_run(&self, run: RunId) -> Result<(DagRun, Arc<CompiledDag>)> {
        let (_, header, dag) = self.seen_dag_run(run).await?;
        self.run_for(run).await?;
        match header {
            Some(header) if !header.is_over => Ok((header, dag)),
            Some(_) => Err(EngineError::WrongState(format!("DAG run {run} has ended"))),
            None => Err(EngineError::WrongState(format!("DAG run {run} has not begun"))),
        }
    }

    /// Runs a DAG run again as a new one, or returns a preview.
    pub async fn rerun_dag(&self, run: RunId, rerun: Rerun, dry_run: bool) -> Result<RerunReport> {
        let (view, header, old) = self.seen_dag_run(run).await?;
        self.run_for(run).await?;
        let RunState::Ended(_) = view.state else {
            return Err(EngineError::WrongState(format!("DAG run {run} has not ended")));
        };
        let node = self.node();
        let job = match node.existing(view.job).await {
            Err(EngineError::NotFound(_)) => {
                return Err(EngineError::WrongState("the DAG was deleted".to_owned()));
            }
            found => found?,
        };
        let new = match rerun.version {
            RerunVersion::Same => Arc::clone(&old),
            RerunVersion::Latest => {
                let found = node.dag_version(job.id, job.version).await?;
                found.ok_or_else(|| EngineError::NotFound(format!("DAG {:?}", job.name)))?
            }
        };
        let records = node.store.dag_run(run, true).await?.map(|(_, records)| records);
        let records = records.unwrap_or_default();
        let invalid = |problem| EngineError::Invalid { field: "from", problem };
        let plan = rerun::plan(&old.graph, &new.graph, &records, &rerun).map_err(invalid)?;
        let name = |step: &u32| new.graph.name(*step).to_owned();
        let adopted = plan.adopted.iter().filter(|record| record.key.item.is_none());
        let mut report = RerunReport {
            run: None,
            again: plan.again.iter().map(name).collect(),
            adopted: adopted
                .filter_map(|record| Some((name(&record.key.step), record.outcome?)))
                .collect(),
            removed: plan.removed.clone(),
            rerun,
        };
        if dry_run {
            return Ok(report);
        }
        let details = format!("{{\"from\":{:?}}}", format!("{:?}", report.rerun.from));
        self.record(vec![(Kind::RunRetried, Some(view.job), Some(run), details)]).await?;
        let trigger = crate::commands::Trigger {
            parameters: view.parameters.clone(),
            requested_by: Some(self.actor.user),
            ..crate::commands::Trigger::default()
        };
        let again = NewRun {
            scheduled_for: view.scheduled_for,
            job_version: new.job.version,
            ..node.triggered_of(&new.job, trigger)?
        };
        let parameters = match &header {
            Some(header) => header.parameters.clone(),
            None => new.job.definition.parameters.with(view.parameters),
        };
        let header = DagRun {
            run: again.id,
            job: view.job,
            tenant: view.tenant,
            version: new.job.version,
            revision: 0,
            control: Control::Running,
            is_over: false,
            rerun_of: Some(run),
            forced: plan.forced,
            scheduled_for: view.scheduled_for,
            parameters,
        };
        node.store.repeat_dag(&again, &header, &plan.adopted).await?;
        node.store.acknowledge(&[run]).await?;
        self.node().hint();
        report.run = Some(again);
        Ok(report)
    }

    /// Lets a DAG run go on that holds after a failure.
    pub async fn resume_dag_run(&self, run: RunId) -> Result<()> {
        let (header, _) = self.live_dag_run(run).await?;
        if header.control != Control::Held {
            let text = format!("DAG run {run} is {}, not HELD", header.control.name());
            return Err(EngineError::WrongState(text));
        }
        self.decided(header.job, run, "{\"decision\":\"RESUME\"}".to_owned()).await?;
        Ok(self.node().resume_dag(run).await?)
    }

    /// Marks a step as succeeded or skipped. Its run is cancelled if it has not ended.
    pub async fn mark_step(
        &self,
        run: RunId,
        step: &str,
        item: Option<u32>,
        mark: StepMark,
        note: &str,
    ) -> Result<()> {
        let (header, dag) = self.live_dag_run(run).await?;
        let key = self.find_item(run, &dag, step, item).await?;
        let outcome = match mark {
            StepMark::Succeeded => Outcome::Completed,
            StepMark::Skipped => Outcome::Skipped,
        };
        let before = self.node().step_view_of(run, &dag, key).await?;
        if let StepState::Ended(outcome) = before.state {
            let text = format!("step {step:?} has ended as {outcome}; re-run the DAG run from it");
            return Err(EngineError::WrongState(text));
        }
        if before.items.is_some() {
            let text = format!("step {step:?} has items; mark each of them");
            return Err(EngineError::WrongState(text));
        }
        let details = format!("{{\"step\":{step:?},\"decision\":\"{}\"}}", outcome.name());
        self.decided(header.job, run, details).await?;
        let text = format!("marked as {outcome} by {}{}", self.actor.name, with_note(note));
        let reason = Reason { code: ReasonCode::Marked, text };
        let step = before.run.map(|run| run.id);
        self.give_outcome((run, &dag), key, outcome, reason, step).await
    }

    /// Answers an approval.
    pub async fn decide_approval(
        &self,
        run: RunId,
        step: &str,
        answer: ApprovalAnswer,
        note: &str,
    ) -> Result<()> {
        let (_, header, dag) = self.seen_dag_run(run).await?;
        let key = StepKey::of_step(find_step(&dag, step)?);
        let StepWork::Approval { role, .. } = &dag.graph.step(key.step).step.work else {
            return Err(EngineError::WrongState(format!("step {step:?} is not an approval")));
        };
        self.answers_for(run, role.as_deref()).await?;
        let before = self.node().step_view_of(run, &dag, key).await?;
        if before.state != StepState::Open || header.is_none_or(|header| header.is_over) {
            let counted =
                before.reason.map_or(String::new(), |reason| format!(": {}", reason.text));
            let text =
                format!("step {step:?} is {}, it waits for no answer{counted}", before.state);
            return Err(EngineError::WrongState(text));
        }
        let (outcome, word) = match answer {
            ApprovalAnswer::Approve => (Outcome::Completed, "approved"),
            ApprovalAnswer::Reject => (Outcome::Failed, "rejected"),
        };
        let details = format!("{{\"step\":{step:?},\"decision\":\"{}\"}}", word.to_uppercase());
        self.decided(dag.job.id, run, details).await?;
        let text = format!("{word} by {}{}", self.actor.name, with_note(note));
        let reason = Reason { code: ReasonCode::Approval, text };
        let step = before.run.map(|run| run.id);
        self.give_outcome((run, &dag), key, outcome, reason, step).await
    }

    /// Whether the actor may answer the approval that a step waits for.
    pub async fn may_answer(&self, run: RunId, dag: &CompiledDag, step: u32) -> Result<bool> {
        let StepWork::Approval { role, .. } = &dag.graph.step(step).step.work else {
            return Ok(false);
        };
        match self.answers_for(run, role.as_deref()).await {
            Ok(()) => Ok(true),
            Err(EngineError::Store(error)) => Err(error.into()),
            Err(_) => Ok(false),
        }
    }

    /// An approval is answered by members of its role, or by actors that may start and stop the
    /// run.
    async fn answers_for(&self, run: RunId, role: Option<&str>) -> Result<()> {
        match role {
            Some(role) => self.has_role(role).await,
            None => self.run_for(run).await.map(drop),
        }
    }

    /// Gives a step an outcome, unless another one was given first: the revision of the DAG run
    /// lets one of them be written, and the others get that one as an error.
    async fn give_outcome(
        &self,
        (run, dag): (RunId, &CompiledDag),
        key: StepKey,
        outcome: Outcome,
        reason: Reason,
        step: Option<RunId>,
    ) -> Result<()> {
        let text = reason.text.clone();
        self.node().change_dag(run, DagNews::Mark(key, outcome, reason.clone())).await?;
        let after = self.node().step_view_of(run, dag, key).await?;
        if after.state != StepState::Ended(outcome) || after.reason.as_ref() != Some(&reason) {
            let counted = after.reason.map_or(String::new(), |reason| format!(": {}", reason.text));
            let text = format!("step {:?} is {} already{counted}", after.name, after.state);
            return Err(EngineError::WrongState(text));
        }
        if let Some(step) = step {
            match self.node().cancel_run(step, &text, self.author()).await {
                // It has ended meanwhile: its outcome does not count any more.
                Ok(_) | Err(EngineError::WrongState(_) | EngineError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
            self.engine.stop_run(step);
        }
        Ok(())
    }

    async fn decided(&self, job: JobId, run: RunId, details: String) -> Result<()> {
        self.record(vec![(Kind::StepDecided, Some(job), Some(run), details)]).await
    }

    /// Whether the actor has a role, or administers the tenant.
    async fn has_role(&self, name: &str) -> Result<()> {
        if self.actor.read_only {
            return Err(domain::access::Refusal::ReadOnly.into());
        }
        if self.actor.privileges.has(Privilege::AdministerTenant)
            || self.actor.privileges.has(Privilege::AdministerCluster)
        {
            return Ok(());
        }
        let store = &self.node().store;
        let role = store.entry_named(EntryKind::Role, self.actor.tenant, name).await?;
        let reach = store.reach(self.actor.user.0).await?;
        let has = role.is_some_and(|role| reach.roles.iter().any(|it| it.0 == role.entry.id()));
        match has {
            true => Ok(()),
            false => Err(EngineError::WrongState(format!(
                "the answer must come from a member of role {name:?}"
            ))),
        }
    }

    /// The open steps of a DAG run that was cancelled are stopped where they execute.
    pub(super) async fn stop_steps(&self, run: RunId) -> Result<()> {
        if run.is_part() {
            return Ok(());
        }
        if let Some((_, records)) = self.node().store.dag_run(run, true).await? {
            for record in records.iter().filter(|record| record.outcome.is_none()) {
                if let Some(run) = record.run {
                    self.engine.stop_run(run);
                }
            }
        }
        Ok(())
    }
}

fn find_step(dag: &CompiledDag, name: &str) -> Result<u32> {
    let missing = || EngineError::NotFound(format!("step {name:?} of DAG {:?}", dag.job.name));
    dag.graph.find(name).ok_or_else(missing)
}

fn with_note(note: &str) -> String {
    match note.trim() {
        "" => String::new(),
        note => format!(": {note}"),
    }
}
