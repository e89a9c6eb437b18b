//! The elector: one node leads, and every scheduler acknowledges the runs that it has seen.
//!
//! ```text
//!            ┌────────────── no leader ◀───────────────────────────────────────┐
//!            │ take_leadership: epoch + 1                                      │ resigned,
//!            ▼                                                                 │ left, or
//!        A leads in epoch n ── claims runs of the leader, under (A, n) ────────┘ declared dead
//! ```
//!
//! Leadership is not renewed: it lasts as long as the lease of the node. A node that cannot renew
//! its lease stops its work before the lease ends, is declared dead by the others, and only then
//! can another node take the leadership. So a leader that was suspended for an hour and wakes holds
//! nothing, and every write that it tries is refused, before it has found out by itself. A leader
//! resigns when it is drained or its clock is off.
//!
//! # Lease and epoch
//!
//! Three numbers distinguish nodes and claims, each for one question:
//!
//! | number | question | source |
//! |---|---|---|
//! | the node's id | does this process still count? | the process, anew each time that it joins |
//! | the epoch | which node leads? | the leader's row, one more with every change |
//! | the fence | which attempt of a run is the last? | the claim, larger each time |
//!
//! ```text
//!  lease of A   ├──────── 10 s ────────┤
//!  A            r   r   r   ✗ cut off, or suspended
//!  A's own end              ├── 8 s after its last renewal: it stops its runs ──┤
//!  store                               ├ lease over ┤ reap: A is declared dead │ epoch + 1
//!  B                                                └── a second later ──┘ take_leadership
//! ```
//!
//! *Excluded*: A and B both write as the leader. No clock of a node is part of the argument.
//! Whether a lease is over is decided by the store's clock, in the statement that declares the node
//! dead. That statement takes the node's lock exclusively, and every write of a node takes it
//! shared; so a write of A is before it, and then the statement waits for the write, or after it,
//! and then the write finds that the node was declared dead. `take_leadership` locks the row of the
//! leader and checks whether the node in it is alive. So between the last write of A as leader and
//! the first of B lies a death, a resignation or a leave, in one order for all nodes.
//!
//! *Possible*: A is still at work when B begins, because the store cannot refuse effects of a job
//! in other systems. Two things make it rare and one makes it harmless. A measures by a monotonic
//! clock, from when it *requested* its last renewal and not from the reply, and stops two seconds
//! before the others may begin; its runs get the fencing token of their own attempt, and the next
//! attempt gets a larger one.
//!
//! *Where it can be slow*: a lease (10 s), a look of the reaper (1 s), a look of the elector (1 s).
//! A clean stop and a resignation skip the first two.
//!
//! A leader that should not lead any more (it is drained, or its clock is off) takes nothing new,
//! finishes what only the leader may execute, and resigns then.
//!
//! `tests/it/cluster` does all of it to real processes, and the simulation to a virtual clock.

use domain::alert::{Alert, AlertKind};
use domain::cluster::{NodeRole, NodeState, Placement};
use domain::id::{JobId, TenantId};

use super::Node;

/// Result of a step of cluster work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attended {
    /// The epoch that this node leads in, if it leads.
    pub leads: Option<i64>,
    /// Runs that have a quorum now.
    pub acknowledged: u64,
    /// Runs that this node claimed by placement.
    pub placed: usize,
    /// How many buckets of jobs this node plans ahead.
    pub buckets: u32,
    /// Shards that this node, as the leader, gave to other owners.
    pub moved: u64,
}

impl Node {
    /// The epoch that this node leads in, as far as it knows.
    pub fn leads(&self) -> Option<i64> {
        self.state().leads
    }

    /// Whether this node satisfies a placement request.
    pub(super) fn offers(&self, place: &Placement) -> bool {
        if place.is_anywhere() {
            return true;
        }
        let mut offer = self.settings.info.labels.pairs();
        offer.extend(self.leads().map(|_| Placement::LEADER.to_owned()));
        place.is_offered(&offer)
    }
}

