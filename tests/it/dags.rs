//! DAGs with real processes: S4's pipeline through every interface, with the server killed at each
//! step; bad input, and what is refused.

use std::path::Path;

use serde_json::{Value, json};

use crate::binary::{Ended, run};
use crate::serve::process::{Server, until};

/// The body of the specification, word for word.
const ETL: &str = r##"{
    "name": "etl-pipeline",
    "cron_expression": "0 2 * * *",
    "timezone": "UTC",
    "tasks": [
        {
            "name": "extract",
            "payload": {
                "action": "extract_data",
                "source": "production_db"
            },
            "timeout_seconds": 1800
        },
        {
            "name": "transform",
            "payload": {
                "action": "transform_data"
            },
            "dependencies": ["extract"],
            "timeout_seconds": 3600
        },
        {
            "name": "load",
            "payload": {
                "action": "load_data",
                "destination": "data_warehouse"
            },
            "dependencies": ["transform"],
            "timeout_seconds": 1800
        },
        {
            "name": "notify",
            "payload": {
                "action": "send_notification",
                "channel": "#data-team"
            },
            "dependencies": ["load"]
        }
    ]
}"##;

/// The same in SQL.
const ETL_SQL: &str = r##"
CREATE DAG "etl-pipeline" SCHEDULE = CRON '0 2 * * *' TIMEZONE = 'UTC' AS (
  STEP extract TIMEOUT = 1800 SECONDS AS MESSAGE JSON '{"action": "extract_data", "source": "production_db"}',
  STEP transform AFTER extract TIMEOUT = 3600 SECONDS AS MESSAGE JSON '{"action": "transform_data"}',
  STEP load AFTER transform TIMEOUT = 1800 SECONDS
    AS MESSAGE JSON '{"action": "load_data", "destination": "data_warehouse"}',
  STEP notify AFTER load AS MESSAGE JSON '{"action": "send_notification", "channel": "#data-team"}'
)"##;

fn call(server: &Server, method: &str, path: &str, body: &Value) -> Value {
    let body = (!body.is_null()).then_some(body);
    let (status, answer) = server.call(method, path, body);
    assert!(status < 300, "{method} {path}: {status} {answer}");
    answer
}

fn get(server: &Server, path: &str) -> Value {
    call(server, "GET", path, &Value::Null)
}

fn post(server: &Server, path: &str, body: Value) -> Value {
    call(server, "POST", path, &body)
}

/// Runs a command of the command line against a server.
fn command(server: &Server, args: &[&str], input: &str) -> Ended {
    let url = format!("http://{}", server.address);
    let mut all: Vec<&str> = args.to_vec();
    all.extend(["--server", &url, "--token", &server.key]);
    run(all, input.as_bytes())
}

fn sql(server: &Server, text: &str) -> Value {
    post(server, "/v1/sql", json!({ "sql": text }))["results"][0].clone()
}

/// The tasks of S4's body as the server shows them: the last has the default timeout.
fn tasks() -> Value {
    let mut body: Value = serde_json::from_str(ETL).unwrap();
    body["tasks"][3]["timeout_seconds"] = json!(3600);
    body["tasks"].take()
}

/// How a DAG is made.
#[derive(Clone, Copy)]
enum Through {
    Rest,
    Sql,
    Yaml,
}

fn define(server: &Server, through: Through) {
    let body: Value = serde_json::from_str(ETL).unwrap();
    match through {
        Through::Rest => {
            let made = post(server, "/v1/dags", body);
            assert_eq!(
                (&made["name"], &made["status"]),
                (&json!("etl-pipeline"), &json!("ACTIVE"))
            );
            assert!(made["next_run_time"].as_str().unwrap().contains("T02:00:00"), "{made}");
        }
        Through::Sql => {
            assert_eq!(sql(server, ETL_SQL)["tag"], "CREATE DAG");
        }
        Through::Yaml => {
            // YAML is a superset of JSON; the second time nothing changes.
            let first = command(server, &["apply", "-f", "-"], ETL);
            assert_eq!(first.code, Some(0), "{first:?}");
            assert!(first.stdout.contains("created"), "{first:?}");
            let exported = command(server, &["export", "etl-pipeline"], "");
            assert!(exported.stdout.contains("kind: dag"), "{exported:?}");
            for text in [ETL, &exported.stdout] {
                let again = command(server, &["apply", "-f", "-"], text);
                assert!(again.stdout.contains("unchanged"), "{again:?}");
            }
        }
    }
    let shown = get(server, "/v1/dags/etl-pipeline");
    assert_eq!(shown["tasks"], tasks());
    let levels = json!([["extract"], ["transform"], ["load"], ["notify"]]);
    assert_eq!(shown["levels"], levels);
    assert_eq!(
        (&shown["cron_expression"], &shown["timezone"]),
        (&json!("0 2 * * *"), &json!("UTC"))
    );
}

