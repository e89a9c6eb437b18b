//! The metrics of a server, in the form that Prometheus reads. Names end with their unit; labels
//! never hold what callers make up.

mod jobs;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use domain::job::Job;
use domain::run::{AttemptEnd, Outcome};
use domain::slot::SlotKind;
use engine::{Activity, Counts, Operation, SlotUse, Started, StoreMetrics};
use jiff::{SignedDuration, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use self::jobs::JobMetrics;
pub use self::jobs::JobSelection;

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
struct SlotLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EndLabels {
    end: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StatementLabels {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

/// The metrics of a store operation, at hand without a look into a map.
struct OperationMetrics {
    duration: Histogram,
    errors: Counter,
}

/// Values that are read from the engine at each scrape.
pub(crate) struct Asked {
    /// How much there is of what.
    pub counts: Counts,
    /// Counters of this process.
    pub activity: Activity,
    /// Nodes with a lease.
    pub nodes: usize,
}

type Seconds = Gauge<f64, AtomicU64>;

/// Which metrics a server has besides those that it always has.
#[derive(Clone, Debug)]
pub struct MetricsOptions {
    /// The jobs that have metrics of their own.
    pub jobs: JobSelection,
    /// Whether the operations of the store are shown.
    pub store: bool,
}

impl Default for MetricsOptions {
    fn default() -> Self {
        MetricsOptions { jobs: JobSelection::default(), store: true }
    }
}

/// The metrics of a server.
pub struct Metrics {
    registry: Registry,
    of_jobs: JobMetrics,
    queue_depth: Gauge,
    running: Gauge,
    pending: Gauge,
    jobs: Gauge,
    oldest_due: Seconds,
    clock_offset: Seconds,
    nodes: Gauge,
    slots: Family<SlotLabels, Gauge>,
    slots_taken: Family<SlotLabels, Gauge>,
    dispatched: Counter,
    failed: Counter,
    dispatch_failures: Counter,
    errors: Counter,
    ticks: Counter,
    dead_letters: Counter,
    runs: Family<OutcomeLabels, Counter>,
    attempts: Family<EndLabels, Counter>,
    operations: Vec<OperationMetrics>,
    spans_exported: Counter,
    spans_dropped: Counter,
    run_latency: Histogram,
    schedule_delay: Histogram,
    requests: Family<RequestLabels, Counter>,
    request_duration: Family<RouteLabels, Histogram>,
    sql_sessions: Gauge,
    sql_connections: Family<OutcomeLabels, Counter>,
    sql_statements: Family<StatementLabels, Counter>,
}

/// A session of the SQL interface, as long as this is there.
pub(crate) struct OpenSession(Gauge);

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn request_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.000_5, 2.0, 14))
}

/// From a read out of memory to a database that has gone away.
fn operation_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.0, 17))
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

impl Metrics {
    /// Metrics that begin at zero.
    pub fn new() -> Self {
        Metrics::with(MetricsOptions::default())
    }

