//! Calls of an agent.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use agent::artifact::FetchError;
use agent::output::Stream;
use agent_protocol::shape::{
    AskArtifact, AskDatabase, AskSecret, CAPACITY_MAX, CHUNK_BYTES_MAX, Chunk, Done, Ended, Hello,
    Item, POLL_MAX, Poll, RESULTS_BYTES_MAX, Renewed, RequestedValue, Results, SessionCall,
    Settled, Skills, StartedAttempt, WORK_MAX, Welcome, Work,
};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use domain::action::{Action, Assignment};
use domain::exact_number;
use domain::id::TenantId;
use domain::job::Job;
use domain::run::{AttemptResult, ErrorCode};
use domain::slot::PerSlot;
use engine::{
    AgentLimits, Applied, Carried, CarriedRun, NodeInfo, RemoteAttempt, Renewal, Started,
};
use futures_util::stream::unfold;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::enrol::require_version;
use super::session::Session;
use super::{AgentEndpoint, Call, KnownAgent, read_call};
use crate::app::App;
use crate::body::{Params, read};
use crate::problem::{Code, Problem, Result};

/// The longest name of a release.
const VERSION_CHARS_MAX: usize = 64;

/// The longest message about an attempt, in characters.
const MESSAGE_CHARS_MAX: usize = 16 << 10;

type Endpoint = Extension<Arc<AgentEndpoint>>;
type Who = Extension<KnownAgent>;

fn std_duration(duration: SignedDuration) -> Duration {
    duration.try_into().unwrap_or_default()
}

/// The assignment that an agent gets for a run.
pub fn assignment(started: &Started) -> std::result::Result<Assignment, String> {
    let (run, job) = (&started.run, &started.job);
    let definition = &job.definition;
    let parameters = match run.run.parameters.as_deref() {
        Some(text) => exact_number::parse(text)
            .map_err(|error| format!("the parameters are not a JSON object: {error}"))?,
        None => Default::default(),
    };
    let begin = started.started_at;
    Ok(Assignment {
        run: run.grant.run,
        job: job.id,
        job_name: job.name.clone(),
        tenant: job.tenant,
        attempt: run.number(),
        fence: started.token,
        scheduled_for: run.run.scheduled_for,
        deadline: begin.saturating_add(definition.timeout).unwrap_or(Timestamp::MAX),
        grace_period: definition.grace_period,
        shard: started.shard.as_ref().map_or_else(String::new, |shard| shard.name.clone()),
        run_as: definition.run_as.clone(),
        parameters,
        action: definition.action.clone(),
        effect: started.effect.clone(),
    })
}

/// Whether an agent can execute a job that any node could claim. It cannot start commands, nor find
/// databases, that are in the settings of the servers and not in its own.
fn fits(skills: &Skills, of_servers: &BTreeSet<String>, job: &Job) -> bool {
    let finds = |name: Option<&str>| match name {
        None => skills.default_database,
        Some(name) => {
            // Those of the settings are for one tenant. All others are asked for at the server.
            let is_theirs = job.tenant == TenantId::DEFAULT && of_servers.contains(name);
            !is_theirs || skills.databases.contains(name)
        }
    };
    match &job.definition.action {
        Action::Sql(action) => finds(action.database.as_deref()),
        Action::Procedure(action) => finds(action.database.as_deref()),
        Action::External(_) => skills.commands,
        Action::Artifact(_) => skills.artifacts,
        _ => true,
    }
}

