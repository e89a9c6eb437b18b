//! Claims of this process, kept in memory so that the hot path does not read them.
//!
//! A row of `claims` covers a batch of claimed runs. It can be deleted when all of them have ended,
//! and only the process that made the claim knows when: it keeps a list, and sends the numbers of
//! spent claims along with its next commit. A claim that a few long runs keep alive makes every
//! reader skip the ids of runs that ended long ago, so it is split into a claim for each run that
//! is left.

use std::collections::{BTreeMap, BTreeSet};

use domain::id::{JobId, NodeId, RunId};

/// Ended entries that are still listed are tolerated up to this many, and up to three for each that
/// has not ended.
const SLACK: usize = 4_096;

/// The claims of this process.
#[derive(Default)]
pub(super) struct Holdings {
    claims: BTreeMap<i64, Claim>,
    spent: BTreeSet<i64>,
    /// Entries in `claims`.
    listed: usize,
    /// Those of them that are not over.
    open: usize,
}

struct Claim {
    node: NodeId,
    /// Claimed runs, from the fence after the claim's number on; none for one that has ended.
    grants: Vec<Option<Held>>,
    open: usize,
}

/// A run that is held, and its job.
pub(super) type Held = (RunId, JobId);

impl Holdings {
    /// A node has claimed these runs, in the order of their fences.
    pub fn take(&mut self, claim: i64, node: NodeId, runs: Vec<Held>) {
        self.insert(claim, node, runs.into_iter().map(Some).collect());
    }

    /// A claim turned out to be a node's, with these entries left.
    pub fn find(&mut self, claim: i64, node: NodeId, found: &[(i64, Held)]) {
        let mut grants = Vec::new();
        for (fence, held) in found {
            let Some(place) = place(claim, *fence) else { continue };
            grants.resize(grants.len().max(place + 1), None);
            grants[place] = Some(*held);
        }
        self.insert(claim, node, grants);
    }

    fn insert(&mut self, id: i64, node: NodeId, grants: Vec<Option<Held>>) {
        self.remove(id);
        let open = grants.iter().flatten().count();
        self.listed += grants.len();
        self.open += open;
        self.claims.insert(id, Claim { node, open, grants });
    }

    /// The claimed run with this fence, if it has not ended, and its claim.
    fn held(&self, fence: i64) -> Option<(i64, Held)> {
        let (id, claim) = self.claims.range(..fence).next_back()?;
        Some((*id, (*claim.grants.get(place(*id, fence)?)?)?))
    }

    /// The job of a run that has not ended.
    pub fn job(&self, fence: i64) -> Option<JobId> {
        self.held(fence).map(|(_, (_, job))| job)
    }

    /// The claims of these runs, if all are known and none has ended.
    pub fn claims(&self, grants: impl IntoIterator<Item = (RunId, i64)>) -> Option<Vec<i64>> {
        let mut claims = BTreeSet::new();
        for (run, fence) in grants {
            let (claim, held) = self.held(fence)?;
            if held.0 != run {
                return None;
            }
            claims.insert(claim);
        }
        Some(claims.into_iter().collect())
    }

    /// Whether a claim was taken by this process and is not over.
    pub fn knows(&self, claim: i64) -> bool {
        self.claims.contains_key(&claim) || self.spent.contains(&claim)
    }

    /// Whether a claim has runs that have not ended.
    pub fn has(&self, claim: i64) -> bool {
        self.claims.contains_key(&claim)
    }

    /// A claimed run has ended, and the store has committed that.
    pub fn close(&mut self, fence: i64) {
        let Some((&id, claim)) = self.claims.range_mut(..fence).next_back() else { return };
        let held = place(id, fence).and_then(|place| claim.grants.get_mut(place));
        if held.and_then(Option::take).is_none() {
            return;
        }
        claim.open -= 1;
        self.open -= 1;
        if claim.open == 0 {
            self.remove(id);
            self.spent.insert(id);
        }
    }

    /// Claims of which nothing is left.
    pub fn spent(&self) -> Vec<i64> {
        self.spent.iter().copied().collect()
    }

    /// These claims are gone from the store.
    pub fn cleared(&mut self, claims: &[i64]) {
        for claim in claims {
            self.spent.remove(claim);
        }
    }

    /// Claims that should be split, when too much is listed for too little.
    pub fn thin(&self) -> Vec<i64> {
        if self.listed <= self.open * 4 + SLACK {
            return Vec::new();
        }
        let thin = self.claims.iter().filter(|(_, claim)| claim.open * 4 < claim.grants.len());
        thin.map(|(id, _)| *id).collect()
    }

