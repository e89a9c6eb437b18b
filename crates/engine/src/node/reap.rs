//! The reaper: takes over from nodes that fell silent.

use std::sync::Arc;

use domain::id::NodeId;
use domain::job::Job;
use domain::run::{AttemptEnd, AttemptResult, ClaimedRun, EndedAttempt};
use store::{Applied, Finish, Store, Verdict};

use super::{Ended, Node, start};

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
            let runs: Vec<&ClaimedRun> = reaped.lost.iter().map(|(_, run)| run).collect();
            let jobs = self.jobs_of(&runs).await?;
            let lost = reaped.lost.iter().zip(&jobs);
            let finishes: Vec<(NodeId, Finish)> =
                lost.map(|((node, run), job)| (*node, self.lost(*node, run, job))).collect();
            let applied = self.store.bury(&finishes).await?;
            for ((node, finish), applied) in finishes.iter().zip(&applied) {
                self.ends.applied(finish, *applied);
                self.note_parts(finish, *applied);
                if let Some(attempt) =
                    finish.attempt.as_ref().filter(|_| *applied != Applied::Stale)
                {
                    let (run, attempt) = (finish.grant.run, attempt.number);
                    tracing::warn!(%run, attempt, %node, "an attempt was lost with its node");
                }
            }
            if self.traces.is_on() {
                let now = self.now();
                for (i, ((node, run), job)) in reaped.lost.iter().zip(jobs).enumerate() {
                    let (run, node) = (Arc::new(run.clone()), *node);
                    let ended = Ended { run, job, node, claimed_at: None, decided_at: now };
                    self.traces.tell(&ended, &finishes[i].1, applied[i], now);
                }
            }
            report.lost = applied.iter().filter(|applied| **applied != Applied::Stale).count();
        }
        if report.lost > 0 || report.woken > 0 {
            self.hint();
        }
        Ok(report)
    }

    fn lost(&self, node: NodeId, run: &ClaimedRun, job: &Job) -> Finish {
        let now = self.now();
        let definition = &job.definition;
        let only_divides = definition.is_divided() && definition.parameters.from.is_none();
        if run.run.due_at > now || only_divides && !run.run.id.is_part() {
            // It was prepared and never began, or it was about to be divided, which does no work.
            return Finish {
                grant: run.grant,
                verdict: Verdict::Release,
                attempt: None,
                job_state: None,
            };
        }
        let result = AttemptResult {
            end: AttemptEnd::Lost,
            message: format!("node {node} fell silent"),
            ..AttemptResult::completed()
        };
        let number = run.number();
        let attempt =
            EndedAttempt { number, node, started_at: run.run.due_at, finished_at: now, result };
        start::settled(run, job, attempt)
    }
}
