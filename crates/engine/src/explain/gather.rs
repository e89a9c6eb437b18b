//! Facts about a job and its runs.

use std::collections::HashMap;
use std::collections::hash_map;

use domain::access::Entry;
use domain::audit::Kind;
use domain::cluster::{Class, NodeRole, NodeState, Placement};
use domain::decide::explain::{
    AttemptFacts, ClusterFacts, Deed, Division, JobEvent, KeptFor, LiveFacts, NodeFacts, OtherRun,
    PartFacts, PartOf, PoolFacts, RunDetail, RunFacts, Subject, wait_in,
};
use domain::id::{JobId, NodeId, RunId, TenantId, UserId};
use domain::job::Job;
use domain::object::ObjectKind;
use domain::partition::{Part, Progress};
use domain::pool::{PoolBody, PoolRun};
use domain::run::{Origin, Outcome, RunState, Wait};
use domain::schedule::{Outage, Schedule, Zone};
use domain::slot::SlotKind;
use jiff::{SignedDuration, Timestamp};
use std::sync::{Arc, Mutex, PoisonError};
use store::{AuditFilter, NodeView, RunFilter, RunView};

use crate::error::Result;
use crate::node::Node;

/// Maximum number of changes of a job that are read.
const EVENTS_MAX: u32 = 500;

/// Maximum number of other runs of the job that are read.
const OTHERS_MAX: u32 = 50;

/// Maximum number of ended child runs in an explanation, and of live ones.
const PARTS_TOLD: usize = 10;

/// Maximum number of runs with a place in a pool in an explanation.
const HOLDERS_TOLD: usize = 10;

/// Maximum number of changes of nodes that are searched for drains.
const NODE_EVENTS_MAX: u32 = 100;

/// A job, its past and its cluster.
pub(super) struct Gathered<'a> {
    pub node: &'a Node,
    pub job: &'a Job,
    pub schedule: Option<Schedule>,
    pub zone: Zone,
    pub now: Timestamp,
    events: Vec<JobEvent>,
    outages: Arc<[Outage]>,
    nodes: Vec<NodeView>,
    /// Cluster facts by kind of slot; read when the first run needs them.
    clusters: Mutex<HashMap<SlotKind, ClusterFacts>>,
}

impl<'a> Gathered<'a> {
    pub async fn of(node: &'a Node, job: &'a Job) -> Result<Self> {
        let schedule =
            job.definition.schedule_under(&node.parts.zones, &node.blackouts(job.tenant))?;
        let events = node.store.job_events(job.id, EVENTS_MAX).await?;
        let read = |event: store::AuditedEvent| {
            JobEvent::read(event.at, event.actor, event.kind, &event.details)
        };
        let mut events: Vec<JobEvent> = events.into_iter().map(read).collect();
        // The last change is shown with the values that it replaced.
        if let Some(event) = events.iter_mut().find(|event| event.changes_definition())
            && let Some(before) = event.version.checked_sub(1)
            && let Some(old) = node.store.job_version(job.id, before).await?
        {
            event.remember(&old.name, old.state, &old.definition);
        }
        Ok(Gathered {
            node,
            job,
            schedule,
            zone: node.zone_of(job)?,
            now: node.store.now().await?,
            events,
            outages: node.outages(),
            nodes: node.store.nodes().await?,
            clusters: Mutex::default(),
        })
    }

