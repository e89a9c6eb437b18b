//! The way between machines and the store, with its faults and its witness.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use store::{Result, StoreError};

use crate::clock::VirtualClock;
use crate::event::SimEvent;
use crate::gate::Gate;
use crate::random::Random;
use crate::sabotage::Sabotage;

/// Looks at the clock that are remembered.
const LOOKS_MAX: usize = 12;

/// How often a call is disturbed, in a thousand times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// Parked before it reaches the store, and again before the reply arrives.
    pub park: u64,
    /// Fails before it reaches the store.
    pub fail: u64,
    /// Is committed, and the answer is lost.
    pub lose: u64,
}

/// The connection to the store that all machines of a world share.
pub struct StoreLink {
    /// The time.
    pub clock: VirtualClock,
    /// Where steps are parked.
    pub gate: Gate,
    /// A defect of the store, for tests of the invariants.
    pub sabotage: Option<Sabotage>,
    state: Mutex<LinkState>,
}

struct LinkState {
    random: Random,
    rates: Rates,
    events: Vec<SimEvent>,
    looks: BTreeMap<usize, Vec<Timestamp>>,
    lost_replies: u64,
}

impl StoreLink {
    /// A link with faults.
    pub fn new(
        clock: VirtualClock,
        random: Random,
        rates: Rates,
        sabotage: Option<Sabotage>,
    ) -> Self {
        let state = LinkState {
            random,
            rates,
            events: Vec::new(),
            looks: BTreeMap::new(),
            lost_replies: 0,
        };
        StoreLink { clock, gate: Gate::default(), sabotage, state: Mutex::new(state) }
    }

    /// From now on, calls are disturbed this often.
    pub fn set_rates(&self, rates: Rates) {
        self.state().rates = rates;
    }

    /// Takes the events since the last call.
    pub fn take_events(&self) -> Vec<SimEvent> {
        std::mem::take(&mut self.state().events)
    }

    /// Writes down what happened outside the store.
    pub fn saw(&self, event: SimEvent) {
        self.state().events.push(event);
    }

    /// How many answers were lost.
    pub fn lost_replies(&self) -> u64 {
        self.state().lost_replies
    }

    /// A machine looks at the store's clock.
    pub(crate) fn looked(&self, machine: usize, now: Timestamp) {
        let mut state = self.state();
        let looks = state.looks.entry(machine).or_default();
        looks.insert(0, now);
        looks.truncate(LOOKS_MAX);
    }

    /// The latest readings of the store's clock by a machine.
    pub(crate) fn looks(&self, machine: usize) -> Vec<Timestamp> {
        self.state().looks.get(&machine).cloned().unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn happens(&self, rate: impl Fn(&Rates) -> u64) -> bool {
        let mut state = self.state();
        let rate = rate(&state.rates);
        rate > 0 && state.random.below(1_000) < rate
    }

    /// On the way to the store.
    pub(crate) async fn there(&self) -> Result<()> {
        if self.happens(|rates| rates.park) {
            self.gate.park().await;
        }
        // No two calls share an instant.
        let us = self.state().random.between(1, 300);
        self.clock.advance(us);
        if self.happens(|rates| rates.fail) {
            return Err(StoreError::Unavailable("the call was lost".into()));
        }
        Ok(())
    }

    /// On the way back.
    pub(crate) async fn back<T>(&self, answer: Result<T>) -> Result<T> {
        if self.happens(|rates| rates.park) {
            self.gate.park().await;
        }
        if self.happens(|rates| rates.lose) {
            self.state().lost_replies += 1;
            return Err(StoreError::Unavailable("the answer was lost".into()));
        }
        answer
    }
}
