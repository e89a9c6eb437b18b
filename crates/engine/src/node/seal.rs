//! The sealer: rows of the audit get their numbers and hashes, a batch at a time.
//!
//! Several nodes may do so at once: each seals behind the head that it saw, and the store accepts
//! the first batch.

use std::collections::BTreeMap;

use domain::audit::{Broken, KeptHead, Record, Seal, verify, verify_cut, verify_witness};
use domain::id::TenantId;
use jiff::{SignedDuration, Timestamp};
use store::StoreError;

use super::Node;

/// Result of a sealing step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SealReport {
    /// Rows that were sealed.
    pub sealed: usize,
    /// Whether there may be more.
    pub more: bool,
}

/// Result of verifying a whole chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Rows that were looked at.
    pub rows: u64,
    /// The last row that was pruned.
    pub anchor: Seal,
    /// The last row that is as it was sealed.
    pub last: Seal,
    /// When that row was written; none before the first.
    pub last_at: Option<Timestamp>,
    /// The first one that is not.
    pub broken: Option<Broken>,
}

impl Node {
    /// Seals one batch of audit rows.
    pub async fn seal(&self) -> store::Result<SealReport> {
        let batch = self.settings.batch_max;
        self.tell_refusals(false).await?;
        let rows = self.store.unsealed(batch).await?;
        let mut report = SealReport { sealed: 0, more: rows.len() == batch as usize };
        let mut tenants: BTreeMap<TenantId, Vec<Record>> = BTreeMap::new();
        for row in rows {
            tenants.entry(row.event.tenant).or_default().push(row);
        }
        for (tenant, rows) in tenants {
            let head = self.store.chain(tenant).await?.head;
            let mut last = head;
            let mut sealed = Vec::with_capacity(rows.len());
            for row in &rows {
                last = row.sealed_behind(last);
                sealed.push((row.place, last.hash));
            }
            if self.store.seal(tenant, head, &sealed).await? {
                report.sealed += sealed.len();
            } else {
                report.more = true;
            }
        }
        Ok(report)
    }

    /// Checks the whole chain of a tenant, and whether it holds a row that was seen before.
    pub async fn verify_audit(
        &self,
        tenant: TenantId,
        known: Option<KeptHead>,
    ) -> store::Result<Verified> {
        let chain = self.store.chain(tenant).await?;
        let (last, last_at) = (chain.anchor, chain.anchor_at);
        let mut found = Verified { rows: 0, anchor: chain.anchor, last, last_at, broken: None };
        let cutoff = self.audit_cutoff().await?;
        found.broken = verify_cut(chain.anchor, chain.anchor_at, known, cutoff).err();
        let mut known =
            known.map(|known| known.seal).filter(|known| known.number > chain.anchor.number);
        while found.broken.is_none() && found.last.number < chain.head.number {
            let mut part = match self.readable_rows(tenant, found.last.number).await? {
                Ok(part) => part,
                Err(broken) => {
                    found.broken = Some(broken);
                    break;
                }
            };
            // Rows that were sealed since are looked at another time.
            part.retain(|row| row.seal.is_none_or(|seal| seal.number <= chain.head.number));
            if part.is_empty() {
                let missing = (found.last.number + 1, chain.head.number);
                found.broken = Some(Broken::rows(missing.0, missing.1, "missing"));
            }
            for row in &part {
                let as_sealed = verify(found.last, std::slice::from_ref(row));
                let is_first = found.last == chain.anchor;
                match as_sealed.and_then(|seal| match is_first {
                    true => verify_witness(chain.anchor, Some(row.at), cutoff).map(|()| seal),
                    false => Ok(seal),
                }) {
                    Ok(seal) => {
                        (found.last, found.last_at) = (seal, Some(row.at));
                        found.rows += 1;
                    }
                    Err(broken) => {
                        found.broken = Some(broken);
                        break;
                    }
                }
                if known.is_some_and(|known| known.number == found.last.number) {
                    if known != Some(found.last) {
                        let problem = "it is not the row that was seen";
                        found.broken = Some(Broken::row(found.last.number, problem));
                        break;
                    }
                    known = None;
                }
            }
        }
        if found.broken.is_none() && found.rows == 0 {
            found.broken = verify_witness(chain.anchor, None, cutoff).err();
        }
        if found.broken.is_none() && found.last != chain.head {
            let problem = "it is not the row that the chain ended with";
            found.broken = Some(Broken::row(found.last.number, problem));
        }
        if let (None, Some(known)) = (&found.broken, known) {
            let first = found.last.number + 1;
            found.broken = Some(Broken::rows(first, known.number, "missing, and seen before"));
        }
        Ok(found)
    }

    /// Sealed rows after a number, up to one that cannot be read; that one if it is the first.
    async fn readable_rows(
        &self,
        tenant: TenantId,
        after: u64,
    ) -> store::Result<Result<Vec<Record>, Broken>> {
        match self.store.sealed(tenant, after, self.settings.batch_max).await {
            Err(StoreError::Unreadable(_)) => {}
            rows => return rows.map(Ok),
        }
        match self.store.sealed(tenant, after, 1).await {
            Err(StoreError::Unreadable(problem)) => {
                Ok(Err(Broken::row(after + 1, format!("it cannot be read: {problem}"))))
            }
            row => row.map(Ok),
        }
    }

    /// The ends of all chains that have rows.
    pub async fn audit_heads(&self) -> store::Result<Vec<(TenantId, KeptHead)>> {
        let mut heads = Vec::new();
        for tenant in self.store.audited_tenants().await? {
            let seal = self.store.chain(tenant).await?.head;
            let Some(before) = seal.number.checked_sub(1) else { continue };
            let row = self.store.sealed(tenant, before, 1).await?.pop();
            let row = row.filter(|row| row.seal == Some(seal));
            heads.push((tenant, KeptHead { seal, at: row.map(|row| row.at) }));
        }
        Ok(heads)
    }

    /// Rows of the audit that were written at this time or later are kept.
    async fn audit_cutoff(&self) -> store::Result<Timestamp> {
        let days = SignedDuration::from_hours(24 * i64::from(self.settings.audit_retention_days));
        Ok(self.store.now().await?.saturating_sub(days).unwrap_or(Timestamp::MIN))
    }

    /// Prunes one batch of each tenant's old audit. Returns how many rows it was.
    pub async fn prune_audit(&self) -> store::Result<u64> {
        let before = self.audit_cutoff().await?;
        let mut gone = 0;
        for tenant in self.store.audited_tenants().await? {
            gone += self.store.prune_audit(tenant, before, self.settings.batch_max).await?;
        }
        Ok(gone)
    }
}
