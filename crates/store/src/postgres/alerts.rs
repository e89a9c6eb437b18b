//! Alerts and what became of them.

use std::borrow::Cow;

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, RunId, TenantId};
use domain::run::{Outcome, Reason};
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::pipeline::{Pipeline, values};
use super::row::{at, span_us, text, unsigned, us};
use crate::alerts::{DEAD_LETTERS_MAX, TELL_AGAIN_US, dead_letters, page_of};
use crate::{Alerts, Channel, Delivery, DeliveryKey, DeliveryView, Page, Result, StoreError};

impl Alerts for PostgresStore {
    async fn raise(&self, alerts: &[Alert]) -> Result<()> {
        let ids: Vec<Uuid> = alerts.iter().map(Alert::id).collect();
        let times: Vec<i64> = alerts.iter().map(|alert| us(alert.at)).collect();
        let kinds: Vec<&str> = alerts.iter().map(|alert| alert.kind.name()).collect();
        let tenants: Vec<Uuid> = alerts.iter().map(|alert| alert.tenant.0).collect();
        let jobs: Vec<Uuid> = alerts.iter().map(|alert| alert.job.0).collect();
        let runs: Vec<Option<Uuid>> =
            alerts.iter().map(|alert| alert.run.map(|run| run.0)).collect();
        let texts: Vec<Cow<'_, str>> = alerts.iter().map(|alert| text(&alert.text)).collect();
        let settled: Vec<bool> = alerts.iter().map(|alert| !alert.kind.is_failure()).collect();
        let values = values![ids, times, kinds, tenants, jobs, runs, texts, settled];
        self.shared.query(sql!("alert_insert"), values).await?;
        Ok(())
    }

    async fn undelivered(&self, channel: &Channel, limit: u32) -> Result<Vec<(Alert, u32)>> {
        let kinds: Vec<&str> = channel.kinds.iter().map(|kind| kind.name()).collect();
        let kinds = Some(kinds).filter(|kinds| !kinds.is_empty());
        let (name, tenant) = (channel.name.as_str(), channel.tenant.map(|tenant| tenant.0));
        let values = values![name, i64::from(limit), us(channel.since), tenant, kinds];
        let rows = self.shared.query(sql!("alert_undelivered"), values).await?;
        rows.iter().map(|row| Ok((alert(row)?, unsigned(row.try_get(6)?)))).collect()
    }

