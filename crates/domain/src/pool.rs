//! Pools: named limits across the jobs of a tenant.
//!
//! A run of a job with a pool takes a place of the pool when it begins and has it until its attempt
//! ends. A run that finds no place waits in line: higher priority first, then by due time. A heavy
//! run at the head of the line is not overtaken by lighter ones, so that it begins at last.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::id::{JobId, RunId, TenantId};

/// The greatest size of a pool.
pub const POOL_SIZE_MAX: u32 = 1_000_000;

/// How long a run that was called to take its place holds back the runs behind it in line. A run
/// that does not arrive in this time (no node has a slot for it) lets others pass.
pub const CALL_HOLDS: SignedDuration = SignedDuration::from_secs(5);

/// The pool of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolUse {
    /// The name of the pool.
    pub name: String,
    /// How much of its size a run takes.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: u32,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_one(weight: &u32) -> bool {
    *weight == 1
}

/// The stored properties of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolBody {
    /// The total weight of the runs that have a place.
    pub size: u32,
    /// A description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl PoolBody {
    /// The properties of a stored pool; none if they cannot be read.
    pub fn from_json(body: &str) -> Option<Self> {
        serde_json::from_str(body).ok()
    }

    /// Checks the size.
    pub fn check(&self) -> Result<(), String> {
        match self.size {
            1..=POOL_SIZE_MAX => Ok(()),
            size => Err(format!("a pool has a size of 1 to {POOL_SIZE_MAX}, not {size}")),
        }
    }
}

/// A run that asks for a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceRequest {
    /// The run.
    pub run: RunId,
    /// Its claim generation: the place ends with the claim.
    pub turn: u32,
    /// Its job.
    pub job: JobId,
    /// The tenant of job and pool.
    pub tenant: TenantId,
    /// The pool and the weight.
    pub pool: PoolUse,
    /// The priority of the run.
    pub priority: u8,
    /// When the run was due.
    pub due_at: Timestamp,
}

impl PlaceRequest {
    /// The order in which requests are served.
    pub fn order(&self) -> (std::cmp::Reverse<u8>, Timestamp, RunId) {
        (std::cmp::Reverse(self.priority), self.due_at, self.run)
    }
}

/// A run that has a place of a pool or waits for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRun {
    /// The name of the pool.
    pub pool: String,
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// How much it takes.
    pub weight: u32,
    /// Whether it has a place; otherwise it is in line.
    pub has_place: bool,
    /// Since when it has the place or waits.
    pub since: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_weights() {
        for (size, is_good) in
            [(0, false), (1, true), (POOL_SIZE_MAX, true), (POOL_SIZE_MAX + 1, false)]
        {
            assert_eq!(PoolBody { size, description: None }.check().is_ok(), is_good, "{size}");
        }
        let pool: PoolUse = serde_json::from_str(r#"{"name":"warehouse"}"#).unwrap();
        assert_eq!(pool, PoolUse { name: "warehouse".to_owned(), weight: 1 });
        assert_eq!(serde_json::to_string(&pool).unwrap(), r#"{"name":"warehouse"}"#);
    }
}
