//! The operations that write, as values.
//!
//! A command has everything that its effect depends on, besides the tables and the inputs of its
//! group: the time and the fencing tokens ([`Group`]). [`Command::apply`] reads no clock, draws no
//! numbers and depends on nothing in memory that is not read back from the tables. So the same
//! groups make the same tables, also in a database that is opened anew after each of them.

use domain::cluster::Leadership;
use domain::dag::state::StepRecord;
use domain::id::{JobId, NodeId, RunId};
use domain::job::LostAnswer;
use domain::run::{ClaimedRun, Grant, NewRun, Reason};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::writer::{Tx, Writer};
use super::{
    cancel, claim, cluster, dags, finish, jobs, message_ends, messages, nodes, prune, records,
    runs, shards, wake,
};
use crate::records::{RecordAnswer, Transaction};
use crate::{
    Advance, Advanced, Applied, Cancelled, Change, Changed, ClaimFor, ClaimRequest, DagRun,
    Decided, Exchanged, Extended, Finish, Joined, LeaseExtension, LeaseRequest, Leased, Move,
    NewMessage, NodeControl, NodeControlOutcome, NodeInfo, Prepared, Reaped, RecordPlan, Renewed,
    Result, RetentionCutoff, Sent, SettledMessage, StoreError, Submitted,
};

/// Commands that were committed together, and what they did not have themselves. Serialised, the
/// groups of a database are its log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Group {
    /// The time of all of them.
    pub(super) now: Timestamp,
    /// The tokens that they drew, in their order.
    pub(super) tokens: Vec<i64>,
    /// The latest token at the commit, if the counters were written. Starts draw tokens without a
    /// command.
    pub(super) latest_token: i64,
    /// The commands that were not rolled back.
    pub(super) commands: Vec<Command>,
}

/// One line for each command: its fields, its reply, and the function that applies it.
macro_rules! commands {
    ($(
        $name:ident $method:ident($($field:ident: $kind:ty),*) -> $answer:ty = |$tx:ident| $apply:expr;
    )*) => {
        /// An operation that writes, with its author where it has one.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub(super) enum Command {
            $($name { $($field: $kind),* },)*
        }

        /// The reply to a command.
        pub(super) enum Reply {
            $($name($answer),)*
        }

        impl Command {
            /// Applies the command in the open transaction.
            pub fn apply(&self, tx: &mut Tx<'_>) -> Result<Reply> {
                match self {
                    $(Command::$name { $($field),* } => {
                        let $tx = &mut *tx;
                        Ok(Reply::$name($apply?))
                    })*
                }
            }
        }

        impl Writer {
            $(
                pub(super) async fn $method(&self, $($field: $kind),*) -> Result<$answer> {
                    match self.send(Command::$name { $($field),* }).await? {
                        Reply::$name(answer) => Ok(answer),
                        _ => Err(StoreError::Unreadable("another command was answered".into())),
                    }
                }
            )*
        }
    };
}

impl Command {
    /// Whether ticks whose time has not come can vanish: no start may be decided meanwhile.
    pub fn excludes_starts(&self) -> bool {
        match self {
            Command::Define { changes, .. } | Command::DefineTogether { changes, .. } => {
                changes.iter().any(|change| change.prepared != Prepared::Keep)
            }
            _ => false,
        }
    }
}

impl Reply {
    /// Whether the command is rolled back although it has a reply.
    pub fn is_refusal(&self) -> bool {
        match self {
            Reply::DefineTogether(changed) => changed.iter().any(|it| *it != Changed::Done),
            _ => false,
        }
    }
}

