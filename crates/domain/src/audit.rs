//! The audit trail: actors and their actions, protected by a chain of hashes.
//!
//! ```text
//!   anchor ──▶ row 1 ──▶ row 2 ──▶ … ──▶ head        hash(n) = H(hash(n − 1), n, row n)
//! ```
//!
//! A row is written in the transaction of the change that it records and sealed a moment later: it
//! gets the next number of its tenant and a hash over itself and the row before it. A change,
//! removal or move of a sealed row invalidates every hash behind it, and the head too.

use std::fmt;

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::id::{JobId, NodeId, RunId, TenantId};
use crate::run::{Origin, Outcome};

mod chain;

pub use chain::{Broken, KeptHead, verify, verify_cut, verify_witness};

/// The hash of a row.
pub type Hash = [u8; 32];

/// Hash before the first row.
pub const GENESIS: Hash = [0; 32];

/// Kind of an audited event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A job was created.
    JobCreated,
    /// A job was changed.
    JobModified,
    /// A job was removed.
    JobDeleted,
    /// Runs ended; the row lists them.
    RunsEnded,
    /// A user asked for runs; the row lists them.
    RunsRequested,
    /// The cancellation of a run was requested.
    JobCancelled,
    /// A request was denied.
    Denied,
    /// A login, or an attempt of one.
    Login,
    /// A tenant was made, changed or removed.
    TenantChanged,
    /// A user was made, changed or removed.
    UserChanged,
    /// A role was made, changed or removed.
    RoleChanged,
    /// A right was given or taken.
    GrantChanged,
    /// A key was made, changed or revoked.
    KeyChanged,
    /// A secret was changed, or the master key.
    SecretChanged,
    /// A setting of the cluster was changed.
    SettingChanged,
    /// A backup was made or read.
    Backup,
    /// A node was drained, resumed or removed.
    NodeChanged,
    /// A user asked for runs of times that have passed.
    JobBackfilled,
    /// A user asked for an ended run once more.
    RunRetried,
    /// A user marked a dead letter as seen to.
    DeadLetterAcknowledged,
    /// A user tried out a database or an alert channel.
    Tested,
    /// A user exported the definitions of jobs.
    JobsExported,
    /// A user decided about a run whose node was lost.
    RunDecided,
    /// A delivery at a hook triggered a run.
    HookDelivered,
    /// A user marked a step of a DAG run, answered an approval, or resumed a DAG run.
    StepDecided,
    /// A version of an artifact was pushed or deleted.
    ArtifactChanged,
    /// Something that this release does not know.
    Other(String),
}

impl Kind {
    /// Every kind that this release knows.
    pub const ALL: [Kind; 26] = [
        Kind::JobCreated,
        Kind::JobModified,
        Kind::JobDeleted,
        Kind::RunsEnded,
        Kind::RunsRequested,
        Kind::JobCancelled,
        Kind::Denied,
        Kind::Login,
        Kind::TenantChanged,
        Kind::UserChanged,
        Kind::RoleChanged,
        Kind::GrantChanged,
        Kind::KeyChanged,
        Kind::SecretChanged,
        Kind::SettingChanged,
        Kind::Backup,
        Kind::NodeChanged,
        Kind::JobBackfilled,
        Kind::RunRetried,
        Kind::DeadLetterAcknowledged,
        Kind::Tested,
        Kind::JobsExported,
        Kind::RunDecided,
        Kind::HookDelivered,
        Kind::StepDecided,
        Kind::ArtifactChanged,
    ];

    /// The word for it.
    pub fn name(&self) -> &str {
        match self {
            Kind::JobCreated => "JOB_CREATED",
            Kind::JobModified => "JOB_MODIFIED",
            Kind::JobDeleted => "JOB_DELETED",
            Kind::RunsEnded => "RUNS_ENDED",
            Kind::RunsRequested => "RUNS_REQUESTED",
            Kind::JobCancelled => "JOB_CANCELLED",
            Kind::Denied => "DENIED",
            Kind::Login => "LOGIN",
            Kind::TenantChanged => "TENANT_CHANGED",
            Kind::UserChanged => "USER_CHANGED",
            Kind::RoleChanged => "ROLE_CHANGED",
            Kind::GrantChanged => "GRANT_CHANGED",
            Kind::KeyChanged => "KEY_CHANGED",
            Kind::SecretChanged => "SECRET_CHANGED",
            Kind::SettingChanged => "SETTING_CHANGED",
            Kind::Backup => "BACKUP",
            Kind::NodeChanged => "NODE_CHANGED",
            Kind::JobBackfilled => "JOB_BACKFILLED",
            Kind::RunRetried => "RUN_RETRIED",
            Kind::DeadLetterAcknowledged => "DEAD_LETTER_ACKNOWLEDGED",
            Kind::Tested => "TESTED",
            Kind::JobsExported => "JOBS_EXPORTED",
            Kind::RunDecided => "RUN_DECIDED",
            Kind::HookDelivered => "HOOK_DELIVERED",
            Kind::StepDecided => "STEP_DECIDED",
            Kind::ArtifactChanged => "ARTIFACT_CHANGED",
            Kind::Other(name) => name,
        }
    }

