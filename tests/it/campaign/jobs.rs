//! The jobs of a campaign, and the times at which each of them is due.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::endpoint::Endpoint;

/// The use of a job in the campaign, and the promises that are checked with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nothing but its policies.
    Steady,
    /// Takes longer than its interval, or nearly so.
    Slow,
    /// `ON LOST FAIL`: at most one call a run.
    AtMostOnce,
    /// Its body gets a new version again and again.
    Edited,
    /// Paused and resumed.
    Paused,
    /// Its endpoint never answers.
    Hostile,
    /// Executed by the leader of a cluster.
    LeaderOnly,
    /// Only run by hand.
    Manual,
}

#[derive(Clone, Debug)]
pub struct CampaignJob {
    pub name: String,
    pub role: Role,
    /// Seconds between two ticks.
    pub every: i64,
    pub catch_up: &'static str,
    pub overlap: &'static str,
    /// How long the endpoint takes to answer; none: it never does.
    pub answer_ms: Option<u64>,
    /// The first tick.
    pub starts_at: Timestamp,
}

impl CampaignJob {
    /// Its ticks up to `end`.
    pub fn ticks(&self, end: Timestamp) -> Vec<Timestamp> {
        if self.role == Role::Manual {
            return Vec::new();
        }
        let step = SignedDuration::from_secs(self.every);
        std::iter::successors(Some(self.starts_at), |at| Some(*at + step))
            .take_while(|at| *at <= end)
            .collect()
    }

    /// Whether two of its runs never execute at the same time.
    pub fn is_serial(&self) -> bool {
        self.overlap != "ALLOW"
    }

    /// Its payload.
    pub fn payload(&self, endpoint: &Endpoint, version: u64) -> Value {
        json!({"endpoint": endpoint.url(self.answer_ms), "body": {"version": version}})
    }

    /// Its definition for REST.
    pub fn spec(&self, endpoint: &Endpoint) -> Value {
        let mut spec = json!({
            "name": self.name, "catch_up": self.catch_up, "overlap": self.overlap,
            "max_catch_up": 1000, "payload": self.payload(endpoint, 1),
            "retry_config": {"max_attempts": 3, "backoff_seconds": 1},
        });
        match self.role {
            Role::Manual => spec["job_type"] = json!("MANUAL"),
            _ => {
                spec["job_type"] = json!("INTERVAL");
                spec["interval_seconds"] = json!(self.every);
                spec["starts_at"] = json!(self.starts_at.to_string());
            }
        }
        match self.role {
            Role::AtMostOnce => {
                spec["on_lost"] = json!("FAIL");
                spec["retry_config"] = json!({"max_attempts": 1});
            }
            Role::Hostile => {
                spec["timeout_seconds"] = json!(60);
                spec["retry_config"] = json!({"max_attempts": 1});
            }
            Role::LeaderOnly => spec["class"] = json!("LEADER_ONLY"),
            _ => {}
        }
        spec
    }
}

/// All jobs, with their first ticks at `starts_at`.
pub fn jobs(starts_at: Timestamp, has_leader: bool) -> Vec<CampaignJob> {
    let job = |name: &str, role, every, catch_up, overlap, answer_ms| CampaignJob {
        name: name.to_owned(),
        role,
        every,
        catch_up,
        overlap,
        answer_ms,
        starts_at,
    };
    let mut jobs = Vec::new();
    for (i, catch_up) in ["NONE", "LAST", "ALL"].into_iter().enumerate() {
        for (j, overlap) in ["SKIP", "ALLOW", "QUEUE"].into_iter().enumerate() {
            let name = format!("{catch_up}-{overlap}").to_lowercase();
            // Queued runs must be able to catch up with the schedule.
            let every = if overlap == "QUEUE" { 2 } else { 1 };
            let answer_ms = Some(20 + 40 * (i + j) as u64);
            jobs.push(job(&name, Role::Steady, every, catch_up, overlap, answer_ms));
        }
    }
    jobs.extend([
        job("slow-skip", Role::Slow, 1, "NONE", "SKIP", Some(1_500)),
        job("slow-queue", Role::Slow, 2, "LAST", "QUEUE", Some(900)),
        job("slow-allow", Role::Slow, 1, "ALL", "ALLOW", Some(2_500)),
        job("once-skip", Role::AtMostOnce, 1, "LAST", "SKIP", Some(300)),
        job("once-allow", Role::AtMostOnce, 1, "ALL", "ALLOW", Some(600)),
        job("edited-allow", Role::Edited, 1, "ALL", "ALLOW", Some(30)),
        job("edited-queue", Role::Edited, 2, "LAST", "QUEUE", Some(30)),
        job("paused-none", Role::Paused, 1, "NONE", "ALLOW", Some(30)),
        job("paused-last", Role::Paused, 1, "LAST", "SKIP", Some(30)),
        job("paused-all", Role::Paused, 1, "ALL", "QUEUE", Some(30)),
        job("hostile", Role::Hostile, 1, "NONE", "ALLOW", None),
        job("manual", Role::Manual, 1, "NONE", "SKIP", Some(100)),
    ]);
    if has_leader {
        jobs.push(job("leader-only", Role::LeaderOnly, 1, "ALL", "ALLOW", Some(30)));
    }
    jobs
}
