//! Stores that are wrong on purpose. An invariant that no wrong store breaks proves nothing.

use domain::bucket::Buckets;
use domain::cluster::Lead;
use domain::id::{JobId, NodeId};
use uuid::Uuid;

/// What the store does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Whoever asks for the lead gets it, in the epoch that goes on: nobody looks who has it.
    SharedEpoch,
    /// A node that led once is told so again, whatever has happened since.
    RememberedLead,
    /// Runs of the leader are handed to whoever asks: nobody looks who leads in which epoch.
    UncheckedClaim,
    /// Jobs of half of the buckets are due for nobody.
    ForgottenBuckets,
    /// A tick that vanished because its job was changed may start all the same.
    VanishedStarts,
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
    ];

    /// What a node is told when it asks for the lead. `led` is what it was told when it last led.
    pub fn lead(self, node: NodeId, lead: Lead, led: Option<Lead>) -> Lead {
        match self {
            Sabotage::SharedEpoch => Lead { node: Some(node), ..lead },
            Sabotage::RememberedLead => led.unwrap_or(lead),
            _ => lead,
        }
    }

    /// Whether a job is due for nobody.
    pub fn forgets(self, job: JobId) -> bool {
        self == Sabotage::ForgottenBuckets && Buckets::bucket_of(job).is_multiple_of(2)
    }

    /// The schedulers that a node is told of.
    pub fn schedulers(self, mut schedulers: Vec<NodeId>) -> Vec<NodeId> {
        if self == Sabotage::GhostScheduler {
            schedulers.push(NodeId(Uuid::from_u128(7)));
        }
        schedulers
    }
}
