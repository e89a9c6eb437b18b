//! The lease: what makes a node's word count.

use domain::id::RunId;
use store::Store;

use super::Node;
use super::share::Share;

impl<S: Store> Node<S> {
    /// Registers the node.
    pub async fn join(&self) -> store::Result<()> {
        self.store.join(self.id(), &self.settings.node_info(), self.settings.lease).await?;
        let asked = self.ask();
        self.heard(asked, self.store.now().await?);
        Ok(())
    }

    /// Extends the lease. Answers the runs whose end was asked for; none when the lease is lost,
    /// which means that everything this node holds belongs to others now.
    pub async fn renew(&self) -> store::Result<Option<Vec<RunId>>> {
        let asked = self.ask();
        let renewed = self.store.renew(self.id(), self.settings.lease).await?;
        if let Some(renewed) = &renewed {
            self.heard(asked, renewed.now);
            self.steer(renewed.draining);
        }
        Ok(renewed.map(|renewed| renewed.cancel))
    }

    /// Somebody asked that this node takes nothing new, or that it does again.
    fn steer(&self, drained: bool) {
        let mut state = self.state();
        if state.drained != drained {
            state.drained = drained;
            state.hungry = true;
            let what = if drained { "drained: it finishes what it has" } else { "resumed" };
            tracing::info!("this node was {what}");
        }
    }

    /// Whether the cluster was asked that this node takes nothing new.
    pub fn is_drained(&self) -> bool {
        self.state().drained
    }

    /// The lease is lost: forgets everything and becomes another node. Answers what was running,
    /// which must be stopped.
    pub fn become_another(&self) -> Vec<RunId> {
        let id = self.parts.new_node();
        let mut state = self.state();
        let running = state.held.iter().filter(|(_, held)| held.running.is_some());
        let running: Vec<RunId> = running.map(|(run, _)| *run).collect();
        state.id = id;
        state.free = self.settings.max_concurrent_jobs;
        state.prepared.clear();
        state.crowded.clear();
        state.held.clear();
        state.done.clear();
        state.asked_soon = 0;
        state.calls = 0;
        state.tells = 0;
        state.asks = 0;
        state.starts = 0;
        state.unsure = false;
        state.hungry = true;
        state.leads = None;
        state.share = Share::WHOLE;
        state.parts_ended.clear();
        self.traces.forget();
        running
    }

    /// Ends the registration; what is still held goes back to the others.
    pub async fn leave(&self) -> store::Result<()> {
        self.store.leave(self.id()).await
    }
}
