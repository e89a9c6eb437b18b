//! Keeping the live table's indexes short.
//!
//! A run that ended leaves its index entries behind, at the very front of its lane, and every
//! claim steps over them until a vacuum removes them. The server's own comes once a minute, which
//! is too seldom for a table that turns over tens of thousands of rows a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Shared;
use super::pipeline::values;
use crate::Result;

/// Runs that all nodes take between two vacuums, at least.
const TAKEN_MIN: i64 = 100_000;

/// After so many ends of its own, a process looks whether it is time.
const LOOK_EVERY: u64 = 25_000;

/// How many runs have left since the last look.
#[derive(Default)]
pub(super) struct Vacuum {
    ended: AtomicU64,
    running: AtomicBool,
}

impl Shared {
    /// Counts runs that left, and starts a vacuum in the background when they are many.
    pub(super) fn count_ended(self: &Arc<Self>, ended: usize) {
        let vacuum = &self.vacuum;
        let before = vacuum.ended.fetch_add(ended as u64, Ordering::Relaxed);
        let many = before + ended as u64 >= LOOK_EVERY;
        if !many || vacuum.running.swap(true, Ordering::Relaxed) {
            return;
        }
        vacuum.ended.store(0, Ordering::Relaxed);
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            // The server's own vacuum comes, if later.
            if let Err(error) = shared.vacuum().await {
                tracing::debug!(%error, "the live runs could not be vacuumed");
            }
            shared.vacuum.running.store(false, Ordering::Relaxed);
        });
    }

    async fn vacuum(&self) -> Result<()> {
        if self.query(sql!("vacuum_turn"), values![TAKEN_MIN]).await?.is_empty() {
            return Ok(());
        }
        let client = self.pool.get().await?;
        client.batch_execute("SET statement_timeout = 0").await?;
        let runs = client.batch_execute("VACUUM (SKIP_LOCKED, TRUNCATE off) runs").await;
        let claims = client.batch_execute("VACUUM (SKIP_LOCKED, TRUNCATE off) claims").await;
        client.batch_execute("RESET statement_timeout").await?;
        Ok(runs.and(claims)?)
    }
}
