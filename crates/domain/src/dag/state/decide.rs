//! Judging steps: which start, which are skipped, and with which inputs.

use serde_json::{Map, Value, json};

use super::{Changes, Control, DagState, Inputs, ReleasedStep, StepKey, StepState};
use crate::dag::call::{StepCall, hash_of};
use crate::dag::rule::Judgement;
use crate::dag::template::{Scope, follow, segments};
use crate::dag::{Dag, Graph, GraphStep, ITEMS_DEFAULT, Template, TriggerRule};
use crate::run::{Outcome, Reason, ReasonCode};

/// The result of a decision.
pub(super) enum Found<T> {
    Value(T),
    /// The results that are needed first.
    Missing(Vec<StepKey>),
    /// The inputs are wrong: the step fails.
    Wrong(String),
}

impl DagState {
    /// Decides all that can be decided. Returns the changes, or the results that must be loaded
    /// first: then it is called again with them.
    pub fn decide(
        &mut self,
        graph: &Graph,
        dag: &Dag,
        inputs: &Inputs<'_>,
    ) -> Result<Changes, Vec<StepKey>> {
        let mut later = Vec::new();
        let mut missing = Vec::new();
        loop {
            if let Some((key, by)) = self.judge.pop_front() {
                if let Some(needed) = self.judge_one(graph, dag, inputs, key, by) {
                    missing.extend(needed);
                    later.push((key, by));
                }
                continue;
            }
            let Some((key, by)) = self.next_ready(graph, dag) else { break };
            match call_of(graph, inputs, key) {
                Found::Value(call) => {
                    self.ready.remove(&key);
                    self.set(key, StepState::Open);
                    self.changes.released.push(ReleasedStep { key, call, by });
                }
                Found::Missing(needed) => {
                    missing.extend(needed);
                    self.judge.extend(later);
                    return Err(missing);
                }
                Found::Wrong(text) => {
                    self.ready.remove(&key);
                    let reason = Reason { code: ReasonCode::Inputs, text };
                    self.finish(graph, dag, key, Outcome::Failed, Some(reason), by);
                }
            }
        }
        if missing.is_empty() {
            return Ok(std::mem::take(&mut self.changes));
        }
        self.judge.extend(later);
        Err(missing)
    }

    /// The first step that may start now.
    fn next_ready(&self, graph: &Graph, dag: &Dag) -> Option<(StepKey, Option<StepKey>)> {
        if self.control == Control::Held
            || dag.max_parallel.is_some_and(|most| self.executing >= most)
        {
            return None;
        }
        let mut from = StepKey::of_step(0);
        loop {
            let (key, by) = self.ready.range(from..).next()?;
            let each = graph.step(key.step).step.for_each.as_ref();
            let most = each.and_then(|each| each.max_parallel);
            if most.is_none_or(|most| self.slots[key.step as usize].items_open < most) {
                return Some((*key, *by));
            }
            // The other items of this step wait as well.
            from = StepKey::of_step(key.step.checked_add(1)?);
        }
    }

