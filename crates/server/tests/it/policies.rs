//! Pools and declared parameters, over REST and in SQL.

use domain::access::Actor as Somebody;
use query::Value as Cell;
use serde_json::{Value, json};
use server::Actor;
use server::sql::Session;

use crate::world::{World, until};

async fn sql(world: &World, text: &str) -> Result<Vec<Vec<Cell>>, String> {
    let mut session = Session::new(world.app.clone(), Actor::from(Somebody::admin()));
    let mut rows = Vec::new();
    for parsed in session.parse(text).map_err(|error| error.problem.message)? {
        let answer = session.run(&parsed.statement, &[]).await;
        rows = answer.map_err(|error| error.problem.message)?.rows.to_vec();
    }
    Ok(rows)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_limits_jobs_and_shows_its_runs() {
    let world = World::now().await;
    let made = world.post("/v1/pools", json!({"name": "warehouse", "size": 1})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let too_small = world.post("/v1/pools", json!({"name": "none", "size": 0})).await;
    assert_eq!(too_small.error(), (422, "VALIDATION_FAILED".into(), "size".into()));
    let job = |name: &str, pool: Value| {
        json!({
            "name": name, "job_type": "MANUAL", "payload": {"endpoint": "http://held"},
            "pool": pool
        })
    };
    let unknown = world.post("/v1/jobs", job("x", json!({"name": "wharehouse"}))).await;
    assert_eq!(unknown.error(), (422, "VALIDATION_FAILED".into(), "pool".into()));
    for name in ["held-1", "held-2"] {
        let made = world.post("/v1/jobs", job(name, json!({"name": "warehouse"}))).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }
    let first = world.trigger("held-1").await;
    world.begun("held-1").await;
    let second = world.trigger("held-2").await;
    until(|| async {
        let pool = world.get("/v1/pools/warehouse").await.json();
        (pool["waiting"] == 1).then_some(())
    })
    .await;
    let pool = world.get("/v1/pools/warehouse").await.json();
    assert_eq!((&pool["used"], &pool["runs"][0]["execution_id"]), (&json!(1), &json!(first)));
    world.until_status(&second, "QUEUED").await;
    let why = world.get(&format!("/v1/executions/{second}/explain")).await.text;
    assert!(why.contains("in the pool warehouse") && why.contains("held-1"), "{why}");
    let in_use = world.call("DELETE", "/v1/pools/warehouse", &[], None).await;
    assert_eq!(in_use.status, 409, "{}", in_use.text);
    let rows = sql(&world, "SELECT pool_name, size, used, waiting FROM sys.pools").await.unwrap();
    assert_eq!(rows, [[Cell::text("warehouse"), Cell::Int(1), Cell::Int(1), Cell::Int(1)]]);
    // More room, and the second one begins.
    sql(&world, "ALTER POOL warehouse SIZE 2").await.unwrap();
    world.begun("held-2").await;
    let shown = sql(&world, "SHOW CREATE JOB \"held-1\"").await.unwrap();
    assert!(format!("{shown:?}").contains("POOL = 'warehouse'"), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_follow_their_rules_on_every_interface() {
    let world = World::now().await;
    let job = json!({
        "name": "report", "job_type": "MANUAL", "payload": {"endpoint": "http://ok"},
        "parameter_rules": [
            {"name": "day", "type": "date", "required": true},
            {"name": "region", "default": "eu", "enum": ["eu", "us"]},
            {"name": "size", "type": "integer", "default": 3, "min": 1, "max": 9},
        ],
    });
    let made = world.post("/v1/jobs", job.clone()).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let trigger = async |parameters: Value| {
        world.post("/v1/jobs/report/trigger", json!({"parameters": parameters})).await
    };
    for (given, field, text) in [
        (json!({}), "parameters.day", "a value is required"),
        (json!({"day": "31.1.2026"}), "parameters.day", "is not a date"),
        (json!({"day": "2026-01-31", "region": "de"}), "parameters.region", "is not one of"),
        (json!({"day": "2026-01-31", "size": 10}), "parameters.size", "maximum of 9"),
        (json!({"day": "2026-01-31", "sise": 1}), "parameters.sise", "does not declare it"),
    ] {
        let reply = trigger(given.clone()).await;
        let (status, code, at) = reply.error();
        assert_eq!((status, code.as_str(), at.as_str()), (422, "VALIDATION_FAILED", field));
        assert!(reply.text.contains(text), "{}", reply.text);
    }
    let run = trigger(json!({"day": "2026-01-31", "size": "7"})).await;
    assert_eq!(run.status, 202, "{}", run.text);
    let id = run.json()["execution_id"].as_str().unwrap().to_owned();
    let execution = world.ended(&id).await;
    let expected = json!({"day": "2026-01-31", "region": "eu", "size": 7});
    assert_eq!(execution["parameters"], expected);
    // SQL, and a change that makes an old run invalid.
    let error = sql(&world, "EXECUTE JOB report WITH (day = 'soon')").await.unwrap_err();
    assert!(error.contains("parameters.day: \"soon\" is not a date"), "{error}");
    sql(&world, "EXECUTE JOB report WITH (day = '2026-02-01')").await.unwrap();
    let shown = sql(&world, "SHOW CREATE JOB report").await.unwrap();
    let text = format!("{shown:?}");
    assert!(text.contains("DECLARE ('day' DATE REQUIRED, 'region' TEXT DEFAULT 'eu'"), "{text}");
    // A schedule needs a value for each required parameter.
    let error = sql(&world, "ALTER JOB report SET SCHEDULE = CRON '0 4 * * *'").await.unwrap_err();
    assert!(error.contains("a job with a schedule needs a default"), "{error}");
    let wrong = sql(&world, "CREATE JOB x DECLARE (n INTEGER DEFAULT 'x') AS NOOP").await;
    assert!(wrong.unwrap_err().contains("the default \"x\" is not a whole number"));
}

/// A job that is older than the defaults of its tenant does not take them with its own text.
#[tokio::test]
async fn the_text_of_a_job_changes_nothing_once_its_tenant_has_defaults() {
    let world = World::at("2026-01-15T10:30:00Z").await;
    let made = sql(
        &world,
        "CREATE JOB old SCHEDULE = CRON '30 2 * * *' TIMEZONE = 'Europe/Berlin' AS NOOP",
    );
    made.await.unwrap();
    let defaults = json!({"job_defaults": {
        "timeout_seconds": 77, "dst": {"gap": "SHIFT_AFTER", "overlap": "BOTH"},
        "retention": {"days": 3, "keep_completed": "NONE"},
    }});
    let set = world.call("PATCH", "/v1/tenants/default", &[], Some(defaults)).await;
    assert_eq!(set.status, 200, "{}", set.text);
    let read = async |name: &str| {
        let mut job = world.get(&format!("/v1/jobs/{name}")).await.json();
        for field in ["job_id", "name", "version", "created_at", "updated_at"] {
            job.as_object_mut().unwrap().remove(field);
        }
        job
    };
    let before = read("old").await;
    // Its own document.
    let document = world.get("/v1/jobs/old").await.json();
    let put = world.call("PUT", "/v1/jobs/old", &[], Some(document)).await;
    assert_eq!(put.status, 200, "{}", put.text);
    assert_eq!(read("old").await, before);
    let short = "RECREATE JOB old SCHEDULE = CRON '30 2 * * *' TIMEZONE = 'Europe/Berlin' AS NOOP";
    sql(&world, short).await.unwrap();
    assert_eq!(read("old").await, before);
    // Another job that is made of its text follows the same rules.
    let printed = sql(&world, "SHOW CREATE JOB old").await.unwrap();
    let Cell::Text(text) = &printed[0][1] else { panic!("{printed:?}") };
    let expected = "CREATE JOB old\n  SCHEDULE = CRON '30 2 * * *'\n  TIMEZONE = 'Europe/Berlin'\n  \
         DST GAP = SKIP\n  DST OVERLAP = FIRST\n  TIMEOUT = ";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("RETENTION (DAYS = 30, KEEP_COMPLETED = ALL)"), "{text}");
    sql(&world, &text.replace("JOB old", "JOB copy")).await.unwrap();
    let copy = read("copy").await;
    assert_eq!(copy["timeout_seconds"], before["timeout_seconds"]);
    assert_eq!(copy["retention"]["days"], 30);
    // A new job takes the defaults, and keeps them.
    sql(&world, "CREATE JOB new SCHEDULE = CRON '30 2 * * *' AS NOOP").await.unwrap();
    let new = read("new").await;
    assert_eq!((&new["timeout_seconds"], &new["retention"]["days"]), (&json!(77), &json!(3)));
}
