//! Requests to cancel runs, parent runs and DAG runs.

use domain::id::RunId;
use domain::run::{Outcome, Reason};
use store::Cancelled;

use super::{DagNews, Node};

impl Node {
    /// Requests the cancellation of a run. A parent run ends when its child runs have.
    pub(crate) async fn cancel(
        &self,
        run: RunId,
        reason: &Reason,
        by: &str,
    ) -> store::Result<Cancelled> {
        let cancelled = self.note_cancel(run, reason, by).await?;
        self.settle_dag(run).await?;
        if let Cancelled::Requested(_) = cancelled
            && let Some(outcome) = self.end_without_cancel(run).await?
        {
            return Ok(Cancelled::EndedBefore(outcome));
        }
        Ok(cancelled)
    }

    /// Requests the cancellation of a run. The next [`Node::advance_dags`] decides the consequences
    /// for DAG runs.
    pub(super) async fn note_cancel(
        &self,
        run: RunId,
        reason: &Reason,
        by: &str,
    ) -> store::Result<Cancelled> {
        loop {
            if !run.is_part() {
                if self.store.dag_run(run, false).await?.is_some() {
                    if let Some(outcome) = self.end_without_cancel(run).await? {
                        return Ok(Cancelled::EndedBefore(outcome));
                    }
                    self.dags.note(run, DagNews::Cancel(by.to_owned()));
                    self.hint();
                    return Ok(Cancelled::Requested(self.id()));
                }
                let parts = self.store.parts(&[run]).await?;
                if self.cancel_parts(&parts, reason, by).await? > 0 {
                    return Ok(Cancelled::Requested(self.id()));
                }
            }
            match self.cancel_one(run, reason, by).await? {
                // It has begun meanwhile.
                Cancelled::HasSteps => {}
                cancelled => return Ok(cancelled),
            }
        }
    }

    /// Requests the cancellation of one run.
    pub(super) async fn cancel_one(
        &self,
        run: RunId,
        reason: &Reason,
        by: &str,
    ) -> store::Result<Cancelled> {
        let cancelled = self.store.cancel(run, reason, by).await?;
        {
            let mut state = self.state();
            state.lines.forget_look(run);
            if cancelled == Cancelled::Requested(state.id) {
                state.stops_wanted.push(run);
            }
        }
        if cancelled == Cancelled::Ended {
            self.ends.add(Outcome::Cancelled, 1);
            let is_step =
                (run.is_part() || run.is_called()) && self.dags.note_end(run, Outcome::Cancelled);
            if run.is_part() && !is_step {
                self.state().parts_ended.push(run);
            }
        }
        Ok(cancelled)
    }
}