/// A message that the test's worker leased.
fn lease(server: &Server) -> Value {
    until(|| {
        let leased = post(server, "/v1/queues/default/lease", json!({"wait_s": 5}));
        leased["messages"].as_array().unwrap().first().cloned()
    })
}

fn ack(server: &Server, message: &Value, result: Value) {
    let report = json!({"id": message["id"], "fence": message["fence"], "result": result});
    let answer = post(server, "/v1/queues/default/ack", json!({ "messages": [report] }));
    assert_eq!(answer["messages"][0]["status"], 200, "{answer}");
}

/// A DAG run that has ended.
fn ended(server: &Server, run: &str) -> Value {
    let path = format!("/v1/dag-runs/{run}");
    until(|| Some(get(server, &path)).filter(|it| it["completed_at"].is_string()))
}

fn statuses(run: &Value) -> Vec<(String, String)> {
    let word = |task: &Value, field: &str| task[field].as_str().unwrap_or_default().to_owned();
    let tasks = run["tasks"].as_array().unwrap().iter();
    tasks.map(|task| (word(task, "task"), word(task, "status"))).collect()
}

fn start(data: &Path, store: &[&str], address: &str) -> Server {
    let mut args = store.to_vec();
    if !address.is_empty() {
        args.extend(["--http", address]);
    }
    Server::start_with(data, &args, &[("PUNCTUAL_API__RATE_PER_SECOND", "0")])
}

