//! Runs change state only by the transitions of the table in `docs/run-states.md`.

use std::collections::BTreeMap;

use domain::id::RunId;
use domain::run::{self, RunState};

use super::{Held, Invariant};
use crate::event::SimEvent;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct LegalTransitions {
    /// The state in which each run was last seen.
    last: BTreeMap<RunId, RunState>,
}

impl Invariant for LegalTransitions {
    fn name(&self) -> &'static str {
        "legal transitions"
    }

    fn see(&mut self, event: &SimEvent, _oracle: &Oracle) -> Held {
        let SimEvent::Moved { run, from, event, to } = event else { return Ok(()) };
        // Between two writes of its own, time passes and others wake it.
        if let Some(last) = self.last.insert(*run, *to)
            && last != *from
            && !last.may_become(run::Event::Ready, *from)
        {
            return Err(format!("run {run} was {last} and is {from}, and no event changed it"));
        }
        match from.may_become(*event, *to) {
            true => Ok(()),
            false => Err(format!("run {run} went from {from} to {to}: {event}")),
        }
    }
}
