//! The agent inside of a server: the engine passes it a run, and it returns the result.

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
    pub agent: Arc<Agent>,
    /// Keeps the outputs of attempts.
    pub outputs: Outputs,
    pub metrics: Arc<Metrics>,
    pub clock: fn() -> Timestamp,
    /// Whether attempts that completed get a line in the log.
    pub logs_completed: bool,
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
        self.metrics.job_ended(&run.job, result.end, took, (self.clock)());
        self.log_end(&run, &assignment, &result, took);
        result
    }
}

impl LocalAgent {
    /// A line for each attempt that failed, and for others where the settings ask for it.
    fn log_end(
        &self,
        started: &Started,
        assignment: &Assignment,
        result: &AttemptResult,
        took: SignedDuration,
    ) {
        let late = started.started_at.duration_since(started.run.run.due_at);
        let error = result.error.as_ref().map(ToString::to_string).unwrap_or_default();
        macro_rules! log {
            ($level:ident, $message:literal) => {
                tracing::$level!(
                    job = assignment.job_name,
                    run = %assignment.run,
                    attempt = assignment.attempt,
                    end = result.end.name(),
                    error,
                    reason = result.message,
                    late_ms = late.as_millis() as i64,
                    took_ms = took.as_millis() as i64,
                    $message
                )
            };
        }
        match result.end {
            AttemptEnd::Completed if self.logs_completed => log!(info, "attempt completed"),
            AttemptEnd::Completed => log!(debug, "attempt completed"),
            AttemptEnd::Cancelled => log!(info, "attempt cancelled"),
            AttemptEnd::Timeout => log!(warn, "attempt timed out"),
            _ => log!(warn, "attempt failed"),
        }
    }
}