/// Each step is sent once, also if the server dies while a worker has it.
fn pipeline(through: Through, store: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut server = start(&data, store, "");
    let address = server.address.clone();
    post(&server, "/v1/queues", json!({"name": "default", "lease_seconds": 600}));
    define(&server, through);
    let triggered = match through {
        Through::Sql => {
            let started = sql(&server, r#"EXECUTE DAG "etl-pipeline" WITH (day = '2026-11-14')"#);
            started["rows"][0][0].as_str().unwrap().to_owned()
        }
        _ => {
            let body = json!({"config": {"day": "2026-11-14"}});
            let started = post(&server, "/v1/dags/etl-pipeline/trigger", body);
            started["dag_run_id"].as_str().unwrap().to_owned()
        }
    };
    let path = format!("/v1/dag-runs/{triggered}");
    for (n, task) in tasks().as_array().unwrap().iter().enumerate() {
        let message = lease(&server);
        assert_eq!(message["payload"], task["payload"], "{message}");
        server.kill();
        server = start(&data, store, &address);
        let run = get(&server, &path);
        assert_eq!(run["config"], json!({"day": "2026-11-14"}));
        for (i, (name, status)) in statuses(&run).into_iter().enumerate() {
            let expected = match i.cmp(&n) {
                std::cmp::Ordering::Less => "COMPLETED",
                std::cmp::Ordering::Equal => "RUNNING",
                std::cmp::Ordering::Greater => "PENDING",
            };
            assert_eq!(status, expected, "{name} of {run}");
        }
        ack(&server, &message, json!({"rows": 10 * (n + 1)}));
    }
    let run = ended(&server, &triggered);
    assert_eq!(run["status"], "COMPLETED", "{run}");
    assert!(statuses(&run).iter().all(|(_, status)| status == "COMPLETED"), "{run}");
    assert_eq!((&run["counts"]["tasks"], &run["counts"]["completed"]), (&json!(4), &json!(4)));
    let path: Vec<&Value> =
        run["critical_path"].as_array().unwrap().iter().map(|step| &step["task"]).collect();
    assert_eq!(path, ["extract", "transform", "load", "notify"]);
    let sent = get(&server, "/v1/queues/default/messages?limit=500");
    assert_eq!(sent["data"].as_array().unwrap().len(), 4, "each step is one message: {sent}");
    let load = get(&server, &format!("/v1/dag-runs/{triggered}/tasks/load"));
    assert_eq!(load["result"], json!({"rows": 30}), "{load}");
    let verified = command(&server, &["verify", "dag-runs"], "");
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let replayed = command(&server, &["dag", "replay", &triggered, "-o", "json"], "");
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
    let steps = sql(
        &server,
        &format!("SELECT step_name, state FROM sys.dag_steps WHERE dag_run_uuid = '{triggered}'"),
    );
    assert_eq!(steps["rows"].as_array().unwrap().len(), 4, "{steps}");
    let explained = sql(&server, &format!("EXPLAIN STEP load OF RUN '{triggered}'"));
    assert!(!explained["rows"].as_array().unwrap().is_empty(), "{explained}");
}

fn on_postgres(name: &str, through: Through) {
    let postgres = testbed::postgres::Server::shared();
    crate::cluster::member::create_database(&postgres.url("postgres"), name);
    pipeline(through, &["--store", &postgres.url(name)]);
}

#[test]
fn the_pipeline_of_the_specification_survives_kills_through_rest() {
    pipeline(Through::Rest, &[]);
}

#[test]
fn the_pipeline_of_the_specification_survives_kills_through_sql() {
    pipeline(Through::Sql, &[]);
}

#[test]
fn the_pipeline_of_the_specification_survives_kills_through_yaml() {
    pipeline(Through::Yaml, &[]);
}

#[test]
fn the_pipeline_survives_kills_on_postgres_through_rest() {
    on_postgres("dag_rest", Through::Rest);
}

#[test]
fn the_pipeline_survives_kills_on_postgres_through_sql() {
    on_postgres("dag_sql", Through::Sql);
}

#[test]
fn the_pipeline_survives_kills_on_postgres_through_yaml() {
    on_postgres("dag_yaml", Through::Yaml);
}

/// A task that does nothing.
fn noop(name: &str, dependencies: &[&str]) -> Value {
    json!({"name": name, "payload": {"type": "NOOP"}, "dependencies": dependencies})
}

#[test]
fn bad_dags_are_refused_with_their_place_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[]);
    let many: Vec<Value> = (0..10_001).map(|n| noop(&format!("s{n}"), &[])).collect();
    let template = |text: &str| {
        let mut task = noop("b", &["a"]);
        task["payload"] = json!({"action": "x", "of": text});
        json!([noop("a", &[]), task])
    };
    let with = |field: &str, value: Value| {
        let mut task = noop("a", &[]);
        task[field] = value;
        json!([task])
    };
    for (tasks, status, field, words) in [
        (
            json!([noop("a", &["c"]), noop("b", &["a"]), noop("c", &["b"])]),
            422,
            "tasks",
            "DAG contains a cycle: ",
        ),
        (json!([noop("a", &["a"])]), 422, "tasks", "DAG contains a cycle: a -> a"),
        (
            json!([noop("extract", &[]), noop("load", &["extrakt"])]),
            422,
            "tasks[1].dependencies",
            "did you mean \"extract\"?",
        ),
        (json!(many), 422, "tasks", "too many steps: 10001, at most 10000"),
        (json!([]), 422, "tasks", "at least one step"),
        (json!([noop("a", &[]), noop("a", &[])]), 422, "tasks[1].name", "two steps"),
        (json!([noop("a b", &[])]), 422, "tasks[0].name", "letters, digits"),
        (template("${steps.missing.result.rows}"), 422, "tasks[1].payload", "\"missing\""),
        (template("${nothing.here}"), 422, "tasks[1].payload", "refers to nothing"),
        (template("${steps.a.result | loud}"), 422, "tasks[1].payload", "is not a filter"),
        (with("when", json!("steps.a.result >")), 422, "tasks[0].when", "character"),
        (with("result_bytes", json!(2 << 20)), 422, "tasks[0].result_bytes", "1048576"),
        (with("priority", json!(10)), 422, "tasks[0].priority", "0 to 9"),
        (with("payload", json!({"type": "NOPE"})), 422, "tasks[0].payload.type", "NOPE"),
        (with("payload", json!({})), 422, "tasks[0].payload.type", "action for workers"),
        (with("trigger_rule", json!("SOMETIMES")), 422, "tasks[0].trigger_rule", "SOMETIMES"),
        (with("for_each", json!({"min_success": "most"})), 422, "tasks[0].for_each", "90%"),
        (with("dependency", json!(["a"])), 422, "tasks[0].dependency", "there is no field"),
    ] {
        for path in ["/v1/dags", "/v1/dags/validate"] {
            let body = json!({"name": "bad", "tasks": tasks});
            let (code, answer) = server.call("POST", path, Some(&body));
            let shown = answer.to_string();
            let shown: String = shown.chars().take(600).collect();
            assert_eq!(code, status, "{words}: {shown}");
            let detail = &answer["error"]["details"][0];
            assert!(detail["field"].as_str().unwrap_or_default().starts_with(field), "{shown}");
            assert!(
                answer["error"]["message"].as_str().unwrap().contains(words),
                "{words}: {shown}"
            );
        }
    }
    let (code, answer) =
        server.call("POST", "/v1/dags", Some(&json!({"name": "bad", "payload": {}, "tasks": []})));
    assert_eq!((code, &answer["error"]["details"][0]["field"]), (422, &json!("payload")));
    let refused = |text: &str| {
        let (code, answer) = server.call("POST", "/v1/sql", Some(&json!({ "sql": text })));
        assert!(code >= 400, "{answer}");
        answer["error"]["message"].as_str().unwrap().to_owned()
    };
    let text = "CREATE DAG bad AS (STEP a AFTER b AS NOOP, STEP b AFTER a AS NOOP)";
    assert!(refused(text).contains("DAG contains a cycle: "), "{}", refused(text));
    let file = "name: bad\ntasks:\n- {name: a, payload: {type: NOOP}, dependencies: [nowhere]}\n";
    let applied = command(&server, &["apply", "-f", "-"], file);
    assert_eq!(applied.code, Some(2), "{applied:?}");
    assert!(applied.stderr.contains("tasks[0].dependencies"), "{applied:?}");
    assert_eq!(get(&server, "/v1/dags")["data"], json!([]), "nothing was made");
}

