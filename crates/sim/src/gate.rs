//! Stopping a step in the middle of it.
//!
//! A step of a node is a future that calls the store a few times. Around each call it can be
//! parked: the simulation gets control back, lets others run, and goes on with the step later,
//! or never, when the node is killed in between. Only one step is polled at a time, so one flag
//! is enough to distinguish a step that parked from a step that waits for the store's reply.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// Where steps are parked.
#[derive(Debug, Default)]
pub struct Gate {
    parked: AtomicBool,
}

impl Gate {
    /// Parks the step that calls this, until it is polled again.
    pub async fn park(&self) {
        let mut passed = false;
        poll_fn(|_| {
            if std::mem::replace(&mut passed, true) {
                return Poll::Ready(());
            }
            self.parked.store(true, Ordering::SeqCst);
            Poll::Pending
        })
        .await;
    }

    /// Polls a step until it ends, or until it parks: then none.
    pub async fn resume<T>(&self, mut step: Pin<&mut dyn Future<Output = T>>) -> Option<T> {
        poll_fn(|context| match step.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if self.parked.swap(false, Ordering::SeqCst) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}
