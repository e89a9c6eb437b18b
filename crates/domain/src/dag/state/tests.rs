//! Items, cancellations and allowed failures, and records that do not fit the DAG.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::*;
use crate::dag::rerun::{Rerun, RerunFrom, plan};
use crate::dag::{ForEach, Step, StepWork, TriggerRule};

fn step(name: &str, after: &[&str]) -> Step {
    let after = after.iter().map(|&name| name.to_owned()).collect();
    Step { name: name.to_owned(), after, ..Step::default() }
}

/// A DAG run whose records are kept as a store would.
struct Walk {
    dag: Dag,
    graph: Graph,
    params: Map<String, Value>,
    state: DagState,
    records: BTreeMap<StepKey, StepRecord>,
    released: Vec<String>,
}

impl Walk {
    fn new(steps: Vec<Step>, params: Value, records: &[StepRecord]) -> Self {
        let dag = Dag { steps, ..Dag::default() };
        let graph = Graph::compile(&dag).unwrap();
        let state = DagState::load(&graph, &dag, Control::Running, [], records);
        let params = params.as_object().cloned().unwrap_or_default();
        let records = records.iter().map(|record| (record.key, record.clone())).collect();
        let mut walk = Walk { dag, graph, params, state, records, released: Vec::new() };
        walk.decide();
        walk
    }

    fn decide(&mut self) {
        let results = HashMap::new();
        let inputs = Inputs {
            run: RunId(Uuid::from_u128(1)),
            dag: "test",
            scheduled_for: Timestamp::UNIX_EPOCH,
            zone: TimeZone::UTC,
            params: &self.params,
            results: &results,
        };
        let changes = self.state.decide(&self.graph, &self.dag, &inputs).unwrap();
        for (step, items, by) in changes.expanded {
            let key = StepKey::of_step(step);
            self.records.insert(key, StepRecord { items: Some(items), ..record(key, None, by) });
        }
        for released in changes.released {
            self.released.push(self.name(released.key));
            self.records.insert(released.key, record(released.key, None, released.by));
        }
        for ended in changes.ended {
            let blank = record(ended.key, None, ended.by);
            self.records.entry(ended.key).or_insert(blank).outcome = Some(ended.outcome);
        }
    }

    fn name(&self, key: StepKey) -> String {
        let name = self.graph.name(key.step);
        key.item.map_or(name.to_owned(), |item| format!("{name}[{item}]"))
    }

    fn key(&self, name: &str, item: Option<u32>) -> StepKey {
        StepKey { step: self.graph.find(name).unwrap(), item }
    }

    fn end(&mut self, name: &str, item: Option<u32>, outcome: Outcome) {
        let key = self.key(name, item);
        assert!(self.state.end(&self.graph, &self.dag, key, outcome, None), "{name} is not open");
        self.decide();
    }

    fn mark(&mut self, key: StepKey) -> bool {
        let reason = Reason { code: ReasonCode::Marked, text: String::new() };
        self.state.mark(&self.graph, &self.dag, key, Outcome::Completed, reason)
    }

    fn cancel(&mut self) {
        self.state.set_control(Control::Cancelling);
        self.decide();
    }

    fn outcome(&self) -> Option<Outcome> {
        dag_outcome(&self.graph, &self.state).map(|(outcome, _)| outcome)
    }

    fn records(&self) -> Vec<StepRecord> {
        self.records.values().cloned().collect()
    }
}

fn record(key: StepKey, outcome: Option<Outcome>, by: Option<StepKey>) -> StepRecord {
    StepRecord {
        key,
        outcome,
        reason: None,
        run: None,
        items: None,
        decided_by: by,
        decided_at: Timestamp::UNIX_EPOCH,
        ended_at: None,
        is_adopted: false,
    }
}

/// `f` for each of a list, and `g` along with it.
fn fan_out() -> Vec<Step> {
    let list = ForEach { list: Some("params.list".into()), ..ForEach::default() };
    let along = ForEach { along: Some("f".into()), ..ForEach::default() };
    vec![
        Step { for_each: Some(list), ..step("f", &[]) },
        Step { for_each: Some(along), ..step("g", &["f"]) },
        step("h", &["g"]),
    ]
}

#[test]
fn items_that_do_not_exist_are_neither_marked_nor_counted() {
    let list = json!({ "list": [1, 2, 3] });
    let mut walk = Walk::new(fan_out(), list.clone(), &[]);
    for (step, item) in [(0, Some(3)), (0, Some(9)), (0, None), (2, Some(0)), (7, None)] {
        assert!(!walk.mark(StepKey { step, item }), "step {step} item {item:?}");
    }
    // Records that an earlier version wrote, and of steps and items that there are not.
    let mut damaged = walk.records();
    for (step, item) in [(0, Some(3)), (0, Some(9)), (2, Some(0)), (7, None), (7, Some(1))] {
        let key = StepKey { step, item };
        damaged.push(record(key, Some(Outcome::Completed), None));
        damaged.push(record(key, None, None));
    }
    let mut walk = Walk::new(fan_out(), list, &damaged);
    assert!(walk.released.is_empty(), "{:?}", walk.released);
    assert_eq!(walk.state.executing(), 3);
    for name in ["f", "g"] {
        for item in 0..3 {
            walk.end(name, Some(item), Outcome::Completed);
        }
    }
    walk.end("h", None, Outcome::Completed);
    assert_eq!(walk.outcome(), Some(Outcome::Completed));
    assert!(!walk.state.has(StepKey { step: 0, item: Some(3) }));
}