commands! {
    Define define(changes: Vec<Change>, by: String) -> Vec<Changed> =
        |tx| jobs::define(tx, changes, by);
    DefineTogether define_together(changes: Vec<Change>, by: String) -> Vec<Changed> =
        |tx| jobs::define(tx, changes, by);
    Fire fire(batch: Vec<RecordPlan>) -> Vec<bool> = |tx| runs::fire(tx, batch);
    Submit submit(new: Vec<NewRun>, claim: Option<ClaimFor>) -> Submitted =
        |tx| runs::submit(tx, new, *claim);
    CompleteAndClaim complete_and_claim(node: NodeId, done: Vec<Finish>, want: ClaimRequest)
        -> Exchanged = |tx| claim::complete_and_claim(tx, *node, done, *want);
    Held held(node: NodeId) -> Vec<ClaimedRun> = |tx| nodes::held(tx, *node);
    Cancel cancel(run: RunId, reason: Reason, by: String) -> Cancelled =
        |tx| cancel::cancel(tx, *run, reason, by);
    Decide decide(run: RunId, answer: LostAnswer, reason: Reason, by: String) -> Decided =
        |tx| cancel::decide(tx, *run, *answer, reason, by);
    Begin begin(node: NodeId, grants: Vec<Grant>) -> Vec<bool> =
        |tx| nodes::begin(tx, *node, grants);
    Join join(node: NodeId, info: Box<NodeInfo>, lease: SignedDuration) -> Joined =
        |tx| nodes::join(tx, *node, info, *lease);
    Renew renew(node: NodeId, lease: SignedDuration) -> Option<Renewed> =
        |tx| nodes::renew(tx, *node, *lease);
    RecordStarts record_starts(node: NodeId, starts: Vec<(Grant, Timestamp)>) -> () =
        |tx| nodes::record_starts(tx, *node, starts);
    RecordClockOffset record_clock_offset(node: NodeId, offset: SignedDuration) -> () =
        |tx| nodes::record_clock_offset(tx, *node, *offset);
    Retire retire(node: NodeId) -> () = |tx| nodes::retire(tx, *node);
    Leave leave(node: NodeId, begun: Vec<Grant>) -> () = |tx| nodes::leave(tx, *node, begun);
    Reap reap(limit: u32) -> Reaped = |tx| nodes::reap(tx, *limit);
    SettleLost settle_lost(lost: Vec<(NodeId, Finish)>) -> Vec<Applied> =
        |tx| finish::settle_lost(tx, lost);
    Prune prune(cut: RetentionCutoff, limit: u32) -> u64 = |tx| prune::prune(tx, cut, *limit);
    TakeLeadership take_leadership(node: NodeId) -> Leadership =
        |tx| cluster::take_leadership(tx, *node);
    Resign resign(node: NodeId, epoch: i64) -> bool = |tx| cluster::resign(tx, *node, *epoch);
    ClaimPlaced claim_placed(node: NodeId, epoch: Option<i64>, want: ClaimRequest)
        -> Vec<ClaimedRun> = |tx| cluster::claim_placed(tx, *node, *epoch, *want);
    AcknowledgeRuns acknowledge_runs(node: NodeId) -> u64 = |tx| cluster::acknowledge(tx, *node);
    WakePools wake_pools() -> u64 = |tx| wake::pools(tx);
    PublishPolicy publish_policy(node: NodeId, epoch: i64, policy: String) -> Option<u32> =
        |tx| cluster::publish_policy(tx, *node, *epoch, policy);
    Steer steer(node: NodeId, steer: NodeControl, by: String) -> NodeControlOutcome =
        |tx| cluster::steer(tx, *node, *steer, by);
    Assign assign(node: NodeId, epoch: i64, moves: Vec<Move>) -> Option<u64> =
        |tx| shards::assign(tx, *node, *epoch, moves);
    SplitHeld split_held(node: NodeId, grant: Grant, parts: Vec<NewRun>) -> bool =
        |tx| shards::split_held(tx, *node, *grant, parts);
    SplitNew split_new(run: Box<NewRun>, parts: Vec<NewRun>) -> bool =
        |tx| shards::split_new(tx, run, parts);
    WakeSplit wake_split(split: Vec<RunId>) -> u64 = |tx| shards::wake_split(tx, split);
    PruneParts prune_parts(limit: u32) -> u64 = |tx| shards::prune_parts(tx, *limit);
    BeginDags begin_dags(node: NodeId, begun: Vec<(Grant, DagRun)>) -> Vec<bool> =
        |tx| dags::begin(tx, *node, begun);
    RepeatDag repeat_dag(new: Box<NewRun>, run: Box<DagRun>, adopted: Vec<StepRecord>) -> bool =
        |tx| dags::repeat(tx, new, run, adopted);
    Advance advance(batch: Vec<Advance>, claim: Option<ClaimFor>) -> (Advanced, bool) =
        |tx| dags::advance(tx, batch, *claim);
    SendMessages send_messages(queue: JobId, max_depth: Option<u64>, new: Vec<NewMessage>)
        -> Sent = |tx| messages::send(tx, *queue, *max_depth, new);
    LeaseMessages lease_messages(request: Box<LeaseRequest>) -> Leased =
        |tx| messages::lease(tx, request);
    ExtendLeases extend_leases(leases: Vec<LeaseExtension>) -> Vec<Option<Extended>> =
        |tx| messages::extend(tx, leases);
    SettleMessages settle_messages(node: NodeId, settled: Vec<SettledMessage>) -> Vec<Applied> =
        |tx| message_ends::settle(tx, *node, settled);
    CancelMessage cancel_message(queue: JobId, message: RunId, reason: Reason, by: String)
        -> Cancelled = |tx| message_ends::cancel(tx, (*queue, *message), reason, by);
    ForgetMessageKeys forget_message_keys(limit: u32) -> u64 =
        |tx| messages::forget_keys(tx, *limit);
    Commit commit(transaction: Transaction) -> Option<Vec<RecordAnswer>> =
        |tx| records::apply(tx, transaction.statements());
}
