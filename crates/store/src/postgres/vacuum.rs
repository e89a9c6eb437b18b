//! Keeping the live table's indexes short.
//!
//! A run that ended leaves its index entries behind, at the very front of its lane, and every
//! claim steps over them until a vacuum removes them. The server's own comes once a minute, which
//! is too seldom for a table that turns over tens of thousands of rows a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Shared;
use crate::Result;

/// Runs that leave the live table between two vacuums, at least.
const ENDED_MIN: u64 = 100_000;

/// How many runs have left since the last vacuum.
pub(super) struct Vacuum {
    ended: AtomicU64,
    limit: AtomicU64,
    running: AtomicBool,
}

impl Default for Vacuum {
    fn default() -> Self {
        Vacuum {
            ended: AtomicU64::new(0),
            limit: AtomicU64::new(ENDED_MIN),
            running: AtomicBool::new(false),
        }
    }
}

impl Shared {
    /// Counts runs that left, and starts a vacuum in the background when they are many.
    pub(super) fn count_ended(self: &Arc<Self>, ended: usize) {
        let vacuum = &self.vacuum;
        let before = vacuum.ended.fetch_add(ended as u64, Ordering::Relaxed);
        let many = before + ended as u64 >= vacuum.limit.load(Ordering::Relaxed);
        if !many || vacuum.running.swap(true, Ordering::Relaxed) {
            return;
        }
        vacuum.ended.store(0, Ordering::Relaxed);
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            // The server's own vacuum comes, if later.
            match shared.vacuum().await {
                Ok(live) => shared.vacuum.limit.store(ENDED_MIN.max(live / 5), Ordering::Relaxed),
                Err(error) => tracing::debug!(%error, "the live runs could not be vacuumed"),
            }
            shared.vacuum.running.store(false, Ordering::Relaxed);
        });
    }

    /// Answers how many runs are live: the more, the longer it takes, and the seldomer it pays.
    async fn vacuum(&self) -> Result<u64> {
        let client = self.pool.get().await?;
        client.batch_execute("SET statement_timeout = 0").await?;
        // Another node may be at it, which is as good.
        let runs = client.batch_execute("VACUUM (SKIP_LOCKED, TRUNCATE off) runs").await;
        let claims = client.batch_execute("VACUUM (SKIP_LOCKED, TRUNCATE off) claims").await;
        client.batch_execute("RESET statement_timeout").await?;
        runs.and(claims)?;
        let row = client
            .query_one("SELECT reltuples::bigint FROM pg_class WHERE oid = 'runs'::regclass", &[])
            .await?;
        Ok(u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0))
    }
}
