//! The lease: what makes a node's word count.

use domain::id::RunId;
use domain::run::{AttemptEnd, AttemptResult, Grant, RunState};
use domain::slot::SlotKind;
use jiff::SignedDuration;
use store::{NodeInfo, Replaces, RunView};

use super::call::begun;
use super::share::Share;
use super::{Node, Running, State};
use crate::start_log::{BegunRun, BegunRuns, Predecessor};

/// A change of the clock offset that other nodes are told of.
const CLOCK_OFFSET_TOLD: SignedDuration = SignedDuration::from_millis(10);

impl State {
    /// Runs that this node has begun and whose ends the store has not recorded.
    fn begun_runs(&self) -> BegunRuns {
        let running = self.held.values().filter_map(|held| {
            let Running { started_at, token, .. } = held.running.as_ref()?;
            Some((held.run.grant, BegunRun { started_at: *started_at, token: *token }))
        });
        let ended = self.done.iter().filter_map(begun);
        let telling = self.telling.iter().map(|(grant, begun)| (*grant, *begun));
        running.chain(ended).chain(telling).collect()
    }
}

impl Node {
    /// Registers the node.
    pub async fn join(&self) -> store::Result<()> {
        let (replaces, acted) = {
            let state = self.state();
            (state.replaces.clone(), state.predecessor_acted)
        };
        let info = NodeInfo { replaces, acted, ..self.settings.node_info() };
        let joined = self.store.join(self.id(), &info, self.settings.lease).await?;
        self.read_blackouts().await?;
        {
            let mut state = self.state();
            state.outages = joined.outages.into();
            state.has_joined = true;
        }
        let asked = self.ask();
        self.observe_store_clock(asked, self.store.now().await?);
        Ok(())
    }

    /// Extends the lease. Returns the runs whose cancellation was requested; none when the lease is
    /// lost, which means that other nodes may claim the runs of this node.
    pub async fn renew(&self) -> store::Result<Option<Vec<RunId>>> {
        let asked = self.ask();
        let renewed = self.store.renew(self.id(), self.settings.lease).await?;
        if let Some(renewed) = &renewed {
            self.observe_store_clock(asked, renewed.now);
            self.steer(renewed.draining);
            {
                let mut state = self.state();
                state.weights = renewed.weights.iter().copied().collect();
                state.counts_tenants =
                    renewed.counts_tenants || self.settings.tenant_max_concurrent.is_some();
            }
            self.tell_starts().await;
            self.tell_clock_offset().await;
            // The lease counts whether they can be read or not; those that are known hold on.
            if self.skill.is_none()
                && let Err(error) = self.read_blackouts().await
            {
                tracing::debug!(%error, "blackouts not read");
            }
        }
        Ok(renewed.map(|renewed| renewed.cancel))
    }

    /// Writes the runs under way here and their start times to the store, if they have changed, for
    /// readers on other nodes. A failed write is repeated with the next renewal.
    async fn tell_starts(&self) {
        let (id, starts) = {
            let state = self.state();
            let starts = state.under_way();
            if starts == state.told_starts {
                return;
            }
            (state.id, starts)
        };
        match self.store.record_starts(id, &starts).await {
            Ok(()) => {
                let mut state = self.state();
                if state.id == id {
                    state.told_starts = starts;
                }
            }
            Err(error) => tracing::debug!(%error, "start times not recorded"),
        }
    }

    /// Tells the store how far its clock is ahead of this machine's, if that has changed by more than
    /// a slow answer explains.
    async fn tell_clock_offset(&self) {
        let offset = self.offset();
        let (id, told) = {
            let state = self.state();
            (state.id, state.told_clock_offset)
        };
        if (offset - told).abs() < CLOCK_OFFSET_TOLD {
            return;
        }
        match self.store.record_clock_offset(id, offset).await {
            Ok(()) => self.state().told_clock_offset = offset,
            Err(error) => tracing::debug!(%error, "clock offset not recorded"),
        }
    }

    /// Fills in since when runs are under way that this node executes: it need not wait for its
    /// own renewal to know.
    pub(crate) fn with_starts(&self, runs: &mut [RunView]) {
        let state = self.state();
        for run in runs.iter_mut().filter(|run| run.state == RunState::Running) {
            let held = state.held.get(&run.id).and_then(|held| held.running.as_ref());
            if let Some(running) = held {
                run.started_at = Some(running.started_at);
            }
        }
    }

