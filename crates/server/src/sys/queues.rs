//! `sys.queues` and `sys.messages`.

use domain::job::Job;
use domain::run::RunState;
use engine::Page;
use query::{Pages, QueryError, Row, Value};

use super::Sys;
use super::pages::{Made, ROWS, all, maybe, text_of};
use crate::rest::shape::queue::{MessageView, status_of};

/// All queues that the actor sees.
fn seen(sys: &Sys) -> Result<Vec<Job>, QueryError> {
    let mut found = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let engine = sys.app.engine.by(&sys.actor);
        let Page { items, next } = sys.ask(engine.list_queues(after.as_deref(), ROWS))?;
        found.extend(items);
        match next {
            Some(next) => after = Some(next),
            None => return Ok(found),
        }
    }
}

fn count(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

pub(super) fn queues(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let jobs = seen(sys)?;
    let depths = sys.ask(sys.app.engine.by(&sys.actor).queue_depths(&jobs))?;
    let row = |(job, depth): (&Job, engine::QueueDepth)| -> Row {
        let settings = job.definition.queue.clone().unwrap_or_default();
        vec![
            Value::Uuid(job.id.0),
            Value::text(&job.name),
            text_of(job.definition.description.as_ref()),
            Value::text(status_of(job)),
            count(depth.ready),
            count(depth.delayed),
            count(depth.leased),
            count(depth.blocked),
            maybe(depth.oldest_ready, Value::Time),
            Value::Int(settings.lease.as_secs()),
            maybe(job.definition.concurrency, |it| Value::Int(i64::from(it))),
            maybe(settings.workspace_concurrency, |it| Value::Int(i64::from(it))),
            maybe(settings.rate_per_second, Value::Float),
            maybe(settings.max_depth, count),
            Value::Int(i64::from(job.definition.retry.max_attempts)),
            Value::Int(i64::from(job.version)),
            Value::Time(job.created_at),
            Value::Time(job.updated_at),
        ]
    };
    Ok(all(jobs.iter().zip(depths).map(row).collect()))
}

/// The messages that have not ended, one queue after the other. Ended ones are in `sys.job_runs`.
pub(super) fn messages(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let (sys, mut queues, mut before) = (sys.clone(), seen(sys)?, None);
    Ok(Box::new(Made(move || {
        let Some(queue) = queues.last() else { return Ok(None) };
        let engine = sys.app.engine.by(&sys.actor);
        let live = vec![RunState::Pending, RunState::Queued, RunState::Running];
        let page = sys.ask_for(engine.list_messages(queue, live, before, ROWS));
        let page = match page {
            Ok(page) => page.unwrap_or(Page { items: Vec::new(), next: None }),
            // The actor may send to it only.
            Err(error) if error.state == query::State::Refused => {
                Page { items: Vec::new(), next: None }
            }
            Err(error) => return Err(error),
        };
        let name = queue.name.clone();
        let row = |run: engine::RunView| -> Row {
            let (queue, node) = (run.job.0, run.started_at);
            let view = MessageView::of(run);
            vec![
                Value::Uuid(view.id),
                Value::Uuid(queue),
                Value::text(&name),
                Value::text(&view.workspace),
                Value::text(&view.status),
                Value::Int(i64::from(view.attempts)),
                Value::Time(view.sent_at),
                Value::Time(view.due_at),
                maybe(node.filter(|_| view.status == "RUNNING"), Value::Time),
                text_of(view.ordering_key.as_ref()),
                text_of(view.deduplication_key.as_ref()),
                Value::text(view.payload.to_string()),
            ]
        };
        let rows = page.items.into_iter().map(row).collect();
        before = page.next;
        if before.is_none() {
            queues.pop();
        }
        Ok(Some(rows))
    })))
}
