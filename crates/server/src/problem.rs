//! Errors of requests: one table of codes for every interface.

use std::borrow::Cow;
use std::fmt;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::dag::DagError;
use domain::job::WhenError;
use engine::{EngineError, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $status:literal, $sqlstate:literal, $exit:literal, $title:literal;)*) => {
        /// A kind of problem, the same on every interface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The word for programs.
            pub fn name(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }

            /// The status of an HTTP answer.
            pub fn status(self) -> u16 {
                match self { $(Code::$name => $status,)* }
            }

            /// The code of the SQL interface.
            pub fn sqlstate(self) -> &'static str {
                match self { $(Code::$name => $sqlstate,)* }
            }

            /// How the command line ends.
            pub fn exit_code(self) -> u8 {
                match self { $(Code::$name => $exit,)* }
            }

            /// Its place on the page `/docs`.
            pub fn anchor(self) -> String {
                self.name().to_ascii_lowercase().replace('_', "-")
            }

            /// A short title for people.
            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }
        }
    };
}

codes! {
    /// The cron expression cannot be read, or never fires.
    InvalidCron = "INVALID_CRON", 400, "22023", 2, "Invalid cron expression";
    /// Unknown time zone.
    InvalidTimezone = "INVALID_TIMEZONE", 400, "22023", 2, "Unknown time zone";
    /// Invalid schedule in another way.
    InvalidSchedule = "INVALID_SCHEDULE", 400, "22023", 2, "Invalid schedule";
    /// The body is not valid JSON.
    MalformedJson = "MALFORMED_JSON", 400, "22P02", 2, "The body is not valid JSON";
    /// The text of a statement cannot be read.
    SyntaxError = "SYNTAX_ERROR", 400, "42601", 2, "Syntax error in the statement";
    /// A parameter or header of the request is wrong.
    InvalidRequest = "INVALID_REQUEST", 400, "22023", 2, "Invalid request";
    /// The request comes without a valid key.
    Unauthenticated = "UNAUTHENTICATED", 401, "28000", 5, "Authentication required";
    /// The caller may not do this.
    Forbidden = "FORBIDDEN", 403, "42501", 5, "Permission denied";
    /// There is nothing at this address.
    NotFound = "NOT_FOUND", 404, "42P01", 3, "Not found";
    /// There is no such job.
    JobNotFound = "JOB_NOT_FOUND", 404, "42704", 3, "Job not found";
    /// There is no such queue.
    QueueNotFound = "QUEUE_NOT_FOUND", 404, "42704", 3, "Queue not found";
    /// There is no such DAG.
    DagNotFound = "DAG_NOT_FOUND", 404, "42704", 3, "DAG not found";
    /// The DAG run has no such task, or the task no such item.
    TaskNotFound = "TASK_NOT_FOUND", 404, "42704", 3, "Task of the DAG run not found";
    /// There is no such execution.
    ExecutionNotFound = "EXECUTION_NOT_FOUND", 404, "42704", 3, "Execution (run) not found";
    /// There is no such tenant.
    TenantNotFound = "TENANT_NOT_FOUND", 404, "3D000", 3, "Tenant not found";
    /// There is no such user, role, key or grant.
    EntryNotFound = "ENTRY_NOT_FOUND", 404, "42704", 3, "User, role, key or grant not found";
    /// The address does not take this method.
    MethodNotAllowed = "METHOD_NOT_ALLOWED", 405, "0A000", 2, "Method not allowed";
    /// The request did not come in time.
    RequestTimeout = "REQUEST_TIMEOUT", 408, "57014", 1, "Request timeout";
    /// Another job has that name.
    JobAlreadyExists = "JOB_ALREADY_EXISTS", 409, "42710", 4, "A job with this name exists";
    /// Another thing of that kind has that name.
    AlreadyExists = "ALREADY_EXISTS", 409, "42710", 4, "The name exists";
    /// Tenant quota exceeded.
    QuotaExceeded = "QUOTA_EXCEEDED", 409, "53400", 4, "Tenant quota exceeded";
    /// The resource was changed meanwhile.
    VersionConflict = "VERSION_CONFLICT", 409, "40001", 4, "Version conflict";
    /// The same, asked for with `If-Match`.
    PreconditionFailed = "VERSION_CONFLICT", 412, "40001", 4, "Version conflict";
    /// The resource is in a state in which this cannot be done.
    WrongState = "WRONG_STATE", 409, "55000", 4, "The state does not allow this operation";
    /// A request with the same idempotency key has not ended.
    IdempotencyKeyInUse = "IDEMPOTENCY_KEY_IN_USE", 409, "40001", 4, "A request with this idempotency key is in progress";
    /// The lease of a message has ended: it has another fencing token, or has ended.
    StaleFence = "STALE_FENCE", 409, "55000", 4, "The lease of the message has ended";
    /// The agent has lost its lease, and with it what it held.
    LeaseLost = "LEASE_LOST", 409, "55000", 4, "The agent has lost its lease";
    /// The agent has a later session, or the server was started anew.
    SessionEnded = "SESSION_ENDED", 409, "55000", 4, "The agent's session has ended";
    /// Another process uses the key of this agent.
    AgentReplaced = "AGENT_REPLACED", 409, "55000", 4, "Another process uses the key of this agent";
    /// The agent speaks another version of the protocol.
    UnsupportedVersion = "UNSUPPORTED_VERSION", 400, "0A000", 2, "Protocol version not supported";
    /// The body is larger than the limit.
    BodyTooLarge = "BODY_TOO_LARGE", 413, "54000", 2, "The body is too large";
    /// The body has a type that is not understood.
    UnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE", 415, "0A000", 2, "Content type not supported";
    /// Range not satisfiable of the resource.
    RangeNotSatisfiable = "RANGE_NOT_SATISFIABLE", 416, "22023", 2, "Range not satisfiable";
    /// The output is in files of another node.
    OutputElsewhere = "OUTPUT_ELSEWHERE", 421, "55000", 1, "The output is on another node";
    /// A field has a value that it cannot have.
    ValidationFailed = "VALIDATION_FAILED", 422, "22023", 2, "Validation failed";
    /// Jobs would wait for each other.
    DependencyCycle = "DEPENDENCY_CYCLE", 422, "42P19", 2, "Dependency cycle";
    /// The idempotency key belongs to another request.
    IdempotencyKeyReused = "IDEMPOTENCY_KEY_REUSED", 422, "22023", 2, "The idempotency key was used for another request";
    /// `If-Match` is missing.
    PreconditionRequired = "PRECONDITION_REQUIRED", 428, "40001", 4, "If-Match required";
    /// The queue has as many messages as it may have.
    QueueFull = "QUEUE_FULL", 429, "53400", 1, "The queue is full";
    /// Too many requests.
    RateLimited = "RATE_LIMITED", 429, "53400", 1, "Too many requests";
    /// A defect of ours.
    Internal = "INTERNAL", 500, "XX000", 1, "Internal error";
    /// This server cannot do it, with any privileges.
    NotSupported = "NOT_SUPPORTED", 501, "0A000", 1, "Not supported by this server";
    /// The scheduler or its store is not there.
    SchedulerUnavailable = "SCHEDULER_UNAVAILABLE", 503, "57P03", 6, "Scheduler unavailable";
}

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Detail {
    /// Where it is, as a path through the body: `retry_config.max_attempts`.
    pub field: String,
    /// The problem, and a hint.
    pub message: String,
}

