//! The reaper: takes over from nodes that fell silent.

use domain::id::NodeId;
use domain::run::{AttemptEnd, AttemptResult, ClaimedRun, EndedAttempt};
use store::{Applied, Finish, Store, Verdict};

use super::{Node, orphan, start};

/// What a reaping step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReapReport {
    /// Nodes whose lease had run out.
    pub buried: usize,
    /// Attempts that were lost with them.
    pub lost: usize,
    /// Runs that waited long enough.
    pub woken: u64,
    /// Whether there may be more.
    pub more: bool,
}

impl<S: Store> Node<S> {
    /// Buries silent nodes, settles what they held and wakes what waited long enough.
    pub async fn reap(&self) -> store::Result<ReapReport> {
        let reaped = self.store.reap(self.settings.batch_max).await?;
        for node in &reaped.buried {
            tracing::warn!(%node, "a node fell silent; its runs are handed on");
        }
        let mut report = ReapReport {
            buried: reaped.buried.len(),
            woken: reaped.woken,
            more: reaped.lost.len() == self.settings.batch_max as usize,
            lost: 0,
        };
        if !reaped.lost.is_empty() {
            let now = self.now();
            let wanted: Vec<_> =
                reaped.lost.iter().map(|(_, run)| (run.run.job, run.run.job_version)).collect();
            self.definitions.load(self.store.as_ref(), &wanted, now).await?;
            let finishes: Vec<(NodeId, Finish)> =
                reaped.lost.iter().map(|(node, run)| (*node, self.lost(*node, run))).collect();
            let applied = self.store.bury(&finishes).await?;
            report.lost = applied.iter().filter(|applied| **applied != Applied::Stale).count();
        }
        if report.lost > 0 || report.woken > 0 {
            self.hint();
        }
        Ok(report)
    }

    fn lost(&self, node: NodeId, run: &ClaimedRun) -> Finish {
        let now = self.now();
        if run.run.due_at > now {
            // It was prepared and never began.
            return Finish {
                grant: run.grant,
                verdict: Verdict::Release,
                attempt: None,
                job_state: None,
            };
        }
        let job = self.definitions.get(run.run.job).unwrap_or_else(|| orphan(run));
        let result = AttemptResult {
            end: AttemptEnd::Lost,
            message: format!("node {node} fell silent"),
            ..AttemptResult::completed()
        };
        let number = run.attempts + run.lost + 1;
        let attempt =
            EndedAttempt { number, node, started_at: run.run.due_at, finished_at: now, result };
        start::settled(run, &job, attempt)
    }
}
