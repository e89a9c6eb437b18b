//! The address at which deliveries of hooks arrive: signature, user, trigger.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use domain::access::{self, Privilege};
use domain::audit::{Event, Kind};
use domain::hook::{HookBody, HookScheme, HookSecret};
use domain::id::ObjectId;
use domain::object::{Object, ObjectKind};
use domain::secret::SecretPlace;
use engine::{Answer, EngineError, RequestState, Trigger};
use serde_json::Value;
use uuid::Uuid;

use super::objects::body_of;
use super::verbs::Accepted;
use crate::actor::Actor;
use crate::app::App;
use crate::body::read;
use crate::delivery::{self, Delivery};
use crate::limit::{Caller, Limits, Rate};
use crate::problem::{Code, ErrorBody, Problem, Result};
use crate::scram;

const KIND: ObjectKind = ObjectKind::Hook;

/// Takes a delivery: checks its signature and triggers the job of the hook. It needs no key.
#[utoipa::path(
    post, path = "/v1/hooks/{hook}", operation_id = "deliver", tag = "hooks",
    request_body(content = Value, description = "Any JSON, or nothing.", content_type = "application/json"),
    params(
        ("hook" = String, Path, description = "The hook's id."),
        ("webhook-id" = Option<String>, Header, description = "STANDARD: names the delivery."),
        ("webhook-timestamp" = Option<String>, Header, description = "STANDARD: when it was sent, in seconds since 1970."),
        ("webhook-signature" = Option<String>, Header, description = "STANDARD: v1 and the signature in base64."),
        ("X-Hub-Signature-256" = Option<String>, Header, description = "GITHUB: sha256= and the signature in hexadecimal."),
    ),
    responses(
        (status = 202, body = Accepted), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
        (status = 404, body = ErrorBody), (status = 409, body = ErrorBody), (status = 413, body = ErrorBody),
        (status = 422, body = ErrorBody), (status = 429, body = ErrorBody), (status = 503, body = ErrorBody),
    ),
    security(())
)]
pub(crate) async fn deliver(
    State(app): State<App>,
    Extension(limits): Extension<Arc<Limits>>,
    Path(hook): Path<String>,
    request: Request,
) -> Result<Response> {
    let caller = request.extensions().get::<Caller>().copied();
    let headers = request.headers().clone();
    let body = read(request.into_body(), app.options.body_bytes_max).await?;
    let object = match hook.parse::<ObjectId>() {
        Ok(id) => app.engine.node().object(id).await?,
        Err(_) => None,
    };
    let object = object.filter(|object| object.kind == KIND);
    let checked = check(&app, object.as_ref(), &headers, &body).await?;
    // An unknown hook and an invalid signature get the same answer.
    let (Some((hook, id)), Some(object)) = (checked, object.as_ref()) else {
        note_refusal(&app, object.as_ref()).await?;
        return Err(limits.refuse(caller, app.options.failure_rate, app.now()));
    };
    let per_second = hook.requests_per_second;
    limits.admit_delivery(object.id.0, Rate { per_second, burst: per_second }, app.now())?;
    let actor = actor_of(&app, object, &hook).await?;
    trigger_once(&app, &actor, object, &hook, id, &body).await
}

