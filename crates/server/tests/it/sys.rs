//! The tables of `sys`: their rows for each actor, and the order.

use std::path::Path;
use std::sync::Arc;

use domain::access::{Actor, Privilege, Privileges};
use domain::id::{TenantId, UserId};
use jiff::SignedDuration;
use query::{Cancel, Engine, Limits, QueryError, Row, Rows, Value};
use serde_json::json;
use store::Operation;
use uuid::Uuid;

use crate::world::{World, until};

/// Words that stand in everything of one tenant and in no question.
const CANARY: &str = "canary-of-acme";

fn engine(world: &World, actor: Actor) -> Arc<Engine> {
    let actor = server::Actor::from(actor);
    Arc::new(server::sys_engine(&world.app, &actor, "default", 7, Limits::default()).unwrap())
}

async fn ask(engine: &Arc<Engine>, text: &str) -> Result<Rows, QueryError> {
    let (engine, text) = (Arc::clone(engine), text.to_owned());
    let asked = tokio::task::spawn_blocking(move || {
        let prepared = engine.prepare(&text)?;
        engine.run(&prepared, &[], &Cancel::default())
    });
    asked.await.unwrap()
}

async fn rows(engine: &Arc<Engine>, text: &str) -> Vec<Row> {
    ask(engine, text).await.unwrap_or_else(|error| panic!("{text}: {error:?}")).rows
}

