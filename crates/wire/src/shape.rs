//! The words of the protocol. A field is added with a default and never changes its meaning.

use std::collections::BTreeSet;

use domain::action::Assignment;
use domain::cluster::Labels;
use domain::id::{NodeId, RunId, TenantId};
use domain::run::{AttemptResult, Grant};
use domain::slot::{PerSlot, SlotKind};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The version of the protocol. A server says in its refusal which ones it speaks.
pub const PROTOCOL: u32 = 1;

/// What every address begins with.
pub const ROOT: &str = "/wire/v1";

/// The header with the name of the agent, beside the key that proves it.
pub const AGENT: &str = "punctual-agent";

/// The largest request that is neither output nor results, in bytes.
pub const ASK_BYTES_MAX: usize = 1 << 20;

/// The largest request with results, in bytes.
pub const RESULTS_BYTES_MAX: usize = 16 << 20;

/// The most output that one request carries, in bytes.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;

/// The most assignments of one kind of slot that one poll brings.
pub const WORK_MAX: u32 = 32;

/// The largest answer, in bytes.
pub const ANSWER_BYTES_MAX: usize = 128 << 20;

/// The longest that a poll waits.
pub const POLL_MAX: SignedDuration = SignedDuration::from_secs(10);

/// The most runs of one kind of slot that an agent executes at the same time. What it has goes with
/// every poll.
pub const CAPACITY_MAX: u32 = 4_096;

/// An agent wants to become one. The token is in the header.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// The version of the protocol that it speaks.
    pub protocol: u32,
    /// Its name: the same after a restart, and no other's.
    pub name: String,
    /// What is known about its place; that of the token when empty.
    #[serde(default)]
    pub labels: Labels,
}

/// It is one now.
#[derive(Clone, Serialize, Deserialize)]
pub struct Joined {
    /// Its name.
    pub name: String,
    /// Its labels, which are the same for ever.
    pub labels: Labels,
    /// Its key. It is told once.
    pub key: String,
}

/// What an agent has begun.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Begun {
    /// The right to it.
    pub grant: Grant,
    /// The fencing token that it was given.
    pub token: i64,
    /// When it began, as the server said.
    pub started_at: Timestamp,
    /// The kind of slot that it occupies.
    pub slot: SlotKind,
}

/// What the settings of an agent let it do, besides what every agent can.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skills {
    /// Whether it starts commands.
    #[serde(default)]
    pub commands: bool,
    /// The names of its databases.
    #[serde(default)]
    pub databases: BTreeSet<String>,
    /// Whether one of them is for jobs that name none.
    #[serde(default)]
    pub default_database: bool,
}

impl Skills {
    fn is_empty(&self) -> bool {
        *self == Skills::default()
    }
}

/// An agent comes, or comes back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The version of the protocol that it speaks.
    pub protocol: u32,
    /// Which process it is.
    pub instance: Uuid,
    /// The release that it runs.
    pub version: String,
    /// What is known about its place.
    pub labels: Labels,
    /// How many runs it executes at the same time, by their kind of slot.
    pub capacity: PerSlot<u32>,
    /// Whether it takes only runs that ask for its labels.
    #[serde(default)]
    pub exclusive: bool,
    /// What its own settings let it do. A server that does not know the word need not hear it from
    /// those who can do nothing special.
    #[serde(default, skip_serializing_if = "Skills::is_empty")]
    pub skills: Skills,
    /// The node that it is, if its lease may live.
    #[serde(default)]
    pub node: Option<NodeId>,
    /// What it has begun as that node: what runs, and what has ended and is not settled.
    #[serde(default)]
    pub begun: Vec<Begun>,
}

/// The answer to [`Hello`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// Goes with every call from now on.
    pub session: Uuid,
    /// The node that the agent is.
    pub node: NodeId,
    /// How long the agent keeps what it has when nothing is heard of it.
    pub lease: SignedDuration,
    /// How often it should renew.
    pub renew_every: SignedDuration,
    /// How long before the end of the lease it must have stopped.
    pub stop_before: SignedDuration,
}

/// The agent asks for work, and waits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Poll {
    /// The session.
    pub session: Uuid,
    /// Grows with every poll of the session, from 1.
    pub number: u64,
    /// How many runs it can begin, by their kind of slot.
    pub free: PerSlot<u32>,
    /// What it has already: a run that was given and is not here has not arrived.
    pub has: Vec<Grant>,
}

/// The answer to [`Poll`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Work {
    /// What to begin.
    pub items: Vec<Item>,
}

/// One attempt to make.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Item {
    /// The right to it.
    pub grant: Grant,
    /// When it begins, for the record.
    pub started_at: Timestamp,
    /// How long it may take.
    pub timeout: SignedDuration,
    /// What to do.
    pub assignment: Assignment,
}

/// Something that needs the session and nothing else: renew, drain, leave.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// The session.
    pub session: Uuid,
}

/// The lease goes on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Renewed {
    /// Runs whose end somebody asked for.
    pub stop: Vec<RunId>,
    /// What the agent has no right to any more: its time is long over, or it was handed on.
    #[serde(default)]
    pub over: Vec<Grant>,
    /// Whether the agent gets nothing new for now.
    pub draining: bool,
}

/// An attempt that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The right under which it was made.
    pub grant: Grant,
    /// The fencing token that it was given.
    pub token: i64,
    /// Which attempt of its run it was.
    pub attempt: u32,
    /// When it began, as the server said.
    pub started_at: Timestamp,
    /// How long it took.
    pub took: SignedDuration,
    /// How it ended.
    pub result: AttemptResult,
}

/// Attempts that ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// The node that the agent was when it made them, which may be another than that of the
    /// session.
    pub node: NodeId,
    /// The attempts.
    pub ended: Vec<Ended>,
}

/// The answer to [`Results`], in their order: whether each is recorded. What is not is of a right
/// that the agent has no more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settled {
    /// Whether it is recorded.
    pub accepted: Vec<bool>,
}

/// Where a piece of output stands; the piece is the body.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    /// The session.
    pub session: Uuid,
    /// The run.
    pub run: RunId,
    /// The fence of its grant.
    pub fence: i64,
    /// The turn of its grant.
    pub turn: u32,
    /// How much of the attempt's output was sent in this session before it.
    pub position: u64,
}

/// The agent needs the value of a secret for a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskSecret {
    /// The session.
    pub session: Uuid,
    /// For which run.
    pub run: RunId,
    /// The fencing token that the attempt was given.
    pub fence: i64,
    /// The name of the secret.
    pub name: String,
}

/// The agent needs the address of a database for a run of a tenant.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskDatabase {
    /// The session.
    pub session: Uuid,
    /// The tenant.
    pub tenant: TenantId,
    /// The name of the database.
    pub name: String,
}

/// The value that was asked for; none when there is none of that name.
#[derive(Clone, Serialize, Deserialize)]
pub struct Told {
    /// The value.
    pub value: Option<String>,
}

/// Nothing more to say.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Done {}
