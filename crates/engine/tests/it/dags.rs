//! DAG runs: what ends release and skip, with nodes that die and users that intervene.

use std::collections::BTreeMap;

use domain::action::{Action, ExternalAction, SqlAction};
use domain::dag::state::{Control, StepKey};
use domain::dag::{Dag, ForEach, Graph, MinSuccess, OnStepFailure, Step, StepWork, TriggerRule};
use domain::id::RunId;
use domain::job::{Definition, Job, Overlap, RetryPolicy};
use domain::run::{AttemptResult, ErrorCode, RunState};
use engine::{Cancelled, Deletion, Node, Started, Trigger};
use jiff::SignedDuration;
use store::{AuditLog, DagRecords, SYSTEM, Store};

use crate::world::{Steps, TestNode, World};

pub const START: &str = "2026-03-01T00:00:00Z";

pub fn step(name: &str, after: &[&str]) -> Step {
    let after = after.iter().map(|&name| name.to_owned()).collect();
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    Step { name: name.to_owned(), after, retry: Some(retry), ..Step::default() }
}

pub fn dag(steps: Vec<Step>) -> Definition {
    let dag = Dag { steps, ..Dag::default() };
    Definition { dag: Some(Box::new(dag)), ..Definition::default() }
}

fn with(definition: Definition, change: impl FnOnce(&mut Dag)) -> Definition {
    let mut definition = definition;
    change(definition.dag.as_mut().unwrap());
    definition
}

fn failed() -> AttemptResult {
    AttemptResult::failed(ErrorCode::Exit(1), "no")
}

pub fn result(json: &str) -> AttemptResult {
    AttemptResult { result: Some(json.to_owned()), ..AttemptResult::completed() }
}

/// The step that a run executes, with its item: `load`, `load[2]`.
pub fn name(started: &Started) -> String {
    started.job.name.split('/').next_back().unwrap_or_default().to_owned()
}

pub async fn triggered(node: &Node, job: &Job, parameters: Option<&str>) -> RunId {
    let trigger = Trigger { parameters: parameters.map(str::to_owned), ..Trigger::default() };
    let run = node.triggered(job.id, trigger).await.unwrap();
    node.submit(std::slice::from_ref(&run)).await.unwrap();
    run.id
}

/// Works until nothing starts any more; `end` returns how each step ends. Returns the started
/// steps, in their order.
pub async fn work(node: &TestNode, mut end: impl FnMut(&Started) -> AttemptResult) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let started = node.work().await;
        if started.is_empty() {
            return names;
        }
        for run in started {
            names.push(name(&run));
            assert!(node.complete(run.run.grant, end(&run)));
        }
        node.flush().await;
    }
}

/// The outcomes of all steps: `a COMPLETED, b SKIPPED TRIGGER_RULE, c[0] FAILED`.
pub async fn steps(world: &World, job: &Job, run: RunId) -> Vec<String> {
    let graph = Graph::compile(job.definition.dag.as_ref().unwrap()).unwrap();
    let (_, records) = world.store.dag_run(run, true).await.unwrap().unwrap();
    let line = |record: &domain::dag::state::StepRecord| {
        let item = record.key.item.map(|item| format!("[{item}]")).unwrap_or_default();
        let outcome = record.outcome.map_or("OPEN".to_owned(), |outcome| outcome.to_string());
        let reason = record.reason.as_ref();
        let reason = reason.map(|reason| format!(" {}", reason.code.name())).unwrap_or_default();
        format!("{}{item} {outcome}{reason}", graph.name(record.key.step))
    };
    records.iter().map(line).collect()
}

pub async fn state(world: &World, run: RunId) -> String {
    world.store.run(run).await.unwrap().unwrap().state.to_string()
}

