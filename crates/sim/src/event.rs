//! What happened, as the store and the executors know it: the invariants' only source.

use domain::cluster::Lead;
use domain::id::{NodeId, ObjectId, RunId};
use domain::job::Job;
use domain::run::{self, ClaimedRun, Grant, NewRun, RunState};
use domain::schedule::Outage;
use domain::shard::Ownership;
use engine::Started;
use jiff::Timestamp;
use store::{Applied, Cancelled, Finish, RecordPlan};

/// Something that happened. Times are the store's, unless they say otherwise.
#[derive(Clone, Debug)]
pub enum Event {
    /// A job was created or changed.
    Defined {
        /// When.
        at: Timestamp,
        /// The job as it is now; `updated_at` is when the engine looked at the clock.
        job: Box<Job>,
    },
    /// A plan was written.
    Fired {
        /// What the planning machine saw on the clock lately, the latest first. It planned by one
        /// of these.
        looks: Vec<Timestamp>,
        /// The plan.
        fire: RecordPlan,
    },
    /// Somebody asked for a run.
    Submitted {
        /// When.
        at: Timestamp,
        /// The run.
        run: NewRun,
    },
    /// A node was handed a run.
    Claimed {
        /// When.
        at: Timestamp,
        /// The node.
        node: NodeId,
        /// The run.
        run: ClaimedRun,
    },
    /// A grant was to be ended.
    Finished {
        /// The node that held it.
        node: NodeId,
        /// What was asked.
        finish: Finish,
        /// What became of it.
        applied: Applied,
    },
    /// The end of a run was asked for.
    Cancelled {
        /// The run.
        run: RunId,
        /// What became of it.
        answer: Cancelled,
    },
    /// A node that joins hears of the times in which no scheduler was alive.
    Down {
        /// These times.
        outages: Vec<Outage>,
    },
    /// A run went from one state to another.
    Moved {
        /// The run.
        run: RunId,
        /// Its state before, as the store derives it.
        from: RunState,
        /// What happened to it.
        event: run::Event,
        /// Its state after, as the store shows it.
        to: RunState,
    },
    /// A node's lease lasts until then.
    Leased {
        /// The node.
        node: NodeId,
        /// The end of the lease.
        until: Timestamp,
    },
    /// A node's lease is over: it left, or it was buried.
    Unleased {
        /// The node.
        node: NodeId,
    },
    /// Somebody asked who leads, or took the lead.
    Led {
        /// Who leads now.
        lead: Lead,
        /// Whether they have begun an epoch just now.
        begun: bool,
    },
    /// A leader gave the lead up.
    Resigned {
        /// Which node.
        node: NodeId,
    },
    /// A shard has this owner.
    Owned {
        /// Which.
        shard: ObjectId,
        /// Who owns it.
        owner: Ownership,
    },
    /// An executor began.
    Started {
        /// When.
        at: Timestamp,
        /// Where.
        machine: usize,
        /// What.
        started: Box<Started>,
    },
    /// An executor is not at work any more.
    Stopped {
        /// On what it worked.
        grant: Grant,
    },
    /// Somebody set a clock.
    ClockSet,
    /// A machine died or was stopped for a while, with what it held.
    Interrupted {
        /// Which.
        machine: usize,
    },
}
