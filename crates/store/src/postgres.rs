//! The store of a cluster: a PostgreSQL database that the nodes share.
//!
//! Every operation is one transaction, sent in one round trip for any number of items, on one of a
//! few connections. The database's clock is the store's clock. The optimizations are described
//! where they are made: [`exchange`] for claims and ends, [`submit`] for callers that share a
//! commit.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deadpool_postgres::Pool;
use domain::bucket::Buckets;
use domain::facts::StartFacts;
use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::job::{Job, LostAnswer, Retention};
use domain::run::{ClaimedRun, Grant, NewRun, Reason};
use domain::slot::PerSlot;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::RwLock;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::{
    Applied, AttemptView, Cancelled, Change, Changed, ClaimFor, ClaimRequest, Counts, Decided,
    DueJobs, Exchanged, FactsFor, Finish, JobFilter, Joined, NodeInfo, Page, Reaped, RecordPlan,
    Renewed, Result, RetentionCutoff, RunFilter, RunView, Store, StoreError, Submitted,
    asks_for_place,
};

/// The text of a long query, one file each. Short ones stand where they are used.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("../../sql/postgres/", $name, ".sql"))
    };
}

mod address;
mod cancel;
mod cluster;
mod connect;
mod dags;
mod define;
mod end_alerts;
mod error;
mod exchange;
mod facts;
mod finish;
mod holdings;
mod jobs;
mod messages;
mod nodes;
mod partitions;
mod pipeline;
mod prune;
mod read;
mod records;
mod row;
mod run_queries;
mod runs;
mod shards;
mod signal;
mod starts;
mod submit;
mod vacuum;
mod versions;

pub use address::PostgresAddress;
use holdings::Holdings;
use pipeline::Value;
pub use postgres_connect::AddressError;
use signal::Signal;
use vacuum::Vacuum;

/// How the database is used.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// The most connections that are open at a time, one for signals not counted.
    pub pool_size: usize,
    /// Old rows of a partition of history up to this size, in bytes, are deleted one by one. Those
    /// of a larger one wait until all of them are old, and are dropped with it.
    pub small_partition: u32,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        PostgresOptions { pool_size: 8, small_partition: 32 << 20 }
    }
}

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    shared: Arc<Shared>,
}

/// State that operations and background tasks share.
struct Shared {
    pool: Pool,
    /// Claims of this process.
    holdings: Mutex<Holdings>,
    /// The nodes that joined through this value: it knows all that they hold.
    own: Mutex<HashSet<NodeId>>,
    /// Read while a claim is under way: its answer is not among the holdings yet.
    claiming: RwLock<()>,
    /// Whether the last claim found nothing.
    dry: AtomicBool,
    /// How deep claims look into the work of each tenant.
    depth: PerSlot<AtomicI64>,
    vacuum: Vacuum,
    small_partition: i64,
    signal: Signal,
}

impl PostgresStore {
    /// The newest version of the tables that this release knows.
    pub fn newest() -> i32 {
        connect::newest()
    }

    /// Connects, creates or migrates the tables in the schema `punctual`, and begins to listen
    /// for signals of other nodes.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<Self> {
        PostgresStore::connect_knowing(url, options, connect::newest()).await
    }

    /// The same for a release whose newest migration is `known`: it applies no later one, and
    /// refuses tables that need a newer release. With less than this release knows, it stands in
    /// for an older one in tests of upgrades.
    pub async fn connect_knowing(url: &str, options: PostgresOptions, known: i32) -> Result<Self> {
        let address = PostgresAddress::parse(url).map_err(|wrong| StoreError::Refused {
            problem: format!("the address of the store: {wrong}"),
            advice: "correct the address".to_owned(),
        })?;
        PostgresStore::open_knowing(address, options, known).await
    }

    /// The same with an address that was read before.
    pub async fn open(address: PostgresAddress, options: PostgresOptions) -> Result<Self> {
        PostgresStore::open_knowing(address, options, connect::newest()).await
    }

    async fn open_knowing(
        address: PostgresAddress,
        options: PostgresOptions,
        known: i32,
    ) -> Result<Self> {
        let tls = address.tls()?;
        let pool = connect::connect(&address, &tls, &options, known).await?;
        let shared = Arc::new(Shared {
            pool,
            holdings: Mutex::default(),
            own: Mutex::default(),
            claiming: RwLock::default(),
            dry: AtomicBool::new(false),
            depth: PerSlot::from_fn(|_| AtomicI64::new(1)),
            vacuum: Vacuum::default(),
            small_partition: options.small_partition.into(),
            signal: Signal::start(address, tls),
        });
        shared.make_partitions().await;
        Ok(PostgresStore { shared })
    }
}

impl Shared {
    fn holdings(&self) -> MutexGuard<'_, Holdings> {
        self.holdings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn own(&self) -> MutexGuard<'_, HashSet<NodeId>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows of one statement.
    async fn query(&self, sql: &str, values: Vec<Value<'_>>) -> Result<Vec<Row>> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached(sql).await?;
        let values: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
        Ok(client.query(&statement, &values).await?)
    }

    /// The one row of a statement that always has one.
    async fn query_one(&self, sql: &str, values: Vec<Value<'_>>) -> Result<Row> {
        first(self.query(sql, values).await?)
    }
}

/// The one row of an answer that always has one.
fn first(rows: Vec<Row>) -> Result<Row> {
    rows.into_iter().next().ok_or_else(StoreError::no_row)
}

/// The number of the lock of a node.
fn lock_of(node: NodeId) -> i64 {
    node.0.as_u64_pair().1.cast_signed()
}

impl Store for PostgresStore {
    async fn now(&self) -> Result<Timestamp> {
        self.shared.now().await
    }

