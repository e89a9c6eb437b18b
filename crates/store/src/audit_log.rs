//! The audit log.
//!
//! Operations write the rows in the transaction of what they record; the rows are sealed a moment
//! later, so that no end of a run waits for the chain of a tenant (`docs/decisions/013-audit.md`).

use std::future::Future;

use domain::audit::{Event, GENESIS, Hash, Kind, Record, Seal};
use domain::id::{JobId, NodeId, RunId, TenantId, UserId};
use jiff::Timestamp;

use crate::records::{Records, Row, Statement, Transaction, list_of, params};
use crate::{Result, Store};

/// A store that keeps an audit trail.
pub trait AuditLog: Store {
    /// Records events that no other operation records: logins, denied requests, backups.
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

    /// Seals rows behind the head that was seen. Returns false when another node was faster, even
    /// if the head was seen after that; then nothing was written.
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

    /// The creators of jobs, in no particular order, deleted jobs included; unknown ones are left
    /// out.
    fn job_creators(
        &self,
        jobs: &[JobId],
    ) -> impl Future<Output = Result<Vec<(JobId, UserId)>>> + Send;

    /// Creation, changes and deletion of a job, newest first.
    fn job_events(
        &self,
        job: JobId,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<AuditedEvent>>> + Send;

    /// Rows that name a run: requests to cancel or repeat it, newest first.
    fn run_events(
        &self,
        run: RunId,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<AuditedEvent>>> + Send;

    /// Deletes sealed rows of a tenant from the beginning of its chain on, as long as they are
    /// older; the hash of the last one becomes the chain's anchor. The youngest of the old rows
    /// stays as a witness of their age. Returns how many, at most `limit`.
    fn prune_audit(
        &self,
        tenant: TenantId,
        before: Timestamp,
        limit: u32,
    ) -> impl Future<Output = Result<u64>> + Send;
}

/// Which rows a query of the audit log answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFilter {
    /// The tenant whose rows are read.
    pub tenant: TenantId,
    /// Only these kinds; all when there are none.
    pub kinds: Vec<Kind>,
    /// Only events of this actor.
    pub actor: Option<String>,
    /// Rows about a job; rows that list runs pass, because only their list names the jobs.
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
}

/// The row of an event, for the transaction that it records.
pub(crate) fn audit_row(event: &Event) -> Statement {
    let Event { tenant, actor, kind, job, run, outcome, details } = event;
    let (job, run, runs) = (job.map(|job| job.0), run.map(|run| run.0), Vec::new());
    Statement::new(
        "INSERT INTO audit (tenant_id, at, actor, kind, job_id, run_id, outcome, details, runs)
         VALUES ($1, {now}, $2, $3, $4, $5, $6, $7, $8)",
        params![tenant.0, actor, kind.name(), job, run, outcome, details, runs],
    )
}

/// A row as far as an explanation needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedEvent {
    /// When it was recorded.
    pub at: Timestamp,
    /// Name of the actor.
    pub actor: String,
    /// The kind of event.
    pub kind: Kind,
    /// Result of the action.
    pub outcome: String,
    /// Details, as JSON or as a sentence.
    pub details: String,
}

/// Where a chain begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The last row that was pruned; the genesis seal if none was.
    pub anchor: Seal,
    /// When that row was written; none if none was pruned.
    pub anchor_at: Option<Timestamp>,
    /// The last row.
    pub head: Seal,
}

impl Default for Chain {
    fn default() -> Self {
        Chain { anchor: Seal::GENESIS, anchor_at: None, head: Seal::GENESIS }
    }
}

/// The columns of a row in the order in which [`record`] reads them.
const COLUMNS: &str = "place, at, tenant_id, actor, kind, job_id, run_id, outcome, details, \
                       node_id, runs, number, hash";

impl<S: Records> AuditLog for S {
    async fn record(&self, events: &[Event]) -> Result<()> {
        let rows: Vec<_> = events.iter().map(audit_row).collect();
        self.commit(Transaction::from(rows)).await.map(drop)
    }

