//! Servers that are not there, or not any more.

use agent::{Database, PostgresDatabase};
use domain::run::AttemptEnd;
use serde_json::json;
use testbed::postgres::{Server, Setup, free_port, kill};
use tokio_postgres::NoTls;

use super::bed::{Bed, PATIENCE, Ran, Running, assignment, call, script};

/// The process that serves a session in this state.
async fn victim(bed: &Bed, state: &str) -> i32 {
    let others = "FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid()";
    bed.until(&format!("SELECT count(*) = 1 {others} AND {state}")).await;
    bed.ask(&format!("SELECT pid {others} AND {state}")).await.parse().unwrap()
}

#[tokio::test]
async fn a_server_that_is_not_there() {
    let port = free_port().unwrap();
    for url in [
        format!("postgres://u@127.0.0.1:{port}/d"),
        "postgres:///d?user=u&host=/nowhere".to_owned(),
        "postgres://u@nowhere.invalid/d".to_owned(),
    ] {
        let bed = Bed::of(Database::Postgres(PostgresDatabase::parse(&url).unwrap()));
        let ran = bed.sql("SELECT 1").await;
        let (code, message) = ran.error();
        assert_eq!(code, "CONNECTION_FAILED", "{url}: {message}");
        assert!(message.starts_with("the database cannot be reached: "), "{message}");
        assert!(!ran.result.error.as_ref().unwrap().is_refusal());
    }
    let url = Server::shared().url("missing");
    let bed = Bed::of(Database::Postgres(PostgresDatabase::parse(&url).unwrap()));
    let ran = bed.sql("SELECT 1").await;
    assert_eq!(
        ran.error(),
        (
            "SQLSTATE_3D000".to_owned(),
            "the database refused the connection: database \"missing\" does not exist"
        )
    );
}

/// A server that accepts connections and never sends a byte.
#[tokio::test]
async fn a_job_is_stopped_while_it_connects() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("postgres://u@127.0.0.1:{port}/d");
    let bed = Bed::of(Database::Postgres(PostgresDatabase::parse(&url).unwrap()));
    let running = bed.start(assignment(script("SELECT 1")));
    let accepted = tokio::task::spawn_blocking(move || listener.accept());
    let _connection = accepted.await.unwrap().unwrap();
    running.stop.send(Some(AttemptEnd::Cancelled)).unwrap();
    let ran = running.ran.await.unwrap();
    assert_eq!(ran.result.end, AttemptEnd::Cancelled);
    assert_eq!(ran.result.message, "it was cancelled: it had not reached the database yet");
}

#[tokio::test]
async fn an_administrator_ends_the_session() {
    let bed = Bed::postgres().await;
    bed.sql("CREATE TABLE t (n int)").await.done();
    let sql = "INSERT INTO t VALUES (1); SELECT pg_sleep(600)";
    let running = bed.start(assignment(script(sql)));
    let victim = victim(&bed, "wait_event = 'PgSleep'").await;
    bed.ask(&format!("SELECT pg_terminate_backend({victim})")).await;
    let ran = running.ran.await.unwrap();
    assert_eq!((ran.result.end, ran.code()), (AttemptEnd::Failed, "SQLSTATE_57P01".to_owned()));
    assert!(!ran.result.error.unwrap().is_refusal());
    assert_eq!(bed.ask("SELECT count(*) FROM t").await, "0");
}

/// A process that is another one after a crash of the server.
const CHECKPOINTER: &str = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'";

