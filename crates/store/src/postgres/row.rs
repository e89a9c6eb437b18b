//! Between columns and values.

use std::borrow::Cow;

use domain::cluster::Placement;
use domain::id::{JobId, RunId, TenantId, UserId};
use domain::job::Job;
use domain::run::{AttemptEnd, ClaimedRun, Grant, NewRun, Origin, Outcome};
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Row;

pub(super) use crate::jobs::{job_state, parts_of, state_name};
use crate::lane::{lane, priority_of, slot_of};
use crate::{Result, StoreError};

/// A time as it is stored.
pub(super) fn us(at: Timestamp) -> i64 {
    at.as_microsecond()
}

/// A duration as it is stored.
pub(super) fn span_us(span: SignedDuration) -> i64 {
    // Far enough for every calendar, and small enough to be added to any time.
    const SPAN_MAX: i128 = 1 << 60;
    span.as_micros().clamp(-SPAN_MAX, SPAN_MAX) as i64
}

/// A stored time. A time past the calendar's end, which a long delay can make, is its end.
pub(super) fn at(us: i64) -> Timestamp {
    let end = if us < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_microsecond(us).unwrap_or(end)
}

/// A number that is never negative, kept in a signed column without loss.
pub(super) fn signed(number: u32) -> i32 {
    number.cast_signed()
}

/// The inverse of [`signed`].
pub(super) fn unsigned(number: i32) -> u32 {
    number.cast_unsigned()
}

/// The lane of a run as it is stored.
pub(super) fn lane_of(run: &NewRun) -> i16 {
    lane(run.slot, run.priority) as i16
}

/// Text that PostgreSQL takes: it has no place for a zero byte, and output of jobs may have any.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

pub(super) fn origin(number: i16) -> Result<Origin> {
    Origin::from_number(i64::from(number)).ok_or_else(|| unreadable(number, "an origin"))
}

pub(super) fn outcome(number: i16) -> Result<Outcome> {
    Outcome::from_number(i64::from(number)).ok_or_else(|| unreadable(number, "an outcome"))
}

pub(super) fn attempt_end(number: i16) -> Result<AttemptEnd> {
    Ok(match number {
        1 => AttemptEnd::Completed,
        2 => AttemptEnd::Failed,
        3 => AttemptEnd::Cancelled,
        4 => AttemptEnd::Timeout,
        5 => AttemptEnd::Lost,
        other => return Err(unreadable(other, "an end of an attempt")),
    })
}

/// id, tenant_id, name, version, state, definition, next_run, created_at, updated_at, owner_id
pub(super) fn job(row: &Row) -> Result<Job> {
    let id = JobId(row.try_get(0)?);
    let (state, definition) = parts_of(id, row.try_get(4)?, row.try_get(5)?);
    Ok(Job {
        id,
        tenant: TenantId(row.try_get(1)?),
        owner: UserId(row.try_get(9)?),
        name: row.try_get(2)?,
        version: unsigned(row.try_get(3)?),
        state,
        definition,
        next_run: row.try_get::<_, Option<i64>>(6)?.map(at),
        created_at: at(row.try_get(7)?),
        updated_at: at(row.try_get(8)?),
    })
}

/// The columns that every query of live runs begins with, up to the claim generation, and the fence
/// after it.
pub(super) fn claimed(row: &Row) -> Result<ClaimedRun> {
    let mut claimed = live(row)?;
    claimed.grant.fence = row.try_get(15)?;
    Ok(claimed)
}

/// The same for a run that was claimed just now, with its token after the fence.
pub(super) fn newly_claimed(row: &Row) -> Result<ClaimedRun> {
    let mut claimed = claimed(row)?;
    claimed.token = row.try_get::<_, Option<i64>>(16)?.unwrap_or(0);
    Ok(claimed)
}

/// The columns that every query of live runs begins with, up to the claim generation.
pub(super) fn live(row: &Row) -> Result<ClaimedRun> {
    let id = RunId(row.try_get(0)?);
    let lane = i64::from(row.try_get::<_, i16>(7)?);
    Ok(ClaimedRun {
        grant: Grant { run: id, fence: 0, turn: unsigned(row.try_get(14)?) },
        run: NewRun {
            id,
            job: JobId(row.try_get(1)?),
            tenant: TenantId(row.try_get(2)?),
            job_version: unsigned(row.try_get(3)?),
            scheduled_for: at(row.try_get(4)?),
            shard: row.try_get(5)?,
            due_at: at(row.try_get(6)?),
            priority: priority_of(lane),
            origin: origin(row.try_get(8)?)?,
            coalesced: unsigned(row.try_get(9)?),
            ignore_dependencies: row.try_get(10)?,
            parameters: row.try_get(11)?,
            place: Placement::default(),
            slot: slot_of(lane),
            requested_by: None,
        },
        attempts: unsigned(row.try_get(12)?),
        lost: unsigned(row.try_get(13)?),
        token: 0,
    })
}

fn unreadable(found: impl std::fmt::Display, wanted: &str) -> StoreError {
    StoreError::Unreadable(format!("{found} is not {wanted}"))
}
