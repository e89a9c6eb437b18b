//! What those at the doors ask of a store: dead letters, nodes, settings, requests that are sent
//! again.
//!
//! The engine's steps need none of it, and none of it decides what runs.

use std::future::Future;

use domain::id::{JobId, RunId, TenantId};
use domain::run::Outcome;
use jiff::Timestamp;

use crate::{NodeView, Page, Result, RunView, StartFilter, StartKey, Store};

/// A store that serves people.
pub trait Desk: Store {
    /// Marks dead letters as seen to: they leave the list. Answers for each whether it was there.
    fn acknowledge(&self, runs: &[RunId]) -> impl Future<Output = Result<Vec<bool>>> + Send;

    /// How many dead letters a tenant has, but no more than `most`: who waits for a larger answer
    /// shows "more than".
    fn count_dead_letters(
        &self,
        tenant: TenantId,
        most: u32,
    ) -> impl Future<Output = Result<u32>> + Send;

    /// The output of an attempt as its agent compressed it, if it is short and was kept.
    fn attempt_output(
        &self,
        run: RunId,
        number: u32,
    ) -> impl Future<Output = Result<Option<Vec<u8>>>> + Send;

    /// The nodes of the cluster, by when they joined.
    fn nodes(&self) -> impl Future<Output = Result<Vec<NodeView>>> + Send;

    /// What a tenant's live runs are doing.
    fn live(&self, tenant: TenantId) -> impl Future<Output = Result<LiveCounts>> + Send;

    /// For each of these jobs the newest of its latest runs that was carried out and has ended; a
    /// job without one is left out.
    fn last_runs(&self, jobs: &[JobId]) -> impl Future<Output = Result<Vec<LastRun>>> + Send;

    /// The newest ended runs of each of these jobs, at most `limit` of each, newest first. Times
    /// without a run are among them, runs of shards are not.
    fn recent_ends(
        &self,
        jobs: &[JobId],
        limit: u32,
    ) -> impl Future<Output = Result<Vec<RecentEnd>>> + Send;

    /// Ended runs of a job, those first that never began, then by when their last attempt began,
    /// latest first, after a place in this order; rows for times without a run included. What a
    /// page costs does not grow with history.
    fn latest_starts(
        &self,
        filter: &StartFilter,
        after: Option<StartKey>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<RunView, StartKey>>> + Send;

    /// Runs of all tenants, live and ended ones, with attempts that were not their last word,
    /// newest first and older than the given one.
    fn retried(
        &self,
        before: Option<RunId>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<RunView, RunId>>> + Send;

    /// What the whole cluster agrees on, by name.
    fn settings(&self) -> impl Future<Output = Result<Vec<Setting>>> + Send;

    /// Changes a setting, or removes it when there is no value, if it still has the version that
    /// the change is based on; 0 for one that is not there.
    fn set(
        &self,
        name: &str,
        value: Option<&str>,
        expected: u32,
    ) -> impl Future<Output = Result<Set>> + Send;

    /// A request begins that its caller may send again under the same key, with a fingerprint of
    /// what it asks for. Keys are remembered for a day. An answer that does not come within five
    /// minutes is given up, and the next one who asks is the first again.
    fn begin_request(
        &self,
        tenant: TenantId,
        key: &str,
        fingerprint: &[u8],
    ) -> impl Future<Output = Result<Begun>> + Send;

    /// Keeps the answer to a request for those who send it again; without one, the request may be
    /// made anew.
    fn finish_request(
        &self,
        tenant: TenantId,
        key: &str,
        answer: Option<&Answer>,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Forgets requests that are older than a day, at most `limit`; answers how many.
    fn forget_requests(&self, limit: u32) -> impl Future<Output = Result<u64>> + Send;
}

/// The last run of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRun {
    /// The job.
    pub job: JobId,
    /// The time that the run stood for.
    pub scheduled_for: Timestamp,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a run of a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecentEnd {
    /// The job.
    pub job: JobId,
    /// The run.
    pub run: RunId,
    /// The time that the run stood for.
    pub scheduled_for: Timestamp,
    /// How it ended.
    pub outcome: Outcome,
    /// The version of the job that asked for it.
    pub job_version: u32,
}

/// What live runs are doing, counted by [`RunState`](domain::run::RunState).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveCounts {
    /// They wait for their time or for other runs.
    pub pending: u64,
    /// They are due and no node holds them.
    pub queued: u64,
    /// They are due and a node holds them, or they wait for their own parts.
    pub running: u64,
    /// When the oldest queued one was due that any node may execute. One that asks for a place may
    /// wait for a node that is not there, which is no fault of those that are.
    pub oldest_due: Option<Timestamp>,
}

/// Something that the whole cluster agrees on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value, as JSON.
    pub value: String,
    /// Grows with every change, from 1.
    pub version: u32,
    /// When it was last changed.
    pub changed_at: Timestamp,
}

/// What became of a change of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// It has this version now; 0 when it is gone.
    Done(u32),
    /// It has this version; 0 when it is not there.
    Conflict(u32),
}

/// How a request stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is the first of its key: it shall be carried out.
    New,
    /// It was answered before.
    Replay(Answer),
    /// The key belongs to a request that asks for something else.
    Conflict,
    /// The first one is being carried out.
    InProgress,
}

/// What was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// What the door wants to keep beside the body, as text of its own making.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

/// Keys are forgotten after this time.
pub(crate) const KEY_TTL_US: i64 = 24 * 3_600 * 1_000_000;

/// An answer is given up after this time.
pub(crate) const ANSWER_TTL_US: i64 = 5 * 60 * 1_000_000;
