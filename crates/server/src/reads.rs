//! How many requests read at the same time: all together, and those of a tenant. Others wait a
//! little, in the order in which they came. Administrators of the cluster do not wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderValue, header};
use domain::access::Actor;
use domain::id::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::problem::{Code, Problem, Result};
use crate::queries::is_administrator;

/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tenants with a queue of their own that are remembered before idle ones are forgotten.
const TENANTS_MAX: usize = 1024;

/// How many requests may read at the same time.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// All together.
    pub all: usize,
    /// Those of a tenant.
    pub per_tenant: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        ReadLimits { all: 32, per_tenant: 8 }
    }
}

/// The requests that read.
pub(crate) struct Reads {
    limits: ReadLimits,
    patience: Duration,
    all: Arc<Semaphore>,
    tenants: Mutex<HashMap<TenantId, Arc<Semaphore>>>,
}

/// A request that may read, until this is dropped.
pub(crate) struct Reading(#[expect(dead_code, reason = "held")] Option<[OwnedSemaphorePermit; 2]>);

fn places(number: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(number.clamp(1, Semaphore::MAX_PERMITS)))
}

impl Reads {
    pub(crate) fn new(limits: ReadLimits) -> Self {
        Reads { limits, patience: PATIENCE, all: places(limits.all), tenants: Mutex::default() }
    }

    fn of_tenant(&self, tenant: TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() >= TENANTS_MAX {
            tenants.retain(|_, places| Arc::strong_count(places) > 1);
        }
        Arc::clone(tenants.entry(tenant).or_insert_with(|| places(self.limits.per_tenant)))
    }

    /// Waits until a request of an actor may read.
    pub(crate) async fn enter(&self, actor: &Actor) -> Result<Reading> {
        if is_administrator(actor) {
            return Ok(Reading(None));
        }
        // A request that waits for others of its tenant keeps no place from other tenants.
        let own = self.of_tenant(actor.tenant);
        let entered = timeout(self.patience, async {
            Some([
                own.acquire_owned().await.ok()?,
                Arc::clone(&self.all).acquire_owned().await.ok()?,
            ])
        });
        match entered.await {
            Ok(places) => Ok(Reading(places)),
            Err(_) => {
                let ReadLimits { all, per_tenant } = self.limits;
                let text = format!(
                    "too many requests read at the same time \
                     (api.tenant_reads_max = {per_tenant}, api.reads_max = {all})"
                );
                Err(Problem::new(Code::RateLimited, text)
                    .with_header(header::RETRY_AFTER, HeaderValue::from(1)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::access::Privileges;
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn a_tenant_that_reads_much_waits_for_itself() {
        let limits = ReadLimits { all: 3, per_tenant: 2 };
        let reads = Reads { patience: Duration::from_millis(20), ..Reads::new(limits) };
        let user = |tenant: u128| Actor {
            tenant: TenantId(Uuid::from_u128(tenant)),
            privileges: Privileges::default(),
            ..Actor::admin()
        };
        let first = [reads.enter(&user(1)).await.unwrap(), reads.enter(&user(1)).await.unwrap()];
        let (same, another) = (user(1), user(2));
        let (waiting, other) = tokio::join!(reads.enter(&same), reads.enter(&another));
        assert_eq!(waiting.err().map(|problem| problem.code), Some(Code::RateLimited));
        let _other = other.unwrap();
        assert!(reads.enter(&user(3)).await.is_err(), "all places are taken");
        assert!(reads.enter(&Actor::admin()).await.is_ok());
        drop(first);
        assert!(reads.enter(&user(3)).await.is_ok());
    }
}