/// The hook of a delivery whose signature is right, and the id of the delivery.
async fn check(
    app: &App,
    object: Option<&Object>,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Option<(HookBody, Option<String>)>> {
    let now = app.now();
    let hook: Option<HookBody> = object.map(body_of).transpose()?;
    let scheme = hook.as_ref().map_or(HookScheme::Standard, |hook| hook.scheme);
    let mac = |key: &[u8], message: &[u8]| scram::hmac(key, message).to_vec();
    let delivery = delivery::read(scheme, headers, body, now, mac);
    // Without a hook, a secret is looked for as well: the answer takes as long.
    let nothing = SecretPlace::of_object(domain::id::TenantId::CLUSTER, ObjectId(Uuid::nil()), "");
    let places: Vec<SecretPlace> = match (object, &hook) {
        (Some(object), Some(hook)) => {
            let secrets = hook.accepted_secrets(now);
            let place =
                |it: &HookSecret| SecretPlace::of_object(object.tenant, object.id, &it.name);
            secrets.map(place).collect()
        }
        _ => vec![nothing],
    };
    let message: &[u8] = delivery.as_ref().map_or(b"", |delivery| &delivery.message);
    let mut is_right = false;
    for place in &places {
        let code = app.secrets.mac(place, message).await?;
        let shows = |delivery: &Delivery| code.as_ref().is_some_and(|code| delivery.shows(code));
        is_right |= delivery.as_ref().is_some_and(shows);
    }
    let hook = hook.filter(|hook| is_right && !hook.disabled);
    Ok(hook.map(|hook| (hook, delivery.and_then(|delivery| delivery.id))))
}

/// Tells the audit of a delivery with a wrong signature; many of them are counted together.
async fn note_refusal(app: &App, object: Option<&Object>) -> Result<()> {
    let Some(object) = object else { return Ok(()) };
    let event = Event {
        tenant: object.tenant,
        actor: format!("hook {}", object.name),
        kind: Kind::Denied,
        job: None,
        run: None,
        outcome: "DENIED".to_owned(),
        details: serde_json::json!({
            "hook": object.name, "problem": "the signature is wrong, or the hook is disabled"
        })
        .to_string(),
    };
    app.engine.node().refused(event, "POST /v1/hooks/{hook}").await?;
    Ok(())
}

/// The user of a hook, under the hook's name: the audit records both.
async fn actor_of(app: &App, object: &Object, hook: &HookBody) -> Result<Actor> {
    let standing = app.engine.node().standing(hook.user).await?;
    let gone = || {
        let text =
            "the user who made this hook is gone or disabled; change the hook as another user";
        Problem::new(Code::Forbidden, text)
    };
    let standing = standing.filter(|standing| !standing.user.disabled).ok_or_else(gone)?;
    let actor = standing.actor(None);
    let is_cluster = actor.privileges.has(Privilege::AdministerCluster);
    if actor.tenant != object.tenant && !is_cluster {
        return Err(gone());
    }
    let name = format!("{} (hook {})", actor.name, object.name);
    Ok(Actor::from(access::Actor { name, tenant: object.tenant, ..actor }))
}

/// Triggers the job of a hook. A delivery that comes again gets the answer that it got before.
async fn trigger_once(
    app: &App,
    actor: &Actor,
    object: &Object,
    hook: &HookBody,
    id: Option<String>,
    body: &[u8],
) -> Result<Response> {
    let engine = app.engine.by(actor);
    let key = id.map(|id| format!("hook:{}:{}", object.id, delivery::hash(id.as_bytes())));
    if let Some(key) = &key {
        match engine.begin_request(key, delivery::hash(body).as_bytes()).await? {
            RequestState::New => {}
            RequestState::Replay(answer) => {
                let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::ACCEPTED);
                let kind = [(header::CONTENT_TYPE, "application/json")];
                return Ok((status, kind, answer.body).into_response());
            }
            RequestState::Conflict => {
                let text = "a delivery with this id had another body";
                return Err(Problem::new(Code::IdempotencyKeyReused, text));
            }
            RequestState::InProgress => {
                let text = "this delivery is being answered; send it again in a moment";
                return Err(Problem::new(Code::IdempotencyKeyInUse, text));
            }
        }
    }
    let triggered = trigger(app, actor, (&object.name, hook), body).await;
    let Some(key) = key else {
        return Ok((StatusCode::ACCEPTED, Json(triggered?)).into_response());
    };
    match triggered {
        Ok(accepted) => {
            let body = serde_json::to_vec(&accepted).unwrap_or_default();
            let status = StatusCode::ACCEPTED.as_u16();
            let answer = Answer { status, head: String::new(), body };
            engine.finish_request(&key, Some(&answer)).await?;
            Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
        }
        Err(problem) => {
            // Nothing was triggered: the delivery may come again.
            engine.finish_request(&key, None).await?;
            Err(problem)
        }
    }
}

async fn trigger(
    app: &App,
    actor: &Actor,
    (name, hook): (&str, &HookBody),
    body: &[u8],
) -> Result<Accepted> {
    let parameters = match body.is_empty() || hook.parameters.is_empty() {
        true => None,
        false => hook.map(&crate::body::parse::<Value>(body)?),
    };
    let trigger = Trigger { parameters, ..Trigger::default() };
    let run = app.engine.by(actor).trigger(hook.job, trigger, None).await;
    let run = run.map_err(|error| match error {
        EngineError::NotFound(_) => Problem::no_job(format_args!("{}", hook.job)),
        error => error.into(),
    })?;
    let event = Event {
        tenant: actor.tenant,
        actor: actor.name.clone(),
        kind: Kind::HookDelivered,
        job: Some(run.job),
        run: Some(run.id),
        outcome: "ACCEPTED".to_owned(),
        details: serde_json::json!({ "hook": name }).to_string(),
    };
    app.engine.node().record(event).await?;
    Ok(Accepted { execution_id: run.id.0, job_id: run.job.0, scheduled_time: run.scheduled_for })
}
