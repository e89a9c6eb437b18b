//! Who carries alerts to people.

use std::future::Future;
use std::pin::Pin;

use domain::alert::Alert;

/// A way to tell somebody.
pub trait Courier: Send + Sync + 'static {
    /// The channel's name, under which deliveries are recorded. It must not change.
    fn channel(&self) -> &str;

    /// Delivers an alert, or says why it could not.
    fn deliver<'a>(
        &'a self,
        alert: &'a Alert,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;
}

/// Writes alerts to the process's log.
pub struct LogCourier;

impl Courier for LogCourier {
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