    async fn audit(
        &self,
        filter: &AuditFilter,
        from: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Record>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM audit
             WHERE tenant_id = $1 AND place <= $2
                 AND ($3 IS NULL OR replace($3, ',' || kind || ',', '') <> $3)
                 AND ($4 IS NULL OR actor = $4)
                 AND ($5 IS NULL OR job_id = $5 OR kind IN ('RUNS_ENDED', 'RUNS_REQUESTED'))
                 AND ($6 IS NULL OR at >= $6) AND ($7 IS NULL OR at < $7)
             ORDER BY place DESC LIMIT $8"
        );
        let AuditFilter { tenant, kinds, actor, job, since, until } = filter;
        let kinds = list_of(kinds.iter().map(Kind::name));
        let (from, job) = (from.unwrap_or(i64::MAX), job.map(|job| job.0));
        let params = params![tenant.0, from, kinds, actor.as_deref(), job, *since, *until, limit];
        self.query(Statement::new(sql, params)).await?.iter().map(record).collect()
    }

    async fn unsealed(&self, limit: u32) -> Result<Vec<Record>> {
        let sql =
            format!("SELECT {COLUMNS} FROM audit WHERE number IS NULL ORDER BY place LIMIT $1");
        self.query(Statement::new(sql, params![limit])).await?.iter().map(record).collect()
    }

    async fn chain(&self, tenant: TenantId) -> Result<Chain> {
        let sql = "SELECT anchor_number, anchor_hash, head_number, head_hash, anchor_at
                   FROM audit_chains WHERE tenant_id = $1";
        let rows = self.query(Statement::new(sql, params![tenant.0])).await?;
        let Some(row) = rows.first() else { return Ok(Chain::default()) };
        Ok(Chain {
            anchor: seal_of(row.get(0)?, &row.get::<Vec<u8>>(1)?),
            anchor_at: row.get(4)?,
            head: seal_of(row.get(2)?, &row.get::<Vec<u8>>(3)?),
        })
    }

    async fn seal(&self, tenant: TenantId, head: Seal, rows: &[(i64, Hash)]) -> Result<bool> {
        let Some((_, last)) = rows.last() else { return Ok(true) };
        let mut transaction = Transaction::default();
        transaction.push(Statement::new(
            "INSERT INTO audit_chains
                 (tenant_id, anchor_number, anchor_hash, head_number, head_hash)
             VALUES ($1, 0, $2, 0, $2) ON CONFLICT (tenant_id) DO NOTHING",
            params![tenant.0, GENESIS.as_slice()],
        ));
        let end = head.number + rows.len() as u64;
        let moved = Statement::new(
            "UPDATE audit_chains SET head_number = $3, head_hash = $4
             WHERE tenant_id = $1 AND head_number = $2 RETURNING head_number",
            params![tenant.0, head.number, end, last.as_slice()],
        );
        transaction.push(moved.expect_row());
        // A node that read the chain's end after the rows may be about to seal rows that another
        // node has sealed in between: each must still be unsealed.
        let sealed = (head.number + 1..)
            .zip(rows)
            .map(|(number, (place, hash))| params![*place, number, hash.as_slice(), tenant.0]);
        let sql = "UPDATE audit SET number = sealed.column2, hash = sealed.column3
                   FROM (VALUES {rows}) AS sealed
                   WHERE audit.place = sealed.column1 AND audit.number IS NULL
                       AND audit.tenant_id = sealed.column4
                   RETURNING audit.place";
        for statement in Statement::of_rows(sql, sealed.collect()) {
            let count = statement.params().len() as u64 / 4;
            transaction.push(statement.expect_rows(count));
        }
        Ok(self.commit(transaction).await?.is_some())
    }

    async fn sealed(&self, tenant: TenantId, after: u64, limit: u32) -> Result<Vec<Record>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM audit
             WHERE tenant_id = $1 AND number > $2 AND number IS NOT NULL ORDER BY number LIMIT $3"
        );
        let statement = Statement::new(sql, params![tenant.0, after, limit]);
        self.query(statement).await?.iter().map(record).collect()
    }

    async fn audited_tenants(&self) -> Result<Vec<TenantId>> {
        let sql = "SELECT tenant_id FROM audit_chains ORDER BY tenant_id";
        let rows = self.query(Statement::new(sql, params![])).await?;
        rows.iter().map(|row| row.get(0).map(TenantId)).collect()
    }

    async fn job_creators(&self, jobs: &[JobId]) -> Result<Vec<(JobId, UserId)>> {
        let select = |job: &JobId| {
            Statement::new("SELECT id, owner_id FROM jobs WHERE id = $1", params![job.0])
        };
        let rows = self.query_each(jobs.iter().map(select).collect()).await?;
        let creator = |row: &Row| Ok((JobId(row.get(0)?), UserId(row.get(1)?)));
        rows.iter().flatten().map(creator).collect()
    }

    async fn job_events(&self, job: JobId, limit: u32) -> Result<Vec<AuditedEvent>> {
        let sql = "SELECT at, actor, kind, outcome, details FROM audit
                   WHERE job_id = $1 AND kind IN ('JOB_CREATED', 'JOB_MODIFIED', 'JOB_DELETED')
                   ORDER BY place DESC LIMIT $2";
        let statement = Statement::new(sql, params![job.0, limit]);
        self.query(statement).await?.iter().map(audited_event).collect()
    }

    async fn run_events(&self, run: RunId, limit: u32) -> Result<Vec<AuditedEvent>> {
        let sql = "SELECT at, actor, kind, outcome, details FROM audit
                   WHERE run_id = $1 ORDER BY place DESC LIMIT $2";
        let statement = Statement::new(sql, params![run.0, limit]);
        self.query(statement).await?.iter().map(audited_event).collect()
    }

    async fn prune_audit(&self, tenant: TenantId, before: Timestamp, limit: u32) -> Result<u64> {
        let sql = "SELECT max(o.number) FROM (
                       SELECT number FROM audit
                       WHERE tenant_id = $1 AND number IS NOT NULL AND number < coalesce((
                           SELECT min(number) FROM audit
                           WHERE tenant_id = $1 AND number IS NOT NULL AND at >= $2
                       ), (
                           SELECT max(number) + 1 FROM audit
                           WHERE tenant_id = $1 AND number IS NOT NULL
                       )) - 1
                       ORDER BY number LIMIT $3
                   ) AS o";
        let rows = self.query(Statement::new(sql, params![tenant.0, before, limit])).await?;
        let last = rows.first().map_or(Ok(None), |row| row.get::<Option<i64>>(0))?;
        let Some(last) = last else { return Ok(0) };
        // If another node has deleted the row, it has moved the anchor too.
        let anchor = Statement::new(
            "UPDATE audit_chains SET anchor_number = a.number, anchor_hash = a.hash, anchor_at = a.at
             FROM audit AS a
             WHERE audit_chains.tenant_id = $1 AND a.tenant_id = $1 AND a.number = $2
             RETURNING audit_chains.tenant_id",
            params![tenant.0, last],
        );
        let mut transaction = Transaction::from(vec![anchor.expect_row()]);
        let deleted = transaction.push(Statement::new(
            "DELETE FROM audit WHERE tenant_id = $1 AND number IS NOT NULL AND number <= $2",
            params![tenant.0, last],
        ));
        let answers = self.commit(transaction).await?;
        Ok(answers.map_or(0, |answers| answers[deleted].affected))
    }
}

