//! What this process holds, claim by claim, so that the hot path need not ask.
//!
//! A row of `claims` stands for a batch of grants. It can go when all of them are over, and only
//! the process that took the batch knows when that is: it keeps a list, and sends the numbers of
//! spent claims along with its next commit. A claim that a few long runs keep alive is thin: it
//! makes everybody read past the ids of runs that ended long ago, so it is split into a claim for
//! each run that is left.

use std::collections::{BTreeMap, BTreeSet};

use domain::id::{JobId, NodeId};

/// Grants that are over and still listed are tolerated up to this many, and up to three for each
/// that is not.
const SLACK: usize = 4_096;

/// The claims of this process.
#[derive(Default)]
pub(super) struct Holdings {
    claims: BTreeMap<i64, Claim>,
    spent: BTreeSet<i64>,
    /// Grants in `claims`.
    listed: usize,
    /// Those of them that are not over.
    open: usize,
}

struct Claim {
    node: NodeId,
    /// The job of each grant, from the fence after the claim's number on; none when it is over.
    jobs: Vec<Option<JobId>>,
    open: usize,
}

impl Holdings {
    /// A node was handed runs of these jobs, in the order of their fences.
    pub fn take(&mut self, claim: i64, node: NodeId, jobs: Vec<JobId>) {
        self.insert(claim, node, jobs.into_iter().map(Some).collect());
    }

    /// A claim turned out to be a node's, with these grants left.
    pub fn find(&mut self, claim: i64, node: NodeId, grants: &[(i64, JobId)]) {
        let mut jobs = Vec::new();
        for (fence, job) in grants {
            let Some(place) = place(claim, *fence) else { continue };
            jobs.resize(jobs.len().max(place + 1), None);
            jobs[place] = Some(*job);
        }
        self.insert(claim, node, jobs);
    }

    fn insert(&mut self, id: i64, node: NodeId, jobs: Vec<Option<JobId>>) {
        self.remove(id);
        let open = jobs.iter().flatten().count();
        self.listed += jobs.len();
        self.open += open;
        self.claims.insert(id, Claim { node, open, jobs });
    }

    /// The job of a grant that is not over.
    pub fn job(&self, fence: i64) -> Option<JobId> {
        let (id, claim) = self.claims.range(..fence).next_back()?;
        *claim.jobs.get(place(*id, fence)?)?
    }

    /// The claims of these grants, if all are known.
    pub fn claims(&self, fences: &[i64]) -> Option<Vec<i64>> {
        let mut claims = BTreeSet::new();
        for fence in fences {
            let (id, claim) = self.claims.range(..fence).next_back()?;
            claim.jobs.get(place(*id, *fence)?)?;
            claims.insert(*id);
        }
        Some(claims.into_iter().collect())
    }

    /// Whether a claim was taken by this process and is not over.
    pub fn knows(&self, claim: i64) -> bool {
        self.claims.contains_key(&claim) || self.spent.contains(&claim)
    }

    /// Whether a claim has grants that are not over.
    pub fn has(&self, claim: i64) -> bool {
        self.claims.contains_key(&claim)
    }

    /// A grant is over, and the store has committed that.
    pub fn close(&mut self, fence: i64) {
        let Some((&id, claim)) = self.claims.range_mut(..fence).next_back() else { return };
        let job = place(id, fence).and_then(|place| claim.jobs.get_mut(place));
        if job.and_then(Option::take).is_none() {
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
        let thin = self.claims.iter().filter(|(_, claim)| claim.open * 4 < claim.jobs.len());
        thin.map(|(id, _)| *id).collect()
    }

    /// Claims were replaced by a claim for each grant that was left, with these fences.
    pub fn split(&mut self, claims: &[i64], fences: &[i64]) {
        let mut singles = Vec::new();
        for &fence in fences {
            let node = self.claims.range(..fence).next_back().map(|(_, claim)| claim.node);
            singles.push((fence - 1, node, self.job(fence)));
        }
        for claim in claims {
            self.remove(*claim);
        }
        for (claim, node, job) in singles {
            match (node, job) {
                (Some(node), Some(job)) => self.take(claim, node, vec![job]),
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
            self.listed -= claim.jobs.len();
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

    fn node() -> NodeId {
        NodeId(Uuid::from_u128(1))
    }

    #[test]
    fn a_claim_is_spent_when_each_of_its_grants_is_over() {
        let mut holdings = Holdings::default();
        holdings.take(10, node(), vec![job(1), job(2)]);
        assert_eq!(holdings.job(11), Some(job(1)));
        assert_eq!(holdings.job(12), Some(job(2)));
        assert_eq!(holdings.job(13), None);
        assert_eq!(holdings.claims(&[11, 12]), Some(vec![10]));
        assert_eq!(holdings.claims(&[11, 13]), None);
        holdings.close(11);
        holdings.close(11);
        holdings.close(13);
        assert!(holdings.spent().is_empty());
        holdings.close(12);
        assert_eq!(holdings.spent(), [10]);
        holdings.cleared(&[10]);
        assert!(!holdings.knows(10));
        assert_eq!((holdings.listed, holdings.open), (0, 0));
    }

    #[test]
    fn a_claim_that_one_long_run_keeps_alive_is_split() {
        let mut holdings = Holdings::default();
        holdings.take(0, node(), vec![job(1); 10_000]);
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
        holdings.find(10, node(), &[(11, job(1)), (13, job(3))]);
        assert!(holdings.has(10));
        assert_eq!((holdings.job(12), holdings.job(13)), (None, Some(job(3))));
        // Its answer arrives after all.
        holdings.take(10, node(), vec![job(1), job(2), job(3)]);
        assert_eq!((holdings.listed, holdings.open), (3, 3));
    }

    #[test]
    fn a_node_that_is_gone_holds_nothing() {
        let mut holdings = Holdings::default();
        holdings.take(0, node(), vec![job(1)]);
        holdings.forget(node());
        assert!(!holdings.knows(0));
        assert_eq!((holdings.listed, holdings.open), (0, 0));
    }
}
