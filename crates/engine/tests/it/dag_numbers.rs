//! Numbers with more digits than 64 bits hold, from the result of a step to the actions of others.

use std::collections::BTreeMap;

use domain::action::Action;
use domain::dag::{Step, StepWork};
use domain::run::AttemptResult;
use engine::Started;

use crate::dags::{START, dag, name, result, step, steps, triggered, work as work_through};
use crate::world::{Steps, World};

#[tokio::test]
async fn numbers_of_any_length_pass_from_step_to_step() {
    const LONG: &str = "123456789012345678901234567890";
    let world = World::at(START);
    let node = world.node().await;
    let work = |name: &str, action: serde_json::Value| {
        let action = serde_json::from_value(action).unwrap();
        Step { work: StepWork::Action { action }, ..step(name, &["extract"]) }
    };
    let body = serde_json::json!({ "id": "${steps.extract.result.n}", "day": "${params.big}" });
    let steps_of_dag = vec![
        step("extract", &[]),
        work(
            "text",
            serde_json::json!({ "type": "EXTERNAL", "command": "/bin/load",
            "arguments": ["--id=${steps.extract.result.n}", "${steps.extract.result | json}"] }),
        ),
        work(
            "call",
            serde_json::json!({ "type": "HTTP", "endpoint": "https://e.org/", "body": body }),
        ),
        work(
            "query",
            serde_json::json!({ "type": "SQL", "sql": "SELECT ${steps.extract.result.n}" }),
        ),
        Step { when: Some("steps.extract.result.n > 5".into()), ..step("more", &["extract"]) },
    ];
    let job = node.create("etl", dag(steps_of_dag)).await;
    let run = triggered(&node, &job, Some(&format!(r#"{{"big":{LONG}}}"#))).await;
    let mut seen = BTreeMap::new();
    let end = |run: &Started| {
        let action = run.job.definition.action.clone();
        seen.insert(name(run), (action, run.run.run.parameters.clone()));
        match name(run).as_str() {
            "extract" => result(&format!(r#"{{"n":{LONG}}}"#)),
            _ => AttemptResult::completed(),
        }
    };
    work_through(&node, end).await;
    assert!(steps(&world, &job, run).await.iter().all(|step| step.ends_with(" COMPLETED")));
    let (Action::External(external), _) = &seen["text"] else { panic!("{seen:?}") };
    assert_eq!(external.arguments, [format!("--id={LONG}"), format!(r#"{{"n":{LONG}}}"#)]);
    let (Action::Http(http), parameters) = &seen["call"] else { panic!("{seen:?}") };
    let sent = domain::exact_number::to_text(http.body.as_ref().unwrap());
    assert_eq!(sent, format!(r#"{{"day":{LONG},"id":{LONG}}}"#));
    assert_eq!(parameters.as_deref(), Some(&*format!(r#"{{"big":{LONG}}}"#)));
    let expected = format!(r#"{{"big":{LONG},"template_0":{LONG}}}"#);
    assert_eq!(seen["query"].1.as_deref(), Some(&*expected));
}
