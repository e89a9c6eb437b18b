//! Settings and environment of an engine.

use std::sync::Arc;

use domain::cluster::fingerprint;
use domain::id::NodeId;
use domain::schedule::Zones;
use domain::slot::PerSlot;
use jiff::{SignedDuration, Timestamp};
use store::NodeInfo;

use crate::start_log::StartLog;
use crate::tracer::Tracer;

/// Default of the number of endpoints that a node calls at the same time.
pub const MAX_HTTP_CALLS: u32 = 4_096;

/// The numbers of a node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Properties that the node reports.
    pub info: NodeInfo,
    /// How many runs execute at the same time, calls of endpoints not counted.
    pub max_concurrent_jobs: u32,
    /// How many endpoints are called at the same time.
    pub max_http_calls: u32,
    /// How many runs of one job may be under way at a time if the job allows runs to overlap and
    /// has no limit of its own.
    pub max_runs_per_job: u32,
    /// Whether the node takes only runs with a placement request for its labels.
    pub only_placed: bool,
    /// How many due runs one tenant may hold at a time, on all nodes together.
    pub tenant_max_concurrent: Option<u32>,
    /// The database of SQL jobs of the tenant `default` that name none.
    pub default_database: Option<String>,
    /// Upper limit of the timeout of an attempt, for all jobs.
    pub job_timeout_max: Option<SignedDuration>,
    /// Jobs that are due within this time are planned now.
    pub look_ahead: SignedDuration,
    /// With more jobs than this, each scheduler plans a share of them ahead.
    pub planning_buckets_above: u32,
    /// Runs that are due within this time are claimed now and start from memory.
    pub prepare_ahead: SignedDuration,
    /// How many runs are prepared at the same time.
    pub prepare_max: u32,
    /// Duration of the lease: how long a node that misses heartbeats keeps its runs.
    pub lease: SignedDuration,
    /// How long a worker that does not poll keeps the messages of its session.
    pub worker_lease: SignedDuration,
    /// How often the lease is renewed.
    pub renew_every: SignedDuration,
    /// A node that could not renew stops its work this long before its lease ends.
    pub stop_before_lease_end: SignedDuration,
    /// A node whose clock is further away from the store's plans and claims nothing. None for a
    /// store that uses the clock of the same machine: there, no other node could do better, and a
    /// clock that was set back must not stop everything until it has caught up.
    pub clock_offset_max: Option<SignedDuration>,
    /// How often the node tries to claim when there is no hint.
    pub poll_every: SignedDuration,
    /// Items that one call to the store carries at most.
    pub batch_max: u32,
    /// Days that history is kept.
    pub retention_days: u32,
    /// Days that failed runs are kept.
    pub failed_retention_days: u32,
    /// Days that the audit is kept.
    pub audit_retention_days: u32,
}

impl Settings {
    /// Settings that every node of a cluster should have, as JSON. Settings about the capacity of a
    /// machine are not among them.
    pub fn policy(&self) -> String {
        let most = self.tenant_max_concurrent.map_or("null".to_owned(), |most| most.to_string());
        let longest =
            self.job_timeout_max.map_or("null".to_owned(), |longest| format!("\"{longest}\""));
        let [look_ahead, lease, renew, poll] =
            [self.look_ahead, self.lease, self.renew_every, self.poll_every]
                .map(|duration| format!("\"{duration}\""));
        let fields = [
            ("audit_retention_days", self.audit_retention_days.to_string()),
            ("planning_buckets_above", self.planning_buckets_above.to_string()),
            ("failed_retention_days", self.failed_retention_days.to_string()),
            ("job_timeout_max", longest),
            ("lease", lease),
            ("look_ahead", look_ahead),
            ("max_runs_per_job", self.max_runs_per_job.to_string()),
            ("poll_every", poll),
            ("renew_every", renew),
            ("retention_days", self.retention_days.to_string()),
            ("tenant_max_concurrent", most),
        ];
        let fields = fields.map(|(name, value)| format!("\"{name}\":{value}"));
        format!("{{{}}}", fields.join(","))
    }

    /// The slots of each kind.
    pub fn slots(&self) -> PerSlot<u32> {
        PerSlot { process: self.max_concurrent_jobs, http: self.max_http_calls }
    }

    /// Properties that the node reports, including those that follow from its settings.
    pub fn node_info(&self) -> NodeInfo {
        NodeInfo {
            capacity: self.slots(),
            settings_hash: fingerprint(&self.policy()),
            ..self.info.clone()
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            info: NodeInfo {
                version: env!("CARGO_PKG_VERSION").into(),
                ..NodeInfo::named("punctual")
            },
            max_concurrent_jobs: 64,
            max_http_calls: MAX_HTTP_CALLS,
            max_runs_per_job: 16,
            only_placed: false,
            tenant_max_concurrent: None,
            default_database: None,
            job_timeout_max: None,
            look_ahead: SignedDuration::from_secs(120),
            planning_buckets_above: 100_000,
            prepare_ahead: SignedDuration::from_secs(3),
            prepare_max: 20_000,
            lease: SignedDuration::from_secs(10),
            worker_lease: SignedDuration::from_secs(20),
            renew_every: SignedDuration::from_secs(3),
            stop_before_lease_end: SignedDuration::from_secs(2),
            clock_offset_max: Some(SignedDuration::from_secs(10)),
            poll_every: SignedDuration::from_secs(1),
            batch_max: 1_000,
            retention_days: 30,
            failed_retention_days: 90,
            audit_retention_days: 365,
        }
    }
}

/// Dependencies that an engine cannot make by itself: the time, randomness, time zones, observers.
#[derive(Clone)]
pub struct Env {
    /// The wall clock of this machine, which may be set at any moment.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// A monotonic clock: only differences have a meaning.
    pub steady: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// 128 bits that do not repeat.
    pub random: Arc<dyn Fn() -> u128 + Send + Sync>,
    /// The time-zone databases.
    pub zones: Zones,
    /// The tracer of single runs, if there is one.
    pub tracer: Option<Arc<dyn Tracer>>,
    /// The start log for the successor of this process, if there is one.
    pub start_log: Option<Arc<dyn StartLog>>,
}

impl Env {
    /// The present.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// A node that has not been there before.
    pub fn new_node(&self) -> NodeId {
        NodeId(
            uuid::Builder::from_unix_timestamp_millis(
                self.now().as_millisecond().max(0) as u64,
                &(self.random)().to_be_bytes()[..10].try_into().unwrap_or([0; 10]),
            )
            .into_uuid(),
        )
    }
}