#[test]
fn a_result_bomb_fails_its_step_only() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[]);
    post(&server, "/v1/queues", json!({"name": "default"}));
    let task = |name: &str| json!({"name": name, "payload": {"action": name}, "max_retries": 0});
    let mut bomb = task("bomb");
    bomb["result_bytes"] = json!(100);
    let mut behind = noop("behind", &["bomb"]);
    behind["trigger_rule"] = json!("ALL_SUCCESS");
    let tasks = json!([bomb, task("calm"), behind, noop("beside", &["calm"])]);
    post(&server, "/v1/dags", json!({"name": "d", "tasks": tasks}));
    let started = post(&server, "/v1/dags/d/trigger", json!({}));
    let run = started["dag_run_id"].as_str().unwrap();
    for _ in 0..2 {
        let message = lease(&server);
        ack(&server, &message, json!("x".repeat(1_000)));
    }
    let run = ended(&server, run);
    assert_eq!(run["status"], "FAILED", "{run}");
    let states: Vec<_> = statuses(&run).into_iter().map(|(_, status)| status).collect();
    assert_eq!(states, ["FAILED", "COMPLETED", "SKIPPED", "COMPLETED"], "{run}");
    assert!(run["tasks"][0].to_string().contains("RESULT_TOO_LARGE"), "{run}");
}

#[test]
fn the_command_line_makes_runs_reruns_and_explains_a_dag() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[]);
    let file = "
