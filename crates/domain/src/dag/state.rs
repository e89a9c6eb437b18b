//! The state of a DAG run, and which steps an end releases or skips.
//!
//! ```text
//!   records ──load──▶ DagState ◀──end(step, outcome)── a run of a step ended
//!                        │
//!                     decide ──▶ Changes: ended and skipped steps, expanded fan-outs,
//!                                released steps with their resolved inputs
//! ```
//!
//! The state follows from the definition and the records alone: the same records give the same
//! decisions on every node, in every order of the ends. A step without a record is pending.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::call::StepCall;
use super::graph::{Finally, Graph};
use super::rule::Tally;
use super::{Dag, OnStepFailure};
use crate::id::RunId;
use crate::run::{Outcome, Reason, ReasonCode};

mod decide;
mod outcome;

#[cfg(test)]
mod tests;

pub use decide::resolve;
pub use outcome::{StepCounts, dag_outcome};

/// A step of a DAG run, or one item of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepKey {
    /// The number of the step.
    pub step: u32,
    /// The position of the item, from 0; none for the step as a whole.
    pub item: Option<u32>,
}

impl StepKey {
    /// A step as a whole.
    pub fn of_step(step: u32) -> Self {
        StepKey { step, item: None }
    }
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepState {
    /// Its parents have not ended.
    Pending,
    /// It can start: `max_parallel` or a hold keeps it back.
    Ready,
    /// Its run has not ended; of a fan-out, that of an item.
    Open,
    /// It ended.
    Ended(Outcome),
}

impl std::fmt::Display for StepState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StepState::Pending => f.write_str("PENDING"),
            StepState::Ready => f.write_str("READY"),
            StepState::Open => f.write_str("OPEN"),
            StepState::Ended(outcome) => outcome.fmt(f),
        }
    }
}

/// Record of a step that was released, skipped or expanded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The step.
    pub key: StepKey,
    /// Its outcome; none while it is open.
    pub outcome: Option<Outcome>,
    /// Why it was skipped, failed without a run, or was marked.
    pub reason: Option<Reason>,
    /// The run that executes it; none if it has none. An adopted step has that of an earlier DAG
    /// run.
    pub run: Option<RunId>,
    /// The number of its items, if it is a fan-out.
    pub items: Option<u32>,
    /// The step whose end decided it; none if it was decided at the start of the run.
    pub decided_by: Option<StepKey>,
    /// When it was decided.
    pub decided_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Whether it was adopted from the run that this one repeats.
    pub is_adopted: bool,
}

/// State of a DAG run apart from its steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[repr(u8)]
pub enum Control {
    /// Steps start when their rules let them.
    #[default]
    Running = 1,
    /// No further step starts until a user resumes or cancels the run.
    Held = 2,
    /// A step failed: no further step starts, and those that execute are cancelled.
    Stopping = 3,
    /// A user cancelled the run.
    Cancelling = 4,
}

impl Control {
    /// The control with a stored number.
    pub fn from_number(number: i64) -> Option<Self> {
        [Control::Running, Control::Held, Control::Stopping, Control::Cancelling]
            .into_iter()
            .find(|control| *control as i64 == number)
    }

    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            Control::Running => "RUNNING",
            Control::Held => "HELD",
            Control::Stopping => "STOPPING",
            Control::Cancelling => "CANCELLING",
        }
    }
}

/// The values that inputs of steps are resolved from.
pub struct Inputs<'a> {
    /// The id of the DAG run.
    pub run: RunId,
    /// The name of the DAG.
    pub dag: &'a str,
    /// The scheduled time of the DAG run.
    pub scheduled_for: Timestamp,
    /// The time zone of its schedule.
    pub zone: TimeZone,
    /// Its parameters.
    pub params: &'a Map<String, Value>,
    /// Results of steps, as far as they were loaded.
    pub results: &'a HashMap<StepKey, StepResult>,
}

/// The result of a step: null if it has none; that of a fan-out is the list of its items' results.
/// Or why no step can read it.
pub type StepResult = Result<Value, String>;

/// A step that starts.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleasedStep {
    /// The step.
    pub key: StepKey,
    /// Its resolved inputs.
    pub call: StepCall,
    /// The step whose end released it.
    pub by: Option<StepKey>,
}

/// A step that has ended, with or without a run.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedStep {
    /// The step.
    pub key: StepKey,
    /// Its outcome.
    pub outcome: Outcome,
    /// The reason, if it had no run or another outcome than its run.
    pub reason: Option<Reason>,
    /// The step whose end decided it, if it did not run.
    pub by: Option<StepKey>,
}

