//! Runs that are due while the slots are taken: the tenants take turns, each tenant's runs go by
//! their time. Whoever prepared most must not come first all the time.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use domain::id::{RunId, TenantId};
use jiff::Timestamp;

/// Runs in line for a slot.
#[derive(Default)]
pub(super) struct Crowd {
    /// Each in order. Who comes mostly comes last.
    lines: BTreeMap<TenantId, VecDeque<(Timestamp, RunId)>>,
    /// Who had the last turn.
    last: Option<TenantId>,
    len: usize,
}

impl Crowd {
    /// How many they are.
    pub fn len(&self) -> u32 {
        self.len as u32
    }

    /// A run gets in line.
    pub fn insert(&mut self, tenant: TenantId, place: (Timestamp, RunId)) {
        let line = self.lines.entry(tenant).or_default();
        if line.back().is_none_or(|last| *last < place) {
            line.push_back(place);
        } else if let Err(at) = line.binary_search(&place) {
            line.insert(at, place);
        } else {
            return;
        }
        self.len += 1;
    }

    /// The run whose turn it is.
    pub fn pop(&mut self) -> Option<RunId> {
        let after = self.last.map_or(Unbounded, Excluded);
        let next = self.lines.range((after, Unbounded)).next();
        let tenant = *next.or_else(|| self.lines.iter().next())?.0;
        let line = self.lines.get_mut(&tenant)?;
        let first = line.pop_front();
        if line.is_empty() {
            self.lines.remove(&tenant);
        }
        self.last = Some(tenant);
        self.len -= 1;
        first.map(|(_, run)| run)
    }

    /// Takes those out of the line whose time was before this one.
    pub fn take_before(&mut self, time: Timestamp) -> Vec<RunId> {
        let mut taken = Vec::new();
        for line in self.lines.values_mut() {
            while let Some((_, run)) = line.front().filter(|(at, _)| *at < time).copied() {
                line.pop_front();
                taken.push(run);
            }
        }
        self.lines.retain(|_, line| !line.is_empty());
        self.len -= taken.len();
        taken
    }

    /// Everybody goes.
    pub fn clear(&mut self) {
        *self = Crowd::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn tenants_take_turns_and_times_decide_within_one() {
        let mut crowd = Crowd::default();
        let tenant = |n: u128| TenantId(Uuid::from_u128(n));
        let place = |second: i64, run: u128| {
            (Timestamp::from_second(second).unwrap(), RunId(Uuid::from_u128(run)))
        };
        for (of, second, run) in [(1, 3, 13), (1, 1, 11), (1, 2, 12), (2, 9, 21), (3, 5, 31)] {
            crowd.insert(tenant(of), place(second, run));
        }
        crowd.insert(tenant(1), place(1, 11));
        assert_eq!(crowd.len(), 5, "a run is in line once");
        let order: Vec<u128> =
            std::iter::from_fn(|| crowd.pop()).map(|run| run.0.as_u128()).collect();
        assert_eq!(order, [11, 21, 31, 12, 13]);
        assert_eq!(crowd.len(), 0);
        for (of, second, run) in [(1, 3, 13), (1, 1, 11), (2, 2, 22)] {
            crowd.insert(tenant(of), place(second, run));
        }
        let taken = crowd.take_before(place(3, 0).0);
        assert_eq!(taken, [place(0, 11).1, place(0, 22).1]);
        assert_eq!((crowd.len(), crowd.pop()), (1, Some(place(0, 13).1)));
    }
}
