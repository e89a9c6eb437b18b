//! Whether a version of a DAG is slower than the version before it.

use domain::alert::{Alert, AlertKind};
use domain::dag::path::{PathStep, critical_path};
use domain::id::RunId;
use domain::job::Job;
use domain::run::{Outcome, RunState};
use jiff::{SignedDuration, Timestamp};
use store::DagRun;

use super::REMEMBERED_MAX;
use crate::dags::CompiledDag;
use crate::node::Node;

/// Number of completed runs of each version that are compared.
const RUNS: usize = 3;

/// How far back runs of the version before are looked for.
const LOOK_BACK: u32 = 50;

/// A version is slower if its critical path takes this much longer, and not less than
/// [`SLOWER_BY`].
const SLOWER_PERCENT: i32 = 25;

const SLOWER_BY: SignedDuration = SignedDuration::from_secs(1);

/// The critical path of a run that completed.
struct Pace {
    length: SignedDuration,
    ended_at: Timestamp,
    path: Vec<PathStep>,
}

impl Node {
    /// Raises an alert if the critical path of a version is slower than that of the version before
    /// it, once its first runs have completed. A version is judged once: every node finds the same
    /// runs, and the alert has one identity.
    pub(super) async fn watch_pace(&self, job: &Job, version: u32) -> store::Result<()> {
        if version <= 1 || self.dags.lock().paced.contains(&(job.id, version)) {
            return Ok(());
        }
        let page = self.store.list_dag_runs(job.tenant, Some(job.id), None, LOOK_BACK).await?;
        let over = page.items.iter().filter(|run| run.is_over && run.rerun_of.is_none());
        let before = over.clone().map(|run| run.version).filter(|it| *it < version).max();
        let Some(before) = before else { return Ok(()) };
        let runs_of = |wanted: u32| -> Vec<&DagRun> {
            over.clone().filter(|run| run.version == wanted).collect()
        };
        let mut new = self.completed(&runs_of(version)).await?;
        // The first ones, whatever came since.
        let new = new.split_off(new.len().saturating_sub(RUNS));
        let mut old = self.completed(&runs_of(before)).await?;
        old.truncate(RUNS);
        if new.len() < RUNS || old.len() < RUNS {
            return Ok(());
        }
        let (Some(new_dag), Some(new), Some(old)) = (
            self.dag_version(job.id, version).await?,
            self.median_pace(&new).await?,
            self.median_pace(&old).await?,
        ) else {
            return Ok(());
        };
        let grown = new.length.saturating_sub(old.length);
        if grown >= SLOWER_BY
            && grown.saturating_mul(100) > old.length.saturating_mul(SLOWER_PERCENT)
        {
            let text = format!(
                "the critical path of version {version} takes {:.1} s, that of version {before} \
                 took {:.1} s (median of {RUNS} runs); its longest step is {}",
                new.length.as_secs_f64(),
                old.length.as_secs_f64(),
                longest(&new_dag, &new.path),
            );
            let (tenant, kind) = (job.tenant, AlertKind::DagSlower);
            let alert = Alert { kind, tenant, job: job.id, run: None, text, at: new.ended_at };
            self.state().pending_alerts.push(alert);
        }
        let mut desk = self.dags.lock();
        if desk.paced.len() >= REMEMBERED_MAX {
            desk.paced.clear();
        }
        desk.paced.insert((job.id, version));
        Ok(())
    }

    /// Those of some DAG runs that completed, in the same order.
    async fn completed(&self, runs: &[&DagRun]) -> store::Result<Vec<RunId>> {
        let mut completed: Vec<RunId> = runs.iter().map(|run| run.run).collect();
        let views = self.store.runs(&completed).await?;
        completed.retain(|run| {
            let ended = RunState::Ended(Outcome::Completed);
            views.iter().any(|view| view.id == *run && view.state == ended)
        });
        Ok(completed)
    }

    /// The run with the median length of its critical path; none if one has no path.
    async fn median_pace(&self, runs: &[RunId]) -> store::Result<Option<Pace>> {
        let mut paces = Vec::with_capacity(runs.len());
        for run in runs {
            let records = self.store.dag_run(*run, true).await?;
            let path = critical_path(&records.map(|(_, records)| records).unwrap_or_default());
            let (Some(first), Some(ended_at)) = (path.first(), path.last().and_then(|it| it.until))
            else {
                return Ok(None);
            };
            let length = ended_at.duration_since(first.from);
            paces.push(Pace { length, ended_at, path });
        }
        paces.sort_by_key(|pace| pace.length);
        let middle = paces.len() / 2;
        Ok((!paces.is_empty()).then(|| paces.swap_remove(middle)))
    }
}

/// The step of a path that took longest.
fn longest(dag: &CompiledDag, path: &[PathStep]) -> String {
    let took = |step: &&PathStep| step.until.map(|until| until.duration_since(step.from));
    let step = path.iter().max_by_key(took);
    step.map_or_else(String::new, |step| dag.graph.name(step.key.step).to_owned())
}
