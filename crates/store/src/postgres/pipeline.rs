//! One transaction in one round trip: every statement leaves before the first answer arrives.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use deadpool_postgres::{Client, Pool};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement};
use uuid::Uuid;

use crate::{Result, StoreError};

/// How often a transaction is tried that another one stood in the way of.
const TRIES_MAX: u32 = 4;

/// A value for a statement.
pub(super) type Value<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// Boxes the values of a statement.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as $crate::postgres::pipeline::Value<'_>),*]
    };
}
pub(super) use values;

/// A column, or none at all if it says nothing: most runs have nothing to say but that they are.
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

/// The first and the last of some ids: statements that are told look only at the partitions of
/// history between them.
pub(super) fn ends_of(ids: &[Uuid]) -> (Uuid, Uuid) {
    let first = ids.iter().min().copied().unwrap_or_default();
    (first, ids.iter().max().copied().unwrap_or_default())
}

/// Statements that are applied together or not at all.
#[derive(Default)]
pub(super) struct Pipeline<'a> {
    steps: Vec<(&'static str, Vec<Value<'a>>)>,
}

type Answer<'a> = Pin<Box<dyn Future<Output = std::result::Result<Vec<Row>, Error>> + Send + 'a>>;

impl<'a> Pipeline<'a> {
    /// Adds a statement. Its answer has the place that is returned.
    pub fn push(&mut self, sql: &'static str, values: Vec<Value<'a>>) -> usize {
        self.steps.push((sql, values));
        self.steps.len() - 1
    }

    /// Commits all statements and returns their rows. When this returns an error, nothing was
    /// written, unless the connection was lost on the way.
    pub async fn commit(&self, pool: &Pool) -> Result<Vec<Vec<Row>>> {
        for _ in 1..TRIES_MAX {
            match self.send(pool).await {
                Err(Failure::Collided(_)) => {}
                answer => return answer.map_err(Failure::into_store_error),
            }
        }
        self.send(pool).await.map_err(Failure::into_store_error)
    }

    /// Like [`Pipeline::commit`]; none when something is there already.
    pub async fn commit_new(&self, pool: &Pool) -> Result<Option<Vec<Vec<Row>>>> {
        match self.send(pool).await {
            Ok(rows) => Ok(Some(rows)),
            Err(Failure::Collided(_)) => Ok(None),
            Err(failure) => Err(failure.into_store_error()),
        }
    }

    /// Like [`Pipeline::commit`]; none when a guard among the statements refused the transaction: a
    /// statement that divides by zero unless its condition is met.
    pub async fn commit_guarded(&self, pool: &Pool) -> Result<Option<Vec<Vec<Row>>>> {
        for _ in 1..TRIES_MAX {
            match self.send(pool).await {
                Err(Failure::Collided(_)) => {}
                Err(Failure::Guarded(_)) => return Ok(None),
                answer => return answer.map(Some).map_err(Failure::into_store_error),
            }
        }
        match self.send(pool).await {
            Err(Failure::Guarded(_)) => Ok(None),
            answer => answer.map(Some).map_err(Failure::into_store_error),
        }
    }

    async fn send(&self, pool: &Pool) -> std::result::Result<Vec<Vec<Row>>, Failure> {
        let client = pool.get().await.map_err(|error| Failure::Other(error.into()))?;
        let mut statements = Vec::with_capacity(self.steps.len());
        for (sql, _) in &self.steps {
            statements.push(client.prepare_cached(sql).await?);
        }
        // A lone statement is a transaction by itself.
        if let ([(_, values)], [statement]) = (&*self.steps, &*statements) {
            return Ok(vec![step(&client, statement, values).await?]);
        }
        let mut answers: Vec<Answer<'_>> = vec![Box::pin(word(&client, "BEGIN"))];
        for ((_, values), statement) in self.steps.iter().zip(&statements) {
            answers.push(Box::pin(step(&client, statement, values)));
        }
        let mut rows = together(answers, |end| Box::pin(word(&client, end))).await?;
        rows.pop();
        rows.remove(0);
        Ok(rows)
    }
}

async fn word(client: &Client, word: &str) -> std::result::Result<Vec<Row>, Error> {
    client.batch_execute(word).await.map(|()| Vec::new())
}

async fn step(
    client: &Client,
    statement: &Statement,
    values: &[Value<'_>],
) -> std::result::Result<Vec<Row>, Error> {
    let values: Vec<&(dyn ToSql + Sync)> =
        values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
    client.query(statement, &values).await
}

/// Sends everything in order and collects the answers. A request leaves when its future is polled
/// for the first time, so the first pass sends the whole transaction, and nobody who gives up
/// waiting leaves half of one behind. What cannot even be sent turns the commit into a rollback.
async fn together<'a>(
    mut answers: Vec<Answer<'a>>,
    end: impl FnOnce(&'static str) -> Answer<'a>,
) -> std::result::Result<Vec<Vec<Row>>, Error> {
    let mut done: Vec<Option<std::result::Result<Vec<Row>, Error>>> = Vec::new();
    done.resize_with(answers.len() + 1, || None);
    let mut end = Some(end);
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
        // The first error is the cause; those after it only say that there was one.
        Poll::Ready(done.iter_mut().filter_map(Option::take).collect())
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
    /// A guard of the transaction refused it.
    Guarded(Error),
    Other(StoreError),
}

impl Failure {
    fn into_store_error(self) -> StoreError {
        match self {
            Failure::Collided(error) | Failure::Guarded(error) => error.into(),
            Failure::Other(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error.code() {
            Some(
                &SqlState::T_R_DEADLOCK_DETECTED
                | &SqlState::T_R_SERIALIZATION_FAILURE
                | &SqlState::LOCK_NOT_AVAILABLE
                | &SqlState::UNIQUE_VIOLATION,
            ) => Failure::Collided(error),
            Some(&SqlState::DIVISION_BY_ZERO) => Failure::Guarded(error),
            _ => Failure::Other(error.into()),
        }
    }
}
