//! Steps of a workflow that a worker executes, one after the other, over HTTP: the shape of what
//! Windmill (40 light tasks in 2.1 s, 400 in 19.7 s) and Temporal (400 in 39 s) publish.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::goals::Goal;
use crate::service::Service;
use crate::work::{Session, create};
use crate::{Args, print, progress};

/// The steps, and what Windmill takes for them, in seconds.
const CHAINS: [(usize, f64); 2] = [(40, 2.1), (400, 19.7)];

pub fn measure(service: &Service, args: &Args) -> Result<()> {
    create(service, "tasks")?;
    for (steps, published) in CHAINS {
        progress(format!("a worker executes {steps} steps in a row"));
        let seconds = chain(service, steps)?;
        let settings = json!({"steps": steps, "windmill_s": published});
        let goal = Some(Goal::AtMost(published));
        print(args, &format!("queue.workflow_{steps}"), seconds, "s", settings, goal);
    }
    Ok(())
}

fn chain(service: &Service, steps: usize) -> Result<f64> {
    let mut client = service.client()?;
    let task = |n: usize| {
        let before: Vec<String> = n.checked_sub(1).map(|n| format!("s{n}")).into_iter().collect();
        json!({"name": format!("s{n}"), "payload": {"action": "work"}, "dependencies": before})
    };
    let tasks: Vec<Value> = (0..steps).map(task).collect();
    let name = format!("chain-{steps}");
    let dag = json!({"name": name, "queue": "tasks", "tasks": tasks});
    client.call("POST", "/v1/dags", &dag.to_string())?;
    let begun = Instant::now();
    let run = client.call("POST", &format!("/v1/dags/{name}/trigger"), "{}")?;
    let run = run["dag_run_id"].as_str().context("the DAG run has an id")?.to_owned();
    let mut session = Session::new(service, "tasks", &format!("chain-{steps}"))?;
    let mut done = 0;
    while done < steps {
        let messages = session.poll(10, 5.0)?;
        ensure!(!messages.is_empty() || done > 0, "no step has begun");
        done += messages.len();
    }
    session.poll(0, 0.0)?;
    let path = format!("/v1/dag-runs/{run}");
    loop {
        let run = client.call("GET", &path, "")?;
        if run["completed_at"].is_string() {
            ensure!(run["status"] == "COMPLETED", "{run}");
            return Ok(begun.elapsed().as_secs_f64());
        }
    }
}
