//! Statements, their rows and their errors.

use domain::run::AttemptEnd;
use serde_json::json;

use super::bed::{Bed, assignment, script};

#[tokio::test]
async fn statements_share_a_transaction_and_rows_are_counted() {
    let bed = Bed::postgres().await;
    let ran = bed
        .sql(
            "CREATE TABLE t (id int, name text);
             INSERT INTO t SELECT n, 'n' || n FROM generate_series(1, 5) n;
             UPDATE t SET name = upper(name) WHERE id > 3;
             DELETE FROM t WHERE id = 1 RETURNING id;
             SELECT id, name FROM t ORDER BY id; -- the end",
        )
        .await
        .done();
    // Five, two and one; returned rows are not affected rows.
    assert_eq!(ran.result.message, "Query executed successfully, 8 rows affected");
    assert_eq!(ran.result.rows_affected, Some(8));
    assert_eq!(ran.rows()[2], json!({"id": 4, "name": "N4"}));
    assert_eq!(ran.out.lines().count(), 5);
    assert!(ran.out.starts_with("{\"id\":1}\n{\"id\":2,\"name\":\"n2\"}\n"), "{}", ran.out);
    let details = ran.details();
    assert_eq!(
        (&details["statements"], &details["rows_returned"], &details["database"]),
        (&json!(5), &json!(5), &json!("main"))
    );
    assert_eq!((&details["cut"], &details["role"]), (&json!(false), &json!(null)));
    assert!(details["duration_ms"].is_u64() && details["result_bytes"].is_u64());
    assert_eq!(bed.ask("SELECT count(*) FROM t").await, "4");
}

#[tokio::test]
async fn nothing_remains_of_statements_before_an_error() {
    let bed = Bed::postgres().await;
    bed.sql("CREATE TABLE t (id int PRIMARY KEY)").await.done();
    let ran = bed.sql("INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)").await;
    assert_eq!(ran.result.end, AttemptEnd::Failed);
    let (code, message) = ran.error();
    assert_eq!(code, "SQLSTATE_23505");
    assert!(message.contains("detail: Key (id)=(1) already exists."), "{message}");
    assert_eq!(bed.ask("SELECT count(*) FROM t").await, "0");
    assert_eq!(ran.details()["statements"], json!(1));
}

#[tokio::test]
async fn an_error_says_where_it_is_and_is_no_refusal() {
    let bed = Bed::postgres().await;
    bed.sql("CREATE TABLE orders (id int)").await.done();
    for (sql, code, said) in [
        ("SELECT 1;\n  SELEC 2", "SQLSTATE_42601", "at or near \"SELEC\" (line 2, column 3)"),
        ("SELECT idd FROM orders", "SQLSTATE_42703", "(line 1, column 8)"),
        ("SELECT idd FROM orders", "SQLSTATE_42703", "Perhaps you meant"),
        ("SELECT :a +\n nothing", "SQLSTATE_42703", "(line 2, column 2)"),
        ("SELECT * FROM missing", "SQLSTATE_42P01", "\"missing\" does not exist"),
        ("SELECT 1/0", "SQLSTATE_22012", "division by zero"),
        (
            "DO $$ BEGIN RAISE 'sold out' USING HINT = 'wait'; END $$",
            "SQLSTATE_P0001",
            "hint: wait",
        ),
        ("VACUUM :a", "SQLSTATE_42601", "at or near \":a\""),
    ] {
        let ran = bed.sql_with(sql, json!({"a": 1})).await;
        let (found, message) = ran.error();
        assert_eq!(found, code, "{sql}: {message}");
        assert!(message.contains(said), "{sql}: {message}");
        assert!(!ran.result.error.unwrap().is_refusal(), "{sql}");
    }
}

#[tokio::test]
async fn some_statements_are_refused_before_anything_happens() {
    let bed = Bed::postgres().await;
    for (sql, code) in [
        ("COMMIT", "TRANSACTION_CONTROL"),
        ("begin; SELECT 1", "TRANSACTION_CONTROL"),
        ("/* x */ Rollback", "TRANSACTION_CONTROL"),
        ("PREPARE TRANSACTION 'x'", "TRANSACTION_CONTROL"),
        ("COPY t FROM STDIN", "NOT_SUPPORTED"),
        ("COPY (SELECT 1) TO STDOUT WITH CSV", "NOT_SUPPORTED"),
        ("SELECT $1", "POSITIONAL_PARAMETER"),
        ("SELECT ${secrets.NONE}", "SECRET_NOT_FOUND"),
    ] {
        let ran = bed.sql(&format!("CREATE TABLE made (); {sql}")).await;
        assert_eq!(ran.code(), code, "{sql}: {ran:?}");
        let is_refusal = ran.result.error.as_ref().unwrap().is_refusal();
        assert_eq!(is_refusal, code != "SECRET_NOT_FOUND", "{sql}");
    }
    assert_eq!(bed.ask("SELECT to_regclass('made')").await, "NULL");
    // Savepoints are the job's own.
    bed.sql(
        "CREATE TABLE t (n int); SAVEPOINT s; INSERT INTO t VALUES (1); ROLLBACK TO SAVEPOINT s;
         INSERT INTO t VALUES (2)",
    )
    .await
    .done();
    assert_eq!(bed.ask("SELECT sum(n) FROM t").await, "2");
}

