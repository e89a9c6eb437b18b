//! The tally: ended runs are counted, a batch at a time.
//!
//! Several nodes may do so at once: each reads from the cursor on, and the store accepts the counts
//! of the first node to move it.

use domain::tally::{hour_of, tally};
use jiff::{SignedDuration, Timestamp};
use store::Cursor;

use super::Node;

/// Runs that ended longer ago are not counted any more: no statistics that are shown include them.
const REACH: SignedDuration = SignedDuration::from_hours(24 * 7);

/// Hours that statistics are kept.
const HOURS_KEPT: i64 = 24 * 30;

/// Result of a tallying step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TallyReport {
    /// Ended runs that were added up.
    pub added: usize,
    /// Whether there may be more.
    pub more: bool,
}

impl Node {
    /// Counts one batch of ended runs.
    pub async fn tally(&self) -> store::Result<TallyReport> {
        let now = self.store.now().await?;
        let from = self.store.tally_cursor().await?;
        let start = Cursor::from(now.saturating_sub(REACH).unwrap_or(Timestamp::MIN)).max(from);
        let batch = self.settings.batch_max;
        let ended = self.store.ended(start, Cursor::settled(now), batch).await?;
        let Some(last) = ended.last() else {
            self.store.forget_tallies(hour_of(now) - HOURS_KEPT, batch).await?;
            return Ok(TallyReport::default());
        };
        let amounts: Vec<_> = tally(&ended).into_iter().collect();
        let won = self.store.add_tallies(from, Cursor::after(last), &amounts).await?;
        let more = !won || ended.len() == batch as usize;
        Ok(TallyReport { added: if won { ended.len() } else { 0 }, more })
    }
}
