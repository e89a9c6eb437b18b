//! The messages of the protocol. New fields have a default, and fields never change their meaning.

use std::collections::BTreeSet;

use domain::action::Assignment;
use domain::artifact::ArtifactDigest;
use domain::cluster::Labels;
use domain::id::{NodeId, RunId, TenantId};
use domain::run::{AttemptResult, Grant};
use domain::slot::{PerSlot, SlotKind};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The version of the protocol. A server that refuses a version lists the supported ones.
pub const PROTOCOL: u32 = 1;

/// The common prefix of all paths.
pub const ROOT: &str = "/wire/v1";

/// The header with the name of the agent, next to the key that proves it.
pub const AGENT: &str = "punctual-agent";

/// The largest request that is neither output nor results, in bytes.
pub const ASK_BYTES_MAX: usize = 1 << 20;

/// The largest request with results, in bytes.
pub const RESULTS_BYTES_MAX: usize = 16 << 20;

/// The maximum bytes of output in one request.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;

/// The maximum number of assignments of one kind of slot in the reply to a poll.
pub const WORK_MAX: u32 = 32;

/// The largest reply, in bytes.
pub const ANSWER_BYTES_MAX: usize = 128 << 20;

/// The longest time that a poll waits.
pub const POLL_MAX: SignedDuration = SignedDuration::from_secs(10);

/// The maximum number of concurrent runs of an agent of one kind of slot. Every poll lists the
/// current ones.
pub const CAPACITY_MAX: u32 = 4_096;

/// Request to join as an agent. The token is in the `Authorization` header.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// The protocol version of the agent.
    pub protocol: u32,
    /// The unique name of the agent, the same after a restart.
    pub name: String,
    /// The labels of the agent; those of the token if empty.
    #[serde(default)]
    pub labels: Labels,
}

/// The reply to [`Join`].
#[derive(Clone, Serialize, Deserialize)]
pub struct Joined {
    /// The name of the agent.
    pub name: String,
    /// The labels of the agent, which never change.
    pub labels: Labels,
    /// The key of the agent. It is sent only once.
    pub key: String,
}

/// A started attempt of an agent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct StartedAttempt {
    /// The claim of the run.
    pub grant: Grant,
    /// The fencing token of the attempt.
    pub token: i64,
    /// When it started, by the clock of the server.
    pub started_at: Timestamp,
    /// The kind of slot that it occupies.
    pub slot: SlotKind,
}

/// Capabilities from the settings of an agent that not every agent has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skills {
    /// Whether it executes commands.
    #[serde(default)]
    pub commands: bool,
    /// The names of its configured databases.
    #[serde(default)]
    pub databases: BTreeSet<String>,
    /// Whether it has a default database, for jobs without one.
    #[serde(default)]
    pub default_database: bool,
    /// Whether it runs artifacts.
    #[serde(default)]
    pub artifacts: bool,
}

impl Skills {
    fn is_empty(&self) -> bool {
        *self == Skills::default()
    }
}

/// Starts a session, also after a lost connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The protocol version of the agent.
    pub protocol: u32,
    /// The id of the agent's process.
    pub instance: Uuid,
    /// The release of the agent.
    pub version: String,
    /// The labels of the agent.
    pub labels: Labels,
    /// The number of slots of each kind.
    pub capacity: PerSlot<u32>,
    /// Whether it executes only runs that ask for its labels.
    #[serde(default)]
    pub exclusive: bool,
    /// Capabilities from its settings. Omitted when empty, so that older servers accept the
    /// message.
    #[serde(default, skip_serializing_if = "Skills::is_empty")]
    pub skills: Skills,
    /// The node id of the agent, if its lease may still be valid.
    #[serde(default)]
    pub node: Option<NodeId>,
    /// Attempts that it has started as that node: executing ones, and ended ones without an
    /// acknowledged result.
    #[serde(default)]
    pub begun: Vec<StartedAttempt>,
}

