//! Jobs that arrive as messages: a message to the queue `punctual.jobs` creates, changes or runs a
//! job, with the rights of its sender.
//!
//! The payload is a job as `POST /v1/jobs` takes it, or `{"run": "name", "parameters": {…}}`. A
//! message that is delivered again changes nothing: a job is found by its name, and the run of a
//! message has an id that is computed from the message.

use std::collections::HashSet;
use std::time::Duration;

use domain::id::{JobId, RunId};
use domain::job::Job;
use domain::queue::{MessageBody, Report};
use engine::{EngineError, LeasedMessage, MessageReport, Trigger};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use crate::actor::Actor;
use crate::app::App;
use crate::body::parse_value;
use crate::problem::{Code, Problem, Result};
use crate::rest::find;
use crate::rest::jobs::new_job;
use crate::rest::shape::job::JobSpec;

/// The name of the queue in every tenant that has one.
const QUEUE: &str = "punctual.jobs";

/// How often queues are looked for that were made.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How many messages are taken together, and how long to wait for them.
const BATCH: u32 = 100;
const WAIT: Duration = Duration::from_secs(20);

/// The body of a message that requests a run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunRequest {
    run: String,
    #[serde(default)]
    parameters: Option<Map<String, Value>>,
}

/// Does what messages to `punctual.jobs` ask for, until the process stops.
pub async fn take_job_requests(app: App) {
    let mut served: HashSet<JobId> = HashSet::new();
    let mut tasks: JoinSet<JobId> = JoinSet::new();
    while !app.engine.health(Duration::MAX).is_stopping {
        match app.engine.node().queues_named(QUEUE).await {
            Ok(queues) => {
                for queue in queues {
                    if served.insert(queue.id) {
                        tasks.spawn(serve(app.clone(), queue));
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "queues for job requests not read"),
        }
        let ended = tokio::time::timeout(LOOK_EVERY, async {
            match tasks.join_next().await {
                Some(ended) => ended.ok(),
                None => std::future::pending().await,
            }
        });
        if let Ok(Some(ended)) = ended.await {
            served.remove(&ended);
        }
    }
}

/// Serves one queue as its owner, until that is not possible any more.
async fn serve(app: App, queue: Job) -> JobId {
    loop {
        let owner = match app.engine.node().standing(queue.owner).await {
            Ok(Some(owner)) if owner.user.tenant == queue.tenant => Actor::from(owner.actor(None)),
            _ => return queue.id,
        };
        let engine = app.engine.by(&owner);
        let leased = engine.lease_messages(&queue.id.to_string(), BATCH, None, WAIT).await;
        let Ok((of_queue, leased)) = leased else { return queue.id };
        if leased.is_empty() && app.engine.health(Duration::MAX).is_stopping {
            return queue.id;
        }
        let mut reports = Vec::with_capacity(leased.len());
        for message in leased {
            let report = report_of(take(&app, &of_queue, &message).await);
            let (fence, output) = (message.fence, None);
            reports.push(MessageReport { message: message.id, fence, report, output });
        }
        if !reports.is_empty()
            && let Err(error) = engine.report_messages(&queue.id.to_string(), reports).await
        {
            tracing::warn!(%error, "job requests not settled, they will be delivered again");
        }
    }
}

/// The report of a request: one that cannot succeed is a dead letter.
fn report_of(taken: Result<Value>) -> Report {
    match taken {
        Ok(result) => Report::Ack { result: Some(result.to_string()) },
        Err(problem) => {
            let error = match &problem.hint {
                Some(hint) => format!("{}: {} ({hint})", problem.code.name(), problem.message),
                None => format!("{}: {}", problem.code.name(), problem.message),
            };
            match problem.code.status() {
                500.. | 429 => Report::Nack { error, delay: None },
                _ => Report::Fail { error },
            }
        }
    }
}

/// Carries out the request of a message as its sender.
async fn take(app: &App, queue: &Job, message: &LeasedMessage) -> Result<Value> {
    let payload = message.parameters.as_deref().and_then(MessageBody::from_parameters);
    let payload = payload.map(|body| body.payload.value()).unwrap_or_default();
    let sender = app.engine.node().run(message.id).await?.and_then(|run| run.requested_by);
    let unknown = || Problem::new(Code::Forbidden, "the sender of the message does not exist");
    let sender = app.engine.node().standing(sender.ok_or_else(unknown)?).await?;
    let sender = sender.filter(|sender| sender.user.tenant == queue.tenant).ok_or_else(unknown)?;
    let actor = Actor::from(sender.actor(None));
    take_as(app, &actor, message.id, payload).await
}

async fn take_as(app: &App, actor: &Actor, message: RunId, payload: Value) -> Result<Value> {
    if payload.get("run").is_some() {
        let request: RunRequest = parse_value("", payload)?;
        let parameters = request.parameters.map(|it| Value::Object(it).to_string());
        let trigger = Trigger { parameters, chosen: Some(message.0), ..Trigger::default() };
        let run = app.engine.by(actor).trigger_named(&request.run, trigger).await?;
        return Ok(json!({ "execution_id": run.id.to_string() }));
    }
    let spec: JobSpec = parse_value("", payload)?;
    let new = new_job(app, actor, &spec).await?;
    let job = match find::job_if_any(app, actor, &spec.parts.name).await? {
        Some(known) => {
            let edit = move |job: &mut Job| {
                job.definition = new.definition;
                job.state = new.state;
                Ok::<(), EngineError>(())
            };
            app.engine.by(actor).alter_job(known.id, edit).await?
        }
        None => {
            let missing = || Problem::new(Code::Internal, "the job was not made");
            let made = app.engine.by(actor).create_jobs(vec![new]).await?;
            made.into_iter().next().ok_or_else(missing)??
        }
    };
    Ok(json!({ "job_id": job.id.to_string(), "version": job.version }))
}
