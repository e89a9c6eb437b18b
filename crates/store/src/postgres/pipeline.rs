//! One transaction in one round trip: every statement leaves before the first answer arrives.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use deadpool_postgres::{Client, Pool};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::records::bind;
use crate::records::Statement;
use crate::{Result, StoreError};

/// How often a transaction is tried that another one stood in the way of.
const TRIES_MAX: u32 = 4;

/// The SQLSTATE by which `expect_rows` ends a transaction.
const UNEXPECTED: &str = "PX001";

/// A value for a statement.
pub(super) type Value<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// Boxes the values of a statement.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as $crate::postgres::pipeline::Value<'_>),*]
    };
}
pub(super) use values;

/// A column, or an empty one if all its values are the default, as they are for most runs.
pub(super) fn sparse<T>(column: Vec<T>, says: impl Fn(&T) -> bool) -> Vec<T> {
    if column.iter().any(says) { column } else { Vec::new() }
}

/// A column, or its one value if it has no other: the statement repeats it.
pub(super) fn uniform<T: PartialEq>(mut column: Vec<T>) -> Vec<T> {
    if column.windows(2).all(|pair| pair[0] == pair[1]) {
        column.truncate(1);
    }
    column
}

/// The first and the last of some ids: statements with these bounds read only the partitions of
/// history between them.
pub(super) fn ends_of(ids: &[Uuid]) -> (Uuid, Uuid) {
    let first = ids.iter().min().copied().unwrap_or_default();
    (first, ids.iter().max().copied().unwrap_or_default())
}

/// Statements that are applied together or not at all.
#[derive(Default)]
pub(super) struct Pipeline<'a> {
    steps: Vec<Step<'a>>,
}

/// One statement.
struct Step<'a> {
    sql: Cow<'a, str>,
    /// The types of its values; PostgreSQL infers them if there are none.
    types: Vec<Type>,
    values: Vec<Value<'a>>,
    /// Whether it must write a certain number of rows.
    is_guarded: bool,
}

/// The result of one statement.
pub(super) struct StepAnswer {
    pub rows: Vec<Row>,
    /// How many rows it returned or, if it returns none, has written.
    pub affected: u64,
}

type Answer<'a> = Pin<Box<dyn Future<Output = std::result::Result<StepAnswer, Error>> + Send + 'a>>;

/// Sends the end of a transaction.
type End<'a> = Box<dyn FnOnce(&'static str) -> Answer<'a> + Send + 'a>;

impl<'a> Pipeline<'a> {
    /// Adds a statement. Its answer has the place that is returned.
    pub fn push(&mut self, sql: &'static str, values: Vec<Value<'a>>) -> usize {
        let (sql, types) = (Cow::Borrowed(sql), Vec::new());
        self.steps.push(Step { sql, types, values, is_guarded: false });
        self.steps.len() - 1
    }

    /// Adds a portable statement. The database itself counts the rows that it must write: COMMIT is
    /// sent before the first answer arrives.
    pub fn push_statement(&mut self, statement: &'a Statement) {
        let (types, values) = statement.params().iter().map(bind).unzip();
        let (mut sql, expected) = (statement.for_postgres(), statement.expected());
        if let Some(expected) = expected {
            sql = Cow::Owned(format!(
                "WITH step AS ({sql}) SELECT step.* FROM \
                 (SELECT expect_rows(count(*), {expected}) AS met FROM step) AS counted \
                 LEFT JOIN step ON counted.met"
            ));
        }
        self.steps.push(Step { sql, types, values, is_guarded: expected.is_some() });
    }

    /// Commits all statements and returns their rows. When this returns an error, nothing was
    /// written, unless the connection was lost on the way.
    pub async fn commit(&self, pool: &Pool) -> Result<Vec<Vec<Row>>> {
        for _ in 1..TRIES_MAX {
            match self.send(pool).await {
                Err(Failure::Collided(_) | Failure::Unique(..)) => {}
                answers => return rows_of(answers),
            }
        }
        rows_of(self.send(pool).await)
    }

