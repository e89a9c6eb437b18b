//! Denied requests, counted where they are too many for an audit row each.
//!
//! The first denied request of a kind by an actor is recorded before its response. Those of the
//! next minute are counted, and one row records their number afterwards. So a client that is denied
//! a thousand times a second writes two rows a minute.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::audit::Event;
use domain::id::TenantId;
use jiff::{SignedDuration, Timestamp};

use crate::error::Result;
use crate::node::Node;

/// How long refusals are counted.
const WINDOW: SignedDuration = SignedDuration::from_mins(1);

/// How many different refusals are counted apart; beyond that, all others are one.
const APART_MAX: usize = 4_096;

/// Tenant, actor and denied action.
type Key = (TenantId, String, String);

/// Denied requests of the current window.
#[derive(Default)]
pub(crate) struct DeniedRequests(Mutex<HashMap<Key, Counted>>);

struct Counted {
    first: Event,
    since: Timestamp,
    /// Those after the first.
    more: u64,
}

impl Counted {
    fn is_over(&self, now: Timestamp) -> bool {
        now.duration_since(self.since).abs() >= WINDOW
    }

    /// The row with their number after the first; none if that was all.
    fn told(&self) -> Option<Event> {
        let Counted { first, since, more } = self;
        let details = format!(r#"{{"more":{more},"since":"{since}","first":{}}}"#, first.details);
        (*more > 0).then(|| Event { details, ..first.clone() })
    }
}

impl DeniedRequests {
    fn all(&self) -> MutexGuard<'_, HashMap<Key, Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a refusal if it is not the first of its kind.
    fn counts(&self, event: &Event, deed: &str, now: Timestamp) -> bool {
        let mut all = self.all();
        let mut key = (event.tenant, event.actor.clone(), deed.to_owned());
        let mut first = event.clone();
        if all.len() >= APART_MAX && !all.contains_key(&key) {
            // A tenant must not read which actors these are.
            (first.tenant, first.actor) = (TenantId::CLUSTER, String::new());
            first.details = "{}".to_owned();
            key = (TenantId::CLUSTER, String::new(), String::new());
        }
        match all.get_mut(&key) {
            // Also when the window is over: the sealer writes the count soon, and begins another
            // one.
            Some(counted) => {
                counted.more += 1;
                true
            }
            None => {
                all.insert(key, Counted { first, since: now, more: 0 });
                false
            }
        }
    }

    /// Drops a first one that could not be recorded.
    fn forget(&self, event: &Event) {
        self.all().retain(|_, counted| counted.more > 0 || counted.first != *event);
    }

    /// Takes the counts of windows that are over, or all.
    fn take(&self, now: Option<Timestamp>) -> Vec<(Key, Counted)> {
        let is_over = |counted: &Counted| now.is_none_or(|now| counted.is_over(now));
        self.all().extract_if(|_, counted| is_over(counted)).collect()
    }

    /// Restores counts that could not be written.
    fn restore(&self, taken: Vec<(Key, Counted)>) {
        let mut all = self.all();
        for (key, counted) in taken {
            let more = all.get(&key).map_or(0, |newer| newer.more + 1);
            all.insert(key, Counted { more: counted.more + more, ..counted });
        }
    }
}

impl Node {
    /// Records a denied request, now or counted with others a minute later.
    pub async fn refused(&self, event: Event, deed: &str) -> Result<()> {
        if self.refusals.counts(&event, deed, self.parts.now()) {
            return Ok(());
        }
        let recorded = self.store.record(std::slice::from_ref(&event)).await;
        if recorded.is_err() {
            self.refusals.forget(&event);
        }
        Ok(recorded?)
    }

    /// Records how many requests were denied in the minutes that are over; at the end of a
    /// process, in the present one too.
    pub(crate) async fn tell_refusals(&self, is_end: bool) -> store::Result<()> {
        let taken = self.refusals.take((!is_end).then(|| self.parts.now()));
        let events: Vec<Event> = taken.iter().filter_map(|(_, counted)| counted.told()).collect();
        if events.is_empty() {
            return Ok(());
        }
        let told = self.store.record(&events).await;
        if told.is_err() {
            self.refusals.restore(taken);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use domain::audit::Kind;

    use super::*;

    fn event(actor: &str) -> Event {
        Event {
            tenant: TenantId::DEFAULT,
            actor: actor.to_owned(),
            kind: Kind::Denied,
            job: None,
            run: None,
            outcome: "DENIED".to_owned(),
            details: "{}".to_owned(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn the_first_is_told_at_once_and_the_others_together() {
        let refusals = DeniedRequests::default();
        assert!(!refusals.counts(&event("ann"), "GET /v1/nodes", at(0)));
        for second in 0..50 {
            assert!(refusals.counts(&event("ann"), "GET /v1/nodes", at(second)));
        }
        assert!(!refusals.counts(&event("ann"), "GET /v1/stats", at(0)));
        assert!(!refusals.counts(&event("bob"), "GET /v1/nodes", at(30)));
        assert_eq!(refusals.take(Some(at(59))).len(), 0);
        let told: Vec<String> = refusals
            .take(Some(at(60)))
            .iter()
            .filter_map(|(_, counted)| counted.told())
            .map(|event| format!("{} {}", event.actor, event.details))
            .collect();
        assert_eq!(told, [r#"ann {"more":50,"since":"2027-01-15T08:00:00Z","first":{}}"#]);
        // Another minute begins.
        assert!(!refusals.counts(&event("ann"), "GET /v1/nodes", at(61)));
        // At the end, nothing is left untold.
        assert!(refusals.counts(&event("ann"), "GET /v1/nodes", at(62)));
        assert_eq!(refusals.take(None).iter().filter_map(|(_, it)| it.told()).count(), 1);
    }

    #[test]
    fn what_cannot_be_told_is_told_later() {
        let refusals = DeniedRequests::default();
        let counts = |second| refusals.counts(&event("ann"), "GET /v1/nodes", at(second));
        assert_eq!([counts(0), counts(1), counts(2)], [false, true, true]);
        let taken = refusals.take(Some(at(60)));
        assert_eq!([counts(61), counts(62)], [false, true]);
        refusals.restore(taken);
        let taken = refusals.take(Some(at(120)));
        assert_eq!(taken.iter().map(|(_, counted)| counted.more).collect::<Vec<_>>(), [4]);
        refusals.counts(&event("bob"), "GET /v1/nodes", at(0));
        refusals.forget(&event("bob"));
        assert!(!refusals.counts(&event("bob"), "GET /v1/nodes", at(0)));
    }

    #[test]
    fn names_without_number_find_a_memory_with_an_end() {
        let refusals = DeniedRequests::default();
        let mut rows = 0;
        for n in 0..3 * APART_MAX {
            rows += usize::from(!refusals.counts(&event(&format!("user {n}")), "x", at(0)));
        }
        assert_eq!(rows, APART_MAX + 1);
        assert!(refusals.all().len() <= APART_MAX + 1);
    }
}
