//! The compiled graph of a DAG: steps by number, with their parents and children.

use std::collections::HashMap;

use super::call::templates_of;
use super::{Dag, DagError, Step, StepWork, Template, TriggerRule};
use crate::expression::Expression;

/// A DAG that can be followed: steps by number, in the order of the definition. Handlers are steps
/// of their own at the end.
#[derive(Clone, Debug)]
pub struct Graph {
    steps: Vec<GraphStep>,
    by_name: HashMap<String, u32>,
    levels: u32,
}

/// A step with its neighbours.
#[derive(Clone, Debug)]
pub struct GraphStep {
    /// The step.
    pub step: Step,
    /// The steps before it.
    pub parents: Vec<u32>,
    /// The steps after it.
    pub children: Vec<u32>,
    /// The length of the longest way to it.
    pub level: u32,
    /// The parent whose items it follows one by one.
    pub along: Option<u32>,
    /// Steps that follow its items one by one.
    pub followers: Vec<u32>,
    /// The templates of its work.
    pub templates: Vec<Template>,
    /// Its condition.
    pub condition: Option<Expression>,
    /// The list of its items.
    pub list: Option<Template>,
    /// Whether it is a handler of the step before it.
    pub is_handler: bool,
    /// When it runs, if it is the handler of the whole DAG: after all other steps.
    pub finally: Option<Finally>,
}

/// When a handler of a DAG runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finally {
    /// After a run that failed.
    OnFailure,
    /// After a run that completed.
    OnSuccess,
}

impl Graph {
    /// Compiles a definition. Names are unique, every parent exists, and no way leads back.
    pub fn compile(dag: &Dag) -> Result<Self, DagError> {
        let mut all: Vec<(Step, Option<Finally>)> =
            dag.steps.iter().map(|step| (step.clone(), None)).collect();
        all.extend(dag.steps.iter().flat_map(handlers).map(|step| (step, None)));
        let handlers = dag.steps.len()..all.len();
        all.extend(final_handlers(dag));
        let mut by_name = HashMap::with_capacity(all.len());
        for (number, (step, _)) in all.iter().enumerate() {
            if by_name.insert(step.name.clone(), number as u32).is_some() {
                return Err(DagError::at(&step.name, "name", "two steps have this name"));
            }
        }
        let mut steps: Vec<GraphStep> = Vec::with_capacity(all.len());
        for (step, finally) in all {
            let is_handler = handlers.contains(&steps.len());
            let mut parents = Vec::with_capacity(step.after.len());
            for name in &step.after {
                let Some(parent) = by_name.get(name) else {
                    return Err(DagError::unknown_step(&step.name, "after", name, &by_name));
                };
                if *parent as usize == steps.len() {
                    return Err(DagError::Cycle(vec![step.name.clone(), step.name.clone()]));
                }
                if !parents.contains(parent) {
                    parents.push(*parent);
                }
            }
            let along = match step.for_each.as_ref().and_then(|each| each.along.as_ref()) {
                None => None,
                Some(name) => match by_name.get(name).filter(|along| parents.contains(along)) {
                    Some(along) => Some(*along),
                    None => {
                        let problem = format!("FOR EACH along {name:?} needs AFTER {name}");
                        return Err(DagError::at(&step.name, "for_each", &problem));
                    }
                },
            };
            let wrong = |field, error: &dyn std::fmt::Display| {
                DagError::at(&step.name, field, &error.to_string())
            };
            let templates = templates_of(&step.work).map_err(|error| wrong("payload", &error))?;
            let condition: Option<Expression> = match &step.when {
                None => None,
                Some(when) => Some(when.parse().map_err(|error| wrong("when", &error))?),
            };
            let list = match step.for_each.as_ref().and_then(|each| each.list.as_ref()) {
                None => None,
                Some(list) => {
                    Some(Template::parse(list).map_err(|error| wrong("for_each", &error))?)
                }
            };
            steps.push(GraphStep {
                step,
                templates,
                condition,
                list,
                parents,
                children: Vec::new(),
                level: 0,
                along,
                followers: Vec::new(),
                is_handler,
                finally,
            });
        }
        for number in 0..steps.len() {
            for parent in steps[number].parents.clone() {
                steps[parent as usize].children.push(number as u32);
            }
            if let Some(along) = steps[number].along {
                if steps[along as usize].step.for_each.is_none() {
                    let name = &steps[along as usize].step.name;
                    let problem = format!("step {name:?} has no items to follow");
                    return Err(DagError::at(&steps[number].step.name, "for_each", &problem));
                }
                steps[along as usize].followers.push(number as u32);
            }
        }
        let mut graph = Graph { steps, by_name, levels: 0 };
        graph.sort()?;
        Ok(graph)
    }

    /// Kahn's topological sort, level by level.
    fn sort(&mut self) -> Result<(), DagError> {
        let mut open: Vec<u32> = self.steps.iter().map(|step| step.parents.len() as u32).collect();
        let mut level: Vec<u32> =
            (0..self.steps.len() as u32).filter(|step| open[*step as usize] == 0).collect();
        let mut sorted = 0;
        while !level.is_empty() {
            let mut next = Vec::new();
            for step in &level {
                self.steps[*step as usize].level = self.levels;
                for child in &self.steps[*step as usize].children {
                    open[*child as usize] -= 1;
                    if open[*child as usize] == 0 {
                        next.push(*child);
                    }
                }
            }
            sorted += level.len();
            self.levels += 1;
            level = next;
        }
        if sorted == self.steps.len() { Ok(()) } else { Err(self.cycle(&open)) }
    }

