//! Why a job did or did not run at a time.

use domain::cluster::{Class, NodeRole, NodeState, Place};
use domain::decide::explain::{
    Cluster as ClusterFacts, Division, Explanation, Obstacle, PartFacts, Question, Record,
    Upstream, explain,
};
use domain::decide::overview;
use domain::id::{JobId, NodeId, RunId};
use domain::job::Job;
use domain::partition::{Part, Progress};
use domain::run::{Outcome, RunState};
use jiff::{SignedDuration, Timestamp};
use store::{NodeView, RunFilter, RunView};

use crate::error::Result;
use crate::node::Node;

/// Rows before a time that are searched for one that stands for several times.
const ROWS_MAX: u32 = 100;

/// Rows of a job that its overview is made of, at most.
const OVERVIEW_ROWS: u32 = 200;

/// Runs of a job that are counted as active, at most.
const ACTIVE_MAX: u32 = 100;

/// Parts of a run that are told about: so many that ended, and so many that have not.
const PARTS_TOLD: usize = 10;

impl Node {
    /// Says why a job did or did not run at a time, or what is to be expected of a time to come.
    pub async fn explain(&self, id: JobId, at: Timestamp) -> Result<Explanation> {
        let job = self.existing(id).await?;
        let schedule = job.definition.when.compile(&self.parts.zones)?;
        let running = RunFilter { states: vec![RunState::Running], ..RunFilter::of_job(id) };
        let active = self.store.list_runs(&running, None, ACTIVE_MAX).await?.items.len();
        let rows = self.rows_until(id, at).await?;
        let record = record_of(&rows, at);
        let cluster = self.cluster_for(&job, record.as_ref()).await?;
        let outages = self.outages();
        Ok(explain(Question {
            job: &job,
            outages: &outages,
            schedule: schedule.as_ref(),
            at,
            now: self.store.now().await?,
            record,
            active,
            upstream: self.upstream_of(&job).await?,
            cluster,
            division: self.division_of(&job, &rows, at).await?,
        }))
    }

    /// Says how a job is doing: what happens now, what happened last, what comes next.
    /// With what stands in the way of its next run.
    pub async fn overview(&self, id: JobId) -> Result<(Vec<overview::Line>, Vec<Obstacle>)> {
        let job = self.existing(id).await?;
        let schedule = job.definition.when.compile(&self.parts.zones)?;
        let mut rows =
            self.store.list_runs(&RunFilter::of_job(id), None, OVERVIEW_ROWS).await?.items;
        self.with_starts(&mut rows);
        let nodes = self.store.nodes().await?;
        let name_of = |id: NodeId| {
            let node = nodes.iter().find(|node| node.id == id);
            node.map_or_else(|| id.to_string(), |node| node.info.name.clone())
        };
        let rows = rows.into_iter().filter(|run| !run.id.is_part());
        let facts = rows.map(|run| overview::RunFacts {
            state: run.state,
            reason: run.reason,
            reason_text: run.reason_text,
            scheduled_for: run.scheduled_for,
            scheduled_last: run.scheduled_last,
            count: run.count,
            origin: run.origin,
            due_at: run.due_at,
            attempts: run.attempts + run.lost,
            started_at: run.started_at,
            finished_at: run.finished_at,
            error: run.error,
            message: run.message,
            node: run.node.map(name_of),
            is_dead_letter: run.dead_letter,
        });
        let facts: Vec<_> = facts.collect();
        let now = self.store.now().await?;
        let obstacles = match overview::waiting_time(schedule.as_ref(), &facts, now) {
            Some(at) => self.explain(id, at).await?.obstacles,
            None => Vec::new(),
        };
        Ok((overview::overview(&job, schedule.as_ref(), &facts, now), obstacles))
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

    /// The last rows of a job up to a time, newest first.
    async fn rows_until(&self, job: JobId, at: Timestamp) -> store::Result<Vec<RunView>> {
        let after = at.saturating_add(SignedDuration::from_millis(1)).unwrap_or(Timestamp::MAX);
        let filter = RunFilter { until: Some(after), ..RunFilter::of_job(job) };
        let mut rows = self.store.list_runs(&filter, None, ROWS_MAX).await?.items;
        self.with_starts(&mut rows);
        Ok(rows)
    }

    /// How far the run of a time has come that was divided, or the last one before it. The parts
    /// of a run come behind it in the list.
    async fn division_of(
        &self,
        job: &Job,
        rows: &[RunView],
        at: Timestamp,
    ) -> store::Result<Option<Division>> {
        let is_whole = |run: &&RunView| !run.id.is_part();
        let has_begun = |run: &&RunView| {
            !matches!(run.state, RunState::Ended(Outcome::Skipped | Outcome::Missed))
        };
        let run = match rows.iter().filter(is_whole).find(|run| stands_for(run, at)) {
            Some(run) => run,
            None if job.definition.is_divided() => {
                match rows.iter().filter(is_whole).find(has_begun) {
                    Some(run) => run,
                    None => return Ok(None),
                }
            }
            None => return Ok(None),
        };
        let parts = self.store.parts(&[run.id]).await?;
        if parts.is_empty() {
            return Ok(None);
        }
        let bad = |part: &&Part| part.outcome.is_some_and(|it| it != Outcome::Completed);
        let bad = parts.iter().filter(bad).take(PARTS_TOLD);
        let live = parts.iter().filter(|part| part.outcome.is_none()).take(PARTS_TOLD);
        let shards = self.store.shards(Some(job.tenant)).await?;
        let mut told = Vec::new();
        for part in bad.chain(live) {
            // One that is gone has been pruned.
            let Some(run) = self.store.run(part.run).await? else { continue };
            let shard = shards.iter().find(|shard| shard.object.id.to_string() == part.shard);
            let name = shard.map_or(&part.shard, |shard| &shard.object.name);
            told.push(PartFacts {
                run: run.id,
                shard: Some(name.clone()).filter(|name| !name.is_empty()),
                is_owned: shard.is_some_and(|shard| shard.owner.node.is_some()),
                state: run.state,
                node: run.node,
                attempts: run.attempts + run.lost,
                due_at: run.due_at,
                said: [run.message, run.reason_text]
                    .into_iter()
                    .flatten()
                    .find(|it| !it.is_empty()),
            });
        }
        let progress = Progress::of(&parts);
        Ok(Some(Division { run: run.id, scheduled_for: run.scheduled_for, progress, parts: told }))
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

/// Whether a row stands for a time of the schedule.
fn stands_for(run: &RunView, at: Timestamp) -> bool {
    run.origin.is_tick()
        && run.reason.as_deref() != Some("DST_GAP")
        && run.scheduled_for <= at
        && at <= run.scheduled_last
}

/// The row of a nominal time, or the one that stands for it and others.
fn record_of(rows: &[RunView], at: Timestamp) -> Option<Record> {
    rows.iter().find(|run| stands_for(run, at)).map(record)
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
