//! Parent runs: split into a child run for each shard, for each row of values, or both.
//!
//! ```text
//!   due ──▶ admitted ──▶ split: its child runs are recorded, all at once ──▶ waits, not held
//!                                                                                 │
//!              child runs: claimed by the owners of their shards, tried, settled  │
//!                                                                                 │
//!                  the last one has ended: the parent is woken, claimed ◀─────────┘ and ends
//! ```
//!
//! Nothing stays behind on the node that split it: neither a slot nor a claim nor a cache entry. If
//! that node dies, the next node that claims the run finds the child runs that there are. The
//! wake-up is a hint; a check after a while makes it right without one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use domain::cluster::{NodeRole, NodeState};
use domain::id::{NodeId, ObjectId, RunId, TenantId, UserId};
use domain::job::{Job, JobState};
use domain::object::ObjectKind;
use domain::partition::{self, Part, Progress, SplitError, part_again};
use domain::run::{
    AttemptEnd, AttemptResult, ClaimedRun, EndedAttempt, ErrorCode, Grant, NewRun, Origin, Outcome,
    Reason, Wait,
};
use domain::shard::{Candidate, Ownership, Shard};
use jiff::{SignedDuration, Timestamp};
use store::{Finish, Move, NodeView, ParentRun, SYSTEM, Verdict};

use super::settle::{job_state_after, settled};
use super::{Ended, Node, Running};
use crate::error::Result;

/// A run looks at its parts after this time if nothing wakes it.
pub(super) const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// Next step of a parent run after a check of its child runs.
pub(super) enum Turn {
    /// It waits for them.
    Wait,
    /// It is looked at anew.
    Again,
    /// It ends as its parts did.
    End(Outcome, Option<Reason>, AttemptResult),
    /// It cannot be split.
    Fail(AttemptResult),
}

/// Whether a run is to be split before anything is executed.
pub(super) fn is_split(run: &ClaimedRun, job: &Job) -> bool {
    let is_parent = job.definition.is_split() && run.run.origin != Origin::Part;
    is_parent || job.definition.is_dag()
}

/// Whether a run may be a DAG run that has begun. It follows its version, whatever happened to its
/// job since.
fn may_have_steps(run: &ClaimedRun, job: &Job) -> bool {
    let has_changed = job.version != run.run.job_version || job.state == JobState::Deleted;
    let has_waited = run.grant.turn > run.attempts + run.lost;
    has_waited && !run.run.origin.is_child() && (job.definition.is_dag() || has_changed)
}

/// Whether a run may have parts. One that has waited may have been split by a definition that
/// has changed since.
pub(super) fn may_have_parts(run: &ClaimedRun, job: &Job) -> bool {
    let has_waited = run.grant.turn > run.attempts + run.lost;
    run.run.origin != Origin::Part && (job.definition.is_split() || has_waited)
}

impl Node {
    /// The parts of those runs that may have some.
    pub(super) async fn parts_of(
        &self,
        due: &[Arc<ClaimedRun>],
        jobs: &[Arc<Job>],
    ) -> store::Result<HashMap<RunId, Vec<Part>>> {
        let asked = due.iter().zip(jobs).filter(|(run, job)| may_have_parts(run, job));
        let asked: Vec<RunId> = asked.map(|(run, _)| run.run.id).collect();
        let mut found: HashMap<RunId, Vec<Part>> = HashMap::new();
        for (run, _) in due.iter().zip(jobs).filter(|(run, job)| may_have_steps(run, job)) {
            let id = run.run.id;
            // A run that repeats another one is recorded before it begins.
            let has_begun = self.dags.is_over(id) || {
                let header = self.store.dag_run(id, false).await?;
                header.is_some_and(|(header, _)| header.revision > 0)
            };
            if has_begun {
                found.insert(id, Vec::new());
            }
        }
        if !asked.is_empty() {
            for part in self.store.parts(&asked).await? {
                found.entry(part.parent).or_default().push(part);
            }
        }
        Ok(found)
    }

