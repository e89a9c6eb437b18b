//! Traces of single runs.
//!
//! Metrics count events; a tracer gets each event of a run with its time. Without a tracer nothing
//! is kept for one. A tracer must not block: it is called between the steps.

use std::sync::Arc;

use domain::id::NodeId;
use domain::job::Job;
use domain::run::{ClaimedRun, NewRun};
use jiff::Timestamp;
use store::{Applied, Finish};

/// Receives the events of runs.
pub trait Tracer: Send + Sync + 'static {
    /// A run was recorded.
    fn planned(&self, planned: Planned<'_>);

    /// The store has recorded the end of a claim.
    fn settled(&self, settled: Settled<'_>);
}

/// A run that was recorded.
pub struct Planned<'a> {
    /// The run.
    pub run: &'a NewRun,
    /// Its job's name, if it was at hand.
    pub job_name: Option<&'a str>,
    /// The node that planned it.
    pub node: NodeId,
    /// When the step began.
    pub began_at: Timestamp,
    /// When it was recorded.
    pub recorded_at: Timestamp,
}

/// A claim whose end the store has recorded.
pub struct Settled<'a> {
    /// The run and the claim.
    pub run: &'a ClaimedRun,
    /// Its job.
    pub job: &'a Arc<Job>,
    /// The node that held it.
    pub node: NodeId,
    /// When it was claimed; not known for a node that was declared dead.
    pub claimed_at: Option<Timestamp>,
    /// When its end was decided.
    pub decided_at: Timestamp,
    /// The decision, with the attempt if one was made.
    pub finish: &'a Finish,
    /// Result of the write.
    pub applied: Applied,
    /// When the store had replied.
    pub settled_at: Timestamp,
}
