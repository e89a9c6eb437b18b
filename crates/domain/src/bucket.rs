//! Planning buckets: how work that any node could do is divided among the nodes.
//!
//! Buckets are not assigned by a leader and have no lease. Each node reads which nodes are alive
//! and computes the owner of each bucket: the node with the largest hash with the bucket
//! (rendezvous hashing). Two nodes that see the same others agree. When a node joins or leaves,
//! only its own buckets move, in about equal shares.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::id::{JobId, NodeId};

/// The number of buckets.
pub const BUCKETS: usize = 256;

/// The node that owns a key; none if there are no nodes. Their order does not matter.
pub fn owner(thing: &[u8], nodes: impl IntoIterator<Item = NodeId>) -> Option<NodeId> {
    let weight = |node: NodeId| {
        let hash = Sha256::new().chain_update(node.0.as_bytes()).chain_update(thing).finalize();
        (<[u8; 32]>::from(hash), node)
    };
    nodes.into_iter().map(weight).max().map(|(_, node)| node)
}

/// A set of buckets. Bit `n % 8` of byte `n / 8` stands for bucket `n`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Buckets([u8; BUCKETS / 8]);

impl Buckets {
    /// Every bucket.
    pub const ALL: Buckets = Buckets([u8::MAX; BUCKETS / 8]);

    /// No bucket.
    pub const NONE: Buckets = Buckets([0; BUCKETS / 8]);

    /// The buckets that a node owns among these nodes; none if it is not one of them.
    pub fn of_node(node: NodeId, among: &[NodeId]) -> Self {
        let mut buckets = Buckets::NONE;
        for bucket in 0..=u8::MAX {
            if owner(&[bucket], among.iter().copied()) == Some(node) {
                buckets.0[usize::from(bucket) / 8] |= 1 << (bucket % 8);
            }
        }
        buckets
    }

    /// The bucket of a job: the last byte of its random id. Every database can compute it.
    pub fn bucket_of(job: JobId) -> u8 {
        job.0.as_bytes()[15]
    }

    /// Whether the set contains the bucket of a job.
    pub fn contains(&self, job: JobId) -> bool {
        let bucket = Buckets::bucket_of(job);
        self.0[usize::from(bucket) / 8] >> (bucket % 8) & 1 == 1
    }

    /// The complement.
    pub fn others(&self) -> Self {
        Buckets(self.0.map(|byte| !byte))
    }

    /// The number of buckets in the set.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|byte| byte.count_ones()).sum()
    }

    /// The set as a bit mask.
    pub fn bits(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Buckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {BUCKETS} buckets", self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn nodes(count: u128) -> Vec<NodeId> {
        (1..=count).map(|node| NodeId(Uuid::from_u128(node << 64))).collect()
    }

    fn job(bucket: u8) -> JobId {
        JobId(Uuid::from_u128(0xabc << 64 | u128::from(bucket)))
    }

    #[test]
    fn a_bucket_has_the_same_owner_on_every_node() {
        for count in 1..=10 {
            let nodes = nodes(count);
            let turned: Vec<NodeId> = nodes.iter().rev().copied().collect();
            let shares: Vec<Buckets> =
                nodes.iter().map(|node| Buckets::of_node(*node, &nodes)).collect();
            for bucket in 0..=u8::MAX {
                let owners = shares.iter().filter(|share| share.contains(job(bucket))).count();
                assert_eq!(owners, 1, "of bucket {bucket} among {count}");
            }
            for (node, share) in nodes.iter().zip(&shares) {
                assert_eq!(Buckets::of_node(*node, &turned), *share);
                // A fair share is 256 / count; random variation may give half of it or twice as
                // much.
                let fair = BUCKETS as u32 / count as u32;
                assert!((fair / 2..=fair * 2).contains(&share.count()), "{share:?} among {count}");
            }
        }
    }

    #[test]
    fn only_the_buckets_of_a_node_that_goes_move() {
        let all = nodes(5);
        let (gone, rest) = all.split_first().unwrap();
        let had = Buckets::of_node(*gone, &all);
        for node in rest {
            let (before, after) = (Buckets::of_node(*node, &all), Buckets::of_node(*node, rest));
            for bucket in (0..=u8::MAX).map(job) {
                let moved = before.contains(bucket) != after.contains(bucket);
                assert!(!moved || had.contains(bucket) && after.contains(bucket));
            }
        }
        assert_eq!(Buckets::of_node(*gone, rest), Buckets::NONE);
        assert_eq!(Buckets::of_node(*gone, &[*gone]), Buckets::ALL);
        assert_eq!(owner(b"anything", []), None);
    }

    #[test]
    fn bits_and_others_say_the_same() {
        let share = Buckets::of_node(nodes(1)[0], &nodes(3));
        assert_eq!(share.count() + share.others().count(), BUCKETS as u32);
        for bucket in 0..=u8::MAX {
            let bit = share.bits()[usize::from(bucket / 8)] & 1 << (bucket % 8) != 0;
            assert_eq!(share.contains(job(bucket)), bit);
            assert_ne!(share.others().contains(job(bucket)), bit);
        }
        assert_eq!(Buckets::ALL.others(), Buckets::NONE);
    }
}
