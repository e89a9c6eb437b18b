//! Commands that put a database in order.

use serde_json::json;

use super::bed::Bed;

#[tokio::test]
async fn every_command_does_its_work() {
    let bed = Bed::postgres().await;
    bed.sql("CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 100)")
        .await
        .done();
    let swept = "SELECT coalesce(sum(vacuum_count), 0)::int FROM pg_stat_user_tables";
    let analyzed = "SELECT coalesce(sum(analyze_count), 0)::int FROM pg_stat_user_tables";
    let index = "SELECT relfilenode FROM pg_class WHERE relname = 't_pkey'";
    for (command, vacuums, analyzes, rebuilds) in [
        ("SWEEP", 1, 0, false),
        ("sweep analyze;", 1, 1, false),
        ("SWEEP ANALYZE t", 1, 1, false),
        ("VACUUM (ANALYZE, VERBOSE) t", 1, 1, false),
        ("ANALYZE TABLES", 0, 1, false),
        ("ANALYZE", 0, 1, false),
        ("REINDEX DATABASE", 0, 0, true),
        ("REINDEX INDEX CONCURRENTLY t_pkey", 0, 0, true),
        ("VACUUM t; ANALYZE t", 1, 1, false),
    ] {
        let count = async |sql: &str| bed.ask(sql).await.parse::<i32>().unwrap();
        let before = (count(swept).await, count(analyzed).await, bed.ask(index).await);
        let ran = bed.sql(command).await.done();
        assert_eq!(ran.result.message, "Query executed successfully, 0 rows affected", "{command}");
        // Counters arrive a little later than the work.
        let reached = |counter: &str, least: i32| format!("SELECT ({counter}) = {least}");
        bed.until(&reached(swept, before.0 + vacuums)).await;
        bed.until(&reached(analyzed, before.1 + analyzes)).await;
        assert_eq!(bed.ask(index).await != before.2, rebuilds, "{command}");
    }
    // The messages of VERBOSE are output.
    let ran = bed.sql("VACUUM VERBOSE t").await.done();
    assert!(ran.err.contains("INFO: "), "{}", ran.err);
}

#[tokio::test]
async fn an_index_is_built_while_others_work() {
    let bed = Bed::postgres().await;
    bed.sql("CREATE TABLE t (n int)").await.done();
    bed.sql("CREATE INDEX CONCURRENTLY i ON t (n)").await.done();
    assert_eq!(
        bed.ask("SELECT indisvalid FROM pg_index WHERE indexrelid = 'i'::regclass").await,
        "true"
    );
    let ran = bed.sql("INSERT INTO t VALUES (1); DROP INDEX CONCURRENTLY i").await;
    let (code, message) = ran.error();
    assert_eq!(code, "NOT_IN_TRANSACTION");
    assert_eq!(
        message,
        "DROP INDEX CONCURRENTLY cannot be part of the transaction that the other statements \
         share: make it a job of its own"
    );
    assert_eq!(ran.details()["statements"], json!(0));
    // One that we do not know of: the server's word, and what to do.
    let ran = bed.sql("DO $$ BEGIN EXECUTE 'VACUUM t'; END $$").await;
    let (code, message) = ran.error();
    assert_eq!(code, "SQLSTATE_25001");
    assert!(message.contains("make it the only statement of a job"), "{message}");
}