/// Changes to be recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Fan-outs that were expanded, with the number of their items and the step that decided it.
    pub expanded: Vec<(u32, u32, Option<StepKey>)>,
    /// Steps that ended.
    pub ended: Vec<EndedStep>,
    /// Steps that start.
    pub released: Vec<ReleasedStep>,
    /// Whether the runs of the open steps are to be cancelled.
    pub cancel_open: bool,
}

impl Changes {
    /// Whether there is nothing to record.
    pub fn is_empty(&self) -> bool {
        self.expanded.is_empty() && self.ended.is_empty() && self.released.is_empty()
    }
}

#[derive(Clone, Debug)]
struct Slot {
    state: StepState,
    /// The outcomes of its parents, without the one whose items it follows.
    tally: Tally,
    /// The states of its items, once it was expanded.
    items: Option<Vec<StepState>>,
    /// Items that have not ended.
    items_left: u32,
    /// Items that execute.
    items_open: u32,
    items_succeeded: u32,
}

/// The state of a DAG run.
#[derive(Clone, Debug)]
pub struct DagState {
    control: Control,
    slots: Vec<Slot>,
    /// Steps that run although their rule would skip them.
    forced: HashSet<u32>,
    /// Runs that have not ended.
    executing: u32,
    /// Steps without an outcome, handlers of the DAG not counted.
    left: u32,
    hard_failures: u32,
    judge: VecDeque<(StepKey, Option<StepKey>)>,
    ready: BTreeMap<StepKey, Option<StepKey>>,
    changes: Changes,
}

