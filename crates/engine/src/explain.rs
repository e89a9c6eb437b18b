//! Why a job did or did not run at a time.

use domain::cluster::{Class, NodeRole, NodeState, Place};
use domain::decide::explain::{
    Cluster as ClusterFacts, Explanation, Question, Record, Upstream, explain,
};
use domain::id::{JobId, RunId};
use domain::job::Job;
use domain::run::{Outcome, RunState};
use jiff::{SignedDuration, Timestamp};
use store::{Cluster, Desk, NodeView, RunFilter, RunView};

use crate::error::Result;
use crate::node::Node;

/// Rows before a time that are searched for one that stands for several times.
const ROWS_MAX: u32 = 100;

/// Runs of a job that are counted as active, at most.
const ACTIVE_MAX: u32 = 100;

impl<S: Cluster + Desk> Node<S> {
    /// Says why a job did or did not run at a time, or what is to be expected of a time to come.
    pub async fn explain(&self, id: JobId, at: Timestamp) -> Result<Explanation> {
        let job = self.existing(id).await?;
        let schedule = job.definition.when.compile(&self.parts.zones)?;
        let running = RunFilter { states: vec![RunState::Running], ..RunFilter::of_job(id) };
        let active = self.store.list_runs(&running, None, ACTIVE_MAX).await?.items.len();
        let record = self.record_of(id, at).await?;
        let cluster = self.cluster_for(&job, record.as_ref()).await?;
        Ok(explain(Question {
            job: &job,
            schedule: schedule.as_ref(),
            at,
            now: self.store.now().await?,
            record,
            active,
            upstream: self.upstream_of(&job).await?,
            cluster,
        }))
    }

    /// What the cluster has for a job that asks for something.
    async fn cluster_for(
        &self,
        job: &Job,
        record: Option<&Record>,
    ) -> store::Result<Option<ClusterFacts>> {
        let definition = &job.definition;
        if definition.class == Class::LocalSafe && definition.run_on.is_empty() {
            return Ok(None);
        }
        let run = record.map_or(RunId(uuid::Uuid::nil()), |record| record.id);
        let quorum = self.store.quorum(run).await?;
        let nodes = self.store.nodes().await?;
        let offer = |node: &NodeView| {
            let mut offer = node.info.labels.pairs();
            offer.extend(node.leads.map(|_| Place::LEADER.to_owned()));
            offer
        };
        let takes = |node: &&NodeView| {
            node.state == NodeState::Active && node.info.roles.contains(&NodeRole::Agent)
        };
        Ok(Some(ClusterFacts {
            leader: nodes.iter().find(|node| node.leads.is_some()).map(offer),
            agents: nodes.iter().filter(takes).map(offer).collect(),
            quorum,
        }))
    }

    /// The row of a nominal time, or the one that stands for it and others.
    async fn record_of(&self, job: JobId, at: Timestamp) -> store::Result<Option<Record>> {
        let after = at.saturating_add(SignedDuration::from_millis(1)).unwrap_or(Timestamp::MAX);
        let filter = RunFilter { until: Some(after), ..RunFilter::of_job(job) };
        let rows = self.store.list_runs(&filter, None, ROWS_MAX).await?.items;
        let stands_for = |run: &&RunView| {
            run.origin.is_tick()
                && run.reason.as_deref() != Some("DST_GAP")
                && run.scheduled_for <= at
                && at <= run.scheduled_last
        };
        Ok(rows.iter().find(stands_for).map(record))
    }

    async fn upstream_of(&self, job: &Job) -> store::Result<Vec<Upstream>> {
        let wanted: Vec<JobId> =
            job.definition.depends_on.iter().map(|dependency| dependency.job).collect();
        let jobs = self.store.jobs_by_id(&wanted).await?;
        let ends = [Outcome::Completed, Outcome::Failed, Outcome::Cancelled, Outcome::Timeout];
        let states = ends.map(RunState::Ended).to_vec();
        let mut upstream = Vec::with_capacity(wanted.len());
        for dependency in &job.definition.depends_on {
            let found = jobs.iter().find(|job| job.id == dependency.job);
            let name = found.map_or_else(|| dependency.job.to_string(), |job| job.name.clone());
            let filter = RunFilter { states: states.clone(), ..RunFilter::of_job(dependency.job) };
            let last = self.store.list_runs(&filter, None, 1).await?.items.pop();
            let last = last.and_then(|run| match (run.state, run.finished_at) {
                (RunState::Ended(outcome), Some(at)) => Some((outcome, at)),
                _ => None,
            });
            upstream.push(Upstream { name, on: dependency.on, last });
        }
        Ok(upstream)
    }
}

fn record(run: &RunView) -> Record {
    Record {
        id: run.id,
        state: run.state,
        reason: run.reason.clone(),
        reason_text: run.reason_text.clone(),
        first: run.scheduled_for,
        last: run.scheduled_last,
        count: run.count,
        started_at: run.started_at,
        finished_at: run.finished_at,
    }
}
