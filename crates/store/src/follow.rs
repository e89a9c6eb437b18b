//! For those who follow what happens: the tally, and whoever wants to be told.
//!
//! Ended runs are read in the order in which they ended, jobs in the order of their changes. A
//! [`Cursor`] says how far a follower has come. What ends is stamped by the node that saw it end
//! and recorded a moment later, so a row can appear behind a cursor that is close to the present:
//! who must see everything stays [`Cursor::settled`] behind, who must be fast looks at that time
//! once more and drops what is known already.
//!
//! Nothing is written to say that a run has started, so there is no such event.

use std::future::Future;

use domain::id::{JobId, TenantId};
use domain::job::Job;
use domain::tally::{EndedRun, Key};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::{Result, Store};

/// A store that can be followed.
pub trait ChangeFeed: Store {
    /// Runs of all tenants that ended after the cursor and before `until`, in that order.
    fn ended(
        &self,
        after: Cursor,
        until: Timestamp,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<EndedRun>>> + Send;

    /// Jobs of all tenants that were defined after the cursor, deleted ones included, in that
    /// order, as they are now: one that changed twice is listed once.
    fn changed_jobs(
        &self,
        after: Cursor,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Job>>> + Send;

    /// How far the tally has come.
    fn tally_cursor(&self) -> impl Future<Output = Result<Cursor>> + Send;

    /// Adds amounts to the tallies and moves their cursor, if it still stands where they were
    /// counted from. Answers whether it did.
    fn add_tallies(
        &self,
        from: Cursor,
        to: Cursor,
        amounts: &[(Key, u64)],
    ) -> impl Future<Output = Result<bool>> + Send;

    /// The amounts of some jobs of a tenant, [`JobId::NONE`] for the tenant as a whole, from an
    /// hour on.
    fn tallies(
        &self,
        tenant: TenantId,
        jobs: &[JobId],
        since_hour: i64,
    ) -> impl Future<Output = Result<Vec<(Key, u64)>>> + Send;

    /// Deletes amounts of earlier hours, at most `limit`; answers how many.
    fn forget_tallies(
        &self,
        before_hour: i64,
        limit: u32,
    ) -> impl Future<Output = Result<u64>> + Send;
}

/// How far somebody has followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The time of the last thing seen.
    pub at: Timestamp,
    /// Its identity, which tells things of the same time apart.
    pub id: Uuid,
}

impl Cursor {
    /// Before everything that happens at a time.
    pub fn from(at: Timestamp) -> Self {
        Cursor { at, id: Uuid::nil() }
    }

    /// Just after a run's end.
    pub fn after(run: &EndedRun) -> Self {
        Cursor { at: run.finished_at, id: run.id.0 }
    }

    /// Just after a job's change.
    pub fn after_change(job: &Job) -> Self {
        Cursor { at: job.updated_at, id: job.id.0 }
    }

    /// What happened before this time has been recorded: a node that is silent for longer has
    /// lost its lease, and its word does not count any more.
    pub fn settled(now: Timestamp) -> Timestamp {
        now.saturating_sub(SignedDuration::from_secs(60)).unwrap_or(Timestamp::MIN)
    }
}
