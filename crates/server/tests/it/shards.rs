//! Shards and split executions, over REST and in SQL.

use domain::access::Actor as Somebody;
use query::Value as Cell;
use serde_json::{Value, json};
use server::Actor;
use server::sql::Session;
use store::Operation;

use crate::world::{World, until};

/// Makes shards, and waits until each has an owner.
async fn with_shards(count: usize) -> World {
    let world = World::now().await;
    for n in 1..=count {
        let shard = json!({"name": format!("shard_{n:03}"), "database": format!("sales_{n}")});
        let made = world.post("/v1/shards", shard).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }
    until(|| async {
        let shards = world.get("/v1/shards").await.json();
        let owned = |shard: &Value| shard["owner"].is_string();
        shards["data"].as_array().unwrap().iter().all(owned).then_some(())
    })
    .await;
    world
}

/// A job on all shards that calls this endpoint.
fn spread(name: &str, endpoint: &str) -> Value {
    json!({
        "name": name, "job_type": "MANUAL", "payload": {"endpoint": endpoint},
        "partition": {"strategy": "ALL_SHARDS"}, "retry_config": {"max_attempts": 1},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_is_made_changed_and_removed() {
    let world = with_shards(2).await;
    let again = world.post("/v1/shards", json!({"name": "shard_001"})).await;
    assert_eq!(again.error(), (409, "ALREADY_EXISTS".into(), "name".into()));
    for (spec, field) in [
        (json!({"name": "a b"}), "name"),
        (json!({"name": "s", "labels": {"zone": "e u"}}), "labels"),
        (json!({"name": "s", "database": ""}), "database"),
        (json!({"name": "s", "databse": "x"}), "databse"),
    ] {
        let reply = world.post("/v1/shards", spec.clone()).await;
        assert_eq!((reply.status, reply.error().2.as_str()), (422, field), "{spec}");
    }
    let shown = world.get("/v1/shards/shard_001").await;
    assert_eq!(shown.json()["database"], "sales_1");
    assert_eq!(shown.json()["fence"], 1);
    // Pinned to a node that is not there, it has no owner.
    let pin = Some(json!({"node": "elsewhere"}));
    let etag = shown.header("etag").to_owned();
    let changed = world.call("PATCH", "/v1/shards/shard_001", &[("if-match", &etag)], pin).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    let orphan = until(|| async {
        let shard = world.get("/v1/shards/shard_001").await.json();
        shard.get("owner_id").is_none().then_some(shard)
    })
    .await;
    assert_eq!((&orphan["fence"], &orphan["node"]), (&json!(2), &json!("elsewhere")));
    assert_eq!(world.call("DELETE", "/v1/shards/shard_001", &[], None).await.status, 204);
    assert_eq!(world.get("/v1/shards/shard_001").await.status, 404);
    let audit = world.get("/v1/audit?event_type=SETTING_CHANGED").await.text;
    assert!(audit.contains("SHARD") && audit.contains("shard_001"), "{audit}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_shows_how_many_of_its_shards_are_done() {
    let world = with_shards(4).await;
    assert_eq!(world.post("/v1/jobs", spread("good", "http://ok")).await.status, 201);
    let id = world.trigger("good").await;
    let whole = world.ended(&id).await;
    assert_eq!(
        (&whole["status"], &whole["message"]),
        (&json!("COMPLETED"), &json!("4 of 4 shards done"))
    );
    assert_eq!(whole["parts"], json!({"total": 4, "completed": 4, "failed": 0}));
    let parts = world.get(&format!("/v1/executions/{id}/parts")).await.json();
    let parts = parts["data"].as_array().unwrap();
    let names: Vec<&str> = parts.iter().map(|part| part["shard"].as_str().unwrap()).collect();
    assert_eq!(names, ["shard_001", "shard_002", "shard_003", "shard_004"]);
    assert!(parts.iter().all(|part| part["parent_id"] == id && part["origin"] == "PART"));
    let list = world.get("/v1/jobs/good/executions?origin=MANUAL").await.json();
    assert_eq!(list["data"][0]["parts"]["total"], 4, "{list}");
    let part = parts[0]["execution_id"].as_str().unwrap();
    let part = world.get(&format!("/v1/executions/{part}")).await.json();
    assert_eq!((&part["shard"], &part["parent_id"]), (&json!("shard_001"), &json!(id)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_execution_is_retried_where_it_failed_and_cancelled_with_its_parts() {
    let world = with_shards(3).await;
    assert_eq!(world.post("/v1/jobs", spread("bad", "http://fail")).await.status, 201);
    let id = world.trigger("bad").await;
    let whole = world.ended(&id).await;
    assert_eq!((&whole["status"], &whole["reason"]), (&json!("FAILED"), &json!("PARTS_FAILED")));
    let letters = world.get("/v1/dead-letters").await.json();
    assert_eq!(letters["data"].as_array().unwrap().len(), 1, "the run, and not its parts");
    // One of the parts is done again alone.
    let parts = world.get(&format!("/v1/executions/{id}/parts")).await.json();
    let part = parts["data"][1]["execution_id"].as_str().unwrap();
    let again = world.call("POST", &format!("/v1/executions/{part}/retry"), &[], None).await;
    assert_eq!(again.status, 202, "{}", again.text);
    let again = again.json()["execution_id"].as_str().unwrap().to_owned();
    assert_eq!(world.ended(&again).await["parts"]["total"], 1);

    let mut held = spread("held", "http://held");
    held["partition"] = json!({"strategy": "SINGLE_SHARD", "shard": "shard_002"});
    assert_eq!(world.post("/v1/jobs", held).await.status, 201);
    let id = world.trigger("held").await;
    world.begun("held").await;
    let cancelled = world.call("POST", &format!("/v1/executions/{id}/cancel"), &[], None).await;
    assert_eq!(cancelled.status, 202, "{}", cancelled.text);
    let whole = world.ended(&id).await;
    assert_eq!(whole["status"], "CANCELLED", "{whole}");
    assert_eq!(whole["parts"], json!({"total": 1, "completed": 0, "failed": 1}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_keeps_its_rule_and_its_parameters() {
    let world = with_shards(2).await;
    let job = json!({
        "name": "reports", "job_type": "MANUAL", "payload": {"type": "NOOP"},
        "partition": {"strategy": "DYNAMIC", "expression": "SHARD_KEY(customer_id)"},
        "parameters": {"customer_id": 42},
    });
    assert_eq!(world.post("/v1/jobs", job.clone()).await.status, 201);
    let shown = world.get("/v1/jobs/reports").await.json();
    assert_eq!(
        (&shown["partition"], &shown["parameters"]),
        (&job["partition"], &job["parameters"])
    );
    let trigger = json!({"parameters": {"customer_id": 7, "day": "mon"}});
    let run = world.post("/v1/jobs/reports/trigger", trigger).await.json();
    let run = world.ended(run["execution_id"].as_str().unwrap()).await;
    assert_eq!(run["parameters"], json!({"customer_id": 7, "day": "mon"}));
    for (partition, field) in [
        (json!({"strategy": "SINGLE_SHARD"}), "partition.shard"),
        (json!({"strategy": "ALL_SHARDS", "shard": "a"}), "partition.shard"),
        (json!({"strategy": "SHARD_SET"}), "partition.shards"),
        (json!({"strategy": "DYNAMIC", "expression": "pg_sleep(1)"}), "partition"),
    ] {
        let change = Some(json!({"partition": partition}));
        let reply = world.call("PATCH", "/v1/jobs/reports", &[], change).await;
        assert_eq!((reply.status, reply.error().2.as_str()), (422, field), "{partition}");
    }
    let both = Some(json!({"class": "LEADER_ONLY"}));
    let both = world.call("PATCH", "/v1/jobs/reports", &[], both).await;
    assert_eq!(both.error().2, "partition", "{}", both.text);
}

async fn answer(session: &mut Session, text: &str) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for parsed in session.parse(text).unwrap() {
        rows = session
            .run(&parsed.statement, &[])
            .await
            .unwrap_or_else(|error| panic!("{text}: {}", error.problem.message))
            .rows;
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s0_115_to_s0_124_shards_in_sql() {
    let world = World::now().await;
    let mut session = Session::new(world.app.clone(), Actor::from(Somebody::admin()));
    answer(&mut session, "CREATE SHARD 'shard_001' DATABASE = sales_eu; CREATE SHARD shard_002")
        .await;
    let owned = "SELECT shard_name FROM sys.shards WHERE state = 'OWNED' ORDER BY shard_name";
    until(|| async {
        let mut session = Session::new(world.app.clone(), Actor::from(Somebody::admin()));
        (answer(&mut session, owned).await.len() == 2).then_some(())
    })
    .await;
    let shown = answer(&mut session, "SHOW SHARDS").await;
    assert_eq!(shown[0][0], Cell::text("shard_001"));
    assert_eq!(shown[0][2], Cell::text("sales_eu"));
    for (job, rule, parts) in [
        ("analyze_all_tables", "PARTITION BY ALL_SHARDS", 2),
        ("rebuild_shard_001_indexes", "PARTITION BY SHARD 'shard_001'", 1),
        ("some", "PARTITION BY SHARD_SET ('shard_001', 'shard_002')", 2),
        (
            "process_customer_orders",
            "PARTITION BY SHARD_KEY(customer_id) PARAMETERS (customer_id = 42)",
            1,
        ),
    ] {
        answer(&mut session, &format!("CREATE JOB {job} {rule} AS NOOP")).await;
        let printed = answer(&mut session, &format!("SHOW CREATE JOB {job}")).await;
        let Cell::Text(printed) = &printed[0][1] else { panic!("no text") };
        assert!(printed.contains("PARTITION BY "), "{printed}");
        let run = answer(&mut session, &format!("EXECUTE JOB {job}")).await;
        let Cell::Uuid(run) = run[0][0] else { panic!("no id") };
        let whole = world.ended(&run.to_string()).await;
        assert_eq!(whole["status"], "COMPLETED", "{whole}");
        assert_eq!(whole["parts"]["total"], parts, "{job}");
        let count = format!(
            "SELECT count(DISTINCT shard_uuid) FROM sys.job_runs WHERE job_name = '{job}' AND origin = 'PART'"
        );
        assert_eq!(answer(&mut session, &count).await[0][0], Cell::Int(parts), "{job}");
    }
    let strategies = "SELECT partition_strategy, partition_expression FROM sys.jobs WHERE job_name = 'process_customer_orders'";
    let row = answer(&mut session, strategies).await.remove(0);
    assert_eq!(row, [Cell::text("DYNAMIC"), Cell::text("SHARD_KEY(customer_id)")]);
    answer(&mut session, "ALTER SHARD shard_001 SET DATABASE = NONE; DROP SHARD shard_002").await;
    assert_eq!(answer(&mut session, "SELECT database_name FROM sys.shards").await, [[Cell::Null]]);
}

/// The sentences of EXPLAIN JOB about parts.
async fn explained(session: &mut Session, job: &str) -> Vec<String> {
    let rows = answer(session, &format!("EXPLAIN JOB {job}")).await;
    let about = rows.into_iter().filter(|row| row[0] == Cell::text("parts"));
    about
        .map(|row| match &row[2] {
            Cell::Text(said) => said.to_string(),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_tells_how_far_the_parts_of_a_run_have_come() {
    let world = with_shards(3).await;
    let mut session = Session::new(world.app.clone(), Actor::from(Somebody::admin()));
    answer(&mut session, "ALTER SHARD shard_003 ON NODE elsewhere").await;
    until(|| async {
        let shard = world.get("/v1/shards/shard_003").await.json();
        shard.get("owner_id").is_none().then_some(())
    })
    .await;
    assert_eq!(world.post("/v1/jobs", spread("bad", "http://fail")).await.status, 201);
    assert_eq!(explained(&mut session, "bad").await, [""; 0]);
    let id = world.trigger("bad").await;
    until(|| async {
        let whole = world.get(&format!("/v1/executions/{id}")).await.json();
        (whole["parts"]["failed"] == 2).then_some(())
    })
    .await;
    let told = [
        format!("0 of 3 parts of run {id} completed, 2 did not, 1 has not ended"),
        "shard shard_001 ended as FAILED: it answered 500".to_owned(),
        "shard shard_002 ended as FAILED: it answered 500".to_owned(),
        "shard shard_003 waits for an eligible node: there is none".to_owned(),
    ];
    assert_eq!(explained(&mut session, "bad").await, told);
    let over_rest = world.get("/v1/jobs/bad/explain").await.json();
    assert_eq!(over_rest["parts"], json!(told));

    // A column that the query does not read costs no call, and one that it reads costs one for a
    // page. A parent run has a row for each of its child runs in `sys.job_runs`, and one row in the
    // ledger.
    let looks = || world.calls.of(Operation::Parents);
    let before = looks();
    let plain = "SELECT execution_uuid, state, shard_uuid FROM sys.job_runs";
    assert_eq!(answer(&mut session, plain).await.len(), 3);
    assert_eq!(looks(), before);
    let counts = "SELECT parts_total, parts_completed, parts_failed FROM sys.ledger \
                  WHERE job_name = 'bad' AND origin = 'MANUAL'";
    let row = [Cell::Int(3), Cell::Int(0), Cell::Int(2)];
    assert_eq!(answer(&mut session, counts).await, [row]);
    let children = format!(
        "SELECT count(*), count(DISTINCT shard_uuid) FROM sys.job_runs WHERE parent_id = '{id}'"
    );
    assert_eq!(answer(&mut session, &children).await, [[Cell::Int(3), Cell::Int(3)]]);
    let whole = format!("SELECT count(*) FROM sys.job_runs WHERE execution_uuid = '{id}'");
    assert_eq!(answer(&mut session, &whole).await, [[Cell::Int(0)]]);
    assert!((1..=8).contains(&(looks() - before)), "{}", looks() - before);
    // The run itself waits for its part, and ends with it.
    answer(&mut session, "ALTER SHARD shard_003 ON NODE NONE").await;
    world.ended(&id).await;
    let parts = explained(&mut session, "bad").await;
    assert_eq!(parts[0], format!("0 of 3 parts of run {id} completed, 3 did not"));

    let mut held = spread("held", "http://held");
    held["partition"] = json!({"strategy": "SINGLE_SHARD", "shard": "shard_002"});
    assert_eq!(world.post("/v1/jobs", held).await.status, 201);
    let id = world.trigger("held").await;
    world.begun("held").await;
    let parts = explained(&mut session, "held").await;
    assert_eq!(parts[0], format!("0 of 1 parts of run {id} completed, 1 has not ended"));
    assert!(parts[1].starts_with("shard shard_002 runs on node "), "{parts:?}");
    world.call("POST", &format!("/v1/executions/{id}/cancel"), &[], None).await;
    world.ended(&id).await;
}