#[tokio::test]
async fn a_chain_runs_step_by_step_and_completes() {
    let world = World::at(START);
    let node = world.node().await;
    let names = ["extract", "transform", "load", "notify"];
    let chain = names.iter().enumerate().map(|(n, name)| match n {
        0 => step(name, &[]),
        _ => step(name, &[names[n - 1]]),
    });
    let job = node.create("etl", dag(chain.collect())).await;
    let run = triggered(&node, &job, None).await;
    assert_eq!(work(&node, |_| AttemptResult::completed()).await, names);
    assert_eq!(state(&world, run).await, "COMPLETED");
    let view = world.store.run(run).await.unwrap().unwrap();
    assert_eq!(view.message.as_deref(), Some("4 of 4 steps completed"));
    let (header, records) = world.store.dag_run(run, true).await.unwrap().unwrap();
    assert!(header.is_over);
    let by: Vec<Option<u32>> =
        records.iter().map(|record| record.decided_by.map(|by| by.step)).collect();
    assert_eq!(by, [None, Some(0), Some(1), Some(2)]);
    // Lists of the job's runs show the DAG run, and its steps as children of it.
    assert_eq!(
        world.ledger(job.id).await.iter().filter(|line| line.contains("COMPLETED")).count(),
        5
    );
}

#[tokio::test]
async fn a_failure_skips_what_needs_it_and_nothing_else() {
    let world = World::at(START);
    let node = world.node().await;
    let mut cleanup = step("cleanup", &["load"]);
    cleanup.rule = TriggerRule::AllDone;
    let mut alarm = step("alarm", &["extract", "other"]);
    alarm.rule = TriggerRule::OneFailed;
    let steps_of = vec![
        step("extract", &[]),
        step("other", &[]),
        step("load", &["extract"]),
        cleanup,
        alarm,
        step("after_other", &["other"]),
    ];
    let job = node.create("etl", dag(steps_of)).await;
    let run = triggered(&node, &job, None).await;
    let end = |run: &Started| match name(run).as_str() {
        "extract" => failed(),
        _ => AttemptResult::completed(),
    };
    work(&node, end).await;
    assert_eq!(state(&world, run).await, "FAILED");
    assert_eq!(
        steps(&world, &job, run).await,
        [
            "extract FAILED",
            "other COMPLETED",
            "load SKIPPED TRIGGER_RULE",
            "cleanup COMPLETED",
            "alarm COMPLETED",
            "after_other COMPLETED"
        ]
    );
    let view = world.store.run(run).await.unwrap().unwrap();
    assert_eq!(view.reason.as_deref(), Some("STEPS_FAILED"));
    let text = "1 of 6 steps did not complete: extract FAILED";
    assert_eq!(view.reason_text.as_deref(), Some(text));
}

#[tokio::test]
async fn an_allowed_failure_does_not_fail_the_run_and_its_children_go_on() {
    let world = World::at(START);
    let node = world.node().await;
    let mut optional = step("optional", &[]);
    optional.allow_failure = true;
    let job = node.create("etl", dag(vec![optional, step("next", &["optional"])])).await;
    let run = triggered(&node, &job, None).await;
    let end = |run: &Started| match name(run).as_str() {
        "optional" => failed(),
        _ => AttemptResult::completed(),
    };
    work(&node, end).await;
    assert_eq!(steps(&world, &job, run).await, ["optional FAILED", "next COMPLETED"]);
    assert_eq!(state(&world, run).await, "COMPLETED");
}