impl DagState {
    /// The state that follows from records.
    pub fn load<'r>(
        graph: &Graph,
        dag: &Dag,
        control: Control,
        forced: impl IntoIterator<Item = u32>,
        records: impl IntoIterator<Item = &'r StepRecord>,
    ) -> Self {
        let slot = |step: &super::GraphStep| Slot {
            state: StepState::Pending,
            tally: Tally::of_parents(step.parents.len() - usize::from(step.along.is_some())),
            items: None,
            items_left: 0,
            items_open: 0,
            items_succeeded: 0,
        };
        let mut state = DagState {
            control,
            slots: graph.steps().iter().map(slot).collect(),
            forced: forced.into_iter().collect(),
            executing: 0,
            left: graph.steps().iter().filter(|step| step.finally.is_none()).count() as u32,
            hard_failures: 0,
            judge: VecDeque::new(),
            ready: BTreeMap::new(),
            changes: Changes::default(),
        };
        let mut items = Vec::new();
        for record in records {
            if record.key.step as usize >= state.slots.len() {
                continue;
            }
            match record.key.item {
                Some(_) => items.push((record.key, record.outcome)),
                None => {
                    if let Some(count) = record.items {
                        state.set_items(record.key.step, count);
                    }
                    match record.outcome {
                        None if record.items.is_none() => {
                            state.set(record.key, StepState::Open);
                        }
                        None => {}
                        Some(outcome) => state.set_ended(graph, record.key, outcome),
                    }
                }
            }
        }
        for (key, outcome) in items {
            match outcome {
                None => state.set(key, StepState::Open),
                Some(outcome) => state.set_ended(graph, key, outcome),
            }
        }
        // Decisions that follow from the records and are not recorded are made anew.
        state.changes = Changes::default();
        state.judge.clear();
        for step in 0..state.slots.len() as u32 {
            if !matches!(state.slots[step as usize].state, StepState::Ended(_)) {
                state.judge.push_back((StepKey::of_step(step), None));
            }
        }
        if state.hard_failures > 0
            && state.control == Control::Running
            && dag.on_step_failure == OnStepFailure::Stop
        {
            state.control = Control::Stopping;
        }
        state
    }

    /// State of the run apart from its steps.
    pub fn control(&self) -> Control {
        self.control
    }

    /// Changes the state of the run; everything is judged again.
    pub fn set_control(&mut self, control: Control) {
        self.control = control;
        if matches!(control, Control::Stopping | Control::Cancelling) {
            self.changes.cancel_open = true;
        }
        for step in 0..self.slots.len() as u32 {
            self.judge.push_back((StepKey::of_step(step), None));
        }
    }

    /// Whether a cancellation kept a step from its end. One that came too late for every step
    /// changes nothing: the outcomes of the steps count.
    pub fn is_cancelled(&self) -> bool {
        let is_cancelled = |slot: &Slot| slot.state == StepState::Ended(Outcome::Cancelled);
        self.control == Control::Cancelling && self.slots.iter().any(is_cancelled)
    }

    /// The state of a step or an item.
    pub fn state(&self, key: StepKey) -> StepState {
        let Some(slot) = self.slots.get(key.step as usize) else { return StepState::Pending };
        match (key.item, &slot.items) {
            (None, _) => slot.state,
            (Some(item), Some(items)) => {
                items.get(item as usize).copied().unwrap_or(StepState::Pending)
            }
            (Some(_), None) => StepState::Pending,
        }
    }

    /// Whether the DAG run has such a step or item.
    pub fn has(&self, key: StepKey) -> bool {
        let Some(slot) = self.slots.get(key.step as usize) else { return false };
        let items = slot.items.as_ref().map_or(0, Vec::len);
        key.item.is_none_or(|item| (item as usize) < items)
    }

    /// The outcomes of the parents of a step.
    pub fn tally(&self, graph: &Graph, step: u32) -> Tally {
        let mut tally = self.slots[step as usize].tally;
        if let Some(along) = graph.step(step).along {
            tally.pending += 1;
            if let StepState::Ended(outcome) = self.slots[along as usize].state {
                tally.count(outcome, graph.is_tolerated(along, step));
            }
        }
        tally
    }

    /// The number of items of a fan-out, once it was expanded.
    pub fn items(&self, step: u32) -> Option<u32> {
        self.slots[step as usize].items.as_ref().map(|items| items.len() as u32)
    }

    /// The number of runs that have not ended.
    pub fn executing(&self) -> u32 {
        self.executing
    }

    /// Whether every step has an outcome.
    pub fn is_over(&self) -> bool {
        self.left == 0
            && self.executing == 0
            && self.slots.iter().all(|slot| matches!(slot.state, StepState::Ended(_)))
    }

    /// The keys of the steps and items whose runs have not ended.
    pub fn open(&self) -> Vec<StepKey> {
        let mut open = Vec::new();
        for (step, slot) in self.slots.iter().enumerate() {
            let step = step as u32;
            match &slot.items {
                None if slot.state == StepState::Open => open.push(StepKey::of_step(step)),
                None => {}
                Some(items) => open.extend(
                    items
                        .iter()
                        .enumerate()
                        .filter(|(_, state)| **state == StepState::Open)
                        .map(|(item, _)| StepKey { step, item: Some(item as u32) }),
                ),
            }
        }
        open
    }

    /// Records the end of an open step or item. Returns false if it was not open.
    pub fn end(
        &mut self,
        graph: &Graph,
        dag: &Dag,
        key: StepKey,
        outcome: Outcome,
        reason: Option<Reason>,
    ) -> bool {
        if self.state(key) != StepState::Open
            || key.item.is_none() && self.items(key.step).is_some()
        {
            return false;
        }
        self.finish(graph, dag, key, outcome, reason, None);
        true
    }

    /// Gives a step another outcome than its run has or will have, or one before it ran. Answers
    /// false if it has ended, does not exist, or has items: those are marked one by one.
    pub fn mark(
        &mut self,
        graph: &Graph,
        dag: &Dag,
        key: StepKey,
        outcome: Outcome,
        reason: Reason,
    ) -> bool {
        let has_items = key.item.is_none() && self.has(key) && self.items(key.step).is_some();
        if !self.has(key) || has_items || matches!(self.state(key), StepState::Ended(_)) {
            return false;
        }
        self.ready.remove(&key);
        self.finish(graph, dag, key, outcome, Some(reason), None);
        true
    }

    /// Sets the state of a step or item. One that does not exist is left out, so that a record of
    /// it cannot change the counts.
    fn set(&mut self, key: StepKey, state: StepState) {
        if !self.has(key) {
            return;
        }
        let was = self.state(key);
        let slot = &mut self.slots[key.step as usize];
        let is_run = key.item.is_some() || slot.items.is_none();
        match (key.item, &mut slot.items) {
            (None, _) => slot.state = state,
            (Some(item), Some(items)) => {
                if let Some(place) = items.get_mut(item as usize) {
                    *place = state;
                }
            }
            (Some(_), None) => return,
        }
        let opens = u32::from(state == StepState::Open);
        let closes = u32::from(was == StepState::Open);
        if is_run {
            self.executing = (self.executing + opens).saturating_sub(closes);
        }
        if key.item.is_some() {
            let slot = &mut self.slots[key.step as usize];
            slot.items_open = (slot.items_open + opens).saturating_sub(closes);
        }
    }

    fn set_items(&mut self, step: u32, count: u32) {
        let slot = &mut self.slots[step as usize];
        slot.items = Some(vec![StepState::Pending; count as usize]);
        slot.items_left = count;
        slot.state = StepState::Open;
    }

    /// Sets an outcome and counts it where it matters.
    fn set_ended(&mut self, graph: &Graph, key: StepKey, outcome: Outcome) {
        if !self.has(key) || matches!(self.state(key), StepState::Ended(_)) {
            return;
        }
        self.set(key, StepState::Ended(outcome));
        let step = graph.step(key.step);
        if let Some(item) = key.item {
            let slot = &mut self.slots[key.step as usize];
            slot.items_left = slot.items_left.saturating_sub(1);
            slot.items_succeeded += u32::from(outcome == Outcome::Completed);
            for follower in &step.followers {
                self.judge.push_front((StepKey { step: *follower, item: Some(item) }, Some(key)));
            }
            return;
        }
        if step.finally.is_none() {
            self.left = self.left.saturating_sub(1);
        }
        if is_bad(outcome) && !step.step.allow_failure {
            self.hard_failures += 1;
        }
        for child in &step.children {
            if graph.step(*child).along != Some(key.step) {
                let is_tolerated = graph.is_tolerated(key.step, *child);
                self.slots[*child as usize].tally.count(outcome, is_tolerated);
            }
            // Before the steps that a load queues: the end that decides is recorded with the step.
            self.judge.push_front((StepKey::of_step(*child), Some(key)));
        }
        if self.left == 0 {
            let last = graph.steps().iter().enumerate().filter(|(_, step)| step.finally.is_some());
            for (handler, _) in last {
                self.judge.push_front((StepKey::of_step(handler as u32), Some(key)));
            }
        }
    }

    /// Ends a step and records it; the policy of the DAG answers a failure.
    fn finish(
        &mut self,
        graph: &Graph,
        dag: &Dag,
        key: StepKey,
        outcome: Outcome,
        reason: Option<Reason>,
        by: Option<StepKey>,
    ) {
        let failures = self.hard_failures;
        self.set_ended(graph, key, outcome);
        self.changes.ended.push(EndedStep { key, outcome, reason, by });
        if key.item.is_some() {
            self.finish_items(graph, dag, key);
        }
        if self.hard_failures > failures && self.control == Control::Running {
            match dag.on_step_failure {
                OnStepFailure::Continue => {}
                OnStepFailure::Stop => self.set_control(Control::Stopping),
                OnStepFailure::Hold => self.control = Control::Held,
            }
        }
    }

    /// Ends a fan-out whose last item has ended.
    fn finish_items(&mut self, graph: &Graph, dag: &Dag, last: StepKey) {
        let slot = &self.slots[last.step as usize];
        let Some(items) = &slot.items else { return };
        if slot.items_left > 0 || matches!(slot.state, StepState::Ended(_)) {
            return;
        }
        let count = items.len() as u32;
        let each = graph.step(last.step).step.for_each.as_ref();
        let needed = each.and_then(|each| each.min_success).map_or(count, |least| least.of(count));
        let succeeded = slot.items_succeeded;
        let all = |outcome: Outcome| items.iter().all(|state| *state == StepState::Ended(outcome));
        let is_cancelled = items.contains(&StepState::Ended(Outcome::Cancelled));
        let text = format!("{succeeded} of {count} items completed, {needed} are needed");
        let (outcome, reason) = if succeeded >= needed {
            (Outcome::Completed, None)
        } else if all(Outcome::Skipped) {
            (Outcome::Skipped, Some(Reason { code: ReasonCode::TriggerRule, text }))
        } else if self.control == Control::Cancelling && is_cancelled {
            (Outcome::Cancelled, Some(Reason { code: ReasonCode::CancelRequested, text }))
        } else {
            (Outcome::Failed, Some(Reason { code: ReasonCode::PartsFailed, text }))
        };
        self.finish(graph, dag, StepKey::of_step(last.step), outcome, reason, Some(last));
    }

    /// Whether a handler of the DAG runs after these outcomes.
    fn is_wanted(&self, finally: Finally) -> bool {
        let failed = self.hard_failures > 0 || self.is_cancelled();
        match finally {
            Finally::OnFailure => failed,
            Finally::OnSuccess => !failed,
        }
    }
}

/// Whether an outcome keeps a DAG run from completing.
pub fn is_bad(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::Completed | Outcome::Skipped)
}
