//! Reads that only explanations need: what a live run waits for, and what happened to a job and to
//! a run.

use std::future::Future;

use domain::audit::Kind;
use domain::id::{JobId, RunId};
use domain::run::Wait;
use domain::slot::SlotKind;
use jiff::Timestamp;

use crate::{Result, Store};

/// A store that answers the questions of an explanation.
pub trait ExplainReads: Store {
    /// What a run that has not ended waits for; none if it has ended or is not known.
    fn live_run(&self, run: RunId) -> impl Future<Output = Result<Option<LiveRun>>> + Send;

    /// Creation, changes and deletion of a job, newest first.
    fn job_events(
        &self,
        job: JobId,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<AuditedEvent>>> + Send;

    /// Audit rows that name a run: requests to cancel or repeat it, newest first.
    fn run_events(
        &self,
        run: RunId,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<AuditedEvent>>> + Send;
}

/// What a live run waits for, and its place among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRun {
    /// What it waits for besides its time and a node.
    pub wait: Option<Wait>,
    /// When that wait ends, whatever happens.
    pub wait_until: Option<Timestamp>,
    /// Why its end was requested, if it was.
    pub cancel: Option<(String, String)>,
    /// 0 to 9, higher is more urgent.
    pub priority: u8,
    /// The kind of slot that it takes.
    pub slot: SlotKind,
    /// Runs of its tenant that can be claimed before it, at most [`AHEAD_MAX`]; 0 if it waits for
    /// something else.
    pub ahead: u32,
    /// Runs of its job that wait in line before it, at most [`AHEAD_MAX`].
    pub line_ahead: u32,
}

/// So many runs in front of another one are counted.
pub const AHEAD_MAX: u32 = 1_000;

/// A row of the audit, as far as an explanation needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedEvent {
    /// When.
    pub at: Timestamp,
    /// The user who did it.
    pub actor: String,
    /// What happened.
    pub kind: Kind,
    /// What came of it.
    pub outcome: String,
    /// Details, as JSON or as a sentence.
    pub details: String,
}

/// The reason of a request to cancel.
pub(crate) fn cancel_of(code: Option<String>, text: Option<String>) -> Option<(String, String)> {
    code.map(|code| (code, text.unwrap_or_default()))
}
