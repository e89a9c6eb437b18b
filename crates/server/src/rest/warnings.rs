//! What may surprise about a job when it is created or changed: `warnings` over REST, notices in
//! SQL, lines on stderr at the command line.

use domain::decide::plan::PLANNER_LAG_MAX;
use domain::id::TenantId;
use domain::job::{Definition, JobState};
use domain::schedule::{Schedule, catch_up};
use jiff::{SignedDuration, Timestamp};

use crate::app::App;

/// What may surprise about a job of a tenant in this state.
pub(crate) fn warnings(
    app: &App,
    tenant: TenantId,
    definition: &Definition,
    state: JobState,
) -> Vec<String> {
    let now = app.now();
    let mut warnings: Vec<String> = match definition.when.compile(&app.zones) {
        Ok(Some(Schedule::Cron(cron))) => cron.lint(now).iter().map(ToString::to_string).collect(),
        Ok(Some(schedule @ Schedule::At(at))) if at < now && state == JobState::Enabled => {
            vec![passed(definition, &schedule, at, now)]
        }
        _ => Vec::new(),
    };
    // Nodes with labels may have another policy than this one.
    if definition.run_on.is_empty()
        && let Some(objection) = app.trials.objection(tenant, definition)
    {
        warnings.push(format!(
            "the policy of this server refuses the action, and a run of it fails without a retry: {objection}"
        ));
    }
    warnings
}

/// What becomes of a single time that has passed: the planner's own decision.
fn passed(definition: &Definition, schedule: &Schedule, at: Timestamp, now: Timestamp) -> String {
    let before = at.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(at);
    let missed_until = now.saturating_sub(PLANNER_LAG_MAX).unwrap_or(at);
    let rules = definition.catch_up_rules();
    let decision = catch_up(schedule, before, missed_until, now, &rules);
    if decision.run.contains(&at) || decision.live.contains(&at) {
        format!("{at} has passed: the job runs at once")
    } else if decision.missed.is_some() {
        format!("{at} has passed, and so has the start deadline: the run is recorded as missed")
    } else {
        format!("{at} has passed, and the job does not catch up: the run is recorded as skipped")
    }
}
