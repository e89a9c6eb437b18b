//! No run starts before its time by the store's clock. When a clock is set, a machine is wrong
//! about the time until it hears from the store again, but never by more than the time for which
//! runs are claimed ahead.

use jiff::SignedDuration;

use super::{Held, Invariant};
use crate::event::SimEvent;
use crate::oracle::Oracle;
use crate::profile::Profile;

pub struct NeverEarly {
    prepare_ahead: SignedDuration,
    tolerated: SignedDuration,
}

impl NeverEarly {
    pub fn new(profile: &Profile) -> Self {
        NeverEarly {
            prepare_ahead: profile.settings.prepare_ahead,
            tolerated: SignedDuration::ZERO,
        }
    }
}

impl Invariant for NeverEarly {
    fn name(&self) -> &'static str {
        "never early"
    }

    fn see(&mut self, event: &SimEvent, _oracle: &Oracle) -> Held {
        match event {
            SimEvent::ClockSet => self.tolerated = self.prepare_ahead,
            SimEvent::Started { at, started, .. }
                if *at + self.tolerated < started.run.run.due_at =>
            {
                return Err(format!("{:?} started at {at}", started.run));
            }
            _ => {}
        }
        Ok(())
    }
}