    /// The kind of a word.
    pub fn of(name: &str) -> Self {
        let known = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        known.unwrap_or_else(|| Kind::Other(name.to_owned()))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that is recorded. The store adds when it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Tenant of the audit row. A tenant of zeros is the cluster itself.
    pub tenant: TenantId,
    /// Name of the actor.
    pub actor: String,
    /// Kind of the event.
    pub kind: Kind,
    /// Affected job.
    pub job: Option<JobId>,
    /// To which run.
    pub run: Option<RunId>,
    /// Result, in one word.
    pub outcome: String,
    /// Further details for readers of the audit; no secrets.
    pub details: String,
}

/// A row of the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it was written: later rows have larger places.
    pub place: i64,
    /// Time of the event.
    pub at: Timestamp,
    /// The event.
    pub event: Event,
    /// The node that caused it, if a node did.
    pub node: Option<NodeId>,
    /// The runs that ended or that a user asked for, as [`ended_runs`] and [`requested_runs`] read
    /// them.
    pub runs: Vec<u8>,
    /// Its number in the chain and its hash; none before it is sealed.
    pub seal: Option<Seal>,
}

/// Where a row stands in the chain of its tenant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// Its number, from 1.
    pub number: u64,
    /// Its hash, over itself and the one before it.
    pub hash: Hash,
}

impl Seal {
    /// Seal before the first row.
    pub const GENESIS: Seal = Seal { number: 0, hash: GENESIS };
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash: String = self.hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        write!(f, "{} {hash}", self.number)
    }
}

impl Record {
    /// The row as bytes, the same on every machine and in every release: each part with its length
    /// before it, so that nothing can move from one to another.
    pub fn canonical(&self) -> Vec<u8> {
        let Event { tenant, actor, kind, job, run, outcome, details } = &self.event;
        let id = |id: Option<Uuid>| id.map_or_else(Vec::new, |id| id.as_bytes().to_vec());
        let parts: [Vec<u8>; 11] = [
            self.place.to_be_bytes().to_vec(),
            tenant.0.as_bytes().to_vec(),
            self.at.as_microsecond().to_be_bytes().to_vec(),
            actor.as_bytes().to_vec(),
            kind.name().as_bytes().to_vec(),
            id(job.map(|job| job.0)),
            id(run.map(|run| run.0)),
            id(self.node.map(|node| node.0)),
            outcome.as_bytes().to_vec(),
            details.as_bytes().to_vec(),
            self.runs.clone(),
        ];
        let mut bytes = b"punctual audit 1".to_vec();
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(&part);
        }
        bytes
    }

    /// The seal of this row behind another one.
    pub fn sealed_behind(&self, before: Seal) -> Seal {
        let number = before.number + 1;
        let hash = Sha256::new()
            .chain_update(before.hash)
            .chain_update(number.to_be_bytes())
            .chain_update(self.canonical())
            .finalize();
        Seal { number, hash: hash.into() }
    }
}

/// A run of a row that lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditedRun {
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// How it ended.
    pub outcome: Outcome,
    /// The number of its last attempt; 0 when there was none.
    pub attempt: u32,
    /// When that began.
    pub started_at: Option<Timestamp>,
    /// Rows that its statement changed; none when it had no statement.
    pub rows_affected: Option<u64>,
}

/// The number of rows of a run that had no statement.
const NO_ROWS: i64 = -1;

impl AuditedRun {
    /// The bytes of one run.
    const BYTES: usize = 54;

