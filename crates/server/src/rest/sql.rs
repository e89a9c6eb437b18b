//! Statements of SQL over HTTP, for browsers and programs without a driver.

use axum::Json;
use axum::extract::State;
use query::{Column, Kind, Row, Value as Cell};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::actor::Actor;
use crate::app::App;
use crate::body::Body;
use crate::problem::{Code, Detail, ErrorBody, Problem, Result};
use crate::sql::{Answer, BlockState, Session, SqlError};

/// The most rows of one answer, all statements together.
const ROWS_MAX: usize = 10_000;

/// SQL statements.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SqlBody {
    /// The text: one statement or several with semicolons between them.
    #[schema(example = "SHOW JOBS")]
    sql: String,
    /// Values for `$1`, `$2` of a single statement.
    #[serde(default)]
    #[schema(required = false)]
    parameters: Vec<Value>,
}

/// The results of the statements, in their order.
#[derive(Serialize, ToSchema)]
pub struct SqlAnswer {
    /// One for each statement.
    pub results: Vec<SqlResult>,
}

/// The result of a statement.
#[derive(Serialize, ToSchema)]
pub struct SqlResult {
    /// Its result.
    #[schema(example = "CREATE JOB")]
    pub tag: String,
    /// The columns of its rows.
    pub columns: Vec<SqlColumn>,
    /// Its rows: values in the order of the columns.
    pub rows: Vec<Vec<Value>>,
    /// Whether there were more rows than one answer may have.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub truncated: bool,
    /// Warnings for its author.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub notices: Vec<String>,
}

/// A column of an answer.
#[derive(Serialize, ToSchema)]
pub struct SqlColumn {
    /// Its name.
    pub name: String,
    /// The type of its values: `bool`, `int8`, `float8`, `text`, `timestamptz`, `uuid`, `jsonb` or
    /// `bytea`.
    pub r#type: &'static str,
}

/// Runs statements of SQL, each on its own: what was done before a mistake stays done.
#[utoipa::path(
    post, path = "/v1/sql", operation_id = "run_sql", tag = "sql", request_body = SqlBody,
    responses(
        (status = 200, body = SqlAnswer), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody),
        (status = 501, body = ErrorBody), (status = 503, body = ErrorBody),
    )
)]
pub(crate) async fn run(
    State(app): State<App>,
    actor: Actor,
    Body(body): Body<SqlBody>,
) -> Result<Json<SqlAnswer>> {
    let SqlBody { sql, parameters } = body;
    let mut session = Session::new(app, actor);
    let statements = session.parse(&sql).map_err(|error| told(error, &sql, None))?;
    let count = statements.len();
    if count != 1 && !parameters.is_empty() {
        let text = format!("belong to one statement; the text has {count}");
        return Err(Problem::invalid("parameters", text));
    }
    let parameters: Vec<Cell> = parameters.into_iter().map(cell).collect();
    let mut results = Vec::with_capacity(count);
    let mut room = ROWS_MAX;
    for (i, parsed) in statements.iter().enumerate() {
        let answer = session.perform(&parsed.statement, &parameters).await;
        let answer =
            answer.map_err(|error| told(error, &sql, (count > 1).then_some((i, count))))?;
        let answer = gathered(answer, room).await;
        let answer =
            answer.map_err(|error| told(error, &sql, (count > 1).then_some((i, count))))?;
        results.push(shown(answer, &mut room));
    }
    if session.block() != BlockState::Idle
        && let Some(last) = results.last_mut()
    {
        last.notices.push("the transaction block did not end with COMMIT: it is forgotten".into());
    }
    Ok(Json(SqlAnswer { results }))
}

/// An answer with all its rows, or with one more than there is room for.
async fn gathered(mut answer: Answer, room: usize) -> std::result::Result<Answer, SqlError> {
    if let Some(mut rest) = answer.rest.take() {
        while answer.rows.len() <= room
            && let Some(rows) = rest.next().await?
        {
            answer.rows.extend(rows);
        }
        answer.tag = format!("{} {}", answer.tag, answer.rows.len());
    }
    Ok(answer)
}

/// A value for `$1`.
fn cell(value: Value) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::Bool(value) => Cell::Bool(value),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Cell::Int(whole),
            (None, broken) => Cell::Float(broken.unwrap_or_default()),
        },
        Value::String(text) => Cell::Text(text.into()),
        json => Cell::Text(json.to_string().into()),
    }
}

fn shown(answer: Answer, room: &mut usize) -> SqlResult {
    let Answer { columns, mut rows, tag, notices, .. } = answer;
    let truncated = rows.len() > *room;
    rows.truncate(*room);
    *room -= rows.len();
    let row = |row: &Row| columns.iter().zip(row).map(|(column, it)| json_of(column, it)).collect();
    let rows = rows.iter().map(row).collect();
    let columns = columns
        .iter()
        .map(|column| SqlColumn { name: column.name.clone(), r#type: type_of(column.kind) });
    SqlResult { tag, columns: columns.collect(), rows, truncated, notices }
}

fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "bool",
        Kind::Int => "int8",
        Kind::Float => "float8",
        Kind::Text => "text",
        Kind::Time => "timestamptz",
        Kind::Uuid => "uuid",
        Kind::Json => "jsonb",
        Kind::Bytes => "bytea",
    }
}

fn json_of(column: &Column, cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Bool(value) => json!(value),
        Cell::Int(number) => json!(number),
        Cell::Float(number) => json!(number),
        Cell::Text(text) if column.kind == Kind::Json => {
            serde_json::from_str(text).unwrap_or_else(|_| json!(**text))
        }
        Cell::Text(text) => json!(**text),
        Cell::Time(time) => json!(time),
        Cell::Uuid(id) => json!(id),
        Cell::Bytes(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            json!(format!("\\x{hex}"))
        }
    }
}

/// A problem with its place in the text, and which statement it is of.
fn told(error: SqlError, sql: &str, which: Option<(usize, usize)>) -> Problem {
    let SqlError { problem, at, hint, .. } = error;
    let mut problem = *problem;
    let mut text = problem.message.clone();
    if let Some(at) = at {
        let before = sql.get(..at).unwrap_or(sql);
        text.push_str(&format!(" (at character {})", before.chars().count() + 1));
    }
    if let Some(hint) = hint {
        text.push_str(&format!("; {hint}"));
    }
    if let Some((i, count)) = which {
        let before = if i == 0 { "" } else { ", those before it are done" };
        text = format!("statement {} of {count}{before}: {text}", i + 1);
    }
    problem.message.clone_from(&text);
    if problem.code != Code::Forbidden {
        problem.details = vec![Detail { field: "sql".to_owned(), message: text }];
    }
    problem
}
