//! A tick that was due while no scheduler was alive starts only if the policy of its job runs it,
//! whether it was planned before or not.

use domain::run::Origin;
use domain::schedule::{Fate, Outage};

use super::{Held, Invariant};
use crate::event::Event;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct MissedTicks {
    outages: Vec<Outage>,
}

impl Invariant for MissedTicks {
    fn name(&self) -> &'static str {
        "missed ticks do not start"
    }

    fn see(&mut self, event: &Event, oracle: &Oracle) -> Held {
        match event {
            Event::Down { outages } => self.outages.clone_from(outages),
            Event::Started { started, .. } => {
                let (run, definition) = (&started.run, &started.job.definition);
                let is_first = run.attempts + run.lost == 0;
                if run.run.origin != Origin::Schedule || !is_first {
                    return Ok(());
                }
                let due_at = run.run.due_at;
                let outage = self.outages.iter().find(|outage| outage.contains(due_at));
                let Some((outage, schedule)) = outage.zip(oracle.schedule(definition)) else {
                    return Ok(());
                };
                let rules = definition.catch_up_rules();
                let fate = outage.fate(&schedule, run.run.scheduled_for, &rules);
                if !matches!(fate, Fate::Live | Fate::CaughtUp) {
                    return Err(format!("{run:?} starts, which is {fate:?} after {outage:?}"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