/// An agent comes, or comes back.
pub(super) async fn hello(
    State(app): State<App>,
    Extension(endpoint): Endpoint,
    Extension(agent): Who,
    Call(hello): Call<Hello>,
) -> Result<Json<Welcome>> {
    require_version(hello.protocol)?;
    if hello.labels != agent.labels {
        let text = format!(
            "they are {:?} since the agent joined, and {:?} now; join anew to change them",
            agent.labels.to_string(),
            hello.labels.to_string()
        );
        return Err(Problem::invalid("labels", text));
    }
    for (field, count, least) in
        [("capacity.process", hello.capacity.process, 1), ("capacity.http", hello.capacity.http, 0)]
    {
        if !(least..=CAPACITY_MAX).contains(&count) {
            return Err(Problem::invalid(field, format!("must be {least} to {CAPACITY_MAX}")));
        }
    }
    if endpoint.is_replaced(&agent.name, hello.instance) {
        let text = format!(
            "it came later and has the key of the agent {:?}, too, and each agent needs one of its own",
            agent.name
        );
        return Err(Problem::new(Code::AgentReplaced, text));
    }
    let info = NodeInfo {
        name: agent.name.clone(),
        version: hello.version.chars().take(VERSION_CHARS_MAX).collect(),
        labels: agent.labels,
        capacity: hello.capacity,
        ..NodeInfo::default()
    };
    let begun = hello.begun.into_iter();
    let begun = begun.map(|StartedAttempt { grant, started_at, token, slot }| {
        (grant, CarriedRun { started_at, token, slot })
    });
    let begun = begun.collect();
    let carried = hello.node.map(|node| Carried { node, begun });
    let databases = app.options.databases.keys().cloned().collect();
    let can = move |job: &Job| fits(&hello.skills, &databases, job);
    let stay = AgentLimits { only_placed: hello.exclusive, can: Arc::new(can) };
    let Some(proxy) = endpoint.engine.host(info, stay, carried).await? else {
        let text = "the lease of that node has ended; its runs are handed on";
        return Err(Problem::new(Code::LeaseLost, text));
    };
    let [lease, renew_every, stop_before] = endpoint.engine.lease();
    let session = Arc::new(Session::new(Uuid::from_u128((app.random)()), hello.instance, proxy));
    endpoint.begin(&agent.name, Arc::clone(&session), std_duration(lease - stop_before));
    let (session, node) = (session.id, session.proxy.id());
    Ok(Json(Welcome { session, node, lease, renew_every, stop_before }))
}

/// Hands out work as it comes.
pub(super) async fn poll(
    State(app): State<App>,
    Extension(endpoint): Endpoint,
    Extension(agent): Who,
    Call(poll): Call<Poll>,
) -> Result<Json<Work>> {
    let session = endpoint.session(&agent, poll.session)?;
    session.hear();
    let has: HashSet<_> = poll.has.into_iter().collect();
    let free = PerSlot::from_fn(|slot| poll.free[slot].min(WORK_MAX));
    let begun = session.proxy.work(poll.number, free, &has, std_duration(POLL_MAX)).await;
    let mut items = Vec::with_capacity(begun.len());
    for run in begun {
        app.metrics.began(&run);
        let (grant, started_at) = (run.run.grant, run.started_at);
        match assignment(&run) {
            Ok(assignment) => {
                let timeout = run.job.definition.timeout;
                items.push(Item { grant, started_at, timeout, assignment });
            }
            Err(problem) => {
                app.metrics.could_not_begin();
                let code = ErrorCode::Other("BAD_PARAMETERS".into());
                let result = AttemptResult::failed(code, problem);
                let (took, token) = (SignedDuration::ZERO, Some(run.token));
                let ended = RemoteAttempt { grant, token, started_at, took, result };
                session.proxy.settle(&[ended]).await?;
            }
        }
    }
    Ok(Json(Work { items }))
}

/// The agent lives.
pub(super) async fn renew(
    Extension(endpoint): Endpoint,
    Extension(agent): Who,
    Call(word): Call<SessionCall>,
) -> Result<Json<Renewed>> {
    let session = endpoint.session(&agent, word.session)?;
    session.hear();
    match session.proxy.renew().await? {
        Some(Renewal { cancel: stop, over, draining }) => {
            Ok(Json(Renewed { stop, over, draining }))
        }
        None => {
            endpoint.finish(&agent.name, &session);
            let text = "the lease has ended; its runs are handed on";
            Err(Problem::new(Code::LeaseLost, text))
        }
    }
}

