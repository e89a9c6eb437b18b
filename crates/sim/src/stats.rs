//! Counts of events, so that an idle world is not taken for a sound one.

use domain::run::{Origin, Outcome, Wait};
use store::{Applied, Verdict};

use crate::event::SimEvent;

/// Counts of a world, or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimStats {
    /// Jobs that were created.
    pub created: u64,
    /// Changes to jobs.
    pub changed: u64,
    /// Runs that a plan recorded.
    pub planned: u64,
    /// Runs that were planned late.
    pub caught_up: u64,
    /// Rows for times without a run.
    pub ranges: u64,
    /// Runs that clients submitted.
    pub submitted: u64,
    /// Attempts that began.
    pub started: u64,
    /// Runs that ended, by outcome.
    pub ended: [u64; 6],
    /// Attempts that another one follows.
    pub retried: u64,
    /// Runs that began to wait.
    pub waited: u64,
    /// Claims that were lost with their node.
    pub lost: u64,
    /// Writes that were refused because their claim was over.
    pub stale: u64,
    /// Answers that were lost on their way.
    pub lost_replies: u64,
    /// Machines that died or stood still.
    pub interrupted: u64,
    /// Epochs that a leader began.
    pub elected: u64,
    /// Runs that a node claimed by its labels or its leadership.
    pub placed: u64,
    /// Runs that began to wait for a quorum.
    pub proposed: u64,
    /// Jobs that were planned by another scheduler than the one whose share they were in.
    pub helped: u64,
}

impl SimStats {
    /// Takes an event into account.
    pub fn see(&mut self, event: &SimEvent) {
        match event {
            SimEvent::Defined { job, .. } if job.version == 1 => self.created += 1,
            SimEvent::Defined { .. } => self.changed += 1,
            SimEvent::Fired { fire, .. } => {
                self.planned += fire.runs.len() as u64;
                let late = |run: &&domain::run::NewRun| run.origin == Origin::CatchUp;
                self.caught_up += fire.runs.iter().filter(late).count() as u64;
                self.ranges += fire.ledger.len() as u64;
            }
            SimEvent::Submitted { .. } => self.submitted += 1,
            SimEvent::Started { .. } => self.started += 1,
            SimEvent::Finished { finish, applied, .. } => match (applied, &finish.verdict) {
                (Applied::Ended(outcome), _) => self.ended[*outcome as usize - 1] += 1,
                (Applied::Again, Verdict::Retry { .. }) => self.retried += 1,
                (Applied::Again, Verdict::Wait(Wait::Quorum, _)) => self.proposed += 1,
                (Applied::Again, Verdict::Wait(..) | Verdict::Line { .. }) => self.waited += 1,
                (Applied::Again, _) => {}
                (Applied::Stale, _) => self.stale += 1,
            },
            SimEvent::Interrupted { .. } => self.interrupted += 1,
            SimEvent::Led { begun: true, .. } => self.elected += 1,
            SimEvent::Claimed { run, .. } if !run.run.place.is_anywhere() => self.placed += 1,
            _ => {}
        }
        if let SimEvent::Finished { finish, applied, .. } = event
            && *applied != Applied::Stale
            && let Some(attempt) = &finish.attempt
            && attempt.result.end == domain::run::AttemptEnd::Lost
        {
            self.lost += 1;
        }
    }

    /// Adds another world's counts.
    pub fn add(&mut self, other: &SimStats) {
        for (mine, theirs) in self.fields_mut().into_iter().zip(other.clone().fields_mut()) {
            *mine += *theirs;
        }
    }

    /// Every count with its name.
    pub fn named(&self) -> Vec<(String, u64)> {
        let names = [
            "created",
            "changed",
            "planned",
            "caught_up",
            "ranges",
            "submitted",
            "started",
            "retried",
            "waited",
            "lost",
            "stale",
            "lost_replies",
            "interrupted",
            "elected",
            "placed",
            "proposed",
            "helped",
        ];
        let mut copy = *self;
        let outcomes = Outcome::ALL.iter().map(|outcome| outcome.name().to_lowercase());
        names
            .iter()
            .map(|name| (*name).to_owned())
            .chain(outcomes)
            .zip(copy.fields_mut().into_iter().map(|field| *field))
            .collect()
    }

    fn fields_mut(&mut self) -> Vec<&mut u64> {
        let mut fields = vec![
            &mut self.created,
            &mut self.changed,
            &mut self.planned,
            &mut self.caught_up,
            &mut self.ranges,
            &mut self.submitted,
            &mut self.started,
            &mut self.retried,
            &mut self.waited,
            &mut self.lost,
            &mut self.stale,
            &mut self.lost_replies,
            &mut self.interrupted,
            &mut self.elected,
            &mut self.placed,
            &mut self.proposed,
            &mut self.helped,
        ];
        fields.extend(self.ended.iter_mut());
        fields
    }
}
