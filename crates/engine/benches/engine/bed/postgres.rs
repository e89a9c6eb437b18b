//! Databases on a PostgreSQL server of our own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;
use store::postgres::{PostgresOptions, PostgresStore};
use testbed::postgres::Server;

use super::{Bed, server};
use crate::floor;
use crate::floor::postgres::connect;
use crate::measurement::Measurement;
use crate::present::now;

pub struct PostgresBed {
    server: Server,
    /// How many databases there were.
    count: AtomicU32,
}

impl PostgresBed {
    pub async fn start() -> Result<Self> {
        Ok(PostgresBed { server: server::start()?, count: AtomicU32::new(0) })
    }

    fn name(&self) -> String {
        format!("bench{}", self.count.load(Ordering::Relaxed))
    }

    async fn administer(&self, sql: &str) -> Result<()> {
        Ok(connect(&self.server.tcp_url("postgres")).await?.batch_execute(sql).await?)
    }

    async fn count_of(&self, table: &str) -> Result<u64> {
        let client = connect(&self.address()).await?;
        let sql = format!("SELECT count(*) FROM punctual.{table}");
        let count: i64 = client.query_one(&sql, &[]).await?.try_get(0)?;
        Ok(count as u64)
    }
}

/// The store in a database.
pub async fn open(url: &str) -> Result<Arc<PostgresStore>> {
    Ok(Arc::new(PostgresStore::connect(url, PostgresOptions::default()).await?))
}

impl Bed for PostgresBed {
    type Store = PostgresStore;

    async fn fresh(&self) -> Result<Arc<PostgresStore>> {
        self.administer(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name())).await?;
        self.count.fetch_add(1, Ordering::Relaxed);
        self.administer(&format!("CREATE DATABASE {}", self.name())).await?;
        open(&self.address()).await
    }

    async fn settle(&self) -> Result<()> {
        self.administer("CHECKPOINT").await
    }

    async fn tidy(&self) -> Result<()> {
        connect(&self.address()).await?.batch_execute("VACUUM (ANALYZE)").await?;
        self.settle().await
    }

    async fn ended(&self) -> Result<u64> {
        self.count_of("history").await
    }

    async fn live(&self) -> Result<u64> {
        self.count_of("runs").await
    }

    async fn write_history(&self, rows: u64) -> Result<()> {
        let client = connect(&self.address()).await?;
        // Ids of the past four weeks, in the shape and the order of real ones, of a thousand jobs.
        let (weeks, hour) = (28 * 86_400_000_i64, 3_600_000);
        client
            .execute(
                "INSERT INTO punctual.history (id, job_id, tenant_id, node_id, scheduled_for,
                     due_at, finished_at, started_at, fence, job_version, coalesced, attempts,
                     lost, number, attempt_end, origin, outcome, dead_letter, shard)
                 SELECT (lpad(to_hex(ms), 12, '0') || '7' || lpad(to_hex(i % 4096), 3, '0')
                         || '80' || lpad(to_hex(i), 14, '0'))::uuid,
                     lpad(to_hex(1000 + i % 1000), 32, '0')::uuid, lpad('1', 32, '0')::uuid,
                     lpad('2', 32, '0')::uuid, ms * 1000, ms * 1000, ms * 1000 + 500,
                     ms * 1000 + 100, i + 1, 1, 0, 1, 0, 1, 1, 1, 1, false, ''
                 FROM (
                     SELECT i, $2::bigint + i * $3::bigint / $1 AS ms
                     FROM generate_series(0, $1::bigint - 1) AS i
                 ) AS h",
                &[&(rows as i64), &(now().as_millisecond() - weeks), &(weeks - hour)],
            )
            .await?;
        client.batch_execute("VACUUM ANALYZE punctual.history").await?;
        self.settle().await
    }

    fn address(&self) -> String {
        self.server.tcp_url(&self.name())
    }

    fn server(&self) -> Option<u32> {
        Some(self.server.process())
    }

    async fn floor(&self, runs: u32) -> Result<Vec<Measurement>> {
        floor::postgres::measure(&self.server.tcp_url("postgres"), runs).await
    }
}