#[tokio::test]
async fn results_fill_templates_and_decide_conditions() {
    let world = World::at(START);
    let node = world.node().await;
    let mut load = step("load", &["extract"]);
    let command = ExternalAction {
        command: "/bin/load".into(),
        arguments: vec![
            "--from=${steps.extract.result.path}".into(),
            "${params.day}".into(),
            "${run.scheduled_for | date}".into(),
        ],
        environment: BTreeMap::new(),
    };
    load.work = StepWork::Action { action: Action::External(command) };
    load.when = Some("steps.extract.result.rows > 0 AND params.day = '2026-02-28'".into());
    let mut query = step("query", &["extract"]);
    let sql = SqlAction { sql: "SELECT ${steps.extract.result.path}".into(), database: None };
    query.work = StepWork::Action { action: Action::Sql(sql) };
    let mut none = step("none", &["extract"]);
    none.when = Some("steps.extract.result.rows > 100".into());
    let mut wrong = step("wrong", &["extract"]);
    let sql = SqlAction { sql: "SELECT ${steps.extract.result.missing}".into(), database: None };
    wrong.work = StepWork::Action { action: Action::Sql(sql) };
    let job = node.create("etl", dag(vec![step("extract", &[]), load, query, none, wrong])).await;
    let run = triggered(&node, &job, Some(r#"{"day":"2026-02-28"}"#)).await;
    let mut seen = Vec::new();
    let end = |run: &Started| {
        seen.push((name(run), run.job.definition.action.clone(), run.run.run.parameters.clone()));
        match name(run).as_str() {
            "extract" => result(r#"{"rows":3,"path":"s3://x'; DROP"}"#),
            _ => AttemptResult::completed(),
        }
    };
    work(&node, end).await;
    assert_eq!(
        steps(&world, &job, run).await,
        [
            "extract COMPLETED",
            "load COMPLETED",
            "query COMPLETED",
            "none SKIPPED CONDITION",
            "wrong FAILED INPUTS"
        ]
    );
    let of = |name: &str| seen.iter().find(|(step, ..)| step == name).unwrap().clone();
    let (_, action, parameters) = of("load");
    let Action::External(external) = action else { panic!("{action:?}") };
    assert_eq!(external.arguments, ["--from=s3://x'; DROP", "2026-02-28", "2026-03-01"]);
    assert_eq!(parameters.as_deref(), Some(r#"{"day":"2026-02-28"}"#));
    let (_, action, parameters) = of("query");
    let Action::Sql(sql) = action else { panic!("{action:?}") };
    assert_eq!(sql.sql, "SELECT :template_0", "a value is never part of a statement");
    let expected = r#"{"day":"2026-02-28","template_0":"s3://x'; DROP"}"#;
    assert_eq!(parameters.as_deref(), Some(expected));
}

#[tokio::test]
async fn a_step_is_retried_and_its_dag_run_waits() {
    let world = World::at(START);
    let node = world.node().await;
    let mut flaky = step("flaky", &[]);
    let backoff = SignedDuration::from_secs(5);
    flaky.retry =
        Some(RetryPolicy { max_attempts: 3, backoff, multiplier: 1.0, ..RetryPolicy::default() });
    let job = node.create("etl", dag(vec![flaky, step("next", &["flaky"])])).await;
    let run = triggered(&node, &job, None).await;
    let mut tries = 0;
    let mut end = |run: &Started| match name(run).as_str() {
        "flaky" if tries < 2 => {
            tries += 1;
            failed()
        }
        _ => AttemptResult::completed(),
    };
    for _ in 0..4 {
        work(&node, &mut end).await;
        world.pass(5);
    }
    assert_eq!(steps(&world, &job, run).await, ["flaky COMPLETED", "next COMPLETED"]);
    assert_eq!(state(&world, run).await, "COMPLETED");
}

#[tokio::test]
async fn no_step_starts_after_a_cancel() {
    let world = World::at(START);
    let node = world.node().await;
    let job =
        node.create("etl", dag(vec![step("a", &[]), step("b", &["a"]), step("c", &["b"])])).await;
    let run = triggered(&node, &job, None).await;
    let started = node.work().await;
    assert_eq!(started.len(), 1);
    // The end of the first step and the cancellation race.
    assert!(node.complete(started[0].run.grant, AttemptResult::completed()));
    let cancelled = node.cancel_run(run, "a user asked", SYSTEM).await.unwrap();
    assert!(matches!(cancelled, Cancelled::Requested(_)), "{cancelled:?}");
    assert_eq!(work(&node, |_| AttemptResult::completed()).await, Vec::<String>::new());
    assert_eq!(state(&world, run).await, "CANCELLED");
    let ended = steps(&world, &job, run).await;
    assert_eq!(ended[1..], ["b CANCELLED CANCEL_REQUESTED", "c CANCELLED CANCEL_REQUESTED"]);
}

/// Also if one call decides about several DAG runs.
#[tokio::test]
async fn steps_of_a_cancelled_dag_run_end_in_the_name_of_its_author() {
    let world = World::at(START);
    let node = world.node().await;
    let steps = dag(vec![step("a", &[]), step("b", &["a"])]);
    let job = node.create("etl", Definition { overlap: Overlap::Allow, ..steps }).await;
    let mut runs = Vec::new();
    for _ in 0..2 {
        runs.push(triggered(&node, &job, None).await);
        world.pass(1);
    }
    let started = node.work().await;
    assert_eq!(started.len(), 2);
    let (ann, bob) = tokio::join!(
        node.cancel_run(runs[0], "wrong day", "ann"),
        node.cancel_run(runs[1], "wrong file", "bob")
    );
    ann.unwrap();
    bob.unwrap();
    for (run, by) in runs.iter().zip(["ann", "bob"]) {
        let known = world.store.dag_run(*run, true).await.unwrap().unwrap().1;
        let step = known.iter().find_map(|record| record.run).unwrap();
        let events = world.store.run_events(step, 9).await.unwrap();
        let authors: Vec<&str> = events.iter().map(|event| event.actor.as_str()).collect();
        assert_eq!(authors, [by]);
    }
}

#[tokio::test]
async fn a_list_fans_out_and_its_items_are_followed_one_by_one() {
    let world = World::at(START);
    let node = world.node().await;
    let mut fetch = step("fetch", &["list"]);
    fetch.for_each = Some(ForEach {
        list: Some("steps.list.result".into()),
        min_success: Some(MinSuccess::Percent(60)),
        max_parallel: Some(2),
        ..ForEach::default()
    });
    let mut parse = step("parse", &["fetch"]);
    parse.for_each = Some(ForEach { along: Some("fetch".into()), ..ForEach::default() });
    parse.work = StepWork::Action {
        action: Action::External(ExternalAction {
            command: "/bin/parse".into(),
            arguments: vec!["${item.id} ${steps.fetch.result.bytes}".into()],
            environment: BTreeMap::new(),
        }),
    };
    let mut join = step("join", &["fetch"]);
    join.work = StepWork::Action {
        action: Action::External(ExternalAction {
            command: "/bin/join".into(),
            arguments: vec!["${steps.fetch.result | json}".into()],
            environment: BTreeMap::new(),
        }),
    };
    let job = node.create("fan", dag(vec![step("list", &[]), fetch, parse, join])).await;
    let run = triggered(&node, &job, None).await;
    let mut arguments = Vec::new();
    let (mut at_once, mut most) = (0, 0);
    loop {
        let started = node.work().await;
        if started.is_empty() {
            break;
        }
        at_once = started.iter().filter(|run| name(run) == "fetch").count();
        most = most.max(at_once);
        for run in started {
            let parameters = run.run.run.parameters.clone().unwrap_or_default();
            if let Action::External(external) = &run.job.definition.action {
                arguments.extend(external.arguments.clone());
            }
            let end = match name(&run).as_str() {
                "list" => result(r#"[{"id":1},{"id":2},{"id":3}]"#),
                "fetch" if parameters.contains(r#""id":2"#) => failed(),
                "fetch" => result(r#"{"bytes":10}"#),
                _ => AttemptResult::completed(),
            };
            assert!(node.complete(run.run.grant, end));
        }
        node.flush().await;
    }
    let _ = at_once;
    assert_eq!(most, 2, "max_parallel");
    let mut ended = steps(&world, &job, run).await;
    ended.sort_unstable();
    assert_eq!(
        ended,
        [
            "fetch COMPLETED",
            "fetch[0] COMPLETED",
            "fetch[1] FAILED",
            "fetch[2] COMPLETED",
            "join COMPLETED",
            "list COMPLETED",
            "parse FAILED PARTS_FAILED",
            "parse[0] COMPLETED",
            "parse[1] SKIPPED TRIGGER_RULE",
            "parse[2] COMPLETED",
        ]
    );
    arguments.sort_unstable();
    assert_eq!(arguments, ["1 10", "3 10", r#"[{"bytes":10},null,{"bytes":10}]"#]);
}

/// An action that had a larger result than it keeps fails its step, whatever is left of the result.
#[tokio::test]
async fn a_cut_result_fails_its_step() {
    let world = World::at(START);
    let node = world.node().await;
    let job = node.create("etl", dag(vec![step("rows", &[]), step("next", &["rows"])])).await;
    for left in [Some("[1,2]".to_owned()), None] {
        let run = triggered(&node, &job, None).await;
        let cut = |_: &Started| AttemptResult {
            result: left.clone(),
            is_result_cut: true,
            ..AttemptResult::completed()
        };
        work(&node, cut).await;
        let ended = steps(&world, &job, run).await;
        assert_eq!(ended.len(), 2, "{ended:?}");
        assert!(ended[0].starts_with("rows FAILED"), "{ended:?}");
        assert_eq!(ended[1], "next SKIPPED TRIGGER_RULE");
        assert_eq!(state(&world, run).await, "FAILED");
    }
}

/// Items may each have a result that is allowed, and all of them together one that is not.
#[tokio::test]
async fn a_step_fails_that_reads_more_results_than_it_can() {
    let world = World::at(START);
    let node = world.node().await;
    let mut each = step("each", &[]);
    each.for_each = Some(ForEach { list: Some("params.days".into()), ..ForEach::default() });
    each.result_bytes = Some(1 << 20);
    let mut join = step("join", &["each"]);
    join.work = StepWork::Action {
        action: Action::External(ExternalAction {
            command: "/bin/join".into(),
            arguments: vec!["${steps.each.result | json}".into()],
            environment: BTreeMap::new(),
        }),
    };
    let mut check = step("check", &["each"]);
    check.when = Some("steps.each.result[0] != null".into());
    let job = node.create("fan", dag(vec![each, join, check, step("next", &["each"])])).await;
    let large = format!("\"{}\"", "x".repeat((1 << 20) - 2));
    let run =
        triggered(&node, &job, Some(r#"{"days":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}"#))
            .await;
    let end = |run: &Started| match name(run).as_str() {
        "each" => result(&large),
        _ => AttemptResult::completed(),
    };
    work(&node, end).await;
    let ended = steps(&world, &job, run).await;
    let others: Vec<_> = ended.iter().filter(|line| !line.starts_with("each")).collect();
    assert_eq!(others, ["join FAILED INPUTS", "check FAILED INPUTS", "next COMPLETED"]);
    let (_, records) = world.store.dag_run(run, true).await.unwrap().unwrap();
    let reasons = records.iter().filter_map(|record| record.reason.as_ref());
    let reasons: Vec<&str> = reasons.map(|reason| reason.text.as_str()).collect();
    let text = "the results of 17 items have 17825792 bytes together";
    assert!(reasons.iter().all(|reason| reason.contains(text)), "{reasons:?}");
}

#[tokio::test]
async fn an_empty_list_completes() {
    let world = World::at(START);
    let node = world.node().await;
    let mut each = step("each", &[]);
    each.for_each = Some(ForEach { list: Some("params.days".into()), ..ForEach::default() });
    let job = node.create("fan", dag(vec![each, step("next", &["each"])])).await;
    let run = triggered(&node, &job, Some(r#"{"days":[]}"#)).await;
    assert_eq!(work(&node, |_| AttemptResult::completed()).await, ["next"]);
    assert_eq!(state(&world, run).await, "COMPLETED");
    let missing = triggered(&node, &job, None).await;
    work(&node, |_| AttemptResult::completed()).await;
    assert_eq!(
        steps(&world, &job, missing).await,
        ["each FAILED INPUTS", "next SKIPPED TRIGGER_RULE"]
    );
}

#[tokio::test]
async fn a_failure_stops_or_holds_the_run() {
    for (policy, expected) in [
        (OnStepFailure::Stop, "bad FAILED, good CANCELLED, next SKIPPED DAG_STOPPED"),
        (OnStepFailure::Hold, "bad FAILED, good COMPLETED"),
    ] {
        let world = World::at(START);
        let node = world.node().await;
        let definition = dag(vec![step("bad", &[]), step("good", &[]), step("next", &["good"])]);
        let definition = with(definition, |dag| dag.on_step_failure = policy);
        let job = node.create("etl", definition).await;
        let run = triggered(&node, &job, None).await;
        let started = node.work().await;
        let (bad, good): (Vec<_>, Vec<_>) = started.into_iter().partition(|run| name(run) == "bad");
        assert!(node.complete(bad[0].run.grant, failed()));
        node.flush().await;
        assert!(node.work().await.is_empty());
        let end = match policy {
            OnStepFailure::Stop => AttemptResult {
                end: domain::run::AttemptEnd::Cancelled,
                ..AttemptResult::completed()
            },
            _ => AttemptResult::completed(),
        };
        assert!(node.complete(good[0].run.grant, end));
        node.flush().await;
        assert_eq!(work(&node, |_| AttemptResult::completed()).await, Vec::<String>::new());
        assert_eq!(steps(&world, &job, run).await.join(", "), expected, "{policy:?}");
        let (header, _) = world.store.dag_run(run, false).await.unwrap().unwrap();
        if policy == OnStepFailure::Hold {
            assert_eq!(header.control, Control::Held);
            node.resume_dag(run).await.unwrap();
            assert_eq!(work(&node, |_| AttemptResult::completed()).await, ["next"]);
        }
        assert_eq!(state(&world, run).await, "FAILED", "{policy:?}");
    }
}

#[tokio::test]
async fn no_more_steps_execute_at_once_than_allowed() {
    let world = World::at(START);
    let node = world.node().await;
    let wide: Vec<Step> = (0..10).map(|n| step(&format!("s{n}"), &[])).collect();
    let job = node.create("wide", with(dag(wide), |dag| dag.max_parallel = Some(3))).await;
    let run = triggered(&node, &job, None).await;
    let mut count = 0;
    loop {
        let started = node.work().await;
        if started.is_empty() {
            break;
        }
        assert!(started.len() <= 3, "{}", started.len());
        count += started.len();
        assert!(node.complete(started[0].run.grant, AttemptResult::completed()));
        for run in &started[1..] {
            assert!(node.complete(run.run.grant, AttemptResult::completed()));
        }
        node.flush().await;
    }
    assert_eq!(count, 10);
    assert_eq!(state(&world, run).await, "COMPLETED");
}

#[tokio::test]
async fn a_dag_run_survives_the_nodes_that_advance_it() {
    let names = ["a", "b", "c", "d"];
    // A node dies: before its step ends, after its end was recorded, or after the decision.
    for (died, flushes, decides) in [(0, false, false), (1, true, false), (2, true, true)] {
        let world = World::at(START);
        let mut chain = vec![step("a", &[])];
        chain.extend(names.windows(2).map(|pair| step(pair[1], &[pair[0]])));
        let first = world.mortal_node().await;
        let job = first.create("etl", dag(chain)).await;
        let run = triggered(&first, &job, None).await;
        for _ in 0..died {
            let started = first.work().await;
            assert!(first.complete(started[0].run.grant, AttemptResult::completed()));
            first.flush().await;
        }
        let started = first.work().await;
        assert_eq!(started.len(), 1);
        if flushes {
            assert!(first.complete(started[0].run.grant, AttemptResult::completed()));
            first.flush().await;
        }
        if decides {
            first.advance_dags().await.unwrap();
        }
        drop(first);
        world.pass(15);
        let second = world.node().await;
        for _ in 0..20 {
            while second.reap().await.unwrap().more {}
            work(&second, |_| AttemptResult::completed()).await;
            world.pass(2);
        }
        assert_eq!(state(&world, run).await, "COMPLETED", "{died}");
        let ended = steps(&world, &job, run).await;
        assert_eq!(ended, names.map(|name| format!("{name} COMPLETED")), "{died}");
        // Each step ran once, but for the one that its node may have begun.
        for (key, name) in names.iter().enumerate() {
            let (_, records) = world.store.dag_run(run, true).await.unwrap().unwrap();
            let record = records.iter().find(|it| it.key == StepKey::of_step(key as u32)).unwrap();
            let attempts = world.store.attempts(record.run.unwrap()).await.unwrap().len();
            // After the decision, the next step is held by the node that dies.
            let was_lost = if decides { key == died + 1 } else { key == died && !flushes };
            let expected = if was_lost { 2 } else { 1 };
            assert_eq!(attempts, expected, "{name} after {died}");
        }
    }
}

#[tokio::test]
async fn a_run_follows_the_version_that_it_began_with() {
    let world = World::at(START);
    let node = world.node().await;
    let job = node.create("etl", dag(vec![step("a", &[]), step("b", &["a"])])).await;
    let run = triggered(&node, &job, None).await;
    let started = node.work().await;
    let changed = dag(vec![step("a", &[]), step("c", &["a"])]);
    node.alter_job(job.id, move |job| job.definition = changed, SYSTEM).await.unwrap();
    assert!(node.complete(started[0].run.grant, AttemptResult::completed()));
    node.flush().await;
    assert_eq!(work(&node, |_| AttemptResult::completed()).await, ["b"]);
    assert_eq!(state(&world, run).await, "COMPLETED");
}

#[tokio::test]
async fn overlapping_dag_runs_take_turns() {
    let world = World::at(START);
    let node = world.node().await;
    let job = node.create("etl", dag(vec![step("a", &[]), step("b", &["a"])])).await;
    let first = triggered(&node, &job, None).await;
    let second = triggered(&node, &job, None).await;
    let started = node.work().await;
    assert_eq!(started.len(), 1, "the second run waits in line");
    assert_eq!(world.store.run(second).await.unwrap().unwrap().state, RunState::Queued,);
    assert!(node.complete(started[0].run.grant, AttemptResult::completed()));
    node.flush().await;
    work(&node, |_| AttemptResult::completed()).await;
    assert_eq!(state(&world, first).await, "COMPLETED");
    assert_eq!(state(&world, second).await, "COMPLETED");
}

#[tokio::test]
async fn a_run_of_a_deleted_dag_comes_to_its_end() {
    let world = World::at(START);
    let node = world.node().await;
    let job = node.create("etl", dag(vec![step("a", &[]), step("b", &["a"])])).await;
    let run = triggered(&node, &job, None).await;
    let started = node.work().await;
    node.delete_job(job.id, Deletion::default(), SYSTEM).await.unwrap();
    // The DAG run is looked at again meanwhile.
    world.pass(11);
    assert!(node.work().await.is_empty());
    assert!(node.complete(started[0].run.grant, AttemptResult::completed()));
    node.flush().await;
    assert_eq!(work(&node, |_| AttemptResult::completed()).await, ["b"]);
    assert_eq!(state(&world, run).await, "COMPLETED");
}
