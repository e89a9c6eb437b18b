//! Properties that a node sends when it joins, and the reply.

use domain::cluster::{Labels, NodeRole};
use domain::facts::Outage;
use domain::id::NodeId;
use domain::run::Grant;
use domain::slot::PerSlot;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Properties of a node, as it reports them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Its name: the same after a restart, and no other node's.
    pub name: String,
    /// Where others reach it, if they do.
    pub address: Option<String>,
    /// The release that it runs.
    pub version: String,
    /// Roles of the node.
    pub roles: Vec<NodeRole>,
    /// Labels that placement requests are matched with.
    pub labels: Labels,
    /// How many runs it executes at the same time, by their kind of slot.
    pub capacity: PerSlot<u32>,
    /// The hash of those settings that should be the same on every node.
    pub settings_hash: String,
    /// The nodes whose processes are known to have ended, so that their leases end with the join.
    pub replaces: Replaces,
    /// The node that this process was before, and the time by the store's clock at which it last
    /// decided about starts: it was alive then, also if it has not renewed its lease since. An
    /// outage begins no earlier.
    pub acted: Option<(NodeId, Timestamp)>,
}

/// Nodes that ended before their leases did. The join ends their leases, and their runs can be
/// claimed at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Replaces {
    /// None is known of.
    #[default]
    None,
    /// The process before this one, in the same data folder.
    Node {
        /// The node that it was.
        node: NodeId,
        /// All that it had begun, if that is known: the join releases everything else that it held.
        begun: Option<Vec<Grant>>,
    },
    /// All that plan: the store is open in this process only.
    EveryScheduler,
}

/// After an outage, reapers wait this long for the successors of the ended schedulers: a start log
/// shows which of the prepared runs had begun.
pub const START_LOG_WAIT: SignedDuration = SignedDuration::from_secs(10);

/// A node has joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// Times in which no scheduler was alive, newest first.
    pub outages: Vec<Outage>,
}

/// Maximum number of outages that a node gets when it joins.
pub(crate) const OUTAGES_MAX: i64 = 100;

impl Default for NodeInfo {
    fn default() -> Self {
        NodeInfo {
            name: String::new(),
            address: None,
            version: String::new(),
            roles: NodeRole::ALL.to_vec(),
            labels: Labels::default(),
            capacity: PerSlot::default(),
            settings_hash: String::new(),
            replaces: Replaces::None,
            acted: None,
        }
    }
}

impl NodeInfo {
    /// A node of which nothing but the name is known.
    pub fn named(name: &str) -> Self {
        NodeInfo { name: name.to_owned(), ..NodeInfo::default() }
    }
}