    /// Claims were replaced by a claim for each run that was left, with these fences.
    pub fn split(&mut self, claims: &[i64], fences: &[i64]) {
        let mut singles = Vec::new();
        for &fence in fences {
            let node = self.claims.range(..fence).next_back().map(|(_, claim)| claim.node);
            singles.push((fence - 1, node, self.held(fence)));
        }
        for claim in claims {
            self.remove(*claim);
        }
        for (claim, node, held) in singles {
            match (node, held) {
                (Some(node), Some((_, held))) => self.take(claim, node, vec![held]),
                // It ended meanwhile.
                _ => drop(self.spent.insert(claim)),
            }
        }
    }

    /// A node holds nothing any more.
    pub fn forget(&mut self, node: NodeId) {
        let claims: Vec<i64> =
            self.claims.iter().filter(|(_, claim)| claim.node == node).map(|(id, _)| *id).collect();
        for claim in claims {
            self.remove(claim);
        }
    }

    fn remove(&mut self, claim: i64) {
        if let Some(claim) = self.claims.remove(&claim) {
            self.listed -= claim.grants.len();
            self.open -= claim.open;
        }
    }
}

fn place(claim: i64, fence: i64) -> Option<usize> {
    usize::try_from(fence - claim - 1).ok()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn job(number: u128) -> JobId {
        JobId(Uuid::from_u128(number))
    }

    fn held(number: u128) -> Held {
        (RunId(Uuid::from_u128(number)), job(number))
    }

    fn grant(number: u128, fence: i64) -> (RunId, i64) {
        (held(number).0, fence)
    }

    fn node() -> NodeId {
        NodeId(Uuid::from_u128(1))
    }

    #[test]
    fn a_claim_is_spent_when_each_of_its_grants_is_over() {
        let mut holdings = Holdings::default();
        holdings.take(10, node(), vec![held(1), held(2)]);
        assert_eq!(holdings.job(11), Some(job(1)));
        assert_eq!(holdings.job(12), Some(job(2)));
        assert_eq!(holdings.job(13), None);
        assert_eq!(holdings.claims([grant(1, 11), grant(2, 12)]), Some(vec![10]));
        assert_eq!(holdings.claims([grant(1, 11), grant(3, 13)]), None);
        assert_eq!(holdings.claims([grant(2, 11)]), None, "another run's fence");
        holdings.close(11);
        holdings.close(11);
        holdings.close(13);
        assert!(holdings.spent().is_empty());
        assert_eq!(holdings.claims([grant(1, 11)]), None, "it is over");
        holdings.close(12);
        assert_eq!(holdings.spent(), [10]);
        holdings.cleared(&[10]);
        assert!(!holdings.knows(10));
        assert_eq!((holdings.listed, holdings.open), (0, 0));
    }

    #[test]
    fn a_claim_that_one_long_run_keeps_alive_is_split() {
        let mut holdings = Holdings::default();
        holdings.take(0, node(), vec![held(1); 10_000]);
        for fence in 3..=10_000 {
            holdings.close(fence);
        }
        assert_eq!(holdings.thin(), [0]);
        // The second one ends while the store splits the claim.
        holdings.close(2);
        holdings.split(&[0], &[1, 2]);
        assert!(holdings.thin().is_empty());
        assert_eq!(holdings.job(1), Some(job(1)));
        assert_eq!(holdings.spent(), [1]);
        holdings.close(1);
        assert_eq!(holdings.spent(), [0, 1]);
        assert_eq!((holdings.listed, holdings.open), (0, 0));
    }

    #[test]
    fn a_claim_that_is_found_is_held() {
        let mut holdings = Holdings::default();
        holdings.find(10, node(), &[(11, held(1)), (13, held(3))]);
        assert!(holdings.has(10));
        assert_eq!((holdings.job(12), holdings.job(13)), (None, Some(job(3))));
        // Its answer arrives after all.
        holdings.take(10, node(), vec![held(1), held(2), held(3)]);
        assert_eq!((holdings.listed, holdings.open), (3, 3));
    }

    #[test]
    fn a_node_that_is_gone_holds_nothing() {
        let mut holdings = Holdings::default();
        holdings.take(0, node(), vec![held(1)]);
        holdings.forget(node());
        assert!(!holdings.knows(0));
        assert_eq!((holdings.listed, holdings.open), (0, 0));
    }
}
