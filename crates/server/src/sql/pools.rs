//! SQL statements about pools.

use axum::http::HeaderMap;
use query::Value;
use sql::{PoolStatement, Statement, Verb};

use super::answer::{POOLS, or_null, text};
use super::{Answer, Result, Session, SqlError};
use crate::condition::Condition;
use crate::problem::Code;
use crate::rest::pools::{PoolSpec, PoolView, Pools};
use crate::rest::resource::{Resource, all, alter, find, make, remove};

impl Session {
    pub(super) async fn pool(&self, asked: &PoolStatement) -> Result<Answer> {
        let at = asked.name.at;
        let done = self.pool_in_place(asked).await.map_err(|error| error.or_at(at))?;
        let answer = Answer::done(Statement::Pool(asked.clone()).tag());
        Ok(match done {
            None => answer,
            Some(notice) => answer.with_notice(notice),
        })
    }

    /// Answers what its author should know.
    async fn pool_in_place(&self, asked: &PoolStatement) -> Result<Option<String>> {
        let (app, actor, name) = (&self.app, &self.actor, &asked.name.value);
        let known = match find::<Pools>(app, actor, name).await {
            Ok(object) => Some(object),
            Err(problem) if problem.code == Code::NotFound => None,
            Err(problem) => return Err(problem.into()),
        };
        match (asked.verb, known) {
            (Verb::Create, Some(_)) => {
                let error = SqlError::new(Code::AlreadyExists, format!("there is a pool {name:?}"));
                return Err(error.with_hint("ALTER POOL changes it."));
            }
            (Verb::CreateIfAbsent, Some(_)) => {
                return Ok(Some(format!("pool {name:?} already exists, skipping")));
            }
            (Verb::Create | Verb::CreateIfAbsent | Verb::CreateOrAlter, None) => {
                let spec = PoolSpec { name: name.clone(), ..PoolSpec::default() };
                make::<Pools>(app, actor, changed(asked, spec)).await?;
            }
            (Verb::Alter | Verb::Drop, None) => {
                let error = SqlError::new(Code::NotFound, format!("there is no pool {name:?}"));
                return Err(error.with_state("42704"));
            }
            (Verb::Alter | Verb::CreateOrAlter, Some(old)) => {
                let spec = changed(asked, Pools::spec(&old)?);
                alter::<Pools>(app, actor, old, spec, Condition::None).await?;
            }
            (Verb::DropIfPresent, None) => {
                return Ok(Some(format!("pool {name:?} does not exist, skipping")));
            }
            (Verb::Drop | Verb::DropIfPresent, Some(old)) => {
                remove::<Pools>(app, actor, old, &HeaderMap::new()).await?;
            }
        }
        Ok(None)
    }

    pub(super) async fn show_pools(&self) -> Result<Answer> {
        let row = |pool: PoolView| {
            vec![
                text(&pool.name),
                Value::Uuid(pool.pool_id),
                Value::Int(pool.size.into()),
                Value::Int(pool.used.into()),
                Value::Int(pool.waiting.into()),
                or_null(pool.description, text),
            ]
        };
        let pools = all::<Pools>(&self.app, &self.actor).await?;
        Ok(Answer::rows(POOLS, pools.into_iter().map(row).collect()))
    }
}

/// Applies a statement to the definition of a pool.
fn changed(asked: &PoolStatement, mut spec: PoolSpec) -> PoolSpec {
    if let Some(size) = &asked.size {
        spec.size = size.value;
    }
    if let Some(description) = &asked.description {
        spec.description.clone_from(description);
    }
    spec
}