    /// An administrator drained or resumed this node.
    fn steer(&self, drained: bool) {
        let mut state = self.state();
        if state.drained != drained {
            state.drained = drained;
            if !drained {
                state.drained_until = Some(self.now());
            }
            state.want_claim();
            let what = if drained { "drained: it finishes what it has" } else { "resumed" };
            tracing::info!("this node was {what}");
        }
    }

    /// Whether this node is to be drained.
    pub fn is_drained(&self) -> bool {
        self.state().drained
    }

    /// Ends the claims of the process before this one, before anything begins: its begun runs are
    /// lost, the rest goes on untouched.
    pub async fn recover(&self) -> store::Result<()> {
        let Some(log) = &self.parts.start_log else { return Ok(()) };
        if let Some(Predecessor { node, begun: Some(begun), .. }) = log.predecessor() {
            self.state().predecessors.insert(*node, begun.clone());
        }
        if log.predecessor().is_some() || self.settings.info.replaces != Replaces::None {
            while self.reap().await?.lost > 0 {}
        }
        log.restart(self.id());
        Ok(())
    }

    /// The lease is lost: clears all state and becomes another node. Returns the running runs,
    /// which must be stopped.
    pub fn become_another(&self) -> Vec<RunId> {
        let id = self.parts.new_node();
        let mut state = self.state();
        let running = state.held.iter().filter(|(_, held)| held.running.is_some());
        let running: Vec<RunId> = running.map(|(run, _)| *run).collect();
        let (old, begun) = (state.id, state.begun_runs());
        let grants = begun.keys().copied().collect();
        state.replaces = Replaces::Node { node: old, begun: Some(grants) };
        state.predecessors.insert(old, begun);
        if let Some(at) = state.acted_at.take() {
            state.predecessor_acted = Some((old, at));
        }
        if let Some(log) = &self.parts.start_log {
            log.restart(id);
        }
        state.id = id;
        state.has_joined = false;
        state.free = self.settings.slots();
        state.prepared.clear();
        SlotKind::ALL.iter().for_each(|slot| state.slot_waiters[*slot].clear());
        state.held.clear();
        state.lines.clear();
        state.done.clear();
        state.telling.clear();
        state.asked_soon = 0;
        state.calls_in_flight = 0;
        state.reports_in_flight = 0;
        state.claims_in_flight = 0;
        state.starts_in_flight = 0;
        state.claim_reply_lost = false;
        state.want_claim();
        state.leads = None;
        state.share = Share::WHOLE;
        state.parts_ended.clear();
        self.dags.clear();
        state.told_starts.clear();
        state.told_clock_offset = SignedDuration::ZERO;
        self.traces.forget();
        running
    }

    /// Runs that did not end within the grace period of a shutdown are lost: they began, so they
    /// must not begin again as if they had not. Returns the runs that must be stopped.
    pub fn abandon_running(&self) -> Vec<RunId> {
        let grants: Vec<Grant> = {
            let state = self.state();
            let running = state.held.values().filter(|held| held.running.is_some());
            running.map(|held| held.run.grant).collect()
        };
        for grant in &grants {
            let message = "the server was stopped before the run ended".to_owned();
            let end = AttemptEnd::Lost;
            self.complete(*grant, AttemptResult { end, message, ..AttemptResult::completed() });
        }
        grants.into_iter().map(|grant| grant.run).collect()
    }

    /// Marks this node as draining in the store.
    pub async fn retire(&self) -> store::Result<()> {
        self.store.retire(self.id()).await
    }

    /// Ends the registration and releases held runs. A begun run whose end the store may not have
    /// recorded is lost.
    pub async fn leave(&self) -> store::Result<()> {
        let (id, begun) = {
            let state = self.state();
            (state.id, state.begun_runs().into_keys().collect::<Vec<_>>())
        };
        self.store.leave(id, &begun).await
    }

    /// Ends the registration of a remote agent that has nothing under way: runs that it claimed and
    /// never began are released.
    pub async fn leave_idle(&self) -> store::Result<()> {
        self.store.leave(self.id(), &[]).await
    }
}