/// An error of a request, as clients see it.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The kind.
    pub code: Code,
    /// The text for a person.
    pub message: String,
    /// The fields that are wrong.
    pub details: Vec<Detail>,
    /// The next step, if there is an obvious one.
    pub hint: Option<&'static str>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

/// The body of an error.
#[derive(Serialize, ToSchema)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorFields,
}

/// The fields of an error.
#[derive(Serialize, ToSchema)]
pub struct ErrorFields {
    /// The word for programs.
    #[schema(example = "JOB_NOT_FOUND")]
    pub code: String,
    /// The text for a person.
    pub message: String,
    /// The request, as the logs name it.
    pub request_id: String,
    /// The fields that are wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub details: Vec<Detail>,
}

/// The body of an error as RFC 9457 shapes it.
#[derive(Serialize)]
struct ProblemJson<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    instance: String,
    code: &'a str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "<[Detail]>::is_empty")]
    errors: &'a [Detail],
}

/// The result of a handler.
pub type Result<T> = std::result::Result<T, Problem>;

/// The longest sentence about a problem, in characters. It may quote what the caller sent.
const MESSAGE_CHARS_MAX: usize = 2_000;

fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MESSAGE_CHARS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

impl Problem {
    /// A problem with a sentence for people.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = shortened(message.into());
        Problem { code, message, details: Vec::new(), hint: None, headers: Vec::new() }
    }

    /// A field that is wrong.
    pub fn field(code: Code, field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (shortened(field.into()), shortened(message.into()));
        let text = format!("{field}: {message}");
        Problem { details: vec![Detail { field, message }], ..Problem::new(code, text) }
    }

    /// A field of the body with a value that it cannot have.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Problem::field(Code::ValidationFailed, field, message)
    }

    /// The same about a part of the body, whose place comes before that of each field.
    pub fn inside(self, place: &str) -> Self {
        let inside =
            |detail: Detail| Detail { field: format!("{place}.{}", detail.field), ..detail };
        let message = match self.details.is_empty() {
            true => self.message,
            false => format!("{place}.{}", self.message),
        };
        Problem { details: self.details.into_iter().map(inside).collect(), message, ..self }
    }

    /// The same with the next step.
    pub fn with_hint(self, hint: &'static str) -> Self {
        Problem { hint: Some(hint), ..self }
    }

    /// The text for a person where there is no field of its own for the hint.
    fn text(&self) -> Cow<'_, str> {
        match self.hint {
            Some(hint) => format!("{}; {hint}", self.message).into(),
            None => self.message.as_str().into(),
        }
    }

    /// The same with a header of the answer.
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Job not found, for this caller.
    pub fn no_job(name: impl fmt::Display) -> Self {
        Problem::new(Code::JobNotFound, format!("there is no job {name}"))
    }

    /// Execution (run) not found, for this caller.
    pub fn no_execution(id: impl fmt::Display) -> Self {
        Problem::new(Code::ExecutionNotFound, format!("there is no execution {id}"))
    }

    /// Message not found, for this caller.
    pub fn no_message(id: impl fmt::Display) -> Self {
        Problem::new(Code::ExecutionNotFound, format!("there is no message {id}"))
    }

    /// No valid key. The message does not say why the key is invalid.
    pub fn unauthenticated() -> Self {
        Problem::new(Code::Unauthenticated, "send a valid key as Authorization: Bearer <key>")
            .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    /// The answer, in the form that the caller asked for.
    pub fn render(&self, request_id: &str, as_problem_json: bool) -> Response {
        let (kind, body) = if as_problem_json {
            let body = ProblemJson {
                r#type: format!("/docs#{}", self.code.anchor()),
                title: self.code.title(),
                status: self.code.status(),
                detail: &self.text(),
                instance: format!("/requests/{request_id}"),
                code: self.code.name(),
                request_id,
                errors: &self.details,
            };
            ("application/problem+json", serde_json::to_vec(&body))
        } else {
            let body = ErrorBody {
                error: ErrorFields {
                    code: self.code.name().to_owned(),
                    message: self.text().into_owned(),
                    request_id: request_id.to_owned(),
                    details: self.details.clone(),
                },
            };
            ("application/json", serde_json::to_vec(&body))
        };
        let mut response = Response::new(Body::from(body.unwrap_or_default()));
        *response.status_mut() =
            StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        if matches!(self.code, Code::SchedulerUnavailable | Code::RateLimited) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        response
    }
}