    /// The same with options.
    pub fn with(options: MetricsOptions) -> Self {
        let mut registry = Registry::with_prefix("punctual");
        let metrics = Metrics {
            of_jobs: JobMetrics::new(options.jobs, &mut registry),
            queue_depth: Gauge::default(),
            running: Gauge::default(),
            pending: Gauge::default(),
            jobs: Gauge::default(),
            oldest_due: Seconds::default(),
            clock_offset: Seconds::default(),
            nodes: Gauge::default(),
            slots: Family::default(),
            slots_taken: Family::default(),
            dispatched: Counter::default(),
            failed: Counter::default(),
            dispatch_failures: Counter::default(),
            errors: Counter::default(),
            ticks: Counter::default(),
            dead_letters: Counter::default(),
            runs: Family::default(),
            attempts: Family::default(),
            operations: Vec::new(),
            spans_exported: Counter::default(),
            spans_dropped: Counter::default(),
            run_latency: Histogram::new(exponential_buckets(0.001, 2.0, 22)),
            schedule_delay: Histogram::new(exponential_buckets(0.000_5, 2.0, 20)),
            requests: Family::default(),
            request_duration: Family::new_with_constructor(request_buckets),
            sql_sessions: Gauge::default(),
            sql_connections: Family::default(),
            sql_statements: Family::default(),
            registry: Registry::default(),
        };
        let m = &metrics;
        registry.register(
            "scheduler_queue_depth",
            "Due runs that no node has claimed",
            m.queue_depth.clone(),
        );
        registry.register("jobs_running", "Due runs that a node has claimed", m.running.clone());
        registry.register(
            "jobs_pending",
            "Runs that wait for their time or for other runs",
            m.pending.clone(),
        );
        registry.register("jobs", "Jobs", m.jobs.clone());
        registry.register(
            "scheduler_oldest_due_seconds",
            "How long the oldest due run has waited",
            m.oldest_due.clone(),
        );
        registry.register(
            "clock_offset_seconds",
            "How far the store's clock is ahead of this machine's",
            m.clock_offset.clone(),
        );
        registry.register("nodes", "Nodes with a valid lease", m.nodes.clone());
        registry.register("slots", "Slots of this node, by kind", m.slots.clone());
        registry.register(
            "slots_taken",
            "Occupied slots of this node, by kind",
            m.slots_taken.clone(),
        );
        registry.register(
            "scheduler_jobs_dispatched",
            "Attempts that this node started",
            m.dispatched.clone(),
        );
        registry.register(
            "jobs_failed",
            "Attempts on this node that failed, timed out or were lost",
            m.failed.clone(),
        );
        registry.register(
            "scheduler_dispatch_failures",
            "Attempts on this node that could not start",
            m.dispatch_failures.clone(),
        );
        registry.register(
            "scheduler_errors",
            "Scheduler steps of this node that failed",
            m.errors.clone(),
        );
        registry.register(
            "scheduler_ticks",
            "Runs of scheduled times that this node planned",
            m.ticks.clone(),
        );
        registry.register(
            "dead_letters",
            "Runs on this node that became dead letters",
            m.dead_letters.clone(),
        );
        registry.register(
            "runs",
            "Ended runs, and scheduled times without a run, that this node recorded, by outcome",
            m.runs.clone(),
        );
        registry.register("attempts", "Ended attempts on this node, by end", m.attempts.clone());
        registry.register("job_run_latency_seconds", "Duration of attempts", m.run_latency.clone());
        registry.register(
            "schedule_delay_seconds",
            "Delay between the due time and the start of attempts",
            m.schedule_delay.clone(),
        );
        let durations = Family::<OperationLabels, Histogram, _>::new_with_constructor(
            operation_buckets as fn() -> Histogram,
        );
        let errors = Family::<OperationLabels, Counter>::default();
        let operations = Operation::ALL.iter().map(|operation| {
            let labels = OperationLabels { operation: operation.name() };
            OperationMetrics {
                duration: durations.get_or_create_owned(&labels),
                errors: errors.get_or_create_owned(&labels),
            }
        });
        let operations = operations.collect();
        if options.store {
            registry.register(
                "store_operation_duration_seconds",
                "Duration of store operations",
                durations,
            );
            registry.register("store_errors", "Failed store operations", errors);
        }
        registry.register(
            "otlp_spans_exported",
            "Spans that the collector has accepted",
            m.spans_exported.clone(),
        );
        registry.register(
            "otlp_spans_dropped",
            "Spans that were dropped because the collector did not accept them in time",
            m.spans_dropped.clone(),
        );
        registry.register(
            "build",
            "The release",
            Info::new(BuildLabels { version: env!("CARGO_PKG_VERSION") }),
        );
        registry.register("http_requests", "HTTP requests", m.requests.clone());
        registry.register(
            "http_request_duration_seconds",
            "Duration of HTTP requests",
            m.request_duration.clone(),
        );
        registry.register("sql_sessions", "Open SQL sessions", m.sql_sessions.clone());
        registry.register(
            "sql_connections",
            "SQL connections, by outcome",
            m.sql_connections.clone(),
        );
        registry.register(
            "sql_statements",
            "SQL statements, by kind and outcome",
            m.sql_statements.clone(),
        );
        // A metric without a value is there all the same, so that a chart shows a zero.
        for end in AttemptEnd::ALL {
            drop(metrics.attempts.get_or_create(&EndLabels { end: end.name() }));
        }
        for outcome in ["admitted", "refused"] {
            drop(metrics.sql_connections.get_or_create(&OutcomeLabels { outcome }));
        }
        let questions = StatementLabels { kind: "SELECT", outcome: "done" };
        drop(metrics.sql_statements.get_or_create(&questions));
        Metrics { registry, operations, ..metrics }
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

    /// The same for the metrics of its job, if it has some.
    pub fn job_ended(&self, job: &Job, end: AttemptEnd, took: SignedDuration, at: Timestamp) {
        self.of_jobs.ended(job, end, took, at);
    }

    /// An attempt could not begin.
    pub fn could_not_begin(&self) {
        self.dispatch_failures.inc();
    }

    /// A collector took spans.
    pub fn spans_exported(&self, count: u64) {
        self.spans_exported.inc_by(count);
    }

    /// Spans were given up.
    pub fn spans_dropped(&self, count: u64) {
        self.spans_dropped.inc_by(count);
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

    /// A client connected to the SQL interface, and was admitted or refused.
    pub(crate) fn sql_connection(&self, outcome: &'static str) {
        self.sql_connections.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// A session of the SQL interface begins.
    pub(crate) fn sql_session(&self) -> OpenSession {
        self.sql_sessions.inc();
        OpenSession(self.sql_sessions.clone())
    }

    /// A statement of the SQL interface ended.
    pub(crate) fn sql_statement(&self, kind: &'static str, outcome: &'static str) {
        self.sql_statements.get_or_create(&StatementLabels { kind, outcome }).inc();
    }

    /// All metrics as text.
    pub(crate) fn render(&self, asked: &Asked, now: Timestamp) -> String {
        let Asked { counts, activity, nodes } = asked;
        let catch_up =
            |counter: &Counter, to: u64| counter.inc_by(to.saturating_sub(counter.get()));
        catch_up(&self.errors, activity.errors);
        catch_up(&self.ticks, activity.planned);
        catch_up(&self.dead_letters, activity.dead_letters);
        for (outcome, count) in Outcome::ALL.into_iter().zip(activity.ended) {
            let labels = OutcomeLabels { outcome: outcome.name() };
            catch_up(&self.runs.get_or_create(&labels), count);
        }
        self.clock_offset.set(activity.clock_offset.as_secs_f64());
        for kind in SlotKind::ALL {
            let labels = SlotLabels { kind: kind.name() };
            let SlotUse { slots, taken } = activity.slots[kind];
            self.slots.get_or_create(&labels).set(slots.into());
            self.slots_taken.get_or_create(&labels).set(taken.into());
        }
        self.nodes.set(*nodes as i64);
        self.queue_depth.set(counts.live.queued as i64);
        self.running.set(counts.live.running as i64);
        self.pending.set(counts.live.pending as i64);
        self.jobs.set(counts.jobs as i64);
        let waited =
            counts.live.oldest_due.map_or(0.0, |due| now.duration_since(due).as_secs_f64());
        self.oldest_due.set(waited.max(0.0));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl StoreMetrics for Metrics {
    fn record(&self, operation: Operation, time: Duration, is_ok: bool) {
        let metrics = &self.operations[operation as usize];
        metrics.duration.observe(time.as_secs_f64());
        if !is_ok {
            metrics.errors.inc();
        }
    }
}
