//! Alerts and their delivery.
//!
//! A run that becomes a dead letter or is missed raises its alert in the transaction that records
//! its end: no crash can come between. The notifier reads the alerts that a channel has not
//! delivered yet and records each attempt.

use std::collections::HashMap;
use std::future::Future;

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, RunId, TenantId};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::records::{Records, Row, Sql, Statement, Transaction, list_of, page, params};
use crate::{DeadLetters, Page, Result, Store, StoreError};

/// A store that keeps alerts.
pub trait Alerts: Store {
    /// Records alerts; one whose identity is known is not recorded again.
    fn raise(&self, alerts: &[Alert]) -> impl Future<Output = Result<()>> + Send;

    /// The alerts of the last day that this channel should try to deliver now, oldest first, with
    /// the number of tries so far.
    fn undelivered(
        &self,
        channel: &Channel,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<(Alert, u32)>>> + Send;

    /// Records a try to deliver an alert.
    fn record_delivery(
        &self,
        channel: &str,
        alert: Uuid,
        delivery: &Delivery,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Deliveries of a channel by their first attempt, newest first, before the given one.
    fn deliveries(
        &self,
        channel: &str,
        before: Option<DeliveryKey>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<DeliveryView, DeliveryKey>>> + Send;

    /// The last alert of each job that [failed](domain::alert::AlertKind::is_failure) and whose
    /// latest run has completed. The job's alerts count as settled from now on.
    fn recovered(&self) -> impl Future<Output = Result<Vec<Alert>>> + Send;

    /// Raises [`DeadLetters`](domain::alert::AlertKind::DeadLetters) for each tenant that got its
    /// first dead letter since it had none, and again for each that still has some a day later.
    /// Returns the number of alerts.
    fn raise_dead_letters(&self) -> impl Future<Output = Result<u64>> + Send;
}

/// Alerts that are older than this are not delivered.
const NEWS_US: i64 = 24 * 3_600 * 1_000_000;

/// The alert about waiting dead letters of a tenant is repeated after this time.
const TELL_AGAIN_US: i64 = 24 * 3_600 * 1_000_000;

/// Dead letters are counted up to this number.
const DEAD_LETTERS_MAX: u32 = 1_000;

/// The alert of a tenant whose dead letters wait.
fn dead_letters(tenant: TenantId, count: u32, at: Timestamp) -> Alert {
    let text = match count {
        1 => "1 run waits among the dead letters".to_owned(),
        DEAD_LETTERS_MAX.. => {
            format!("{DEAD_LETTERS_MAX} runs or more wait among the dead letters")
        }
        count => format!("{count} runs wait among the dead letters"),
    };
    Alert { kind: AlertKind::DeadLetters, tenant, job: JobId::NONE, run: None, text, at }
}

/// Where alerts are carried to, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its name, under which deliveries are recorded. It must not change.
    pub name: String,
    /// The tenant of the alerts; all tenants when absent.
    pub tenant: Option<TenantId>,
    /// Which kinds of them; all when there are none.
    pub kinds: Vec<AlertKind>,
    /// Those that happened before are none of its business.
    pub since: Timestamp,
}

impl Channel {
    /// A channel that gets all alerts.
    pub fn of_all(name: impl Into<String>) -> Self {
        Channel { name: name.into(), tenant: None, kinds: Vec::new(), since: Timestamp::MIN }
    }
}

/// The place of a delivery in the list of its channel: its first try and its alert.
pub type DeliveryKey = (Timestamp, Uuid);

/// Delivery state of an alert on one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryView {
    /// The alert.
    pub alert: Alert,
    /// Its identity.
    pub id: Uuid,
    /// How often it was tried.
    pub tries: u32,
    /// When it was first tried.
    pub begun_at: Timestamp,
    /// When it was last tried.
    pub tried_at: Timestamp,
    /// When it will be tried again; never when absent.
    pub next_try_at: Option<Timestamp>,
    /// When it arrived.
    pub delivered_at: Option<Timestamp>,
    /// Why the last try failed.
    pub error: Option<String>,
}

impl DeliveryView {
    /// Its place in the list.
    pub fn key(&self) -> DeliveryKey {
        (self.begun_at, self.id)
    }
}

/// Result of a delivery attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It arrived.
    Done,
    /// It did not.
    Failed {
        /// Cause of the failure.
        error: String,
        /// When to try again; never when absent.
        again_in: Option<SignedDuration>,
    },
}

