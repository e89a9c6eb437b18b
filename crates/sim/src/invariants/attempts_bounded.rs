//! A run is tried as often as its job allows, and lost three times at most.

use domain::decide::settle::LOST_MAX;

use super::{Held, Invariant};
use crate::ledger::Ledger;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct AttemptsBounded;

impl Invariant for AttemptsBounded {
    fn name(&self) -> &'static str {
        "attempts bounded"
    }

    fn check(&mut self, ledger: &Ledger, oracle: &Oracle, _settled: bool) -> Held {
        for (id, expected) in oracle.jobs() {
            let most = expected.max_attempts();
            for run in &ledger.jobs[id].1 {
                if run.attempts > most || run.lost > LOST_MAX {
                    return Err(format!("job {} allows {most}: {run:?}", expected.job.name));
                }
            }
        }
        Ok(())
    }
}
