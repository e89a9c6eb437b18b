//! The node's clock, and how far it can be trusted.
//!
//! A node uses the store's time: the last time that the store returned, plus the time since then by
//! a monotonic clock. So nothing begins early or late because an administrator sets the machine's
//! clock, not even until the store replies again.
//!
//! Every reply of the store that carries its time is also compared with the machine's clock. A
//! small difference is only logged; a large one means that something is wrong with the machine, and
//! the node claims nothing until the difference is gone.

use std::sync::atomic::Ordering;

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, TenantId};
use jiff::{SignedDuration, Timestamp};

use super::Node;
use crate::Env;

/// A clock that is further away from the store's is worth an alarm.
const ALARM: SignedDuration = SignedDuration::from_secs(2);

/// How the node's clock stands to the store's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockHealth {
    /// Close enough.
    Good,
    /// The store's clock is this much ahead; an operator should look at it.
    Off(SignedDuration),
    /// The store's clock is so much ahead that the node plans and claims nothing.
    Refused(SignedDuration),
}

/// Readings of the clocks of this process at one moment.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    wall: Timestamp,
    steady: Timestamp,
}

impl Asked {
    fn now(parts: &Env) -> Self {
        Asked { wall: parts.now(), steady: (parts.steady)() }
    }
}

/// How far the machine's clock is ahead of the monotonic one: the only estimate before the first
/// reply of the store.
pub(super) fn ahead_at_first(parts: &Env) -> i64 {
    let Asked { wall, steady } = Asked::now(parts);
    ahead_us(wall, steady)
}

fn ahead_us(one: Timestamp, of: Timestamp) -> i64 {
    one.as_microsecond().saturating_sub(of.as_microsecond())
}

/// How far the store's clock is ahead of one that showed `asked` before it was read, and `answered`
/// afterwards: as before, if that can be. None if the clock ran backwards.
fn agree(before: i64, store_now: Timestamp, asked: Timestamp, answered: Timestamp) -> Option<i64> {
    let (least, most) = (ahead_us(store_now, answered), ahead_us(store_now, asked));
    (least <= most).then(|| before.clamp(least, most))
}

impl Node {
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
        let steady = (self.parts.steady)();
        let ahead = SignedDuration::from_micros(self.ahead_us.load(Ordering::Relaxed));
        steady.saturating_add(ahead).unwrap_or(steady)
    }

    /// How far the store's clock is ahead of this machine's.
    pub fn offset(&self) -> SignedDuration {
        SignedDuration::from_micros(self.offset_us.load(Ordering::Relaxed))
    }

    /// Reads the clocks before a call to the store.
    pub(super) fn ask(&self) -> Asked {
        Asked::now(&self.parts)
    }

    /// Reads the store's clock, and nothing else: no other call is answered as fast, so none is as
    /// exact.
    pub async fn hear_clock(&self) -> store::Result<()> {
        let asked = self.ask();
        let now = self.store.now().await?;
        self.observe_store_clock(asked, now);
        Ok(())
    }

    /// The store's clock showed `store_now` at some moment since the call. The estimate moves only
    /// as far as it must to agree with that.
    pub(super) fn observe_store_clock(&self, asked: Asked, store_now: Timestamp) {
        let answered = Asked::now(&self.parts);
        let ahead = self.ahead_us.load(Ordering::Relaxed);
        if let Some(ahead) = agree(ahead, store_now, asked.steady, answered.steady) {
            self.ahead_us.store(ahead, Ordering::Relaxed);
        }
        let before = self.offset_us.load(Ordering::Relaxed);
        let Some(after) = agree(before, store_now, asked.wall, answered.wall) else {
            // The clock was set meanwhile.
            return;
        };
        self.offset_us.store(after, Ordering::Relaxed);
        self.watch(before, after, store_now);
    }

    /// Logs when the machine's clock got worse or better.
    fn watch(&self, before: i64, after: i64, store_now: Timestamp) {
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
                self.state().pending_alerts.push(alert);
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
