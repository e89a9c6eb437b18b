//! One attempt, from its start to the file with its result.

use std::sync::Arc;
use std::time::Duration;

use domain::id::NodeId;
use domain::run::{AttemptEnd, AttemptResult, Grant};
use jiff::SignedDuration;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Running, Worker, std_duration};
use crate::shape::{Ended, Item};
use crate::spool::Kept;

/// How much longer than its grace period a stopped attempt may take.
const AFTER_GRACE: Duration = Duration::from_secs(5);

/// Stops an attempt when it times out, and ends if an attempt that was stopped for any reason has
/// not ended within its grace period.
async fn overdue(
    stop: watch::Sender<Option<AttemptEnd>>,
    mut stopped: watch::Receiver<Option<AttemptEnd>>,
    timeout: Duration,
    grace: Duration,
) {
    if tokio::time::timeout(timeout, stopped.wait_for(Option::is_some)).await.is_err() {
        stop.send_replace(Some(AttemptEnd::Timeout));
    }
    tokio::time::sleep(grace + AFTER_GRACE).await;
}

impl Worker {
    /// Starts an attempt, unless it was started before.
    pub(super) fn begin(self: &Arc<Self>, node: NodeId, item: Item) {
        let (stop, stopped) = watch::channel(None);
        let output = {
            let mut board = self.board();
            let is_known =
                board.running.contains_key(&item.grant) || board.ended.contains_key(&item.grant);
            // An assignment that arrives after the lease was lost belongs to another node.
            if is_known || board.node != Some(node) {
                return;
            }
            let (attempt, started_at) = (item.assignment.attempt, item.started_at);
            let (token, slot) = (item.assignment.fence, item.assignment.action.slot_kind());
            let running = Running { attempt, token, slot, started_at, stop: stop.clone() };
            board.running.insert(item.grant, running);
            self.outputs.open(item.assignment.run, attempt)
        };
        self.news.notify_waiters();
        let worker = Arc::clone(self);
        tokio::spawn(async move {
            let began = Instant::now();
            let assignment = &item.assignment;
            let grace = std_duration(assignment.grace_period);
            let patience = overdue(stop, stopped.clone(), std_duration(item.timeout), grace);
            let wish = agent::Stop::new(stopped.clone());
            let mut result = tokio::select! {
                biased;
                result = worker.agent.perform(assignment, output, wish) => result,
                () = patience => AttemptResult {
                    end: AttemptEnd::Failed,
                    message: "it did not stop within its grace period".into(),
                    ..AttemptResult::completed()
                },
            };
            let wish = *stopped.borrow();
            if let Some(end) = wish.filter(|_| result.end != AttemptEnd::Completed) {
                result.end = end;
            }
            let took = SignedDuration::try_from(began.elapsed()).unwrap_or_default();
            let (attempt, started_at) = (assignment.attempt, item.started_at);
            let (grant, token) = (item.grant, assignment.fence);
            let ended = Ended { grant, token, attempt, started_at, took, result };
            worker.end(Kept { node, ended, slot: assignment.action.slot_kind() }).await;
        });
    }

    /// Ends an attempt: its result is on disk before it is reported.
    async fn end(&self, kept: Kept) {
        let Ended { grant, attempt, result, .. } = &kept.ended;
        let (run, grant, attempt, end) = (grant.run, *grant, *attempt, result.end);
        let (said, took_ms) = (&result.message, kept.ended.took.as_millis() as i64);
        tracing::info!(%run, attempt, end = end.name(), took_ms, said, "an attempt ended");
        // An attempt that was stopped because the lease was lost is not reported.
        let is_worth_it = end != AttemptEnd::Lost;
        if is_worth_it {
            let (spool, copy) = (self.spool.clone(), kept.clone());
            let put = tokio::task::spawn_blocking(move || spool.put(&copy)).await;
            if let Err(error) = put.map_err(std::io::Error::other).flatten() {
                tracing::error!(%run, attempt, %error, "cannot store a result");
            }
        }
        {
            let mut board = self.board();
            board.running.remove(&grant);
            if is_worth_it {
                board.ended.insert(grant, kept);
            }
        }
        if !is_worth_it {
            self.clear(grant).await;
        }
        self.freed.notify_one();
        self.news.notify_waiters();
    }

    /// Deletes a result that the server has recorded or refused.
    pub(super) async fn forget(&self, grant: Grant) {
        let spool = self.spool.clone();
        let removed = tokio::task::spawn_blocking(move || spool.remove(grant)).await;
        if let Err(error) = removed.map_err(std::io::Error::other).flatten() {
            tracing::warn!(run = %grant.run, %error, "cannot delete an acknowledged result");
        }
        self.board().ended.remove(&grant);
        self.clear(grant).await;
        self.news.notify_waiters();
    }

    /// Deletes the output of an attempt after it was sent or is no longer needed. A run that was
    /// assigned again keeps its own.
    async fn clear(&self, grant: Grant) {
        let is_here = {
            let board = self.board();
            board.running.keys().chain(board.ended.keys()).any(|it| it.run == grant.run)
        };
        if !is_here {
            let outputs = self.outputs.clone();
            let _ = tokio::task::spawn_blocking(move || outputs.delete(grant.run)).await;
        }
    }
}