    async fn define(&self, changes: &[Change], by: &str) -> Result<Vec<Changed>> {
        let changed = self.shared.define(changes, by).await;
        self.shared.signal.send();
        changed
    }

    async fn define_together(&self, changes: &[Change], by: &str) -> Result<Vec<Changed>> {
        let changed = self.shared.define_together(changes, by).await;
        self.shared.signal.send();
        changed
    }

    async fn due_jobs(&self, ahead: SignedDuration, limit: u32, of: &Buckets) -> Result<DueJobs> {
        self.shared.due_jobs(ahead, limit, of).await
    }

    async fn fire(&self, batch: &[RecordPlan]) -> Result<Vec<bool>> {
        let fired = self.shared.fire(batch).await;
        self.shared.signal.send_of(batch.iter().flat_map(|fire| &fire.runs));
        fired
    }

    async fn submit(&self, runs: &[NewRun], claim: Option<ClaimFor>) -> Result<Submitted> {
        let submitted = self.shared.submit(runs, claim).await;
        if asks_for_place(runs) {
            self.shared.signal.send_placed();
        }
        submitted
    }

    async fn complete_and_claim(
        &self,
        node: NodeId,
        done: &[Finish],
        want: ClaimRequest,
    ) -> Result<Exchanged> {
        let exchanged = self.shared.complete_and_claim(node, done, want).await?;
        self.shared.count_ended(exchanged.applied.len());
        Ok(exchanged)
    }

    async fn held(&self, node: NodeId) -> Result<Vec<ClaimedRun>> {
        self.shared.held(node).await
    }

    async fn facts(&self, node: NodeId, questions: &[FactsFor]) -> Result<Vec<StartFacts>> {
        self.shared.facts(node, questions).await
    }

    async fn start_tokens(&self, count: usize) -> Result<Vec<i64>> {
        self.shared.start_tokens(count).await
    }

    async fn cancel(&self, run: RunId, reason: &Reason, by: &str) -> Result<Cancelled> {
        let cancelled = self.shared.cancel(run, reason, by).await;
        self.shared.signal.send();
        cancelled
    }

    async fn decide(
        &self,
        run: RunId,
        answer: LostAnswer,
        reason: &Reason,
        by: &str,
    ) -> Result<Decided> {
        self.shared.decide(run, answer, reason, by).await
    }

    async fn begin(&self, node: NodeId, grants: &[Grant]) -> Result<Vec<bool>> {
        self.shared.begin(node, grants).await
    }

    async fn join(&self, node: NodeId, info: &NodeInfo, lease: SignedDuration) -> Result<Joined> {
        self.shared.join(node, info, lease).await
    }

    async fn renew(&self, node: NodeId, lease: SignedDuration) -> Result<Option<Renewed>> {
        self.shared.renew(node, lease).await
    }

    async fn record_starts(&self, node: NodeId, starts: &[(Grant, Timestamp)]) -> Result<()> {
        self.shared.record_starts(node, starts).await
    }

    async fn record_clock_offset(&self, node: NodeId, offset: SignedDuration) -> Result<()> {
        self.shared.record_clock_offset(node, offset).await
    }

    async fn retire(&self, node: NodeId) -> Result<()> {
        self.shared.retire(node).await
    }

    async fn leave(&self, node: NodeId, begun: &[Grant]) -> Result<()> {
        let left = self.shared.leave(node, begun).await;
        self.shared.signal.send_placed();
        left
    }

    async fn reap(&self, limit: u32) -> Result<Reaped> {
        self.shared.reap(limit).await
    }

    async fn settle_lost(&self, lost: &[(NodeId, Finish)]) -> Result<Vec<Applied>> {
        let applied = self.shared.settle_lost(lost).await;
        self.shared.signal.send_placed();
        applied
    }

    async fn prune(&self, cut: &RetentionCutoff, limit: u32) -> Result<u64> {
        self.shared.prune(cut, limit).await
    }

    async fn retention_rules(
        &self,
        after: Option<JobId>,
        limit: u32,
    ) -> Result<Vec<(JobId, Retention)>> {
        crate::jobs::retention_rules(self, after, limit).await
    }

    async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Job>> {
        self.shared.jobs_by_id(ids).await
    }

    async fn jobs_by_name(&self, tenant: TenantId, names: &[&str]) -> Result<Vec<Job>> {
        crate::jobs::by_name(self, tenant, names).await
    }

    async fn list_jobs(
        &self,
        filter: &JobFilter,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Job, String>> {
        self.shared.list_jobs(filter, after, limit).await
    }

    async fn dependencies(&self, tenant: TenantId) -> Result<Vec<(JobId, JobId)>> {
        crate::jobs::dependencies(self, tenant).await
    }

    async fn run(&self, id: RunId) -> Result<Option<RunView>> {
        self.shared.run(id).await
    }

    async fn runs(&self, ids: &[RunId]) -> Result<Vec<RunView>> {
        self.shared.views(ids).await
    }

    async fn list_runs(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: u32,
    ) -> Result<Page<RunView, RunId>> {
        self.shared.list_runs(filter, before, limit).await
    }

    async fn attempts(&self, run: RunId) -> Result<Vec<AttemptView>> {
        self.shared.attempts(run).await
    }

    async fn counts(&self) -> Result<Counts> {
        self.shared.counts().await
    }

    fn changed(&self) -> impl Future<Output = ()> + Send {
        self.shared.signal.changed()
    }

    fn hint(&self) {
        self.shared.signal.send();
    }

    fn placed(&self) -> impl Future<Output = ()> + Send {
        self.shared.signal.placed()
    }
}