#[tokio::test]
async fn large_results_are_cut_with_a_note() {
    let bed = Bed::postgres().await;
    let sql = "SELECT n, repeat('x', 100) AS filler FROM generate_series(1, 50000) n";
    let ran = bed.sql(sql).await.done();
    let text = ran.result.result.as_ref().unwrap();
    assert!(text.len() <= 64 << 10, "{}", text.len());
    let rows = ran.rows();
    let rows = rows.as_array().unwrap();
    assert!(rows.len() > 400 && rows.len() <= 1_000, "{}", rows.len());
    assert_eq!(rows.last().unwrap()["n"], json!(rows.len()));
    assert!(ran.out.len() <= 1 << 20, "{}", ran.out.len());
    let kept = format!("the result keeps the first {} of 50000 rows", rows.len());
    assert!(ran.err.contains(&kept) && ran.err.contains("more rows are not shown"), "{}", ran.err);
    let details = ran.details();
    assert_eq!((&details["cut"], &details["rows_returned"]), (&json!(true), &json!(50_000)));
    // One that is too large by itself.
    let sql = "SELECT 1 AS n, '' AS filler UNION ALL SELECT 2, repeat('x', 20000000)";
    let ran = bed.sql(sql).await.done();
    assert_eq!(ran.rows(), json!([{"n": 1, "filler": ""}]));
    assert!(ran.err.contains("the result keeps the first 1 of 2 rows"), "{}", ran.err);
    // Many rows that are small.
    let ran = bed.sql("SELECT n FROM generate_series(1, 2000) n").await.done();
    assert_eq!(ran.rows().as_array().unwrap().len(), 1_000);
}

#[tokio::test]
async fn a_job_knows_its_run_and_leaves_nothing_behind() {
    let bed = Bed::postgres().await;
    bed.sql(
        "CREATE FUNCTION fence() RETURNS bigint LANGUAGE sql AS
         $$ SELECT nullif(current_setting('punctual.fence', true), '')::bigint $$",
    )
    .await
    .done();
    let names = ["job_uuid", "job_name", "job_run_uuid", "attempt", "scheduled_for", "shard"];
    let settings: Vec<_> =
        names.iter().map(|name| format!("current_setting('punctual.{name}') AS {name}")).collect();
    let ran = bed.sql(&format!("SELECT fence(), {}", settings.join(", "))).await.done();
    assert_eq!(
        ran.rows()[0],
        json!({
            "fence": 42,
            "job_uuid": "00000000-0000-0000-0000-000000000001",
            "job_name": "nightly",
            "job_run_uuid": "00000000-0000-0000-0000-000000000002",
            "attempt": "2",
            "scheduled_for": "2026-11-15T03:00:00Z",
            "shard": "eu",
        })
    );
    // A job may change its session; the next one finds a fresh one.
    bed.sql("SET search_path = nowhere; CREATE TEMP TABLE mine (); LISTEN somebody").await.done();
    let ran = bed.sql("SELECT current_setting('search_path'), to_regclass('mine')").await.done();
    assert_eq!(ran.rows()[0], json!({"current_setting": "\"$user\", public", "to_regclass": null}));
    let mut other = assignment(script("SELECT fence()"));
    other.fence = 43;
    assert_eq!(bed.run(other).await.done().rows()[0]["fence"], json!(43));
    bed.until("SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database()").await;
}

#[tokio::test]
async fn a_job_may_write_where_sessions_only_read() {
    let bed = Bed::postgres().await;
    let client = bed.beside().await;
    let name = bed.ask("SELECT current_database()").await;
    let read_only = format!("ALTER DATABASE {name} SET default_transaction_read_only = on");
    client.batch_execute(&read_only).await.unwrap();
    bed.sql("CREATE TABLE t (); SELECT 1").await.done();
}

#[tokio::test]
async fn what_the_server_says_besides_is_output() {
    let bed = Bed::postgres().await;
    let ran = bed
        .sql(
            "DO $$ BEGIN
                RAISE NOTICE 'half done' USING DETAIL = 'one of two', HINT = 'go on';
                RAISE WARNING 'almost';
                RAISE DEBUG 'nobody listens';
             END $$;
             DROP TABLE IF EXISTS missing",
        )
        .await
        .done();
    assert_eq!(
        ran.err,
        "NOTICE: half done\nDETAIL: one of two\nHINT: go on\nWARNING: almost\n\
         NOTICE: table \"missing\" does not exist, skipping\n"
    );
    assert_eq!(ran.out, "");
    assert_eq!(ran.result.result, None);
}

#[tokio::test]
async fn a_database_that_is_not_there() {
    let bed = Bed::postgres().await;
    let mut wrong = assignment(script("SELECT 1"));
    if let domain::action::Action::Sql(action) = &mut wrong.action {
        action.database = Some("mian".to_owned());
    }
    let ran = bed.run(wrong).await;
    assert_eq!(
        ran.error(),
        (
            "UNKNOWN_DATABASE".to_owned(),
            "there is no database named \"mian\", only main; did you mean \"main\"?"
        )
    );
}
