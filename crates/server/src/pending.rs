//! Connections of clients that have not proved who they are. They are limited by address as well as
//! in total, and a client that says nothing makes way for a new one: so a crowd of them costs
//! little, and keeps out at most clients of its own address.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::limit::neighbourhood;

/// A connection that has been silent for less than this is not evicted.
const GRACE: Duration = Duration::from_millis(500);

/// The connections of a listener that have not authenticated.
#[derive(Clone)]
pub struct PendingConnections {
    state: Arc<Mutex<State>>,
    max: usize,
    per_address: usize,
}

#[derive(Default)]
struct State {
    next: u64,
    /// In the order in which they last did something.
    by_age: BTreeMap<u64, Entry>,
    by_address: HashMap<IpAddr, usize>,
}

struct Entry {
    address: IpAddr,
    since: Instant,
    evict: Arc<Notify>,
}

impl State {
    fn add(&mut self, address: IpAddr, now: Instant, evict: Arc<Notify>) -> u64 {
        self.next += 1;
        self.by_age.insert(self.next, Entry { address, since: now, evict });
        *self.by_address.entry(address).or_default() += 1;
        self.next
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.by_age.remove(&id)?;
        if let Some(count) = self.by_address.get_mut(&entry.address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&entry.address);
            }
        }
        Some(entry)
    }

    /// Ends the connection that has been silent for longest, of an address if there is one;
    /// answers false if none has been silent for long.
    fn evict(&mut self, of: Option<IpAddr>, now: Instant) -> bool {
        let silent = |entry: &Entry| now.saturating_duration_since(entry.since) >= GRACE;
        let mut found = self.by_age.iter().take_while(|(_, entry)| silent(entry));
        let found = found.find(|(_, entry)| of.is_none_or(|address| entry.address == address));
        let Some(id) = found.map(|(id, _)| *id) else { return false };
        if let Some(entry) = self.remove(id) {
            entry.evict.notify_one();
        }
        true
    }

    /// The address with the most connections.
    fn busiest(&self) -> Option<IpAddr> {
        self.by_address.iter().max_by_key(|(_, count)| **count).map(|(address, _)| *address)
    }
}

/// A connection that is not authenticated, until this is dropped.
pub struct Pending {
    all: PendingConnections,
    address: IpAddr,
    evict: Arc<Notify>,
    /// None while it is answered.
    id: Mutex<Option<u64>>,
}

impl PendingConnections {
    /// No more than so many, and so many of an address.
    pub fn new(max: usize, per_address: usize) -> Self {
        let (max, per_address) = (max.max(1), per_address.max(1));
        PendingConnections { state: Arc::default(), max, per_address }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection in, or none if there are too many that are not silent.
    pub fn enter(&self, address: IpAddr) -> Option<Pending> {
        self.enter_at(address, Instant::now())
    }

    fn enter_at(&self, address: IpAddr, now: Instant) -> Option<Pending> {
        let address = neighbourhood(address);
        let mut state = self.state();
        if state.by_address.get(&address).is_some_and(|count| *count >= self.per_address)
            && !state.evict(Some(address), now)
        {
            return None;
        }
        if state.by_age.len() >= self.max {
            let busiest = state.busiest();
            if !state.evict(busiest, now) && !state.evict(None, now) {
                return None;
            }
        }
        let evict = Arc::new(Notify::new());
        let id = Mutex::new(Some(state.add(address, now, Arc::clone(&evict))));
        Some(Pending { all: self.clone(), address, evict, id })
    }

    /// Ends the connection that has been silent for longest, if there is one.
    pub(crate) fn evict_one(&self) -> bool {
        let mut state = self.state();
        let busiest = state.busiest();
        state.evict(busiest, Instant::now()) || state.evict(None, Instant::now())
    }
}

impl Pending {
    /// Completes when the connection is evicted.
    pub async fn evicted(&self) {
        self.evict.notified().await;
    }

    /// Notified when the connection is evicted.
    pub(crate) fn notice(&self) -> Arc<Notify> {
        Arc::clone(&self.evict)
    }

    fn id(&self) -> MutexGuard<'_, Option<u64>> {
        self.id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client has sent a request, or is authenticated: it is not evicted.
    pub(crate) fn leave(&self) {
        if let Some(id) = self.id().take() {
            self.all.state().remove(id);
        }
    }

    /// The client has its answer, and is as unknown as before.
    pub(crate) fn come_back(&self) {
        let mut own = self.id();
        if own.is_none() {
            let evict = Arc::clone(&self.evict);
            *own = Some(self.all.state().add(self.address, Instant::now(), evict));
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    async fn is_evicted(pending: &Pending) -> bool {
        tokio::select! {
            biased;
            () = pending.evicted() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn the_oldest_of_an_address_makes_way() {
        let (all, now) = (PendingConnections::new(4, 2), Instant::now());
        let one = all.enter_at(address(1), now).unwrap();
        let other = all.enter_at(address(2), now).unwrap();
        let two = all.enter_at(address(1), now).unwrap();
        assert!(all.enter_at(address(1), now).is_none(), "both have just come");
        let now = now + GRACE;
        let _three = all.enter_at(address(1), now).unwrap();
        assert!(is_evicted(&one).await && !is_evicted(&two).await && !is_evicted(&other).await);
        // A connection that is answered does not count, and is not evicted.
        two.leave();
        let _four = all.enter_at(address(1), now).unwrap();
        assert!(all.enter_at(address(1), now).is_none());
        assert!(!is_evicted(&two).await);
    }

    #[tokio::test]
    async fn all_together_the_address_with_the_most_makes_way() {
        let (all, now) = (PendingConnections::new(3, 2), Instant::now());
        let few = all.enter_at(address(1), now).unwrap();
        let many = [all.enter_at(address(2), now).unwrap(), all.enter_at(address(2), now).unwrap()];
        assert!(all.enter_at(address(3), now).is_none());
        let now = now + GRACE;
        let _new = all.enter_at(address(3), now).unwrap();
        assert!(is_evicted(&many[0]).await && !is_evicted(&few).await);
        drop((few, many));
        assert_eq!(all.state().by_address.len(), 1);
    }
}
