//! Queries about messages that clients ask and no worker waits for.

use std::future::Future;

use domain::decide::explain::MessageState;
use domain::id::{JobId, RunId};
use jiff::Timestamp;

use crate::messages::state;
use crate::records::{Records, Row, Sql, Statement, params};
use crate::{Result, Store};

/// Maximum number of listed workspaces of a queue.
const WORKSPACES_MAX: i64 = 10_000;

/// A store that answers queries about messages.
pub trait MessageQueries: Store {
    /// Where a message that has not ended stands; none if it has ended, or is not known.
    fn message_place(
        &self,
        message: RunId,
    ) -> impl Future<Output = Result<Option<MessagePlace>>> + Send;

    /// The workspaces of a queue that have messages, by name, and the one that was served last.
    fn queue_line(&self, queue: JobId) -> impl Future<Output = Result<QueueLine>> + Send;

    /// The ids of the enabled queues or jobs of all tenants that have a name.
    fn ids_named(&self, name: &str) -> impl Future<Output = Result<Vec<JobId>>> + Send;
}

/// Where a message stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessagePlace {
    /// Its queue.
    pub queue: JobId,
    /// Its workspace.
    pub workspace: String,
    /// Its state.
    pub state: MessageState,
    /// When it became or becomes ready, or when its lease ends.
    pub at: Timestamp,
    /// When its time limit ends, once its worker has begun.
    pub deadline: Option<Timestamp>,
    /// Last progress report of its worker, as JSON.
    pub progress: Option<String>,
    /// The messages before it: of its workspace that are ready, or with its ordering key.
    pub ahead: u64,
}

/// The workspaces of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueLine {
    /// The workspace that was served last.
    pub served: String,
    /// How many messages it got in that turn.
    pub served_messages: u32,
    /// Those that have messages, by name.
    pub workspaces: Vec<WorkspaceDepth>,
}

/// The messages of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceDepth {
    /// The workspace.
    pub workspace: String,
    /// Those that can be leased.
    pub ready: u64,
    /// Those that workers have.
    pub leased: u64,
    /// Those that wait for their time or behind their ordering key.
    pub waiting: u64,
    /// Since when the oldest ready one is due.
    pub oldest_ready: Option<Timestamp>,
}

impl<S: Records> MessageQueries for S {
    async fn message_place(&self, message: RunId) -> Result<Option<MessagePlace>> {
        let sql = "SELECT queue_id, workspace, state, at, deadline, progress, urgency, ordering_key
                   FROM messages WHERE run_id = $1";
        let rows = self.query(Statement::new(sql, params![message.0])).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (queue, workspace): (uuid::Uuid, String) = (row.get(0)?, row.get(1)?);
        let (number, at): (i64, Timestamp) = (row.get(2)?, row.get(3)?);
        let (urgency, key): (i64, Option<String>) = (row.get(6)?, row.get(7)?);
        let ahead = match (number as i16, key) {
            (state::READY, _) => {
                let sql = "SELECT count(*) FROM messages
                           WHERE queue_id = $1 AND workspace = $2 AND state = 0
                               AND (urgency < $3 OR (urgency = $3 AND at < $4))";
                Some(Statement::new(sql, params![queue, workspace.as_str(), urgency, at]))
            }
            (state::BLOCKED, Some(key)) => {
                let sql = Sql::Differs {
                    postgres: "SELECT count(*) FROM messages
                               WHERE queue_id = $1 AND ordering_key = $2 AND order_at <
                                   (SELECT order_at FROM messages WHERE run_id = $3)",
                    sqlite: "SELECT count(*) FROM messages
                             WHERE queue_id = $1 AND ordering_key = $2
                                 AND seq < (SELECT seq FROM messages WHERE run_id = $3)",
                };
                Some(Statement::new(sql, params![queue, key.as_str(), message.0]))
            }
            _ => None,
        };
        let ahead = match ahead {
            Some(statement) => self.query(statement).await?.first().map_or(Ok(0), |row| row.get(0)),
            None => Ok(0),
        };
        Ok(Some(MessagePlace {
            queue: JobId(queue),
            workspace,
            state: match number as i16 {
                state::READY => MessageState::Ready,
                state::DELAYED => MessageState::Delayed,
                state::LEASED => MessageState::Leased,
                _ => MessageState::Blocked,
            },
            at,
            deadline: row.get(4)?,
            progress: row.get(5)?,
            ahead: ahead?,
        }))
    }

    async fn ids_named(&self, name: &str) -> Result<Vec<JobId>> {
        let sql = "SELECT j.id FROM identities t JOIN jobs j ON j.tenant_id = t.id
                   WHERE t.kind = 1 AND j.name = $1 AND j.state = 'ENABLED'";
        let rows = self.query(Statement::new(sql, params![name])).await?;
        rows.iter().map(|row| Ok(JobId(row.get(0)?))).collect()
    }

    async fn queue_line(&self, queue: JobId) -> Result<QueueLine> {
        let served = "SELECT workspace, served FROM queue_cursors WHERE queue_id = $1";
        let counts = "SELECT workspace,
                          sum(CASE WHEN state = 0 THEN 1 ELSE 0 END),
                          sum(CASE WHEN state = 2 THEN 1 ELSE 0 END),
                          sum(CASE WHEN state IN (1, 3) THEN 1 ELSE 0 END),
                          min(CASE WHEN state = 0 THEN at END)
                      FROM messages WHERE queue_id = $1
                      GROUP BY workspace ORDER BY workspace LIMIT $2";
        let statements = vec![
            Statement::new(served, params![queue.0]),
            Statement::new(counts, params![queue.0, WORKSPACES_MAX]),
        ];
        let mut answers = self.query_each(statements).await?.into_iter();
        let (served, counts) =
            (answers.next().unwrap_or_default(), answers.next().unwrap_or_default());
        let workspace = |row: &Row| {
            Ok(WorkspaceDepth {
                workspace: row.get(0)?,
                ready: row.get(1)?,
                leased: row.get(2)?,
                waiting: row.get(3)?,
                oldest_ready: row.get(4)?,
            })
        };
        Ok(QueueLine {
            served: served.first().map_or(Ok(String::new()), |row| row.get(0))?,
            served_messages: served.first().map_or(Ok(0), |row| row.get(1))?,
            workspaces: counts.iter().map(workspace).collect::<Result<_>>()?,
        })
    }
}