#[test]
fn a_rerun_repeats_the_items_that_failed_and_what_follows_them() {
    let list = json!({ "list": [1, 2, 3] });
    let mut walk = Walk::new(fan_out(), list.clone(), &[]);
    for item in [0, 2] {
        walk.end("f", Some(item), Outcome::Completed);
        walk.end("g", Some(item), Outcome::Completed);
    }
    walk.end("f", Some(1), Outcome::Failed);
    assert_eq!(walk.outcome(), Some(Outcome::Failed));
    let rerun = Rerun { from: RerunFrom::Failed, ..Rerun::default() };
    let repeated = plan(&walk.graph, &walk.graph, &walk.records(), &rerun).unwrap();
    let mut again = Walk::new(fan_out(), list.clone(), &repeated.adopted);
    assert_eq!(again.released, ["f[1]"]);
    again.end("f", Some(1), Outcome::Completed);
    again.end("g", Some(1), Outcome::Completed);
    again.end("h", None, Outcome::Completed);
    assert_eq!(again.released, ["f[1]", "g[1]", "h"]);
    assert_eq!(again.outcome(), Some(Outcome::Completed));
    // A follower with another definition has all items again.
    let mut changed = fan_out();
    changed[1].timeout = Some(jiff::SignedDuration::from_secs(7));
    let new = Graph::compile(&Dag { steps: changed.clone(), ..Dag::default() }).unwrap();
    let repeated = plan(&walk.graph, &new, &walk.records(), &rerun).unwrap();
    let mut again = Walk::new(changed, list, &repeated.adopted);
    again.end("f", Some(1), Outcome::Completed);
    again.released.sort();
    assert_eq!(again.released, ["f[1]", "g[0]", "g[1]", "g[2]"]);
}

#[test]
fn a_cancellation_counts_if_it_kept_a_step_from_its_end() {
    let handler = Some(StepWork::default());
    let chain = || vec![step("a", &[]), step("b", &["a"])];
    let run = |ends: &[(&str, Outcome)]| {
        let mut walk = Walk::new(chain(), json!({}), &[]);
        walk.end("a", None, Outcome::Completed);
        walk.cancel();
        for (name, outcome) in ends {
            walk.end(name, None, *outcome);
        }
        walk.outcome()
    };
    for outcome in [Outcome::Completed, Outcome::Failed, Outcome::Cancelled] {
        assert_eq!(run(&[("b", outcome)]), Some(outcome));
    }
    let mut early = Walk::new(chain(), json!({}), &[]);
    early.cancel();
    early.end("a", None, Outcome::Completed);
    assert_eq!(early.outcome(), Some(Outcome::Cancelled), "b was cancelled before it started");
    // The same records give the same state, and so do the handlers of the DAG.
    let records = early.records();
    let loaded = DagState::load(&early.graph, &early.dag, Control::Cancelling, [], &records);
    assert_eq!(dag_outcome(&early.graph, &loaded).unwrap().0, Outcome::Cancelled);
    let mut late = Walk::new(chain(), json!({}), &[]);
    late.dag.on_failure.clone_from(&handler);
    late.dag.on_success = handler;
    late.graph = Graph::compile(&late.dag).unwrap();
    late.state = DagState::load(&late.graph, &late.dag, Control::Running, [], &[]);
    late.decide();
    late.end("a", None, Outcome::Completed);
    late.cancel();
    late.end("b", None, Outcome::Completed);
    assert_eq!(late.released.last().unwrap(), "@on_success");
    late.end("@on_success", None, Outcome::Completed);
    assert_eq!(late.outcome(), Some(Outcome::Completed));
}

#[test]
fn an_allowed_failure_is_a_success_for_every_rule_and_a_failure_for_its_handler() {
    let mut steps = vec![Step {
        allow_failure: true,
        on_failure: Some(StepWork::default()),
        on_success: Some(StepWork::default()),
        ..step("a", &[])
    }];
    for rule in TriggerRule::ALL {
        steps.push(Step { rule, ..step(rule.name(), &["a"]) });
    }
    let mut walk = Walk::new(steps, json!({}), &[]);
    walk.end("a", None, Outcome::Failed);
    let mut released = walk.released.clone();
    released.sort();
    let expected = [
        "ALL_DONE",
        "ALL_SUCCESS",
        "NONE_FAILED",
        "NONE_SKIPPED",
        "ONE_SUCCESS",
        "a",
        "a@on_failure",
    ];
    assert_eq!(released, expected);
    let skipped = walk.key("ONE_FAILED", None);
    assert_eq!(walk.state.state(skipped), StepState::Ended(Outcome::Skipped));
}
