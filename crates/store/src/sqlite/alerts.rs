//! Alerts and what became of them.

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, RunId, TenantId};
use jiff::{SignedDuration, Timestamp};
use rusqlite::Row;
use uuid::Uuid;

use super::SqliteStore;
use super::row::{at, us};
use super::writer::Tx;
use crate::{Alerts, Delivery, Result, StoreError};

/// Alerts that are older than this are not news.
const NEWS: SignedDuration = SignedDuration::from_hours(24);

impl Alerts for SqliteStore {
    async fn raise(&self, alerts: &[Alert]) -> Result<()> {
        let alerts = alerts.to_vec();
        self.writer.write(move |tx| alerts.iter().try_for_each(|alert| insert(tx, alert))).await
    }

    async fn undelivered(&self, channel: &str, limit: u32) -> Result<Vec<(Alert, u32)>> {
        let channel = channel.to_owned();
        let now = self.clock.now();
        let since = now.saturating_sub(NEWS).unwrap_or(Timestamp::MIN);
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("alert_undelivered"))?;
            let mut rows = query.query((channel, us(since), us(now), limit))?;
            let mut alerts = Vec::new();
            while let Some(row) = rows.next()? {
                alerts.push((alert(row)?, row.get(6)?));
            }
            Ok(alerts)
        })
        .await
    }

    async fn record_delivery(&self, channel: &str, alert: Uuid, delivery: &Delivery) -> Result<()> {
        let (channel, delivery) = (channel.to_owned(), delivery.clone());
        self.writer
            .write(move |tx| {
                let (again, done, error) = match &delivery {
                    Delivery::Done => (None, Some(tx.now_us()), None),
                    Delivery::Failed { error, again_in } => {
                        let again = again_in.map(|delay| {
                            us(tx.now.saturating_add(delay).unwrap_or(Timestamp::MAX))
                        });
                        (again, None, Some(error.as_str()))
                    }
                };
                let mut record = tx.connection.prepare_cached(sql!("alert_delivery"))?;
                record.execute((channel, alert, again, done, error))?;
                Ok(())
            })
            .await
    }

    async fn recovered(&self) -> Result<Vec<Alert>> {
        self.writer
            .write(|tx| {
                let mut update = tx.connection.prepare_cached(sql!("alert_recovered"))?;
                let mut rows = update.query([])?;
                let mut alerts = Vec::new();
                while let Some(row) = rows.next()? {
                    alerts.push(alert(row)?);
                }
                // Each job recovers once, from its last failure.
                alerts.sort_by_key(|alert| (alert.job, std::cmp::Reverse(alert.at)));
                alerts.dedup_by_key(|alert| alert.job);
                Ok(alerts)
            })
            .await
    }
}

pub(super) fn insert(tx: &Tx<'_>, alert: &Alert) -> Result<()> {
    let settled = alert.kind != AlertKind::MaxRetriesExceeded;
    tx.connection.prepare_cached(sql!("alert_insert"))?.execute((
        alert.id(),
        us(alert.at),
        alert.kind.name(),
        alert.tenant.0,
        alert.job.0,
        alert.run.map(|run| run.0),
        &alert.text,
        settled,
    ))?;
    Ok(())
}

/// at, kind, tenant_id, job_id, run_id, text
fn alert(row: &Row<'_>) -> Result<Alert> {
    let kind: String = row.get(1)?;
    let kind = AlertKind::from_name(&kind)
        .ok_or_else(|| StoreError::Unreadable(format!("{kind} is not a kind of alert")))?;
    Ok(Alert {
        kind,
        tenant: TenantId(row.get(2)?),
        job: JobId(row.get(3)?),
        run: row.get::<_, Option<Uuid>>(4)?.map(RunId),
        text: row.get(5)?,
        at: at(row.get(0)?)?,
    })
}
