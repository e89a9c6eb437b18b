//! State in memory: sequence numbers, claims, and the order of events.

use std::collections::HashMap;
use std::sync::Arc;

use domain::id::JobId;
use jiff::Timestamp;
use rusqlite::Connection;

use super::holdings::Holdings;
use super::row::us;
use super::tokens::Tokens;
use crate::Result;

/// Maximum number of jobs with an entry of their own.
const NOTES_MAX: usize = 4_096;

/// Read when the file is opened, and written with the commands that move them.
pub(super) struct Counters {
    /// The latest number that was allocated to a claim or a run. None is allocated twice.
    pub fence: i64,
    /// The fencing tokens of starts.
    pub tokens: Arc<Tokens>,
    /// The time of the last group of commands.
    pub clock: Timestamp,
    /// Whether the fence or the time must be written.
    pub dirty: bool,
    /// Sequence of a group of commands: later than all earlier groups, and than everything that was
    /// due by then, even if the clock stands still.
    pub order: i64,
    pub holdings: Holdings,
    /// Runs of these jobs have ended or stepped aside.
    pub ends: Notes,
    /// These jobs were changed.
    pub changes: Notes,
}

/// When something happened to jobs, as the fence that was the latest then.
pub(super) struct Notes {
    jobs: HashMap<JobId, i64>,
    /// The same for jobs without an entry, at the latest.
    others: i64,
}

impl Counters {
    pub fn read(connection: &Connection, tokens: Arc<Tokens>) -> Result<Self> {
        let (fence, clock): (i64, i64) =
            connection.query_row(sql!("meta_read"), [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Counters {
            fence,
            tokens,
            clock: Timestamp::from_microsecond(clock).unwrap_or(Timestamp::UNIX_EPOCH),
            dirty: false,
            order: clock,
            holdings: Holdings::read(connection)?,
            ends: Notes { jobs: HashMap::new(), others: fence },
            changes: Notes { jobs: HashMap::new(), others: fence },
        })
    }

    /// A group of commands begins.
    pub fn begin(&mut self, now: Timestamp) {
        self.clock = self.clock.max(now);
        self.order = us(self.clock).max(self.order) + 1;
    }

    /// A rollback: counts in memory are read again. Allocated numbers are not used again.
    pub fn recount(&mut self, connection: &Connection) -> Result<()> {
        self.holdings = Holdings::read(connection)?;
        Ok(())
    }
}

impl Notes {
    /// It happens to this job now.
    pub fn note(&mut self, job: JobId, fence: i64) {
        if self.jobs.len() >= NOTES_MAX && !self.jobs.contains_key(&job) {
            self.jobs.clear();
            self.others = fence;
        }
        self.jobs.insert(job, fence);
    }

    /// Whether it may have happened after the claim with this fence was made.
    pub fn since(&self, job: JobId, fence: i64) -> bool {
        self.jobs.get(&job).copied().unwrap_or(0).max(self.others) >= fence
    }
}
