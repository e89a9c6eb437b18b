//! Events as the store and the executors know them: the invariants' only source.

use domain::cluster::Leadership;
use domain::id::{NodeId, ObjectId, RunId};
use domain::job::Job;
use domain::run::{self, ClaimedRun, Grant, NewRun, RunState};
use domain::schedule::Outage;
use domain::shard::Ownership;
use engine::Started;
use jiff::Timestamp;
use store::{Applied, Cancelled, Finish, RecordPlan};

/// An event. Times are the store's, unless the field states otherwise.
#[derive(Clone, Debug)]
pub enum SimEvent {
    /// A job was created or changed.
    Defined {
        at: Timestamp,
        /// The job as it is now; `updated_at` is when the engine looked at the clock.
        job: Box<Job>,
    },
    /// A plan was written.
    Fired {
        /// The latest readings of the clock by the planning machine, the latest first. It planned
        /// by one of these.
        looks: Vec<Timestamp>,
        /// The plan.
        fire: RecordPlan,
    },
    /// A client submitted a run.
    Submitted { at: Timestamp, run: NewRun },
    /// A node claimed a run.
    Claimed { at: Timestamp, node: NodeId, run: ClaimedRun },
    /// A node tried to end a claim.
    Finished {
        /// The node that held it.
        node: NodeId,
        /// The request.
        finish: Finish,
        /// The result.
        applied: Applied,
    },
    /// The end of a run was asked for.
    Cancelled {
        run: RunId,
        /// The result.
        answer: Cancelled,
    },
    /// A node that joins hears of the times in which no scheduler was alive.
    Down {
        /// These times.
        outages: Vec<Outage>,
    },
    /// A run went from one state to another.
    Moved {
        run: RunId,
        /// Its state before, as the store derives it.
        from: RunState,
        /// The event of the run's state machine.
        event: run::Event,
        /// Its state after, as the store shows it.
        to: RunState,
    },
    /// A node's lease lasts until then.
    Leased {
        node: NodeId,
        /// The end of the lease.
        until: Timestamp,
    },
    /// A node's lease is over: the node left, or it was declared dead.
    Unleased { node: NodeId },
    /// A node asked for the leader, or became it.
    Led {
        /// The present leader.
        leadership: Leadership,
        /// Whether this began a new epoch.
        begun: bool,
    },
    /// A leader resigned.
    Resigned {
        /// Which node.
        node: NodeId,
    },
    /// A shard has this owner.
    Owned {
        shard: ObjectId,
        /// The new owner.
        owner: Ownership,
    },
    /// An executor began.
    Started {
        at: Timestamp,
        machine: usize,
        /// The run.
        started: Box<Started>,
    },
    /// An executor is not at work any more.
    Stopped {
        at: Timestamp,
        /// The claim that it worked on.
        grant: Grant,
    },
    /// A clock was set.
    ClockSet,
    /// A machine died or was suspended for a while, with its runs.
    Interrupted { machine: usize },
}
