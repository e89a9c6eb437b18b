//! The audit log, and whether its chain of hashes is intact.

use std::collections::{HashMap, HashSet};

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::Response;
use domain::audit::{
    AuditedRun, KeptHead, Kind, Record, RequestedRun, Seal, ended_runs, requested_runs,
};
use domain::id::{JobId, TenantId, UserId};
use engine::{AuditFilter, Verified};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::find;
use crate::actor::Actor;
use crate::app::App;
use crate::body::{OptionalBody, Params};
use crate::page::{List, bad_cursor, cursor, limit, words};
use crate::problem::{Code, ErrorBody, Problem, Result};

/// Rows that one look at the store reads.
const ROWS: u32 = 100;

/// The most looks for one page: what is rare is found in short pages.
const LOOKS: u32 = 20;

/// Something that was done.
#[derive(Clone, Serialize, ToSchema)]
pub struct AuditEvent {
    /// When it was recorded.
    pub at: Timestamp,
    /// The kind of event: `JOB_CREATED`, `JOB_MODIFIED`, `JOB_DELETED`, `JOB_EXECUTED`, `JOB_FAILED`,
    /// `JOB_CANCELLED`, `JOB_SKIPPED`, `DENIED`, `LOGIN`, `TENANT_CHANGED`, `USER_CHANGED`,
    /// `ROLE_CHANGED`, `GRANT_CHANGED`, `KEY_CHANGED`, `SECRET_CHANGED`, `SETTING_CHANGED`,
    /// `BACKUP`, `NODE_CHANGED`, `JOB_TRIGGERED`, `JOB_BACKFILLED`, `RUN_RETRIED`,
    /// `DEAD_LETTER_ACKNOWLEDGED`, `TESTED`, `JOBS_EXPORTED`,
    /// `STEP_DECIDED` or `ARTIFACT_CHANGED`.
    pub event_type: String,
    /// The actor; empty for runs of the schedule.
    pub actor: String,
    /// The job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<Uuid>,
    /// The name of the job; absent when it was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
    /// The user who created the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_creator_id: Option<Uuid>,
    /// The execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<Uuid>,
    /// The node that did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<Uuid>,
    /// The result.
    pub outcome: String,
    /// The last attempt of the execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// When that began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Rows that its statement changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_affected: Option<u64>,
    /// Details of the event.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub details: String,
    /// Number of its row in the audit chain; null before it is sealed, about a second later.
    pub number: Option<u64>,
}

impl AuditEvent {
    /// The events of a row: one, or one for each run that it lists.
    pub(crate) fn from_row(row: Record) -> Vec<Self> {
        let number = row.seal.map(|seal| seal.number);
        let event = AuditEvent {
            at: row.at,
            event_type: row.event.kind.name().to_owned(),
            actor: row.event.actor,
            job_id: row.event.job.map(|job| job.0),
            job_name: None,
            job_creator_id: None,
            execution_id: row.event.run.map(|run| run.0),
            worker_id: row.node.map(|node| node.0),
            outcome: row.event.outcome,
            attempt: None,
            started_at: None,
            rows_affected: None,
            details: row.event.details,
            number,
        };
        let ended = |run: AuditedRun| AuditEvent {
            event_type: run.kind().to_owned(),
            actor: String::new(),
            job_id: Some(run.job.0),
            execution_id: Some(run.run.0),
            outcome: run.outcome.name().to_owned(),
            attempt: Some(run.attempt).filter(|attempt| *attempt > 0),
            started_at: run.started_at,
            rows_affected: run.rows_affected,
            details: String::new(),
            ..event.clone()
        };
        let requested = |run: RequestedRun| AuditEvent {
            event_type: RequestedRun::KIND.to_owned(),
            job_id: Some(run.job.0),
            execution_id: Some(run.run.0),
            details: serde_json::json!({ "origin": run.origin }).to_string(),
            ..event.clone()
        };
        let listed = match row.event.kind {
            Kind::RunsEnded => {
                ended_runs(&row.runs).map(|runs| runs.into_iter().map(ended).collect())
            }
            Kind::RunsRequested => {
                requested_runs(&row.runs).map(|runs| runs.into_iter().map(requested).collect())
            }
            _ => None,
        };
        // A list that cannot be read was damaged; `verify` says where.
        listed.unwrap_or_else(|| vec![event])
    }

    /// Fills in who created the jobs of some events.
    pub(crate) fn name_creators(events: &mut [Self], creators: &HashMap<JobId, UserId>) {
        for event in events {
            let creator = event.job_id.and_then(|job| creators.get(&JobId(job)));
            event.job_creator_id = creator.map(|creator| creator.0);
        }
    }

    /// The jobs of some events, each once.
    pub(crate) fn jobs(events: &[Self]) -> Vec<JobId> {
        let jobs: HashSet<Uuid> = events.iter().filter_map(|event| event.job_id).collect();
        jobs.into_iter().map(JobId).collect()
    }
}

