//! Stores that are wrong on purpose. An invariant that no wrong store breaks proves nothing.

use domain::bucket::Buckets;
use domain::cluster::Leadership;
use domain::facts::StartFacts;
use domain::id::{JobId, NodeId};
use domain::job::{Job, JobState};
use uuid::Uuid;

/// A defect of the store that an invariant must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Every node that asks for leadership gets it, in the present epoch: the leader is not
    /// compared.
    SharedEpoch,
    /// A node that led once gets the same leadership again, whatever has happened since.
    RememberedLead,
    /// Every node can claim runs of the leader: leader and epoch are not compared.
    UncheckedClaim,
    /// Jobs of half of the planning buckets are due for no node.
    ForgottenBuckets,
    /// A tick that vanished because its job was changed may start all the same.
    VanishedStarts,
    /// All facts contain the first version of the job, and that the job is enabled.
    FirstVersions,
    /// Later starts get smaller fencing tokens.
    ShrinkingTokens,
    /// Starts that must be durable are not written.
    UnwrittenStarts,
    /// A scheduler that does not exist has a share of the planning. This one does no harm.
    GhostScheduler,
}

impl Sabotage {
    /// All that some invariant must find out, with its name.
    pub const HARMFUL: &[(Sabotage, &'static str)] = &[
        (Sabotage::SharedEpoch, "one leader"),
        (Sabotage::RememberedLead, "one leader"),
        (Sabotage::UncheckedClaim, "one leader"),
        (Sabotage::ForgottenBuckets, "planned in time"),
        (Sabotage::VanishedStarts, "started is recorded"),
        (Sabotage::FirstVersions, "changes obeyed"),
        (Sabotage::ShrinkingTokens, "tokens grow"),
        (Sabotage::UnwrittenStarts, "at most once"),
    ];

    /// The reply to a node that asks for leadership. `led` is the reply when it was leader last.
    pub fn leadership(
        self,
        node: NodeId,
        leadership: Leadership,
        led: Option<Leadership>,
    ) -> Leadership {
        match self {
            Sabotage::SharedEpoch => Leadership { node: Some(node), ..leadership },
            Sabotage::RememberedLead => led.unwrap_or(leadership),
            _ => leadership,
        }
    }

    /// Returns facts about a run that does not exist as if it may start.
    pub fn let_start(self, facts: &mut StartFacts, job: &Job, token: i64) {
        if self == Sabotage::VanishedStarts {
            facts.held = true;
            facts.job_state = Some(JobState::Enabled);
            facts.job_version = job.version;
            facts.token = token;
        }
    }

    /// Falsifies the facts about a start.
    pub fn change_facts(self, facts: &mut StartFacts) {
        if self == Sabotage::FirstVersions {
            facts.job_version = 1;
            facts.job_state = facts.job_state.map(|_| JobState::Enabled);
        }
        self.change_token(&mut facts.token);
    }

    /// The token that a start is given.
    pub fn change_token(self, token: &mut i64) {
        if self == Sabotage::ShrinkingTokens {
            *token = i64::MAX - *token;
        }
    }

    /// Whether a job is due for no node.
    pub fn forgets(self, job: JobId) -> bool {
        self == Sabotage::ForgottenBuckets && Buckets::bucket_of(job).is_multiple_of(2)
    }

    /// The schedulers in the reply to a node.
    pub fn schedulers(self, mut schedulers: Vec<NodeId>) -> Vec<NodeId> {
        if self == Sabotage::GhostScheduler {
            schedulers.push(NodeId(Uuid::from_u128(7)));
        }
        schedulers
    }
}
