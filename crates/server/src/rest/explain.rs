//! Why a job did or did not run at a time.

use axum::Json;
use axum::extract::{Path, State};
use domain::decide::explain::{Explanation, Obstacle, Verdict};
use domain::decide::overview;
use domain::job::{DependsOn, Overlap};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::find;
use crate::actor::Actor;
use crate::app::App;
use crate::body::Params;
use crate::problem::{ErrorBody, Result};

/// Which time.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExplainParams {
    /// The time in question, past or to come; the present when absent, with an overview of the job.
    at: Option<Timestamp>,
}

/// Why a job did or did not run at a time.
#[derive(Serialize, ToSchema)]
pub struct Explained {
    /// The time in question.
    pub at: Timestamp,
    /// What became of it, as a word: `RECORDED`, `PLANNED`, `LATE`, `NOT_SCHEDULED`,
    /// `NO_SCHEDULE`, `OFF`, `BEFORE_JOB`, `BEFORE_CHANGE` or `FORGOTTEN`.
    pub verdict: &'static str,
    /// What became of it, as a sentence.
    pub message: String,
    /// The execution that stands for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<Uuid>,
    /// What stands between a time to come and its run.
    pub obstacles: Vec<String>,
    /// How far the parts of its execution have come, or of the last one before it, if it was
    /// divided: first how many, then what is known of those that did not complete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub parts: Vec<String>,
    /// The time of the schedule before it.
    pub previous_time: Option<Timestamp>,
    /// The time of the schedule after it.
    pub next_time: Option<Timestamp>,
    /// Local times between those two that do not happen, because clocks jump over them.
    pub skipped: Vec<String>,
    /// How the job is doing, if no time was named: `health`, `now`, `last`, `skipped`, `state`,
    /// `next`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub overview: Vec<OverviewLine>,
}

/// A line about how a job is doing.
#[derive(Serialize, ToSchema)]
pub struct OverviewLine {
    /// What it is about: `health`, `now`, `last`, `skipped`, `state` or `next`.
    pub aspect: &'static str,
    /// The time that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The line.
    pub text: String,
}

impl Explained {
    fn of(explanation: Explanation) -> Self {
        let execution_id = match &explanation.verdict {
            Verdict::Recorded(record) => Some(record.id.0),
            _ => None,
        };
        let skipped = explanation.skipped.iter().map(|range| match range.count {
            1 => range.first.to_string(),
            n => format!("{n} times from {} to {}", range.first, range.last),
        });
        Explained {
            at: explanation.at,
            verdict: explanation.verdict.name(),
            message: explanation.verdict.to_string(),
            execution_id,
            obstacles: explanation.obstacles.iter().map(sentence).collect(),
            parts: explanation.division.map(|it| it.sentences()).unwrap_or_default(),
            previous_time: explanation.before,
            next_time: explanation.after,
            skipped: skipped.collect(),
            overview: Vec::new(),
        }
    }
}

/// An obstacle in words.
pub(crate) fn sentence(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::Paused => "the job is paused".to_owned(),
        Obstacle::Active(overlap, active) => {
            let then = match overlap {
                Overlap::Allow => "it runs beside them",
                Overlap::Skip => "it is skipped unless they end before",
                Overlap::Queue => "it waits for them",
                Overlap::CancelPrevious => "they are cancelled",
            };
            format!("{active} earlier runs are active: {then}")
        }
        Obstacle::DependsOn(upstream) => {
            let how = match upstream.on {
                DependsOn::Success => "well",
                DependsOn::Completion => "in any way",
                DependsOn::Failure => "badly",
            };
            let last = match upstream.last {
                Some((outcome, at)) => format!("it ended last as {outcome} at {at}"),
                None => "it has not ended yet".to_owned(),
            };
            format!("{} must have ended {how}: {last}", upstream.name)
        }
        Obstacle::NoLeader => "no node leads".to_owned(),
        Obstacle::NoNode(labels) if labels.is_empty() => {
            "the node that leads executes nothing".to_owned()
        }
        Obstacle::NoNode(labels) => format!("no node that takes runs has the labels {labels}"),
        Obstacle::Quorum(quorum) => format!(
            "{} of {} acknowledgements ({} schedulers)",
            quorum.acknowledged,
            quorum.needed(),
            quorum.schedulers
        ),
    }
}

/// Says why a job did or did not run at a time, or what is to be expected of a time to come.
#[utoipa::path(
    get, path = "/v1/jobs/{job_id}/explain", operation_id = "explain_job", tag = "jobs",
    params(("job_id" = String, Path, description = "The job's id or name."), ExplainParams),
    responses((status = 200, body = Explained), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody))
)]
pub(crate) async fn explain(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    Params(params): Params<ExplainParams>,
) -> Result<Json<Explained>> {
    let job = find::job(&app, &actor, &job).await?;
    let engine = app.engine.by(&actor);
    let at = params.at.unwrap_or_else(|| app.now());
    let mut explained = Explained::of(engine.explain(job.id, at).await?);
    if params.at.is_none() {
        let (lines, obstacles) = engine.overview(job.id).await?;
        explained.obstacles = obstacles.iter().map(sentence).collect();
        let shown = |line: overview::Line| OverviewLine {
            aspect: line.aspect.name(),
            at: line.at,
            text: line.text,
        };
        explained.overview = lines.into_iter().map(shown).collect();
    }
    Ok(Json(explained))
}