/// Which events.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct AuditParams {
    /// Only these types, with commas between them.
    event_type: Option<String>,
    /// Only those of a job, by its id or its name. A job that is gone is found by its id.
    job: Option<String>,
    /// Only changes by this user.
    actor: Option<String>,
    /// Only from this time on.
    since: Option<Timestamp>,
    /// Only before this time.
    until: Option<Timestamp>,
    /// `tenant` (the default), or `cluster`: what concerns no tenant.
    #[param(pattern = "^(tenant|cluster)$")]
    scope: Option<String>,
    /// The most items of a page: 1 to 500, 50 by default.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// Where the page begins: `next_cursor` of the page before.
    cursor: Option<String>,
}

/// The chain to verify.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct VerifyParams {
    /// `tenant` (the default), or `cluster`: what concerns no tenant.
    #[param(pattern = "^(tenant|cluster)$")]
    scope: Option<String>,
    /// An earlier head that the chain must contain: number, hash and time of an earlier head, as
    /// `12:ab…@2026-01-01T00:00:00Z`. It finds a chain that was cut off at its end or wiped.
    #[param(
        pattern = "^[0-9]{1,18}:[0-9a-fA-F]{64}(@[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?Z)?$"
    )]
    head: Option<String>,
}

/// The same, for those who would rather not have it in the address.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields, default)]
pub struct VerifyRequest {
    /// `tenant` (the default), or `cluster`: what concerns no tenant.
    #[schema(pattern = "^(tenant|cluster)$")]
    scope: Option<String>,
    /// An earlier head that the chain must contain: number, hash and time of an earlier head, as
    /// `12:ab…@2026-01-01T00:00:00Z`.
    #[schema(
        pattern = "^[0-9]{1,18}:[0-9a-fA-F]{64}(@[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?Z)?$"
    )]
    head: Option<String>,
}

/// The result of a verification of the chain.
#[derive(Serialize, ToSchema)]
pub struct Verification {
    /// Whether every row is as it was sealed.
    pub valid: bool,
    /// Rows that are.
    pub rows: u64,
    /// The last row that was forgotten by age; 0 when none was.
    pub anchor: u64,
    /// The last row that is as it was sealed.
    pub head: u64,
    /// Its hash. Keep it elsewhere, with the number and the time: a chain that was cut off at its
    /// end ends with another one.
    pub head_hash: String,
    /// When it was written; null when there is no row.
    pub head_at: Option<Timestamp>,
    /// The first row that is not as it was sealed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_bad: Option<BadRow>,
}

/// A row that is not as it was sealed.
#[derive(Serialize, ToSchema)]
pub struct BadRow {
    /// Its number.
    pub number: u64,
    /// The number of the last row that is lost with it; the same when it is one row.
    pub until: u64,
    /// The problem.
    pub problem: String,
}

fn tenant(actor: &Actor, scope: Option<&str>) -> Result<TenantId> {
    match scope {
        None | Some("tenant") => Ok(actor.tenant),
        Some("cluster") => Ok(TenantId::CLUSTER),
        Some(other) => {
            let text = format!("{other:?} is not one of tenant, cluster");
            Err(Problem::field(Code::InvalidRequest, "scope", text))
        }
    }
}

/// Event types and the kinds of rows that hold them.
fn types() -> Vec<(String, Vec<Kind>)> {
    let mut types: Vec<(String, Vec<Kind>)> = Kind::ALL
        .into_iter()
        .filter(|kind| !matches!(kind, Kind::RunsEnded | Kind::RunsRequested))
        .map(|kind| (kind.name().to_owned(), vec![kind]))
        .collect();
    for name in ["JOB_EXECUTED", "JOB_FAILED", "JOB_CANCELLED", "JOB_SKIPPED"] {
        match types.iter_mut().find(|(known, _)| known == name) {
            Some((_, kinds)) => kinds.push(Kind::RunsEnded),
            None => types.push((name.to_owned(), vec![Kind::RunsEnded])),
        }
    }
    types.push((RequestedRun::KIND.to_owned(), vec![Kind::RunsRequested]));
    types
}