    /// Judges a step. Returns the results that it needs first.
    fn judge_one(
        &mut self,
        graph: &Graph,
        dag: &Dag,
        inputs: &Inputs<'_>,
        key: StepKey,
        by: Option<StepKey>,
    ) -> Option<Vec<StepKey>> {
        let slot = &self.slots[key.step as usize];
        if key.item.is_none()
            && let Some(items) = &slot.items
        {
            // It was expanded: its items are judged.
            for item in 0..items.len() as u32 {
                let key = StepKey { step: key.step, item: Some(item) };
                if self.state(key) == StepState::Pending || self.state(key) == StepState::Ready {
                    self.judge.push_back((key, by));
                }
            }
            return None;
        }
        if !self.has(key) {
            return None;
        }
        let is_ready = match self.state(key) {
            StepState::Pending => false,
            StepState::Ready => true,
            StepState::Open | StepState::Ended(_) => return None,
        };
        let step = graph.step(key.step);
        if let Some(finally) = step.finally {
            if self.left > 0 {
                return None;
            }
            if !self.is_wanted(finally) {
                let text = "the handler is for another outcome of the DAG run".to_owned();
                let reason = Reason { code: ReasonCode::Condition, text };
                self.finish(graph, dag, key, Outcome::Skipped, Some(reason), by);
                return None;
            }
        } else if let Some((outcome, code, text)) = match self.control {
            Control::Cancelling => Some((
                Outcome::Cancelled,
                ReasonCode::CancelRequested,
                "the DAG run was cancelled before the step started",
            )),
            Control::Stopping => Some((
                Outcome::Skipped,
                ReasonCode::DagStopped,
                "another step failed, and the DAG stops on a failure",
            )),
            Control::Running | Control::Held => None,
        } {
            self.ready.remove(&key);
            let reason = Reason { code, text: text.to_owned() };
            self.finish(graph, dag, key, outcome, Some(reason), by);
            return None;
        }
        if is_ready {
            return None;
        }
        // The step that it follows got its items before: a re-run keeps those that completed.
        if key.item.is_none()
            && let Some(count) = step.along.and_then(|along| self.items(along)).filter(|it| *it > 0)
        {
            self.expand(graph, dag, key.step, count, by);
            return None;
        }
        // A step that follows the items of another one is judged item by item once that one has its
        // items, or as a whole if that one ended without any. Its other parents do not decide
        // before.
        if key.item.is_none()
            && let Some(along) = step.along
            && !matches!(self.state(StepKey::of_step(along)), StepState::Ended(_))
        {
            return None;
        }
        let tally = self.item_tally(graph, key);
        let mut judgement = step.step.rule.judge(tally);
        if judgement == Judgement::Skip && self.forced.contains(&key.step) {
            judgement = match tally.pending {
                0 => Judgement::Run,
                _ => Judgement::Undecided,
            };
        }
        match judgement {
            Judgement::Undecided => return None,
            Judgement::Skip => {
                let text = skip_text(step.step.rule, graph, self, key.step);
                let reason = Reason { code: ReasonCode::TriggerRule, text };
                self.finish(graph, dag, key, Outcome::Skipped, Some(reason), by);
                return None;
            }
            Judgement::Run => {}
        }
        match condition(graph, inputs, key) {
            Found::Missing(missing) => return Some(missing),
            Found::Wrong(text) => {
                let reason = Reason { code: ReasonCode::Inputs, text };
                self.finish(graph, dag, key, Outcome::Failed, Some(reason), by);
                return None;
            }
            Found::Value(false) => {
                let when = step.step.when.as_deref().unwrap_or_default();
                let reason =
                    Reason { code: ReasonCode::Condition, text: format!("{when} is not true") };
                self.finish(graph, dag, key, Outcome::Skipped, Some(reason), by);
                return None;
            }
            Found::Value(true) => {}
        }
        if key.item.is_some() || step.step.for_each.is_none() {
            self.set(key, StepState::Ready);
            self.ready.insert(key, by);
            return None;
        }
        match items_of(graph, inputs, key.step) {
            Found::Missing(missing) => Some(missing),
            Found::Wrong(text) => {
                let reason = Reason { code: ReasonCode::Inputs, text };
                self.finish(graph, dag, key, Outcome::Failed, Some(reason), by);
                None
            }
            // The parent that it goes along with ended without items.
            Found::Value(_) if step.along.is_some() => {
                self.expand(graph, dag, key.step, 0, by);
                None
            }
            Found::Value(items) => {
                self.expand(graph, dag, key.step, items.len() as u32, by);
                None
            }
        }
    }

    /// A fan-out gets its items, and so do the steps that follow them one by one.
    fn expand(&mut self, graph: &Graph, dag: &Dag, step: u32, count: u32, by: Option<StepKey>) {
        let mut open = vec![step];
        while let Some(step) = open.pop() {
            if self.slots[step as usize].state != StepState::Pending {
                continue;
            }
            self.set_items(step, count);
            self.changes.expanded.push((step, count, by));
            if count == 0 {
                self.finish(graph, dag, StepKey::of_step(step), Outcome::Completed, None, by);
                continue;
            }
            let is_judged = graph.step(step).along.is_some() || is_per_item(graph.step(step));
            for item in 0..count {
                let key = StepKey { step, item: Some(item) };
                if !is_judged {
                    self.set(key, StepState::Ready);
                    self.ready.insert(key, by);
                } else {
                    self.judge.push_back((key, by));
                }
            }
            open.extend(&graph.step(step).followers);
        }
    }

    /// The outcomes of the parents of a step or an item: of the parent whose items it follows, that
    /// of the same item counts.
    fn item_tally(&self, graph: &Graph, key: StepKey) -> crate::dag::Tally {
        let Some(along) = graph.step(key.step).along.filter(|_| key.item.is_some()) else {
            return self.tally(graph, key.step);
        };
        let mut tally = self.slots[key.step as usize].tally;
        tally.pending += 1;
        if let StepState::Ended(outcome) = self.state(StepKey { step: along, item: key.item }) {
            tally.count(outcome, graph.is_tolerated(along, key.step));
        }
        tally
    }
}

