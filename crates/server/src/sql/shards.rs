//! SQL statements about shards.

use std::collections::HashMap;

use domain::id::NodeId;
use domain::shard::Shard;
use query::Value;
use sql::{ShardStatement, Statement, Verb};

use super::answer::{SHARDS, or_null, text};
use super::{Answer, Result, Session, SqlError};
use crate::condition::Condition;
use crate::problem::Code;
use crate::rest::resource::{Resource, alter, find, make};
use crate::rest::shards::{ShardSpec, Shards};

impl Session {
    pub(super) async fn shard(&self, asked: &ShardStatement) -> Result<Answer> {
        let at = asked.name.at;
        let done = self.shard_in_place(asked).await.map_err(|error| error.or_at(at))?;
        let answer = Answer::done(Statement::Shard(asked.clone()).tag());
        Ok(match done {
            None => answer,
            Some(notice) => answer.with_notice(notice),
        })
    }

    /// Answers what its author should know.
    async fn shard_in_place(&self, asked: &ShardStatement) -> Result<Option<String>> {
        let (app, actor, name) = (&self.app, &self.actor, &asked.name.value);
        let known = match find::<Shards>(app, actor, name).await {
            Ok(object) => Some(object),
            Err(problem) if problem.code == Code::NotFound => None,
            Err(problem) => return Err(problem.into()),
        };
        let missing = || {
            let error = SqlError::new(Code::NotFound, format!("there is no shard {name:?}"));
            error.with_state("42704")
        };
        match (asked.verb, known) {
            (Verb::Create | Verb::CreateOrAlter, Some(_)) => {
                let text = format!("there is a shard {name:?}");
                let error = SqlError::new(Code::AlreadyExists, text);
                return Err(error.with_hint("ALTER SHARD changes it."));
            }
            (Verb::CreateIfAbsent, Some(_)) => {
                return Ok(Some(format!("shard {name:?} already exists, skipping")));
            }
            (Verb::Create | Verb::CreateIfAbsent | Verb::CreateOrAlter, None) => {
                let spec = changed(asked, ShardSpec { name: name.clone(), ..ShardSpec::default() });
                make::<Shards>(app, actor, spec).await?;
            }
            (Verb::Alter | Verb::Drop, None) => return Err(missing()),
            (Verb::Alter, Some(old)) => {
                let spec = changed(asked, Shards::spec(&old)?);
                alter::<Shards>(app, actor, old, spec, Condition::None).await?;
            }
            (Verb::DropIfPresent, None) => {
                return Ok(Some(format!("shard {name:?} does not exist, skipping")));
            }
            (Verb::Drop | Verb::DropIfPresent, Some(old)) => {
                if let engine::Set::Conflict(_) = app.engine.by(actor).remove_object(&old).await? {
                    let text = "the shard was changed meanwhile; try again";
                    return Err(SqlError::new(Code::VersionConflict, text));
                }
            }
        }
        Ok(None)
    }

    pub(super) async fn show_shards(&self) -> Result<Answer> {
        let shards = self.app.engine.by(&self.actor).shards().await?;
        let nodes = self.app.engine.by(&self.actor).nodes().await?;
        let names: HashMap<NodeId, String> =
            nodes.into_iter().map(|node| (node.id, node.info.name)).collect();
        let row = |shard: &engine::OwnedShard| {
            let body = Shard::of(&shard.object).map(|shard| shard.body).unwrap_or_default();
            let owner = shard.owner.node.and_then(|node| names.get(&node));
            vec![
                text(&shard.object.name),
                Value::Uuid(shard.object.id.0),
                or_null(body.database, text),
                or_null(owner, text),
                Value::Int(shard.owner.fence),
                or_null(body.node, text),
                text(body.labels.to_string()),
            ]
        };
        Ok(Answer::rows(SHARDS, shards.iter().map(row).collect()))
    }
}

/// Applies a statement to the definition of a shard.
fn changed(asked: &ShardStatement, mut spec: ShardSpec) -> ShardSpec {
    if let Some(database) = &asked.database {
        spec.database.clone_from(database);
    }
    if let Some(node) = &asked.node {
        spec.node.clone_from(node);
    }
    if let Some(labels) = &asked.labels {
        spec.labels = labels.iter().cloned().collect();
    }
    spec
}