/// Validates and truncates an agent's report of the end of an attempt.
fn checked(ended: Ended) -> RemoteAttempt {
    let json = |text: Option<String>| {
        text.filter(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
    };
    let Ended { grant, token, started_at, took, mut result, .. } = ended;
    if let Some((end, _)) = result.message.char_indices().nth(MESSAGE_CHARS_MAX) {
        result.message.truncate(end);
    }
    let (value, details) = (json(result.result.take()), json(result.details.take()));
    RemoteAttempt {
        grant,
        token: Some(token),
        started_at,
        took,
        result: AttemptResult { result: value, details, ..result },
    }
}

/// Records what has ended, if the agent still has the right to it.
pub(super) async fn results(
    State(app): State<App>,
    Extension(endpoint): Endpoint,
    Extension(agent): Who,
    request: Request,
) -> Result<Json<Settled>> {
    let results: Results = read_call(request, RESULTS_BYTES_MAX).await?;
    let mut ended: Vec<RemoteAttempt> = results.ended.into_iter().map(checked).collect();
    let session = endpoint.sessions().get(&agent.name).cloned();
    let applied = match session.filter(|session| session.proxy.id() == results.node) {
        Some(session) => {
            for ended in &mut ended {
                let output = session.outputs().remove(&ended.grant);
                let Some((output, _)) = output else { continue };
                match output.finish().await {
                    Ok(output) => ended.result.output = output,
                    Err(problem) => {
                        tracing::warn!(run = %ended.grant.run, problem, "some output was not kept");
                    }
                }
            }
            session.proxy.settle(&ended).await?
        }
        None => endpoint.engine.settle_late(results.node, &agent.name, &ended).await?,
    };
    for (ended, applied) in ended.iter().zip(&applied) {
        if *applied == Applied::Stale {
            let (run, fence) = (ended.grant.run, ended.grant.fence);
            tracing::warn!(agent = agent.name, %run, fence, "refused a result: the agent has no right to the run any more");
        } else {
            app.metrics.ended(ended.result.end, ended.took);
        }
    }
    let accepted = applied.iter().map(|applied| *applied != Applied::Stale).collect();
    Ok(Json(Settled { accepted }))
}

fn no_run(run: domain::id::RunId) -> Problem {
    Problem::no_execution(run)
}

/// The stretches of a piece of output.
fn stretches(mut body: &[u8]) -> Option<Vec<(Stream, &[u8])>> {
    let mut all = Vec::new();
    while let Some((stream, rest)) = body.split_first() {
        let stream = match stream {
            0 => Stream::Stdout,
            1 => Stream::Stderr,
            _ => return None,
        };
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let (text, rest) = rest.split_at_checked(length)?;
        all.push((stream, text));
        body = rest;
    }
    Some(all)
}

/// Keeps what an attempt says where the outputs of this server are.
pub(super) async fn output(
    State(app): State<App>,
    Extension(endpoint): Endpoint,
    Extension(agent): Who,
    Params(chunk): Params<Chunk>,
    request: Request,
) -> Result<Json<Done>> {
    let session = endpoint.session(&agent, chunk.session)?;
    let body = read(request.into_body(), CHUNK_BYTES_MAX).await?;
    let wrong = |text: &str| Problem::new(Code::InvalidRequest, text);
    let stretches = stretches(&body).ok_or_else(|| wrong("the stretches of output are torn"))?;
    let grant = domain::run::Grant { run: chunk.run, fence: chunk.fence, turn: chunk.turn };
    let started = session.proxy.sent(grant).ok_or_else(|| no_run(chunk.run))?;
    let mut outputs = session.outputs();
    let open = || (app.outputs.open(grant.run, started.run.number()), 0);
    let (output, position) = outputs.entry(grant).or_insert_with(open);
    if *position != chunk.position {
        let text = format!("the output goes on at {position}, not at {}", chunk.position);
        return Err(Problem::field(Code::InvalidRequest, "position", text));
    }
    for (stream, text) in stretches {
        output.write(stream, text);
        *position += text.len() as u64;
    }
    Ok(Json(Done {}))
}

/// Whether a run may read a secret: the action of the run names it. The address of a database in
/// the agent's own settings may name one, too.
fn names(assignment: &Assignment, name: &str) -> bool {
    if matches!(assignment.action, Action::Sql(_) | Action::Procedure(_)) {
        return true;
    }
    let reference = format!("${{secrets.{name}}}");
    serde_json::to_string(&assignment.action).is_ok_and(|text| text.contains(&reference))
}

/// Tells the value of a secret for a run that the agent was given.
pub(super) async fn secret(
    Extension(endpoint): Endpoint,
    Extension(agent): Who,
    Call(ask): Call<AskSecret>,
) -> Result<Json<RequestedValue>> {
    let session = endpoint.session(&agent, ask.session)?;
    let started = session.proxy.sent_run(ask.run, ask.fence).ok_or_else(|| no_run(ask.run))?;
    let assignment =
        assignment(&started).map_err(|problem| Problem::new(Code::WrongState, problem))?;
    if !names(&assignment, &ask.name) {
        let text = format!("run {} does not use the secret {:?}", ask.run, ask.name);
        return Err(Problem::new(Code::Forbidden, text));
    }
    match endpoint.secrets.get(&assignment, &ask.name).await {
        Ok(value) => Ok(Json(RequestedValue { value })),
        Err(error) => Err(Problem::new(Code::WrongState, error.to_string())),
    }
}

/// Tells the address of a database for a run that the agent was given.
pub(super) async fn database(
    Extension(endpoint): Endpoint,
    Extension(agent): Who,
    Call(ask): Call<AskDatabase>,
) -> Result<Json<RequestedValue>> {
    let session = endpoint.session(&agent, ask.session)?;
    let is_meant = |started: &Started| match &started.job.definition.action {
        Action::Sql(action) => action.database.as_deref() == Some(&ask.name),
        Action::Procedure(action) => action.database.as_deref() == Some(&ask.name),
        _ => false,
    };
    if !session.proxy.uses(ask.tenant, &is_meant) {
        let text = format!("no run of this agent uses the database {:?}", ask.name);
        return Err(Problem::new(Code::Forbidden, text));
    }
    match endpoint.databases.url(ask.tenant, &ask.name).await {
        Ok(value) => Ok(Json(RequestedValue { value })),
        Err(problem) => Err(Problem::new(Code::WrongState, problem)),
    }
}

/// Tells the digest of the newest version of the artifact of a run that the agent was given.
pub(super) async fn artifact_digest(
    Extension(endpoint): Endpoint,
    Extension(agent): Who,
    Call(ask): Call<AskArtifact>,
) -> Result<Json<RequestedValue>> {
    let assignment = artifact_run(&endpoint, &agent, &ask)?;
    match endpoint.artifacts.newest(&assignment).await {
        Ok(digest) => Ok(Json(RequestedValue { value: Some(digest.to_string()) })),
        Err(FetchError::Unknown(_)) => Ok(Json(RequestedValue { value: None })),
        Err(error) => Err(no_content(error)),
    }
}

/// Sends the artifact of a run that the agent was given.
pub(super) async fn artifact(
    Extension(endpoint): Endpoint,
    Extension(agent): Who,
    Call(ask): Call<AskArtifact>,
) -> Result<Response> {
    let assignment = artifact_run(&endpoint, &agent, &ask)?;
    let missing = || Problem::field(Code::InvalidRequest, "digest", "is missing");
    let digest = ask.digest.ok_or_else(missing)?;
    let chunks = endpoint.artifacts.open(&assignment, digest).await.map_err(no_content)?;
    // A body that cannot be read to its end breaks off, and the agent compares the digest.
    let chunks = unfold(chunks, |mut chunks| async move {
        match chunks.next().await {
            Ok(None) => None,
            Ok(Some(chunk)) => Some((Ok(chunk), chunks)),
            Err(error) => Some((Err(error), chunks)),
        }
    });
    Ok(Body::from_stream(chunks).into_response())
}

/// The run that an agent asks for its artifact, which it must have been given.
fn artifact_run(
    endpoint: &AgentEndpoint,
    agent: &KnownAgent,
    ask: &AskArtifact,
) -> Result<Assignment> {
    let session = endpoint.session(agent, ask.session)?;
    let started = session.proxy.sent_run(ask.run, ask.fence).ok_or_else(|| no_run(ask.run))?;
    assignment(&started).map_err(|problem| Problem::new(Code::WrongState, problem))
}

fn no_content(error: FetchError) -> Problem {
    match error {
        FetchError::Unknown(text) => Problem::new(Code::NotFound, text),
        FetchError::Unavailable(text) => Problem::new(Code::SchedulerUnavailable, text),
    }
}

/// The agent takes nothing new.
pub(super) async fn drain(
    Extension(endpoint): Endpoint,
    Extension(agent): Who,
    Call(word): Call<SessionCall>,
) -> Result<Json<Done>> {
    endpoint.session(&agent, word.session)?.proxy.drain();
    Ok(Json(Done {}))
}

/// The agent leaves; what it has goes back.
pub(super) async fn leave(
    Extension(endpoint): Endpoint,
    Extension(agent): Who,
    Call(word): Call<SessionCall>,
) -> Result<Json<Done>> {
    let session = endpoint.session(&agent, word.session)?;
    let left = session.proxy.leave().await;
    endpoint.finish(&agent.name, &session);
    left?;
    Ok(Json(Done {}))
}

#[cfg(test)]
mod tests {
    use domain::action::SqlAction;
    use domain::id::{JobId, UserId};
    use domain::job::{Definition, JobState};

    use super::*;

    fn job(tenant: TenantId, action: Action) -> Job {
        Job {
            id: JobId(Uuid::nil()),
            tenant,
            owner: UserId::ADMIN,
            name: "job".into(),
            version: 1,
            state: JobState::Enabled,
            definition: Definition { action, ..Definition::default() },
            next_run: None,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        }
    }

    fn sql(database: Option<&str>) -> Action {
        Action::Sql(SqlAction { sql: "SELECT 1".into(), database: database.map(str::to_owned) })
    }

    #[test]
    fn an_agent_gets_what_it_can_do() {
        let none = Skills::default();
        let some = Skills {
            commands: true,
            databases: BTreeSet::from(["sales".to_owned()]),
            default_database: true,
            artifacts: true,
        };
        let other = TenantId(Uuid::from_u128(9));
        let read = |action: &str| serde_json::from_str::<Action>(action).unwrap();
        let http = || read(r#"{"type":"HTTP","endpoint":"https://example.com"}"#);
        let command = || read(r#"{"type":"EXTERNAL","command":"/bin/true"}"#);
        let artifact =
            || read(r#"{"type":"ARTIFACT","artifact_id":"a@1","entrypoint":"main:run"}"#);
        let of_servers = BTreeSet::from(["main".to_owned(), "sales".to_owned()]);
        for (tenant, action, by_none, by_some) in [
            (TenantId::DEFAULT, Action::Noop, true, true),
            (TenantId::DEFAULT, http(), true, true),
            (TenantId::DEFAULT, command(), false, true),
            (TenantId::DEFAULT, artifact(), false, true),
            (TenantId::DEFAULT, sql(None), false, true),
            (TenantId::DEFAULT, sql(Some("main")), false, false),
            (TenantId::DEFAULT, sql(Some("sales")), false, true),
            // One that was made over REST, or none at all: the server knows the run.
            (TenantId::DEFAULT, sql(Some("crm")), true, true),
            (other, sql(Some("main")), true, true),
        ] {
            let job = job(tenant, action);
            assert_eq!(fits(&none, &of_servers, &job), by_none, "{:?}", job.definition.action);
            assert_eq!(fits(&some, &of_servers, &job), by_some, "{:?}", job.definition.action);
        }
    }
}