    /// The shards of the parts among these runs, by id.
    pub(super) async fn shards_of(
        &self,
        due: &[Arc<ClaimedRun>],
    ) -> store::Result<HashMap<String, Arc<Shard>>> {
        let mut tenants: Vec<TenantId> =
            due.iter().filter(|run| !run.run.shard.is_empty()).map(|run| run.run.tenant).collect();
        tenants.sort_unstable();
        tenants.dedup();
        let mut found = HashMap::new();
        for tenant in tenants {
            let shards = self.shards_in(tenant).await?;
            found.extend(shards.into_iter().map(|shard| (shard.id.to_string(), Arc::new(shard))));
        }
        Ok(found)
    }

    async fn shards_in(&self, tenant: TenantId) -> store::Result<Vec<Shard>> {
        let shards = self.store.shards(Some(tenant)).await?;
        Ok(shards.iter().filter_map(|shard| Shard::of(&shard.object)).collect())
    }

    /// A look at the parts of a run: it waits for them, or ends as they did.
    pub(super) async fn gather(
        &self,
        node: NodeId,
        run: &ClaimedRun,
        job: &Arc<Job>,
        parts: &[Part],
        is_cancelled: bool,
    ) -> store::Result<()> {
        if is_cancelled {
            // Its cancellation was requested while it was being split.
            let text = format!("run {} was cancelled", run.run.id);
            let reason = Reason { code: domain::run::ReasonCode::CancelRequested, text };
            self.cancel_parts(parts, &reason, SYSTEM).await?;
        }
        let progress = Progress::of(parts);
        let shards =
            if progress.failed > 0 { self.shards_in(run.run.tenant).await? } else { Vec::new() };
        let turn = match partition::outcome_of(parts, &shards) {
            None => Turn::Wait,
            Some((outcome, reason, said)) => {
                let Progress { parts, completed, failed } = progress;
                let end = match outcome {
                    Outcome::Completed => AttemptEnd::Completed,
                    Outcome::Cancelled => AttemptEnd::Cancelled,
                    Outcome::Timeout => AttemptEnd::Timeout,
                    _ => AttemptEnd::Failed,
                };
                let counts =
                    format!(r#"{{"parts":{parts},"completed":{completed},"failed":{failed}}}"#);
                let message = reason.as_ref().map_or(said, |reason| reason.text.clone());
                let result = Some(counts);
                let result = AttemptResult { end, message, result, ..AttemptResult::completed() };
                Turn::End(outcome, reason, result)
            }
        };
        self.turn(node, run, job, turn);
        Ok(())
    }

    /// Splits an admitted run. `rows` are those of its job's query, if it has one.
    pub(super) async fn split(
        &self,
        node: NodeId,
        run: &ClaimedRun,
        job: &Arc<Job>,
        rows: Option<&AttemptResult>,
    ) -> store::Result<()> {
        let turn = match self.parts_to_be(run, job, rows).await? {
            Err(error) => {
                let code = ErrorCode::Other("CANNOT_SPLIT".to_owned());
                Turn::Fail(AttemptResult::failed(code, error.to_string()))
            }
            Ok(parts) if parts.is_empty() => {
                let message = "there are no rows, so there is nothing to do".to_owned();
                let result = AttemptResult { message, ..AttemptResult::completed() };
                Turn::End(Outcome::Completed, None, result)
            }
            Ok(parts) => {
                let split = self.store.split_run(ParentRun::Held(node, run.grant), &parts).await?;
                if split {
                    tracing::debug!(run = %run.run.id, parts = parts.len(), "a run was split");
                    let mut state = self.state();
                    state.want_claim();
                    state.has_placement_request = true;
                }
                // Otherwise it has child runs, or its cancellation was requested: a new check shows
                // which.
                if split { Turn::Wait } else { Turn::Again }
            }
        };
        self.turn(node, run, job, turn);
        Ok(())
    }

    async fn parts_to_be(
        &self,
        run: &ClaimedRun,
        job: &Job,
        rows: Option<&AttemptResult>,
    ) -> store::Result<std::result::Result<Vec<NewRun>, SplitError>> {
        let definition = &job.definition;
        let shards = match definition.partition {
            Some(_) => self.shards_in(run.run.tenant).await?,
            None => Vec::new(),
        };
        let rows = match rows.map(partition::rows_of).transpose() {
            Ok(rows) => rows,
            Err(error) => return Ok(Err(error)),
        };
        Ok(partition::split(definition, &run.run, rows.as_deref(), &shards, self.now()))
    }

    /// Lets go of a run after a look at its parts.
    pub(super) fn turn(&self, node: NodeId, run: &ClaimedRun, job: &Arc<Job>, turn: Turn) {
        let now = self.now();
        let attempt = |result| EndedAttempt {
            number: run.number(),
            fence: None,
            job_version: None,
            node,
            started_at: run.run.due_at,
            finished_at: now,
            result,
        };
        let ungranted = |verdict| Finish::untried(run.grant, verdict);
        let finish = match turn {
            Turn::Wait => {
                let until = now.saturating_add(LOOK_AGAIN).unwrap_or(Timestamp::MAX);
                ungranted(Verdict::Wait(Wait::Parts, Some(until)))
            }
            Turn::Again => ungranted(Verdict::Release),
            Turn::Fail(result) => settled(run, job, attempt(result)),
            Turn::End(outcome, reason, result) => {
                let dead_letter =
                    matches!(outcome, Outcome::Failed | Outcome::Timeout) && !run.run.id.is_part();
                let verdict = Verdict::End { outcome, reason, dead_letter };
                let job_state = job_state_after(run, job, &verdict);
                let attempt = Some(attempt(result));
                Finish { attempt, job_state, ..Finish::untried(run.grant, verdict) }
            }
        };
        let mut state = self.state();
        if state.id != node {
            return;
        }
        state.free[run.run.slot] += 1;
        let Some(held) = state.held(run.grant) else { return };
        let claimed_at = Some(held.claimed_at);
        if matches!(finish.verdict, Verdict::End { .. }) {
            self.traces.ended(|| Ended {
                run: Arc::new(run.clone()),
                job: Arc::clone(job),
                node,
                claimed_at,
                decided_at: now,
            });
        }
        state.held.remove(&run.grant.run);
        state.done.push(finish);
    }

    /// The rows by which a run is split have arrived, or their query failed. Returns false when the
    /// claim is not this node's any more.
    pub async fn split_by(&self, grant: Grant, answer: AttemptResult) -> store::Result<bool> {
        let (node, run, job) = {
            let state = self.state();
            let Some(held) = state.held(grant) else { return Ok(false) };
            let Some(Running { job, .. }) = &held.running else { return Ok(false) };
            (state.id, held.run.clone(), Arc::clone(job))
        };
        if answer.end != AttemptEnd::Completed {
            return Ok(self.complete(grant, answer));
        }
        self.split(node, &run, &job, Some(&answer)).await?;
        Ok(true)
    }

    /// Requests the cancellation of those child runs that have not ended. Returns how many these
    /// are.
    pub(super) async fn cancel_parts(
        &self,
        parts: &[Part],
        why: &Reason,
        by: &str,
    ) -> store::Result<usize> {
        let live = parts.iter().filter(|part| part.outcome.is_none());
        let mut count = 0;
        for part in live {
            self.cancel_one(part.run, why, by).await?;
            count += 1;
        }
        Ok(count)
    }

    /// Wakes the runs whose last part has ended here.
    pub async fn wake_split(&self) -> store::Result<u64> {
        self.advance_dags().await?;
        let ended = std::mem::take(&mut self.state().parts_ended);
        if ended.is_empty() {
            return Ok(0);
        }
        match self.store.wake_split(&ended).await {
            Ok(woken) => {
                let mut state = self.state();
                if woken > 0 {
                    state.want_claim();
                }
                state.has_placement_request |= woken > 0;
                Ok(woken)
            }
            Err(error) => {
                self.state().parts_ended.extend(ended);
                Err(error)
            }
        }
    }

    /// Those parts of a run that did not complete, for a new run in its place. A part is done
    /// again alone.
    async fn parts_again(&self, run: RunId, again: &NewRun) -> Result<Vec<NewRun>> {
        let parts = if run.is_part() {
            let part = |view: store::RunView| Part {
                parent: again.id,
                run,
                shard: view.shard,
                outcome: None,
            };
            self.store.run(run).await?.map(part).into_iter().collect()
        } else {
            self.store.parts(&[run]).await?
        };
        let mut fresh = Vec::new();
        for part in parts.iter().filter(|part| part.outcome != Some(Outcome::Completed)) {
            let Some(view) = self.store.run(part.run).await? else { continue };
            let number = fresh.len();
            fresh.push(part_again(again, number, &part.shard, view.parameters, self.now()));
        }
        Ok(fresh)
    }

    /// Starts the child runs of a parent run that did not complete, or one child run, once more, as
    /// a new run; none when it has no child runs.
    pub async fn redrive_split(
        &self,
        run: RunId,
        requested_by: Option<UserId>,
    ) -> Result<Option<NewRun>> {
        let again = self.redriven(run, requested_by).await?;
        let parts = self.parts_again(run, &again).await?;
        if parts.is_empty() {
            return Ok(None);
        }
        self.store.split_run(ParentRun::New(&again), &parts).await?;
        let mut state = self.state();
        state.want_claim();
        state.has_placement_request = true;
        Ok(Some(again))
    }
}

impl Node {
    /// The leader sees to it that every shard has the owner that it should have: the heaviest of
    /// the nodes that are there. Returns how many moved.
    pub async fn assign_shards(&self) -> store::Result<u64> {
        let (node, leads) = {
            let state = self.state();
            (state.id, state.leads)
        };
        let Some(epoch) = leads else { return Ok(0) };
        let shards = self.store.shards(None).await?;
        if shards.is_empty() {
            return Ok(0);
        }
        let mut nodes = self.store.nodes().await?;
        nodes.retain(|node| {
            node.state == NodeState::Active && node.info.roles.contains(&NodeRole::Agent)
        });
        let candidate = |node: &NodeView| Candidate {
            id: node.id,
            name: node.info.name.clone(),
            labels: node.info.labels.clone(),
        };
        // Only servers have an address: agents elsewhere come to them.
        let servers = nodes.iter().filter(|node| node.info.address.is_some());
        let servers: Vec<Candidate> = servers.map(candidate).collect();
        let names: HashMap<NodeId, String> =
            nodes.iter().map(|node| (node.id, node.info.name.clone())).collect();
        let nodes: Vec<Candidate> = nodes.iter().map(candidate).collect();
        let shards: Vec<(Shard, Ownership)> =
            shards.iter().filter_map(|kept| Some((Shard::of(&kept.object)?, kept.owner))).collect();
        // Where there is no server, the error of the agent that has the run is the most specific
        // one.
        let of_servers = if servers.is_empty() || servers.len() == nodes.len() {
            HashSet::new()
        } else {
            self.shards_of_servers(shards.iter().map(|(shard, _)| shard)).await?
        };
        let mut moves = Vec::new();
        for (shard, owner) in &shards {
            let for_servers = of_servers.contains(&shard.id);
            let to = shard.owner(if for_servers { &servers } else { &nodes });
            if to != owner.node {
                let shown = |node: Option<NodeId>| {
                    let name = node.and_then(|id| names.get(&id).cloned());
                    name.or_else(|| node.map(|id| id.to_string())).unwrap_or_else(|| "none".into())
                };
                let (from, to_whom) = (shown(owner.node), shown(to));
                tracing::info!(shard = shard.name, from, to = to_whom, epoch, "a shard moves");
                moves.push(Move { shard: shard.id, fence: owner.fence, to });
            }
        }
        if moves.is_empty() {
            return Ok(0);
        }
        let moved = self.store.assign(node, epoch, &moves).await?;
        if moved.is_none() {
            tracing::warn!(epoch, "shards were not moved: this node does not lead any more");
        }
        Ok(moved.unwrap_or(0))
    }

    /// Shards in databases that only the settings of servers name, as far as it is not set where
    /// they belong.
    async fn shards_of_servers(
        &self,
        shards: impl Iterator<Item = &Shard>,
    ) -> store::Result<HashSet<ObjectId>> {
        let within = |shard: &Shard| Some((shard.tenant, shard.body.database.clone()?));
        let mut open: Vec<_> = shards
            .filter(|shard| !shard.is_pinned())
            .filter_map(|shard| Some((within(shard)?, shard.id)))
            .collect();
        let (mut after, batch) = (None, self.settings.batch_max);
        while !open.is_empty() {
            let known = self.store.objects_of_kind(ObjectKind::Database, after, batch).await?;
            let names: HashSet<_> =
                known.iter().map(|known| (known.tenant, known.name.clone())).collect();
            open.retain(|(database, _)| !names.contains(database));
            match known.last().filter(|_| known.len() == batch as usize) {
                Some(last) => after = Some(last.id),
                None => break,
            }
        }
        Ok(open.into_iter().map(|(_, shard)| shard).collect())
    }
}
