//! Short outputs that were returned lately: readable here before the record of their attempt is.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use domain::id::RunId;

use super::locked;

/// How many are remembered. Each is a few kilobytes at most.
const MANY: usize = 1_024;

/// Short outputs, by run and attempt.
#[derive(Default)]
pub(super) struct Recent(Mutex<State>);

#[derive(Default)]
struct State {
    frames: BTreeMap<(RunId, u32), Arc<[u8]>>,
    /// Oldest first; some may be gone.
    order: VecDeque<(RunId, u32)>,
}

impl Recent {
    pub fn put(&self, attempt: (RunId, u32), frames: &Arc<[u8]>) {
        let mut state = locked(&self.0);
        state.frames.insert(attempt, frames.clone());
        state.order.push_back(attempt);
        if state.order.len() > MANY
            && let Some(oldest) = state.order.pop_front()
        {
            state.frames.remove(&oldest);
        }
    }

    pub fn get(&self, attempt: (RunId, u32)) -> Option<Arc<[u8]>> {
        locked(&self.0).frames.get(&attempt).cloned()
    }

    pub fn attempts(&self, run: RunId) -> Vec<u32> {
        let state = locked(&self.0);
        state.frames.range((run, 0)..=(run, u32::MAX)).map(|((_, number), _)| *number).collect()
    }

    /// Forgets one attempt of a run, or all.
    pub fn forget(&self, run: RunId, attempt: Option<u32>) {
        let attempts = attempt.map_or_else(|| self.attempts(run), |attempt| vec![attempt]);
        let mut state = locked(&self.0);
        for attempt in attempts {
            state.frames.remove(&(run, attempt));
        }
    }
}
