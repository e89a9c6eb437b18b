//! Dead letters: grouped by error, started once more, or marked as seen to.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use domain::id::RunId;
use domain::text::error_fingerprint;
use engine::RunFilter;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::find;
use crate::actor::Actor;
use crate::app::App;
use crate::body::Body;
use crate::page;
use crate::problem::{ErrorBody, Problem, Result};

/// The most dead letters of one request.
const MOST: usize = 1_000;

/// Which dead letters.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadLetterBody {
    /// Their executions, at least one.
    #[schema(min_items = 1, max_items = 1000)]
    execution_ids: Vec<Uuid>,
}

/// The outcome for one of them.
#[derive(Serialize, ToSchema)]
pub struct DeadLetterItem {
    /// The dead letter.
    pub execution_id: Uuid,
    /// The run that was started in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_execution_id: Option<Uuid>,
    /// Whether it was done.
    pub ok: bool,
    /// Why it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Their outcomes.
#[derive(Serialize, ToSchema)]
pub struct DeadLetterItems {
    /// Each of them, in the order of the request.
    pub data: Vec<DeadLetterItem>,
}

/// An empty list selects no user, which no caller means.
fn checked(body: DeadLetterBody) -> Result<Vec<Uuid>> {
    match body.execution_ids.len() {
        1..=MOST => Ok(body.execution_ids),
        n => Err(Problem::invalid("execution_ids", format!("must be 1 to {MOST}, not {n}"))),
    }
}

/// Dead letters with the same error, numbers and ids aside.
#[derive(Serialize, ToSchema)]
pub struct DeadLetterGroup {
    /// The error, with `#` in place of numbers and ids.
    pub fingerprint: String,
    /// The error of the newest of them.
    pub sample: String,
    /// How many they are.
    pub count: usize,
    /// The names of their jobs and queues.
    pub jobs: Vec<String>,
    /// The times that the oldest and the newest stand for.
    pub first: Timestamp,
    /// See `first`.
    pub last: Timestamp,
    /// Their executions, newest first.
    pub execution_ids: Vec<Uuid>,
}

/// The dead letters of a tenant by their errors.
#[derive(Serialize, ToSchema)]
pub struct DeadLetterGroups {
    /// Most first.
    pub data: Vec<DeadLetterGroup>,
    /// Whether there are more dead letters than the newest 1,000, which were looked at.
    pub is_cut: bool,
}

/// Groups the newest 1,000 dead letters by their errors.
#[utoipa::path(
    get, path = "/v1/dead-letters/groups", operation_id = "group_dead_letters", tag = "executions",
    responses((status = 200, body = DeadLetterGroups), (status = 401, body = ErrorBody))
)]
pub(crate) async fn groups(State(app): State<App>, actor: Actor) -> Result<Json<DeadLetterGroups>> {
    let filter = RunFilter::dead_letters(actor.tenant);
    let engine = app.engine.by(&actor);
    let (mut groups, mut before) = (HashMap::<String, DeadLetterGroup>::new(), None);
    let mut seen = 0;
    loop {
        let page = engine.list_runs(&filter, before, page::LIMIT_MAX).await?;
        let jobs = engine.jobs_of(&page.items).await?;
        let names = engine.names_of(&page.items, jobs.iter().map(AsRef::as_ref)).await?;
        seen += page.items.len();
        for run in page.items {
            let text = run.message.as_ref().or(run.reason_text.as_ref()).or(run.error.as_ref());
            let text = text.map_or_else(|| "no reason was given".to_owned(), Clone::clone);
            let name = names.get(&(run.job, run.job_version));
            let group = groups.entry(error_fingerprint(&text)).or_insert_with_key(|fingerprint| {
                DeadLetterGroup {
                    fingerprint: fingerprint.clone(),
                    sample: text,
                    count: 0,
                    jobs: Vec::new(),
                    first: run.scheduled_for,
                    last: run.scheduled_for,
                    execution_ids: Vec::new(),
                }
            });
            group.count += 1;
            group.first = group.first.min(run.scheduled_for);
            group.last = group.last.max(run.scheduled_for);
            group.execution_ids.push(run.id.0);
            group.jobs.extend(name.filter(|name| !group.jobs.contains(name)).cloned());
        }
        before = page.next;
        if before.is_none() || seen >= MOST {
            break;
        }
    }
    let mut data: Vec<DeadLetterGroup> = groups.into_values().collect();
    data.sort_by(|a, b| (b.count, &a.fingerprint).cmp(&(a.count, &b.fingerprint)));
    Ok(Json(DeadLetterGroups { data, is_cut: before.is_some() }))
}

/// Starts dead letters once more, as new executions, and marks them as seen to.
#[utoipa::path(
    post, path = "/v1/dead-letters:redrive", operation_id = "redrive_dead_letters", tag = "executions", request_body = DeadLetterBody,
    responses((status = 200, body = DeadLetterItems))
)]
pub(crate) async fn redrive(
    State(app): State<App>,
    actor: Actor,
    Body(body): Body<DeadLetterBody>,
) -> Result<Json<DeadLetterItems>> {
    let mut data = Vec::new();
    for id in checked(body)? {
        let again = async {
            let run = find::run(&app, &actor, &id.to_string()).await?;
            Ok::<RunId, Problem>(app.engine.by(&actor).redrive(run.id).await?.id)
        };
        data.push(item(id, again.await.map(Some)));
    }
    Ok(Json(DeadLetterItems { data }))
}

/// Marks dead letters as seen to: they leave the list.
#[utoipa::path(
    post, path = "/v1/dead-letters:acknowledge", operation_id = "acknowledge_dead_letters", tag = "executions", request_body = DeadLetterBody,
    responses((status = 200, body = DeadLetterItems))
)]
pub(crate) async fn acknowledge(
    State(app): State<App>,
    actor: Actor,
    Body(body): Body<DeadLetterBody>,
) -> Result<Json<DeadLetterItems>> {
    let mut data = Vec::new();
    for id in checked(body)? {
        let seen = async {
            let run = find::run(&app, &actor, &id.to_string()).await?;
            match app.engine.by(&actor).acknowledge(&[run.id]).await?.first() {
                Some(true) => Ok(None),
                _ => Err(Problem::new(crate::problem::Code::WrongState, "it is no dead letter")),
            }
        };
        data.push(item(id, seen.await));
    }
    Ok(Json(DeadLetterItems { data }))
}

fn item(id: Uuid, answer: Result<Option<RunId>>) -> DeadLetterItem {
    let (ok, new, message) = match answer {
        Ok(new) => (true, new, None),
        Err(problem) => (false, None, Some(problem.message)),
    };
    DeadLetterItem { execution_id: id, new_execution_id: new.map(|run| run.0), ok, message }
}
