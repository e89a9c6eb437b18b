//! Callers that wait for the same kind of answer share a call.
//!
//! While one call is under way, the requests that arrive gather; when it returns, they leave
//! together. There is no timer: a lone caller waits for nobody, and the busier it gets the
//! larger the batches are.

use std::future::Future;

use tokio::sync::{mpsc, oneshot};

/// The caller's side of a batch.
#[derive(Clone)]
pub(crate) struct Batcher<T, R> {
    queue: mpsc::Sender<(Vec<T>, oneshot::Sender<R>)>,
}

impl<T: Send + 'static, R: Send + 'static> Batcher<T, R> {
    /// Starts a task that hands gathered items to `call`, which answers for each request in turn.
    /// `sizes` tells how many items each request brought.
    pub(crate) fn start<F, Fut>(items_max: usize, call: F) -> Self
    where
        F: Fn(Vec<T>, Vec<usize>) -> Fut + Send + 'static,
        Fut: Future<Output = Vec<R>> + Send,
    {
        let (queue, mut waiting) = mpsc::channel::<(Vec<T>, oneshot::Sender<R>)>(4_096);
        tokio::spawn(async move {
            while let Some((mut items, reply)) = waiting.recv().await {
                let mut sizes = vec![items.len()];
                let mut replies = vec![reply];
                while items.len() < items_max {
                    let Ok((more, reply)) = waiting.try_recv() else { break };
                    sizes.push(more.len());
                    items.extend(more);
                    replies.push(reply);
                }
                for (reply, answer) in replies.into_iter().zip(call(items, sizes).await) {
                    // A caller that went away does not want to know.
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
