//! Many jobs at once.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::jobs::new_job;
use super::shape::job::JobSpec;
use super::shape::job_view::JobCreated;
use super::warnings::JobWarnings;
use crate::actor::Actor;
use crate::app::App;
use crate::body::{parse, parse_value, read, require_json};
use crate::problem::{Code, Detail, ErrorBody, Problem, Result};

/// The most jobs of one request.
const JOBS_MAX: usize = 10_000;

/// The outcome for one job of many: `job` or `error`.
#[derive(Serialize, ToSchema)]
pub struct BulkItem {
    /// Its place in the request, from 0.
    pub index: usize,
    /// 201, or the status of the error.
    pub status: u16,
    /// The job that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<JobCreated>,
    /// Why it was not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<BulkError>,
}

/// Why one job of many was not made.
#[derive(Serialize, ToSchema)]
pub struct BulkError {
    /// The word for programs.
    pub code: &'static str,
    /// The text for a person.
    pub message: String,
    /// The fields that are wrong.
    pub details: Vec<Detail>,
}

/// The outcomes for many jobs.
#[derive(Serialize, ToSchema)]
pub struct Bulk {
    /// How many were made.
    pub created: usize,
    /// How many were not.
    pub failed: usize,
    /// Each of them, in the order of the request.
    pub items: Vec<BulkItem>,
}

/// Makes up to 10,000 jobs, each on its own: an array, or a line for each
/// (`application/x-ndjson`).
#[utoipa::path(
    post, path = "/v1/jobs:bulk", operation_id = "create_jobs", tag = "jobs", request_body = Vec<JobSpec>,
    responses((status = 200, body = Bulk), (status = 503, body = ErrorBody))
)]
pub(crate) async fn create_many(
    State(app): State<App>,
    actor: Actor,
    request: Request,
) -> Result<(StatusCode, Json<Bulk>)> {
    require_json(&request, &["application/json", "application/x-ndjson"])?;
    let kind = request.headers().get(header::CONTENT_TYPE);
    let by_line = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-ndjson"));
    let bytes = read(request.into_body(), app.options.bulk_bytes_max).await?;
    let values: Vec<Result<Value>> = if by_line {
        let lines = bytes.split(|byte| *byte == b'\n');
        lines.filter(|line| !line.trim_ascii().is_empty()).map(parse).collect()
    } else {
        parse::<Vec<Value>>(&bytes)?.into_iter().map(Ok).collect()
    };
    if values.len() > JOBS_MAX {
        let text = format!("{} jobs; send at most {JOBS_MAX} at once", values.len());
        return Err(Problem::new(Code::BodyTooLarge, text));
    }
    let mut specs = Vec::with_capacity(values.len());
    let mut news = Vec::new();
    for value in values {
        let read = async {
            let spec: JobSpec = parse_value("", value?)?;
            new_job(&app, &actor, &spec).await
        };
        specs.push(read.await.map(|new| news.push(new)));
    }
    let mut made = app.engine.by(&actor).create_jobs(news).await?.into_iter();
    let mut items = Vec::with_capacity(specs.len());
    let mut checks = JobWarnings::new(&app);
    for (index, spec) in specs.into_iter().enumerate() {
        let job = match spec {
            Ok(()) => match made.next() {
                Some(made) => made.map_err(Problem::from),
                None => Err(Problem::new(Code::Internal, "the job was not made")),
            },
            Err(problem) => Err(problem),
        };
        items.push(match job {
            Ok(job) => {
                let warnings = checks.of_job(&job).await;
                let job = JobCreated::of(&job, &app, warnings);
                BulkItem { index, status: 201, job: Some(job), error: None }
            }
            Err(problem) => BulkItem {
                index,
                status: problem.code.status(),
                job: None,
                error: Some(BulkError {
                    code: problem.code.name(),
                    message: problem.message,
                    details: problem.details,
                }),
            },
        });
    }
    let created = items.iter().filter(|item| item.job.is_some()).count();
    Ok((StatusCode::OK, Json(Bulk { created, failed: items.len() - created, items })))
}
