//! The connections of a listener: their users, and which of them are evicted when the limit is
//! reached.
//!
//! An unauthenticated client is evicted when it is silent ([`PendingConnections`]). Of the user
//! with the most connections, if they are more than the user's share, the connection that has been
//! without a request for longest is evicted: so a user who opens all connections locks out neither
//! other users nor an administrator. Administrators of the cluster and agents are not evicted.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::access::{Actor, Privilege};
use domain::id::UserId;
use tokio::sync::Notify;

use crate::pending::{Pending, PendingConnections};

/// A user makes way who has more than this part of all places.
const SHARE: usize = 8;

/// The connections of a listener.
#[derive(Clone)]
pub(crate) struct Connections {
    pending: PendingConnections,
    known: Arc<Mutex<Known>>,
    places: usize,
}

/// The connections of users.
#[derive(Default)]
struct Known {
    next: u64,
    /// In the order of their last requests.
    by_user: HashMap<UserId, BTreeMap<u64, Arc<Notify>>>,
}

impl Known {
    fn add(&mut self, user: UserId, evict: Arc<Notify>) -> u64 {
        self.next += 1;
        self.by_user.entry(user).or_default().insert(self.next, evict);
        self.next
    }

    fn remove(&mut self, user: UserId, id: u64) -> Option<Arc<Notify>> {
        let own = self.by_user.get_mut(&user)?;
        let removed = own.remove(&id);
        if own.is_empty() {
            self.by_user.remove(&user);
        }
        removed
    }
}

/// One connection of a listener, shared by the requests that come on it.
#[derive(Clone)]
pub(crate) struct Connection(Arc<Shared>);

struct Shared {
    pending: Pending,
    is_known: AtomicBool,
    /// Its place among the connections of its user; none for a client that is not evicted.
    place: Mutex<Option<(UserId, u64)>>,
    known: Arc<Mutex<Known>>,
}

impl Connections {
    pub(crate) fn new(places: usize, pending: PendingConnections) -> Self {
        Connections { pending, known: Arc::default(), places }
    }

    /// A connection of a client that has not proved who it is.
    pub(crate) fn enter(&self, pending: Pending) -> Connection {
        Connection(Arc::new(Shared {
            pending,
            is_known: AtomicBool::new(false),
            place: Mutex::default(),
            known: Arc::clone(&self.known),
        }))
    }

    /// Ends a connection for a new one, if there is one that makes way.
    pub(crate) fn evict_one(&self) {
        if !self.pending.evict_one() {
            self.evict_known();
        }
    }

    fn evict_known(&self) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let most = known.by_user.iter().max_by_key(|(_, own)| own.len());
        let most = most.filter(|(_, own)| own.len() > self.places / SHARE);
        let Some((user, id)) = most.and_then(|(user, own)| Some((*user, *own.keys().next()?)))
        else {
            return false;
        };
        if let Some(evict) = known.remove(user, id) {
            evict.notify_one();
        }
        true
    }
}

impl Connection {
    /// Completes when the connection is evicted.
    pub(crate) async fn evicted(&self) {
        self.0.pending.evicted().await;
    }

    fn is_known(&self) -> bool {
        self.0.is_known.load(Ordering::Relaxed)
    }

    /// A request has come, or a part of one. One that is not complete proves nothing yet.
    pub(crate) fn receive(&self, is_complete: bool) {
        self.0.pending.leave();
        if !is_complete && !self.is_known() {
            self.0.pending.come_back();
        }
    }

    /// The client has its answer.
    pub(crate) fn end_request(&self) {
        if !self.is_known() {
            self.0.pending.come_back();
        }
    }

    /// The client of this connection is an agent.
    pub(crate) fn assign_to_agent(&self) {
        self.assign(None);
    }

    /// The client of this connection is this one.
    pub(crate) fn assign_to_actor(&self, actor: &Actor) {
        let is_administrator = actor.privileges.has(Privilege::AdministerCluster);
        self.assign((!is_administrator).then_some(actor.user));
    }

    fn assign(&self, user: Option<UserId>) {
        self.0.is_known.store(true, Ordering::Relaxed);
        self.0.pending.leave();
        let mut place = self.place();
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((user, id)) = place.take() {
            known.remove(user, id);
        }
        *place = user.map(|user| (user, known.add(user, self.0.pending.notice())));
    }

    fn place(&self) -> MutexGuard<'_, Option<(UserId, u64)>> {
        self.0.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let place = self.place.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((user, id)) = place {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(user, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use domain::access::Privileges;
    use uuid::Uuid;

    use super::*;

    async fn is_evicted(connection: &Connection) -> bool {
        tokio::select! {
            biased;
            () = connection.evicted() => true,
            () = std::future::ready(()) => false,
        }
    }

    fn user(number: u128) -> Actor {
        let user = UserId(Uuid::from_u128(number));
        Actor { user, privileges: Privileges::default(), ..Actor::admin() }
    }

    #[tokio::test]
    async fn the_user_with_the_most_connections_makes_way() {
        let pending = PendingConnections::new(16, 16);
        let all = Connections::new(16, pending.clone());
        let enter = |actor: &Actor| {
            let connection = all.enter(pending.enter(IpAddr::from([192, 0, 2, 1])).unwrap());
            connection.assign_to_actor(actor);
            connection
        };
        let administrator: Vec<Connection> = (0..9).map(|_| enter(&Actor::admin())).collect();
        let few = [enter(&user(1)), enter(&user(1))];
        assert!(!all.evict_known(), "two of sixteen is a share that each user may have");
        let many = [enter(&user(2)), enter(&user(2)), enter(&user(2))];
        // The next request of the first one makes the second one the oldest.
        many[0].assign_to_actor(&user(2));
        assert!(all.evict_known());
        assert!(is_evicted(&many[1]).await && !is_evicted(&many[0]).await);
        assert!(!all.evict_known(), "no user has more than their share any more");
        for connection in few.iter().chain(&administrator) {
            assert!(!is_evicted(connection).await);
        }
        drop((few, many, administrator));
        assert!(all.known.lock().unwrap().by_user.is_empty());
    }
}
