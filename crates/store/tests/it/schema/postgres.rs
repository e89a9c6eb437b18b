//! The tables of the PostgreSQL store.

use std::fmt::Write;
use std::sync::Arc;

use store::StoreError;
use store::postgres::{PostgresOptions, PostgresStore};
use testbed::postgres::Server;

use super::{compare, databases, furnish, goes_on, golden, histories, refused, upgraded};
use crate::bench::Bench;
use crate::lab::Lab;
use crate::postgres_bench::PostgresBench;

/// Tables with their columns and constraints, then indexes, then functions, by name; the same
/// text from every release of PostgreSQL. Partitions come and go, and are left out.
async fn dump(bench: &PostgresBench) -> String {
    let client = bench.connect().await;
    client.batch_execute("SET search_path = punctual").await.unwrap();
    let mut dump = String::new();
    for (what, query) in [
        (
            "tables",
            "SELECT c.relname || coalesce(' with ' || array_to_string(c.reloptions, ', '), '')
                 || coalesce(' by ' || pg_get_partkeydef(c.oid), '')
             FROM pg_class c
             WHERE c.relnamespace = 'punctual'::regnamespace AND c.relkind IN ('r', 'p', 'S', 'v')
                 AND NOT c.relispartition
                 AND c.relname NOT LIKE 'refinery%'
             ORDER BY c.relname",
        ),
        (
            "columns",
            "SELECT format('%s.%s %s%s%s%s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                 CASE WHEN a.attnotnull THEN ' not null' ELSE '' END,
                 CASE WHEN a.attcollation <> t.typcollation THEN ' collate ' || l.collname ELSE '' END,
                 CASE WHEN a.attstorage <> t.typstorage THEN ' storage ' || a.attstorage::text ELSE '' END,
                 coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), ''))
             FROM pg_attribute a
             JOIN pg_class c ON c.oid = a.attrelid
             JOIN pg_type t ON t.oid = a.atttypid
             LEFT JOIN pg_collation l ON l.oid = a.attcollation
             LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
             WHERE c.relnamespace = 'punctual'::regnamespace AND c.relkind IN ('r', 'p')
                 AND c.relname NOT LIKE 'refinery%' AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
             ORDER BY c.relname, a.attnum",
        ),
        (
            "constraints",
            "SELECT format('%s %s %s', c.relname, n.conname, pg_get_constraintdef(n.oid))
             FROM pg_constraint n JOIN pg_class c ON c.oid = n.conrelid
             WHERE c.relnamespace = 'punctual'::regnamespace AND n.contype <> 'n'
                 AND c.relname NOT LIKE 'refinery%' AND NOT c.relispartition
             ORDER BY c.relname, n.conname",
        ),
        (
            "indexes",
            "SELECT pg_get_indexdef(i.indexrelid)
             FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
             WHERE c.relnamespace = 'punctual'::regnamespace AND c.relname NOT LIKE 'refinery%'
                 AND NOT c.relispartition
             ORDER BY 1",
        ),
        (
            "functions",
            "SELECT format('%s(%s) %s %s: %s', p.proname, pg_get_function_identity_arguments(p.oid),
                 p.provolatile, p.proparallel, p.prosrc)
             FROM pg_proc p WHERE p.pronamespace = 'punctual'::regnamespace ORDER BY 1",
        ),
    ] {
        writeln!(dump, "-- {what}").unwrap();
        for row in client.query(query, &[]).await.unwrap() {
            writeln!(dump, "{}", row.get::<_, String>(0)).unwrap();
        }
        dump.push('\n');
    }
    dump
}

async fn open(bench: &PostgresBench) -> Result<PostgresStore, StoreError> {
    PostgresStore::connect(&bench.url(), PostgresOptions::default()).await
}

#[tokio::test]
async fn migrations_make_the_golden_schema() {
    let bench = PostgresBench::empty().await;
    open(&bench).await.unwrap();
    compare(&dump(&bench).await, "postgres.sql");
    bench.close().await;
}

/// A database with a little of everything, as a script.
async fn furnished() -> String {
    let bench = PostgresBench::open().await;
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    furnish(&lab).await;
    let script = Server::shared().dump_with_rows(&lab.bench.url());
    lab.close().await;
    script
}

/// A database that a script makes.
async fn restored(script: &str) -> PostgresBench {
    let bench = PostgresBench::empty().await;
    bench.connect().await.batch_execute(script).await.unwrap();
    bench
}

/// Tables of every release, with rows in them, become those of this one and go on working.
#[tokio::test]
async fn an_old_database_with_data_becomes_a_new_one() {
    for (number, script) in databases("postgres", furnished().await) {
        let bench = restored(&script).await;
        let store = Arc::new(upgraded(open(&bench).await, number));
        compare(&dump(&bench).await, "postgres.sql");
        goes_on(store).await;
        bench.close().await;
    }
}

/// The comparison sees what an upgrade forgot.
#[tokio::test]
async fn an_upgrade_without_an_index_is_seen() {
    let index = "CREATE INDEX jobs_updated ON punctual.jobs USING btree (updated_at, id);\n";
    let script = furnished().await;
    assert!(script.contains(index), "{script}");
    let bench = restored(&script.replace(index, "")).await;
    open(&bench).await.unwrap();
    assert_ne!(dump(&bench).await, golden("postgres.sql"));
    bench.close().await;
}

/// Checksums that development versions recorded, in the order of their migrations.
const DEVELOPMENT: [&str; 14] = [
    "3448902282498672509",
    "12620970184022508035",
    "16905950737692312824",
    "12911105240035191849",
    "3211439680476653648",
    "8518899935736413568",
    "7617445489849501553",
    "10278966946757110925",
    "1877020624730455731",
    "16487112371190396375",
    "6911023521827798565",
    "14604797943229941102",
    "8033471973434213985",
    "9562732822261299570",
];

#[tokio::test]
async fn a_database_of_a_development_version_is_refused_and_untouched() {
    for history in histories(&DEVELOPMENT) {
        let bench = restored(&format!(
            "CREATE SCHEMA punctual;
             CREATE TABLE punctual.refinery_schema_history (version INT4 PRIMARY KEY,
                 name VARCHAR(255), applied_on VARCHAR(255), checksum VARCHAR(255));
             CREATE TABLE punctual.jobs (id uuid PRIMARY KEY);
             INSERT INTO punctual.refinery_schema_history VALUES {history};"
        ))
        .await;
        let before = Server::shared().dump_with_rows(&bench.url());
        refused(open(&bench).await, "an empty database");
        assert_eq!(Server::shared().dump_with_rows(&bench.url()), before);
        bench.close().await;
    }
}

/// Nodes of a cluster start at the same moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_processes_migrate_at_once() {
    let bench = Arc::new(PostgresBench::empty().await);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let bench = Arc::clone(&bench);
        tasks.spawn(async move { open(&bench).await.map(drop) });
    }
    for opened in tasks.join_all().await {
        opened.unwrap();
    }
    Arc::into_inner(bench).unwrap().close().await;
}
