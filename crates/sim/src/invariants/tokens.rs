//! Each attempt of a run has a larger fencing token than the one before.

use std::collections::BTreeMap;

use domain::id::RunId;

use super::{Held, Invariant};
use crate::event::Event;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct Tokens {
    /// The largest token of each run.
    runs: BTreeMap<RunId, i64>,
}

impl Invariant for Tokens {
    fn name(&self) -> &'static str {
        "tokens in order"
    }

    fn see(&mut self, event: &Event, _oracle: &Oracle) -> Held {
        if let Event::Started { started, .. } = event {
            let (run, token) = (&started.run, started.token);
            if let Some(before) = self.runs.insert(run.run.id, token).filter(|it| *it >= token) {
                return Err(format!("token {token} of {run:?} after {before}"));
            }
        }
        Ok(())
    }
}
