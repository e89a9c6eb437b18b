//! The switch that pauses all jobs of the tenant, or of the cluster.

use axum::Json;
use axum::extract::State;
use domain::pause::{Pause, REASON_BYTES_MAX};
use domain::schedule::{Zone, parse_instant};
use engine::PauseView;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::blackouts::ScopeName;
use super::shape::mirror::CatchUp;
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, Params};
use crate::problem::{ErrorBody, Problem, Result};

/// A pause to begin.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseSpec {
    /// The reason, which explanations of jobs that do not run show.
    #[schema(min_length = 1, max_length = 1000, example = "database migration")]
    pub reason: String,
    /// When it ends by itself: an instant; when RESUME ALL ends it if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The scope of the pause; `TENANT` when absent.
    #[serde(default)]
    #[schema(required = false)]
    pub scope: ScopeName,
}

/// A pause of all jobs.
#[derive(Debug, Serialize, ToSchema)]
pub struct PauseShown {
    /// The scope of the pause.
    pub scope: ScopeName,
    /// The reason.
    pub reason: String,
    /// The user who asked for it.
    pub requested_by: String,
    /// Since when.
    pub since: Timestamp,
    /// When it ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether it has ended and its jobs are being resumed.
    pub is_ending: bool,
}

/// The pauses that hold.
#[derive(Debug, Serialize, ToSchema)]
pub struct Pauses {
    /// Whether the jobs of the tenant are paused.
    pub is_paused: bool,
    /// The pauses of the tenant and of the cluster.
    pub pauses: Vec<PauseShown>,
}

/// How many jobs a request was about.
#[derive(Debug, Serialize, ToSchema)]
pub struct PausedJobs {
    /// How many jobs were paused or resumed.
    pub jobs: usize,
}

/// Which pause ends, and how.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ResumeParams {
    /// The scope of the resume; `TENANT` when absent.
    scope: Option<ScopeName>,
    /// The policy for the times of the pause; the policy of each job when absent.
    catch_up: Option<CatchUp>,
}

impl PauseSpec {
    pub(crate) fn pause(&self, app: &App, zone: &Zone) -> Result<Pause> {
        let reason = self.reason.trim();
        if reason.is_empty() || reason.len() > REASON_BYTES_MAX {
            let text = format!("a pause has a reason of 1 to {REASON_BYTES_MAX} bytes");
            return Err(Problem::invalid("reason", text));
        }
        let until = match &self.until {
            None => None,
            Some(text) => Some(
                parse_instant(text, zone, &app.zones)
                    .map_err(|error| Problem::invalid("until", error.to_string()))?,
            ),
        };
        // The engine writes the name of the actor.
        let by = String::new();
        Ok(Pause { reason: reason.to_owned(), until, by, has_ended: false, catch_up: None })
    }
}

impl From<&PauseView> for PauseShown {
    fn from(view: &PauseView) -> Self {
        PauseShown {
            scope: ScopeName::from_tenant(view.tenant),
            reason: view.pause.reason.clone(),
            requested_by: view.pause.by.clone(),
            since: view.since,
            until: view.pause.until,
            is_ending: view.pause.has_ended,
        }
    }
}

/// Shows whether all jobs are paused.
#[utoipa::path(
    get, path = "/v1/pause", operation_id = "get_pause", tag = "calendars",
    responses((status = 200, body = Pauses))
)]
pub(crate) async fn get(State(app): State<App>, actor: Actor) -> Result<Json<Pauses>> {
    let pauses = app.engine.by(&actor).pauses().await?;
    let is_paused = pauses.iter().any(|view| !view.pause.has_ended);
    Ok(Json(Pauses { is_paused, pauses: pauses.iter().map(PauseShown::from).collect() }))
}

/// Pauses all jobs. After the answer no tick starts until the pause ends; then each job decides
/// about the times of the pause by its catch-up policy.
#[utoipa::path(
    put, path = "/v1/pause", operation_id = "pause_all", tag = "calendars", request_body = PauseSpec,
    responses((status = 200, body = PausedJobs), (status = 503, body = ErrorBody))
)]
pub(crate) async fn put(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<PauseSpec>,
) -> Result<Json<PausedJobs>> {
    let pause = spec.pause(&app, &Zone::UTC)?;
    let jobs = app.engine.by(&actor).pause_all(spec.scope.into(), &pause).await?;
    Ok(Json(PausedJobs { jobs }))
}

/// Ends the pause of all jobs. Jobs that were paused by themselves stay paused.
#[utoipa::path(
    delete, path = "/v1/pause", operation_id = "resume_all", tag = "calendars", params(ResumeParams),
    responses((status = 200, body = PausedJobs), (status = 409, body = ErrorBody), (status = 503, body = ErrorBody))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Params(params): Params<ResumeParams>,
) -> Result<Json<PausedJobs>> {
    let scope = params.scope.unwrap_or_default().into();
    let catch_up = params.catch_up.map(Into::into);
    let jobs = app.engine.by(&actor).resume_all(scope, catch_up).await?;
    Ok(Json(PausedJobs { jobs }))
}
