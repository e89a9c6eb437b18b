//! Who follows single runs from step to step.
//!
//! Metrics say how much happens; a tracer is told what happened to which run and when. Without one
//! nothing is remembered for it. It must not wait: it is called between the steps.

use std::sync::Arc;

use domain::id::NodeId;
use domain::job::Job;
use domain::run::{ClaimedRun, NewRun};
use jiff::Timestamp;
use store::{Applied, Finish};

/// What is told how runs go on.
pub trait Tracer: Send + Sync + 'static {
    /// A run was recorded.
    fn planned(&self, planned: Planned<'_>);

    /// The store knows how a grant ended.
    fn settled(&self, settled: Settled<'_>);
}

/// A run that was recorded.
pub struct Planned<'a> {
    /// The run.
    pub run: &'a NewRun,
    /// Its job's name, if it was at hand.
    pub job_name: Option<&'a str>,
    /// Who planned it.
    pub node: NodeId,
    /// When the step began.
    pub began_at: Timestamp,
    /// When it was recorded.
    pub recorded_at: Timestamp,
}

/// A grant that has ended, and the store knows.
pub struct Settled<'a> {
    /// The run and the grant.
    pub run: &'a ClaimedRun,
    /// Its job.
    pub job: &'a Arc<Job>,
    /// Who held it.
    pub node: NodeId,
    /// When it was taken; not known of a node that was lost.
    pub claimed_at: Option<Timestamp>,
    /// When its end was decided.
    pub decided_at: Timestamp,
    /// What was decided, with the attempt if one was made.
    pub finish: &'a Finish,
    /// What the store made of it.
    pub applied: Applied,
    /// When the store had answered.
    pub settled_at: Timestamp,
}
