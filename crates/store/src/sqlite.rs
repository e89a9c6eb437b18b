//! The embedded store: one SQLite file, one writer thread, a few readers.
//!
//! Every operation that writes is a value (`Command`) for the writer thread, which applies all
//! waiting commands in one transaction and replies when it is on disk: many callers share one fsync. The
//! file is in WAL mode with `synchronous = FULL`, because a claim that was returned and then lost
//! would give out the same fence twice.
//!
//! ```text
//!   runs ── a run as it was requested, written once          ends ── how it ended, written once
//!     │
//!     ├── live ──── it has not ended      (job, place in line)
//!     ├── queue ─── it can be claimed     (tenant, lane, time)
//!     └── claims ── nodes hold it         (a batch of runs in a row)
//! ```
//!
//! A run is inserted into `runs`, `live` and `queue`. A claim deletes the front of the queue and
//! writes one row for all runs that it claims; the writer keeps claims in memory, and reads them
//! back from `claims` when the file is opened or a command was rolled back. An end deletes the run
//! from `live` and adds a row to `ends`.

use std::path::Path;
use std::sync::Arc;

use domain::bucket::Buckets;
use domain::facts::StartFacts;
use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::job::{Job, LostAnswer, Retention};
use domain::run::{ClaimedRun, Grant, NewRun, Reason};
use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;
use tokio::sync::{Notify, RwLock};

use crate::{
    Applied, AttemptView, Cancelled, Change, Changed, ClaimFor, ClaimRequest, Counts, Decided,
    DueJobs, Exchanged, FactsFor, Finish, JobFilter, Joined, NodeInfo, Page, Reaped, RecordPlan,
    Renewed, Result, RetentionCutoff, RunFilter, RunView, Store, Submitted, asks_for_place,
};

/// The text of a long query, one file each. Short ones stand where they are used.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("../../sql/sqlite/", $name, ".sql"))
    };
}

mod audit_log;
mod cancel;
mod claim;
mod clock;
mod cluster;
mod command;
mod copy;
mod counters;
mod dags;
mod ends;
mod facts;
mod finish;
mod holdings;
mod jobs;
mod live;
mod live_run;
mod lock;
mod message_ends;
mod messages;
mod nodes;
mod prune;
mod read;
mod readers;
mod records;
mod replica;
mod row;
mod rows;
mod run_queries;
mod runs;
mod schema;
mod shards;
mod starts;
mod tokens;
mod versions;
mod wake;
mod writer;

use clock::Steady;
pub use command::Group;
pub use copy::{
    CopyProgress, Restore, Revived, artifacts_in, copy, newest_schema_version, revive,
    schema_version,
};
use counters::Counters;
use lock::Lock;
use readers::Readers;
pub use replica::Replica;
use tokens::{DrawnTokens, Tokens};
pub use writer::GroupRecorder;
use writer::{Setup, Writer};

/// Threads that read for clients. More would not read faster, but each of them is a long list that
/// others need not wait for.
const READERS: usize = 4;

/// Threads that read for the engine.
const PROMPT_READERS: usize = 2;

/// Where the store reads the time. Tests and the simulation hand in their own.
pub trait Clock: Send + Sync + 'static {
    /// The present.
    fn now(&self) -> Timestamp;
}

impl<F: Fn() -> Timestamp + Send + Sync + 'static> Clock for F {
    fn now(&self) -> Timestamp {
        self()
    }
}

/// A store in one SQLite file.
pub struct SqliteStore {
    writer: Writer,
    /// For what clients ask.
    readers: Readers,
    /// For reads on the path of a start: no client's long list is before them.
    prompt: Readers,
    clock: Arc<dyn Clock>,
    tokens: Arc<Tokens>,
    changed: Arc<Notify>,
    placed: Notify,
    /// Read-locked while a node looks whether a tick may start; written while ticks can vanish,
    /// from before the clock is read until after the commit.
    starts: Arc<RwLock<()>>,
    /// Dropped last: the next process that opens the file finds it at rest.
    _lock: Lock,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteOptions {
    /// Whether a reply waits for the disk. Without it a crash of the machine loses acknowledged
    /// writes, which is acceptable for a file that lives no longer than a test.
    pub durable: bool,
}

impl SqliteStore {
    /// Opens the file, creates or migrates its tables, and starts the writer.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self> {
        Self::open_with(path, clock, SqliteOptions { durable: true })
    }

