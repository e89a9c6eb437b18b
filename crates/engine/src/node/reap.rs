//! The reaper: takes over from nodes that missed heartbeats.

use std::collections::HashMap;
use std::sync::Arc;

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, NodeId, RunId};
use domain::job::Job;
use domain::run::{
    AttemptEnd, AttemptResult, ClaimedRun, EndedAttempt, Origin, Reason, ReasonCode,
};
use store::{Applied, Decided, Finish, LostRun, SYSTEM, Verdict};

use super::start::needs_record;
use super::{Ended, Node, settle};
use crate::start_log::BegunRun;

/// Result of a reaping step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReapReport {
    /// Nodes whose lease had expired.
    pub dead: usize,
    /// Attempts that were lost with them.
    pub lost: usize,
    /// Runs that waited long enough.
    pub woken: u64,
    /// Whether there may be more.
    pub more: bool,
}

impl Node {
    /// Declares nodes dead whose lease expired, settles their runs and wakes runs whose wait is
    /// over.
    pub async fn reap(&self) -> store::Result<ReapReport> {
        let reaped = self.store.reap(self.settings.batch_max).await?;
        let names = match reaped.dead.is_empty() && reaped.lost.is_empty() {
            true => HashMap::new(),
            false => self.node_names().await,
        };
        let name_of = |id: &NodeId| names.get(id).cloned().unwrap_or_else(|| id.to_string());
        for id in &reaped.dead {
            let node = name_of(id);
            tracing::warn!(node, node_id = %id, "node declared dead, its runs are claimed by others");
        }
        let mut report = ReapReport {
            dead: reaped.dead.len(),
            woken: reaped.woken,
            more: reaped.lost.len() == self.settings.batch_max as usize,
            lost: 0,
        };
        if !reaped.lost.is_empty() {
            let runs: Vec<&ClaimedRun> = reaped.lost.iter().map(|lost| &lost.run).collect();
            let jobs = self.jobs_of(&runs).await?;
            let lost = reaped.lost.iter().zip(&jobs);
            let finishes: Vec<(NodeId, Finish)> =
                lost.map(|(it, job)| (it.node, self.lost(it, job, &name_of(&it.node)))).collect();
            let applied = self.store.settle_lost(&finishes).await?;
            for (((id, finish), applied), job) in finishes.iter().zip(&applied).zip(&jobs) {
                self.ends.applied(finish, *applied);
                self.note_parts(finish, *applied);
                self.note_held(finish, *applied, job);
                if let Some(attempt) =
                    finish.attempt.as_ref().filter(|_| *applied != Applied::Stale)
                {
                    let (run, attempt) = (finish.grant.run, attempt.number);
                    let (node, job) = (name_of(id), &job.name);
                    tracing::warn!(%run, %job, attempt, node, "attempt lost with its node");
                }
            }
            if self.traces.is_on() {
                let now = self.now();
                for (i, (LostRun { run, node, .. }, job)) in
                    reaped.lost.iter().zip(jobs).enumerate()
                {
                    let (run, node) = (Arc::new(run.clone()), *node);
                    let ended = Ended { run, job, node, claimed_at: None, decided_at: now };
                    self.traces.tell(&ended, &finishes[i].1, applied[i], now);
                }
            }
            report.lost = applied.iter().filter(|applied| **applied != Applied::Stale).count();
        }
        report.woken += self.decide_undecided(&reaped.undecided).await;
        if report.lost > 0 || report.woken > 0 {
            self.hint();
        }
        Ok(report)
    }

    /// Raises an alert if a run waits for a decision now.
    fn note_held(&self, finish: &Finish, applied: Applied, job: &Job) {
        if applied != Applied::Again || !matches!(finish.verdict, Verdict::Hold { .. }) {
            return;
        }
        let (run, then) = (finish.grant.run, job.definition.lost_question.then.name());
        let text = format!(
            "the node of run {run} of job {} was lost, and the run may have done its work; decide with \
             punctual run decide {run} retry|fail|complete, or it becomes {then}",
            job.name
        );
        self.state().pending_alerts.push(Alert {
            kind: AlertKind::RunHeld,
            tenant: job.tenant,
            job: job.id,
            run: Some(run),
            text,
            at: self.now(),
        });
    }

    /// Decides about runs whose time for a decision is over, by the rules of their jobs. Returns
    /// how many are attempted again.
    async fn decide_undecided(&self, undecided: &[(RunId, JobId)]) -> u64 {
        let mut again = 0;
        for (run, job) in undecided {
            let job = self.store.jobs_ever(&[*job]).await.ok().and_then(|mut jobs| jobs.pop());
            let question = job.map(|job| job.definition.lost_question).unwrap_or_default();
            let text =
                format!("its node was lost, and no decision came within {:#}", question.timeout);
            let reason = Reason { code: ReasonCode::Decided, text };
            match self.store.decide(*run, question.then, &reason, SYSTEM).await {
                Ok(Decided::Again) => again += 1,
                Ok(Decided::Ended(outcome)) => self.ends.add(outcome, 1),
                Ok(Decided::NotHeld) => {}
                Err(error) => tracing::warn!(%run, %error, "a held run is not decided about yet"),
            }
        }
        again
    }

    /// The names of the nodes of the cluster; empty if the store does not answer, because nothing
    /// but a text depends on them.
    async fn node_names(&self) -> HashMap<NodeId, String> {
        let nodes = self.store.nodes().await.unwrap_or_default();
        nodes.into_iter().map(|node| (node.id, node.info.name)).collect()
    }

    /// Decision about a run that a dead node held.
    fn lost(&self, lost: &LostRun, job: &Job, name: &str) -> Finish {
        let LostRun { node, run, .. } = lost;
        let Some(begun) = self.may_have_begun(lost, job) else {
            return Finish::untried(run.grant, Verdict::Release);
        };
        let result = AttemptResult {
            end: AttemptEnd::Lost,
            message: format!("node {name} missed its heartbeats"),
            ..AttemptResult::completed()
        };
        let attempt = EndedAttempt {
            number: run.number(),
            fence: begun.map(|begun| begun.token),
            job_version: None,
            node: *node,
            started_at: begun.map_or(run.run.due_at, |begun| begun.started_at),
            finished_at: self.now(),
            result,
        };
        settle::settled(run, job, attempt)
    }

    /// None when a run that a dead node held cannot have begun. Otherwise its start, if that is
    /// known.
    fn may_have_begun(&self, lost: &LostRun, job: &Job) -> Option<Option<BegunRun>> {
        let LostRun { node, lease_until, is_begun, run } = lost;
        let definition = &job.definition;
        let only_splits = definition.is_split() && definition.parameters.from.is_none();
        let does_no_work = only_splits && run.run.origin != Origin::Part || definition.is_dag();
        // A node begins nothing after its lease. A run that was about to be split, and one that
        // waits for its steps, does no work itself.
        if run.run.due_at > *lease_until || does_no_work {
            return None;
        }
        if let Some(begun) = self.state().predecessors.get(node) {
            return begun.get(&run.grant).map(|begun| Some(*begun));
        }
        // Its start would have been recorded, if the job was the same then.
        let was_so = run.lost > 0 || job.updated_at < run.run.due_at;
        if needs_record(run, job) && was_so && !is_begun {
            return None;
        }
        Some(None)
    }
}
