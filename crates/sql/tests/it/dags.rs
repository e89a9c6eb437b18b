//! A DAG that is printed and parsed back is the same DAG.

use domain::dag::{
    ApprovalAnswer, Dag, ForEach, MinSuccess, OnStepFailure, Step, StepWork, TriggerRule,
};
use domain::job::{Definition, JobState, RetryPolicy};
use jiff::SignedDuration;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use sql::{CreateDag, DagStatement, Defined, Statement};
use testbed::property::{self, Plan};

use crate::{define_dag, examples, name_of};

/// The statement that creates the defined DAG.
pub fn print_dag(name: &str, defined: &Defined) -> String {
    let state = defined.state.unwrap_or(JobState::Enabled);
    sql::create_dag(name, state, &defined.definition, &name_of)
}

fn read(text: &str) -> CreateDag {
    let parsed = sql::parse(text).unwrap_or_else(|error| panic!("{text}\n{error} at {}", error.at));
    match parsed.into_iter().next().map(|it| it.statement) {
        Some(Statement::Dag(dag)) => match *dag {
            DagStatement::Create(create) => create,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn printed_examples_are_read_back() {
    let mut count = 0;
    for (_, text) in examples("clauses.sql") {
        for one in sql::parse(&text).unwrap_or_default() {
            let Statement::Dag(dag) = one.statement else { continue };
            let DagStatement::Create(create) = *dag else { continue };
            let defined = define_dag(&create).unwrap();
            let text = print_dag(&create.name.value, &defined);
            let again = define_dag(&read(&text)).unwrap_or_else(|error| panic!("{text}\n{error}"));
            assert_eq!(again.definition, defined.definition, "{text}");
            assert_eq!(print_dag(&create.name.value, &again), text);
            count += 1;
        }
    }
    assert!(count >= 3, "{count} examples");
}

fn duration() -> impl Strategy<Value = SignedDuration> {
    (1_i64..400_000).prop_map(SignedDuration::from_secs)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_]{1,8}",
        select(vec!["it's", "a b", "\"", "--", "none", "$$"]).prop_map(str::to_owned)
    ]
}

fn work() -> BoxedStrategy<StepWork> {
    let parameters = || prop::collection::btree_map("[a-z]{1,5}", value(), 0..3);
    prop_oneof![
        Just(StepWork::default()),
        (option::of(text()), value())
            .prop_map(|(queue, payload)| StepWork::Message { queue, payload }),
        (text(), parameters()).prop_map(|(job, parameters)| StepWork::Job { job, parameters }),
        (text(), parameters()).prop_map(|(dag, parameters)| StepWork::Dag { dag, parameters }),
        (option::of(text()), option::of(duration()), any::<bool>()).prop_map(
            |(role, timeout, approve)| StepWork::Approval {
                role,
                timeout,
                default: if approve { ApprovalAnswer::Approve } else { ApprovalAnswer::Reject },
            }
        ),
        duration().prop_map(|it| StepWork::Sleep { duration: Some(it), until: None }),
        Just(StepWork::Sleep { duration: None, until: Some("2030-01-01T00:00:00Z".into()) }),
    ]
    .boxed()
}

fn value() -> BoxedStrategy<serde_json::Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|it| json!(it)),
        any::<i32>().prop_map(|it| json!(it)),
        text().prop_map(|it| json!(it)),
        text().prop_map(|it| json!({ "a": [it] })),
    ]
    .boxed()
}

fn for_each() -> BoxedStrategy<ForEach> {
    let least = prop_oneof![
        (0_u32..50).prop_map(MinSuccess::Count),
        (0_u8..=100).prop_map(MinSuccess::Percent),
    ];
    let some = || option::of(1_u32..1_000);
    let key = option::of(select(vec!["id", "a.b"]).prop_map(str::to_owned));
    (key, some(), some(), option::of(least))
        .prop_map(|(key, max_items, max_parallel, min_success)| ForEach {
            list: Some("params.days".into()),
            key,
            max_items,
            max_parallel,
            min_success,
            ..ForEach::default()
        })
        .boxed()
}

