//! Between columns and values.

use domain::cluster::Placement;
use domain::id::{JobId, RunId, TenantId, UserId};
use domain::job::Job;
use domain::run::{ClaimedRun, Grant, NewRun, Origin};
use jiff::Timestamp;
use rusqlite::Row;

pub(super) use crate::jobs::{job_state, parts_of, state_name};
use crate::lane::{priority_of, slot_of};
use crate::{Result, StoreError};

/// A time as it is stored. The calendar's last second, which a long delay can reach, has no
/// microseconds.
pub(super) fn us(at: Timestamp) -> i64 {
    at.as_microsecond().min(Timestamp::MAX.as_second() * 1_000_000)
}

/// A stored time.
pub(super) fn at(us: i64) -> Result<Timestamp> {
    Timestamp::from_microsecond(us)
        .map_err(|_| StoreError::Unreadable(format!("{us} is not a time")))
}

/// A stored time that may be absent.
pub(super) fn at_opt(us: Option<i64>) -> Result<Option<Timestamp>> {
    us.map(at).transpose()
}

pub(super) fn origin(number: i64) -> Result<Origin> {
    Origin::from_number(number)
        .ok_or_else(|| StoreError::Unreadable(format!("{number} is not an origin")))
}

/// id, tenant_id, name, version, state, definition, next_run, created_at, updated_at, owner_id
pub(super) fn job(row: &Row<'_>) -> Result<Job> {
    let id = JobId(row.get(0)?);
    let text = |column| row.get_ref(column)?.as_str().map_err(unreadable);
    let (state, definition) = parts_of(id, text(4)?, text(5)?);
    Ok(Job {
        id,
        tenant: TenantId(row.get(1)?),
        owner: UserId(row.get(9)?),
        name: row.get(2)?,
        version: row.get(3)?,
        state,
        definition,
        next_run: at_opt(row.get(6)?)?,
        created_at: at(row.get(7)?)?,
        updated_at: at(row.get(8)?)?,
    })
}

/// The columns that every query of live runs begins with; the claim generation is the last of them.
pub(super) fn claimed(row: &Row<'_>, fence: i64) -> Result<ClaimedRun> {
    let id = RunId(row.get(0)?);
    let lane = row.get(7)?;
    Ok(ClaimedRun {
        grant: Grant { run: id, fence, turn: row.get(14)? },
        run: NewRun {
            id,
            job: JobId(row.get(1)?),
            tenant: TenantId(row.get(2)?),
            job_version: row.get(3)?,
            scheduled_for: at(row.get(4)?)?,
            shard: row.get(5)?,
            due_at: at(row.get(6)?)?,
            priority: priority_of(lane),
            origin: origin(row.get(8)?)?,
            coalesced: row.get(9)?,
            ignore_dependencies: row.get(10)?,
            parameters: row.get(11)?,
            place: Placement::default(),
            slot: slot_of(lane),
            requested_by: None,
        },
        attempts: row.get(12)?,
        lost: row.get(13)?,
        token: 0,
    })
}

fn unreadable(error: impl std::fmt::Display) -> StoreError {
    StoreError::Unreadable(error.to_string())
}
