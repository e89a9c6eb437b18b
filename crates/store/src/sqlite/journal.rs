//! The audit trail.

use domain::audit::{AuditedRun, Event, Hash, Kind, Record, RequestedRun, Seal};
use domain::id::{JobId, NodeId, RunId, TenantId, UserId};
use domain::run::{NewRun, Origin};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};
use uuid::Uuid;

use super::SqliteStore;
use super::row::{at, us};
use super::writer::Tx;
use crate::{AuditFilter, AuditLog, Chain, Result};

impl AuditLog for SqliteStore {
    async fn record(&self, events: &[Event]) -> Result<()> {
        let events = events.to_vec();
        self.writer.write(move |tx| events.iter().try_for_each(|event| insert(tx, event))).await
    }

    async fn audit(
        &self,
        filter: &AuditFilter,
        from: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Record>> {
        let filter = filter.clone();
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("audit_list"))?;
            let kinds = filter.kind_names().map(|names| serde_json::json!(names).to_string());
            let rows = query.query_and_then(
                (
                    filter.tenant.0,
                    from.unwrap_or(i64::MAX),
                    kinds,
                    &filter.actor,
                    filter.job.map(|job| job.0),
                    filter.since.map(us),
                    filter.until.map(us),
                    limit,
                ),
                record,
            )?;
            rows.collect()
        })
        .await
    }

    async fn unsealed(&self, limit: u32) -> Result<Vec<Record>> {
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("audit_unsealed"))?;
            let rows = query.query_and_then((limit,), record)?;
            rows.collect()
        })
        .await
    }

    async fn chain(&self, tenant: TenantId) -> Result<Chain> {
        self.read(move |connection| chain(connection, tenant)).await
    }

    async fn seal(&self, tenant: TenantId, head: Seal, rows: &[(i64, Hash)]) -> Result<bool> {
        let rows = rows.to_vec();
        self.writer.write(move |tx| seal(tx, tenant, head, &rows)).await
    }

    async fn sealed(&self, tenant: TenantId, after: u64, limit: u32) -> Result<Vec<Record>> {
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("audit_sealed"))?;
            let rows = query.query_and_then((tenant.0, signed(after), limit), record)?;
            rows.collect()
        })
        .await
    }

    async fn audited_tenants(&self) -> Result<Vec<TenantId>> {
        self.read(|connection| {
            let mut query = connection.prepare_cached(sql!("audit_tenants"))?;
            let rows = query.query_map([], |row| row.get(0).map(TenantId))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn job_creators(&self, jobs: &[JobId]) -> Result<Vec<(JobId, UserId)>> {
        let jobs = jobs.to_vec();
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("job_creators"))?;
            let mut creators = Vec::with_capacity(jobs.len());
            for job in jobs {
                let creator = query.query_row((job.0,), |row| row.get(0)).optional()?;
                creators.extend(creator.map(|creator| (job, UserId(creator))));
            }
            Ok(creators)
        })
        .await
    }

    async fn prune_audit(&self, tenant: TenantId, before: Timestamp, limit: u32) -> Result<u64> {
        self.writer
            .write(move |tx| {
                let query = |sql| tx.connection.prepare_cached(sql);
                let until: Option<i64> = query(sql!("audit_prune_until"))?
                    .query_row((tenant.0, us(before), limit), |row| row.get(0))?;
                let Some(until) = until else { return Ok(0) };
                query(sql!("audit_anchor"))?.execute((tenant.0, until))?;
                Ok(query(sql!("audit_delete"))?.execute((tenant.0, until))? as u64)
            })
            .await
    }
}

/// Records what somebody did, in the transaction that does it.
pub(super) fn insert(tx: &Tx<'_>, event: &Event) -> Result<()> {
    let Event { tenant, actor, kind, job, run, outcome, details } = event;
    let (job, run) = (job.map(|job| job.0), run.map(|run| run.0));
    let none = (None::<Uuid>, Vec::new());
    tx.connection.prepare_cached(sql!("audit_insert"))?.execute((
        tenant.0,
        tx.now_us(),
        actor,
        kind.name(),
        job,
        run,
        none.0,
        outcome,
        details,
        none.1,
    ))?;
    Ok(())
}

/// Runs that ended together: one row for each tenant.
#[derive(Default)]
pub(super) struct EndedTogether(Vec<(TenantId, Vec<u8>)>);

impl EndedTogether {
    pub fn push(&mut self, tenant: TenantId, run: AuditedRun) {
        let at = match self.0.iter().position(|(known, _)| *known == tenant) {
            Some(at) => at,
            None => {
                self.0.push((tenant, Vec::new()));
                self.0.len() - 1
            }
        };
        run.push(&mut self.0[at].1);
    }

