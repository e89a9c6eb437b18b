//! The agent inside of a server: the engine hands it a run, it hands back a result.

use std::sync::Arc;

use agent::Agent;
use agent::output::Outputs;
use domain::action::Assignment;
use domain::run::{AttemptEnd, AttemptResult, ErrorCode};
use engine::{Executor, Started, Stop};
use jiff::{SignedDuration, Timestamp};
use server::{Metrics, assignment};

/// Carries out the runs of this process.
pub struct LocalAgent {
    /// What does the work.
    pub agent: Arc<Agent>,
    /// Where what it says is kept.
    pub outputs: Outputs,
    /// The figures.
    pub metrics: Arc<Metrics>,
    /// The present.
    pub clock: fn() -> Timestamp,
}

impl Executor for LocalAgent {
    async fn execute(&self, run: Started, stop: Stop) -> AttemptResult {
        self.metrics.began(&run);
        let assignment = match assignment(&run) {
            Ok(assignment) => assignment,
            Err(problem) => {
                self.metrics.could_not_begin();
                return AttemptResult::failed(ErrorCode::Other("BAD_PARAMETERS".into()), problem);
            }
        };
        let began = (self.clock)();
        let stop = agent::Stop::new(stop.into_requests());
        let output = self.outputs.open(assignment.run, assignment.attempt);
        let result = self.agent.perform(&assignment, output, stop).await;
        let took = (self.clock)().duration_since(began);
        self.metrics.ended(result.end, took);
        log_end(&run, &assignment, &result, took);
        result
    }
}

/// A line for each attempt; those that did not complete are worth more.
fn log_end(
    started: &Started,
    assignment: &Assignment,
    result: &AttemptResult,
    took: SignedDuration,
) {
    let late = started.started_at.duration_since(started.run.run.due_at);
    macro_rules! log {
        ($level:ident) => {
            tracing::$level!(
                run = %assignment.run,
                attempt = assignment.attempt,
                job = assignment.job_name,
                end = result.end.name(),
                late_ms = late.as_millis() as i64,
                took_ms = took.as_millis() as i64,
                said = result.message,
                "an attempt ended"
            )
        };
    }
    match result.end {
        AttemptEnd::Completed => log!(debug),
        _ => log!(info),
    }
}