    /// The word for it.
    pub fn kind(self) -> &'static str {
        match self.outcome {
            Outcome::Completed => "JOB_EXECUTED",
            Outcome::Cancelled => "JOB_CANCELLED",
            Outcome::Failed | Outcome::Timeout => "JOB_FAILED",
            Outcome::Skipped | Outcome::Missed => "JOB_SKIPPED",
        }
    }

    /// Adds it to a list. PostgreSQL writes the same bytes (`finish_end.sql`).
    pub fn push(self, runs: &mut Vec<u8>) {
        runs.extend_from_slice(self.run.0.as_bytes());
        runs.extend_from_slice(self.job.0.as_bytes());
        runs.extend_from_slice(&(self.outcome as u16).to_be_bytes());
        runs.extend_from_slice(&self.attempt.to_be_bytes());
        let started_at = self.started_at.map_or(0, |at| at.as_microsecond());
        runs.extend_from_slice(&started_at.to_be_bytes());
        let rows =
            self.rows_affected.map_or(NO_ROWS, |rows| i64::try_from(rows).unwrap_or(i64::MAX));
        runs.extend_from_slice(&rows.to_be_bytes());
    }
}

/// The runs of a list; none when it is damaged.
pub fn ended_runs(bytes: &[u8]) -> Option<Vec<AuditedRun>> {
    let (runs, rest) = bytes.as_chunks::<{ AuditedRun::BYTES }>();
    if !rest.is_empty() {
        return None;
    }
    let read = |bytes: &[u8; AuditedRun::BYTES]| {
        let outcome = u16::from_be_bytes([bytes[32], bytes[33]]);
        let started_at = i64::from_be_bytes(*bytes[38..46].first_chunk()?);
        Some(AuditedRun {
            run: RunId(Uuid::from_bytes(*bytes.first_chunk()?)),
            job: JobId(Uuid::from_bytes(*bytes[16..].first_chunk()?)),
            outcome: Outcome::from_number(i64::from(outcome))?,
            attempt: u32::from_be_bytes(*bytes[34..].first_chunk()?),
            started_at: Timestamp::from_microsecond(started_at).ok().filter(|_| started_at != 0),
            rows_affected: u64::try_from(i64::from_be_bytes(*bytes[46..].first_chunk()?)).ok(),
        })
    };
    runs.iter().map(read).collect()
}

/// A run that a user asked for, of a row that lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedRun {
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// How it was asked for.
    pub origin: Origin,
}

impl RequestedRun {
    /// The bytes of one run.
    const BYTES: usize = 34;

    /// The type of the event.
    pub const KIND: &str = "JOB_TRIGGERED";

    /// Adds it to a list. PostgreSQL writes the same bytes (`audit_requested.sql`).
    pub fn push(self, runs: &mut Vec<u8>) {
        runs.extend_from_slice(self.run.0.as_bytes());
        runs.extend_from_slice(self.job.0.as_bytes());
        runs.extend_from_slice(&(self.origin as u16).to_be_bytes());
    }
}

/// The requested runs of an audit row; none when the list is damaged.
pub fn requested_runs(bytes: &[u8]) -> Option<Vec<RequestedRun>> {
    let (runs, rest) = bytes.as_chunks::<{ RequestedRun::BYTES }>();
    if !rest.is_empty() {
        return None;
    }
    let read = |bytes: &[u8; RequestedRun::BYTES]| {
        Some(RequestedRun {
            run: RunId(Uuid::from_bytes(*bytes.first_chunk()?)),
            job: JobId(Uuid::from_bytes(*bytes[16..].first_chunk()?)),
            origin: Origin::from_number(i64::from(u16::from_be_bytes([bytes[32], bytes[33]])))?,
        })
    };
    runs.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_runs_is_read_as_it_was_written() {
        let at = Timestamp::from_microsecond(1_800_000_000_123_456).unwrap();
        let runs: Vec<AuditedRun> = [(Outcome::Completed, Some(at)), (Outcome::Missed, None)]
            .into_iter()
            .enumerate()
            .map(|(n, (outcome, started_at))| AuditedRun {
                run: RunId(Uuid::from_u128(n as u128)),
                job: JobId(Uuid::from_u128(7)),
                outcome,
                attempt: n as u32,
                started_at,
                rows_affected: started_at.map(|_| 7),
            })
            .collect();
        let mut bytes = Vec::new();
        for run in &runs {
            run.push(&mut bytes);
        }
        assert_eq!(ended_runs(&bytes), Some(runs));
        assert_eq!(ended_runs(&bytes[1..]), None);
        let asked = [Origin::Manual, Origin::Backfill].map(|origin| RequestedRun {
            run: RunId(Uuid::from_u128(origin as u128)),
            job: JobId(Uuid::from_u128(7)),
            origin,
        });
        let mut bytes = Vec::new();
        asked.iter().for_each(|run| run.push(&mut bytes));
        assert_eq!(requested_runs(&bytes), Some(asked.to_vec()));
        assert_eq!(requested_runs(&bytes[1..]), None);
    }

    #[test]
    fn every_kind_has_a_word() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(kind.name()), kind);
        }
    }
}
