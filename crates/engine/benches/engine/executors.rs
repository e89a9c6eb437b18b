//! Executors that do nothing, and remember when.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use domain::id::JobId;
use domain::run::AttemptResult;
use engine::{Executor, LogNotifier, Notifier, Started, Stop};
use jiff::Timestamp;

use crate::present::{milliseconds, now};

/// Executor that counts its runs.
#[derive(Clone, Default)]
pub struct Counter(Arc<AtomicU32>);

impl Counter {
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Executor for Counter {
    fn execute(&self, _: Started, _: Stop) -> impl Future<Output = AttemptResult> + Send {
        self.0.fetch_add(1, Ordering::Relaxed);
        async { AttemptResult::completed() }
    }
}

/// A start that was seen.
#[derive(Clone, Copy)]
pub struct Seen {
    pub job: JobId,
    /// Milliseconds after the time that the run stands for.
    pub late_ms: f64,
    pub at: Timestamp,
}

/// Notes how long after `scheduled_for` each run began, as the first thing it does.
#[derive(Clone, Default)]
pub struct Witness(Arc<Mutex<Vec<Seen>>>);

impl Witness {
    pub fn count(&self) -> u32 {
        self.seen().len() as u32
    }

    pub fn seen(&self) -> std::sync::MutexGuard<'_, Vec<Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Executor for Witness {
    fn execute(&self, run: Started, _: Stop) -> impl Future<Output = AttemptResult> + Send {
        let at = now();
        let run = &run.run.run;
        self.seen().push(Seen { job: run.job, late_ms: milliseconds(run.scheduled_for, at), at });
        async { AttemptResult::completed() }
    }
}

/// Notifiers of alerts: the log, as in every process.
pub fn notifiers() -> Vec<Box<dyn Notifier>> {
    vec![Box::new(LogNotifier)]
}
