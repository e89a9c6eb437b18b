//! Nothing starts before its time, by the clock of the machine that starts it.

use super::{Held, Invariant};
use crate::event::Event;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct NeverEarly;

impl Invariant for NeverEarly {
    fn name(&self) -> &'static str {
        "never early"
    }

    fn see(&mut self, event: &Event, _oracle: &Oracle) -> Held {
        if let Event::Started { clock, started, .. } = event
            && *clock < started.run.run.due_at
        {
            return Err(format!("{:?} started at {clock}", started.run));
        }
        Ok(())
    }
}
