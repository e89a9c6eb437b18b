//! The floor of SQLite: write-ahead log, `synchronous = FULL`, two commits a batch.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use rusqlite::Connection;
use serde_json::json;

use super::BATCH;
use crate::measurement::Measurement;
use crate::present::rate;

const TABLE: &str = "
    DROP TABLE IF EXISTS j;
    CREATE TABLE j (id INTEGER PRIMARY KEY, state INTEGER NOT NULL DEFAULT 0,
        run_at INTEGER NOT NULL, payload TEXT);
    CREATE INDEX r ON j (run_at, id) WHERE state = 0;";

const CLAIM: &str = "UPDATE j SET state = 1 WHERE id IN (
        SELECT id FROM j WHERE state = 0 AND run_at <= ?1 ORDER BY run_at, id LIMIT ?2)
    RETURNING id, payload";

/// Ways to complete: the row goes, or it stays with another state.
const COMPLETE: [(&str, &str); 2] =
    [("del", "DELETE FROM j WHERE id = ?1"), ("upd", "UPDATE j SET state = 2 WHERE id = ?1")];

pub fn measure(folder: &Path, runs: u32) -> Result<Vec<Measurement>> {
    let connection = Connection::open(folder.join("floor.db"))?;
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
    let mut measurements = Vec::new();
    for (name, sql) in COMPLETE {
        connection.execute_batch(TABLE)?;
        let begun = Instant::now();
        fill(&connection, runs)?;
        let settings = json!({ "store": "sqlite", "synchronous": "FULL", "batch": BATCH });
        measurements.push(Measurement::new(
            "floor.enqueue_batch",
            rate(runs, begun).round(),
            "jobs/s",
            settings,
        ));
        let begun = Instant::now();
        let done = drain(&connection, sql)?;
        ensure!(done == runs, "the floor lost rows");
        let settings = json!({
            "store": "sqlite", "synchronous": "FULL", "batch": BATCH, "n": runs,
            "complete": name, "commits_per_batch": 2,
        });
        measurements.push(Measurement::new(
            "floor.process",
            rate(runs, begun).round(),
            "jobs/s",
            settings,
        ));
    }
    Ok(measurements)
}

fn fill(connection: &Connection, runs: u32) -> Result<()> {
    for first in (0..runs).step_by(BATCH as usize) {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut insert =
            connection.prepare_cached("INSERT INTO j (run_at, payload) VALUES (?1, '{}')")?;
        for i in first..runs.min(first + BATCH) {
            insert.execute((i,))?;
        }
        connection.execute_batch("COMMIT")?;
    }
    Ok(())
}

fn drain(connection: &Connection, complete: &str) -> Result<u32> {
    let mut done = 0;
    loop {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut claim = connection.prepare_cached(CLAIM)?;
        let ids = claim
            .query_map((i64::MAX, BATCH), |row| {
                row.get::<_, String>(1)?;
                row.get::<_, i64>(0)
            })?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        connection.execute_batch("COMMIT")?;
        if ids.is_empty() {
            return Ok(done);
        }
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut complete = connection.prepare_cached(complete)?;
        for id in &ids {
            complete.execute((id,))?;
        }
        connection.execute_batch("COMMIT")?;
        done += ids.len() as u32;
    }
}
