//! Jobs in a PostgreSQL database: one connection for each attempt, never used again.
//!
//! ```text
//!   connect ─ BEGIN READ WRITE ─ facts, time limit ─ role ─ statements ─ which xid? ─ COMMIT
//!                                                                                      │
//!       connection lost here: ask anew what became of the xid ◀────────────────────────┘
//! ```
//!
//! Statements that no transaction may hold, and procedures, which may end transactions themselves,
//! are executed without the outer one: the same settings then belong to the session, which ends
//! with the attempt.

mod address;
mod commit;
mod failure;
mod job;
mod procedure;
mod session;
mod value;
mod work;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::action::Assignment;
use domain::run::{AttemptEnd, ErrorCode};
use jiff::Timestamp;
use tokio::time::{interval, timeout};

pub use address::PostgresDatabase;
use job::SqlWork;
pub(super) use job::permitted;
use session::AttemptSession;
use work::Work;

use super::record::StatementRecord;
use super::{SqlTask, Stopped, stop_timeout, stopped_message};
use crate::exec::Failure;
use crate::{Attempt, Secrets};

/// The progress of an attempt, for the message when it is stopped.
#[derive(Default)]
struct AttemptProgress {
    /// Something may have been committed.
    committing: AtomicBool,
    /// The job ends transactions itself.
    by_itself: AtomicBool,
}

impl AttemptProgress {
    /// The fate of work that the server stopped, for the message.
    fn fate(&self) -> &'static str {
        match self.by_itself.load(Ordering::SeqCst) {
            true => "what it had not committed itself was rolled back",
            false => "its transaction was rolled back",
        }
    }
}

/// Connects, and returns a description of the server.
pub(super) async fn hello(
    database: &PostgresDatabase,
    assignment: &Assignment,
    secrets: &dyn Secrets,
) -> Result<String, Failure> {
    let config = database.complete(assignment, secrets).await?;
    let connected = config.connect(database.tls()?).await;
    let (client, connection) = connected.map_err(|error| failure::connecting(&error))?;
    let connection = tokio::spawn(connection);
    let row = client.query_one("SELECT 'PostgreSQL ' || current_setting('server_version')", &[]);
    let answer = row.await.and_then(|row| row.try_get(0));
    drop(client);
    connection.abort();
    answer.map_err(|error| failure::connecting(&error))
}

pub(super) async fn run(
    database: &PostgresDatabase,
    attempt: &Attempt<'_>,
    task: SqlTask<'_>,
    mut record: StatementRecord,
    stopped: &Stopped,
) -> (StatementRecord, Result<(), Failure>) {
    let done = supervise(database, attempt, task, &mut record, stopped).await;
    (record, done)
}

/// Lets the work run until it ends or must.
async fn supervise(
    database: &PostgresDatabase,
    attempt: &Attempt<'_>,
    task: SqlTask<'_>,
    record: &mut StatementRecord,
    stopped: &Stopped,
) -> Result<(), Failure> {
    let job = SqlWork::read(attempt, task).await?;
    let mut stop = attempt.stop.clone();
    let session = tokio::select! {
        biased;
        session = AttemptSession::open(database, attempt) => session?,
        end = stop.requested() => {
            stopped.set(end);
            let fate = "it had not reached the database yet";
            return Err(Failure::other("STOPPED", stopped_message(end, fate)));
        }
    };
    let progress = AttemptProgress::default();
    let work = Work { database, attempt, session: &session, job, stopped, progress: &progress };
    let done = {
        let mut work = std::pin::pin!(work.run(record));
        tokio::select! {
            biased;
            done = &mut work => done,
            end = stop.requested() => {
                stopped.set(end);
                let settled = async {
                    // A request that comes between two statements has no effect.
                    let mut again = interval(Duration::from_millis(200));
                    loop {
                        tokio::select! {
                            biased;
                            done = &mut work => return done,
                            _ = again.tick() => session.cancel(),
                        }
                    }
                };
                match timeout(stop_timeout(end), settled).await {
                    Ok(done) => done.map_err(|failure| after_stop(end, failure, &progress)),
                    Err(_) if progress.committing.load(Ordering::SeqCst) => Err(Failure::other(
                        "COMMIT_UNKNOWN",
                        stopped_message(end, "the server did not say whether what was committed \
                            took effect"),
                    )),
                    Err(_) => Err(Failure::other(
                        "STOPPED",
                        stopped_message(end, "the server did not answer; it rolls the work back \
                            when it finds the connection closed"),
                    )),
                }
            }
        }
    };
    session.close().await;
    match done {
        // The server's own clock came first.
        Err(failure)
            if failure.code == ErrorCode::SqlState("57014".into())
                && stopped.end().is_none()
                && remaining(attempt.assignment).is_zero() =>
        {
            stopped.set(AttemptEnd::Timeout);
            Err(after_stop(AttemptEnd::Timeout, failure, &progress))
        }
        done => done,
    }
}

/// The words for work that failed after it was asked to stop.
fn after_stop(end: AttemptEnd, failure: Failure, progress: &AttemptProgress) -> Failure {
    let is_ours = match &failure.code {
        ErrorCode::SqlState(code) => code == "57014",
        ErrorCode::Other(name) => name == "STOPPED",
        _ => false,
    };
    let fate = if is_ours { progress.fate() } else { &failure.message };
    Failure { message: stopped_message(end, fate), code: failure.code }
}

/// A name in quotes.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// How long the attempt may still take.
#[expect(clippy::disallowed_methods, reason = "the server is told how much time is left")]
fn remaining(assignment: &Assignment) -> Duration {
    let left = assignment.deadline.duration_since(Timestamp::now());
    Duration::try_from(left).unwrap_or_default()
}
