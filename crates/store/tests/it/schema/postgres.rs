//! The tables of the PostgreSQL store.

use std::fmt::Write;
use std::sync::Arc;

use store::StoreError;
use store::postgres::{PostgresOptions, PostgresStore};
use testbed::postgres::Server;

use super::{compare, furnish, goes_on, is_update, newest_database, old_databases, upgraded};
use crate::bench::Bench;
use crate::lab::Lab;
use crate::postgres_bench::PostgresBench;

/// Tables with their columns and constraints, then indexes, then functions, by name; the same
/// text from every release of PostgreSQL.
async fn dump(bench: &PostgresBench) -> String {
    let client = bench.connect().await;
    client.batch_execute("SET search_path = punctual").await.unwrap();
    let mut dump = String::new();
    for (what, query) in [
        (
            "tables",
            "SELECT c.relname || coalesce(' with ' || array_to_string(c.reloptions, ', '), '')
             FROM pg_class c
             WHERE c.relnamespace = 'punctual'::regnamespace AND c.relkind IN ('r', 'p', 'S', 'v')
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
                 AND c.relname NOT LIKE 'refinery%' AND a.attnum > 0 AND NOT a.attisdropped
             ORDER BY c.relname, a.attnum",
        ),
        (
            "constraints",
            "SELECT format('%s %s %s', c.relname, n.conname, pg_get_constraintdef(n.oid))
             FROM pg_constraint n JOIN pg_class c ON c.oid = n.conrelid
             WHERE c.relnamespace = 'punctual'::regnamespace AND n.contype <> 'n'
                 AND c.relname NOT LIKE 'refinery%'
             ORDER BY c.relname, n.conname",
        ),
        (
            "indexes",
            "SELECT pg_get_indexdef(i.indexrelid)
             FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
             WHERE c.relnamespace = 'punctual'::regnamespace AND c.relname NOT LIKE 'refinery%'
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

/// Tables of every release, with rows in them, become those of this one and go on working.
#[tokio::test]
async fn an_old_database_with_data_becomes_a_new_one() {
    if is_update() {
        let bench = PostgresBench::open().await;
        let store = bench.door().await;
        let lab = Lab::new(bench, store);
        furnish(&lab).await;
        let dump = Server::shared().dump_with_rows(&lab.bench.url());
        std::fs::write(newest_database("postgres"), dump).unwrap();
        lab.close().await;
    }
    for old in old_databases("postgres") {
        let bench = PostgresBench::empty().await;
        let script = std::fs::read_to_string(&old).unwrap();
        bench.connect().await.batch_execute(&script).await.unwrap();
        let store = Arc::new(upgraded(open(&bench).await, &old));
        compare(&dump(&bench).await, "postgres.sql");
        goes_on(store).await;
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
