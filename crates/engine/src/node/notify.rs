//! The notifier: raises and delivers alerts.

use domain::alert::{Alert, AlertKind};
use jiff::SignedDuration;
use store::Delivery;

use super::Node;
use crate::notifier::Notifier;

/// When a failed delivery is tried again, by the number of tries; then it is given up.
const AGAIN_AFTER_SECONDS: [i64; 7] = [5, 60, 300, 1_800, 7_200, 18_000, 36_000];

/// Alerts that one step delivers at most to a channel.
const DELIVERIES_MAX: u32 = 100;

impl Node {
    /// Raises the alerts that the store has pending, and those that were noticed here.
    pub async fn raise_news(&self) -> store::Result<()> {
        let now = self.now();
        self.store.raise_dead_letters().await?;
        let recovered = self.store.recovered().await?.into_iter().map(|failure| Alert {
            kind: AlertKind::Recovered,
            run: None,
            text: format!("completed again after {}", failure.text),
            at: now,
            ..failure
        });
        self.state().pending_alerts.extend(recovered);
        self.raise_pending_alerts().await
    }

    /// Raises the pending alerts of this node. Those that the store does not accept are raised
    /// later.
    pub async fn raise_pending_alerts(&self) -> store::Result<()> {
        self.watch_slots();
        let noticed: Vec<Alert> = std::mem::take(&mut self.state().pending_alerts);
        if noticed.is_empty() {
            return Ok(());
        }
        let raised = self.store.raise(&noticed).await;
        if raised.is_err() {
            self.state().pending_alerts.extend(noticed);
        }
        raised
    }

    /// Delivers pending alerts of a channel. Returns the number of deliveries.
    pub async fn deliver(&self, notifier: &dyn Notifier) -> store::Result<usize> {
        let mut arrived = 0;
        for (alert, tries) in self.store.undelivered(&notifier.wants(), DELIVERIES_MAX).await? {
            let delivery = match notifier.deliver(&alert).await {
                Ok(()) => Delivery::Done,
                Err(error) => {
                    let again = AGAIN_AFTER_SECONDS.get(tries as usize);
                    Delivery::Failed {
                        error,
                        again_in: again.map(|seconds| SignedDuration::from_secs(*seconds)),
                    }
                }
            };
            self.store.record_delivery(notifier.channel(), alert.id(), &delivery).await?;
            if delivery != Delivery::Done {
                // A channel that does not answer now is not tried for each of the other alerts.
                break;
            }
            arrived += 1;
        }
        Ok(arrived)
    }
}
