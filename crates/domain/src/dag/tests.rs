//! Validation by tables, and decisions over random graphs.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use serde_json::{Map, json};
use uuid::Uuid;

use super::rerun::{Rerun, RerunFrom, plan};
use super::state::{
    Changes, Control, DagState, Inputs, StepKey, StepRecord, StepState, dag_outcome,
};
use super::*;
use crate::action::{Action, ExternalAction};
use crate::id::RunId;
use crate::run::Outcome;

fn step(name: &str, after: &[&str]) -> Step {
    let after = after.iter().map(|&name| name.to_owned()).collect();
    Step { name: name.to_owned(), after, ..Step::default() }
}

fn dag(steps: Vec<Step>) -> Dag {
    Dag { steps, ..Dag::default() }
}

fn command(argument: &str) -> StepWork {
    let arguments = vec![argument.to_owned()];
    let (command, environment) = ("/bin/x".to_owned(), BTreeMap::new());
    StepWork::Action {
        action: Action::External(ExternalAction { command, arguments, environment }),
    }
}

#[test]
fn s4_107_levels_are_the_steps_that_can_run_together() {
    let etl = dag(vec![
        step("extract", &[]),
        step("transform", &["extract"]),
        step("load", &["transform"]),
        step("notify", &["load"]),
    ]);
    let levels = check(&etl).unwrap();
    let expected: Vec<Vec<&str>> =
        vec![vec!["extract"], vec!["transform"], vec!["load"], vec!["notify"]];
    assert_eq!(levels.levels(), expected);
    let diamond =
        dag(vec![step("d", &["b", "c"]), step("b", &["a"]), step("c", &["a"]), step("a", &[])]);
    assert_eq!(check(&diamond).unwrap().levels(), [vec!["a"], vec!["b", "c"], vec!["d"]]);
}

#[test]
fn bad_definitions_are_refused_with_their_place() {
    let with = |change: fn(&mut Step)| {
        let mut last = step("b", &["a"]);
        change(&mut last);
        dag(vec![step("a", &[]), last])
    };
    let each = |list: &str| ForEach { list: Some(list.into()), ..ForEach::default() };
    for (dag, expected) in [
        (dag(vec![]), "steps: a DAG needs at least one step"),
        (
            dag(vec![step("a", &["c"]), step("b", &["a"]), step("c", &["b"])]),
            "DAG contains a cycle: b -> c -> a -> b",
        ),
        (dag(vec![step("a", &["a"])]), "DAG contains a cycle: a -> a"),
        (
            dag(vec![step("extract", &[]), step("b", &["extrct"])]),
            "step \"b\": after: there is no step \"extrct\"; did you mean \"extract\"?",
        ),
        (dag(vec![step("a", &[]), step("a", &[])]), "step \"a\": name: two steps have this name"),
        (
            dag(vec![step("a b", &[])]),
            "step \"a b\": name: a name has 1 to 100 bytes: letters, digits, _ and -",
        ),
        (
            with(|step| step.work = command("${steps.c.result}")),
            "step \"b\": payload: there is no step \"c\"",
        ),
        (
            with(|step| step.work = command("${other.x}")),
            "step \"b\": payload: ${other.x} refers to nothing: use steps.NAME.result, params.NAME, run.scheduled_for",
        ),
        (
            with(|step| step.work = command("${params.x | upper}")),
            "step \"b\": payload: ${params.x | upper}: \"upper\" is not a filter: use date, time, unix or json",
        ),
        (
            with(|step| step.when = Some("steps.b.result.x > ".into())),
            "step \"b\": when: at character 20: the end stands where a value, a parameter or a function is expected",
        ),
        (
            with(|step| step.when = Some("rows > 1".into())),
            "step \"b\": when: rows refers to nothing: use steps.NAME.result, params.NAME or run.scheduled_for",
        ),
        (
            with(|step| step.for_each = Some(ForEach::default())),
            "step \"b\": for_each: name a list, such as steps.NAME.result",
        ),
        (
            with(|step| {
                step.for_each = Some(ForEach { along: Some("a".into()), ..ForEach::default() })
            }),
            "step \"b\": for_each: step \"a\" has no items to follow",
        ),
        (
            with(|step| step.work = command("${config.v")),
            "step \"b\": payload: \"${config.v\": a template ends with }",
        ),
        (with(|step| step.priority = Some(10)), "step \"b\": priority: must be 0 to 9"),
        (
            with(|step| step.result_bytes = Some(2 << 20)),
            "step \"b\": result_bytes: must be between 1 and 1048576",
        ),
        (
            dag(vec![
                Step { for_each: Some(each("steps.b.result")), ..step("a", &[]) },
                step("b", &[]),
            ]),
            "step \"a\": for_each: step \"b\" does not come before it; add AFTER b",
        ),
        (
            Dag { max_parallel: Some(0), ..dag(vec![step("a", &[])]) },
            "max_parallel: must be at least 1",
        ),
    ] {
        let error = check(&dag).map(drop).unwrap_err().to_string();
        assert_eq!(error, expected);
    }
    let many = dag((0..=STEPS_MAX).map(|n| step(&format!("s{n}"), &[])).collect());
    assert_eq!(
        check(&many).map(drop).unwrap_err().to_string(),
        "steps: too many steps: 10001, at most 10000"
    );
}

