//! Jobs in SQLite files.

use std::path::PathBuf;
use std::time::Duration;

use agent::{Database, SqliteDatabase};
use domain::run::AttemptEnd;
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::load::Stopwatch;

use super::bed::{Bed, assignment, call, column, script};

/// Counts for minutes unless it is stopped.
const ENDLESS: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    SELECT max(i) FROM n";

struct File {
    _folder: TempDir,
    path: PathBuf,
    bed: Bed,
}

fn file() -> File {
    file_that_waits(Duration::from_secs(30))
}

fn file_that_waits(timeout: Duration) -> File {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let database = SqliteDatabase::new(&path).busy_timeout(timeout);
    File { _folder: folder, path, bed: Bed::of(Database::Sqlite(database)) }
}

impl File {
    fn ask(&self, sql: &str) -> String {
        let value = Connection::open(&self.path)
            .unwrap()
            .query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0));
        match value.unwrap() {
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => format!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn statements_share_a_transaction_and_rows_are_counted() {
    let file = file();
    let ran = file
        .bed
        .sql(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, price REAL, data BLOB);
             INSERT INTO t VALUES (1, 'a;:b', 1.5, x'00ff'), (2, NULL, 2, NULL);
             CREATE TRIGGER g AFTER DELETE ON t BEGIN UPDATE t SET price = 0; SELECT 1; END;
             UPDATE t SET price = price + 1 WHERE id = 1;
             DELETE FROM t WHERE id = 2 RETURNING id;
             SELECT *, count(*) OVER () AS id FROM t;",
        )
        .await
        .done();
    assert_eq!(ran.result.message, "Query executed successfully, 4 rows affected");
    assert_eq!(
        ran.rows(),
        json!([{"id": 1, "name": "a;:b", "price": 0.0, "data": "\\x00ff", "id_2": 1}])
    );
    assert_eq!(ran.details()["statements"], json!(6));
    let ran = file.bed.sql("INSERT INTO t (id) VALUES (3); INSERT INTO t (id) VALUES (1)").await;
    assert_eq!(ran.code(), "SQLITE_CONSTRAINT");
    assert_eq!(file.ask("SELECT count(*) FROM t"), "1");
    assert_eq!(file.ask("PRAGMA journal_mode"), "wal");
}

#[tokio::test]
async fn only_errors_of_policy_are_refusals() {
    let file = file();
    for (sql, code, is_refusal, said) in [
        ("SELEC 1", "SQLSTATE_42601", false, "near \"SELEC\": syntax error"),
        ("SELECT * FROM missing", "SQLSTATE_42601", false, "no such table: missing"),
        ("SELECT punctual('fenze')", "SQLITE_ERROR", false, "is unknown, only job_uuid"),
        ("SELECT ?1", "POSITIONAL_PARAMETER", true, ":since"),
        ("SELECT $a", "POSITIONAL_PARAMETER", true, ":since"),
        ("SELECT :missing", "MISSING_PARAMETER", false, "\"missing\" has no value: the run has no"),
        ("SELECT abs(-9223372036854775808)", "SQLITE_ERROR", false, "integer overflow"),
        ("SELECT zeroblob(100000000)", "SQLITE_TOOBIG", false, "too big"),
        ("SELECT ${secrets.KEY}", "NOT_SUPPORTED", true, "secret"),
    ] {
        let ran = file.bed.sql(sql).await;
        let (found, message) = ran.error();
        assert_eq!(found, code, "{sql}: {message}");
        assert!(message.contains(said), "{sql}: {message}");
        assert_eq!(ran.result.error.unwrap().is_refusal(), is_refusal, "{sql}");
    }
    let ran = file.bed.run(assignment(call("p", json!([])))).await;
    let (code, message) = ran.error();
    assert_eq!(code, "NOT_SUPPORTED");
    assert!(message.contains("SQLite has no procedures"), "{message}");
    let mut as_role = assignment(script("SELECT 1"));
    as_role.run_as = Some("boss".to_owned());
    assert_eq!(file.bed.run(as_role).await.code(), "NOT_SUPPORTED");
    let nowhere = Bed::of(Database::Sqlite(SqliteDatabase::new("/nowhere/jobs.db")));
    assert_eq!(nowhere.sql("SELECT 1").await.code(), "SQLITE_CANTOPEN");
}

