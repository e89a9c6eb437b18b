//! Alerts and what became of them.

use std::collections::HashMap;

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, RunId, TenantId};
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, Row};
use uuid::Uuid;

use super::SqliteStore;
use super::row::{at, at_opt, us};
use super::writer::Tx;
use crate::alerts::{DEAD_LETTERS_MAX, TELL_AGAIN_US, dead_letters, page_of};
use crate::{Alerts, Channel, Delivery, DeliveryKey, DeliveryView, Page, Result, StoreError};

/// Alerts that are older than this are not news.
const NEWS: SignedDuration = SignedDuration::from_hours(24);

impl Alerts for SqliteStore {
    async fn raise(&self, alerts: &[Alert]) -> Result<()> {
        let alerts = alerts.to_vec();
        self.writer.write(move |tx| alerts.iter().try_for_each(|alert| insert(tx, alert))).await
    }

    async fn undelivered(&self, channel: &Channel, limit: u32) -> Result<Vec<(Alert, u32)>> {
        let now = self.clock.now();
        let since = now.saturating_sub(NEWS).unwrap_or(Timestamp::MIN).max(channel.since);
        let (name, tenant) = (channel.name.clone(), channel.tenant.map(|tenant| tenant.0));
        // Names of kinds need no escaping.
        let kinds: Vec<String> =
            channel.kinds.iter().map(|kind| format!("\"{}\"", kind.name())).collect();
        let kinds = (!kinds.is_empty()).then(|| format!("[{}]", kinds.join(",")));
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("alert_undelivered"))?;
            let mut rows = query.query((name, us(since), us(now), limit, tenant, kinds))?;
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
                record.execute((channel, alert, again, done, error, tx.now_us()))?;
                Ok(())
            })
            .await
    }

    async fn deliveries(
        &self,
        channel: &str,
        before: Option<DeliveryKey>,
        limit: u32,
    ) -> Result<Page<DeliveryView, DeliveryKey>> {
        let channel = channel.to_owned();
        let (before, id) = before.map_or((i64::MAX, Uuid::max()), |(at, id)| (us(at), id));
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("delivery_list"))?;
            let look = i64::from(limit) + 1;
            let rows = query.query_and_then((channel, before, id, look), delivery)?;
            Ok(page_of(rows.collect::<Result<_>>()?, limit))
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

    async fn raise_dead_letters(&self) -> Result<u64> {
        let now = us(self.clock.now());
        let news = self.read(move |connection| dead_letter_news(connection, now)).await?;
        if news.tell.is_empty() && news.cured.is_empty() {
            return Ok(0);
        }
        self.writer.write(tell_dead_letters).await
    }
}

/// Who is to be told about dead letters, and who has none any more.
struct News {
    tell: Vec<TenantId>,
    cured: Vec<TenantId>,
}

fn dead_letter_news(connection: &Connection, now: i64) -> Result<News> {
    let mut query = connection.prepare_cached(sql!("dead_told"))?;
    let told = query.query_map([], |row| Ok((TenantId(row.get(0)?), row.get::<_, i64>(1)?)))?;
    let mut told = told.collect::<rusqlite::Result<HashMap<TenantId, i64>>>()?;
    let mut query = connection.prepare_cached(sql!("dead_tenants"))?;
    let dead = query.query_map([], |row| Ok(TenantId(row.get(0)?)))?;
    let mut tell = dead.collect::<rusqlite::Result<Vec<TenantId>>>()?;
    tell.retain(|tenant| told.remove(tenant).is_none_or(|at| at <= now - TELL_AGAIN_US));
    Ok(News { tell, cured: told.into_keys().collect() })
}

fn tell_dead_letters(tx: &mut Tx<'_>) -> Result<u64> {
    let news = dead_letter_news(tx.connection, tx.now_us())?;
    for tenant in &news.cured {
        tx.connection.prepare_cached(sql!("dead_cured"))?.execute((tenant.0,))?;
    }
    for tenant in &news.tell {
        let mut count = tx.connection.prepare_cached(sql!("dead_count"))?;
        let count = count.query_row((tenant.0, DEAD_LETTERS_MAX), |row| row.get(0))?;
        insert(tx, &dead_letters(*tenant, count, tx.now))?;
        tx.connection.prepare_cached(sql!("dead_tell"))?.execute((tenant.0, tx.now_us()))?;
    }
    Ok(news.tell.len() as u64)
}

pub(super) fn insert(tx: &Tx<'_>, alert: &Alert) -> Result<()> {
    let settled = !alert.kind.is_failure();
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

/// The columns of an alert, then alert_id, tries, begun_at, tried_at, next_try_at, delivered_at,
/// error
fn delivery(row: &Row<'_>) -> Result<DeliveryView> {
    Ok(DeliveryView {
        alert: alert(row)?,
        id: row.get(6)?,
        tries: row.get(7)?,
        begun_at: at(row.get(8)?)?,
        tried_at: at(row.get(9)?)?,
        next_try_at: at_opt(row.get(10)?)?,
        delivered_at: at_opt(row.get(11)?)?,
        error: row.get(12)?,
    })
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
