//! Lanes: a tenant's runs that can be claimed lie in one lane for each kind of slot and priority,
//! sorted by their time. A claim looks at the front of each lane, so runs that it has no slot for
//! cost it nothing.
//!
//! ```text
//!   lane = 20 × place + 10 × kind of slot + priority
//! ```
//!
//! A place is a number on SQLite, 0 when any node may execute the run. On PostgreSQL it has a
//! column of its own.

use domain::slot::SlotKind;

/// How many priorities there are: the lanes of one kind of slot.
pub(crate) const PRIORITIES: i64 = 10;

/// How many lanes a tenant's runs of one place have.
pub(crate) const LANES: i64 = PRIORITIES * SlotKind::ALL.len() as i64;

/// The lane of runs that any node may execute.
pub(crate) fn lane(slot: SlotKind, priority: u8) -> i64 {
    slot as i64 * PRIORITIES + i64::from(priority)
}

/// The kind of slot that the runs of a lane take.
pub(crate) fn slot_of(lane: i64) -> SlotKind {
    SlotKind::from_number(lane % LANES / PRIORITIES).unwrap_or_default()
}

/// The priority of the runs of a lane.
pub(crate) fn priority_of(lane: i64) -> u8 {
    (lane % PRIORITIES) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_tells_slot_and_priority() {
        let mut seen = std::collections::BTreeSet::new();
        for slot in SlotKind::ALL {
            for priority in 0..10 {
                let plain = lane(slot, priority);
                assert!(seen.insert(plain) && plain < LANES);
                for placed in [plain, 7 * LANES + plain] {
                    assert_eq!((slot_of(placed), priority_of(placed)), (slot, priority));
                }
            }
        }
    }
}