impl Node {
    /// The cluster work of a node, once: releases runs that it may not start any more, takes part
    /// in leadership and the assignment of shards, acknowledges, claims runs by placement, and
    /// computes its planning buckets.
    pub async fn attend(&self) -> store::Result<Attended> {
        if self.is_drained() {
            self.release_prepared();
        } else {
            self.release_slot_waiters();
        }
        let leads = self.elect().await?;
        let moved = self.assign_shards().await?;
        self.wake_split().await?;
        Ok(Attended {
            leads,
            moved,
            acknowledged: self.acknowledge_runs().await?,
            placed: self.claim_placed().await?,
            buckets: self.take_share().await?.count(),
        })
    }
}

impl Node {
    /// The part of [`Node::attend`] that hints are about: claims runs by placement.
    pub async fn attend_places(&self) -> store::Result<Attended> {
        self.wake_split().await?;
        let placed = self.claim_placed().await?;
        Ok(Attended { leads: self.leads(), placed, ..Attended::default() })
    }
}

impl Node {
    /// Becomes the leader if there is none, and resigns if this node should not lead. Answers
    /// the epoch that it leads in.
    pub async fn elect(&self) -> store::Result<Option<i64>> {
        if !self.has_role(NodeRole::Scheduler) {
            return Ok(None);
        }
        let (node, before, fit) = {
            let state = self.state();
            let fit = !state.draining && !state.drained && !self.distrusts_clock();
            (state.id, state.leads, fit)
        };
        let leads = match (fit, before) {
            (false, None) => None,
            (false, Some(epoch)) => {
                let leadership = self.store.leadership().await?;
                let mine = leadership.node == Some(node) && leadership.epoch == epoch;
                // It stays until it has finished what only the leader may.
                (mine && !self.store.resign(node, epoch).await?).then_some(epoch)
            }
            (true, _) => {
                let leadership = self.store.take_leadership(node).await?;
                (leadership.node == Some(node)).then_some(leadership.epoch)
            }
        };
        {
            let mut state = self.state();
            if state.id != node {
                return Ok(None);
            }
            state.leads = leads;
        }
        match (before, leads) {
            (before, Some(epoch)) if before != leads => {
                tracing::info!(epoch, "this node leads");
                self.store.publish_policy(node, epoch, &self.settings.policy()).await?;
            }
            (Some(epoch), None) => tracing::info!(epoch, "this node leads no more"),
            _ => {}
        }
        Ok(leads)
    }

    /// Acknowledges every run that waits for a quorum, as this scheduler.
    async fn acknowledge_runs(&self) -> store::Result<u64> {
        if !self.has_role(NodeRole::Scheduler) || self.distrusts_clock() {
            return Ok(0);
        }
        let woken = self.store.acknowledge_runs(self.id()).await?;
        if woken > 0 {
            self.hint();
        }
        Ok(woken)
    }
}

impl Node {
    /// Compares, as the leader, the settings of all nodes with its own. Each difference raises one
    /// alert. Returns the number of nodes that differ.
    pub async fn watch_settings(&self) -> store::Result<usize> {
        if self.leads().is_none() {
            return Ok(0);
        }
        let own = self.settings.node_info().settings_hash;
        let nodes = self.store.nodes().await?;
        let alive = |state| matches!(state, NodeState::Active | NodeState::Draining);
        let others =
            nodes.iter().filter(|node| alive(node.state) && node.info.settings_hash != own);
        let others: Vec<_> = others.collect();
        let (now, mut state) = (self.now(), self.state());
        for node in &others {
            let known = (node.id, node.info.settings_hash.clone());
            if state.drifted.contains(&known) {
                continue;
            }
            let text = format!(
                "node {} ({}) runs with other settings than the leader: {} instead of {own}",
                node.info.name, node.id, node.info.settings_hash
            );
            tracing::error!(text, "settings differ");
            state.pending_alerts.push(Alert {
                kind: AlertKind::SettingsDrift,
                tenant: TenantId::DEFAULT,
                job: JobId::NONE,
                run: None,
                text,
                at: now,
            });
            state.drifted.insert(known);
        }
        Ok(others.len())
    }
}
