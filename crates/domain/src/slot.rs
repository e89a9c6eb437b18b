//! Slots: the capacity that a run occupies on its node while it executes.
//!
//! A command, a statement and a backup need processes, memory and processor time, so a node
//! executes few of them at the same time. An HTTP call mostly waits, and needs little more than a
//! connection. Each kind has its own slots, so that endpoints that do not answer cannot block
//! commands, and vice versa.

use std::fmt;
use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

/// A kind of slot. A run occupies one slot of the kind of its action.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum SlotKind {
    /// For everything except HTTP calls.
    #[default]
    Process = 0,
    /// For HTTP calls.
    Http = 1,
}

impl SlotKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [SlotKind; 2] = [SlotKind::Process, SlotKind::Http];

    /// The kind with a stored number.
    pub fn from_number(number: i64) -> Option<Self> {
        SlotKind::ALL.into_iter().find(|kind| *kind as i64 == number)
    }

    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            SlotKind::Process => "process",
            SlotKind::Http => "http",
        }
    }
}

impl fmt::Display for SlotKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value for each kind of slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerSlot<T> {
    /// The value of process slots.
    pub process: T,
    /// The value of HTTP slots.
    pub http: T,
}

impl<T> PerSlot<T> {
    /// Computes the value of each kind.
    pub fn from_fn(mut value: impl FnMut(SlotKind) -> T) -> Self {
        PerSlot { process: value(SlotKind::Process), http: value(SlotKind::Http) }
    }
}

impl<T> Index<SlotKind> for PerSlot<T> {
    type Output = T;

    fn index(&self, kind: SlotKind) -> &T {
        match kind {
            SlotKind::Process => &self.process,
            SlotKind::Http => &self.http,
        }
    }
}

impl<T> IndexMut<SlotKind> for PerSlot<T> {
    fn index_mut(&mut self, kind: SlotKind) -> &mut T {
        match kind {
            SlotKind::Process => &mut self.process,
            SlotKind::Http => &mut self.http,
        }
    }
}

impl PerSlot<u32> {
    /// The sum of both kinds.
    pub fn total(&self) -> u32 {
        self.process.saturating_add(self.http)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_number_and_value() {
        for kind in SlotKind::ALL {
            assert_eq!(SlotKind::from_number(kind as i64), Some(kind));
        }
        assert_eq!(SlotKind::from_number(2), None);
        let mut counts = PerSlot::from_fn(|kind| kind as u32 + 5);
        assert_eq!((counts.process, counts.http, counts.total()), (5, 6, 11));
        counts[SlotKind::Http] += 2;
        assert_eq!((counts[SlotKind::Process], counts[SlotKind::Http]), (5, 8));
    }
}