    async fn record_delivery(&self, channel: &str, alert: Uuid, delivery: &Delivery) -> Result<()> {
        let (done, error, again): (bool, Option<Cow<'_, str>>, Option<SignedDuration>) =
            match delivery {
                Delivery::Done => (true, None, None),
                Delivery::Failed { error, again_in } => (false, Some(text(error)), *again_in),
            };
        let values = values![channel, alert, done, error, again.map(span_us)];
        self.shared.query(sql!("alert_delivery"), values).await?;
        Ok(())
    }

    async fn deliveries(
        &self,
        channel: &str,
        before: Option<DeliveryKey>,
        limit: u32,
    ) -> Result<Page<DeliveryView, DeliveryKey>> {
        let (before, id) = before.map_or((i64::MAX, Uuid::max()), |(at, id)| (us(at), id));
        let values = values![channel, before, id, i64::from(limit) + 1];
        let rows = self.shared.query(sql!("delivery_list"), values).await?;
        Ok(page_of(rows.iter().map(delivery).collect::<Result<_>>()?, limit))
    }

    async fn recovered(&self) -> Result<Vec<Alert>> {
        let rows = self.shared.query(sql!("alert_recovered"), values![]).await?;
        let mut alerts = rows.iter().map(alert).collect::<Result<Vec<Alert>>>()?;
        // Each job recovers once, from its last failure.
        alerts.sort_by_key(|alert| (alert.job, std::cmp::Reverse(alert.at)));
        alerts.dedup_by_key(|alert| alert.job);
        Ok(alerts)
    }

    async fn raise_dead_letters(&self) -> Result<u64> {
        let values = values![TELL_AGAIN_US, i64::from(DEAD_LETTERS_MAX)];
        let rows = self.shared.query(sql!("dead_news"), values).await?;
        let Some(row) = rows.first() else { return Ok(0) };
        let now: i64 = row.try_get(2)?;
        let mut cured: Vec<Uuid> = Vec::new();
        let (mut ids, mut tenants, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for row in &rows {
            let (tenant, letters): (Uuid, i64) = (row.try_get(0)?, row.try_get(1)?);
            if letters == 0 {
                cured.push(tenant);
                continue;
            }
            let letters = u32::try_from(letters).unwrap_or(DEAD_LETTERS_MAX);
            let alert = dead_letters(TenantId(tenant), letters, at(now));
            ids.push(alert.id());
            tenants.push(tenant);
            texts.push(alert.text);
        }
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("dead_cured"), values![cured]);
        pipeline.push(sql!("dead_tell"), values![tenants.clone(), now, TELL_AGAIN_US]);
        let kind = AlertKind::DeadLetters.name();
        let values = values![kind, JobId::NONE.0, ids, tenants, texts];
        let raised = pipeline.push(sql!("dead_alert"), values);
        Ok(pipeline.commit(&self.shared.pool).await?[raised].len() as u64)
    }
}

/// The columns of an alert, then alert_id, tries, begun_at, tried_at, next_try_at, delivered_at,
/// error
fn delivery(row: &Row) -> Result<DeliveryView> {
    Ok(DeliveryView {
        alert: alert(row)?,
        id: row.try_get(6)?,
        tries: unsigned(row.try_get(7)?),
        begun_at: at(row.try_get(8)?),
        tried_at: at(row.try_get(9)?),
        next_try_at: row.try_get::<_, Option<i64>>(10)?.map(at),
        delivered_at: row.try_get::<_, Option<i64>>(11)?.map(at),
        error: row.try_get(12)?,
    })
}

/// at, kind, tenant_id, job_id, run_id, text
fn alert(row: &Row) -> Result<Alert> {
    let kind: &str = row.try_get(1)?;
    let kind = AlertKind::from_name(kind)
        .ok_or_else(|| StoreError::Unreadable(format!("{kind} is not a kind of alert")))?;
    Ok(Alert {
        kind,
        tenant: TenantId(row.try_get(2)?),
        job: JobId(row.try_get(3)?),
        run: row.try_get::<_, Option<Uuid>>(4)?.map(RunId),
        text: row.try_get(5)?,
        at: at(row.try_get(0)?),
    })
}

/// Alerts that ends of runs raise, in the transaction that records the ends.
#[derive(Default)]
pub(super) struct EndAlerts {
    id: Vec<Uuid>,
    kind: Vec<&'static str>,
    run: Vec<Uuid>,
    text: Vec<String>,
}

impl EndAlerts {
    /// An end, which may be one that somebody should be told about.
    pub fn push(
        &mut self,
        run: RunId,
        outcome: Outcome,
        reason: Option<&Reason>,
        dead_letter: bool,
    ) {
        let kind = match outcome {
            _ if dead_letter => AlertKind::of_dead_letter(reason.map(|reason| reason.code.name())),
            Outcome::Missed => AlertKind::Missed,
            _ => return,
        };
        let words = reason.map_or_else(String::new, |reason| {
            format!("{outcome} {}: {}", reason.code.name(), reason.text)
        });
        // The identity of an alert about a run does not depend on the rest.
        let identity = Alert {
            kind,
            tenant: TenantId::DEFAULT,
            job: JobId(Uuid::nil()),
            run: Some(run),
            text: String::new(),
            at: Timestamp::UNIX_EPOCH,
        };
        self.id.push(identity.id());
        self.kind.push(kind.name());
        self.run.push(run.0);
        self.text.push(text(&words).into_owned());
    }

    pub fn into_step(self, pipeline: &mut Pipeline<'_>) {
        if !self.id.is_empty() {
            let values = values![self.id, self.kind, self.run, self.text];
            pipeline.push(sql!("finish_alert"), values);
        }
    }
}
