//! Numbers that live in memory: the latest fence, what tenants hold, and what happened when.

use std::collections::HashMap;

use domain::id::{JobId, TenantId};
use jiff::Timestamp;
use rusqlite::Connection;

use super::row::us;
use crate::Result;

/// Jobs that are remembered one by one.
const NOTES_MAX: usize = 4_096;

/// Read when the file is opened, and written with the commands that move them.
pub(super) struct Counters {
    pub fence: i64,
    /// The time of the last group of commands.
    pub clock: Timestamp,
    /// Whether the fence or the time must be written.
    pub dirty: bool,
    /// What came with one group of commands came before what came with the next, and after what
    /// was due by then, even if the clock stands still.
    pub order: i64,
    held: HashMap<TenantId, i64>,
    /// Runs of these jobs have ended or stepped aside.
    pub ends: Notes,
    /// These jobs were changed.
    pub changes: Notes,
}

/// When something happened to jobs, as the fence that was the latest then.
pub(super) struct Notes {
    jobs: HashMap<JobId, i64>,
    /// The same for those that are not remembered, at the latest.
    others: i64,
}

impl Counters {
    pub fn read(connection: &Connection) -> Result<Self> {
        let (fence, clock): (i64, i64) =
            connection.query_row(sql!("meta_read"), [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Counters {
            fence,
            clock: Timestamp::from_microsecond(clock).unwrap_or(Timestamp::UNIX_EPOCH),
            dirty: false,
            order: clock,
            held: read_held(connection)?,
            ends: Notes { jobs: HashMap::new(), others: fence },
            changes: Notes { jobs: HashMap::new(), others: fence },
        })
    }

    /// A group of commands begins.
    pub fn begin(&mut self, now: Timestamp) {
        self.clock = self.clock.max(now);
        self.order = us(self.clock).max(self.order) + 1;
    }

    /// Something was rolled back: what it had counted did not happen. Its fences are not used
    /// again.
    pub fn recount(&mut self, connection: &Connection) -> Result<()> {
        self.held = read_held(connection)?;
        Ok(())
    }

    /// How many runs of a tenant are held by nodes.
    pub fn held(&self, tenant: TenantId) -> i64 {
        self.held.get(&tenant).copied().unwrap_or(0)
    }

    /// Runs of a tenant were taken or given back.
    pub fn move_held(&mut self, tenant: TenantId, by: i64) {
        *self.held.entry(tenant).or_default() += by;
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

    /// Whether it may have happened after the grant with this fence was given.
    pub fn since(&self, job: JobId, fence: i64) -> bool {
        self.jobs.get(&job).copied().unwrap_or(0).max(self.others) >= fence
    }
}

fn read_held(connection: &Connection) -> Result<HashMap<TenantId, i64>> {
    let mut held = HashMap::new();
    let mut query = connection.prepare(sql!("count_held"))?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        held.insert(TenantId(row.get(0)?), row.get(1)?);
    }
    Ok(held)
}