fn step(number: usize) -> BoxedStrategy<Step> {
    let rules = select(vec![
        TriggerRule::AllSuccess,
        TriggerRule::AllDone,
        TriggerRule::OneSuccess,
        TriggerRule::OneFailed,
        TriggerRule::NoneFailed,
        TriggerRule::NoneSkipped,
    ]);
    let whens = select(vec!["params.n > 1", "params.a = 'x' AND NOT params.b", "'a' = params.a"]);
    let retry = (1_u32..9, duration()).prop_map(|(max_attempts, backoff)| RetryPolicy {
        max_attempts,
        backoff,
        ..RetryPolicy::default()
    });
    let names = select(vec!["step", "load", "Load", "a-b", "after", "x1"]);
    let after = prop::collection::vec(0..number.max(1), 0..3);
    let each = option::of(for_each());
    (
        (names, after, work(), rules, option::of(whens)),
        (each, any::<bool>(), option::of(duration()), option::of(retry), option::of(0_u8..=9)),
        (option::of(text()), option::of(1_u32..1_000_000), option::of(work()), option::of(work())),
    )
        .prop_map(move |(first, second, third)| {
            let (name, after, work, rule, when) = first;
            let (for_each, allow_failure, timeout, retry, priority) = second;
            let (description, result_bytes, on_failure, on_success) = third;
            // The name of the step before carries its number.
            let parents = after.into_iter().filter(|it| *it < number);
            let waits = matches!(work, StepWork::Approval { .. });
            Step {
                name: format!("{name}{number}"),
                after: parents.map(|it| it.to_string()).collect(),
                description,
                work,
                rule,
                when: when.map(str::to_owned),
                for_each: for_each.filter(|_| !waits),
                allow_failure,
                timeout: timeout.filter(|it| *it != domain::dag::STEP_TIMEOUT),
                retry,
                priority,
                result_bytes,
                on_failure,
                on_success,
                ..Step::default()
            }
        })
        .boxed()
}

fn dag() -> impl Strategy<Value = Dag> {
    let steps = (step(0), step(1), step(2), step(3)).prop_map(|(a, b, c, d)| {
        let mut steps = vec![a, b, c, d];
        let names: Vec<String> = steps.iter().map(|step| step.name.clone()).collect();
        for step in &mut steps {
            let mut after: Vec<String> = Vec::new();
            for number in &step.after {
                let name = &names[number.parse::<usize>().unwrap()];
                if !after.contains(name) {
                    after.push(name.clone());
                }
            }
            step.after = after;
        }
        steps
    });
    let policies = select(vec![OnStepFailure::Continue, OnStepFailure::Stop, OnStepFailure::Hold]);
    let handlers = (option::of(work()), option::of(work()));
    (steps, policies, option::of(1_u32..99), option::of(text()), handlers).prop_map(
        |(steps, on_step_failure, max_parallel, queue, (on_failure, on_success))| Dag {
            steps,
            on_step_failure,
            max_parallel,
            queue,
            on_failure,
            on_success,
        },
    )
}

#[test]
fn a_printed_dag_is_read_back_as_the_same_dag() {
    let test = testbed::this_test!("a_printed_dag_is_read_back_as_the_same_dag");
    let plan = Plan { test, seed: 0x5eed_0da6, cases: 1_000 };
    property::check(plan, &dag(), |dag| {
        if domain::dag::check(&dag).is_err() {
            return Ok(());
        }
        let definition = Definition { dag: Some(Box::new(dag)), ..Definition::default() };
        let text = sql::create_dag("d", JobState::Enabled, &definition, &name_of);
        let again = define_dag(&read(&text)).unwrap_or_else(|error| panic!("{text}\n{error}"));
        prop_assert_eq!(&again.definition, &definition, "{}", text);
        Ok(())
    });
}