    /// Like [`Pipeline::commit`]; none when something is there already.
    pub async fn commit_new(&self, pool: &Pool) -> Result<Option<Vec<Vec<Row>>>> {
        match self.send(pool).await {
            Err(Failure::Collided(_) | Failure::Unique(..)) => Ok(None),
            answers => rows_of(answers).map(Some),
        }
    }

    /// Like [`Pipeline::commit`]; none when a guard among the statements refused the transaction: a
    /// statement that divides by zero unless its condition is met.
    pub async fn commit_guarded(&self, pool: &Pool) -> Result<Option<Vec<Vec<Row>>>> {
        for _ in 1..TRIES_MAX {
            match self.send(pool).await {
                Err(Failure::Collided(_) | Failure::Unique(..)) => {}
                Err(Failure::Unexpected) => return Ok(None),
                answers => return rows_of(answers).map(Some),
            }
        }
        match self.send(pool).await {
            Err(Failure::Unexpected) => Ok(None),
            answers => rows_of(answers).map(Some),
        }
    }

    /// Commits portable statements. None if one did not write the rows that it must, or violates
    /// a unique constraint and must write some; then nothing was written.
    pub async fn commit_expecting(&self, pool: &Pool) -> Result<Option<Vec<StepAnswer>>> {
        for last in (0..TRIES_MAX).map(|attempt| attempt + 1 == TRIES_MAX) {
            match self.send(pool).await {
                Ok(answers) => return Ok(Some(answers)),
                Err(Failure::Unexpected) => return Ok(None),
                Err(Failure::Unique(step, _))
                    if self.steps.get(step).is_some_and(|step| step.is_guarded) =>
                {
                    return Ok(None);
                }
                Err(Failure::Collided(_) | Failure::Unique(..)) if !last => {}
                Err(failure) => return Err(failure.into_store_error()),
            }
        }
        Ok(None)
    }

    /// Answers questions in one round trip, each in a transaction of its own.
    pub async fn read(&self, pool: &Pool) -> Result<Vec<Vec<Row>>> {
        let client = pool.get().await?;
        let statements = self.prepare(&client).await?;
        let answers = self.steps.iter().zip(&statements);
        let answers = answers.map(|(step, statement)| -> Answer<'_> {
            Box::pin(answer(&client, statement, &step.values))
        });
        let answers = together(answers.collect(), None).await.map_err(|(_, error)| error)?;
        Ok(answers.into_iter().map(|answer| answer.rows).collect())
    }

    async fn prepare(
        &self,
        client: &Client,
    ) -> std::result::Result<Vec<tokio_postgres::Statement>, Error> {
        let mut statements = Vec::with_capacity(self.steps.len());
        for Step { sql, types, .. } in &self.steps {
            statements.push(client.prepare_typed_cached(sql, types).await?);
        }
        Ok(statements)
    }

    async fn send(&self, pool: &Pool) -> std::result::Result<Vec<StepAnswer>, Failure> {
        let client = pool.get().await.map_err(|error| Failure::Other(error.into()))?;
        let statements = self.prepare(&client).await.map_err(|error| Failure::of(0, error))?;
        // A lone statement is a transaction by itself.
        if let ([step], [statement]) = (&*self.steps, &*statements) {
            let answer = answer(&client, statement, &step.values).await;
            return Ok(vec![answer.map_err(|error| Failure::of(0, error))?]);
        }
        let mut answers: Vec<Answer<'_>> = vec![Box::pin(word(&client, "BEGIN"))];
        for (step, statement) in self.steps.iter().zip(&statements) {
            answers.push(Box::pin(answer(&client, statement, &step.values)));
        }
        let end: End<'_> = Box::new(|end| Box::pin(word(&client, end)));
        let answers = together(answers, Some(end)).await;
        let failed = |(place, error): (usize, Error)| Failure::of(place.saturating_sub(1), error);
        let mut answers = answers.map_err(failed)?;
        answers.pop();
        answers.remove(0);
        Ok(answers)
    }
}