/// Why a rule skips a step: the outcomes of its parents.
fn skip_text(rule: TriggerRule, graph: &Graph, state: &DagState, step: u32) -> String {
    const SHOWN: usize = 5;
    let ended = graph.step(step).parents.iter().filter_map(|parent| {
        let StepState::Ended(outcome) = state.state(StepKey::of_step(*parent)) else { return None };
        Some((outcome, format!("{} {outcome}", graph.name(*parent))))
    });
    let mut ended: Vec<_> = ended.collect();
    // Outcomes that keep it from running come first.
    ended.sort_by_key(|(outcome, _)| *outcome == Outcome::Completed);
    let more = ended.len().saturating_sub(SHOWN);
    let names: Vec<String> = ended.into_iter().take(SHOWN).map(|(_, text)| text).collect();
    let more = if more > 0 { format!(" and {more} others") } else { String::new() };
    format!("{} is not met: {}{more}", rule.name(), names.join(", "))
}

/// The key of the result that a step refers to by a name.
fn result_key(graph: &Graph, key: StepKey, name: &str) -> Option<StepKey> {
    let step = graph.find(name)?;
    let item = key.item.filter(|_| graph.goes_along(key.step, step));
    Some(StepKey { step, item })
}

/// The results that references need and that were not loaded.
fn missing<'t>(
    graph: &Graph,
    inputs: &Inputs<'_>,
    key: StepKey,
    templates: impl Iterator<Item = &'t Template>,
) -> Vec<StepKey> {
    templates
        .filter_map(|template| result_key(graph, key, template.step()?))
        .filter(|key| !inputs.results.contains_key(key))
        .collect()
}

/// Why a loaded result that references need cannot be read.
fn unreadable<'t>(
    graph: &Graph,
    inputs: &Inputs<'_>,
    key: StepKey,
    mut templates: impl Iterator<Item = &'t Template>,
) -> Option<String> {
    templates.find_map(|template| {
        let result = inputs.results.get(&result_key(graph, key, template.step()?)?)?;
        let problem = result.as_ref().err()?;
        Some(format!("{}: {problem}", template.source))
    })
}

/// Whether the condition of a fan-out is about each item.
fn is_per_item(step: &GraphStep) -> bool {
    let (Some(each), Some(expression)) = (&step.step.for_each, &step.condition) else {
        return false;
    };
    let is_item = |path: &str| path.split('.').next() == Some(each.item.as_str());
    expression.paths().into_iter().any(is_item)
}

fn condition(graph: &Graph, inputs: &Inputs<'_>, key: StepKey) -> Found<bool> {
    let step = graph.step(key.step);
    let Some(expression) = &step.condition else { return Found::Value(true) };
    if key.item.is_none() && is_per_item(step) {
        return Found::Value(true);
    }
    let templates: Vec<Template> =
        expression.paths().into_iter().filter_map(|path| Template::parse(path).ok()).collect();
    let needed = missing(graph, inputs, key, templates.iter());
    if !needed.is_empty() {
        return Found::Missing(needed);
    }
    if let Some(problem) = unreadable(graph, inputs, key, templates.iter()) {
        return Found::Wrong(format!("WHEN: {problem}"));
    }
    let item = match item_of(graph, inputs, key) {
        Found::Value(item) => item,
        Found::Missing(needed) => return Found::Missing(needed),
        Found::Wrong(text) => return Found::Wrong(text),
    };
    let lookup = |path: &str| {
        let template = Template::parse(path).ok()?;
        // A value that is not there is null.
        let value = with_scope(graph, inputs, key, item.as_ref(), |scope| template.resolve(scope));
        Some(value.unwrap_or(Value::Null))
    };
    match expression.is_true(&lookup) {
        Ok(is_true) => Found::Value(is_true),
        Err(error) => Found::Wrong(format!("WHEN: {error}")),
    }
}

