//! Waits of the runs of a list.

use std::collections::HashMap;
use std::sync::Arc;

use domain::decide::explain::{ClusterFacts, KeptFor, Subject, waiting_reason};
use domain::id::{JobId, RunId, TenantId};
use domain::job::Job;
use domain::queue::KeepCompleted;
use domain::run::{RunState, Wait};
use domain::slot::SlotKind;
use store::{NodeView, RunView};

use super::gather::{cluster_facts, run_facts};
use crate::error::Result;
use crate::node::Node;

impl Node {
    /// Reasons why runs have not started, by their ids: those of the list that are pending or
    /// queued. The facts are read once for all of them.
    pub(crate) async fn waiting_reasons(&self, runs: &[RunView]) -> Result<HashMap<RunId, String>> {
        let is_waiting = |run: &&RunView| {
            matches!(run.state, RunState::Pending | RunState::Queued | RunState::Held)
        };
        let waiting: Vec<RunView> = runs.iter().filter(is_waiting).cloned().collect();
        if waiting.is_empty() {
            return Ok(HashMap::new());
        }
        let jobs = self.jobs_of_views(&waiting).await?;
        let jobs: HashMap<JobId, Arc<Job>> = jobs.into_iter().map(|job| (job.id, job)).collect();
        let mut clusters = Clusters::default();
        let mut reasons = HashMap::new();
        for run in &waiting {
            let Some(job) = jobs.get(&run.job) else { continue };
            let upstream = match run.wait {
                Some(Wait::Upstream) => self.upstream_names(job).await?,
                _ => Vec::new(),
            };
            // Only a run that could be claimed waits for a node.
            let cluster = match run.state == RunState::Queued && run.wait.is_none() {
                true => Some(clusters.of(self, job).await?),
                false => None,
            };
            let zone = self.zone_of(job)?;
            let subject = Subject {
                job,
                schedule: None,
                zone: &zone,
                events: &[],
                has_older_events: true,
                outages: &[],
                kept: KeptFor {
                    days: 0,
                    failed_days: 0,
                    keep_last: None,
                    keep_completed: KeepCompleted::All,
                    is_own: false,
                },
                now: self.now(),
            };
            let fact = run_facts(run, None, None);
            let reason = waiting_reason(&subject, &fact, run.wait, &upstream, cluster);
            reasons.extend(reason.map(|reason| (run.id, reason)));
        }
        Ok(reasons)
    }

    /// The names of the jobs that a job depends on.
    async fn upstream_names(&self, job: &Job) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for upstream in &job.definition.depends_on {
            names.extend(self.recall_job(upstream.job).await?.map(|job| job.name.clone()));
        }
        Ok(names)
    }
}

/// The nodes and limits that runs meet, by tenant and kind of slot.
#[derive(Default)]
struct Clusters {
    nodes: Option<Vec<NodeView>>,
    known: HashMap<(TenantId, SlotKind), ClusterFacts>,
}

impl Clusters {
    async fn of(&mut self, node: &Node, job: &Job) -> Result<&ClusterFacts> {
        let key = (job.tenant, job.definition.action.slot_kind());
        if !self.known.contains_key(&key) {
            let nodes = match self.nodes.take() {
                Some(nodes) => nodes,
                None => node.store.nodes().await?,
            };
            let facts = cluster_facts(node, &nodes, key.0, key.1).await?;
            self.nodes = Some(nodes);
            self.known.insert(key, facts);
        }
        Ok(&self.known[&key])
    }
}
