//! The invariants, one file each. An invariant sees every event when it happens, and the whole
//! ledger now and then.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use store::{DagRecords, Store};

use crate::event::SimEvent;
use crate::ledger::Ledger;
use crate::oracle::Oracle;
use crate::profile::Profile;

mod at_most_once;
mod attempts_bounded;
mod cancelled_stays_cancelled;
mod catch_up_counts;
mod changes_obeyed;
mod dag_runs;
mod every_run_ends;
mod fairness;
mod legal_transitions;
mod never_early;
mod no_double_record;
mod no_lost_tick;
mod no_stale_write;
mod one_leader;
mod one_owner;
mod overlap;
mod pool_bounded;
mod slots_bounded;
mod started_is_recorded;
mod tokens_grow;

/// How long before a start its decision may have been made: a look of 50 ms that counts for 50 ms,
/// and the calls in between.
const DECISION_AGE: SignedDuration = SignedDuration::from_millis(150);

/// Something that must not have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The name of the invariant.
    pub invariant: &'static str,
    /// The violation.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}

/// Whether an invariant holds, and what happened if it does not.
type Held = Result<(), String>;

trait Invariant {
    fn name(&self) -> &'static str;

    /// Looks at something that happened.
    fn see(&mut self, _event: &SimEvent, _oracle: &Oracle) -> Held {
        Ok(())
    }

    /// Looks at everything that is recorded. It is settled when all must have come to its end.
    fn check(&mut self, _ledger: &Ledger, _oracle: &Oracle, _settled: bool) -> Held {
        Ok(())
    }
}

/// All invariants, and the oracle that they ask.
pub struct Judge {
    oracle: Oracle,
    invariants: Vec<Box<dyn Invariant>>,
    retention: SignedDuration,
}

impl Judge {
    /// A judge for a world.
    pub fn new(profile: &Profile) -> Self {
        let days = i64::from(profile.settings.retention_days);
        Judge {
            oracle: Oracle::new(),
            invariants: vec![
                Box::<no_lost_tick::NoLostTick>::default(),
                Box::<no_double_record::NoDoubleRecord>::default(),
                Box::<no_stale_write::NoStaleWrite>::default(),
                Box::<one_leader::OneLeader>::default(),
                Box::<one_owner::OneOwner>::default(),
                Box::<legal_transitions::LegalTransitions>::default(),
                Box::<started_is_recorded::StartedIsRecorded>::default(),
                Box::<every_run_ends::EveryRunEnds>::default(),
                Box::<catch_up_counts::CatchUpCounts>::default(),
                Box::<overlap::Overlap>::default(),
                Box::<pool_bounded::PoolBounded>::default(),
                Box::<attempts_bounded::AttemptsBounded>::default(),
                Box::<at_most_once::AtMostOnce>::default(),
                Box::<changes_obeyed::ChangesObeyed>::default(),
                Box::<tokens_grow::TokensGrow>::default(),
                Box::<cancelled_stays_cancelled::CancelledStaysCancelled>::default(),
                Box::new(never_early::NeverEarly::new(profile)),
                Box::new(fairness::Fairness::new(profile)),
                Box::new(slots_bounded::SlotsBounded::new(profile)),
            ],
            // The pruner's clock may be an hour off, and so may be the clock of the node that
            // recorded the end.
            retention: SignedDuration::from_hours(24 * days - 3),
        }
    }

    /// Looks at something that happened.
    pub fn see(&mut self, event: &SimEvent) -> Result<(), Violation> {
        self.oracle.see(event);
        for invariant in &mut self.invariants {
            let invariant_name = invariant.name();
            invariant
                .see(event, &self.oracle)
                .map_err(|detail| Violation { invariant: invariant_name, detail })?;
        }
        Ok(())
    }

    /// Looks at everything that is recorded.
    pub async fn check<S: Store + DagRecords>(
        &mut self,
        store: &S,
        now: Timestamp,
        settled: bool,
    ) -> Result<(), Violation> {
        let unreadable = |error: store::StoreError| Violation {
            invariant: "readable",
            detail: error.to_string(),
        };
        let kept_since = now - self.retention;
        let ledger =
            Ledger::read(store, &self.oracle, now, kept_since).await.map_err(unreadable)?;
        dag_runs::check(store, &self.oracle, settled)
            .await
            .map_err(unreadable)?
            .map_err(|detail| Violation { invariant: "DAG runs", detail })?;
        for invariant in &mut self.invariants {
            let invariant_name = invariant.name();
            invariant
                .check(&ledger, &self.oracle, settled)
                .map_err(|detail| Violation { invariant: invariant_name, detail })?;
        }
        Ok(())
    }
}
