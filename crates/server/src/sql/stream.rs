//! Rows on their way from the thread that computes them to the client that reads them. A client
//! that does not read makes the thread wait, and in the end gives it up.

use std::time::Duration;

use query::{Cancel, QueryError, Row, Sink, State};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{Result, SqlError};

/// Rows are sent when they are so many, or so many bytes.
const BATCH_ROWS: usize = 256;
const BATCH_BYTES: u64 = 64 << 10;

/// Batches that wait for their reader.
const BATCHES: usize = 2;

/// Some rows, or why there are no more.
pub(super) struct Batch {
    pub(super) rows: std::result::Result<Vec<Row>, QueryError>,
    /// Whether nothing comes after it.
    pub(super) is_last: bool,
}

/// Ends what is being answered when no client waits for it any more.
pub(super) struct EndedWith(pub(super) Cancel);

impl Drop for EndedWith {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The rows of an answer that are still to come. The answer ends when this is dropped.
pub struct RowStream {
    pub(super) batches: mpsc::Receiver<Batch>,
    pub(super) is_over: bool,
    /// How long its reader may take.
    pub(super) patience: Duration,
    /// The place of the question in the text of its statement, and its length.
    pub(super) place: (usize, usize),
    pub(super) _end: EndedWith,
}

impl std::fmt::Debug for RowStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RowStream")
    }
}

impl RowStream {
    /// The next rows; none at the end. A caller that stops waiting loses nothing.
    pub async fn next(&mut self) -> Result<Option<Vec<Row>>> {
        if self.is_over {
            return Ok(None);
        }
        let Some(Batch { rows, is_last }) = self.batches.recv().await else {
            self.is_over = true;
            // The thread found no room for the reason either.
            return Err(unread(self.patience).into());
        };
        self.is_over = is_last || rows.is_err();
        rows.map(Some).map_err(|error| within(error.into(), self.place))
    }
}

fn unread(patience: Duration) -> QueryError {
    let text = format!("the client read no rows for {patience:?}");
    let hint = "Read faster, or raise sql.read_timeout.".to_owned();
    QueryError::new(State::Cancelled, text).hint(hint)
}

/// A mistake in a question, with its place in the whole text.
pub(super) fn within(error: SqlError, (at, length): (usize, usize)) -> SqlError {
    let inside = error.at.filter(|place| *place <= length);
    SqlError { at: inside.map(|place| place + at), ..error }
}

/// Where the thread puts rows.
pub(super) struct Batches {
    send: mpsc::Sender<Batch>,
    rows: Vec<Row>,
    bytes: u64,
    left: usize,
    max: usize,
    patience: Duration,
    runtime: Handle,
}

impl Batches {
    /// For no more than so many rows, and a reader that may take this long.
    pub(super) fn new(max: usize, patience: Duration) -> (Self, mpsc::Receiver<Batch>) {
        let (send, receive) = mpsc::channel(BATCHES);
        let runtime = Handle::current();
        let rows = Vec::new();
        (Batches { send, rows, bytes: 0, left: max, max, patience, runtime }, receive)
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    fn add(&mut self, row: Row) -> std::result::Result<(), QueryError> {
        self.left = self.left.checked_sub(1).ok_or(QueryError::too_many_rows(self.max))?;
        self.bytes += row.iter().map(query::Value::size).sum::<u64>();
        self.rows.push(row);
        Ok(())
    }

    /// Sends what there is, and waits for room as long as the reader may take.
    fn flush(&mut self) -> std::result::Result<(), QueryError> {
        let rows = Ok(std::mem::take(&mut self.rows));
        self.bytes = 0;
        let batch = Batch { rows, is_last: false };
        // A timer is made inside of its runtime.
        let sent = async { timeout(self.patience, self.send.send(batch)).await };
        match self.runtime.block_on(sent) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(QueryError::new(State::Cancelled, "statement cancelled")),
            Err(_) => Err(unread(self.patience)),
        }
    }

    /// Sends the end, and calls `done` just before: when the reader sees the end, the statement
    /// counts no more.
    pub(super) fn finish(self, outcome: std::result::Result<(), QueryError>, done: impl FnOnce()) {
        let Batches { send, rows, patience, runtime, .. } = self;
        let room = runtime.block_on(async { timeout(patience, send.reserve()).await });
        done();
        if let Ok(Ok(room)) = room {
            room.send(Batch { rows: outcome.map(|()| rows), is_last: true });
        }
    }
}

impl Sink for Batches {
    fn try_put(&mut self, row: Row) -> std::result::Result<Option<Row>, QueryError> {
        if self.is_full() {
            let rows = std::mem::take(&mut self.rows);
            match self.send.try_send(Batch { rows: Ok(rows), is_last: false }) {
                Ok(()) => self.bytes = 0,
                Err(mpsc::error::TrySendError::Full(Batch { rows, .. })) => {
                    self.rows = rows.unwrap_or_default();
                    return Ok(Some(row));
                }
                Err(mpsc::error::TrySendError::Closed(_)) => {
                    return Err(QueryError::new(State::Cancelled, "statement cancelled"));
                }
            }
        }
        self.add(row)?;
        Ok(None)
    }

    fn put(&mut self, row: Row) -> std::result::Result<(), QueryError> {
        self.flush()?;
        self.add(row)
    }
}
