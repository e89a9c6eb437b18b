//! Slots in pools: taken before a run begins, free when its claim ends.

use std::sync::Arc;

use domain::decide::start::Start;
use domain::id::NodeId;
use domain::pool::PlaceRequest;
use domain::run::{ClaimedRun, Wait};
use store::Finish;

use super::Node;
use super::look::Look;
use super::start::Decision;

impl Node {
    /// Takes places for the runs of a batch that are about to begin and whose jobs have a pool. A
    /// run that finds none waits in line, without a slot.
    pub(super) async fn take_places(
        &self,
        node: NodeId,
        due: &[Arc<ClaimedRun>],
        look: &Look,
        decided: &mut [Decision],
    ) {
        let mut asked = Vec::new();
        let mut requests = Vec::new();
        for (i, run) in due.iter().enumerate() {
            let job = &look.jobs[i];
            let Some(pool) = &job.definition.pool else { continue };
            if !matches!(decided[i], Decision::Begin(_)) {
                continue;
            }
            asked.push(i);
            requests.push(PlaceRequest {
                run: run.run.id,
                turn: run.grant.turn,
                job: job.id,
                tenant: job.tenant,
                pool: pool.clone(),
                priority: run.run.priority,
                due_at: run.run.due_at,
            });
        }
        if requests.is_empty() {
            return;
        }
        self.state().pooled.extend(requests.iter().map(|request| request.run));
        let taken = self.store.take_places(&requests).await;
        if let Err(error) = &taken {
            tracing::warn!(runs = requests.len(), %error, "places in pools could not be taken");
        }
        for (n, i) in asked.into_iter().enumerate() {
            match &taken {
                Ok(taken) if taken[n] => {}
                Ok(_) => {
                    decided[i] = match self.stop_begin(node, &due[i]) {
                        true => Decision::Reject(Start::Wait(Wait::Pool, None)),
                        false => Decision::Stale,
                    }
                }
                Err(_) => {
                    self.unmark_running(node, &due[i]);
                    decided[i] = Decision::Stale;
                }
            }
        }
    }

    /// A run that was marked as begun has not begun. It keeps its slot until it is rejected.
    /// Returns false when it is not this node's any more.
    fn stop_begin(&self, node: NodeId, run: &ClaimedRun) -> bool {
        let mut state = self.state();
        if state.id != node {
            return false;
        }
        let held = state.held.get_mut(&run.grant.run).filter(|it| it.run.grant == run.grant);
        held.is_some_and(|held| held.running.take().is_some())
    }

    /// Calls the runs in line of pools in which these ends freed a place. If this fails, a reaper
    /// does it.
    pub(super) async fn wake_pools(&self, done: &[Finish]) {
        let is_pooled = {
            let mut state = self.state();
            !state.pooled.is_empty()
                && done.iter().filter(|finish| state.pooled.remove(&finish.grant.run)).count() > 0
        };
        if !is_pooled {
            return;
        }
        match self.store.wake_pools().await {
            Ok(0) => {}
            Ok(_) => {
                self.state().want_claim();
                self.hint();
            }
            Err(error) => tracing::warn!(%error, "runs in line of pools were not woken yet"),
        }
    }
}
