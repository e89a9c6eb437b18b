//! Dispatch: what receives started runs, and the executor of this process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::action::Action;
use domain::run::{AttemptEnd, AttemptResult, ErrorCode};
use store::StoreError;
use tokio::sync::watch;

use super::driver::{Driver, std_duration};
use super::{Executor, Stop};
use crate::error::EngineError;
use crate::node::{Node, Started};
use crate::register::has_every_right;

/// How much longer than its grace period a stopped run may take: its executor stops the processes
/// that it started, and reports the result, by itself.
pub(super) const AFTER_GRACE: Duration = Duration::from_secs(5);

/// How soon the rights of a run's owner are read again when the store did not answer.
const RIGHTS_AGAIN: Duration = Duration::from_millis(200);

/// Destination of admitted runs.
pub(super) trait Dispatch: Send + Sync {
    /// Takes an admitted run. Does not block.
    fn take(self: Arc<Self>, driver: Driver, run: Started);
}

/// The executor of this process.
pub(super) struct LocalDispatch<E>(pub Arc<E>);

/// Requests a run to stop when its time is up, and ends when a stop was requested, for whatever
/// reason, and the run has not stopped within the grace period.
async fn overdue(
    stop: watch::Sender<Option<AttemptEnd>>,
    mut stopped: Stop,
    timeout: Duration,
    grace: Duration,
) {
    if tokio::time::timeout(timeout, stopped.requested()).await.is_err() {
        stop.send_replace(Some(AttemptEnd::Timeout));
    }
    tokio::time::sleep(grace + AFTER_GRACE).await;
}

impl<E: Executor> Dispatch for LocalDispatch<E> {
    fn take(self: Arc<Self>, driver: Driver, run: Started) {
        tokio::spawn(async move {
            if !driver.node.may_begin(&run) {
                driver.shared.prepared.notify_one();
                return;
            }
            let (grant, asks_rows) = (run.run.grant, run.asks_rows);
            let definition = &run.job.definition;
            let feeds_queue = matches!(definition.action, Action::Queue(_));
            let (timeout, grace) =
                (std_duration(definition.timeout), std_duration(definition.grace_period));
            let (stop, stopped) = watch::channel(None);
            driver.shared.stops().insert(grant.run, (grant.fence, stop.clone()));
            let watched = Stop(stopped.clone());
            // The timer is boxed and made late: a run that ends at once does not pay for it.
            let out_of_patience = async { Box::pin(overdue(stop, watched, timeout, grace)).await };
            let mut result = tokio::select! {
                biased;
                result = self.carry_out(&driver.node, run, Stop(stopped.clone())) => result,
                () = out_of_patience => AttemptResult {
                    end: AttemptEnd::Failed,
                    message: "it did not stop within its grace period".into(),
                    ..AttemptResult::completed()
                },
            };
            // A run that was asked to stop and did not complete ended because of the request.
            if let Some(end) = *stopped.borrow()
                && result.end != AttemptEnd::Completed
            {
                result.end = end;
            }
            driver.shared.forget(grant);
            if feeds_queue {
                driver.shared.lines.check();
            }
            if !asks_rows {
                driver.node.complete(grant, result);
            } else if let Err(error) = Box::pin(driver.node.split_by(grant, result)).await {
                let text = format!("its parts cannot be recorded: {error}");
                let failed = ErrorCode::Other("STORE_UNAVAILABLE".into());
                driver.node.complete(grant, AttemptResult::failed(failed, text));
            }
            if driver.node.take_released() {
                driver.shared.prepared.notify_one();
            }
            driver.shared.news.notify_one();
            if driver.shared.stopping.load(Ordering::Relaxed) {
                driver.shared.idle.notify_waiters();
            }
        });
    }
}

impl<E: Executor> LocalDispatch<E> {
    /// Does the work of a run, if it may still be done.
    async fn carry_out(&self, node: &Node, run: Started, mut stop: Stop) -> AttemptResult {
        // Most are admitted at once, and do not pay for the memory of the check.
        let refused = if needs_look(&run) {
            Box::pin(refusal(node, &run, stop.requested())).await
        } else {
            None
        };
        match refused {
            None => match &run.job.definition.action {
                // Boxed: its state would make the task of every run larger.
                Action::Queue(send) => Box::pin(node.send_for(&run, send, stop.requested())).await,
                _ => self.0.execute(run, stop).await,
            },
            Some(refused) => refused,
        }
    }
}

/// Whether there can be a reason not to carry a run out.
fn needs_look(run: &Started) -> bool {
    !run.run.run.shard.is_empty() || !has_every_right(&run.job)
}

/// Why a run may not be executed; none when it may. A store that does not reply is no failure of
/// the run: it waits until the store is back, or the run is cancelled.
pub(super) async fn refusal(
    node: &Node,
    run: &Started,
    enough: impl Future<Output = AttemptEnd>,
) -> Option<AttemptResult> {
    if !run.run.run.shard.is_empty() && run.shard.is_none() {
        let text = format!("shard {} is not there any more", run.run.run.shard);
        return Some(AttemptResult::failed(ErrorCode::Other("NO_SHARD".into()), text));
    }
    let mut enough = std::pin::pin!(enough);
    loop {
        let error = match node.obstacle(&run.job).await {
            Ok(None) => return None,
            Ok(Some(text)) => {
                let code = ErrorCode::Refused("NOT_ALLOWED".into());
                return Some(AttemptResult::failed(code, text));
            }
            Err(error) => error,
        };
        let is_away = matches!(error, EngineError::Store(StoreError::Unavailable(_)));
        if !is_away || tokio::time::timeout(RIGHTS_AGAIN, enough.as_mut()).await.is_ok() {
            let text = format!("the rights of the job's owner cannot be looked up: {error}");
            let code = ErrorCode::Other("STORE_UNAVAILABLE".into());
            return Some(AttemptResult::failed(code, text));
        }
    }
}
