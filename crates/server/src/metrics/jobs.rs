//! Metrics of single jobs, for those that the administrator names: a team can alert on one job.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use domain::job::Job;
use domain::run::AttemptEnd;
use jiff::{SignedDuration, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The most jobs that have metrics of their own. Others are counted, and have none.
const JOBS_MAX: usize = 500;

/// Which jobs have metrics of their own. No job has, unless the settings name it or a tag of it: a
/// caller who makes up names makes up no labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSelection {
    /// Names of jobs.
    pub names: HashSet<String>,
    /// Tags of jobs.
    pub tags: HashSet<String>,
}

impl JobSelection {
    fn contains(&self, job: &Job) -> bool {
        self.names.contains(&job.name)
            || job.definition.tags.iter().any(|tag| self.tags.contains(tag))
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.tags.is_empty()
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct JobLabels {
    job: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct JobEndLabels {
    job: String,
    end: &'static str,
}

type Seconds = Gauge<f64, AtomicU64>;

/// The metrics of the jobs that are selected.
pub(super) struct JobMetrics {
    selection: JobSelection,
    known: Mutex<HashSet<String>>,
    attempts: Family<JobEndLabels, Counter>,
    duration: Family<JobLabels, Seconds>,
    last_attempt: Family<JobLabels, Seconds>,
    last_success: Family<JobLabels, Seconds>,
    left_out: Counter,
}

impl JobMetrics {
    /// Metrics that begin at nothing. Without a selection none is registered.
    pub fn new(selection: JobSelection, registry: &mut Registry) -> Self {
        let metrics = JobMetrics {
            selection,
            known: Mutex::default(),
            attempts: Family::default(),
            duration: Family::default(),
            last_attempt: Family::default(),
            last_success: Family::default(),
            left_out: Counter::default(),
        };
        if metrics.selection.is_empty() {
            return metrics;
        }
        let m = &metrics;
        registry.register(
            "job_attempts",
            "Ended attempts of selected jobs on this node, by job and end",
            m.attempts.clone(),
        );
        registry.register(
            "job_last_duration_seconds",
            "Duration of the last attempt of selected jobs on this node",
            m.duration.clone(),
        );
        registry.register(
            "job_last_end_timestamp_seconds",
            "When the last attempt of selected jobs on this node ended, since 1970",
            m.last_attempt.clone(),
        );
        registry.register(
            "job_last_success_timestamp_seconds",
            "When the last attempt of selected jobs on this node completed, since 1970",
            m.last_success.clone(),
        );
        registry.register(
            "job_metrics_left_out",
            "Attempts of selected jobs without metrics, because too many jobs are selected",
            m.left_out.clone(),
        );
        metrics
    }

    /// An attempt of a job ended.
    pub fn ended(&self, job: &Job, end: AttemptEnd, took: SignedDuration, at: Timestamp) {
        if !self.selection.contains(job) {
            return;
        }
        if !self.has_room(&job.name) {
            self.left_out.inc();
            return;
        }
        let labels = JobLabels { job: job.name.clone() };
        let at = at.as_millisecond() as f64 / 1_000.0;
        self.attempts.get_or_create(&JobEndLabels { job: job.name.clone(), end: end.name() }).inc();
        self.duration.get_or_create(&labels).set(took.as_secs_f64().max(0.0));
        self.last_attempt.get_or_create(&labels).set(at);
        if end == AttemptEnd::Completed {
            self.last_success.get_or_create(&labels).set(at);
        }
    }

    fn has_room(&self, job: &str) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.contains(job) || known.len() < JOBS_MAX && known.insert(job.to_owned())
    }
}
