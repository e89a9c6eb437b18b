//! Critical paths: the steps that a DAG run could not have ended without.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::graph::Graph;
use super::state::{StepKey, StepRecord};

/// A step of a critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStep {
    /// The step.
    pub key: StepKey,
    /// When it was released.
    pub from: Timestamp,
    /// When it ended; none if it has not.
    pub until: Option<Timestamp>,
}

/// The critical path of a run, in the order of time: from the last end back to the step that
/// released each step.
pub fn critical_path(records: &[StepRecord]) -> Vec<PathStep> {
    let by_key: std::collections::HashMap<StepKey, &StepRecord> =
        records.iter().map(|record| (record.key, record)).collect();
    let ran = |record: &&StepRecord| record.run.is_some() && !record.is_adopted;
    let last = records.iter().filter(ran).max_by_key(|record| {
        (record.ended_at.unwrap_or(Timestamp::MAX), std::cmp::Reverse(record.key))
    });
    let mut path = Vec::new();
    let mut at = last;
    while let Some(record) = at {
        if record.is_adopted {
            break;
        }
        // A fan-out ends with the last of its items.
        let items = records.iter().filter(|it| {
            record.items.is_some() && it.key.step == record.key.step && it.key.item.is_some()
        });
        let item = items.filter(ran).max_by_key(|it| it.ended_at.unwrap_or(Timestamp::MAX));
        let ended = item.unwrap_or(record);
        if ended.run.is_some() {
            path.push(PathStep { key: ended.key, from: ended.decided_at, until: ended.ended_at });
        }
        // A way back cannot be longer than there are records.
        if path.len() > records.len() {
            break;
        }
        let by = ended.decided_by.filter(|by| by.step != record.key.step).or(record.decided_by);
        at = by.and_then(|by| by_key.get(&by).copied());
    }
    path.reverse();
    path
}

/// The longest way through a DAG if each step takes so long: its steps and its length.
pub fn estimate(
    graph: &Graph,
    duration: impl Fn(u32) -> SignedDuration,
) -> (Vec<u32>, SignedDuration) {
    let mut order: Vec<u32> = (0..graph.len() as u32).collect();
    order.sort_by_key(|step| graph.step(*step).level);
    let mut ends: Vec<SignedDuration> = vec![SignedDuration::ZERO; graph.len()];
    let mut from: Vec<Option<u32>> = vec![None; graph.len()];
    let mut last = None;
    for step in order.into_iter().filter(|step| graph.step(*step).finally.is_none()) {
        let parents = graph.step(step).parents.iter().copied();
        let slowest = parents.max_by_key(|parent| (ends[*parent as usize], u32::MAX - *parent));
        let begins = slowest.map_or(SignedDuration::ZERO, |parent| ends[parent as usize]);
        from[step as usize] = slowest;
        ends[step as usize] = begins.saturating_add(duration(step));
        if last.is_none_or(|last: u32| ends[last as usize] < ends[step as usize]) {
            last = Some(step);
        }
    }
    let length = last.map_or(SignedDuration::ZERO, |last| ends[last as usize]);
    let mut path = Vec::new();
    let mut at = last;
    while let Some(step) = at {
        path.push(step);
        at = from[step as usize];
    }
    path.reverse();
    (path, length)
}

/// How long a DAG run takes if each step takes so long and so many execute at the same time: steps
/// start in the order in which they become ready, those that become ready together by number.
pub fn makespan(
    graph: &Graph,
    duration: impl Fn(u32) -> SignedDuration,
    slots: u32,
) -> SignedDuration {
    let is_counted = |step: u32| graph.step(step).finally.is_none();
    let mut pending: Vec<usize> = graph.steps().iter().map(|step| step.parents.len()).collect();
    let mut ready: BTreeSet<(SignedDuration, u32)> = (0..graph.len() as u32)
        .filter(|step| is_counted(*step) && pending[*step as usize] == 0)
        .map(|step| (SignedDuration::ZERO, step))
        .collect();
    let mut executing: BTreeSet<(SignedDuration, u32)> = BTreeSet::new();
    let mut now = SignedDuration::ZERO;
    loop {
        while executing.len() < slots.max(1) as usize {
            let Some((_, step)) = ready.pop_first() else { break };
            executing.insert((now.saturating_add(duration(step)), step));
        }
        let Some((end, step)) = executing.pop_first() else { return now };
        now = end;
        for child in graph.step(step).children.iter().filter(|child| is_counted(**child)) {
            let left = &mut pending[*child as usize];
            *left -= 1;
            if *left == 0 {
                ready.insert((now, *child));
            }
        }
    }
}
