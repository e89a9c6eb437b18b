//! Jobs that run as another role.

use domain::action::Assignment;
use domain::run::AttemptEnd;
use serde_json::json;

use super::bed::{Bed, Ran, assignment, call, script};

fn as_role(mut assignment: Assignment, role: &str) -> Assignment {
    assignment.run_as = Some(role.to_owned());
    assignment
}

async fn run_as(bed: &Bed, role: &str, sql: &str) -> Ran {
    bed.run(as_role(assignment(script(sql)), role)).await
}

/// Roles belong to the whole server, so each test has names of its own.
async fn furnish(bed: &Bed, roles: &str) {
    bed.beside().await.batch_execute(roles).await.unwrap();
}

#[tokio::test]
async fn a_job_has_the_rights_of_its_role_and_no_others() {
    let bed = Bed::postgres().await;
    furnish(
        &bed,
        "CREATE ROLE role_reader; CREATE ROLE \"We\"\"ird Role\";
         CREATE TABLE public.seen (n int); CREATE TABLE public.hidden (n int);
         GRANT SELECT ON seen TO role_reader;
         CREATE PROCEDURE who(OUT name text) LANGUAGE plpgsql AS
             $$ BEGIN COMMIT; name := current_user; END $$",
    )
    .await;
    let ran = run_as(&bed, "role_reader", "SELECT current_user, count(*) FROM seen").await.done();
    assert_eq!(ran.rows()[0], json!({"current_user": "role_reader", "count": 0}));
    assert_eq!(ran.details()["role"], json!("role_reader"));
    for sql in ["SELECT * FROM hidden", "INSERT INTO seen VALUES (1)", "VACUUM hidden; ANALYZE"] {
        let ran = run_as(&bed, "role_reader", sql).await;
        let told = ran.code() == "SQLSTATE_42501" || ran.err.contains("WARNING");
        assert!(told, "{sql}: {ran:?}");
    }
    let ran = run_as(&bed, "We\"ird Role", "SELECT current_user").await.done();
    assert_eq!(ran.rows()[0]["current_user"], json!("We\"ird Role"));
    // Also outside of a transaction, and after a procedure ended one.
    let ran = bed.run(as_role(assignment(call("who", json!([]))), "role_reader")).await.done();
    assert_eq!(ran.rows(), json!([{"name": "role_reader"}]));
}

#[tokio::test]
async fn a_role_that_cannot_be_taken_on_stops_the_job() {
    let bed = Bed::postgres().await;
    furnish(
        &bed,
        "CREATE ROLE role_login LOGIN; CREATE ROLE role_boss; GRANT CREATE ON SCHEMA public TO
         role_login, role_boss",
    )
    .await;
    let name = bed.ask("SELECT current_database()").await;
    let url =
        testbed::postgres::Server::shared().url(&name).replace("user=postgres", "user=role_login");
    let database = agent::PostgresDatabase::parse(&url).unwrap();
    let login = Bed::of(agent::Database::Postgres(database));
    let denied = run_as(&login, "role_boss", "CREATE TABLE made ()").await;
    assert_eq!(denied.result.end, AttemptEnd::Failed);
    assert_eq!(
        denied.error(),
        (
            "SQLSTATE_42501".to_owned(),
            "the job runs as \"role_boss\", but the database user of this configuration is not a \
             member of that role; nothing was executed"
        )
    );
    for role in ["role_missing", "none", ""] {
        for sql in ["CREATE TABLE made ()", "VACUUM"] {
            let ran = run_as(&login, role, sql).await;
            assert!(!ran.result.error.as_ref().unwrap().is_refusal(), "{role}: {ran:?}");
            assert_eq!(ran.details()["statements"], json!(0), "{role}: {ran:?}");
        }
    }
    assert_eq!(bed.ask("SELECT to_regclass('made')").await, "NULL");
}

#[tokio::test]
async fn a_job_stays_in_its_role() {
    let bed = Bed::postgres().await;
    furnish(&bed, "CREATE ROLE role_staying").await;
    for sql in [
        "RESET ROLE",
        "SET ROLE postgres",
        "SET SESSION AUTHORIZATION postgres",
        "SET LOCAL ROLE NONE",
        "DISCARD ALL",
        "RESET ALL",
    ] {
        let ran = run_as(&bed, "role_staying", sql).await;
        assert_eq!(ran.code(), "ROLE_CHANGE", "{sql}: {ran:?}");
    }
}
