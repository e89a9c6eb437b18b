//! Callers that wait for the same kind of answer share a call.
//!
//! While one call is under way, the requests that arrive gather; when it returns, they leave
//! together. There is no timer: a lone caller does not wait, and the busier it gets the
//! larger the batches are. Where several callers were answered together, those that call again at
//! once are sent first: otherwise the fastest of them would leave alone, and the others wait for
//! its return.

use std::future::Future;

use tokio::sync::{mpsc, oneshot};

/// How often others are let go first before a call leaves with those that are there.
const TURNS: u32 = 8;

/// The caller's side of a batch.
#[derive(Clone)]
pub(crate) struct Batcher<T, R> {
    queue: mpsc::Sender<(Vec<T>, oneshot::Sender<R>)>,
}

impl<T: Send + 'static, R: Send + 'static> Batcher<T, R> {
    /// Starts a task that passes gathered items to `call`, which answers for each request in order.
    /// `sizes` has the number of items of each request.
    pub(crate) fn start<F, Fut>(items_max: usize, call: F) -> Self
    where
        F: Fn(Vec<T>, Vec<usize>) -> Fut + Send + 'static,
        Fut: Future<Output = Vec<R>> + Send,
    {
        let (queue, mut waiting) = mpsc::channel::<(Vec<T>, oneshot::Sender<R>)>(4_096);
        tokio::spawn(async move {
            let mut answered = 0;
            while let Some((mut items, reply)) = waiting.recv().await {
                let mut sizes = vec![items.len()];
                let mut replies = vec![reply];
                let mut turns = if answered > 1 { TURNS } else { 0 };
                while items.len() < items_max {
                    let Ok((more, reply)) = waiting.try_recv() else {
                        if turns == 0 {
                            break;
                        }
                        turns -= 1;
                        tokio::task::yield_now().await;
                        continue;
                    };
                    sizes.push(more.len());
                    items.extend(more);
                    replies.push(reply);
                }
                answered = replies.len();
                for (reply, answer) in replies.into_iter().zip(call(items, sizes).await) {
                    // The caller may have gone away.
                    let _ = reply.send(answer);
                }
            }
        });
        Batcher { queue }
    }

    /// Sends items along and waits for the answer; none when the engine has stopped.
    pub(crate) async fn send(&self, items: Vec<T>) -> Option<R> {
        let (reply, answer) = oneshot::channel();
        self.queue.send((items, reply)).await.ok()?;
        answer.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;

    use super::*;

    /// Each is answered for itself, by a call that they share.
    #[tokio::test]
    async fn callers_at_the_same_time_share_a_call() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let batcher = Batcher::start(1_000, move |items: Vec<u32>, sizes: Vec<usize>| {
            counted.fetch_add(1, Ordering::Relaxed);
            assert_eq!(items.len(), sizes.len());
            async move { items }
        });
        let mut callers = JoinSet::new();
        for caller in 0..64 {
            let batcher = batcher.clone();
            callers.spawn(async move {
                for _ in 0..10 {
                    assert_eq!(batcher.send(vec![caller]).await, Some(caller));
                }
            });
        }
        while let Some(done) = callers.join_next().await {
            done.unwrap();
        }
        let calls = calls.load(Ordering::Relaxed);
        assert!((10..=12).contains(&calls), "{calls} calls for ten rounds");
    }
}