impl<S: Records> Alerts for S {
    async fn raise(&self, alerts: &[Alert]) -> Result<()> {
        let statements: Vec<_> = alerts.iter().map(alert_row).collect();
        self.commit(Transaction::from(statements)).await.map(drop)
    }

    async fn undelivered(&self, channel: &Channel, limit: u32) -> Result<Vec<(Alert, u32)>> {
        let sql = "SELECT a.at, a.kind, a.tenant_id, a.job_id, a.run_id, a.text,
                       coalesce(d.tries, 0)
                   FROM alerts AS a
                   LEFT JOIN deliveries AS d ON d.channel = $1 AND d.alert_id = a.id
                   WHERE a.at >= CASE WHEN $2 > {now} - $3 THEN $2 ELSE {now} - $3 END
                       AND (d.alert_id IS NULL OR d.next_try_at <= {now})
                       AND ($4 IS NULL OR a.tenant_id = $4)
                       AND ($5 IS NULL OR replace($5, ',' || a.kind || ',', '') <> $5)
                   ORDER BY a.at LIMIT $6";
        let Channel { name, tenant, kinds, since } = channel;
        let kinds = list_of(kinds.iter().map(|kind| kind.name()));
        let tenant = tenant.map(|tenant| tenant.0);
        let statement = Statement::new(sql, params![name, *since, NEWS_US, tenant, kinds, limit]);
        let rows = self.query(statement).await?;
        rows.iter().map(|row| Ok((alert(row)?, row.get(6)?))).collect()
    }

    async fn record_delivery(&self, channel: &str, alert: Uuid, delivery: &Delivery) -> Result<()> {
        let sql = "INSERT INTO deliveries
                       (channel, alert_id, tries, next_try_at, delivered_at, error, begun_at, tried_at)
                   VALUES ($1, $2, 1, {now} + $5, CASE WHEN $3 THEN {now} END, $4, {now}, {now})
                   ON CONFLICT (channel, alert_id) DO UPDATE SET
                       tries = deliveries.tries + 1, next_try_at = excluded.next_try_at,
                       delivered_at = excluded.delivered_at, error = excluded.error,
                       tried_at = excluded.tried_at";
        let (is_done, error, again_in) = match delivery {
            Delivery::Done => (true, None, None),
            Delivery::Failed { error, again_in } => (false, Some(error.as_str()), *again_in),
        };
        let params = params![channel, alert, is_done, error, again_in];
        self.execute(Statement::new(sql, params)).await.map(drop)
    }

    async fn deliveries(
        &self,
        channel: &str,
        before: Option<DeliveryKey>,
        limit: u32,
    ) -> Result<Page<DeliveryView, DeliveryKey>> {
        let sql = "SELECT a.at, a.kind, a.tenant_id, a.job_id, a.run_id, a.text, d.alert_id,
                       d.tries, d.begun_at, d.tried_at, d.next_try_at, d.delivered_at, d.error
                   FROM deliveries AS d JOIN alerts AS a ON a.id = d.alert_id
                   WHERE d.channel = $1 AND (d.begun_at, d.alert_id) < ($2, $3)
                   ORDER BY d.begun_at DESC, d.alert_id DESC LIMIT $4";
        let (at, id) = before.unwrap_or((Timestamp::MAX, Uuid::max()));
        let params = params![channel, at, id, i64::from(limit) + 1];
        let rows = self.query(Statement::new(sql, params)).await?;
        let items = rows.iter().map(delivery).collect::<Result<_>>()?;
        Ok(page(items, limit, DeliveryView::key))
    }

    async fn recovered(&self) -> Result<Vec<Alert>> {
        // One statement, so that no failure comes between the look and the write; the databases
        // keep ended runs in different tables.
        let sql = Sql::Differs {
            postgres: include_str!("../sql/postgres/alert_recovered.sql"),
            sqlite: include_str!("../sql/sqlite/alert_recovered.sql"),
        };
        let transaction = Transaction::from(vec![Statement::new(sql, params![])]);
        let answers = self.commit(transaction).await?.unwrap_or_default();
        let rows = answers.iter().flat_map(|answer| &answer.rows);
        let mut alerts = rows.map(alert).collect::<Result<Vec<Alert>>>()?;
        // Each job recovers once, from its last failure.
        alerts.sort_by_key(|alert| (alert.job, std::cmp::Reverse(alert.at)));
        alerts.dedup_by_key(|alert| alert.job);
        Ok(alerts)
    }