/// Kills a process of the server, which makes it start anew, and waits for the answer of the job
/// and for the server.
async fn crash(server: &Server, bed: &Bed, state: &str, running: Running) -> Ran {
    let before: i32 = bed.ask(CHECKPOINTER).await.parse().unwrap();
    assert!(kill(victim(bed, state).await), "the session waits until it is killed");
    let ran = running.ran.await.unwrap();
    let url = server.url("postgres");
    let recovered = async {
        loop {
            if let Ok((client, connection)) = tokio_postgres::connect(&url, NoTls).await {
                tokio::spawn(connection);
                let row = client.query_opt(CHECKPOINTER, &[]).await;
                if let Ok(Some(row)) = row
                    && row.get::<_, i32>(0) != before
                {
                    return;
                }
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, recovered).await.expect("the server comes back");
    ran
}

#[tokio::test]
async fn a_process_of_the_server_is_killed() {
    let server = Server::start();
    let bed = Bed::on(&server).await;
    bed.sql(
        "CREATE TABLE t (n int);
         CREATE PROCEDURE slow() LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO t VALUES (1); COMMIT; PERFORM pg_sleep(600); END $$",
    )
    .await
    .done();
    // In the middle of a statement.
    let running = bed.start(assignment(script("INSERT INTO t VALUES (1); SELECT pg_sleep(600)")));
    let ran = crash(&server, &bed, "wait_event = 'PgSleep'", running).await;
    assert_eq!((ran.result.end, ran.code()), (AttemptEnd::Failed, "CONNECTION_LOST".to_owned()));
    assert!(ran.result.message.contains("the server rolls the work back"), "{ran:?}");
    assert_eq!(bed.ask("SELECT count(*) FROM t").await, "0");
    // In the middle of a procedure that commits.
    let running = bed.start(assignment(call("slow", json!([]))));
    let ran = crash(&server, &bed, "wait_event = 'PgSleep'", running).await;
    assert_eq!(ran.code(), "COMMIT_UNKNOWN");
    assert_eq!(bed.ask("SELECT count(*) FROM t").await, "1");
}

/// A commit can take long: while a deferred trigger runs it has not happened, while it waits for
/// a replica it has.
#[tokio::test]
async fn the_fate_of_a_commit_is_found_out() {
    let server = Setup::default()
        .set("synchronous_standby_names=absent")
        .set("synchronous_commit=local")
        .start();
    let bed = Bed::on(&server).await;
    bed.sql(
        "CREATE TABLE t (n int);
         CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM pg_sleep(600); RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER late AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW WHEN (NEW.n = 1) EXECUTE FUNCTION wait()",
    )
    .await
    .done();
    let running = bed.start(assignment(script("INSERT INTO t VALUES (1)")));
    let commits = "wait_event = 'PgSleep' AND query = 'COMMIT'";
    let ran = crash(&server, &bed, commits, running).await;
    assert_eq!((ran.result.end, ran.code()), (AttemptEnd::Failed, "CONNECTION_LOST".to_owned()));
    assert_eq!(bed.ask("SELECT count(*) FROM t").await, "0");
    // The commit has happened, and the session ends before it can reply.
    let sql = "SET LOCAL synchronous_commit = on; INSERT INTO t VALUES (2)";
    let running = bed.start(assignment(script(sql)));
    let waiting = victim(&bed, "wait_event = 'SyncRep'").await;
    bed.ask(&format!("SELECT pg_terminate_backend({waiting})")).await;
    let ran = running.ran.await.unwrap().done();
    assert_eq!(ran.result.rows_affected, Some(1));
    assert_eq!(bed.ask("SELECT count(*) FROM t").await, "1");
    // The same in a crash: the number of the transaction may stand for another one now.
    let running = bed.start(assignment(script(sql)));
    let ran = crash(&server, &bed, "wait_event = 'SyncRep'", running).await;
    assert_eq!((ran.result.end, ran.code()), (AttemptEnd::Failed, "COMMIT_UNKNOWN".to_owned()));
    assert_eq!(bed.ask("SELECT count(*) FROM t").await, "2");
    // The whole server stops, and cannot be asked.
    let running = bed.start(assignment(script(sql)));
    let backend = victim(&bed, "wait_event = 'SyncRep'").await;
    assert!(kill(server.process() as i32));
    // It may have noticed that the server is gone, and ended by itself.
    kill(backend);
    running.stop.send(Some(AttemptEnd::Lost)).unwrap();
    let ran = running.ran.await.unwrap();
    assert_eq!((ran.result.end, ran.code()), (AttemptEnd::Lost, "COMMIT_UNKNOWN".to_owned()));
}