name: release
config: {color: blue}
tasks:
- {name: build, payload: {type: NOOP}}
- {name: ask, payload: {type: APPROVAL}, dependencies: [build]}
- {name: ship, payload: {type: NOOP}, dependencies: [ask]}
- {name: regret, payload: {type: NOOP}, dependencies: [ask], trigger_rule: ONE_FAILED}
";
    let done = |args: &[&str], input: &str| {
        let ended = command(&server, args, input);
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
        ended.stdout
    };
    let outlook = done(&["dag", "validate", "-f", "-"], file);
    assert!(outlook.contains("level 0") && outlook.contains("build -> ask -> "), "{outlook}");
    done(&["dag", "create", "-f", "-"], file);
    assert!(done(&["dag", "list"], "").contains("release"));
    let shown = done(&["dag", "show", "release"], "");
    assert!(shown.contains("level 2"), "{shown}");
    let id = done(&["dag", "run", "release", "--param", "color=red"], "").trim().to_owned();
    let waits = || statuses(&get(&server, &format!("/v1/dag-runs/{id}")))[0].1 == "COMPLETED";
    until(|| waits().then_some(()));
    done(&["dag", "approve", "release", "ask", "--note", "go"], "");
    let run = ended(&server, &id);
    assert_eq!(run["status"], "COMPLETED", "{run}");
    let states: Vec<_> = statuses(&run).into_iter().map(|(_, status)| status).collect();
    assert_eq!(states, ["COMPLETED", "COMPLETED", "COMPLETED", "SKIPPED"], "{run}");
    let status = done(&["dag", "status", "release"], "");
    assert!(status.contains("regret") && status.contains("SKIPPED"), "{status}");
    assert!(done(&["dag", "runs", "release"], "").contains(&id));
    assert!(done(&["dag", "step", &id, "ship"], "").contains("COMPLETED"));
    assert!(!done(&["dag", "explain", &id], "").is_empty());
    assert!(!done(&["dag", "explain", &id, "regret"], "").is_empty());
    let plan = done(&["dag", "rerun", &id, "--from", "ship", "--dry-run"], "");
    assert!(plan.contains("ship") && plan.contains("build (COMPLETED)"), "{plan}");
    let again = done(&["dag", "rerun", &id, "--from", "ship"], "").trim().to_owned();
    let repeated = ended(&server, &again);
    assert_eq!((&repeated["status"], &repeated["rerun_of"]), (&json!("COMPLETED"), &json!(id)));
    assert_eq!(repeated["tasks"][0]["is_adopted"], true, "{repeated}");
    done(&["dag", "diff", &id, &again], "");
    done(&["dag", "replay", &id], "");
    let assumed = done(&["dag", "replay", &id, "--assume", "build=FAILED", "-o", "json"], "");
    assert!(assumed.contains("SKIPPED"), "{assumed}");
    let third = done(&["dag", "run", "release"], "").trim().to_owned();
    done(&["dag", "mark", &third, "ask", "--as", "skipped", "--note", "not today"], "");
    let marked = ended(&server, &third);
    assert_eq!(marked["tasks"][1]["status"], "SKIPPED", "{marked}");
    done(&["dag", "run", "release"], "");
    done(&["dag", "cancel", "release"], "");
    let cancelled = get(&server, "/v1/dags/release/runs?limit=1");
    let newest = cancelled["data"][0]["dag_run_id"].as_str().unwrap().to_owned();
    assert_eq!(ended(&server, &newest)["status"], "CANCELLED");
    done(&["verify", "dag-runs", "--dag", "release"], "");
    for (args, code) in [
        (vec!["dag", "show", "nowhere"], 3),
        (vec!["dag", "status", "nowhere"], 3),
        (vec!["dag", "step", id.as_str(), "nowhere"], 3),
        (vec!["dag", "approve", id.as_str(), "ask"], 4),
        (vec!["dag", "continue", id.as_str()], 4),
        (vec!["dag", "delete", "release"], 2),
    ] {
        let refused = command(&server, &args, "");
        assert_eq!(refused.code, Some(code), "{args:?}: {refused:?}");
    }
    done(&["dag", "pause", "release"], "");
    done(&["dag", "resume", "release"], "");
    done(&["dag", "delete", "release", "--yes"], "");
}
