//! Queues and messages.

use domain::job::Job;
use engine::EngineError;
use query::Value;
use serde_json::{Value as Json, json};
use sql::{QueueStatement, SendStatement, Spanned, Statement, Verb};

use super::answer::{QUEUES, SENT, or_null, text};
use super::show::{PAGE, ROWS_MAX, is_like};
use super::{Answer, Result, Session, SqlError};
use crate::body::parse_value;
use crate::problem::{Code, Problem};
use crate::rest::queues::{changed, new_queue, replace_settings};
use crate::rest::shape::duration::Seconds;
use crate::rest::shape::queue::{MessageSpec, QueueSpec, status_of};

impl Session {
    /// The queue of a name or an id.
    pub(super) async fn queue_named(&self, name: &Spanned<String>) -> Result<Job> {
        let found = self.app.engine.by(&self.actor).queue(&name.value).await;
        found.map_err(|error| SqlError::from(error).or_at(name.at))
    }

    pub(super) async fn queue(&self, asked: &QueueStatement) -> Result<Answer> {
        let at = asked.name.at;
        let notice = self.change_queue(asked).await.map_err(|error| error.or_at(at))?;
        let answer = Answer::done(Statement::Queue(asked.clone()).tag());
        Ok(match notice {
            None => answer,
            Some(notice) => answer.with_notice(notice),
        })
    }

    /// Answers a notice for the author of the statement.
    async fn change_queue(&self, asked: &QueueStatement) -> Result<Option<String>> {
        let name = &asked.name.value;
        let engine = self.app.engine.by(&self.actor);
        let known = match engine.queue(name).await {
            Ok(queue) => Some(queue),
            Err(EngineError::NotFound(_)) => None,
            Err(error) => return Err(error.into()),
        };
        match (asked.verb, known) {
            (Verb::Create, Some(_)) => {
                let text = format!("there is a queue {name:?}");
                let error = SqlError::new(Code::AlreadyExists, text);
                return Err(error.with_hint("ALTER QUEUE changes it."));
            }
            (Verb::CreateIfAbsent, Some(_)) => {
                return Ok(Some(format!("queue {name:?} already exists, skipping")));
            }
            (Verb::Create | Verb::CreateIfAbsent | Verb::CreateOrAlter, None) => {
                let mut fields = asked.changes.clone();
                fields.retain(|_, value| !value.is_null());
                fields.insert("name".to_owned(), json!(name));
                let spec: QueueSpec = parse_value("", Json::Object(fields))?;
                engine.create_queue(new_queue(&self.actor, &spec)?).await?;
            }
            (Verb::CreateOrAlter | Verb::Alter, Some(old)) => {
                let edit = |queue: &mut Job| {
                    if asked.changes.contains_key("weights")
                        && let Some(settings) = &mut queue.definition.queue
                    {
                        // A merge patch would keep the weights that the statement does not name.
                        settings.weights.clear();
                    }
                    let spec = changed(queue, Json::Object(asked.changes.clone()))?;
                    replace_settings(queue, spec.definition()?);
                    if let Some(rename) = &asked.rename {
                        queue.name.clone_from(&rename.value);
                    }
                    Ok::<(), Problem>(())
                };
                engine.alter_queue(&old, edit).await?;
            }
            (Verb::DropIfPresent, None) => {
                return Ok(Some(format!("queue {name:?} does not exist, skipping")));
            }
            (Verb::Alter | Verb::Drop, None) => drop(self.queue_named(&asked.name).await?),
            (Verb::Drop | Verb::DropIfPresent, Some(old)) => {
                let dropped = engine.delete_queue(&old, None, asked.purge).await;
                dropped.map_err(|error| match error {
                    error @ EngineError::WrongState(_) => {
                        SqlError::from(error).with_hint("DROP QUEUE … PURGE cancels its messages.")
                    }
                    error => error.into(),
                })?;
            }
        }
        Ok(None)
    }

    pub(super) async fn pause_queue(&self, name: &Spanned<String>, pause: bool) -> Result<Answer> {
        let queue = self.queue_named(name).await?;
        let paused = self.app.engine.by(&self.actor).pause_queue(&queue, pause).await;
        paused.map_err(|error| SqlError::from(error).or_at(name.at))?;
        Ok(Answer::done(if pause { "PAUSE QUEUE" } else { "RESUME QUEUE" }))
    }

    pub(super) async fn drain_queue(&self, name: &Spanned<String>) -> Result<Answer> {
        let queue = self.queue_named(name).await?;
        let drained = self.app.engine.by(&self.actor).drain_queue(&queue).await;
        drained.map_err(|error| SqlError::from(error).or_at(name.at))?;
        Ok(Answer::done("DRAIN QUEUE"))
    }

    pub(super) async fn send(&self, send: &SendStatement) -> Result<Answer> {
        let spec = MessageSpec {
            payload: send.payload.clone(),
            workspace: send.workspace.clone(),
            priority: send.priority,
            delay_seconds: send.delay.map(Seconds),
            deduplication_key: send.deduplication_key.clone(),
            ordering_key: send.ordering_key.clone(),
            ..MessageSpec::default()
        };
        let message = spec.message("", self.app.now())?;
        let engine = self.app.engine.by(&self.actor);
        let sent = engine.send_messages(&send.queue.value, vec![message]).await;
        let sent = sent.map_err(|error| SqlError::from(error).or_at(send.queue.at))?;
        let row = |(id, is_new): &(domain::id::RunId, bool)| {
            vec![Value::Uuid(id.0), Value::Bool(!is_new)]
        };
        Ok(Answer::rows(SENT, sent.iter().map(row).collect()))
    }

    pub(super) async fn show_queues(&self, like: Option<&str>) -> Result<Answer> {
        let engine = self.app.engine.by(&self.actor);
        let (mut after, mut rows) = (None::<String>, Vec::new());
        loop {
            let page = engine.list_queues(after.as_deref(), PAGE).await?;
            let mut queues = page.items;
            queues.retain(|queue| like.is_none_or(|pattern| is_like(&queue.name, pattern)));
            let depths = engine.queue_depths(&queues).await?;
            for (queue, depth) in queues.iter().zip(depths) {
                let count = |number: u64| Value::Int(number.cast_signed());
                rows.push(vec![
                    text(&queue.name),
                    text(status_of(queue)),
                    count(depth.ready),
                    count(depth.delayed),
                    count(depth.leased),
                    count(depth.blocked),
                    or_null(depth.oldest_ready, Value::Time),
                    or_null(queue.definition.description.as_ref(), text),
                ]);
            }
            after = page.next;
            if after.is_none() || rows.len() >= ROWS_MAX {
                break;
            }
        }
        let is_cut = after.is_some() || rows.len() > ROWS_MAX;
        rows.truncate(ROWS_MAX);
        let answer = Answer::rows(QUEUES, rows);
        Ok(match is_cut {
            true => answer.with_notice(format!("only the first {ROWS_MAX} queues are shown")),
            false => answer,
        })
    }
}
