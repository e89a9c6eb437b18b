//! The node's clock, and how far it can be trusted.
//!
//! Every answer of the store that carries its time is compared with this process's clock. What
//! the node does follows the store's time, so a clock that is a little off only costs a line in
//! the log; one that is far off says that something is wrong with the machine, and the node takes
//! nothing more until it is right again.

use std::sync::atomic::Ordering;

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, TenantId};
use jiff::{SignedDuration, Timestamp};
use store::Store;

use super::Node;

/// A clock that is further away from the store's is worth an alarm.
const ALARM: SignedDuration = SignedDuration::from_secs(2);

/// How the node's clock stands to the store's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockHealth {
    /// Close enough.
    Good,
    /// The store's clock is this much ahead; somebody should look at it.
    Off(SignedDuration),
    /// The store's clock is so much ahead that the node plans and claims nothing.
    Refused(SignedDuration),
}

impl<S: Store> Node<S> {
    /// How the node's clock stands to the store's.
    pub fn clock(&self) -> ClockHealth {
        self.health(self.offset())
    }

    /// Whether the clock is so far off that nothing is planned or claimed here.
    pub(super) fn distrusts_clock(&self) -> bool {
        matches!(self.clock(), ClockHealth::Refused(_))
    }

    /// The store's present, as close as this process can know it.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.parts.now();
        now.saturating_add(self.offset()).unwrap_or(now)
    }

    /// How far the store's clock is ahead of this process's.
    pub(crate) fn offset(&self) -> SignedDuration {
        SignedDuration::from_micros(self.offset_us.load(Ordering::Relaxed))
    }

    /// The store's clock showed `store_now` at some moment since `asked_at` of this process's. The
    /// offset moves only as far as it must to agree with that.
    pub(super) fn heard(&self, asked_at: Timestamp, store_now: Timestamp) {
        let ahead_of =
            |clock: Timestamp| store_now.as_microsecond().saturating_sub(clock.as_microsecond());
        let (least, most) = (ahead_of(self.parts.now()), ahead_of(asked_at));
        if least > most {
            // Somebody set the clock meanwhile.
            return;
        }
        let before = self.offset_us.load(Ordering::Relaxed);
        let after = before.clamp(least, most);
        self.offset_us.store(after, Ordering::Relaxed);
        let [before, after] = [before, after].map(SignedDuration::from_micros);
        match (self.health(before), self.health(after)) {
            (ClockHealth::Good, ClockHealth::Good)
            | (ClockHealth::Off(_), ClockHealth::Off(_))
            | (ClockHealth::Refused(_), ClockHealth::Refused(_)) => {}
            (_, ClockHealth::Good) => tracing::info!("this machine's clock is the store's again"),
            (ClockHealth::Refused(_), ClockHealth::Off(_)) => {
                tracing::warn!("this machine's clock is close enough to plan and claim again");
            }
            (_, ClockHealth::Off(_) | ClockHealth::Refused(_)) => {
                let text = self.off_text(after);
                tracing::error!(text, "this machine's clock is not the store's");
                let alert = Alert {
                    kind: AlertKind::ClockOffset,
                    tenant: TenantId::DEFAULT,
                    job: JobId::NONE,
                    run: None,
                    text,
                    at: store_now,
                };
                self.state().noticed.push(alert);
            }
        }
    }

    fn health(&self, offset: SignedDuration) -> ClockHealth {
        match offset.abs() {
            by if self.settings.clock_offset_max.is_some_and(|most| by > most) => {
                ClockHealth::Refused(offset)
            }
            by if by > ALARM => ClockHealth::Off(offset),
            _ => ClockHealth::Good,
        }
    }

    fn off_text(&self, offset: SignedDuration) -> String {
        let direction = if offset.is_negative() { "ahead of" } else { "behind" };
        let by = SignedDuration::from_millis(offset.abs().as_millis() as i64);
        let consequence = match self.health(offset) {
            ClockHealth::Refused(_) => "; it plans and claims nothing until that is mended",
            _ => "",
        };
        let name = &self.settings.info.name;
        format!("the clock of node {name} is {by:#} {direction} the store's{consequence}")
    }
}
