//! A machine never executes more runs of a kind than it has slots for, and each run takes a slot of
//! the kind of its job's action.

use std::collections::BTreeMap;

use domain::slot::{PerSlot, SlotKind};

use super::{Held, Invariant};
use crate::event::SimEvent;
use crate::oracle::Oracle;
use crate::profile::Profile;

pub struct SlotsBounded {
    slots: PerSlot<u32>,
    /// Where and in what kind of slot executors are at work, by fence.
    working: BTreeMap<i64, (usize, SlotKind)>,
}

impl SlotsBounded {
    pub fn new(profile: &Profile) -> Self {
        SlotsBounded { slots: profile.settings.slots(), working: BTreeMap::new() }
    }
}

impl Invariant for SlotsBounded {
    fn name(&self) -> &'static str {
        "slots bounded"
    }

    fn see(&mut self, event: &SimEvent, _oracle: &Oracle) -> Held {
        match event {
            SimEvent::Started { machine, started, .. } => {
                let slot = started.job.definition.action.slot_kind();
                if slot != started.run.run.slot {
                    return Err(format!("{started:?} takes a slot of another kind than {slot}"));
                }
                self.working.insert(started.run.grant.fence, (*machine, slot));
                let taken = self.working.values().filter(|it| **it == (*machine, slot)).count();
                if taken > self.slots[slot] as usize {
                    return Err(format!("machine {machine} executes {taken} runs in {slot} slots"));
                }
            }
            SimEvent::Stopped { grant, .. } => {
                self.working.remove(&grant.fence);
            }
            SimEvent::Interrupted { machine } => self.working.retain(|_, (at, _)| at != machine),
            _ => {}
        }
        Ok(())
    }
}
