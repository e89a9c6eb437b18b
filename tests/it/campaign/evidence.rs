//! The records of a campaign: the endpoint's ledger, the server's ledger, faults and changes.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::changes::Changes;
use super::endpoint::Call;
use super::faults::{Outage, Strike};
use super::jobs::CampaignJob;
use super::rows::Row;
use super::stage::StoreKind;

/// A job with everything that is known about it.
pub struct JobEvidence {
    pub job: CampaignJob,
    /// The ticks that the server must account for.
    pub ticks: Vec<Timestamp>,
    pub rows: Vec<Row>,
    /// In the order of arrival.
    pub calls: Vec<Call>,
}

impl JobEvidence {
    /// The row that a tick is in.
    pub fn row_of_tick(&self, tick: Timestamp) -> Option<&Row> {
        let mut rows = self.rows.iter().filter(|row| row.is_tick);
        rows.find(|row| row.first <= tick && tick <= row.last)
    }

    pub fn row(&self, run: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == run)
    }

    pub fn calls_of<'a>(&'a self, run: &'a str) -> impl Iterator<Item = &'a Call> {
        self.calls.iter().filter(move |call| call.run == run)
    }

    /// The first call for a tick, unless the tick's run was made by hand.
    pub fn call_of_tick(&self, tick: Timestamp) -> Option<&Call> {
        let row = self.row_of_tick(tick)?;
        self.calls_of(&row.id).find(|call| call.tick == tick)
    }

    /// When the start of a call was decided: as the server says, or when it arrived.
    pub fn decided_at(&self, call: &Call) -> Timestamp {
        let decided = self.row(&call.run).and_then(|row| row.decided_at(call.attempt));
        decided.unwrap_or(call.arrived).min(call.arrived)
    }

    /// Whether the server gave up the attempt of a call.
    pub fn is_lost(&self, call: &Call) -> bool {
        self.row(&call.run).is_some_and(|row| row.is_lost(call.attempt))
    }
}

pub struct Evidence {
    pub kind: StoreKind,
    pub jobs: Vec<JobEvidence>,
    pub strikes: Vec<Strike>,
    /// From the end of each fault until the steady jobs were called again.
    pub recoveries: Vec<Duration>,
    pub changes: Changes,
    /// Outages between faults that are known only from the changed id of a node.
    pub unexplained: Vec<Outage>,
}

impl Evidence {
    pub fn outages(&self) -> impl Iterator<Item = &Outage> {
        self.strikes.iter().flat_map(|strike| &strike.outages).chain(&self.unexplained)
    }
}

/// Violations by the name of the promise.
#[derive(Default)]
pub struct Violations(BTreeMap<&'static str, Vec<String>>);

impl Violations {
    pub fn add(&mut self, promise: &'static str, what: String) {
        self.0.entry(promise).or_default().push(what);
    }

    pub fn count(&self, promise: &str) -> usize {
        self.0.get(promise).map_or(0, Vec::len)
    }

    /// Every violation of these promises, at most twenty of each.
    pub fn of(&self, promises: &[&str]) -> Vec<String> {
        let broken = self.0.iter().filter(|(promise, _)| promises.contains(promise));
        let lines = broken.flat_map(|(promise, violations)| {
            violations.iter().take(20).map(move |what| format!("{promise}: {what}"))
        });
        lines.collect()
    }
}