#[tokio::test]
async fn parameters_are_bound() {
    let file = file();
    for value in [json!("'; DROP TABLE t; --"), json!(7), json!(1.5), Value::Null, json!("")] {
        let ran = file.bed.sql_with("SELECT :v AS v", json!({"v": value, "w": 1})).await.done();
        assert_eq!(ran.rows(), column("v", &[value]));
    }
    let ran = file.bed.sql_with("SELECT :v AS v", json!({"v": true})).await.done();
    assert_eq!(ran.rows(), column("v", &[json!(1)]));
    let sql = "SELECT value AS v FROM json_each(:v) WHERE ':v' <> value";
    let ran = file.bed.sql_with(sql, json!({"v": [1, "x"]})).await.done();
    assert_eq!(ran.rows(), column("v", &[json!(1), json!("x")]));
}

#[tokio::test]
async fn a_job_knows_its_run() {
    let file = file();
    let ran = file
        .bed
        .sql(
            "CREATE TABLE t (fence INTEGER); CREATE TABLE u (run TEXT);
             CREATE TRIGGER g AFTER INSERT ON t BEGIN
                 INSERT INTO u VALUES (punctual('job_run_uuid')); END;
             INSERT INTO t VALUES (CAST(punctual('fence') AS INTEGER));
             SELECT fence, run, punctual('punctual.shard') AS shard FROM t, u",
        )
        .await
        .done();
    assert_eq!(
        ran.rows(),
        json!([{"fence": 42, "run": "00000000-0000-0000-0000-000000000002", "shard": "eu"}])
    );
}

#[tokio::test]
async fn what_reaches_beyond_the_file_is_denied() {
    let file = file();
    file.bed.sql("CREATE TABLE t (n)").await.done();
    let other = file.path.with_file_name("other.db");
    for sql in [
        format!("ATTACH '{}' AS other", other.display()),
        format!("VACUUM INTO '{}'", other.display()),
        format!("SELECT 1; VACUUM INTO '{}'", other.display()),
        "DETACH main".to_owned(),
        "PRAGMA writable_schema = on".to_owned(),
        "PRAGMA journal_mode = off".to_owned(),
        "PRAGMA temp_store_directory = '/'".to_owned(),
        "PRAGMA database_list".to_owned(),
        "SELECT load_extension('/x.so')".to_owned(),
        "SELECT * FROM pragma_database_list".to_owned(),
        "BEGIN".to_owned(),
        "INSERT INTO t VALUES (1); COMMIT; SELEC".to_owned(),
        "ROLLBACK; INSERT INTO t VALUES (2)".to_owned(),
        "UPDATE sqlite_master SET sql = 'x'".to_owned(),
    ] {
        let ran = file.bed.sql(&sql).await;
        assert_eq!(ran.result.end, AttemptEnd::Failed, "{sql}: {ran:?}");
        let denied = ran.result.error.as_ref().unwrap();
        // The library itself knows no such function or table, or does not let it be written.
        let unknown = denied.to_string() == "SQLSTATE_42601";
        assert!(denied.is_refusal() || unknown, "{sql}: {ran:?}");
    }
    assert!(!other.exists());
    assert_eq!(file.ask("SELECT count(*) FROM t"), "0");
    let ran = file.bed.sql("ATTACH 'x' AS y").await;
    assert_eq!(
        ran.error(),
        (
            "NOT_ALLOWED".to_owned(),
            "ATTACH and DETACH are not allowed: a job works in one database file"
        )
    );
    // Statements that read are allowed, and those that concern this file only.
    let allowed = "PRAGMA table_info(t); PRAGMA user_version = 7; PRAGMA user_version;
        SAVEPOINT s; INSERT INTO t VALUES (1); ROLLBACK TO s; RELEASE s; PRAGMA integrity_check";
    let ran = file.bed.sql(allowed).await.done();
    assert_eq!(ran.rows(), column("integrity_check", &[json!("ok")]));
    assert_eq!(file.ask("SELECT count(*) FROM t"), "0");
    assert_eq!(file.ask("PRAGMA user_version"), "7");
}

#[tokio::test]
async fn a_running_statement_is_stopped_and_rolled_back() {
    let file = file();
    file.bed.sql("CREATE TABLE t (n)").await.done();
    for end in [AttemptEnd::Cancelled, AttemptEnd::Timeout, AttemptEnd::Lost] {
        let sql = format!("INSERT INTO t VALUES (1); {ENDLESS}");
        let running = file.bed.start(assignment(script(&sql)));
        // It runs while other connections cannot write.
        let other = Connection::open(&file.path).unwrap();
        other.busy_timeout(Duration::ZERO).unwrap();
        while other.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok() {
            tokio::task::yield_now().await;
        }
        let asked = Stopwatch::start();
        running.stop.send(Some(end)).unwrap();
        let ran = running.ran.await.unwrap();
        eprintln!("{} after {:?}", end.name(), asked.elapsed());
        asked.assert_within(Duration::from_secs(2));
        assert_eq!((ran.result.end, ran.code()), (end, "SQLITE_INTERRUPT".to_owned()));
        assert!(ran.result.message.ends_with("its transaction was rolled back"), "{ran:?}");
        assert_eq!(file.ask("SELECT count(*) FROM t"), "0");
    }
}

