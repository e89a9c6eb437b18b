//! The audit trail as it is kept.
//!
//! Rows are written in the transaction of what they record, by the verbs themselves, and sealed a
//! moment later: nobody who settles runs waits for the chain of a tenant
//! (`docs/decisions/013-audit.md`).

use std::future::Future;

use domain::audit::{Event, Hash, Kind, Record, Seal};
use domain::id::{JobId, TenantId, UserId};
use jiff::Timestamp;

use crate::{Result, Store};

/// A store that keeps an audit trail.
pub trait AuditLog: Store {
    /// Records what no other verb does: logins, refusals, backups.
    fn record(&self, events: &[Event]) -> impl Future<Output = Result<()>> + Send;

    /// Rows of a tenant that a filter lets through, newest first, from the given place backwards.
    fn audit(
        &self,
        filter: &AuditFilter,
        from: Option<i64>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Record>>> + Send;

    /// Rows that are not sealed yet, in the order of their places.
    fn unsealed(&self, limit: u32) -> impl Future<Output = Result<Vec<Record>>> + Send;

    /// Where the chain of a tenant begins and ends.
    fn chain(&self, tenant: TenantId) -> impl Future<Output = Result<Chain>> + Send;

    /// Seals rows behind the head that was seen. Answers false when somebody was faster, even if
    /// the head was seen after that; then nothing was written.
    fn seal(
        &self,
        tenant: TenantId,
        head: Seal,
        rows: &[(i64, Hash)],
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Sealed rows of a tenant in the order of their numbers, after the given one.
    fn sealed(
        &self,
        tenant: TenantId,
        after: u64,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Record>>> + Send;

    /// The tenants that have a chain.
    fn audited_tenants(&self) -> impl Future<Output = Result<Vec<TenantId>>> + Send;

    /// Who created jobs, in no particular order, deleted jobs included; unknown ones are left out.
    fn job_creators(
        &self,
        jobs: &[JobId],
    ) -> impl Future<Output = Result<Vec<(JobId, UserId)>>> + Send;

    /// Forgets sealed rows of a tenant from the beginning of its chain on, as long as they are
    /// older; the hash of the last one becomes the chain's anchor. The youngest of the old rows
    /// stays as a witness of their age. Answers how many, at most `limit`.
    fn prune_audit(
        &self,
        tenant: TenantId,
        before: Timestamp,
        limit: u32,
    ) -> impl Future<Output = Result<u64>> + Send;
}

/// Which rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFilter {
    /// Whose.
    pub tenant: TenantId,
    /// Only these kinds; all when there are none.
    pub kinds: Vec<Kind>,
    /// Only what somebody did.
    pub actor: Option<String>,
    /// Only what concerns a job; rows that list runs pass, because only their list tells.
    pub job: Option<JobId>,
    /// Only from this time on.
    pub since: Option<Timestamp>,
    /// Only before this time.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    /// Everything of a tenant.
    pub fn of(tenant: TenantId) -> Self {
        AuditFilter { tenant, kinds: Vec::new(), actor: None, job: None, since: None, until: None }
    }

    /// The names of the kinds; none for all.
    pub(crate) fn kind_names(&self) -> Option<Vec<&str>> {
        let names: Vec<_> = self.kinds.iter().map(|kind| kind.name()).collect();
        Some(names).filter(|names| !names.is_empty())
    }
}

/// Where a chain begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The last row that was forgotten; what comes before the first if none was.
    pub anchor: Seal,
    /// When that row was written; none if none was forgotten.
    pub anchor_at: Option<Timestamp>,
    /// The last row.
    pub head: Seal,
}

impl Default for Chain {
    fn default() -> Self {
        Chain { anchor: Seal::GENESIS, anchor_at: None, head: Seal::GENESIS }
    }
}
