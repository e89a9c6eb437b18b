//! When nothing goes wrong any more and nothing new becomes due, no run stays alive.

use domain::run::RunState;

use super::{Held, Invariant};
use crate::ledger::Ledger;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct EveryRunEnds;

impl Invariant for EveryRunEnds {
    fn name(&self) -> &'static str {
        "every run ends"
    }

    fn check(&mut self, ledger: &Ledger, oracle: &Oracle, settled: bool) -> Held {
        if !settled {
            return Ok(());
        }
        for (id, expected) in oracle.jobs() {
            for run in &ledger.jobs[id].1 {
                if !matches!(run.state, RunState::Ended(_)) {
                    let definition = &expected.job.definition;
                    return Err(format!("job {}: {run:?} of {definition:?}", expected.job.name));
                }
            }
        }
        Ok(())
    }
}
