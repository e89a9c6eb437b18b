//! Two releases on one database, as in a rolling upgrade (docs/decisions/020-rolling-upgrades.md).
//!
//! There is no other release to start, so a newer one is made by hand: a column more in every
//! table, and migrations that do not exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use store::StoreError;
use store::postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::Client;

use super::{furnish, goes_on, migrations};
use crate::bench::Bench;
use crate::lab::Lab;
use crate::postgres_bench::PostgresBench;

/// A later migration that only adds, to everything that there is.
const EXPAND: &str = "
DO $$
DECLARE
    of text;
BEGIN
    FOR of IN SELECT relname FROM pg_class
        WHERE relnamespace = 'punctual'::regnamespace AND relkind IN ('r', 'p')
            AND NOT relispartition AND relname NOT LIKE 'refinery%'
    LOOP
        EXECUTE format('ALTER TABLE punctual.%I ADD COLUMN from_the_future text DEFAULT ''x''', of);
        EXECUTE format('CREATE INDEX ON punctual.%I (from_the_future)', of);
    END LOOP;
END $$;
CREATE TABLE punctual.future (id uuid PRIMARY KEY);
INSERT INTO punctual.refinery_schema_history (version, name, applied_on, checksum)
VALUES (99, 'from_the_future', '2099-01-01T00:00:00Z', '1');";

async fn open_knowing(bench: &PostgresBench, known: i32) -> Result<PostgresStore, StoreError> {
    PostgresStore::connect_knowing(&bench.url(), PostgresOptions::default(), known).await
}

#[tokio::test]
async fn a_release_goes_on_while_a_newer_one_adds_to_the_tables() {
    let bench = PostgresBench::open().await;
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    furnish(&lab).await;
    // Its statements were planned for the tables of before.
    lab.bench.connect().await.batch_execute(EXPAND).await.unwrap();
    goes_on(Arc::clone(&lab.store)).await;
    lab.close().await;
}

#[tokio::test]
async fn a_release_starts_on_tables_that_a_newer_one_has_added_to() {
    let bench = PostgresBench::open().await;
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    furnish(&lab).await;
    lab.bench.connect().await.batch_execute(EXPAND).await.unwrap();
    let store = open_knowing(&lab.bench, PostgresStore::newest()).await.unwrap();
    goes_on(Arc::new(store)).await;
    lab.close().await;
}

/// The tables record which releases they are too new for.
#[tokio::test]
async fn a_release_that_is_too_old_for_the_tables_is_refused() {
    let bench = PostgresBench::open().await;
    bench.handle().await;
    let client = bench.connect().await;
    client.batch_execute(EXPAND).await.unwrap();
    let newest = PostgresStore::newest();
    for (needs, opens) in [(newest, true), (newest + 1, false)] {
        let needs = format!("UPDATE punctual.compatibility SET needs = {needs}");
        client.batch_execute(&needs).await.unwrap();
        match open_knowing(&bench, newest).await.err() {
            None => assert!(opens, "{needs}"),
            Some(StoreError::TooNew { found, known }) => {
                assert_eq!((found, known, opens), (99, newest.into(), false), "{needs}");
            }
            other => panic!("{other:?}"),
        }
    }
    bench.close().await;
}

/// Schema that the statements of a release rely on.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shape {
    /// Type, whether it must have a value, and whether it gets one by itself.
    columns: BTreeMap<(String, String), (String, bool, bool)>,
    /// Constraints that reject rows, by table.
    rules: BTreeSet<(String, String)>,
}

impl Shape {
    async fn of(client: &Client) -> Self {
        let columns = "
            SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod),
                a.attnotnull, a.atthasdef OR a.attidentity <> ''
            FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
            WHERE c.relnamespace = 'punctual'::regnamespace AND c.relkind IN ('r', 'p')
                AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped";
        let rules = "
            SELECT c.relname::text, pg_get_constraintdef(n.oid)
            FROM pg_constraint n JOIN pg_class c ON c.oid = n.conrelid
            WHERE c.relnamespace = 'punctual'::regnamespace AND n.contype <> 'n'
                AND NOT c.relispartition
            UNION
            SELECT c.relname::text, 'UNIQUE ' || pg_get_indexdef(i.indexrelid)
            FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
            WHERE c.relnamespace = 'punctual'::regnamespace AND i.indisunique
                AND NOT c.relispartition";
        let mut shape = Shape::default();
        for row in client.query(columns, &[]).await.unwrap() {
            let place = (row.get(0), row.get(1));
            shape.columns.insert(place, (row.get(2), row.get(3), row.get(4)));
        }
        for row in client.query(rules, &[]).await.unwrap() {
            shape.rules.insert((row.get(0), row.get(1)));
        }
        shape
    }

    /// Changes in `next` that may break a statement written for `self`.
    fn taken_away(&self, next: &Shape) -> Vec<String> {
        let mut taken = Vec::new();
        for ((table, column), (kind, must, fills)) in &self.columns {
            let at = (table.clone(), column.clone());
            match next.columns.get(&at) {
                None => taken.push(format!("{table}.{column} is gone")),
                Some((now, ..)) if now != kind => {
                    taken.push(format!("{table}.{column} was {kind} and is {now}"));
                }
                Some((_, true, false)) if !must || *fills => {
                    taken.push(format!("{table}.{column} must be given"));
                }
                Some((_, true, _)) if !must => {
                    taken.push(format!("{table}.{column} must have a value"));
                }
                Some(_) => {}
            }
        }
        let old: BTreeSet<&String> = self.columns.keys().map(|(table, _)| table).collect();
        for ((table, column), (_, must, fills)) in &next.columns {
            let is_new = !self.columns.contains_key(&(table.clone(), column.clone()));
            if is_new && old.contains(table) && *must && !fills {
                taken.push(format!("{table}.{column} is new and must be given"));
            }
        }
        let rules = next.rules.difference(&self.rules);
        let rules = rules.filter(|(table, _)| old.contains(table));
        taken.extend(rules.map(|(table, rule)| format!("{table} has a new rule: {rule}")));
        taken
    }
}