fn rows_of(answers: std::result::Result<Vec<StepAnswer>, Failure>) -> Result<Vec<Vec<Row>>> {
    let answers = answers.map_err(Failure::into_store_error)?;
    Ok(answers.into_iter().map(|answer| answer.rows).collect())
}

async fn word(client: &Client, word: &str) -> std::result::Result<StepAnswer, Error> {
    client.batch_execute(word).await.map(|()| StepAnswer { rows: Vec::new(), affected: 0 })
}

async fn answer(
    client: &Client,
    statement: &tokio_postgres::Statement,
    values: &[Value<'_>],
) -> std::result::Result<StepAnswer, Error> {
    let values: Vec<&(dyn ToSql + Sync)> =
        values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
    if statement.columns().is_empty() {
        let affected = client.execute(statement, &values).await?;
        return Ok(StepAnswer { rows: Vec::new(), affected });
    }
    let rows = client.query(statement, &values).await?;
    let affected = rows.len() as u64;
    Ok(StepAnswer { rows, affected })
}

/// Sends everything in order and collects the replies. A request leaves when its future is polled
/// for the first time, so the first pass sends the whole transaction, and no caller that gives up
/// waiting leaves half of one behind. A request that cannot be sent turns the commit into a
/// rollback.
///
/// The error of a transaction is the first one, with its position: later errors only report that
/// the transaction is aborted.
async fn together<'a>(
    mut answers: Vec<Answer<'a>>,
    mut end: Option<End<'a>>,
) -> std::result::Result<Vec<StepAnswer>, (usize, Error)> {
    let mut done: Vec<Option<std::result::Result<StepAnswer, Error>>> = Vec::new();
    done.resize_with(answers.len() + usize::from(end.is_some()), || None);
    poll_fn(move |context| {
        poll_all(&mut answers, &mut done, context);
        if let Some(end) = end.take() {
            let unsent = done.iter().any(|done| matches!(done, Some(Err(_))));
            answers.push(end(if unsent { "ROLLBACK" } else { "COMMIT" }));
            poll_all(&mut answers, &mut done, context);
        }
        if done.iter().any(Option::is_none) {
            return Poll::Pending;
        }
        let done = done.iter_mut().filter_map(Option::take).enumerate();
        Poll::Ready(done.map(|(place, done)| done.map_err(|error| (place, error))).collect())
    })
    .await
}

fn poll_all<T>(
    answers: &mut [Pin<Box<dyn Future<Output = T> + Send + '_>>],
    done: &mut [Option<T>],
    context: &mut Context<'_>,
) {
    for (answer, done) in answers.iter_mut().zip(done) {
        if done.is_none()
            && let Poll::Ready(value) = answer.as_mut().poll(context)
        {
            *done = Some(value);
        }
    }
}

/// Why a transaction was not applied.
enum Failure {
    /// Another transaction stood in the way, and this one may be tried again at once.
    Collided(Error),
    /// The step of this place violates a unique constraint.
    Unique(usize, Error),
    /// A step did not write the rows that it must, or its guard refused the transaction.
    Unexpected,
    Other(StoreError),
}

impl Failure {
    fn of(step: usize, error: Error) -> Self {
        match error.code() {
            Some(&SqlState::UNIQUE_VIOLATION) => Failure::Unique(step, error),
            Some(
                &SqlState::T_R_DEADLOCK_DETECTED
                | &SqlState::T_R_SERIALIZATION_FAILURE
                | &SqlState::LOCK_NOT_AVAILABLE,
            ) => Failure::Collided(error),
            Some(&SqlState::DIVISION_BY_ZERO) => Failure::Unexpected,
            Some(code) if code.code() == UNEXPECTED => Failure::Unexpected,
            _ => Failure::Other(error.into()),
        }
    }

    fn into_store_error(self) -> StoreError {
        match self {
            Failure::Collided(error) | Failure::Unique(_, error) => error.into(),
            Failure::Unexpected => StoreError::Unreadable("a step wrote other rows".to_owned()),
            Failure::Other(error) => error,
        }
    }
}