    /// Like [`SqliteStore::open`], with answers of the caller's own.
    pub fn open_with(path: &Path, clock: Arc<dyn Clock>, options: SqliteOptions) -> Result<Self> {
        Self::open_recorded(path, clock, options, None)
    }

    /// Like [`SqliteStore::open_with`]. The recorder receives every group of commands after its
    /// commit; a [`Replica`] makes the same tables of them.
    pub fn open_recorded(
        path: &Path,
        clock: Arc<dyn Clock>,
        options: SqliteOptions,
        recorder: Option<GroupRecorder>,
    ) -> Result<Self> {
        let lock = lock::lock(path)?;
        let mut connection = schema::open(path, options)?;
        schema::migrate(&mut connection)?;
        let clock: Arc<dyn Clock> = Arc::new(Steady::new(clock, &connection)?);
        let tokens = Arc::new(Tokens::open(&connection, clock.now())?);
        let counters = Counters::read(&connection, DrawnTokens::from(Arc::clone(&tokens)))?;
        let (path_of, now) = (path.to_owned(), Arc::clone(&clock));
        let setup = Setup { path: path_of, options, connection, clock: now, counters, recorder };
        let starts: Arc<RwLock<()>> = Arc::default();
        let writer = Writer::start(setup, Arc::clone(&starts))?;
        let readers = Readers::start(path, "punctual-read", READERS)?;
        let prompt = Readers::start(path, "punctual-prompt", PROMPT_READERS)?;
        let (changed, placed) = (Arc::default(), Notify::new());
        Ok(SqliteStore {
            writer,
            readers,
            prompt,
            clock,
            tokens,
            changed,
            placed,
            starts,
            _lock: lock,
        })
    }

    /// Runs were recorded: wakes the nodes that wait for runs with a placement request.
    fn tell_placed<'a>(&self, runs: impl IntoIterator<Item = &'a NewRun>) {
        if asks_for_place(runs) {
            self.placed.notify_waiters();
        }
    }

    /// Runs a query beside the writer.
    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.readers.read(query).await
    }
}

impl Store for SqliteStore {
    async fn now(&self) -> Result<Timestamp> {
        Ok(self.clock.now())
    }

    async fn define(&self, changes: &[Change], by: &str) -> Result<Vec<Changed>> {
        let changed = self.writer.define(changes.to_vec(), by.to_owned()).await;
        self.changed.notify_waiters();
        changed
    }

    async fn define_together(&self, changes: &[Change], by: &str) -> Result<Vec<Changed>> {
        let changed = self.writer.define_together(changes.to_vec(), by.to_owned()).await;
        self.changed.notify_waiters();
        changed
    }

    async fn due_jobs(&self, ahead: SignedDuration, limit: u32, of: &Buckets) -> Result<DueJobs> {
        let (now, of) = (self.clock.now(), *of);
        self.prompt.read(move |connection| jobs::due(connection, now, ahead, limit, &of)).await
    }

    async fn fire(&self, batch: &[RecordPlan]) -> Result<Vec<bool>> {
        let fired = self.writer.fire(batch.to_vec()).await;
        self.tell_placed(batch.iter().flat_map(|fire| &fire.runs));
        fired
    }

    async fn submit(&self, runs: &[NewRun], claim: Option<ClaimFor>) -> Result<Submitted> {
        let submitted = self.writer.submit(runs.to_vec(), claim).await;
        self.tell_placed(runs);
        submitted
    }

    async fn complete_and_claim(
        &self,
        node: NodeId,
        done: &[Finish],
        want: ClaimRequest,
    ) -> Result<Exchanged> {
        let exchanged = self.writer.complete_and_claim(node, done.to_vec(), want).await;
        if exchanged.as_ref().is_ok_and(|exchanged| exchanged.left_work) {
            self.changed.notify_waiters();
        }
        exchanged
    }

    async fn held(&self, node: NodeId) -> Result<Vec<ClaimedRun>> {
        self.writer.held(node).await
    }

    async fn facts(&self, node: NodeId, questions: &[FactsFor]) -> Result<Vec<StartFacts>> {
        let questions = questions.to_vec();
        let starts = Arc::clone(&self.starts).read_owned().await;
        let (now, tokens) = (self.clock.now(), Arc::clone(&self.tokens));
        // A reader that begins now sees every change that was acknowledged, and waits for no fsync.
        let look = move |connection: &Connection| {
            let _starts = starts;
            facts::facts(connection, node, &questions, now, &tokens)
        };
        self.prompt.read(look).await
    }

