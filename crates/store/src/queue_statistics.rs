//! Statistics of a queue: its workspaces, and the rates of messages.

use std::future::Future;

use domain::id::JobId;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::messages::QueueDepth;
use crate::records::{Records, Row, Sql, Statement, params};
use crate::{Result, Store};

/// Messages that are looked at for one answer. With more, workspaces are counted as far as that,
/// and rates are those of a shorter time.
const ROWS_MAX: u32 = 100_000;

/// The time over which rates are measured.
const RATE_WINDOW: SignedDuration = SignedDuration::from_secs(60);

/// The id of a message has its time of sending as the sender states it: that may be earlier than
/// the time of recording.
const ID_SLACK: SignedDuration = SignedDuration::from_secs(120);

/// A store that counts the messages of a queue.
pub trait QueueStatistics: Store {
    /// The workspaces of a queue with the most messages that have not ended, at most `limit`.
    fn workspace_depths(
        &self,
        queue: JobId,
        limit: u32,
    ) -> impl Future<Output = Result<WorkspaceDepths>> + Send;

    /// How many messages a second came and ended in the last minute.
    fn queue_rates(&self, queue: JobId) -> impl Future<Output = Result<QueueRates>> + Send;
}

/// The messages of a queue by workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceDepths {
    /// Most messages first.
    pub workspaces: Vec<(String, QueueDepth)>,
    /// Whether there are more messages than were counted.
    pub is_cut: bool,
}

/// Messages of a queue per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueRates {
    /// Messages sent.
    pub sent: f64,
    /// Ended, whatever their outcome.
    pub ended: f64,
}

impl<S: Records> QueueStatistics for S {
    async fn workspace_depths(&self, queue: JobId, limit: u32) -> Result<WorkspaceDepths> {
        let sql = "SELECT workspace, sum(CASE WHEN state = 0 THEN 1 ELSE 0 END),
                       sum(CASE WHEN state = 1 THEN 1 ELSE 0 END),
                       sum(CASE WHEN state = 2 THEN 1 ELSE 0 END),
                       sum(CASE WHEN state = 3 THEN 1 ELSE 0 END),
                       min(CASE WHEN state = 0 THEN at END), count(*)
                   FROM (SELECT workspace, state, at FROM messages WHERE queue_id = $1 LIMIT $2)
                       AS counted
                   GROUP BY workspace ORDER BY count(*) DESC, workspace";
        let statement = Statement::new(sql, params![queue.0, ROWS_MAX]);
        let rows = self.query(statement).await?;
        let mut counted: u64 = 0;
        let mut workspaces = Vec::new();
        for row in &rows {
            counted += row.get::<u64>(6)?;
            if workspaces.len() < limit as usize {
                workspaces.push((row.get(0)?, depth(row)?));
            }
        }
        Ok(WorkspaceDepths { workspaces, is_cut: counted >= u64::from(ROWS_MAX) })
    }

    async fn queue_rates(&self, queue: JobId) -> Result<QueueRates> {
        let now = self.now().await?;
        let since = now.saturating_sub(RATE_WINDOW).unwrap_or(now);
        let sent = Sql::Differs {
            postgres: include_str!("../sql/postgres/message_sent_lately.sql"),
            sqlite: include_str!("../sql/sqlite/message_sent_lately.sql"),
        };
        let ended = Sql::Differs {
            postgres: include_str!("../sql/postgres/message_ended_lately.sql"),
            sqlite: include_str!("../sql/sqlite/message_ended_lately.sql"),
        };
        let first_id = first_id_at(since.saturating_sub(ID_SLACK).unwrap_or(since));
        let answers = self
            .query_each(vec![
                Statement::new(sent, params![queue.0, first_id, since, ROWS_MAX]),
                Statement::new(ended, params![queue.0, since, ROWS_MAX]),
            ])
            .await?;
        let rate = |answer: Option<&Vec<Row>>| -> Result<f64> {
            let Some(row) = answer.and_then(|rows| rows.first()) else { return Ok(0.0) };
            let (count, looked_at): (u64, u64) = (row.get(0)?, row.get(1)?);
            let oldest: Option<Timestamp> = row.get(2)?;
            let window = match oldest {
                // There was more than was looked at: the rows cover a shorter time.
                Some(oldest) if looked_at >= u64::from(ROWS_MAX) => now.duration_since(oldest),
                _ => RATE_WINDOW,
            };
            Ok(count as f64 / window.as_secs_f64().max(1.0))
        };
        Ok(QueueRates { sent: rate(answers.first())?, ended: rate(answers.get(1))? })
    }
}

/// workspace, ready, delayed, leased, blocked, oldest ready, all
fn depth(row: &Row) -> Result<QueueDepth> {
    Ok(QueueDepth {
        ready: row.get(1)?,
        delayed: row.get(2)?,
        leased: row.get(3)?,
        blocked: row.get(4)?,
        oldest_ready: row.get(5)?,
    })
}

/// The smallest id of a run of this time: ids begin with the milliseconds.
fn first_id_at(at: Timestamp) -> Uuid {
    let ms = at.as_millisecond().max(0).cast_unsigned();
    uuid::Builder::from_unix_timestamp_millis(ms, &[0; 10]).into_uuid()
}
