//! The figures of a server, in the form that Prometheus reads. Names end with their unit; labels
//! never hold what callers make up.

use std::sync::atomic::AtomicU64;

use domain::run::AttemptEnd;
use engine::{Activity, Counts, Started};
use jiff::{SignedDuration, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    route: String,
    status: u32,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabels {
    route: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EndLabels {
    end: &'static str,
}

type Seconds = Gauge<f64, AtomicU64>;

/// The figures of a server.
pub struct Metrics {
    registry: Registry,
    queue_depth: Gauge,
    running: Gauge,
    pending: Gauge,
    jobs: Gauge,
    oldest_due: Seconds,
    dispatched: Counter,
    failed: Counter,
    dispatch_failures: Counter,
    errors: Counter,
    ticks: Counter,
    attempts: Family<EndLabels, Counter>,
    run_latency: Histogram,
    schedule_delay: Histogram,
    requests: Family<RequestLabels, Counter>,
    request_duration: Family<RouteLabels, Histogram>,
}

fn request_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.000_5, 2.0, 14))
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

impl Metrics {
    /// Figures that begin at nothing.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("punctual");
        let metrics = Metrics {
            queue_depth: Gauge::default(),
            running: Gauge::default(),
            pending: Gauge::default(),
            jobs: Gauge::default(),
            oldest_due: Seconds::default(),
            dispatched: Counter::default(),
            failed: Counter::default(),
            dispatch_failures: Counter::default(),
            errors: Counter::default(),
            ticks: Counter::default(),
            attempts: Family::default(),
            run_latency: Histogram::new(exponential_buckets(0.001, 2.0, 22)),
            schedule_delay: Histogram::new(exponential_buckets(0.000_5, 2.0, 20)),
            requests: Family::default(),
            request_duration: Family::new_with_constructor(request_buckets),
            registry: Registry::default(),
        };
        let m = &metrics;
        registry.register(
            "scheduler_queue_depth",
            "Runs that are due and that nobody has taken",
            m.queue_depth.clone(),
        );
        registry.register("jobs_running", "Runs that a node holds", m.running.clone());
        registry.register(
            "jobs_pending",
            "Runs that wait for their time or for other runs",
            m.pending.clone(),
        );
        registry.register("jobs", "Jobs that are not deleted", m.jobs.clone());
        registry.register(
            "scheduler_oldest_due_seconds",
            "How long the oldest due run has waited",
            m.oldest_due.clone(),
        );
        registry.register(
            "scheduler_jobs_dispatched",
            "Attempts that this node began",
            m.dispatched.clone(),
        );
        registry.register(
            "jobs_failed",
            "Attempts on this node that failed, timed out or were lost",
            m.failed.clone(),
        );
        registry.register(
            "scheduler_dispatch_failures",
            "Attempts on this node that could not begin",
            m.dispatch_failures.clone(),
        );
        registry.register(
            "scheduler_errors",
            "Steps of this node that met an error",
            m.errors.clone(),
        );
        registry.register(
            "scheduler_ticks",
            "Runs of nominal times that this node planned",
            m.ticks.clone(),
        );
        registry.register(
            "attempts",
            "Attempts on this node by how they ended",
            m.attempts.clone(),
        );
        registry.register(
            "job_run_latency_seconds",
            "How long attempts took",
            m.run_latency.clone(),
        );
        registry.register(
            "schedule_delay_seconds",
            "How much later than they were due attempts began",
            m.schedule_delay.clone(),
        );
        registry.register("http_requests", "Requests", m.requests.clone());
        registry.register(
            "http_request_duration_seconds",
            "How long requests took",
            m.request_duration.clone(),
        );
        Metrics { registry, ..metrics }
    }

    /// An attempt begins.
    pub fn began(&self, started: &Started) {
        self.dispatched.inc();
        let late = started.started_at.duration_since(started.run.run.due_at);
        self.schedule_delay.observe(late.as_secs_f64().max(0.0));
    }

    /// An attempt ended.
    pub fn ended(&self, end: AttemptEnd, took: SignedDuration) {
        self.attempts.get_or_create(&EndLabels { end: end.name() }).inc();
        self.run_latency.observe(took.as_secs_f64().max(0.0));
        if matches!(end, AttemptEnd::Failed | AttemptEnd::Timeout | AttemptEnd::Lost) {
            self.failed.inc();
        }
    }

    /// An attempt could not begin.
    pub fn could_not_begin(&self) {
        self.dispatch_failures.inc();
    }

    /// A request was answered.
    pub(crate) fn answered(&self, method: &str, route: &str, status: u16, took: SignedDuration) {
        let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
        let method = if known.contains(&method) { method } else { "other" };
        let labels = RequestLabels {
            method: method.to_owned(),
            route: route.to_owned(),
            status: status.into(),
        };
        self.requests.get_or_create(&labels).inc();
        let labels = RouteLabels { route: route.to_owned() };
        self.request_duration.get_or_create(&labels).observe(took.as_secs_f64().max(0.0));
    }

    /// All figures as text.
    pub(crate) fn render(&self, counts: Counts, activity: Activity, now: Timestamp) -> String {
        let catch_up =
            |counter: &Counter, to: u64| counter.inc_by(to.saturating_sub(counter.get()));
        catch_up(&self.errors, activity.errors);
        catch_up(&self.ticks, activity.planned);
        self.queue_depth.set(counts.queued as i64);
        self.running.set(counts.held as i64);
        self.pending.set(counts.pending as i64);
        self.jobs.set(counts.jobs as i64);
        let waited = counts.oldest_due.map_or(0.0, |due| now.duration_since(due).as_secs_f64());
        self.oldest_due.set(waited.max(0.0));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