#[tokio::test]
async fn nothing_runs_on_when_the_attempt_is_dropped() {
    let file = file();
    file.bed.sql("CREATE TABLE t (n)").await.done();
    let running = file.bed.start(assignment(script(&format!("DELETE FROM t; {ENDLESS}"))));
    let other = Connection::open(&file.path).unwrap();
    other.busy_timeout(Duration::ZERO).unwrap();
    while other.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok() {
        tokio::task::yield_now().await;
    }
    running.ran.abort();
    assert!(running.ran.await.unwrap_err().is_cancelled());
    other.busy_timeout(super::bed::PATIENCE).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; ROLLBACK").unwrap();
}

#[tokio::test]
async fn a_file_that_somebody_else_writes() {
    let file = file_that_waits(Duration::from_millis(100));
    file.bed.sql("CREATE TABLE t (n)").await.done();
    let other = Connection::open(&file.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ran = file.bed.sql("INSERT INTO t VALUES (1)").await;
    assert_eq!((ran.result.end, ran.code()), (AttemptEnd::Failed, "SQLITE_BUSY".to_owned()));
    assert!(!ran.result.error.unwrap().is_refusal());
    // A job that waits for a lock is stopped like one that works, and continues when the lock is
    // free.
    let patient = Bed::of(Database::Sqlite(SqliteDatabase::new(&file.path)));
    let running = patient.start(assignment(script("INSERT INTO t VALUES (1)")));
    running.stop.send(Some(AttemptEnd::Cancelled)).unwrap();
    assert_eq!(running.ran.await.unwrap().result.end, AttemptEnd::Cancelled);
    let running = patient.start(assignment(script("INSERT INTO t VALUES (1)")));
    other.execute_batch("COMMIT").unwrap();
    running.ran.await.unwrap().done();
    assert_eq!(file.ask("SELECT count(*) FROM t"), "1");
}

#[tokio::test]
async fn commands_that_put_the_file_in_order() {
    let file = file();
    file.bed
        .sql(
            "CREATE TABLE t (n, filler); CREATE INDEX i ON t (n);
             INSERT INTO t SELECT value, randomblob(1000) FROM json_each(json_array(1, 2, 3));
             INSERT INTO t SELECT n, randomblob(100000) FROM t; DELETE FROM t WHERE length(filler) > 5000",
        )
        .await
        .done();
    let free = |file: &File| file.ask("PRAGMA freelist_count");
    assert_ne!(free(&file), "0");
    for (command, statements) in [
        ("SWEEP", 1),
        ("SWEEP ANALYZE", 2),
        ("VACUUM", 1),
        ("ANALYZE TABLES;", 1),
        ("ANALYZE t", 1),
        ("REINDEX DATABASE", 1),
        ("VACUUM; ANALYZE", 2),
    ] {
        let ran = file.bed.sql(command).await.done();
        assert_eq!(ran.details()["statements"], json!(statements), "{command}");
        assert_eq!(ran.result.message, "Query executed successfully, 0 rows affected");
        assert_eq!(free(&file), "0", "{command}");
    }
    assert_eq!(file.ask("SELECT count(*) FROM sqlite_stat1"), "1");
    let ran = file.bed.sql("DELETE FROM t; VACUUM").await;
    assert_eq!(ran.code(), "NOT_IN_TRANSACTION");
    assert_eq!(file.ask("SELECT count(*) FROM t"), "3");
}

/// Whenever the wish comes, the answer is true.
#[tokio::test]
async fn a_stop_at_any_moment_is_reported_as_it_was() {
    let file = file();
    file.bed.sql("CREATE TABLE t (n)").await.done();
    let mut done = 0;
    for n in 0..150_u64 {
        let running = file.bed.start(assignment(script(&format!("INSERT INTO t VALUES ({n})"))));
        // Not to wait for something: to meet every phase.
        tokio::time::sleep(Duration::from_micros(n * 20)).await;
        let _ = running.stop.send(Some(AttemptEnd::Cancelled));
        match running.ran.await.unwrap().result.end {
            AttemptEnd::Completed => done += 1,
            end => assert_eq!(end, AttemptEnd::Cancelled),
        }
    }
    eprintln!("{done} of 150 were done before");
    assert_eq!(file.ask("SELECT count(*) FROM t"), done.to_string());
}