/// A handler's problem travels as an extension of an empty answer; the outermost layer, which
/// knows the request's id and what the caller accepts, gives it its form.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() =
            StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.extensions_mut().insert(self);
        response
    }
}

/// The field of a request that the engine means.
fn field_of(field: &str) -> String {
    match field {
        "at" => "run_at",
        "timeout" => "timeout_seconds",
        "backoff" => "retry_config.backoff_seconds",
        "max_attempts" => "retry_config.max_attempts",
        "backoff_multiplier" => "retry_config.backoff_multiplier",
        other => other,
    }
    .to_owned()
}

/// Prefixes of missing objects that are reported as [`Code::EntryNotFound`].
const ENTRIES: [&str; 5] = ["user", "role ", "key", "grantee", "grant "];

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let text = error.to_string();
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Invalid { field, problem } => Problem::invalid(field_of(field), problem),
            EngineError::Parameter(error) => {
                Problem::invalid(format!("parameters.{}", error.name), error.problem)
            }
            EngineError::Schedule(error) => error.into(),
            EngineError::Dag(DagError::Cycle(_)) => Problem {
                message: text.clone(),
                ..Problem::field(Code::DependencyCycle, "tasks", text)
            },
            EngineError::Dag(error) => Problem::invalid("tasks", error.to_string()),
            EngineError::Action(error) => {
                Problem::invalid(format!("payload.{}", error.field), error.problem)
            }
            EngineError::NameTaken { .. } => Problem {
                message: text.clone(),
                ..Problem::field(Code::JobAlreadyExists, "name", text)
            },
            EngineError::VersionConflict { .. } => Problem {
                message: text.clone(),
                ..Problem::field(Code::VersionConflict, "version", text)
            },
            EngineError::NotFound(what) if what.starts_with("run") => {
                Problem::no_execution(&what[4..])
            }
            EngineError::NotFound(what) if what.starts_with("message") => {
                Problem::no_message(&what["message ".len()..])
            }
            EngineError::NotFound(what) if what.starts_with("artifact") => {
                Problem::new(Code::NotFound, format!("there is no {what}"))
            }
            EngineError::NotFound(what) if what.starts_with("queue") => {
                Problem::new(Code::QueueNotFound, format!("there is no {what}"))
            }
            EngineError::NotFound(what) if what.starts_with("DAG run") => {
                Problem::new(Code::ExecutionNotFound, format!("there is no {what}"))
            }
            EngineError::NotFound(what) if what.starts_with("DAG") => {
                Problem::new(Code::DagNotFound, format!("there is no {what}"))
            }
            EngineError::NotFound(what) if what.starts_with("step") => {
                Problem::new(Code::TaskNotFound, format!("there is no {what}"))
            }
            EngineError::NotFound(what) if what.starts_with("tenant") => {
                Problem::new(Code::TenantNotFound, format!("there is no {what}"))
            }
            EngineError::NotFound(what) if ENTRIES.iter().any(|word| what.starts_with(word)) => {
                Problem::new(Code::EntryNotFound, format!("there is no {what}"))
            }
            EngineError::NotFound(what) if what.starts_with("worker session") => {
                Problem::new(Code::NotFound, format!("there is no {what}"))
            }
            EngineError::NotFound(what) if what.starts_with("upstream job") => {
                Problem::invalid("depends_on", format!("{what} does not exist"))
            }
            EngineError::NotFound(what) => {
                Problem::new(Code::JobNotFound, format!("{what} does not exist"))
            }
            EngineError::Cycle(_) => Problem {
                message: text.clone(),
                ..Problem::field(Code::DependencyCycle, "depends_on", text)
            },
            EngineError::AlreadyRan { .. } => Problem::new(Code::WrongState, text)
                .with_hint("give it a new time with SCHEDULE = AT or run_at"),
            EngineError::WrongState(text) => Problem::new(Code::WrongState, text),
            EngineError::QueueFull { .. } => Problem::new(Code::QueueFull, text)
                .with_header(header::RETRY_AFTER, HeaderValue::from_static("5"))
                .with_hint("wait until workers have caught up, or raise max_depth"),
            EngineError::TooManyJobs => Problem::new(Code::QuotaExceeded, text),
            EngineError::EntryTaken(_) => Problem {
                message: text.clone(),
                ..Problem::field(Code::AlreadyExists, "name", text)
            },
            EngineError::Refused(_) => Problem::new(Code::Forbidden, text),
        }
    }
}

