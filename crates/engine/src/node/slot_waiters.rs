//! Runs that are due while the slots of their kind are taken: the tenants take turns by their
//! weights, each tenant's runs go by their time. A tenant that prepared most must not come first
//! all the time.
//!
//! ```text
//!   turn        0     4     8    12    16     a round is 16
//!   weight 4    a1    a2    a3    a4    a5
//!   weight 16   b1b2b3b4b5 …                  four turns for one of a
//! ```

use std::collections::{BTreeSet, HashMap, VecDeque};

use domain::fairness::{Tier, turn};
use domain::id::{RunId, TenantId};
use jiff::Timestamp;

/// The weights of tenants that have another one than usual.
pub(super) type Weights = HashMap<TenantId, u32>;

/// Runs in line for a slot.
#[derive(Default)]
pub(super) struct SlotWaiters {
    lines: HashMap<TenantId, Line>,
    /// The tenants of `lines` by their next turns.
    turns: BTreeSet<(i64, TenantId)>,
    /// The turn of the run that left last.
    now: i64,
    /// The next turns of tenants that are in line no more, as far as they have not come.
    later: HashMap<TenantId, i64>,
    len: usize,
}

/// A tenant's runs, in order. A run that comes mostly comes last.
#[derive(Default)]
struct Line {
    runs: VecDeque<(Timestamp, RunId)>,
    turn: i64,
}

impl SlotWaiters {
    /// How many they are.
    pub fn len(&self) -> u32 {
        self.len as u32
    }

    /// A run gets in line.
    pub fn insert(&mut self, tenant: TenantId, place: (Timestamp, RunId)) {
        let line = self.lines.entry(tenant).or_insert_with(|| {
            let turn = self.later.remove(&tenant).unwrap_or_default().max(self.now);
            self.turns.insert((turn, tenant));
            Line { runs: VecDeque::new(), turn }
        });
        if line.runs.back().is_none_or(|last| *last < place) {
            line.runs.push_back(place);
        } else if let Err(at) = line.runs.binary_search(&place) {
            line.runs.insert(at, place);
        } else {
            return;
        }
        self.len += 1;
    }

    /// The run whose turn it is.
    pub fn pop(&mut self, weights: &Weights) -> Option<RunId> {
        let (now, tenant) = self.turns.pop_first()?;
        let line = self.lines.get_mut(&tenant)?;
        let first = line.runs.pop_front();
        let weight = weights.get(&tenant).copied().unwrap_or(Tier::default().weight());
        line.turn = now + turn(1, weight);
        self.now = now;
        self.len -= 1;
        if line.runs.is_empty() {
            self.leave(tenant);
        } else {
            self.turns.insert((line.turn, tenant));
        }
        first.map(|(_, run)| run)
    }

    /// A tenant has no run in line. If it comes back before its next turn, it waits for that.
    fn leave(&mut self, tenant: TenantId) {
        let Some(line) = self.lines.remove(&tenant) else { return };
        self.turns.remove(&(line.turn, tenant));
        if self.later.len() > 2 * self.lines.len() {
            self.later.retain(|_, turn| *turn > self.now);
        }
        self.later.insert(tenant, line.turn);
    }

    /// Takes those out of the line whose time was before this one.
    pub fn take_before(&mut self, time: Timestamp) -> Vec<RunId> {
        let mut taken = Vec::new();
        for line in self.lines.values_mut() {
            while let Some((_, run)) = line.runs.front().filter(|(at, _)| *at < time).copied() {
                line.runs.pop_front();
                taken.push(run);
            }
        }
        let empty = self.lines.iter().filter(|(_, line)| line.runs.is_empty());
        for tenant in empty.map(|(tenant, _)| *tenant).collect::<Vec<_>>() {
            self.leave(tenant);
        }
        self.len -= taken.len();
        taken.sort_unstable();
        taken
    }

    /// All waiters leave.
    pub fn clear(&mut self) {
        *self = SlotWaiters::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn tenant(number: u128) -> TenantId {
        TenantId(Uuid::from_u128(number))
    }

    fn place(second: i64, run: u128) -> (Timestamp, RunId) {
        (Timestamp::from_second(second).unwrap(), RunId(Uuid::from_u128(run)))
    }

    #[test]
    fn tenants_take_turns_and_times_decide_within_one() {
        let mut crowd = SlotWaiters::default();
        for (of, second, run) in [(1, 3, 13), (1, 1, 11), (1, 2, 12), (2, 9, 21), (3, 5, 31)] {
            crowd.insert(tenant(of), place(second, run));
        }
        crowd.insert(tenant(1), place(1, 11));
        assert_eq!(crowd.len(), 5, "a run is in line once");
        let order: Vec<u128> =
            std::iter::from_fn(|| crowd.pop(&Weights::new())).map(|run| run.0.as_u128()).collect();
        assert_eq!(order, [11, 21, 31, 12, 13]);
        assert_eq!(crowd.len(), 0);
        for (of, second, run) in [(1, 3, 13), (1, 1, 11), (2, 2, 22)] {
            crowd.insert(tenant(of), place(second, run));
        }
        let taken = crowd.take_before(place(3, 0).0);
        assert_eq!(taken, [place(0, 11).1, place(0, 22).1]);
        assert_eq!((crowd.len(), crowd.pop(&Weights::new())), (1, Some(place(0, 13).1)));
    }

    /// Order of tenants that always have a run in line.
    fn turns(weights: &[(u128, u32)], count: usize) -> Vec<u128> {
        let mut crowd = SlotWaiters::default();
        let weights: Weights = weights.iter().map(|(of, weight)| (tenant(*of), *weight)).collect();
        for of in weights.keys() {
            crowd.insert(*of, place(0, of.0.as_u128()));
        }
        let mut order = Vec::new();
        for second in 0..count {
            let run = crowd.pop(&weights).unwrap();
            order.push(run.0.as_u128());
            // It is back at once, with one run at a time.
            crowd.insert(TenantId(run.0), (place(second as i64 + 1, 0).0, run));
        }
        order
    }

    #[test]
    fn a_tenant_that_comes_back_waits_for_its_turn() {
        assert_eq!(turns(&[(1, 4), (2, 4), (3, 4)], 9), [1, 2, 3, 1, 2, 3, 1, 2, 3]);
        let order = turns(&[(1, 1), (2, 4), (3, 16)], 42);
        let counts = [1, 2, 3].map(|of| order.iter().filter(|it| **it == of).count());
        assert_eq!(counts, [2, 8, 32], "{order:?}");
    }
}