    /// Writes the rows. The node is who did it.
    pub fn write(self, tx: &Tx<'_>, node: NodeId) -> Result<()> {
        for (tenant, runs) in self.0 {
            tx.connection.prepare_cached(sql!("audit_insert"))?.execute((
                tenant.0,
                tx.now_us(),
                "",
                Kind::RunsEnded.name(),
                None::<Uuid>,
                None::<Uuid>,
                node.0,
                "",
                "",
                runs,
            ))?;
        }
        Ok(())
    }
}

/// Records which runs users asked for: one row for each tenant and user, in the transaction that
/// records the runs. Parts of runs are not asked for by themselves.
pub(super) fn insert_requested<'a>(
    tx: &Tx<'_>,
    runs: impl Iterator<Item = &'a NewRun>,
) -> Result<()> {
    let mut together: Vec<((TenantId, UserId), Vec<u8>)> = Vec::new();
    for run in runs.filter(|run| run.origin != Origin::Part) {
        let Some(user) = run.requested_by else { continue };
        let whose = (run.tenant, user);
        let at = match together.iter().position(|(known, _)| *known == whose) {
            Some(at) => at,
            None => {
                together.push((whose, Vec::new()));
                together.len() - 1
            }
        };
        let asked = RequestedRun { run: run.id, job: run.job, origin: run.origin };
        asked.push(&mut together[at].1);
    }
    for ((tenant, user), runs) in together {
        let mut query = tx.connection.prepare_cached(sql!("identity_name"))?;
        let name: Option<String> = query.query_row((user.0,), |row| row.get(0)).optional()?;
        tx.connection.prepare_cached(sql!("audit_insert"))?.execute((
            tenant.0,
            tx.now_us(),
            name.unwrap_or_else(|| user.to_string()),
            Kind::RunsRequested.name(),
            None::<Uuid>,
            None::<Uuid>,
            None::<Uuid>,
            "REQUESTED",
            "",
            runs,
        ))?;
    }
    Ok(())
}

fn chain(connection: &Connection, tenant: TenantId) -> Result<Chain> {
    let mut query = connection.prepare_cached(sql!("audit_chain"))?;
    let found = query.query_row((tenant.0,), |row| {
        Ok(Chain {
            anchor: seal_of(row.get(0)?, &row.get::<_, Vec<u8>>(1)?),
            anchor_at: row.get::<_, Option<i64>>(4)?.and_then(|us| at(us).ok()),
            head: seal_of(row.get(2)?, &row.get::<_, Vec<u8>>(3)?),
        })
    });
    Ok(found.optional()?.unwrap_or_default())
}

fn seal(tx: &Tx<'_>, tenant: TenantId, head: Seal, rows: &[(i64, Hash)]) -> Result<bool> {
    let query = |sql| tx.connection.prepare_cached(sql);
    let Some((_, last)) = rows.last() else { return Ok(true) };
    // Whoever saw the chain's end after the rows may be about to seal what another one has sealed
    // in between.
    let mut is_sealed = query(sql!("audit_is_sealed"))?;
    for (place, _) in rows {
        if is_sealed.query_row((place,), |row| row.get(0))? {
            return Ok(false);
        }
    }
    query(sql!("audit_head_insert"))?.execute((tenant.0,))?;
    let end = head.number + rows.len() as u64;
    let moved = (tenant.0, signed(head.number), signed(end), last);
    if query(sql!("audit_head_move"))?.execute(moved)? == 0 {
        return Ok(false);
    }
    let mut update = query(sql!("audit_seal"))?;
    for (number, (place, hash)) in (head.number + 1..).zip(rows) {
        update.execute((place, signed(number), hash, tenant.0))?;
    }
    Ok(true)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A seal as it is kept. One that somebody broke becomes one that no row has.
fn seal_of(number: i64, hash: &[u8]) -> Seal {
    Seal { number: number.cast_unsigned(), hash: hash.try_into().unwrap_or([0xff; 32]) }
}

fn record(row: &Row<'_>) -> Result<Record> {
    let kind: String = row.get(4)?;
    let (number, hash): (Option<i64>, Option<Vec<u8>>) = (row.get(11)?, row.get(12)?);
    Ok(Record {
        place: row.get(0)?,
        at: at(row.get(1)?).unwrap_or(Timestamp::MAX),
        event: Event {
            tenant: TenantId(row.get(2)?),
            actor: row.get(3)?,
            kind: Kind::of(&kind),
            job: row.get::<_, Option<Uuid>>(5)?.map(JobId),
            run: row.get::<_, Option<Uuid>>(6)?.map(RunId),
            outcome: row.get(7)?,
            details: row.get(8)?,
        },
        node: row.get::<_, Option<Uuid>>(9)?.map(NodeId),
        runs: row.get(10)?,
        seal: number.map(|number| seal_of(number, &hash.unwrap_or_default())),
    })
}
