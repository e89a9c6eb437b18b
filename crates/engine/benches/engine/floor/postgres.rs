//! The floor of PostgreSQL: two connections, batches of a thousand.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::json;
use tokio_postgres::{Client, NoTls, Statement};

use super::BATCH;
use crate::measurement::Measurement;
use crate::present::rate;

const CONNECTIONS: i32 = 2;

const TABLE: &str = "
    DROP TABLE IF EXISTS j;
    CREATE TABLE j (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        state smallint NOT NULL DEFAULT 0, run_at timestamptz NOT NULL DEFAULT now(),
        attempts smallint NOT NULL DEFAULT 0, locked_at timestamptz, worker int,
        payload jsonb NOT NULL DEFAULT '{}') WITH (fillfactor = 70, autovacuum_enabled = off);
    CREATE INDEX j_ready ON j (run_at, id) WHERE state = 0;";

const FILL: &str = "INSERT INTO j (payload) SELECT unnest($1::text[])::jsonb";

const CLAIM: &str = "WITH c AS MATERIALIZED (
        SELECT id FROM j WHERE state = 0 AND run_at <= now() ORDER BY run_at, id LIMIT $1
        FOR UPDATE SKIP LOCKED)
    UPDATE j SET state = 1, locked_at = now(), attempts = attempts + 1, worker = $2
    FROM c WHERE j.id = c.id RETURNING j.id, j.payload::text";

const COMPLETE: &str =
    "UPDATE j SET state = 2, locked_at = null FROM unnest($1::bigint[]) u(id) WHERE j.id = u.id";

/// The last batch goes and the next one is taken, in one statement.
const FUSED: &str = "WITH d AS (
        DELETE FROM j USING unnest($3::bigint[]) u(id) WHERE j.id = u.id),
    c AS MATERIALIZED (
        SELECT id FROM j WHERE state = 0 AND run_at <= now() ORDER BY run_at, id LIMIT $1
        FOR UPDATE SKIP LOCKED)
    UPDATE j SET state = 1, locked_at = now(), attempts = attempts + 1, worker = $2
    FROM c WHERE j.id = c.id RETURNING j.id, j.payload::text";

pub async fn measure(url: &str, runs: u32) -> Result<Vec<Measurement>> {
    let (one, two) = (connect(url).await?, connect(url).await?);
    let mut measurements = Vec::new();
    for fused in [false, true] {
        one.batch_execute(TABLE).await?;
        let begun = Instant::now();
        fill(&one, runs).await?;
        let settings = json!({ "store": "postgres", "batch": BATCH, "api": "unnest" });
        measurements.push(Measurement::new(
            "floor.enqueue_batch",
            rate(runs, begun).round(),
            "jobs/s",
            settings,
        ));
        one.batch_execute("VACUUM ANALYZE j").await?;
        one.batch_execute("CHECKPOINT").await?;
        let begun = Instant::now();
        let (first, second) = if fused {
            tokio::try_join!(drain_fused(&one, 1), drain_fused(&two, 2))?
        } else {
            tokio::try_join!(drain(&one, 1), drain(&two, 2))?
        };
        let rate = rate(runs, begun);
        ensure!(first + second == runs, "the floor lost rows");
        let settings = json!({
            "store": "postgres", "conns": CONNECTIONS, "batch": BATCH, "n": runs,
            "complete": if fused { "fused" } else { "upd" },
        });
        measurements.push(Measurement::new("floor.process", rate.round(), "jobs/s", settings));
    }
    one.batch_execute("DROP TABLE j").await?;
    Ok(measurements)
}

/// A connection that works until its client is dropped.
pub async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn fill(client: &Client, runs: u32) -> Result<()> {
    let insert = client.prepare(FILL).await?;
    for first in (0..runs).step_by(BATCH as usize) {
        let payloads = vec![r#"{"id":1}"#; BATCH.min(runs - first) as usize];
        client.execute(&insert, &[&payloads]).await?;
    }
    Ok(())
}

async fn drain(client: &Client, worker: i32) -> Result<u32> {
    let (claim, complete) = (client.prepare(CLAIM).await?, client.prepare(COMPLETE).await?);
    let mut done = 0;
    loop {
        let ids = claimed(client, &claim, worker, None).await?;
        if ids.is_empty() {
            return Ok(done);
        }
        client.execute(&complete, &[&ids]).await?;
        done += ids.len() as u32;
    }
}

async fn drain_fused(client: &Client, worker: i32) -> Result<u32> {
    let fused = client.prepare(FUSED).await?;
    let mut done = 0;
    let mut ids = Vec::new();
    loop {
        ids = claimed(client, &fused, worker, Some(&ids)).await?;
        if ids.is_empty() {
            return Ok(done);
        }
        done += ids.len() as u32;
    }
}

async fn claimed(
    client: &Client,
    claim: &Statement,
    worker: i32,
    done: Option<&Vec<i64>>,
) -> Result<Vec<i64>> {
    let batch = i64::from(BATCH);
    let rows = match done {
        Some(done) => client.query(claim, &[&batch, &worker, done]).await?,
        None => client.query(claim, &[&batch, &worker]).await?,
    };
    rows.iter()
        .map(|row| {
            row.try_get::<_, &str>(1)?;
            Ok(row.try_get(0)?)
        })
        .collect()
}
