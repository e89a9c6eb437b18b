//! The audit trail.

use domain::audit::{Event, GENESIS, Hash, Kind, Record, Seal};
use domain::id::{JobId, NodeId, RunId, TenantId, UserId};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::pipeline::{Pipeline, values};
use super::row::{at, text, us};
use crate::{AuditFilter, AuditLog, Chain, Result};

impl AuditLog for PostgresStore {
    async fn record(&self, events: &[Event]) -> Result<()> {
        let column = |part: fn(&Event) -> &str| -> Vec<_> {
            events.iter().map(|event| text(part(event))).collect()
        };
        let tenants: Vec<Uuid> = events.iter().map(|event| event.tenant.0).collect();
        let jobs: Vec<Option<Uuid>> = events.iter().map(|event| event.job.map(|id| id.0)).collect();
        let runs: Vec<Option<Uuid>> = events.iter().map(|event| event.run.map(|id| id.0)).collect();
        let values = values![
            tenants,
            column(|event| &event.actor),
            column(|event| event.kind.name()),
            jobs,
            runs,
            column(|event| &event.outcome),
            column(|event| &event.details),
        ];
        self.shared.query(sql!("audit_insert"), values).await.map(drop)
    }

    async fn audit(
        &self,
        filter: &AuditFilter,
        from: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Record>> {
        let values = values![
            filter.tenant.0,
            from.unwrap_or(i64::MAX),
            filter.kind_names(),
            filter.actor.as_deref().map(text),
            filter.job.map(|job| job.0),
            filter.since.map(us),
            filter.until.map(us),
            i64::from(limit),
        ];
        self.shared.query(sql!("audit_list"), values).await?.iter().map(record).collect()
    }

    async fn unsealed(&self, limit: u32) -> Result<Vec<Record>> {
        let values = values![i64::from(limit)];
        self.shared.query(sql!("audit_unsealed"), values).await?.iter().map(record).collect()
    }

    async fn chain(&self, tenant: TenantId) -> Result<Chain> {
        let rows = self.shared.query(sql!("audit_chain"), values![tenant.0]).await?;
        let Some(row) = rows.first() else { return Ok(Chain::default()) };
        Ok(Chain {
            anchor: seal_of(row.try_get(0)?, row.try_get(1)?),
            anchor_at: row.try_get::<_, Option<i64>>(4)?.map(at),
            head: seal_of(row.try_get(2)?, row.try_get(3)?),
        })
    }

    async fn seal(&self, tenant: TenantId, head: Seal, rows: &[(i64, Hash)]) -> Result<bool> {
        let Some((_, last)) = rows.last() else { return Ok(true) };
        let places: Vec<i64> = rows.iter().map(|(place, _)| *place).collect();
        let hashes: Vec<&[u8]> = rows.iter().map(|(_, hash)| hash.as_slice()).collect();
        let numbers: Vec<i64> =
            (head.number + 1..).zip(rows).map(|(number, _)| number.cast_signed()).collect();
        let end = head.number + rows.len() as u64;
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("audit_head_insert"), values![tenant.0, GENESIS.as_slice()]);
        let (from, end) = (head.number.cast_signed(), end.cast_signed());
        let values = values![tenant.0, from, end, last.as_slice(), places, numbers, hashes];
        let sealed = pipeline.push(sql!("audit_seal"), values);
        let mut answers = pipeline.commit(&self.shared.pool).await?;
        Ok(super::first(answers.swap_remove(sealed))?.try_get(0)?)
    }

    async fn sealed(&self, tenant: TenantId, after: u64, limit: u32) -> Result<Vec<Record>> {
        let values = values![tenant.0, after.cast_signed(), i64::from(limit)];
        self.shared.query(sql!("audit_sealed"), values).await?.iter().map(record).collect()
    }

    async fn audited_tenants(&self) -> Result<Vec<TenantId>> {
        let rows = self.shared.query(sql!("audit_tenants"), values![]).await?;
        rows.iter().map(|row| Ok(TenantId(row.try_get(0)?))).collect()
    }

    async fn job_creators(&self, jobs: &[JobId]) -> Result<Vec<(JobId, UserId)>> {
        let ids: Vec<Uuid> = jobs.iter().map(|job| job.0).collect();
        let rows = self.shared.query(sql!("job_creators"), values![ids]).await?;
        rows.iter().map(|row| Ok((JobId(row.try_get(0)?), UserId(row.try_get(1)?)))).collect()
    }

    async fn prune_audit(&self, tenant: TenantId, before: Timestamp, limit: u32) -> Result<u64> {
        let values = values![tenant.0, us(before), i64::from(limit)];
        let gone: i64 = self.shared.query_one(sql!("audit_prune"), values).await?.try_get(0)?;
        Ok(gone.cast_unsigned())
    }
}

/// A seal as it is kept. One that somebody broke becomes one that no row has.
fn seal_of(number: i64, hash: &[u8]) -> Seal {
    Seal { number: number.cast_unsigned(), hash: hash.try_into().unwrap_or([0xff; 32]) }
}

fn record(row: &Row) -> Result<Record> {
    let kind: String = row.try_get(4)?;
    let number: Option<i64> = row.try_get(11)?;
    let hash: Option<&[u8]> = row.try_get(12)?;
    Ok(Record {
        place: row.try_get(0)?,
        at: at(row.try_get(1)?),
        event: Event {
            tenant: TenantId(row.try_get(2)?),
            actor: row.try_get(3)?,
            kind: Kind::of(&kind),
            job: row.try_get::<_, Option<Uuid>>(5)?.map(JobId),
            run: row.try_get::<_, Option<Uuid>>(6)?.map(RunId),
            outcome: row.try_get(7)?,
            details: row.try_get(8)?,
        },
        node: row.try_get::<_, Option<Uuid>>(9)?.map(NodeId),
        runs: row.try_get(10)?,
        seal: number.map(|number| seal_of(number, hash.unwrap_or_default())),
    })
}