fn with_scope<T>(
    graph: &Graph,
    inputs: &Inputs<'_>,
    key: StepKey,
    item: Option<&(String, Value)>,
    use_scope: impl FnOnce(&Scope<'_>) -> T,
) -> T {
    let result = |name: &str| {
        let found = inputs.results.get(&result_key(graph, key, name)?)?;
        found.as_ref().ok().cloned()
    };
    let item = item.map(|(name, value)| (name.as_str(), key.item.unwrap_or_default(), value));
    let zone = inputs.zone.clone();
    use_scope(&Scope {
        run: inputs.run,
        dag: inputs.dag,
        scheduled_for: inputs.scheduled_for,
        zone,
        params: inputs.params,
        item,
        result: &result,
    })
}

/// The list of a fan-out.
fn items_of<'i>(graph: &Graph, inputs: &'i Inputs<'_>, step: u32) -> Found<&'i [Value]> {
    let owner = graph.list_owner(step);
    let node = graph.step(owner);
    let Some(list) = &node.list else { return Found::Value(&[]) };
    let most = node.step.for_each.as_ref().and_then(|each| each.max_items);
    let found = match list_value(graph, inputs, owner, list) {
        Found::Value(value) => value,
        Found::Missing(needed) => return Found::Missing(needed),
        Found::Wrong(text) => return Found::Wrong(text),
    };
    let Value::Array(items) = found else {
        return Found::Wrong(format!("FOR EACH: {} is not a list", list.source));
    };
    let most = most.unwrap_or(ITEMS_DEFAULT) as usize;
    if items.len() > most {
        return Found::Wrong(format!("FOR EACH: too many items: {}, at most {most}", items.len()));
    }
    Found::Value(items)
}

fn list_value<'i>(
    graph: &Graph,
    inputs: &'i Inputs<'_>,
    owner: u32,
    list: &Template,
) -> Found<&'i Value> {
    let needed = missing(graph, inputs, StepKey::of_step(owner), std::iter::once(list));
    if !needed.is_empty() {
        return Found::Missing(needed);
    }
    let Some(path) = segments(&list.source) else {
        return Found::Wrong(format!("FOR EACH: {} is not a path", list.source));
    };
    let (root, path) = match list.step().and_then(|name| graph.find(name)) {
        Some(step) => {
            let result = inputs.results.get(&StepKey::of_step(step));
            if let Some(Err(problem)) = result {
                return Found::Wrong(format!("FOR EACH: {}: {problem}", list.source));
            }
            (result.and_then(|result| result.as_ref().ok()), &path[3..])
        }
        None => {
            (inputs.params.get(path.get(1).map_or("", String::as_str)), &path[2.min(path.len())..])
        }
    };
    let Some(root) = root else {
        return Found::Wrong(format!("FOR EACH: there is no {}", list.source));
    };
    match follow(root, path) {
        Ok(value) => Found::Value(value),
        Err(problem) => Found::Wrong(format!("FOR EACH: {}: {problem}", list.source)),
    }
}

/// The item of a step with its name; none if the step has no items.
fn item_of(graph: &Graph, inputs: &Inputs<'_>, key: StepKey) -> Found<Option<(String, Value)>> {
    let each = graph.step(key.step).step.for_each.as_ref();
    let (Some(item), Some(each)) = (key.item, each) else { return Found::Value(None) };
    match items_of(graph, inputs, key.step) {
        Found::Value(items) => match items.get(item as usize) {
            Some(value) => Found::Value(Some((each.item.clone(), value.clone()))),
            None => Found::Wrong(format!("FOR EACH: there is no item {item}")),
        },
        Found::Missing(needed) => Found::Missing(needed),
        Found::Wrong(text) => Found::Wrong(text),
    }
}

/// The call of a step that was released: results do not change. Returns the results that must be
/// loaded first, or why the inputs cannot be resolved.
pub fn resolve(
    graph: &Graph,
    inputs: &Inputs<'_>,
    key: StepKey,
) -> Result<Result<StepCall, String>, Vec<StepKey>> {
    match call_of(graph, inputs, key) {
        Found::Value(call) => Ok(Ok(call)),
        Found::Wrong(problem) => Ok(Err(problem)),
        Found::Missing(missing) => Err(missing),
    }
}

/// The call of a step, with its templates resolved.
fn call_of(graph: &Graph, inputs: &Inputs<'_>, key: StepKey) -> Found<StepCall> {
    let step = graph.step(key.step);
    let needed = missing(graph, inputs, key, step.templates.iter());
    if !needed.is_empty() {
        return Found::Missing(needed);
    }
    if let Some(problem) = unreadable(graph, inputs, key, step.templates.iter()) {
        return Found::Wrong(problem);
    }
    let item = match item_of(graph, inputs, key) {
        Found::Value(item) => item,
        Found::Missing(needed) => return Found::Missing(needed),
        Found::Wrong(text) => return Found::Wrong(text),
    };
    let mut values = std::collections::BTreeMap::new();
    for template in &step.templates {
        let value = with_scope(graph, inputs, key, item.as_ref(), |scope| template.resolve(scope));
        match value {
            Ok(value) => values.insert(template.source.clone(), value),
            Err(error) => return Found::Wrong(error.to_string()),
        };
    }
    let list = match key.item {
        Some(_) => graph.step(graph.list_owner(key.step)).list.as_ref(),
        None => None,
    };
    // An item does not carry the list that it comes from.
    let list = list.filter(|list| list.step().is_none()).and_then(|list| segments(&list.source));
    let list = list.and_then(|path| path.into_iter().nth(1));
    let others = inputs.params.iter().filter(|(name, _)| Some(*name) != list.as_ref());
    let mut params: Map<String, Value> =
        others.map(|(name, value)| (name.clone(), value.clone())).collect();
    params.extend(item);
    let hash = hash_of(&json!({ "params": params, "values": values }));
    Found::Value(StepCall {
        dag_run: inputs.run,
        step: key.step,
        name: step.step.name.clone(),
        item: key.item,
        params,
        values,
        inputs: hash,
    })
}