fn actor_of(tenant: &serde_json::Value, privileges: &[Privilege]) -> Actor {
    let tenant: Uuid = tenant["tenant_id"].as_str().unwrap().parse().unwrap();
    Actor {
        user: UserId(Uuid::from_u128(77)),
        name: "stranger".into(),
        tenant: TenantId(tenant),
        privileges: privileges.iter().copied().collect::<Privileges>().expanded(false),
        ..Actor::admin()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_table_answers_with_all_of_its_columns() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    every_table_answers(&world).await;
    let engine = engine(&world, Actor::admin());
    let next = rows(&engine, "SELECT next_run_at FROM sys.next_runs WHERE position = 1").await;
    assert_eq!(next, [[Value::Time("2024-01-16T08:00:00Z".parse().unwrap())]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_table_answers_on_postgres() {
    every_table_answers(&World::of_postgres().await).await;
}

async fn every_table_answers(world: &World) {
    let first = world.job("first", "http://fail").await;
    let after = json!({
        "name": "after", "job_type": "CRON", "cron_expression": "0 9 * * *", "timezone": "Europe/Berlin",
        "payload": {"type": "NOOP"}, "depends_on": [first], "description": "waits", "tags": ["a", "b"],
    });
    assert_eq!(world.post("/v1/jobs", after).await.status, 201);
    let run = world.trigger(&first).await;
    world.ended(&run).await;
    world.rule("default", "PUT", "/v1/secrets/TOKEN", json!({"value": "not to be seen"})).await;
    world.person("default", "ann", &["VIEW JOB HISTORY"]).await;
    let engine = engine(world, Actor::admin());
    let empty = [
        "shards",
        "databases",
        "roles",
        "job_run_acks",
        "queues",
        "messages",
        "pools",
        "hooks",
        "calendars",
        "blackouts",
        "pauses",
        "dags",
        "dag_runs",
        "dag_steps",
        "artifacts",
    ];
    for table in server::TABLES.iter() {
        let answer = ask(&engine, &format!("SELECT * FROM sys.{}", table.name)).await;
        let answer = answer.unwrap_or_else(|error| panic!("sys.{}: {error:?}", table.name));
        let names: Vec<&str> = answer.columns.iter().map(|column| column.name.as_str()).collect();
        let expected: Vec<&str> = table.fields.iter().map(|field| field.name).collect();
        assert_eq!(names, expected, "sys.{}", table.name);
        // The leader writes a setting when it comes to it.
        if table.name != "settings" {
            assert_eq!(answer.rows.is_empty(), empty.contains(&table.name), "sys.{}", table.name);
        }
        for row in &answer.rows {
            assert!(!format!("{row:?}").contains("not to be seen"), "sys.{}", table.name);
        }
    }
    // Each in its place.
    let job = "SELECT job_name, description, job_type, schedule_kind, cron_expression, schedule_tz, max_retries,
        timeout_seconds, state, schedule_type, next_run_at, catch_up, overlap, priority, tags
        FROM sys.jobs WHERE job_name = 'after'";
    let shown = format!("{:?}", rows(&engine, job).await[0]);
    for word in [
        "\"after\"",
        "\"waits\"",
        "\"NOOP\"",
        "\"CRON\"",
        "\"0 9 * * *\"",
        "\"Europe/Berlin\"",
        "\"{a,b}\"",
    ] {
        assert!(shown.contains(word), "{word} in {shown}");
    }
    let run_row = "SELECT state, state_detail, retry_count, error_code, error_name, job_name, attempt_number, dead_letter,
        completed_at - extract(epoch FROM completed) * 1000 BETWEEN -1.01 AND 0.01, result_message FROM sys.job_runs";
    let shown = format!("{:?}", rows(&engine, run_row).await);
    let expected = r#"[[Text("FAILED"), Text("FAILED"), Int(0), Int(500), Text("HTTP_500"), Text("first"), Int(1), Bool(true), Bool(true), Text("it answered 500")]]"#;
    assert_eq!(shown, expected);
    let edge = "SELECT job_name, depends_on_job_name, condition FROM sys.job_dependencies";
    let expected = ["after", "first", "SUCCESS"].map(Value::text);
    assert_eq!(rows(&engine, edge).await, [expected]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_attempt_is_a_row_with_an_identity_of_its_own() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let job = json!({
        "name": "again", "job_type": "MANUAL", "payload": {"endpoint": "http://fail"},
        "retry_config": {"max_attempts": 3, "backoff_seconds": 10},
    });
    assert_eq!(world.post("/v1/jobs", job).await.status, 201);
    let run = world.trigger("again").await;
    let engine = engine(&world, Actor::admin());
    let all =
        "SELECT job_run_uuid, state, retry_count, is_last FROM sys.job_runs ORDER BY retry_count";
    for minute in 1..=3 {
        until(|| async {
            let ended = rows(&engine, "SELECT 1 FROM sys.job_runs WHERE state = 'FAILED'").await;
            (ended.len() >= minute).then_some(())
        })
        .await;
        world.go_to(&format!("2024-01-15T10:3{minute}:00Z"));
    }
    world.ended(&run).await;
    let found = rows(&engine, all).await;
    let states: Vec<&[Value]> = found.iter().map(|row| &row[1..]).collect();
    let row = |n, last| [Value::text("FAILED"), Value::Int(n), Value::Bool(last)];
    assert_eq!(states, [row(0, false), row(1, false), row(2, true)]);
    assert_eq!(found[0][0], Value::Uuid(run.parse().unwrap()));
    for row in &found {
        let Value::Uuid(id) = row[0] else { panic!("{row:?}") };
        let one = format!(
            "SELECT retry_count, execution_uuid FROM sys.job_runs WHERE job_run_uuid = '{id}'"
        );
        assert_eq!(
            rows(&engine, &one).await,
            [[row[2].clone(), Value::Uuid(run.parse().unwrap())]]
        );
    }
    let of_run = format!("SELECT count(*) FROM sys.job_runs WHERE execution_uuid = '{run}'");
    assert_eq!(rows(&engine, &of_run).await, [[Value::Int(3)]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledgements_are_rows() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let job = json!({
        "name": "careful", "job_type": "MANUAL", "payload": {"type": "NOOP"}, "class": "QUORUM_REQUIRED",
    });
    assert_eq!(world.post("/v1/jobs", job).await.status, 201);
    world.job("plain", "http://ok").await;
    let (run, plain) = (world.trigger("careful").await, world.trigger("plain").await);
    world.ended(&run).await;
    world.ended(&plain).await;
    let engine = engine(&world, Actor::admin());
    let over_rest = world.get(&format!("/v1/executions/{run}/acknowledgements")).await.json();
    let given = &over_rest["data"][0];
    let expected = [
        Value::Uuid(run.parse().unwrap()),
        Value::text("careful"),
        Value::Uuid(given["worker_id"].as_str().unwrap().parse().unwrap()),
        Value::Int(given["epoch"].as_i64().unwrap()),
        Value::Time(given["acknowledged_at"].as_str().unwrap().parse().unwrap()),
    ];
    let select =
        "SELECT execution_uuid, job_name, node_uuid, epoch, acknowledged_at FROM sys.job_run_acks";
    for only in [
        "".to_owned(),
        " WHERE job_name = 'careful'".to_owned(),
        format!(" WHERE execution_uuid IN ('{run}', '{plain}')"),
        format!(" JOIN sys.nodes USING (node_uuid) WHERE execution_uuid = '{run}'"),
    ] {
        assert_eq!(rows(&engine, &format!("{select}{only}")).await, [&expected], "{only}");
    }
    for none in
        [" WHERE job_name = 'plain'".to_owned(), format!(" WHERE execution_uuid = '{plain}'")]
    {
        assert!(rows(&engine, &format!("{select}{none}")).await.is_empty(), "{none}");
    }
}

/// Questions that try to see more than their author may.
const NOSY: &[&str] = &[
    "SELECT * FROM sys.jobs",
    "SELECT * FROM sys.jobs WHERE job_uuid = '{job}'",
    "SELECT * FROM sys.jobs WHERE job_name = 'theirs' OR 1 = 1",
    "SELECT * FROM sys.job_runs",
    "SELECT * FROM sys.job_runs WHERE job_uuid = '{job}'",
    "SELECT * FROM sys.job_runs WHERE job_uuid = '{job}' ORDER BY started_at DESC LIMIT 10",
    "SELECT * FROM sys.job_runs WHERE job_run_uuid = '{run}'",
    "SELECT * FROM sys.job_runs WHERE execution_uuid IN ('{run}', '{job}')",
    "SELECT * FROM sys.job_runs WHERE job_name = 'theirs'",
    "SELECT * FROM sys.job_runs ORDER BY started_at DESC LIMIT 100",
    "SELECT * FROM sys.ledger WHERE job_uuid = '{job}'",
    "SELECT * FROM sys.ledger",
    "SELECT * FROM sys.job_run_acks",
    "SELECT * FROM sys.job_run_acks WHERE execution_uuid = '{run}'",
    "SELECT * FROM sys.job_run_acks WHERE job_uuid = '{job}' OR job_name = 'theirs'",
    "SELECT * FROM sys.dead_letters",
    "SELECT * FROM sys.dead_letters WHERE job_uuid = '{job}'",
    "SELECT * FROM sys.next_runs",
    "SELECT * FROM sys.job_dependencies",
    "SELECT * FROM sys.audit",
    "SELECT * FROM sys.audit WHERE job_uuid = '{job}'",
    "SELECT * FROM sys.users",
    "SELECT * FROM sys.roles",
    "SELECT * FROM sys.grants",
    "SELECT * FROM sys.tenants",
    "SELECT * FROM sys.databases",
    "SELECT * FROM sys.job_secrets",
    "SELECT * FROM sys.performance",
    "SELECT a.*, b.* FROM sys.jobs a LEFT JOIN sys.job_runs b ON true",
    "SELECT (SELECT max(description) FROM sys.jobs), (SELECT count(*) FROM sys.job_runs WHERE job_uuid = '{job}')",
    "WITH RECURSIVE x(id) AS (SELECT '{job}' UNION SELECT j.job_uuid FROM sys.jobs j, x) SELECT r.* FROM x JOIN sys.job_runs r ON r.job_uuid = x.id",
    "SELECT * FROM sys.jobs j WHERE EXISTS (SELECT 1 FROM sys.job_runs r WHERE r.job_uuid = '{job}')",
    "SELECT string_agg(job_name, ',') FROM sys.jobs UNION ALL SELECT string_agg(result_message, ',') FROM sys.job_runs",
    "SELECT datname FROM pg_database UNION SELECT rolname FROM pg_roles UNION SELECT description FROM pg_description WHERE objsubid < 0",
    "SELECT * FROM pg_stat_activity",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_question_sees_a_row_of_another_tenant() {
    nobody_sees_another_tenant(&World::at("2024-01-15T10:30:00Z").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_question_sees_a_row_of_another_tenant_on_postgres() {
    nobody_sees_another_tenant(&World::of_postgres().await).await;
}

async fn nobody_sees_another_tenant(world: &World) {
    let acme = world.tenant("acme").await;
    let other = world.tenant("other").await;
    let ann = world.person("acme", CANARY, &["ADMINISTER TENANT"]).await;
    let job = json!({
        "name": "theirs", "job_type": "MANUAL", "description": CANARY, "tags": [CANARY],
        "payload": {"endpoint": "http://fail"}, "retry_config": {"max_attempts": 1},
        "class": "QUORUM_REQUIRED",
    });
    let job = world.ask(&ann, "POST", "/v1/jobs", job).await.json();
    let job = job["job_id"].as_str().unwrap().to_owned();
    let run = world.ask(&ann, "POST", &format!("/v1/jobs/{job}/trigger"), json!({})).await.json();
    let run = run["execution_id"].as_str().unwrap().to_owned();
    world.ended_in("acme", &run).await;
    let role = json!({"name": CANARY, "description": CANARY});
    world.rule("acme", "POST", "/v1/roles", role).await;

    let boss = engine(world, actor_of(&other, &[Privilege::AdministerTenant]));
    let nobody = engine(world, actor_of(&other, &[]));
    // Of the tenant itself, but without a right to what others made.
    let guest = engine(world, actor_of(&acme, &[]));
    // The owner sees rows, so the queries do find something.
    let owner = engine(world, actor_of(&acme, &[Privilege::AdministerTenant]));
    let mut seen = 0;
    for question in NOSY {
        let question = question.replace("{job}", &job).replace("{run}", &run);
        for engine in [&boss, &nobody, &guest] {
            // An error is an answer too, as long as it reveals nothing.
            let said = match ask(engine, &question).await {
                Ok(answer) => format!("{:?}", answer.rows),
                Err(error) => format!("{error:?}"),
            };
            for secret in [CANARY, run.as_str(), "theirs"] {
                assert!(!said.contains(secret), "{question}: {said}");
            }
            // The job's own id is in some questions; a row has it as a value.
            assert!(!said.contains(&format!("Uuid({job})")), "{question}: {said}");
        }
        let said = format!("{:?}", ask(&owner, &question).await);
        seen += usize::from(said.contains(CANARY) || said.contains(&run));
    }
    assert!(seen >= 20, "the questions of the owner found something only {seen} times");
    let count = "SELECT count(*) FROM sys.job_runs";
    assert_eq!(rows(&boss, count).await, [[Value::Int(0)]]);
    assert_eq!(rows(&owner, count).await, [[Value::Int(1)]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_latest_starts_are_found_among_ids_of_another_order() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let job = json!({
        "name": "late", "job_type": "CRON", "cron_expression": "0 * * * *", "payload": {"type": "NOOP"},
        "overlap": "ALLOW",
    });
    let job = world.post("/v1/jobs", job).await.json();
    let id = job["job_id"].as_str().unwrap();
    for minute in [31, 32, 33] {
        world.go_to(&format!("2024-01-15T10:{minute}:00Z"));
        let run = world.trigger("late").await;
        world.ended(&run).await;
    }
    // Runs of times that are long past, which start now.
    world.go_to("2024-01-15T10:40:00Z");
    let range = json!({"from": "2024-01-10T00:00:00Z", "until": "2024-01-10T05:00:00Z"});
    let reply = world.post("/v1/jobs/late/backfill", range).await;
    assert!(reply.status < 300, "{}", reply.text);
    // They become due one after the other.
    world.go_to("2024-01-15T10:41:00Z");
    let engine = engine(&world, Actor::admin());
    let all = format!(
        "SELECT job_run_uuid, started_at FROM sys.job_runs WHERE job_uuid = '{id}' AND started_at IS NOT NULL"
    );
    let mut sorted = until(|| async {
        let found = rows(&engine, &all).await;
        (found.len() >= 9).then_some(found)
    })
    .await;
    let start = |row: &Row| match row[1] {
        Value::Int(ms) => ms,
        _ => panic!("{row:?}"),
    };
    sorted.sort_by_key(|row| std::cmp::Reverse(start(row)));
    let expected: Vec<i64> = sorted.iter().map(start).collect();
    assert!(expected[0] > expected[expected.len() - 1]);
    for of in [format!("WHERE job_uuid = '{id}'"), String::new()] {
        for limit in 1..=expected.len() {
            let text = format!(
                "SELECT job_run_uuid, started_at FROM sys.job_runs {of} ORDER BY started_at DESC NULLS LAST LIMIT {limit}"
            );
            let starts: Vec<i64> = rows(&engine, &text).await.iter().map(start).collect();
            assert_eq!(starts, expected[..limit], "{text}");
        }
    }
    let times = "SELECT scheduled_time FROM sys.job_runs ORDER BY scheduled_time DESC";
    let (all, some) =
        (rows(&engine, times).await, rows(&engine, &format!("{times} LIMIT 4")).await);
    assert_eq!(some, all[..4]);
}

/// Conditions on rows.
const CONDITIONS: &[&str] = &[
    "true",
    "job_uuid = '{job}'",
    "job_name = 'late'",
    "job_name IN ('late', 'fails')",
    "job_name = 'fails' AND state = 'FAILED'",
    "state = 'FAILED'",
    "state = 'CANCELLED'",
    "state = 'PENDING'",
    "state = 'NONSENSE'",
    "state IN ('FAILED', 'COMPLETED')",
    "state_detail = 'FAILED'",
    "state_detail = 'LOST'",
    "state_detail = 'COMPLETED' AND job_uuid = '{job}'",
    "started_at > {start}",
    "started_at >= {start} AND job_uuid = '{job}'",
    "started_at < {start}",
    "started_at < {start} AND job_uuid = '{job}'",
    "started_at BETWEEN {start} - 1000 AND {start} + 1000",
    "started_at = {start}",
    "started_at IS NOT NULL",
    "started_at IS NOT NULL AND job_uuid = '{job}'",
    "started_at > {start} AND state = 'FAILED'",
    "scheduled_time < {time}",
    "scheduled_time <= {time} AND job_uuid = '{job}'",
    "scheduled_time > {time}",
    "scheduled_time = {time}",
    "scheduled_time = {time} + 0.0",
    "scheduled_time BETWEEN {time} AND {start} AND origin = 'BACKFILL'",
    "origin = 'MANUAL'",
    "origin = 'BACKFILL' AND started_at > {start} - 1",
];

/// However it is asked: what the scheduler looks for is what SQLite finds by looking at every row.
async fn questions_agree(world: &World, minute: SignedDuration) {
    let late = json!({
        "name": "late", "job_type": "CRON", "cron_expression": "0 0 1 1 *", "payload": {"type": "NOOP"},
        "overlap": "ALLOW",
    });
    let job = world.post("/v1/jobs", late).await.json();
    let job = job["job_id"].as_str().unwrap();
    world.job("fails", "http://fail").await;
    let again = json!({
        "name": "again", "job_type": "MANUAL", "payload": {"endpoint": "http://fail"}, "overlap": "ALLOW",
        "retry_config": {"max_attempts": 3, "backoff_seconds": 1_000_000},
    });
    assert_eq!(world.post("/v1/jobs", again).await.status, 201);
    for name in ["late", "fails", "late", "fails"] {
        let run = world.trigger(name).await;
        world.ended(&run).await;
    }
    // One still executes, and one was cancelled between two attempts.
    let (waits, cancelled) = (world.trigger("again").await, world.trigger("again").await);
    // Times of the past, which begin now; and one that is asked for again.
    let range = json!({"from": "2020-01-01T00:00:00Z", "until": "2023-12-31T00:00:00Z"});
    let reply = world.post("/v1/jobs/late/backfill", range).await;
    assert!(reply.status < 300, "{}", reply.text);
    // They become due one after the other.
    world.go_on(minute);
    let engine = engine(world, Actor::admin());
    let count = async |question: &str| match rows(&engine, question).await[0][0] {
        Value::Int(count) => count,
        ref other => panic!("{other:?}"),
    };
    let failed = format!(
        "SELECT count(*) FROM sys.job_runs WHERE execution_uuid IN ('{waits}', '{cancelled}') AND state = 'FAILED'"
    );
    until(|| async { (count(&failed).await == 2).then_some(()) }).await;
    let reply = world.post(&format!("/v1/executions/{cancelled}/cancel"), json!({})).await;
    assert!(reply.status < 300, "{}", reply.text);
    let done = "SELECT count(*) FROM sys.job_runs WHERE job_name = 'late' AND state = 'COMPLETED'";
    until(|| async { (count(done).await >= 6).then_some(()) }).await;
    world.ended(&cancelled).await;
    let failed = "SELECT execution_uuid FROM sys.job_runs WHERE job_name = 'fails' LIMIT 1";
    let Value::Uuid(failed) = rows(&engine, failed).await[0][0] else { panic!("no run") };
    let reply = world.post(&format!("/v1/executions/{failed}/retry"), json!({})).await;
    assert!(reply.status < 300, "{}", reply.text);
    let all = "SELECT count(*) FROM sys.job_runs WHERE job_name = 'fails' AND state = 'FAILED'";
    until(|| async { (count(all).await == 3).then_some(()) }).await;

    let middle = rows(
        &engine,
        "SELECT started_at, scheduled_time FROM (SELECT * FROM sys.job_runs LIMIT 9999) r
         WHERE job_name = 'late' ORDER BY scheduled_time LIMIT 1 OFFSET 2",
    )
    .await;
    let [Value::Int(start), Value::Int(time)] = middle[0][..] else { panic!("{middle:?}") };
    let mut answered = 0;
    for condition in CONDITIONS {
        let condition = condition
            .replace("{job}", job)
            .replace("{start}", &start.to_string())
            .replace("{time}", &time.to_string());
        for order in ["", "started_at DESC", "started_at DESC NULLS LAST", "scheduled_time DESC"] {
            // Where rows are equal in an order, which of them comes first is open.
            let column = order.split(' ').next().filter(|it| !it.is_empty());
            let column = column.unwrap_or("job_run_uuid");
            let by = if order.is_empty() { String::new() } else { format!("ORDER BY {order}") };
            let ask = |from: &str, limit: usize| {
                let limit = if limit == 0 { String::new() } else { format!("LIMIT {limit}") };
                format!("SELECT {column} FROM {from} r WHERE {condition} {by} {limit}")
            };
            let expected = ask("(SELECT * FROM sys.job_runs LIMIT 9999)", 0);
            let mut expected = shown(&rows(&engine, &expected).await);
            let limits: &[usize] = if order.is_empty() { &[0] } else { &[1, 4] };
            for limit in limits {
                let question = ask("sys.job_runs", *limit);
                let mut found = shown(&rows(&engine, &question).await);
                if order.is_empty() {
                    found.sort_unstable();
                    expected.sort_unstable();
                } else {
                    expected.truncate(limits[1]);
                }
                let most = if *limit == 0 { expected.len() } else { (*limit).min(expected.len()) };
                assert_eq!(found, expected[..most], "{question}");
                answered += found.len();
            }
        }
    }
    assert!(answered > 300, "the questions found only {answered} rows");
    for condition in ["outcome = 'FAILED'", "outcome = 'NONSENSE'", "origin = 'BACKFILL'"] {
        let ask = |from: &str| {
            format!("SELECT execution_uuid FROM {from} r WHERE {condition} ORDER BY execution_uuid")
        };
        let expected = rows(&engine, &ask("(SELECT * FROM sys.ledger LIMIT 9999)")).await;
        assert_eq!(rows(&engine, &ask("sys.ledger")).await, expected, "{condition}");
    }
}

fn shown(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| format!("{row:?}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_looked_for_is_what_is_there() {
    let minute = SignedDuration::from_mins(1);
    questions_agree(&World::at("2024-01-15T10:30:00Z").await, minute).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_looked_for_is_what_is_there_on_postgres() {
    // Its clock goes on by itself, and that of the node gets ahead as far as it may.
    questions_agree(&World::of_postgres().await, SignedDuration::from_secs(9)).await;
}

/// The ten latest starts of a job cost the same however long its history is, also when runs began
/// late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_history_makes_no_question_longer() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let job = world.job("busy", "http://ok").await;
    let engine = engine(&world, Actor::admin());
    let asked = [
        Operation::ListRuns,
        Operation::LatestStarts,
        Operation::Ended,
        Operation::Run,
        Operation::Attempts,
    ];
    let calls = || asked.map(|verb| world.calls.of(verb));
    let id: Uuid = job.parse().unwrap();
    for length in [200, 20_000] {
        world.fill(id, length);
        for order in ["started_at DESC", "started_at DESC NULLS LAST", "scheduled_time DESC"] {
            let question = format!(
                "SELECT started_at FROM sys.job_runs WHERE job_uuid = '{job}' ORDER BY {order} LIMIT 10"
            );
            let before = calls();
            let found = rows(&engine, &question).await;
            let made: Vec<usize> =
                calls().iter().zip(before).map(|(now, then)| now - then).collect();
            assert_eq!(found.len(), 10, "{question}");
            // Live runs and ended runs are read in pages, and not one by one.
            assert!(made[0] <= 3 && made[1] <= 2, "{question}: {made:?} of {asked:?}");
            assert_eq!(made[2..], [0, 0, 0], "{question}: {made:?} of {asked:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_is_told_so() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let tenant = json!({"tenant_id": TenantId::DEFAULT.0});
    let guest = engine(&world, actor_of(&tenant, &[]));
    for table in [
        "users",
        "roles",
        "grants",
        "nodes",
        "audit",
        "databases",
        "job_secrets",
        "settings",
        "artifacts",
    ] {
        let error = ask(&guest, &format!("SELECT * FROM sys.{table}")).await.unwrap_err();
        assert_eq!(error.state.code(), "42501", "sys.{table}: {error}");
    }
}

#[expect(clippy::disallowed_methods, reason = "UPDATE_GOLDEN=1 writes the file anew")]
fn wants_update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

const HEAD: &str = "# Tables of the schema `sys`

What the scheduler knows, as tables for `SELECT`. You see in them what you would see over REST: rows of your tenant, of jobs and runs that your privileges let you see. A table that takes a privilege you lack answers with the error 42501.

Names without a schema mean `sys`, so `SELECT * FROM jobs` is the same as `SELECT * FROM sys.jobs`. `pg_catalog` and `information_schema` are there for clients of PostgreSQL.

Questions are written as for PostgreSQL and answered by an embedded SQLite: joins, aggregates, windows, common table expressions, subqueries, set operations, casts, intervals, `ILIKE` and regular expressions work. So do `DISTINCT ON`, `LATERAL` subqueries with one row (`LIMIT 1`, or an aggregate), `generate_series` of numbers and times, `unnest`, `@>` and `string_agg(DISTINCT …)`. Grouping sets and everything that changes a table do not, and say so with the error 0A000. Columns in milliseconds can be compared with times: `WHERE started_at > now() - interval '1 day'`.

A question ends with an error when it takes longer than its limit of time, or answers more than its limit of rows.

";

#[test]
fn the_page_lists_every_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sys-tables.md");
    let text = HEAD.to_owned() + query::tables_markdown(&server::TABLES).trim_end() + "\n";
    if wants_update() {
        std::fs::write(&path, &text).unwrap();
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(file == text, "run the test with UPDATE_GOLDEN=1 and look at the diff of {path:?}");
}