    pub fn subject(&self) -> Subject<'_> {
        let own = self.job.definition.retention;
        let settings = &self.node.settings;
        let kept = KeptFor {
            days: own.days.unwrap_or(settings.retention_days),
            failed_days: own.failed_days.unwrap_or(settings.failed_retention_days),
            keep_last: own.keep_last,
            keep_completed: own.keep_completed.unwrap_or_default(),
            is_own: own != Default::default(),
        };
        Subject {
            job: self.job,
            schedule: self.schedule.as_ref(),
            zone: &self.zone,
            has_older_events: !self.events.iter().any(|event| event.kind == Kind::JobCreated),
            events: &self.events,
            outages: &self.outages,
            kept,
            now: self.now,
        }
    }

    /// The name of a node.
    pub fn node_name(&self, id: NodeId) -> String {
        let node = self.nodes.iter().find(|node| node.id == id);
        node.map_or_else(|| id.to_string(), |node| node.info.name.clone())
    }

    /// Runs as an explanation needs them.
    pub async fn facts(&self, runs: &[RunView]) -> Result<Vec<RunFacts>> {
        let mut names: HashMap<UserId, String> = HashMap::new();
        for user in runs.iter().filter_map(|run| run.requested_by) {
            if let hash_map::Entry::Vacant(unknown) = names.entry(user) {
                unknown.insert(self.user_name(user).await?);
            }
        }
        let name = |run: &RunView| run.requested_by.and_then(|user| names.get(&user).cloned());
        Ok(runs.iter().map(|run| self.fact(run, name(run))).collect())
    }

    async fn user_name(&self, user: UserId) -> Result<String> {
        let known = self.node.standing(user).await?;
        Ok(known.map_or_else(|| user.to_string(), |known| known.user.name.clone()))
    }

    pub fn fact(&self, run: &RunView, requested_by: Option<String>) -> RunFacts {
        run_facts(run, run.node.map(|node| self.node_name(node)), requested_by)
    }

    /// Everything about one run.
    pub async fn detail(&self, run: &RunView, fact: &RunFacts) -> Result<RunDetail> {
        let store = &self.node.store;
        let is_live = !matches!(run.state, RunState::Ended(_));
        let live = if is_live { store.live_run(run.id).await? } else { None };
        let slot = live.as_ref().map_or(SlotKind::Process, |live| live.slot);
        let is_cancelled = run.state == RunState::Ended(Outcome::Cancelled)
            || live.as_ref().is_some_and(|live| live.cancel.is_some());
        let mut detail = RunDetail {
            live: live.map(|live| LiveFacts {
                wait: live.wait,
                wait_until: live.wait_until,
                priority: live.priority,
                slot: live.slot,
                ahead: live.ahead,
                line_ahead: live.line_ahead,
                is_unstarted: self.node.has_no_slot_for(run.id),
            }),
            ..RunDetail::default()
        };
        if run.count > 1 || run.attempts + run.lost == 0 && run.started_at.is_none() {
            // No attempt was made.
        } else {
            detail.attempts = self.attempts(run.id).await?;
        }
        if is_cancelled {
            detail.cancel = self.cancellation(run.id).await?;
        }
        if detail.live.is_some_and(|live| live.wait == Some(Wait::Pool)) {
            detail.pool = self.pool(run.id).await?;
        }
        detail.named_run = self.named_run(fact).await?;
        detail.stand_in = self.stand_in(fact).await?;
        if run.origin == Origin::Manual || matches!(run.state, RunState::Ended(_)) {
            self.repetitions(run, &mut detail).await?;
        }
        if run.state == RunState::Running {
            detail.waited = self.node.wait_of_running(run.id);
        }
        detail.others = match is_live {
            true => self.active(Some(run.id)).await?,
            false => Vec::new(),
        };
        detail.others.extend(self.ended_meanwhile(run, &detail.attempts).await?);
        let until = run.finished_at.filter(|_| !is_live);
        let began = detail.attempts.first().map(|it| it.started_at);
        if !self.job.definition.depends_on.is_empty() {
            detail.upstream = self.upstream(run.scheduled_for, began.or(until)).await?;
        }
        if self.job.definition.class == Class::QuorumRequired {
            let quorum = store.quorum(run.id).await?;
            let mut times: Vec<Timestamp> =
                store.acknowledgements(run.id).await?.iter().map(|it| it.at).collect();
            times.sort_unstable();
            detail.quorum_at = times.get(quorum.needed().saturating_sub(1) as usize).copied();
            detail.quorum = Some(quorum);
        }
        if run.id.is_part() {
            detail.part = self.part_of(run).await?;
        } else if run.count == 1 {
            detail.division = self.division(run).await?;
        }
        if is_live {
            detail.cluster = Some(self.cluster(slot).await?);
        }
        let joined = |id: NodeId| self.nodes.iter().find(|it| it.id == id).map(|it| it.joined_at);
        detail.node_joined_at = run.node.and_then(joined);
        Ok(detail)
    }

    /// The pool of the job, and the runs that have its places or come before a run in line.
    async fn pool(&self, run: RunId) -> Result<Option<PoolFacts>> {
        let Some(pool) = &self.job.definition.pool else { return Ok(None) };
        let (store, tenant) = (&self.node.store, self.job.tenant);
        let object = store.object_by_name(tenant, ObjectKind::Pool, &pool.name).await?;
        let body = object.and_then(|object| PoolBody::from_json(&object.body));
        let runs = store.pool_runs(tenant, Some(&pool.name)).await?;
        let (placed, line): (Vec<_>, Vec<_>) = runs.into_iter().partition(|it| it.has_place);
        let shown = &placed[..placed.len().min(HOLDERS_TOLD)];
        let ids: Vec<JobId> = shown.iter().map(|it| it.job).collect();
        let jobs = store.jobs_ever(&ids).await?;
        let name = |id: JobId| jobs.iter().find(|job| job.id == id).map(|job| job.name.clone());
        let holder = |it: &PoolRun| (name(it.job).unwrap_or_else(|| it.job.to_string()), it.run);
        Ok(Some(PoolFacts {
            name: pool.name.clone(),
            size: body.map(|body| body.size),
            used: placed.iter().map(|it| it.weight).sum(),
            weight: pool.weight,
            holders: shown.iter().map(holder).collect(),
            others: placed.len() - shown.len(),
            ahead: line.iter().position(|it| it.run == run).unwrap_or(line.len()),
        }))
    }

    /// Conditions that a run of the job at a time, or its next one, would meet now.
    pub async fn prospect(&self, rows: &[RunView], at: Option<Timestamp>) -> Result<RunDetail> {
        let slot = self.job.definition.action.slot_kind();
        let at = at.or_else(|| self.schedule.as_ref()?.next(self.now));
        let mut detail = RunDetail {
            others: self.active(None).await?,
            cluster: Some(self.cluster(slot).await?),
            ..RunDetail::default()
        };
        if !self.job.definition.depends_on.is_empty() {
            detail.upstream = self.upstream(at.unwrap_or(self.now), None).await?;
        }
        if self.job.definition.is_split() {
            let has_begun = |run: &&RunView| {
                !matches!(run.state, RunState::Ended(Outcome::Skipped | Outcome::Missed))
            };
            if let Some(run) = rows.iter().find(has_begun) {
                detail.division = self.division(run).await?;
            }
        }
        Ok(detail)
    }

    async fn attempts(&self, run: RunId) -> Result<Vec<AttemptFacts>> {
        let attempts = self.node.store.attempts(run).await?;
        let fact = |attempt: store::AttemptView| AttemptFacts {
            number: attempt.number,
            node: self.node_name(attempt.node),
            started_at: attempt.started_at,
            finished_at: attempt.finished_at,
            end: attempt.end,
            error: attempt.error,
            message: attempt.message,
            waited: wait_in(attempt.details.as_deref()),
        };
        Ok(attempts.into_iter().map(fact).collect())
    }

    /// First cancellation request of a run.
    async fn cancellation(&self, run: RunId) -> Result<Option<Deed>> {
        let events = self.node.store.run_events(run, 10).await?;
        // The first request counts.
        let asked = events.into_iter().rev().find(|event| event.kind == Kind::JobCancelled);
        Ok(asked.map(|event| Deed { at: event.at, actor: event.actor, text: event.details }))
    }

    /// The run that the text of a reason names.
    async fn named_run(&self, run: &RunFacts) -> Result<Option<OtherRun>> {
        let Some(text) = &run.reason_text else { return Ok(None) };
        let mut words = text.split_whitespace();
        let Some(id) = words.find_map(|word| word.parse::<RunId>().ok()) else { return Ok(None) };
        self.other(id).await
    }

    async fn other(&self, id: RunId) -> Result<Option<OtherRun>> {
        let Some(run) = self.node.run(id).await? else { return Ok(None) };
        if run.job != self.job.id {
            return Ok(None);
        }
        Ok(Some(self.other_of(&run).await?))
    }

    async fn other_of(&self, run: &RunView) -> Result<OtherRun> {
        let requested_by = match run.requested_by {
            Some(user) => Some(self.user_name(user).await?),
            None => None,
        };
        Ok(OtherRun {
            id: run.id,
            scheduled_for: run.scheduled_for,
            state: run.state,
            started_at: run.started_at,
            finished_at: run.finished_at,
            node: run.node.map(|node| self.node_name(node)),
            requested_by,
        })
    }

    /// The run that stands for a time which was missed: its reason names the time.
    async fn stand_in(&self, run: &RunFacts) -> Result<Option<OtherRun>> {
        let text = run.reason_text.as_deref().unwrap_or_default();
        let Some((_, rest)) = text.split_once("the run of ") else { return Ok(None) };
        let time = rest.split_whitespace().next().and_then(|it| it.parse::<Timestamp>().ok());
        match time {
            Some(time) => self.other(RunId::of_tick(self.job.id, time, "")).await,
            None => Ok(None),
        }
    }

    /// The run that a run repeats, and those that repeat it. A repetition has the scheduled time of
    /// the run, and the time of the request in its id.
    async fn repetitions(&self, run: &RunView, detail: &mut RunDetail) -> Result<()> {
        let is_same = |other: &&RunView| {
            other.scheduled_for == run.scheduled_for && other.id != run.id && !other.id.is_part()
        };
        let millisecond = SignedDuration::from_millis(1);
        let is_repetition = |run: &RunView| {
            run.origin == Origin::Manual
                && run.id.time().duration_since(run.scheduled_for).abs() > millisecond
        };
        if is_repetition(run) {
            let until = run.scheduled_for.saturating_add(SignedDuration::from_millis(2));
            let filter = RunFilter {
                since: Some(run.scheduled_for.saturating_sub(millisecond).unwrap_or(run.due_at)),
                until: Some(until.unwrap_or(Timestamp::MAX)),
                ..RunFilter::of_job(self.job.id)
            };
            let found = self.node.list_runs(&filter, None, OTHERS_MAX).await?.items;
            if let Some(first) = found.iter().rfind(is_same) {
                detail.repeats = Some(self.other_of(first).await?);
            }
            return Ok(());
        }
        let Some(finished_at) = run.finished_at else { return Ok(()) };
        if run.state == RunState::Ended(Outcome::Completed) {
            return Ok(());
        }
        let filter = RunFilter {
            since: Some(finished_at),
            origin: Some(Origin::Manual),
            ..RunFilter::of_job(self.job.id)
        };
        let found = self.node.list_runs(&filter, None, OTHERS_MAX).await?.items;
        for other in found.iter().filter(is_same).filter(|it| is_repetition(it)) {
            detail.repeated_by.push(self.other_of(other).await?);
        }
        Ok(())
    }

    /// Runs of the job that have begun and not ended.
    async fn active(&self, but: Option<RunId>) -> Result<Vec<OtherRun>> {
        let states = vec![RunState::Running];
        let filter = RunFilter { states, ..RunFilter::of_job(self.job.id) };
        let mut found = Vec::new();
        for run in self.node.list_runs(&filter, None, OTHERS_MAX).await?.items {
            if Some(run.id) != but && !run.id.is_part() {
                found.push(self.other_of(&run).await?);
            }
        }
        found.reverse();
        Ok(found)
    }

    /// Runs of the job that ended while a run waited for its start.
    async fn ended_meanwhile(
        &self,
        run: &RunView,
        attempts: &[AttemptFacts],
    ) -> Result<Vec<OtherRun>> {
        let is_missed = run.state == RunState::Ended(Outcome::Missed);
        let began = attempts.first().map(|it| it.started_at).or(run.started_at);
        let began = began.or(run.finished_at.filter(|_| is_missed && run.count == 1));
        let Some(began) = began.filter(|at| at.duration_since(run.scheduled_for).as_secs() >= 1)
        else {
            return Ok(Vec::new());
        };
        let filter = RunFilter { until: Some(began), ..RunFilter::of_job(self.job.id) };
        let mut found = Vec::new();
        for other in self.node.list_runs(&filter, None, OTHERS_MAX).await?.items {
            let ended = other.finished_at.is_some_and(|at| at > run.scheduled_for && at <= began);
            if ended && other.id != run.id && !other.id.is_part() && other.started_at.is_some() {
                found.push(self.other_of(&other).await?);
            }
        }
        Ok(found)
    }

    /// The nodes of the cluster and its limits.
    async fn cluster(&self, slot: SlotKind) -> Result<ClusterFacts> {
        let known = || self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(facts) = known().get(&slot) {
            return Ok(facts.clone());
        }
        let facts = cluster_facts(self.node, &self.nodes, self.job.tenant, slot).await?;
        known().insert(slot, facts.clone());
        Ok(facts)
    }

    /// The parent run and the shard of a child run.
    async fn part_of(&self, run: &RunView) -> Result<Option<PartOf>> {
        let store = &self.node.store;
        let Some((_, parent)) = store.parents(&[run.id]).await?.pop() else { return Ok(None) };
        let shards = store.shards(Some(self.job.tenant)).await?;
        let shard = shards.iter().find(|shard| shard.object.id.to_string() == run.shard);
        let owner = shard.and_then(|shard| shard.owner.node).map(|node| self.node_name(node));
        let shard = shard.map(|shard| shard.object.name.clone());
        Ok(Some(PartOf { parent, shard, owner }))
    }

    /// How far the parts of a run have come.
    async fn division(&self, run: &RunView) -> Result<Option<Division>> {
        let store = &self.node.store;
        let parts = store.parts(&[run.id]).await?;
        if parts.is_empty() {
            return Ok(None);
        }
        let bad = |part: &&Part| part.outcome.is_some_and(|it| it != Outcome::Completed);
        let bad = parts.iter().filter(bad).take(PARTS_TOLD);
        let live = parts.iter().filter(|part| part.outcome.is_none()).take(PARTS_TOLD);
        let shards = store.shards(Some(self.job.tenant)).await?;
        let mut told = Vec::new();
        for part in bad.chain(live) {
            // One that is gone has been pruned.
            let Some(run) = store.run(part.run).await? else { continue };
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
}

/// A run with the names of its node and of the user that requested it.
pub(super) fn run_facts(
    run: &RunView,
    node: Option<String>,
    requested_by: Option<String>,
) -> RunFacts {
    RunFacts {
        id: run.id,
        state: run.state,
        reason: run.reason.clone(),
        reason_text: run.reason_text.clone(),
        scheduled_for: run.scheduled_for,
        scheduled_last: run.scheduled_last,
        count: run.count,
        origin: run.origin,
        coalesced: run.coalesced,
        backfill_concurrency: run.backfill_concurrency,
        due_at: run.due_at,
        attempts: run.attempts,
        lost: run.lost,
        started_at: run.started_at,
        finished_at: run.finished_at,
        error: run.error.clone(),
        message: run.message.clone(),
        node,
        is_dead_letter: run.dead_letter,
        requested_by,
        job_version: run.job_version,
    }
}

/// The nodes of a cluster and its limits, as a run of a tenant meets them that needs such a slot.
pub(super) async fn cluster_facts(
    node: &Node,
    views: &[NodeView],
    tenant: TenantId,
    slot: SlotKind,
) -> Result<ClusterFacts> {
    let store = &node.store;
    let own = node.slot_use();
    let drains = match views.iter().any(|it| it.state == NodeState::Draining) {
        true => drains(node).await?,
        false => Vec::new(),
    };
    let mut nodes = Vec::new();
    for view in views.iter().filter(|view| view.state != NodeState::Gone) {
        let mut offer = view.info.labels.pairs();
        offer.extend(view.leads.map(|_| Placement::LEADER.to_owned()));
        let slots = view.info.capacity[slot];
        let taken = match view.id == node.id() {
            true => own[slot].taken,
            // How many it holds of each kind, only the node itself knows.
            false => u32::try_from(view.held).unwrap_or(u32::MAX).min(slots),
        };
        let deed = drains.iter().find(|(id, _)| *id == view.id).map(|(_, deed)| deed.clone());
        nodes.push(NodeFacts {
            name: view.info.name.clone(),
            state: view.state,
            is_agent: view.info.roles.contains(&NodeRole::Agent),
            offer,
            is_leader: view.leads.is_some(),
            slots,
            taken,
            renewed_at: view.renewed_at,
            lease_until: view.lease_until,
            drained: deed,
        });
    }
    let entry = store.entries(&[tenant.0]).await?.pop().map(|record| record.entry);
    let own_max = match entry {
        Some(Entry::Tenant(tenant)) => tenant.max_concurrent,
        _ => None,
    };
    let tenant_max = own_max.or(node.settings.tenant_max_concurrent);
    // All live runs of the tenant are counted for this, so only for a tenant with a limit.
    let tenant_running = match tenant_max {
        Some(_) => store.live(tenant).await?.running,
        None => 0,
    };
    Ok(ClusterFacts {
        nodes,
        tenant_running,
        tenant_max,
        per_job: node.settings.max_runs_per_job,
        renew_every: node.settings.renew_every,
        occupants: node.slot_occupants(slot, tenant),
    })
}

/// The users that drained nodes, newest first.
async fn drains(node: &Node) -> Result<Vec<(NodeId, Deed)>> {
    let filter =
        AuditFilter { kinds: vec![Kind::NodeChanged], ..AuditFilter::of(TenantId::CLUSTER) };
    let rows = node.store.audit(&filter, None, NODE_EVENTS_MAX).await?;
    let deed = |row: domain::audit::Record| {
        let node = row.event.details.split('"').find_map(|word| word.parse::<NodeId>().ok())?;
        let is_drain = row.event.outcome.to_lowercase().contains("drain");
        let deed = Deed { at: row.at, actor: row.event.actor, text: String::new() };
        is_drain.then_some((node, deed))
    };
    Ok(rows.into_iter().filter_map(deed).collect())
}