    /// The cycle step by step. Every step that is left has a parent that is left: following them
    /// must come back to a step that was seen.
    fn cycle(&self, open: &[u32]) -> DagError {
        let is_left = |step: &u32| open[*step as usize] > 0;
        let mut path: Vec<u32> = Vec::new();
        let mut seen: HashMap<u32, usize> = HashMap::new();
        let mut at = (0..self.steps.len() as u32).find(is_left).unwrap_or_default();
        while let std::collections::hash_map::Entry::Vacant(entry) = seen.entry(at) {
            entry.insert(path.len());
            path.push(at);
            at = self.steps[at as usize].parents.iter().copied().find(is_left).unwrap_or(at);
        }
        let mut names: Vec<String> =
            path[seen[&at]..].iter().rev().map(|step| self.name(*step).to_owned()).collect();
        names.extend(names.first().cloned());
        DagError::Cycle(names)
    }

    /// The number of steps, with handlers.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there is no step.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// A step by its number.
    pub fn step(&self, number: u32) -> &GraphStep {
        &self.steps[number as usize]
    }

    /// A step by its number, if there is one.
    pub fn get(&self, number: u32) -> Option<&GraphStep> {
        self.steps.get(number as usize)
    }

    /// All steps in the order of their numbers.
    pub fn steps(&self) -> &[GraphStep] {
        &self.steps
    }

    /// The name of a step.
    pub fn name(&self, number: u32) -> &str {
        &self.steps[number as usize].step.name
    }

    /// The number of the step with a name.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// The names of the steps by level: those of one level can execute at the same time.
    pub fn levels(&self) -> Vec<Vec<&str>> {
        let mut levels = vec![Vec::new(); self.levels as usize];
        for step in &self.steps {
            levels[step.level as usize].push(step.step.name.as_str());
        }
        levels
    }

    /// Whether a failure of a step counts as a success for a step after it. The handlers of a step
    /// follow its true outcome.
    pub fn is_tolerated(&self, step: u32, child: u32) -> bool {
        self.step(step).step.allow_failure && !self.step(child).is_handler
    }

    /// A step and every step that can be reached from it.
    pub fn reachable(&self, from: &[u32]) -> Vec<bool> {
        let mut reached = vec![false; self.steps.len()];
        let mut open = from.to_vec();
        while let Some(step) = open.pop() {
            if !std::mem::replace(&mut reached[step as usize], true) {
                open.extend(&self.steps[step as usize].children);
            }
        }
        reached
    }

    /// The step whose list gives a step its items: itself, or the first one of those that it goes
    /// along with.
    pub fn list_owner(&self, step: u32) -> u32 {
        let mut at = step;
        while let Some(along) = self.steps[at as usize].along {
            at = along;
        }
        at
    }

    /// Whether a step follows the items of another one, directly or not.
    pub fn goes_along(&self, step: u32, other: u32) -> bool {
        let mut at = step;
        while let Some(along) = self.steps[at as usize].along {
            if along == other {
                return true;
            }
            at = along;
        }
        false
    }

    /// Whether a step comes before another one, on any way.
    pub fn is_before(&self, step: u32, other: u32) -> bool {
        let mut seen = vec![false; self.steps.len()];
        let mut open = self.steps[other as usize].parents.clone();
        while let Some(at) = open.pop() {
            if at == step {
                return true;
            }
            if !std::mem::replace(&mut seen[at as usize], true) {
                open.extend(&self.steps[at as usize].parents);
            }
        }
        false
    }
}

fn handler(name: String, work: &StepWork) -> Step {
    Step { name, work: work.clone(), allow_failure: true, ..Step::default() }
}

/// The handlers of a step, as steps that follow it.
fn handlers(step: &Step) -> Vec<Step> {
    let after = |suffix: &str, work: &Option<StepWork>, rule| {
        let handler = handler(format!("{}@{suffix}", step.name), work.as_ref()?);
        Some(Step { after: vec![step.name.clone()], rule, ..handler })
    };
    let on_failure = after("on_failure", &step.on_failure, TriggerRule::OneFailed);
    let on_success = after("on_success", &step.on_success, TriggerRule::OneSuccess);
    on_failure.into_iter().chain(on_success).collect()
}

/// The handlers of a DAG, as its last steps.
fn final_handlers(dag: &Dag) -> Vec<(Step, Option<Finally>)> {
    let last = |suffix: &str, work: &Option<StepWork>, finally| {
        Some((handler(format!("@{suffix}"), work.as_ref()?), Some(finally)))
    };
    let on_failure = last("on_failure", &dag.on_failure, Finally::OnFailure);
    let on_success = last("on_success", &dag.on_success, Finally::OnSuccess);
    on_failure.into_iter().chain(on_success).collect()
}