    async fn raise_dead_letters(&self) -> Result<u64> {
        let told = "SELECT tenant_id, told_at FROM dead_letter_notices";
        let waiting = Sql::Differs {
            postgres: include_str!("../sql/postgres/dead_tenants.sql"),
            sqlite: include_str!("../sql/sqlite/dead_tenants.sql"),
        };
        let read = vec![Statement::new(told, params![]), Statement::new(waiting, params![])];
        let [told, waiting] = <[Vec<Row>; 2]>::try_from(self.query_each(read).await?)
            .map_err(|_| StoreError::no_row())?;
        let mut told = told
            .iter()
            .map(|row| Ok((row.get(0)?, row.get::<i64>(1)?)))
            .collect::<Result<HashMap<Uuid, i64>>>()?;
        let mut raised = 0;
        for row in &waiting {
            let (tenant, now): (Uuid, i64) = (row.get(0)?, row.get(1)?);
            let told_at = told.remove(&tenant);
            if told_at.is_some_and(|told_at| told_at > now - TELL_AGAIN_US) {
                continue;
            }
            let count = self.count_dead_letters(TenantId(tenant), DEAD_LETTERS_MAX).await?;
            // Another node may be faster: then the notice is its own, and so is the alert.
            let tell = "INSERT INTO dead_letter_notices (tenant_id, told_at) VALUES ($1, $2)
                        ON CONFLICT (tenant_id) DO UPDATE SET told_at = excluded.told_at
                        WHERE dead_letter_notices.told_at <= excluded.told_at - $3
                        RETURNING tenant_id";
            let tell = Statement::new(tell, params![tenant, now, TELL_AGAIN_US]).expect_row();
            let alert = dead_letters(TenantId(tenant), count, row.get(1)?);
            let transaction = Transaction::from(vec![tell, alert_row(&alert)]);
            raised += u64::from(self.commit(transaction).await?.is_some());
        }
        // They have no dead letters any more: the next one is news.
        let forget = |(tenant, told_at): (Uuid, i64)| {
            let sql = "DELETE FROM dead_letter_notices WHERE tenant_id = $1 AND told_at = $2";
            Statement::new(sql, params![tenant, told_at])
        };
        let forget: Vec<_> = told.into_iter().map(forget).collect();
        if !forget.is_empty() {
            self.commit(Transaction::from(forget)).await?;
        }
        Ok(raised)
    }
}

/// The row of an alert, unless it is known.
pub(crate) fn alert_row(alert: &Alert) -> Statement {
    let (run, is_settled) = (alert.run.map(|run| run.0), !alert.kind.is_failure());
    let Alert { kind, tenant, job, text, at, .. } = alert;
    Statement::new(
        "INSERT INTO alerts (id, at, kind, tenant_id, job_id, run_id, text, settled)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING",
        params![alert.id(), *at, kind.name(), tenant.0, job.0, run, text, is_settled],
    )
}

/// The columns of an alert, then alert_id, tries, begun_at, tried_at, next_try_at, delivered_at,
/// error
fn delivery(row: &Row) -> Result<DeliveryView> {
    Ok(DeliveryView {
        alert: alert(row)?,
        id: row.get(6)?,
        tries: row.get(7)?,
        begun_at: row.get(8)?,
        tried_at: row.get(9)?,
        next_try_at: row.get(10)?,
        delivered_at: row.get(11)?,
        error: row.get(12)?,
    })
}

/// at, kind, tenant_id, job_id, run_id, text
fn alert(row: &Row) -> Result<Alert> {
    let kind: String = row.get(1)?;
    let kind = AlertKind::from_name(&kind)
        .ok_or_else(|| StoreError::Unreadable(format!("{kind} is not a kind of alert")))?;
    Ok(Alert {
        kind,
        tenant: TenantId(row.get(2)?),
        job: JobId(row.get(3)?),
        run: row.get::<Option<_>>(4)?.map(RunId),
        text: row.get(5)?,
        at: row.get(0)?,
    })
}