impl From<StoreError> for Problem {
    /// Only a store that cannot be reached is worth another try.
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(cause) => {
                tracing::warn!(cause, "request failed: the store is unavailable");
                Problem::new(Code::SchedulerUnavailable, "the store is unavailable")
                    .with_hint("try again")
            }
            error => {
                tracing::error!(%error, "request failed: the store cannot be read");
                let text = "the store holds something that this release cannot read";
                Problem::new(Code::Internal, text).with_hint("the log of the server says what")
            }
        }
    }
}

impl From<WhenError> for Problem {
    fn from(error: WhenError) -> Self {
        match error {
            WhenError::Cron(error) => {
                let hint = error.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
                let place = error.span.start + 1;
                let text = format!("{error}{hint} (at character {place})");
                Problem::field(Code::InvalidCron, "cron_expression", text)
            }
            WhenError::Zone(error) => {
                Problem::field(Code::InvalidTimezone, "timezone", error.to_string())
            }
            WhenError::Every(error) => {
                Problem::field(Code::InvalidSchedule, "interval_seconds", error.to_string())
            }
            WhenError::At(error) => {
                Problem::field(Code::InvalidSchedule, "run_at", error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_table_is_the_one_in_force() {
        let mut table =
            String::from("| code | HTTP | SQLSTATE | exit | meaning |\n|---|---|---|---|---|\n");
        for code in Code::ALL {
            table.push_str(&format!(
                "| `{}` | {} | {} | {} | {} |\n",
                code.name(),
                code.status(),
                code.sqlstate(),
                code.exit_code(),
                code.title()
            ));
        }
        let page = include_str!("../../../docs/rest.md");
        assert!(page.contains(&table), "docs/rest.md must contain:\n\n{table}");
    }
}
