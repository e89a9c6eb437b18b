//! Re-runs: which steps of a DAG run execute again, and which are adopted from it.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::call::definition_hash;
use super::graph::Graph;
use super::state::{StepKey, StepRecord, is_bad};
use crate::run::Outcome;

/// Where a re-run begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RerunFrom {
    /// At the steps that did not complete, and everything reachable from them.
    #[default]
    Failed,
    /// At a step, and everything reachable from it.
    Step(String),
    /// At the beginning.
    All,
}

/// The version of the DAG that a re-run follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RerunVersion {
    /// That of the run that is repeated.
    #[default]
    Same,
    /// The present one. Steps match by name; one with another definition runs again.
    Latest,
}

/// A request to run a DAG run again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rerun {
    /// Where it begins.
    pub from: RerunFrom,
    /// The version that it follows.
    pub version: RerunVersion,
    /// Steps that run although their rule would skip them, by name.
    pub force: Vec<String>,
}

/// Steps of a re-run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RerunPlan {
    /// Steps that execute again, by number in the followed version.
    pub again: Vec<u32>,
    /// Records that are adopted, under their keys in the followed version.
    pub adopted: Vec<StepRecord>,
    /// Names of steps that the followed version does not have.
    pub removed: Vec<String>,
    /// Steps that run although their rule would skip them.
    pub forced: Vec<u32>,
}

/// Plans a re-run of a run with these records, which followed `old`, by the version `new`.
pub fn plan(
    old: &Graph,
    new: &Graph,
    records: &[StepRecord],
    rerun: &Rerun,
) -> Result<RerunPlan, String> {
    let find = |name: &String| new.find(name).ok_or_else(|| format!("there is no step {name:?}"));
    let mut steps: Vec<Option<&StepRecord>> = vec![None; old.len()];
    let mut items: Vec<Vec<&StepRecord>> = vec![Vec::new(); old.len()];
    for record in records.iter().filter(|record| (record.key.step as usize) < old.len()) {
        match record.key.item {
            None => steps[record.key.step as usize] = Some(record),
            Some(_) => items[record.key.step as usize].push(record),
        }
    }
    let forced = rerun.force.iter().map(find).collect::<Result<Vec<u32>, String>>()?;
    let mut first = forced.clone();
    for number in 0..new.len() as u32 {
        let step = new.step(number);
        let before = old.find(&step.step.name);
        let outcome = before.and_then(|before| steps[before as usize]).and_then(|it| it.outcome);
        let is_changed = before.is_none_or(|before| {
            definition_hash(&old.step(before).step) != definition_hash(&step.step)
        });
        // A handler of the whole DAG follows from the outcomes of this run.
        let is_first = match &rerun.from {
            RerunFrom::All => true,
            RerunFrom::Failed => outcome.is_none_or(is_bad),
            RerunFrom::Step(name) => *name == step.step.name || outcome.is_none(),
        };
        if is_first || is_changed || step.finally.is_some() {
            first.push(number);
        }
    }
    if let RerunFrom::Step(name) = &rerun.from {
        find(name)?;
    }
    let again = new.reachable(&first);
    let kept = kept_items(old, new, &steps, &items, &again, rerun);
    let mut plan = RerunPlan { forced, ..RerunPlan::default() };
    for number in 0..new.len() as u32 {
        let before = old.find(new.name(number));
        let adopt = |record: &StepRecord| {
            let key = StepKey { step: number, item: record.key.item };
            let decided_by = record.decided_by.and_then(|by| {
                let step = new.find(old.get(by.step)?.step.name.as_str())?;
                Some(StepKey { step, item: by.item })
            });
            StepRecord { key, decided_by, is_adopted: true, ..record.clone() }
        };
        if again[number as usize] {
            plan.again.push(number);
            if let Some((group, done)) = &kept[number as usize] {
                let group = StepRecord {
                    outcome: None,
                    reason: None,
                    ended_at: None,
                    is_adopted: false,
                    ..adopt(group)
                };
                plan.adopted.push(group);
                plan.adopted.extend(done.iter().map(|record| adopt(record)));
            }
            continue;
        }
        let Some(before) = before else { continue };
        plan.adopted.extend(steps[before as usize].map(adopt));
        plan.adopted.extend(items[before as usize].iter().map(|record| adopt(record)));
    }
    plan.removed = (0..old.len() as u32)
        .map(|step| old.name(step))
        .filter(|name| new.find(name).is_none())
        .map(str::to_owned)
        .collect();
    Ok(plan)
}

/// A fan-out whose completed items stay: the record of the step, and those of the items.
type KeptItems<'r> = Option<(&'r StepRecord, Vec<&'r StepRecord>)>;

/// The fan-outs that run again and keep the items that completed: if the step is the same and runs
/// again for its own items alone. A step that follows the items of another one keeps those whose
/// item there stays as well.
fn kept_items<'r>(
    old: &Graph,
    new: &Graph,
    steps: &[Option<&'r StepRecord>],
    items: &[Vec<&'r StepRecord>],
    again: &[bool],
    rerun: &Rerun,
) -> Vec<KeptItems<'r>> {
    let mut kept: Vec<KeptItems<'r>> = vec![None; new.len()];
    if rerun.from != RerunFrom::Failed {
        return kept;
    }
    let mut order: Vec<u32> = (0..new.len() as u32).filter(|step| again[*step as usize]).collect();
    order.sort_by_key(|step| new.step(*step).level);
    for number in order {
        let node = new.step(number);
        let repeats = |parent: &u32| again[*parent as usize] && node.along != Some(*parent);
        if node.step.for_each.is_none() || node.parents.iter().any(repeats) {
            continue;
        }
        let Some(before) = old.find(&node.step.name) else { continue };
        if definition_hash(&old.step(before).step) != definition_hash(&node.step) {
            continue;
        }
        let group = steps[before as usize].filter(|group| group.items.is_some());
        let Some(group) = group else { continue };
        let mut done = items[before as usize].clone();
        done.retain(|record| record.outcome == Some(Outcome::Completed));
        if let Some(along) = node.along.filter(|along| again[*along as usize]) {
            let Some((_, stays)) = &kept[along as usize] else { continue };
            let stays: HashSet<Option<u32>> = stays.iter().map(|record| record.key.item).collect();
            done.retain(|record| stays.contains(&record.key.item));
        }
        kept[number as usize] = Some((group, done));
    }
    kept
}