/// Lists what was done, newest first.
#[utoipa::path(
    get, operation_id = "list_audit", path = "/v1/audit", tag = "audit", params(AuditParams),
    responses((status = 200, body = List<AuditEvent>), (status = 404, body = ErrorBody))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    OriginalUri(uri): OriginalUri,
    Params(params): Params<AuditParams>,
) -> Result<Response> {
    let known = types();
    let known: Vec<(&str, (&str, &[Kind]))> = known
        .iter()
        .map(|(name, kinds)| (name.as_str(), (name.as_str(), kinds.as_slice())))
        .collect();
    let wanted = words("event_type", &params.event_type, &known)?;
    let mut kinds: Vec<Kind> = wanted.iter().flat_map(|(_, kinds)| kinds.iter().cloned()).collect();
    kinds.sort();
    kinds.dedup();
    let job = match &params.job {
        None => None,
        Some(text) => match text.parse::<JobId>() {
            Ok(id) => Some(id),
            Err(_) => Some(find::job(&app, &actor, text).await?.id),
        },
    };
    let filter = AuditFilter {
        tenant: tenant(&actor, params.scope.as_deref())?,
        kinds,
        actor: params.actor.clone(),
        job,
        since: params.since,
        until: params.until,
    };
    let passes = |event: &AuditEvent| {
        (wanted.is_empty() || wanted.iter().any(|(name, _)| *name == event.event_type))
            && job.is_none_or(|job| event.job_id == Some(job.0))
    };
    let limit = limit(params.limit)? as usize;
    let (mut place, mut skip) = place(params.cursor.as_deref())?;
    let (mut data, mut next) = (Vec::new(), None);
    'page: for look in 1..=LOOKS {
        let rows = app.engine.by(&actor).audit(&filter, place, ROWS).await?;
        let is_last = rows.len() < ROWS as usize;
        for row in rows {
            let at = row.place;
            for (n, event) in AuditEvent::from_row(row).into_iter().enumerate().skip(skip) {
                if data.len() == limit {
                    next = Some((at, n));
                    break 'page;
                }
                data.extend(Some(event).filter(|event| passes(event)));
            }
            (place, skip) = (Some(at - 1), 0);
        }
        if is_last {
            break;
        }
        if look == LOOKS {
            next = place.map(|place| (place, 0));
        }
    }
    let creators = app.engine.by(&actor).job_creators(&AuditEvent::jobs(&data)).await?;
    AuditEvent::name_creators(&mut data, &creators);
    let jobs = app.engine.by(&actor).jobs_by_id(&AuditEvent::jobs(&data)).await?;
    let names: HashMap<Uuid, String> = jobs.into_iter().map(|job| (job.id.0, job.name)).collect();
    for event in &mut data {
        event.job_name = event.job_id.and_then(|job| names.get(&job).cloned());
    }
    let next = next.map(|(place, n)| format!("{place}:{n}"));
    Ok(List::new(data, next).answer(&uri))
}

/// The row where a page begins, and how many of its events were seen.
fn place(asked: Option<&str>) -> Result<(Option<i64>, usize)> {
    let Some(text) = cursor(asked)? else { return Ok((None, 0)) };
    let (place, seen) = text.split_once(':').ok_or_else(bad_cursor)?;
    let place = place.parse().map_err(|_| bad_cursor())?;
    Ok((Some(place), seen.parse().map_err(|_| bad_cursor())?))
}

/// An earlier head.
fn head(text: &str) -> Result<KeptHead> {
    let read = || {
        let (text, at) = match text.split_once('@') {
            Some((text, at)) => (text, Some(at.parse().ok()?)),
            None => (text, None),
        };
        let (number, digits) = text.split_once(':')?;
        let mut hash = [0; 32];
        if digits.len() != 64 || !digits.is_ascii() {
            return None;
        }
        for (at, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(KeptHead { seal: Seal { number: number.parse().ok()?, hash }, at })
    };
    read().ok_or_else(|| {
        let text = "must be NUMBER:HASH@TIME, as a verification prints it: a number, 64 hex digits \
                    and a time";
        Problem::field(Code::InvalidRequest, "head", text)
    })
}

/// Looks at every row: whether it is as it was sealed, and none is missing.
#[utoipa::path(
    post, operation_id = "verify_audit", path = "/v1/audit:verify", tag = "audit", params(VerifyParams),
    request_body(content = Option<VerifyRequest>),
    responses((status = 200, body = Verification))
)]
pub(crate) async fn verify(
    State(app): State<App>,
    actor: Actor,
    Params(params): Params<VerifyParams>,
    OptionalBody(body): OptionalBody<VerifyRequest>,
) -> Result<Json<Verification>> {
    // The body takes precedence over the query.
    let scope = body.scope.or(params.scope);
    let tenant = tenant(&actor, scope.as_deref())?;
    let known = body.head.or(params.head);
    let known = known.as_deref().map(head).transpose()?;
    let found = app.engine.by(&actor).verify_audit(tenant, known).await?;
    let Verified { rows, anchor, last, last_at, broken } = found;
    let Seal { number: head, hash } = last;
    Ok(Json(Verification {
        valid: broken.is_none(),
        rows,
        anchor: anchor.number,
        head,
        head_hash: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        head_at: last_at,
        first_bad: broken.map(|broken| BadRow {
            number: broken.number,
            until: broken.until,
            problem: broken.problem,
        }),
    }))
}
