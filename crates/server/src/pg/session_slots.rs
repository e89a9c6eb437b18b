//! How many sessions there may be: of a user, of a tenant, and all together, with some places that
//! only administrators of the cluster are given.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use domain::access::Actor;
use domain::id::{TenantId, UserId};

use super::report::{self, Report};
use crate::queries::is_administrator;

/// How many sessions there may be.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// All together.
    pub connections_max: usize,
    /// Slots of these that only administrators of the cluster are given.
    pub reserved: usize,
    /// Of a user.
    pub per_user: usize,
    /// Of a tenant.
    pub per_tenant: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        SessionLimits { connections_max: 256, reserved: 8, per_user: 64, per_tenant: 128 }
    }
}

#[derive(Default)]
struct Counts {
    all: usize,
    users: HashMap<UserId, usize>,
    tenants: HashMap<TenantId, usize>,
}

/// The slots for sessions.
#[derive(Clone)]
pub(crate) struct SessionSlots {
    limits: SessionLimits,
    counts: Arc<Mutex<Counts>>,
}

/// The slot of a session, until this is dropped.
pub(crate) struct SessionSlot {
    counts: Arc<Mutex<Counts>>,
    user: UserId,
    tenant: TenantId,
}

impl SessionSlots {
    pub(crate) fn new(limits: SessionLimits) -> Self {
        SessionSlots { limits, counts: Arc::default() }
    }

    /// A place for a session of an actor.
    pub(crate) fn take(&self, actor: &Actor) -> Result<SessionSlot, Report> {
        let SessionLimits { connections_max, reserved, per_user, per_tenant } = self.limits;
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |text: String| Err(Report::new(report::TOO_MANY, text));
        let close = "close sessions that are not needed, or let the administrator raise it";
        let count = |of: Option<&usize>| of.copied().unwrap_or(0);
        if is_administrator(actor) {
            if counts.all >= connections_max {
                return full(format!(
                    "too many sessions (sql.connections_max = {connections_max})"
                ));
            }
        } else if count(counts.users.get(&actor.user)) >= per_user {
            let text =
                format!("too many sessions of this user (sql.sessions_per_user = {per_user})");
            return full(text).map_err(|report| report.hint(close));
        } else if count(counts.tenants.get(&actor.tenant)) >= per_tenant {
            let text = format!(
                "too many sessions of this tenant (sql.sessions_per_tenant = {per_tenant})"
            );
            return full(text).map_err(|report| report.hint(close));
        } else if counts.all + reserved >= connections_max {
            return full(format!(
                "too many sessions (sql.connections_max = {connections_max}, \
                 of which {reserved} are reserved for administrators)"
            ));
        }
        counts.all += 1;
        *counts.users.entry(actor.user).or_default() += 1;
        *counts.tenants.entry(actor.tenant).or_default() += 1;
        let (user, tenant) = (actor.user, actor.tenant);
        Ok(SessionSlot { counts: Arc::clone(&self.counts), user, tenant })
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all -= 1;
        less(&mut counts.users, &self.user);
        less(&mut counts.tenants, &self.tenant);
    }
}

fn less<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::access::Privileges;
    use uuid::Uuid;

    use super::*;

    fn user(user: u128, tenant: u128) -> Actor {
        Actor {
            user: UserId(Uuid::from_u128(user)),
            tenant: TenantId(Uuid::from_u128(tenant)),
            privileges: Privileges::default(),
            ..Actor::admin()
        }
    }

    #[test]
    fn places_are_limited_by_user_by_tenant_and_in_all() {
        let limits = SessionLimits { connections_max: 6, reserved: 1, per_user: 2, per_tenant: 3 };
        let session_slots = SessionSlots::new(limits);
        let mut taken = Vec::new();
        // The actor of the session, and the setting that refuses it.
        for (actor, refused) in [
            (user(1, 1), None),
            (user(1, 1), None),
            (user(1, 1), Some("sql.sessions_per_user = 2")),
            (user(2, 1), None),
            (user(2, 1), Some("sql.sessions_per_tenant = 3")),
            (user(3, 2), None),
            (user(4, 2), None),
            (user(5, 3), Some("1 are reserved for administrators")),
            (Actor::admin(), None),
            (Actor::admin(), Some("sql.connections_max = 6")),
        ] {
            match (session_slots.take(&actor), refused) {
                (Ok(place), None) => taken.push(place),
                (Err(report), Some(setting)) => {
                    assert_eq!(report.sqlstate, "53300");
                    assert!(report.message.contains(setting), "{report:?}");
                }
                (answer, _) => panic!("{actor:?}: {:?}", answer.err()),
            }
        }
        taken.clear();
        assert!(session_slots.take(&user(1, 1)).is_ok());
        let counts = session_slots.counts.lock().unwrap();
        assert_eq!((counts.all, counts.users.len(), counts.tenants.len()), (0, 0, 0));
    }
}
