//! Signals of the operating system, and notifications to the service manager.

use std::io;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The wishes that the process ends.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Listens from now on.
    pub fn new() -> io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for SIGTERM or SIGINT, and calls back at every SIGHUP.
    pub async fn asked_to_stop(&mut self, mut read_again: impl FnMut()) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => read_again(),
            }
        }
    }
}

/// Tells the service manager that requests are answered, and from now on that the process lives.
pub fn ready() {
    tell(&[NotifyState::Ready]);
    if let Some(every) = sd_notify::watchdog_enabled() {
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval((every / 2).max(Duration::from_millis(100)));
            loop {
                ticks.tick().await;
                tell(&[NotifyState::Watchdog]);
            }
        });
    }
}

/// Tells the service manager that the process is about to end.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Without a service manager this does nothing.
fn tell(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}
