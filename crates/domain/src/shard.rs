//! Shards: named slices of the user's data, each owned by one node at a time.
//!
//! The owner of a shard is computed: every eligible node gets a weight from the shard and the
//! node's name, and the largest one wins (rendezvous hashing). When a node leaves, only its own
//! shards move; a new node takes a fair share from each of the others; and a node that comes back
//! under its name gets its former shards back.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::cluster::Labels;
use crate::id::{NodeId, ObjectId, TenantId};
use crate::object::Object;

/// A shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The id of the shard.
    pub id: ObjectId,
    /// The tenant that owns the data.
    pub tenant: TenantId,
    /// Its name, unique in the tenant.
    pub name: String,
    /// Its other properties.
    pub body: ShardBody,
}

/// The stored properties of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShardBody {
    /// The database of statements of its runs; that of the job if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// The name of the only node that may own it; any if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Labels of the nodes that may own it; all if empty.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

impl ShardBody {
    /// The stored form.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned())
    }
}

impl Shard {
    /// The shard of a resource; none if its body is invalid.
    pub fn of(object: &Object) -> Option<Self> {
        let body = serde_json::from_str(&object.body).ok()?;
        Some(Shard { id: object.id, tenant: object.tenant, name: object.name.clone(), body })
    }

    /// Whether the text is the name or the id of this shard.
    pub fn is_called(&self, text: &str) -> bool {
        self.name == text || text.parse() == Ok(self.id)
    }

    /// Whether a node may own it.
    pub fn admits(&self, node: &Candidate) -> bool {
        self.body.node.as_ref().is_none_or(|name| *name == node.name)
            && self.body.labels.within(&node.labels)
    }

    /// Whether it is pinned to a node or to labels.
    pub fn is_pinned(&self) -> bool {
        self.body.node.is_some() || !self.body.labels.is_empty()
    }

    /// The node that should own it; none if no node is eligible.
    pub fn owner(&self, nodes: &[Candidate]) -> Option<NodeId> {
        let admitted = nodes.iter().filter(|node| self.admits(node));
        let heaviest =
            admitted.max_by_key(|node| (weight(self.id.0, node.name.as_bytes()), node.id));
        heaviest.map(|node| node.id)
    }
}

/// A node that may own shards: it is alive, is an agent, and is not drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The id of the node.
    pub id: NodeId,
    /// The name of the node, which survives a restart.
    pub name: String,
    /// The labels of the node.
    pub labels: Labels,
}

/// The ownership of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// The owner; none if no node is eligible.
    pub node: Option<NodeId>,
    /// The fencing token, which grows with every move, from 1; 0 before the first one.
    pub fence: i64,
}

/// The weight of a key for a node: the same on every machine and in every release.
pub fn weight(place: Uuid, thing: &[u8]) -> u64 {
    let digest = Sha256::new().chain_update(place.as_bytes()).chain_update(thing).finalize();
    digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn shard(n: u128, body: ShardBody) -> Shard {
        let id = ObjectId(Uuid::from_u128(n));
        Shard { id, tenant: TenantId::DEFAULT, name: format!("shard_{n:03}"), body }
    }

    fn node(name: &str, labels: &str) -> Candidate {
        let id = NodeId(Uuid::new_v5(&Uuid::nil(), name.as_bytes()));
        Candidate { id, name: name.to_owned(), labels: labels.parse().unwrap() }
    }

    fn nodes(count: usize) -> Vec<Candidate> {
        (0..count).map(|n| node(&format!("node-{n}"), "")).collect()
    }

    #[test]
    fn shards_are_spread_evenly() {
        let nodes = nodes(4);
        let mut owned: BTreeMap<NodeId, u32> = BTreeMap::new();
        for n in 0..4_000 {
            *owned.entry(shard(n, ShardBody::default()).owner(&nodes).unwrap()).or_default() += 1;
        }
        assert!(owned.values().all(|count| (850..1_150).contains(count)), "{owned:?}");
    }

    #[test]
    fn nothing_moves_but_what_must() {
        let (three, four) = (nodes(3), nodes(4));
        let mut moved = 0;
        for n in 0..1_000 {
            let shard = shard(n, ShardBody::default());
            let (before, after) = (shard.owner(&three), shard.owner(&four));
            if before != after {
                // Shards move only to the new node; conversely, only the shards of a lost node
                // move.
                assert_eq!(after, Some(four[3].id));
                moved += 1;
            }
        }
        assert!((180..320).contains(&moved), "{moved} of 1,000 moved");
    }

    #[test]
    fn a_node_that_comes_back_has_what_it_had() {
        let before = nodes(3);
        let mut after = before.clone();
        after[1].id = NodeId(Uuid::from_u128(77));
        for n in 0..100 {
            let shard = shard(n, ShardBody::default());
            let place = |nodes: &[Candidate]| {
                nodes.iter().position(|node| Some(node.id) == shard.owner(nodes))
            };
            assert_eq!(place(&before), place(&after));
        }
    }

    #[test]
    fn labels_and_pins_decide_who_may_own() {
        let nodes = [node("a", "zone=eu"), node("b", "zone=us"), node("c", "zone=eu,disk=ssd")];
        for (body, expected) in [
            (r#"{"node": "b"}"#, Some("b")),
            (r#"{"node": "z"}"#, None),
            (r#"{"labels": {"disk": "ssd"}}"#, Some("c")),
            (r#"{"labels": {"zone": "asia"}}"#, None),
            (r#"{"node": "b", "labels": {"zone": "eu"}}"#, None),
        ] {
            for n in 0..20 {
                let shard = shard(n, serde_json::from_str(body).unwrap());
                let owner = shard.owner(&nodes);
                let name = nodes.iter().find(|node| Some(node.id) == owner);
                assert_eq!(name.map(|node| node.name.as_str()), expected, "{body}");
            }
        }
        assert_eq!(shard(1, ShardBody::default()).owner(&[]), None);
    }
}