/// The reply to [`Hello`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// The id of the session, which every later call contains.
    pub session: Uuid,
    /// The node id of the agent.
    pub node: NodeId,
    /// The length of the lease.
    pub lease: SignedDuration,
    /// The interval of renewals.
    pub renew_every: SignedDuration,
    /// How long before the end of the lease the agent must have stopped its runs.
    pub stop_before: SignedDuration,
}

/// Requests assignments; waits if there are none.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Poll {
    /// The id of the session.
    pub session: Uuid,
    /// The number of the poll in its session, from 1.
    pub number: u64,
    /// The number of free slots of each kind.
    pub free: PerSlot<u32>,
    /// The claims that the agent has: an assignment that is not in this list did not arrive.
    pub has: Vec<Grant>,
}

/// The reply to [`Poll`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Work {
    /// The new assignments.
    pub items: Vec<Item>,
}

/// One attempt to execute.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Item {
    /// The claim of the run.
    pub grant: Grant,
    /// The recorded start time.
    pub started_at: Timestamp,
    /// The timeout of the attempt.
    pub timeout: SignedDuration,
    /// The action and its context.
    pub assignment: Assignment,
}

/// A call with the session only: renew, drain, leave.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionCall {
    /// The id of the session.
    pub session: Uuid,
}

/// The reply to a renewal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Renewed {
    /// Runs that a user has cancelled.
    pub stop: Vec<RunId>,
    /// Claims that the agent has lost: the run timed out long ago, or another node has it.
    #[serde(default)]
    pub over: Vec<Grant>,
    /// Whether the agent is drained and gets no new assignments.
    pub draining: bool,
}

/// An ended attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The claim under which it was executed.
    pub grant: Grant,
    /// The fencing token of the attempt.
    pub token: i64,
    /// The number of the attempt in its run.
    pub attempt: u32,
    /// When it started, by the clock of the server.
    pub started_at: Timestamp,
    /// The duration of the attempt.
    pub took: SignedDuration,
    /// The result of the attempt.
    pub result: AttemptResult,
}

/// Reports ended attempts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// The node id under which the agent executed them, which may differ from that of the session.
    pub node: NodeId,
    /// The ended attempts.
    pub ended: Vec<Ended>,
}

/// The reply to [`Results`], in the same order. A result that is not recorded belongs to a claim
/// that the agent has lost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settled {
    /// Whether each result is recorded.
    pub accepted: Vec<bool>,
}

/// The position of a piece of output; the piece is the body.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    /// The id of the session.
    pub session: Uuid,
    /// The run that wrote the output.
    pub run: RunId,
    /// The fencing token of the claim.
    pub fence: i64,
    /// The generation of the claim.
    pub turn: u32,
    /// The bytes of the attempt's output that were sent before in this session.
    pub position: u64,
}

/// Requests the value of a secret for a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskSecret {
    /// The id of the session.
    pub session: Uuid,
    /// The run that needs the secret.
    pub run: RunId,
    /// The fencing token of the attempt.
    pub fence: i64,
    /// The name of the secret.
    pub name: String,
}

/// Requests the address of a database for a run of a tenant.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskDatabase {
    /// The id of the session.
    pub session: Uuid,
    /// The tenant of the run.
    pub tenant: TenantId,
    /// The name of the database.
    pub name: String,
}

/// Requests the artifact of a run: the digest of its newest version, or its content.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskArtifact {
    /// The id of the session.
    pub session: Uuid,
    /// The run that needs the artifact.
    pub run: RunId,
    /// The fencing token of the attempt.
    pub fence: i64,
    /// The content that is asked for; none asks for the digest of the newest version.
    #[serde(default)]
    pub digest: Option<ArtifactDigest>,
}

/// The requested value.
#[derive(Clone, Serialize, Deserialize)]
pub struct RequestedValue {
    /// The value; none if the name does not exist.
    pub value: Option<String>,
}

/// An empty reply.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Done {}