/// Applies migrations one after the other, and returns the incompatibility of the first that a
/// release before it could not work with.
async fn first_wrong(client: &Client, migrations: &[(i32, String)]) -> Option<String> {
    client.batch_execute("CREATE SCHEMA punctual; SET search_path = punctual").await.unwrap();
    let (mut before, mut needed, mut last) = (Shape::default(), 0, None);
    for (number, script) in migrations {
        client.batch_execute(script).await.unwrap();
        let after = Shape::of(client).await;
        let taken = before.taken_away(&after);
        let row = client.query_one("SELECT needs FROM compatibility", &[]).await.unwrap();
        let needs: i32 = row.get(0);
        // No release knows less than the first migration.
        let known = last.unwrap_or(*number);
        if needs > known {
            return Some(format!(
                "V{number} needs {needs}: the release before it, which knows {known}, must go on"
            ));
        }
        if !taken.is_empty() && needs == needed {
            return Some(format!(
                "V{number} takes something away: {taken:?}. Stop using it in one release, and in \
                 a later one raise compatibility.needs to the migrations that the former knew"
            ));
        }
        (before, needed, last) = (after, needs, Some(*number));
    }
    None
}

/// A migration adds. One that removes something records it in the database, and the release before
/// it does not use the removed part.
#[tokio::test]
async fn migrations_add_first_and_take_away_later() {
    let bench = PostgresBench::empty().await;
    let wrong = first_wrong(&bench.connect().await, &migrations("postgres")).await;
    assert_eq!(wrong, None);
    bench.close().await;
}

/// Migrations that do not exist: valid successors of those that do, and invalid ones.
#[tokio::test]
async fn a_migration_that_shuts_out_the_release_before_it_is_seen() {
    let newest = PostgresStore::newest();
    let (next, later) = (newest + 1, newest + 2);
    let add = "ALTER TABLE jobs ADD COLUMN more text".to_owned();
    let drop = "ALTER TABLE jobs DROP COLUMN owner_id".to_owned();
    let needs =
        |number: i32, with: &str| format!("{with}; UPDATE compatibility SET needs = {number}");
    for (following, seen) in [
        (vec![(next, add.clone())], None),
        (vec![(next, add.clone()), (later, needs(next, &drop))], None),
        (vec![(next, drop.clone())], Some("takes something away: [\"jobs.owner_id is gone\"]")),
        (vec![(next, needs(next, &drop))], Some("the release before it")),
        (vec![(next, add), (later, drop)], Some("takes something away")),
    ] {
        let bench = PostgresBench::empty().await;
        let mut all = migrations("postgres");
        all.extend(following.clone());
        let wrong = first_wrong(&bench.connect().await, &all).await;
        match (&wrong, seen) {
            (None, None) => {}
            (Some(wrong), Some(seen)) => assert!(wrong.contains(seen), "{wrong}"),
            _ => panic!("{following:?}: {wrong:?}, not {seen:?}"),
        }
        bench.close().await;
    }
}

/// The check finds incompatibilities.
#[tokio::test]
async fn every_way_to_take_something_away_is_seen() {
    let bench = PostgresBench::empty().await;
    let client = bench.connect().await;
    let start = "CREATE SCHEMA punctual; SET search_path = punctual;
        CREATE TABLE t (id integer PRIMARY KEY, name text, number integer NOT NULL DEFAULT 1)";
    client.batch_execute(start).await.unwrap();
    for (change, seen) in [
        ("ALTER TABLE t DROP COLUMN name", "t.name is gone"),
        ("ALTER TABLE t RENAME COLUMN name TO title", "t.name is gone"),
        ("ALTER TABLE t RENAME TO u", "t.id is gone, t.name is gone, t.number is gone"),
        ("DROP TABLE t", "t.id is gone, t.name is gone, t.number is gone"),
        ("ALTER TABLE t ALTER name TYPE varchar", "t.name was text and is character varying"),
        ("ALTER TABLE t ALTER name SET NOT NULL", "t.name must be given"),
        ("ALTER TABLE t ALTER number DROP DEFAULT", "t.number must be given"),
        ("ALTER TABLE t ADD more text NOT NULL", "t.more is new and must be given"),
        ("ALTER TABLE t ADD CHECK (number > 0)", "t has a new rule: CHECK ((number > 0))"),
        (
            "CREATE UNIQUE INDEX n ON t (name)",
            "t has a new rule: UNIQUE CREATE UNIQUE INDEX n ON punctual.t USING btree (name)",
        ),
        ("ALTER TABLE t ADD more text", ""),
        ("ALTER TABLE t ADD more text NOT NULL DEFAULT ''", ""),
        ("ALTER TABLE t ALTER number DROP NOT NULL", ""),
        ("CREATE INDEX n ON t (name)", ""),
        ("CREATE TABLE u (id integer PRIMARY KEY, name text NOT NULL)", ""),
    ] {
        client.batch_execute("BEGIN").await.unwrap();
        let before = Shape::of(&client).await;
        client.batch_execute(change).await.unwrap();
        let taken = before.taken_away(&Shape::of(&client).await).join(", ");
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(taken, seen, "{change}");
    }
    bench.close().await;
}