/// at, actor, kind, outcome, details
fn audited_event(row: &Row) -> Result<AuditedEvent> {
    Ok(AuditedEvent {
        at: row.get(0)?,
        actor: row.get(1)?,
        kind: Kind::of(&row.get::<String>(2)?),
        outcome: row.get(3)?,
        details: row.get(4)?,
    })
}

/// A seal as it is kept. One that was tampered with becomes one that no row has.
fn seal_of(number: i64, hash: &[u8]) -> Seal {
    Seal { number: number.cast_unsigned(), hash: hash.try_into().unwrap_or([0xff; 32]) }
}

fn record(row: &Row) -> Result<Record> {
    let (number, hash): (Option<i64>, Option<Vec<u8>>) = (row.get(11)?, row.get(12)?);
    Ok(Record {
        place: row.get(0)?,
        at: row.get(1)?,
        event: Event {
            tenant: TenantId(row.get(2)?),
            actor: row.get(3)?,
            kind: Kind::of(&row.get::<String>(4)?),
            job: row.get::<Option<_>>(5)?.map(JobId),
            run: row.get::<Option<_>>(6)?.map(RunId),
            outcome: row.get(7)?,
            details: row.get(8)?,
        },
        node: row.get::<Option<_>>(9)?.map(NodeId),
        runs: row.get(10)?,
        seal: number.map(|number| seal_of(number, &hash.unwrap_or_default())),
    })
}
