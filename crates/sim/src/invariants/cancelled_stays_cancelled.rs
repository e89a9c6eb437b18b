//! A run whose cancellation was acknowledged ends cancelled, whatever its executor reports.

use std::collections::BTreeSet;

use domain::id::RunId;
use domain::run::{Outcome, RunState};
use store::Cancelled;

use super::{Held, Invariant};
use crate::event::SimEvent;
use crate::ledger::Ledger;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct CancelledStaysCancelled {
    cancelled: BTreeSet<RunId>,
}

impl Invariant for CancelledStaysCancelled {
    fn name(&self) -> &'static str {
        "cancelled stays cancelled"
    }

    fn see(&mut self, event: &SimEvent, _oracle: &Oracle) -> Held {
        if let SimEvent::Cancelled { run, answer: Cancelled::Ended | Cancelled::Requested(_) } =
            event
        {
            self.cancelled.insert(*run);
        }
        Ok(())
    }

    fn check(&mut self, ledger: &Ledger, _oracle: &Oracle, _settled: bool) -> Held {
        for run in ledger.jobs.values().flat_map(|(_, runs)| runs) {
            let RunState::Ended(outcome) = run.state else { continue };
            if self.cancelled.contains(&run.id) && outcome != Outcome::Cancelled {
                return Err(format!("{run:?} was cancelled before"));
            }
        }
        Ok(())
    }
}
