//! DAGs over REST and SQL: created, changed, run, and visible to users with the privilege. On both
//! stores.

use serde_json::{Value, json};

use crate::world::{Reply, World, until};

/// A test for each function and store.
macro_rules! on_both_stores {
    ($($name:ident)*) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name(&super::World::now().await).await;
                }
            )*
        }
        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name(&super::World::of_postgres().await).await;
                }
            )*
        }
    };
}

on_both_stores! {
    a_dag_is_made_changed_and_removed
    a_dag_is_no_job
    dags_are_managed_in_sql
    every_payload_is_shown_as_it_was_sent
    steps_that_did_not_run_are_shown
    tasks_come_in_pages
    all_tasks_and_many_runs_come_as_columns
}

fn noop(name: &str, dependencies: &[&str]) -> Value {
    json!({"name": name, "payload": {"type": "NOOP"}, "dependencies": dependencies})
}

fn chain() -> Value {
    json!({"name": "etl", "tasks": [noop("a", &[]), noop("b", &["a"]), noop("c", &["b"])]})
}

async fn create(world: &World, body: Value) -> Value {
    let made = world.post("/v1/dags", body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.json()
}

async fn sql(world: &World, text: &str) -> Reply {
    world.post("/v1/sql", json!({ "sql": text })).await
}

/// A run that has ended.
async fn ended(world: &World, run: &str) -> Value {
    let path = format!("/v1/dag-runs/{run}");
    until(|| async {
        let run = world.get(&path).await;
        assert_eq!(run.status, 200, "{}", run.text);
        Some(run.json()).filter(|run| run["completed_at"].is_string())
    })
    .await
}

async fn a_dag_is_made_changed_and_removed(world: &World) {
    let made = create(world, chain()).await;
    assert_eq!((&made["name"], &made["status"]), (&json!("etl"), &json!("ACTIVE")));
    let again = world.post("/v1/dags", chain()).await;
    assert_eq!(again.error().0, 409, "{}", again.text);
    let path = "/v1/dags/etl";
    let shown = world.get(path).await;
    assert_eq!(shown.header("etag"), "\"1\"");
    let shown = shown.json();
    assert_eq!(shown["levels"], json!([["a"], ["b"], ["c"]]));
    assert_eq!(shown["tasks"][1]["dependencies"], json!(["a"]));
    assert_eq!(shown["tasks"][1]["timeout_seconds"], 3600);
    // A PUT of the response is accepted.
    let mut same = shown.clone();
    let put = world.call("PUT", path, &[], Some(same.clone())).await;
    assert_eq!(put.status, 200, "{}", put.text);
    assert_eq!(put.json()["tasks"], shown["tasks"]);
    same["version"] = json!(1);
    let stale = world.call("PUT", path, &[], Some(same.clone())).await;
    assert_eq!(stale.error().0, 409, "{}", stale.text);
    same.as_object_mut().unwrap().remove("version");
    let stale = world.call("PUT", path, &[("if-match", "\"1\"")], Some(same)).await;
    assert_eq!(stale.error().0, 412, "{}", stale.text);
    let patch =
        json!({"cron_expression": "0 2 * * *", "max_parallel": 2, "on_task_failure": "HOLD"});
    let patched = world.call("PATCH", path, &[], Some(patch)).await;
    assert_eq!(patched.status, 200, "{}", patched.text);
    let patched = patched.json();
    assert_eq!(
        (&patched["max_parallel"], &patched["on_task_failure"]),
        (&json!(2), &json!("HOLD"))
    );
    assert_eq!(patched["tasks"], shown["tasks"]);
    let cycle = json!({"tasks": [noop("a", &["b"]), noop("b", &["a"])]});
    let refused = world.call("PATCH", path, &[], Some(cycle)).await;
    let (status, code, field) = refused.error();
    assert_eq!((status, code.as_str(), field.as_str()), (422, "DEPENDENCY_CYCLE", "tasks"));
    assert!(refused.text.contains("DAG contains a cycle: "), "{}", refused.text);
    assert_eq!(world.post("/v1/dags/etl/pause", Value::Null).await.json()["status"], "PAUSED");
    assert_eq!(world.post("/v1/dags/etl/resume", Value::Null).await.json()["status"], "ACTIVE");
    let list = world.get("/v1/dags").await.json();
    assert_eq!(
        (&list["data"][0]["name"], &list["data"][0]["task_count"]),
        (&json!("etl"), &json!(3))
    );
    assert!(list["data"][0]["tasks"].is_null(), "a list shows no tasks");
    let outlook = world.post("/v1/dags/validate", chain()).await.json();
    assert_eq!(outlook["critical_path"], json!(["a", "b", "c"]));
    assert_eq!(
        (&outlook["dependency_count"], &outlook["longest_seconds"]),
        (&json!(2), &json!(10800.0))
    );
    assert_eq!(world.call("DELETE", path, &[], None).await.status, 204);
    assert_eq!(world.get(path).await.error().1, "DAG_NOT_FOUND");
}

async fn a_dag_is_no_job(world: &World) {
    create(world, chain()).await;
    assert_eq!(world.get("/v1/jobs").await.json()["data"], json!([]));
    let job = json!({"name": "etl", "job_type": "MANUAL", "payload": {"type": "NOOP"}});
    for reply in [
        world.get("/v1/jobs/etl").await,
        world.call("PUT", "/v1/jobs/etl", &[], Some(job.clone())).await,
        world.call("PATCH", "/v1/jobs/etl", &[], Some(json!({"priority": 1}))).await,
    ] {
        let (status, code, _) = reply.error();
        assert_eq!((status, code.as_str()), (404, "JOB_NOT_FOUND"), "{}", reply.text);
        assert!(reply.text.contains("/v1/dags"), "{}", reply.text);
    }
    assert_eq!(world.post("/v1/jobs", job).await.error().0, 409);
    for text in ["ALTER JOB etl SET PRIORITY = 1", "CREATE OR ALTER JOB etl AS NOOP"] {
        let reply = sql(world, text).await;
        assert!(reply.text.contains("is a DAG, not a job"), "{text}: {}", reply.text);
    }
    world.job("plain", "http://ok").await;
    assert_eq!(world.get("/v1/dags/plain").await.error().1, "DAG_NOT_FOUND");
}

async fn dags_are_managed_in_sql(world: &World) {
    for (text, status, part) in [
        ("CREATE DAG etl AS (STEP a AS NOOP, STEP b AFTER a AS NOOP)", 200, "CREATE DAG"),
        ("CREATE DAG etl AS (STEP a AS NOOP)", 409, "etl"),
        ("CREATE DAG IF NOT EXISTS etl AS (STEP a AS NOOP)", 200, "already exists, skipping"),
        ("CREATE DAG bad AS (STEP a AFTER b AS NOOP)", 422, "there is no step"),
        (
            "ALTER DAG etl SET MAX_PARALLEL = 3 ADD STEP c AFTER b TIMEOUT = 5 MINUTES AS NOOP",
            200,
            "",
        ),
        ("ALTER DAG etl ADD STEP c AS NOOP", 422, "there is a step"),
        ("ALTER DAG etl DROP STEP a", 422, "there is no step"),
        ("ALTER DAG absent SET MAX_PARALLEL = 3", 404, "absent"),
        ("ALTER DAG IF EXISTS absent SET MAX_PARALLEL = 3", 200, "skipping"),
        ("SHOW CREATE DAG etl", 200, "STEP c AFTER b TIMEOUT = 5 MINUTES AS NOOP"),
        ("SHOW CREATE DAG etl VERSION 1", 200, "STEP b AFTER a AS NOOP\\n  );"),
        ("SHOW CREATE JOB etl", 404, "it is a DAG"),
        ("SHOW DAGS LIKE 'e%'", 200, "etl"),
        ("PAUSE DAG etl", 200, "PAUSE DAG"),
        ("SELECT dag_name, state, steps, max_parallel FROM sys.dags", 200, "PAUSED"),
        ("RESUME DAG etl CATCH_UP = NONE", 200, "RESUME DAG"),
        ("CREATE DAG after_etl DEPENDS ON DAG etl AS (STEP a AS NOOP)", 200, ""),
        ("DROP DAG etl", 409, "CASCADE"),
        ("DROP DAG etl CASCADE", 200, "DROP DAG"),
        ("DROP DAG IF EXISTS etl", 200, "does not exist, skipping"),
    ] {
        let answer = sql(world, text).await;
        assert_eq!(answer.status, status, "{text}: {}", answer.text);
        assert!(answer.text.contains(part), "{text}: {}", answer.text);
    }
}

/// Every kind of work and every field of a task.
async fn every_payload_is_shown_as_it_was_sent(world: &World) {
    let task = |name: &str, payload: Value| json!({"name": name, "payload": payload, "timeout_seconds": 3600});
    let mut rich =
        task("rich", json!({"type": "HTTP", "endpoint": "https://example.org/", "method": "POST"}));
    rich["dependencies"] = json!(["plain", "message"]);
    rich["trigger_rule"] = json!("ALL_DONE");
    rich["when"] = json!("steps.plain.result.rows > 0");
    rich["for_each"] = json!({"item": "day", "list": "params.days", "key": "id", "max_items": 5, "max_parallel": 2, "min_success": "90%"});
    rich["allow_failure"] = json!(true);
    rich["priority"] = json!(9);
    rich["class"] = json!("LEADER_ONLY");
    rich["run_on"] = json!({"zone": "eu"});
    rich["result_bytes"] = json!(100);
    rich["description"] = json!("all of it");
    rich["on_failure"] = json!({"type": "JOB", "job": "cleanup"});
    rich["on_success"] = json!({"action": "cheer"});
    let tasks = json!([
        task("plain", json!({"action": "extract", "deep": {"a": [1, null]}})),
        task("message", json!({"type": "MESSAGE", "queue": "other", "message": {"type": "x"}})),
        task(
            "job",
            json!({"type": "JOB", "job": "report", "parameters": {"day": "${config.day}"}})
        ),
        task("dag", json!({"type": "DAG", "dag": "other", "config": {"n": 1}})),
        task(
            "ask",
            json!({"type": "APPROVAL", "role": "boss", "timeout_seconds": 60, "default": "APPROVE"})
        ),
        task("nap", json!({"type": "SLEEP", "duration_seconds": 5})),
        task("tell", json!({"type": "ALERT", "message": "day ${config.day} is late"})),
        task("mail", json!({"type": "WAIT_FOR_MESSAGE", "queue": "mails", "timeout_seconds": 60})),
        task("wake", json!({"type": "SLEEP", "until": "2030-01-01T00:00:00Z"})),
        rich,
    ]);
    let body = json!({
        "name": "all", "tasks": tasks, "config": {"day": "x", "days": [{"id": 1}]}, "queue": "work",
        "on_failure": {"type": "NOOP"}, "max_parallel": 3, "interval_seconds": 3600,
    });
    create(world, body.clone()).await;
    let shown = world.get("/v1/dags/all").await.json();
    for field in ["tasks", "config", "queue", "on_failure", "max_parallel", "interval_seconds"] {
        assert_eq!(shown[field], body[field], "{field}");
    }
    // SQL prints the same DAG, and the printed text makes it again.
    let printed = sql(world, "SHOW CREATE DAG \"all\"").await.json();
    let text = printed["results"][0]["rows"][0][1].as_str().unwrap().to_owned();
    world.call("DELETE", "/v1/dags/all", &[], None).await;
    let made = sql(world, &text).await;
    assert_eq!(made.status, 200, "{text}\n{}", made.text);
    assert_eq!(world.get("/v1/dags/all").await.json()["tasks"], body["tasks"], "{text}");
}

async fn steps_that_did_not_run_are_shown(world: &World) {
    let mut regret = noop("regret", &["a"]);
    regret["trigger_rule"] = json!("ONE_FAILED");
    let tasks = json!([noop("a", &[]), noop("b", &["a"]), regret]);
    create(world, json!({"name": "d", "tasks": tasks})).await;
    let started = world.post("/v1/dags/d/trigger", json!({"config": {"x": 1}})).await;
    assert_eq!(started.status, 202, "{}", started.text);
    let id = started.json()["dag_run_id"].as_str().unwrap().to_owned();
    assert_eq!(started.header("location"), format!("/v1/dag-runs/{id}"));
    let run = ended(world, &id).await;
    assert_eq!((&run["status"], &run["config"]), (&json!("COMPLETED"), &json!({"x": 1})));
    assert_eq!(
        run["counts"],
        json!({"tasks": 3, "pending": 0, "open": 0, "completed": 2, "failed": 0, "skipped": 1})
    );
    let task = world.get(&format!("/v1/dag-runs/{id}/tasks/regret")).await.json();
    assert_eq!(
        (&task["status"], &task["attempt_number"]),
        (&json!("SKIPPED"), &json!(0)),
        "{task}"
    );
    assert!(task["reason_message"].is_string(), "{task}");
    let runs = world.get("/v1/dags/d/runs").await.json();
    assert_eq!(runs["data"].as_array().unwrap().len(), 1, "{runs}");
    assert_eq!(runs["data"][0]["dag_run_id"], json!(id));
    let rows = sql(world, "SELECT state, steps, steps_skipped FROM sys.dag_runs").await.json();
    assert_eq!(rows["results"][0]["rows"], json!([["COMPLETED", 3, 1]]));
    let missing = world.get(&format!("/v1/dag-runs/{id}/tasks/absent")).await;
    assert_eq!(missing.error().1, "TASK_NOT_FOUND", "{}", missing.text);
    let missing = world.get("/v1/dag-runs/018f0000-0000-7000-8000-00000000dead").await;
    assert_eq!(missing.error().0, 404, "{}", missing.text);
}

async fn tasks_come_in_pages(world: &World) {
    let mut tasks = vec![noop("first", &[])];
    tasks.extend((0..120).map(|n| noop(&format!("s{n}"), &["first"])));
    create(world, json!({"name": "wide", "tasks": tasks})).await;
    let started = world.post("/v1/dags/wide/trigger", json!({})).await.json();
    let id = started["dag_run_id"].as_str().unwrap().to_owned();
    ended(world, &id).await;
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/v1/dag-runs/{id}?limit=50{cursor}")).await.json();
        let tasks = page["tasks"].as_array().unwrap();
        assert!(tasks.len() <= 50);
        names.extend(tasks.iter().map(|task| task["task"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(names.len(), 121);
    assert_eq!((names[0].as_str(), names[120].as_str()), ("first", "s119"));
    let bad = world.get(&format!("/v1/dag-runs/{id}?cursor=eA")).await;
    assert_eq!(bad.error().0, 400, "{}", bad.text);
}

async fn all_tasks_and_many_runs_come_as_columns(world: &World) {
    let each = json!({"item": "x", "list": "config.list"});
    let tasks = json!([
        noop("a", &[]),
        {"name": "b", "payload": {"type": "NOOP"}, "dependencies": ["a"], "for_each": each},
        {"name": "c", "payload": {"type": "NOOP"}, "dependencies": ["a"], "when": "config.deep = true"},
        {"name": "ask", "payload": {"type": "APPROVAL"}, "dependencies": ["b"]},
        noop("last", &["ask"]),
    ]);
    let config = json!({"list": [1, 2, 3], "deep": false});
    create(world, json!({"name": "wide", "tasks": tasks, "config": config})).await;
    let first = world.post("/v1/dags/wide/trigger", json!({})).await.json();
    let id = first["dag_run_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/dag-runs/{id}");
    let columns = until(|| async {
        let found = world.get(&format!("{path}/columns")).await.json();
        Some(found).filter(|found| found["statuses"] == "CCSRP")
    })
    .await;
    let graph = &columns["graph"];
    assert_eq!(graph["names"], json!(["a", "b", "c", "ask", "last"]));
    assert_eq!(graph["kinds"][3], "APPROVAL");
    assert_eq!(graph["levels"], json!([0, 1, 1, 2, 3]));
    assert_eq!(graph["dependencies"], json!([[], [0], [0], [1], [3]]));
    let items = json!([{"task": 1, "count": 3, "completed": 3, "failed": 0, "skipped": 0}]);
    assert_eq!(columns["items"], items);
    assert_eq!(columns["released_ms"][0], 0);
    assert!(columns["ended_ms"][1].as_i64() >= columns["released_ms"][1].as_i64());
    assert!(columns["started_ms"][0].is_i64(), "{columns}");
    assert_eq!(columns["released_ms"][4], Value::Null);
    let rest = world.get(&format!("{path}/columns?graph=false")).await.json();
    assert_eq!((&rest["graph"], &rest["statuses"]), (&Value::Null, &json!("CCSRP")));
    let task = world.get(&format!("{path}/tasks/ask")).await.json();
    assert_eq!(task["may"], json!(["MARK", "DECIDE"]));
    let answer = json!({"answer": "APPROVE", "note": "fine"});
    let decided = world.post(&format!("{path}/tasks/ask/decide"), answer).await;
    assert_eq!(decided.status, 200, "{}", decided.text);
    ended(world, &id).await;
    assert_eq!(world.get(&format!("{path}/tasks/ask")).await.json()["may"], json!([]));
    // Another version has other numbers: the grid follows the names.
    let other = json!({"tasks": [noop("new", &[]), noop("a", &["new"]), noop("last", &["a"])]});
    assert_eq!(world.call("PATCH", "/v1/dags/wide", &[], Some(other)).await.status, 200);
    let second = world.post("/v1/dags/wide/trigger", json!({})).await.json();
    let second = second["dag_run_id"].as_str().unwrap().to_owned();
    ended(world, &second).await;
    let grid = world.get("/v1/dags/wide/grid").await.json();
    assert_eq!((&grid["task_count"], &grid["tasks"]), (&json!(3), &json!(["new", "a", "last"])));
    // Both runs have the same millisecond in their ids: which is first is not known.
    let shown = |answer: &Value| -> Vec<Value> {
        let runs = answer["runs"].as_array().unwrap().iter();
        runs.map(|it| json!([it["dag_run_id"], it["dag_version"], it["statuses"]])).collect()
    };
    let both = [json!([second, 2, "CCC"]), json!([id, 1, ".CC"])];
    assert!(both.iter().all(|run| shown(&grid).contains(run)), "{grid}");
    let part = world.get("/v1/dags/wide/grid?runs=1&first_task=1&tasks=1").await.json();
    assert_eq!((&part["tasks"], &part["runs"][0]["statuses"]), (&json!(["a"]), &json!("C")));
    let cursor = part["next_cursor"].as_str().unwrap();
    let older = world.get(&format!("/v1/dags/wide/grid?runs=1&cursor={cursor}")).await.json();
    assert_eq!(shown(&older), shown(&grid)[1..]);
    assert_eq!(older["next_cursor"], Value::Null);
    let beyond = world.get("/v1/dags/wide/grid?first_task=9").await.json();
    assert_eq!((&beyond["tasks"], &beyond["runs"][0]["statuses"]), (&json!([]), &json!("")));
    let bad = world.get("/v1/dags/wide/grid?runs=101").await;
    assert_eq!((bad.error().0, bad.error().2.as_str()), (400, "runs"), "{}", bad.text);
}
