//! Alerts and their delivery, for the stores that keep them.
//!
//! A run that becomes a dead letter or is missed raises its alert in the transaction that records
//! its end: no crash can come between. Whoever delivers alerts asks for those that a channel has
//! not had yet and records what came of it.

use std::future::Future;

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, TenantId};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::{Page, Result, Store};

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

    /// What a channel has tried to deliver, the newest first try first, from before the given one.
    fn deliveries(
        &self,
        channel: &str,
        before: Option<DeliveryKey>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<DeliveryView, DeliveryKey>>> + Send;

    /// The last alert of each job that [failed](domain::alert::AlertKind::is_failure) and whose
    /// latest run has completed. The job's alerts count as settled from now on.
    fn recovered(&self) -> impl Future<Output = Result<Vec<Alert>>> + Send;

    /// Raises [`DeadLetters`](domain::alert::AlertKind::DeadLetters) for each tenant whose first
    /// dead letter has come since there was none, and again for each who still has some a day
    /// later. Answers how many alerts that made.
    fn raise_dead_letters(&self) -> impl Future<Output = Result<u64>> + Send;
}

/// A tenant whose dead letters wait is told again after this time.
pub(crate) const TELL_AGAIN_US: i64 = 24 * 3_600 * 1_000_000;

/// Dead letters are counted up to this number.
pub(crate) const DEAD_LETTERS_MAX: u32 = 1_000;

/// The alert of a tenant whose dead letters wait.
pub(crate) fn dead_letters(tenant: TenantId, count: u32, at: Timestamp) -> Alert {
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
    /// Whose alerts; everybody's when absent.
    pub tenant: Option<TenantId>,
    /// Which kinds of them; all when there are none.
    pub kinds: Vec<AlertKind>,
    /// Those that happened before are none of its business.
    pub since: Timestamp,
}

impl Channel {
    /// A channel that is told everything.
    pub fn of_all(name: impl Into<String>) -> Self {
        Channel { name: name.into(), tenant: None, kinds: Vec::new(), since: Timestamp::MIN }
    }
}

/// The place of a delivery in the list of its channel: its first try and its alert.
pub type DeliveryKey = (Timestamp, Uuid);

/// What a channel made of an alert.
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

/// A page of what was read with one more than asked for.
pub(crate) fn page_of(mut items: Vec<DeliveryView>, limit: u32) -> Page<DeliveryView, DeliveryKey> {
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = items.last().filter(|_| more).map(DeliveryView::key);
    Page { items, next }
}

/// What came of a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It arrived.
    Done,
    /// It did not.
    Failed {
        /// Why.
        error: String,
        /// When to try again; never when absent.
        again_in: Option<SignedDuration>,
    },
}
