//! Dead letters: started once more, or marked as seen to.

use axum::Json;
use axum::extract::State;
use domain::id::RunId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::find;
use crate::actor::Actor;
use crate::app::App;
use crate::body::Body;
use crate::problem::{Problem, Result};

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

/// What became of one of them.
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

/// What became of them.
#[derive(Serialize, ToSchema)]
pub struct DeadLetterItems {
    /// Each of them, in the order of the request.
    pub data: Vec<DeadLetterItem>,
}

/// An empty list means nobody, and nobody asks for that.
fn checked(body: DeadLetterBody) -> Result<Vec<Uuid>> {
    match body.execution_ids.len() {
        1..=MOST => Ok(body.execution_ids),
        n => Err(Problem::invalid("execution_ids", format!("must be 1 to {MOST}, not {n}"))),
    }
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
