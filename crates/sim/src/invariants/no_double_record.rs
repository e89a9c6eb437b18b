//! No nominal time has two rows, no run is both live and ended, and a range counts right.

use std::collections::BTreeSet;

use super::{Held, Invariant};
use crate::ledger::{Coverage, Ledger};
use crate::oracle::Oracle;

#[derive(Default)]
pub struct NoDoubleRecord;

impl Invariant for NoDoubleRecord {
    fn name(&self) -> &'static str {
        "no double record"
    }

    fn check(&mut self, ledger: &Ledger, oracle: &Oracle, _settled: bool) -> Held {
        for (id, expected) in oracle.jobs() {
            let name = &expected.job.name;
            let mut ids = BTreeSet::new();
            for row in &ledger.jobs[id].1 {
                if !ids.insert(row.id) {
                    return Err(format!("job {name}: run {} is there twice: {row:?}", row.id));
                }
            }
            let coverage = Coverage::of(ledger, expected);
            let twice = coverage.due.iter().chain(&coverage.maybe).find(|(_, covers)| **covers > 1);
            if let Some(((at, _), covers)) = twice {
                let rows: Vec<_> = ledger.jobs[id]
                    .1
                    .iter()
                    .filter(|row| row.scheduled_for <= *at && *at <= row.scheduled_last)
                    .collect();
                return Err(format!("job {name}: {covers} rows stand for {at}: {rows:?}"));
            }
            if let Some((row, right)) =
                coverage.miscounted.iter().find(|(row, _)| row.scheduled_for > ledger.kept_since)
            {
                return Err(format!("job {name}: it should be {right} times: {row:?}"));
            }
        }
        Ok(())
    }
}
