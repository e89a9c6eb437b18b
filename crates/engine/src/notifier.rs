//! Delivery of alerts.

use std::future::Future;
use std::pin::Pin;

use std::sync::Arc;

use domain::alert::Alert;
use store::Channel;

/// A way to deliver alerts.
pub trait Notifier: Send + Sync + 'static {
    /// The channel's name, under which deliveries are recorded. It must not change.
    fn channel(&self) -> &str;

    /// Filter of alerts; all by default.
    fn wants(&self) -> Channel {
        Channel::of_all(self.channel())
    }

    /// Delivers an alert, or returns the error.
    fn deliver<'a>(
        &'a self,
        alert: &'a Alert,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;
}

/// The present notifiers, once they are loaded.
pub type Present<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<Arc<dyn Notifier>>, String>> + Send + 'a>>;

/// Notifiers that come and go while the process runs.
pub trait Notifiers: Send + Sync + 'static {
    /// The present ones, or why they cannot be loaded.
    fn present(&self) -> Present<'_>;
}

/// Writes alerts to the process's log.
pub struct LogNotifier;

impl Notifier for LogNotifier {
    fn channel(&self) -> &str {
        "log"
    }

    fn deliver<'a>(
        &'a self,
        alert: &'a Alert,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        let run = alert.run.map(|run| run.to_string());
        tracing::warn!(kind = alert.kind.name(), job = %alert.job, run, text = alert.text, "alert");
        Box::pin(std::future::ready(Ok(())))
    }
}