    async fn start_tokens(&self, count: usize) -> Result<Vec<i64>> {
        Ok((0..count).map(|_| self.tokens.draw()).collect())
    }

    async fn cancel(&self, run: RunId, reason: &Reason, by: &str) -> Result<Cancelled> {
        let cancelled = self.writer.cancel(run, reason.clone(), by.to_owned()).await;
        self.changed.notify_waiters();
        cancelled
    }

    async fn decide(
        &self,
        run: RunId,
        answer: LostAnswer,
        reason: &Reason,
        by: &str,
    ) -> Result<Decided> {
        let decided = self.writer.decide(run, answer, reason.clone(), by.to_owned()).await;
        self.changed.notify_waiters();
        decided
    }

    async fn begin(&self, node: NodeId, grants: &[Grant]) -> Result<Vec<bool>> {
        self.writer.begin(node, grants.to_vec()).await
    }

    async fn join(&self, node: NodeId, info: &NodeInfo, lease: SignedDuration) -> Result<Joined> {
        self.writer.join(node, Box::new(info.clone()), lease).await
    }

    async fn renew(&self, node: NodeId, lease: SignedDuration) -> Result<Option<Renewed>> {
        self.writer.renew(node, lease).await
    }

    async fn record_starts(&self, node: NodeId, starts: &[(Grant, Timestamp)]) -> Result<()> {
        self.writer.record_starts(node, starts.to_vec()).await
    }

    async fn record_clock_offset(&self, node: NodeId, offset: SignedDuration) -> Result<()> {
        self.writer.record_clock_offset(node, offset).await
    }

    async fn retire(&self, node: NodeId) -> Result<()> {
        self.writer.retire(node).await
    }

    async fn leave(&self, node: NodeId, begun: &[Grant]) -> Result<()> {
        let left = self.writer.leave(node, begun.to_vec()).await;
        self.changed.notify_waiters();
        self.placed.notify_waiters();
        left
    }

    async fn reap(&self, limit: u32) -> Result<Reaped> {
        self.writer.reap(limit).await
    }

    async fn settle_lost(&self, lost: &[(NodeId, Finish)]) -> Result<Vec<Applied>> {
        let applied = self.writer.settle_lost(lost.to_vec()).await;
        self.changed.notify_waiters();
        self.placed.notify_waiters();
        applied
    }

    async fn prune(&self, cut: &RetentionCutoff, limit: u32) -> Result<u64> {
        self.writer.prune(*cut, limit).await
    }

    async fn retention_rules(
        &self,
        after: Option<JobId>,
        limit: u32,
    ) -> Result<Vec<(JobId, Retention)>> {
        crate::jobs::retention_rules(self, after, limit).await
    }

    async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Job>> {
        let ids = ids.to_vec();
        self.prompt.read(move |connection| jobs::by_id(connection, &ids)).await
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
        let (filter, after) = (filter.clone(), after.map(str::to_owned));
        self.read(move |connection| jobs::list(connection, &filter, after.as_deref(), limit)).await
    }

    async fn dependencies(&self, tenant: TenantId) -> Result<Vec<(JobId, JobId)>> {
        crate::jobs::dependencies(self, tenant).await
    }

    async fn run(&self, id: RunId) -> Result<Option<RunView>> {
        let now = self.clock.now();
        self.read(move |connection| read::run(connection, id, now)).await
    }

    async fn runs(&self, ids: &[RunId]) -> Result<Vec<RunView>> {
        let (ids, now) = (ids.to_vec(), self.clock.now());
        self.read(move |connection| {
            let snapshot = connection.unchecked_transaction()?;
            read::views(&snapshot, ids.into_iter(), now)
        })
        .await
    }

    async fn list_runs(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: u32,
    ) -> Result<Page<RunView, RunId>> {
        let (filter, now) = (filter.clone(), self.clock.now());
        self.read(move |connection| read::list_runs(connection, &filter, before, limit, now)).await
    }

    async fn attempts(&self, run: RunId) -> Result<Vec<AttemptView>> {
        self.read(move |connection| read::attempts(connection, run)).await
    }

    async fn counts(&self) -> Result<Counts> {
        let now = self.clock.now();
        self.read(move |connection| read::counts(connection, now)).await
    }

    async fn changed(&self) {
        self.changed.notified().await;
    }

    fn hint(&self) {
        self.changed.notify_waiters();
    }

    async fn placed(&self) {
        self.placed.notified().await;
    }
}