#[test]
fn ten_thousand_steps_are_validated_without_recursion() {
    let name = |n: usize| format!("s{n}");
    let mut steps: Vec<Step> = Vec::new();
    for n in 0..STEPS_MAX {
        let after: Vec<String> =
            [1, 2].into_iter().filter(|back| n >= *back).map(|back| name(n - back)).collect();
        steps.push(Step { name: name(n), after, ..Step::default() });
    }
    assert_eq!(check(&dag(steps.clone())).unwrap().levels().len(), STEPS_MAX);
    steps[0].after.push(name(STEPS_MAX - 1));
    let error = check(&dag(steps)).map(drop).unwrap_err().to_string();
    assert!(error.starts_with("DAG contains a cycle: ") && error.len() < 500, "{error}");
}

#[test]
fn the_stored_definition_is_read_back() {
    let mut all = step("a", &[]);
    all.work = StepWork::Message { queue: None, payload: json!({ "action": "extract_data" }) };
    all.for_each =
        Some(ForEach { min_success: Some(MinSuccess::Percent(50)), ..ForEach::default() });
    let works = [
        StepWork::Sleep { duration: Some(SignedDuration::from_secs(1)), until: None },
        StepWork::Approval {
            role: Some("ops".into()),
            timeout: None,
            default: ApprovalAnswer::Approve,
        },
        StepWork::Job { job: "j".into(), parameters: BTreeMap::new() },
    ];
    let mut steps = vec![all];
    for (n, work) in works.into_iter().enumerate() {
        steps.push(Step { work, ..step(&format!("s{n}"), &["a"]) });
    }
    let dag = Dag { on_step_failure: OnStepFailure::Hold, max_parallel: Some(3), ..dag(steps) };
    let text = serde_json::to_string(&dag).unwrap();
    assert_eq!(serde_json::from_str::<Dag>(&text).unwrap(), dag);
    assert!(serde_json::from_str::<Dag>(r#"{"steps":[{"name":"a","aftr":[]}]}"#).is_err());
}

/// A graph whose step `n` may come after those before it, with rules and intended outcomes.
#[derive(Clone, Debug)]
struct Case {
    dag: Dag,
    ends: Vec<Outcome>,
}

fn cases() -> impl Strategy<Value = Case> {
    let outcome = prop_oneof![
        4 => Just(Outcome::Completed),
        2 => Just(Outcome::Failed),
        1 => Just(Outcome::Timeout),
        1 => Just(Outcome::Cancelled),
    ];
    let rule = (0..TriggerRule::ALL.len()).prop_map(|n| TriggerRule::ALL[n]);
    let each = proptest::option::weighted(0.3, 0_u32..4);
    let node = (any::<u16>(), rule, any::<bool>(), outcome, each, any::<bool>());
    let policy = prop_oneof![3 => Just(OnStepFailure::Continue), 1 => Just(OnStepFailure::Stop)];
    let most = proptest::option::of(1_u32..4);
    (proptest::collection::vec(node, 1..14), policy, most).prop_map(|(nodes, policy, most)| {
        let name = |n: usize| format!("s{n}");
        let step = |(n, (mask, rule, allow, _, each, follows)): (usize, &Node)| {
            let parents: Vec<usize> = (0..n).filter(|parent| mask >> parent & 1 == 1).collect();
            // A fan-out may follow the items of a parent that is one.
            let along = parents.iter().find(|parent| *follows && nodes[**parent].4.is_some());
            let for_each = each.map(|items| ForEach {
                list: along.is_none().then(|| format!("params.list{items}")),
                along: along.map(|parent| name(*parent)),
                max_parallel: allow.then_some(2),
                min_success: follows.then_some(MinSuccess::Count(1)),
                ..ForEach::default()
            });
            Step {
                name: name(n),
                after: parents.into_iter().map(name).collect(),
                rule: *rule,
                for_each,
                allow_failure: *allow && n % 3 == 0,
                ..Step::default()
            }
        };
        let steps = nodes.iter().enumerate().map(step).collect();
        let dag = Dag { steps, on_step_failure: policy, max_parallel: most, ..Dag::default() };
        Case { dag, ends: nodes.iter().map(|node| node.3).collect() }
    })
}

/// Parents, rule, whether it may fail, how it ends, its items, and whether it follows others.
type Node = (u16, TriggerRule, bool, Outcome, Option<u32>, bool);

/// A run of a case: records as a store would keep them.
struct Walk<'c> {
    case: &'c Case,
    graph: Graph,
    records: BTreeMap<StepKey, StepRecord>,
    control: Control,
    time: i64,
}

impl<'c> Walk<'c> {
    fn new(case: &'c Case) -> Self {
        let graph = Graph::compile(&case.dag).unwrap();
        Walk { case, graph, records: BTreeMap::new(), control: Control::Running, time: 0 }
    }

    fn load(&self) -> DagState {
        DagState::load(&self.graph, &self.case.dag, self.control, [], self.records.values())
    }

    fn decide(&self, state: &mut DagState) -> Changes {
        let list = |items: usize| (format!("list{items}"), json!(vec![0; items]));
        let (params, results) = ((0..4).map(list).collect::<Map<_, _>>(), HashMap::new());
        let inputs = Inputs {
            run: RunId(Uuid::from_u128(1)),
            dag: "random",
            scheduled_for: Timestamp::UNIX_EPOCH,
            zone: TimeZone::UTC,
            params: &params,
            results: &results,
        };
        state.decide(&self.graph, &self.case.dag, &inputs).unwrap()
    }

    fn write(&mut self, changes: &Changes, control: Control) {
        self.time += 1;
        let now = Timestamp::from_second(self.time).unwrap();
        self.control = control;
        let blank = |key, by| StepRecord {
            key,
            outcome: None,
            reason: None,
            run: None,
            items: None,
            decided_by: by,
            decided_at: now,
            ended_at: None,
            is_adopted: false,
        };
        for (step, items, by) in &changes.expanded {
            let key = StepKey::of_step(*step);
            let record = StepRecord { items: Some(*items), ..blank(key, *by) };
            assert!(self.records.insert(key, record).is_none(), "expanded twice");
        }
        for released in &changes.released {
            let run = Some(RunId(Uuid::from_u128(100 + u128::from(released.key.step))));
            let record = StepRecord { run, ..blank(released.key, released.by) };
            assert!(self.records.insert(released.key, record).is_none(), "released twice");
        }
        for ended in &changes.ended {
            let record = self.records.entry(ended.key).or_insert_with(|| StepRecord {
                reason: ended.reason.clone(),
                ..blank(ended.key, ended.by)
            });
            assert_eq!(record.outcome, None, "ended twice");
            record.outcome = Some(ended.outcome);
            record.ended_at = Some(now);
        }
    }

    /// Follows a run to its end. `order` chooses which open step ends next, and when the state is
    /// read again from the records, as after a crash.
    fn follow(mut self, order: &[u16]) -> (BTreeMap<StepKey, Outcome>, Option<Outcome>, Self) {
        let mut state = self.load();
        let mut order = order.iter().copied().cycle();
        for _ in 0..200 {
            let changes = self.decide(&mut state);
            for released in changes.released.iter().filter(|it| it.key.item.is_none()) {
                // No step runs before its rule allows it.
                let step = self.graph.step(released.key.step);
                let tally = state.tally(&self.graph, released.key.step);
                assert_eq!(step.step.rule.judge(tally), Judgement::Run, "{}", step.step.name);
                if step.step.rule == TriggerRule::AllDone {
                    assert_eq!(tally.pending, 0);
                }
            }
            self.write(&changes, state.control());
            let most = self.case.dag.max_parallel.unwrap_or(u32::MAX);
            assert!(state.executing() <= most);
            let choice = order.next().unwrap_or(0);
            if choice % 3 == 0 {
                // A crash: only the written records are left.
                let again = self.load();
                for step in 0..self.graph.len() as u32 {
                    assert_eq!(again.tally(&self.graph, step), state.tally(&self.graph, step));
                }
                state = again;
                assert!(self.decide(&mut state).is_empty(), "everything was decided before");
            }
            let open = state.open();
            if open.is_empty() {
                break;
            }
            let key = open[choice as usize % open.len()];
            // Items of a step end in several ways.
            let ends = &self.case.ends;
            let outcome = ends[(key.step + key.item.unwrap_or(0)) as usize % ends.len()];
            assert!(state.end(&self.graph, &self.case.dag, key, outcome, None));
            assert!(!state.end(&self.graph, &self.case.dag, key, outcome, None), "it ends once");
        }
        let steps = (0..self.graph.len() as u32).flat_map(|step| {
            let items = 0..state.items(step).unwrap_or(0);
            let items = items.map(move |item| StepKey { step, item: Some(item) });
            std::iter::once(StepKey::of_step(step)).chain(items)
        });
        let outcomes: BTreeMap<StepKey, Outcome> = steps
            .filter_map(|key| match state.state(key) {
                StepState::Ended(outcome) => Some((key, outcome)),
                _ => None,
            })
            .collect();
        let outcome = dag_outcome(&self.graph, &state).map(|(outcome, _)| outcome);
        (outcomes, outcome, self)
    }
}

proptest! {
    #[test]
    fn every_step_ends_exactly_once_whatever_the_order(
        case in cases(),
        one in proptest::collection::vec(any::<u16>(), 1..30),
        other in proptest::collection::vec(any::<u16>(), 1..30),
    ) {
        let (first, outcome, _) = Walk::new(&case).follow(&one);
        let steps = first.keys().filter(|key| key.item.is_none()).count();
        prop_assert_eq!(steps, case.dag.steps.len(), "every step has an outcome");
        prop_assert!(outcome.is_some(), "the run is over");
        if case.dag.on_step_failure == OnStepFailure::Continue {
            let (second, other_outcome, _) = Walk::new(&case).follow(&other);
            prop_assert_eq!(first, second, "the result does not depend on the order");
            prop_assert_eq!(outcome, other_outcome);
        }
    }

    #[test]
    fn a_rerun_from_failed_is_a_run_in_which_those_steps_end_otherwise(
        case in cases(),
        order in proptest::collection::vec(any::<u16>(), 1..30),
    ) {
        // How items are matched is another question.
        let steps = case.dag.steps.into_iter().map(|step| Step { for_each: None, ..step });
        let steps = steps.collect();
        let on_step_failure = OnStepFailure::Continue;
        let case = Case { dag: Dag { steps, on_step_failure, ..case.dag }, ends: case.ends };
        let (_, _, walk) = Walk::new(&case).follow(&order);
        let records: Vec<StepRecord> = walk.records.values().cloned().collect();
        let rerun = Rerun { from: RerunFrom::Failed, ..Rerun::default() };
        let plan = plan(&walk.graph, &walk.graph, &records, &rerun).unwrap();
        let mut ends = case.ends.clone();
        for step in &plan.again {
            ends[*step as usize] = Outcome::Completed;
        }
        let fixed = Case { dag: case.dag.clone(), ends };
        let mut again = Walk::new(&fixed);
        again.records = plan.adopted.iter().map(|record| (record.key, record.clone())).collect();
        let (repeated, _, _) = again.follow(&order);
        let (fresh, _, _) = Walk::new(&fixed).follow(&order);
        prop_assert_eq!(repeated, fresh);
    }
}

#[test]
fn an_estimate_is_the_longest_way() {
    let graph = check(&dag(vec![
        step("a", &[]),
        step("b", &["a"]),
        step("c", &["a"]),
        step("d", &["b", "c"]),
    ]))
    .unwrap();
    let seconds = |step: u32| SignedDuration::from_secs([1, 5, 2, 1][step as usize]);
    let (path, length) = path::estimate(&graph, seconds);
    let names: Vec<&str> = path.into_iter().map(|step| graph.name(step)).collect();
    assert_eq!((names, length.as_secs()), (vec!["a", "b", "d"], 7));
    // With one slot all of it is done one after the other; two are as good as any number.
    for (slots, expected) in [(0, 9), (1, 9), (2, 7), (100, 7)] {
        assert_eq!(path::makespan(&graph, seconds, slots).as_secs(), expected, "{slots}");
    }
    let wide = check(&dag((0..5).map(|n| step(&format!("s{n}"), &[])).collect())).unwrap();
    let lengths = |step: u32| SignedDuration::from_secs([4, 1, 1, 1, 1][step as usize]);
    assert_eq!(path::makespan(&wide, lengths, 2).as_secs(), 4, "no slot idles while work waits");
}

#[test]
fn the_critical_path_leads_through_the_last_item_of_a_fan_out() {
    let at = |ms: i64| Timestamp::from_millisecond(ms).unwrap();
    let record =
        |step, item, by: Option<(u32, Option<u32>)>, from, until: Option<i64>| StepRecord {
            key: StepKey { step, item },
            outcome: until.map(|_| Outcome::Completed),
            reason: None,
            run: Some(RunId(Uuid::from_u128(1))),
            items: None,
            decided_by: by.map(|(step, item)| StepKey { step, item }),
            decided_at: at(from),
            ended_at: until.map(at),
            is_adopted: false,
        };
    let group =
        StepRecord { run: None, items: Some(3), ..record(1, None, Some((0, None)), 5, Some(40)) };
    let records = [
        record(0, None, None, 0, Some(5)),
        group,
        record(1, Some(0), Some((0, None)), 5, Some(20)),
        record(1, Some(1), Some((1, Some(0))), 20, Some(40)),
        record(1, Some(2), Some((0, None)), 5, Some(30)),
        record(2, None, Some((1, None)), 40, None),
    ];
    let path: Vec<(u32, Option<u32>)> =
        path::critical_path(&records).iter().map(|it| (it.key.step, it.key.item)).collect();
    assert_eq!(path, [(0, None), (1, Some(1)), (2, None)]);
}
