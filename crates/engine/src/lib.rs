//! The scheduler.
//!
//! A [`Node`] is one process's part in the work: it plans jobs whose time is near, claims runs,
//! starts them when they are due, settles ended ones, and takes over from nodes that were lost.
//! Each of these is an idempotent step without input: the store's state and the clock decide what
//! it does. [`Engine`] calls the steps in loops in a real process; the simulation calls them in an
//! order of its own.

mod acting;
mod artifacts;
mod batch;
mod calendars;
mod commands;
mod dags;
mod error;
mod explain;
mod holder;
mod identity;
mod node;
mod notifier;
mod pauses;
mod questions;
mod queues;
mod refusals;
mod register;
mod run;
mod settings;
mod start_log;
mod stats;
mod tracer;

pub use acting::{
    AuthorizedEngine, Explained, PollRequest, QueueStatisticsView, Scope, SettledLetters,
    WorkerMessage,
};
pub use calendars::calendar_of;
pub use commands::{
    Backfill, CHANGES_MAX, ChangeRefused, Deletion, JobChange, JobChanges, NewJob, Trigger,
};
pub use dags::{
    CompiledDag, DagColumns, DagGrid, DagRunDiff, DagRunView, DagVerification, GridRun,
    ReplayReport, RerunReport, StepColumn, StepDiff, StepExplanation, StepMark, StepView,
};
pub use error::{EngineError, Result};
pub use holder::Holder;
pub use node::{
    Attended, CarriedRun, ClockHealth, Node, PlanReport, ReapReport, RemoteAttempt, SealReport,
    SlotUse, Started, TZDB_SETTING, TallyReport, Verified,
};
pub use notifier::{LogNotifier, Notifier, Notifiers, Present};
pub use pauses::PauseView;
pub use queues::{Message, MessageReapReport, MessageReport};
pub use run::{
    Activity, AgentLimits, AgentProxy, Carried, Engine, Executor, Health, PollAnswer, Renewal,
    SessionView, Stalled, Stop, WorkerState,
};
pub use settings::{Env, Settings};
pub use start_log::{BegunRun, BegunRuns, Predecessor, StartLog};
pub use stats::{HourlyStats, Stats};
pub use store::{
    Acknowledgement, Answer, Applied, AttemptView, AuditFilter, Cancelled, Channel, Counts, Cursor,
    Decided, DeliveryKey, DeliveryView, Extended, FullStore, GrantOutcome, Identity, JobFilter,
    JobVersion, LastRun, LeasedMessage, LiveCounts, MessagePlace, NamedResources, NodeControl,
    NodeControlOutcome, NodeInfo, NodeView, Operation, OwnedShard, Page, PushedArtifact, Put,
    QueueDepth, QueueLine, RecentEnd, Replaces, RequestState, RunFilter, RunView, RunsOf, SYSTEM,
    Set, Setting, SharedStore, StartFilter, StartKey, StoreError, StoreMetrics, WorkspaceDepth,
};
pub use tracer::{Planned, Settled, Tracer};
